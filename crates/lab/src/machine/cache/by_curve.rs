//! Caches that are their miss ratio curves: thousands of seconds of many tenants in an instant.
//!
//! Shape:      look-ups per second and a curve per tenant -> hits, shadow hits, bytes written -> who holds how much
//! Invariants: what is held never exceeds the capacity; the same seed gives the same run to the byte
//! Units:      bytes as charged; one virtual second has as many look-ups as its tenant makes
//! Source:     Memshare §3.1 and §4: a miss writes its item, and space is taken from whoever has the least need. The cleaner
//!             is an ideal one: it levels all who are above a common need, at once. So memory moves only as fast as
//!             misses write, and what is in force lags behind the targets. Shadow hits are the fall of the curve over the
//!             bytes that a shadow queue represents
//! Non-goals:  items, segments, a cleaner that sees a sample only: `by_store` has them

use super::{Caches, SHADOW_HITS_PER_DECISION};
use control::memory::{MemoryShare, MemorySignal};
use control::{Actuator, Amount, Claim, Curve, Decision, Pool, Row, Sensor};
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Time is cut into steps of so much; curves hold still within one.
const STEP: Duration = Duration::from_millis(100);
/// Rounds of bisection for the common need; 2^-50 of it is below a byte.
const LEVEL_ROUNDS: u32 = 50;

/// One tenant.
#[derive(Clone, Debug)]
pub struct CurveTenant {
    /// What it was promised.
    pub claim: Claim,
    /// What it misses at which size.
    pub curve: Curve,
    /// Its look-ups.
    pub gets_per_sec: f64,
    /// What a miss writes.
    pub item: Bytes,
    /// What it touches within the idle time; whatever it holds beyond is idle.
    pub active: Bytes,
    /// When it comes.
    pub arrives: Instant,
    /// When it goes.
    pub leaves: Option<Instant>,
}

/// A tenant and its cache.
#[derive(Clone, Debug)]
struct Cache {
    id: TenantId,
    tenant: CurveTenant,
    held: f64,
    target: Bytes,
    /// Look-ups that were due and not whole yet.
    due: f64,
    /// Of the window.
    gets: u64,
    hits: u64,
    shadow_hits: u64,
    /// Since the begin.
    gets_total: u64,
    hits_total: u64,
}

/// The plant.
#[derive(Clone, Debug)]
pub struct CurveCaches {
    caches: Vec<Cache>,
    capacity: Bytes,
    shadow: Bytes,
    missing: f64,
    now: Instant,
    rng: Rng,
}

impl CurveCaches {
    /// Tenants in a memory of `capacity`, each with a shadow queue that represents `shadow` bytes.
    #[must_use]
    pub fn new(capacity: Bytes, shadow: Bytes, tenants: Vec<CurveTenant>, seed: u64) -> Self {
        let cache = |(id, tenant)| Cache {
            id: TenantId(id),
            tenant,
            held: 0.0,
            target: Bytes::ZERO,
            due: 0.0,
            gets: 0,
            hits: 0,
            shadow_hits: 0,
            gets_total: 0,
            hits_total: 0,
        };
        let caches = (0..).zip(tenants).map(cache).collect();
        Self { caches, capacity, shadow, missing: 0.0, now: Instant::ZERO, rng: Rng::new(seed) }
    }

    /// The same, with a sensor that fails for a tenant with this chance at each reading.
    #[must_use]
    pub fn with_missing_signals(self, chance: f64) -> Self {
        Self { missing: chance.clamp(0.0, 1.0), ..self }
    }

    /// What each tenant holds, in the order in which they were given.
    pub fn held(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.caches.iter().map(|cache| whole(cache.held))
    }

    /// Hits over look-ups of all tenants since the begin or the last [`CurveCaches::forget`].
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let gets: u64 = self.caches.iter().map(|c| c.gets_total).sum();
        let hits: u64 = self.caches.iter().map(|c| c.hits_total).sum();
        if gets == 0 { 0.0 } else { hits as f64 / gets as f64 }
    }

    /// Starts counting anew.
    pub fn forget(&mut self) {
        for cache in &mut self.caches {
            (cache.gets_total, cache.hits_total) = (0, 0);
        }
    }

    fn step(&mut self, length: Duration) {
        self.now += length;
        for cache in self.caches.iter_mut().filter(|c| is_there(c, self.now)) {
            cache.look_up(length, self.shadow, &mut self.rng);
        }
        self.take_back();
    }

    /// Who is gone holds nothing and has nothing to tell; the others hold no more than there is.
    fn take_back(&mut self) {
        let now = self.now;
        for cache in self.caches.iter_mut().filter(|c| !is_there(c, now)) {
            cache.held = 0.0;
            (cache.gets, cache.hits, cache.shadow_hits) = (0, 0, 0);
        }
        let capacity = self.capacity.0 as f64;
        let held: f64 = self.caches.iter().map(|c| c.held).sum();
        if held <= capacity {
            return;
        }
        // Everybody keeps at most `level` times its target; a tenant without target has the least need of all.
        let (mut low, mut high) = (0.0, held);
        for _ in 0..LEVEL_ROUNDS {
            let level = f64::midpoint(low, high);
            let kept: f64 = self.caches.iter().map(|c| c.kept_at(level)).sum();
            if kept <= capacity { low = level } else { high = level }
        }
        for cache in &mut self.caches {
            cache.held = cache.kept_at(low);
        }
    }
}

fn is_there(cache: &Cache, now: Instant) -> bool {
    cache.tenant.arrives <= now && cache.tenant.leaves.is_none_or(|leaves| now < leaves)
}

fn whole(bytes: f64) -> Bytes {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size that is never negative"
    )]
    let bytes = bytes.max(0.0) as u64;
    Bytes(bytes)
}

impl Cache {
    fn kept_at(&self, level: f64) -> f64 {
        self.held.min(level * self.target.0 as f64)
    }

    fn look_up(&mut self, length: Duration, shadow: Bytes, rng: &mut Rng) {
        self.due += self.tenant.gets_per_sec.max(0.0) * length.as_secs_f64();
        let gets = whole(self.due).0;
        self.due -= gets as f64;
        let held = whole(self.held);
        let miss_ratio = self.tenant.curve.miss_ratio(held);
        let misses = rng.binomial(gets, miss_ratio);
        if 0 < misses {
            // The misses that a cache with the shadow queue's bytes on top would have hit.
            let lost = (miss_ratio - self.tenant.curve.miss_ratio(held + shadow)) / miss_ratio;
            self.shadow_hits += rng.binomial(misses, lost.clamp(0.0, 1.0));
        }
        self.held += misses as f64 * self.tenant.item.0 as f64;
        self.gets += gets;
        self.hits += gets - misses;
        self.gets_total += gets;
        self.hits_total += gets - misses;
    }
}

impl Sensor for CurveCaches {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn read(&mut self, _: Instant, rows: &mut Vec<Row<MemorySignal, MemoryShare>>) -> Pool {
        let now = self.now;
        for cache in self.caches.iter_mut().filter(|c| is_there(c, now)) {
            let held = whole(cache.held);
            let signal = MemorySignal {
                held,
                idle: held.saturating_sub(cache.tenant.active),
                shadow_hits: std::mem::take(&mut cache.shadow_hits),
                gets: std::mem::take(&mut cache.gets),
                hits: std::mem::take(&mut cache.hits),
                ..MemorySignal::default()
            };
            let is_missing = 0.0 < self.missing && self.rng.chance(self.missing);
            rows.push(Row {
                id: cache.id,
                claim: cache.tenant.claim.clone(),
                signal: (!is_missing).then_some(signal),
                in_force: None,
            });
        }
        Pool { capacity: Amount::memory(self.capacity), ..Pool::default() }
    }
}

impl Actuator for CurveCaches {
    type Share = MemoryShare;

    fn apply(
        &mut self,
        _: Instant,
        decision: &Decision<'_, MemoryShare>,
        in_force: &mut Vec<(TenantId, MemoryShare)>,
    ) -> bool {
        in_force.clear();
        let mut is_whole = true;
        for cache in &mut self.caches {
            let Some(share) = decision.shares.get(cache.id) else { continue };
            cache.target = share.target;
            if let Some(ceiling) = share.ceiling {
                // A ceiling is enforced at once: evicting copies nothing.
                cache.held = cache.held.min(ceiling.0 as f64);
            }
            is_whole &= share.ceiling.is_none_or(|ceiling| whole(cache.held) <= ceiling);
            in_force.push((cache.id, *share));
        }
        is_whole
    }
}

impl Caches for CurveCaches {
    fn now(&self) -> Instant {
        self.now
    }

    fn advance(&mut self, until: Instant) {
        while self.now < until && self.pending_shadow_hits() < SHADOW_HITS_PER_DECISION {
            self.step(STEP.min(until.since(self.now)));
        }
    }

    fn pending_shadow_hits(&self) -> u64 {
        self.caches.iter().map(|c| c.shadow_hits).sum()
    }
}

/// The sizes that give the most hits per second, and their hit ratio: `capacity` given out in `pieces`, each to whoever
/// gains the most by it. Exact for curves that are steep first and flat later, but for the size of a piece.
#[must_use]
pub fn optimum(tenants: &[CurveTenant], capacity: Bytes, pieces: u64) -> (Vec<Bytes>, f64) {
    let piece = capacity.scale(1, pieces.max(1));
    let mut sizes: Vec<Bytes> = tenants.iter().map(|t| t.claim.floor.bytes).collect();
    let given: Bytes = sizes.iter().copied().sum();
    let hits = |t: &CurveTenant, size: Bytes| t.gets_per_sec * (1.0 - t.curve.miss_ratio(size));
    for _ in 0..capacity.saturating_sub(given).count_of(piece) {
        let gain = |i: &usize| hits(&tenants[*i], sizes[*i] + piece) - hits(&tenants[*i], sizes[*i]);
        let best = (0..tenants.len()).max_by(|a, b| gain(a).total_cmp(&gain(b)));
        if let Some(best) = best {
            sizes[best] += piece;
        }
    }
    let all: f64 = tenants.iter().map(|t| t.gets_per_sec).sum();
    let hits: f64 = tenants.iter().zip(&sizes).map(|(t, size)| hits(t, *size)).sum();
    (sizes, if 0.0 < all { hits / all } else { 0.0 })
}
