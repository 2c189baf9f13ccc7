//! Connections within what their tenants are allowed: how many, and how often they are served.
//!
//! Shape:      a connection is counted for whom it is bound to, else for the default tenant, from when it has said who it is: one that
//!             is being opened, or asked for a password that it has not shown, is nobody's yet. One whose next request has no token is
//!             parked: neither served nor read from until there is one
//! Invariants: requests of one connection stay in order, and so wait behind one that waits, whosever they are

use super::Worker;
use crate::admission::until;
use crate::connection::Parting;
use crate::limits::{AWAKE_FOR, RATE_WAIT_MAX};
use crate::memcache::{WaitsFor, reply_text};
use crate::reactor::{Reactor, StreamId};
use crate::tenants::Binding;
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use units::{Duration, Instant};

impl<R: Reactor> Worker<R> {
    /// Counts a connection for whom it is bound to now, if it has said who it is. False if that tenant has as many as it may: it
    /// was told so, and is to be closed.
    pub(super) fn count_connection(&mut self, id: StreamId) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return true };
        let tenant = match connection.identity.binding() {
            _ if connection.identity.is_stranger() => None,
            Binding::To(tenant) => Some(tenant),
            Binding::Unbound => Some(self.around.router.default_tenant()),
        };
        if connection.counted == tenant {
            return true;
        }
        let admission = &self.around.shared.admission;
        if let Some(before) = connection.counted.take() {
            admission.leave(before);
        }
        let Some(tenant) = tenant else { return true };
        let is_admitted = admission.enter(tenant);
        if is_admitted {
            connection.counted = Some(tenant);
        } else {
            self.around.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
            if connection.door.is_plain() {
                self.reactor.send(id, &[IoSlice::new(reply_text::TOO_MANY)]);
            }
        }
        is_admitted
    }

    /// Neither serves nor reads a connection until what its request waits for may be there.
    pub(super) fn park(&mut self, id: StreamId, until: Instant, what: WaitsFor) {
        if let Some(Some(connection)) = self.connections.get_mut(id.0) {
            let mut until = until;
            if what == WaitsFor::LogIn
                && !std::mem::replace(&mut connection.waits_to_log_in, true)
                && let Some(auth) = &self.around.shared.auth
            {
                auth.note_wait();
            }
            if what == WaitsFor::Tier {
                connection.held_since.get_or_insert(connection.active);
            } else {
                connection.held_since = None;
                // It may be that nobody is there any more to hear the answer: who waits is not read from.
                let most = *connection.waits_since.get_or_insert(connection.active) + RATE_WAIT_MAX;
                if self.now < most {
                    until = until.min(most);
                }
            }
            connection.parked_until = Some(until);
            self.parked.push((until, id));
        }
    }

    /// Whether a connection's next request has waited for tokens as long as one may.
    pub(super) fn has_waited_long(&self, id: StreamId) -> bool {
        let connection = self.connections.get(id.0).and_then(Option::as_ref);
        let since = connection.and_then(|connection| connection.waits_since);
        since.is_some_and(|since| RATE_WAIT_MAX <= self.now.since(since))
    }

    /// Serves those again whose tenants have tokens by now, or may no longer be held back at a tier. Their requests count as arrived now:
    /// what waiting for tokens takes is no slowness. What waiting for a tier takes is.
    pub(super) fn unpark(&mut self, now: Instant) {
        let let_go = self.around.shared.store.times_let_go();
        let asks_again = std::mem::replace(&mut self.let_go_seen, let_go) != let_go;
        let mut due = Vec::new();
        self.parked.retain(|&(until, id)| {
            let connection = self.connections.get(id.0).and_then(Option::as_ref);
            let held_since = connection.and_then(|connection| connection.held_since);
            let is_due = until <= now || (asks_again && held_since.is_some());
            if is_due {
                // Whoever has waited for longest goes first: of a tenant's connections the first one may take all that it may do.
                let waits_since = connection.and_then(|connection| connection.waits_since);
                due.push((held_since.or(waits_since).unwrap_or(until), until, id));
            }
            !is_due
        });
        due.sort_unstable_by_key(|(since, ..)| *since);
        for (_, until, id) in due {
            if let Some(Some(connection)) = self.connections.get_mut(id.0)
                && connection.parked_until == Some(until)
            {
                connection.parked_until = None;
                connection.active = now;
                if connection.waits_to_log_in && self.reactor.has_left(id) {
                    // Who has left would else keep its place, and take a token of those who are there, for an answer that nobody reads.
                    self.parts(id, Parting::Normal);
                    self.close(id);
                } else {
                    self.take_turn_again(id);
                }
            }
        }
    }

    /// Whoever waits for tokens asks again at once: a server that ends gives everybody theirs.
    pub(super) fn end_waits(&mut self) {
        let now = self.around.shared.clock.now();
        for (until, id) in &mut self.parked {
            if let Some(Some(connection)) = self.connections.get_mut(id.0)
                && connection.parked_until == Some(*until)
                && connection.waits_since.is_some()
            {
                (*until, connection.parked_until) = (now, Some(now));
            }
        }
    }

    /// How long to wait for everything else; the wait ends when somebody has tokens.
    pub(super) fn until_unparked(&mut self, timeout: Option<Duration>) -> io::Result<Option<Duration>> {
        let Some(first) = self.parked.iter().map(|(until, _)| *until).min() else { return Ok(timeout) };
        let now = self.around.shared.clock.now();
        if until(first, now) <= AWAKE_FOR {
            return Ok(Some(Duration::ZERO));
        }
        self.reactor.ring_at(first, now)?;
        Ok(timeout)
    }
}
