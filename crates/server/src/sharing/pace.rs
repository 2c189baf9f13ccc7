//! Keeps the thread of a loop to its part of a core, with all that it does: experiments, waking and waiting, too.
//!
//! Shape:      CPU time of the thread so far, at each steady step -> how long it rests
//! Invariants: over time the thread uses one part in `LOOP_ONE_IN` of a core, as far as it may rest

use std::thread::{self, ThreadId};
use units::{Duration, Instant};

/// The thread of the loop takes one part in so many of a core: half a per cent, with what the next rest is too late for.
const LOOP_ONE_IN: u64 = 220;

/// What is not rested for within so long is not rested for: the loop looks up as often.
pub(crate) const REST_MAX: Duration = Duration::from_secs(1);

/// What the thread of the loop has used.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The thread, its CPU time at its last step, and up to when what it had used before has been rested for.
    last: Option<(ThreadId, Duration, Instant)>,
}

impl Pace {
    /// How long this thread rests from `now` on, which has used so much CPU time so far.
    pub(super) fn rest(&mut self, now: Instant, cpu: Duration) -> Duration {
        let thread = thread::current().id();
        let last = self.last.filter(|(of, ..)| *of == thread);
        let due = last.map_or(now, |(_, before, rested)| {
            rested + Duration(cpu.0.saturating_sub(before.0).saturating_mul(LOOP_ONE_IN))
        });
        // The loop waits no longer than that.
        self.last = Some((thread, cpu, due.max(now).min(now + REST_MAX)));
        due.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_thread_uses_is_rested_for() {
        let mut pace = Pace::default();
        let ms = Duration::from_millis;
        let at = |ms: u64| Instant(ms * 1_000_000);
        assert_eq!(pace.rest(at(0), ms(50)), Duration::ZERO, "what it used before its first step");
        assert_eq!(
            pace.rest(at(100), ms(51)),
            ms(120),
            "a millisecond of use is 220 of rest, since the last step"
        );
        assert_eq!(pace.rest(at(150), ms(51)), ms(70), "a step that came early");
        assert_eq!(pace.rest(at(220), ms(52)), ms(220));
        assert_eq!(pace.rest(at(1_000), ms(53)), Duration::ZERO, "it has rested long enough");
        assert_eq!(pace.rest(at(1_000), ms(54)), ms(220), "and what it rested too much is not saved");
    }
}
