//! When a pass over a tier waits for budgets and caps: who spends for tenants that have spent theirs spends beyond their limits.
//!
//! Shape:      records that a pass copies on, by tenant -> what that costs of a budget -> it is kept for the pass, or the pass waits for the
//!             period's end, with all that it has; the next record, and what was copied before it -> the pass waits until that is paid of a cap
//! Invariants: nobody waits for room that a pass waits to make; without somebody who begins periods, or keeps caps, no pass waits
//! Units:      picoseconds of the tier; time of the brakes
//! Source:     ours; in NyxCache (§3.4) and MT² (§3) nobody else spends of a tenant's account

use super::sources::Source;
use super::{Entry, Pass, is_within_floor};
use crate::census::Cut;
use crate::limits;
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering};
use crate::tier::Tier;
use crate::tier::record::GRAIN;
use media::SlowAccess;
use std::collections::{BTreeMap, VecDeque};
use units::{Duration, Instant, TenantId};

/// Until when the pass that was begun waits, in ns; 0 where none was.
#[derive(Debug, Default)]
pub(in crate::tier) struct Postponed(pub(super) AtomicU64);

impl Tier {
    /// Whether a pass waits, and is to: only while others find room.
    pub(in crate::tier) fn is_postponed(&self, store: &Store) -> bool {
        let until = self.postponed.0.load(Ordering::Relaxed);
        until != 0 && self.may_wait(store) && store.brakes.now() < Instant(until)
    }

    /// Whether a pass was begun that waits, or has waited.
    pub(in crate::tier) fn has_begun(&self) -> bool {
        self.postponed.0.load(Ordering::Relaxed) != 0
    }

    /// For how long the pass that was begun waits still; none if it does not.
    pub(in crate::tier) fn postponed_for(&self, store: &Store) -> Option<Duration> {
        let until = self.postponed.0.load(Ordering::Relaxed);
        let left = |until| Instant(until).since(store.brakes.now());
        (until != 0).then(|| left(until)).filter(|left| *left != Duration::ZERO)
    }

    /// Says until when the pass that was begun waits; no pass waits after none.
    pub(super) fn set_postponed(&self, until: Option<Instant>) {
        self.postponed.0.store(until.map_or(0, |until| until.0.max(1)), Ordering::Relaxed);
    }

    /// A pass is wanted when fewer segments are left.
    pub(in crate::tier) fn low_water(&self, store: &Store) -> u32 {
        let (one_in, least) = limits::TIER_LOW_WATER_LIMITS;
        match self.is_limited(store) {
            true => least.max(self.segments.count() / one_in),
            false => limits::TIER_LOW_WATER,
        }
    }

    /// Whether some tenant has a budget of its time, or a cap, that a pass may wait for.
    fn is_limited(&self, store: &Store) -> bool {
        store.divides(self) && store.brakes.are_waited_for()
    }

    /// Whether a pass may wait for a while.
    fn may_wait(&self, store: &Store) -> bool {
        let least = limits::TIER_POSTPONES_MIN.min(self.segments.count() / 8);
        self.is_limited(store) && least <= self.left_or_coming()
    }
}

impl Pass<'_> {
    /// Until when the pass is to wait, before it deals with a source and those behind it, for what it would spend of some tenant's budget. If it
    /// need not, that is kept for it.
    pub(super) fn waits_or_announces(&mut self, next: &Source, behind: &VecDeque<Source>) -> Option<Instant> {
        let (store, tier) = (self.store, self.tier);
        let costs = self.work.gains && next.left(tier).next().is_some();
        if self.work.is_announced || !costs || !tier.is_limited(store) {
            return None;
        }
        let held = self.held(std::iter::once(next).chain(behind));
        let brakes = || held.iter().map(|(tenant, (_, cost))| (store.tenant(*tenant).below.brake(), *cost));
        let now = || store.brakes.now();
        let until = brakes().filter_map(|(brake, cost)| brake.postpones(cost, now)).max();
        let until = until.filter(|_| tier.may_wait(store));
        if until.is_none() {
            brakes().for_each(|(brake, cost)| brake.announce(cost));
            self.work.is_announced = true;
        }
        until.map(|until| until.min(self.work.ends()))
    }

    /// Until when the pass is to wait before it copies a record, for what was copied of its tenant's is not paid of the tenant's caps. What
    /// goes costs nothing.
    pub(super) fn waits_for_caps(&mut self, entry: &Entry) -> Option<Instant> {
        let (store, tier) = (self.store, self.tier);
        let tenant = store.tenant(entry.tenant);
        let brake = tenant.below.brake();
        let stays = || {
            self.work.parts.cut(entry.tenant).keeps(entry.rank, entry.footprint) || is_within_floor(tenant)
        };
        let is_free = self.work.is_forced || brake.is_free() || !tier.is_limited(store);
        if is_free || !entry.is_alive(tier) || !stays() {
            return None;
        }
        let until = brake.owes_until(|| store.brakes.now())?;
        // Else it would stop at each segment that it has made room for.
        self.work.is_forced = !tier.may_wait(store);
        (!self.work.is_forced).then(|| until.min(self.work.ends()))
    }

    /// The tenants that are held back, and what the pass spends for each.
    fn held<'a>(&self, sources: impl Iterator<Item = &'a Source>) -> BTreeMap<TenantId, (Cut, u64)> {
        let mut held = BTreeMap::new();
        for entry in sources.flat_map(|source| source.left(self.tier)) {
            if self.store.tenant(entry.tenant).below.brake().is_free() {
                continue;
            }
            let (cut, sum) =
                held.entry(entry.tenant).or_insert_with(|| (self.work.parts.cut(entry.tenant), 0_u64));
            if cut.keeps(entry.rank, entry.footprint) || is_within_floor(self.store.tenant(entry.tenant)) {
                let cost = |kind| self.tier.tariff.cost_ps(kind, entry.footprint / GRAIN);
                *sum = sum.saturating_add(cost(SlowAccess::Read)).saturating_add(cost(SlowAccess::Write));
            }
        }
        held
    }
}
