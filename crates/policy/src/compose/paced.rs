//! A policy that is asked more often than it wishes: it decides only when it is due, on all that was seen since.
//!
//! Shape:      short windows -> one window of the length that the policy asked for -> its decision, held until the next
//! Invariants: a signal that was missing in a part of the window is missing in the whole; who comes or goes, and a changed
//!             claim, capacity, profile or model, is due at once; a pool's latencies are measured and no change; a promise
//!             that could not be kept is said again until the policy decides anew
//! Cost:       O(tenants) per call, no allocation once the tenants are steady

use control::bandwidth::Kinds;
use control::{Decision, Join, Note, Policy, Pool, Reason, Row, Seen, Shares, Window};
use units::{Duration, Instant};

/// A policy with the window that it has seen so far.
#[derive(Debug)]
pub(super) struct Paced<P: Policy> {
    policy: P,
    rows: Vec<Row<P::Signal, P::Share>>,
    pool: Pool,
    window: Window,
    fresh: bool,
    due: Instant,
    shares: Shares<P::Share>,
    lease: Duration,
    steady: bool,
    notes: Vec<Note>,
}

impl<P> Paced<P>
where
    P: Policy,
    P::Signal: Join,
    P::Share: Clone + PartialEq,
{
    pub(super) fn new(policy: P) -> Self {
        Self {
            policy,
            rows: Vec::new(),
            pool: Pool::default(),
            window: Window::default(),
            fresh: true,
            due: Instant::ZERO,
            shares: Shares::default(),
            lease: Duration::ZERO,
            steady: true,
            notes: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.policy.name()
    }

    pub(super) fn policy(&self) -> &P {
        &self.policy
    }

    pub(super) fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// Whether nobody was there at last.
    pub(super) fn has_nobody(&self) -> bool {
        self.rows.is_empty()
    }

    /// Makes the policy due, whenever it wished to be asked again.
    pub(super) fn hurry(&mut self) {
        self.due = Instant::ZERO;
    }

    /// Takes note of what was seen (`disturbed`: while shares changed that are not this policy's), decides if due, and
    /// says whether its shares changed.
    pub(super) fn see(
        &mut self,
        now: Instant,
        seen: &Seen<'_, P::Signal, P::Share>,
        disturbed: bool,
    ) -> bool {
        let changed = self.is_changed(seen);
        self.gather(seen, disturbed);
        if !changed && now < self.due {
            self.notes.retain(|note| matches!(note.reason, Reason::Incident(_)));
            return false;
        }
        self.notes.clear();
        // Rows and window were checked when `seen` was made; they are joined in the same order.
        let Ok(all) = Seen::new(self.window, &self.pool, &self.rows) else { return false };
        let decision = self.policy.decide(now, &all);
        let moved = self.shares != *decision.shares;
        self.shares.copy_from(decision.shares);
        self.due = now + decision.wake;
        self.lease = decision.lease;
        self.steady = decision.steady;
        self.notes.extend_from_slice(decision.notes);
        self.fresh = true;
        moved
    }

    /// What is decided, as of the last time it was due.
    pub(super) fn held(&self, now: Instant) -> Decision<'_, P::Share> {
        Decision {
            shares: &self.shares,
            wake: self.due.since(now),
            lease: self.lease,
            steady: self.steady,
            notes: &self.notes,
        }
    }

    fn is_changed(&self, seen: &Seen<'_, P::Signal, P::Share>) -> bool {
        let (before, now) = (&self.pool, seen.pool);
        before.capacity != now.capacity
            || before.profile != now.profile
            || before.model != now.model
            || self.rows.len() != seen.tenants.len()
            || self.rows.iter().zip(seen.tenants).any(|(a, b)| a.id != b.id || a.claim != b.claim)
    }

    fn gather(&mut self, seen: &Seen<'_, P::Signal, P::Share>, disturbed: bool) {
        let same = self.rows.len() == seen.tenants.len()
            && self.rows.iter().zip(seen.tenants).all(|(a, b)| a.id == b.id);
        let start = if self.fresh { seen.window.start } else { self.window.start };
        let mixed = seen.window.mixed || (!self.fresh && (self.window.mixed || disturbed));
        let latency = if self.fresh { seen.pool.latency } else { self.mean_latency(seen) };
        self.window = Window { start, end: seen.window.end, mixed };
        self.pool = Pool { latency, ..*seen.pool };
        if self.fresh && same {
            for (row, new) in self.rows.iter_mut().zip(seen.tenants) {
                row.clone_from(new);
            }
        } else if same {
            for (row, new) in self.rows.iter_mut().zip(seen.tenants) {
                join(row, new);
            }
        } else {
            self.regather(seen);
        }
        self.fresh = false;
    }

    /// What an access takes on average over all of the window, by its parts that saw one.
    fn mean_latency(&self, seen: &Seen<'_, P::Signal, P::Share>) -> Kinds<Option<Duration>> {
        let [before, now] = [self.window, seen.window].map(|window| u128::from(window.length().0));
        let mean = |a: Duration, b: Duration| {
            let sum = u128::from(a.0) * before + u128::from(b.0) * now;
            let mean = sum.checked_div(before + now).unwrap_or(u128::from(b.0));
            Duration(u64::try_from(mean).unwrap_or(u64::MAX))
        };
        Kinds::from_fn(|kind| match (*self.pool.latency.get(kind), *seen.pool.latency.get(kind)) {
            (Some(a), Some(b)) => Some(mean(a, b)),
            (known, new) => new.or(known),
        })
    }

    /// Joins where tenants came or went: one that came has no signal of the whole window.
    fn regather(&mut self, seen: &Seen<'_, P::Signal, P::Share>) {
        let before = std::mem::take(&mut self.rows);
        self.rows.extend_from_slice(seen.tenants);
        if self.fresh {
            return;
        }
        for (row, new) in self.rows.iter_mut().zip(seen.tenants) {
            match before.binary_search_by_key(&row.id, |old| old.id) {
                Ok(at) => {
                    row.signal.clone_from(&before[at].signal);
                    join(row, new);
                }
                Err(_) => row.signal = None,
            }
        }
    }
}

/// Adds the newest part of a window to a row.
fn join<S: Join, A: Clone>(row: &mut Row<S, A>, new: &Row<S, A>) {
    match (&mut row.signal, &new.signal) {
        (Some(all), Some(part)) => all.then(part),
        (signal, _) => *signal = None,
    }
    row.claim.clone_from(&new.claim);
    row.in_force.clone_from(&new.in_force);
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::bandwidth::{BandwidthSignal, Throttle};
    use control::{Claim, Law};
    use units::TenantId;

    /// Wishes to be asked every 100 ms; remembers the latency that it saw.
    #[derive(Debug, Default)]
    struct Watcher {
        saw: Option<Duration>,
        shares: Shares<Throttle>,
    }

    impl Policy for Watcher {
        type Signal = BandwidthSignal;
        type Share = Throttle;

        fn name(&self) -> &'static str {
            "watcher"
        }

        fn decide(
            &mut self,
            _: Instant,
            seen: &Seen<'_, BandwidthSignal, Throttle>,
        ) -> Decision<'_, Throttle> {
            self.saw = seen.pool.latency.slow_read;
            self.shares.rebuild(Law::Free, seen, seen.tenants.iter().map(|row| (row.id, Throttle::FREE)));
            let wake = Duration::from_millis(100);
            Decision { shares: &self.shares, wake, lease: wake, steady: true, notes: &[] }
        }
    }

    #[test]
    fn a_latency_is_the_mean_over_all_of_the_window() {
        let rows = [Row { id: TenantId(1), claim: Claim::default(), signal: None, in_force: None }];
        let mut paced = Paced::new(Watcher::default());
        let mut now = Instant::ZERO;
        for (ms, latency, expected) in [
            (100, Some(500), Some(500)),
            (20, Some(1_000), Some(500)),
            (30, None, Some(500)),
            // 1,000 ns for 50 ms, as far as is known, and 3,000 for 50.
            (50, Some(3_000), Some(2_000)),
            (100, None, None),
        ] {
            let window = Window { start: now, end: now + Duration::from_millis(ms), mixed: false };
            now = window.end;
            let slow_read = latency.map(Duration::from_nanos);
            let pool = Pool { latency: Kinds { slow_read, ..Kinds::default() }, ..Pool::default() };
            paced.see(now, &Seen::new(window, &pool, &rows).unwrap(), false);
            assert_eq!(paced.policy().saw, expected.map(Duration::from_nanos), "after {ms} ms");
        }
    }
}
