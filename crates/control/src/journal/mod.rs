//! What was decided: when, from which signals, which shares, why.
//!
//! Shape:      a bounded ring of records in memory; one JSON object per line where it is kept
//! Invariants: records hold the whole input of a decision, so a fresh policy with the same seed and the whole
//!             journal repeats every decision (`replay`)

mod families;
mod line;
mod rows;

pub use line::{JournalError, Line};
pub use rows::Rows;

use crate::policy::{Note, Policy, Pool, Reason, Seen, Window};
use std::collections::VecDeque;
use units::{Duration, Instant, TenantId};

/// One decision with all that went into it.
#[derive(Clone, PartialEq, Debug)]
pub struct Record<S, A> {
    /// When it was made.
    pub at: Instant,
    /// The time that the signals cover.
    pub window: Window,
    /// What was divided.
    pub pool: Pool,
    /// What was seen of each tenant.
    pub rows: Rows<S, A>,
    /// What was decided.
    pub shares: Vec<(TenantId, A)>,
    /// When the policy wanted to be asked again.
    pub wake: Duration,
    /// How long the shares hold without a loop.
    pub lease: Duration,
    /// Whether it was more than an experiment.
    pub steady: bool,
    /// Why.
    pub notes: Vec<Note>,
}

/// The newest decisions, in order.
#[derive(Clone, Debug)]
pub struct Journal<S, A> {
    records: VecDeque<Record<S, A>>,
    limit: usize,
    /// Rows of all records together.
    rows: usize,
    rows_limit: usize,
    /// Bytes that lie apart from the signals of all records together.
    apart: usize,
    apart_limit: usize,
    apart_of: fn(&S) -> usize,
    recorded_total: u64,
}

/// Where a replay left the record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("decision {index} differs when replayed")]
pub struct Divergence {
    /// Index of the first decision that differs.
    pub index: usize,
}

impl<S, A> Journal<S, A> {
    /// A journal that keeps the newest `limit` records.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            records: VecDeque::new(),
            limit,
            rows: 0,
            rows_limit: usize::MAX,
            apart: 0,
            apart_limit: usize::MAX,
            apart_of: |_| 0,
            recorded_total: 0,
        }
    }

    /// Keeps fewer records where they have many tenants: at most so many rows together, but never less than the newest
    /// record. A row is what takes memory, some hundred bytes with what was decided.
    pub fn limit_rows(&mut self, rows: usize) {
        self.rows_limit = rows;
        self.trim();
    }

    /// Keeps fewer records where much lies apart from their signals: at most so many bytes together, by what `of` says of a signal, but never
    /// less than the newest record.
    pub fn limit_apart(&mut self, bytes: usize, of: fn(&S) -> usize) {
        (self.apart_limit, self.apart_of) = (bytes, of);
        self.apart = self.records.iter().map(|record| self.apart_in(record)).sum();
        self.trim();
    }

    fn apart_in(&self, record: &Record<S, A>) -> usize {
        record.rows.signals().map(self.apart_of).sum()
    }

    /// The oldest records go until the rest fits the limits.
    fn trim(&mut self) {
        let is_full =
            |journal: &Self| journal.rows_limit < journal.rows || journal.apart_limit < journal.apart;
        while self.limit < self.records.len() || (1 < self.records.len() && is_full(self)) {
            let Some(oldest) = self.records.pop_front() else { return };
            self.rows -= oldest.rows.len();
            self.apart -= self.apart_in(&oldest);
        }
    }

    /// Appends a record; the oldest goes when the journal is full.
    pub fn push(&mut self, record: Record<S, A>) {
        self.recorded_total += 1;
        self.rows += record.rows.len();
        self.apart += self.apart_in(&record);
        self.records.push_back(record);
        self.trim();
    }

    /// The records kept, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record<S, A>> + DoubleEndedIterator {
        self.records.iter()
    }

    /// Decisions made since the start, kept or not.
    #[must_use]
    pub fn recorded_total(&self) -> u64 {
        self.recorded_total
    }
}

/// Feeds records to a policy in its first state and compares what it decides.
///
/// # Errors
/// The first decision that differs.
pub fn replay<'r, P>(
    policy: &mut P,
    records: impl Iterator<Item = &'r Record<P::Signal, P::Share>>,
) -> Result<usize, Divergence>
where
    P: Policy,
    P::Signal: Clone + 'r,
    P::Share: Clone + PartialEq + 'r,
{
    let mut count = 0;
    for (index, record) in records.enumerate() {
        let rows = record.rows.to_vec();
        let seen = Seen::new(record.window, &record.pool, &rows).map_err(|_| Divergence { index })?;
        let decision = policy.decide(record.at, &seen);
        let same = decision.shares.rows() == record.shares
            && decision.wake == record.wake
            && decision
                .notes
                .iter()
                .eq(record.notes.iter().filter(|n| !matches!(n.reason, Reason::Switched(_))));
        if !same {
            return Err(Divergence { index });
        }
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::policy::Row;

    fn record(rows: usize) -> Record<(), ()> {
        let row = |i| Row { id: TenantId(i), claim: Claim::default(), signal: None, in_force: None };
        record_of((0..u32::try_from(rows).unwrap()).map(row).collect())
    }

    fn record_of<S: Clone>(rows: Vec<Row<S, ()>>) -> Record<S, ()> {
        Record {
            at: Instant::ZERO,
            window: Window::default(),
            pool: Pool::default(),
            rows: Rows::of(&rows, None),
            shares: Vec::new(),
            wake: Duration::ZERO,
            lease: Duration::ZERO,
            steady: true,
            notes: Vec::new(),
        }
    }

    #[test]
    fn records_and_their_rows_are_bounded() {
        let mut journal = Journal::new(3);
        journal.limit_rows(10);
        let mut kept = |rows| {
            journal.push(record(rows));
            journal.records().map(|record| record.rows.len()).collect::<Vec<_>>()
        };
        assert_eq!(kept(2), [2]);
        assert_eq!(kept(3), [2, 3]);
        assert_eq!(kept(5), [2, 3, 5]);
        assert_eq!(kept(1), [3, 5, 1], "three records at most");
        assert_eq!(kept(6), [1, 6], "ten rows at most");
        assert_eq!(kept(50), [50], "but always the newest");
        assert_eq!(journal.recorded_total(), 6);
    }

    #[test]
    fn what_lies_apart_from_signals_is_bounded() {
        let row = |bytes| Row { id: TenantId(0), claim: Claim::default(), signal: bytes, in_force: None };
        let of = |signals: &[Option<usize>]| record_of(signals.iter().copied().map(row).collect());
        let mut journal = Journal::new(9);
        journal.push(of(&[Some(70)]));
        journal.push(of(&[Some(30), None, Some(30)]));
        assert_eq!(journal.records().len(), 2, "nobody has said how much that is");
        journal.limit_apart(100, |bytes| *bytes);
        assert_eq!(journal.records().len(), 1);
        for (signal, kept) in
            [(Some(40), 2), (None, 3), (Some(1), 3), (Some(500), 1), (Some(100), 1), (Some(0), 2)]
        {
            journal.push(of(&[signal]));
            assert_eq!(journal.records().len(), kept, "{signal:?}");
        }
        assert_eq!(journal.recorded_total(), 8);
    }
}
