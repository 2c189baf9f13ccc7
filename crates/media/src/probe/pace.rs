//! When a prober's thread may begin its next accesses: as fast as it can, or so many per second.
//!
//! Shape:      accesses begun so far -> how many more may be begun now
//! Invariants: no more is begun than the rate allows since the start; who is late makes up for it as fast as it can

use crate::Stopwatch;
use units::{Duration, Instant};

/// A thread's time and rate.
#[derive(Debug)]
pub(super) struct Pace<'w> {
    watch: &'w Stopwatch,
    begin: Instant,
    end: Instant,
    /// Accesses per second; infinite where nothing is held back.
    per_sec: f64,
}

impl<'w> Pace<'w> {
    /// From now on for `length`.
    pub(super) fn new(watch: &'w Stopwatch, length: Duration, per_sec: f64) -> Self {
        let begin = watch.now();
        Self { watch, begin, end: begin + length, per_sec }
    }

    /// How many accesses may begin now, `most` at most, if `begun` have: none if that is none now, or the time is over.
    pub(super) fn some(&self, begun: u64, most: u64) -> u64 {
        let now = self.watch.now();
        if self.end <= now { 0 } else { self.due(now).saturating_sub(begun).min(most) }
    }

    /// The same, and waits until some may: none only when the time is over.
    pub(super) fn wait_for_some(&self, begun: u64, most: u64) -> u64 {
        loop {
            let some = self.some(begun, most);
            let now = self.watch.now();
            if 0 < some || self.end <= now {
                return some;
            }
            let rest = self.next(begun).min(self.end).since(now);
            std::thread::sleep(std::time::Duration::from_nanos(rest.0));
        }
    }

    /// Accesses per second that `done` were, up to now.
    pub(super) fn per_sec(&self, done: u64) -> f64 {
        done as f64 / self.watch.now().since(self.begin).as_secs_f64()
    }

    /// Accesses that may have begun by `now`.
    fn due(&self, now: Instant) -> u64 {
        if self.per_sec.is_infinite() {
            return u64::MAX;
        }
        whole(now.since(self.begin).as_secs_f64() * self.per_sec).saturating_add(1)
    }

    /// When the one after `begun` is due.
    fn next(&self, begun: u64) -> Instant {
        Instant(self.begin.0.saturating_add(whole(begun as f64 * 1e9 / self.per_sec)))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; not below zero")]
fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_begun_than_the_rate_allows() {
        let watch = Stopwatch::new();
        let pace = Pace::new(&watch, Duration::from_secs(1_000), 100.0);
        let at = |ms: u64| pace.begin + Duration::from_millis(ms);
        assert_eq!([0, 9, 10, 1_000].map(|ms| pace.due(at(ms))), [1, 1, 2, 101]);
        assert_eq!(pace.next(0), pace.begin);
        assert_eq!(pace.next(3), at(30));
        assert_eq!(pace.some(u64::MAX, 64), 0);
        assert_eq!(pace.wait_for_some(0, 1), 1);
        let free = Pace::new(&watch, Duration::from_secs(1_000), f64::INFINITY);
        assert_eq!([free.some(5, 64), free.wait_for_some(1 << 40, 16)], [64, 16]);
    }

    #[test]
    fn when_time_is_over_nothing_begins() {
        let watch = Stopwatch::new();
        for per_sec in [1e-3, f64::INFINITY] {
            let pace = Pace::new(&watch, Duration::ZERO, per_sec);
            assert_eq!([pace.some(0, 64), pace.wait_for_some(0, 64)], [0, 0]);
        }
    }
}
