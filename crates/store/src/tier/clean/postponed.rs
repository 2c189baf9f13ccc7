//! When a pass over a tier waits for budgets: who spends for tenants that have spent theirs spends beyond their limits.
//!
//! Shape:      records that a pass copies on, by tenant -> what that costs -> it is kept for the pass, or the pass waits for the period's end
//! Invariants: nobody waits for room that a pass waits to make; without somebody who begins periods no pass waits
//! Units:      picoseconds of the tier; time of the brakes
//! Source:     ours; in NyxCache (§3.4) nobody else spends of a tenant's account

use super::{Pass, Source};
use crate::census::Cut;
use crate::limits;
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering};
use crate::tier::Tier;
use crate::tier::record::GRAIN;
use media::SlowAccess;
use std::collections::BTreeMap;
use units::{Instant, TenantId};

/// Until when passes over a tier wait, in ns; 0 where they do not.
#[derive(Debug, Default)]
pub(in crate::tier) struct Postponed(AtomicU64);

impl Tier {
    /// Whether passes wait: only while others find room.
    pub(in crate::tier) fn is_postponed(&self, store: &Store) -> bool {
        let until = self.postponed.0.load(Ordering::Relaxed);
        until != 0 && self.has_budgets(store) && self.may_wait() && store.brakes.now() < Instant(until)
    }

    /// A pass is wanted when fewer segments are left.
    pub(in crate::tier) fn low_water(&self, store: &Store) -> u32 {
        let (one_in, least) = limits::TIER_LOW_WATER_BUDGETS;
        match self.has_budgets(store) {
            true => least.max(self.segments.count() / one_in),
            false => limits::TIER_LOW_WATER,
        }
    }

    /// Whether some tenant has a budget of its time that a pass may wait for.
    fn has_budgets(&self, store: &Store) -> bool {
        store.divides(self) && store.brakes.has_budgets()
    }

    /// Whether a pass may wait for a while.
    fn may_wait(&self) -> bool {
        limits::TIER_POSTPONES_MIN.min(self.segments.count() / 8) <= self.left_or_coming()
    }
}

impl Pass<'_> {
    /// Whether the pass is to wait for what it would spend of some tenant's budget. If not, that is kept for it.
    pub(super) fn waits_or_announces(&self, sources: &[Source<'_>]) -> bool {
        let (store, tier) = (self.store, self.tier);
        if !tier.has_budgets(store) {
            return false;
        }
        let held = self.held(sources);
        let brakes = || held.iter().map(|(tenant, (_, cost))| (store.tenant(*tenant).below.brake(), *cost));
        let now = || store.brakes.now();
        let until = brakes().filter_map(|(brake, cost)| brake.postpones(cost, now)).max();
        // One that cannot wait is looked at again only when others find room.
        tier.postponed.0.store(until.unwrap_or(Instant::ZERO).0, Ordering::Relaxed);
        let waits = until.is_some() && tier.may_wait();
        if !waits {
            brakes().for_each(|(brake, cost)| brake.announce(cost));
        }
        waits
    }

    /// The tenants that are held back, and what the pass spends for each.
    fn held(&self, sources: &[Source<'_>]) -> BTreeMap<TenantId, (Cut, u64)> {
        let mut held = BTreeMap::new();
        let entries = sources.iter().flat_map(|source| &source.entries);
        for entry in entries.filter(|entry| entry.is_alive) {
            if self.store.tenant(entry.tenant).below.brake().is_free() {
                continue;
            }
            let (cut, sum) =
                held.entry(entry.tenant).or_insert_with(|| (self.work.parts.cut(entry.tenant), 0_u64));
            if cut.keeps(entry.rank, entry.footprint) {
                let cost = |kind| self.tier.tariff.cost_ps(kind, entry.footprint / GRAIN);
                *sum = sum.saturating_add(cost(SlowAccess::Read)).saturating_add(cost(SlowAccess::Write));
            }
        }
        held
    }
}
