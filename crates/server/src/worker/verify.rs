//! Connections whose password is verified elsewhere: they wait, the others are served.
//!
//! Shape:      a turn ends before a dear password -> the verifier -> its verdict -> the turn again, with the verdict
//! Invariants: the request that shows the password stays in the input until there is a verdict; nothing behind it is read

use super::Worker;
use crate::auth::Grant;
use crate::memcache::WaitsFor;
use crate::reactor::{Reactor, StreamId};
use units::Instant;

/// What became of a password: whose connection it was, and what it is granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    id: StreamId,
    /// The connection's number: streams are used again.
    number: usize,
    grant: Option<Grant>,
}

/// Until there is a verdict, or a value.
pub(super) const UNTIL_TOLD: Instant = Instant(u64::MAX);

impl<R: Reactor> Worker<R> {
    /// Has a password verified; its connection waits for the verdict.
    pub(super) fn verify(&mut self, id: StreamId, user: &[u8], password: &[u8]) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        let Some(auth) = &self.around.shared.auth else { return };
        connection.parked_until = Some(UNTIL_TOLD);
        let address = connection.client.peer().map(|peer| peer.ip());
        let (number, waker, verdicts) =
            (connection.client.number, self.reactor.waker(), self.verdicts.0.clone());
        let tell = move |grant| {
            // A worker that is gone needs no verdict; one that cannot be woken comes by itself with its next event.
            let _gone = verdicts.send(Verdict { id, number, grant });
            drop(waker.wake());
        };
        if let Err(until) = auth.verify((user, password), address, self.now, Box::new(tell)) {
            self.park(id, until, WaitsFor::LogIn);
        }
    }

    /// Goes on with connections whose passwords were verified.
    pub(super) fn hear_verdicts(&mut self) {
        while let Ok(Verdict { id, number, grant }) = self.verdicts.1.try_recv() {
            if let Some(Some(connection)) = self.connections.get_mut(id.0)
                && connection.client.number == number
            {
                connection.verdict = Some(grant);
                connection.parked_until = None;
                connection.active = self.now;
                self.take_turn_again(id);
            }
        }
    }
}
