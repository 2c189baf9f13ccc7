//! Making an item: its bytes into the log, the index pointing at it, everybody's accounts.
//!
//! Invariants: a write that finds no room has had no effect
//! Failure:    no segment, or no place in the index: `Refused::NoRoom`

use super::away::Content;
use super::{Fields, Key, Old, Refused, Worker};
use crate::account::{link, replace, unlink};
use crate::census::remembered_of;
use crate::curves::SampledKind;
use crate::expiry::expiry_at;
use crate::hash::{KeyHash, Space};
use crate::index::{Found, Locked};
use crate::item::{Apart, Meta, Sizes, View};
use crate::limits;
use crate::log::{Coming, Head, Lent};
use crate::metrics::count;
use crate::shadow::Shadow;
use crate::slot::{Place, Slot};
use crate::stamps::{Needed, restamp};
use crate::store::STAMP_BLOCK;
use crate::sync::{Ordering, try_lock};
use crate::tenant::Tenant;
use units::{Bytes, TenantId};

/// An item to be made.
pub(super) struct Draft<'v> {
    pub(super) fields: Fields,
    pub(super) content: Content<'v>,
    pub(super) identity: Identity,
    /// Bits of `item::state`.
    pub(super) state: u8,
    /// Whoever writes asked for the item that is there. An item that is stored anew, marked or moved is as used as it was.
    pub(super) is_use: bool,
    /// The look-up that ends with this write: it is sampled with it, once however often the write was refused before.
    pub(super) look_up: Option<SampledKind>,
}

/// What an item's CAS value is.
#[derive(Clone, Copy)]
pub(super) enum Identity {
    /// A new one.
    New,
    /// What the client says.
    Told(u64),
    /// As it was: nothing new is stored.
    Kept(Kept),
}

/// Identity that an item keeps when it is written again.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) stamp: u64,
    pub(super) cas: Option<u64>,
}

impl Old<'_> {
    /// The state that outlives a change of the value.
    pub(super) fn lasting_state(&self) -> u8 {
        self.live.map_or(0, |(_, view)| view.state() & crate::item::state::BINARY_KEY)
    }
}

impl Kept {
    /// Identity of an item that is there.
    pub(super) fn of(worker: &Worker, found: Found, view: &View<'_>) -> Self {
        Self { stamp: worker.store.stamp_of(found.slot.place(), view), cas: view.cas() }
    }
}

impl Worker {
    /// Writes an item and makes the index point at it; returns its CAS value.
    pub(super) fn write(
        &self,
        locked: &Locked<'_>,
        tenant: TenantId,
        key: &Key<'_>,
        old: &Old<'_>,
        draft: &Draft<'_>,
    ) -> Result<u64, Refused> {
        // What a request before wanted that was answered otherwise.
        self.wanted.set(0);
        self.crowded.set(false);
        let content = draft.content;
        let owner = self.store.tenant(tenant);
        let value_len = content.len();
        let placed = self.placed(old, content.value());
        let mut meta = self.meta_of(tenant, key, draft);
        let stamp = match draft.identity {
            Identity::Kept(kept) if owner.survivors_from() <= kept.stamp => kept.stamp,
            // It was another tenant's, and this one was flushed since it was stored.
            Identity::Kept(kept) => {
                meta.cas = Some(kept.cas.unwrap_or(kept.stamp));
                self.stamp_after(old, owner)
            }
            _ => self.stamp_after(old, owner),
        };
        let has_cas = meta.cas.is_some();
        let stored_len = (key.bytes.len() + value_len) as u64;
        let (remembered, is_recalled) = self.remembered(key, old, stored_len);
        meta.remembered = remembered;
        let needed = Needed::new(meta.item_len(key.bytes.len(), value_len), has_cas);
        meta.is_apart = placed.is_some() || self.store.geometry.in_segment_max.as_usize() < needed.at_most();
        self.allow(owner, &meta, (key.bytes.len(), value_len), old, draft)?;
        let mut head = self.head.borrow_mut();
        let made = self.put_away(&mut meta, key, stamp, content, &mut head)?;
        let value = content.value();
        let tail_len = if meta.is_apart { Apart::BYTES } else { value_len };
        let in_segment = Needed::new(meta.item_len(key.bytes.len(), tail_len), has_cas);
        let head = self.head_for(&mut head, in_segment, stamp)?;
        let coming = if placed.is_none() && meta.is_apart { Some(self.make_value(value)?) } else { None };
        let apart = placed.or(coming.map(|coming| coming.apart));
        restamp(&mut meta, stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(key.bytes.len(), tail_len, &mut header);
        let reference = apart.map(Apart::encode);
        let tail = reference.as_ref().map_or(value, |reference| [reference.as_slice(), &[]]);
        let tail = if meta.away.is_some() { [&[][..], &[]] } else { tail };
        let parts = [&header[..header_len], key.bytes, tail[0], tail[1]];
        let below = meta.away.map_or(0, |away| away.footprint(key.bytes.len()));
        let sizes = Sizes::new(parts.iter().map(|p| p.len()).sum(), apart).with_below(below);
        let place = self.store.log.append(head, parts).expect("the head was made for this item");
        let uses = self.uses_after(old, draft.is_use);
        if let Err(refused) = self.publish(locked, key, old, (place, &meta, uses), (sizes, apart), stamp) {
            // The bytes written are dead; the retry, for which `make_room` grows the index, writes them again.
            coming.inspect(|coming| self.store.log.give_up_value(*coming));
            made.inspect(|made| self.store.tier(*made).abandon(*made, key.bytes.len()));
            return Err(refused);
        }
        if is_recalled && meta.remembered != 0 {
            self.store.ghosts.forget(key.hash, stored_len);
        }
        made.inspect(|made| self.store.tier(*made).hold(*made));
        self.counters(tenant).dram.count_write(Bytes(sizes.whole as u64));
        if owner.samples(key.hash) {
            if let Some(kind) = draft.look_up {
                let found = old.live.as_ref().map_or(0, |(_, view)| view.sizes().charge());
                self.sample(owner, key.hash, kind, found);
            }
            self.sample(owner, key.hash, SampledKind::Write, sizes.charge());
        }
        if owner.is_over_ceiling() {
            self.store.ceiling_hint.store(1, Ordering::Relaxed);
        }
        Ok(meta.cas.unwrap_or(stamp))
    }

    /// What is remembered of the key of a new item, and whether by a ghost and not by the item that is there. One that a look-up has made
    /// without a value stands for none.
    fn remembered(&self, key: &Key<'_>, old: &Old<'_>, stored_len: u64) -> (u8, bool) {
        match old.live {
            Some((found, view)) if view.value_len() != 0 || view.remembered() != 0 => {
                (remembered_of(&self.store, found.slot, &view), false)
            }
            _ => (self.store.ghosts.recall(key.hash, stored_len, self.store.tick_count()), true),
        }
    }

    /// Everything of a new item but its stamp, key and value.
    fn meta_of(&self, tenant: TenantId, key: &Key<'_>, draft: &Draft<'_>) -> Meta {
        let Fields { client_flags, expires_at } = draft.fields;
        Meta {
            tenant,
            own_space: key.space != Space::Shared,
            client_flags,
            expiry: (expires_at != 0).then(|| expiry_at(expires_at, self.store.now_secs())),
            cas: match draft.identity {
                Identity::New => None,
                Identity::Told(cas) => Some(cas),
                Identity::Kept(kept) => kept.cas,
            },
            state: draft.state,
            remembered: 0,
            away: draft.content.away(),
            stamp: 0,
            is_apart: false,
        }
    }

    /// Refuses what is too large, or beyond the share of a tenant that wants that.
    fn allow(
        &self,
        owner: &Tenant,
        meta: &Meta,
        (key_len, value_len): (usize, usize),
        old: &Old<'_>,
        draft: &Draft<'_>,
    ) -> Result<(), Refused> {
        let counters = self.counters(owner.id);
        let len = meta.item_len(key_len, value_len);
        if self.store.geometry.item_max.as_usize() < Needed::new(len, meta.cas.is_some()).at_most() {
            count(&counters.store_too_large);
            return Err(Refused::TooLarge);
        }
        self.no_memory_for.set((len, meta.own_space));
        // A touch stores nothing new.
        if owner.may_refuse() && !matches!(draft.identity, Identity::Kept(_)) {
            let sizes = if meta.is_apart {
                let apart = Apart { first: 0, len: u32::try_from(value_len).unwrap_or(u32::MAX) };
                Sizes::new(meta.item_len(key_len, Apart::BYTES), Some(apart))
            } else {
                Sizes::new(len, None)
            };
            if owner.refuses(change_of(old, owner.id, sizes)) {
                count(&counters.writes_refused);
                self.note_no_memory(owner.id, None);
                return Err(Refused::OverShare);
            }
        }
        Ok(())
    }

    /// The use counter of an item that takes the place of an old one.
    fn uses_after(&self, old: &Old<'_>, is_use: bool) -> u8 {
        let Some((found, _)) = old.live else { return 0 };
        let uses = found.slot.uses();
        if is_use { self.raised(uses) } else { uses }
    }

    /// Makes the index point at an item that is written, and everybody's accounts say so.
    fn publish(
        &self,
        locked: &Locked<'_>,
        key: &Key<'_>,
        old: &Old<'_>,
        (place, meta, uses): (Place, &Meta, u8),
        (sizes, apart): (Sizes, Option<Apart>),
        stamp: u64,
    ) -> Result<(), Refused> {
        let store = &self.store;
        let tick = store.tick();
        if let Some((found, view, _)) = &old.found {
            let found = *found;
            locked.renew(found, Slot::new(key.hash, place, tick, uses));
            let from = found.slot.place();
            replace(store, &self.counters, (from, view), (place, meta), sizes, stamp);
            if let Some(before) = view.apart().filter(|before| apart != Some(*before)) {
                store.log.retire_value(&store.epochs, before);
            }
        } else if !locked.insert(Slot::new(key.hash, place, tick, uses), |s| store.hash_at(&self.reader, s)) {
            self.crowded.set(true);
            return Err(Refused::NoRoom);
        } else {
            forget_shadow(store.tenant(meta.tenant), key.hash);
            link(store, &self.counters, place, meta, sizes, stamp);
        }
        if let Some(apart) = apart {
            store.log.link_value(apart, key.hash);
        }
        Ok(())
    }

    /// Where a value is already, if it needs not be written: it is the old item's, or was uploaded.
    fn placed(&self, old: &Old<'_>, value: [&[u8]; 2]) -> Option<Apart> {
        let [value, rest] = value;
        if !rest.is_empty() || value.is_empty() {
            return None;
        }
        let view = old.live.as_ref().map(|(_, view)| view);
        let kept = view.filter(|view| std::ptr::eq(view.value(), value)).and_then(View::apart);
        kept.or_else(|| self.store.log.uploaded(value))
    }

    /// Writes a value into pages of its own.
    fn make_value(&self, value: [&[u8]; 2]) -> Result<Coming, Refused> {
        let log = &self.store.log;
        let len = value[0].len() + value[1].len();
        let Some(coming) = log.begin_value(len) else {
            // Addresses, too, become free when something goes.
            self.wanted.set(log.available());
            return Err(Refused::NoRoom);
        };
        if let Lent::NoRoom(segments) = log.back_value(&self.store.epochs, coming, len, u64::MAX) {
            log.give_up_value(coming);
            self.wanted.set(segments);
            return Err(Refused::NoRoom);
        }
        log.write_value(coming.apart, 0, value[0]);
        log.write_value(coming.apart, value[0].len(), value[1]);
        self.store.note_written(Bytes(len as u64));
        Ok(coming)
    }

    /// The head, with room for what is needed and a base near the stamp.
    pub(super) fn head_for<'h>(
        &self,
        head: &'h mut Option<Head>,
        needed: Needed,
        stamp: u64,
    ) -> Result<&'h mut Head, Refused> {
        let fits = head.as_ref().is_some_and(|h| self.store.log.fits(h, needed, stamp));
        if !fits {
            let store = &self.store;
            let base = store.stamp_base();
            let next = store.log.take(&store.epochs, limits::RESERVE_SEGMENTS, base, store.now_secs());
            let next = next.ok_or(Refused::NoRoom)?;
            store.note_written(store.geometry.segment);
            if let Some(full) = head.replace(next) {
                store.log.seal(full);
                // What has died in it can be taken back from now on.
                if store.no_evict {
                    store.passes.full.note_freed(store.geometry.segment.0);
                }
            }
        }
        Ok(head.as_mut().expect("made above if there was none"))
    }

    /// A stamp greater than the old item's, which survives the flushes so far.
    fn stamp_after(&self, old: &Old<'_>, owner: &Tenant) -> u64 {
        let old_stamp = old.found.as_ref().map_or(0, |(.., stamp)| *stamp);
        self.new_stamp(old_stamp.max(owner.survivors_from()))
    }

    /// A stamp greater than `after`.
    fn new_stamp(&self, after: u64) -> u64 {
        let (mut next, mut end) = self.stamps.get();
        while next == end || next <= after || next < self.store.stamps_of_second() {
            next = self.store.stamp_block();
            end = next + STAMP_BLOCK;
        }
        self.stamps.set((next + 1, end));
        next
    }

    /// Counts accesses to tiers, and grows the index if it is crowded. Called without locks.
    pub(super) fn after_write(&self) {
        self.pay();
        let index = &self.store.index;
        if index.is_crowded() {
            index.grow(false, |slot| self.store.hash_at(&self.reader, slot));
            self.store.adjust_allowed();
        }
    }

    pub(super) fn unlink_found(&self, locked: &Locked<'_>, old: &Old<'_>) {
        if let Some((found, view, _)) = &old.found {
            locked.remove(*found);
            unlink(&self.store, &self.counters, found.slot.place(), view);
        }
    }
}

/// By how much a tenant holds more once an item of this size takes the place of an old one.
fn change_of(old: &Old<'_>, tenant: TenantId, sizes: Sizes) -> i64 {
    let own = old.live.as_ref().map(|(_, view)| view).filter(|view| view.tenant() == tenant);
    sizes.charge() - own.map_or(0, |view| view.sizes().charge())
}

/// A key that is stored again is no eviction any more.
pub(super) fn forget_shadow(owner: &Tenant, hash: KeyHash) {
    if Shadow::may_know(hash, owner.sampling())
        && let Some(mut shadow) = try_lock(&owner.shadow)
    {
        shadow.remove(hash);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::worker::{Count, Fetch, Remove};
    use crate::{Mode, Options, Placement, Promotion, RankKind, Store, TenantSpec};
    use media::{Device, Plain};
    use std::sync::Arc;

    /// A store with these tiers, its first thread, and a tenant whose values go where `placement` says.
    fn start(tiers: &[Arc<dyn Device>], placement: Placement) -> (Arc<Store>, Worker, TenantId) {
        let (memory, item_max) = (Bytes::mib(8), Bytes::kib(64));
        let options = Options { memory, item_max, threads: 2, tenants_max: 4, no_evict: false, seed: 1 };
        let store = Store::with_tiers(options, tiers, 0).unwrap();
        let mut worker = store.worker().unwrap();
        worker.restore(None, &mut |_, _| None);
        let (name, claim, rank) = ("t".to_owned(), control::Claim::default(), RankKind::Lru);
        let tenant = store.add_tenant(TenantSpec { name, own_space: false, claim, rank }).unwrap();
        store.set_placement(tenant, placement);
        (store, worker, tenant)
    }

    fn set(worker: &Worker, tenant: TenantId) {
        worker.set(tenant, &key(worker), Mode::Set, Fields::default(), &[b'7'; 2_000]).unwrap();
    }

    fn key(worker: &Worker) -> Key<'static> {
        worker.key(Space::Shared, b"key").unwrap()
    }

    fn uses(worker: &Worker) -> u8 {
        let known = worker.describe(&key(worker)).unwrap();
        assert_eq!(known.fetched, known.uses() != 0);
        known.uses()
    }

    #[test]
    fn only_who_asks_for_an_item_uses_it() {
        let (_store, worker, tenant) = start(&[], Placement::Dram);
        let key = key(&worker);
        let append = || worker.set(tenant, &key, Mode::Append, Fields::default(), b"1").unwrap();
        let mark =
            Remove { compare: None, what: crate::Removal::Item, stale: true, expires_at: None, cas: None };
        for _ in 0..3 {
            set(&worker, tenant);
            append();
            worker.remove(tenant, &key, &mark).unwrap();
            // One reader wins, and leaves no trace else.
            worker.fetch(tenant, &key, &Fetch { no_use: true, ..Fetch::default() }).unwrap();
            assert_eq!(uses(&worker), 0);
        }
        worker.get(tenant, &key).unwrap();
        assert_eq!(uses(&worker), 1);
        for _ in 0..3 {
            set(&worker, tenant);
            append();
            worker.remove(tenant, &key, &mark).unwrap();
        }
        assert_eq!(uses(&worker), 1, "an overwrite makes a hot key neither hotter nor cold");
    }

    /// Whatever the length of the key: what the reply to a `get` has before the value is not a little longer than what the segment has.
    #[test]
    fn a_large_item_at_the_start_of_a_segment_stands_where_it_is_sent_fast() {
        let (memory, item_max) = (Bytes::mib(64), Bytes::mib(1));
        let options = Options { memory, item_max, threads: 1, tenants_max: 1, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        let mut worker = store.worker().unwrap();
        let (name, claim, rank) = ("t".to_owned(), control::Claim::default(), RankKind::Lru);
        let tenant = store.add_tenant(TenantSpec { name, own_space: false, claim, rank }).unwrap();
        // Two to a segment.
        let value = vec![b'7'; store.geometry().segment.as_usize() * 3 / 8];
        for len in (1..=250).cycle().take(400) {
            let name = "k".repeat(len);
            let key = worker.key(Space::Shared, name.as_bytes()).unwrap();
            while worker.set(tenant, &key, Mode::Set, Fields::default(), &value) == Err(Refused::NoRoom) {
                worker.make_room().unwrap();
            }
            let at = worker.get(tenant, &key).unwrap().value().as_ptr().addr() % 4_096;
            let head = format!("VALUE {name} 0 {}\r\n", value.len()).len();
            assert!(!(1..=15).contains(&((head + 4_096 - at) % 4_096)), "{len}: {at} for {head}");
            worker.quiesce();
        }
        crate::check::check(&store, &worker.reader);
    }

    /// A write that asks for the item as well.
    type Ask = fn(&Worker, TenantId);

    #[test]
    fn a_write_that_asks_is_a_use() {
        let asks: [Ask; 4] = [
            |worker, tenant| assert!(worker.touch(tenant, &key(worker), 1_000).unwrap()),
            |worker, tenant| {
                let how = Fetch { touch: Some(1_000), ..Fetch::default() };
                worker.fetch(tenant, &key(worker), &how).unwrap().unwrap();
            },
            |worker, tenant| {
                let how = Fetch { recache_before: Some(3_000), ..Fetch::default() };
                assert!(worker.fetch(tenant, &key(worker), &how).unwrap().unwrap().won);
            },
            |worker, tenant| {
                worker.count_if(tenant, &key(worker), &Count { up: true, ..Count::default() }).unwrap();
            },
        ];
        for (way, ask) in asks.into_iter().enumerate() {
            let (_store, worker, tenant) = start(&[], Placement::Dram);
            let fields = Fields { expires_at: 2_000, ..Fields::default() };
            worker.set(tenant, &key(&worker), Mode::Set, fields, b"7").unwrap();
            ask(&worker, tenant);
            assert_eq!(uses(&worker), 1, "way {way}");
        }
    }

    #[test]
    fn a_hit_that_brings_a_value_back_counts_once() {
        let tier = Arc::new(Plain::new(Bytes::mib(16)).unwrap());
        let (store, worker, tenant) = start(&[tier], Placement::Tier(0));
        store.set_promotion(Promotion::Always);
        // Beyond the first a use raises the counter by chance.
        for round in 1..=20 {
            store.set_placement(tenant, Placement::Tier(0));
            worker.delete(tenant, &key(&worker));
            set(&worker, tenant);
            store.set_placement(tenant, Placement::Auto);
            worker.get(tenant, &key(&worker)).unwrap();
            assert_eq!((store.totals(tenant).promotions, uses(&worker)), (round, 1));
        }
    }
}
