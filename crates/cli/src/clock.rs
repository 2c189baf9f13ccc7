//! The clock: the one place where real time enters.

use server::Clock;
use std::time::{Instant as Monotonic, SystemTime, UNIX_EPOCH};
use units::Instant;

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

    #[expect(clippy::disallowed_methods, reason = "the binary builds the clock")]
    fn unix_secs(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
    }
}
