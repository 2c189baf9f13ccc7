//! Exact simulators of eviction orders, to compare the store with.
//!
//! Shape:      key hash and size -> hit or miss
//! Invariants: bytes held never exceed the capacity; an item larger than the capacity is never held
//! Units:      an item is charged its bytes and a fixed charge per item
//! Non-goals:  sampling, concurrency, TTLs

mod gdsf;
mod index;
mod look_aside;
mod lru;

pub use gdsf::Gdsf;
pub use look_aside::{Tally, apply, look_aside};
pub use lru::Lru;

use units::Bytes;

/// A simulated cache.
pub trait Reference {
    /// Looks up the key; on a miss it is inserted and others are evicted until it fits. True is a hit.
    ///
    /// A hit with other `bytes` than the item has resizes it, as overwriting does.
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool;

    /// Whether the key is held; changes nothing.
    fn contains(&self, key_hash: u64) -> bool;

    /// Forgets the key; true if it was held.
    fn remove(&mut self, key_hash: u64) -> bool;

    /// Bytes held, charges included.
    fn held(&self) -> Bytes;

    /// Items held.
    fn items(&self) -> usize;
}
