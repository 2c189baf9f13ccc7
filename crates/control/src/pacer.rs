//! The control loop: reads a sensor, asks the policy, applies its shares, keeps the journal.
//!
//! Failure: a sensor that fails is a missing signal; an actuator that fails leaves the old share in force, which the
//! next window sees

use crate::journal::{Journal, Record, Rows};
use crate::policy::{Decision, Note, Policy, Pool, Reason, Row, Seen, SeenError, Window};
use units::{Duration, Instant, TenantId};

/// Pause after an input that cannot be one.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Something that can be measured.
pub trait Sensor {
    /// What it measures of a tenant.
    type Signal;
    /// What it is told.
    type Share;
    /// Fills `rows` (sorted by id, one per tenant) with what was measured since the last call and returns the pool. A row
    /// says what is in force if that may differ from what the actuator answered last.
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
    /// The policy has changed since the last decision.
    switched: bool,
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
            switched: false,
        }
    }

    /// Tells the policy something else, and lets it decide next time.
    pub fn retell(&mut self, tell: impl FnOnce(&mut P)) {
        tell(&mut self.policy);
        self.wake_at = Instant::ZERO;
    }

    /// Goes on with another policy, which decides next time. It sees what is in force; window and journal go on.
    pub fn switch(&mut self, policy: P) {
        self.policy = policy;
        self.wake_at = Instant::ZERO;
        self.switched = true;
    }

    /// Nothing that was measured before `now` is its to see: another loop has driven the thing until then. It decides next time.
    pub fn rest_until(&mut self, now: Instant) {
        self.last = Window { start: now, end: now, mixed: false };
        self.wake_at = now;
        self.in_force.clear();
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

    /// Bounds the journal by the rows of its records, too.
    pub fn limit_journal_rows(&mut self, rows: usize) {
        self.journal.limit_rows(rows);
    }

    /// Bounds the journal by the bytes that lie apart from the signals of its records, too: `of` says how many of one.
    pub fn limit_journal_apart(&mut self, bytes: usize, of: fn(&P::Signal) -> usize) {
        self.journal.limit_apart(bytes, of);
    }

    /// One turn: read, decide, apply, record. Returns the time until the policy wants the next.
    pub fn step<T>(&mut self, now: Instant, thing: &mut T) -> Duration
    where
        T: Sensor<Signal = P::Signal, Share = P::Share> + Actuator<Share = P::Share>,
    {
        self.rows.clear();
        let pool = thing.read(now, &mut self.rows);
        // A sensor that knows what is in force now (an actuator may be late) has said so; else what was applied holds.
        for row in self.rows.iter_mut().filter(|row| row.in_force.is_none()) {
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
        let name = std::mem::take(&mut self.switched).then(|| self.policy.name());
        let decision = self.policy.decide(now, &seen);
        let whole = thing.apply(now, &decision, &mut self.in_force);
        self.last = Window { start: window.start, end: now, mixed: !whole };
        let wake = decision.wake;
        self.wake_at = now + wake;
        let switched = name.map(|name| Note { tenant: None, reason: Reason::Switched(name), amount: 0 });
        let rows = Rows::of(&self.rows, self.journal.records().last().map(|record| &record.rows));
        self.journal.push(Record {
            at: now,
            window,
            pool,
            rows,
            shares: decision.shares.rows().to_vec(),
            wake,
            lease: decision.lease,
            steady: decision.steady,
            notes: switched.into_iter().chain(decision.notes.iter().cloned()).collect(),
        });
        wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Amount, Claim};
    use crate::memory::{MemoryShare, MemorySignal};
    use crate::shares::{Law, Shares};
    use units::Bytes;

    /// Gives everybody the same target, one byte more each time, and remembers its windows.
    #[derive(Debug, Default)]
    struct Rising {
        shares: Shares<MemoryShare>,
        target: u64,
        windows: Vec<Window>,
        in_force: Vec<Option<u64>>,
    }

    impl Policy for Rising {
        type Signal = MemorySignal;
        type Share = MemoryShare;

        fn name(&self) -> &'static str {
            "rising"
        }

        fn decide(
            &mut self,
            _: Instant,
            seen: &Seen<'_, MemorySignal, MemoryShare>,
        ) -> Decision<'_, MemoryShare> {
            self.windows.push(seen.window);
            self.in_force.push(seen.tenants.first().and_then(|row| row.in_force).map(|s| s.target.0));
            self.target += 1;
            let share = MemoryShare::of(Bytes(self.target));
            self.shares.rebuild(Law::Free, seen, seen.tenants.iter().map(|row| (row.id, share)));
            let second = Duration::from_secs(1);
            Decision { shares: &self.shares, wake: second, lease: second, steady: true, notes: &[] }
        }
    }

    /// One tenant whose actuator reaches at most `reach`, and whose rows can be spoiled.
    struct Plant {
        reach: u64,
        ids: Vec<u32>,
        floor: u64,
    }

    impl Sensor for Plant {
        type Signal = MemorySignal;
        type Share = MemoryShare;

        fn read(&mut self, _: Instant, rows: &mut Vec<Row<MemorySignal, MemoryShare>>) -> Pool {
            let claim = Claim {
                floor: Amount::memory(Bytes(self.floor)),
                ceiling: Some(Amount::memory(Bytes(100))),
                ..Claim::default()
            };
            let row =
                |&id: &u32| Row { id: TenantId(id), claim: claim.clone(), signal: None, in_force: None };
            rows.extend(self.ids.iter().map(row));
            Pool::default()
        }
    }

    impl Actuator for Plant {
        type Share = MemoryShare;

        fn apply(
            &mut self,
            _: Instant,
            decision: &Decision<'_, MemoryShare>,
            in_force: &mut Vec<(TenantId, MemoryShare)>,
        ) -> bool {
            in_force.clear();
            let held =
                |share: MemoryShare| MemoryShare { target: share.target.min(Bytes(self.reach)), ..share };
            in_force.extend(decision.shares.rows().iter().map(|&(id, share)| (id, held(share))));
            in_force.as_slice() == decision.shares.rows()
        }
    }

    #[test]
    fn a_share_that_is_not_in_force_makes_the_next_window_mixed() {
        let mut pacer = Loop::new(Rising::default(), 10);
        let mut plant = Plant { reach: 2, ids: vec![1], floor: 0 };
        for second in 1..=4 {
            pacer.step(Instant::ZERO + Duration::from_secs(second), &mut plant);
        }
        let policy = pacer.into_policy();
        assert_eq!(policy.in_force, [None, Some(1), Some(2), Some(2)], "what is true, not what was asked");
        assert_eq!(policy.windows.iter().map(|w| w.mixed).collect::<Vec<_>>(), [false, false, false, true]);
        assert!(policy.windows.windows(2).all(|w| w[0].end == w[1].start));
    }

    #[test]
    fn a_loop_that_rested_begins_anew() {
        let mut pacer = Loop::new(Rising::default(), 10);
        let mut plant = Plant { reach: 2, ids: vec![1], floor: 0 };
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        for second in 1..=3 {
            pacer.step(at(second), &mut plant);
        }
        pacer.rest_until(at(60));
        assert_eq!(pacer.wake_at(), at(60));
        pacer.step(at(61), &mut plant);
        assert_eq!(pacer.journal().recorded_total(), 4);
        let policy = pacer.into_policy();
        assert_eq!(policy.windows.last(), Some(&Window { start: at(60), end: at(61), mixed: false }));
        assert_eq!(policy.in_force.last(), Some(&None));
    }

    #[test]
    fn an_input_that_is_none_is_refused_and_nothing_changes() {
        let mut pacer = Loop::new(Rising::default(), 10);
        let mut plant = Plant { reach: 9, ids: vec![1, 2], floor: 0 };
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        pacer.step(at(1), &mut plant);
        plant.ids = vec![2, 1];
        pacer.step(at(2), &mut plant);
        assert_eq!(pacer.refused(), Some(SeenError::Order(TenantId(1))));
        plant.ids = vec![1, 1];
        pacer.step(at(3), &mut plant);
        assert_eq!(pacer.refused(), Some(SeenError::Order(TenantId(1))));
        plant.ids = vec![1, 2];
        plant.floor = 101;
        pacer.step(at(4), &mut plant);
        assert_eq!(pacer.refused(), Some(SeenError::FloorAboveCeiling(TenantId(1))));
        plant.floor = 100;
        pacer.step(at(3), &mut plant);
        assert_eq!(pacer.refused(), None, "it recovers");
        assert_eq!(pacer.journal().recorded_total(), 2);
        assert_eq!(pacer.policy().in_force, [None, Some(1)], "the share before the refusals stayed");
        pacer.step(at(2), &mut plant);
        assert_eq!(pacer.refused(), Some(SeenError::WindowReversed), "time does not run backwards");
    }
}
