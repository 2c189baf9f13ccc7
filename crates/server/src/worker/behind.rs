//! Large requests: what is missing of one is read to where it is kept, instead of into the worker's buffer first.
//!
//! Shape:      a request begins that needs much more -> what arrives goes behind it, up to its end -> the next arrival of that connection
//!             is a short one, so that most of another such request comes that way
//! Invariants: the place is accounted before anything goes there, and no larger than the request

use super::Worker;
use crate::connection::Connection;
use crate::limits::{BEHIND_FROM, RECEIVE_FIRST};
use crate::reactor::{Place, Places, Reactor, StreamId};
use units::Instant;

/// Inputs of connections, as places for what arrives.
pub(super) struct Inputs<'c>(pub(super) &'c mut [Option<Connection>]);

impl Places for Inputs<'_> {
    fn place<'p>(&'p mut self, id: StreamId, buffer: &'p mut [u8]) -> Place<'p> {
        let connection = self.0.get_mut(id.0).and_then(Option::as_mut);
        match connection {
            Some(connection) if connection.wants_rest() => Place::Behind(&mut connection.input),
            Some(connection)
                if connection.brings_large && connection.takes_requests() && connection.input.is_empty() =>
            {
                let most = buffer.len().min(RECEIVE_FIRST);
                Place::Buffer(&mut buffer[..most])
            }
            _ => Place::Buffer(buffer),
        }
    }
}

impl Connection {
    /// Whether what arrives next is a request or a part of one, and no value that goes elsewhere.
    fn takes_requests(&self) -> bool {
        self.upload.is_none() && self.skip == 0 && self.lasting.is_none() && !self.is_closing
    }

    /// Whether what arrives next is the rest of a large request that it keeps, and nothing else.
    pub(super) fn wants_rest(&self) -> bool {
        let missing = self.needed.saturating_sub(self.input.len());
        self.takes_requests()
            && !self.input.is_empty()
            && BEHIND_FROM <= missing
            && missing == self.input.capacity() - self.input.len()
    }
}

impl<R: Reactor> Worker<R> {
    /// So many bytes of a large request have arrived behind what is kept of it.
    pub(super) fn added(&mut self, id: StreamId, len: usize, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.active = now;
        connection.client.heard(len, now);
        connection.brings_large = true;
        self.go_on_with_input(id);
        self.regulate(id);
    }

    /// What was kept after a first arrival says whether it begins another large request.
    pub(super) fn note_large(&mut self, id: StreamId) {
        if let Some(Some(connection)) = self.connections.get_mut(id.0)
            && connection.brings_large
        {
            connection.brings_large = connection.wants_rest();
        }
    }

    /// Takes a turn where all is there that the next request is known to need.
    pub(super) fn go_on_with_input(&mut self, id: StreamId) {
        if let Some(Some(connection)) = self.connections.get(id.0)
            && connection.needed <= connection.input.len()
            && !connection.is_sending
            && !connection.is_waiting
            && connection.parked_until.is_none()
        {
            self.take_turn_again(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;
    use crate::listener::{Address, Door, Terms};
    use crate::tenants::Binding;
    use crate::testing;
    use std::sync::Arc;

    #[test]
    fn the_rest_of_a_large_request_goes_behind_it_and_the_next_one_begins_short() {
        const NEEDED: usize = 2 * BEHIND_FROM;
        let shared = testing::small(1);
        let terms = Terms { protocol: Protocol::Text, auth: false, tenant: Binding::Unbound };
        let door = Arc::new(Door { terms, tls: None, proxy: false, address: Address::Unix("".into(), 0) });
        let now = Instant::default();
        let client = shared.clients.come(Binding::Unbound, None, door.address.clone(), now);
        let mut all = [Some(Connection::new(StreamId(0), client, door, now))];
        let mut buffer = vec![0; 2 * RECEIVE_FIRST];
        // Room behind what is kept, or else in the buffer.
        let mut rooms = |all: &mut [Option<Connection>]| {
            let mut inputs = Inputs(all);
            let place = inputs.place(StreamId(0), &mut buffer);
            (matches!(place, Place::Behind(_)), place.room())
        };
        let mut after = |kept: usize, needed: usize, brings_large: bool, skip: u64| {
            let connection = all[0].as_mut().unwrap();
            connection.input = Vec::with_capacity(needed.max(kept));
            connection.input.resize(kept, b'x');
            (connection.needed, connection.brings_large, connection.skip) = (needed, brings_large, skip);
            rooms(&mut all)
        };
        let whole = (false, 2 * RECEIVE_FIRST);
        assert_eq!(after(0, 0, false, 0), whole);
        assert_eq!(after(100, NEEDED, false, 0), (true, NEEDED - 100));
        assert_eq!(after(NEEDED - BEHIND_FROM, NEEDED, true, 0), (true, BEHIND_FROM));
        assert_eq!(after(NEEDED - BEHIND_FROM + 1, NEEDED, true, 0), whole, "what follows may come with it");
        assert_eq!(after(0, 0, true, 0), (false, RECEIVE_FIRST), "another large one may begin");
        assert_eq!(after(0, 0, true, 9), whole, "what is skipped is no request");
        assert_eq!(after(100, NEEDED, false, 9), whole);
    }
}
