//! How much slower tenants are than alone: what the policy in charge said last of each.
//!
//! Shape:  notes of decisions -> tenant -> slowdown
//! Units:  time shared ÷ time alone
//! Source: NyxCache §3.3

use control::{GroupId, Note, Reason};
use units::TenantId;

/// Slowdowns by id; none for those nobody speaks of.
#[derive(Debug, Default)]
pub(super) struct Slowdowns(Vec<Option<f64>>);

impl Slowdowns {
    /// A tenant's slowdown.
    pub(super) fn of(&self, id: TenantId) -> Option<f64> {
        *self.0.get(id.index())?
    }

    /// Takes what a decision said.
    pub(super) fn take(&mut self, notes: &[Note]) {
        for note in notes {
            // Groups have ids of their own, far beyond those of tenants.
            let Some(id) = note.tenant.filter(|id| GroupId::of_row(*id).is_none()) else { continue };
            match note.reason {
                Reason::Slowed => self.set(id, Some(note.amount as f64 / 1_000.0)),
                Reason::Joined | Reason::Left => self.set(id, None),
                _ => {}
            }
        }
    }

    fn set(&mut self, id: TenantId, slowdown: Option<f64>) {
        let at = id.index();
        if self.0.len() <= at && slowdown.is_some() {
            self.0.resize(at + 1, None);
        }
        if let Some(place) = self.0.get_mut(at) {
            *place = slowdown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_a_place_that_another_takes_says_nothing() {
        let note = |id, reason, amount| Note { tenant: Some(TenantId(id)), reason, amount };
        let mut slowdowns = Slowdowns::default();
        slowdowns.take(&[
            note(2, Reason::Joined, 0),
            note(2, Reason::Slowed, 1_500),
            note(1, Reason::Slowed, 1_000),
        ]);
        slowdowns.take(&[note(2, Reason::Slowed, 2_250), note(1, Reason::Tightened, -7)]);
        let of = |slowdowns: &Slowdowns| [0, 1, 2, 3].map(|id| slowdowns.of(TenantId(id)));
        assert_eq!(of(&slowdowns), [None, Some(1.0), Some(2.25), None]);
        slowdowns.take(&[note(2, Reason::Left, 0), note(GroupId(1).row().0, Reason::Slowed, 3_000)]);
        assert_eq!(of(&slowdowns), [None, Some(1.0), None, None]);
    }
}
