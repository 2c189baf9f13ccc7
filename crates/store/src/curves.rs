//! Sampled accesses on their way to whoever makes miss ratio curves of them.
//!
//! Shape:      a thread's operations -> its ring -> `Store::drain_samples`, called by one thread now and then
//! Invariants: a key is sampled by its hash: all of its accesses are, or none. A ring that fills up samples fewer keys of
//!             whoever fills it; a key of which an access was dropped is sampled no more, nor is any above it. Nobody waits
//! Units:      bytes charged; hashes are uniform over 64 bits
//! Cost:       an access that is not sampled costs a load from its tenant and a compare; a sampled one two stores. A ring
//!             takes 4 KiB
//! Source:     spatial sampling: Waldspurger and others, FAST '15
//! Non-goals:  curves; the store delivers what they are made of

use crate::hash::KeyHash;
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering, bump, lock};
use crate::tenant::Tenant;
use std::sync::OnceLock;
use units::{Bytes, TenantId};

/// Accesses that wait in a ring at most.
const RING: usize = 256;
/// A ring asks to be drained when so many wait.
const RING_FULL: u64 = RING as u64 / 2;
/// At each of these it samples half as many keys of the tenant that filled it so far: with five of them a ring that nobody
/// drains lasts for about four times as many accesses as it has room for.
const RING_FALLS: [u64; 5] = [160, 192, 216, 232, 244];
const _: () = assert!(RING_FULL < RING_FALLS[0] && RING_FALLS[4] < RING as u64);

/// What happened to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampledKind {
    /// It was looked up, touched or counted; the bytes are those of its item, or 0 if there is none.
    LookUp,
    /// It was looked up, and its item had expired or been flushed.
    DeadLookUp,
    /// It was stored, with so many bytes.
    Write,
    /// It was deleted, or had died and was cleaned away.
    Delete,
}

/// One access to a sampled key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampledAccess {
    /// Whose.
    pub tenant: TenantId,
    /// Hash of the key, below the tenant's threshold.
    pub hash: u64,
    /// What.
    pub kind: SampledKind,
    /// Bytes that the item is charged.
    pub bytes: u32,
}

/// Memory of one thread's ring.
pub const RING_BYTES: u64 = RING as u64 * 16;

/// One thread's sampled accesses: it alone puts in, one other takes out.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Hash; then bytes (32 bits), tenant (16) and kind (16).
    slots: Box<[[AtomicU64; 2]; RING]>,
    /// Accesses put in so far, and taken out.
    put: AtomicU64,
    taken: AtomicU64,
    dropped: AtomicU64,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            slots: Box::new(std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)])),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }
}

impl Ring {
    /// Puts an access in, or drops it; true if the ring should be drained.
    pub(crate) fn put(&self, tenant: &Tenant, hash: KeyHash, kind: SampledKind, bytes: u32) -> bool {
        let waiting = self.put_or_drop(tenant.id, hash, kind, bytes);
        match waiting {
            None => tenant.sample_at_most(hash.0),
            Some(waiting) if RING_FALLS.contains(&waiting) => tenant.sample_half(),
            Some(_) => {}
        }
        waiting.is_none_or(|waiting| RING_FULL <= waiting)
    }

    /// Puts an access in if few wait: what may be missing.
    pub(crate) fn put_if_few(&self, tenant: TenantId, hash: KeyHash, kind: SampledKind) {
        let waiting = self.put.load(Ordering::Relaxed).wrapping_sub(self.taken.load(Ordering::Relaxed));
        if waiting < RING_FULL {
            self.put_or_drop(tenant, hash, kind, 0);
        }
    }

    /// Puts an access in and says how many waited before it; none if it was dropped.
    fn put_or_drop(&self, tenant: TenantId, hash: KeyHash, kind: SampledKind, bytes: u32) -> Option<u64> {
        let put = self.put.load(Ordering::Relaxed);
        // Acquire: a slot is written again after it was read.
        let waiting = put.wrapping_sub(self.taken.load(Ordering::Acquire));
        if RING as u64 <= waiting {
            bump(&self.dropped, 1);
            return None;
        }
        let slot = &self.slots[place(put)];
        let what = u64::from(bytes) << 32 | (u64::from(tenant.0) & 0xFFFF) << 16 | kind as u64;
        slot[0].store(hash.0, Ordering::Relaxed);
        slot[1].store(what, Ordering::Relaxed);
        // Release: who sees the count sees the slot.
        self.put.store(put.wrapping_add(1), Ordering::Release);
        Some(waiting)
    }

    /// Takes out all that wait, oldest first; returns how many were dropped since the last time.
    pub(crate) fn drain(&self, take: &mut dyn FnMut(SampledAccess)) -> u64 {
        let (put, mut taken) = (self.put.load(Ordering::Acquire), self.taken.load(Ordering::Relaxed));
        while taken != put {
            let slot = &self.slots[place(taken)];
            let (hash, what) = (slot[0].load(Ordering::Relaxed), slot[1].load(Ordering::Relaxed));
            taken = taken.wrapping_add(1);
            self.taken.store(taken, Ordering::Release);
            take(decoded(hash, what));
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        // A drop that falls between the two is counted one time too few.
        self.dropped.store(0, Ordering::Relaxed);
        dropped
    }
}

fn place(count: u64) -> usize {
    usize::try_from(count % RING as u64).unwrap_or(0)
}

fn decoded(hash: u64, what: u64) -> SampledAccess {
    let kind = match what & 0xFFFF {
        0 => SampledKind::LookUp,
        1 => SampledKind::DeadLookUp,
        2 => SampledKind::Write,
        _ => SampledKind::Delete,
    };
    let tenant = TenantId(u32::try_from(what >> 16 & 0xFFFF).unwrap_or(0));
    SampledAccess { tenant, hash, kind, bytes: u32::try_from(what >> 32).unwrap_or(u32::MAX) }
}

const _: () = assert!(crate::limits::TENANTS_MAX < 1 << 16);

/// What a tenant's samples stand for, and how large it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookUps {
    /// Tenants that had its id before: another number is another tenant.
    pub generation: u32,
    /// Look-ups since it came.
    pub gets: u64,
    /// Those that found their item.
    pub hits: u64,
    /// Hits whose values were below DRAM.
    pub tier_hits: u64,
    /// Live bytes charged.
    pub held: Bytes,
    /// What of them is in DRAM.
    pub held_here: Bytes,
    /// The share in force.
    pub target: Bytes,
}

impl Store {
    /// Samples the keys of a tenant whose hash is below `below`, from now on; 0 for none, as at first.
    ///
    /// # Panics
    /// If there is no such tenant.
    pub fn sample_below(&self, tenant: TenantId, below: u64) {
        self.tenant(tenant).sampled_below.store(below, Ordering::Relaxed);
    }

    /// Samples none of a tenant's keys whose hash is `below` or above, from now on.
    ///
    /// # Panics
    /// If there is no such tenant.
    pub fn sample_at_most(&self, tenant: TenantId, below: u64) {
        self.tenant(tenant).sample_at_most(below);
    }

    /// Below what the hashes of sampled keys of a tenant are: threads that nobody drains lower it. Asked when an access is
    /// taken it covers all that was dropped before it: what is below was sampled without a gap. 0 for an unknown id.
    #[must_use]
    pub fn sampled_below(&self, tenant: TenantId) -> u64 {
        self.known(tenant).map_or(0, |tenant| tenant.sampled_below.load(Ordering::Relaxed))
    }

    /// What a tenant was asked so far; none for an id that nobody has.
    #[must_use]
    pub fn look_ups(&self, id: TenantId) -> Option<LookUps> {
        let tenant = self.known(id).filter(|tenant| !tenant.is_gone())?;
        let (mut gets, mut hits, mut tier_hits) = (0, 0, 0);
        self.each_thread(|thread| {
            if let Some(counters) = thread.tenants.get(id.index()).and_then(OnceLock::get) {
                let (asked, found) = counters.look_ups();
                gets += asked;
                hits += found;
                tier_hits += counters.tier_hits();
            }
            0
        });
        let before = tenant.look_ups_before();
        Some(LookUps {
            generation: tenant.generation(),
            gets: gets.saturating_sub(before.0),
            hits: hits.saturating_sub(before.1),
            tier_hits: tier_hits.saturating_sub(before.2),
            held: tenant.held(),
            held_here: tenant.held_here(),
            target: tenant.share().target,
        })
    }

    /// Takes the sampled accesses that wait, of one thread after another and in order within each; returns how many were
    /// dropped because nobody came in time.
    pub fn drain_samples(&self, mut take: impl FnMut(SampledAccess)) -> u64 {
        let _one_at_a_time = lock(&self.draining);
        // What is done with them may take long, and who reads counters does not wait for that.
        self.all_threads().iter().map(|thread| thread.samples.drain(&mut take)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Reasons;

    #[test]
    fn accesses_come_out_as_they_went_in() {
        let ring = Ring::default();
        let kinds = [SampledKind::LookUp, SampledKind::DeadLookUp, SampledKind::Write, SampledKind::Delete];
        let access = |n: u64| SampledAccess {
            tenant: TenantId(u32::try_from(n * 977 % 65_000).unwrap()),
            hash: units::mix64(n),
            kind: kinds[usize::try_from(n % 4).unwrap()],
            bytes: u32::try_from(units::mix64(n) >> 32).unwrap(),
        };
        let put = |n| {
            let a = access(n);
            ring.put_or_drop(a.tenant, KeyHash(a.hash), a.kind, a.bytes).unwrap()
        };
        let mut out = Vec::new();
        for round in 0..10_u64 {
            assert!((0..100).all(|n| put(round * 100 + n) == n));
            assert_eq!(ring.drain(&mut |a| out.push(a)), 0);
        }
        assert_eq!(out, (0..1_000).map(access).collect::<Vec<_>>());
    }

    fn tenant() -> Tenant {
        let (name, claim) = ("t".to_owned(), control::Claim::default());
        let spec = crate::TenantSpec { name, own_space: false, claim, rank: crate::RankKind::Lru };
        Tenant::new(TenantId(1), spec, Reasons::default(), Bytes::ZERO, 0)
    }

    /// Of a ring that nobody drains, all accesses to keys below the threshold that it leaves come out, in order.
    #[test]
    fn a_full_ring_samples_fewer_keys_and_none_with_a_gap() {
        for asked in [150_u64, 300, 700, if cfg!(miri) { 2_000 } else { 100_000 }] {
            let (ring, tenant) = (Ring::default(), tenant());
            tenant.sampled_below.store(u64::MAX, Ordering::Relaxed);
            let hash = |n: u64| units::mix64(n % 700);
            let put = |n: u64| {
                tenant.samples(KeyHash(hash(n))) && ring.put(&tenant, KeyHash(hash(n)), SampledKind::Write, 1)
            };
            assert!(asked <= RING_FULL || (0..asked).map(put).fold(false, |any, full| any | full));
            let below = tenant.sampled_below.load(Ordering::Relaxed);
            let mut out = Vec::new();
            let dropped = ring.drain(&mut |a| out.push(a.hash));
            out.retain(|hash| *hash < below);
            let all: Vec<u64> = (0..asked).map(hash).filter(|hash| *hash < below).collect();
            assert_eq!(out, all, "{asked} asked, {dropped} dropped, below {below:x}");
            assert_eq!(asked < RING_FALLS[0], below == u64::MAX);
            assert!(700 < asked || dropped == 0 && u64::MAX >> 6 < below, "{dropped} {below:x}");
        }
    }
}
