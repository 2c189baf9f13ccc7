//! A tenant of the store: what it holds, what it should hold, its shadow queue, its expiries.
//!
//! Units: bytes charged (log bytes and index share of live items)

use crate::expiry::Expiries;
use crate::rank::RankKind;
use crate::shadow::Shadow;
use crate::sync::{AtomicI64, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use control::{Claim, memory::MemoryShare};
use units::{Bytes, TenantId};

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

/// Ticks of the rank clock that are remembered.
pub(crate) const TICKS: usize = 256;

/// One tenant.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) id: TenantId,
    pub(crate) spec: TenantSpec,
    /// Live bytes charged.
    pub(crate) live: AtomicI64,
    /// Live items.
    pub(crate) items: AtomicI64,
    /// Items with a smaller stamp are dead.
    pub(crate) flushed_below: AtomicU64,
    target: AtomicU64,
    /// `u64::MAX` without one.
    ceiling: AtomicU64,
    pub(crate) expiries: Expiries,
    pub(crate) shadow: Mutex<Shadow>,
    /// One key in 2^k is in the shadow queue; a copy to read without the lock.
    pub(crate) shadow_sampling: AtomicU32,
    /// The rank's level as bits of an `f32`, above it the family of ranks that it is of, and what it was at each tick.
    level: AtomicU64,
    level_at: Box<[AtomicU32; TICKS]>,
}

impl Tenant {
    pub(crate) fn new(id: TenantId, spec: TenantSpec, shadow_budget: Bytes) -> Self {
        let mut shadow = Shadow::default();
        shadow.resize(crate::limits::SHADOW_REPRESENTS, shadow_budget);
        Self {
            id,
            spec,
            live: AtomicI64::new(0),
            items: AtomicI64::new(0),
            flushed_below: AtomicU64::new(0),
            target: AtomicU64::new(0),
            ceiling: AtomicU64::new(u64::MAX),
            expiries: Expiries::default(),
            shadow: Mutex::new(shadow),
            shadow_sampling: AtomicU32::new(0),
            level: AtomicU64::new(0),
            level_at: Box::new(std::array::from_fn(|_| AtomicU32::new(0))),
        }
    }

    /// Live bytes charged.
    pub(crate) fn held(&self) -> Bytes {
        Bytes(u64::try_from(self.live.load(Ordering::Relaxed)).unwrap_or(0))
    }

    pub(crate) fn share(&self) -> MemoryShare {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        MemoryShare {
            target: Bytes(self.target.load(Ordering::Relaxed)),
            ceiling: (ceiling != u64::MAX).then_some(Bytes(ceiling)),
        }
    }

    pub(crate) fn set_share(&self, share: MemoryShare, shadow_budget: Bytes) {
        self.target.store(share.target.0, Ordering::Relaxed);
        self.ceiling.store(share.ceiling.map_or(u64::MAX, |c| c.0), Ordering::Relaxed);
        let mut shadow = lock(&self.shadow);
        shadow.resize(crate::limits::SHADOW_REPRESENTS, shadow_budget);
        self.shadow_sampling.store(u32::from(shadow.sampling()), Ordering::Relaxed);
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
        f32::from_bits(self.level_at[usize::from(tick)].load(Ordering::Relaxed))
    }

    /// Remembers the level for a tick that begins.
    pub(crate) fn begin_tick(&self, tick: u8) {
        let level = level_in(self.level.load(Ordering::Relaxed));
        self.level_at[usize::from(tick)].store(level.to_bits(), Ordering::Relaxed);
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
    /// Live items.
    pub items: u64,
    /// The share in force.
    pub share: MemoryShare,
    /// What it was promised.
    pub claim: Claim,
    /// Its eviction order.
    pub rank: RankKind,
    /// Memory of its shadow queue.
    pub shadow: Bytes,
}
