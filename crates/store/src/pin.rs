//! A value that is being sent: it stays, whatever becomes of its item.
//!
//! Invariants: a pinned value is neither evicted nor given back; its item may be replaced, deleted, or expire
//! Non-goals:  values in segments: those are copied by whoever needs them beyond a quiescent point

use crate::item::Apart;
use crate::store::Store;
use crate::worker::{Item, Worker};
use std::sync::Arc;

/// A value in pages of its own that stays until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    store: Arc<Store>,
    apart: Apart,
}

impl Worker {
    /// Keeps the value of an item beyond the next quiescent point; none if it lies in a segment.
    #[must_use]
    pub fn pin(&self, item: &Item<'_>) -> Option<Pinned> {
        let apart = item.apart()?;
        self.store.log.pin_value(apart);
        Some(Pinned { store: Arc::clone(&self.store), apart })
    }
}

impl Pinned {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.store.log.value_held(self.apart)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.store.log.unpin_value(self.apart);
    }
}
