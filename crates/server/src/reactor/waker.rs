//! Wakes a thread that waits in its reactor: an eventfd that is written and never read.
//!
//! Assumptions: 1. every write to an eventfd is an event for whoever watches it edge by edge (eventfd(2), epoll(7);
//!                 io_uring's multishot poll is the same)

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Wakes one thread, from any other.
#[derive(Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// The eventfd: whoever writes to it wakes the thread.
    pub(crate) fn bell(&self) -> &Arc<OwnedFd> {
        &self.0
    }

    /// Wakes the thread, or lets its next wait return at once.
    pub(crate) fn wake(&self) -> io::Result<()> {
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
