//! The cleaner: takes the space of dead items back, and of those that their tenants need least.
//!
//! Shape:      a pass takes n sealed segments; ranks a sample of their live items and gives each tenant its part (`census`);
//!             then walks them, source by source: what ranks within its tenant's part is copied (`destinations`), what does
//!             not is evicted, and each emptied source returns at once
//! Invariants: a pass opens at most n − 1 segments, so it frees at least one; a reader never waits for it
//! Cost:       one walk, and one index look-up per item; a second walk with a look-up per sample
//! Source:     Memshare §3.2, §5.3 and Algorithm 1. We differ: what goes is chosen before anything is copied, so the
//!             reserve is three segments instead of n; sources are compared by what cleaning them would free;
//!             half-full destinations stay open for the next pass instead of being dropped

use crate::account::{unlink, whole_charge};
use crate::census::{BATCH, Census, Fate, Pending, Step};
use crate::destinations::Destinations;
use crate::epoch::Participant;
use crate::index::Found;
use crate::item::Meta;
use crate::limits::{CENSUS_SAMPLES, PASS_FREES_PART};
use crate::metrics::{ThreadCounters, count};
use crate::segment::State;
use crate::shadow::Shadow;
use crate::sources::{Chooser, claim_dead};
use crate::store::Store;
use crate::sync::{Ordering, lock, pause};
use crate::tier::put_below;
use units::{Rng, SegmentId};

/// A segment that is dead to this part is reclaimed without need.
const DEAD_PERCENT: u64 = 50;

/// Segments that the survivors of one source may need beside those that are open.
const DESTINATIONS_PER_SOURCE: u32 = 1;
/// Turns that a pass waits for other threads' epochs, as in `room`.
const WAIT_TURNS_MAX: u32 = if cfg!(shuttle) { 50 } else { 200_000 };

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// So many segments more than it opened.
    Freed(usize),
    /// There was nothing to take.
    Nothing,
}

/// What becomes of an item that stays but finds no room in a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lack {
    /// It is evicted, so that its segment is free.
    Goes,
    /// It stays where it is, and its segment too.
    Waits,
}

/// Buffers of a cleaning thread, reused from pass to pass.
#[derive(Debug)]
pub(crate) struct Cleaner {
    pub(crate) chooser: Chooser,
    pub(crate) sources: Vec<SegmentId>,
    pub(crate) census: Census,
}

impl Cleaner {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { chooser: Chooser::new(rng), sources: Vec::new(), census: Census::default() }
    }

    /// One pass over up to `width` segments.
    pub(crate) fn pass(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        width: usize,
    ) -> Outcome {
        self.chooser.choose(store, width, |score, _| score, &mut self.sources);
        if self.sources.len() < 2 {
            return self.give_up(store);
        }
        // Who may not evict has to know that all of it fits.
        let step = if store.no_evict { Step::ALL } else { self.step(store) };
        self.census.take(store, reader, &self.sources, step, None);
        let floors = self.census.gather(store);
        let mut to = Destinations::take(store);
        let mut opened_max = outputs_max(store, self.sources.len());
        let mut budget = self.budget(store, &mut to, opened_max);
        // Where the sources hold more of floors than they would keep, the pass frees less, but something.
        while budget < floors && opened_max + 1 < self.sources.len() {
            opened_max += 1;
            budget = self.budget(store, &mut to, opened_max);
        }
        let outcome = if store.no_evict && budget < self.census.inside() {
            self.give_up(store)
        } else {
            self.census.divide(store, budget);
            to.spare_floors(self.sources.len() - 1);
            let lack = if store.no_evict { Lack::Waits } else { Lack::Goes };
            self.clean_sources(store, reader, counters, &mut to, lack)
        };
        to.park(store);
        self.census.give_back();
        outcome
    }

    /// Takes segments back that are mostly dead, without need. Returns whether there may be more.
    pub(crate) fn reclaim_dead(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
    ) -> bool {
        claim_dead(store, DEAD_PERCENT, &mut self.sources);
        if self.sources.len() < 2 {
            self.give_up(store);
            return false;
        }
        let step = self.step(store);
        self.census.take(store, reader, &self.sources, step, None);
        let mut to = Destinations::take(store);
        // However much passes that evict free: all that is alive has to find a place.
        let opened_max = self.sources.len() - (self.sources.len() / PASS_FREES_PART).max(1);
        let outcome = if self.budget(store, &mut to, opened_max) < self.census.inside() {
            // Less was dead than the table says: nothing alive goes without need.
            self.give_up(store)
        } else {
            self.clean_sources(store, reader, counters, &mut to, Lack::Waits)
        };
        to.park(store);
        self.census.give_back();
        outcome != Outcome::Nothing
    }

    /// How closely the sources are looked at before anything moves: the more of them a pass frees, the less each byte of
    /// room that it makes may cost.
    fn step(&self, store: &Store) -> Step {
        let used = self.sources.iter().map(|id| store.log.segment(*id).used() as usize).sum();
        let (takes, frees) = (self.sources.len(), store.pass_frees(self.sources.len()));
        Step::of(used, CENSUS_SAMPLES * takes / (PASS_FREES_PART * frees))
    }

    fn give_up(&mut self, store: &Store) -> Outcome {
        for id in self.sources.drain(..) {
            store.log.segment(id).set_state(State::Sealed);
        }
        Outcome::Nothing
    }

    /// Bytes charged that fit into the destinations if so many may be opened.
    fn budget(&self, store: &Store, to: &mut Destinations, opened_max: usize) -> u64 {
        to.allow(opened_max);
        self.census.budget(to.room(store), self.sources.len())
    }

    /// Copies what stays, evicts what goes, and returns the emptied sources.
    fn clean_sources(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        to: &mut Destinations,
        lack: Lack,
    ) -> Outcome {
        let sources = std::mem::take(&mut self.sources);
        let mut pass = Pass { store, counters, census: &mut self.census, to, lack, seen: 0 };
        let mut emptied = 0_usize;
        let mut goes_on = true;
        for id in &sources {
            // Nothing is evicted for lack of a place to put it: the rest waits for another pass.
            goes_on = goes_on && wait_for_destination(store, reader);
            if goes_on && pass.empty(reader, *id) {
                store.log.retire(&store.epochs, *id);
                emptied += 1;
            } else {
                store.log.segment(*id).set_state(State::Sealed);
            }
            if goes_on {
                // What was emptied may be the next destination.
                reader.quiesce();
                store.log.reclaim_now(&store.epochs);
            }
        }
        let freed = emptied.saturating_sub(pass.to.opened());
        store.cleaning.note_pass(pass.seen, freed);
        self.sources = sources;
        self.sources.clear();
        if freed == 0 { Outcome::Nothing } else { Outcome::Freed(freed) }
    }
}

/// The second half of a pass: everything is known of it, and items move.
struct Pass<'a> {
    store: &'a Store,
    counters: &'a ThreadCounters,
    census: &'a mut Census,
    to: &'a mut Destinations,
    lack: Lack,
    /// Items walked.
    seen: usize,
}

impl Pass<'_> {
    /// Deals with every item of a source. Returns whether all its bytes are free now.
    fn empty(&mut self, reader: &Participant, id: SegmentId) -> bool {
        let mut whole = true;
        let mut batch = Vec::with_capacity(BATCH);
        self.store.log.walk(reader, id, |place, view| {
            self.seen += 1;
            batch.push(Pending::new(self.store, place, view));
            if batch.len() == BATCH {
                whole &= self.handle_all(&mut batch);
            }
        });
        whole & self.handle_all(&mut batch)
    }

    /// Deals with a batch of items whose index lines are loading.
    fn handle_all(&mut self, batch: &mut Vec<Pending<'_>>) -> bool {
        batch.drain(..).fold(true, |whole, item| whole & self.handle(&item))
    }

    /// Deals with one item. Returns whether its bytes are free now.
    fn handle(&mut self, item: &Pending<'_>) -> bool {
        let store = self.store;
        let Some(found) = item.find(store) else { return true };
        let stays = !item.is_dead(store) && self.census.fate(store, item, found) == Fate::Stays;
        let below = if stays || item.is_dead(store) { None } else { put_below(store, self.counters, item) };
        let is_floor = stays && self.census.is_within_floor(store, item.view.tenant());
        let stamp = store.stamp_of(item.place, &item.view);
        let has_room = match &below {
            Some((_, len)) => self.to.open_for_len(store, *len, stamp, false),
            None => stays && self.to.open_for(store, item, is_floor),
        };
        let locked = store.index.lock(item.hash);
        let Some(found) = locked.find_again(found, item.hash) else {
            abandon(store, item, below);
            return true;
        };
        // Asked under the lock: a flush cannot come between this and the accounting.
        let dead = item.is_dead(store);
        if has_room && !dead {
            let Some((meta, _)) = below else {
                return self.to.copy(store, self.counters, &locked, found, item);
            };
            if self.to.put(store, self.counters, &locked, found, item, meta) {
                count(&self.counters.of(meta.tenant.index()).demotions);
                return true;
            }
        }
        abandon(store, item, below);
        let waits = self.lack == Lack::Waits || is_floor && others_may_free(store);
        if stays && !dead && waits {
            return false;
        }
        locked.remove(found);
        unlink(store, self.counters, item.place, &item.view);
        drop(locked);
        let is_over = self.census.is_over(item.view.tenant());
        let removal = if dead { Removal::Dead } else { Removal::Live { is_over } };
        note_removal(store, self.counters, found, item, removal);
        true
    }
}

/// Gives up what was put below for an item, to which nothing leads.
fn abandon(store: &Store, item: &Pending<'_>, below: Option<(Meta, usize)>) {
    if let Some(away) = below.and_then(|(meta, _)| meta.away) {
        store.tier(away).abandon(away, item.view.key().len());
    }
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    /// An item that had expired or was flushed.
    Dead,
    /// An item that a look-up would have found.
    Live {
        /// Its tenant held more than its part when the pass began.
        is_over: bool,
    },
}

/// Counts an item that was removed: reclaimed if it was dead, else evicted.
pub(crate) fn note_removal(
    store: &Store,
    counters: &ThreadCounters,
    found: Found,
    item: &Pending<'_>,
    removal: Removal,
) {
    let tenant = store.tenant(item.view.tenant());
    let len = item.view.bytes().len();
    let of_tenant = counters.of(tenant.id.index());
    let class = counters.class(len, item.view.own_space());
    let Removal::Live { is_over } = removal else {
        count(&of_tenant.reclaimed);
        count(&class.reclaimed);
        return;
    };
    count(&of_tenant.evictions);
    store.witness.tell(store, found.slot, &item.view);
    if let Some(learnt) = tenant.learnt() {
        learnt.note_end(found.slot.uses(), store.tick().wrapping_sub(found.slot.tick()));
    }
    if is_over {
        count(&of_tenant.evicted_over_share);
    }
    count(&class.evicted);
    if found.slot.uses() == 0 {
        count(&of_tenant.evicted_unfetched);
        count(&class.evicted_unfetched);
    }
    if !Shadow::may_know(item.hash, tenant.sampling()) {
        return;
    }
    let mut shadow = lock(&tenant.shadow);
    shadow.push(item.hash, u32::try_from(whole_charge(&item.view)).unwrap_or(u32::MAX));
    tenant.shadow_sampling.store(u32::from(shadow.sampling()), Ordering::Relaxed);
}

/// Segments that a pass over so many may open.
fn outputs_max(store: &Store, sources: usize) -> usize {
    // Who may not evict takes every segment that compaction frees.
    let freed = if store.no_evict { 1 } else { store.pass_frees(sources) };
    sources - freed
}

/// Whether segments may become free without this pass: others let go of what was emptied, or other passes end.
fn others_may_free(store: &Store) -> bool {
    store.log.has_retired() || 1 < store.passes.running()
}

/// Waits until a source's survivors have a place to go: for other threads to let go of what was emptied before, or for
/// other passes. Gives up if they do not; who is alone and has nothing to wait for goes on, since nobody else can free
/// a segment.
fn wait_for_destination(store: &Store, reader: &mut Participant) -> bool {
    let mut turn = 0;
    while store.log.available() < DESTINATIONS_PER_SOURCE {
        reader.quiesce();
        if DESTINATIONS_PER_SOURCE <= store.log.reclaim_now(&store.epochs) {
            return true;
        }
        if !others_may_free(store) {
            return true;
        }
        if WAIT_TURNS_MAX < turn {
            return false;
        }
        pause(&mut turn);
    }
    true
}
