//! The cleaner: takes the space of dead items back, and of those that their tenants need least.
//!
//! Shape:      a survey of sealed segments tells from which rank on each tenant's items stay, and which segments hold the most
//!             of what does not (`survey`); a pass takes n of those; then walks them, source by source: what ranks within its
//!             tenant's part is copied (`destinations`), what does not is evicted, and each emptied source returns at once.
//!             Where the sources are known beforehand a sample of them is ranked instead (`census`)
//! Invariants: a pass opens at most n − 1 segments, so it frees at least one, or n where what stays leads to values below; a reader never
//!             waits for it
//! Cost:       one walk, and one index look-up per item; another per sample
//! Source:     Memshare §3.2, §5.3 and Algorithm 1. We differ: what goes is chosen before anything is copied, so the
//!             reserve is three segments instead of n; sources are compared by what cleaning them would free;
//!             half-full destinations stay open for the next pass instead of being dropped

mod compact;

pub(crate) use compact::Full;

use crate::account::unlink;
use crate::census::{BATCH, Census, Fate, Pending, Step, remembered_of};
use crate::curves::SampledKind;
use crate::destinations::Destinations;
use crate::epoch::Participant;
use crate::index::Found;
use crate::item::Meta;
use crate::large::evict_drawn;
use crate::limits::{CENSUS_SAMPLES, PASS_FREES_PART, PASS_GAINS};
use crate::metrics::{Eviction, ThreadCounters, count};
use crate::passes::{By, FixedPass, PassKind};
use crate::patience::Patience;
use crate::rank::all_uses_by_chance;
use crate::segment::State;
use crate::shadow::Shadow;
use crate::sources::{Chooser, claim_dead};
use crate::stamps::Needed;
use crate::store::Store;
use crate::survey::Survey;
use crate::sync::{Ordering, lock};
use crate::tier::{Waits, put_below, relieve};
use units::{Rng, SegmentId, mix64};

/// A segment that is dead to this part is reclaimed without need, where there is time to spare.
const DEAD_PERCENT: u64 = 50;

/// Segments that the survivors of one source may need beside those that are open.
const DESTINATIONS_PER_SOURCE: u32 = 1;

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// So many segments more than it opened.
    Freed(usize),
    /// There was nothing to take.
    Nothing,
    /// The same, but others empty segments: what these hold may be enough once they are through.
    Taken,
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
    survey: Survey,
}

impl Cleaner {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            chooser: Chooser::new(rng),
            sources: Vec::new(),
            census: Census::default(),
            survey: Survey::default(),
        }
    }

    /// One pass, which waits for tiers no longer than `waits` has left.
    pub(crate) fn pass(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        waits: Waits,
    ) -> Outcome {
        let mut to = Destinations::take(store);
        let outcome = match store.pass_kind() {
            kind if store.no_evict => self.compact(store, reader, (counters, waits), &mut to, kind),
            PassKind::Surveyed { marks } => {
                self.surveyed_pass(store, reader, (counters, waits), &mut to, marks)
            }
            PassKind::Fixed(fixed) => self.fixed_pass(store, reader, (counters, waits), &mut to, fixed),
        };
        to.park(store);
        self.census.give_back();
        outcome
    }

    /// Takes what the last survey found best of what is left of it, or surveys anew, and lets go what ranks below the survey's
    /// thresholds.
    fn surveyed_pass(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        (counters, waits): (&ThreadCounters, Waits),
        to: &mut Destinations,
        marks: usize,
    ) -> Outcome {
        // No item shall go because what stays does not fit in one segment less, while a new survey may find what is worse.
        let least = store.log.segment_bytes() as u64;
        if !self.survey.claim(store, &mut self.sources, least) {
            let candidates = self.chooser.candidates(store);
            let drawn = self.draw(store, reader, candidates.len());
            self.survey.take(store, reader, &candidates, &drawn, marks);
            let freed = evict_drawn(&mut self.survey.census, store, counters, &drawn);
            if PASS_GAINS <= freed || !self.survey.claim(store, &mut self.sources, 0) {
                store.cleaning.note_pass(drawn.len(), freed);
                return if freed == 0 { Outcome::Nothing } else { Outcome::Freed(freed) };
            }
        }
        to.allow(self.sources.len() - 1);
        let census = &mut self.survey.census;
        Pass { store, counters, census, to, lack: Lack::Goes, waits, seen: 0 }.run(reader, &mut self.sources)
    }

    /// Takes so many segments and frees so many of them, whatever they hold.
    fn fixed_pass(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        (counters, waits): (&ThreadCounters, Waits),
        to: &mut Destinations,
        fixed: FixedPass,
    ) -> Outcome {
        self.chooser.choose(store, fixed.takes, |score, _| score, &mut self.sources);
        let drawn = self.draw(store, reader, self.sources.len());
        if self.sources.len() < 2 && drawn.is_empty() {
            return self.give_up(store);
        }
        let frees = fixed.frees_of(self.sources.len());
        let step = self.step(store);
        self.census.take(store, reader, &self.sources, step, None);
        self.census.add(store, &drawn);
        let floors = self.census.gather(store);
        let mut opened_max = self.sources.len().saturating_sub(frees);
        let mut budget = self.budget(store, to, opened_max);
        // Where the sources hold more of floors than they would keep, the pass frees less, but something.
        while budget < floors && opened_max + 1 < self.sources.len() {
            opened_max += 1;
            budget = self.budget(store, to, opened_max);
        }
        self.census.divide(store, budget);
        let freed = evict_drawn(&mut self.census, store, counters, &drawn);
        if self.sources.len() < 2 || frees <= freed {
            // What was foreseen for the sources has been freed: they stay as they are.
            self.give_up(store);
            store.cleaning.note_pass(drawn.len(), freed);
            return if freed == 0 { Outcome::Nothing } else { Outcome::Freed(freed) };
        }
        // What is lost at ends of destinations beyond what was foreseen is not to cost items that stay.
        to.allow(self.sources.len() - 1);
        let census = &mut self.census;
        Pass { store, counters, census, to, lack: Lack::Goes, waits, seen: 0 }.run(reader, &mut self.sources)
    }

    /// Takes segments back that are mostly dead, without need; without time to spare those that count as dead altogether: what is
    /// copied before room is needed might have died until then. Returns whether there may be more.
    pub(crate) fn reclaim_dead(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
    ) -> bool {
        let percent = if store.reclaims_early() { DEAD_PERCENT } else { 100 };
        claim_dead(store, percent, &mut self.sources);
        if self.sources.len() < 2 {
            self.give_up(store);
            return false;
        }
        let step = self.step(store);
        self.census.take(store, reader, &self.sources, step, None);
        self.census.gather(store);
        let mut to = Destinations::take(store);
        // However much passes that evict free: all that is alive has to find a place.
        let opened_max = self.sources.len() - (self.sources.len() / PASS_FREES_PART).max(1);
        let outcome = if self.budget(store, &mut to, opened_max) < self.census.inside() {
            // Less was dead than the table says: nothing alive goes without need.
            self.give_up(store)
        } else {
            self.census.divide(store, u64::MAX);
            let (census, lack, waits) = (&mut self.census, Lack::Waits, Waits::of(By::Background));
            Pass { store, counters, census, to: &mut to, lack, waits, seen: 0 }.run(reader, &mut self.sources)
        };
        to.park(store);
        self.census.give_back();
        outcome != Outcome::Nothing
    }

    /// How closely known sources are looked at before anything moves.
    fn step(&self, store: &Store) -> Step {
        let used = self.sources.iter().map(|id| store.log.segment(*id).used() as usize).sum();
        Step::of(used, CENSUS_SAMPLES)
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
}

/// The second half of a pass: everything is known of it, and items move.
struct Pass<'a> {
    store: &'a Store,
    counters: &'a ThreadCounters,
    census: &'a mut Census,
    to: &'a mut Destinations,
    lack: Lack,
    waits: Waits,
    /// Items looked at.
    seen: usize,
}

impl Pass<'_> {
    /// Copies what stays, evicts what goes, and returns the emptied sources.
    fn run(mut self, reader: &mut Participant, sources: &mut Vec<SegmentId>) -> Outcome {
        let store = self.store;
        let mut emptied = 0_usize;
        let mut goes_on = true;
        for id in sources.drain(..) {
            if goes_on {
                relieve(store, reader, &mut self.waits);
                // Nothing is evicted for lack of a place to put it: the rest waits for another pass.
                goes_on = wait_for_destination(store, reader, &self.waits);
            }
            if goes_on && self.empty(reader, id) {
                store.log.retire(&store.epochs, id);
                emptied += 1;
            } else {
                store.log.segment(id).set_state(State::Sealed);
            }
            if goes_on {
                // What was emptied may be the next destination.
                reader.quiesce();
                store.log.reclaim_now(&store.epochs);
            }
        }
        let freed = emptied.saturating_sub(self.to.opened());
        store.cleaning.note_pass(self.seen, freed);
        if freed == 0 { Outcome::Nothing } else { Outcome::Freed(freed) }
    }

    /// Deals with every item of a source. Returns whether all its bytes are free now.
    fn empty(&mut self, reader: &Participant, id: SegmentId) -> bool {
        let mut whole = true;
        let mut batch = Vec::with_capacity(BATCH);
        self.store.log.walk(reader, id, |place, view| {
            self.seen += 1;
            self.store.let_others_run(self.seen);
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
        let fate = if item.is_dead(store) { Fate::Goes } else { self.census.fate(store, item, found) };
        let stays = match fate {
            Fate::Stays(half) => self.to.open_for(store, item, half),
            Fate::Goes => None,
        };
        let would_go =
            stays.is_none() && !item.is_dead(store) && (fate == Fate::Goes || self.lack == Lack::Goes);
        // Also what was to stay goes below where there is no more room.
        let below = if would_go { put_below(store, self.counters, item) } else { None };
        let to = stays.or_else(|| {
            let stays = would_go && fate != Fate::Goes;
            let is_kept =
                stays && (item.view.is_away() || self.census.is_within_floor(store, item.view.tenant()));
            let as_it_is = || Needed::new(item.view.len(), item.view.cas().is_some());
            let needed = below.as_ref().map(|(_, needed)| *needed).or(is_kept.then(as_it_is))?;
            self.to.open_for_last(store, needed, store.stamp_of(item.place, &item.view))
        });
        let locked = store.index.lock(item.hash);
        let Some(found) = locked.find_again(found, item.hash) else {
            abandon(store, item, below);
            return true;
        };
        // Asked under the lock: a flush cannot come between this and the accounting.
        let dead = item.is_dead(store);
        if let Some(to) = to.filter(|_| !dead) {
            let Some((meta, _)) = below else {
                return self.to.copy(store, self.counters, &locked, found, item, to);
            };
            if self.to.move_to(store, self.counters, &locked, (found, item), (meta, to)) {
                let counters = self.counters.of(meta.tenant.index());
                meta.away.inspect(|away| count(&counters.at(away.tier).demotions));
                return true;
            }
        }
        // Its value fits below, or is there.
        let is_below = below.is_some() || fate != Fate::Goes && item.view.is_away();
        abandon(store, item, below);
        if !dead && (is_below || fate != Fate::Goes) && self.waits(item, is_below) {
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
fn abandon(store: &Store, item: &Pending<'_>, below: Option<(Meta, Needed)>) {
    if let Some(away) = below.and_then(|(meta, _)| meta.away) {
        store.tier(away).abandon(away, item.view.key().len());
    }
}

impl Pass<'_> {
    /// Whether an item for which there is no room, though it is to stay or to go below, stays where it is.
    fn waits(&self, item: &Pending<'_>, is_below: bool) -> bool {
        let is_kept = || is_below || self.census.is_within_floor(self.store, item.view.tenant());
        self.lack == Lack::Waits
            || is_kept() && others_may_free(self.store, u32::from(self.waits.is_counted()))
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
    let sizes = item.view.sizes();
    let of_tenant = counters.of(tenant.id.index());
    let class = counters.class(sizes.whole, item.view.own_space());
    let Removal::Live { is_over } = removal else {
        count(&of_tenant.reclaimed);
        count(&class.reclaimed);
        // What looks for it from now on does not see that it had died.
        if tenant.samples(item.hash) {
            counters.samples.put_if_few(tenant.id, item.hash, SampledKind::Delete);
        }
        if found.slot.uses() == 0 {
            count(&of_tenant.expired_unfetched);
            count(&class.expired_unfetched);
        }
        return;
    };
    count(&of_tenant.evictions);
    let uses = || uses_of(store, found, item);
    store.ghosts.remember(item.hash, item.view.stored_len(), uses, store.tick_count());
    store.witness.tell(store, found.slot, &item.view);
    if let Some(learnt) = tenant.learnt() {
        learnt.note_end(found.slot.uses(), store.tick().wrapping_sub(found.slot.tick()));
    }
    if is_over {
        count(&of_tenant.evicted_over_share);
    }
    count(&class.evicted);
    let at_secs = store.now_secs();
    let last = Eviction { at_secs, idle_secs: at_secs.saturating_sub(store.tick_secs(found.slot.tick())) };
    of_tenant.last_eviction.set(last);
    class.last_eviction.set(last);
    if item.view.expiry().is_some() {
        count(&of_tenant.evicted_nonzero);
        count(&class.evicted_nonzero);
    }
    if found.slot.uses() == 0 {
        count(&of_tenant.evicted_unfetched);
        count(&class.evicted_unfetched);
    }
    if !Shadow::may_know(item.hash, tenant.sampling()) {
        return;
    }
    let mut shadow = lock(&tenant.shadow);
    let expires_at = item.view.expiry().map_or(0, |expiry| expiry.at);
    let size = u32::try_from(sizes.charge()).unwrap_or(u32::MAX);
    shadow.push(item.hash, size, (expires_at, at_secs));
    tenant.shadow_sampling.store(u32::from(shadow.sampling()), Ordering::Relaxed);
}

/// How often an item that goes was used, since it was stored and before.
fn uses_of(store: &Store, found: Found, item: &Pending<'_>) -> u8 {
    let random = mix64(item.hash.0 ^ u64::from(item.view.stamp())) >> 32;
    let random = u32::try_from(random).unwrap_or(u32::MAX);
    all_uses_by_chance(remembered_of(store, found.slot, &item.view), found.slot.uses(), random)
}

/// Whether segments may become free without those who ask, of whom so many are counted as working: others let go of what was
/// emptied, or other passes, that do not wait themselves, go on.
fn others_may_free(store: &Store, asking: u32) -> bool {
    store.log.has_retired() || asking < store.passes.working()
}

/// Waits until a source's survivors have a place to go: for other threads to let go of what was emptied before, or for
/// other passes. Gives up if they do not; who has nothing to wait for goes on, since nobody else can free a segment: who is
/// alone, and of those who would wait for one another whoever sees it, one or, for a moment, some.
fn wait_for_destination(store: &Store, reader: &mut Participant, waits: &Waits) -> bool {
    let mut patience = Patience::new();
    let mut waiting = None;
    while store.log.available() < DESTINATIONS_PER_SOURCE {
        reader.quiesce();
        if DESTINATIONS_PER_SOURCE <= store.log.reclaim_now(&store.epochs) {
            return true;
        }
        if waits.is_counted() {
            waiting.get_or_insert_with(|| store.passes.wait());
        }
        if !others_may_free(store, 0) {
            return true;
        }
        if patience.is_over(store) {
            return false;
        }
        patience.wait(store);
    }
    true
}
