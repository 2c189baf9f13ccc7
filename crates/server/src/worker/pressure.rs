//! Input that cannot be dealt with yet: its memory, and the pressure back on whoever sends more than there is room for.
//!
//! Shape:      a connection whose requests wait for their turn, or whose request is larger than the memory left, is not
//!             read from: the system's buffers fill and the sender waits. Whoever waits for memory gets it in order
//! Invariants: what has arrived is kept; memory for the whole of a request is taken at once, as far as its length is known, so that
//!             whoever has it can end; where those who wait hold so much that nobody else could give enough back, the first gets
//!             what it waits for, and the last ends for it; buffers together take at most twice their part of the memory
//! Failure:    above that a connection is closed with an error; so is one that has memory for which others wait and says
//!             nothing for `STALL_SECS`

use super::Worker;
use crate::connection::{Connection, Lasting};
use crate::limits::{RECEIVE_BUFFER, SMALL_BUFFER, STALL_SECS};
use crate::memcache::reply_text;
use crate::reactor::{Reactor, StreamId};
use std::io::IoSlice;
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

impl<R: Reactor> Worker<R> {
    /// Keeps what is left of a connection's input, with room for the request that it begins.
    pub(super) fn keep(&mut self, id: StreamId, rest: &[u8]) {
        if rest.is_empty() {
            self.set_starved(id, false);
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.input = Vec::new();
        let wanted = if rest.is_empty() { 0 } else { connection.needed.max(rest.len()) };
        if let Some(room) = self.account(id, wanted, rest.len())
            && let Some(Some(connection)) = self.connections.get_mut(id.0)
        {
            connection.input = Vec::with_capacity(room);
            connection.input.extend_from_slice(rest);
        }
    }

    /// Adds what arrived to an incomplete request. Returns false if the connection had to be closed.
    pub(super) fn add(&mut self, id: StreamId, data: &[u8]) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return false };
        let len = connection.input.len() + data.len();
        if connection.input.capacity() < len {
            let wanted = connection.needed.max(len);
            let Some(room) = self.account(id, wanted, len) else { return false };
            let Some(Some(connection)) = self.connections.get_mut(id.0) else { return false };
            connection.input.reserve_exact(room - connection.input.len());
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return false };
        connection.input.extend_from_slice(data);
        true
    }

    /// Accounts a connection's buffer of `wanted` bytes; while there is no memory for that, of `least`, and the connection
    /// waits for more. Returns the size accounted; none if the connection had to be closed.
    fn account(&mut self, id: StreamId, wanted: usize, least: usize) -> Option<usize> {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return None };
        let shared = &self.around.shared;
        let before = connection.accounted;
        let fits = shared.reserve_buffer(before, wanted);
        let after = if fits { wanted } else { least };
        let bounded = fits || shared.count_buffer(before, after);
        // Who waits for its turn may need no more memory after it.
        let starves = bounded && !fits && !connection.is_waiting && !connection.is_starved;
        let has_waited = connection.has_waited;
        self.set_accounted(id, after);
        if !bounded {
            self.refuse(id);
            return None;
        }
        if starves {
            self.set_starved(id, true);
            // Whoever has begun to be given memory gets the rest of it before others begin.
            if has_waited { self.starved.push_front(id) } else { self.starved.push_back(id) }
        }
        Some(after)
    }

    /// What a connection's buffer takes is another size now, and counted.
    fn set_accounted(&mut self, id: StreamId, after: usize) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        let before = std::mem::replace(&mut connection.accounted, after);
        self.held = self.held - before + after;
        if !connection.is_starved {
            self.around.shared.counters.change_returning(before, after);
        }
    }

    /// A connection waits for memory from now on, or no longer.
    fn set_starved(&mut self, id: StreamId, is_starved: bool) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        if std::mem::replace(&mut connection.is_starved, is_starved) == is_starved {
            return;
        }
        let counters = &self.around.shared.counters;
        if is_starved {
            counters.starved.fetch_add(1, Ordering::Relaxed);
            counters.change_returning(connection.accounted, 0);
        } else {
            counters.starved.fetch_sub(1, Ordering::Relaxed);
            counters.change_returning(0, connection.accounted);
        }
    }

    /// Reads from a connection, or does not while its requests wait for their turn or for memory.
    pub(super) fn regulate(&mut self, id: StreamId) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        let pauses = connection.is_waiting
            || connection.is_starved
            || connection.parked_until.is_some()
            || matches!(connection.lasting, Some(Lasting::Values(_) | Lasting::Dump(_)));
        if std::mem::replace(&mut connection.is_paused, pauses) != pauses {
            if pauses { self.reactor.pause(id) } else { self.reactor.resume(id) }
        }
    }

    /// Gives memory to those who wait for it, as far as there is some, in the order in which they came.
    pub(super) fn feed_starved(&mut self) {
        while let Some(&id) = self.starved.front() {
            if let Some(Some(connection)) = self.connections.get(id.0)
                && connection.is_starved
            {
                let len = connection.input.len();
                let wanted = if len < connection.needed { connection.needed } else { len + RECEIVE_BUFFER };
                if !self.find_memory(connection, wanted) {
                    // Sums may be on their way: what was so in the round before, too, is so.
                    let is_short = !self.around.shared.others_suffice(connection.accounted, wanted, 2);
                    if std::mem::replace(&mut self.was_short, is_short) && is_short && self.end_last(id) {
                        continue;
                    }
                    return;
                }
                self.set_accounted(id, wanted);
                self.set_starved(id, false);
                self.was_short = false;
                let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
                connection.has_waited = true;
                connection.input.reserve_exact(wanted - len);
                self.regulate(id);
            }
            self.starved.pop_front();
        }
    }

    /// Accounts the memory that the first of those waits for who wait here; false if it has to wait on.
    fn find_memory(&self, first: &Connection, wanted: usize) -> bool {
        let shared = &self.around.shared;
        if shared.reserve_buffer(first.accounted, wanted) {
            return true;
        }
        // If this worker's others hold nothing, nobody gives it any: what it waits for may be what has come for it
        // and waits to be taken.
        let is_alone = self.held <= first.accounted;
        if !is_alone && shared.others_suffice(first.accounted, wanted, 1) {
            return false;
        }
        let fits = shared.count_buffer(first.accounted, wanted);
        if !fits {
            shared.count_buffer(wanted, first.accounted);
        }
        fits
    }

    /// Ends the last of those who wait here, so that the first can go on: what all others give back is not enough. Returns whether it has: who
    /// waits alone waits for other workers' last to end, for a while.
    fn end_last(&mut self, first: StreamId) -> bool {
        while let Some(&last) = self.starved.back() {
            let connection = self.connections.get(last.0).and_then(Option::as_ref);
            let Some(connection) = connection.filter(|connection| connection.is_starved) else {
                self.starved.pop_back();
                continue;
            };
            let ends = last != first || Duration::from_secs(STALL_SECS) <= self.now.since(connection.active);
            if ends {
                self.starved.pop_back();
                self.refuse(last);
            }
            return ends;
        }
        false
    }

    /// Closes connections that hold memory for which others wait, and have been silent for long.
    pub(super) fn close_stalled(&mut self, now: Instant) {
        if now.since(self.stalls_seen) < Duration::from_secs(1) {
            return;
        }
        self.stalls_seen = now;
        self.has_uploads &= self.connections.iter().flatten().any(|c| c.upload.is_some());
        for id in self.stalled_uploads(now) {
            self.refuse(id);
        }
        let is_short = 0 < self.around.shared.counters.starved.load(Ordering::Relaxed);
        if self.held == 0 || !is_short {
            return;
        }
        let open = self.connections.iter().flatten();
        let stalled = open.filter(|c| {
            let waits = c.is_starved || c.is_waiting || c.takes_no_turn();
            SMALL_BUFFER < c.accounted && !waits && Duration::from_secs(STALL_SECS) <= now.since(c.active)
        });
        for id in stalled.map(|c| c.id).collect::<Vec<_>>() {
            self.refuse(id);
        }
    }

    /// Closes a connection for which there is no memory.
    fn refuse(&mut self, id: StreamId) {
        self.around.shared.counters.read_buf_oom.fetch_add(1, Ordering::Relaxed);
        let owed = match self.connections.get_mut(id.0) {
            Some(Some(connection)) => std::mem::take(&mut connection.owed),
            _ => Vec::new(),
        };
        self.reactor.send(id, &[IoSlice::new(&owed), IoSlice::new(reply_text::NO_BUFFER)]);
        self.close(id);
    }

    /// Accounts replies that a socket has not taken. False if buffers are beyond all bounds: then the connection is closed.
    pub(super) fn owe(&mut self, id: StreamId, bytes: usize) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return false };
        connection.unsent += bytes;
        if self.hold(bytes) {
            return true;
        }
        self.kick_slow_reader(id);
        false
    }

    /// Accounts replies that wait. False if buffers are beyond all bounds.
    pub(super) fn hold(&mut self, bytes: usize) -> bool {
        self.held += bytes;
        self.around.shared.counters.change_returning(0, bytes);
        self.around.shared.count_buffer(0, bytes)
    }

    /// Replies that were owed have gone, or their connection has.
    pub(super) fn settle(&mut self, unsent: usize) {
        self.held -= unsent;
        self.around.shared.counters.change_returning(unsent, 0);
        self.around.shared.count_buffer(unsent, 0);
    }

    /// Closes a connection that does not take its replies.
    pub(super) fn kick_slow_reader(&mut self, id: StreamId) {
        self.around.shared.counters.slow_reader_kicks.fetch_add(1, Ordering::Relaxed);
        self.close(id);
    }

    /// Closes connections that have not taken their replies for long: for `send_timeout`, and where memory is short sooner.
    pub(super) fn close_slow_readers(&mut self, now: Instant) {
        if self.held == 0 || now.since(self.readers_seen) < Duration::from_secs(1) {
            return;
        }
        self.readers_seen = now;
        let shared = &self.around.shared;
        let timeout = shared.adjustable.send_timeout();
        let is_short = shared.buffers_are_short();
        // A value that is being sent cannot go.
        let is_pinned = shared.store.has_pinned_values() && shared.store.wants_cleaning();
        let slow = self.connections.iter().flatten().filter(|c| {
            let silent = now.since(c.active);
            let is_in_the_way = is_short && SMALL_BUFFER < c.unsent || is_pinned && c.sends_values();
            let stalled = is_in_the_way && Duration::from_secs(STALL_SECS) <= silent;
            c.is_sending && (stalled || Duration::ZERO < timeout && timeout <= silent)
        });
        for id in slow.map(|c| c.id).collect::<Vec<_>>() {
            self.kick_slow_reader(id);
        }
    }

    /// Gives a connection's memory back.
    pub(super) fn release(&mut self, accounted: usize, is_starved: bool) {
        self.held -= accounted;
        self.around.shared.count_buffer(accounted, 0);
        let counters = &self.around.shared.counters;
        if is_starved {
            counters.starved.fetch_sub(1, Ordering::Relaxed);
        } else {
            counters.change_returning(accounted, 0);
        }
    }
}
