//! Figure 9 live: two caches that slow each other at the tier, and what equal slowdown makes of them.

use super::{failed, gets, median_rates, rates, warm, workers};
use crate::live::{Awake, Cores, Here, Tenant, Work};
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

/// The two with these weights: theirs is slowdown × weight that is made equal.
fn pair(sweep: &Sweep, works: [Work; 2], weights: [f64; 2]) -> Result<Pair, ExperimentError> {
    let tenants = [("a", weights[0]), ("b", weights[1])]
        .map(|(name, weight)| Tenant { weight, ..Tenant::new(name, "") });
    let workers = workers(sweep)?;
    let here = Here::start(sweep.text("tier")?, "none", &tenants, workers).map_err(failed)?;
    let cores = Cores::divide(workers);
    let seen = slowdowns(sweep, &here, works)?;
    drop(cores);
    here.end();
    Ok(seen)
}

fn slowdowns(sweep: &Sweep, here: &Here, works: [Work; 2]) -> Result<Pair, ExperimentError> {
    let (warm_s, short, long) =
        (sweep.number("warm_s")?, sweep.number("alone_s")?, sweep.number("settle_s")?);
    let measure = || -> io::Result<Pair> {
        for work in &works {
            warm(here, work, warm_s)?;
        }
        let alone = || -> io::Result<[f64; 2]> {
            let mut rates = [0.0; 2];
            for (rate, work) in rates.iter_mut().zip(works) {
                let client = here.work(work);
                here.pass(0.2);
                *rate = median_rates(here, &[&client], short)[0];
                client.end()?;
            }
            Ok(rates)
        };
        let first = alone()?;
        let clients = works.map(|work| here.work(work));
        here.pass(0.2);
        let both = [&clients[0], &clients[1]];
        let before = median_rates(here, &both, short);
        here.switch("fair-slowdown")?;
        here.pass(long);
        // The loop steps to and fro: what is fair is the mean, as over the last half of the model's run.
        let after = rates(here, &both, long / 2.0);
        let told = ["a", "b"].map(|name| here.slowdown(name).unwrap_or(1.0));
        here.switch("none")?;
        for client in clients {
            client.end()?;
        }
        // What else the machine does changes within a minute: before and behind what it is compared with.
        let last = alone()?;
        let alone = [f64::midpoint(first[0], last[0]), f64::midpoint(first[1], last[1])];
        let of = |rates: &[f64]| [alone[0] / rates[0], alone[1] / rates[1]];
        let parts = |rates: &[f64]| rates.iter().zip(alone).map(|(rate, alone)| rate / alone).sum::<f64>();
        Ok(Pair { before: of(&before), after: of(&after), told, throughput: parts(&after) / parts(&before) })
    };
    measure().map_err(failed)
}

fn unfairness([a, b]: [f64; 2]) -> f64 {
    a.max(b) / a.min(b)
}

/// The largest of numbers.
fn worst(of: impl Iterator<Item = f64>) -> f64 {
    of.fold(0.0, f64::max)
}

/// NyxCache, Figure 9, live: a reader of small values beside readers and writers of large ones that have more and more under way.
pub(super) fn fair(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (keys, depth, most) = (sweep.count("keys")?, sweep.count("depth")?, sweep.number("fair")?);
    let clients = sweep.count("clients")?;
    let size = |name: &str| sweep.count(name).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let (small, large) = (size("small_bytes")?, size("large_bytes")?);
    let load = |tenant, size, depth: u64| Work { clients, ..gets(tenant, size, keys, depth / clients) };
    let beside = load("a", small, depth);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few requests")]
    let depths: Vec<u64> = sweep.list("depths")?.into_iter().map(|depth| depth as u64).collect();
    let _awake = Awake::start();
    let (mut before, mut after, mut kept) = (Vec::new(), Vec::new(), f64::INFINITY);
    let beside_of = |percent: u64, depth: u64| Work { gets_percent: percent, ..load("b", large, depth) };
    for (name, percent) in [("gets", 100), ("mixed", 50), ("sets", 0)] {
        let (mut said, at) = (Vec::new(), after.len());
        for depth in &depths {
            let seen = pair(sweep, [beside, beside_of(percent, *depth)], [1.0; 2])?;
            let ([a, b], [a_told, b_told]) = (seen.after, seen.told);
            said.push(format!("{depth}: {a:.2} told as {a_told:.2}, {b:.2} as {b_told:.2}"));
            before.push(unfairness(seen.before));
            after.push(unfairness(seen.after));
            kept = kept.min(seen.throughput);
        }
        results.number(format!("{name}_before"), worst(before[at..].iter().copied()));
        results.number(format!("{name}_after"), worst(after[at..].iter().copied()));
        results.note(format!("{name}_after"), said.join("; "));
    }
    // Who weighs more is slowed down less.
    let (weights, mut weighted, mut said) = ([sweep.number("weight")?, 1.0], Vec::new(), Vec::new());
    for percent in [100, 50, 0] {
        let [a, b] = pair(sweep, [beside, beside_of(percent, depth)], weights)?.after;
        weighted.push(unfairness([a * weights[0], b]));
        said.push(format!("{a:.2} and {b:.2} beside {percent} % gets"));
    }
    results.note("weighted_after", said.join("; "));
    results.number("weighted_after", worst(weighted.into_iter()));
    results.number("cases", after.len() as f64);
    results.number("fair_cases", after.iter().filter(|unfairness| **unfairness < most).count() as f64);
    results.number("worst_before", worst(before.iter().copied()));
    results.number("worst_after", worst(after.iter().copied()));
    results.number("throughput_kept", kept);
    let points =
        |of: &[f64]| of.iter().enumerate().map(|(at, of)| (at as f64 + 1.0, *of)).collect::<Vec<_>>();
    results.series("Unfairness of pairs", "before", &points(&before));
    results.series("Unfairness of pairs", "under fair-slowdown", &points(&after));
    results.axes(
        "Unfairness of pairs",
        "gets, mixed, sets; more and more under way",
        "largest slowdown ÷ smallest",
    );
    Ok(())
}
