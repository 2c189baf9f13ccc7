//! Promises that cannot be kept: policies say so at each decision, and one that goes on counts once.
//!
//! Shape:      what each decision says -> how many there were so far, and which there are now

use units::TenantId;

/// A promise that could not be kept: whose, and why.
pub(super) type Incident = (Option<TenantId>, String);

/// Promises that could not be kept.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    /// So far.
    pub(super) total: u64,
    /// Those of the last steady decision, and of experiments since.
    pub(super) now: Vec<Incident>,
}

impl Incidents {
    /// Takes what a decision said.
    pub(super) fn take(&mut self, said: Vec<Incident>, is_steady: bool) {
        let is_new = |incident: &&Incident| !self.now.contains(incident);
        self.total += said.iter().filter(is_new).count() as u64;
        if is_steady {
            self.now = said;
        } else {
            self.now.extend(said.into_iter().filter(|incident| is_new(&incident)).collect::<Vec<_>>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(of: &[u32]) -> Vec<Incident> {
        of.iter().map(|id| (Some(TenantId(*id)), "a goal is missed".to_owned())).collect()
    }

    #[test]
    fn one_that_goes_on_counts_once_and_one_that_is_over_is_not_shown() {
        let mut incidents = Incidents::default();
        for (says, is_steady, total, now) in [
            (said(&[1]), true, 1, said(&[1])),
            (said(&[1]), true, 1, said(&[1])),
            // An experiment says what else it finds, and nothing of what goes on.
            (said(&[2]), false, 2, said(&[1, 2])),
            (said(&[2]), false, 2, said(&[1, 2])),
            (said(&[1, 2]), true, 2, said(&[1, 2])),
            (said(&[]), true, 2, said(&[])),
            (said(&[1]), true, 3, said(&[1])),
        ] {
            incidents.take(says, is_steady);
            assert_eq!((incidents.total, &incidents.now), (total, &now));
        }
    }
}
