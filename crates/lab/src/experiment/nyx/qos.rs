//! Figures 8 and 13: whom a missed goal costs its bandwidth, and how large an experiment must be.

use super::super::{ExperimentError, Results, Sweep};
use super::{at, cache, gb, run, small, spread};
use crate::machine::{Device, Machine, Stream, Tenant};
use control::bandwidth::Kind;
use control::{Claim, Class, Goal, Quantile};
use policy::bandwidth::{BandwidthPolicy, EXPERIMENT_STEP, Qos};
use units::{BytesPerSec, Duration, TenantId};

/// When the second best-effort cache bursts, and when the run ends, in seconds (Fig. 8).
const BURST: f64 = 12.0;
const END: f64 = 72.0;
/// The last so many seconds are the final state.
const FINAL: f64 = 20.0;

/// What a run of the setup shows.
struct Tuned {
    machine: Machine,
    lc: TenantId,
    be: [TenantId; 2],
}

fn tune(sweep: &Sweep, policy: Box<BandwidthPolicy>, seed: u64) -> Result<Tuned, ExperimentError> {
    let mut machine = Machine::new(Device::nyx(), seed);
    let quantile = Quantile::new(0.99).ok_or_else(|| ExperimentError::failed("a quantile is inside 0..1"))?;
    let goal = Goal::Latency { quantile, at_most: Duration::from_nanos(sweep.count("goal_ns")?) };
    let critical = Claim { class: Class::Critical { goal }, ..cache() };
    let lc = machine.add(Tenant::new("LC", critical, vec![Stream::closed(Kind::SlowRead, 256, 1)]));
    let reads = vec![Stream::open(Kind::SlowRead, 4096, sweep.count("be1_mb")? * 1_000_000)];
    let calm = vec![Stream::open(Kind::SlowWrite, 4096, sweep.count("be2_mb")? * 1_000_000)];
    let burst = vec![Stream::closed(Kind::SlowWrite, 4096, small(sweep, "be2_burst_threads")?)];
    let first = machine.add(Tenant::new("BE1", cache(), reads));
    let second = machine.add(Tenant::new("BE2", cache(), calm).then(at(BURST), burst));
    run(&mut machine, policy, END);
    Ok(Tuned { machine, lc, be: [first, second] })
}

impl Tuned {
    fn tail_us(&self, from: f64, to: f64) -> f64 {
        let tail = self.machine.tail_latency(self.lc, 0.99, at(from), at(to));
        tail.map_or(f64::NAN, |tail| tail.0 as f64 / 1e3)
    }

    /// What is left of the first best-effort cache's bandwidth.
    fn reader_part(&self) -> f64 {
        gb(&self.machine, self.be[0], END - FINAL, END) / gb(&self.machine, self.be[0], 2.0, BURST)
    }

    /// Seconds from the burst to the end of the last half second in which the goal was missed by more than a tenth.
    fn converged_after(&self, goal_us: f64) -> f64 {
        let halves = (0..120).map(|n| BURST + f64::from(n) / 2.0);
        let mut missed = halves.filter(|&from| goal_us * 1.1 < self.tail_us(from, from + 0.5));
        missed.next_back().map_or(0.0, |from| from + 0.5 - BURST)
    }
}

/// NyxCache, Figure 8: tuning by the biggest and by experiment.
pub(super) fn fig_8(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let goal_us = sweep.number("goal_ns")? / 1e3;
    let policies: [(&str, Box<BandwidthPolicy>); 2] = [
        ("caladan", Box::new(Qos::holding_back_the_biggest(EXPERIMENT_STEP))),
        ("nyx", Box::new(Qos::new(EXPERIMENT_STEP, sweep.seed))),
    ];
    let mut parts = Vec::new();
    for (name, policy) in policies {
        let tuned = tune(sweep, policy, sweep.seed)?;
        if name == "nyx" {
            results.number("tail_before_us", tuned.tail_us(2.0, BURST));
            results.number("tail_in_burst_us", tuned.tail_us(BURST, BURST + 0.5));
            results.number("be1_before", gb(&tuned.machine, tuned.be[0], 2.0, BURST));
        }
        results.number(format!("{name}_tail_us"), tuned.tail_us(END - FINAL, END));
        results.number(format!("{name}_be1_part"), tuned.reader_part());
        results.number(format!("{name}_converged_s"), tuned.converged_after(goal_us));
        parts.push(tuned.reader_part());
        let points: Vec<_> =
            (0..144).map(|n| f64::from(n) / 2.0).map(|s| (s, tuned.tail_us(s, s + 0.5))).collect();
        results.series("Tail of the critical cache", name, &points);
        let points: Vec<_> =
            (0..72).map(f64::from).map(|s| (s, gb(&tuned.machine, tuned.be[0], s, s + 1.0))).collect();
        results.series("Bandwidth of BE1", name, &points);
    }
    results.number("be1_ratio", parts[1] / parts[0]);
    results.axes("Tail of the critical cache", "s", "us, 99th percentile");
    results.axes("Bandwidth of BE1", "s", "GB/s");
    Ok(())
}

/// NyxCache, Figure 13: convergence and what is left of the bystander over the step of an experiment.
pub(super) fn fig_13(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let goal_us = sweep.number("goal_ns")? / 1e3;
    let runs = sweep.count("runs")?;
    let (mut times, mut parts) = (Vec::new(), Vec::new());
    for step in sweep.list("steps_mb")? {
        let (mut converged, mut reader) = (Vec::new(), Vec::new());
        for run in 0..runs {
            let seed = sweep.seed.wrapping_mul(100).wrapping_add(run);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a step of the sweep"
            )]
            let bandwidth = BytesPerSec((step * 1e6) as u64);
            let tuned = tune(sweep, Box::new(Qos::new(bandwidth, seed)), seed)?;
            converged.push(tuned.converged_after(goal_us));
            reader.push(tuned.reader_part());
        }
        results.number(format!("converged_{step}"), spread(&converged).0);
        results.number(format!("be1_part_{step}"), spread(&reader).0);
        times.push((step, spread(&converged).0));
        parts.push((step, spread(&reader).0));
    }
    results.series("Convergence", "mean of the runs", &times);
    results.series("Final part of BE1", "mean of the runs", &parts);
    Ok(())
}
