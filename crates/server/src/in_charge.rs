//! Who divides the memory now, and who did since which decision: what a replay of the journal needs to know.
//!
//! Invariants: there is always one; at most as many are remembered as the journal has decisions

use crate::groups::Division;
use crate::limits::JOURNAL_RECORDS;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A division of the memory and the decisions that it made.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) division: Arc<Division>,
    /// Its policies began anew; else those before it went on, told something else.
    pub(crate) is_fresh: bool,
    pub(crate) decisions: Range<usize>,
}

/// A division, since which decision, and whether its policies began anew.
#[derive(Clone, Debug)]
struct Since {
    from: u64,
    division: Arc<Division>,
    is_fresh: bool,
}

/// Which division of the memory holds since which decision.
#[derive(Debug)]
pub(crate) struct InCharge {
    /// Oldest first, never none.
    since: Mutex<VecDeque<Since>>,
}

impl InCharge {
    pub(crate) fn new(division: Division) -> Self {
        let first = Since { from: 0, division: Arc::new(division), is_fresh: true };
        Self { since: Mutex::new(VecDeque::from([first])) }
    }

    fn since(&self) -> MutexGuard<'_, VecDeque<Since>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Arc<Division> {
        self.since().back().map(|last| Arc::clone(&last.division)).unwrap_or_default()
    }

    /// `division` decides from decision `from` on, by policies that begin anew, or by those that are there, told something else.
    pub(crate) fn switch(&self, from: u64, division: Division, is_fresh: bool) {
        let mut since = self.since();
        // One that never decided is no part of the history, but who goes on after it does so with its policies.
        let began = since.iter().any(|one| from <= one.from && one.is_fresh);
        since.retain(|one| one.from < from);
        if JOURNAL_RECORDS <= since.len() {
            since.pop_front();
        }
        since.push_back(Since { from, division: Arc::new(division), is_fresh: is_fresh || began });
    }

    /// Who made which of the first `count` decisions.
    pub(crate) fn spans(&self, count: usize) -> Vec<Span> {
        let since = self.since();
        let begins = since.iter().map(|one| usize::try_from(one.from).unwrap_or(usize::MAX).min(count));
        let ends = begins.clone().skip(1).chain([count]);
        let span = |(one, (begin, end)): (&Since, (usize, usize))| Span {
            division: Arc::clone(&one.division),
            is_fresh: one.is_fresh,
            decisions: begin..end,
        };
        since.iter().zip(begins.zip(ends)).map(span).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MemoryPolicy;
    use crate::terms::Terms;

    fn by(kind: MemoryPolicy) -> Division {
        Division::default().under(kind, Terms::default())
    }

    fn spans(in_charge: &InCharge, count: usize) -> Vec<(MemoryPolicy, bool, Range<usize>)> {
        in_charge.spans(count).into_iter().map(|s| (s.division.kind, s.is_fresh, s.decisions)).collect()
    }

    #[test]
    fn spans_cover_every_decision_once() {
        use MemoryPolicy::{Auto, IdleTax, Partitioned, Shared};
        let in_charge = InCharge::new(by(Shared));
        in_charge.switch(3, by(Partitioned), true);
        in_charge.switch(5, by(IdleTax), true);
        in_charge.switch(5, by(Auto), true);
        assert_eq!(in_charge.now().kind, Auto);
        assert_eq!(
            spans(&in_charge, 7),
            [(Shared, true, 0..3), (Partitioned, true, 3..5), (Auto, true, 5..7)]
        );
        assert_eq!(spans(&in_charge, 4)[1..], [(Partitioned, true, 3..4), (Auto, true, 4..4)]);
    }

    /// There and back without a decision between is a beginning, too, and so is what is told behind it; what is told alone is none.
    #[test]
    fn policies_that_began_anew_are_told_from_those_that_went_on() {
        use MemoryPolicy::{Auto, Shared};
        let in_charge = InCharge::new(by(Shared));
        in_charge.switch(2, by(Shared), false);
        in_charge.switch(2, by(Shared), false);
        in_charge.switch(4, by(Auto), true);
        in_charge.switch(4, by(Shared), true);
        in_charge.switch(6, by(Auto), true);
        in_charge.switch(6, by(Auto), false);
        let wanted = [(Shared, true, 0..2), (Shared, false, 2..4), (Shared, true, 4..6), (Auto, true, 6..9)];
        assert_eq!(spans(&in_charge, 9), wanted);
    }
}
