//! A tenant of the store: what it holds, what it should hold, its shadow queue, its expiries.
//!
//! Units: bytes charged (log bytes and index share of live items)

use crate::expiry::Expiries;
use crate::hash::KeyHash;
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
    /// Keys whose hash is below this are sampled for its miss ratio curve.
    pub(crate) sampled_below: AtomicU64,
    target: AtomicU64,
    /// `u64::MAX` without one.
    ceiling: AtomicU64,
    pub(crate) expiries: Expiries,
    pub(crate) shadow: Mutex<Shadow>,
    /// One key in 2^k is in the shadow queue; a copy to read without the lock.
    pub(crate) shadow_sampling: AtomicU32,
    /// GDSF's L, as bits of an `f32`, and what it was at each tick.
    level: AtomicU32,
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
            sampled_below: AtomicU64::new(0),
            target: AtomicU64::new(0),
            ceiling: AtomicU64::new(u64::MAX),
            expiries: Expiries::default(),
            shadow: Mutex::new(shadow),
            shadow_sampling: AtomicU32::new(0),
            level: AtomicU32::new(0),
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

    /// Whether accesses to a key are sampled for its curve.
    #[inline]
    pub(crate) fn samples(&self, hash: KeyHash) -> bool {
        hash.0 < self.sampled_below.load(Ordering::Relaxed)
    }

    pub(crate) fn level(&self) -> f32 {
        f32::from_bits(self.level.load(Ordering::Relaxed))
    }

    pub(crate) fn set_level(&self, level: f32) {
        self.level.store(level.to_bits(), Ordering::Relaxed);
    }

    /// The level at a tick not longer than 255 ticks ago.
    #[inline]
    pub(crate) fn level_at(&self, tick: u8) -> f32 {
        f32::from_bits(self.level_at[usize::from(tick)].load(Ordering::Relaxed))
    }

    /// Remembers the level for a tick that begins.
    pub(crate) fn begin_tick(&self, tick: u8) {
        self.level_at[usize::from(tick)].store(self.level.load(Ordering::Relaxed), Ordering::Relaxed);
    }
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
    /// Memory of its shadow queue.
    pub shadow: Bytes,
}
