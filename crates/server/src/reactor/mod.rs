//! Sockets as completions: data that has arrived, data that has been sent.
//!
//! Shape:      register a stream -> `Arrived` with bytes in the caller's buffer; `send` -> all taken, or `Sent` later
//! Invariants: what a socket did not take at once is copied before `send` returns, so that nothing borrowed outlives
//!             the call; a stream with a send outstanding or a pause delivers no data; an idle stream holds no buffer
//! Failure:    a stream that fails is delivered once as `Failed`
//!
//! Two engines implement it: epoll everywhere, io_uring where the system allows it.

mod alarm;
#[cfg(test)]
mod end_tests;
mod epoll;
mod place;
mod ring;
mod stream;
mod tag;
#[cfg(test)]
mod tests;
mod uring;
mod waker;

pub(crate) use epoll::Epoll;
pub(crate) use place::{Place, Places};
pub(crate) use ring::Ring;
pub(crate) use uring::Uring;
pub(crate) use waker::Waker;

use socket2::Socket;
use std::io::{self, IoSlice};
use std::sync::Arc;
use units::{Duration, Instant};

/// What waits for sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoEngine {
    /// The one that serves best, if the system allows it.
    #[default]
    Auto,
    /// Readiness, and a system call per receive and send.
    Epoll,
    /// One system call for everything of a round.
    IoUring,
}

impl IoEngine {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Epoll, Self::IoUring];
    /// What `Auto` prefers: it takes .94 to .99 of epoll's CPU time per request (docs/decisions/2026-11-21-io-engine.md).
    const PREFERRED: Self = Self::IoUring;

    /// The name under which operators choose it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

/// The engine in force.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) kind: IoEngine,
    /// Why this one.
    pub(crate) reason: String,
}

/// Decides which engine serves `threads` workers; the rings of io_uring are made here, so that a refusal is known before
/// anybody is served.
pub(crate) fn choose(asked: IoEngine, threads: usize) -> (Engine, Vec<Ring>) {
    let wanted = if asked == IoEngine::Auto { IoEngine::PREFERRED } else { asked };
    let reason = if asked == IoEngine::Auto { "the default" } else { "as configured" };
    if wanted != IoEngine::IoUring {
        return (Engine { kind: IoEngine::Epoll, reason: reason.to_owned() }, Vec::new());
    }
    match make_rings(threads) {
        Ok(rings) => (Engine { kind: IoEngine::IoUring, reason: reason.to_owned() }, rings),
        Err(cause) => {
            let reason = format!("io_uring is not to be had: {cause}");
            if asked == IoEngine::IoUring {
                tracing::warn!("epoll serves, {reason}");
            } else {
                tracing::info!("epoll serves, {reason}");
            }
            (Engine { kind: IoEngine::Epoll, reason }, Vec::new())
        }
    }
}

/// Finds out whether io_uring can wait for sockets here, as a server does when it starts.
///
/// # Errors
/// Why it cannot.
pub fn probe_io_uring() -> io::Result<()> {
    make_rings(0).map(drop)
}

/// Finds out whether io_uring is to be had, and makes a ring for each of `threads` workers. The system interrupts whoever has made a
/// ring when that ends; so a thread makes them that is gone by then.
fn make_rings(threads: usize) -> io::Result<Vec<Ring>> {
    let make = || Ring::probe().and_then(|()| (0..threads).map(|_| Ring::new()).collect());
    std::thread::scope(|scope| {
        let maker = std::thread::Builder::new().name("rings".to_owned()).spawn_scoped(scope, make)?;
        maker.join().unwrap_or_else(|_| Err(io::Error::other("who makes rings has failed")))
    })
}

/// A stream's number at its reactor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamId(pub(crate) usize);

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// So many bytes are in the caller's buffer.
    Arrived(StreamId, usize),
    /// So many bytes are behind what the caller keeps of the stream.
    Added(StreamId, usize),
    /// So many bytes that `send` took are not gone; `Sent` follows.
    Owes(StreamId, usize),
    /// Everything given to `send` has gone out.
    Sent(StreamId),
    /// The other side has closed. The number is free again.
    Closed(StreamId),
    /// The stream failed. The number is free again.
    Failed(StreamId),
}

/// Whether a send is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sending {
    /// The socket took everything.
    Done,
    /// So many bytes were copied and go out later; `Sent` follows.
    Later(usize),
    /// The stream failed, and takes nothing more. Whoever sends closes it: no event is sure to follow.
    Failed,
}

/// See `Reactor::acknowledge`.
fn acknowledge(socket: &Socket) {
    // Another kind of stream acknowledges nothing.
    let _told = rustix::net::sockopt::set_tcp_quickack(socket, true);
}

/// Streams, whatever waits for them.
pub(crate) trait Reactor {
    /// Takes a stream over.
    fn register(&mut self, stream: Socket) -> io::Result<StreamId>;
    /// Lets a wait end at a moment, instead of at the one that was said before: for who waits often for the same moment.
    fn ring_at(&mut self, at: Instant, now: Instant) -> io::Result<()>;
    /// Waits until something may have completed, at most so long, in whole milliseconds.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;
    /// Whether `next` may have something without waiting.
    fn has_ready(&self) -> bool {
        0 < self.ready()
    }
    /// How many completions `next` may have without waiting.
    fn ready(&self) -> usize;
    /// The next completion, its data in `buffer` or in the place that `places` has for it.
    fn next(&mut self, buffer: &mut [u8], places: &mut dyn Places) -> Option<Completion>;
    /// Sends pieces in order, behind what was given before.
    fn send(&mut self, id: StreamId, pieces: &[IoSlice<'_>]) -> Sending;
    /// Sends what `send` took and has not sent yet: for a stream that is to end, or one whose replies shall not wait for the round's end.
    fn flush(&mut self, _id: StreamId) -> Sending {
        Sending::Done
    }
    /// Delivers no more data of a stream until `resume`: the system's buffers fill, and the other side waits.
    fn pause(&mut self, id: StreamId);
    /// Delivers data again.
    fn resume(&mut self, id: StreamId);
    /// Whether the other side is known to send no more, or to be gone, though what it has sent was not delivered yet.
    fn has_left(&self, id: StreamId) -> bool;
    /// Tells the other side now that all has arrived, with nothing to say: it may wait for that with what it says next.
    fn acknowledge(&mut self, id: StreamId);
    /// Says that nothing more will be sent; what the other side still sends can be read.
    fn finish(&mut self, id: StreamId);
    /// Wakes the thread that waits.
    fn waker(&self) -> Arc<Waker>;
    /// Ends a stream; its number is free again. Data that was not read makes the system drop what was sent last.
    fn close(&mut self, id: StreamId);
}
