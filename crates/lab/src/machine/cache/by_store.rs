//! The real store in this process, driven by a generated mix in the mix's own time.
//!
//! Shape:      mix -> look-aside client -> store under its sensor and actuator
//! Invariants: the same mix, seed and policy give the same run
//! Cost:       about a microsecond per request

use super::{Caches, SHADOW_HITS_PER_DECISION};
use crate::trace::Op;
use crate::workload::Mix;
use control::memory::{MemoryShare, MemorySignal};
use control::{Actuator, Amount, Claim, Decision, Pool, Row, Sensor};
use std::collections::HashMap;
use std::sync::Arc;
use store::{
    Fields, MemoryControl, Mode, Options, RankKind, Refused, Space, Store, StoreError, TenantSpec, Worker,
};
use units::{Bytes, Duration, Instant, TenantId};

/// Largest item.
const ITEM_MAX: Bytes = Bytes::mib(1);
/// Requests between looks at what is due, as in a replay.
const TURN: u32 = 16;

/// The plant.
#[derive(Debug)]
pub struct StoreCaches {
    store: Arc<Store>,
    worker: Worker,
    control: MemoryControl,
    mix: Mix,
    ids: HashMap<Vec<u8>, TenantId>,
    filler: Vec<u8>,
    now: Instant,
}

impl StoreCaches {
    /// A store of `memory` with the tenants of `mix`, each with a part of `reserved_percent` of an equal share as its
    /// floor. Bytes not touched for `idle_time` are idle.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn new(
        memory: Bytes,
        mix: Mix,
        reserved_percent: u64,
        idle_time: Duration,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let tenants = mix.tenants().len();
        let options =
            Options { memory, item_max: ITEM_MAX, threads: 1, tenants_max: tenants, no_evict: false, seed };
        let store = Store::new(options)?;
        let equal = store::divisible_capacity(memory, ITEM_MAX, 1).scale(1, tenants as u64);
        let claim =
            Claim { floor: Amount::memory(equal.scale(reserved_percent.min(100), 100)), ..Claim::default() };
        let mut ids = HashMap::new();
        for tenant in mix.tenants() {
            let spec = TenantSpec {
                name: tenant.name.clone(),
                own_space: false,
                claim: claim.clone(),
                rank: RankKind::default(),
            };
            let id = store.add_tenant(spec).expect("the store was made for so many tenants");
            ids.insert(tenant.name.clone().into_bytes(), id);
        }
        Ok(Self {
            worker: store.worker()?,
            control: MemoryControl::with_idle(Arc::clone(&store), idle_time),
            filler: vec![b'x'; ITEM_MAX.as_usize()],
            now: Instant::ZERO,
            mix,
            ids,
            store,
        })
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Hits over look-ups of all tenants.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let totals: Vec<_> = self.ids.values().map(|id| self.store.totals(*id)).collect();
        let hits: u64 = totals.iter().map(|t| t.get_hits).sum();
        let misses: u64 = totals.iter().map(|t| t.get_misses).sum();
        if hits + misses == 0 { 0.0 } else { hits as f64 / (hits + misses) as f64 }
    }

    fn request(&mut self) {
        let Self { worker, mix, ids, filler, now, .. } = self;
        let request = mix.next_request();
        *now = request.at.max(*now);
        let Some(tenant) = ids.get(request.tenant).copied() else { return };
        let Some(key) = worker.key(Space::Shared, request.key) else { return };
        let mode = match request.op {
            Op::Get | Op::Gets if worker.get(tenant, &key).is_some() => None,
            Op::Add => Some(Mode::Add),
            Op::Delete => {
                worker.delete(tenant, &key);
                None
            }
            _ => Some(Mode::Set),
        };
        let value = &filler[..(request.value_bytes as usize).min(filler.len())];
        if let Some(mode) = mode {
            while worker.set(tenant, &key, mode, Fields::default(), value) == Err(Refused::NoRoom) {
                if worker.make_room().is_err() {
                    break;
                }
            }
        }
        worker.quiesce();
    }
}

impl Sensor for StoreCaches {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<MemorySignal, MemoryShare>>) -> Pool {
        self.control.read(now, rows)
    }
}

impl Actuator for StoreCaches {
    type Share = MemoryShare;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, MemoryShare>,
        in_force: &mut Vec<(TenantId, MemoryShare)>,
    ) -> bool {
        self.control.apply(now, decision, in_force)
    }
}

impl Caches for StoreCaches {
    fn now(&self) -> Instant {
        self.now
    }

    fn advance(&mut self, until: Instant) {
        while self.now < until && self.pending_shadow_hits() < SHADOW_HITS_PER_DECISION {
            (0..TURN).for_each(|_| self.request());
            if self.store.wants_cleaning() {
                self.worker.maintain();
            }
        }
    }

    fn pending_shadow_hits(&self) -> u64 {
        self.store.pending_shadow_hits()
    }
}
