//! The store: index, log and tenants, shared by every thread.
//!
//! Shape:      threads work through a `Worker` each; the control loop works through `control`; a cleaner takes the
//!             space of dead and unneeded items back
//! Invariants: index + backed segments + tables + shadow queues + curves + ghosts ≤ memory (but for segments that the cleaner still
//!             has to give back after the index or the tables grew)
//! Units:      seconds of the store's clock, which whoever owns the store sets; it starts at 2 so that 0 is never and 1
//!             is past

mod clock;
mod memory;
mod tenants;

pub use memory::MemoryUse;

use crate::brakes::Brakes;
use crate::classes::{CLASSES, ClassTotals};
use crate::departed::Departures;
use crate::destinations::Parked;
use crate::epoch::{Epochs, Participant};
use crate::geometry::Geometry;
use crate::ghosts::Ghosts;
use crate::hash::{Hasher, KeyHash, Space};
use crate::index::{BUCKET_BYTES, Index};
use crate::item::View;
use crate::limits;
use crate::log::Log;
use crate::metrics::{CleanerCounters, CleanerTotals, ThreadCounters};
use crate::moments::Moments;
use crate::passes::Passes;
use crate::rank::History;
use crate::slot::{Place, Slot};
use crate::sweep::Sweep;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::tenant::{TICKS, Tenant};
use crate::tier::{Promotion, Tier, run_after};
use crate::witness::Witness;
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
    /// A tier whose places no reference can tell.
    #[error("a tier of {0} is too large: {max} are the most", max = limits::TIER_MAX)]
    TierSize(Bytes),
    /// Too many threads.
    #[error("{} threads work with the store, no more can", limits::THREADS_MAX)]
    Threads,
}

/// Seconds at which the store's clock starts.
pub const CLOCK_START: u32 = 2;
/// The rank clock ticks this often while the divisible memory in force is written once.
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
    wall: AtomicU64,
    pub(crate) promotion: AtomicU32,
    pub(crate) brakes: Brakes,
    pub(crate) epochs: Arc<Epochs>,
    tenants: Box<[OnceLock<Box<Tenant>>]>,
    tenant_count: AtomicU32,
    pub(crate) adding: Mutex<Departures>,
    /// Some tenant was removed and its id is not free yet.
    pub(crate) departing: AtomicU32,
    /// Times that a control loop has read what there is.
    pub(crate) readings: AtomicU64,
    threads: Mutex<Threads>,
    /// Threads that there have been at once; who counts tables waits for no list.
    thread_count: AtomicU64,
    /// Held by who takes the sampled accesses of threads.
    pub(crate) draining: Mutex<()>,
    /// The number of this run.
    pub(crate) run: AtomicU64,
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
    /// Bytes written, scaled to the whole memory (`turned`).
    written: AtomicU64,
    /// Of these a tick has so many.
    pub(crate) tick_bytes: u64,
    ticking: Mutex<History>,
    external: AtomicU64,
    withheld: AtomicU64,
    /// Memory of what there is per tenant, and per tenant and thread.
    tables: AtomicU64,
    /// Segments that the log was last told that it may have.
    allowed: Mutex<u32>,
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
    pub(crate) ghosts: Ghosts,
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
        let sizes = devices.iter().map(|device| device.size());
        if let Some(size) = sizes.max().filter(|size| limits::TIER_MAX < *size) {
            return Err(StoreError::TierSize(size));
        }
        let tiers: Vec<Tier> = (0..)
            .zip(devices)
            .map(|(id, device)| Tier::new(id, Arc::clone(device), &options))
            .collect::<Result<_, _>>()?;
        let beside: Bytes = tiers.iter().map(Tier::memory).sum();
        let below: Bytes = tiers.iter().map(Tier::capacity).sum();
        let Options { memory, item_max, threads, .. } = options;
        let geometry = Geometry::above(tiers.len(), memory, item_max, threads);
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
            wall: AtomicU64::new(wall_secs.saturating_sub(u64::from(CLOCK_START))),
            promotion: AtomicU32::new(Promotion::default().code()),
            brakes: Brakes::default(),
            epochs: Arc::new(Epochs::new()),
            tenants: (0..options.tenants_max.min(limits::TENANTS_MAX)).map(|_| OnceLock::new()).collect(),
            tenant_count: AtomicU32::new(0),
            adding: Mutex::new(Departures::default()),
            departing: AtomicU32::new(0),
            readings: AtomicU64::new(0),
            threads: Mutex::new(Threads::default()),
            thread_count: AtomicU64::new(0),
            draining: Mutex::new(()),
            run: AtomicU64::new(run_after(0, wall_secs, options.seed)),
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
            withheld: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            allowed: Mutex::new(geometry.segment_count),
            pending_shadow_hits: AtomicU64::new(0),
            ceiling_hint: AtomicU32::new(0),
            passes: Passes::new(),
            parked: Parked::default(),
            cleaning: CleanerCounters::default(),
            sweep: Sweep::default(),
            values_swept: AtomicU32::new(0),
            witness: Witness::default(),
            ghosts: Ghosts::new(geometry.ghosts)?,
            no_evict: options.no_evict,
            seed: options.seed,
            generators: AtomicU64::new(0),
        };
        store.set_tariffs(None);
        store.adjust_allowed();
        store.tiers.iter().filter(|tier| !tier.notes.survives()).for_each(|tier| store.begin_tier(tier));
        Ok(Arc::new(store))
    }

    /// The sizes that the memory is divided into.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
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

    /// What every thread has.
    pub(crate) fn all_threads(&self) -> Vec<Arc<ThreadCounters>> {
        lock(&self.threads).all.clone()
    }

    pub(crate) fn lend_counters(&self) -> Arc<ThreadCounters> {
        let mut threads = lock(&self.threads);
        threads.free.pop().unwrap_or_else(|| {
            let tariffs = self.tiers.iter().map(|tier| Arc::clone(&tier.tariff)).collect();
            let counters = Arc::new(ThreadCounters::new(self.tenants.len(), tariffs));
            threads.all.push(Arc::clone(&counters));
            self.thread_count.store(threads.all.len() as u64, Ordering::Relaxed);
            counters
        })
    }

    pub(crate) fn take_back(&self, counters: Arc<ThreadCounters>) {
        lock(&self.threads).free.push(counters);
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
