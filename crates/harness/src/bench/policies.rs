//! Policies: CPU time of one decision and of one curve fit.
//!
//! Shape:      a market of 24 to 100,000 tenants on curves of 200 steps, all of the policy around it; one decision of every
//!             other policy with 1,000 tenants; one fit to samples
//! Invariants: an odd count of repetitions per round; the first decisions, which make the tables, are not timed
//! Units:      milliseconds of this thread's CPU time
//! Source:     Spirit §6.2: within 1 s for 24 tenants, within 20 s for 1,000

use crate::in_process::thread_cpu_nanos;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::bandwidth::{BandwidthSignal, Cost, Kinds};
use control::form::FormSignal;
use control::joint::{Accesses, Joint, JointSignal, Utility};
use control::memory::MemorySignal;
use control::{
    Amount, Claim, Class, CpuQuota, Curve, Goal as Promise, Levers, Mba, Policy, Pool, Seen, Window,
};
use policy::bandwidth::{self, Axis, EmpiricalModel, Thresholds};
use policy::estimate::access_histogram::{Fitter, Method};
use policy::form;
use policy::joint::{self, Options, Symbiosis};
use policy::memory::{MemoryOptions, MemoryPolicy};
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

/// Tenants, repetitions per round, and the goal in milliseconds.
const SIZES: [(u32, u32, f64); 3] = [(24, 200, 0.5), (1_000, 20, 15.0), (100_000, 1, 1_500.0)];
/// Decisions until every table is made and every tenant bids: one curve in five is taken over per epoch.
const WARM: u32 = 10;
/// Memory and bandwidth per tenant: a sixth of Spirit's server.
const EACH: (u64, u64) = (1_789_569_706, 156_250_000);
/// Fits per round.
const FITS: u32 = 200;
/// Tenants, decisions before the clock starts, and timed decisions per round of every other policy.
const STEP_TENANTS: u32 = 1_000;
const STEP_WARM: u64 = 20;
const STEP_REPETITIONS: u64 = 20;

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("policies");
    let rounds = u32::try_from(bench.rounds).unwrap_or(1);
    for (tenants, repetitions, goal) in SIZES {
        let mut market = Market::new(tenants, bench.seed)?;
        for _ in 0..WARM {
            market.decide()?;
        }
        let mut millis = Vec::new();
        for _ in 0..rounds {
            let started = thread_cpu_nanos();
            for _ in 0..repetitions {
                market.decide()?;
            }
            millis.push((thread_cpu_nanos() - started) / 1e6 / f64::from(repetitions));
        }
        let measure = format!("symbiosis, one decision, {tenants} tenants");
        bench.add(Row { measure, unit: "ms", ours: millis, peer: None, goal: Goal::AtMost(goal) });
    }
    steps(bench)?;
    for (method, name, goal) in [
        (Method::LevenbergMarquardt, "curve fit, Levenberg-Marquardt", Goal::AtMost(1.0)),
        (Method::GradientDescent, "curve fit, gradient descent", Goal::None("-")),
    ] {
        let ours = fits(bench.seed, rounds, method)?;
        bench.add(Row { measure: name.to_owned(), unit: "ms", ours, peer: None, goal });
    }
    Ok(())
}

/// One decision of every other policy with many tenants.
fn steps(bench: &mut Bench) -> Result<(), BenchError> {
    for name in MemoryPolicy::NAMES {
        let policy = MemoryPolicy::by_name(name, MemoryOptions::default());
        step(bench, name, policy.map(|p| Box::new(p) as Box<_>), memory_signal)?;
    }
    let options =
        bandwidth::Options { model: Some(model()?), thresholds: thresholds()?, ..Default::default() };
    for name in bandwidth::NAMES {
        step(bench, name, bandwidth::by_name(name, &options), bandwidth_signal)?;
    }
    for name in joint::NAMES.into_iter().filter(|name| *name != "symbiosis") {
        step(bench, name, joint::by_name(name, Options::default()), |rng| joint_signal(0, rng).ok())?;
    }
    for name in form::NAMES {
        step(bench, name, form::by_name(name, form::Options::default(), form::Parts::MEMORY), form_signal)?;
    }
    Ok(())
}

/// Times one policy's decisions on signals that change from one to the next.
fn step<S: Clone, A: Clone>(
    bench: &mut Bench,
    name: &str,
    policy: Option<Box<dyn Policy<Signal = S, Share = A>>>,
    signal: fn(&mut Rng) -> Option<S>,
) -> Result<(), BenchError> {
    let mut policy = policy.ok_or_else(|| BenchError::Premise(format!("no policy is called {name}")))?;
    let mut rng = Rng::new(bench.seed);
    let mut rows: Vec<control::Row<S, A>> = (0..STEP_TENANTS)
        .map(|id| control::Row { id: TenantId(id), claim: any_claim(id), signal: None, in_force: None })
        .collect();
    let capacity =
        Amount { bytes: Bytes(1 << 36), bandwidth: BytesPerSec(30_000_000_000), cost: Cost::SECOND };
    let latency = Kinds::splat(Some(Duration::from_nanos(250)));
    let pool = Pool { capacity, latency, ..Pool::default() };
    let mut now = Instant::ZERO;
    let mut start = now;
    let mut millis = Vec::new();
    for turn in 0..STEP_WARM + bench.rounds * STEP_REPETITIONS {
        rows.iter_mut().for_each(|row| row.signal = signal(&mut rng));
        let window = Window { start, end: now, mixed: false };
        let seen = Seen::new(window, &pool, &rows)
            .map_err(|error| BenchError::Premise(format!("the rows are in order: {error}")))?;
        let started = thread_cpu_nanos();
        let decision = policy.decide(now, &seen);
        let taken = (thread_cpu_nanos() - started) / 1e6;
        let shares: Vec<A> = decision.shares.rows().iter().map(|(_, share)| share.clone()).collect();
        start = now;
        now += decision.wake;
        rows.iter_mut().zip(shares).for_each(|(row, share)| row.in_force = Some(share));
        if STEP_WARM <= turn {
            millis.push(taken);
        }
    }
    let measure = format!("{name}, one decision, {STEP_TENANTS} tenants");
    // `ideal` is the auction.
    let goal = Goal::AtMost(if name == "ideal" { 15.0 } else { 1.0 });
    bench.add(Row { measure, unit: "ms", ours: millis, peer: None, goal });
    Ok(())
}

/// Every third tenant is critical; all have every lever.
fn any_claim(id: u32) -> Claim {
    let levers = Levers {
        brake: Kinds { slow_read: true, slow_write: true, ..Kinds::default() },
        mba: Some(Mba::MT2),
        cpu: Some(CpuQuota { most: 4_000, least: 100 }),
    };
    let goal = Promise::Bandwidth(Kinds::splat(BytesPerSec(1_000_000)));
    let class = if id.is_multiple_of(3) { Class::Critical { goal } } else { Class::BestEffort };
    let caps = Kinds::splat(Some(BytesPerSec(20_000_000)));
    let ceiling =
        Some(Amount { bytes: Bytes(1 << 30), bandwidth: BytesPerSec(1 << 30), cost: Cost(1 << 34) });
    Claim { levers, class, caps, ceiling, ..Claim::default() }
}

fn memory_signal(rng: &mut Rng) -> Option<MemorySignal> {
    let gets = 1 + rng.below(10_000);
    let held = rng.below(1 << 26);
    let idle = Bytes(rng.below(held + 1));
    let (shadow_hits, hits) = (rng.below(3), rng.below(gets));
    Some(MemorySignal { held: Bytes(held), idle, shadow_hits, gets, hits, ..MemorySignal::default() })
}

fn bandwidth_signal(rng: &mut Rng) -> Option<BandwidthSignal> {
    let accesses = Kinds::from_fn(|_| 1 + rng.below(10_000));
    Some(BandwidthSignal {
        bytes: Kinds::from_fn(|kind| Bytes(accesses.get(kind) * 256)),
        accesses,
        cost: Cost(rng.below(1_000_000_000)),
        operations: 1 + rng.below(10_000),
        threads: 2,
        mean_latency: Some(Duration::from_nanos(500 + rng.below(500))),
        tail_latency: Some(Duration::from_nanos(1_500 + rng.below(1_500))),
        ..BandwidthSignal::default()
    })
}

fn form_signal(rng: &mut Rng) -> Option<FormSignal> {
    Some(FormSignal {
        operations: 1_000 + rng.below(1_000),
        latency: Duration::from_micros(100 + rng.below(50)),
        tail: Duration::from_micros(500 + rng.below(500)),
        latency_error: Some(0.01),
        tail_error: Some(0.05),
        compression: Some(2.0),
        held: None,
    })
}

/// A model of no competition: everybody keeps all.
fn model() -> Result<EmpiricalModel, BenchError> {
    let premise = |error: policy::bandwidth::ModelError| BenchError::Premise(error.to_string());
    let axis = || Axis::even(BytesPerSec(30_000_000_000), 4).map_err(premise);
    let axes = Kinds { dram_read: axis()?, dram_write: axis()?, slow_read: axis()?, slow_write: axis()? };
    EmpiricalModel::measured(0, axes, |wanted| wanted).map_err(premise)
}

fn thresholds() -> Result<Thresholds, BenchError> {
    Thresholds::new(Kinds::splat(Some(Duration::from_nanos(300))))
        .map_err(|error| BenchError::Premise(error.to_string()))
}

/// Tenants with curves of their own, half of them hungry for bandwidth.
struct Market {
    policy: Symbiosis,
    rows: Vec<control::Row<JointSignal, Joint>>,
    pool: Pool,
    now: Instant,
}

impl Market {
    fn new(tenants: u32, seed: u64) -> Result<Self, BenchError> {
        let mut rng = Rng::new(seed);
        let rows: Result<Vec<_>, BenchError> = (0..tenants).map(|id| row(id, &mut rng)).collect();
        let capacity = Amount {
            bytes: Bytes(EACH.0 * u64::from(tenants)),
            bandwidth: BytesPerSec(EACH.1 * u64::from(tenants)),
            ..Amount::default()
        };
        let options = Options { window: None, ..Options::default() };
        Ok(Self {
            policy: Symbiosis::new(options),
            rows: rows?,
            pool: Pool { capacity, ..Pool::default() },
            now: Instant::ZERO,
        })
    }

    /// One decision, put in force at once.
    fn decide(&mut self) -> Result<(), BenchError> {
        let start = self.now;
        self.now += Options::default().epoch;
        let window = Window { start, end: self.now, mixed: false };
        let seen = Seen::new(window, &self.pool, &self.rows)
            .map_err(|error| BenchError::Premise(format!("the rows are in order: {error}")))?;
        let decision = self.policy.decide(self.now, &seen);
        let shares: Vec<Joint> = decision.shares.rows().iter().map(|(_, share)| *share).collect();
        for (row, share) in self.rows.iter_mut().zip(shares) {
            row.in_force = Some(share);
        }
        Ok(())
    }
}

fn row(id: u32, rng: &mut Rng) -> Result<control::Row<JointSignal, Joint>, BenchError> {
    let signal = Some(joint_signal(id, rng)?);
    Ok(control::Row { id: TenantId(id), claim: Claim::default(), signal, in_force: None })
}

fn joint_signal(id: u32, rng: &mut Rng) -> Result<JointSignal, BenchError> {
    let all = (2 + rng.below(14)) << 30;
    let exponent = 0.15 + 0.8 * rng.unit();
    let point = |i: u32| (Bytes(all).scale(u64::from(i), 200), 1.0 - (f64::from(i) / 200.0).powf(exponent));
    let points: Vec<(Bytes, f64)> = (0..=200).map(point).collect();
    let curve = Curve::new(points).map_err(|error| BenchError::Premise(error.to_string()))?;
    let used = if id.is_multiple_of(2) { EACH.1 } else { EACH.1 / 2 };
    Ok(JointSignal {
        held: Bytes(EACH.0),
        bandwidth: BytesPerSec(used),
        operations: 1_000,
        utility: Some(Utility::Curve(curve)),
    })
}

/// Milliseconds per fit to 80,000 samples of 50,000 pages by Zipf's law.
fn fits(seed: u64, rounds: u32, method: Method) -> Result<Vec<f64>, BenchError> {
    const PAGES: u64 = 50_000;
    let mut rng = Rng::new(seed);
    let all: f64 = (1_u32..=50_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
    let counts = (1_u32..=50_000).map(|rank| {
        let part = f64::from(rank).powf(-0.99) / all;
        u32::try_from(rng.binomial(80_000, part)).unwrap_or(u32::MAX)
    });
    let page = Bytes(4096);
    let accesses = Accesses::new(counts.collect(), page, PAGES, Bytes(4096 * PAGES / 5), 0.3)
        .map_err(|error| BenchError::Premise(error.to_string()))?;
    let mut fitter = Fitter::default();
    let mut millis = Vec::new();
    for _ in 0..rounds {
        let started = thread_cpu_nanos();
        for _ in 0..FITS {
            fitter.fit(&accesses, method);
        }
        millis.push((thread_cpu_nanos() - started) / 1e6 / f64::from(FITS));
    }
    Ok(millis)
}
