//! Values in a tier that the processor cannot load: they are fetched while other connections are served.
//!
//! Shape:      a turn ends at a request whose value is away, with plans for it and for what follows -> reads in the queues of
//!             the tiers -> the turn again, with the values
//! Invariants: requests of one connection stay in order; what was fetched is kept until all of its connection has come, since
//!             the store keeps it for one turn; buffers take at most `bytes_at_once` per worker, or one value; turns are taken by
//!             `hear_fetched` alone, never by who begins a fetch within a turn; while anybody waits for others' buffers there are some
//! Failure:    a value that cannot be had is missed; after `FETCHES_MAX` attempts a request is answered with what is there

use super::Worker;
use super::verify::UNTIL_TOLD;
use crate::limits::{FETCH_BYTES_MAX, FETCH_DEPTH, FETCH_PART, FETCHES_MAX};
use crate::reactor::{Reactor, StreamId};
use media::{Buffer, ReadQueue, Ticket};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use store::{FetchPlan, Store};
use units::Bytes;

/// Bytes that one of so many workers fetches at once, and for one connection: a part of the memory; but always one value, however
/// large.
pub(super) fn bytes_at_once(memory: Bytes, workers: usize) -> usize {
    let part = memory.0 / FETCH_PART / workers.max(1) as u64;
    usize::try_from(part).map_or(FETCH_BYTES_MAX, |part| part.min(FETCH_BYTES_MAX))
}

/// Fetches of one worker.
#[derive(Debug, Default)]
pub(super) struct Fetching {
    /// By the tiers' places; none where values are read in place.
    lanes: Vec<Option<Lane>>,
    jobs: HashMap<u64, Job>,
    next: u64,
    /// Connections whose buffers would be too much beside the others'.
    waiting: VecDeque<(StreamId, usize, Vec<FetchPlan>)>,
    /// Those of which all has come, until their connections have gone on.
    ended: VecDeque<Job>,
    /// Bytes of buffers of the jobs, ended ones too.
    bytes: usize,
}

/// Reads of one tier.
#[derive(Debug)]
struct Lane {
    queue: ReadQueue,
    under_way: HashMap<Ticket, (u64, FetchPlan)>,
    /// Those for which the queue has no place, by their jobs.
    backlog: VecDeque<(u64, FetchPlan)>,
    /// Something was queued since it was last submitted.
    is_fresh: bool,
}

/// What one connection waits for.
#[derive(Debug)]
struct Job {
    id: StreamId,
    /// The connection's number: streams are used again.
    number: usize,
    awaited: usize,
    bytes: usize,
    come: Vec<(FetchPlan, Come)>,
}

/// A read that is done, and its job.
type Done = (u64, FetchPlan, Come);

/// What came of a read.
#[derive(Debug)]
enum Come {
    Bytes(Buffer),
    /// The device has none.
    Broken,
    /// There is no memory for them.
    NoBuffer,
}

impl Fetching {
    /// Queues of a store's tiers, which write to `bell` when something is done.
    pub(super) fn new(store: &Store, bell: &Arc<OwnedFd>) -> Self {
        let lane = |device: &dyn media::Device| {
            let queue = device.read_queue(FETCH_DEPTH, Some(Arc::clone(bell))).unwrap_or_else(|e| {
                tracing::warn!("a tier's values are read one after the other: {e}");
                None
            })?;
            let (under_way, backlog) = (HashMap::new(), VecDeque::new());
            Some(Lane { queue, under_way, backlog, is_fresh: false })
        };
        Self { lanes: store.devices().map(lane).collect(), ..Self::default() }
    }

    fn lane(&mut self, tier: u8) -> Option<&mut Lane> {
        self.lanes.get_mut(usize::from(tier))?.as_mut()
    }

    /// Whether reads are written down that the system has not taken.
    pub(super) fn has_unsent(&self) -> bool {
        self.lanes.iter().flatten().any(|lane| lane.is_fresh)
    }

    /// Whether somebody can go on, or begin, at once.
    pub(super) fn has_ready(&self) -> bool {
        !self.ended.is_empty() || self.bytes == 0 && !self.waiting.is_empty()
    }

    /// Takes over what is done of the reads of any tier.
    fn take_done(&mut self) {
        while let Some(done) = self.lanes.iter_mut().flatten().find_map(Lane::next_done) {
            self.note_done(done);
        }
    }

    /// Something has come for a job, perhaps the last of it.
    fn note_done(&mut self, (number, plan, come): Done) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        job.come.push((plan, come));
        if job.awaited <= job.come.len() {
            self.ended.extend(self.jobs.remove(&number));
        }
    }
}

impl Lane {
    /// Begins reads as far as the queue has places; those without a buffer are done at once.
    fn begin(&mut self, store: &mut store::Worker, failed: &mut Vec<Done>) {
        while self.queue.under_way() < FETCH_DEPTH
            && let Some((job, plan)) = self.backlog.pop_front()
        {
            let Some(buffer) = buffer_for(store, &plan) else {
                failed.push((job, plan, Come::NoBuffer));
                continue;
            };
            match self.queue.fetch(plan.at, buffer) {
                Ok(ticket) => {
                    self.under_way.insert(ticket, (job, plan));
                    self.is_fresh = true;
                }
                Err(_buffer) => {
                    self.backlog.push_front((job, plan));
                    break;
                }
            }
        }
    }

    /// Hands what was written down to the system.
    fn submit(&mut self) {
        if !self.is_fresh {
            return;
        }
        match self.queue.submit() {
            Ok(()) => self.is_fresh = false,
            // A round comes soon that tries again.
            Err(e) => tracing::debug!("a tier's reads cannot be handed over: {e}"),
        }
    }

    fn next_done(&mut self) -> Option<Done> {
        let done = self.queue.completed()?;
        let (job, plan) = self.under_way.remove(&done.ticket)?;
        Some((job, plan, if done.result.is_ok() { Come::Bytes(done.buffer) } else { Come::Broken }))
    }
}

/// A buffer for a read; none if there is no memory.
fn buffer_for(store: &mut store::Worker, plan: &FetchPlan) -> Option<Buffer> {
    #[cfg(test)]
    if tests::ARE_REFUSED.get() {
        return None;
    }
    store.buffer_for(plan)
}

impl<R: Reactor> Worker<R> {
    /// Fetches what plans name; the connection waits for all of it. Returns whether it waits: not if everything was to be had
    /// at once, or there is no buffer for any of it.
    pub(super) fn fetch(&mut self, id: StreamId, plans: &[FetchPlan]) -> bool {
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return true };
        connection.fetches_made = connection.fetches_made.saturating_add(1);
        let number = connection.client.number;
        let (queued, at_once): (Vec<_>, Vec<_>) =
            plans.iter().partition(|plan| self.fetching.lane(plan.tier).is_some());
        for plan in at_once {
            // Without memory to read it into the item stays: it is missed this time.
            let _fetched = self.store.fetch_now(&plan);
        }
        if queued.is_empty() {
            return false;
        }
        self.fetching.waiting.push_back((id, number, queued));
        self.begin_fetches();
        // Where there is no buffer that is known already.
        let is_own = |job: &Job| (job.id, job.number) == (id, number);
        if let Some(at) = self.fetching.ended.iter().position(is_own)
            && let Some(job) = self.fetching.ended.remove(at)
        {
            self.bring(job);
            return false;
        }
        let Some(Some(connection)) = self.connections.get_mut(id.0) else { return true };
        connection.is_fetching = true;
        connection.parked_until = Some(UNTIL_TOLD);
        true
    }

    /// Begins fetches of connections, in the order in which they came, as far as there is room. Those without a buffer have ended.
    fn begin_fetches(&mut self) {
        let mut failed = Vec::new();
        let most = self.fetch_bytes();
        while let Some((_, _, plans)) = self.fetching.waiting.front() {
            let bytes: usize = plans.iter().map(|plan| plan.len).sum();
            if 0 < self.fetching.bytes && most < self.fetching.bytes + bytes {
                break;
            }
            let Some((id, number, plans)) = self.fetching.waiting.pop_front() else { break };
            let job = self.fetching.next;
            self.fetching.next += 1;
            let (awaited, come) = (plans.len(), Vec::with_capacity(plans.len()));
            self.fetching.jobs.insert(job, Job { id, number, awaited, bytes, come });
            self.account_fetches(self.fetching.bytes + bytes);
            for plan in plans {
                if let Some(lane) = self.fetching.lane(plan.tier) {
                    lane.backlog.push_back((job, plan));
                }
            }
        }
        for lane in self.fetching.lanes.iter_mut().flatten() {
            lane.begin(&mut self.store, &mut failed);
        }
        failed.into_iter().for_each(|done| self.fetching.note_done(done));
    }

    /// Hands the reads of this round to the system: one call for all of a tier's.
    pub(super) fn submit_fetches(&mut self) {
        self.fetching.lanes.iter_mut().flatten().for_each(Lane::submit);
    }

    /// Goes on with connections whose values have come, and begins what waited for their buffers.
    pub(super) fn hear_fetched(&mut self) {
        if self.fetching.bytes == 0 && self.fetching.waiting.is_empty() {
            return;
        }
        self.fetching.take_done();
        loop {
            self.begin_fetches();
            let Some(job) = self.fetching.ended.pop_front() else { return };
            let (id, number) = (job.id, job.number);
            self.bring(job);
            if let Some(Some(connection)) = self.connections.get_mut(id.0)
                && connection.client.number == number
            {
                connection.is_fetching = false;
                connection.parked_until = None;
                self.take_turn_again(id);
            }
        }
    }

    /// Hands the store what has come, and gives the room of its buffers to others.
    fn bring(&mut self, job: Job) {
        self.account_fetches(self.fetching.bytes - job.bytes);
        for (plan, come) in job.come {
            match come {
                Come::Bytes(buffer) => drop(self.store.bring(&plan, buffer)),
                Come::Broken => self.store.cannot_fetch(&plan),
                // The item stays: it is missed this time.
                Come::NoBuffer => {}
            }
        }
    }

    /// Bytes that this worker fetches at once.
    pub(super) fn fetch_bytes(&self) -> usize {
        let shared = &self.around.shared;
        bytes_at_once(shared.memory_limit(), shared.config.threads)
    }

    /// Whether a connection's next request may wait for values once more.
    pub(super) fn may_fetch(&self, id: StreamId) -> bool {
        let connection = self.connections.get(id.0).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.fetches_made < FETCHES_MAX)
    }

    /// Whether values were fetched for a connection's next request.
    pub(super) fn is_fetched(&self, id: StreamId) -> bool {
        let connection = self.connections.get(id.0).and_then(Option::as_ref);
        connection.is_some_and(|connection| 0 < connection.fetches_made)
    }

    fn account_fetches(&mut self, bytes: usize) {
        // It is bounded by `bytes_at_once`.
        let _is_bounded = self.around.shared.count_buffer(self.fetching.bytes, bytes);
        self.fetching.bytes = bytes;
    }
}

#[cfg(test)]
mod tests;
