//! A worker thread: its connections, its way into the store, one turn after another.
//!
//! Shape:      wait -> arrivals -> turns -> replies; connections with more to do take turns
//! Invariants: the thread is offline for the store while it sleeps, and announces after every turn
//! Cost:       one receive and one gathering write per turn

mod admit;
mod behind;
mod coming;
mod ending;
mod fetching;
mod lasting;
mod pressure;
mod turns;
mod upload;
mod verify;

use behind::Inputs;
use turns::After;
pub(crate) use upload::Receiving;

use crate::connection::{Connection, Lasting, Parting};
use crate::limits::{EVENTS_PER_WAIT, OPENING_POLL, SHADOW_HITS_PER_DECISION, STARVED_POLL_MS};
use crate::listener::Door;
use crate::loops::Helpers;
use crate::memcache::Bounds;
use crate::observe::Tally;
use crate::reactor::{Completion, Reactor, StreamId};
use crate::shared::Shared;
use crate::tenants::Router;
use crate::transport::{BUFFER, Event, Transport};
use crossbeam_channel::{Receiver, Sender, unbounded};
use fetching::Fetching;
use socket2::Socket;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, TryLockError};
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
    /// Those that wait to be opened, in the order in which they came.
    unopened: VecDeque<NewConnection>,
    waiting: VecDeque<StreamId>,
    /// Those that wait for memory, in the order in which they came.
    starved: VecDeque<StreamId>,
    /// In the last round all of them held so much that the first could not go on.
    was_short: bool,
    /// Bytes of buffers accounted for its connections.
    held: usize,
    /// Values of its connections may be on their way in.
    has_uploads: bool,
    /// When it last looked for stalled connections.
    stalls_seen: Instant,
    /// When it last looked for slow readers.
    readers_seen: Instant,
    /// When it last published what it has counted.
    published: Instant,
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
    /// The server ends: what arrives until then is answered, whatever its rate.
    is_draining: bool,
    /// How often anybody had been let go at a tier when it last looked.
    let_go_seen: u64,
    /// What became of passwords that are verified elsewhere: as many as connections wait for at most.
    verdicts: (Sender<Verdict>, Receiver<Verdict>),
    bounds: Bounds,
    tally: Tally,
    /// When the last wait ended.
    now: Instant,
    /// What that wait told of came after this.
    came_after: Instant,
    /// When it had executed the last request.
    busy_until: Instant,
}

/// A wait that is over so soon after the last request has not waited (guess: some times what asking the system takes).
const AT_ONCE: Duration = Duration::from_micros(10);

/// When what a wait told of had arrived. If the wait was over at once, that was at some time since the one before: in the middle. Else whoever
/// sent it has woken the worker.
fn arrival(before: Instant, busy_until: Instant, now: Instant) -> Instant {
    if now.since(busy_until) < AT_ONCE && before < busy_until {
        before + Duration(now.since(before).0 / 2)
    } else {
        now
    }
}

impl<R: Reactor> Worker<R> {
    pub(crate) fn new(around: Surroundings, reactor: R, store: store::Worker) -> Self {
        let geometry = store.store().geometry();
        let body_max = geometry.item_max.as_usize() - store::ITEM_OVERHEAD_MAX;
        let upload_from = geometry.in_segment_max.as_usize() - store::ITEM_OVERHEAD_MAX;
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
            unopened: VecDeque::new(),
            waiting: VecDeque::new(),
            starved: VecDeque::new(),
            was_short: false,
            held: 0,
            has_uploads: false,
            stalls_seen: Instant::ZERO,
            readers_seen: Instant::ZERO,
            published: Instant::ZERO,
            buffer: vec![0; BUFFER],
            out: Vec::new(),
            bytes_read: 0,
            bytes_written: 0,
            requests: 0,
            yields: 0,
            lasting: Vec::new(),
            parked: Vec::new(),
            is_draining: false,
            let_go_seen: 0,
            verdicts: unbounded(),
            bounds,
            tally,
            now: Instant::ZERO,
            came_after: Instant::ZERO,
            busy_until: Instant::ZERO,
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
            () if self.has_lasting_work() || self.fetching.has_ready() => Some(Duration::ZERO),
            () if !self.starved.is_empty() || self.fetching.has_unsent() => {
                Some(Duration::from_millis(STARVED_POLL_MS))
            }
            () if !self.unopened.is_empty() => Some(OPENING_POLL),
            () if idle_check || 0 < self.held || self.has_uploads => {
                Some(most.unwrap_or(Duration::from_secs(1)))
            }
            () => most,
        };
        let timeout = self.until_unparked(timeout)?;
        let sleeps = timeout != Some(Duration::ZERO);
        // Who has more to do all the time does so now and then.
        if sleeps || Duration::from_secs(1) <= self.now.since(self.published) {
            self.publish_counters();
        }
        if sleeps {
            self.store.go_offline();
        }
        let waited = self.reactor.wait(timeout);
        if sleeps {
            self.store.go_online();
        }
        waited?;
        let now = self.around.shared.clock.now();
        let arrived = arrival(self.now, self.busy_until, now);
        self.came_after = if arrived < now { self.now } else { now };
        self.now = now;
        self.admit(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        self.reactor.expire(now);
        // What one wait tells of: who sends without end has more the next time, and so have others.
        for _ in 0..EVENTS_PER_WAIT {
            let mut places = Inputs(&mut self.connections);
            let Some(event) = self.reactor.next(&mut buffer, &mut places) else { break };
            match event {
                Event::Completed(completion) => self.complete(completion, &buffer, arrived),
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

    /// Wakes the threads that have something to do.
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
        if !self.store.samples_wait() {
            return;
        }
        let mut curves = match self.around.shared.curves.try_lock() {
            Ok(curves) => curves,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        curves.take_samples();
    }

    fn complete(&mut self, completion: Completion, buffer: &[u8], at: Instant) {
        match completion {
            Completion::Arrived(id, len) => {
                self.bytes_read += len as u64;
                self.arrived(id, &buffer[..len], at);
            }
            Completion::Added(id, len) => {
                self.bytes_read += len as u64;
                self.added(id, len, at);
            }
            Completion::Owes(id, bytes) => self.note_owed(id, bytes, false),
            Completion::Sent(id) => {
                let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
                connection.is_sending = false;
                connection.active = at;
                let unsent = std::mem::take(&mut connection.unsent);
                self.settle(unsent);
                let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
                if connection.is_closing {
                    self.close(id);
                } else {
                    self.take_turn_again(id);
                }
            }
            Completion::Closed(id) => {
                self.parts(id, Parting::Normal);
                self.drop_connection(id);
            }
            Completion::Failed(id) => self.drop_connection(id),
        }
    }

    fn arrived(&mut self, id: StreamId, data: &[u8], now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return };
        connection.active = now;
        connection.client.heard(data.len(), now);
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
            self.note_large(id);
        } else if self.add(id, data) {
            self.go_on_with_input(id);
        }
        self.regulate(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_while_others_were_served_has_waited_for_half_of_that_in_the_mean() {
        for (before, busy_until, now, arrived) in [
            (1_000, 401_000, 405_000, 203_000),
            (1_000, 401_000, 900_000, 900_000),
            (1_000, 1_000, 4_000, 4_000),
            (0, 0, 4_000, 4_000),
        ] {
            let at = Instant;
            assert_eq!(
                arrival(at(before), at(busy_until), at(now)),
                at(arrived),
                "{before} {busy_until} {now}"
            );
        }
    }
}
