//! Experiments of MT² on the modelled machine.
//!
//! Shape: jobs of `plant` on `Device::mt2` under a policy -> rates, latencies, times

mod batch;
mod guarantee;
mod neighbours;
pub mod plant;

use super::{Experiment, ExperimentError};
use crate::experiment;
use crate::machine::{Machine, drive};
use control::bandwidth::{BandwidthSignal, Throttle};
use control::{Loop, Policy};
use policy::bandwidth::{LOST_PART, Prevention, Remedy, Thresholds};
use policy::compose::Tighter;
use units::{Duration, Instant};

/// Decisions that a loop keeps: none of these experiments reads them.
const JOURNAL: usize = 1;

/// MT²'s experiments with policies.
pub static MT2: &[Experiment] = &[
    experiment!("mt2/fig_5", neighbours::fig_5),
    experiment!("mt2/fig_7", neighbours::fig_7),
    experiment!("mt2/fig_8", neighbours::fig_8),
    experiment!("mt2/table_6", neighbours::table_6),
    experiment!("mt2/table_4", guarantee::table_4),
    experiment!("mt2/fig_9", guarantee::fig_9),
    experiment!("mt2/table_8", batch::table_8),
];

/// Prevention and remedy at once, as MT² runs them (§3.1).
fn both(thresholds: Thresholds) -> Loop<Tighter<Prevention, Remedy>> {
    Loop::new(Tighter::new(Prevention::default(), Remedy::new(thresholds)), JOURNAL)
}

/// The thresholds of the paper.
fn thresholds() -> Result<Thresholds, ExperimentError> {
    plant::thresholds(LOST_PART).map_err(ExperimentError::failed)
}

/// Runs `machine` under `pacer` until `until` seconds.
fn run<P>(machine: &mut Machine, pacer: &mut Loop<P>, until: f64)
where
    P: Policy<Signal = BandwidthSignal, Share = Throttle>,
{
    drive(machine, pacer, at(until));
}

/// A point in time by its seconds.
fn at(secs: f64) -> Instant {
    Instant::ZERO + length(secs)
}

/// A length of time by its seconds.
fn length(secs: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of an experiment")]
    let ns = (secs * 1e9) as u64;
    Duration::from_nanos(ns)
}
