//! The cleaner of a tier: takes the space of dead records back, and of those that their tenants need least.
//!
//! Shape:      sealed segments, half those with the least alive, half random -> their live records -> what each tenant keeps
//!             (`parts`) -> the rest is evicted, survivors are copied on, and the items that lead to them are written again
//! Invariants: a tier has one pass at a time; a segment is given back when no item leads to it; a record is copied only if it is
//!             whole
//! Cost:       a look-up per live record, an item written per copied one; where the device is not mapped, a read of the source
//!             into memory that the tier has for it. A pass that waits for budgets and caps (`postponed`) keeps all that
//! Failure:    a source that cannot be read, or survivors without room in DRAM, stay where they are; what could not be read a few
//!             times is lost: its items go

mod begun;
mod postponed;
mod prospects;
mod sources;
#[cfg(test)]
#[cfg(not(any(shuttle, miri)))]
mod tests;

use super::record::{self, GRAIN, Record};
use super::{NOBODY, Reference, Tier, access_behind};
use crate::account::unlink;
use crate::census::{Half, Pending, floor_of, usage_of};
use crate::cleaner::{Removal, note_removal};
use crate::destinations::Destinations;
use crate::epoch::Participant;
use crate::hash::{KeyHash, Space};
use crate::index::Found;
use crate::limits;
use crate::metrics::{ThreadCounters, count};
use crate::rank::{BIN_MIN, Clock, Usage};
use crate::slot::{Place, Slot};
use crate::stamps::Needed;
use crate::store::Store;
use crate::sync::{Ordering, give_way, try_lock};
use crate::tenant::Tenant;
pub(super) use begun::Desk;
use begun::{Begun, Emptied, Work, go_on};
use media::{Buffer, SlowAccess};
pub(super) use postponed::Postponed;
pub(super) use prospects::Prospects;
use sources::{Source, bytes_of, choose, filled, read};
use units::{Rng, TenantId};

/// Cleans tiers; one per cleaning thread.
#[derive(Debug)]
pub(crate) struct TierCleaner {
    rng: Rng,
    clock: Clock,
}

/// A live record of a source.
struct Entry {
    at: u64,
    hash: KeyHash,
    tenant: TenantId,
    rank: u8,
    /// When it was ranked an item led to it that was not dead.
    is_alive: bool,
    footprint: u64,
}

impl Entry {
    /// Whether it was alive when it was ranked, and something leads to it still.
    fn is_alive(&self, tier: &Tier) -> bool {
        self.is_alive && tier.notes.is_live(self.at)
    }
}

/// What became of a record.
enum Handled {
    /// Nothing leads to it any more.
    Gone,
    /// It has no place to go.
    Stays,
    /// The item that leads to it was moved in DRAM meanwhile, or changed.
    Moved,
}

/// Times that a pass looks for an item that others move meanwhile.
const HANDLES_MAX: u32 = 3;

/// A pass between two announcements of its thread.
struct Pass<'a> {
    store: &'a Store,
    tier: &'a Tier,
    counters: &'a ThreadCounters,
    reader: &'a Participant,
    /// What the sources were read into.
    room: &'a [u8],
    to: &'a mut Destinations,
    work: &'a mut Work,
}

impl TierCleaner {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, clock: Clock::default() }
    }

    /// One pass, over other sources where the first hold nothing that may go, or what is left of one that has waited. Returns how many segments
    /// it gave back beyond those that it filled; none if another thread is at one.
    pub(crate) fn pass(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        tier: &Tier,
    ) -> Option<u64> {
        let mut desk = try_lock(&tier.desk)?;
        tier.set_being_cleaned(true);
        let tried = if let Some(begun) = desk.begun.take() {
            let to = Destinations::take_sparing(store);
            go_on((store, tier, counters), reader, (&mut desk, to), begun)
        } else {
            let tries = if tier.keeps_all { 1 } else { limits::TIER_TRIES };
            (0..tries).find_map(|turn| self.try_pass((store, tier, counters), reader, &mut desk, turn))
        };
        tier.note_gain(tried.is_some(), store.now_secs());
        tier.set_being_cleaned(false);
        Some(tried.unwrap_or(0))
    }

    /// Tries a pass. Returns how many segments it gained; none if what the sources hold leaves no room for that.
    fn try_pass(
        &mut self,
        (store, tier, counters): (&Store, &Tier, &ThreadCounters),
        reader: &mut Participant,
        desk: &mut Desk,
        turn: u32,
    ) -> Option<u64> {
        let mut to = Destinations::take_sparing(store);
        // Nothing is read for items that could not be written.
        let has_room = !store.no_evict || to.has_room(store);
        let chosen = if has_room { choose(&mut self.rng, tier, turn, store.now_secs()) } else { Vec::new() };
        if chosen.is_empty() {
            to.park(store);
            return Some(0);
        }
        let room = desk.room.as_mut().map_or(&mut [][..], Buffer::bytes_mut);
        let mut sources = if tier.is_mapped() {
            read(store, tier, chosen, room)
        } else {
            // The device may be slow, and what it has there is this pass's.
            reader.apart(|| read(store, tier, chosen, room))
        };
        store.take_time(&mut self.clock);
        let tenants = tier.tenants_by_owner();
        let mut work = Work { began: store.brakes.now(), may_open: sources.len(), ..Work::default() };
        let mut pass = Pass { store, tier, counters, reader, room, to: &mut to, work: &mut work };
        for source in &mut sources {
            pass.rank(source, &tenants, &self.clock);
        }
        pass.work.gains = pass.divide(&sources);
        go_on((store, tier, counters), reader, (desk, to), Begun { sources: sources.into(), work })
    }
}

impl Pass<'_> {
    /// Ranks the live records of a source.
    fn rank(&mut self, source: &mut Source, tenants: &[Option<TenantId>], clock: &Clock) {
        if source.is_lost {
            return;
        }
        let range = self.tier.segments.range(source.segment);
        let (mut entries, mut hides) = (Vec::new(), false);
        self.tier.notes.each_live(range, |at| {
            let record = record::parse(bytes_of(self.tier, (self.reader, self.room), source, at));
            let tenant = |record: &Record<'_>| *tenants.get(record.fields.owner.0 as usize)?;
            let Some((record, tenant)) = record.and_then(|record| Some((record, tenant(&record)?))) else {
                hides = true;
                return;
            };
            let space = if record.fields.own_space { Space::Own(tenant) } else { Space::Shared };
            let hash = self.store.hasher.hash(space, record.key);
            let footprint = record::footprint(record.key.len(), record.value.len());
            entries.push(Entry { at, hash, tenant, rank: BIN_MIN, is_alive: false, footprint });
        });
        for i in 0..entries.len() {
            if let Some(ahead) = entries.get(i + crate::census::BATCH) {
                self.store.index.prefetch(ahead.hash);
            }
            self.let_others_run(i);
            let entry = &mut entries[i];
            let Some((found, item)) = find(self.store, self.reader, self.tier, entry) else { continue };
            if item.is_dead(self.store) {
                continue;
            }
            let part = self.work.parts.of(self.store, entry.tenant);
            let usage = Usage {
                size: u32::try_from(entry.footprint).unwrap_or(u32::MAX),
                ..usage_of(self.store, &item, found, part.densities())
            };
            entry.rank = part.rank(self.store, &usage, clock);
            entry.is_alive = true;
        }
        (source.entries, source.hides) = (entries, hides);
    }

    /// Before its next record: as passes over DRAM do, as long as writers find a segment of the tier.
    fn let_others_run(&self, handled: usize) {
        if handled.is_multiple_of(limits::GIVES_WAY_ITEMS) && 0 < self.tier.left() {
            give_way();
        }
    }

    /// Divides the room of the destinations among the tenants. Returns whether the pass gains anything by that: not where there is no
    /// room for all that is within floors.
    fn divide(&mut self, sources: &[Source]) -> bool {
        if self.store.no_evict {
            return filled(self.tier, sources) < sources.len();
        }
        let sources = sources.len();
        let floors = self.work.parts.floors(self.store);
        let budget = |frees: usize| {
            let room = (sources - frees.min(sources)) as u64 * self.tier.segments.bytes();
            // Destinations lose something at their ends.
            room - room / limits::TIER_SLACK_PART
        };
        let most = (sources / limits::TIER_PASS_FREES_PART).max(1);
        // Where the sources hold more of floors than they would keep, the pass frees less, but something.
        let frees = (1..=most).rev().find(|frees| floors <= budget(*frees));
        frees.inspect(|frees| self.work.parts.divide(self.store, budget(*frees))).is_some()
    }

    /// Deals with the live records of a source, as long as the pass need not wait.
    fn empty(&mut self, source: &mut Source) -> Emptied {
        let tier = self.tier;
        while let Some(entry) = source.entries.get(source.handled) {
            self.let_others_run(source.handled);
            if let Some(until) = self.waits_for_caps(entry) {
                return Emptied::Later(until);
            }
            if !self.handle(source, entry) {
                return Emptied::Not;
            }
            source.handled += 1;
        }
        // Else a writer has put something here that nothing leads to yet: the segment stays until a later pass.
        let hides =
            || source.is_lost || source.hides || source.entries.iter().any(|entry| self.is_hidden(entry));
        if tier.segments.live(source.segment) != 0 && hides() {
            // A damaged header hides whose record it is, and what cannot be read whose all are: who leads here is found the long way.
            self.drop_all(source);
        }
        if tier.segments.live(source.segment) == 0 { Emptied::Whole } else { Emptied::Not }
    }

    /// Whether a record that was dealt with has an item still, which its key or owner does not lead to.
    fn is_hidden(&self, entry: &Entry) -> bool {
        // Who lets go of it by its own key is done with that.
        let _locked = self.tier.notes.is_live(entry.at).then(|| self.store.index.lock(entry.hash));
        self.tier.notes.is_live(entry.at)
    }

    /// Deals with one record. Returns false if it has to stay where it is.
    fn handle(&mut self, source: &Source, entry: &Entry) -> bool {
        // Once, for it uses up what the tenant keeps.
        let mut keeps = None;
        for _ in 0..HANDLES_MAX {
            match self.try_handle(source, entry, &mut keeps) {
                Handled::Gone => return true,
                Handled::Stays => return false,
                Handled::Moved => {}
            }
        }
        false
    }

    fn try_handle(&mut self, source: &Source, entry: &Entry, keeps: &mut Option<bool>) -> Handled {
        let (store, tier, reader) = (self.store, self.tier, self.reader);
        let Some((found, item)) = find(store, reader, tier, entry) else { return Handled::Gone };
        let Some(away) = item.view.away() else { return Handled::Gone };
        let record =
            record::decode(tier.spot(entry.at), bytes_of(tier, (reader, self.room), source, entry.at));
        let record = record.filter(|record| record.key == item.view.key());
        let parts = &mut self.work.parts;
        let stays = !item.is_dead(store)
            && (*keeps.get_or_insert_with(|| parts.keeps(entry.tenant, entry.rank, entry.footprint))
                || is_within_floor(store.tenant(item.view.tenant())));
        match record {
            Some(record) if stays => self.move_on((&item, found), away, &record, entry),
            broken => {
                if broken.is_none() {
                    tier.note_broken();
                }
                if self.evict(&item, found) { Handled::Gone } else { Handled::Moved }
            }
        }
    }

    fn move_on(
        &mut self,
        (item, found): (&Pending<'_>, Found),
        from: Reference,
        record: &Record<'_>,
        entry: &Entry,
    ) -> Handled {
        let (store, tier) = (self.store, self.tier);
        let counters = self.counters.of(entry.tenant.index()).at(tier.id);
        let fields = record::Fields { owner: tier.owner(item.view.tenant()), ..record.fields };
        // First there is room for the item that leads there.
        let meta = crate::item::Meta { away: Some(from), ..item.view.meta() };
        let needed = Needed::new(item.view.len(), meta.cas.is_some());
        let place =
            self.to.open_for_needed(store, needed, store.stamp_of(item.place, &item.view), Half::Upper);
        let Some(place) = place else { return Handled::Stays };
        let to = tier.append(&store.epochs, (0, store.now_secs()), &fields, record.key, [record.value, &[]]);
        let Ok(to) = to else { return Handled::Stays };
        for kind in [SlowAccess::Read, SlowAccess::Write] {
            access_behind(store, tier, (counters, entry.tenant), kind, entry.footprint / GRAIN);
        }
        let meta = crate::item::Meta { away: Some(to), ..meta };
        let locked = store.index.lock(entry.hash);
        let again = locked.find_again(found, entry.hash);
        let moved = !item.is_dead(store)
            && again.is_some_and(|found| {
                self.to.move_to(store, self.counters, &locked, (found, item), (meta, place))
            });
        drop(locked);
        if !moved {
            tier.abandon(to, record.key.len());
            return if again.is_none() { Handled::Moved } else { Handled::Stays };
        }
        debug_assert_ne!(from, to);
        self.work.moved += entry.footprint;
        tier.counters.moved_bytes.fetch_add(entry.footprint, Ordering::Relaxed);
        tier.counters.moved.fetch_add(1, Ordering::Relaxed);
        Handled::Gone
    }

    /// Removes an item. Returns whether it was there still.
    fn evict(&self, item: &Pending<'_>, found: Found) -> bool {
        let store = self.store;
        let locked = store.index.lock(item.hash);
        let Some(found) = locked.find_again(found, item.hash) else { return false };
        let dead = item.is_dead(store);
        locked.remove(found);
        unlink(store, self.counters, item.place, &item.view);
        drop(locked);
        let tenant = item.view.tenant();
        let is_over = self.work.parts.is_over(tenant);
        if !dead {
            count(&self.counters.of(tenant.index()).at(self.tier.id).evictions);
        }
        let removal = if dead { Removal::Dead } else { Removal::Live { is_over } };
        note_removal(store, self.counters, found, item, removal);
        true
    }

    /// Removes every item that leads to a source and whose record is not whole, or nobody's.
    fn drop_all(&self, source: &Source) {
        let (store, tier) = (self.store, self.tier);
        let tenants = tier.tenants_by_owner();
        let is_somebodys =
            |record: &Record<'_>| tenants.get(record.fields.owner.0 as usize).is_some_and(Option::is_some);
        let is_whole = |at: u64, key: &[u8]| {
            let record = record::decode(tier.spot(at), bytes_of(tier, (self.reader, self.room), source, at));
            !source.is_lost && record.is_some_and(|record| record.key == key && is_somebodys(&record))
        };
        for bucket in 0..store.index.buckets() {
            let mut places = Vec::new();
            store.index.each_in(bucket, |slot| places.push(slot.place()));
            for place in places {
                let view = store.log.view(self.reader, place);
                let leads =
                    |away: Reference| away.tier == tier.id && tier.segments.of(away.at) == source.segment;
                if view.away().is_some_and(|away| leads(away) && !is_whole(away.at, view.key())) {
                    let item = Pending::new(store, place, view);
                    if let Some(found) = item.find(store) {
                        tier.note_broken();
                        self.evict(&item, found);
                    }
                }
            }
        }
    }
}

/// Whether all that a tenant holds is within its floor.
fn is_within_floor(tenant: &Tenant) -> bool {
    let floor = floor_of(tenant);
    0 < floor && tenant.held().0 <= floor
}

/// The item that leads to a record.
fn find<'a>(
    store: &'a Store,
    reader: &'a Participant,
    tier: &Tier,
    entry: &Entry,
) -> Option<(Found, Pending<'a>)> {
    let leads = |slot: Slot| {
        let away = store.log.view(reader, slot.place()).away();
        away.is_some_and(|away| (away.tier, away.at) == (tier.id, entry.at))
    };
    let found = store.index.find_surely(entry.hash, &mut { leads })?;
    let place: Place = found.slot.place();
    Some((found, Pending { place, hash: entry.hash, view: store.log.view(reader, place) }))
}

impl Tier {
    /// Tenants by their rows.
    pub(crate) fn tenants_by_owner(&self) -> Vec<Option<TenantId>> {
        let mut tenants = vec![None; self.notes.rows()];
        for (id, owner) in (0..).zip(&self.owners) {
            let owner = owner.load(Ordering::Relaxed);
            if owner != NOBODY.0 {
                tenants[owner as usize] = Some(TenantId(id));
            }
        }
        tenants
    }
}
