//! A thread's way into the store: every operation on items.
//!
//! Shape:      operations borrow the worker; `quiesce` takes it mutably, so that no item can be held across it
//! Invariants: values returned by look-ups point into the log and live until the worker's next quiescent point
//! Failure:    a write that finds no segment says so (`Refused::NoRoom`): the caller lets go of its items, calls
//!             `make_room` and comes again

use crate::account::{bytes_needed, charge_of, link, restamp, unlink};
use crate::cleaner::Cleaner;
use crate::curves::SampledKind;
use crate::epoch::Participant;
use crate::expiry::expiry_at;
use crate::hash::{KeyHash, Space};
use crate::index::{Found, Locked};
use crate::item::{Meta, View};
use crate::limits;
use crate::log::Head;
use crate::metrics::{Counters, ThreadCounters, count};
use crate::rank::RAISE;
use crate::shadow::Shadow;
use crate::slot::{Slot, USES_MAX};
use crate::store::{STAMP_BLOCK, Store, StoreError, space_of};
use crate::sync::{Ordering, bump};
use crate::tenant::Tenant;
use media::Access;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use units::{Bytes, TenantId};

/// A key, hashed.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: KeyHash,
    space: Space,
}

/// A live item.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    view: View<'a>,
    stamp: u64,
}

/// When to store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Always.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the value that is there; its flags and expiry stay.
    Append,
    /// Before the value that is there; its flags and expiry stay.
    Prepend,
    /// If it has this CAS value.
    Cas(u64),
}

/// What became of a conditional store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// Stored.
    Stored,
    /// The condition of add, replace, append or prepend did not hold.
    NotStored,
    /// The CAS value differs.
    Exists,
    /// There is nothing to compare the CAS value with.
    NotFound,
}

/// What became of an increment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// The new value.
    Value(u64),
    /// There is no item.
    NotFound,
    /// The value is not a decimal number below 2^64.
    NotNumber,
}

/// Why nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No segment is free: let go of items, call `make_room`, come again.
    NoRoom,
    /// The item is larger than the limit.
    TooLarge,
    /// It would leave the tenant with more than its share, and the tenant's writes beyond that are refused.
    OverShare,
}

/// There is no room and nothing may be evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// What to store besides the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fields {
    /// The client's flags.
    pub client_flags: u32,
    /// Second of the store's clock at which it expires, 0 for never.
    pub expires_at: u32,
}

/// A thread's place in a store.
#[derive(Debug)]
pub struct Worker {
    pub(crate) store: Arc<Store>,
    pub(crate) reader: Participant,
    head: RefCell<Option<Head>>,
    pub(crate) counters: Arc<ThreadCounters>,
    stamps: Cell<(u64, u64)>,
    rng: Cell<u64>,
    /// The index found no place for the last item.
    pub(crate) crowded: Cell<bool>,
    pub(crate) cleaner: Option<Box<Cleaner>>,
    /// Many sampled accesses wait to be drained.
    samples_wait: Cell<bool>,
}

impl<'k> Key<'k> {
    /// The key itself.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }
}

impl<'a> Item<'a> {
    /// The value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.view.value()
    }

    /// The client's flags.
    #[inline]
    #[must_use]
    pub fn client_flags(&self) -> u32 {
        self.view.client_flags()
    }

    /// The CAS value: monotone per key, unchanged by the cleaner and by touch.
    #[must_use]
    pub fn cas(&self) -> u64 {
        self.view.cas().unwrap_or(self.stamp)
    }

    /// Second of the store's clock at which it expires, 0 for never.
    #[must_use]
    pub fn expires_at(&self) -> u32 {
        self.view.expiry().map_or(0, |e| e.at)
    }

    /// Who it is charged to.
    #[must_use]
    pub fn tenant(&self) -> TenantId {
        self.view.tenant()
    }
}

impl Store {
    /// A thread's place in this store.
    ///
    /// # Errors
    /// If too many threads have one.
    pub fn worker(self: &Arc<Self>) -> Result<Worker, StoreError> {
        let reader = self.epochs.join().ok_or(StoreError::Threads)?;
        Ok(Worker {
            counters: self.lend_counters(),
            rng: Cell::new(self.thread_rng().next_u64() | 1),
            store: Arc::clone(self),
            reader,
            head: RefCell::new(None),
            stamps: Cell::new((0, 0)),
            crowded: Cell::new(false),
            cleaner: None,
            samples_wait: Cell::new(false),
        })
    }
}

impl Worker {
    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Hashes a key; none if it is empty or longer than 250 bytes.
    #[inline]
    #[must_use]
    pub fn key<'k>(&self, space: Space, bytes: &'k [u8]) -> Option<Key<'k>> {
        let valid = !bytes.is_empty() && bytes.len() <= limits::KEY_MAX;
        valid.then(|| Key { bytes, hash: self.store.hasher.hash(space, bytes), space })
    }

    /// Starts loading the index lines of a key.
    #[inline]
    pub fn prefetch_index(&self, key: &Key<'_>) {
        self.store.index.prefetch(key.hash);
    }

    /// Starts loading the item of a key; useful once its index lines are here.
    #[inline]
    pub fn prefetch_item(&self, key: &Key<'_>) {
        self.store.index.peek(key.hash, |slot| self.store.log.prefetch(slot.place()));
    }

    /// Lets go of every item: segments may be reused.
    #[inline]
    pub fn quiesce(&mut self) {
        self.reader.quiesce();
    }

    /// Leaves before sleeping, so that nobody waits for this thread.
    pub fn go_offline(&mut self) {
        self.reader.go_offline();
    }

    /// Comes back after sleeping.
    pub fn go_online(&mut self) {
        self.reader.go_online();
    }

    fn counters(&self, tenant: TenantId) -> &Counters {
        self.counters.of(tenant.index())
    }

    #[inline]
    fn is_key(&self, slot: Slot, key: &Key<'_>) -> bool {
        let view = self.store.log.view(&self.reader, slot.place());
        view.key() == key.bytes && space_of(&view) == key.space
    }

    /// Looks a key up for a tenant.
    #[inline]
    pub fn get(&self, tenant: TenantId, key: &Key<'_>) -> Option<Item<'_>> {
        let counters = self.counters(tenant);
        let Some(found) = self.store.index.find(key.hash, |slot| self.is_key(slot, key)) else {
            self.miss(tenant, key, counters, SampledKind::LookUp);
            return None;
        };
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        let expired = self.store.is_expired(&view);
        if expired || self.store.is_flushed(place, &view) {
            count(if expired { &counters.get_expired } else { &counters.get_flushed });
            self.miss(tenant, key, counters, SampledKind::DeadLookUp);
            return None;
        }
        count(&counters.get_hits);
        count(&self.counters.class(view.bytes().len(), view.own_space()).get_hits);
        counters.meter.count(Access::DramRead, Bytes(view.bytes().len() as u64));
        let owner = self.store.tenant(tenant);
        self.note_use(owner, found);
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, SampledKind::LookUp, view.bytes().len());
        }
        Some(Item { view, stamp: self.store.stamp_of(place, &view) })
    }

    /// Looks a key up without counting or noting a use.
    pub fn peek(&self, key: &Key<'_>) -> Option<Item<'_>> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        let dead = self.store.is_expired(&view) || self.store.is_flushed(place, &view);
        (!dead).then(|| Item { view, stamp: self.store.stamp_of(place, &view) })
    }

    /// Looks a key up, whether its item has expired or not, without counting: the answer to a touch that ends it.
    pub fn peek_dead(&self, key: &Key<'_>) -> Option<Item<'_>> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        Some(Item { view, stamp: self.store.stamp_of(place, &view) })
    }

    /// Counts a storing command whose data could not be used.
    pub fn note_refused_set(&self, tenant: TenantId) {
        count(&self.counters(tenant).cmd_set);
    }

    /// Counts a write that found no memory, and takes the older item of its key along if it was to be replaced: nobody
    /// shall take it for the new one (as memcached does).
    pub fn note_no_memory(&self, tenant: TenantId, replaced: Option<&Key<'_>>) {
        count(&self.counters(tenant).store_no_memory);
        if let Some(key) = replaced {
            self.discard(key);
        }
    }

    /// Removes a key without counting: its new value was refused.
    pub fn discard(&self, key: &Key<'_>) {
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        self.unlink_found(&locked, &old);
    }

    #[inline]
    fn note_use(&self, owner: &Tenant, found: Found) {
        let uses = found.slot.uses();
        let raised = u8::from(uses < USES_MAX && self.draw() <= RAISE[usize::from(uses)]);
        let tick = self.store.tick();
        if let Some(learnt) = owner.learnt() {
            learnt.note_hit(uses, tick.wrapping_sub(found.slot.tick()));
        }
        if raised != 0 || found.slot.tick() != tick {
            self.store.index.note_use(found, tick, uses + raised);
        }
    }

    /// 32 random bits (xorshift64*).
    #[inline]
    fn draw(&self) -> u32 {
        let mut x = self.rng.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.rng.set(x);
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    fn miss(&self, tenant: TenantId, key: &Key<'_>, counters: &Counters, kind: SampledKind) {
        count(&counters.get_misses);
        let owner = self.store.tenant(tenant);
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, kind, 0);
        }
        // A miss that does not get the lock at once is not counted: it would wait in the request (Memshare §5.2).
        if Shadow::may_know(key.hash, owner.sampling())
            && let Ok(mut shadow) = owner.shadow.try_lock()
        {
            let hits = shadow.hit(key.hash);
            if 0 < hits {
                bump(&counters.shadow_hits, hits);
                self.store.pending_shadow_hits.fetch_add(hits, Ordering::Relaxed);
            }
        }
    }

    /// Hands an access to whoever makes curves. `len` is that of the item in the log, 0 without one.
    #[cold]
    fn sample(&self, owner: &Tenant, hash: KeyHash, kind: SampledKind, len: usize) {
        let charge = if len == 0 { 0 } else { charge_of(len) };
        let bytes = u32::try_from(charge).unwrap_or(u32::MAX);
        if self.counters.samples.put(owner.id, hash, kind, bytes) {
            self.samples_wait.set(true);
        }
    }

    /// Whether sampled accesses wait to be drained; says so once.
    #[inline]
    pub fn samples_wait(&self) -> bool {
        self.samples_wait.take()
    }

    /// Stores a value.
    ///
    /// # Errors
    /// If there is no room, or the item is too large or beyond the share of a tenant that refuses such (an older item of
    /// that key is gone then, as in memcached).
    pub fn set(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        mode: Mode,
        fields: Fields,
        value: &[u8],
    ) -> Result<Stored, Refused> {
        let counters = self.counters(tenant);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let old_view = old.live.map(|(_, view)| view);
        let verdict = match (mode, old.live) {
            (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace | Mode::Append | Mode::Prepend, Some(_)) => {
                Stored::Stored
            }
            (Mode::Add, Some((found, _))) => {
                self.note_use(self.store.tenant(tenant), found);
                Stored::NotStored
            }
            (Mode::Replace | Mode::Append | Mode::Prepend, None) => Stored::NotStored,
            (Mode::Cas(_), None) => Stored::NotFound,
            (Mode::Cas(wanted), Some((found, view))) => {
                let cas = view.cas().unwrap_or_else(|| self.store.stamp_of(found.slot.place(), &view));
                if cas == wanted { Stored::Stored } else { Stored::Exists }
            }
        };
        if verdict == Stored::Stored {
            let parts = match (mode, old_view) {
                (Mode::Append, Some(view)) => [view.value(), value],
                (Mode::Prepend, Some(view)) => [value, view.value()],
                _ => [value, &[]],
            };
            let fields = match (mode, old_view) {
                (Mode::Append | Mode::Prepend, Some(view)) => Fields {
                    client_flags: view.client_flags(),
                    expires_at: view.expiry().map_or(0, |e| e.at),
                },
                _ => fields,
            };
            let written = self.write(&locked, tenant, key, &old, fields, parts, None);
            let is_final = matches!(written, Err(Refused::TooLarge | Refused::OverShare));
            if is_final && mode == Mode::Set {
                self.unlink_found(&locked, &old);
            }
            drop(locked);
            self.after_write();
            written?;
        }
        if verdict == Stored::Stored {
            count(&counters.total_items);
        }
        count(&counters.cmd_set);
        count(&self.counters.class(value.len(), key.space != Space::Shared).cmd_set);
        if let Mode::Cas(_) = mode {
            count(match verdict {
                Stored::Stored => &counters.cas_hits,
                Stored::NotFound => &counters.cas_misses,
                _ => &counters.cas_badval,
            });
        }
        Ok(verdict)
    }

    /// Removes a key; returns whether it was there.
    pub fn delete(&self, tenant: TenantId, key: &Key<'_>) -> bool {
        let counters = self.counters(tenant);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        if let Some((_, view)) = old.live {
            count(&counters.delete_hits);
            count(&self.counters.class(view.bytes().len(), view.own_space()).delete_hits);
        } else {
            count(&counters.delete_misses);
        }
        self.unlink_found(&locked, &old);
        let owner = self.store.tenant(tenant);
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, SampledKind::Delete, 0);
        }
        old.live.is_some()
    }

    /// Adds to a decimal value (wrapping at 2^64), or takes from it (stopping at 0). A shorter result keeps the old
    /// length, padded with spaces, as in memcached.
    ///
    /// # Errors
    /// If there is no room.
    pub fn count_by(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        delta: u64,
        up: bool,
    ) -> Result<Counted, Refused> {
        let counters = self.counters(tenant);
        let (hits, misses) = if up {
            (&counters.incr_hits, &counters.incr_misses)
        } else {
            (&counters.decr_hits, &counters.decr_misses)
        };
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((_, view)) = old.live else {
            count(misses);
            return Ok(Counted::NotFound);
        };
        let Some(value) = decimal(view.value()) else { return Ok(Counted::NotNumber) };
        let value = if up { value.wrapping_add(delta) } else { value.saturating_sub(delta) };
        let mut text = [0; 24];
        let len = write_decimal(value, &mut text);
        let padding = vec![b' '; view.value().len().saturating_sub(len)];
        let fields =
            Fields { client_flags: view.client_flags(), expires_at: view.expiry().map_or(0, |e| e.at) };
        self.write(&locked, tenant, key, &old, fields, [&text[..len], &padding], None)?;
        drop(locked);
        self.after_write();
        count(hits);
        Ok(Counted::Value(value))
    }

    /// Gives an item a new expiry; its CAS value stays. Returns whether it was there.
    ///
    /// # Errors
    /// If there is no room.
    pub fn touch(&self, tenant: TenantId, key: &Key<'_>, expires_at: u32) -> Result<bool, Refused> {
        let counters = self.counters(tenant);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((found, view)) = old.live else {
            count(&counters.cmd_touch);
            count(&counters.touch_misses);
            return Ok(false);
        };
        if view.expiry().map_or(0, |e| e.at) == expires_at {
            self.note_use(self.store.tenant(tenant), found);
        } else {
            let stamp = self.store.stamp_of(found.slot.place(), &view);
            let kept = Kept { stamp, cas: view.cas() };
            let fields = Fields { client_flags: view.client_flags(), expires_at };
            self.write(&locked, tenant, key, &old, fields, [view.value(), &[]], Some(kept))?;
        }
        drop(locked);
        self.after_write();
        count(&counters.cmd_touch);
        count(&counters.touch_hits);
        Ok(true)
    }

    /// What the index knows of a key, under its locks.
    fn live<'a>(&'a self, locked: &Locked<'_>, key: &Key<'_>) -> Old<'a> {
        let found = locked.find(key.hash, |slot| self.is_key(slot, key));
        let live = found.and_then(|found| {
            let view = self.store.log.view(&self.reader, found.slot.place());
            let dead = self.store.is_expired(&view) || self.store.is_flushed(found.slot.place(), &view);
            (!dead).then_some((found, view))
        });
        Old { found, live }
    }

    /// Writes an item and makes the index point at it.
    #[expect(clippy::too_many_arguments, reason = "the one place where an item is made")]
    fn write(
        &self,
        locked: &Locked<'_>,
        tenant: TenantId,
        key: &Key<'_>,
        old: &Old<'_>,
        fields: Fields,
        value: [&[u8]; 2],
        kept: Option<Kept>,
    ) -> Result<(), Refused> {
        let owner = self.store.tenant(tenant);
        let value_len = value[0].len() + value[1].len();
        let expiry = (fields.expires_at != 0).then(|| expiry_at(fields.expires_at, self.store.now_secs()));
        let mut meta = Meta {
            tenant,
            own_space: key.space != Space::Shared,
            client_flags: fields.client_flags,
            expiry,
            cas: kept.and_then(|k| k.cas),
            stamp: 0,
        };
        let counters = self.counters(tenant);
        let needed = bytes_needed(meta.item_len(key.bytes.len(), value_len), meta.cas.is_some());
        if self.store.geometry.item_max.as_usize() < needed {
            count(&counters.store_too_large);
            return Err(Refused::TooLarge);
        }
        // A touch stores nothing new.
        if owner.may_refuse()
            && kept.is_none()
            && owner.refuses(change_of(old, tenant, meta.item_len(key.bytes.len(), value_len)))
        {
            count(&counters.writes_refused);
            count(&counters.store_no_memory);
            return Err(Refused::OverShare);
        }
        let stamp = match kept {
            Some(kept) => kept.stamp,
            None => self.stamp_after(old, owner),
        };
        let mut head = self.head.borrow_mut();
        let head = self.head_for(&mut head, needed, stamp)?;
        restamp(&mut meta, stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(key.bytes.len(), value_len, &mut header);
        let parts = [&header[..header_len], key.bytes, value[0], value[1]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = self.store.log.append(head, parts).expect("the head was made for this item");
        let tick = self.store.tick();
        if let Some(found) = old.found {
            let uses = found.slot.uses();
            let raised =
                u8::from(old.live.is_some() && uses < USES_MAX && self.draw() <= RAISE[usize::from(uses)]);
            let uses = if old.live.is_some() { uses + raised } else { 0 };
            locked.replace(found, Slot::new(key.hash, place, tick, uses));
            self.account_gone(found);
        } else if !locked.insert(Slot::new(key.hash, place, tick, 0), |s| self.store.hash_at(&self.reader, s))
        {
            // The bytes written are dead; the retry, for which `make_room` grows the index, writes them again.
            self.crowded.set(true);
            return Err(Refused::NoRoom);
        } else {
            forget_shadow(owner, key.hash);
        }
        link(&self.store, &self.counters, place, &meta, len, stamp);
        counters.meter.count(Access::DramWrite, Bytes(len as u64));
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, SampledKind::Write, len);
        }
        if owner.is_over_ceiling() {
            self.store.ceiling_hint.store(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The head, with room for `len` bytes and a base near the stamp.
    fn head_for<'h>(
        &self,
        head: &'h mut Option<Head>,
        len: usize,
        stamp: u64,
    ) -> Result<&'h mut Head, Refused> {
        let fits = head.as_ref().is_some_and(|h| self.store.log.fits(h, len, stamp));
        if !fits {
            let store = &self.store;
            let base = store.stamp_base();
            let next = store.log.take(&store.epochs, limits::RESERVE_SEGMENTS, base, store.now_secs());
            let next = next.ok_or(Refused::NoRoom)?;
            store.note_written();
            if let Some(full) = head.replace(next) {
                store.log.seal(full);
            }
        }
        Ok(head.as_mut().expect("made above if there was none"))
    }

    /// A stamp greater than the old item's, which survives the flushes so far.
    fn stamp_after(&self, old: &Old<'_>, owner: &Tenant) -> u64 {
        let old_stamp = old.found.map_or(0, |found| {
            let place = found.slot.place();
            self.store.stamp_of(place, &self.store.log.view(&self.reader, place))
        });
        self.new_stamp(old_stamp.max(owner.survivors_from()))
    }

    /// A stamp greater than `after`.
    fn new_stamp(&self, after: u64) -> u64 {
        let (mut next, mut end) = self.stamps.get();
        while next == end || next <= after {
            next = self.store.stamp_block();
            end = next + STAMP_BLOCK;
        }
        self.stamps.set((next + 1, end));
        next
    }

    /// Grows the index if it is crowded. Called without locks.
    fn after_write(&self) {
        let index = &self.store.index;
        if index.is_crowded() {
            index.grow(false, |slot| self.store.hash_at(&self.reader, slot));
            self.store.adjust_allowed();
        }
    }

    fn unlink_found(&self, locked: &Locked<'_>, old: &Old<'_>) {
        if let Some(found) = old.found {
            locked.remove(found);
            self.account_gone(found);
        }
    }

    fn account_gone(&self, found: Found) {
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        unlink(&self.store, &self.counters, place, &view);
    }

    /// Asserts every invariant of the store's structures. No other thread may work.
    pub fn check(&mut self) {
        crate::check::check(&self.store, &self.reader);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(head) = self.head.borrow_mut().take() {
            self.store.log.seal(head);
        }
        self.store.take_back(Arc::clone(&self.counters));
    }
}

/// What the index knows of a key: the slot, and the item if it is alive.
struct Old<'a> {
    found: Option<Found>,
    live: Option<(Found, View<'a>)>,
}

/// By how much a tenant holds more once an item of `len` log bytes takes the place of an old one.
fn change_of(old: &Old<'_>, tenant: TenantId, len: usize) -> i64 {
    let own = old.live.as_ref().map(|(_, view)| view).filter(|view| view.tenant() == tenant);
    charge_of(len) - own.map_or(0, |view| charge_of(view.bytes().len()))
}

/// Identity that an item keeps when it is written again.
#[derive(Clone, Copy)]
struct Kept {
    stamp: u64,
    cas: Option<u64>,
}

/// A key that is stored again is no eviction any more.
fn forget_shadow(owner: &Tenant, hash: KeyHash) {
    if Shadow::may_know(hash, owner.sampling())
        && let Ok(mut shadow) = owner.shadow.try_lock()
    {
        shadow.hit(hash);
    }
}

/// A decimal number below 2^64 as memcached reads it: white space and a sign may stand before it, anything after
/// white space or a zero byte behind it.
fn decimal(value: &[u8]) -> Option<u64> {
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0B;
    let ends = |b: &u8| is_space(b) || *b == 0;
    let start = value.iter().position(|b| !is_space(b))?;
    let (sign, rest) = match value[start] {
        sign @ (b'+' | b'-') => (sign, &value[start + 1..]),
        _ => (b'+', &value[start..]),
    };
    let digits = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    if digits == 0 || rest.get(digits).is_some_and(|b| !ends(b)) {
        return None;
    }
    let number =
        rest[..digits].iter().try_fold(0_u64, |n, b| n.checked_mul(10)?.checked_add(u64::from(b - b'0')))?;
    (sign == b'+' || number == 0).then_some(number)
}

/// Writes a number and returns its length.
fn write_decimal(mut value: u64, out: &mut [u8; 24]) -> usize {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    let len = digits.len() - at;
    out[..len].copy_from_slice(&digits[at..]);
    len
}
