//! A worker thread: its connections, its way into the store, one turn after another.
//!
//! Shape:      wait -> arrivals -> turns -> replies; connections with more to do take turns
//! Invariants: the thread is offline for the store while it sleeps, and announces after every turn
//! Cost:       one receive and one gathering write per turn

mod admit;
mod coming;
mod ending;
mod fetching;
mod lasting;
mod pressure;
mod upload;
mod verify;

pub(crate) use upload::Receiving;

use crate::auth::Identity;
use crate::config::Protocol;
use crate::connection::{Connection, Lasting};
use crate::limits::{EVENTS_PER_WAIT, OWED_MAX, SHADOW_HITS_PER_DECISION, SLOW_KEY_MAX, STARVED_POLL_MS};
use crate::listener::Door;
use crate::loops::Helpers;
use crate::memcache::{Block, Bounds, Replies, Session, Turn, run};

use crate::observe::{Slow, Tally};
use crate::reactor::{Completion, Reactor, Sending, StreamId};
use crate::shared::Shared;
use crate::tenants::Router;
use crate::transport::{BUFFER, Event, Transport};
use crossbeam_channel::{Receiver, Sender, unbounded};
use fetching::Fetching;
use socket2::Socket;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use units::{Duration, Instant};
use verify::Verdict;

/// A connection on its way to a worker.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) stream: Socket,
    /// The other side's address; none behind a UNIX socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) door: Arc<Door>,
}

/// What a worker shares with the rest of the server.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) shared: Arc<Shared>,
    pub(crate) router: Arc<Router>,
    pub(crate) helpers: Arc<Helpers>,
    pub(crate) inbox: Receiver<NewConnection>,
    /// Connections of this worker, for the acceptor.
    pub(crate) load: Arc<AtomicUsize>,
    pub(crate) stop: Arc<AtomicBool>,
    /// The worker's number, from 0.
    pub(crate) number: usize,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker<R> {
    around: Surroundings,
    reactor: Transport<R>,
    store: store::Worker,
    connections: Vec<Option<Connection>>,
    waiting: VecDeque<StreamId>,
    /// Those that wait for memory, in the order in which they came.
    starved: VecDeque<StreamId>,
    /// Bytes of buffers accounted for its connections.
    held: usize,
    /// When it last looked for stalled connections.
    stalls_seen: Instant,
    /// When it last looked for slow readers.
    readers_seen: Instant,
    buffer: Vec<u8>,
    out: Vec<u8>,
    bytes_read: u64,
    bytes_written: u64,
    requests: u64,
    yields: u64,
    /// Connections that are sent something else than replies.
    lasting: Vec<StreamId>,
    /// Values on their way from tiers.
    fetching: Fetching,
    /// Those that wait for tokens, and until when.
    parked: Vec<(Instant, StreamId)>,
    /// What became of passwords that are verified elsewhere: as many as connections wait for at most.
    verdicts: (Sender<Verdict>, Receiver<Verdict>),
    bounds: Bounds,
    tally: Tally,
    /// When the last wait ended.
    now: Instant,
}

/// What is left of a connection's input after its turns.
enum After {
    /// So many bytes are done with; the rest is kept.
    Consumed(usize),
    /// The connection is gone.
    Gone,
}

impl<R: Reactor> Worker<R> {
    pub(crate) fn new(around: Surroundings, reactor: R, store: store::Worker) -> Self {
        let geometry = store.store().geometry();
        let body_max = geometry.item_max.as_usize() - store::ITEM_OVERHEAD_MAX;
        let upload_from = geometry.segment.as_usize() - store::ITEM_OVERHEAD_MAX;
        let flush_disabled = around.shared.config.flush_disabled;
        let bounds = Bounds { body_max, upload_from, flush_disabled };
        let tally = Tally::new(around.shared.config.seed.wrapping_add(around.number as u64) << 1);
        let reactor = Transport::new(reactor, Arc::clone(&around.shared));
        let fetching = Fetching::new(store.store(), reactor.waker().bell());
        Self {
            reactor,
            fetching,
            around,
            store,
            connections: Vec::new(),
            waiting: VecDeque::new(),
            starved: VecDeque::new(),
            held: 0,
            stalls_seen: Instant::ZERO,
            readers_seen: Instant::ZERO,
            buffer: vec![0; BUFFER],
            out: Vec::new(),
            bytes_read: 0,
            bytes_written: 0,
            requests: 0,
            yields: 0,
            lasting: Vec::new(),
            parked: Vec::new(),
            verdicts: unbounded(),
            bounds,
            tally,
            now: Instant::ZERO,
        }
    }

    /// Works until the server stops.
    pub(crate) fn work(mut self) {
        while !self.around.stop.load(Ordering::Acquire) {
            if let Err(e) = self.round(None) {
                tracing::error!("a worker cannot wait for its connections: {e}");
                return;
            }
        }
        self.drain();
    }

    /// Waits, then deals with everything that has completed.
    fn round(&mut self, most: Option<Duration>) -> std::io::Result<()> {
        let idle_check = 0 < self.around.shared.adjustable.idle_timeout().0;
        let timeout = match () {
            () if self.reactor.has_ready() || !self.waiting.is_empty() => Some(Duration::ZERO),
            () if self.has_lasting_work() => Some(Duration::ZERO),
            () if !self.starved.is_empty() => Some(Duration::from_millis(STARVED_POLL_MS)),
            () if idle_check || 0 < self.held => Some(most.unwrap_or(Duration::from_secs(1))),
            () => most,
        };
        let timeout = self.until_unparked(timeout);
        let sleeps = timeout != Some(Duration::ZERO);
        if sleeps {
            self.publish_counters();
            self.store.go_offline();
        }
        let waited = self.reactor.wait(timeout);
        if sleeps {
            self.store.go_online();
        }
        waited?;
        let mut now = self.around.shared.clock.now();
        self.now = now;
        self.admit(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.reactor.expire(now);
        let mut events = 0;
        while let Some(event) = self.reactor.next(&mut buffer) {
            events += 1;
            if events % EVENTS_PER_WAIT == 0 {
                // What one wait told of is done with: this arrived later.
                now = self.around.shared.clock.now();
                self.now = now;
            }
            match event {
                Event::Completed(completion) => self.complete(completion, &buffer, now),
                Event::Opened(id, client) => self.opened(id, client, now),
            }
        }
        self.buffer = buffer;
        for _ in 0..self.waiting.len() {
            if let Some(id) = self.waiting.pop_front() {
                self.take_turn_again(id);
            }
        }
        self.unpark(now);
        self.hear_verdicts();
        self.hear_fetched();
        self.feed_starved();
        self.close_stalled(now);
        self.close_slow_readers(now);
        self.serve_lasting();
        self.submit_fetches();
        self.call_helpers();
        if idle_check {
            self.close_idle(now);
        }
        Ok(())
    }

    fn call_helpers(&self) {
        let store = self.store.store();
        if store.wants_cleaning() {
            self.around.helpers.wake_cleaners(store.passes_wanted());
        }
        let hits = store.pending_shadow_hits();
        let has_new_tenant = self.around.router.has_new_tenant.load(Ordering::Relaxed);
        if SHADOW_HITS_PER_DECISION <= hits || has_new_tenant {
            self.around.helpers.wake_control();
        }
    }

    /// Takes sampled accesses out of a ring that fills up, unless somebody does so now: a control thread that waits for a core
    /// would come too late, and fewer keys would be sampled.
    fn hand_samples_over(&self) {
        if self.store.samples_wait()
            && let Ok(mut curves) = self.around.shared.curves.try_lock()
        {
            curves.take_samples();
        }
    }

    fn complete(&mut self, completion: Completion, buffer: &[u8], now: Instant) {
        match completion {
            Completion::Arrived(id, len) => {
                self.bytes_read += len as u64;
                self.arrived(id, &buffer[..len], now);
            }
            Completion::Sent(id) => {
                let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
                connection.is_sending = false;
                connection.active = now;
                let unsent = std::mem::take(&mut connection.unsent);
                self.settle(unsent);
                let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
                if connection.is_closing {
                    self.close(id);
                } else {
                    self.take_turn_again(id);
                }
            }
            Completion::Closed(id) => self.drop_connection(id),
        }
    }

    fn arrived(&mut self, id: StreamId, data: &[u8], now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.active = now;
        connection.client.heard(now);
        let data = connection.after_skipped(data);
        let is_deaf = match &connection.lasting {
            Some(Lasting::Watch(_)) => true,
            Some(Lasting::Values(values)) => values.ends,
            _ => false,
        };
        if data.is_empty() || connection.is_closing || is_deaf {
            return;
        }
        let Some(data) = self.receive(id, data) else { return };
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        if data.is_empty() {
            self.regulate(id);
            return;
        }
        if connection.lasting.is_some() {
            self.add(id, data);
            self.regulate(id);
            return;
        }
        if connection.input.is_empty() && !connection.is_sending && connection.parked_until.is_none() {
            if let After::Consumed(done) = self.take_turns(id, data, None) {
                self.keep(id, &data[done..]);
            }
        } else if self.add(id, data)
            && let Some(Some(connection)) = self.connections.get(id.0)
            && connection.needed <= connection.input.len()
            && !connection.is_sending
            && !connection.is_waiting
            && connection.parked_until.is_none()
        {
            self.take_turn_again(id);
        }
        self.regulate(id);
    }

    /// Goes on with a connection's kept input.
    fn take_turn_again(&mut self, id: StreamId) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.is_waiting = false;
        let waits =
            connection.is_sending || connection.parked_until.is_some() || connection.lasting.is_some();
        if !connection.input.is_empty() && !waits {
            let input = std::mem::take(&mut connection.input);
            self.take_turns_over(id, input);
        }
        self.regulate(id);
    }

    fn take_turns_over(&mut self, id: StreamId, mut input: Vec<u8>) {
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
    fn take_turns(&mut self, id: StreamId, input: &[u8], block: Option<Block<'_>>) -> After {
        let mut done = 0;
        let mut is_out_of_memory = false;
        loop {
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
                    After::Consumed(end) if end < input.len() && !self.is_sending(id) => done = end,
                    after => return after,
                }
                is_out_of_memory = false;
                continue;
            }
            if let Some(asked) = turn.asked {
                self.begin_lasting(id, asked);
                return After::Consumed(done);
            }
            let Some(Some(connection)) = self.connections.get(id.0) else { return After::Gone };
            if connection.is_sending || connection.sends_values() {
                return After::Consumed(done);
            }
            if let Some((user, password)) = turn.verifies {
                self.verify(id, user.of_input(turns_input), password.of_input(turns_input));
                return After::Consumed(done);
            }
            if let Some(until) = turn.waits_until {
                self.park(id, until);
                return After::Consumed(done);
            }
            if !turn.plans.is_empty() {
                if self.fetch(id, &turn.plans) {
                    return After::Consumed(done);
                }
                is_out_of_memory = false;
            } else if turn.needs_room {
                let shared = &self.around.shared;
                let room = shared.cleaning.timed(&*shared.clock, &shared.store, || self.store.make_room());
                is_out_of_memory = room.is_err();
            } else if turn.more {
                is_out_of_memory = false;
                if self.reactor.has_ready() || !self.waiting.is_empty() {
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
    fn note_turn(&mut self, id: StreamId, turn: &Turn, sending: Sending, was_block: bool) -> Option<After> {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return Some(After::Gone) };
        connection.skip = turn.skip;
        connection.needed = turn.needed;
        if 0 < turn.requests || connection.keys_done < turn.keys_done {
            connection.fetches_made = 0;
        }
        connection.keys_done = turn.keys_done;
        if let Some(identity) = turn.identity {
            connection.identity = identity;
            connection.client.belongs_to(identity.binding());
        }
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
        (turn.close || failed).then(|| self.end(id))
    }

    fn is_sending(&self, id: StreamId) -> bool {
        self.connections.get(id.0).and_then(Option::as_ref).is_some_and(|connection| connection.is_sending)
    }

    /// Notes what a turn executed, and how long that took since it had arrived.
    fn observe(&mut self, id: StreamId, turn: &Turn, input: &[u8], sent: usize) {
        let (Some(Some(connection)), Some(first)) = (self.connections.get(id.0), self.tally.runs.first())
        else {
            return;
        };
        let shared = &self.around.shared;
        let now = shared.clock.now();
        let took = now.since(connection.active);
        if shared.adjustable.slow_request() <= took {
            shared.observed.slow.add(Slow {
                number: 0,
                unix_secs: shared.unix_secs(),
                tenant: first.tenant,
                class: first.class,
                key: turn.first_key.map_or(&[][..], |key| key.start_in(input, SLOW_KEY_MAX)).into(),
                requests: u32::try_from(turn.requests).unwrap_or(u32::MAX),
                micros: took.0 / 1000,
                received_bytes: turn.consumed as u64,
                sent_bytes: sent as u64,
                connection: connection.client.number,
                peer: connection.client.peer(),
            });
        }
        shared.observed.note(self.around.number, &mut self.tally, took, now);
    }

    fn wait_for_turn(&mut self, id: StreamId) {
        if let Some(Some(connection)) = self.connections.get_mut(id.0)
            && !connection.is_waiting
        {
            connection.is_waiting = true;
            self.waiting.push_back(id);
        }
    }

    /// One batch of requests and its replies.
    fn turn(
        &mut self,
        id: StreamId,
        (protocol, identity, connection): (Protocol, Identity, usize),
        (input, block): (&[u8], Option<Block<'_>>),
        is_out_of_memory: bool,
    ) -> (Turn, Sending) {
        let keys_done =
            self.connections.get(id.0).and_then(Option::as_ref).map_or(0, |connection| connection.keys_done);
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
            watched: self.around.shared.watch.wanted(),
            is_out_of_memory,
            gates: self.around.shared.admission.asked(),
            now: self.now,
            address,
            verdict: Cell::new(verdict),
            may_fetch: self.may_fetch(id),
            fetch_bytes: self.fetch_bytes(),
            keys_done,
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
        if turn.more
            && !turn.close
            && turn.asked.is_none()
            && turn.waits_until.is_none()
            && len <= OWED_MAX
            && replies.is_flat()
            && let Some(Some(connection)) = self.connections.get_mut(id.0)
        {
            // The next turn's replies follow: one call sends both.
            connection.owed = replies.into_buffer();
            self.observe(id, &turn, input, 0);
            return (turn, Sending::Done);
        }
        let sending = match len {
            0 => Sending::Done,
            _ if replies.is_flat() => self.reactor.send(id, &[IoSlice::new(replies.flat())]),
            _ => self.reactor.send(id, &replies.slices()),
        };
        let outgoing = replies.outgoing(&self.store);
        self.bytes_written += len as u64;
        self.out = replies.into_buffer();
        self.out.clear();
        self.observe(id, &turn, input, len);
        if let Some(outgoing) = outgoing {
            self.begin_values(id, outgoing);
        }
        (turn, sending)
    }
}
