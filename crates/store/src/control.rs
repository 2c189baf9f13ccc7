//! Sensor and actuator of the store: what its tenants hold and miss, and the targets that steer the cleaner.

use crate::group_floors::GroupFloors;
use crate::idle::IdleSensor;
use crate::metrics::Totals;
use crate::store::Store;
use crate::sync::Ordering;
use control::memory::{MemoryShare, MemorySignal, TierTraffic};
use control::{Actuator, Amount, Decision, Pool, Row, Sensor, Weight};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, TenantId};

/// The store as a thing that a memory policy controls.
#[derive(Debug)]
pub struct MemoryControl {
    store: Arc<Store>,
    /// Of each id: which of its tenants was counted, and what it had counted.
    before: Vec<(u32, Totals)>,
    idle: Option<IdleSensor>,
    /// Part of its initial share that a tenant without a reservation has for itself, 0..=1.
    private: f64,
    /// Whether somebody has, or had, some of it.
    has_private: bool,
    groups: GroupFloors,
}

impl MemoryControl {
    fn of(store: Arc<Store>, idle: Option<IdleSensor>) -> Self {
        Self {
            store,
            before: Vec::new(),
            idle,
            private: 0.0,
            has_private: false,
            groups: GroupFloors::default(),
        }
    }

    /// Controls `store`; its idle bytes read as none.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self::of(store, None)
    }

    /// The same, with an estimate of the bytes that were not touched for `idle_time`, which samples the index now and
    /// then. It reads as none where too many threads work with the store.
    #[must_use]
    pub fn with_idle(store: Arc<Store>, idle_time: Duration) -> Self {
        let idle = IdleSensor::new(&store, idle_time);
        Self::of(store, idle)
    }

    /// Estimates what is not touched for so long from now on, or no more.
    pub fn watch_idle(&mut self, idle_time: Option<Duration>) {
        match (idle_time, &mut self.idle) {
            (Some(time), None) => self.idle = IdleSensor::new(&self.store, time),
            (Some(time), Some(idle)) => idle.watch_for(time),
            (None, _) => self.idle = None,
        }
    }

    /// Gives every tenant without a reservation `part` (0..=1) of its initial share as private memory: of what is not
    /// reserved its part by weight (Memshare §4.1). It follows who is there and how much there is.
    pub fn set_private(&mut self, part: f64) {
        // Who had some has to be told that it is gone.
        self.has_private |= 0.0 < part;
        self.private = part.clamp(0.0, 1.0);
    }

    /// Says what each group of tenants reserves, and its weight, by the places that claims name. The cleaner leaves to the members what it
    /// reserves.
    pub fn set_groups(&mut self, groups: &[(Bytes, Weight)]) {
        self.groups.set(groups);
    }

    /// Adds private memory to the claims of those who reserve none, and tells the cleaner.
    fn add_private(&mut self, divisible: Bytes, rows: &mut [Row<MemorySignal, MemoryShare>]) {
        let reserved: Bytes = rows.iter().map(|row| row.claim.floor.bytes).sum();
        let (beyond, weights) = self.groups.beyond_members(rows);
        let rest = divisible.saturating_sub(reserved + beyond).0 as f64 * self.private;
        for row in rows.iter_mut() {
            if row.claim.floor.bytes == Bytes::ZERO {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part in 0..=1 of a size; rounding down keeps the sum below it"
                )]
                let part = (rest * self.groups.part(&row.claim, weights)) as u64;
                row.claim.floor.bytes = Bytes(part);
            }
            // What it claims may have changed meanwhile.
            self.store.change(row.id, |tenant| {
                let claimed = tenant.spec().claim.floor.bytes;
                tenant.set_floor(if claimed == Bytes::ZERO { row.claim.floor.bytes } else { claimed });
            });
        }
    }

    /// Lets the estimate of idle bytes look at the clocks, and at a sample if one is due: once a second or more often, also
    /// where decisions are far apart. Nothing happens without an estimate.
    pub fn look(&mut self, now: Instant) {
        if let Some(idle) = &mut self.idle {
            idle.look(&self.store, now);
        }
    }
}

impl Sensor for MemoryControl {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<MemorySignal, MemoryShare>>) -> Pool {
        self.store.pending_shadow_hits.store(0, Ordering::Relaxed);
        self.look(now);
        self.store.readings.fetch_add(1, Ordering::Relaxed);
        self.before.resize(self.store.tenant_count(), (0, Totals::default()));
        for (tenant, (generation, before)) in self.store.tenants().zip(&mut self.before) {
            if tenant.is_gone() {
                continue;
            }
            if std::mem::replace(generation, tenant.generation()) != tenant.generation() {
                *before = Totals::default();
                self.idle.iter_mut().for_each(|sensor| sensor.forget(tenant.id));
            }
            let totals = self.store.totals(tenant.id);
            let window = totals.since(before);
            *before = totals;
            rows.push(Row {
                id: tenant.id,
                claim: tenant.spec().claim.clone(),
                signal: Some(MemorySignal {
                    held: tenant.held(),
                    idle: self.idle.as_ref().map_or(Bytes::ZERO, |sensor| sensor.idle(tenant)),
                    shadow_hits: window.shadow_hits,
                    gets: window.asked(),
                    hits: window.found(),
                    expected_hits: tenant.take_expected_hits(),
                    below: TierTraffic {
                        held: tenant.held_below(),
                        hits: window.tier_hits,
                        promotions: window.promotions,
                        demotions: window.demotions,
                    },
                }),
                in_force: None,
            });
        }
        let divisible = self.store.divided();
        if self.has_private {
            self.add_private(divisible, rows);
            self.has_private = 0.0 < self.private;
        }
        self.groups.see(rows);
        Pool { capacity: Amount::memory(divisible), ..Pool::default() }
    }
}

impl Actuator for MemoryControl {
    type Share = MemoryShare;

    fn apply(
        &mut self,
        _now: Instant,
        decision: &Decision<'_, MemoryShare>,
        in_force: &mut Vec<(TenantId, MemoryShare)>,
    ) -> bool {
        let shares = decision.shares;
        in_force.clear();
        let budget = self.store.shadow_budget(u32::try_from(shares.rows().len()).unwrap_or(u32::MAX));
        let mut whole = true;
        for (id, share) in shares.rows() {
            let tenant = self.store.tenant(*id);
            if tenant.is_gone() {
                whole = false;
                continue;
            }
            tenant.set_share(*share, budget);
            // Memory is taken by the cleaner, not at once.
            whole &= !tenant.is_over_ceiling();
            in_force.push((*id, tenant.share()));
        }
        let store = &self.store;
        self.groups.divide(shares.rows(), |id, floor| {
            let tenant = store.tenant(id);
            if !tenant.is_gone() {
                tenant.set_floor(floor);
            }
        });
        if !whole {
            self.store.ceiling_hint.store(1, Ordering::Relaxed);
        }
        whole
    }
}
