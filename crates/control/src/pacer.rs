//! The control loop: reads a sensor, asks the policy, applies its shares, keeps the journal.
//!
//! Failure: a sensor that fails is a missing signal; an actuator that fails leaves the old share in force, which the
//! next window sees

use crate::journal::{Journal, Record};
use crate::policy::{Decision, Policy, Pool, Row, Seen, SeenError, Window};
use units::{Duration, Instant, TenantId};

/// Pause after an input that cannot be one.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Something that can be measured.
pub trait Sensor {
    /// What it measures of a tenant.
    type Signal;
    /// What it is told.
    type Share;
    /// Fills `rows` (sorted by id, one per tenant) with what was measured since the last call and returns the pool.
    fn read(&mut self, now: Instant, rows: &mut Vec<Row<Self::Signal, Self::Share>>) -> Pool;
}

/// Something that can be told its shares.
pub trait Actuator {
    /// What it is told.
    type Share;
    /// Puts a decision's shares in force as far as it can and writes what is true now into `in_force`, sorted by id.
    /// Returns whether all of it is in force. One whose shares do harm without a loop keeps a [`crate::Lease`].
    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Self::Share>,
        in_force: &mut Vec<(TenantId, Self::Share)>,
    ) -> bool;
}

/// One policy that drives one thing.
#[derive(Debug)]
pub struct Loop<P: Policy> {
    policy: P,
    rows: Vec<Row<P::Signal, P::Share>>,
    in_force: Vec<(TenantId, P::Share)>,
    last: Window,
    wake_at: Instant,
    refused: Option<SeenError>,
    journal: Journal<P::Signal, P::Share>,
}

impl<P> Loop<P>
where
    P: Policy,
    P::Signal: Clone,
    P::Share: Clone + PartialEq,
{
    /// A loop that keeps the newest `journal_limit` decisions.
    pub fn new(policy: P, journal_limit: usize) -> Self {
        Self {
            policy,
            rows: Vec::new(),
            in_force: Vec::new(),
            last: Window::default(),
            wake_at: Instant::ZERO,
            refused: None,
            journal: Journal::new(journal_limit),
        }
    }

    /// When the policy wants to decide again.
    pub fn wake_at(&self) -> Instant {
        self.wake_at
    }

    /// Why the newest input was no input; the shares before it stay in force.
    pub fn refused(&self) -> Option<SeenError> {
        self.refused
    }

    /// The policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The policy alone.
    pub fn into_policy(self) -> P {
        self.policy
    }

    /// What was decided, and why.
    pub fn journal(&self) -> &Journal<P::Signal, P::Share> {
        &self.journal
    }

    /// One turn: read, decide, apply, record. Returns the time until the policy wants the next.
    pub fn step<T>(&mut self, now: Instant, thing: &mut T) -> Duration
    where
        T: Sensor<Signal = P::Signal, Share = P::Share> + Actuator<Share = P::Share>,
    {
        self.rows.clear();
        let pool = thing.read(now, &mut self.rows);
        for row in &mut self.rows {
            let at = self.in_force.binary_search_by_key(&row.id, |(id, _)| *id);
            row.in_force = at.ok().map(|i| self.in_force[i].1.clone());
        }
        let window = Window { start: self.last.end, end: now, mixed: self.last.mixed };
        let seen = match Seen::new(window, &pool, &self.rows) {
            Ok(seen) => seen,
            Err(error) => {
                self.refused = Some(error);
                self.wake_at = now + REFUSED_PAUSE;
                return REFUSED_PAUSE;
            }
        };
        self.refused = None;
        let decision = self.policy.decide(now, &seen);
        let whole = thing.apply(now, &decision, &mut self.in_force);
        self.last = Window { start: window.start, end: now, mixed: !whole };
        let wake = decision.wake;
        self.wake_at = now + wake;
        self.journal.push(Record {
            at: now,
            window,
            pool,
            rows: self.rows.clone(),
            shares: decision.shares.rows().to_vec(),
            wake,
            lease: decision.lease,
            steady: decision.steady,
            notes: decision.notes.to_vec(),
        });
        wake
    }
}
