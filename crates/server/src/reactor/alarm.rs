//! Ends a wait at a moment: a timerfd that is set and never read.
//!
//! Shape:      a moment and now -> the timer; the same moment again -> nothing
//! Cost:       one system call per moment, none per wait: who waits for the same moment in many short waits sets it once
//! Assumptions: 1. every expiry of a timerfd is an event for whoever watches it edge by edge (timerfd_create(2), epoll(7); io_uring's
//!                 multishot poll is the same); on io_uring one that was not seen when it is set anew may end a wait too early, once

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use units::Instant;

/// Wakes the thread that watches it, at one moment.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// What it is set to; none once it has rung.
    rings_at: Option<Instant>,
}

const ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Self { timer, rings_at: None })
    }

    /// Rings at `at`, and no more at what was said before.
    pub(super) fn set(&mut self, at: Instant, now: Instant) -> io::Result<()> {
        if self.rings_at == Some(at) {
            return Ok(());
        }
        // None at all would unset it.
        let after = std::time::Duration::from_nanos(at.since(now).0.max(1));
        let it_value = Timespec::try_from(after).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: ONCE, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.rings_at = Some(at);
        Ok(())
    }

    /// Says that it has rung.
    pub(super) const fn rang(&mut self) {
        self.rings_at = None;
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}
