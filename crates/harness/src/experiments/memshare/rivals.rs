//! Other caches that an application can be given its part in: exact simulators.

use super::baseline::PER_ITEM;
use lab::reference::{Cliffhanger, Reference, Slab};
use units::Bytes;

/// Pages of a part at least, if they can be so small: with few pages for 40 classes memcached would be no peer (guess).
const PAGES_MIN: u64 = 64;
/// Smallest page: items beyond half of one take several chunks (guess).
const PAGE_MIN: Bytes = Bytes::kib(4);
/// A page of memcached.
const PAGE: Bytes = Bytes::mib(1);

/// memcached, modern: slab classes with segmented LRUs and the automover.
pub(super) fn memcached(part: Bytes) -> Box<dyn Reference> {
    let page = Bytes(1 << part.scale(1, PAGES_MIN).0.max(1).ilog2());
    Box::new(Slab::new(part, page.max(PAGE_MIN).min(PAGE), true))
}

/// Cliffhanger: an item is charged as the store charges it, and no chunk is wasted.
pub(super) fn cliffhanger(part: Bytes, seed: u64) -> Box<dyn Reference> {
    Box::new(Cliffhanger::new(part, PER_ITEM, seed))
}

/// Cliffhanger's hill climbing alone.
pub(super) fn cliffhanger_hill(part: Bytes, seed: u64) -> Box<dyn Reference> {
    Box::new(Cliffhanger::hill(part, PER_ITEM, seed))
}
