//! Figure 9: equal slowdown.

use super::super::{ExperimentError, Results, Sweep};
use super::{cache, kept, policy, run, small};
use crate::machine::{Device, Machine, Stream, Tenant};
use control::bandwidth::Kind;
use policy::bandwidth::Options;

/// Unregulated until here, regulated until the end, in seconds.
const FREE: f64 = 1.0;
const END: f64 = 41.0;

/// Slowdowns of a light reader and of a cache of some readers and writers: before, and in the last half.
struct Case {
    before: [f64; 2],
    after: [f64; 2],
    course: Vec<(f64, f64)>,
}

fn case(sweep: &Sweep, readers: u16, writers: u16) -> Result<Case, ExperimentError> {
    let mut machine = Machine::new(Device::nyx(), sweep.seed);
    let light = Stream::closed(Kind::SlowRead, 4096, small(sweep, "light_threads")?);
    let mut streams = Vec::new();
    for (kind, threads) in [(Kind::SlowRead, readers), (Kind::SlowWrite, writers)] {
        if 0 < threads {
            streams.push(Stream::closed(kind, 4096, threads));
        }
    }
    let ids = [
        machine.add(Tenant::new("L", cache(), vec![light])),
        machine.add(Tenant::new("B", cache(), streams)),
    ];
    machine.advance(super::at(FREE));
    let options = Options { seed: sweep.seed, ..Options::default() };
    run(&mut machine, policy("fair-slowdown", &options)?, END);
    let slowdowns = |from, to| ids.map(|id| 1.0 / kept(&machine, id, from, to));
    let course = (0..40).map(f64::from).map(|s| (s, unfairness(slowdowns(s, s + 1.0)))).collect();
    Ok(Case { before: slowdowns(0.0, FREE), after: slowdowns(END / 2.0, END), course })
}

fn unfairness(slowdowns: [f64; 2]) -> f64 {
    slowdowns[0].max(slowdowns[1]) / slowdowns[0].min(slowdowns[1])
}

/// NyxCache, Figure 9: one pair over time, and a light cache beside twelve others.
pub(super) fn fig_9(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let pair = case(sweep, small(sweep, "intensive_threads")?, 0)?;
    results.number("pair_before", unfairness(pair.before));
    results.number("pair_after", unfairness(pair.after));
    results.number("pair_slowdown", pair.after[0].max(pair.after[1]));
    results.series("Unfairness of the pair", "fair-slowdown", &pair.course);
    let (mut worst_before, mut worst_after, mut fair) = (0.0_f64, 0.0_f64, 0.0);
    for threads in sweep.list("threads")? {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "threads of the sweep")]
        let threads = threads as u16;
        for writers in [0, threads / 2, threads] {
            let case = case(sweep, threads - writers, writers)?;
            worst_before = worst_before.max(unfairness(case.before));
            worst_after = worst_after.max(unfairness(case.after));
            fair += f64::from(u8::from(unfairness(case.after) < 1.05));
        }
    }
    results.number("worst_before", worst_before);
    results.number("worst_after", worst_after);
    results.number("fair_cases", fair);
    Ok(())
}
