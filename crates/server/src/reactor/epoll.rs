//! The reactor on epoll: readiness turned into completions.
//!
//! Invariants: registered once for both directions, edge-triggered; what a socket did not take at once is copied before
//!             `send` returns
//! Cost:       one system call per wait, receive and send

use super::alarm::Alarm;
use super::{Completion, Place, Places, Reactor, Sending, StreamId, Waker, acknowledge};
use crate::limits::EVENTS_PER_WAIT;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::io::Errno;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use units::{Duration, Instant};

/// The reactor on epoll.
#[derive(Debug)]
pub(crate) struct Epoll {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    alarm: Alarm,
    streams: Vec<Option<Registered>>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
}

#[derive(Debug)]
struct Registered {
    stream: Socket,
    readable: bool,
    /// The other side sends no more: after the data comes the end, for which there is no further event.
    read_closed: bool,
    queued: bool,
    paused: bool,
    failed: bool,
    pending: Vec<u8>,
    sent: usize,
}

const WAKER: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new()?);
        poll.registry().register(&mut SourceFd(&waker.as_raw_fd()), WAKER, Interest::READABLE)?;
        let alarm = Alarm::new()?;
        poll.registry().register(&mut SourceFd(&alarm.as_raw_fd()), ALARM, Interest::READABLE)?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_PER_WAIT),
            waker,
            alarm,
            streams: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
        })
    }

    fn queue(&mut self, at: usize) {
        if let Some(Some(stream)) = self.streams.get_mut(at)
            && !stream.queued
        {
            stream.queued = true;
            self.ready.push_back(at);
        }
    }

    fn free(&mut self, at: usize) {
        if let Some(registered) = self.streams.get_mut(at).and_then(Option::take) {
            // The stream is closed on drop whether or not it can be deregistered first.
            let _gone = self.poll.registry().deregister(&mut SourceFd(&registered.stream.as_raw_fd()));
            self.free.push(at);
        }
    }
}

/// Sends pieces with one call; one piece needs no gathering.
fn write(stream: &mut Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    match pieces {
        [one] => stream.write(one),
        _ => stream.write_vectored(pieces),
    }
}

impl Registered {
    /// Reads once, 0 at the end; none if nothing is there.
    fn receive(&mut self, place: &mut Place<'_>) -> Option<Result<usize, Errno>> {
        let room = place.room();
        match place.read(&self.stream) {
            Err(Errno::AGAIN) => {
                self.readable = false;
                None
            }
            read => {
                // A short read has emptied the socket; the next arrival is an event.
                self.readable = read == Ok(room) || self.read_closed;
                Some(read)
            }
        }
    }

    /// Sends what is pending; true when all of it has gone.
    fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.pending.len() {
            match self.stream.write(&self.pending[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => self.sent += len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(false);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.pending = Vec::new();
        self.sent = 0;
        Ok(true)
    }
}

impl Reactor for Epoll {
    fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    fn register(&mut self, stream: Socket) -> io::Result<StreamId> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.streams.len() - 1
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(e) = self.poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(at), interest)
        {
            self.free.push(at);
            return Err(e);
        }
        self.streams[at] = Some(Registered {
            stream,
            readable: true,
            read_closed: false,
            queued: false,
            paused: false,
            failed: false,
            pending: Vec::new(),
            sent: 0,
        });
        self.queue(at);
        Ok(StreamId(at))
    }

    fn ring_at(&mut self, at: Instant, now: Instant) -> io::Result<()> {
        self.alarm.set(at, now)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = if self.ready.is_empty() { timeout } else { Some(Duration::ZERO) };
        match self.poll.poll(&mut self.events, timeout.map(Duration::to_std)) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(e) => return Err(e),
        }
        let mut queued = Vec::new();
        for event in &self.events {
            if event.token() == ALARM {
                self.alarm.rang();
            }
            let at = event.token().0;
            if let Some(Some(stream)) = self.streams.get_mut(at) {
                stream.read_closed |= event.is_read_closed() || event.is_error();
                stream.readable |= event.is_readable() || stream.read_closed;
                // Every stream is writable most of the time; only a pending send waits for it.
                if stream.readable || !stream.pending.is_empty() {
                    queued.push(at);
                }
            }
        }
        for at in queued {
            self.queue(at);
        }
        Ok(())
    }

    fn ready(&self) -> usize {
        self.ready.len()
    }

    fn next(&mut self, buffer: &mut [u8], places: &mut dyn Places) -> Option<Completion> {
        while let Some(at) = self.ready.pop_front() {
            let Some(Some(stream)) = self.streams.get_mut(at) else { continue };
            stream.queued = false;
            let id = StreamId(at);
            if stream.failed {
                self.free(at);
                return Some(Completion::Failed(id));
            }
            if !stream.pending.is_empty() {
                match stream.flush() {
                    Ok(true) => {
                        if stream.readable {
                            self.queue(at);
                        }
                        return Some(Completion::Sent(id));
                    }
                    Ok(false) => continue,
                    Err(_) => {
                        self.free(at);
                        return Some(Completion::Failed(id));
                    }
                }
            }
            if !stream.readable || stream.paused {
                continue;
            }
            let mut place = places.place(id, buffer);
            match stream.receive(&mut place) {
                None => {}
                Some(Ok(0)) => {
                    self.free(at);
                    return Some(Completion::Closed(id));
                }
                Some(Ok(len)) => {
                    if stream.readable {
                        self.queue(at);
                    }
                    return Some(place.told(id, len));
                }
                Some(Err(_)) => {
                    self.free(at);
                    return Some(Completion::Failed(id));
                }
            }
        }
        None
    }

    fn send(&mut self, id: StreamId, pieces: &[IoSlice<'_>]) -> Sending {
        let Some(Some(stream)) = self.streams.get_mut(id.0) else { return Sending::Failed };
        let total: usize = pieces.iter().map(|p| p.len()).sum();
        let taken = loop {
            if total == 0 {
                return Sending::Done;
            }
            if !stream.pending.is_empty() {
                // What was given before goes first.
                break 0;
            }
            match write(&mut stream.stream, pieces) {
                Ok(len) if len == total => return Sending::Done,
                Ok(len) => break len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break 0,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    stream.failed = true;
                    self.queue(id.0);
                    return Sending::Failed;
                }
            }
        };
        stream.pending.reserve_exact(total - taken);
        let mut skip = taken;
        for piece in pieces {
            let from = skip.min(piece.len());
            stream.pending.extend_from_slice(&piece[from..]);
            skip -= from;
        }
        // The socket may have drained meanwhile: its event may be gone.
        self.queue(id.0);
        Sending::Later(total - taken)
    }

    fn pause(&mut self, id: StreamId) {
        if let Some(Some(stream)) = self.streams.get_mut(id.0) {
            stream.paused = true;
        }
    }

    fn resume(&mut self, id: StreamId) {
        if let Some(Some(stream)) = self.streams.get_mut(id.0) {
            stream.paused = false;
            if stream.readable {
                self.queue(id.0);
            }
        }
    }

    fn has_left(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id.0).and_then(Option::as_ref);
        stream.is_some_and(|stream| stream.read_closed || stream.failed)
    }

    fn acknowledge(&mut self, id: StreamId) {
        if let Some(Some(stream)) = self.streams.get(id.0) {
            acknowledge(&stream.stream);
        }
    }

    fn finish(&mut self, id: StreamId) {
        if let Some(Some(stream)) = self.streams.get(id.0) {
            // Already closed by the other side: then there is nothing to say.
            let _told = stream.stream.shutdown(std::net::Shutdown::Write);
        }
    }

    fn close(&mut self, id: StreamId) {
        self.free(id.0);
    }
}
