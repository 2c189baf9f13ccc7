//! Connections that are sent something else than replies: lists of items, log lines, replies with large values.
//!
//! Shape:      a turn ends with what was asked -> a piece per round while the socket takes it -> requests go on, or the
//!             connection closes
//! Invariants: one piece of a list is in memory at a time; nothing of the store is held across rounds but values that are
//!             pinned; who is sent values is not read from

use super::Worker;
use crate::connection::{Connection, Lasting, Parting};
use crate::dump::Dump;
use crate::limits::PIECES_PER_ROUND;
use crate::memcache::Asked;
use crate::outgoing::Outgoing;
use crate::reactor::{Reactor, Sending, StreamId};
use crate::stats::Client;
use crate::tenants::Binding;
use crate::watch::{Reporter, interest};
use std::io::IoSlice;

impl<R: Reactor> Worker<R> {
    /// A connection is sent something else than replies from now on.
    pub(super) fn begin_lasting(&mut self, id: StreamId, asked: Asked) {
        let waker = self.reactor.waker();
        let shared = &self.around.shared;
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.lasting = match asked {
            Asked::Dump(wanted) => Some(Lasting::Dump(Dump::new(wanted))),
            Asked::Watch(wanted) => {
                // A worker that cannot be woken comes by itself with its next event.
                let wake = Box::new(move || drop(waker.wake()));
                let watcher = shared.watch.begin(&shared.store, wanted, connection.identity.binding(), wake);
                connection.client.watches();
                watcher.map(Lasting::Watch)
            }
        };
        self.lasting.push(id);
        if connection.lasting.is_none() {
            // Others were quicker to take the last place.
            self.close(id);
        }
    }

    /// A connection is sent replies with large values from now on.
    pub(super) fn begin_values(&mut self, id: StreamId, mut outgoing: Outgoing) {
        let copied = outgoing.copied();
        outgoing.accounted = copied;
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.lasting = Some(Lasting::Values(outgoing));
        self.lasting.push(id);
        if !self.hold(copied) {
            self.kick_slow_reader(id);
        }
    }

    /// The next pieces of them.
    fn send_values(&mut self, id: StreamId) {
        let now = self.now;
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        let Some(Lasting::Values(mut outgoing)) = connection.lasting.take() else { return };
        connection.active = now;
        for _ in 0..PIECES_PER_ROUND {
            let piece = outgoing.next();
            let (sent, sending) = (piece.len(), self.reactor.send(id, &[IoSlice::new(piece)]));
            outgoing.advance(sent);
            match sending {
                Sending::Failed => {
                    self.settle(outgoing.accounted);
                    return self.close(id);
                }
                Sending::Later(owed) => {
                    if !self.owe(id, owed) {
                        return self.settle(outgoing.accounted);
                    }
                    let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
                    connection.is_sending = true;
                    break;
                }
                Sending::Done if outgoing.is_done() => break,
                Sending::Done => {}
            }
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        if !outgoing.is_done() {
            connection.lasting = Some(Lasting::Values(outgoing));
            return;
        }
        self.settle(outgoing.accounted);
        self.lasting.retain(|lasting| *lasting != id);
        if outgoing.ends {
            self.end(id);
        } else {
            // What was asked behind them.
            self.wait_for_turn(id);
        }
    }

    fn send_lasting(&mut self, id: StreamId, bytes: &[u8]) {
        self.bytes_written += bytes.len() as u64;
        let sending = self.reactor.send(id, &[IoSlice::new(bytes)]);
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.client.told(bytes.len());
        // Nothing of it waits before this: it is no slow reader for how long there was nothing to say.
        connection.active = self.now;
        connection.is_sending |= matches!(sending, Sending::Later(_));
        if let Sending::Later(owed) = sending {
            self.owe(id, owed);
        }
        if sending == Sending::Failed {
            self.close(id);
        }
    }

    /// Whether a list can be continued at once.
    pub(super) fn has_lasting_work(&self) -> bool {
        let of = |id: &StreamId| self.connections.get(id.0).and_then(Option::as_ref);
        let can = |c: &Connection| {
            !c.is_sending && !c.is_closing && matches!(c.lasting, Some(Lasting::Dump(_) | Lasting::Values(_)))
        };
        self.lasting.iter().filter_map(of).any(can)
    }

    /// The next piece for everybody who is sent something else than replies.
    pub(super) fn serve_lasting(&mut self) {
        for id in self.lasting.clone() {
            let Some(Some(connection)) = self.connections.get_mut(id.0) else { continue };
            if connection.is_sending || connection.is_closing {
                continue;
            }
            if connection.sends_values() {
                self.send_values(id);
                continue;
            }
            let mut piece = Vec::new();
            let mut is_done = false;
            match &mut connection.lasting {
                Some(Lasting::Dump(dump)) => {
                    dump.write(&self.around.shared, &self.store, &connection.identity.binding(), &mut piece);
                    is_done = dump.is_done();
                }
                Some(Lasting::Watch(watcher)) => piece = watcher.take(),
                Some(Lasting::Values(_)) | None => {}
            }
            self.store.quiesce();
            if is_done {
                connection.lasting = None;
                self.lasting.retain(|lasting| *lasting != id);
                // What was asked behind the list.
                self.wait_for_turn(id);
            }
            if !piece.is_empty() {
                self.send_lasting(id, &piece);
            }
        }
    }

    /// Tells those who see connections of a binding that one came, or went for a reason.
    pub(super) fn report(&self, client: &Client, binding: Binding, closed: Option<Parting>) {
        let shared = &self.around.shared;
        let tenant = match binding {
            Binding::To(tenant) => Some(tenant),
            Binding::Unbound => None,
        };
        if !shared.watch.is_seen(&shared.store, interest::CONNECTIONS, tenant) {
            return;
        }
        let reporter = Reporter {
            watch: &shared.watch,
            store: &shared.store,
            clock: &*shared.clock,
            connection: client.number,
        };
        reporter.connection(binding, client.peer(), closed);
    }
}
