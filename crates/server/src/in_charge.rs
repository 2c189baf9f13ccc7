//! Who divides the memory now, and who did since which decision: what a replay of the journal needs to know.
//!
//! Invariants: there is always one; at most as many are remembered as the journal has decisions

use crate::groups::Division;
use crate::limits::JOURNAL_RECORDS;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which division of the memory holds since which decision.
#[derive(Debug)]
pub(crate) struct InCharge {
    /// Oldest first, never none.
    since: Mutex<VecDeque<(u64, Arc<Division>)>>,
}

impl InCharge {
    pub(crate) fn new(division: Division) -> Self {
        Self { since: Mutex::new(VecDeque::from([(0, Arc::new(division))])) }
    }

    fn since(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<Division>)>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Arc<Division> {
        self.since().back().map(|(_, division)| Arc::clone(division)).unwrap_or_default()
    }

    /// `division` decides from decision `from` on.
    pub(crate) fn switch(&self, from: u64, division: Division) {
        let mut since = self.since();
        // One that never decided is no part of the history.
        since.retain(|(begin, _)| *begin < from);
        if JOURNAL_RECORDS <= since.len() {
            since.pop_front();
        }
        since.push_back((from, Arc::new(division)));
    }

    /// Who made which of the first `count` decisions.
    pub(crate) fn spans(&self, count: usize) -> Vec<(Arc<Division>, Range<usize>)> {
        let since = self.since();
        let begins = since.iter().map(|(from, _)| usize::try_from(*from).unwrap_or(usize::MAX).min(count));
        let ends = begins.clone().skip(1).chain([count]);
        let spans = since.iter().zip(begins.zip(ends));
        spans.map(|((_, division), (begin, end))| (Arc::clone(division), begin..end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MemoryPolicy;
    use crate::terms::Terms;

    #[test]
    fn spans_cover_every_decision_once() {
        let by = |kind| Division::default().under(kind, Terms::default());
        let in_charge = InCharge::new(by(MemoryPolicy::Shared));
        let spans = |count| -> Vec<_> {
            in_charge.spans(count).into_iter().map(|(division, span)| (division.kind, span)).collect()
        };
        assert_eq!(spans(3), [(MemoryPolicy::Shared, 0..3)]);
        in_charge.switch(3, by(MemoryPolicy::IdleTax));
        // Nothing was decided between the two.
        in_charge.switch(3, by(MemoryPolicy::Partitioned));
        in_charge.switch(5, by(MemoryPolicy::Auto));
        assert_eq!(in_charge.now().kind, MemoryPolicy::Auto);
        let wanted =
            [(MemoryPolicy::Shared, 0..3), (MemoryPolicy::Partitioned, 3..5), (MemoryPolicy::Auto, 5..7)];
        assert_eq!(spans(7), wanted);
    }
}
