//! A modelled host whose tenants swap over a link: memory near, the rest of every working set far.
//!
//! Shape:      programs (threads, think time, miss ratio curve) and shares -> operations, bytes over the link, latencies
//! Invariants: deterministic from its seed; time only grows; no tenant's bandwidth passes its share in the mean; constants
//!             are frozen by a test, which was written after policies had run
//! Units:      virtual nanoseconds, in steps of a second
//! Cost:       O(tenants) per step
//! Source:     Spirit §6 for sizes and rates. The mechanism is our own, and none of it is the formula by which policies
//!             predict slowdowns: threads think, miss, pay for the fault and for the queue at the shared link, and a token
//!             bucket cuts what their fluctuating demand has beyond the share. How memory helps a program (its curve) and
//!             how much it thinks are inputs, chosen so that the applications of Spirit Fig 1 come out; agreement of gains
//!             with the paper is therefore circular, the order of policies, what doubling the memory does and how long
//!             adapting takes are not.
//! Non-goals:  read-ahead; page tables; who evicts which page (the curve has it)
//!
//! What is assumed: 1. evicting writes back `DIRTY` of the bytes within the tenant's own bandwidth; 2. memory gained fills
//! with what is missed; 3. tenants feel each other only through the queue at the link; 4. latencies of one operation add up
//! to a normal distribution (its 99th percentile is reported as that of this distribution).

use control::joint::{Accesses, Joint, JointSignal, Table, TableError, Utility};
use control::{Actuator, Amount, Claim, Curve, Decision, Loop, Policy, Pool, Row, Sensor};
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

/// What is fetched at once (Spirit §5.1: page granularity).
pub const PAGE: Bytes = Bytes(4096);
/// Time of a miss without any queue: 5 µs over the network (Spirit §6) and the kernel's fault path. 20 µs of it is a
/// guess, no other was tried.
pub(super) const FAULT: f64 = 25e-6;
/// The link itself is faster than what swapping gets out of it (Spirit §6: native swap saturates at 7.5 Gbps). A guess.
pub(super) const LINK_FASTER: f64 = 1.25;
/// Standard deviation of a second's demand, relative. A guess; no other was tried.
pub(super) const FLUCTUATION: f64 = 0.15;
/// Part of evicted pages that must be written back. A guess.
pub(super) const DIRTY: f64 = 0.5;
/// Evicting may take so much of the tenant's bandwidth.
pub(super) const EVICTION_PART: f64 = 0.5;
/// The window that noise is stated for: an epoch of Spirit §6.2.
pub(super) const NOISE_SECONDS: f64 = 30.0;
/// Length of a step.
pub(super) const STEP: Duration = Duration::from_secs(1);
/// Points of a measured curve (released code: 256 MiB apart up to 16 GiB).
pub(super) const CURVE_POINTS: u64 = 64;
/// Groups of pages that samples tell apart.
pub(super) const GROUPS: u64 = 2_000;
/// Accesses that are sampled.
pub(super) const SAMPLES: f64 = 40_000.0;
/// The 99th percentile of a normal distribution, in standard deviations.
pub(super) const P99: f64 = 2.326;

/// What a tenant runs.
#[derive(Clone, Debug)]
pub struct Program {
    /// Threads that each do one access after the other.
    pub threads: u32,
    /// Time that a thread computes between accesses.
    pub think: Duration,
    /// Miss ratio of page accesses by memory.
    pub curve: Curve,
    /// Accesses per operation.
    pub accesses: f64,
}

/// A tenant, and what it runs from when on.
#[derive(Clone, Debug)]
pub struct SwapTenant {
    /// What it was promised.
    pub claim: Claim,
    /// Programs by the time they start; the first runs from the beginning.
    pub phases: Vec<(Instant, Program)>,
}

/// What policies are told of a tenant's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Told {
    /// Its curve, measured with noise.
    #[default]
    Curve,
    /// Samples of its accesses, one in 25, over a window.
    Accesses,
    /// Nothing.
    Nothing,
}

/// How noisy the signals of a window of `NOISE_SECONDS` are; of shorter ones more, by the root.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Noise {
    /// Relative standard deviation of counts.
    pub counts: f64,
    /// Relative standard deviation of the points of a curve.
    pub curve: f64,
}

/// The modelled host.
#[derive(Debug)]
pub struct SwapHost {
    pool: Joint,
    tenants: Vec<Live>,
    now: Instant,
    read_at: Instant,
    noise: Noise,
    told: Told,
    rng: Rng,
    /// Part of the link in use.
    busy: f64,
}

#[derive(Debug)]
struct Live {
    id: TenantId,
    tenant: SwapTenant,
    share: Joint,
    /// Memory that it really holds, in bytes.
    held: f64,
    operations: f64,
    fetched: f64,
    /// Operations per second and shares, step by step.
    history: Vec<(Instant, f64, Joint)>,
}

impl SwapHost {
    /// A host with tenants that know nothing of each other; ids count from 1.
    #[must_use]
    pub fn new(pool: Joint, tenants: Vec<SwapTenant>, noise: Noise, told: Told, seed: u64) -> Self {
        let count = tenants.len().max(1) as u64;
        let share =
            Joint { bytes: Bytes(pool.bytes.0 / count), bandwidth: BytesPerSec(pool.bandwidth.0 / count) };
        let live = |(id, tenant): (u32, SwapTenant)| Live {
            id: TenantId(id),
            tenant,
            share,
            held: share.bytes.0 as f64,
            operations: 0.0,
            fetched: 0.0,
            history: Vec::new(),
        };
        Self {
            pool,
            tenants: (1..).zip(tenants).map(live).collect(),
            now: Instant::ZERO,
            read_at: Instant::ZERO,
            noise,
            told,
            rng: Rng::new(seed),
            busy: 0.5,
        }
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets virtual time pass, in whole steps.
    pub fn advance(&mut self, until: Instant) {
        while self.now < until {
            let mut used = 0.0;
            let (queue, now) = (self.queue(), self.now);
            for live in &mut self.tenants {
                used += live.pass(now, queue);
            }
            self.busy = used / (self.pool.bandwidth.0 as f64 * LINK_FASTER);
            self.now += STEP;
        }
    }

    /// Steps `pacer` whenever it wakes until `until`.
    pub fn drive<P>(&mut self, pacer: &mut Loop<P>, until: Instant)
    where
        P: Policy<Signal = JointSignal, Share = Joint>,
    {
        while self.now < until {
            if pacer.wake_at() <= self.now {
                pacer.step(self.now, self);
            }
            let next =
                Instant(pacer.wake_at().0.clamp(self.now.0 + STEP.0, until.0.max(self.now.0 + STEP.0)));
            self.advance(next);
        }
    }

    /// Mean operations per second of a tenant between two times; none if no step lies between.
    #[must_use]
    pub fn mean_rate(&self, id: TenantId, from: Instant, to: Instant) -> Option<f64> {
        let live = self.tenants.iter().find(|live| live.id == id)?;
        let inside = live.history.iter().filter(|(at, ..)| from <= *at && *at < to);
        let (count, sum) = inside.fold((0_u32, 0.0), |(count, sum), (_, rate, _)| (count + 1, sum + rate));
        (0 < count).then(|| sum / f64::from(count))
    }

    /// The shares of a tenant, step by step.
    pub fn shares(&self, id: TenantId) -> impl Iterator<Item = (Instant, Joint)> {
        let live = self.tenants.iter().filter(move |live| live.id == id);
        live.flat_map(|live| live.history.iter().map(|(at, _, share)| (*at, *share)))
    }

    /// What would really happen to a tenant with `share` for good, the link as busy as now.
    #[must_use]
    pub fn truth(&self, id: TenantId, share: Joint) -> Option<Pace> {
        let live = self.tenants.iter().find(|live| live.id == id)?;
        let program = live.program(self.now);
        Some(program.pace(share.bytes.0 as f64, share.bandwidth.0 as f64, self.queue()))
    }

    /// The true speeds of a tenant as a profile with `points` along each side.
    ///
    /// # Errors
    /// If there is no such tenant or no pool to profile.
    pub fn profile(&self, id: TenantId, points: usize) -> Result<Table, TableError> {
        let part = |whole: u64, i: usize| whole as f64 * (i as f64 / (points.max(2) - 1) as f64);
        let program = self.tenants.iter().find(|live| live.id == id).map(|live| live.program(self.now));
        let program = program.ok_or(TableError::NoRange)?;
        let mut speeds: Vec<f32> = Vec::with_capacity(points * points);
        for i in 0..points * points {
            let (bytes, bandwidth) =
                (part(self.pool.bytes.0, i / points), part(self.pool.bandwidth.0, i % points));
            #[expect(clippy::cast_possible_truncation, reason = "a profile holds 32 bits")]
            let speed = program.pace(bytes, bandwidth, self.queue()).operations as f32;
            // More of either never slows down; rounding to 32 bits must not either.
            let left = if i % points == 0 { 0.0 } else { speeds[i - 1] };
            let below = if i < points { 0.0 } else { speeds[i - points] };
            speeds.push(speed.max(left).max(below));
        }
        Table::new(self.pool, points, points, speeds)
    }

    /// Waiting time at the link: as at a single server with equal service times.
    fn queue(&self) -> f64 {
        let service = PAGE.0 as f64 / (self.pool.bandwidth.0 as f64 * LINK_FASTER);
        let busy = self.busy.clamp(0.0, 0.98);
        service + service * busy / (2.0 * (1.0 - busy))
    }

    /// A number near one.
    fn noisy(&mut self, deviation: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0;
        (1.0 + deviation * normal).max(0.0)
    }

    fn told_of(&mut self, at: usize, shorter: f64) -> Option<Utility> {
        let curve = self.tenants[at].program(self.now).curve.clone();
        let last = curve.points().last().map_or(0, |(size, _)| size.0);
        match self.told {
            Told::Nothing => None,
            Told::Curve => {
                let deviation = self.noise.curve * shorter;
                let points = (0..=CURVE_POINTS).map(|i| {
                    let size = Bytes(last).scale(i, CURVE_POINTS);
                    (size, (curve.miss_ratio(size) * self.noisy(deviation)).min(1.0))
                });
                let points: Vec<(Bytes, f64)> = points.collect();
                Curve::smoothed(points).ok().map(Utility::Curve)
            }
            Told::Accesses => self.sample(at, &curve, last),
        }
    }

    /// Samples one in 25 of the accesses of a second to 2,000 groups of pages, as popular as the curve says.
    fn sample(&mut self, at: usize, curve: &Curve, last: u64) -> Option<Utility> {
        let held = Bytes(whole(self.tenants[at].held));
        let counts = (0..GROUPS).map(|i| {
            let (low, high) = (Bytes(last).scale(i, GROUPS), Bytes(last).scale(i + 1, GROUPS));
            let mean = SAMPLES * (curve.miss_ratio(low) - curve.miss_ratio(high)).max(0.0);
            let deviation = mean.sqrt() / mean.max(1e-9);
            u32::try_from(whole(mean * self.noisy(deviation) + 0.5)).unwrap_or(u32::MAX)
        });
        let counts: Vec<u32> = counts.collect();
        let miss_ratio = (curve.miss_ratio(held) * self.noisy(self.noise.curve)).min(1.0);
        let page = Bytes((last / GROUPS).max(1));
        Accesses::new(counts, page, GROUPS, held, miss_ratio).ok().map(Utility::Accesses)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a size, not negative"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

/// How fast a program runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Operations per second.
    pub operations: f64,
    /// Bytes per second over the link.
    pub fetched: f64,
    /// The 99th percentile of an operation's latency.
    pub p99: Duration,
}

impl Program {
    /// How fast it runs with so much memory and bandwidth while a miss waits `queue` at the link.
    fn pace(&self, bytes: f64, bandwidth: f64, queue: f64) -> Pace {
        let misses = self.curve.miss_ratio(Bytes(whole(bytes)));
        let think = self.think.as_secs_f64();
        let miss = FAULT + queue;
        let page = PAGE.0 as f64;
        // What the threads would do if the bucket were never empty.
        let free = f64::from(self.threads) / (think + misses * miss);
        let wanted = free * misses * page;
        let fetched = least_of_fluctuating(wanted, bandwidth);
        let accesses = if 0.0 < wanted { free * fetched / wanted } else { free };
        // What the bucket adds to the time of each miss.
        let access = f64::from(self.threads) / accesses.max(1e-9);
        let slow_miss = if 0.0 < misses { (access - think) / misses } else { 0.0 };
        let variance = misses * 2.0 * slow_miss * slow_miss - (misses * slow_miss).powi(2);
        let p99 = self.accesses * access + P99 * (self.accesses * variance.max(0.0)).sqrt();
        Pace { operations: accesses / self.accesses, fetched, p99: Duration(whole(p99 * 1e9)) }
    }
}

/// The mean of the smaller of a normally fluctuating demand with mean `wanted` and of `limit`.
fn least_of_fluctuating(wanted: f64, limit: f64) -> f64 {
    let deviation = FLUCTUATION * wanted;
    if deviation <= 0.0 || limit <= 0.0 {
        return wanted.min(limit).max(0.0);
    }
    let z = (limit - wanted) / deviation;
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // Φ by the logistic approximation of Bowling et al. 2009: off by .00014 at most.
    let below = 1.0 / (1.0 + (-0.07056 * z.powi(3) - 1.5976 * z).exp());
    (wanted * below + limit * (1.0 - below) - deviation * density).clamp(0.0, limit.min(wanted))
}

impl Live {
    fn program(&self, now: Instant) -> &Program {
        let phases = &self.tenant.phases;
        let started = phases.iter().rev().find(|(start, _)| *start <= now);
        &started.unwrap_or(&phases[0]).1
    }

    /// One step; returns the bytes per second over the link.
    fn pass(&mut self, now: Instant, queue: f64) -> f64 {
        let seconds = STEP.as_secs_f64();
        let (target, bandwidth) = (self.share.bytes.0 as f64, self.share.bandwidth.0 as f64);
        let evicted = (self.held - target).clamp(0.0, EVICTION_PART * bandwidth * seconds / DIRTY);
        let pace = self.program(now).pace(self.held, bandwidth - evicted * DIRTY / seconds, queue);
        self.held = if self.held < target {
            (self.held + pace.fetched * seconds).min(target)
        } else {
            self.held - evicted
        };
        self.operations += pace.operations * seconds;
        self.fetched += pace.fetched * seconds;
        self.history.push((now, pace.operations, self.share));
        pace.fetched + evicted * DIRTY / seconds
    }
}

impl Sensor for SwapHost {
    type Signal = JointSignal;
    type Share = Joint;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<JointSignal, Joint>>) -> Pool {
        let seconds = now.since(self.read_at).as_secs_f64();
        self.read_at = now;
        // What is sampled for longer is less noisy.
        let shorter = (NOISE_SECONDS / seconds.max(1.0)).sqrt();
        for at in 0..self.tenants.len() {
            let counts = self.noise.counts * shorter;
            let (counts, bytes) = (self.noisy(counts), self.noisy(counts));
            let utility = self.told_of(at, shorter);
            let live = &mut self.tenants[at];
            let rate = if 0.0 < seconds { live.fetched / seconds } else { 0.0 };
            let signal = JointSignal {
                held: Bytes(whole(live.held)),
                bandwidth: BytesPerSec(whole(rate * bytes)).min(live.share.bandwidth),
                operations: whole(live.operations * counts),
                utility,
            };
            (live.operations, live.fetched) = (0.0, 0.0);
            let signal = (0.0 < seconds).then_some(signal);
            rows.push(Row { id: live.id, claim: live.tenant.claim.clone(), signal, in_force: None });
        }
        let capacity = Amount { bytes: self.pool.bytes, bandwidth: self.pool.bandwidth, ..Amount::default() };
        Pool { capacity, ..Pool::default() }
    }
}

impl Actuator for SwapHost {
    type Share = Joint;

    fn apply(
        &mut self,
        _now: Instant,
        decision: &Decision<'_, Joint>,
        in_force: &mut Vec<(TenantId, Joint)>,
    ) -> bool {
        in_force.clear();
        for live in &mut self.tenants {
            if let Some(share) = decision.shares.get(live.id) {
                live.share = *share;
            }
            in_force.push((live.id, live.share));
        }
        true
    }
}
