//! The clock: the one place where real time enters.

use rustix::time::{ClockId, clock_gettime};
use server::Clock;
use std::time::{Instant as Monotonic, SystemTime, UNIX_EPOCH};
use units::{Duration, Instant};

/// Time since the program started, and the wall clock.
#[derive(Debug)]
pub(crate) struct SystemClock {
    started: Monotonic,
}

impl SystemClock {
    /// A clock that starts now.
    #[expect(clippy::disallowed_methods, reason = "the binary builds the clock")]
    pub(crate) fn new() -> Self {
        Self { started: Monotonic::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn thread_cpu(&self) -> Duration {
        cpu(ClockId::ThreadCPUTime)
    }

    fn process_cpu(&self) -> Duration {
        cpu(ClockId::ProcessCPUTime)
    }

    fn idle_cpu(&self) -> Option<Duration> {
        idle_of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn unix_secs(&self) -> i64 {
        self.unix_micros() / 1_000_000
    }

    #[expect(clippy::disallowed_methods, reason = "the binary builds the clock")]
    fn unix_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
    }
}

/// The kernel counts in hundredths of a second there (proc(5), `USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// Idle time of all cores, waiting for disks included: the fourth and fifth number of the first line of `/proc/stat`.
fn idle_of(stat: &str) -> Option<Duration> {
    let mut numbers = stat.strip_prefix("cpu ")?.split_ascii_whitespace().skip(3).take(2);
    let idle: u64 = numbers.next()?.parse().ok()?;
    let disks: u64 = numbers.next()?.parse().ok()?;
    Some(Duration(idle.saturating_add(disks).saturating_mul(TICK_NS)))
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Duration(part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_from_the_first_line() {
        let stat = "cpu  10 20 30 400 50 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n";
        assert_eq!(idle_of(stat), Some(Duration(4_500_000_000)));
        assert_eq!([idle_of(""), idle_of("cpu  1 2 3"), idle_of("cpu0 1 2 3 4 5")], [None; 3]);
    }
}
