//! MT²'s machine and what is measured on it before a policy runs: jobs, thresholds, the empirical model.
//!
//! Shape:      Device::mt2 -> fio-like jobs, alone and beside others -> `Thresholds`, `EmpiricalModel`
//! Units:      bytes per second
//! Source:     MT² §2.3 (fourteen threads per job, six for slow writes), §3.2.2 (threshold at a tenth lost), §5.1 (model)

use crate::machine::{Device, Faults, Load, Machine, Stream, Tenant};
use control::bandwidth::{Kind, Kinds, Throttle};
use control::{Claim, Class, CpuQuota, Goal, Levers, Mba, Sensor};
use policy::bandwidth::{Axis, EmpiricalModel, ModelError, ThresholdError, Thresholds};
use units::{Bytes, BytesPerSec, Duration, Instant};

/// Threads of a job of each kind that uses its bandwidth up (MT² §2.3; writes of DRAM as reads).
pub const JOB_THREADS: Kinds<u16> = Kinds { dram_read: 14, dram_write: 14, slow_read: 14, slow_write: 6 };
/// One of so many parts of its CPU time is never taken from a tenant (guess; MT² prints no floor).
const CPU_FLOOR: u32 = 100;
/// Loads of the others at which a threshold is measured, as parts of a full job.
const LOADS: [f64; 12] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0];
/// Seed of machines that are only asked for steady states: nothing in them is random.
const STEADY_SEED: u64 = 0;
/// A steady state is the same after any time.
const MOMENT: Duration = Duration::from_millis(1);
/// Thousandths in a core.
const CORE: f64 = 1000.0;

/// A stream of `threads` in MT²'s sizes: the units of media and memory.
#[must_use]
pub const fn stream(kind: Kind, threads: u16) -> Stream {
    Stream::closed(kind, if kind.is_slow() { 256 } else { 64 }, threads)
}

/// MBA in eight steps, and a CPU quota of as many cores as a tenant has threads.
#[must_use]
pub fn levers(threads: u16) -> Levers {
    let most = u32::from(threads) * 1000;
    Levers {
        brake: Kinds::splat(false),
        mba: Some(Mba::MT2),
        cpu: Some(CpuQuota { most, least: most / CPU_FLOOR }),
    }
}

/// The class of MT²'s high-priority groups: no demand of its own, only first.
#[must_use]
pub fn critical() -> Class {
    Class::Critical { goal: Goal::Bandwidth(Kinds::default()) }
}

/// A tenant of `threads` on host levers.
#[must_use]
pub fn tenant(name: &str, class: Class, threads: u16, streams: Vec<Stream>) -> Tenant {
    Tenant::new(name, Claim { class, levers: levers(threads), ..Claim::default() }, streams)
}

/// A full job of one kind.
#[must_use]
pub fn job(kind: Kind, class: Class) -> Tenant {
    let threads = *JOB_THREADS.get(kind);
    tenant(name_of(kind), class, threads, vec![stream(kind, threads)])
}

/// MT²'s abbreviation of a kind, in items of `paper.csv`.
#[must_use]
pub const fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::DramRead => "dr",
        Kind::DramWrite => "dw",
        Kind::SlowRead => "nr",
        Kind::SlowWrite => "nw",
    }
}

/// Bytes per second that `streams` reach alone on an idle machine, of all kinds.
#[must_use]
pub fn alone(streams: Vec<Stream>) -> f64 {
    let mut machine = Machine::new(Device::mt2(), STEADY_SEED);
    let id = machine.add(Tenant::new("alone", Claim::default(), streams));
    machine.steady(id).bytes_total()
}

/// A stream of `threads` that computes between accesses so long that it reaches `bytes_per_sec` alone; without computation
/// if that is more than it can reach.
#[must_use]
pub fn paced_threads(kind: Kind, threads: u16, bytes_per_sec: f64) -> Stream {
    // An access of 4 KiB lets a thread think for nanoseconds per line of DRAM.
    let size = if kind.is_slow() { Bytes(256) } else { Bytes::kib(4) };
    let with =
        |ns: u64| Stream { kind, size, load: Load::Thinking { threads, think: Duration::from_nanos(ns) } };
    // A rate of one access per thread and second is below any that is asked for.
    let (mut low, mut high) = (0, 1_000_000_000);
    while 1 < high - low {
        let middle = u64::midpoint(low, high);
        if alone(vec![with(middle)]) < bytes_per_sec { high = middle } else { low = middle }
    }
    with(low)
}

/// The latency of each kind's medium at which a full job of it has lost a part `lost` of its throughput: the least over
/// all kinds of neighbours, as whoever it is must be noticed.
///
/// # Errors
/// If no neighbour takes so much from some kind.
pub fn thresholds(lost: f64) -> Result<Thresholds, ThresholdError> {
    let mut found = Kinds::splat(None);
    for kind in Kind::ALL {
        let curves = Kind::ALL.into_iter().map(|by| Thresholds::of_curve(&curve(kind, by), lost));
        let least = curves.filter_map(Result::ok).min().ok_or(ThresholdError::NeverFalls)?;
        *found.get_mut(kind) = Some(least);
    }
    Thresholds::new(found)
}

/// Throughput of a full job of `kind`, and latency of its medium, beside neighbours of kind `by` with more and more load.
fn curve(kind: Kind, by: Kind) -> Vec<(f64, Duration)> {
    let at_load = |load: &f64| {
        let mut machine = Machine::new(Device::mt2(), STEADY_SEED).with_faults(Faults::exact());
        let id = machine.add(job(kind, critical()));
        let neighbour = machine.add(job(by, Class::BestEffort));
        machine.set_throttle(neighbour, part_of_job(by, *load));
        let throughput = machine.steady(id).bytes_total();
        let pool = machine.read(Instant::ZERO + MOMENT, &mut Vec::new());
        (throughput, pool.latency.get(kind).unwrap_or_default())
    };
    LOADS.iter().map(at_load).collect()
}

/// The CPU quota that leaves a full job a part of its time.
fn part_of_job(kind: Kind, part: f64) -> Throttle {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of some cores")]
    let cpu = (f64::from(*JOB_THREADS.get(kind)) * CORE * part) as u32;
    Throttle { cpu: Some(cpu), ..Throttle::FREE }
}

/// The empirical model: four jobs at once, one of each kind, each with the fewest threads that reach alone what it should
/// want, in `steps` equal steps per kind up to a full job.
///
/// # Errors
/// If the machine yields no table.
pub fn empirical_model(steps: u32) -> Result<EmpiricalModel, ModelError> {
    let axis = |kind: Kind| Axis::even(whole(alone(vec![stream(kind, *JOB_THREADS.get(kind))])), steps);
    let axes = Kinds {
        dram_read: axis(Kind::DramRead)?,
        dram_write: axis(Kind::DramWrite)?,
        slow_read: axis(Kind::SlowRead)?,
        slow_write: axis(Kind::SlowWrite)?,
    };
    let streams = Kinds::from_fn(|kind| {
        let points = axes.get(kind).points().iter();
        points.map(|&wanted| fewest_threads(kind, wanted)).collect::<Vec<_>>()
    });
    let mut machine = Machine::new(Device::mt2(), STEADY_SEED);
    let ids = Kinds::from_fn(|kind| machine.add(job(kind, Class::BestEffort)));
    EmpiricalModel::measured(0, axes.clone(), |wanted| {
        for kind in Kind::ALL {
            let at = axes.get(kind).points().partition_point(|point| *point < *wanted.get(kind));
            machine.set_streams(*ids.get(kind), streams.get(kind)[at].clone());
        }
        Kinds::from_fn(|kind| *machine.steady(*ids.get(kind)).bytes_per_sec.get(kind))
    })
}

/// The fewest threads that reach `bytes_per_sec` alone, paced to just that; none for no traffic, all of a full job where
/// even they do not reach it.
#[must_use]
pub fn fewest_threads(kind: Kind, bytes_per_sec: f64) -> Vec<Stream> {
    if bytes_per_sec <= 0.0 {
        return Vec::new();
    }
    let most = *JOB_THREADS.get(kind);
    let enough = |&threads: &u16| bytes_per_sec <= alone(vec![stream(kind, threads)]);
    let threads = (1..most).find(enough).unwrap_or(most);
    vec![paced_threads(kind, threads, bytes_per_sec)]
}

/// A rate in whole bytes per second.
#[must_use]
pub fn whole(rate: f64) -> BytesPerSec {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of some GB/s")]
    let rate = rate as u64;
    BytesPerSec(rate)
}

/// `rate` in GB/s.
#[must_use]
pub fn gb(rate: BytesPerSec) -> f64 {
    rate.0 as f64 / 1e9
}

/// `gb` GB/s of one kind, for claims.
#[must_use]
pub fn cap_gb(kind: Kind, gb: f64) -> Kinds<Option<BytesPerSec>> {
    let mut caps = Kinds::default();
    *caps.get_mut(kind) = Some(whole(gb * 1e9));
    caps
}
