//! What arrives: from the ring's buffers to the caller, or kept aside while its stream is not read from.

use super::{Ready, Uring, What};
use crate::reactor::ring::Completed;
use crate::reactor::{Completion, Places, StreamId};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

impl Uring {
    /// A stream may be read from again: what was kept comes first.
    pub(super) fn go_on(&mut self, at: usize) {
        let Some(stream) = self.stream(at).filter(|stream| !stream.is_held()) else { return };
        let (has_kept, receives) = (!stream.kept.is_empty() || stream.is_over, stream.is_receiving);
        if has_kept {
            self.make_ready(at, What::Kept);
        } else if !receives {
            self.to_receive.push(at);
        }
    }

    pub(super) fn received(&mut self, at: usize, done: Completed) {
        let is_gone = self.stream(at).is_none();
        let mut was_polled = false;
        if let Some(stream) = &mut self.slots[at].stream {
            stream.is_receiving = done.more;
            was_polled = !done.more && std::mem::take(&mut stream.is_polled);
        }
        if let Some(buffer) = done.buffer {
            match done.result {
                Ok(len) if 0 < len && !is_gone => self.make_ready(at, What::Arrived(buffer, len as usize)),
                _ => self.ring.give_back(buffer),
            }
        }
        if is_gone {
            self.release(at);
            return;
        }
        if done.more {
            if done.is_followed {
                self.followed.push(at);
            }
            return;
        }
        match done.result {
            Ok(_) if was_polled => self.call(at),
            Ok(0) => self.over(at),
            // Out of buffers, cancelled, or the system has had enough of it: a new one.
            Ok(_) | Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {
                self.to_receive.push(at)
            }
            Err(_) => {
                if let Some(stream) = self.stream(at) {
                    stream.is_broken = true;
                }
                self.over(at);
            }
        }
    }

    /// Nothing will arrive any more.
    fn over(&mut self, at: usize) {
        if let Some(stream) = self.stream(at) {
            stream.is_over = true;
            self.make_ready(at, What::Kept);
        }
    }

    /// There is something to be read by a call of its own.
    pub(super) fn call(&mut self, at: usize) {
        if let Some(stream) = self.stream(at)
            && !std::mem::replace(&mut stream.is_call_ready, true)
        {
            self.make_ready(at, What::Call);
        }
    }

    /// What has arrived goes to the caller, or is kept aside. Returns how much went to the caller.
    pub(super) fn deliver(
        &mut self,
        at: usize,
        arrived: (u16, usize),
        buffer: &mut [u8],
    ) -> Option<Completion> {
        let (from, len) = arrived;
        let Some(stream) = self.slots[at].stream.as_mut() else {
            self.ring.give_back(from);
            return None;
        };
        if !stream.is_held() && stream.kept.is_empty() {
            buffer[..len].copy_from_slice(self.ring.received(from, len));
            self.ring.give_back(from);
            let len = self.append(at, len, buffer);
            if self.slots[at].stream.as_mut().is_some_and(|stream| stream.note_arrived(len)) {
                self.to_quiet.push(at);
            }
            return Some(Completion::Arrived(StreamId(at), len));
        }
        let before = stream.kept.capacity();
        stream.kept.extend_from_slice(self.ring.received(from, len));
        let is_bounded = self.shared.count_buffer(before, stream.kept.capacity());
        self.ring.give_back(from);
        self.to_quiet.push(at);
        if is_bounded {
            return None;
        }
        self.shared.counters.read_buf_oom.fetch_add(1, Ordering::Relaxed);
        self.retire(at);
        Some(Completion::Failed(StreamId(at)))
    }

    /// Appends what has arrived next for the same stream.
    fn append(&mut self, at: usize, mut len: usize, buffer: &mut [u8]) -> usize {
        while let Some(Ready { at: next, what: What::Arrived(from, more), .. }) = self.ready.front().copied()
            && next == at
            && len + more <= buffer.len()
        {
            buffer[len..len + more].copy_from_slice(self.ring.received(from, more));
            self.ring.give_back(from);
            self.ready.pop_front();
            len += more;
        }
        len
    }

    /// What is there goes to the caller, a buffer at a time; behind what the other side sent last, the end.
    pub(super) fn deliver_by_call(
        &mut self,
        at: usize,
        buffer: &mut [u8],
        places: &mut dyn Places,
    ) -> Option<Completion> {
        let stream = self.slots[at].stream.as_mut()?;
        stream.is_call_ready = false;
        // What was kept came before.
        if stream.is_held() || !stream.kept.is_empty() {
            return None;
        }
        let mut place = places.place(StreamId(at), buffer);
        let room = place.room();
        match stream.read(&mut place) {
            Some(0) => {
                stream.is_over = true;
                self.deliver_kept(at, buffer)
            }
            Some(len) => {
                stream.note_arrived(len);
                stream.is_emptied = len < room && !stream.has_hung_up;
                // Others are heard before there is more of it.
                self.to_receive.push(at);
                Some(place.told(StreamId(at), len))
            }
            // It had not ended after all.
            None => {
                (stream.has_hung_up, stream.is_emptied) = (false, true);
                self.to_receive.push(at);
                None
            }
        }
    }

    /// What was kept goes to the caller; behind it the end, or what arrives from now on.
    pub(super) fn deliver_kept(&mut self, at: usize, buffer: &mut [u8]) -> Option<Completion> {
        let stream = self.slots[at].stream.as_mut().filter(|stream| !stream.is_held())?;
        if stream.kept.is_empty() {
            if !stream.is_over {
                return None;
            }
            if stream.queued.is_some() {
                // The last replies go before the end is told.
                if self.send_queued(at)
                    && let Some(stream) = self.stream(at).filter(|stream| stream.is_held())
                {
                    // Then it is told when they have gone. Whoever does not take them is not waited for without end.
                    stream.owes_sent = true;
                    let owed = Completion::Owes(StreamId(at), stream.pending.len());
                    return Some(self.watch_for_room(at).map_or_else(|_| self.close_for(at), |()| owed));
                }
            }
            return Some(self.close_for(at));
        }
        let len = stream.kept.len().min(buffer.len());
        buffer[..len].copy_from_slice(&stream.kept[..len]);
        let before = stream.kept.capacity();
        stream.kept.drain(..len);
        if stream.kept.is_empty() {
            stream.kept = Vec::new();
            self.shared.count_buffer(before, 0);
        }
        self.go_on(at);
        Some(Completion::Arrived(StreamId(at), len))
    }
}
