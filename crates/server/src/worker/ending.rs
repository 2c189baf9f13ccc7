//! How connections end: at their own wish, for their silence, or because the server drains.
//!
//! Invariants: what a connection held is given back when it is dropped, whoever ended it

use super::{After, Worker};
use crate::connection::{Connection, Lasting, Parting};
use crate::limits::{DRAIN_LINGER_MS, DRAIN_SECS};
use crate::reactor::{Reactor, Sending, StreamId};
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

impl<R: Reactor> Worker<R> {
    /// Ends a connection once what it is owed has gone.
    pub(super) fn end(&mut self, id: StreamId) -> After {
        match self.connections.get_mut(id.0) {
            Some(Some(Connection { lasting: Some(Lasting::Values(values)), .. })) => values.ends = true,
            Some(Some(connection)) if connection.is_sending => connection.is_closing = true,
            _ => match self.reactor.flush(id) {
                Sending::Later(owed) => self.note_owed(id, owed, true),
                Sending::Done | Sending::Failed => self.close(id),
            },
        }
        After::Gone
    }

    /// What a connection was sent is not gone; it may close once it is.
    pub(super) fn note_owed(&mut self, id: StreamId, owed: usize, closes: bool) {
        if self.owe(id, owed)
            && let Some(Some(connection)) = self.connections.get_mut(id.0)
        {
            connection.is_sending = true;
            connection.is_closing |= closes;
        }
    }

    /// A connection ends for a reason; one that had another before, or was told that the server ends, for that.
    pub(super) fn parts(&mut self, id: StreamId, why: Parting) {
        let why = if self.is_draining { Parting::Shutdown } else { why };
        if let Some(Some(connection)) = self.connections.get_mut(id.0)
            && connection.parting == Parting::Error
        {
            connection.parting = why;
        }
    }

    pub(super) fn close(&mut self, id: StreamId) {
        self.reactor.close(id);
        self.drop_connection(id);
    }

    pub(super) fn drop_connection(&mut self, id: StreamId) {
        if let Some(connection) = self.connections.get_mut(id.0).and_then(Option::take) {
            if let Some(Lasting::Watch(watcher)) = &connection.lasting {
                self.around.shared.watch.end(&self.around.shared.store, watcher);
            }
            self.lasting.retain(|lasting| *lasting != id);
            self.around.shared.clients.go(&connection.client);
            tracing::debug!("connection {}: gone", connection.client.number);
            if let Some(told) = connection.told {
                self.report(&connection.client, told, Some(connection.parting));
            }
            self.release(connection.accounted, connection.is_starved);
            let copies = match &connection.lasting {
                Some(Lasting::Values(values)) => values.accounted,
                _ => 0,
            };
            self.settle(connection.unsent + copies);
            if let Some(tenant) = connection.counted {
                self.around.shared.admission.leave(tenant);
            }
            self.forget_connection();
        }
    }

    pub(super) fn close_idle(&mut self, now: Instant) {
        let limit = self.around.shared.adjustable.idle_timeout();
        // As memcached: who waits for the server, or is sent something, is not idle, nor is a local socket closed.
        let waits = |c: &Connection| c.takes_no_turn() || c.is_starved || c.is_waiting || c.upload.is_some();
        let idle = |c: &Connection| limit <= now.since(c.active) && !waits(c) && c.client.peer().is_some();
        let ids: Vec<_> = self.connections.iter().flatten().filter(|c| idle(c)).map(|c| c.id).collect();
        for id in ids {
            self.around.shared.counters.idle_kicks.fetch_add(1, Ordering::Relaxed);
            self.parts(id, Parting::Idle);
            self.close(id);
        }
    }

    pub(super) fn publish_counters(&mut self) {
        self.published = self.now;
        let counters = &self.around.shared.counters;
        counters.bytes_read.fetch_add(std::mem::take(&mut self.bytes_read), Ordering::Relaxed);
        counters.bytes_written.fetch_add(std::mem::take(&mut self.bytes_written), Ordering::Relaxed);
        counters.requests.fetch_add(std::mem::take(&mut self.requests), Ordering::Relaxed);
        counters.conn_yields.fetch_add(std::mem::take(&mut self.yields), Ordering::Relaxed);
    }

    /// The last rounds: what has arrived is answered, what is owed is sent, then the other side hears the end and may
    /// finish its own; all within a deadline.
    pub(super) fn drain(&mut self) {
        let started = self.around.shared.clock.now();
        self.is_draining = true;
        self.end_waits();
        let mut finished_at = None;
        loop {
            if self.round(Some(Duration::from_millis(10))).is_err() {
                return;
            }
            let now = self.around.shared.clock.now();
            let owed = Connection::is_owed;
            // What has arrived and was not heard yet is answered first.
            let all_heard = !self.reactor.has_ready();
            let open = self.connections.iter().flatten().filter(|_| all_heard);
            let done: Vec<_> = open.filter(|c| !owed(c) && !c.is_closing).map(|c| c.id).collect();
            for id in done {
                // The last replies may wait in the reactor, and not all of them fit the socket.
                if let Sending::Later(owed) = self.reactor.flush(id) {
                    self.note_owed(id, owed, false);
                    continue;
                }
                self.reactor.finish(id);
                if let Some(Some(connection)) = self.connections.get_mut(id.0) {
                    connection.is_closing = true;
                }
                finished_at = Some(now);
            }
            let linger = Duration::from_millis(DRAIN_LINGER_MS);
            let has_lingered = finished_at.map_or(all_heard, |at| linger <= now.since(at));
            let is_quiet = has_lingered && !self.connections.iter().flatten().any(owed);
            if is_quiet || Duration::from_secs(DRAIN_SECS) <= now.since(started) {
                self.publish_counters();
                return;
            }
        }
    }
}
