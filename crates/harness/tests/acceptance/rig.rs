//! The store under its control loop, one request at a time, with everything open to look at in between.
//!
//! Shape: as `harness::replay`, which shows only its end

use control::{Amount, Claim, Loop};
use lab::{Op, Request};
use policy::memory::{MemoryOptions, MemoryPolicy};
use std::sync::Arc;
use store::{
    Fields, MemoryControl, Mode, Options, RankKind, Refused, Space, Store, TenantSpec, Worker,
    divisible_capacity,
};
use units::{Bytes, Duration, Instant, TenantId};

/// Largest item.
pub(crate) const ITEM_MAX: Bytes = Bytes::mib(1);
/// Requests between looks at what is due, as in a replay.
pub(crate) const TURN: u64 = 16;

/// The rig.
pub(crate) struct Rig {
    pub(crate) store: Arc<Store>,
    worker: Worker,
    control: MemoryControl,
    pacer: Loop<MemoryPolicy>,
    decided: Instant,
    requests: u64,
    filler: Vec<u8>,
}

impl Rig {
    /// A store with one worker and tenants, each with a floor.
    pub(crate) fn new(memory: Bytes, policy: &str, tenants: &[(String, Bytes)]) -> Self {
        Self::ranked(memory, policy, &RankKind::default(), tenants)
    }

    /// The same with another rank, of all tenants.
    pub(crate) fn ranked(memory: Bytes, policy: &str, rank: &RankKind, tenants: &[(String, Bytes)]) -> Self {
        let options = Options {
            memory,
            item_max: ITEM_MAX,
            threads: 1,
            tenants_max: tenants.len(),
            no_evict: false,
            seed: 1,
        };
        let store = Store::new(options).unwrap();
        for (name, floor) in tenants {
            let claim = Claim { floor: Amount::memory(*floor), ..Claim::default() };
            let spec = TenantSpec { name: name.clone(), own_space: false, claim, rank: rank.clone() };
            store.add_tenant(spec).unwrap();
        }
        let options = MemoryOptions { seed: 1, ..MemoryOptions::default() };
        let policy = MemoryPolicy::by_name(policy, options).unwrap();
        let mut rig = Self {
            worker: store.worker().unwrap(),
            control: MemoryControl::new(Arc::clone(&store)),
            pacer: Loop::new(policy, 1),
            filler: vec![b'x'; ITEM_MAX.as_usize()],
            decided: Instant::ZERO,
            requests: 0,
            store,
        };
        rig.pacer.step(Instant::ZERO, &mut rig.control);
        rig
    }

    /// One look-aside request; true after a turn, when nothing that is due waits.
    pub(crate) fn run(&mut self, tenant: TenantId, request: &Request<'_>) -> bool {
        let value = request.value_bytes as usize;
        match request.op {
            Op::Get | Op::Gets => {
                if !self.holds(tenant, request.key) {
                    self.set(tenant, request.key, Mode::Set, value);
                }
            }
            Op::Add => self.set(tenant, request.key, Mode::Add, value),
            Op::Delete => {
                if let Some(key) = self.worker.key(Space::Shared, request.key) {
                    self.worker.delete(tenant, &key);
                }
            }
            _ => self.set(tenant, request.key, Mode::Set, value),
        }
        self.worker.quiesce();
        self.requests += 1;
        let turn_ends = self.requests.is_multiple_of(TURN);
        if turn_ends {
            self.between(request.at);
        }
        turn_ends
    }

    /// A look-up that stores nothing after a miss.
    pub(crate) fn ask(&mut self, tenant: TenantId, key: &[u8]) -> bool {
        let found = self.holds(tenant, key);
        self.worker.quiesce();
        found
    }

    fn holds(&self, tenant: TenantId, key: &[u8]) -> bool {
        let key = self.worker.key(Space::Shared, key).unwrap();
        self.worker.get(tenant, &key).is_some()
    }

    fn set(&mut self, tenant: TenantId, key: &[u8], mode: Mode, value: usize) {
        let Some(key) = self.worker.key(Space::Shared, key) else { return };
        let value = &self.filler[..value.min(self.filler.len())];
        while self.worker.set(tenant, &key, mode, Fields::default(), value) == Err(Refused::NoRoom) {
            self.worker.make_room().unwrap();
        }
    }

    fn between(&mut self, at: Instant) {
        let hits = self.store.pending_shadow_hits();
        if harness::replay::SHADOW_HITS_PER_DECISION <= hits
            || Duration::from_secs(1) <= at.since(self.decided)
        {
            self.pacer.step(at, &mut self.control);
            self.decided = at;
        }
        if self.store.wants_cleaning() {
            self.worker.maintain();
        }
    }
}

/// What the tenants of a store of one worker divide.
pub(crate) fn divisible(memory: Bytes) -> Bytes {
    divisible_capacity(memory, ITEM_MAX, 1)
}
