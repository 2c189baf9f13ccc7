//! What is known of how reads and writes of the divided tier slow each other, for the policies that divide by it.
//!
//! Shape:      a table that `cotenant probe` has kept, or the model of an emulated tier -> an `EmpiricalModel`
//! Invariants: DRAM is not measured: nothing is said of it. A measured table carries the number of its machine, a modelled one none
//! Cost:       a modelled table takes some tenths of a second, when it is asked for first
//! Failure:    without either a policy that needs one is refused, with the command that measures it
//! Source:     MT² §5.1

use control::bandwidth::{Kind, Kinds};
use media::emulated::Emulation;
use media::probe::{Competition, modelled_competition};
use policy::bandwidth::{Axis, EmpiricalModel, ModelError};
use std::sync::OnceLock;

/// Number of a machine that a table does not depend on.
const ANY_MACHINE: u32 = 0;

/// What a tier's table comes from, and the table once it was asked for.
#[derive(Debug)]
pub(crate) struct TierModel {
    source: Source,
    made: OnceLock<Option<EmpiricalModel>>,
    /// The tier's name and the command that measures it.
    tier: String,
    command: String,
}

#[derive(Debug)]
enum Source {
    /// Nobody has measured it.
    Nothing,
    /// It was measured.
    Measured(Box<EmpiricalModel>),
    /// The tier is emulated: its model says it.
    Modelled(Emulation),
}

/// A policy that needs to know how reads and writes of a tier slow each other, where nobody has measured it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the policy '{policy}' needs to know how reads and writes of tier '{tier}' slow each other, and nobody has measured it"
)]
pub struct Unmeasured {
    policy: &'static str,
    tier: String,
    command: String,
}

impl Unmeasured {
    /// The command that measures it, which wants the tier for itself.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }
}

impl TierModel {
    /// Of a tier that nobody has measured; `command` would.
    pub(crate) fn nothing(tier: &str, command: String) -> Self {
        Self { source: Source::Nothing, made: OnceLock::new(), tier: tier.to_owned(), command }
    }

    /// Of the same tier, as its `emulation` has it.
    pub(crate) fn modelled(self, emulation: Emulation) -> Self {
        Self { source: Source::Modelled(emulation), ..self }
    }

    /// Of the same tier, as it was measured on the machine of this number.
    ///
    /// # Errors
    /// If the table makes no model.
    pub(crate) fn measured(self, found: &Competition, machine: u32) -> Result<Self, ModelError> {
        let model = model_of(found, machine)?;
        Ok(Self { source: Source::Measured(Box::new(model)), ..self })
    }

    /// The table for a policy.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn for_policy(&self, policy: &'static str) -> Result<EmpiricalModel, Unmeasured> {
        let made = self.made.get_or_init(|| match &self.source {
            Source::Nothing => None,
            Source::Measured(model) => Some((**model).clone()),
            Source::Modelled(emulation) => model_of(&modelled_competition(*emulation), ANY_MACHINE).ok(),
        });
        let (tier, command) = (self.tier.clone(), self.command.clone());
        made.clone().ok_or(Unmeasured { policy, tier, command })
    }
}

/// A measured table as policies look it up.
fn model_of(found: &Competition, machine: u32) -> Result<EmpiricalModel, ModelError> {
    let size = found.reads.len() * found.writes.len();
    if found.got.len() != size {
        return Err(ModelError::Size { have: found.got.len(), need: size });
    }
    let axes = Kinds {
        dram_read: Axis::unmeasured(),
        dram_write: Axis::unmeasured(),
        slow_read: Axis::new(found.reads.clone())?,
        slow_write: Axis::new(found.writes.clone())?,
    };
    let at = |axis: &Axis, wanted: f64| axis.points().partition_point(|point| *point < wanted);
    EmpiricalModel::measured(machine, axes.clone(), |wanted| {
        let read = at(&axes.slow_read, wanted.slow_read);
        let write = at(&axes.slow_write, wanted.slow_write);
        let [reads, writes] = found.got[read * found.writes.len() + write];
        Kinds::from_fn(|kind| match kind {
            Kind::SlowRead => reads,
            Kind::SlowWrite => writes,
            Kind::DramRead | Kind::DramWrite => 0.0,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn table() -> Competition {
        Competition {
            size: Bytes(4096),
            reads: vec![0.0, 100.0, 200.0],
            writes: vec![0.0, 50.0],
            got: vec![[0.0, 0.0], [0.0, 50.0], [100.0, 0.0], [90.0, 45.0], [200.0, 0.0], [120.0, 30.0]],
        }
    }

    fn unmeasured() -> TierModel {
        TierModel::nothing("ssd", "cotenant probe file:/a:1GiB".to_owned())
    }

    #[test]
    fn a_measured_table_is_looked_up_as_it_was_measured() {
        let model = unmeasured().measured(&table(), 7).unwrap().for_policy("guarantee").unwrap();
        assert_eq!(model.id(), 7);
        // A first byte of a kind keeps what the next point does.
        for (reads, writes, kept) in [
            (100.0, 50.0, (0.9, 0.9)),
            (200.0, 50.0, (0.6, 0.6)),
            (150.0, 50.0, (0.75, 0.75)),
            (100.0, 25.0, (0.95, 0.9)),
        ] {
            let found = model.kept(Kinds { slow_read: reads, slow_write: writes, ..Kinds::splat(1e15) });
            assert!((found.slow_read - kept.0).abs() < 1e-9, "{reads} {writes}: {found:?}");
            assert!((found.slow_write - kept.1).abs() < 1e-9, "{reads} {writes}: {found:?}");
            assert!((found.dram_read - 1.0).abs() < 1e-9, "nothing is said of DRAM: {found:?}");
        }
    }

    #[test]
    fn without_a_table_the_command_that_measures_it_is_told() {
        let lacking = unmeasured().for_policy("slo").unwrap_err();
        assert!(
            lacking
                .to_string()
                .starts_with("the policy 'slo' needs to know how reads and writes of tier 'ssd'")
        );
        assert_eq!(lacking.command(), "cotenant probe file:/a:1GiB");
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let with = |change: &dyn Fn(&mut Competition)| {
            let mut found = table();
            change(&mut found);
            unmeasured().measured(&found, 7).map(drop).unwrap_err()
        };
        assert_eq!(with(&|t| _ = t.got.pop()), ModelError::Size { have: 5, need: 6 });
        assert_eq!(with(&|t| t.reads[2] = 100.0), ModelError::DoesNotRise(2));
        assert_eq!(with(&|t| t.writes = vec![0.0]), ModelError::Size { have: 6, need: 3 });
        assert_eq!(with(&|t| (t.reads, t.got) = (vec![], vec![])), ModelError::TooFew(0));
        assert!(matches!(with(&|t| t.got[3][0] = f64::NAN), ModelError::NoPart(_)));
    }

    #[test]
    fn an_emulated_tier_needs_no_probe() {
        let of = |name: &str| unmeasured().modelled(name.parse().unwrap()).for_policy("guarantee").unwrap();
        let model = of("2dimm");
        assert_eq!(model.id(), ANY_MACHINE);
        let most = model.most();
        assert!(10e9 < most.slow_read && 2e9 < most.slow_write, "{most:?}");
        assert!(model.kept(most).slow_read < 0.9, "all of both is not kept: {:?}", model.kept(most));
        let slower = of("2dimm/8");
        let eighth = Kinds::from_fn(|kind| most.get(kind) / 8.0);
        assert!((slower.most().slow_read / eighth.slow_read - 1.0).abs() < 1e-9, "{:?}", slower.most());
        assert!((slower.kept(eighth).slow_read - model.kept(most).slow_read).abs() < 1e-9);
    }
}
