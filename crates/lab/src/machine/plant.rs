//! The modelled machine: tenants on a memory system in virtual time.
//!
//! Shape:      steady states one after the other; what changes the state is an event: a phase, a burst, a budget that runs
//!             out or starts again, a throttle that comes into force late, a lease that lapses, a death
//! Invariants: the same seed and the same calls give the same bytes; time only grows; between events nothing changes
//! Units:      virtual nanoseconds
//! Failure:    the faults that are switched on, and no others

use super::budget::Spending;
use super::device::Device;
use super::faults::Faults;
use super::history::{History, Steady};
use super::latency::Mixture;
use super::model::{Asked, Model};
use super::tenant::{Stream, Tenant};
use control::bandwidth::{BandwidthSignal, Kinds, Throttle};
use control::{Claim, Lease};
use std::collections::BTreeMap;
use units::{Duration, Instant, Rng, TenantId, mix64};

/// A machine with tenants. It is sensor and actuator of a bandwidth loop.
#[derive(Debug)]
pub struct Machine {
    pub(super) model: Model,
    pub(super) faults: Faults,
    pub(super) now: Instant,
    /// Who is there, in the order of ids.
    pub(super) live: Vec<Live>,
    /// How each of them runs, as long as nothing changes.
    pub(super) steady: Vec<Steady>,
    /// False once something changed since the latest solution.
    settled: bool,
    pub(super) histories: BTreeMap<TenantId, History>,
    next_id: u32,
    seed: u64,
    pub(super) noise: Rng,
    pub(super) chance: Rng,
    pub(super) lease: Lease<Throttle>,
    pub(super) lease_end: Option<Instant>,
    /// Throttles on their way, in the order of time.
    pub(super) late: Vec<(Instant, TenantId, Throttle)>,
    /// Latency of the medium × seconds since the last reading.
    pub(super) medium: Kinds<f64>,
    pub(super) read_at: Instant,
}

/// A tenant that is there.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: TenantId,
    pub(super) tenant: Tenant,
    next_phase: usize,
    /// Streams of the present phase.
    pub(super) streams: Vec<Stream>,
    on: Vec<bool>,
    /// When each stream's burst or pause ends.
    turn_at: Vec<Option<Instant>>,
    rng: Rng,
    pub(super) throttle: Throttle,
    spending: Option<Spending>,
    pub(super) window: Counts,
    pub(super) previous: Option<BandwidthSignal>,
}

/// What a tenant's traffic amounts to since the last reading.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) bytes: Kinds<f64>,
    pub(super) accesses: Kinds<f64>,
    pub(super) cost_ps: Kinds<f64>,
    pub(super) latencies: Mixture,
    pub(super) depleted_at: Option<Instant>,
}

impl Machine {
    /// An empty machine without faults.
    #[must_use]
    pub fn new(device: Device, seed: u64) -> Self {
        Self {
            model: Model::new(device),
            faults: Faults::NONE,
            now: Instant::ZERO,
            live: Vec::new(),
            steady: Vec::new(),
            settled: false,
            histories: BTreeMap::new(),
            next_id: 1,
            seed,
            noise: Rng::new(mix64(seed ^ 1)),
            chance: Rng::new(mix64(seed ^ 2)),
            lease: Lease::default(),
            lease_end: None,
            late: Vec::new(),
            medium: Kinds::default(),
            read_at: Instant::ZERO,
        }
    }

    /// The same machine with faults from now on.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.set_faults(faults);
        self
    }

    /// Switches faults: on, off, or others.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Its memory system.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.model.device
    }

    /// Who is there, in the order of ids.
    pub fn tenants(&self) -> impl Iterator<Item = (TenantId, &Tenant)> {
        self.live.iter().map(|live| (live.id, &live.tenant))
    }

    /// A tenant arrives now; ids count from 1 in the order of arrival.
    pub fn add(&mut self, tenant: Tenant) -> TenantId {
        let id = TenantId(self.next_id);
        self.next_id += 1;
        let streams = tenant.streams.clone();
        let mut live = Live {
            id,
            tenant,
            next_phase: 0,
            streams: Vec::new(),
            on: Vec::new(),
            turn_at: Vec::new(),
            rng: Rng::new(mix64(self.seed) ^ mix64(u64::from(id.0))),
            throttle: Throttle::FREE,
            spending: None,
            window: Counts::default(),
            previous: None,
        };
        live.start(streams, self.now);
        live.phase(self.now);
        self.live.push(live);
        self.histories.insert(id, History::default());
        self.settled = false;
        id
    }

    /// A tenant leaves now, if it is there. What happened to it stays known.
    pub fn remove(&mut self, id: TenantId) {
        self.live.retain(|live| live.id != id);
        self.late.retain(|(_, of, _)| *of != id);
        self.settled = false;
    }

    /// A tenant does something else from now on; phases still to come replace this in turn.
    pub fn set_streams(&mut self, id: TenantId, streams: Vec<Stream>) {
        let now = self.now;
        if let Some(live) = self.live_mut(id) {
            live.start(streams, now);
        }
        self.settled = false;
    }

    /// The operator changes what a tenant was promised.
    pub fn set_claim(&mut self, id: TenantId, claim: Claim) {
        if let Some(live) = self.live_mut(id) {
            live.tenant.claim = claim;
        }
    }

    /// What holds a tenant back now; none if it is not there.
    #[must_use]
    pub fn throttle(&self, id: TenantId) -> Option<Throttle> {
        self.at(id).map(|at| self.live[at].throttle)
    }

    /// Puts a throttle in force at once, without a policy: for experiments that set levers themselves.
    pub fn set_throttle(&mut self, id: TenantId, throttle: Throttle) {
        let now = self.now;
        if let Some(live) = self.live_mut(id) {
            live.hold(throttle, now);
        }
        self.settled = false;
    }

    /// Lets virtual time pass; what falls due at `until` has happened when this returns.
    pub fn advance(&mut self, until: Instant) {
        self.happen();
        while self.now < until {
            self.settle();
            let next = self.next_event().clamp(self.now, until);
            self.pass(next);
            self.happen();
        }
    }

    pub(super) fn at(&self, id: TenantId) -> Option<usize> {
        self.live.binary_search_by_key(&id, |live| live.id).ok()
    }

    fn live_mut(&mut self, id: TenantId) -> Option<&mut Live> {
        let at = self.at(id)?;
        self.live.get_mut(at)
    }

    /// Brings the steady state up to date.
    pub(super) fn settle(&mut self) {
        if !self.settled {
            self.model.solve(self.live.iter().map(Live::asked), &mut self.steady);
            self.settled = true;
        }
    }

    /// When the state changes next.
    fn next_event(&self) -> Instant {
        let of_tenants = self.live.iter().zip(&self.steady).filter_map(|(live, steady)| {
            let spending = live
                .spending
                .map(|spending| spending.next(self.now, steady.cost_total() * 1e3, self.faults.budget_tick));
            let phase = live.tenant.phases.get(live.next_phase).map(|phase| phase.at);
            let turn = live.turn_at.iter().flatten().min().copied();
            [spending, phase, turn].into_iter().flatten().min()
        });
        let late = self.late.first().map(|(at, ..)| *at);
        let deaths = self.faults.deaths.iter().map(|(at, _)| *at).filter(|at| self.now < *at);
        of_tenants.chain(late).chain(self.lease_end).chain(deaths).min().unwrap_or(Instant(u64::MAX))
    }

    /// Lets time pass in which nothing changes.
    fn pass(&mut self, until: Instant) {
        let secs = until.since(self.now).as_secs_f64();
        if 0.0 < secs {
            for (live, steady) in self.live.iter_mut().zip(&self.steady) {
                live.count(steady, secs);
                if let Some(history) = self.histories.get_mut(&live.id) {
                    history.push(self.now, until, steady);
                }
            }
            let medium = self.model.medium_ns();
            self.medium = Kinds::from_fn(|kind| self.medium.get(kind) + medium.get(kind) * secs);
        }
        self.now = until;
    }

    /// Everything that falls due now.
    fn happen(&mut self) {
        let now = self.now;
        let dead = |id: TenantId| self.faults.deaths.iter().any(|(at, of)| *of == id && *at <= now);
        let before = self.live.len();
        self.live.retain(|live| !dead(live.id));
        let mut changed = self.live.len() < before;
        for live in &mut self.live {
            changed |= live.phase(now) | live.turn(now) | live.spend_or_restart(now, self.faults.budget_tick);
        }
        while self.late.first().is_some_and(|(at, ..)| *at <= now) {
            let (_, id, throttle) = self.late.remove(0);
            if let Some(live) = self.live_mut(id) {
                live.hold(throttle, now);
                changed = true;
            }
        }
        changed |= self.lapse();
        self.settled &= !changed;
    }

    /// Returns to the last steady throttles once nobody has renewed the lease in time.
    fn lapse(&mut self) -> bool {
        let now = self.now;
        if self.lease_end.take_if(|end| *end <= now).is_none() {
            return false;
        }
        let Some(steady) = self.lease.lapsed(now) else { return false };
        for live in &mut self.live {
            let at = steady.binary_search_by_key(&live.id, |(id, _)| *id);
            live.hold(at.map_or(Throttle::FREE, |at| steady[at].1), now);
        }
        self.late.clear();
        true
    }
}

impl Live {
    pub(super) fn asked(&self) -> Asked<'_> {
        Asked {
            id: self.id,
            streams: &self.streams,
            on: &self.on,
            throttle: self.throttle,
            depleted: self.spending.is_some_and(|spending| spending.depleted),
        }
    }

    /// Starts `streams`; those with bursts start inside one.
    fn start(&mut self, streams: Vec<Stream>, now: Instant) {
        self.on = vec![true; streams.len()];
        let rng = &mut self.rng;
        let turn = |stream: &Stream| stream.load.turns().map(|(on, _)| now + exponential(rng, on));
        self.turn_at = streams.iter().map(turn).collect();
        self.streams = streams;
    }

    /// The phases that have come; says whether one has.
    fn phase(&mut self, now: Instant) -> bool {
        let mut came = false;
        while let Some(phase) = self.tenant.phases.get(self.next_phase).filter(|phase| phase.at <= now) {
            let streams = phase.streams.clone();
            self.next_phase += 1;
            self.start(streams, now);
            came = true;
        }
        came
    }

    /// The bursts that have ended or begun; says whether one has.
    fn turn(&mut self, now: Instant) -> bool {
        let mut turned = false;
        for ((stream, on), at) in self.streams.iter().zip(&mut self.on).zip(&mut self.turn_at) {
            let Some((busy, idle)) = stream.load.turns() else { continue };
            while let Some(due) = at.filter(|due| *due <= now) {
                *on = !*on;
                *at = Some(due + exponential(&mut self.rng, if *on { busy } else { idle }));
                turned = true;
            }
        }
        turned
    }

    /// What its budget does now; says whether that changes anything.
    fn spend_or_restart(&mut self, now: Instant, tick: Duration) -> bool {
        let Some(spending) = &mut self.spending else { return false };
        let changed = spending.happen(now, tick);
        if changed && spending.depleted {
            self.window.depleted_at.get_or_insert(now);
        }
        changed
    }

    /// Puts a throttle in force.
    pub(super) fn hold(&mut self, throttle: Throttle, now: Instant) {
        self.spending = throttle.budget.map(|budget| Spending::enforce(self.spending, budget, now));
        self.throttle = throttle;
    }

    fn count(&mut self, steady: &Steady, secs: f64) {
        let add = |sum: &Kinds<f64>, rate: &Kinds<f64>, scale: f64| {
            Kinds::from_fn(|kind| sum.get(kind) + rate.get(kind) * scale)
        };
        let window = &mut self.window;
        window.bytes = add(&window.bytes, &steady.bytes_per_sec, secs);
        window.accesses = add(&window.accesses, &steady.accesses_per_sec, secs);
        window.cost_ps = add(&window.cost_ps, &steady.cost, secs * 1e12);
        steady.add_to(&mut window.latencies, secs);
        if let Some(spending) = &mut self.spending {
            spending.spend(steady.cost_total() * secs * 1e12);
        }
    }
}

/// An exponentially distributed length with mean `mean`, at least 1 ns so that time goes on.
fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    let ns = -(1.0 - rng.unit()).ln() * mean.0 as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; not below zero")]
    let ns = ns as u64;
    Duration(ns.max(1))
}
