//! Table 5: the tail of a store that comes first, alone, beside jobs of no priority, and beside them capped.

use super::{BEGINS_S, FIRST, end, forget, load};
use crate::experiments::nyx::failed;
use crate::live::{Here, Tenant, Times, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Jobs that read and write what the tier holds, as a graph computation does.
const JOBS: [&str; 2] = ["graph1", "graph2"];
/// The store.
const STORE: &str = "ycsb";

/// Tails of look-ups and of updates, in µs.
fn tails(times: &Times) -> [(&'static str, f64); 2] {
    [("read", times.gets.quantile_us(0.95)), ("update", times.stores.quantile_us(0.95))]
}

fn timed(here: &Here, store: &Working, seconds: f64) -> Times {
    forget(store);
    here.pass(seconds);
    store.take_times()
}

/// What a tenant did at the tier over some seconds, in bytes per second by kind: reads and writes.
fn traffic(here: &Here, name: &str, seconds: f64) -> io::Result<[f64; 2]> {
    let decided = here.decisions_total();
    here.pass(seconds);
    let windows = here.used(name, here.decided_since(decided)?);
    let secs: f64 = windows.iter().map(|window| window.secs).sum();
    if secs <= 0.0 {
        return Err(io::Error::other("no decision is about it"));
    }
    let of = |bytes: fn(&crate::live::Used) -> f64| windows.iter().map(bytes).sum::<f64>() / secs;
    Ok([of(|window| window.bytes.slow_read), of(|window| window.bytes.slow_write)])
}

/// MT², Table 5.
pub(super) fn tails_of_first(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let tenants = [Tenant::new(STORE, FIRST), Tenant::new(JOBS[0], ""), Tenant::new(JOBS[1], "")];
    let here = Here::start(sweep.text("tier")?, "prevention", &tenants, 2).map_err(failed)?;
    let store = load(sweep, STORE)?;
    let jobs: [Work; 2] = [load(sweep, JOBS[0])?, load(sweep, JOBS[1])?];
    let (settle_s, measure_s, left) =
        (sweep.number("settle_s")?, sweep.number("measure_s")?, sweep.number("left_part")?);
    let mut run = || -> io::Result<()> {
        for work in std::iter::once(&store).chain(&jobs) {
            here.fill(work)?;
        }
        let first = here.work(store);
        here.pass(BEGINS_S);
        let alone = timed(&here, &first, measure_s);
        let clients = jobs.map(|work| here.work(work));
        here.pass(BEGINS_S);
        let free = [traffic(&here, JOBS[0], settle_s)?, traffic(&here, JOBS[1], settle_s)?];
        let without = timed(&here, &first, measure_s);
        for (name, [reads, writes]) in JOBS.iter().zip(free) {
            let cap = |rate: f64| format!("{:.0}B/s", (rate * left).max(1.0));
            here.claim(name, &format!("cap reads {}; cap writes {}", cap(reads), cap(writes)))?;
        }
        here.pass(settle_s);
        let with = timed(&here, &first, measure_s);
        let kept = [traffic(&here, JOBS[0], settle_s)?, traffic(&here, JOBS[1], settle_s)?];
        here.switch("none")?;
        end(clients)?;
        first.end()?;
        for (when, times) in [("without", &without), ("with", &with)] {
            for ((name, tail), (_, alone)) in tails(times).into_iter().zip(tails(&alone)) {
                results.number(format!("ycsb_{name}_{when}"), tail / alone);
            }
        }
        for (name, tail) in tails(&alone) {
            results.number(format!("ycsb_{name}_alone_us"), tail);
        }
        let sum = |all: &[[f64; 2]; 2]| all.iter().flatten().sum::<f64>();
        results.number("jobs_kept", sum(&kept) / sum(&free));
        Ok(())
    };
    run().map_err(failed)?;
    here.end();
    for program in ["img_dnn", "masstree"] {
        let why = "a program of TailBench is a process of its own, and no tenant of a cache";
        results.not_applicable(format!("{program}_without"), why);
        results.not_applicable(format!("{program}_with"), why);
    }
    Ok(())
}
