//! The cleaner: takes the space of dead items back, and of those that their tenants need least.
//!
//! Shape:      a pass takes n sealed segments; ranks their live items; gives each tenant its part (`survivors`); keeps
//!             the items of the highest rank within it; copies source by source, each emptied source returns at once
//! Invariants: a pass opens at most n − 1 segments, so it frees at least one; a reader never waits for it
//! Cost:       one walk and one index look-up per item, a second walk for what is alive
//! Source:     Memshare §3.2, §5.3 and Algorithm 1. We differ: what goes is chosen before anything is copied, so the
//!             reserve is three segments instead of n; sources are compared by what cleaning them would free;
//!             half-full destinations stay open for the next pass instead of being dropped

use crate::account::{bytes_needed, charge_of, link, relink, restamp, unlink};
use crate::epoch::Participant;
use crate::hash::KeyHash;
use crate::index::{Found, Locked};
use crate::item::View;
use crate::limits::AGE_MAX;
use crate::log::Head;
use crate::metrics::{ThreadCounters, count};
use crate::rank::{BIN_MIN, Clock, Usage};
use crate::segment::State;
use crate::shadow::Shadow;
use crate::slot::Place;
use crate::sources::{Chooser, Sums, claim_dead};
use crate::store::Store;
use crate::survivors::{Candidate, keep};
use crate::sync::{Ordering, bump, lock, pause};
use crate::tenant::TenantSpec;
use std::sync::Arc;
use units::{Rng, SegmentId, TenantId};

/// No slot points at the item.
const GARBAGE: u8 = 0;
/// A slot points at it, but it has expired or was flushed.
const DEAD: u8 = 1;
const _: () = assert!(DEAD < BIN_MIN);

/// Destinations kept open: a large item that does not fit one may fit the other.
const OPEN_MAX: usize = 2;
/// Items looked up together, so that their index lines load in parallel.
const BATCH: usize = 32;
/// A segment that is dead to this part is reclaimed without need.
const DEAD_PERCENT: u64 = 50;
/// Segments that are looked at to bring a tenant below its ceiling: fewer see too little of it to tell its worst items
/// (10 instead of 20 gave .7809 of hits on the mixed trace, 20 give .7888).
const TRIM_WIDTH: usize = 20;
/// Looks at most until a tenant is below its ceiling.
const TRIM_ROUNDS_MAX: u32 = 8;

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

/// One tenant in a pass.
#[derive(Debug)]
struct Seen {
    /// Its claim and its rank, as they are when the pass begins.
    spec: Arc<TenantSpec>,
    /// It holds more than its part: its share of all that is held.
    is_over: bool,
    bytes_by_bin: Box<[u64; 256]>,
    inside: u64,
    /// The rank's level in this pass; not a number before its first item.
    level: f32,
    threshold: u8,
    /// Bytes of the threshold's own bin that stay.
    quota: u64,
}

/// Buffers of a cleaning thread, reused from pass to pass.
#[derive(Debug)]
pub(crate) struct Cleaner {
    chooser: Chooser,
    open: Vec<Head>,
    opened: usize,
    sources: Vec<SegmentId>,
    bins: Vec<u8>,
    clock: Clock,
    seen: Vec<Option<Seen>>,
    order: Vec<usize>,
    candidates: Vec<Candidate>,
    kept: Vec<u64>,
    /// Segments that the pass may open.
    outputs_max: usize,
}

/// An item of a source until its slot has been looked up.
struct Pending<'a> {
    place: Place,
    hash: KeyHash,
    view: View<'a>,
}

/// An item of a source with its rank and its hash.
type Ranked<'a> = (Place, View<'a>, u8, KeyHash);

impl Cleaner {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            chooser: Chooser::new(rng),
            open: Vec::new(),
            opened: 0,
            sources: Vec::new(),
            bins: Vec::new(),
            clock: Clock::default(),
            seen: Vec::new(),
            order: Vec::new(),
            candidates: Vec::new(),
            kept: Vec::new(),
            outputs_max: 0,
        }
    }

    /// Ends every open destination.
    pub(crate) fn seal_all(&mut self, store: &Store) {
        for head in self.open.drain(..) {
            store.log.seal(head);
        }
    }

    /// One pass over up to `width` segments.
    pub(crate) fn pass(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        width: usize,
    ) -> Outcome {
        store.passes.fetch_add(1, Ordering::Relaxed);
        let outcome = self.run_pass(store, reader, counters, width);
        store.passes.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    fn run_pass(
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
        self.rank_items(store, reader, None);
        self.gather(store);
        self.outputs_max = outputs_max(store, self.sources.len());
        let mut budget = self.budget(store);
        // Where the sources hold more of floors than they would keep, the pass frees less, but something.
        let floors: u64 = self.candidates.iter().map(Candidate::below_floor).sum();
        while budget < floors && self.outputs_max + 1 < self.sources.len() {
            self.outputs_max += 1;
            budget = self.budget(store);
        }
        if store.no_evict && budget < self.inside() {
            return self.give_up(store);
        }
        keep(budget, &self.candidates, &mut self.kept);
        self.set_thresholds(store);
        let freed = self.copy_sources(store, reader, counters);
        store.cleaning.note_pass(self.bins.len(), freed);
        if freed == 0 { Outcome::Nothing } else { Outcome::Freed(freed) }
    }

    fn give_up(&mut self, store: &Store) -> Outcome {
        for id in self.sources.drain(..) {
            store.log.segment(id).set_state(State::Sealed);
        }
        Outcome::Nothing
    }

    /// Bytes charged of everything alive in the sources.
    fn inside(&self) -> u64 {
        self.seen.iter().flatten().map(|s| s.inside).sum()
    }

    /// Bytes charged that fit the destinations, fewer than the sources: the index share is charged but not copied,
    /// and each destination loses about half an item at its end.
    fn budget(&self, store: &Store) -> u64 {
        let open: usize = self.open.iter().map(|h| store.log.room(h)).sum();
        let fresh = self.outputs_max * store.log.segment_bytes();
        let room = (open + fresh) as u64;
        let alive = self.bins.iter().filter(|b| BIN_MIN <= **b).count() as u64;
        let inside = self.inside().max(1);
        let copied = inside.saturating_sub(alive * crate::item::INDEX_SHARE).max(1);
        let ends = self.sources.len() as u64 * (copied / alive.max(1)) / 2;
        let fits = u128::from(room.saturating_sub(ends)) * u128::from(inside) / u128::from(copied);
        u64::try_from(fits).unwrap_or(u64::MAX)
    }

    /// Walks the sources, finds what is alive (of one tenant, if only that is asked) and ranks it.
    fn rank_items(&mut self, store: &Store, reader: &Participant, only: Option<TenantId>) {
        self.bins.clear();
        store.take_time(&mut self.clock);
        for seen in &mut self.seen {
            *seen = None;
        }
        let sources = std::mem::take(&mut self.sources);
        let mut batch = Vec::with_capacity(BATCH);
        for id in &sources {
            store.log.walk(reader, *id, |place, view| {
                let asked = only.is_none_or(|tenant| tenant == view.tenant());
                batch.push(asked.then(|| {
                    let hash = store.hash_of(&view);
                    store.index.prefetch(hash);
                    Pending { place, hash, view }
                }));
                if batch.len() == BATCH {
                    self.rank_batch(store, &mut batch);
                }
            });
        }
        self.rank_batch(store, &mut batch);
        self.sources = sources;
    }

    fn rank_batch(&mut self, store: &Store, batch: &mut Vec<Option<Pending<'_>>>) {
        for item in batch.drain(..) {
            let Some(item) = item else {
                self.bins.push(GARBAGE);
                continue;
            };
            let place = item.place;
            let Some(found) = store.index.find_surely(item.hash, &mut |slot| slot.place() == place) else {
                self.bins.push(GARBAGE);
                continue;
            };
            if store.is_expired(&item.view) || store.is_flushed(place, &item.view) {
                self.bins.push(DEAD);
                continue;
            }
            let tenant = store.tenant(item.view.tenant());
            // Read after the slot: an item used since the clock last moved must not seem to be ahead of it.
            let tick = store.tick();
            let charge = charge_of(item.view.bytes().len()).cast_unsigned();
            let usage = Usage {
                age: tick.wrapping_sub(found.slot.tick()),
                uses: found.slot.uses(),
                size: u32::try_from(charge).unwrap_or(u32::MAX),
                level: tenant.level_at(found.slot.tick()),
                stamp: store.stamp_of(place, &item.view),
                expiry: item.view.expiry(),
            };
            let seen = seen_in(&mut self.seen, store, item.view.tenant());
            if seen.level.is_nan() {
                let kind = &seen.spec.rank;
                seen.level = tenant.level_of(kind, || kind.level_by(&usage, &self.clock));
            }
            let rank = seen.spec.rank.bin(&usage, seen.level, &self.clock);
            seen.bytes_by_bin[usize::from(rank)] += charge;
            seen.inside += charge;
            self.bins.push(rank);
        }
    }

    /// What each tenant has in the sources and elsewhere, and what it should have.
    fn gather(&mut self, store: &Store) {
        self.order.clear();
        self.candidates.clear();
        let all = Sums::of(store);
        for (i, seen) in self.seen.iter_mut().enumerate() {
            let Some(seen) = seen else { continue };
            let tenant = store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
            seen.is_over = all.is_over(tenant);
            self.order.push(i);
            self.candidates.push(Candidate {
                inside: seen.inside,
                elsewhere: tenant.held().0.saturating_sub(seen.inside),
                target: tenant.share().target.0,
                // A policy may give less than the floor: the idle tax, or floors beyond the memory.
                floor: tenant.floor().min(tenant.share().target).0,
            });
        }
    }

    /// Turns kept bytes into a rank below which items go.
    fn set_thresholds(&mut self, store: &Store) {
        for (&i, &kept) in self.order.iter().zip(&self.kept) {
            let Some(seen) = &mut self.seen[i] else { continue };
            let mut left = kept;
            seen.threshold = BIN_MIN;
            seen.quota = u64::MAX;
            for rank in (BIN_MIN..=u8::MAX).rev() {
                let bytes = seen.bytes_by_bin[usize::from(rank)];
                if left < bytes {
                    seen.threshold = rank;
                    seen.quota = left;
                    break;
                }
                left -= bytes;
            }
            let tenant = store.tenant(TenantId(u32::try_from(i).unwrap_or(u32::MAX)));
            if kept < seen.inside {
                let kind = &seen.spec.rank;
                let level = kind.level_after(&seen.bytes_by_bin, seen.threshold, seen.level);
                tenant.set_level(kind, level);
            }
        }
    }

    /// Whether an item of this rank stays; uses the threshold's quota up.
    fn stays(&mut self, tenant: TenantId, rank: u8, charge: u64) -> bool {
        let Some(Some(seen)) = self.seen.get_mut(tenant.index()) else { return true };
        if rank == seen.threshold && seen.quota != u64::MAX {
            let fits = charge <= seen.quota;
            seen.quota = seen.quota.saturating_sub(charge);
            return fits;
        }
        seen.threshold <= rank
    }

    /// Whether a tenant held more than its part when the pass began.
    fn is_over(&self, tenant: TenantId) -> bool {
        self.seen.get(tenant.index()).and_then(Option::as_ref).is_none_or(|seen| seen.is_over)
    }

    /// Copies what stays, evicts what goes, and returns the emptied sources. Returns how many segments were freed.
    fn copy_sources(&mut self, store: &Store, reader: &mut Participant, counters: &ThreadCounters) -> usize {
        let sources = std::mem::take(&mut self.sources);
        let bins = std::mem::take(&mut self.bins);
        let opened_max = self.outputs_max;
        self.opened = 0;
        let mut next = 0;
        let mut emptied = 0_usize;
        let mut goes_on = true;
        for id in &sources {
            let mut whole = true;
            goes_on = goes_on && wait_for_destination(store, reader);
            if !goes_on {
                // Nothing is evicted for lack of a place to put it: the rest, all of it since `bins` is in the order of
                // the sources, waits for another pass.
                store.log.segment(*id).set_state(State::Sealed);
                continue;
            }
            let mut batch = Vec::with_capacity(BATCH);
            store.log.walk(reader, *id, |place, view| {
                let rank = bins[next];
                next += 1;
                if rank != GARBAGE {
                    let hash = store.hash_of(&view);
                    store.index.prefetch(hash);
                    batch.push((place, view, rank, hash));
                }
                if batch.len() == BATCH {
                    whole &= self.handle_all(store, counters, &mut batch, opened_max);
                }
            });
            whole &= self.handle_all(store, counters, &mut batch, opened_max);
            if whole {
                store.log.retire(&store.epochs, *id);
                emptied += 1;
            } else {
                store.log.segment(*id).set_state(State::Sealed);
            }
            // What was emptied may be the next destination.
            reader.quiesce();
            store.log.reclaim_now(&store.epochs);
        }
        self.sources = sources;
        self.bins = bins;
        self.sources.clear();
        emptied.saturating_sub(self.opened)
    }

    /// Deals with a batch of items whose index lines are loading. Returns whether all their bytes are free now.
    fn handle_all(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        batch: &mut Vec<Ranked<'_>>,
        opened_max: usize,
    ) -> bool {
        let mut whole = true;
        for item in batch.drain(..) {
            whole &= self.handle(store, counters, item, opened_max);
        }
        whole
    }

    /// Deals with one item. Returns whether its bytes are free now.
    fn handle(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        (place, view, rank, hash): Ranked<'_>,
        opened_max: usize,
    ) -> bool {
        let charge = charge_of(view.bytes().len()).cast_unsigned();
        let is_dead = || store.is_expired(&view) || store.is_flushed(place, &view);
        let stays = rank != DEAD && !is_dead() && self.stays(view.tenant(), rank, charge);
        let needed = bytes_needed(view.bytes().len(), view.cas().is_some());
        let stamp = store.stamp_of(place, &view);
        let has_room = stays && self.open_for(store, needed, stamp, opened_max);
        let locked = store.index.lock(hash);
        let Some(found) = locked.find(hash, |slot| slot.place() == place) else { return true };
        // Asked again under the lock: a flush cannot come between this and the accounting.
        let dead = is_dead();
        if has_room && !dead {
            return self.copy(store, counters, &locked, found, &view);
        }
        if stays && !dead && store.no_evict {
            return false;
        }
        locked.remove(found);
        unlink(store, counters, place, &view);
        drop(locked);
        let is_over = self.is_over(view.tenant());
        note_removal(
            store,
            counters,
            found,
            &view,
            hash,
            if dead { Removal::Dead } else { Removal::Live { is_over } },
        );
        true
    }

    /// Moves an item to the first open destination that has room, which `open_for` has seen to. Returns whether it did.
    fn copy(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        locked: &Locked<'_>,
        found: Found,
        view: &View<'_>,
    ) -> bool {
        let from = found.slot.place();
        let stamp = store.stamp_of(from, view);
        let needed = bytes_needed(view.bytes().len(), view.cas().is_some());
        let Some(head) = self.open.iter_mut().find(|h| store.log.fits(h, needed, stamp)) else {
            return false;
        };
        let mut meta = view.meta();
        restamp(&mut meta, stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(view.key().len(), view.value().len(), &mut header);
        let parts = [&header[..header_len], view.key(), view.value(), &[]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = store.log.append(head, parts).expect("the destination has room");
        if len == view.bytes().len() && meta.expiry.is_none() {
            relink(store, from, place, meta.tenant, len, stamp);
        } else {
            unlink(store, counters, from, view);
            link(store, counters, place, &meta, len, stamp);
        }
        let age = store.tick().wrapping_sub(found.slot.tick()).min(AGE_MAX);
        let tick = store.tick().wrapping_sub(age);
        locked.replace(found, found.slot.moved(place).used(tick, found.slot.uses()));
        bump(&counters.of(meta.tenant.index()).moved_bytes, len as u64);
        true
    }

    /// Sees to it that an open destination takes `len` bytes with this stamp, opening one if the pass still may.
    fn open_for(&mut self, store: &Store, len: usize, stamp: u64, opened_max: usize) -> bool {
        if self.open.iter().any(|h| store.log.fits(h, len, stamp)) {
            return true;
        }
        if opened_max <= self.opened {
            return false;
        }
        let Some(head) = store.log.take(&store.epochs, 0, store.stamp_base(), store.now_secs()) else {
            return false;
        };
        self.opened += 1;
        if self.open.len() == OPEN_MAX {
            let fullest =
                self.open.iter().enumerate().min_by_key(|(_, h)| store.log.room(h)).map_or(0, |(i, _)| i);
            let full = self.open.swap_remove(fullest);
            store.log.seal(full);
        }
        self.open.push(head);
        true
    }

    /// Brings every tenant that is over its ceiling below it: evicts in place, copies nothing.
    pub(crate) fn enforce_ceilings(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
    ) {
        for tenant in store.tenants().filter(|t| t.is_over_ceiling()) {
            if store.no_evict {
                return;
            }
            // Several rounds if the sources of one do not hold enough of the tenant.
            for _ in 0..TRIM_ROUNDS_MAX {
                self.trim(store, reader, counters, tenant.id, tenant.excess());
                if !tenant.is_over_ceiling() {
                    break;
                }
            }
        }
    }

    /// Evicts about `excess` bytes of one tenant, the lowest ranks among the segments that hold the most of it and as
    /// many random ones.
    fn trim(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        tenant: TenantId,
        excess: u64,
    ) {
        let held = |id: SegmentId| {
            let segment = store.log.segment(id);
            let written =
                segment.tenants().find(|(t, _)| *t == tenant).map_or(0, |(_, bytes)| u64::from(bytes));
            // What was evicted here before is still counted as written.
            written * u64::from(segment.live()) / u64::from(segment.used().max(1))
        };
        self.chooser.choose(store, TRIM_WIDTH, |_, id| held(id), &mut self.sources);
        self.rank_items(store, reader, Some(tenant));
        let inside = seen_in(&mut self.seen, store, tenant).inside;
        self.order.clear();
        self.order.push(tenant.index());
        self.kept.clear();
        self.kept.push(inside.saturating_sub(excess));
        self.set_thresholds(store);
        let sources = std::mem::take(&mut self.sources);
        let bins = std::mem::take(&mut self.bins);
        let mut next = 0;
        for id in &sources {
            store.log.walk(reader, *id, |place, view| {
                let rank = bins[next];
                next += 1;
                let charge = charge_of(view.bytes().len()).cast_unsigned();
                if view.tenant() == tenant && BIN_MIN <= rank && !self.stays(tenant, rank, charge) {
                    let hash = store.hash_of(&view);
                    let locked = store.index.lock(hash);
                    if let Some(found) = locked.find(hash, |slot| slot.place() == place) {
                        locked.remove(found);
                        unlink(store, counters, place, &view);
                        drop(locked);
                        note_removal(store, counters, found, &view, hash, Removal::Live { is_over: true });
                    }
                }
            });
            store.log.segment(*id).set_state(State::Sealed);
        }
        self.sources = sources;
        self.bins = bins;
        reader.quiesce();
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
        self.rank_items(store, reader, None);
        self.outputs_max = outputs_max(store, self.sources.len());
        if self.budget(store) < self.inside() {
            // Less was dead than the table says: nothing alive goes without need.
            self.give_up(store);
            return false;
        }
        let freed = self.copy_sources(store, reader, counters);
        store.cleaning.note_pass(self.bins.len(), freed);
        0 < freed
    }
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Removal {
    /// An item that had expired or was flushed.
    Dead,
    /// An item that a look-up would have found.
    Live {
        /// Its tenant held more than its part when the pass began.
        is_over: bool,
    },
}

/// A tenant in this pass.
fn seen_in<'a>(all: &'a mut Vec<Option<Seen>>, store: &Store, tenant: TenantId) -> &'a mut Seen {
    if all.len() <= tenant.index() {
        all.resize_with(tenant.index() + 1, || None);
    }
    all[tenant.index()].get_or_insert_with(|| Seen {
        spec: store.tenant(tenant).spec(),
        is_over: true,
        bytes_by_bin: Box::new([0; 256]),
        inside: 0,
        level: f32::NAN,
        threshold: BIN_MIN,
        quota: u64::MAX,
    })
}

/// Counts an item that was removed: reclaimed if it was dead, else evicted.
fn note_removal(
    store: &Store,
    counters: &ThreadCounters,
    found: Found,
    view: &View<'_>,
    hash: KeyHash,
    removal: Removal,
) {
    let tenant = store.tenant(view.tenant());
    let of_tenant = counters.of(tenant.id.index());
    let class = counters.class(view.bytes().len(), view.own_space());
    let Removal::Live { is_over } = removal else {
        count(&of_tenant.reclaimed);
        count(&class.reclaimed);
        return;
    };
    count(&of_tenant.evictions);
    store.witness.tell(store, found.slot, view);
    if is_over {
        count(&of_tenant.evicted_over_share);
    }
    count(&class.evicted);
    if found.slot.uses() == 0 {
        count(&of_tenant.evicted_unfetched);
        count(&class.evicted_unfetched);
    }
    if !Shadow::may_know(hash, tenant.sampling()) {
        return;
    }
    let mut shadow = lock(&tenant.shadow);
    shadow.push(hash, u32::try_from(charge_of(view.bytes().len())).unwrap_or(u32::MAX));
    tenant.shadow_sampling.store(u32::from(shadow.sampling()), Ordering::Relaxed);
}

/// Segments that a pass over so many may open.
fn outputs_max(store: &Store, sources: usize) -> usize {
    // Who may not evict takes every segment that compaction frees.
    let freed = if store.no_evict { 1 } else { store.pass_frees(sources) };
    sources - freed
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
        if !store.log.has_retired() && store.passes.load(Ordering::Relaxed) <= 1 {
            return true;
        }
        if WAIT_TURNS_MAX < turn {
            return false;
        }
        pause(&mut turn);
    }
    true
}
