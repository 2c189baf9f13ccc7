//! Huge pages of the index: made as soon as all of their buckets are in use, so that none of their memory is taken ahead.
//!
//! Shape:   buckets in use -> whole huge pages of them, made one at a time by the background cleaner, without one by a writer who makes room
//! Cost:    to make one copies it, and who touches it meanwhile waits; a small page costs each look-up that meets one whose address
//!          is not in the TLB (`docs/decisions/2026-11-29-huge-pages-at-once.md`)
//! Failure: what the system does not make at once it may make in its own time; of a page that is made while its last buckets go, what they
//!          took is held until the index grows and shrinks again

use super::{BUCKET_BYTES, BUCKET_SLOTS, Index};
use crate::sync::{AtomicU32, Ordering};

/// Buckets of a huge page.
const BUCKETS: u32 = 1 << 15;
const _: () = assert!(BUCKETS as u64 * BUCKET_BYTES == media::HUGE_PAGE as u64);

/// How many huge pages were asked for, from the first bucket on.
#[derive(Debug, Default)]
pub(super) struct HugePages(AtomicU32);

impl HugePages {
    /// Notes that buckets from this one on are gone.
    pub(super) fn end_at(&self, buckets: u32) {
        self.0.fetch_min(buckets / BUCKETS, Ordering::Relaxed);
    }
}

impl Index {
    /// Whether `make_huge_page` has something to do. A hint.
    pub(crate) fn wants_huge_page(&self) -> bool {
        self.huge_pages.0.load(Ordering::Relaxed) < self.buckets.load(Ordering::Relaxed) / BUCKETS
    }

    /// Makes a huge page of buckets that are all in use, if there is one to make. Returns whether there was.
    pub(crate) fn make_huge_page(&self) -> bool {
        let made = self.huge_pages.0.load(Ordering::Relaxed);
        // Noted before it is made: an index that shrinks meanwhile takes it back.
        if !self.wants_huge_page()
            || self
                .huge_pages
                .0
                .compare_exchange(made, made + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        let (first, slots) = ((made * BUCKETS) as usize * BUCKET_SLOTS, BUCKETS as usize * BUCKET_SLOTS);
        self.words.make_huge_pages(first, first + slots);
        true
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::hash::KeyHash;
    use crate::slot::Slot;

    fn no_item(_: Slot) -> KeyHash {
        unreachable!("the index is empty")
    }

    #[test]
    fn pages_are_made_once_their_buckets_are_in_use_and_again_after_they_were_not() {
        let index = Index::new(4 * BUCKETS).unwrap();
        let made = || std::iter::from_fn(|| index.make_huge_page().then_some(())).count();
        let grow_to = |buckets: u32| {
            let items = u64::from(buckets) * BUCKET_SLOTS as u64 * 9 / 10;
            index.reserve(items, no_item);
            assert!(buckets - 2 <= index.buckets() && index.buckets() <= buckets);
        };
        grow_to(BUCKETS - 1);
        assert!(!index.wants_huge_page() && !index.make_huge_page());
        grow_to(2 * BUCKETS + BUCKETS / 2);
        assert!(index.wants_huge_page());
        assert_eq!((made(), index.wants_huge_page()), (2, false));
        while 2 * BUCKETS <= index.buckets() {
            assert!(index.shrink(no_item));
        }
        assert_eq!(made(), 0);
        grow_to(3 * BUCKETS + BUCKETS / 2);
        assert_eq!(made(), 2, "the second and the third");
    }
}
