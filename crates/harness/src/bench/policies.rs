//! Policies: CPU time of one decision and of one curve fit.
//!
//! Shape:      a market of 24 to 100,000 tenants on curves of 200 steps, all of the policy around it, one fit to samples
//! Invariants: an odd count of repetitions per round; the first decisions, which make the tables, are not timed
//! Units:      milliseconds of this thread's CPU time
//! Source:     Spirit §6.2: within 1 s for 24 tenants, within 20 s for 1,000

use crate::in_process::thread_cpu_nanos;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::joint::{Accesses, Joint, JointSignal, Utility};
use control::{Amount, Claim, Curve, Policy, Pool, Seen, Window};
use policy::estimate::access_histogram::{Fitter, Method};
use policy::joint::{Options, Symbiosis};
use units::{Bytes, BytesPerSec, Instant, Rng, TenantId};

/// Tenants, repetitions per round, and the goal in milliseconds.
const SIZES: [(u32, u32, f64); 3] = [(24, 200, 0.5), (1_000, 20, 15.0), (100_000, 1, 1_500.0)];
/// Decisions until every table is made and every tenant bids: one curve in five is taken over per epoch.
const WARM: u32 = 10;
/// Memory and bandwidth per tenant: a sixth of Spirit's server.
const EACH: (u64, u64) = (1_789_569_706, 156_250_000);
/// Fits per round.
const FITS: u32 = 200;

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
    for (method, name, goal) in [
        (Method::LevenbergMarquardt, "curve fit, Levenberg-Marquardt", Goal::AtMost(1.0)),
        (Method::GradientDescent, "curve fit, gradient descent", Goal::None("-")),
    ] {
        let ours = fits(bench.seed, rounds, method)?;
        bench.add(Row { measure: name.to_owned(), unit: "ms", ours, peer: None, goal });
    }
    Ok(())
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
    let all = (2 + rng.below(14)) << 30;
    let exponent = 0.15 + 0.8 * rng.unit();
    let point = |i: u32| (Bytes(all).scale(u64::from(i), 200), 1.0 - (f64::from(i) / 200.0).powf(exponent));
    let points: Vec<(Bytes, f64)> = (0..=200).map(point).collect();
    let curve = Curve::new(points).map_err(|error| BenchError::Premise(error.to_string()))?;
    let used = if id.is_multiple_of(2) { EACH.1 } else { EACH.1 / 2 };
    let signal = JointSignal {
        held: Bytes(EACH.0),
        bandwidth: BytesPerSec(used),
        operations: 1_000,
        utility: Some(Utility::Curve(curve)),
    };
    Ok(control::Row { id: TenantId(id), claim: Claim::default(), signal: Some(signal), in_force: None })
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
