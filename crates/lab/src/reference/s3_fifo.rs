//! S3-FIFO by bytes: three queues that nothing moves within; a scan passes through the small one.
//!
//! | paper | here |
//! |---|---|
//! | S, M, G | `SMALL`, `MAIN`, `GHOST` |
//! | freq, two bits | `uses`, at most 3 |
//!
//! Shape:      new -> small; from its end to main what was used twice, the rest out and remembered in the ghost;
//!             remembered -> main; at main's end what was used goes round once more per use
//! Invariants: ghost items are not held; they stand for as many bytes as main may hold
//! Cost:       O(1) per access, amortised
//! Source:     Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023, algorithm 1 and §4.2. Queues
//!             are measured in bytes; the paper's ghost has as many entries as main, here as many bytes. `as_run` follows
//!             the rules that the authors' simulator runs by default: small is evicted from unless main is above its part,
//!             small refuses what is as large as it may be, and is passed by once it is full until there is an eviction

use super::Reference;
use super::lists::Lists;
use units::Bytes;

const SMALL: u32 = 0;
const MAIN: u32 = 1;
const GHOST: u32 = 2;
/// Small takes one byte in so many (§4.2: 10 %).
const SMALL_PART: u64 = 10;
/// Two bits count uses (algorithm 1).
const USES_MAX: u8 = 3;
/// What was used more often than this goes to main (algorithm 1).
const ONCE: u8 = 1;

/// The simulator.
#[derive(Debug)]
pub struct S3Fifo {
    capacity: u64,
    per_item: u64,
    small_part: u64,
    as_run: bool,
    has_evicted: bool,
    lists: Lists,
}

impl S3Fifo {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes) -> Self {
        let small_part = capacity.0 / SMALL_PART;
        let (capacity, per_item) = (capacity.0, per_item.0);
        Self { capacity, per_item, small_part, as_run: false, has_evicted: false, lists: Lists::new(3) }
    }

    /// As `new`, by the rules of the authors' simulator.
    #[must_use]
    pub fn as_run(capacity: Bytes, per_item: Bytes) -> Self {
        Self { as_run: true, ..Self::new(capacity, per_item) }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert!(self.held().0 <= self.capacity, "more is held than the capacity");
        assert!(self.lists.held(GHOST) <= self.main_part(), "the ghost is larger than main");
        self.lists.check();
    }

    fn main_part(&self) -> u64 {
        self.capacity - self.small_part
    }

    fn found(&self, key_hash: u64) -> Option<u32> {
        self.lists.find(key_hash).filter(|&slot| self.lists.item(slot).list != GHOST)
    }

    fn hit(&mut self, slot: u32, charge: u64) {
        if self.capacity < charge {
            self.lists.take_out(slot);
            return;
        }
        let uses = self.lists.item(slot).uses;
        self.lists.note(slot, (uses + 1).min(USES_MAX), 0);
        self.lists.resize(slot, charge);
        self.evict_down_to(self.capacity);
    }

    fn insert(&mut self, key_hash: u64, charge: u64) {
        if self.capacity < charge || (self.as_run && self.small_part <= charge) {
            return;
        }
        let remembered = self.lists.find(key_hash);
        if let Some(slot) = remembered {
            self.lists.take_out(slot);
        }
        self.evict_down_to(self.capacity - charge);
        let passes_by = self.as_run && !self.has_evicted && self.small_part <= self.lists.held(SMALL);
        self.lists.add(if remembered.is_some() || passes_by { MAIN } else { SMALL }, key_hash, charge);
    }

    fn evict_down_to(&mut self, bytes: u64) {
        while bytes < self.held().0 {
            self.has_evicted = true;
            let small_gives = if self.as_run {
                self.lists.held(MAIN) <= self.main_part()
            } else {
                self.small_part <= self.lists.held(SMALL)
            };
            if (small_gives && 0 < self.lists.items(SMALL)) || self.lists.items(MAIN) == 0 {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    /// Evicts the first unused item from small's end; what was used before it goes to main.
    fn evict_small(&mut self) {
        while let Some(slot) = self.lists.last(SMALL) {
            if self.lists.item(slot).uses <= ONCE {
                self.remember(slot);
                return;
            }
            self.lists.note(slot, 0, 0);
            self.lists.put_first(MAIN, slot);
            while !self.as_run && self.main_part() < self.lists.held(MAIN) && 1 < self.lists.items(MAIN) {
                self.evict_main();
            }
        }
    }

    fn remember(&mut self, slot: u32) {
        self.lists.put_first(GHOST, slot);
        while self.main_part() < self.lists.held(GHOST)
            && let Some(oldest) = self.lists.last(GHOST)
        {
            self.lists.take_out(oldest);
        }
    }

    fn evict_main(&mut self) {
        while let Some(slot) = self.lists.last(MAIN) {
            let uses = self.lists.item(slot).uses;
            if uses == 0 {
                self.lists.take_out(slot);
                return;
            }
            self.lists.note(slot, uses - 1, 0);
            self.lists.put_first(MAIN, slot);
        }
    }
}

impl Reference for S3Fifo {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        let charge = u64::from(bytes) + self.per_item;
        let found = self.found(key_hash);
        match found {
            Some(slot) => self.hit(slot, charge),
            None => self.insert(key_hash, charge),
        }
        found.is_some()
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.found(key_hash).is_some()
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        self.found(key_hash).inspect(|&slot| self.lists.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        Bytes(self.lists.held(SMALL) + self.lists.held(MAIN))
    }

    fn items(&self) -> usize {
        self.lists.items(SMALL) + self.lists.items(MAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Lru;
    use crate::reference::testing::{hit_ratio_of_a_set_under_scans, random_steps};

    /// The keys of a list, oldest first.
    fn keys(cache: &S3Fifo, list: u32) -> Vec<u64> {
        let slots = std::iter::successors(cache.lists.last(list), |&slot| cache.lists.newer(slot));
        slots.map(|slot| cache.lists.item(slot).key_hash).collect()
    }

    #[test]
    fn ten_items_worked_by_hand() {
        let mut cache = S3Fifo::new(Bytes(10), Bytes(0));
        (0..10).for_each(|key| assert!(!cache.access(key, 1)));
        // 0 was used twice, 1 once.
        assert!(cache.access(0, 1) && cache.access(0, 1) && cache.access(1, 1));
        assert!(!cache.access(10, 1));
        assert_eq!(keys(&cache, MAIN), [0], "used twice: to main");
        assert_eq!(keys(&cache, GHOST), [1], "used once: out");
        assert_eq!(keys(&cache, SMALL), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(!cache.access(1, 1), "a ghost is no hit");
        assert_eq!((keys(&cache, MAIN), keys(&cache, GHOST)), (vec![0, 1], vec![2]), "remembered: to main");
        assert!(cache.remove(0) && !cache.remove(0) && !cache.remove(2));
        cache.check();
    }

    #[test]
    fn as_run_small_gives_until_main_is_above_its_part() {
        let mut cache = S3Fifo::as_run(Bytes(20), Bytes(0));
        assert!(!cache.access(99, 2) && !cache.contains(99), "as large as small may be: refused");
        (0..20).for_each(|key| assert!(!cache.access(key, 1)));
        assert_eq!(keys(&cache, SMALL), [0, 1], "the others passed small by while nothing was evicted");
        assert!(!cache.access(20, 1));
        assert_eq!((keys(&cache, SMALL), keys(&cache, GHOST)), (vec![1, 20], vec![0]));
        // One is remembered, main has one more than its part: it gives the next time.
        assert!(!cache.access(0, 1));
        assert_eq!((keys(&cache, SMALL), keys(&cache, MAIN).len()), (vec![20], 19));
        assert!(!cache.access(21, 1) && cache.contains(20) && !cache.contains(2));
        cache.check();
    }

    #[test]
    fn main_goes_round_once_per_use() {
        let mut cache = S3Fifo::new(Bytes(10), Bytes(0));
        for key in 0..10 {
            (0..3).for_each(|turn| assert_eq!(cache.access(key, 1), 0 < turn));
        }
        // All of small was used: it moves to main, and main has one too many.
        assert!(!cache.access(10, 1));
        assert_eq!(keys(&cache, MAIN), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(cache.access(1, 1));
        assert!(!cache.access(11, 1) && !cache.access(10, 1));
        assert_eq!((keys(&cache, SMALL).len(), keys(&cache, MAIN).len()), (0, 10), "10 was remembered");
        assert!(!cache.access(12, 1));
        assert_eq!(keys(&cache, MAIN), [3, 4, 5, 6, 7, 8, 9, 10, 1], "1 went round, 2 went out");
        cache.check();
    }

    #[test]
    fn a_cache_too_small_for_a_small_queue_evicts_from_main() {
        for capacity in 1..20 {
            let mut cache = S3Fifo::new(Bytes(capacity), Bytes(0));
            for round in 0..5 {
                for key in 0..2 * capacity {
                    (1..=3).for_each(|_| _ = cache.access(key, 1));
                    assert!(cache.contains(key), "capacity {capacity}, round {round}");
                }
            }
            assert_eq!(cache.held(), Bytes(capacity));
            cache.check();
        }
    }

    #[test]
    fn a_scan_does_not_wash_out_what_is_used() {
        let (s3, lru) = (S3Fifo::new(Bytes(1_000), Bytes(0)), Lru::new(Bytes(1_000), Bytes(0)));
        let (s3, lru) = (hit_ratio_of_a_set_under_scans(s3), hit_ratio_of_a_set_under_scans(lru));
        assert!(0.95 < s3 && lru < 0.5, "S3-FIFO {s3}, LRU {lru}");
    }

    #[test]
    fn any_sizes_and_removals_keep_the_invariants() {
        random_steps(S3Fifo::new, S3Fifo::check);
        random_steps(S3Fifo::as_run, S3Fifo::check);
    }
}
