//! The system's clocks, for servers in this process and for stopwatches of loads.
//!
//! Units: nanoseconds; a server's time is counted from when its clock was made

use rustix::time::{ClockId, clock_gettime};
use server::Clock;
use units::{Duration, Instant};

/// The system's clocks, from a moment on.
#[derive(Debug)]
pub struct Real {
    started_ns: u64,
}

impl Real {
    /// Clocks that begin now.
    #[must_use]
    pub fn start() -> Self {
        Self { started_ns: nanos() }
    }
}

impl Clock for Real {
    fn now(&self) -> Instant {
        Instant(nanos() - self.started_ns)
    }

    fn thread_cpu(&self) -> Duration {
        Duration(of(ClockId::ThreadCPUTime))
    }

    fn process_cpu(&self) -> Duration {
        Duration(of(ClockId::ProcessCPUTime))
    }

    fn unix_secs(&self) -> i64 {
        clock_gettime(ClockId::Realtime).tv_sec
    }

    fn unix_micros(&self) -> i64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
    }
}

/// Nanoseconds of the monotonic clock.
#[must_use]
pub fn nanos() -> u64 {
    of(ClockId::Monotonic)
}

/// CPU time of this thread, in nanoseconds.
pub(super) fn thread_cpu() -> u64 {
    of(ClockId::ThreadCPUTime)
}

fn of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // No clock is ever before its zero.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
