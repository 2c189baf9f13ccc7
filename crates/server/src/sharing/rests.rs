//! How a tier is timed for a policy that looks at its latency: at each turn of the loop about bandwidth, and between two of them.
//!
//! Shape:      how long to wait -> waits between looks, whose mean the next turn sees
//! Invariants: looks between turns take one part in `LOOKS_ONE_IN` of the time at most, so that a slow tier is looked at once or twice in a
//!             window; nobody waits for a look but the loop; who rings ends the wait
//! Source:     MT² §3.2.2 has the mean of a period from queues' counters; one look is of its moment

use super::Sharing;
use crate::shared::Shared;
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

/// Between two looks at a tier's latency at least: five in a window of 100 ms (guess).
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A slow tier is looked at more rarely (guess).
const LOOKS_ONE_IN: u64 = 1_000;

impl Sharing {
    /// Waits so long for the next turn with `wait`, which says whether somebody rang for it.
    pub(crate) fn rest(&self, wake: Duration, shared: &Shared, mut wait: impl FnMut(Duration) -> bool) {
        let due = shared.clock.now() + wake;
        loop {
            let now = shared.clock.now();
            let next = self.looks_at().since(now).max(LOOK_AGAIN);
            if due.since(now) <= next || !self.watches_latency() {
                wait(due.since(now));
                return;
            }
            if wait(next) {
                return;
            }
            let began = shared.clock.now();
            self.look(shared);
            let ended = shared.clock.now();
            self.looks_at_ns.store((ended + look_again(ended.since(began))).0, Ordering::Relaxed);
        }
    }

    /// Times the tier, if a policy wants to know.
    pub(super) fn look(&self, shared: &Shared) {
        if self.watches_latency() {
            let seen = shared.store.tier_latency();
            self.running().thing.control.note_latency(seen);
        }
    }

    /// When the tier may be looked at again between two turns.
    fn looks_at(&self) -> Instant {
        Instant(self.looks_at_ns.load(Ordering::Relaxed))
    }

    fn watches_latency(&self) -> bool {
        self.running().thing.control.watches_latency()
    }
}

/// How long after a look that took so long the next one is.
fn look_again(took: Duration) -> Duration {
    LOOK_AGAIN.max(Duration(took.0.saturating_mul(LOOKS_ONE_IN)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::testing::two_under;
    use crate::testing::{Set, pass};
    use control::Sensor;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// The waits of a rest of 100 ms in which nobody rings, and whether the next reading has a latency.
    fn rest(shared: &Shared, clock: &Set) -> (Vec<Duration>, bool) {
        let mut waits = Vec::new();
        shared.sharing.rest(MS(100), shared, |most| {
            waits.push(most);
            pass(clock, most);
            false
        });
        let now = shared.clock.now();
        let pool = shared.sharing.running().thing.control.read(now, &mut Vec::new());
        (waits, pool.latency.slow_read.is_some())
    }

    #[test]
    fn a_tier_is_looked_at_between_turns_where_a_policy_wants_it() {
        let (clock, shared, _) = two_under("prevention+remedy");
        assert_eq!(rest(&shared, &clock), (vec![MS(20); 5], true));
        // After a look that took .03 ms, and one that took a millisecond.
        for (again, expected) in [(30, [30, 20, 20, 20, 10].as_slice()), (1_000, &[100])] {
            shared.sharing.looks_at_ns.store((shared.clock.now() + MS(again)).0, Ordering::Relaxed);
            let expected: Vec<_> = expected.iter().copied().map(MS).collect();
            let is_seen = 1 < expected.len();
            assert_eq!(rest(&shared, &clock), (expected, is_seen));
        }
        let mut rung = 0;
        shared.sharing.rest(MS(100), &shared, |_| {
            rung += 1;
            true
        });
        assert_eq!(rung, 1, "who rings is heard at once");
        let (clock, shared, _) = two_under("limit");
        assert_eq!(rest(&shared, &clock), (vec![MS(100)], false));
    }

    #[test]
    fn a_tier_is_looked_at_at_each_turn() {
        for (policy, is_seen) in [("prevention+remedy", true), ("prevention", false)] {
            let (clock, shared, _) = two_under(policy);
            for turn in 0..3 {
                pass(&clock, MS(200));
                shared.sharing.step(&shared);
                let (at, line) = shared.sharing.journal_line(turn).expect("a decision");
                let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
                let latency = &line["pool"]["latency_ns"]["slow_read"];
                assert_eq!((at, latency.as_u64().is_some()), (turn, is_seen), "{policy}: {line}");
            }
        }
    }

    #[test]
    fn a_slow_tier_is_looked_at_more_rarely() {
        let us = Duration::from_micros;
        assert_eq!([us(8), us(20), us(500)].map(look_again), [MS(20), MS(20), MS(500)]);
    }
}
