//! How connections come: taken over from the acceptor, and opened once their stream has said who they are.

use super::{NewConnection, Worker};
use crate::connection::{Connection, Parting};
use crate::listener::Address;
use crate::reactor::{Reactor, StreamId};
use crate::tenants::Binding;
use crate::transport::Client;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::Instant;

impl<R: Reactor> Worker<R> {
    /// Takes connections over from the acceptor. Those that are to be opened wait while enough others are being opened.
    pub(super) fn admit(&mut self, now: Instant) {
        while self.reactor.may_open(now)
            && let Some(new) = self.unopened.pop_front()
        {
            self.take_over(new, now);
        }
        while let Ok(new) = self.around.inbox.try_recv() {
            if new.door.is_plain() || self.unopened.is_empty() && self.reactor.may_open(now) {
                self.take_over(new, now);
            } else {
                self.unopened.push_back(new);
            }
        }
    }

    fn take_over(&mut self, new: NewConnection, now: Instant) {
        let local = new.stream.local_addr().ok().and_then(|address| address.as_socket());
        let local = local.map_or_else(|| new.door.address.clone(), Address::Ip);
        match self.reactor.register(new.stream, &new.door, now) {
            Ok(id) => {
                let client = self.around.shared.clients.come(new.door.terms.tenant, new.peer, local, now);
                let is_open = new.door.is_plain();
                if self.connections.len() <= id.0 {
                    self.connections.resize_with(id.0 + 1, || None);
                }
                self.connections[id.0] = Some(Connection::new(id, client, new.door, now));
                // Of another it is not known yet whose it is.
                if is_open {
                    self.announce(id);
                    if !self.count_connection(id) {
                        self.close(id);
                    }
                }
            }
            Err(e) => {
                tracing::debug!("a connection is not taken: {e}");
                self.around.shared.counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                self.forget_connection();
            }
        }
    }

    /// A stream has said who its client is.
    pub(super) fn opened(&mut self, id: StreamId, client: Client, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.active = now;
        if let Some(address) = client.address {
            connection.client.stands_for(address);
        }
        if let Some(tenant) = self.around.router.find_identity(&client.names) {
            let binding = Binding::To(tenant);
            connection.identity = connection.identity.certified(binding);
            connection.client.belongs_to(binding);
        }
        if connection.door.tls.is_some() {
            self.around.shared.counters.ssl_new_sessions.fetch_add(1, Ordering::Relaxed);
        }
        self.announce(id);
        if !self.count_connection(id) {
            self.close(id);
        }
    }

    /// Tells the log and those who watch that a connection has come.
    fn announce(&mut self, id: StreamId) {
        let Some(Some(connection)) = self.connections.get(id.0) else { return };
        let (client, door) = (&connection.client, &connection.door);
        if tracing::enabled!(tracing::Level::DEBUG) {
            let from = client.peer().map_or_else(|| "a UNIX socket".to_owned(), |peer| peer.to_string());
            let whose = match client.binding() {
                Binding::Unbound => None,
                Binding::To(tenant) => self.around.router.about(tenant).map(|about| about.name),
            };
            let whose = whose.map(|name| format!(", of tenant '{name}'")).unwrap_or_default();
            tracing::debug!("connection {}: from {from} at {}{whose}", client.number, door.address);
        }
        self.tell_whose(id);
    }

    /// Tells those who watch whose connection it is, if that is news to them: for whoever saw it until now it has gone, for whoever
    /// sees it from now on it has come.
    pub(super) fn tell_whose(&mut self, id: StreamId) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        let binding = connection.client.binding();
        let before = connection.told.replace(binding);
        if before == Some(binding) {
            return;
        }
        let client = Arc::clone(&connection.client);
        if let Some(before) = before {
            self.report(&client, before, Some(Parting::Normal));
        }
        self.report(&client, binding, None);
    }

    pub(super) fn forget_connection(&self) {
        self.around.load.fetch_sub(1, Ordering::Relaxed);
        self.around.shared.counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
    }
}
