//! Sampled accesses on their way to whoever makes miss ratio curves of them.
//!
//! Shape:      a thread's operations -> its ring -> `Store::drain_samples`, called by one thread now and then
//! Invariants: a key is sampled by its hash: all of its accesses are, or none; a full ring drops and counts; nobody waits
//! Units:      bytes charged; hashes are uniform over 64 bits
//! Cost:       an access that is not sampled costs a load from its tenant and a compare; a sampled one two stores. A ring
//!             takes 4 KiB
//! Source:     spatial sampling: Waldspurger and others, FAST '15
//! Non-goals:  curves; the store delivers what they are made of

use crate::hash::KeyHash;
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering, bump};
use units::TenantId;

/// Accesses that wait in a ring at most.
const RING: usize = 256;
/// A ring asks to be drained when so many wait.
const RING_FULL: u64 = RING as u64 / 2;

/// What happened to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampledKind {
    /// It was looked up; the bytes are those of its item, or 0 if there is none.
    LookUp,
    /// It was looked up, and its item had expired or been flushed.
    DeadLookUp,
    /// It was stored, with so many bytes.
    Write,
    /// It was deleted.
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
    pub(crate) fn put(&self, tenant: TenantId, hash: KeyHash, kind: SampledKind, bytes: u32) -> bool {
        let put = self.put.load(Ordering::Relaxed);
        // Acquire: a slot is written again after it was read.
        let waiting = put.wrapping_sub(self.taken.load(Ordering::Acquire));
        if RING as u64 <= waiting {
            bump(&self.dropped, 1);
            return true;
        }
        let slot = &self.slots[place(put)];
        let what = u64::from(bytes) << 32 | (u64::from(tenant.0) & 0xFFFF) << 16 | kind as u64;
        slot[0].store(hash.0, Ordering::Relaxed);
        slot[1].store(what, Ordering::Relaxed);
        // Release: who sees the count sees the slot.
        self.put.store(put.wrapping_add(1), Ordering::Release);
        RING_FULL <= waiting
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

impl Store {
    /// Samples the keys of a tenant whose hash is below `below`, from now on; 0 for none, as at first.
    ///
    /// # Panics
    /// If there is no such tenant.
    pub fn sample_below(&self, tenant: TenantId, below: u64) {
        self.tenant(tenant).sampled_below.store(below, Ordering::Relaxed);
    }

    /// Takes the sampled accesses that wait, of one thread after another and in order within each; returns how many were
    /// lost because nobody came in time.
    pub fn drain_samples(&self, mut take: impl FnMut(SampledAccess)) -> u64 {
        self.each_thread(|thread| thread.samples.drain(&mut take))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ring.put(a.tenant, KeyHash(a.hash), a.kind, a.bytes)
        };
        let mut out = Vec::new();
        for round in 0..10_u64 {
            assert!(!(0..100).any(|n| put(round * 100 + n)));
            assert_eq!(ring.drain(&mut |a| out.push(a)), 0);
        }
        assert_eq!(out, (0..1_000).map(access).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_ring_drops_and_says_so() {
        let ring = Ring::default();
        let full = (0..300).filter(|n| ring.put(TenantId(1), KeyHash(*n), SampledKind::Write, 1)).count();
        assert_eq!(full, 300 - RING / 2);
        let mut out = Vec::new();
        assert_eq!(ring.drain(&mut |a| out.push(a.hash)), 300 - RING as u64);
        assert_eq!(out, (0..RING as u64).collect::<Vec<_>>());
        assert_eq!(ring.drain(&mut |_| panic!("it is empty")), 0);
    }
}
