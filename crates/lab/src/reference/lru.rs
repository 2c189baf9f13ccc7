//! Exact LRU by bytes: evicts the item whose last access is the longest ago.
//!
//! Shape: one list, the latest access first
//! Cost:  O(1) per access

use super::Reference;
use super::lists::Lists;
use units::Bytes;

/// The only list.
const ALL: u32 = 0;

/// The simulator.
#[derive(Debug)]
pub struct Lru {
    capacity: u64,
    per_item: u64,
    lists: Lists,
}

impl Lru {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes) -> Self {
        Self { capacity: capacity.0, per_item: per_item.0, lists: Lists::new(1) }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert!(self.lists.held(ALL) <= self.capacity, "more is held than the capacity");
        self.lists.check();
    }

    fn evict_down_to(&mut self, bytes: u64) {
        while bytes < self.lists.held(ALL)
            && let Some(last) = self.lists.last(ALL)
        {
            self.lists.take_out(last);
        }
    }
}

impl Reference for Lru {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        let charge = u64::from(bytes) + self.per_item;
        let found = self.lists.find(key_hash);
        match found {
            Some(slot) if self.capacity < charge => self.lists.take_out(slot),
            Some(slot) => {
                self.lists.resize(slot, charge);
                self.lists.put_first(ALL, slot);
                self.evict_down_to(self.capacity);
            }
            None if self.capacity < charge => {}
            None => {
                self.evict_down_to(self.capacity - charge);
                self.lists.add(ALL, key_hash, charge);
            }
        }
        found.is_some()
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.lists.find(key_hash).is_some()
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        self.lists.find(key_hash).inspect(|&slot| self.lists.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        Bytes(self.lists.held(ALL))
    }

    fn items(&self) -> usize {
        self.lists.items(ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn the_longest_unused_goes_first() {
        let mut lru = Lru::new(Bytes(30), Bytes(4));
        for key in [1, 2, 3] {
            assert!(!lru.access(key, 6));
        }
        assert!(lru.access(1, 6));
        assert!(!lru.access(4, 6));
        assert!(!lru.contains(2) && lru.contains(1) && lru.contains(3));
        assert!(lru.access(3, 16));
        assert!(!lru.contains(1) && lru.contains(4));
        assert!(lru.remove(3) && !lru.remove(3));
        assert_eq!((lru.held(), lru.items()), (Bytes(10), 1));
        lru.check();
    }

    #[test]
    fn what_cannot_fit_is_not_held() {
        let mut lru = Lru::new(Bytes(30), Bytes(4));
        lru.access(1, 6);
        assert!(!lru.access(2, 27) && !lru.contains(2) && lru.contains(1));
        assert!(lru.access(1, 27) && !lru.contains(1));
        assert_eq!(lru.items(), 0);
    }

    #[test]
    fn it_equals_a_list_searched_from_end_to_end() {
        let mut rng = Rng::new(1);
        let mut lru = Lru::new(Bytes(1_000), Bytes(10));
        let mut model: Vec<(u64, u64)> = Vec::new();
        for _ in 0..20_000 {
            let (key, bytes) = (rng.below(100), rng.below(60));
            let held = model.iter().position(|(k, _)| *k == key);
            if let Some(i) = held {
                model.remove(i);
            }
            if rng.chance(0.1) {
                assert_eq!(lru.remove(key), held.is_some());
                continue;
            }
            model.insert(0, (key, bytes + 10));
            while model.iter().map(|(_, charge)| charge).sum::<u64>() > 1_000 {
                model.pop();
            }
            assert_eq!(lru.access(key, u32::try_from(bytes).unwrap()), held.is_some());
            assert_eq!(lru.items(), model.len());
        }
        lru.check();
    }
}
