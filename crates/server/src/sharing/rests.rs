//! How the loop about bandwidth waits for its next turn: a tier whose latency its policy looks at is timed meanwhile.
//!
//! Shape:      how long to wait -> waits between looks, whose mean the next turn sees
//! Invariants: looks take one part in `LOOKS_ONE_IN` of the time at most; who rings ends the wait
//! Source:     MT² §3.2.2 has the mean of a period from queues' counters; one look is of its moment

use super::Sharing;
use crate::shared::Clock;
use units::Duration;

/// Between two looks at a tier's latency at least: five in a window of 100 ms (guess).
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A slow tier is looked at more rarely (guess).
const LOOKS_ONE_IN: u64 = 1_000;

impl Sharing {
    /// Waits so long for the next turn with `wait`, which says whether somebody rang for it.
    pub(crate) fn rest(&self, wake: Duration, clock: &dyn Clock, mut wait: impl FnMut(Duration) -> bool) {
        let due = clock.now() + wake;
        let mut next = LOOK_AGAIN;
        while next < due.since(clock.now()) && self.running().thing.control.watches_latency() {
            if wait(next) {
                return;
            }
            let began = clock.now();
            self.running().thing.control.look();
            next = look_again(clock.now().since(began));
        }
        wait(due.since(clock.now()));
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
    use crate::testing::pass;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_tier_is_looked_at_between_turns_where_a_policy_wants_it() {
        for (policy, expected) in [("prevention+remedy", [MS(20); 5].as_slice()), ("limit", &[MS(100)])] {
            let (clock, shared, _) = two_under(policy);
            let mut waits = Vec::new();
            shared.sharing.rest(MS(100), &*shared.clock, |most| {
                waits.push(most);
                pass(&clock, most);
                false
            });
            assert_eq!(waits, expected, "{policy}");
            let mut rung = 0;
            shared.sharing.rest(MS(100), &*shared.clock, |_| {
                rung += 1;
                true
            });
            assert_eq!(rung, 1, "{policy}: who rings is heard at once");
        }
    }

    #[test]
    fn a_slow_tier_is_looked_at_more_rarely() {
        let us = Duration::from_micros;
        assert_eq!([us(8), us(20), us(500)].map(look_again), [MS(20), MS(20), MS(500)]);
    }
}
