//! Noisy neighbours held back: pairs of jobs, a store beside them, limits that change, four jobs beside one store.
//!
//! Source: MT² Fig. 5, Fig. 7, Fig. 8, Table 6

use super::plant::{cap_gb, critical, job, name_of, paced_threads, tenant};
use super::{at, both, run, thresholds};
use crate::experiment::{ExperimentError, Results, Sweep};
use crate::machine::{Device, Faults, Machine, Tenant};
use control::bandwidth::{Kind, Kinds};
use control::{Claim, Class};
use units::{Duration, TenantId};

/// Seconds of one point of a curve.
const STEP: Duration = Duration::from_millis(100);

/// A store with its data on the slow tier and its buffers in DRAM: `threads` of requests, each of which computes.
pub(super) fn store(sweep: &Sweep) -> Result<Tenant, ExperimentError> {
    Ok(mixed("ycsb", critical(), &rates(sweep, "store")?))
}

/// A graph computation: reads and writes of both memories.
pub(super) fn graph(sweep: &Sweep) -> Result<Tenant, ExperimentError> {
    Ok(mixed("graph", Class::BestEffort, &rates(sweep, "graph")?))
}

/// Threads and GB/s alone of each kind, from the sweep's table `of`.
fn rates(sweep: &Sweep, of: &str) -> Result<Kinds<(u16, f64)>, ExperimentError> {
    let mut found = Kinds::splat((0, 0.0));
    for kind in Kind::ALL {
        let name = name_of(kind);
        let threads = sweep.count(&format!("{of}.{name}_threads"))?;
        let threads = u16::try_from(threads).map_err(ExperimentError::failed)?;
        *found.get_mut(kind) = (threads, sweep.number(&format!("{of}.{name}_gb"))?);
    }
    Ok(found)
}

fn mixed(name: &str, class: Class, rates: &Kinds<(u16, f64)>) -> Tenant {
    let used = rates.iter().filter(|(_, (threads, _))| 0 < *threads);
    let streams = used.map(|(kind, (threads, gb))| paced_threads(kind, *threads, gb * 1e9)).collect();
    let threads = rates.iter().map(|(_, (threads, _))| threads).sum();
    tenant(name, class, threads, streams)
}

/// Part of a tenant's operations alone that it kept over some seconds.
pub(super) fn kept(machine: &Machine, id: TenantId, from: f64, to: f64) -> f64 {
    machine.operations_per_sec(id, at(from), at(to)) / machine.alone(id).operations_per_sec()
}

fn machine(sweep: &Sweep) -> Machine {
    Machine::new(Device::mt2(), sweep.seed).with_faults(Faults::NONE)
}

/// Fig. 5: a job of each kind beside a job of each kind.
pub(super) fn fig_5(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let thresholds = thresholds()?;
    let seconds = sweep.number("seconds")?;
    for victim_kind in Kind::ALL {
        for kind in Kind::ALL {
            let mut machine = machine(sweep);
            let victim = machine.add(job(victim_kind, critical()));
            let neighbour = machine.add(job(kind, Class::BestEffort));
            let free = machine.steady(victim).bytes_total() / machine.alone(victim).bytes_total();
            run(&mut machine, &mut both(thresholds), seconds);
            let held = kept(&machine, victim, seconds / 2.0, seconds);
            let left = kept(&machine, neighbour, seconds / 2.0, seconds);
            let pair = format!("{}_beside_{}", name_of(victim_kind), name_of(kind));
            results.number(format!("{pair}_without"), free * 100.0);
            results.number(format!("{pair}_with"), held * 100.0);
            results.note(
                format!("{pair}_with"),
                format!("the neighbour is left {:.1} % of its own", left * 100.0),
            );
        }
    }
    Ok(())
}

/// Fig. 7: a store beside jobs and a graph computation.
pub(super) fn fig_7(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let thresholds = thresholds()?;
    let seconds = sweep.number("seconds")?;
    let mut neighbours: Vec<(&str, Tenant)> =
        Kind::ALL.map(|kind| (name_of(kind), job(kind, Class::BestEffort))).to_vec();
    neighbours.push(("graph", graph(sweep)?));
    for (name, neighbour) in neighbours {
        let mut machine = machine(sweep);
        let store = machine.add(store(sweep)?);
        machine.add(neighbour);
        let free = machine.steady(store).operations_per_sec() / machine.alone(store).operations_per_sec();
        run(&mut machine, &mut both(thresholds), seconds);
        results.number(format!("without_{name}"), free * 100.0);
        results.number(format!("with_{name}"), kept(&machine, store, seconds / 2.0, seconds) * 100.0);
    }
    Ok(())
}

/// Fig. 8: the limit of a writer beside a reader is changed while both run.
pub(super) fn fig_8(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (times, limits) = (sweep.list("change_s")?, sweep.list("limit_gb")?);
    let end = sweep.number("seconds")?;
    let mut machine = machine(sweep);
    let victim = machine.add(job(Kind::SlowRead, Class::Exempt));
    let writer = machine.add(job(Kind::SlowWrite, Class::BestEffort));
    let free = job(Kind::SlowWrite, Class::BestEffort).claim;
    let mut pacer = both(thresholds_unwatched());
    let rate = |machine: &Machine, id, kind, from: f64, to: f64| {
        machine.mean_rate(id, kind, at(from), at(to)).0 as f64 / 1e9
    };
    run(&mut machine, &mut pacer, times[0]);
    results.number("victim_free", rate(&machine, victim, Kind::SlowRead, 0.0, times[0]));
    results.number("writer_free", rate(&machine, writer, Kind::SlowWrite, 0.0, times[0]));
    for (i, &change) in times.iter().enumerate() {
        let until = times.get(i + 1).copied().unwrap_or(end);
        let limit = limits.get(i).copied();
        let caps = limit.map_or_else(Kinds::default, |gb| cap_gb(Kind::SlowWrite, gb));
        machine.set_claim(writer, Claim { caps, ..free.clone() });
        run(&mut machine, &mut pacer, until);
        let name = limit.map_or_else(|| "none".to_owned(), |gb| format!("{gb}"));
        let settled = rate(&machine, writer, Kind::SlowWrite, change + 1.0, until);
        results.number(format!("writer_at_{name}"), settled);
        results
            .number(format!("victim_at_{name}"), rate(&machine, victim, Kind::SlowRead, change + 1.0, until));
        let series = machine.series(writer, Kind::SlowWrite, (at(change), at(until)), STEP);
        results.number(format!("settles_after_{name}"), settles_after(&series, settled * 1e9) - change);
        if let Some(limit) = limit {
            let epochs = machine.series(
                writer,
                Kind::SlowWrite,
                (at(change + 1.0), at(until)),
                Duration::from_secs(1),
            );
            let worst = epochs.iter().map(|(_, rate)| rate / (limit * 1e9)).fold(0.0, f64::max);
            results.number(format!("worst_epoch_at_{name}"), worst);
        }
    }
    results.axes("Bandwidth while the limit changes", "seconds", "GB/s");
    for (id, kind, name) in
        [(victim, Kind::SlowRead, "victim, reads"), (writer, Kind::SlowWrite, "neighbour, writes")]
    {
        let series = machine.series(id, kind, (at(0.0), at(end)), STEP);
        let series: Vec<_> = series.into_iter().map(|(x, y)| (x, y / 1e9)).collect();
        results.series("Bandwidth while the limit changes", name, &series);
    }
    Ok(())
}

/// In Fig. 8 prevention acts alone: nothing is taken for interference.
fn thresholds_unwatched() -> policy::bandwidth::Thresholds {
    policy::bandwidth::Thresholds::default()
}

/// The time from which on a series stays within 5 % of `level`, at the begin of its step.
fn settles_after(series: &[(f64, f64)], level: f64) -> f64 {
    let off = |(_, rate): &(f64, f64)| 0.05 * level < (rate - level).abs();
    let last_off = series.iter().rposition(off);
    let half = STEP.as_secs_f64() / 2.0;
    let first = series.first().map_or(0.0, |(x, _)| x - half);
    last_off.map_or(first, |i| series[i].0 + half)
}

/// Table 6: a store beside one job of each kind whose writes are only sampled.
pub(super) fn table_6(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let thresholds = thresholds()?;
    let seconds = sweep.number("seconds")?;
    let mut machine = machine(sweep);
    let writes = Kinds { dram_write: true, slow_write: true, ..Kinds::splat(false) };
    machine.set_faults(Faults { sampled: writes, ..Faults::NONE });
    let mut alone_store = Machine::new(Device::mt2(), sweep.seed);
    let only = alone_store.add(store(sweep)?);
    alone_store.advance(at(1.0));
    let store = machine.add(store(sweep)?);
    let mut jobs = Kinds::splat(store);
    for kind in Kind::ALL {
        let name = name_of(kind);
        let threads = sweep.count(&format!("{name}_threads"))?;
        let threads = u16::try_from(threads).map_err(ExperimentError::failed)?;
        let gb = sweep.number(&format!("{name}_gb"))?;
        let streams = vec![paced_threads(kind, threads, gb * 1e9)];
        *jobs.get_mut(kind) = machine.add(tenant(name, Class::BestEffort, threads, streams));
        results.number(format!("{name}_alone"), machine.alone(*jobs.get(kind)).bytes_total() / 1e9);
    }
    // The first half runs without a policy.
    machine.advance(at(seconds));
    let mut pacer = both(thresholds);
    run(&mut machine, &mut pacer, seconds * 3.0);
    for (when, from, to) in [("without", 0.0, seconds), ("with", seconds * 2.0, seconds * 3.0)] {
        for (kind, &id) in jobs.iter() {
            let rate = machine.mean_rate(id, kind, at(from), at(to)).0 as f64 / 1e9;
            results.number(format!("{}_{when}", name_of(kind)), rate);
        }
        for (name, quantile) in [("p95", 0.95), ("p99.9", 0.999)] {
            let tail = machine.tail_latency(store, quantile, at(from), at(to));
            let alone = alone_store.tail_latency(only, quantile, at(0.0), at(1.0));
            let (Some(tail), Some(alone)) = (tail, alone) else { continue };
            results.number(format!("{name}_{when}"), tail.as_secs_f64() / alone.as_secs_f64());
        }
    }
    Ok(())
}
