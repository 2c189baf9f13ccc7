//! Exact simulators of eviction orders, to compare the store with.
//!
//! Shape:      key hash and size -> hit or miss
//! Invariants: bytes held never exceed the capacity; an item larger than the capacity is never held
//! Units:      an item is charged its bytes and a fixed charge per item
//! Non-goals:  concurrency, TTLs; sampling other than an algorithm's own

mod cliffhanger;
mod gdsf;
mod hit_density;
mod index;
mod lhd;
mod lists;
mod look_aside;
mod lru;
mod recording;
mod reuse;
mod s3_fifo;
mod sketch;
mod slab;
pub mod split;
#[cfg(test)]
mod testing;
mod w_tiny_lfu;

pub use cliffhanger::Cliffhanger;
pub use gdsf::Gdsf;
pub use lhd::Lhd;
pub use look_aside::{Tally, apply, look_aside};
pub use lru::Lru;
pub use recording::{Access, Recording};
pub use reuse::{HitCurve, hit_curves};
pub use s3_fifo::S3Fifo;
pub use slab::Slab;
pub use w_tiny_lfu::WTinyLfu;

use units::Bytes;

/// A simulated cache.
pub trait Reference {
    /// Says whose accesses follow, by a number; a cache without tenants ignores it.
    fn tenant(&mut self, _tenant: u16) {}

    /// Looks up the key; on a miss it is inserted and others are evicted until it fits. True is a hit.
    ///
    /// A hit with other `bytes` than the item has resizes it, as overwriting does. A cache may refuse to admit.
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool;

    /// Stores the key whatever was held of it; true if it was. Where a stored item's past counts on, that is an access.
    fn overwrite(&mut self, key_hash: u64, bytes: u32) -> bool {
        self.access(key_hash, bytes)
    }

    /// Whether the key is held; changes nothing.
    fn contains(&self, key_hash: u64) -> bool;

    /// Forgets the key; true if it was held.
    fn remove(&mut self, key_hash: u64) -> bool;

    /// Bytes held, charges included.
    fn held(&self) -> Bytes;

    /// Items held.
    fn items(&self) -> usize;
}
