//! The store: index, log and tenants, shared by every thread.
//!
//! Shape:      threads work through a `Worker` each; the control loop works through `control`; a cleaner takes the
//!             space of dead and unneeded items back
//! Invariants: index + backed segments + tables + shadow queues + curves ≤ memory (but for segments that the cleaner still
//!             has to give back after the index or the tables grew)
//! Units:      seconds of the store's clock, which whoever owns the store sets; it starts at 2 so that 0 is never and 1
//!             is past

use crate::brakes::Brakes;
use crate::census::BytesByBin;
use crate::departed::Departures;
use crate::destinations::Parked;
use crate::epoch::{Epochs, Participant};
use crate::geometry::Geometry;
use crate::hash::{Hasher, KeyHash, Space};
use crate::index::{BUCKET_BYTES, Index};
use crate::item::View;
use crate::limits;
use crate::log::Log;
use crate::metrics::{
    CLASSES, ClassTotals, CleanerCounters, CleanerTotals, Counters, ThreadCounters, Totals,
};
use crate::moments::Moments;
use crate::passes::Passes;
use crate::rank::{Clock, History, RankKind};
use crate::slot::{Place, Slot};
use crate::sweep::Sweep;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::tenant::OverShare;
use crate::tenant::{TICKS, Tenant, TenantSpec, TenantState};
use crate::tier::{Promotion, Tier};
use crate::witness::Witness;
use control::Claim;
use control::memory::MemoryShare;
use media::{Device, MapError};
use std::sync::{Arc, OnceLock};
use units::{Bytes, Rng, TenantId};

/// What a store is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bound on the memory of index, log, shadow queues and tables.
    pub memory: Bytes,
    /// Largest item, header and key included.
    pub item_max: Bytes,
    /// Writing threads that are expected: each keeps a segment open.
    pub threads: usize,
    /// Tenants at most.
    pub tenants_max: usize,
    /// Refuse instead of evicting.
    pub no_evict: bool,
    /// Seed of hashing secrets and random choices.
    pub seed: u64,
}

/// Why there is no store, or no worker.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The memory could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Too many tiers.
    #[error("{} tiers below DRAM are the most that there can be", limits::TIERS_MAX)]
    Tiers,
    /// Too many threads.
    #[error("{} threads work with the store, no more can", limits::THREADS_MAX)]
    Threads,
}

/// Seconds at which the store's clock starts.
pub const CLOCK_START: u32 = 2;
/// The rank clock ticks this often while the divisible memory is written once.
const TICKS_PER_TURNOVER: u64 = 64;
/// Threads take stamps in blocks.
pub(crate) const STAMP_BLOCK: u64 = 64;

/// The store.
#[derive(Debug)]
pub struct Store {
    pub(crate) geometry: Geometry,
    pub(crate) hasher: Hasher,
    pub(crate) index: Index,
    pub(crate) log: Log,
    /// From the fastest to the slowest.
    pub(crate) tiers: Box<[Tier]>,
    /// What records can take in all of them.
    pub(crate) below: Bytes,
    /// Memory that they take.
    beside_tiers: Bytes,
    /// Second since 1970 at which the clock was 0.
    pub(crate) wall: u64,
    pub(crate) promotion: AtomicU32,
    pub(crate) brakes: Brakes,
    pub(crate) epochs: Arc<Epochs>,
    tenants: Box<[OnceLock<Tenant>]>,
    tenant_count: AtomicU32,
    pub(crate) adding: Mutex<Departures>,
    /// Some tenant was removed and its id is not free yet.
    pub(crate) departing: AtomicU32,
    /// Times that a control loop has read what there is.
    pub(crate) readings: AtomicU64,
    threads: Mutex<Threads>,
    pub(crate) stamps: AtomicU64,
    /// Stamps drawn when the second began: who has older ones left draws new ones.
    stamps_of_second: AtomicU64,
    moments: Mutex<Moments>,
    now_secs: AtomicU32,
    turned_secs: AtomicU32,
    flushes: Mutex<Vec<(u32, TenantId)>>,
    flush_next: AtomicU32,
    tick: AtomicU32,
    tick_secs: Box<[AtomicU32; TICKS]>,
    written: AtomicU64,
    tick_bytes: u64,
    ticking: Mutex<History>,
    external: AtomicU64,
    /// Memory of what there is per tenant, and per tenant and thread.
    tables: AtomicU64,
    allowed: AtomicU32,
    pub(crate) pending_shadow_hits: AtomicU64,
    /// Tenants over their ceiling may exist.
    pub(crate) ceiling_hint: AtomicU32,
    /// Passes that are running.
    pub(crate) passes: Passes,
    /// Destinations that no pass writes to.
    pub(crate) parked: Parked,
    /// What they did.
    pub(crate) cleaning: CleanerCounters,
    pub(crate) sweep: Sweep,
    /// The first page from which values are looked at next for dead ones.
    pub(crate) values_swept: AtomicU32,
    pub(crate) witness: Witness,
    pub(crate) no_evict: bool,
    seed: u64,
    /// Generators handed out.
    generators: AtomicU64,
}

#[derive(Debug, Default)]
struct Threads {
    all: Vec<Arc<ThreadCounters>>,
    free: Vec<Arc<ThreadCounters>>,
}

/// How memory is used now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// Segments that cost memory.
    pub segments: Bytes,
    /// Pages of values that fit no segment.
    pub values: Bytes,
    /// The index.
    pub index: Bytes,
    /// Shadow queues.
    pub shadow: Bytes,
    /// What there is per tenant, and per tenant and thread.
    pub tables: Bytes,
    /// What ranks have learnt, a part of the tables.
    pub ranks: Bytes,
    /// Buckets of the index.
    pub buckets: u32,
    /// Slots in use.
    pub slots: u64,
    /// Segments that can still be taken.
    pub available_segments: u32,
}

impl Store {
    /// An empty store without tenants.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub fn new(options: Options) -> Result<Arc<Self>, StoreError> {
        Self::with_tiers(options, &[], 0)
    }

    /// The same with tiers below DRAM, the fastest first. `wall_secs` is the time since 1970; times to live outlast a restart
    /// by it. What the tiers hold is dropped unless `Worker::restore` is called before anything else.
    ///
    /// # Errors
    /// If the memory cannot be mapped, or there are too many tiers.
    pub fn with_tiers(
        options: Options,
        devices: &[Arc<dyn Device>],
        wall_secs: u64,
    ) -> Result<Arc<Self>, StoreError> {
        if limits::TIERS_MAX < devices.len() {
            return Err(StoreError::Tiers);
        }
        let tiers: Vec<Tier> = (0..)
            .zip(devices)
            .map(|(id, device)| Tier::new(id, Arc::clone(device), &options))
            .collect::<Result<_, _>>()?;
        let beside: Bytes = tiers.iter().map(Tier::memory).sum();
        let below: Bytes = tiers.iter().map(Tier::capacity).sum();
        let geometry = Geometry::new(options.memory, options.item_max, options.threads);
        // An item takes at least 11 bytes of log, so at most half of the memory is index; see `geometry`.
        let buckets_max = u32::try_from(geometry.memory.0 / 2 / BUCKET_BYTES).unwrap_or(u32::MAX >> 1);
        let store = Self {
            geometry,
            below,
            beside_tiers: beside,
            hasher: Hasher::new(options.seed),
            index: Index::new(buckets_max)?,
            log: Log::new(&geometry)?,
            tiers: tiers.into(),
            wall: wall_secs.saturating_sub(u64::from(CLOCK_START)),
            promotion: AtomicU32::new(Promotion::default().code()),
            brakes: Brakes::default(),
            epochs: Arc::new(Epochs::new()),
            tenants: (0..options.tenants_max.min(limits::TENANTS_MAX)).map(|_| OnceLock::new()).collect(),
            tenant_count: AtomicU32::new(0),
            adding: Mutex::new(Departures::default()),
            departing: AtomicU32::new(0),
            readings: AtomicU64::new(0),
            threads: Mutex::new(Threads::default()),
            stamps: AtomicU64::new(1),
            stamps_of_second: AtomicU64::new(0),
            moments: Mutex::new(Moments::default()),
            now_secs: AtomicU32::new(CLOCK_START),
            turned_secs: AtomicU32::new(0),
            flushes: Mutex::new(Vec::new()),
            flush_next: AtomicU32::new(u32::MAX),
            tick: AtomicU32::new(0),
            tick_secs: Box::new(std::array::from_fn(|_| AtomicU32::new(CLOCK_START))),
            written: AtomicU64::new(0),
            tick_bytes: ((geometry.divisible + below).0 / TICKS_PER_TURNOVER).max(1),
            ticking: Mutex::new(History::default()),
            external: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            allowed: AtomicU32::new(geometry.segment_count),
            pending_shadow_hits: AtomicU64::new(0),
            ceiling_hint: AtomicU32::new(0),
            passes: Passes::new(),
            parked: Parked::default(),
            cleaning: CleanerCounters::default(),
            sweep: Sweep::default(),
            values_swept: AtomicU32::new(0),
            witness: Witness::default(),
            no_evict: options.no_evict,
            seed: options.seed,
            generators: AtomicU64::new(0),
        };
        store.adjust_allowed();
        store.tiers.iter().filter(|tier| !tier.notes.survives()).for_each(|tier| store.begin_tier(tier));
        Ok(Arc::new(store))
    }

    /// The sizes that the memory is divided into.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Adds a tenant; none if there are too many. A tenant that was removed leaves its id free for another once nothing
    /// of it is left, which takes a background cleaner (`Worker::maintain`) some turns.
    pub fn add_tenant(&self, spec: TenantSpec) -> Option<TenantId> {
        let mut adding = lock(&self.adding);
        if let Some(id) = adding.free(self) {
            self.welcome(self.tenant(id), Some(spec));
            self.enter_tiers(self.tenant(id));
            return Some(id);
        }
        let count = self.tenant_count.load(Ordering::Relaxed);
        let slot = self.tenants.get(count as usize)?;
        let id = TenantId(count);
        let tenant = Tenant::new(id, spec, self.shadow_budget(count + 1));
        self.welcome(&tenant, None);
        self.enter_tiers(&tenant);
        slot.set(tenant).ok()?;
        // Release: who sees the count sees the tenant.
        self.tenant_count.store(count + 1, Ordering::Release);
        self.tables.fetch_add(self.table_bytes_each() + self.tenant(id).tables(), Ordering::Relaxed);
        Some(id)
    }

    /// Gives a tenant that comes a share until the policy has spoken: an equal part of what is divided.
    fn welcome(&self, tenant: &Tenant, again: Option<TenantSpec>) {
        if let Some(spec) = again {
            tenant.begin(spec, self.raw_totals(tenant.id));
        }
        let present = self.tenants().filter(|t| !t.is_gone()).count() as u64 + 1;
        let budget = self.shadow_budget(u32::try_from(present).unwrap_or(u32::MAX));
        let target = Bytes((self.geometry.divisible + self.below).0 / present);
        tenant.set_share(MemoryShare { target, ceiling: None }, budget);
        tenant.begin_tick(self.tick());
        tenant.appear();
    }

    /// Whether a tenant has this id.
    #[must_use]
    pub fn is_present(&self, id: TenantId) -> bool {
        self.known(id).is_some_and(|t| !t.is_gone())
    }

    /// Changes what a tenant claims. The next decision sees it; false for an unknown id.
    pub fn set_claim(&self, id: TenantId, claim: Claim) -> bool {
        self.change(id, |tenant| tenant.change(|spec| spec.claim = claim))
    }

    /// Changes a tenant's eviction order. The next cleaning pass ranks by it; false for an unknown id.
    pub fn set_rank(&self, id: TenantId, rank: RankKind) -> bool {
        self.change(id, |tenant| tenant.change(|spec| spec.rank = rank))
    }

    /// Changes what becomes of a tenant's writes beyond its share; false for an unknown id.
    pub fn set_over_share(&self, id: TenantId, over_share: OverShare) -> bool {
        self.change(id, |tenant| tenant.set_over_share(over_share))
    }

    /// Changes a tenant that nobody removes meanwhile.
    pub(crate) fn change(&self, id: TenantId, change: impl FnOnce(&Tenant)) -> bool {
        let _adding = lock(&self.adding);
        let tenant = self.known(id).filter(|t| !t.is_gone());
        tenant.map(change).is_some()
    }

    pub(crate) fn known(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.get(id.index()).and_then(OnceLock::get)
    }

    /// Memory that one shadow queue may take among `count`.
    pub(crate) fn shadow_budget(&self, count: u32) -> Bytes {
        Bytes(self.geometry.shadow.0 / u64::from(count.max(1)))
    }

    /// The place of every id that was ever given, also of those that no tenant has now.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        let count = self.tenant_count.load(Ordering::Acquire) as usize;
        self.tenants[..count].iter().filter_map(OnceLock::get)
    }

    /// Number of ids that were ever given; those of removed tenants may be given again.
    #[must_use]
    pub fn tenant_count(&self) -> usize {
        self.tenant_count.load(Ordering::Acquire) as usize
    }

    /// Tenants that can be there at once.
    pub(crate) fn tenants_max(&self) -> usize {
        self.tenants.len()
    }

    /// The tenant that an item's header names.
    #[inline]
    pub(crate) fn tenant(&self, id: TenantId) -> &Tenant {
        self.tenants[id.index()].get().expect("ids are handed out when their tenant exists")
    }

    /// Whether a tenant's keys are compared with its own only.
    #[must_use]
    pub fn has_own_space(&self, id: TenantId) -> bool {
        self.known(id).is_some_and(Tenant::has_own_space)
    }

    /// What a tenant is now; none for an id that nobody has.
    #[must_use]
    pub fn tenant_state(&self, id: TenantId) -> Option<TenantState> {
        let tenant = self.known(id).filter(|t| !t.is_gone())?;
        let spec = TenantSpec::clone(&tenant.spec());
        Some(TenantState {
            id,
            name: spec.name,
            held: tenant.held(),
            away: tenant.held_below(),
            away_items: u64::try_from(tenant.away_items.load(Ordering::Relaxed)).unwrap_or(0),
            placement: tenant.placement(),
            items: u64::try_from(tenant.items.load(Ordering::Relaxed)).unwrap_or(0),
            share: tenant.share(),
            claim: spec.claim,
            private: tenant.floor(),
            shadow: lock(&tenant.shadow).bytes(),
            rank: spec.rank,
            over_share: tenant.over_share(),
            throttle: self.throttle(id),
        })
    }

    /// Live bytes charged to a tenant; none for an unknown id.
    #[must_use]
    pub fn held(&self, id: TenantId) -> Bytes {
        self.known(id).map_or(Bytes::ZERO, Tenant::held)
    }

    /// Counters of a tenant, summed over threads; of a removed one as long as nobody else has its id.
    #[must_use]
    pub fn totals(&self, id: TenantId) -> Totals {
        let before = self.known(id).map_or_else(Totals::default, Tenant::before);
        self.raw_totals(id).since(&before)
    }

    /// Counters of all tenants that had an id, summed over threads.
    pub(crate) fn raw_totals(&self, id: TenantId) -> Totals {
        let mut totals = Totals::default();
        for thread in &lock(&self.threads).all {
            if let Some(counters) = thread.tenants.get(id.index()).and_then(OnceLock::get) {
                Counters::add_to(counters, &mut totals);
            }
        }
        totals
    }

    /// Counters per size class, summed over threads: of the shared key space, or of the tenants with one of their own.
    #[must_use]
    pub fn class_totals(&self, own_space: bool) -> [ClassTotals; CLASSES] {
        let mut totals = [ClassTotals::default(); CLASSES];
        for thread in &lock(&self.threads).all {
            for (counters, totals) in thread.classes[usize::from(own_space)].iter().zip(&mut totals) {
                counters.add_to(totals);
            }
        }
        totals
    }

    /// What cleaning did, all threads together.
    #[must_use]
    pub fn cleaner_totals(&self) -> CleanerTotals {
        self.cleaning.totals()
    }

    /// Does something with what every thread has, and adds up what comes of it.
    pub(crate) fn each_thread(&self, act: impl FnMut(&ThreadCounters) -> u64) -> u64 {
        let threads = lock(&self.threads);
        threads.all.iter().map(|thread| &**thread).map(act).sum()
    }

    pub(crate) fn lend_counters(&self) -> Arc<ThreadCounters> {
        let mut threads = lock(&self.threads);
        threads.free.pop().unwrap_or_else(|| {
            let counters = Arc::new(ThreadCounters::new(self.tenants.len()));
            threads.all.push(Arc::clone(&counters));
            counters
        })
    }

    pub(crate) fn take_back(&self, counters: Arc<ThreadCounters>) {
        lock(&self.threads).free.push(counters);
    }

    /// How memory is used.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        MemoryUse {
            segments: self.log.backed(),
            values: self.log.values_bytes(),
            index: Bytes(self.index.bytes()),
            shadow: self.tenants().map(|t| lock(&t.shadow).bytes()).sum(),
            tables: self.tables(),
            ranks: self.tenants().map(Tenant::learnt_bytes).sum(),
            buckets: self.index.buckets(),
            slots: self.index.len(),
            available_segments: self.log.available(),
        }
    }

    /// Whether values are pinned, which nobody can evict.
    #[must_use]
    pub fn has_pinned_values(&self) -> bool {
        self.log.has_pinned_values()
    }

    /// The clock, in whole seconds.
    #[inline]
    #[must_use]
    pub fn now_secs(&self) -> u32 {
        self.now_secs.load(Ordering::Relaxed)
    }

    /// Sets the clock; it never goes back. Due flushes happen, due expiries are accounted.
    pub fn set_now(&self, secs: u32) {
        let before = self.now_secs.fetch_max(secs, Ordering::Relaxed);
        if before < secs {
            let stamp = self.stamps.load(Ordering::Relaxed);
            lock(&self.moments).begin(stamp, secs);
            self.stamps_of_second.store(stamp, Ordering::Relaxed);
            if self.flush_next.load(Ordering::Relaxed) <= secs {
                self.run_due_flushes(secs);
            }
            self.account_expiries(secs);
        }
    }

    fn account_expiries(&self, secs: u32) {
        if self.turned_secs.fetch_max(secs, Ordering::Relaxed) < secs {
            let mut tables = self.table_bytes_each() * self.tenant_count() as u64;
            for tenant in self.tenants() {
                tenant.expiries.turn(secs, &tenant.live);
                tables += tenant.tables();
            }
            self.tables.store(tables, Ordering::Relaxed);
        }
    }

    /// Kills every item of a tenant that was stored before now, at `at_secs` if that is later: O(1) in the items.
    pub fn flush(&self, tenant: TenantId, at_secs: u32) {
        // A new flush takes the place of one that waits, as in memcached.
        let mut flushes = lock(&self.flushes);
        flushes.retain(|(_, waiting)| *waiting != tenant);
        let later = self.now_secs() < at_secs;
        if later {
            flushes.push((at_secs, tenant));
        }
        self.note_flush(tenant, if later { at_secs } else { 0 });
        let next = flushes.iter().map(|(at, _)| *at).min();
        self.flush_next.store(next.unwrap_or(u32::MAX), Ordering::Relaxed);
        drop(flushes);
        if !later && self.is_present(tenant) {
            self.flush_now(tenant);
        }
    }

    /// Forgets a flush that waits.
    pub(crate) fn cancel_flush(&self, tenant: TenantId) {
        lock(&self.flushes).retain(|(_, waiting)| *waiting != tenant);
    }

    pub(crate) fn flush_now(&self, id: TenantId) {
        self.flush_below(id, || self.stamps.load(Ordering::Relaxed));
    }

    /// Kills the items of a tenant with stamps below what `bound` says while no thread writes.
    pub(crate) fn flush_below(&self, id: TenantId, bound: impl FnOnce() -> u64) {
        let tenant = self.tenant(id);
        self.index.with_writers_held(|| {
            tenant.flushed_below.store(bound(), Ordering::Release);
            tenant.expiries.clear(&tenant.live);
            self.flush_tiers(tenant);
            let items = tenant.items.swap(0, Ordering::Relaxed);
            tenant.stale.fetch_add(items, Ordering::Relaxed);
        });
    }

    fn run_due_flushes(&self, secs: u32) {
        let mut flushes = lock(&self.flushes);
        let due: Vec<_> = flushes.extract_if(.., |(at, _)| *at <= secs).collect();
        let next = flushes.iter().map(|(at, _)| *at).min();
        self.flush_next.store(next.unwrap_or(u32::MAX), Ordering::Relaxed);
        drop(flushes);
        for (_, tenant) in due.into_iter().filter(|(_, tenant)| self.is_present(*tenant)) {
            self.flush_now(tenant);
        }
    }

    /// Stamps below this were drawn before the second began.
    #[inline]
    pub(crate) fn stamps_of_second(&self) -> u64 {
        self.stamps_of_second.load(Ordering::Relaxed)
    }

    /// Second at which the item of a slot was last used, or stored: not later, and earlier by a tick at most.
    pub(crate) fn used_secs(&self, slot: Slot, stamp: u64) -> u32 {
        let stored = lock(&self.moments).secs_of(stamp, CLOCK_START);
        if slot.uses() == 0 { stored } else { stored.max(self.tick_secs(slot.tick())) }
    }

    /// A block of stamps that nobody else gets.
    pub(crate) fn stamp_block(&self) -> u64 {
        self.stamps.fetch_add(STAMP_BLOCK, Ordering::Relaxed)
    }

    /// Base of a segment that is opened now: items up to 2^31 stamps older can be told by 32 bits.
    pub(crate) fn stamp_base(&self) -> u64 {
        self.stamps.load(Ordering::Relaxed).saturating_sub(1 << 31)
    }

    /// The rank clock, modulo 256.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the clock is used modulo 256")]
    pub(crate) fn tick(&self) -> u8 {
        self.tick.load(Ordering::Relaxed) as u8
    }

    /// Ticks of the rank clock so far, modulo 2^32.
    pub(crate) fn tick_count(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Seconds of the store's clock at which a tick (not longer than 255 ticks ago) began.
    #[must_use]
    pub fn tick_secs(&self, tick: u8) -> u32 {
        self.tick_secs[usize::from(tick)].load(Ordering::Relaxed)
    }

    /// Counts memory handed to a writer, a segment or pages of a value: the rank clock runs on what is written.
    pub(crate) fn note_written(&self, bytes: Bytes) {
        let written = self.written.fetch_add(bytes.0, Ordering::Relaxed) + bytes.0;
        let wanted = u32::try_from((written / self.tick_bytes) & u64::from(u32::MAX)).unwrap_or(0);
        if wanted == self.tick.load(Ordering::Relaxed) {
            return;
        }
        let mut ticking = lock(&self.ticking);
        let mut tick = self.tick.load(Ordering::Relaxed);
        while tick != wanted && wanted.wrapping_sub(tick) < 1 << 31 {
            tick = tick.wrapping_add(1);
            let short = (tick & 0xFF) as u8;
            self.tick_secs[usize::from(short)].store(self.now_secs(), Ordering::Relaxed);
            for tenant in self.tenants() {
                tenant.begin_tick(short);
            }
            ticking.begin_tick(tick, self.stamps.load(Ordering::Relaxed));
            self.tick.store(tick, Ordering::Relaxed);
        }
    }

    /// Takes the time for a pass that ranks.
    pub(crate) fn take_time(&self, clock: &mut Clock) {
        let ticking = lock(&self.ticking);
        let tick = self.tick.load(Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        let passed = (written % self.tick_bytes) as f64 / self.tick_bytes as f64;
        let stamp = self.stamps.load(Ordering::Relaxed);
        let known = tick.min(u32::from(u8::MAX));
        let oldest = self.tick_secs((tick.wrapping_sub(known) & 0xFF) as u8);
        clock.take(&ticking, f64::from(tick) + passed, stamp, (self.now_secs(), oldest), known);
    }

    /// Tells the store about memory outside of it that counts in the bound (connection buffers).
    pub fn set_external(&self, bytes: Bytes) {
        self.external.store(bytes.0, Ordering::Relaxed);
        self.adjust_allowed();
    }

    /// Memory outside of the store that counts in the bound, and that tiers take.
    pub(crate) fn external(&self) -> Bytes {
        Bytes(self.external.load(Ordering::Relaxed)) + self.beside_tiers
    }

    /// Memory of what there is per tenant, and per tenant and thread, as of the last second or a little more.
    #[must_use]
    pub fn tables(&self) -> Bytes {
        Bytes(self.tables.load(Ordering::Relaxed))
    }

    /// Memory that a tenant takes in tables of all tenants, with the threads that there are: its own place, what each thread
    /// counts for it, what a control loop remembers of it, and its row in the passes that run at once.
    fn table_bytes_each(&self) -> u64 {
        let threads = lock(&self.threads).all.len();
        let counted = threads * (size_of::<Counters>() + size_of::<OnceLock<Box<Counters>>>());
        let passes = (limits::RESERVE_SEGMENTS as usize).min(threads) * size_of::<BytesByBin>();
        (size_of::<OnceLock<Tenant>>() + size_of::<Totals>() + counted + passes) as u64
    }

    /// Segments that fit beside the index and the tables as they are now.
    pub(crate) fn adjust_allowed(&self) {
        let others = self.index.bytes() + self.external().0 + self.tables().0;
        let left = self.geometry.log_and_index().0.saturating_sub(others);
        let allowed = u32::try_from(left / self.geometry.segment.0).unwrap_or(u32::MAX);
        let allowed = allowed.max(limits::RESERVE_SEGMENTS + 2).min(self.geometry.segment_count);
        if self.allowed.swap(allowed, Ordering::Relaxed) != allowed {
            self.log.allow(allowed);
        }
    }

    /// Shadow hits that no decision has seen yet.
    #[must_use]
    pub fn pending_shadow_hits(&self) -> u64 {
        self.pending_shadow_hits.load(Ordering::Relaxed)
    }

    /// Whether a background cleaner has work: few segments left, a ceiling is passed, or segments
    /// wait to be touched before a writer needs them.
    #[must_use]
    pub fn wants_cleaning(&self) -> bool {
        self.log.available() <= self.log.low_water()
            || self.ceiling_hint.load(Ordering::Relaxed) != 0
            || self.log.wants_touching()
            || self.departing.load(Ordering::Relaxed) != 0
            || self.tiers_want_cleaning()
    }

    /// A seed for a thread's own generator.
    pub(crate) fn thread_rng(&self) -> Rng {
        let at = self.generators.fetch_add(1, Ordering::Relaxed);
        Rng::new(self.seed ^ units::mix64(at + 1))
    }

    /// The hash of the item that a slot points at.
    pub(crate) fn hash_at(&self, reader: &Participant, slot: Slot) -> KeyHash {
        let view = self.log.view(reader, slot.place());
        self.hash_of(&view)
    }

    /// The hash of an item's key.
    #[inline]
    pub(crate) fn hash_of(&self, view: &View<'_>) -> KeyHash {
        self.hasher.hash(space_of(view), view.key())
    }

    /// Stamp of an item.
    #[inline]
    pub(crate) fn stamp_of(&self, place: Place, view: &View<'_>) -> u64 {
        self.log.segment(place.segment).base() + u64::from(view.stamp())
    }

    /// Whether an item was flushed.
    #[inline]
    pub(crate) fn is_flushed(&self, place: Place, view: &View<'_>) -> bool {
        let below = self.tenant(view.tenant()).flushed_below.load(Ordering::Acquire);
        below != 0 && self.stamp_of(place, view) < below
    }

    /// Whether an item has expired.
    #[inline]
    pub(crate) fn is_expired(&self, view: &View<'_>) -> bool {
        view.expiry().is_some_and(|expiry| expiry.at <= self.now_secs())
    }
}

/// The key space of an item.
#[inline]
pub(crate) fn space_of(view: &View<'_>) -> Space {
    if view.own_space() { Space::Own(view.tenant()) } else { Space::Shared }
}
