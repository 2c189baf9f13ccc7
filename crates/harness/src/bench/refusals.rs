//! Stores that servers refused while they were measured: one that did not take place is no work.
//!
//! Shape: what was heard of each load -> a premise for each server of a section

use harness::live::{Heard, Kind, few_refused};

/// What servers refused since premises were asked for last.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Vec<Tally>);

#[derive(Debug)]
struct Tally {
    kind: Kind,
    refused: u64,
    stores: u64,
    loads: u64,
    /// Loads of which more was refused than the odd store.
    spoilt: u64,
}

impl Refusals {
    /// Counts one load.
    pub(crate) fn count(&mut self, kind: Kind, heard: &Heard) {
        let at = self.0.iter().position(|tally| tally.kind == kind).unwrap_or_else(|| {
            self.0.push(Tally { kind, refused: 0, stores: 0, loads: 0, spoilt: 0 });
            self.0.len() - 1
        });
        let tally = &mut self.0[at];
        tally.refused += heard.refused;
        tally.stores += heard.stores();
        tally.loads += 1;
        tally.spoilt += u64::from(!few_refused(heard.refused, heard.stores()));
    }

    /// The premises of what was counted, with their figures.
    pub(crate) fn premises(self, section: &str) -> Vec<(bool, String)> {
        let premise = |Tally { kind, refused, stores, loads, spoilt }: Tally| {
            let what = format!(
                "{section}, {}: {refused} of {stores} stores were refused, more than one in a thousand in {spoilt} of {loads} loads",
                kind.name()
            );
            (spoilt == 0, what)
        };
        self.0.into_iter().map(premise).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_whose_stores_are_refused_spoils_a_section() {
        let heard = |stores: u64, refused: u64| Heard { requests: stores, refused, ..Heard::default() };
        let mut refusals = Refusals::default();
        refusals.count(Kind::Cotenant, &heard(1_000_000, 0));
        refusals.count(Kind::Memcached, &heard(1_000_000, 1_000));
        // What is little of all is all of one.
        refusals.count(Kind::Cotenant, &heard(500, 1));
        let found = refusals.premises("here");
        assert_eq!(found.iter().map(|(holds, _)| *holds).collect::<Vec<_>>(), [false, true]);
        assert!(found[0].1.starts_with("here, cotenant: 1 of 1000500 stores"), "{}", found[0].1);
        assert!(Refusals::default().premises("here").is_empty());
    }

    #[test]
    fn stores_behind_misses_count_and_look_ups_do_not() {
        let heard = Heard { requests: 3_000, gets: 2_000, fills: 1_000, refused: 2, ..Heard::default() };
        assert!(few_refused(heard.refused, heard.stores()));
        assert!(!few_refused(heard.refused + 1, heard.stores()));
    }
}
