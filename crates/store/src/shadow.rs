//! Shadow queue: hashes and sizes of a tenant's last evicted items, to see which misses more memory would have hit.
//!
//! Shape:      a FIFO of sampled evictions; the oldest goes when the queue represents enough bytes or entries
//! Invariants: represented bytes ≤ limit (but for one entry); entries ≤ budget; a hit and a new store remove the key
//! Units:      a sampled key stands for 2^k keys; hits are counted scaled up by it
//! Cost:       a miss of a key that is not sampled costs a mask and a compare
//! Source:     Memshare §4.1 and §5.2. We differ from the released code, which never evicts from the queue and so
//!             stops following the cache once it is full.

use crate::hash::KeyHash;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use units::{Bytes, mix64};

/// What an entry costs: its place in the queue, its row of the table at the table's usual load.
pub(crate) const ENTRY_BYTES: u64 = 48;
/// A tenant may keep so many entries however small the budget is.
const ENTRIES_MIN: usize = 64;

/// The mixed hash is its own hash, turned: the lowest bits of all sampled keys are zero, and the table goes by those.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value.rotate_right(32);
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    size: u32,
    /// The key stood for 2^k keys when it was queued.
    k: u8,
}

/// One tenant's queue.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    queue: VecDeque<Entry>,
    /// From key to the number of its entry, counted from the first ever queued.
    known: HashMap<u64, u64, BuildHasherDefault<Identity>>,
    /// Number of the entry at the front.
    first: u64,
    represents: u64,
    limit: u64,
    entries_max: usize,
    k: u8,
}

/// The part of a hash that decides about sampling: independent of bucket and tag.
#[inline]
fn key_of(hash: KeyHash) -> u64 {
    mix64(hash.0)
}

#[inline]
fn is_sampled(key: u64, k: u8) -> bool {
    key & ((1 << k) - 1) == 0
}

impl Shadow {
    /// Sets how many bytes of items the queue stands for, and how much memory it may take.
    pub(crate) fn resize(&mut self, limit: Bytes, budget: Bytes) {
        self.limit = limit.0;
        self.entries_max = Bytes(budget.0).count_of(Bytes(ENTRY_BYTES)).try_into().unwrap_or(usize::MAX);
        self.entries_max = self.entries_max.max(ENTRIES_MIN);
        self.trim();
    }

    /// Whether a key with this hash may be in the queue: cheap, before any lock is taken.
    #[inline]
    pub(crate) fn may_know(hash: KeyHash, k: u8) -> bool {
        is_sampled(key_of(hash), k)
    }

    /// One key in 2^k is sampled.
    pub(crate) fn sampling(&self) -> u8 {
        self.k
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.queue.len() as u64 * ENTRY_BYTES)
    }

    /// Queues an evicted item.
    pub(crate) fn push(&mut self, hash: KeyHash, size: u32) {
        let key = key_of(hash);
        if !is_sampled(key, self.k) {
            return;
        }
        self.forget(key);
        self.known.insert(key, self.first + self.queue.len() as u64);
        self.queue.push_back(Entry { key, size, k: self.k });
        self.represents += u64::from(size) << self.k;
        self.trim();
    }

    /// A miss: how many hits of a larger cache it stands for. The key leaves the queue.
    pub(crate) fn hit(&mut self, hash: KeyHash) -> u64 {
        self.forget(key_of(hash)).map_or(0, |k| 1 << k)
    }

    /// Removes a key; returns its sampling if it was there.
    fn forget(&mut self, key: u64) -> Option<u8> {
        let number = self.known.remove(&key)?;
        let at = usize::try_from(number - self.first).ok()?;
        let entry = self.queue.get_mut(at)?;
        // The entry stays as a gap until it reaches the front.
        self.represents -= u64::from(entry.size) << entry.k;
        entry.size = 0;
        Some(entry.k)
    }

    fn trim(&mut self) {
        while self.limit < self.represents {
            self.pop();
        }
        while self.entries_max < self.queue.len() {
            // Gaps go first; if real entries fill the budget, half as many keys are sampled from now on.
            if self.known.len() * 2 < self.queue.len() {
                self.compact();
            } else if self.k < 40 {
                self.k += 1;
                let k = self.k;
                for entry in &mut self.queue {
                    if !is_sampled(entry.key, k) && self.known.remove(&entry.key).is_some() {
                        self.represents -= u64::from(entry.size) << entry.k;
                        entry.size = 0;
                    }
                }
                self.compact();
            } else {
                self.pop();
            }
        }
    }

    fn pop(&mut self) {
        let Some(entry) = self.queue.pop_front() else {
            self.represents = 0;
            return;
        };
        self.first += 1;
        if self.known.get(&entry.key) == Some(&(self.first - 1)) {
            self.known.remove(&entry.key);
            self.represents -= u64::from(entry.size) << entry.k;
        }
    }

    /// Drops gaps, renumbers what stays, and stands every survivor for what the sampling is now.
    fn compact(&mut self) {
        let known = std::mem::take(&mut self.known);
        let mut number = self.first;
        let first = self.first;
        let mut kept = VecDeque::with_capacity(known.len());
        self.represents = 0;
        for (i, mut entry) in self.queue.drain(..).enumerate() {
            if known.get(&entry.key) == Some(&(first + i as u64)) {
                entry.k = self.k;
                self.represents += u64::from(entry.size) << entry.k;
                self.known.insert(entry.key, number);
                number += 1;
                kept.push_back(entry);
            }
        }
        self.queue = kept;
    }

    /// Asserts every invariant.
    pub(crate) fn check(&self) {
        let mut represents = 0;
        let mut live = 0;
        for (i, entry) in self.queue.iter().enumerate() {
            if self.known.get(&entry.key) == Some(&(self.first + i as u64)) {
                represents += u64::from(entry.size) << entry.k;
                live += 1;
                assert!(is_sampled(entry.key, self.k), "only sampled keys are queued");
            }
        }
        assert_eq!(live, self.known.len(), "every known key has its entry");
        assert_eq!(represents, self.represents, "represented bytes add up");
        assert!(self.queue.len() <= self.entries_max.max(ENTRIES_MIN), "the queue keeps its budget");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    fn hash(n: u64) -> KeyHash {
        KeyHash(mix64(n ^ 0xABCD))
    }

    fn shadow(limit: u64, entries: u64) -> Shadow {
        let mut shadow = Shadow::default();
        shadow.resize(Bytes(limit), Bytes(entries * ENTRY_BYTES));
        shadow
    }

    #[test]
    fn it_is_a_fifo_of_bytes() {
        let mut s = shadow(1_000, 10_000);
        for n in 0..20 {
            s.push(hash(n), 100);
        }
        s.check();
        assert_eq!((0..20).map(|n| s.hit(hash(n))).collect::<Vec<_>>(), [vec![0; 10], vec![1; 10]].concat());
        assert_eq!(s.hit(hash(15)), 0, "a hit removes the key");
        s.check();
    }

    #[test]
    fn sampling_starts_when_entries_run_out() {
        let entries = if cfg!(miri) { 70 } else { 1_000 };
        let keys = entries * 64;
        let mut s = shadow(u64::MAX, entries);
        for n in 0..keys {
            s.push(hash(n), 10);
        }
        s.check();
        assert!(5 < s.sampling() && s.sampling() < 9, "k = {}", s.sampling());
        let hits: u64 = (0..keys).map(|n| s.hit(hash(n))).sum();
        let few = if cfg!(miri) { 2 } else { 0 };
        assert!(
            (keys / (5 + few) * 4..keys / (4 - few) * 5).contains(&hits),
            "scaled hits stand for all evictions: {hits}"
        );
    }

    /// M4: a tenant with uniform accesses over K keys and a cache of C items hits its shadow queue of S items with
    /// ratio S / K of all accesses, within 10 %, after ten turnovers, sampled or not.
    #[test]
    fn m4_shadow_hits_follow_the_gradient() {
        if cfg!(miri) {
            return; // Statistics of a million accesses; nothing unsafe in them.
        }
        for budget_entries in [100_000, 600] {
            let (keys, cache_items, queue_items) = (20_000_u64, 5_000_usize, 2_000_u64);
            let mut s = shadow(queue_items * 100, budget_entries);
            let mut rng = Rng::new(3);
            let mut cache: Vec<u64> = (0..cache_items as u64).collect();
            let mut cached: Vec<bool> = (0..keys).map(|n| n < cache_items as u64).collect();
            let accesses = 400_000;
            let mut hits = 0;
            for turn in 0..accesses * 2 {
                let key = rng.below(keys);
                if cached[usize::try_from(key).unwrap()] {
                    continue;
                }
                let shadow_hit = s.hit(hash(key));
                if accesses <= turn {
                    hits += shadow_hit;
                }
                // Random replacement: every key is alike, so the gradient is exactly S / K.
                let at = rng.index(cache.len());
                let victim = std::mem::replace(&mut cache[at], key);
                cached[usize::try_from(victim).unwrap()] = false;
                cached[usize::try_from(key).unwrap()] = true;
                s.push(hash(victim), 100);
            }
            s.check();
            let ratio = hits as f64 / f64::from(accesses);
            let expected = queue_items as f64 / keys as f64;
            assert!((ratio / expected - 1.0).abs() < 0.1, "{ratio} for {expected}, {budget_entries} entries");
        }
    }
}
