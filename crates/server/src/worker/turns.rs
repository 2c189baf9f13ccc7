//! Turns of a connection: what it has sent is parsed and answered, a bounded part at a time.
//!
//! Shape:      input -> turns until it is done with or others want theirs -> replies sent or owed, and what is left of the input
//! Invariants: a connection whose replies wait, or who is parked, takes no turn; replies keep the order of requests
//! Cost:       short replies wait for the next turn's, so that one call sends both

use super::Worker;
use crate::auth::Identity;
use crate::config::Protocol;
use crate::limits::{OWED_MAX, SENT_AT_ONCE, SLOW_KEY_MAX, TURNS_IN_A_ROW};
use crate::memcache::{Block, Replies, Session, Turn, command_in, run};
use crate::observe::Slow;
use crate::reactor::{Reactor, Sending, StreamId};
use crate::transport::Transport;
use std::cell::Cell;
use std::io::IoSlice;

/// What is left of a connection's input after its turns.
pub(super) enum After {
    /// So many bytes are done with; the rest is kept.
    Consumed(usize),
    /// The request of a value that has come waits for another value.
    Awaits,
    /// The connection is gone.
    Gone,
}

impl<R: Reactor> Worker<R> {
    /// Goes on with a connection's kept input.
    pub(super) fn take_turn_again(&mut self, id: StreamId) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.is_waiting = false;
        if connection.awaits_another() && !connection.takes_no_turn() && self.receive(id, &[]).is_none() {
            return;
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        if !connection.input.is_empty() && !connection.takes_no_turn() {
            let input = std::mem::take(&mut connection.input);
            self.take_turns_over(id, input);
        }
        self.regulate(id);
    }

    pub(super) fn take_turns_over(&mut self, id: StreamId, mut input: Vec<u8>) {
        if let After::Consumed(done) = self.take_turns(id, &input, None) {
            if let Some(Some(connection)) = self.connections.get_mut(id.0)
                && 0 < connection.needed
                && connection.needed <= input.capacity()
                && done < input.len()
            {
                // The rest of a large request follows: its buffer stays.
                input.drain(..done);
                connection.input = input;
                return;
            }
            self.keep(id, &input[done..]);
        }
    }

    /// Runs turns over `input` until it is done with, or others want their turn; or the request of `block`.
    pub(super) fn take_turns(&mut self, id: StreamId, input: &[u8], block: Option<Block<'_>>) -> After {
        let mut done = 0;
        let mut is_out_of_memory = false;
        let mut taken = 0;
        loop {
            taken += 1;
            let Some(Some(connection)) = self.connections.get_mut(id.0) else { return After::Gone };
            if let Some(first) = input.get(done) {
                connection.protocol = connection.protocol.of_first_byte(*first);
            }
            let speaks = (connection.protocol, connection.identity, connection.client.number);
            let turns_input = &input[done..];
            let (turn, sending) = self.turn(id, speaks, (turns_input, block), is_out_of_memory);
            done += turn.consumed;
            self.requests += turn.requests as u64;
            self.store.quiesce();
            self.hand_samples_over();
            if let Some(after) = self.note_turn(id, &turn, sending, block.is_some()) {
                return after;
            }
            if let Some(announced) = turn.upload {
                let head = done - turn.consumed + announced.start..done;
                match self.begin_upload(id, input, head, announced) {
                    After::Consumed(end) if end < input.len() && self.may_go_on(id) => done = end,
                    after => return after,
                }
                is_out_of_memory = false;
                continue;
            }
            if let Some(asked) = turn.asked {
                self.begin_lasting(id, asked);
                return After::Consumed(done);
            }
            // A request whose value has come.
            let comes_once = block.is_some() && turn.consumed == 0;
            if !turn.plans.is_empty() && self.fetch(id, &turn.plans) {
                return if comes_once { After::Awaits } else { After::Consumed(done) };
            }
            let Some(Some(connection)) = self.connections.get(id.0) else { return After::Gone };
            if !comes_once && (connection.is_sending || connection.sends_values()) {
                return After::Consumed(done);
            }
            if let Some((user, password)) = turn.verifies {
                self.verify(id, user.of_input(turns_input), password.of_input(turns_input));
                return After::Consumed(done);
            }
            if let Some((until, what)) = turn.waits {
                self.park(id, until, what);
                return After::Consumed(done);
            }
            if !turn.plans.is_empty() {
                is_out_of_memory = false;
            } else if turn.needs_room {
                // Devices are the cleaners'.
                self.call_helpers();
                let shared = &self.around.shared;
                let room = shared.cleaning.timed(&*shared.clock, &shared.store, || self.store.make_room());
                is_out_of_memory = room.is_err();
            } else if turn.more {
                is_out_of_memory = false;
                // The rest of a long request is looked through again each time, and its answers are large.
                let is_long = 0 < turn.keys_done || TURNS_IN_A_ROW <= taken;
                if is_long || self.reactor.has_ready() || !self.waiting.is_empty() {
                    self.yields += 1;
                    self.wait_for_turn(id);
                    return After::Consumed(done);
                }
            } else {
                return After::Consumed(done);
            }
        }
    }

    /// What a turn leaves with its connection. If that ends with it, what became of it.
    pub(super) fn note_turn(
        &mut self,
        id: StreamId,
        turn: &Turn,
        sending: Sending,
        was_block: bool,
    ) -> Option<After> {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return Some(After::Gone) };
        connection.skip = turn.skip;
        connection.needed = turn.needed;
        if 0 < turn.requests || connection.keys_done < turn.keys_done {
            connection.fetches_made = 0;
        }
        if 0 < turn.requests || turn.upload.is_some() {
            (connection.held_since, connection.waits_since) = (None, None);
            connection.waits_to_log_in = false;
            connection.has_waited = false;
        }
        connection.keys_done = turn.keys_done;
        if let Some(identity) = turn.identity {
            connection.identity = identity;
            let before = connection.client.binding();
            connection.client.belongs_to(identity.binding());
            if before != identity.binding() {
                self.around.shared.baseline.lower(&self.around.shared, before);
            }
            self.tell_whose(id);
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return Some(After::Gone) };
        // A value may come to its end while an earlier reply is on its way.
        connection.is_sending = matches!(sending, Sending::Later(_)) || was_block && connection.is_sending;
        if turn.identity.is_some() && !self.count_connection(id) {
            return Some(self.end(id));
        }
        let failed = sending == Sending::Failed;
        if let Sending::Later(owed) = sending
            && !self.owe(id, owed)
        {
            return Some(After::Gone);
        }
        if let Some(why) = turn.close {
            self.parts(id, why);
        }
        (turn.close.is_some() || failed).then(|| self.end(id))
    }

    /// Whether what follows a large value may be executed.
    fn may_go_on(&self, id: StreamId) -> bool {
        let connection = self.connections.get(id.0).and_then(Option::as_ref);
        connection.is_some_and(|c| !c.is_sending && !c.awaits_another())
    }

    /// Notes what a turn executed, and how long that took since it had arrived.
    pub(super) fn observe(&mut self, id: StreamId, turn: &Turn, input: &[u8], sent: usize) {
        let (Some(Some(connection)), Some(first)) = (self.connections.get(id.0), self.tally.runs.first())
        else {
            return;
        };
        let shared = &self.around.shared;
        let now = shared.clock.now();
        self.busy_until = now;
        let arrived = connection.held_since.unwrap_or(connection.active);
        let took = now.since(arrived);
        if shared.adjustable.slow_request() <= took {
            shared.observed.slow.add(Slow {
                number: 0,
                unix_secs: shared.unix_secs(),
                tenant: first.tenant,
                class: first.operation.class(),
                command: command_in(input),
                key: turn.first_key(input, SLOW_KEY_MAX),
                requests: u32::try_from(turn.requests).unwrap_or(u32::MAX),
                micros: took.0 / 1000,
                received_bytes: turn.consumed as u64,
                sent_bytes: sent as u64,
                connection: connection.client.number,
                peer: connection.client.peer(),
            });
        }
        // Who waits behind another that is held back is not slow for the tier's sake.
        let times = (first.tenant, took, now.since(connection.active));
        shared.observed.note(self.around.number, &mut self.tally, times, now);
    }

    pub(super) fn wait_for_turn(&mut self, id: StreamId) {
        if let Some(Some(connection)) = self.connections.get_mut(id.0)
            && !connection.is_waiting
        {
            connection.is_waiting = true;
            self.waiting.push_back(id);
        }
    }

    /// One batch of requests and its replies.
    pub(super) fn turn(
        &mut self,
        id: StreamId,
        (protocol, identity, connection): (Protocol, Identity, usize),
        (input, block): (&[u8], Option<Block<'_>>),
        is_out_of_memory: bool,
    ) -> (Turn, Sending) {
        let asking = self.connections.get(id.0).and_then(Option::as_ref);
        let keys_done = asking.map_or(0, |connection| connection.keys_done);
        let arrived = asking.map_or(self.now, |connection| connection.active).min(self.came_after);
        let (address, verdict) = match self.connections.get_mut(id.0) {
            Some(Some(connection)) if self.around.shared.auth.is_some() => {
                (connection.client.peer().map(|peer| peer.ip()), connection.verdict.take())
            }
            _ => (None, None),
        };
        let session = Session {
            shared: &self.around.shared,
            router: &self.around.router,
            protocol,
            identity,
            binding: identity.binding(),
            bounds: self.bounds,
            requests_max: self.around.shared.config.requests_per_turn,
            connection,
            watched: self.around.shared.watch.wanted(&self.around.shared.store, identity.binding()),
            is_out_of_memory,
            gates: self.around.shared.admission.asked(),
            now: self.now,
            arrived,
            address,
            verdict: Cell::new(verdict),
            may_fetch: Cell::new(self.may_fetch(id)),
            has_waited_long: Cell::new(self.has_waited_long(id)),
            is_draining: self.is_draining,
            is_fetched: Cell::new(self.is_fetched(id)),
            fetch_bytes: self.fetch_bytes(),
            keys_done,
            announced: Cell::new(None),
        };
        let owed = match self.connections.get_mut(id.0) {
            Some(Some(connection)) => std::mem::take(&mut connection.owed),
            _ => Vec::new(),
        };
        let mut replies = Replies::new(if owed.is_empty() { std::mem::take(&mut self.out) } else { owed });
        let turn = run(&session, &self.store, input, block, &mut replies, &mut self.tally);
        // Its gates are for the turn, not for sending.
        drop(session);
        let len = replies.len();
        if turn.is_followed()
            && len <= OWED_MAX
            && replies.is_flat()
            && let Some(Some(connection)) = self.connections.get_mut(id.0)
        {
            // The next turn's replies follow: one call sends both.
            connection.owed = replies.into_buffer();
            self.observe(id, &turn, input, 0);
            return (turn, Sending::Done);
        }
        let sending = send_replies(&mut self.reactor, id, &replies, turn.requests);
        let outgoing = replies.outgoing(&self.store);
        self.bytes_written += len as u64;
        if let Some(Some(connection)) = self.connections.get(id.0) {
            connection.client.told(len);
        }
        self.out = replies.into_buffer();
        self.out.clear();
        self.observe(id, &turn, input, len);
        if let Some(outgoing) = outgoing {
            self.begin_values(id, outgoing);
        }
        (turn, sending)
    }
}

/// Sends what so many requests are answered.
fn send_replies<R: Reactor>(
    reactor: &mut Transport<R>,
    id: StreamId,
    replies: &Replies<'_>,
    requests: usize,
) -> Sending {
    let sending = match replies.len() {
        0 => Sending::Done,
        _ if replies.is_flat() => reactor.send(id, &[IoSlice::new(replies.flat())]),
        _ => reactor.send(id, &replies.slices()),
    };
    match sending {
        // Who waits for them goes on beside what is left of the round, which might be over before it has more to do.
        Sending::Done if 0 < replies.len() && SENT_AT_ONCE <= requests && reactor.is_nearly_done() => {
            reactor.flush(id)
        }
        sending => sending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{Address, Door, Terms};
    use crate::reactor::{Completion, Ring, Uring};
    use crate::tenants::Binding;
    use crate::testing;
    use crate::transport::{BUFFER, Event};
    use socket2::{Domain, Socket, Type};
    use std::io::{Read as _, Write as _};
    use std::sync::Arc;
    use units::{Duration, Instant};

    #[test]
    fn replies_of_many_requests_go_at_once_where_little_is_left_of_the_round() {
        let Ok(ring) = Ring::new() else { return println!("skipped: io_uring is not to be had") };
        let shared = Arc::new(testing::small(1));
        let mut reactor = Transport::new(Uring::new(ring, Arc::clone(&shared)).unwrap(), shared);
        let terms = Terms { protocol: Protocol::Text, auth: false, tenant: Binding::Unbound };
        let door = Door { terms, tls: None, proxy: false, address: Address::Unix("".into(), 0) };
        let mut peers: Vec<Socket> = Vec::new();
        for _ in 0..2 {
            let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
            ours.set_nonblocking(true).unwrap();
            theirs.set_nonblocking(true).unwrap();
            reactor.register(ours, &door, Instant::ZERO).unwrap();
            peers.push(theirs);
        }
        let mut buffer = vec![0; BUFFER];
        let mut goes_at_once = |requests, together: usize| {
            peers.iter_mut().take(together).for_each(|peer| peer.write_all(b"x").unwrap());
            reactor.wait(Some(Duration::from_secs(10))).unwrap();
            let Some(Event::Completed(Completion::Arrived(id, 1))) = reactor.next(&mut buffer, &mut ())
            else {
                panic!("nothing has arrived")
            };
            let mut replies = Replies::new(Vec::new());
            replies.put(b"reply");
            assert_eq!(send_replies(&mut reactor, id, &replies, requests), Sending::Done);
            let mut got = [0; 5];
            let is_there = peers[id.0].read_exact(&mut got).is_ok();
            while reactor.next(&mut buffer, &mut ()).is_some() {}
            reactor.wait(Some(Duration::ZERO)).unwrap();
            assert!(is_there || peers[id.0].read_exact(&mut got).is_ok(), "it goes with the round's end");
            is_there
        };
        assert!(goes_at_once(SENT_AT_ONCE, 2));
        assert!(!goes_at_once(SENT_AT_ONCE - 1, 2), "of few requests");
        assert!(!goes_at_once(SENT_AT_ONCE, 1), "nothing is left of the round");
    }
}
