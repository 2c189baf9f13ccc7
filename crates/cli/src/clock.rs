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

    #[expect(clippy::disallowed_methods, reason = "the binary builds the clock")]
    fn unix_secs(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
    }
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Duration(part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec))
}
