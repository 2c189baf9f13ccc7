//! Figure 9 live: two caches that slow each other at the tier, and what equal slowdown makes of them.

use super::{failed, gets, rates, sets};
use crate::live::{Awake, Here, Tenant, Work};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// What a pair shows: slowdowns as times alone ÷ together, before and under the policy, what the policy takes them for, and throughput
/// under it relative to before.
struct Pair {
    before: [f64; 2],
    after: [f64; 2],
    told: [f64; 2],
    throughput: f64,
}

fn pair(sweep: &Sweep, works: [Work; 2]) -> Result<Pair, ExperimentError> {
    let tenants = [Tenant::new("a", ""), Tenant::new("b", "")];
    let workers = usize::try_from(sweep.count("workers")?).unwrap_or(1);
    let here = Here::start(sweep.text("tier")?, "none", &tenants, workers).map_err(failed)?;
    let seen = slowdowns(sweep, &here, works)?;
    here.end();
    Ok(seen)
}

fn slowdowns(sweep: &Sweep, here: &Here, works: [Work; 2]) -> Result<Pair, ExperimentError> {
    let (short, long) = (sweep.number("alone_s")?, sweep.number("settle_s")?);
    let measure = || -> io::Result<Pair> {
        for work in &works {
            here.fill(work)?;
        }
        let mut alone = [0.0; 2];
        for (alone, work) in alone.iter_mut().zip(works) {
            let client = here.work(work);
            here.pass(0.2);
            *alone = rates(here, &[&client], short)[0];
            client.end()?;
        }
        let clients = works.map(|work| here.work(work));
        here.pass(0.2);
        let both = [&clients[0], &clients[1]];
        let before = rates(here, &both, short);
        here.switch("fair-slowdown")?;
        here.pass(long);
        let after = rates(here, &both, short);
        let told = ["a", "b"].map(|name| here.slowdown(name).unwrap_or(1.0));
        here.switch("none")?;
        for client in clients {
            client.end()?;
        }
        let of = |rates: &[f64]| [alone[0] / rates[0], alone[1] / rates[1]];
        let parts = |rates: &[f64]| rates.iter().zip(alone).map(|(rate, alone)| rate / alone).sum::<f64>();
        Ok(Pair { before: of(&before), after: of(&after), told, throughput: parts(&after) / parts(&before) })
    };
    measure().map_err(failed)
}

fn unfairness([a, b]: [f64; 2]) -> f64 {
    a.max(b) / a.min(b)
}

/// NyxCache, Figure 9, live: a reader of small values beside readers and writers of large ones.
pub(super) fn fair(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (keys, depth) = (sweep.count("keys")?, sweep.count("depth")?);
    let size = |name: &str| sweep.count(name).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (small, large) = (size("small_bytes")?, size("large_bytes")?);
    let beside = gets("a", small, keys, depth);
    let works = [
        ("gets", [beside, gets("b", large, keys, depth)]),
        ("mixed", [beside, Work { gets_percent: 50, ..gets("b", large, keys, depth) }]),
        ("sets", [beside, sets("b", large, keys, depth)]),
    ];
    let _awake = Awake::start();
    let (mut worst_before, mut worst_after, mut throughput) = (0.0_f64, 0.0_f64, f64::INFINITY);
    for (name, works) in works {
        let seen = pair(sweep, works)?;
        results.number(format!("{name}_before"), unfairness(seen.before));
        results.number(format!("{name}_after"), unfairness(seen.after));
        results.number(format!("{name}_told"), unfairness(seen.told));
        (worst_before, worst_after) =
            (worst_before.max(unfairness(seen.before)), worst_after.max(unfairness(seen.after)));
        throughput = throughput.min(seen.throughput);
    }
    results.number("worst_before", worst_before);
    results.number("worst_after", worst_after);
    results.number("throughput_kept", throughput);
    Ok(())
}
