//! Who may use a tier how fast.

pub mod regulator;

mod baselines;
mod mt2_cap;
mod mt2_guarantee;
mod mt2_held;
mod mt2_interference;
mod mt2_model;
mod mt2_own;
mod mt2_slo;
mod mt2_throttle;
mod none;
mod nyx_admission;
mod nyx_fair;
mod nyx_lever;
mod nyx_limit;
mod nyx_proportional;
mod nyx_qos;
mod nyx_slack;
mod nyx_slowed;
mod roster;
#[cfg(test)]
mod testing;

pub use baselines::{BandwidthLimit, CALADAN_LIMIT, ThrottleBiggest, cpu_only, mba_only};
pub use mt2_guarantee::Guarantee;
pub use mt2_interference::{LOST_PART, ThresholdError, Thresholds};
pub use mt2_model::{AXIS_POINTS_MAX, Axis, EmpiricalModel, ModelError};
pub use mt2_slo::Slo;
pub use mt2_throttle::{Means, Prevention, Remedy};
pub use none::Unregulated;
pub use nyx_fair::FairSlowdown;
pub use nyx_limit::{EPOCH, Limit};
pub use nyx_proportional::{DonateStep, Donation, Proportional};
pub use nyx_qos::{EXPERIMENT_STEP, Qos};

use crate::estimate::pause::Pause;
use control::Policy;
use control::bandwidth::{BandwidthSignal, Throttle};
use units::{BytesPerSec, Duration};

/// A policy about bandwidth, whichever the operator names.
pub type BandwidthPolicy = dyn Policy<Signal = BandwidthSignal, Share = Throttle>;

/// What policies of this family can be told besides the tenants' claims; the default is what their papers use.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The seed of the policy's generator.
    pub seed: u64,
    /// What an experiment of `qos` takes from its candidate.
    pub experiment_step: BytesPerSec,
    /// What `proportional` does with what a tenant leaves idle.
    pub donation: Donation,
    /// The latencies that `remedy` and `slo` take for interference; none are watched unless measured.
    pub thresholds: Thresholds,
    /// What `guarantee` and `slo` know of competing traffic; without it there is no such policy. `qos` takes goals on by it.
    pub model: Option<EmpiricalModel>,
    /// How long a read of the slow tier takes without traffic: `qos` takes no goal on that is below, and pauses are longer where it is.
    pub quiet: Option<Duration>,
    /// How long a pause of `fair-slowdown`, `proportional` and `remedy` lasts before what is done in it counts, on a tier as fast as memory: until
    /// what others had under way is done. On a slower tier it is longer.
    pub settle: Duration,
    /// The traffic above which `throttle-biggest` punishes.
    pub traffic_limit: BytesPerSec,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            experiment_step: EXPERIMENT_STEP,
            donation: Donation::Aware(DonateStep::PAPER),
            thresholds: Thresholds::default(),
            model: None,
            quiet: None,
            settle: Duration::ZERO,
            traffic_limit: CALADAN_LIMIT,
        }
    }
}

/// `remedy` pauses nobody where a read takes longer: the looks that end windows of a pause take five reads each, and writes where those can
/// be timed (guess).
const PAUSED_SLOWEST: Duration = Duration::from_micros(200);

impl Options {
    /// The policy `remedy` as a server has it: with pauses, but on a medium on which one takes too long.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        let remedy = Remedy::new(self.thresholds);
        if self.quiet.is_some_and(|quiet| PAUSED_SLOWEST < quiet) {
            remedy
        } else {
            remedy.pausing(self.pause())
        }
    }

    /// How long pauses are.
    fn pause(&self) -> Pause {
        Pause::new(self.settle, self.quiet)
    }
}

/// Every name that [`by_name`] knows.
pub const NAMES: [&str; 14] = [
    "none",
    "limit",
    "qos",
    "fair-slowdown",
    "proportional",
    "prevention",
    "remedy",
    "guarantee",
    "slo",
    "bandwidth-limit",
    "throttle-biggest",
    "qos-biggest",
    "mba-only",
    "cpu-only",
];

/// The policy called `name` (`none`, `limit`, `qos`, `fair-slowdown`, `proportional`, `prevention`, `remedy`, `guarantee`,
/// `slo`; baselines: `bandwidth-limit`, `throttle-biggest`, `qos-biggest`, `mba-only`, `cpu-only`), or none. `guarantee` and `slo` need a
/// model.
#[must_use]
pub fn by_name(name: &str, options: &Options) -> Option<Box<BandwidthPolicy>> {
    Some(match name {
        "none" => Box::new(Unregulated::default()),
        "limit" => Box::new(Limit::default()),
        "qos" => {
            let qos = Qos::new(options.experiment_step, options.seed);
            Box::new(qos.admitting(options.model.clone(), options.quiet))
        }
        "fair-slowdown" => Box::new(FairSlowdown::new(options.pause(), options.seed)),
        "proportional" => Box::new(Proportional::new(options.donation, options.pause(), options.seed)),
        "prevention" => Box::new(Prevention::default()),
        "remedy" => Box::new(options.remedy()),
        "guarantee" => Box::new(Guarantee::new(options.model.clone()?)),
        "slo" => Box::new(Slo::new(options.model.clone()?, options.thresholds)),
        "bandwidth-limit" => Box::new(BandwidthLimit::default()),
        "throttle-biggest" => Box::new(ThrottleBiggest::new(options.traffic_limit)),
        "qos-biggest" => {
            let qos = Qos::holding_back_the_biggest(options.experiment_step);
            Box::new(qos.admitting(options.model.clone(), options.quiet))
        }
        "mba-only" => Box::new(mba_only(options.thresholds)),
        "cpu-only" => Box::new(cpu_only(options.thresholds)),
        _ => return None,
    })
}
