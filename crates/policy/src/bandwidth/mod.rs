//! Who may use a tier how fast.

pub mod regulator;

mod baselines;
mod mt2_cap;
mod mt2_guarantee;
mod mt2_held;
mod mt2_interference;
mod mt2_model;
mod mt2_slo;
mod mt2_throttle;
mod none;
mod roster;

pub use baselines::{BandwidthLimit, CALADAN_LIMIT, ThrottleBiggest, cpu_only, mba_only};
pub use mt2_guarantee::Guarantee;
pub use mt2_interference::{ThresholdError, Thresholds};
pub use mt2_model::{Axis, EmpiricalModel, ModelError};
pub use mt2_slo::Slo;
pub use mt2_throttle::{Means, Prevention, Remedy};
pub use none::Unregulated;

use control::Policy;
use control::bandwidth::{BandwidthSignal, Throttle};

/// A policy about bandwidth, whichever the operator names.
pub type BandwidthPolicy = dyn Policy<Signal = BandwidthSignal, Share = Throttle>;

/// What policies of this family can be told besides the tenants' claims; the default is what their papers use.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Options {
    /// The seed of the policy's generator.
    pub seed: u64,
}

/// The policy called `name` (`none`), or none.
#[must_use]
pub fn by_name(name: &str, _options: &Options) -> Option<Box<BandwidthPolicy>> {
    Some(match name {
        "none" => Box::new(Unregulated::default()),
        _ => return None,
    })
}
