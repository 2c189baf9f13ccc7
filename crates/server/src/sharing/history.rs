//! Which of two loops made which decision: their journals read as one.
//!
//! Shape:      number of a decision, counted from the start over both -> the journal that has it, and its number there
//! Invariants: numbers rise by one; at most as many spans are remembered as a journal has decisions

use crate::limits::JOURNAL_RECORDS;
use std::collections::VecDeque;

/// What a loop divides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    /// A tier's time.
    Bandwidth,
    /// DRAM and a tier's time.
    Joint,
}

/// Decisions that one loop made in a row.
#[derive(Clone, Copy, Debug)]
struct Span {
    family: Family,
    /// Number of the first over both, and in its own journal.
    from: u64,
    own: u64,
}

/// Which loop decided when.
#[derive(Debug)]
pub(super) struct History {
    /// Oldest first, never none.
    spans: VecDeque<Span>,
}

impl History {
    pub(super) fn new(family: Family) -> Self {
        Self { spans: VecDeque::from([Span { family, from: 0, own: 0 }]) }
    }

    /// Another loop decides from decision `from` on, which is `own` of its own.
    pub(super) fn switch(&mut self, family: Family, from: u64, own: u64) {
        // One that never decided is no part of the history.
        self.spans.retain(|span| span.from < from);
        if JOURNAL_RECORDS <= self.spans.len() {
            self.spans.pop_front();
        }
        self.spans.push_back(Span { family, from, own });
    }

    /// The first decision kept from number `from` on, of `all` so far. `kept` finds the first that a journal keeps from a number
    /// of its own on, with its number.
    pub(super) fn find<T>(
        &self,
        from: u64,
        all: u64,
        mut kept: impl FnMut(Family, u64) -> Option<(u64, T)>,
    ) -> Option<(u64, T)> {
        let ends = self.spans.iter().skip(1).map(|span| span.from).chain([all]);
        self.spans.iter().zip(ends).filter(|(_, end)| from < *end).find_map(|(span, end)| {
            let first = from.saturating_sub(span.from) + span.own;
            let (number, found) = kept(span.family, first)?;
            let number = number - span.own + span.from;
            (number < end).then_some((number, found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_journals_read_as_one_and_what_was_given_up_is_left_out() {
        let mut history = History::new(Family::Bandwidth);
        history.switch(Family::Joint, 3, 0);
        // It never decided.
        history.switch(Family::Bandwidth, 5, 3);
        history.switch(Family::Joint, 5, 2);
        history.switch(Family::Bandwidth, 6, 3);
        // Four decisions about bandwidth, of which the first was given up, and three about both.
        let kept = |family, from: u64| {
            let (first, end) = if family == Family::Bandwidth { (1, 4) } else { (0, 3) };
            let number = from.max(first);
            (number < end).then_some((number, (family, number)))
        };
        let mut seen = Vec::new();
        let mut next = 0;
        while let Some((number, found)) = history.find(next, 7, kept) {
            seen.push((number, found));
            next = number + 1;
        }
        let (single, both) = (Family::Bandwidth, Family::Joint);
        let expected =
            [(1, single, 1), (2, single, 2), (3, both, 0), (4, both, 1), (5, both, 2), (6, single, 3)];
        assert_eq!(seen, expected.map(|(number, family, own)| (number, (family, own))));
    }
}
