//! A tenant of the store: what it holds, what it should hold, its shadow queue, its expiries.
//!
//! Shape:      the place of an id, which tenants have one after the other; hot paths read its atomics, everybody else its
//!             `spec`
//! Invariants: no item that was dead by `flushed_below` is alive again, also when another tenant has the id
//! Units:      bytes charged (log bytes, index share, and what live items take of tiers)

mod worth;

use crate::expiry::Expiries;
use crate::hash::KeyHash;
use crate::metrics::Totals;
use crate::rank::{Densities, HitDensity, RankKind};
use crate::shadow::Shadow;
use crate::sync::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::tier::{Placement, Reasons, Standing};
use control::Claim;
use control::bandwidth::Throttle;
use control::memory::MemoryShare;
use media::brake::Setting;
use std::sync::{Arc, OnceLock};
use units::{Bytes, Instant, TenantId};
use worth::{Expected, WorthCell};

/// What a tenant is created with.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name, for people.
    pub name: String,
    /// Whether its keys are compared with its own only.
    pub own_space: bool,
    /// What it was promised.
    pub claim: Claim,
    /// Its eviction order.
    pub rank: RankKind,
}

/// What becomes of a write that would leave a tenant with more than its share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OverShare {
    /// It is stored; memory that others leave free is borrowed, or items of low rank go, its own before others'.
    #[default]
    Evict,
    /// It is refused.
    Refuse,
}

/// `flushed_below` of a tenant that was removed, while threads may still write for it.
pub(crate) const FLUSHED_FOR_EVER: u64 = u64::MAX;

/// Ticks of the rank clock that are remembered.
pub(crate) const TICKS: usize = 256;

/// One tenant.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) id: TenantId,
    spec: Mutex<Arc<TenantSpec>>,
    /// A copy of the spec's, to read on every request.
    own_space: AtomicBool,
    /// Nobody has this id: its tenant was removed. Release by who removes and who adds; Acquire by who lists tenants.
    gone: AtomicBool,
    /// Tenants that had this id before.
    generation: AtomicU32,
    /// What the counters of this id were when its tenant came.
    before: Mutex<Option<Box<Totals>>>,
    /// Live bytes charged.
    pub(crate) live: AtomicI64,
    /// Bytes of records in tiers that its items lead to, dead ones too.
    pub(crate) away: AtomicI64,
    /// Items whose values are there.
    pub(crate) away_items: AtomicI64,
    /// Items that are not flushed.
    pub(crate) items: AtomicI64,
    /// Of these, items that have expired and are still there.
    pub(crate) expired: AtomicI64,
    /// Flushed items that the index still points at.
    pub(crate) stale: AtomicI64,
    /// Items with a smaller stamp are dead.
    pub(crate) flushed_below: AtomicU64,
    /// Keys whose hash is below this are sampled for its miss ratio curve.
    pub(crate) sampled_below: AtomicU64,
    target: AtomicU64,
    /// What of DRAM it should hold, while that is divided by itself; `u64::MAX` while it is not.
    dram_target: AtomicU64,
    /// `u64::MAX` without one.
    ceiling: AtomicU64,
    /// How it competes by worth, if it does.
    worth: WorthCell,
    /// Hits that ranks let expect.
    expected: Expected,
    /// What the cleaner leaves it before anybody gets more.
    floor: AtomicU64,
    /// A write that leaves it with more live bytes than its share is refused.
    refuses: AtomicBool,
    /// Where its values go, and how its accesses below DRAM are held back.
    pub(crate) below: Standing,
    pub(crate) expiries: Expiries,
    pub(crate) shadow: Mutex<Shadow>,
    /// One key in 2^k is in the shadow queue; a copy to read without the lock.
    pub(crate) shadow_sampling: AtomicU32,
    /// What its rank learns, if it does; kept when it no longer does.
    learnt: OnceLock<Box<HitDensity>>,
    learns: AtomicBool,
    /// The rank's level as bits of an `f32`, above it the family of ranks that it is of.
    level: AtomicU64,
    /// What it was at each tick; nothing as long as it never was other than 0, which it is for ranks that have none.
    level_at: OnceLock<Box<[AtomicU32; TICKS]>>,
}

impl Tenant {
    /// One that comes at a second of the store's clock.
    pub(crate) fn new(
        id: TenantId,
        spec: TenantSpec,
        reasons: Reasons,
        shadow_budget: Bytes,
        now_secs: u32,
    ) -> Self {
        let mut shadow = Shadow::default();
        shadow.resize(crate::limits::SHADOW_REPRESENTS, shadow_budget);
        let tenant = Self {
            id,
            own_space: AtomicBool::new(spec.own_space),
            floor: AtomicU64::new(spec.claim.floor.bytes.0),
            spec: Mutex::new(Arc::new(spec)),
            gone: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            before: Mutex::new(None),
            live: AtomicI64::new(0),
            away: AtomicI64::new(0),
            away_items: AtomicI64::new(0),
            items: AtomicI64::new(0),
            expired: AtomicI64::new(0),
            stale: AtomicI64::new(0),
            flushed_below: AtomicU64::new(0),
            sampled_below: AtomicU64::new(0),
            target: AtomicU64::new(0),
            dram_target: AtomicU64::new(u64::MAX),
            ceiling: AtomicU64::new(u64::MAX),
            worth: WorthCell::default(),
            expected: Expected::default(),
            refuses: AtomicBool::new(false),
            below: Standing::new(reasons),
            expiries: Expiries::from(now_secs),
            shadow: Mutex::new(shadow),
            shadow_sampling: AtomicU32::new(0),
            learnt: OnceLock::new(),
            learns: AtomicBool::new(false),
            level: AtomicU64::new(0),
            level_at: OnceLock::new(),
        };
        tenant.set_learns(&tenant.spec().rank);
        tenant
    }

    /// Memory beside the place of its id: its specification, wheels, levels, and what its rank learns. The shadow queue has a budget of its own.
    pub(crate) fn tables(&self) -> u64 {
        let levels = self.level_at.get().map_or(0, |levels| size_of_val(&**levels));
        let before = lock(&self.before).as_ref().map_or(0, |_| size_of::<Totals>());
        (levels + before + SPEC_BYTES) as u64 + self.expiries.bytes() + self.learnt_bytes().0
    }

    /// The stamp that a new item must have at least to survive the flushes so far; none does once the tenant was removed.
    #[inline]
    pub(crate) fn survivors_from(&self) -> u64 {
        match self.flushed_below.load(Ordering::Acquire) {
            FLUSHED_FOR_EVER => 0,
            below => below,
        }
    }

    /// What it was created with, as changed since.
    pub(crate) fn spec(&self) -> Arc<TenantSpec> {
        Arc::clone(&lock(&self.spec))
    }

    /// Changes what it was created with, but for its key space.
    pub(crate) fn change(&self, change: impl FnOnce(&mut TenantSpec)) {
        let mut spec = lock(&self.spec);
        let own_space = spec.own_space;
        let spec = Arc::make_mut(&mut spec);
        change(spec);
        spec.own_space = own_space;
        self.set_floor(spec.claim.floor.bytes);
        self.set_learns(&spec.rank);
    }

    /// Whether its rank learns from now on.
    fn set_learns(&self, rank: &RankKind) {
        if rank.learns() {
            self.learnt.get_or_init(Box::default);
        }
        self.learns.store(rank.learns(), Ordering::Relaxed);
    }

    /// Who is to be told how its items end, if its rank learns from that.
    #[inline]
    pub(crate) fn learnt(&self) -> Option<&HitDensity> {
        if self.learns.load(Ordering::Relaxed) { self.learnt.get().map(|learnt| &**learnt) } else { None }
    }

    /// What a rank that learns has learnt so far.
    pub(crate) fn densities(&self, rank: &RankKind) -> Option<Arc<Densities>> {
        let learnt = self.learnt.get().filter(|_| rank.learns())?;
        Some(learnt.densities(u64::try_from(self.items.load(Ordering::Relaxed)).unwrap_or(0)))
    }

    /// Memory of what its rank learns.
    pub(crate) fn learnt_bytes(&self) -> Bytes {
        Bytes(self.learnt.get().map_or(0, |_| HitDensity::BYTES))
    }

    /// What nobody takes from it.
    pub(crate) fn floor(&self) -> Bytes {
        Bytes(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn set_floor(&self, floor: Bytes) {
        self.floor.store(floor.0, Ordering::Relaxed);
    }

    /// Whether its keys are compared with its own only.
    #[inline]
    pub(crate) fn has_own_space(&self) -> bool {
        self.own_space.load(Ordering::Relaxed)
    }

    /// Whether nobody has this id.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Tenants that had this id before.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// What the counters of this id were when its tenant came.
    pub(crate) fn before(&self) -> Totals {
        lock(&self.before).as_deref().copied().unwrap_or_default()
    }

    /// Ends the tenant: it has no share and no shadow queue from now on. Its items are the caller's to flush.
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        self.set_over_share(OverShare::Evict);
        self.forget_share();
    }

    /// Takes everything back that a decision may have given to a tenant that was removed meanwhile.
    pub(crate) fn forget_share(&self) {
        self.target.store(0, Ordering::Relaxed);
        self.set_dram_target(None);
        self.ceiling.store(u64::MAX, Ordering::Relaxed);
        self.worth.set(None);
        self.take_expected_hits();
        self.set_floor(Bytes::ZERO);
        self.below.set_brake(Setting::FREE, Instant::ZERO);
        *lock(&self.shadow) = Shadow::default();
        self.shadow_sampling.store(0, Ordering::Relaxed);
    }

    /// Begins another tenant with this id, of which no item is left. Its counters start at `before`; the wheels of its
    /// expiries, all zero, stay for the new one.
    pub(crate) fn begin(&self, spec: TenantSpec, before: Totals) {
        debug_assert!(self.is_gone());
        self.own_space.store(spec.own_space, Ordering::Relaxed);
        self.set_floor(spec.claim.floor.bytes);
        if let Some(learnt) = self.learnt.get() {
            learnt.forget();
        }
        self.set_learns(&spec.rank);
        *lock(&self.spec) = Arc::new(spec);
        *lock(&self.before) = Some(Box::new(before));
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.level.store(0, Ordering::Relaxed);
        for level in self.level_at.get().into_iter().flat_map(|levels| levels.iter()) {
            level.store(0, Ordering::Relaxed);
        }
    }

    /// Lets others see it.
    pub(crate) fn appear(&self) {
        self.gone.store(false, Ordering::Release);
    }

    /// What becomes of its writes beyond its share.
    pub(crate) fn over_share(&self) -> OverShare {
        if self.refuses.load(Ordering::Relaxed) { OverShare::Refuse } else { OverShare::Evict }
    }

    pub(crate) fn set_over_share(&self, over_share: OverShare) {
        self.refuses.store(over_share == OverShare::Refuse, Ordering::Relaxed);
    }

    /// Whether some writes may be refused.
    #[inline]
    pub(crate) fn may_refuse(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// Whether a write that changes what it holds by `change` bytes is refused, where some may be: it adds, and ends beyond the share.
    pub(crate) fn refuses(&self, change: i64) -> bool {
        let share = self.target.load(Ordering::Relaxed).min(self.ceiling.load(Ordering::Relaxed));
        0 < change && share < self.held().0.saturating_add_signed(change)
    }

    /// Look-ups, hits among them, and hits below DRAM among those, that the counters of this id had when its tenant came.
    pub(crate) fn look_ups_before(&self) -> (u64, u64, u64) {
        lock(&self.before).as_deref().map_or((0, 0, 0), |t| (t.asked(), t.found(), t.tier_hits))
    }

    /// Live items: what has expired, to a second or 3 % of its time to live, is none.
    pub(crate) fn live_items(&self) -> u64 {
        let expired = self.expired.load(Ordering::Relaxed);
        u64::try_from(self.items.load(Ordering::Relaxed) - expired).unwrap_or(0)
    }

    /// Live bytes charged.
    pub(crate) fn held(&self) -> Bytes {
        Bytes(u64::try_from(self.live.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// What of that is in DRAM, or less by what has expired in tiers.
    pub(crate) fn held_here(&self) -> Bytes {
        self.held().saturating_sub(self.held_below())
    }

    /// Bytes of its records in tiers.
    pub(crate) fn held_below(&self) -> Bytes {
        Bytes(u64::try_from(self.away.load(Ordering::Relaxed)).unwrap_or(0))
    }

    pub(crate) fn share(&self) -> MemoryShare {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        MemoryShare {
            target: Bytes(self.target.load(Ordering::Relaxed)),
            ceiling: (ceiling != u64::MAX).then_some(Bytes(ceiling)),
            worth: self.worth(),
        }
    }

    pub(crate) fn set_share(&self, share: MemoryShare, shadow_budget: Bytes) {
        self.target.store(share.target.0, Ordering::Relaxed);
        self.ceiling.store(share.ceiling.map_or(u64::MAX, |c| c.0), Ordering::Relaxed);
        self.worth.set(share.worth);
        let mut shadow = lock(&self.shadow);
        shadow.resize(crate::limits::SHADOW_REPRESENTS, shadow_budget);
        self.shadow_sampling.store(u32::from(shadow.sampling()), Ordering::Relaxed);
    }

    /// What of DRAM it should hold, while that is divided by itself.
    pub(crate) fn dram_target(&self) -> Option<Bytes> {
        let target = self.dram_target.load(Ordering::Relaxed);
        (target != u64::MAX).then_some(Bytes(target))
    }

    pub(crate) fn set_dram_target(&self, target: Option<Bytes>) {
        self.dram_target.store(target.map_or(u64::MAX, |target| target.0), Ordering::Relaxed);
    }

    /// What says how much of it is in DRAM: what it holds and what it should, of DRAM where that is divided by itself, else of
    /// DRAM and tiers together.
    pub(crate) fn near(&self) -> (Bytes, Bytes) {
        match self.dram_target() {
            Some(target) => (self.held_here(), target),
            None => (self.held(), self.share().target),
        }
    }

    /// Whether it holds more than its ceiling and the slack around it.
    #[inline]
    pub(crate) fn is_over_ceiling(&self) -> bool {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        ceiling.saturating_add(ceiling_slack(ceiling)) < self.held().0
    }

    /// Bytes to evict to come as far below the ceiling as the slack allows above it: what it holds is the ceiling on
    /// average, and not every store passes it again.
    pub(crate) fn excess(&self) -> u64 {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        self.held().0.saturating_sub(ceiling - ceiling_slack(ceiling))
    }

    /// How the shadow queue samples now: one key in 2^k.
    #[inline]
    pub(crate) fn sampling(&self) -> u8 {
        u8::try_from(self.shadow_sampling.load(Ordering::Relaxed)).unwrap_or(u8::MAX)
    }

    /// Whether accesses to a key are sampled for its curve.
    #[inline]
    pub(crate) fn samples(&self, hash: KeyHash) -> bool {
        hash.0 < self.sampled_below.load(Ordering::Relaxed)
    }

    /// Samples no key from this hash on.
    pub(crate) fn sample_at_most(&self, below: u64) {
        self.sampled_below.fetch_min(below, Ordering::Relaxed);
    }

    /// Samples the lower half of the keys that are sampled.
    pub(crate) fn sample_half(&self) {
        self.sample_at_most(self.sampled_below.load(Ordering::Relaxed) / 2);
    }

    /// The level of a rank; `first` if that depends on what is ranked and nothing was. A level that another rank left
    /// means nothing.
    pub(crate) fn level_of(&self, rank: &RankKind, first: impl Fn() -> f32) -> f32 {
        let word = self.level.load(Ordering::Relaxed);
        let level = if word >> 32 == rank.family() { level_in(word) } else { rank.level_start() };
        if level.is_nan() { first() } else { level }
    }

    pub(crate) fn set_level(&self, rank: &RankKind, level: f32) {
        self.level.store(rank.family() << 32 | u64::from(level.to_bits()), Ordering::Relaxed);
    }

    /// The level at a tick not longer than 255 ticks ago.
    #[inline]
    pub(crate) fn level_at(&self, tick: u8) -> f32 {
        let level = self.level_at.get().map_or(0, |levels| levels[usize::from(tick)].load(Ordering::Relaxed));
        f32::from_bits(level)
    }

    /// Remembers the level for a tick that begins.
    pub(crate) fn begin_tick(&self, tick: u8) {
        let level = level_in(self.level.load(Ordering::Relaxed)).to_bits();
        if level != 0 || self.level_at.get().is_some() {
            let levels = self.level_at.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU32::new(0))));
            levels[usize::from(tick)].store(level, Ordering::Relaxed);
        }
    }
}

fn level_in(word: u64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let bits = word as u32;
    f32::from_bits(bits)
}

/// What a tenant may hold beyond its ceiling before it is trimmed: a part of it, and never a whole segment.
fn ceiling_slack(ceiling: u64) -> u64 {
    (ceiling / CEILING_SLACK_PART).min(CEILING_SLACK_MAX.0)
}

/// A specification behind its pointer, with a name of usual length.
const SPEC_BYTES: usize = size_of::<TenantSpec>() + 32;
/// Slack on either side of a ceiling: one part in so many.
const CEILING_SLACK_PART: u64 = 64;
/// Slack at most.
const CEILING_SLACK_MAX: Bytes = Bytes::kib(512);

/// What a tenant is now.
#[derive(Clone, Debug)]
pub struct TenantState {
    /// Its id.
    pub id: TenantId,
    /// Its name.
    pub name: String,
    /// Live bytes charged.
    pub held: Bytes,
    /// Bytes of its records in tiers, a part of what it holds but for what has expired and is not removed yet.
    pub away: Bytes,
    /// Items whose values are there.
    pub away_items: u64,
    /// Where its values go.
    pub placement: Placement,
    /// Live items.
    pub items: u64,
    /// The share in force.
    pub share: MemoryShare,
    /// What of DRAM it should hold, while that is divided by itself.
    pub dram_target: Option<Bytes>,
    /// What it was promised.
    pub claim: Claim,
    /// Its private memory, which nobody takes: what was promised, or its private part of the memory without a promise.
    pub private: Bytes,
    /// Memory of its shadow queue.
    pub shadow: Bytes,
    /// Its eviction order.
    pub rank: RankKind,
    /// What becomes of its writes beyond its share.
    pub over_share: OverShare,
    /// How it is held back at the tier whose time is divided.
    pub throttle: Throttle,
}
