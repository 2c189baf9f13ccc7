//! The reactor on io_uring: one system call per round hands over its sends and brings its arrivals.
//!
//! Shape:      a stream is received from by one operation that goes on (multishot), into buffers that all streams of the
//!             worker share; short replies are copied to the ring and sent with the next `wait` or `flush`, long ones at once
//! Invariants: the system reads no page of the log after `send` has returned; a number is free again only when nothing of
//!             its stream is under way, and what completes late carries a generation that is gone; what arrives for a
//!             stream that is not read from is kept aside (accounted), and its receiving is cancelled
//! Cost:       one copy of what arrives and of short replies; no system call per stream that goes on, but for long replies, what
//!             is flushed, and streams that bring much: these are watched, and read by calls of their own without that copy
//! Failure:    out of shared buffers a receive ends and begins anew when they are back. A receive that goes on may miss the end
//!             of a stream: one that comes while it reads (liburing, issue 1549), and a reset behind the last bytes, where the
//!             system takes a socket without more of them for one that more may come to. So the end is watched for, and what is
//!             left is read by calls of its own, none of which waits any more

mod arrivals;
mod room;

use super::alarm::Alarm;
use super::ring::{Completed, RING_BYTES};
use super::stream::{Slot, Stream};
use super::tag::{GENERATION_BITS, Purpose, parts, tag};
use super::{Completion, Places, Reactor, Ring, Sending, StreamId, Waker, acknowledge};
use crate::limits::{URING_OUT, URING_SEND_MAX};
use crate::shared::Shared;
use rustix::event::PollFlags;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use units::{Duration, Instant};

/// The reactor on io_uring.
#[derive(Debug)]
pub(crate) struct Uring {
    ring: Ring,
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    is_waker_watched: bool,
    alarm: Alarm,
    is_alarm_watched: bool,
    slots: Vec<Slot>,
    free: Vec<usize>,
    ready: VecDeque<Ready>,
    /// Streams whose receiving is to begin with the next wait.
    to_receive: Vec<usize>,
    /// Streams that had more to be received when the last wait ended, some several times.
    followed: Vec<usize>,
    /// Streams with something in the ring's memory, and where it begins.
    senders: Vec<(usize, usize)>,
    /// Bytes of the ring's memory that are taken in this round.
    out: usize,
    /// Streams that are not read from and got something all the same, and those that are to be read by calls from now on.
    to_quiet: Vec<usize>,
    completed: Vec<Completed>,
    /// Streams that have no room though they were said to, and their generations.
    to_retry: Vec<(usize, u32)>,
}

/// Something for `next`, of a number and a generation.
#[derive(Clone, Copy, Debug)]
struct Ready {
    at: usize,
    generation: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Bytes in a buffer of the ring.
    Arrived(u16, usize),
    /// Bytes were kept, or the end was.
    Kept,
    /// It is read by a call of its own: there is much, or the other side sends no more.
    Call,
    Owes(usize),
    Sent,
    Failed,
}

impl Uring {
    pub(crate) fn new(ring: Ring, shared: Arc<Shared>) -> io::Result<Self> {
        shared.count_buffer(0, RING_BYTES);
        Ok(Self {
            ring,
            shared,
            waker: Arc::new(Waker::new()?),
            is_waker_watched: false,
            alarm: Alarm::new()?,
            is_alarm_watched: false,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            to_receive: Vec::new(),
            followed: Vec::new(),
            senders: Vec::new(),
            out: 0,
            to_quiet: Vec::new(),
            completed: Vec::new(),
            to_retry: Vec::new(),
        })
    }

    /// The stream that the worker knows by this number.
    fn stream(&mut self, at: usize) -> Option<&mut Stream> {
        self.slots.get_mut(at)?.stream.as_mut().filter(|stream| !stream.is_gone)
    }

    fn tag(&self, purpose: Purpose, at: usize) -> u64 {
        tag(purpose, at, self.slots[at].generation)
    }

    fn make_ready(&mut self, at: usize, what: What) {
        let generation = self.slots[at].generation;
        self.ready.push_back(Ready { at, generation, what });
    }

    fn fail(&mut self, at: usize) {
        if let Some(stream) = self.stream(at) {
            stream.is_broken = true;
        }
        self.make_ready(at, What::Failed);
    }

    /// Writes down everything that is to be handed over.
    fn write_down(&mut self) -> io::Result<()> {
        let events = u32::from(PollFlags::IN.bits());
        if !self.is_waker_watched {
            self.ring.watch(self.waker.as_raw_fd(), events, true, tag(Purpose::Wake, 0, 0))?;
            self.is_waker_watched = true;
        }
        if !self.is_alarm_watched {
            self.ring.watch(self.alarm.as_raw_fd(), events, true, tag(Purpose::Ring, 0, 0))?;
            self.is_alarm_watched = true;
        }
        for at in std::mem::take(&mut self.to_quiet) {
            let receive = self.slots.get(at).map(|_| self.tag(Purpose::Receive, at));
            let Some(receive) = receive else { continue };
            let Some(stream) = self.stream(at) else { continue };
            let is_unwanted = stream.is_held() || (0 < stream.calls && !stream.is_polled);
            if is_unwanted && stream.is_receiving && !stream.is_cancelled {
                stream.is_cancelled = true;
                self.ring.cancel(receive, self.tag(Purpose::Cancel, at))?;
            }
        }
        for at in std::mem::take(&mut self.to_receive) {
            let Some(stream) = self.stream(at) else { continue };
            if stream.is_receiving || stream.is_over || stream.is_held() || stream.is_call_ready {
                continue;
            }
            if stream.has_hung_up {
                self.call(at);
                continue;
            }
            (stream.is_receiving, stream.is_cancelled, stream.is_emptied) = (true, false, false);
            let is_polled = 0 < stream.calls;
            stream.is_polled = is_polled;
            let socket = stream.socket.as_raw_fd();
            if !std::mem::replace(&mut stream.is_end_watched, true) {
                let end = u32::from(PollFlags::RDHUP.bits());
                self.ring.watch(socket, end, false, self.tag(Purpose::HangUp, at))?;
            }
            let tag = self.tag(Purpose::Receive, at);
            if is_polled {
                self.ring.watch(socket, events, false, tag)
            } else {
                self.ring.receive(socket, tag)
            }?;
        }
        for i in 0..self.senders.len() {
            let (at, start) = self.senders[i];
            let Some(stream) = self.stream(at) else { continue };
            // What has gone already began elsewhere.
            if let Some(bytes) = stream.queued.clone().filter(|bytes| bytes.start == start) {
                let socket = stream.socket.as_raw_fd();
                self.ring.send(socket, bytes, self.tag(Purpose::Send, at))?;
            }
        }
        Ok(())
    }

    /// Deals with something that has completed.
    fn complete(&mut self, done: Completed) -> io::Result<()> {
        let (purpose, at, generation) = parts(done.tag);
        let is_current = self.slots.get(at).is_some_and(|slot| slot.generation == generation);
        match purpose {
            Some(Purpose::Wake) => self.is_waker_watched = done.more,
            Some(Purpose::Ring) => {
                self.is_alarm_watched = done.more;
                self.alarm.rang();
            }
            Some(Purpose::Receive) if is_current => self.received(at, done),
            Some(Purpose::Send) if is_current => self.send_fell_short(at, done.result)?,
            Some(Purpose::Room) if is_current => self.has_room(at)?,
            Some(Purpose::HangUp) if is_current => self.hung_up(at)?,
            // A receive that could not be cancelled goes on: whoever ends the stream tries again.
            Some(Purpose::Cancel) if is_current => {
                if let Some(stream) = &mut self.slots[at].stream {
                    stream.is_cancelled = false;
                }
            }
            _ => {
                if let Some(buffer) = done.buffer {
                    self.ring.give_back(buffer);
                }
            }
        }
        Ok(())
    }

    /// Nothing more will be sent to a stream: the receive that may miss that ends.
    fn hung_up(&mut self, at: usize) -> io::Result<()> {
        let receive = self.tag(Purpose::Receive, at);
        let Some(stream) = &mut self.slots[at].stream else { return Ok(()) };
        (stream.is_end_watched, stream.has_hung_up) = (false, true);
        if stream.is_gone {
            self.release(at);
        } else if stream.is_receiving && !std::mem::replace(&mut stream.is_cancelled, true) {
            self.ring.cancel(receive, self.tag(Purpose::Cancel, at))?;
        }
        Ok(())
    }

    /// Sends at once what waits for the round. Returns false if the stream has failed.
    fn send_queued(&mut self, at: usize) -> bool {
        let Some(stream) = self.slots.get_mut(at).and_then(|slot| slot.stream.as_mut()) else { return false };
        let Some(bytes) = stream.queued.take() else { return true };
        let pieces = [IoSlice::new(self.ring.out(bytes))];
        match stream.write(&pieces) {
            Ok(taken) if taken == pieces[0].len() => true,
            Ok(taken) => {
                stream.keep_pending(&pieces, taken);
                true
            }
            Err(_) => false,
        }
    }

    /// Ends a stream as far as the worker knows.
    fn retire(&mut self, at: usize) {
        if self.stream(at).is_none() {
            return;
        }
        // Who does not take what is left at once does not get it.
        let _sent = self.send_queued(at);
        let Some(stream) = self.slots[at].stream.as_mut() else { return };
        stream.is_gone = true;
        stream.pending = Vec::new();
        let kept = std::mem::take(&mut stream.kept);
        let under_way =
            [stream.is_receiving && !stream.is_cancelled, stream.is_watched, stream.is_end_watched];
        self.shared.count_buffer(kept.capacity(), 0);
        for (purpose, is_under_way) in
            [Purpose::Receive, Purpose::Room, Purpose::HangUp].into_iter().zip(under_way)
        {
            if is_under_way {
                let (target, tag) = (self.tag(purpose, at), self.tag(Purpose::Cancel, at));
                // What cannot be cancelled ends with its socket, when the other side is gone.
                let _cancelled = self.ring.cancel(target, tag);
            }
        }
        self.release(at);
    }

    /// Frees the number of a stream that is gone, once nothing is under way.
    fn release(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if slot.stream.as_ref().is_some_and(|stream| stream.is_gone && !stream.is_under_way()) {
            slot.stream = None;
            slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
            self.free.push(at);
        }
    }

    fn close_for(&mut self, at: usize) -> Completion {
        let is_broken = self.stream(at).is_some_and(|stream| stream.is_broken);
        self.retire(at);
        if is_broken { Completion::Failed(StreamId(at)) } else { Completion::Closed(StreamId(at)) }
    }
}

fn end_sending(socket: &Socket) {
    // Already closed by the other side: then there is nothing to say.
    let _told = socket.shutdown(std::net::Shutdown::Write);
}

impl Reactor for Uring {
    fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    fn register(&mut self, stream: Socket) -> io::Result<StreamId> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[at].stream = Some(Stream::new(stream));
        self.to_receive.push(at);
        Ok(StreamId(at))
    }

    fn ring_at(&mut self, at: Instant, now: Instant) -> io::Result<()> {
        self.alarm.set(at, now)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.write_down()?;
        let timeout = if self.ready.is_empty() { self.until_retried(timeout) } else { Some(Duration::ZERO) };
        let due = std::mem::take(&mut self.to_retry);
        let mut completed = std::mem::take(&mut self.completed);
        self.followed.clear();
        self.ring.enter(timeout, &mut completed)?;
        for done in completed.drain(..) {
            self.complete(done)?;
        }
        self.completed = completed;
        self.retry(due)?;
        for (at, _) in std::mem::take(&mut self.senders) {
            if let Some(stream) = self.stream(at) {
                stream.queued = None;
            }
        }
        self.out = 0;
        Ok(())
    }

    fn has_ready(&self) -> bool {
        // What the next wait brings of what is there already.
        let is_read = |at: &usize| {
            let stream = self.slots[*at].stream.as_ref();
            stream.is_some_and(|stream| {
                !stream.is_gone && !stream.is_held() && !stream.is_over && !stream.is_emptied
            })
        };
        !self.ready.is_empty() || self.to_receive.iter().chain(&self.followed).any(is_read)
    }

    fn ready(&self) -> usize {
        self.ready.len()
    }

    fn next(&mut self, buffer: &mut [u8], places: &mut dyn Places) -> Option<Completion> {
        while let Some(Ready { at, generation, what }) = self.ready.pop_front() {
            let is_current = self.slots[at].generation == generation;
            if !is_current || self.stream(at).is_none() {
                if let What::Arrived(from, _) = what {
                    self.ring.give_back(from);
                }
                continue;
            }
            let completion = match what {
                What::Arrived(from, len) => self.deliver(at, (from, len), buffer),
                What::Kept => self.deliver_kept(at, buffer),
                What::Call => self.deliver_by_call(at, buffer, places),
                What::Owes(bytes) => Some(Completion::Owes(StreamId(at), bytes)),
                What::Sent => Some(Completion::Sent(StreamId(at))),
                What::Failed => Some(self.close_for(at)),
            };
            if completion.is_some() {
                return completion;
            }
        }
        None
    }

    fn send(&mut self, id: StreamId, pieces: &[IoSlice<'_>]) -> Sending {
        let at = id.0;
        let total: usize = pieces.iter().map(|p| p.len()).sum();
        let out = self.out;
        let Some(stream) = self.stream(at) else { return Sending::Failed };
        if total == 0 {
            return Sending::Done;
        }
        let is_last = stream.queued.as_ref().is_none_or(|queued| queued.end == out);
        if stream.pending.is_empty() && is_last && total <= URING_SEND_MAX && total <= URING_OUT - out {
            let start = stream.queued.as_ref().map_or(out, |queued| queued.start);
            if stream.queued.replace(start..out + total).is_none() {
                self.senders.push((at, out));
            }
            for piece in pieces {
                self.ring.put_out(self.out, piece);
                self.out += piece.len();
            }
            return Sending::Done;
        }
        let sent = self.send_queued(at).then(|| self.send_now(at, pieces, total));
        match sent {
            Some(Ok(0)) => Sending::Done,
            Some(Ok(later)) => Sending::Later(later),
            None | Some(Err(_)) => {
                self.fail(at);
                Sending::Failed
            }
        }
    }

    fn flush(&mut self, id: StreamId) -> Sending {
        if self.stream(id.0).is_none() {
            return Sending::Failed;
        }
        if !self.send_queued(id.0) {
            self.fail(id.0);
            return Sending::Failed;
        }
        let Some(stream) = self.stream(id.0) else { return Sending::Failed };
        if stream.pending.is_empty() {
            return Sending::Done;
        }
        stream.owes_sent = true;
        let owed = stream.pending.len();
        self.watch_for_room(id.0).map_or(Sending::Failed, |()| Sending::Later(owed))
    }

    fn pause(&mut self, id: StreamId) {
        if let Some(stream) = self.stream(id.0) {
            stream.is_paused = true;
        }
    }

    fn resume(&mut self, id: StreamId) {
        if let Some(stream) = self.stream(id.0) {
            stream.is_paused = false;
            self.go_on(id.0);
        }
    }

    fn has_left(&self, id: StreamId) -> bool {
        let stream = self.slots.get(id.0).and_then(|slot| slot.stream.as_ref());
        stream.is_some_and(|stream| stream.has_hung_up || stream.is_over)
    }

    fn acknowledge(&mut self, id: StreamId) {
        if let Some(stream) = self.stream(id.0) {
            acknowledge(&stream.socket);
        }
    }

    fn finish(&mut self, id: StreamId) {
        if !self.send_queued(id.0) {
            return;
        }
        let Some(stream) = self.stream(id.0) else { return };
        if stream.pending.is_empty() {
            end_sending(&stream.socket);
            return;
        }
        stream.is_finishing = true;
        if self.watch_for_room(id.0).is_err() {
            self.fail(id.0);
        }
    }

    fn close(&mut self, id: StreamId) {
        self.retire(id.0);
    }
}

impl Uring {
    /// Sends pieces behind what is pending. Returns how many bytes go later.
    fn send_now(&mut self, at: usize, pieces: &[IoSlice<'_>], total: usize) -> io::Result<usize> {
        let Some(stream) = self.stream(at) else { return Err(io::ErrorKind::NotConnected.into()) };
        let taken = if stream.pending.is_empty() { stream.write(pieces)? } else { 0 };
        if taken == total {
            return Ok(0);
        }
        stream.keep_pending(pieces, taken);
        stream.owes_sent = true;
        self.watch_for_room(at)?;
        Ok(total - taken)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let kept: usize =
            self.slots.iter().filter_map(|s| s.stream.as_ref()).map(|s| s.kept.capacity()).sum();
        self.shared.count_buffer(RING_BYTES + kept, 0);
    }
}
