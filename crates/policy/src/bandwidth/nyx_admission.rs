//! Which goals `qos` takes on: those that are predicted to be kept.
//!
//! Shape:      goals, operations and accesses of a window -> a goal is taken on, or why it is not
//! Invariants: a goal that was taken on goes before a new one; what was found of a latency changes at once where it is clear, and else after
//!             some windows in a row
//! Cost:       O(tenants) per decision, two look-ups of the model for each goal of bandwidth
//! Failure:    without a model of this machine promised bandwidths are taken to fit; without a quiet latency, or before enough
//!             operations were seen, latencies are taken to be possible
//! Source:     NyxCache §2.4, §3.4 ("QoS policy requires logic ... to predict SLA compliance given existing caches", which it leaves to
//!             earlier work). Ours: bandwidths as MT² §5.1 admits them; a quantile of latency cannot be below what an access takes when nobody
//!             else is there, if more operations than may be slower come to the tier. A read that a cleaner makes for a tenant counts as one of its
//!             operations' reads: signals do not tell them apart

use super::mt2_guarantee::KEPT_PART;
use super::mt2_model::EmpiricalModel;
use control::bandwidth::{BandwidthSignal, Kind, Kinds};
use control::{Class, Goal};
use units::Duration;

/// Windows in a row that say otherwise before a finding about a latency changes (guess): what comes to the tier varies ...
const CHANGED_AFTER: u32 = 3;
/// ... but for what comes so many times too often, or too rarely (guess).
const CLEAR: f64 = 2.0;

/// What admission goes by.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Admission {
    /// What reads and writes of the tier leave each other.
    pub(super) model: Option<EmpiricalModel>,
    /// How long a read of it takes without traffic.
    pub(super) quiet: Option<Duration>,
}

/// Why a goal is not taken on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// What was promised to all is more than the tier keeps.
    Bandwidth,
    /// The tier takes longer when nobody else is there.
    Latency,
}

/// How a tenant's goal stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// Why it is not taken on, if it is not.
    pub(super) refused: Option<Refused>,
    /// Windows in a row that say otherwise.
    otherwise: u32,
}

impl Refused {
    pub(super) const fn why(self) -> &'static str {
        match self {
            Self::Bandwidth => "this goal cannot be kept beside the others' goals: its tenant is best-effort",
            Self::Latency => "this goal is below what the tier takes alone: its tenant is best-effort",
        }
    }
}

impl Admission {
    /// Whether a tenant's goal cannot be kept beside `promised` to others; adds what it is promised.
    pub(super) fn judge(
        &self,
        class: &Class,
        signal: Option<&BandwidthSignal>,
        promised: &mut Kinds<f64>,
        (machine, operations_least): (u32, u64),
        standing: &mut Standing,
    ) {
        standing.refused = match class {
            Class::Critical { goal: Goal::Bandwidth(demand) } => {
                let with = Kinds::from_fn(|kind| promised.get(kind) + demand.get(kind).0 as f64);
                let knows =
                    |model: &&EmpiricalModel| model.id() == 0 || machine == 0 || model.id() == machine;
                let model = self.model.as_ref().filter(knows);
                let fits = model.is_none_or(|model| model.intensity(with) <= 1.0 - KEPT_PART);
                if fits {
                    *promised = with;
                }
                (!fits).then_some(Refused::Bandwidth)
            }
            Class::Critical { goal: Goal::Latency { quantile, at_most } } => {
                if self.quiet.is_none_or(|quiet| quiet <= *at_most) {
                    *standing = Standing::default();
                    return;
                }
                let Some(signal) = signal.filter(|signal| operations_least <= signal.operations) else {
                    return;
                };
                let come = *signal.accesses.get(Kind::SlowRead) as f64 / signal.operations as f64;
                standing.of_latency(come / (1.0 - quantile.get()))
            }
            Class::Critical { .. } | Class::BestEffort | Class::Exempt => None,
        };
    }
}

impl Standing {
    /// What follows of a window in which so many times as many operations came to the tier as may be slower.
    fn of_latency(&mut self, come: f64) -> Option<Refused> {
        let refused = (1.0 < come).then_some(Refused::Latency);
        let is_clear = !(1.0 / CLEAR..=CLEAR).contains(&come);
        let is_other = refused.is_some() != self.refused.is_some();
        if is_other && !is_clear && self.otherwise + 1 < CHANGED_AFTER {
            self.otherwise += 1;
            return self.refused;
        }
        self.otherwise = 0;
        refused
    }
}
