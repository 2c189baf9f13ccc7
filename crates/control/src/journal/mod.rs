//! What was decided: when, from which signals, which shares, why.
//!
//! Shape:      a bounded ring of records in memory; one JSON object per line where it is kept
//! Invariants: records hold the whole input of a decision, so a fresh policy with the same seed and the whole
//!             journal repeats every decision (`replay`)

mod families;
mod line;

pub use line::{JournalError, Line};

use crate::policy::{Note, Policy, Pool, Reason, Row, Seen, Window};
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
    pub rows: Vec<Row<S, A>>,
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
        Self { records: VecDeque::new(), limit, rows: 0, rows_limit: usize::MAX, recorded_total: 0 }
    }

    /// Keeps fewer records where they have many tenants: at most so many rows together, but never less than the newest
    /// record. A row is what takes memory, some hundred bytes.
    pub fn limit_rows(&mut self, rows: usize) {
        self.rows_limit = rows;
        self.trim();
    }

    /// The oldest records go until the rest fits the limits.
    fn trim(&mut self) {
        while self.limit < self.records.len() || (self.rows_limit < self.rows && 1 < self.records.len()) {
            self.rows -= self.records.pop_front().map_or(0, |record| record.rows.len());
        }
    }

    /// Appends a record; the oldest goes when the journal is full.
    pub fn push(&mut self, record: Record<S, A>) {
        self.recorded_total += 1;
        self.rows += record.rows.len();
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
    P::Signal: 'r,
    P::Share: PartialEq + 'r,
{
    let mut count = 0;
    for (index, record) in records.enumerate() {
        let seen = Seen::new(record.window, &record.pool, &record.rows).map_err(|_| Divergence { index })?;
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

    fn record(rows: usize) -> Record<(), ()> {
        let row = |i| Row { id: TenantId(i), claim: Claim::default(), signal: None, in_force: None };
        Record {
            at: Instant::ZERO,
            window: Window::default(),
            pool: Pool::default(),
            rows: (0..u32::try_from(rows).unwrap()).map(row).collect(),
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
}
