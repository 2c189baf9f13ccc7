//! What a policy says of a tenant's slowdown: once when it is known, and again when it is another.
//!
//! Source: NyxCache §3.3

use super::roster::note;
use control::{Note, Reason};
use units::TenantId;

/// A change by less than this part of what was said is not worth a note (guess: about the noise of ten probes).
const SLIGHT: f64 = 1.0 / 16.0;

/// The slowdown that was said last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told(f64);

impl Told {
    /// Says a tenant's slowdown, if that is news.
    pub(super) fn say(&mut self, id: TenantId, slowdown: f64, notes: &mut Vec<Note>) {
        if (slowdown - self.0).abs() <= self.0 * SLIGHT {
            return;
        }
        self.0 = slowdown;
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        notes.push(note(Some(id), Reason::Slowed, (slowdown * 1_000.0).round() as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_news_is_said_once() {
        let (mut told, mut notes) = (Told::default(), Vec::new());
        for slowdown in [1.0, 1.0, 1.06, 1.07, 2.5, 2.45, 1.0] {
            told.say(TenantId(3), slowdown, &mut notes);
        }
        let said: Vec<_> = notes.iter().map(|note| (note.tenant, note.reason.word(), note.amount)).collect();
        let of = |amount| (Some(TenantId(3)), "slowed", amount);
        assert_eq!(said, [of(1_000), of(1_070), of(2_500), of(1_000)]);
    }
}
