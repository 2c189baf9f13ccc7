//! A tier's bandwidth as policies see it in a server: the store's counters and brakes, tenants' claims, their requests' times.
//!
//! Shape:      the store's rows + claims + latencies of the window -> rows
//! Invariants: a claim says what its operator wrote, at the prices of the tier's profile and in steps of a latency; latencies are of the window, and there are none
//!             of one that began before somebody looked at them
//! Cost:       histograms are copied only for policies that look at latencies
//! Units:      a latency is as `observe` has it: from a request's arrival to its reply, in buckets a quarter wide

use super::claim::{operation, per_sec};
use super::{Claims, TierClaim};
use crate::observe::{Latency, TenantLatency};
use crate::shared::Shared;
use control::bandwidth::{BandwidthSignal, Cost, Throttle};
use control::{Actuator, Class, Decision, Goal, Pool, Row, Sensor};
use policy::estimate::access_cost::StandardOps;
use std::collections::HashMap;
use store::{BandwidthControl, Store};
use units::{Duration, Instant, TenantId};

/// Quantile of the latency that is told of tenants without a goal, per mille.
const TAIL: f64 = 0.99;

/// What is kept between readings.
#[derive(Debug)]
pub(super) struct Thing {
    pub(super) control: BandwidthControl,
    /// What requests of each tenant had taken at the last reading.
    before: HashMap<TenantId, Latency>,
    /// This machine's number: a table that was measured on another one says nothing here.
    machine: u32,
    /// The policy looks at latencies.
    wants_latencies: bool,
}

impl Thing {
    pub(super) fn new(control: BandwidthControl, machine: u32) -> Self {
        Self { control, before: HashMap::new(), machine, wants_latencies: false }
    }

    /// Measures from `now` on.
    pub(super) fn begin(&mut self, now: Instant) {
        self.control.read(now, &mut Vec::new());
        self.before.clear();
    }

    /// Measures latencies from the next reading on, or no more. What requests took before that is of no window.
    pub(super) fn watch_latencies(&mut self, wants: bool) {
        if wants && !self.wants_latencies {
            self.before.clear();
        }
        self.wants_latencies = wants;
    }

    /// This with what it needs for one step of the loop.
    pub(super) fn around<'t>(&'t mut self, shared: &'t Shared, claims: &'t Claims) -> Around<'t> {
        Around { thing: self, shared, claims }
    }
}

/// A thing while the loop steps.
#[derive(Debug)]
pub(super) struct Around<'t> {
    thing: &'t mut Thing,
    shared: &'t Shared,
    claims: &'t Claims,
}

impl Around<'_> {
    /// Puts times of the window into the rows.
    fn add_latencies(&mut self, now: Instant, rows: &mut [Row<BandwidthSignal, Throttle>]) {
        let ids: Vec<TenantId> = rows.iter().map(|row| row.id).collect();
        let seen = self.shared.observed.latencies(&ids, now);
        for (row, seen) in rows.iter_mut().zip(seen) {
            let all = of_all(&seen);
            let before = self.thing.before.insert(row.id, all.clone());
            let (Some(before), Some(signal)) = (before, &mut row.signal) else { continue };
            let window = all.since(&before);
            signal.mean_latency = window.mean();
            signal.tail_latency = window.quantile(tail_of(&row.claim.class));
        }
        self.thing.before.retain(|id, _| ids.binary_search(id).is_ok());
    }
}

fn of_all(seen: &TenantLatency) -> Latency {
    let mut all = Latency::default();
    seen.operations().for_each(|(_, latency)| all.join(latency));
    all
}

fn tail_of(class: &Class) -> f64 {
    match class {
        Class::Critical { goal: Goal::Latency { quantile, .. } } => quantile.get(),
        _ => TAIL,
    }
}

impl Latency {
    fn mean(&self) -> Option<Duration> {
        let requests = self.requests();
        (0 < requests).then(|| Duration::from_nanos((self.sum_ns() / requests).max(1)))
    }

    fn quantile(&self, quantile: f64) -> Option<Duration> {
        self.part_us(quantile).map(Duration::from_micros)
    }
}

/// What a limit in standard operations is in time of the tier that is divided.
pub(super) fn price(store: &Store, operations: StandardOps) -> Cost {
    let (kind, size) = operation(operations);
    let tier = store.divided_tier().unwrap_or_default();
    store.access_cost_ps(tier, kind, size).map_or(Cost(u64::MAX), |one_ps| per_sec(operations, one_ps))
}

impl Sensor for Around<'_> {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<BandwidthSignal, Throttle>>) -> Pool {
        let mut pool = self.thing.control.read(now, rows);
        pool.model = self.thing.machine;
        for row in rows.iter_mut() {
            // Floors of memory are another policy's.
            row.claim.floor = control::Amount::default();
            row.claim.ceiling = None;
            let own = self.claims.get(row.id).unwrap_or(const { &TierClaim::NOTHING });
            own.put_into(&mut row.claim, |operations| price(&self.shared.store, operations));
        }
        if self.thing.wants_latencies {
            self.add_latencies(now, rows);
        }
        pool
    }
}

impl Actuator for Around<'_> {
    type Share = Throttle;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Throttle>,
        in_force: &mut Vec<(TenantId, Throttle)>,
    ) -> bool {
        self.thing.control.apply(now, decision, in_force)
    }
}

#[cfg(test)]
mod tests {
    use crate::observe::{Operation, Tally};
    use crate::shared::Shared;
    use crate::sharing::testing::two_under;
    use crate::sharing::{BandwidthKind, Speeds, TierClaim};
    use crate::testing::pass;
    use units::{Duration, TenantId};

    /// A hundred requests of a tenant that take so long.
    fn request(shared: &Shared, tenant: TenantId, took: Duration) {
        let mut tally = Tally::new(1);
        (0..100).for_each(|_| tally.count(tenant, Operation::Get, &[]));
        shared.observed.note(0, &mut tally, (tenant, took, took), shared.clock.now());
    }

    /// Tails in the newest decision.
    fn tails(shared: &Shared) -> Vec<Option<Duration>> {
        let running = shared.sharing.running();
        let record = running.pacer.journal().records().last().expect("a decision");
        record.rows.iter().map(|row| row.signal.and_then(|signal| signal.tail_latency)).collect()
    }

    #[test]
    fn a_tail_that_may_be_inside_its_goal_is_not_missed() {
        let (clock, shared, [tenant, _]) = two_under("qos");
        shared.sharing.set_claim(tenant, &"p99 500us".parse::<TierClaim>().expect("a claim"));
        shared.sharing.step(&shared);
        for (took_us, told_us, is_missed) in [(499, 512, false), (520, 640, true), (450, 512, false)] {
            request(&shared, tenant, Duration::from_micros(took_us));
            // However long the windows of a policy are.
            pass(&clock, Duration::from_secs(10));
            shared.sharing.step(&shared);
            assert_eq!(tails(&shared)[0], Some(Duration::from_micros(told_us)));
            let incident = shared.sharing.view().incident;
            assert_eq!(incident.is_some(), is_missed, "{took_us} us: {incident:?}");
        }
    }

    #[test]
    fn what_requests_took_before_somebody_looked_is_of_no_window() {
        let (clock, shared, [tenant, _]) = two_under("none");
        let to = |policy: &str| {
            let kind = BandwidthKind::of_word(policy).expect("a policy");
            shared.sharing.switch(kind, Speeds::default(), shared.clock.now()).expect("it needs no table");
        };
        let step = || {
            pass(&clock, Duration::from_secs(1));
            shared.sharing.step(&shared);
            tails(&shared)[0]
        };
        step();
        for _ in 0..2 {
            request(&shared, tenant, Duration::from_secs(1));
            assert_eq!(step(), None, "nobody looks");
            to("qos");
            assert_eq!(step(), None, "of the time before");
            request(&shared, tenant, Duration::from_micros(10));
            assert_eq!(step(), Some(Duration::from_micros(12)));
            to("none");
        }
    }
}
