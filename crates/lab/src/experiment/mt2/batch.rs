//! How long a batch job takes while a store beside it is protected by one lever, or by both.
//!
//! Shape:  a job of iterations, each a phase of memory and one of computation; a phase ends when its work is done
//! Source: MT² Table 8

use super::neighbours::store;
use super::plant::{levers, name_of, stream, thresholds};
use super::{JOURNAL, at, length};
use crate::experiment::{ExperimentError, Results, Sweep};
use crate::machine::levers::quota_part;
use crate::machine::{Device, Machine, Stream, Tenant, drive};
use control::bandwidth::{Kind, Throttle};
use control::{Claim, Class, Loop};
use policy::bandwidth::{Means, Remedy, Thresholds};
use units::{Duration, TenantId};

/// A phase of computation is looked at so often: how much of it is done depends on the CPU quota alone.
const SLICE: Duration = Duration::from_millis(50);

/// What the job does.
struct Work {
    threads: u16,
    memory: Vec<Stream>,
    /// GB of a phase of memory, and seconds of a phase of computation with all its CPU time.
    memory_gb: f64,
    compute_s: f64,
    iterations: u64,
    /// Seconds after which it is given up.
    limit_s: f64,
}

/// How it went.
struct Outcome {
    seconds: f64,
    /// Part of its operations alone that the store kept while the job ran, and in phases of memory alone.
    store_kept: f64,
    store_kept_in_memory: f64,
}

/// Table 8: time of the job under both levers and under CPU time alone, and what MBA alone achieves.
pub(super) fn table_8(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let lost = 1.0 - sweep.number("store_keeps")?;
    let thresholds = thresholds(lost).map_err(ExperimentError::failed)?;
    let work = work(sweep)?;
    let mut seconds = Vec::new();
    for (name, means) in [
        ("none", None),
        ("mt2", Some(Means::All)),
        ("cpu", Some(Means::CpuOnly)),
        ("mba", Some(Means::MbaOnly)),
    ] {
        let outcome = job_beside_store(sweep, &work, thresholds, means)?;
        results.number(format!("{name}_s"), outcome.seconds);
        seconds.push(outcome.seconds);
        results.number(format!("store_kept_{name}"), outcome.store_kept * 100.0);
        results.number(format!("store_kept_in_memory_{name}"), outcome.store_kept_in_memory * 100.0);
    }
    if let [_, both, cpu, _] = seconds[..] {
        results.number("cpu_over_mt2", cpu / both);
    }
    Ok(())
}

fn work(sweep: &Sweep) -> Result<Work, ExperimentError> {
    let mut memory = Vec::new();
    let mut threads = 0;
    for kind in Kind::ALL {
        let key = format!("job.{}_threads", name_of(kind));
        let of_kind = u16::try_from(sweep.count(&key)?).map_err(ExperimentError::failed)?;
        threads += of_kind;
        memory.extend((0 < of_kind).then(|| stream(kind, of_kind)));
    }
    Ok(Work {
        threads,
        memory,
        memory_gb: sweep.number("job.memory_gb")?,
        compute_s: sweep.number("job.compute_s")?,
        iterations: sweep.count("job.iterations")?,
        limit_s: sweep.number("job.limit_s")?,
    })
}

fn job_beside_store(
    sweep: &Sweep,
    work: &Work,
    thresholds: Thresholds,
    means: Option<Means>,
) -> Result<Outcome, ExperimentError> {
    let mut machine = Machine::new(Device::mt2(), sweep.seed);
    let store = machine.add(store(sweep)?);
    let claim = Claim { class: Class::BestEffort, levers: levers(work.threads), ..Claim::default() };
    let job = machine.add(Tenant::new("graph", claim, Vec::new()));
    let mut pacer = means.map(|means| Loop::new(Remedy::with_means(thresholds, means), JOURNAL));
    let mut pass = |machine: &mut Machine| {
        let next = machine.now() + SLICE;
        match &mut pacer {
            Some(pacer) => drive(machine, pacer, next),
            None => machine.advance(next),
        }
    };
    let (mut in_memory, mut operations) = (Duration::ZERO, 0.0);
    for _ in 0..work.iterations {
        machine.set_streams(job, work.memory.clone());
        let start = machine.now();
        let mut left = work.memory_gb * 1e9;
        while 0.0 < left && machine.now() < at(work.limit_s) {
            let from = machine.now();
            pass(&mut machine);
            left -= machine.mean_rate_total(job, from, machine.now()).0 as f64 * SLICE.as_secs_f64();
        }
        let span = machine.now().since(start);
        operations += machine.operations_per_sec(store, start, machine.now()) * span.as_secs_f64();
        in_memory = in_memory + span;
        machine.set_streams(job, Vec::new());
        let mut left = work.compute_s;
        while 0.0 < left && machine.now() < at(work.limit_s) {
            pass(&mut machine);
            left -= SLICE.as_secs_f64() * computes(&machine, job, work.threads);
        }
    }
    let alone = machine.alone(store).operations_per_sec();
    let end = machine.now();
    Ok(Outcome {
        seconds: end.since(at(0.0)).as_secs_f64(),
        store_kept: machine.operations_per_sec(store, at(0.0), end) / alone,
        store_kept_in_memory: operations / in_memory.max(length(1e-9)).as_secs_f64() / alone,
    })
}

/// Part of its computing speed that a quota leaves the job.
fn computes(machine: &Machine, job: TenantId, threads: u16) -> f64 {
    let throttle = machine.throttle(job).unwrap_or(Throttle::FREE);
    throttle.cpu.map_or(1.0, |cpu| quota_part(f64::from(cpu) / (f64::from(threads) * 1000.0)))
}
