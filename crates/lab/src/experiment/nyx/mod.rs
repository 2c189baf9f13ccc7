//! Experiments of NyxCache's policies on the modelled machine.
//!
//! Shape:  tenants on `Device::nyx` under a policy or a baseline -> rates, tails, slowdowns
//! Source: NyxCache §4; threads and think times that it does not print are inputs in each `sweep.toml`

mod fair;
mod limit;
mod qos;
mod share;

use super::{Experiment, ExperimentError, Sweep};
use crate::experiment;
use crate::machine::{Load, Machine, Stream, drive};
use control::bandwidth::{Kind, Kinds};
use control::{Claim, Levers, Loop, Weight};
use policy::bandwidth::{BandwidthPolicy, Options, by_name};
use units::{Bytes, Duration, Instant, TenantId};

/// NyxCache's experiments with policies.
pub(super) static NYX: &[Experiment] = &[
    experiment!("nyx/fig_6", limit::fig_6),
    experiment!("nyx/fig_8", qos::fig_8),
    experiment!("nyx/fig_9", fair::fig_9),
    experiment!("nyx/fig_10", share::fig_10),
    experiment!("nyx/fig_11", share::fig_11),
    experiment!("nyx/fig_12", limit::fig_12),
    experiment!("nyx/fig_13", qos::fig_13),
    experiment!("nyx/fig_14", share::fig_14),
];

/// Decisions that a loop keeps: none of these experiments reads them.
const JOURNAL: usize = 1;

/// A claim of a cache: a brake before each access to the slow tier, and a weight of one.
fn cache() -> Claim {
    let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::default() };
    Claim { levers: Levers { brake, ..Levers::default() }, ..Claim::default() }
}

/// The same with another weight.
fn weighing(weight: f64) -> Result<Claim, ExperimentError> {
    let weight = Weight::new(weight).ok_or_else(|| ExperimentError::failed("a weight is above zero"))?;
    Ok(Claim { weight, ..cache() })
}

/// A policy of this name.
fn policy(name: &str, options: &Options) -> Result<Box<BandwidthPolicy>, ExperimentError> {
    by_name(name, options).ok_or_else(|| ExperimentError::failed(format!("no policy {name}")))
}

/// Lets a policy drive the machine until so many seconds.
fn run(machine: &mut Machine, policy: Box<BandwidthPolicy>, until: f64) {
    drive(machine, &mut Loop::new(policy, JOURNAL), at(until));
}

/// A point in time by its seconds.
fn at(secs: f64) -> Instant {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of an experiment")]
    let ns = (secs * 1e9) as u64;
    Instant(ns)
}

/// GB/s of all kinds over some seconds.
fn gb(machine: &Machine, id: TenantId, from: f64, to: f64) -> f64 {
    machine.mean_rate_total(id, at(from), at(to)).0 as f64 / 1e9
}

/// Operations relative to alone over some seconds.
fn kept(machine: &Machine, id: TenantId, from: f64, to: f64) -> f64 {
    machine.operations_per_sec(id, at(from), at(to)) / machine.alone(id).operations_per_sec()
}

/// A small number of the sweep.
fn small(sweep: &Sweep, key: &str) -> Result<u16, ExperimentError> {
    u16::try_from(sweep.count(key)?).map_err(|e| ExperimentError::failed(format!("{key}: {e}")))
}

/// Threads that think between accesses.
fn thinking(kind: Kind, size: u64, threads: u16, think_ns: u64) -> Stream {
    let think = Duration::from_nanos(think_ns);
    Stream { kind, size: Bytes(size), load: Load::Thinking { threads, think } }
}

/// Mean and standard deviation.
fn spread(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / count).sqrt())
}
