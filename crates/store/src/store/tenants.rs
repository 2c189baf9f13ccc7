//! Tenants of a store: they come, change, and say what they have.

use super::Store;
use crate::departed::Departures;
use crate::metrics::Counters;
use crate::metrics::Totals;
use crate::rank::RankKind;
use crate::sync::Ordering;
use crate::sync::lock;
use crate::tenant::OverShare;
use crate::tenant::Tenant;
use crate::tenant::TenantSpec;
use crate::tenant::TenantState;
use control::Claim;
use control::memory::MemoryShare;
use std::sync::OnceLock;
use units::Bytes;
use units::TenantId;

impl Store {
    /// Adds a tenant; none if there are too many. A tenant that was removed leaves its id free for another once nothing
    /// of it is left, which takes a background cleaner (`Worker::maintain`) some turns.
    pub fn add_tenant(&self, spec: TenantSpec) -> Option<TenantId> {
        let mut adding = lock(&self.adding);
        if let Some(id) = adding.free(self) {
            self.welcome(&mut adding, self.tenant(id), Some(spec));
            self.enter_tiers(self.tenant(id));
            return Some(id);
        }
        let count = self.tenant_count.load(Ordering::Relaxed);
        let slot = self.tenants.get(count as usize)?;
        let id = TenantId(count);
        // Up to where the others' expiries have been accounted.
        let now_secs = self.turned_secs.load(Ordering::Relaxed);
        let tenant = Tenant::new(id, spec, self.reasons(), self.shadow_budget(count + 1), now_secs);
        self.welcome(&mut adding, &tenant, None);
        self.enter_tiers(&tenant);
        slot.set(Box::new(tenant)).ok()?;
        // Release: who sees the count sees the tenant.
        self.tenant_count.store(count + 1, Ordering::Release);
        self.tables.fetch_add(self.table_bytes_each() + self.tenant(id).tables(), Ordering::Relaxed);
        Some(id)
    }

    /// Gives a tenant that comes a share until the policy has spoken: an equal part of what is divided.
    fn welcome(&self, adding: &mut Departures, tenant: &Tenant, again: Option<TenantSpec>) {
        if let Some(spec) = again {
            tenant.begin(spec, self.raw_totals(tenant.id));
        }
        adding.present += 1;
        let present = adding.present;
        let budget = self.shadow_budget(u32::try_from(present).unwrap_or(u32::MAX));
        let target = Bytes(self.divided().0 / present).max(tenant.floor());
        tenant.set_share(MemoryShare::of(target), budget);
        tenant.begin_tick(self.tick());
        tenant.appear();
    }

    /// Whether a tenant has this id.
    #[must_use]
    pub fn is_present(&self, id: TenantId) -> bool {
        self.known(id).is_some_and(|t| !t.is_gone())
    }

    /// Changes what a tenant claims. The next decision sees it; false for an unknown id.
    pub fn set_claim(&self, id: TenantId, claim: Claim) -> bool {
        self.change(id, |tenant| tenant.change(|spec| spec.claim = claim))
    }

    /// Changes a tenant's eviction order. The next cleaning pass ranks by it; false for an unknown id.
    pub fn set_rank(&self, id: TenantId, rank: RankKind) -> bool {
        self.change(id, |tenant| tenant.change(|spec| spec.rank = rank))
    }

    /// Changes what becomes of a tenant's writes beyond its share; false for an unknown id.
    pub fn set_over_share(&self, id: TenantId, over_share: OverShare) -> bool {
        self.change(id, |tenant| tenant.set_over_share(over_share))
    }

    /// Changes a tenant that nobody removes meanwhile.
    pub(crate) fn change(&self, id: TenantId, change: impl FnOnce(&Tenant)) -> bool {
        let _adding = lock(&self.adding);
        let tenant = self.known(id).filter(|t| !t.is_gone());
        tenant.map(change).is_some()
    }

    pub(crate) fn known(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.get(id.index()).and_then(OnceLock::get).map(Box::as_ref)
    }

    /// Memory that one shadow queue may take among `count`.
    pub(crate) fn shadow_budget(&self, count: u32) -> Bytes {
        Bytes(self.geometry.shadow.0 / u64::from(count.max(1)))
    }

    /// The place of every id that was ever given, also of those that no tenant has now.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        let count = self.tenant_count.load(Ordering::Acquire) as usize;
        self.tenants[..count].iter().filter_map(OnceLock::get).map(Box::as_ref)
    }

    /// Number of ids that were ever given; those of removed tenants may be given again.
    #[must_use]
    pub fn tenant_count(&self) -> usize {
        self.tenant_count.load(Ordering::Acquire) as usize
    }

    /// Tenants that can be there at once.
    pub(crate) fn tenants_max(&self) -> usize {
        self.tenants.len()
    }

    /// The tenant that an item's header names.
    #[inline]
    pub(crate) fn tenant(&self, id: TenantId) -> &Tenant {
        self.tenants[id.index()].get().expect("ids are handed out when their tenant exists")
    }

    /// Whether a tenant's keys are compared with its own only.
    #[must_use]
    pub fn has_own_space(&self, id: TenantId) -> bool {
        self.known(id).is_some_and(Tenant::has_own_space)
    }

    /// What a tenant is now; none for an id that nobody has.
    #[must_use]
    pub fn tenant_state(&self, id: TenantId) -> Option<TenantState> {
        let tenant = self.known(id).filter(|t| !t.is_gone())?;
        let spec = TenantSpec::clone(&tenant.spec());
        Some(TenantState {
            id,
            name: spec.name,
            held: tenant.held(),
            away: tenant.held_below(),
            away_items: u64::try_from(tenant.away_items.load(Ordering::Relaxed)).unwrap_or(0),
            placement: tenant.below.placement(),
            items: tenant.live_items(),
            share: tenant.share(),
            dram_target: tenant.dram_target(),
            claim: spec.claim,
            private: tenant.floor(),
            shadow: lock(&tenant.shadow).bytes(),
            rank: spec.rank,
            over_share: tenant.over_share(),
            throttle: self.throttle(id),
        })
    }

    /// Live bytes charged to a tenant; none for an unknown id.
    #[must_use]
    pub fn held(&self, id: TenantId) -> Bytes {
        self.known(id).map_or(Bytes::ZERO, Tenant::held)
    }

    /// Counters of a tenant, summed over threads; of a removed one as long as nobody else has its id.
    #[must_use]
    pub fn totals(&self, id: TenantId) -> Totals {
        let before = self.known(id).map_or_else(Totals::default, Tenant::before);
        self.raw_totals(id).since(&before)
    }

    /// Counters of all tenants that had an id, summed over threads.
    pub(crate) fn raw_totals(&self, id: TenantId) -> Totals {
        let mut totals = Totals::default();
        for thread in &lock(&self.threads).all {
            if let Some(counters) = thread.tenants.get(id.index()).and_then(OnceLock::get) {
                Counters::add_to(counters, &mut totals);
            }
        }
        totals
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{Fields, MemoryControl, Mode, Options, Refused, Space, Worker};
    use control::Sensor as _;
    use std::sync::Arc;
    use units::Instant;

    fn store() -> Arc<Store> {
        let options = Options {
            memory: Bytes::mib(8),
            item_max: Bytes::kib(64),
            threads: 1,
            tenants_max: 4,
            no_evict: false,
            seed: 1,
        };
        Store::new(options).unwrap()
    }

    fn spec(name: &str) -> TenantSpec {
        let (claim, rank) = (Claim::default(), RankKind::Lhd);
        TenantSpec { name: name.to_owned(), own_space: false, claim, rank }
    }

    #[test]
    fn who_gets_an_id_has_nothing_of_whom_it_was_before() {
        let store = store();
        let mut worker = store.worker().unwrap();
        let mut control = MemoryControl::new(Arc::clone(&store));
        let id = store.add_tenant(spec("first")).unwrap();
        let tenant = store.tenant(id);
        store.set_over_share(id, OverShare::Refuse);
        tenant.set_dram_target(Some(Bytes::mib(1)));
        let learnt = || tenant.densities(&RankKind::Lhd).unwrap().of(5, 2);
        let unknown = learnt();
        for _ in 0..10_000 {
            tenant.learnt().unwrap().note_end(5, 2);
        }
        assert!(learnt() < unknown / 2.0);
        assert!(store.remove_tenant(id));
        while worker.maintain() {
            worker.quiesce();
        }
        control.read(Instant::ZERO, &mut Vec::new());
        assert_eq!(store.add_tenant(spec("next")), Some(id));
        let state = store.tenant_state(id).unwrap();
        assert_eq!((state.over_share, state.dram_target), (OverShare::Evict, None));
        assert!((learnt() - unknown).abs() < f32::EPSILON);
    }

    /// Stores so many bytes under a key until a second, 0 for ever.
    fn set(
        worker: &mut Worker,
        id: TenantId,
        (name, len, expires_at): (&str, usize, u32),
    ) -> Result<(), Refused> {
        let fields = Fields { expires_at, ..Fields::default() };
        loop {
            let key = worker.key(Space::Shared, name.as_bytes()).unwrap();
            match worker.set(id, &key, Mode::Set, fields, &vec![b'v'; len]) {
                Err(Refused::NoRoom) => worker.make_room().unwrap(),
                done => return done.map(|_| ()),
            }
        }
    }

    #[test]
    fn who_is_at_its_share_may_touch_and_gains_nothing_by_what_is_anothers() {
        let store = store();
        let mut worker = store.worker().unwrap();
        let [full, other] = ["full", "other"].map(|name| store.add_tenant(spec(name)).unwrap());
        store.tenant(full).set_share(MemoryShare::of(Bytes::mib(2)), Bytes::kib(16));
        store.set_over_share(full, OverShare::Refuse);
        for len in [2_000, 1] {
            let refused =
                (0..20_000).find_map(|n| set(&mut worker, full, (&format!("{len}:{n}"), len, 0)).err());
            assert_eq!(refused, Some(Refused::OverShare));
        }
        for n in 0..100 {
            let key = worker.key(Space::Shared, format!("2000:{n}").into_bytes().leak()).unwrap();
            // Its time makes an item longer.
            assert_eq!(worker.touch(full, &key, 1_000), Ok(true), "{n}");
        }
        assert_eq!(set(&mut worker, other, ("large", 10_000, 0)), Ok(()));
        assert_eq!(
            set(&mut worker, full, ("large", 5_000, 0)),
            Err(Refused::OverShare),
            "it held none of that"
        );
        assert_eq!(set(&mut worker, full, ("2000:0", 1_000, 0)), Ok(()), "less than it has there");
    }

    #[test]
    fn what_is_stored_again_is_no_eviction_any_more() {
        let store = store();
        let mut worker = store.worker().unwrap();
        let id = store.add_tenant(TenantSpec { rank: RankKind::Lru, ..spec("t") }).unwrap();
        for n in 0..20_000 {
            set(&mut worker, id, (&n.to_string(), 1_000, 0)).unwrap();
            worker.quiesce();
        }
        let is_gone = |n: &u32| {
            let name = n.to_string();
            worker.describe(&worker.key(Space::Shared, name.as_bytes()).unwrap()).is_none()
        };
        let last = (0..20_000).rev().find(is_gone).unwrap();
        let ask = |worker: &Worker, keys: std::ops::Range<u32>| {
            let before = store.totals(id).shadow_hits;
            for name in keys.map(|n| n.to_string()) {
                worker.get(id, &worker.key(Space::Shared, name.as_bytes()).unwrap());
            }
            store.totals(id).shadow_hits - before
        };
        assert!(0 < ask(&worker, last - 200..last - 100));
        let now = store.now_secs();
        for n in last - 100..last {
            set(&mut worker, id, (&n.to_string(), 1, now + 1)).unwrap();
            worker.quiesce();
        }
        store.set_now(now + 10);
        assert_eq!(ask(&worker, last - 100..last), 0, "no memory would keep it longer");
    }
}
