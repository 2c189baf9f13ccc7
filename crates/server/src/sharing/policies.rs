//! The policies that can divide a tier's time here, alone or together with DRAM, by their names.
//!
//! Failure: a policy that could not do anything here is refused, with what it lacks

use super::groups::GroupClaims;
use super::history::Family;
use policy::bandwidth::{BandwidthPolicy, Options, Prevention, by_name};
use policy::compose::Tighter;
use policy::joint::{self, JointPolicy};
use std::fmt;

/// Which policy divides a tier's time: one of [`BandwidthKind::names`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BandwidthKind(&'static str);

/// Policies that need no more than the store offers: delays, pauses, budgets, caps, costs, latencies of requests; and those that need
/// a table of how reads and writes slow each other.
const KINDS: [&str; 17] = [
    "none",
    "limit",
    "qos",
    "fair-slowdown",
    "proportional",
    "prevention",
    "prevention+remedy",
    "guarantee",
    "slo",
    "bandwidth-limit",
    "throttle-biggest",
    "qos-biggest",
    "symbiosis",
    "static",
    "harvest",
    "trade",
    "ideal",
];

/// Those of them that divide DRAM with it.
const JOINT: [&str; 5] = ["symbiosis", "static", "harvest", "trade", IDEAL];

/// The one that divides by speeds that an operator has measured.
const IDEAL: &str = "ideal";

/// Those that look at how long requests take, and at such a table where there is one.
const BY_GOALS: [&str; 2] = ["qos", "qos-biggest"];

/// Those that divide by such a table.
const BY_MODEL: [&str; 2] = ["guarantee", "slo"];

/// Those that lack something, and what.
const LACKING: [(&str, &str); 3] = [
    ("remedy", "prevention beside it: name prevention+remedy"),
    ("mba-only", "memory bandwidth allocation, which acts on processes and not on tenants"),
    ("cpu-only", "a quota of CPU time, which acts on processes and not on tenants"),
];

/// Why a word names no policy that can be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BandwidthKindError {
    /// There is none of that name.
    #[error("there is no policy '{0}' for a tier's bandwidth")]
    Unknown(String),
    /// It lacks something here.
    #[error("the policy '{name}' needs {what}")]
    Lacks {
        /// Its name.
        name: &'static str,
        /// What it needs.
        what: &'static str,
    },
}

impl BandwidthKind {
    /// Nobody is held back.
    pub const NONE: Self = Self("none");

    /// The policy that a word names.
    ///
    /// # Errors
    /// If there is none, or it lacks something here.
    pub fn of_word(word: &str) -> Result<Self, BandwidthKindError> {
        if let Some(name) = KINDS.into_iter().find(|name| *name == word) {
            return Ok(Self(name));
        }
        match LACKING.into_iter().find(|(name, _)| *name == word) {
            Some((name, what)) => Err(BandwidthKindError::Lacks { name, what }),
            None => Err(BandwidthKindError::Unknown(word.to_owned())),
        }
    }

    /// Every name that can be chosen.
    #[must_use]
    pub const fn names() -> [&'static str; KINDS.len()] {
        KINDS
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Whether it divides by how reads and writes of the tier slow each other.
    pub(super) fn needs_model(self) -> bool {
        BY_MODEL.contains(&self.0)
    }

    /// Whether it looks at such a table where there is one.
    pub(super) fn uses_model(self) -> bool {
        self.needs_model() || self.needs_latencies()
    }

    /// Whether it looks at how long requests take.
    pub(super) fn needs_latencies(self) -> bool {
        BY_GOALS.contains(&self.0)
    }

    /// Whether it divides by tenants' speeds, which a file has.
    pub(crate) fn needs_speeds(self) -> bool {
        self.0 == IDEAL
    }

    /// What it divides.
    pub(super) fn family(self) -> Family {
        if JOINT.contains(&self.0) { Family::Joint } else { Family::Bandwidth }
    }

    /// The policy about a tier's time; one over both leaves that free. One that needs a model is chosen with it only.
    pub(super) fn policy(self, options: &Options, groups: &GroupClaims) -> Box<BandwidthPolicy> {
        let made = |is_among_groups, number| {
            let seed = options.seed.wrapping_add(number);
            self.one(&Options { seed, ..options.clone() }, is_among_groups)
        };
        groups.over(made)
    }

    /// The policy among groups and lone tenants, or one inside a group.
    fn one(self, options: &Options, is_among_groups: bool) -> Box<BandwidthPolicy> {
        match self.0 {
            _ if self.family() == Family::Joint => Self::NONE.one(options, is_among_groups),
            // Who disturbs others is held back by whom it disturbs, or with its group: once.
            "prevention+remedy" if is_among_groups => {
                Box::new(Tighter::new(Prevention::default(), options.remedy()))
            }
            "prevention+remedy" => Box::new(Prevention::default()),
            name => by_name(name, options).expect("every kind is a policy, and has the model that it needs"),
        }
    }

    /// The policy over DRAM and a tier's time; static shares where only the latter is divided.
    pub(super) fn joint_policy(self, options: &joint::Options, groups: &GroupClaims) -> JointPolicy {
        let name = if self.family() == Family::Joint { self.0 } else { "static" };
        let made =
            || joint::by_name(name, options.clone()).expect("every kind over both is one that is known");
        groups.joint_over(made)
    }
}

impl Default for BandwidthKind {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Display for BandwidthKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::bandwidth::Kinds;
    use policy::bandwidth::{Axis, EmpiricalModel};

    #[test]
    fn every_name_of_a_policy_is_a_choice_or_says_what_it_lacks() {
        for name in policy::bandwidth::NAMES {
            assert!(!matches!(BandwidthKind::of_word(name), Err(BandwidthKindError::Unknown(_))), "{name}");
        }
        for name in joint::NAMES {
            assert!(!matches!(BandwidthKind::of_word(name), Err(BandwidthKindError::Unknown(_))), "{name}");
        }
        let axes = Kinds::from_fn(|_| Axis::unmeasured());
        let model = EmpiricalModel::measured(0, axes, |wanted| wanted).unwrap();
        for name in BandwidthKind::names() {
            let kind = BandwidthKind::of_word(name).unwrap();
            let model = Some(model.clone()).filter(|_| kind.needs_model());
            let options = Options { model, ..Options::default() };
            let groups = GroupClaims::default();
            let (one, both) =
                (kind.policy(&options, &groups), kind.joint_policy(&joint::Options::default(), &groups));
            let is_joint = kind.family() == Family::Joint;
            assert_eq!((one.name(), both.name()), if is_joint { ("none", name) } else { (name, "static") });
        }
        assert_eq!(
            BandwidthKind::of_word("fastest").unwrap_err().to_string(),
            "there is no policy 'fastest' for a tier's bandwidth"
        );
    }
}
