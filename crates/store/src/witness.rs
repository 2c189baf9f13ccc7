//! Who wants to see evictions as they happen.
//!
//! Cost: one relaxed load per eviction while nobody looks

use crate::classes::class_of;
use crate::item::View;
use crate::slot::Slot;
use crate::store::Store;
use crate::sync::{AtomicBool, Ordering};
use std::sync::OnceLock;
use units::TenantId;

/// An item that is being evicted.
#[derive(Clone, Copy, Debug)]
pub struct Evicted<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Who it was charged to.
    pub tenant: TenantId,
    /// Some look-up had found it.
    pub fetched: bool,
    /// Second at which it would have expired; 0 for never.
    pub expires_at: u32,
    /// Second at which it was last used or stored, correct to a tick of the rank clock.
    pub used_secs: u32,
    /// Its size class.
    pub class: usize,
    /// Bytes of its value.
    pub value_len: usize,
}

type Sees = Box<dyn Fn(&Evicted<'_>) + Send + Sync>;

/// Nobody, until somebody is named.
#[derive(Default)]
pub(crate) struct Witness {
    sees: OnceLock<Sees>,
    /// Relaxed: an eviction more or less is seen.
    looks: AtomicBool,
}

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Witness").field("looks", &self.looks).finish_non_exhaustive()
    }
}

impl Witness {
    pub(crate) fn tell(&self, store: &Store, slot: Slot, view: &View<'_>) {
        if !self.looks.load(Ordering::Relaxed) {
            return;
        }
        let Some(sees) = self.sees.get() else { return };
        sees(&Evicted {
            key: view.key(),
            tenant: view.tenant(),
            fetched: slot.uses() != 0,
            expires_at: view.expiry().map_or(0, |e| e.at),
            used_secs: store.used_secs(slot, store.stamp_of(slot.place(), view)),
            class: class_of(view.sizes().whole),
            value_len: view.value().len(),
        });
    }
}

impl Store {
    /// Names who is told of evictions, by the thread that evicts and once it holds no locks: it must not wait, nor touch the
    /// store. The first is the only one.
    pub fn witness_evictions(&self, sees: impl Fn(&Evicted<'_>) + Send + Sync + 'static) {
        let _first = self.witness.sees.set(Box::new(sees));
    }

    /// Whether evictions are told at the moment.
    pub fn look_at_evictions(&self, looks: bool) {
        self.witness.looks.store(looks, Ordering::Relaxed);
    }
}
