//! What stands between a stream and its worker: a PROXY header, TLS.
//!
//! Shape:      completions of a reactor -> completions of what is inside; a stream that has neither passes untouched
//! Invariants: nothing of a stream reaches the worker before it is open, and nothing that it has sent is lost meanwhile; at most
//!             `OPENINGS_MAX` streams per worker are being opened, each for `OPENING_SECS` at most, `HANDSHAKES_PER_ROUND` of
//!             them in one round
//! Cost:       nothing per byte of a plain stream; of TLS one copy of what arrives, none of what is sent
//! Failure:    a stream whose opening fails is delivered as `Failed`

mod encrypted;
mod opening;

use encrypted::flush;

use crate::limits::{
    FEW_LEFT, HANDSHAKES_PER_ROUND, OPENING_BYTES_MAX, OPENING_SECS, OPENINGS_MAX, RECEIVE_BUFFER,
    TLS_RECORD_MAX, TLS_SESSION_BYTES,
};
use crate::listener::Door;
use crate::proxy_protocol::{self, Parsed};
use crate::reactor::{Completion, Place, Places, Reactor, Sending, StreamId, Waker};
use crate::shared::Shared;
use rustls::ServerConnection;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

/// Bytes that a worker's buffer needs.
pub(crate) const BUFFER: usize = RECEIVE_BUFFER + TLS_RECORD_MAX;

/// What happened to a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// As the reactor has it, of what is inside.
    Completed(Completion),
    /// The stream is open: who the client is, as far as the stream says.
    Opened(StreamId, Client),
}

/// What a stream says of its client.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Client {
    /// Its address, of the PROXY header.
    pub(crate) address: Option<SocketAddr>,
    /// The names of its verified certificate.
    pub(crate) names: Vec<String>,
}

/// A reactor's streams, opened.
#[derive(Debug)]
pub(crate) struct Transport<R> {
    inner: R,
    shared: Arc<Shared>,
    /// By stream; plain streams have none.
    wrapped: Vec<Option<Box<Wrapped>>>,
    /// Streams that have something without an arrival.
    ready: VecDeque<StreamId>,
    /// Streams that wait for their step of the handshake.
    handshaking: VecDeque<StreamId>,
    steps_left: usize,
    /// Streams being opened, by when that has to be done; some are open or gone by now.
    deadlines: VecDeque<(Instant, StreamId)>,
    openings: usize,
    /// When the last wait ended.
    now: Instant,
    /// What has arrived, while its plaintext takes its place.
    scratch: Vec<u8>,
}

/// A stream that is not plain, or not yet.
#[derive(Debug)]
struct Wrapped {
    /// A PROXY header is expected.
    expects_header: bool,
    session: Option<ServerConnection>,
    client: Client,
    /// Bytes that wait: for the rest of the header, or for a step of the handshake.
    early: Vec<u8>,
    /// Bytes accounted for these.
    accounted: usize,
    /// When it has to be open; none once it is.
    deadline: Option<Instant>,
    /// Since when the other side has to say something for that.
    asked: Instant,
    /// The worker waits for `Sent`.
    worker_waits: bool,
    is_queued: bool,
    /// The worker has more to do for it before it hears the end.
    is_paused: bool,
    /// The other side has ended TLS, or the time for opening is up.
    is_over: bool,
}

/// What became of an arrival.
enum Step {
    /// Something for the worker.
    Tell(Event),
    /// Nothing yet.
    Wait,
    /// The stream is of no use.
    Fail,
    /// The other side has ended it.
    End,
}

/// Places of plain streams.
struct Plain<'p> {
    wrapped: &'p [Option<Box<Wrapped>>],
    places: &'p mut dyn Places,
}

impl Places for Plain<'_> {
    fn place<'p>(&'p mut self, id: StreamId, buffer: &'p mut [u8]) -> Place<'p> {
        match self.wrapped.get(id.0) {
            Some(Some(_)) => Place::Buffer(buffer),
            _ => self.places.place(id, buffer),
        }
    }
}

impl<R: Reactor> Transport<R> {
    pub(crate) fn new(inner: R, shared: Arc<Shared>) -> Self {
        Self {
            inner,
            shared,
            wrapped: Vec::new(),
            ready: VecDeque::new(),
            handshaking: VecDeque::new(),
            steps_left: 0,
            deadlines: VecDeque::new(),
            openings: 0,
            now: Instant::ZERO,
            scratch: Vec::new(),
        }
    }

    /// Takes a stream over that came in at `door`; one that is to be opened where `may_open` says so.
    pub(crate) fn register(&mut self, socket: Socket, door: &Door, now: Instant) -> io::Result<StreamId> {
        if door.is_plain() {
            return self.inner.register(socket);
        }
        if OPENINGS_MAX <= self.openings {
            self.give_way(now);
        }
        let session = match &door.tls {
            None => None,
            Some((keys, mode)) => {
                let config = keys.server_config(*mode).ok_or_else(|| io::Error::other("no roots"))?;
                let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
                // A turn's replies are taken whole; a turn is bounded.
                session.set_buffer_limit(None);
                Some(session)
            }
        };
        if session.is_some() && !self.shared.count_buffer(0, TLS_SESSION_BYTES) {
            self.shared.count_buffer(TLS_SESSION_BYTES, 0);
            self.shared.counters.read_buf_oom.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::other("no memory for another TLS session"));
        }
        let id = match self.inner.register(socket) {
            Ok(id) => id,
            Err(e) => {
                self.release(session.is_some());
                return Err(e);
            }
        };
        let deadline = now + Duration::from_secs(OPENING_SECS);
        let wrapped = Wrapped {
            expects_header: door.proxy,
            session,
            client: Client::default(),
            early: Vec::new(),
            accounted: 0,
            deadline: Some(deadline),
            asked: now,
            worker_waits: false,
            is_queued: false,
            is_paused: false,
            is_over: false,
        };
        if self.wrapped.len() <= id.0 {
            self.wrapped.resize_with(id.0 + 1, || None);
        }
        self.wrapped[id.0] = Some(Box::new(wrapped));
        self.deadlines.push_back((deadline, id));
        self.openings += 1;
        Ok(id)
    }

    /// Wakes the thread that waits.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        self.inner.waker()
    }

    /// Lets a wait end at a moment, instead of at the one that was said before.
    pub(crate) fn ring_at(&mut self, at: Instant, now: Instant) -> io::Result<()> {
        self.inner.ring_at(at, now)
    }

    /// Waits until something may have completed, at most so long.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.steps_left = HANDSHAKES_PER_ROUND;
        let timeout = match timeout {
            _ if !self.ready.is_empty() || !self.handshaking.is_empty() => Some(Duration::ZERO),
            // Deadlines of openings are looked at once a second.
            None if 0 < self.openings => Some(Duration::from_secs(1)),
            timeout => timeout,
        };
        self.inner.wait(timeout)
    }

    /// Whether `next` may have something without waiting.
    pub(crate) fn has_ready(&self) -> bool {
        self.inner.has_ready() || !self.ready.is_empty() || !self.handshaking.is_empty()
    }

    /// Whether something is left of what the last wait brought, but little.
    pub(crate) fn is_nearly_done(&self) -> bool {
        (1..FEW_LEFT).contains(&self.inner.ready())
    }

    /// The next event, its data in `buffer`, or of a plain stream in the place that `places` has for it.
    pub(crate) fn next(&mut self, buffer: &mut [u8], places: &mut dyn Places) -> Option<Event> {
        loop {
            let (id, step) = if let Some(id) = self.ready.pop_front() {
                (id, self.go_on(id, buffer))
            } else if 0 < self.steps_left
                && let Some(id) = self.handshaking.pop_front()
            {
                self.steps_left -= 1;
                (id, self.shake(id))
            } else {
                let mut places = Plain { wrapped: &self.wrapped, places };
                match self.inner.next(&mut buffer[..RECEIVE_BUFFER], &mut places)? {
                    Completion::Arrived(id, len) if self.is_wrapped(id) => {
                        (id, self.arrived(id, len, buffer))
                    }
                    Completion::Sent(id) if self.is_wrapped(id) => (id, self.sent(id)),
                    Completion::Owes(id, bytes) if self.is_wrapped(id) => (id, self.owes(id, bytes)),
                    gone @ (Completion::Closed(id) | Completion::Failed(id)) => {
                        self.forget(id);
                        return Some(Event::Completed(gone));
                    }
                    plain => return Some(Event::Completed(plain)),
                }
            };
            match step {
                Step::Tell(event) => return Some(event),
                Step::Wait => {}
                Step::Fail => {
                    self.close(id);
                    return Some(Event::Completed(Completion::Failed(id)));
                }
                Step::End => {
                    self.close(id);
                    return Some(Event::Completed(Completion::Closed(id)));
                }
            }
        }
    }

    /// Sends pieces in order.
    pub(crate) fn send(&mut self, id: StreamId, pieces: &[IoSlice<'_>]) -> Sending {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return self.inner.send(id, pieces) };
        let Some(session) = &mut wrapped.session else { return self.inner.send(id, pieces) };
        if session.writer().write_vectored(pieces).is_err() {
            self.queue_ready(id);
            return Sending::Failed;
        }
        let sending = flush(&mut self.inner, id, session);
        wrapped.worker_waits |= matches!(sending, Sending::Later(_));
        sending
    }

    /// Sends what was taken and has not gone yet.
    pub(crate) fn flush(&mut self, id: StreamId) -> Sending {
        let sending = self.inner.flush(id);
        if let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) {
            wrapped.worker_waits |= matches!(sending, Sending::Later(_));
        }
        sending
    }

    /// Delivers no more data of a stream until `resume`, but for what TLS has taken in already.
    pub(crate) fn pause(&mut self, id: StreamId) {
        if let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) {
            wrapped.is_paused = true;
        }
        self.inner.pause(id);
    }

    /// Delivers data again.
    pub(crate) fn resume(&mut self, id: StreamId) {
        if let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) {
            wrapped.is_paused = false;
            if wrapped.is_over {
                self.queue_ready(id);
            }
        }
        self.inner.resume(id);
    }

    /// Whether the other side is known to send no more, or to be gone.
    pub(crate) fn has_left(&self, id: StreamId) -> bool {
        self.inner.has_left(id)
    }

    /// Says that nothing more will be sent; what the other side still sends can be read.
    pub(crate) fn finish(&mut self, id: StreamId) {
        self.say_goodbye(id);
        self.inner.finish(id);
    }

    /// Ends a stream; its number is free again.
    pub(crate) fn close(&mut self, id: StreamId) {
        self.say_goodbye(id);
        self.forget(id);
        self.inner.close(id);
    }

    fn say_goodbye(&mut self, id: StreamId) {
        if let Some(Some(wrapped)) = self.wrapped.get_mut(id.0)
            && let Some(session) = &mut wrapped.session
        {
            session.send_close_notify();
            // Who does not take the goodbye at once does not get it.
            let _gone = flush(&mut self.inner, id, session);
        }
    }

    fn is_wrapped(&self, id: StreamId) -> bool {
        matches!(self.wrapped.get(id.0), Some(Some(_)))
    }

    fn queue_ready(&mut self, id: StreamId) {
        if let Some(Some(wrapped)) = self.wrapped.get_mut(id.0)
            && !wrapped.is_queued
        {
            wrapped.is_queued = true;
            self.ready.push_back(id);
        }
    }

    /// Forgets a stream, which is gone.
    fn forget(&mut self, id: StreamId) {
        let Some(wrapped) = self.wrapped.get_mut(id.0).and_then(Option::take) else { return };
        if wrapped.is_queued {
            // Its number may be another stream's soon.
            self.ready.retain(|other| *other != id);
            self.handshaking.retain(|other| *other != id);
        }
        if wrapped.deadline.is_some() {
            self.openings -= 1;
            if wrapped.session.is_some() {
                self.shared.counters.ssl_handshake_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.count_buffer(wrapped.accounted, 0);
        self.release(wrapped.session.is_some());
    }

    fn release(&self, has_session: bool) {
        if has_session {
            self.shared.count_buffer(TLS_SESSION_BYTES, 0);
        }
    }

    /// Bytes of a stream that is wrapped have arrived.
    fn arrived(&mut self, id: StreamId, len: usize, buffer: &mut [u8]) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        if wrapped.deadline.is_none() {
            self.scratch.clear();
            self.scratch.extend_from_slice(&buffer[..len]);
            let cipher = std::mem::take(&mut self.scratch);
            let step = self.decrypt(id, &cipher, buffer);
            self.scratch = cipher;
            return step;
        }
        if OPENING_BYTES_MAX < wrapped.early.len() + len {
            return Step::Fail;
        }
        wrapped.early.extend_from_slice(&buffer[..len]);
        let before = std::mem::replace(&mut wrapped.accounted, wrapped.early.capacity());
        if !self.shared.count_buffer(before, wrapped.accounted) {
            return Step::Fail;
        }
        if wrapped.expects_header {
            match wrapped.take_header() {
                Parsed::Header(_) => {}
                Parsed::Incomplete => return Step::Wait,
                Parsed::None => {
                    tracing::debug!("a connection did not begin with a PROXY header of version 2");
                    return Step::Fail;
                }
            }
        }
        if wrapped.session.is_none() {
            return self.opened(id);
        }
        if !wrapped.early.is_empty() && !wrapped.is_queued {
            wrapped.is_queued = true;
            self.handshaking.push_back(id);
            // What else it sends, and its end, wait for that step, too.
            self.inner.pause(id);
        }
        Step::Wait
    }

    /// A stream goes on that did not have to wait for an arrival.
    fn go_on(&mut self, id: StreamId, buffer: &mut [u8]) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        wrapped.is_queued = false;
        if wrapped.is_over {
            return self.end_over(id);
        }
        let early = std::mem::take(&mut wrapped.early);
        self.shared.count_buffer(std::mem::take(&mut wrapped.accounted), 0);
        if let Some(session) = &mut wrapped.session {
            // The other side's goodbye may have come with the last step of the handshake.
            wrapped.is_over |= session.process_new_packets().is_ok_and(|state| state.peer_has_closed());
            return self.decrypt(id, &early, buffer);
        }
        // A plain stream behind a PROXY header: what came with the header is the first arrival.
        self.wrapped[id.0] = None;
        if early.is_empty() {
            return Step::Wait;
        }
        buffer[..early.len()].copy_from_slice(&early);
        Step::Tell(Event::Completed(Completion::Arrived(id, early.len())))
    }

    /// A stream whose other side has said goodbye ends, once what the worker has for it has gone.
    fn end_over(&mut self, id: StreamId) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        if wrapped.worker_waits || wrapped.is_paused {
            // `sent` or `resume` comes back here.
            return Step::Wait;
        }
        let is_opening = wrapped.deadline.is_some();
        if !is_opening && let Sending::Later(owed) = self.inner.flush(id) {
            return self.owes(id, owed);
        }
        if is_opening { Step::Fail } else { Step::End }
    }

    /// A stream is open; what it has brought along follows.
    fn opened(&mut self, id: StreamId) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        wrapped.deadline = None;
        self.openings -= 1;
        let client = std::mem::take(&mut wrapped.client);
        self.queue_ready(id);
        Step::Tell(Event::Opened(id, client))
    }

    /// What was sent is not gone: the worker's, or TLS's own before anybody is served.
    fn owes(&mut self, id: StreamId, bytes: usize) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        if wrapped.deadline.is_some() {
            return Step::Wait;
        }
        wrapped.worker_waits = true;
        Step::Tell(Event::Completed(Completion::Owes(id, bytes)))
    }

    /// What was sent later has gone: the worker's, or TLS's own.
    fn sent(&mut self, id: StreamId) -> Step {
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        if wrapped.is_over {
            self.queue_ready(id);
        }
        let Some(Some(wrapped)) = self.wrapped.get_mut(id.0) else { return Step::Wait };
        if std::mem::take(&mut wrapped.worker_waits) {
            return Step::Tell(Event::Completed(Completion::Sent(id)));
        }
        Step::Wait
    }
}

impl Wrapped {
    /// Takes the PROXY header off what has come, if it is whole.
    fn take_header(&mut self) -> Parsed {
        let parsed = proxy_protocol::parse(&self.early);
        if let Parsed::Header(header) = parsed {
            self.early.drain(..header.len);
            self.client.address = header.client;
            self.expects_header = false;
        }
        parsed
    }
}
