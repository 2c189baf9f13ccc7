//! The content of tiers after a start: from what was saved at a clean end, or else from the records themselves.
//!
//! Shape:      notes -> tenants by name -> a saved index whose mark the notes carry, or every record whose bit is set -> all of it is
//!             there, and nobody has changed anything -> the saved index is gone, and the notes are of this start
//! Invariants: a record comes back if its bit is set, its checksum is right, its tenant is there and was not flushed since,
//!             and no newer record of its key is there; everything else is dropped. A start that ends before it serves leaves the
//!             saved index and whose the notes are as they were; once one serves, no later start takes either for the last
//! Units:      seconds since 1970 in records, seconds of the store's clock in items
//! Cost:       without a saved index, a read of every segment that holds something
//! Failure:    a record that cannot be read is dropped unless a saved item leads there: that is missed until it can be read

#[cfg(test)]
#[cfg(not(any(shuttle, miri)))]
mod tests;

use super::notes::{Known, Owner};
use super::record::{self, Record};
use super::saved::{self, NotTaken};
use super::starts::{self, Start};
use super::{GONE, NOBODY, Reference, Tier};
use crate::Headway;
use crate::account::unlink;
use crate::hash::Space;
use crate::item::Meta;
use crate::store::Store;
use crate::sync::Ordering;
use crate::tier::doors::expiry_of_wall;
use crate::worker::{Old, Refused, Worker};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::TenantId;

/// Stamps of a start that was not clean begin at a multiple of this: no earlier start came so far.
const STAMPS_PER_START: u64 = 1 << 40;

/// What came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Items.
    pub items: u64,
    /// Records that could not be trusted, or whose tenants are not there, or that had expired or were flushed.
    pub dropped: u64,
    /// All of it came from a saved index.
    pub from_saved: bool,
    /// Why what was saved was not taken, or not all of it.
    pub not_taken: Option<NotTaken>,
}

/// What is known of the rows of one tier.
type Rows = HashMap<Owner, (TenantId, Known)>;

/// What a start has found, as long as nobody is served: the next start would find it again.
#[derive(Debug)]
#[must_use]
pub struct Found {
    /// What of it came back.
    pub restored: Restored,
    /// Tiers whose notes survived, with their rows.
    tiers: Vec<(usize, Rows)>,
    /// A file that must not be taken for the state of a later end.
    used: Option<PathBuf>,
}

impl Worker {
    /// As [`Worker::recover`] and then [`Worker::begin_serving`], for who serves at once. A file that cannot be removed is told of
    /// by neither.
    pub fn restore(
        &mut self,
        saved: Option<&Path>,
        adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
    ) -> Restored {
        let found = self.recover(saved, adopt, &Headway::default());
        found.map_or_else(Restored::default, |found| {
            let restored = found.restored;
            let _is_gone = self.begin_serving(found);
            restored
        })
    }

    /// Brings back what tiers hold from before, and what was saved at `saved` by a clean end; none if it was broken off. Called
    /// once, after the tenants that are configured have been added and before anything else. `adopt` may add a tenant of a name
    /// that nobody has, or say that there is none: its items are dropped. Whoever ends before [`Worker::begin_serving`] leaves all
    /// that came back to the next start.
    pub fn recover(
        &mut self,
        saved: Option<&Path>,
        adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
        headway: &Headway,
    ) -> Option<Found> {
        let store = Arc::clone(&self.store);
        let start = starts::begin(&store, saved);
        let rows: Vec<Rows> =
            start.known.iter().map(|at| match_rows(&store, &store.tiers[*at], adopt)).collect();
        store.stamps.fetch_max(start.boot.saturating_mul(STAMPS_PER_START), Ordering::Relaxed);
        let flushed = rows.iter().flat_map(HashMap::values).map(|(_, known)| known.flushed_below);
        // What is written from now on is not flushed.
        store.stamps.fetch_max(flushed.max().unwrap_or(0), Ordering::Relaxed);
        let taken = saved.map(|path| self.take_saved(path, &start, adopt, headway));
        let (mut restored, is_used) = taken.unwrap_or_default();
        restored.dropped += start.left_out;
        let led = self.led_to(&store, headway);
        for (at, rows) in start.known.iter().zip(&rows) {
            let tier = &store.tiers[*at];
            let before = restored;
            if !restored.from_saved || led[*at] != tier.count_kept() {
                restored.from_saved = false;
                self.expect_items(tier.count_kept().saturating_sub(led[*at]));
                self.scan(&store, tier, rows, &mut restored, headway);
            }
            tier.segments.adopt_filled();
            let of_tier = led[*at] + restored.items - before.items;
            tier.counters.restored.store(of_tier, Ordering::Relaxed);
            tier.counters.dropped.store(restored.dropped - before.dropped, Ordering::Relaxed);
        }
        self.reader.quiesce();
        let used = saved.filter(|_| is_used).map(Path::to_owned);
        let tiers = start.known.into_iter().zip(rows).collect();
        (!headway.is_broken_off()).then_some(Found { restored, tiers, used })
    }

    /// The last step before anybody is served, and with it before anything changes: what was saved is removed, unless no clean end
    /// has written it, and the notes of tiers are of this start from now on. Without this call tiers that outlive the process take
    /// nothing. What the file took on the disk is given back when what this returns is dropped, which may take a while.
    ///
    /// # Errors
    /// If the file cannot be removed: nobody may be served then, for a later start would take it for the last state.
    pub fn begin_serving(&mut self, found: Found) -> io::Result<Option<File>> {
        let Found { tiers, used, .. } = found;
        let store = Arc::clone(&self.store);
        let held = used.as_deref().and_then(|path| File::open(path).ok());
        if let Some(path) = used.as_deref() {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            // Where a folder cannot be settled, a crash of the machine may bring the name back.
            let _settled = saved::settle_name(path);
        }
        store.tiers.iter().for_each(Tier::settle_given_up);
        starts::serve(&store);
        for (at, rows) in tiers {
            self.finish(&store, &store.tiers[at], &rows);
        }
        self.reader.quiesce();
        Ok(held)
    }

    /// Brings back what a clean end has saved; says, too, whether the file is not to be there for a later start.
    fn take_saved(
        &mut self,
        path: &Path,
        start: &Start,
        adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>,
        headway: &Headway,
    ) -> (Restored, bool) {
        // Without a tier that outlives the process nothing but the file itself says that it is the last.
        let loaded = match saved::load(self, path, |told| start.is_of(told), adopt, headway) {
            Ok(None) => return <_>::default(),
            Ok(Some(loaded)) => loaded,
            Err(why) => {
                return (Restored { not_taken: Some(why), ..Restored::default() }, why.is_ours());
            }
        };
        let store = &self.store;
        let flushes = loaded.flushes.into_iter();
        flushes.for_each(|(tenant, wall)| store.flush(tenant, store.secs_of_wall(wall)));
        (loaded.restored, true)
    }

    fn finish(&self, store: &Store, tier: &Tier, rows: &Rows) {
        for (owner, known) in tier.notes.owners() {
            if !rows.contains_key(&owner) || known.flushed_below == GONE {
                tier.notes.leave(owner);
            }
        }
        tier.set_begun();
        for tenant in store.tenants().filter(|tenant| !tenant.is_gone()) {
            if tier.owner(tenant.id) == NOBODY {
                store.enter_tier(tier, tenant);
            }
        }
        for (tenant, known) in rows.values().filter(|(_, known)| known.flush_at != 0) {
            let wall = u32::try_from(known.flush_at).unwrap_or(u32::MAX);
            store.flush(*tenant, store.secs_of_wall(wall));
        }
    }

    /// Makes the index large enough for so many more items at once.
    pub(super) fn expect_items(&self, items: u64) {
        self.store.index.reserve(items, |slot| self.store.hash_at(&self.reader, slot));
        self.store.adjust_allowed();
    }

    /// Records of each tier that items lead to.
    fn led_to(&self, store: &Store, headway: &Headway) -> Vec<u64> {
        let mut led = vec![0; store.tiers.len()];
        let buckets = if led.is_empty() { 0 } else { store.index.buckets() };
        for bucket in (0..buckets).take_while(|_| !headway.is_broken_off()) {
            store.index.each_in(bucket, |slot| {
                if let Some(away) = store.log.view(&self.reader, slot.place()).away() {
                    led[usize::from(away.tier)] += 1;
                }
            });
        }
        led
    }

    /// Places in a tier that items lead to, in rising order: 8 B each.
    fn places_led_to(&self, store: &Store, tier: &Tier) -> Vec<u64> {
        let mut places = Vec::new();
        for bucket in 0..store.index.buckets() {
            store.index.each_in(bucket, |slot| {
                let away = store.log.view(&self.reader, slot.place()).away();
                places.extend(away.filter(|away| away.tier == tier.id).map(|away| away.at));
            });
        }
        places.sort_unstable();
        places
    }

    /// Looks at every record of a tier whose bit is set. One that cannot be read stays where an item leads there already.
    fn scan(
        &mut self,
        store: &Arc<Store>,
        tier: &Tier,
        rows: &Rows,
        restored: &mut Restored,
        headway: &Headway,
    ) {
        // Once for all segments: who leads to what cannot be read came from what was saved, before the first of them.
        let mut led: Option<Vec<u64>> = None;
        for segment in (0..tier.segments.count()).take_while(|_| !headway.is_broken_off()) {
            headway.reach(restored.items);
            let range = tier.segments.range(segment);
            let mut live = Vec::new();
            tier.notes.each_live(range.clone(), |at| live.push(at));
            live.retain(|at| tier.has_kept(*at));
            if live.is_empty() {
                continue;
            }
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
            if tier.device.read(range.start, &mut bytes).is_err() {
                tier.note_unread();
                let led = led.get_or_insert_with(|| self.places_led_to(store, tier));
                for at in live.into_iter().filter(|at| led.binary_search(at).is_err()) {
                    restored.dropped += 1;
                    tier.give_up(at);
                }
                continue;
            }
            // To make room for one item another may go, and its bit with it.
            for at in live.into_iter().filter(|at| tier.has_kept(*at)) {
                let bytes = &bytes[usize::try_from(at - range.start).unwrap_or(0)..];
                let record = record::decode(tier.spot(at), bytes);
                record.inspect(|record| self.draw_beyond(record.fields.stamp));
                let is_back = record.is_some_and(|record| self.take_back(store, tier, at, &record, rows));
                if is_back {
                    restored.items += 1;
                } else if !self.leads_to(store, tier, at, bytes, rows) {
                    restored.dropped += 1;
                    tier.give_up(at);
                }
            }
            self.reader.quiesce();
        }
    }

    /// Stamps that are drawn from now on are greater, also where somebody else counted starts.
    fn draw_beyond(&self, stamp: u64) {
        if self.store.stamps.load(Ordering::Relaxed) <= stamp {
            self.store.stamps.fetch_max(stamp.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Whether an item leads to this record already.
    fn leads_to(&self, store: &Store, tier: &Tier, at: u64, bytes: &[u8], rows: &Rows) -> bool {
        let Some(record) = record::parse(bytes) else { return false };
        let Some((tenant, _)) = rows.get(&record.fields.owner) else { return false };
        let hash = store.hasher.hash(space_of(&record, *tenant), record.key);
        let leads = &mut |slot: crate::slot::Slot| {
            let away = store.log.view(&self.reader, slot.place()).away();
            away.is_some_and(|away| (away.tier, away.at) == (tier.id, at))
        };
        store.index.find_surely(hash, leads).is_some()
    }

    /// Makes the item of a record again, if it may come back.
    fn take_back(
        &mut self,
        store: &Arc<Store>,
        tier: &Tier,
        at: u64,
        record: &Record<'_>,
        rows: &Rows,
    ) -> bool {
        let fields = &record.fields;
        let Some((tenant, known)) = rows.get(&fields.owner) else { return false };
        let expires_at = expiry_of_wall(store, fields.expires_wall);
        let is_due = known.flush_at != 0 && known.flush_at <= u64::from(store.wall_of(store.now_secs()));
        let dead = fields.stamp < known.flushed_below
            || is_due
            || (expires_at != 0 && expires_at <= store.now_secs());
        if dead || fields.own_space != store.tenant(*tenant).has_own_space() {
            return false;
        }
        let value_len = u32::try_from(record.value.len()).unwrap_or(u32::MAX);
        let away = Reference { tier: tier.id, at, value_len };
        let meta = Meta {
            tenant: *tenant,
            own_space: fields.own_space,
            client_flags: fields.client_flags,
            expiry: (expires_at != 0).then(|| crate::expiry::expiry_at(expires_at, store.now_secs())),
            cas: fields.cas,
            state: fields.state,
            remembered: 0,
            away: Some(away),
            stamp: 0,
            is_apart: false,
        };
        let made =
            Made { meta, key: record.key, value: &[], stamp: fields.stamp, tick: store.tick(), uses: 0 };
        self.make(&made)
    }

    /// Puts an item into the log as it was. Returns whether it is there: not if a newer one of its key is, or no room.
    pub(super) fn make(&mut self, made: &Made<'_>) -> bool {
        let space = if made.meta.own_space { Space::Own(made.meta.tenant) } else { Space::Shared };
        for _ in 0..MAKES_MAX {
            let Some(key) = self.key(space, made.key) else { return false };
            let locked = self.store.index.lock(key.hash());
            let old = self.live(&locked, &key);
            if self.is_older(&old, made) {
                return false;
            }
            if let Some(found) = old.found() {
                // A crash between two steps of a write left both.
                let view = self.store.log.view(&self.reader, found.slot.place());
                locked.remove(found);
                unlink(&self.store, &self.counters, found.slot.place(), &view);
            }
            let put = self.put_as_it_was(&locked, &key, made);
            drop(locked);
            self.after_make();
            match put {
                Ok(()) => return true,
                Err(Refused::NoRoom) => {
                    if self.make_room().is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        false
    }

    fn is_older(&self, old: &Old<'_>, made: &Made<'_>) -> bool {
        let Some(found) = old.found() else { return false };
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        // What was moved in the log keeps its CAS value where its stamp changed; both rise together unless clients say.
        let there = view.cas().unwrap_or_else(|| self.store.stamp_of(place, &view));
        made.meta.cas.unwrap_or(made.stamp) <= there
    }
}

/// Tries for one item: each makes room for more than that.
const MAKES_MAX: u32 = 8;

/// An item to be made as it was.
pub(crate) struct Made<'a> {
    pub(crate) meta: Meta,
    pub(crate) key: &'a [u8],
    /// The value, if it is not in a tier.
    pub(crate) value: &'a [u8],
    pub(crate) stamp: u64,
    pub(crate) tick: u8,
    pub(crate) uses: u8,
}

fn space_of(record: &Record<'_>, tenant: TenantId) -> Space {
    if record.fields.own_space { Space::Own(tenant) } else { Space::Shared }
}

/// Finds the tenants of a tier's rows.
fn match_rows(store: &Store, tier: &Tier, adopt: &mut dyn FnMut(&str, bool) -> Option<TenantId>) -> Rows {
    let mut rows = Rows::new();
    for (owner, known) in tier.notes.owners().filter(|(_, known)| known.flushed_below != GONE) {
        let Ok(name) = std::str::from_utf8(&known.name) else { continue };
        let id = store.tenant_named(name, known.own_space).or_else(|| adopt(name, known.own_space));
        let Some(id) = id.filter(|id| tier.owner(*id) == NOBODY) else { continue };
        tier.set_owner(id, owner);
        rows.insert(owner, (id, known));
    }
    rows
}
