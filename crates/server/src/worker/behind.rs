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
            Some(connection) if connection.brings_large && connection.takes_requests() => {
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
