//! How far a start or an end has come, for who waits for it; and whether a start is to be broken off.
//!
//! Shape: one thread counts, another looks on, and any may ask for the end of a start

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Items that came back, or were saved, and the wish that no more do.
#[derive(Debug, Default)]
pub struct Headway {
    items: AtomicU64,
    broken_off: Arc<AtomicBool>,
}

impl Headway {
    /// Of a start that is broken off once `broken_off` is set, whoever sets it.
    #[must_use]
    pub fn until(broken_off: Arc<AtomicBool>) -> Self {
        Self { items: AtomicU64::new(0), broken_off }
    }

    /// Items so far.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    /// Whether the start is to end before it serves. An end is never broken off.
    #[must_use]
    pub fn is_broken_off(&self) -> bool {
        self.broken_off.load(Ordering::Relaxed)
    }

    /// Counts from nothing again.
    pub fn begin(&self) {
        self.reach(0);
    }

    /// Says how many items there are so far.
    pub(crate) fn reach(&self, items: u64) {
        self.items.store(items, Ordering::Relaxed);
    }
}
