//! W-TinyLFU by bytes: a small LRU window, and a segmented LRU that admits only what is asked for more often.
//!
//! Shape:      new -> window; what leaves it is admitted to main's probation if the sketch has seen it more often than
//!             all those together that it would replace; used in probation -> protected
//! Invariants: window and main together hold at most the capacity
//! Cost:       O(victims) per admission
//! Source:     Einziger, Friedman and Manes, TOS 2017, §4 (protected 80 % of main; a window of 1 % there; no adaptive
//!             window, which is a later paper's). Sizes: Einziger et al., Lightweight robust size aware cache management, TOS 2022,
//!             aggregated victims; a candidate that is refused leaves its victims where they are

use super::Reference;
use super::lists::Lists;
use super::sketch::Sketch;
use units::Bytes;

const WINDOW: u32 = 0;
const PROBATION: u32 = 1;
const PROTECTED: u32 = 2;
/// Protected takes so many fifths of main (§4: 80 %).
const PROTECTED_FIFTHS: u64 = 4;

/// The simulator.
#[derive(Debug)]
pub struct WTinyLfu {
    capacity: u64,
    per_item: u64,
    window_part: u64,
    protected_part: u64,
    lists: Lists,
    sketch: Sketch,
}

impl WTinyLfu {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes, with a window of so many
    /// hundredths; the sketch's hash functions are drawn by `seed`.
    ///
    /// # Panics
    /// If the window is more than all.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes, window_percent: u64, seed: u64) -> Self {
        assert!(window_percent <= 100, "the window is a part of the capacity");
        let window_part = capacity.scale(window_percent, 100).0;
        Self {
            capacity: capacity.0,
            per_item: per_item.0,
            window_part,
            protected_part: (capacity.0 - window_part) / 5 * PROTECTED_FIFTHS,
            lists: Lists::new(3),
            sketch: Sketch::new(seed),
        }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert!(self.held().0 <= self.capacity, "more is held than the capacity");
        assert!(self.lists.held(PROTECTED) <= self.protected_part, "too much is protected");
        assert!(self.lists.held(WINDOW) <= self.window_part, "the window is too large");
        self.lists.check();
    }

    fn main_part(&self) -> u64 {
        self.capacity - self.window_part
    }

    fn main_held(&self) -> u64 {
        self.lists.held(PROBATION) + self.lists.held(PROTECTED)
    }

    fn hit(&mut self, slot: u32, charge: u64) {
        let item = self.lists.item(slot);
        let (key_hash, list) = (item.key_hash, item.list);
        if item.charge != charge {
            // Overwriting: the item has to find room again.
            self.lists.take_out(slot);
            self.insert(key_hash, charge);
            return;
        }
        if list == WINDOW || self.protected_part < charge {
            self.lists.put_first(list, slot);
            return;
        }
        self.lists.put_first(PROTECTED, slot);
        while self.protected_part < self.lists.held(PROTECTED)
            && let Some(last) = self.lists.last(PROTECTED)
        {
            self.lists.put_first(PROBATION, last);
        }
    }

    fn insert(&mut self, key_hash: u64, charge: u64) {
        if self.window_part < charge {
            self.contend(key_hash, charge);
            return;
        }
        self.lists.add(WINDOW, key_hash, charge);
        while self.window_part < self.lists.held(WINDOW)
            && let Some(last) = self.lists.last(WINDOW)
        {
            let leaver = self.lists.item(last).clone();
            self.lists.take_out(last);
            self.contend(leaver.key_hash, leaver.charge);
        }
    }

    /// Admits an item to main, or not.
    fn contend(&mut self, key_hash: u64, charge: u64) {
        if self.main_part() < charge || !self.beats_victims(key_hash, charge) {
            return;
        }
        while self.main_part() < self.main_held() + charge
            && let Some(victim) = self.lists.last(PROBATION).or_else(|| self.lists.last(PROTECTED))
        {
            self.lists.take_out(victim);
        }
        self.lists.add(PROBATION, key_hash, charge);
    }

    /// Whether the item was seen more often than all those together that have to go for it; true if none has to.
    fn beats_victims(&self, key_hash: u64, charge: u64) -> bool {
        let mut needed = (self.main_held() + charge).saturating_sub(self.main_part());
        let mut left = u32::from(self.sketch.estimate(key_hash));
        let mut victim = self.lists.last(PROBATION).or_else(|| self.lists.last(PROTECTED));
        while 0 < needed {
            let Some(slot) = victim else { return true };
            let item = self.lists.item(slot);
            let uses = u32::from(self.sketch.estimate(item.key_hash));
            if left <= uses {
                return false;
            }
            left -= uses;
            needed = needed.saturating_sub(item.charge);
            let in_probation = item.list == PROBATION;
            victim = self.lists.newer(slot);
            if victim.is_none() && in_probation {
                victim = self.lists.last(PROTECTED);
            }
        }
        true
    }
}

impl Reference for WTinyLfu {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        let charge = u64::from(bytes) + self.per_item;
        self.sketch.add(key_hash);
        let found = self.lists.find(key_hash);
        match found {
            Some(slot) => self.hit(slot, charge),
            None => self.insert(key_hash, charge),
        }
        self.sketch.fit(self.items());
        found.is_some()
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.lists.find(key_hash).is_some()
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        self.lists.find(key_hash).inspect(|&slot| self.lists.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        Bytes(self.lists.held(WINDOW) + self.main_held())
    }

    fn items(&self) -> usize {
        [WINDOW, PROBATION, PROTECTED].iter().map(|&list| self.lists.items(list)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::testing::{hit_ratio_of_a_set_under_scans, random_steps};

    #[test]
    fn a_hundred_items_worked_by_hand() {
        // Window 1, main 99.
        let mut cache = WTinyLfu::new(Bytes(100), Bytes(0), 1, 1);
        (0..100).for_each(|key| assert!(!cache.access(key, 1)));
        assert_eq!((cache.lists.items(WINDOW), cache.lists.items(PROBATION)), (1, 99));
        assert!(!cache.access(200, 1) && !cache.contains(99), "99 came once, as did 0: 0 stays");
        assert!(cache.contains(0));
        assert!(!cache.access(99, 1), "200 came once, as did 0");
        assert!(!cache.contains(200));
        assert!(!cache.access(300, 1) && cache.contains(99) && !cache.contains(0), "99 came twice");
        assert!(cache.access(5, 1));
        assert_eq!(cache.lists.items(PROTECTED), 1);
        cache.check();
    }

    #[test]
    fn a_large_item_must_beat_all_that_it_replaces() {
        let mut cache = WTinyLfu::new(Bytes(100), Bytes(0), 1, 1);
        (0..100).for_each(|key| assert!(!cache.access(key, 1)));
        for _ in 0..10 {
            assert!(!cache.access(500, 10), "ten uses are no more than ten victims' one each");
        }
        assert!(!cache.access(500, 10) && cache.contains(500), "eleven are");
        assert!(cache.access(500, 10));
        cache.check();
    }

    #[test]
    fn one_hit_wonders_do_not_enter() {
        for window_percent in [1, 10] {
            let cache = WTinyLfu::new(Bytes(1_000), Bytes(0), window_percent, 1);
            let hit_ratio = hit_ratio_of_a_set_under_scans(cache);
            assert!(0.99 < hit_ratio, "{hit_ratio}");
        }
    }

    #[test]
    fn a_window_has_its_part_of_all() {
        let mut cache = WTinyLfu::new(Bytes(100), Bytes(0), 10, 1);
        (0..100).for_each(|key| assert!(!cache.access(key, 1)));
        assert_eq!((cache.lists.items(WINDOW), cache.lists.items(PROBATION)), (10, 90));
        assert!(!cache.access(100, 1) && cache.contains(99) && !cache.contains(90), "90 left the window");
        cache.check();
    }

    #[test]
    fn any_sizes_and_removals_keep_the_invariants() {
        for window_percent in [1, 10, 100] {
            let new = |capacity, per_item| WTinyLfu::new(capacity, per_item, window_percent, 1);
            random_steps(new, WTinyLfu::check);
        }
    }
}
