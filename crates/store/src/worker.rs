//! A thread's way into the store: every operation on items.
//!
//! Shape:      operations borrow the worker; `quiesce` takes it mutably, so that no item can be held across it
//! Invariants: values returned by look-ups point into the log and live until the worker's next quiescent point
//! Failure:    a write that finds no segment says so (`Refused::NoRoom`): the caller lets go of its items, calls
//!             `make_room` and comes again

mod as_it_was;
mod away;
mod brake;
mod count;
mod fetch;
mod place;
mod read;
mod write;

pub use away::FetchPlan;
pub use brake::Held;
pub use count::{Count, Counted, CountedIf};
pub use fetch::{Fetch, Fetched};
pub use read::{Cursor, Death, Description};
pub use write::{Mode, Removal, Remove, Removed, Stored, Write, Written};

use crate::cleaner::Cleaner;
use crate::curves::SampledKind;
use crate::epoch::Participant;
use crate::hash::{KeyHash, Space};
use crate::index::{Found, Locked};
use crate::item::{Apart, View, state};
use crate::limits;
use crate::log::Head;
use crate::metrics::{Counters, ThreadCounters};
use crate::rank::RAISE;
use crate::slot::{Slot, USES_MAX};
use crate::store::{Store, StoreError, space_of};
use crate::sync::Ordering;
use crate::tenant::Tenant;
use crate::tier::TierCleaner;
use away::{Brought, Owed};
use brake::Pads;
use media::Buffer;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use units::TenantId;

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
    /// The value; none if it has to be fetched.
    value: Option<&'a [u8]>,
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
    /// The value that is there has to be fetched first: make a `fetch_plan`, `bring` what it names, come again. Who cannot
    /// lets go of items and calls `make_room`, which fetches it and blocks.
    Away,
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
    /// Segments that the last write missed; 0 for one.
    pub(crate) wanted: Cell<u32>,
    pub(crate) cleaner: Option<Box<Cleaner>>,
    pub(crate) tier_cleaner: Option<Box<TierCleaner>>,
    /// Values that were fetched for the turn that runs.
    brought: Vec<Brought>,
    /// Buffers of values that were brought once.
    spent: Vec<Buffer>,
    /// What the last operation that was refused wants.
    wanted_value: Cell<Option<FetchPlan>>,
    /// A tier had no room for the last item.
    pub(crate) tier_full: Cell<Option<u8>>,
    /// It still had none after room was made: the next value stays in DRAM.
    pub(crate) tier_stays_full: Cell<bool>,
    /// Second in which a tier's device did not make room in the time that a value waits for that: no other waits in it.
    pub(crate) tier_slow_at: Cell<Option<u32>>,
    /// An access to a tier that is to be counted once no lock is held.
    owed: RefCell<Vec<Owed>>,
    /// Its parts of the brakes of tenants that are held back.
    pads: Pads,
    /// Many sampled accesses wait to be drained.
    samples_wait: Cell<bool>,
    /// Log bytes of the item that was last refused for lack of memory, and whether its tenant has a key space of its own.
    no_memory_for: Cell<(usize, bool)>,
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
    /// The value. Look-ups give no item without one; of an item that is only described it is empty if it would have to be
    /// fetched.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.value.unwrap_or(&[])
    }

    /// Bytes of the value, wherever it is.
    #[must_use]
    pub fn value_len(&self) -> usize {
        self.view.value_len()
    }

    /// The client's flags.
    #[inline]
    #[must_use]
    pub fn client_flags(&self) -> u32 {
        self.view.client_flags()
    }

    /// The CAS value: monotone per key while it is stored, unchanged by the cleaner and by touch.
    #[must_use]
    pub fn cas(&self) -> u64 {
        self.view.cas().unwrap_or(self.stamp)
    }

    /// Second of the store's clock at which it expires, 0 for never.
    #[must_use]
    pub fn expires_at(&self) -> u32 {
        self.view.expiry().map_or(0, |e| e.at)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.view.key()
    }

    /// Whether its key was given in base64 when it was stored.
    #[must_use]
    pub fn has_binary_key(&self) -> bool {
        self.view.state() & state::BINARY_KEY != 0
    }

    /// Where its value is, if that is in pages of its own.
    pub(crate) fn apart(&self) -> Option<Apart> {
        self.view.apart()
    }

    /// Whether its value is in pages of its own, which `Worker::pin` keeps.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.view.apart().is_some()
    }

    /// Whether its key is in its tenant's own key space.
    #[must_use]
    pub fn has_own_space(&self) -> bool {
        self.view.own_space()
    }

    /// Its size class.
    #[must_use]
    pub fn class(&self) -> usize {
        crate::classes::class_of(self.view.sizes().whole)
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
            wanted: Cell::new(0),
            cleaner: None,
            tier_cleaner: None,
            brought: Vec::new(),
            spent: Vec::new(),
            wanted_value: Cell::new(None),
            tier_full: Cell::new(None),
            tier_stays_full: Cell::new(false),
            tier_slow_at: Cell::new(None),
            owed: RefCell::default(),
            pads: Pads::default(),
            samples_wait: Cell::new(false),
            no_memory_for: Cell::default(),
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

    /// Starts loading the index line of a key that most often leads to its item.
    #[inline]
    pub fn prefetch_index(&self, key: &Key<'_>) {
        self.store.index.prefetch_first(key.hash);
    }

    /// Starts loading the locks of a key that is to be written.
    #[inline]
    pub fn prefetch_locks(&self, key: &Key<'_>) {
        self.store.index.prefetch_locks(key.hash);
    }

    /// Starts loading the items of keys whose index lines are on their way, in turns: for those that the first line does not lead to, the
    /// second one is loaded first. Nothing for a single key: who looks it up waits no longer.
    #[inline]
    pub fn prefetch_items<'k, T>(&self, all: &[T], key_of: impl Fn(&T) -> &Key<'k>) {
        if all.len() < 2 {
            return;
        }
        let index = &self.store.index;
        for some in all.chunks(64) {
            let mut elsewhere = 0_u64;
            for (i, one) in some.iter().enumerate() {
                let hash = key_of(one).hash;
                if !index.peek_first(hash, |slot| self.store.log.prefetch(slot.place())) {
                    index.prefetch_second(hash);
                    elsewhere |= 1 << i;
                }
            }
            while elsewhere != 0 {
                let hash = key_of(&some[elsewhere.trailing_zeros() as usize]).hash;
                index.peek_second(hash, |slot| self.store.log.prefetch(slot.place()));
                elsewhere &= elsewhere - 1;
            }
        }
    }

    /// Lets go of every item: segments may be reused.
    #[inline]
    pub fn quiesce(&mut self) {
        if !self.brought.is_empty() {
            self.age_brought();
        }
        // An operation that was refused may have read.
        self.pay();
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
        self.view_of_key(slot, key).is_some()
    }

    /// The item of a slot, if it has that key.
    #[inline]
    fn view_of_key(&self, slot: Slot, key: &Key<'_>) -> Option<View<'_>> {
        let view = self.store.log.view(&self.reader, slot.place());
        (view.key() == key.bytes && space_of(&view) == key.space).then_some(view)
    }

    #[inline]
    fn note_use(&self, owner: &Tenant, found: Found) {
        let uses = found.slot.uses();
        let raised = self.raised(uses);
        let tick = self.store.tick();
        if let Some(learnt) = owner.learnt() {
            learnt.note_hit(uses, tick.wrapping_sub(found.slot.tick()));
        }
        if raised != uses || found.slot.tick() != tick {
            self.store.index.note_use(found, tick, raised);
        }
    }

    /// A use counter after one more use.
    #[inline]
    fn raised(&self, uses: u8) -> u8 {
        uses + u8::from(uses < USES_MAX && self.draw() <= RAISE[usize::from(uses)])
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

    /// Hands an access to whoever makes curves, with what the item is charged, 0 without one.
    #[cold]
    fn sample(&self, owner: &Tenant, hash: KeyHash, kind: SampledKind, charge: i64) {
        let bytes = u32::try_from(charge).unwrap_or(u32::MAX);
        if self.counters.samples.put(owner, hash, kind, bytes) {
            self.samples_wait.set(true);
        }
    }

    /// Whether sampled accesses wait to be drained; says so once.
    #[inline]
    pub fn samples_wait(&self) -> bool {
        self.samples_wait.take()
    }

    /// What the index knows of a key, under its locks.
    pub(crate) fn live<'a>(&'a self, locked: &Locked<'_>, key: &Key<'_>) -> Old<'a> {
        let mut view = None;
        let found = locked.find(key.hash, |slot| {
            view = self.view_of_key(slot, key);
            view.is_some()
        });
        let (Some(found), Some(view)) = (found, view) else { return Old { found: None, live: None } };
        let stamp = self.store.stamp_of(found.slot.place(), &view);
        let is_flushed = stamp < self.store.tenant(view.tenant()).flushed_below.load(Ordering::Acquire);
        let dead = is_flushed || self.store.is_expired(&view);
        Old { found: Some((found, view, stamp)), live: (!dead).then_some((found, view)) }
    }

    /// CAS value of an item that a slot points at.
    fn cas_of(&self, found: Found, view: &View<'_>) -> u64 {
        view.cas().unwrap_or_else(|| self.store.stamp_of(found.slot.place(), view))
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

impl Key<'_> {
    pub(crate) fn hash(&self) -> KeyHash {
        self.hash
    }
}

impl Old<'_> {
    pub(crate) fn found(&self) -> Option<Found> {
        self.found.map(|(found, ..)| found)
    }
}

/// What the index knows of a key: the slot, and the item if it is alive.
pub(crate) struct Old<'a> {
    /// With its item and that one's stamp, dead or alive.
    found: Option<(Found, View<'a>, u64)>,
    live: Option<(Found, View<'a>)>,
}
