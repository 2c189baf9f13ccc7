//! Shadow queue: hashes and sizes of a tenant's last evicted items, to see which misses more memory would have hit.
//!
//! Shape:      a FIFO of sampled evictions; the oldest goes when the queue represents enough bytes or entries
//! Invariants: represented bytes ≤ limit (but for one entry); memory allocated ≤ budget (but for seven entries); entries, with the gaps
//!             among them, ≤ `ENTRIES_MAX`; a hit, a new store, a delete and a flush remove the key
//! Units:      a sampled key stands for 2^k keys; hits are counted scaled up by it
//! Cost:       a miss of a key that is not sampled costs a mask and a compare
//! Source:     Memshare §4.1 and §5.2. We differ from the released code, which never evicts from the queue and so
//!             stops following the cache once it is full.

use crate::hash::KeyHash;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use units::{Bytes, mix64};

/// What a row of the table costs: key, number and a control byte.
const ROW_BYTES: usize = size_of::<(u32, u32)>() + 1;
/// What a table costs beside its rows.
const TABLE_BYTES: usize = 16;
/// A tenant may keep so many entries however small the budget is: 272 B.
const ENTRIES_MIN: usize = 7;
/// As many as a table of 8,192 rows is enough for (`entries_for`): each sampled eviction costs cache lines and the queue's lock
/// (`docs/decisions/2026-11-20-shadow-queue-size.md`).
const ENTRIES_MAX: usize = 3_583;

/// Seconds after which those of an entry begin anew, and how far they reach ahead.
const EXPIRY_TURN: u32 = 1 << 24;
const EXPIRY_AHEAD: u32 = EXPIRY_TURN / 2;

/// A name is its own hash.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u32);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        // The table goes by the lowest bits and by the highest seven.
        u64::from(self.0) << 32 | u64::from(self.0)
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u32(&mut self, value: u32) {
        self.0 = value;
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    size: u32,
    /// The key stood for 2^k keys when it was queued.
    k: u8,
    /// Second at which the item would have expired, in 24 bits, modulo 2^24; 0 for never.
    expires_at: [u8; 3],
}

const _: () = assert!(size_of::<Entry>() == 16, "a second costs no memory");

/// One tenant's queue.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    queue: VecDeque<Entry>,
    /// From name to the number of its entry, counted from the first ever queued, modulo 2^32.
    known: HashMap<u32, u32, BuildHasherDefault<Identity>>,
    /// Number of the entry at the front.
    first: u32,
    represents: u64,
    limit: u64,
    entries_max: usize,
    k: u8,
    /// The number of the next entry when `k` became what it is.
    k_since: u32,
}

/// The part of a hash that decides about sampling: independent of bucket and tag.
#[inline]
fn key_of(hash: KeyHash) -> u64 {
    mix64(hash.0)
}

/// What a key is known by: its upper bits, for the lowest of all sampled keys are zero. Two in 2^32 keys share a name, and
/// one that is missed for the other is a wrong hit.
fn name_of(key: u64) -> u32 {
    u32::try_from(key >> 32).unwrap_or(0)
}

/// Entries that a budget suffices for, `ENTRIES_MAX` at most. The table makes itself larger once half of what it takes is
/// known, for removed rows count until it is made anew; so half is all that may be known.
fn entries_for(budget: Bytes) -> usize {
    let budget = usize::try_from(budget.0).unwrap_or(usize::MAX / 2);
    let fitting = |rows: &usize| rows * ROW_BYTES + TABLE_BYTES < budget;
    let entries = |rows: usize| {
        let left = budget - rows * ROW_BYTES - TABLE_BYTES;
        (rows / 16 * 7).min(left / size_of::<Entry>()).saturating_sub(1)
    };
    let tables = std::iter::successors(Some(16_usize), |rows| rows.checked_mul(2));
    tables.take_while(fitting).map(entries).max().unwrap_or(0).clamp(ENTRIES_MIN - 1, ENTRIES_MAX)
}

#[inline]
fn is_sampled(key: u64, k: u8) -> bool {
    key & ((1 << k) - 1) == 0
}

impl Shadow {
    /// Sets how many bytes of items the queue stands for, and how much memory it may take.
    pub(crate) fn resize(&mut self, limit: Bytes, budget: Bytes) {
        self.limit = limit.0;
        self.entries_max = entries_for(budget);
        self.trim();
        self.sample_more();
        if budget < self.bytes() && !self.queue.is_empty() {
            self.compact();
        }
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
        let rows = match self.known.capacity() {
            0 => 0,
            capacity => (capacity * 8 / 7).next_power_of_two() * ROW_BYTES + TABLE_BYTES,
        };
        Bytes((self.queue.capacity() * size_of::<Entry>() + rows) as u64)
    }

    /// Queues an evicted item.
    ///
    /// One that would have expired more than three months from now counts as one that does not.
    pub(crate) fn push(&mut self, hash: KeyHash, size: u32, (expires_at, now_secs): (u32, u32)) {
        let key = key_of(hash);
        if !is_sampled(key, self.k) {
            return;
        }
        self.forget(key);
        if self.queue.len() == self.queue.capacity() {
            // Twice as many, and never more than one beyond the budget's.
            let more = self.queue.len().max(4).min(self.entries_max.saturating_sub(self.queue.len()) + 1);
            self.queue.reserve_exact(more);
        }
        self.known.insert(name_of(key), self.number(self.queue.len()));
        let is_known = expires_at != 0 && expires_at.saturating_sub(now_secs) < EXPIRY_AHEAD;
        let [_, a, b, c] = (if is_known { (expires_at % EXPIRY_TURN).max(1) } else { 0 }).to_be_bytes();
        let expires_at = [a, b, c];
        self.queue.push_back(Entry { key, size, k: self.k, expires_at });
        self.represents += u64::from(size) << self.k;
        self.trim();
    }

    /// A miss: how many hits of a larger cache it stands for, 0 if the item would have expired. The key leaves the queue.
    pub(crate) fn hit(&mut self, hash: KeyHash, now_secs: u32) -> u64 {
        self.forget(key_of(hash)).map_or(0, |Entry { k, expires_at: [a, b, c], .. }| {
            let expires_at = u32::from_be_bytes([0, a, b, c]);
            let past = now_secs.wrapping_sub(expires_at) % EXPIRY_TURN;
            if expires_at != 0 && past < EXPIRY_AHEAD { 0 } else { 1 << k }
        })
    }

    /// A key that was stored again, or deleted: no memory would give its old item.
    pub(crate) fn remove(&mut self, hash: KeyHash) {
        self.forget(key_of(hash));
    }

    /// All items are flushed: no memory would give them.
    pub(crate) fn clear(&mut self) {
        self.first = self.number(self.queue.len());
        self.k_since = self.first;
        self.queue = VecDeque::new();
        self.known = HashMap::default();
        self.represents = 0;
    }

    /// Removes a key; returns its entry if it was there.
    fn forget(&mut self, key: u64) -> Option<Entry> {
        let number = self.known.remove(&name_of(key))?;
        let at = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        let entry = self.queue.get_mut(at)?;
        // The entry stays as a gap until it reaches the front.
        self.represents -= u64::from(entry.size) << entry.k;
        let was = *entry;
        entry.size = 0;
        Some(was)
    }

    /// Samples twice as many keys again once the queue, since `k` changed, has been filled anew and needs a quarter of its entries:
    /// its budget has grown, or its items have.
    fn sample_more(&mut self) {
        let is_full = self.limit / 2 < self.represents;
        let is_new = self.k_since.wrapping_sub(self.first).cast_signed() <= 0;
        if 0 < self.k && is_full && is_new && self.known.len() * 4 <= self.entries_max {
            self.k -= 1;
            self.k_since = self.number(self.queue.len());
        }
    }

    /// The number of the entry at a place.
    fn number(&self, at: usize) -> u32 {
        self.first.wrapping_add(u32::try_from(at).unwrap_or(0))
    }

    fn trim(&mut self) {
        // One entry is left however much it stands for: of large items among small ones nothing would be known else.
        let least = usize::from(self.limit != 0);
        while self.limit < self.represents && least < self.known.len() {
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
                    if !is_sampled(entry.key, k) && self.known.remove(&name_of(entry.key)).is_some() {
                        self.represents -= u64::from(entry.size) << entry.k;
                        entry.size = 0;
                    }
                }
                self.compact();
                self.k_since = self.number(self.queue.len());
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
        let number = self.first;
        self.first = number.wrapping_add(1);
        if self.known.get(&name_of(entry.key)) == Some(&number) {
            self.known.remove(&name_of(entry.key));
            self.represents -= u64::from(entry.size) << entry.k;
        }
    }

    /// Drops gaps, renumbers what stays, and stands every survivor for what the sampling is now, or was if that was thinner.
    fn compact(&mut self) {
        let known = std::mem::take(&mut self.known);
        let mut number = self.first;
        let first = self.first;
        let mut kept = VecDeque::with_capacity(known.len());
        self.represents = 0;
        for (i, mut entry) in self.queue.drain(..).enumerate() {
            if known.get(&name_of(entry.key)) == Some(&first.wrapping_add(u32::try_from(i).unwrap_or(0))) {
                // What was sampled more thinly stands for as many as before.
                entry.k = entry.k.max(self.k);
                self.represents += u64::from(entry.size) << entry.k;
                self.known.insert(name_of(entry.key), number);
                number = number.wrapping_add(1);
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
            if self.known.get(&name_of(entry.key)) == Some(&self.number(i)) {
                represents += u64::from(entry.size) << entry.k;
                live += 1;
                assert!(is_sampled(entry.key, self.k), "only sampled keys are queued");
            }
        }
        assert_eq!(live, self.known.len(), "every known key has its entry");
        assert_eq!(represents, self.represents, "represented bytes add up");
        assert!(self.queue.len() <= self.entries_max, "the queue keeps its budget");
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
        shadow.resize(Bytes(limit), Bytes(entries * 48));
        shadow
    }

    #[test]
    fn it_is_a_fifo_of_bytes() {
        let mut s = shadow(1_000, 10_000);
        for n in 0..20 {
            s.push(hash(n), 100, (0, 0));
        }
        s.check();
        assert_eq!(
            (0..20).map(|n| s.hit(hash(n), 0)).collect::<Vec<_>>(),
            [vec![0; 10], vec![1; 10]].concat()
        );
        assert_eq!(s.hit(hash(15), 0), 0, "a hit removes the key");
        s.check();
    }

    #[test]
    fn sampling_starts_when_entries_run_out() {
        let entries = if cfg!(miri) { 70 } else { 1_000 };
        let keys = entries * 64;
        let mut s = shadow(u64::MAX, entries);
        for n in 0..keys {
            s.push(hash(n), 10, (0, 0));
        }
        s.check();
        assert!(5 < s.sampling() && s.sampling() < 9, "k = {}", s.sampling());
        let hits: u64 = (0..keys).map(|n| s.hit(hash(n), 0)).sum();
        let few = if cfg!(miri) { 2 } else { 0 };
        assert!(
            (keys / (5 + few) * 4..keys / (4 - few) * 5).contains(&hits),
            "scaled hits stand for all evictions: {hits}"
        );
    }

    /// What is allocated is what is told, and keeps the budget through pushes, hits and smaller budgets.
    #[test]
    fn memory_keeps_its_budget() {
        let mut rng = Rng::new(1);
        for budget in [0, 300, 503, 1_000, 4_096, 50_000, 91_000] {
            let mut s = Shadow::default();
            s.resize(Bytes(u64::MAX), Bytes(budget * 2));
            for turn in 0..if cfg!(miri) { 300 } else { 30_000 } {
                s.push(hash(rng.below(10_000)), 100, (0, 0));
                s.hit(hash(rng.below(10_000)), 0);
                if turn == 100 {
                    s.resize(Bytes(u64::MAX), Bytes(budget));
                }
                let most = budget.max(272) * if turn < 100 { 2 } else { 1 };
                assert!(s.bytes() <= Bytes(most), "{} of {most}", s.bytes());
            }
            s.check();
            assert!(budget < 300 || budget / 130 <= s.entries_max as u64, "{budget}: {}", s.entries_max);
        }
    }

    /// An allocator counts no more for a queue than it tells, whatever it went through.
    #[test]
    fn an_allocator_counts_what_is_told() {
        for budget in [0, 300, 4_096, 91_000] {
            let mut s = Shadow::default();
            let mut rng = Rng::new(2);
            let counted = allocation_counter::measure(|| {
                s.resize(Bytes(u64::MAX), Bytes(budget));
                for _ in 0..if cfg!(miri) { 300 } else { 30_000 } {
                    s.push(hash(rng.below(10_000)), 100, (0, 0));
                    s.hit(hash(rng.below(10_000)), 0);
                }
            });
            assert!(0 < counted.bytes_current, "{budget}");
            assert!(counted.bytes_current.cast_unsigned() <= s.bytes().0, "{counted:?} {}", s.bytes());
        }
    }

    /// What is sampled stands for all, and large items are all known again.
    #[test]
    fn small_items_are_sampled_however_large_the_budget_is() {
        let mut s = shadow(1 << 20, 1 << 20);
        let keys = if cfg!(miri) { 20_000 } else { 200_000 };
        (0..keys).for_each(|n| s.push(hash(n), 60, (0, 0)));
        s.check();
        assert!(ENTRIES_MAX / 4 < s.known.len() && s.known.len() <= ENTRIES_MAX, "{}", s.known.len());
        let hits: u64 = (0..keys).map(|n| s.hit(hash(n), 0)).sum();
        let all = (1 << 20) / 60;
        assert!((all / 10 * 9..=all / 10 * 11).contains(&hits), "{hits} of {all}");
        for n in keys..2 * keys {
            s.push(hash(n), 2_000, (0, 0));
            if n % 1_000 == 0 {
                s.resize(Bytes(1 << 20), Bytes((1 << 20) * 48));
            }
        }
        s.check();
        assert_eq!(s.known.len() as u64, (1 << 20) / 2_000, "large ones are all known");
    }

    /// Small items made the sampling thin, then come large ones, or more memory.
    #[test]
    fn sampling_becomes_denser_again() {
        let mut s = shadow(1 << 20, 16);
        (0..100_000).for_each(|n| s.push(hash(n), 60, (0, 0)));
        let thin = s.sampling();
        assert!(8 < thin, "{thin}");
        // One of them alone stands for more than the limit: it is known all the same.
        let large: Vec<_> = (200_000..260_000).filter(|n| is_sampled(key_of(hash(*n)), thin)).collect();
        s.push(hash(large[0]), 5_000, (0, 0));
        assert!(0 < s.hit(hash(large[0]), 0));
        s.check();
        for n in 300_000..900_000 {
            s.push(hash(n), 5_000, (0, 0));
            if n % 1_000 == 0 {
                s.resize(Bytes(1 << 20), Bytes(16 * 48));
                s.check();
            }
        }
        // 1 MiB of them are 210; sixteen entries hold a sixteenth.
        assert!((3..=6).contains(&s.sampling()), "{}", s.sampling());
        for n in 1_000_000..1_100_000 {
            s.push(hash(n), 5_000, (0, 0));
            if n % 1_000 == 0 {
                s.resize(Bytes(1 << 20), Bytes(10_000 * 48));
                s.check();
            }
        }
        assert_eq!(s.sampling(), 0, "all fit");
        let hits: u64 = (1_000_000..1_100_000).map(|n| s.hit(hash(n), 0)).sum();
        assert!((180..=230).contains(&hits), "{hits} of 209");
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
                let shadow_hit = s.hit(hash(key), 0);
                if accesses <= turn {
                    hits += shadow_hit;
                }
                // Random replacement: every key is alike, so the gradient is exactly S / K.
                let at = rng.index(cache.len());
                let victim = std::mem::replace(&mut cache[at], key);
                cached[usize::try_from(victim).unwrap()] = false;
                cached[usize::try_from(key).unwrap()] = true;
                s.push(hash(victim), 100, (0, 0));
            }
            s.check();
            assert_eq!(s.sampling() == 0, queue_items < budget_entries, "k = {}", s.sampling());
            let ratio = hits as f64 / f64::from(accesses);
            let expected = queue_items as f64 / keys as f64;
            assert!((ratio / expected - 1.0).abs() < 0.1, "{ratio} for {expected}, {budget_entries} entries");
        }
    }

    #[test]
    fn what_would_have_expired_is_no_hit_and_what_was_flushed_neither() {
        let mut s = shadow(1 << 20, 64);
        for now in [10, EXPIRY_TURN - 5, EXPIRY_TURN, 3 * EXPIRY_TURN + 7] {
            for (n, ahead) in [(1, 10), (2, 11), (3, EXPIRY_AHEAD)] {
                s.push(hash(n), 100, (now + ahead, now));
            }
            s.push(hash(0), 100, (0, now));
            let hits: Vec<_> = (0..4).map(|n| s.hit(hash(n), now + 10)).collect();
            assert_eq!(hits, [1, 0, 1, 1], "from {now} on");
        }
        (0..4).for_each(|n| s.push(hash(n), 100, (0, 0)));
        s.clear();
        s.check();
        s.push(hash(4), 100, (0, 0));
        s.check();
        assert_eq!((0..5).map(|n| s.hit(hash(n), 0)).collect::<Vec<_>>(), [0, 0, 0, 0, 1]);
    }
}
