//! Exact LRU by bytes: evicts the item whose last access is the longest ago.
//!
//! Shape: index (hash -> slot) and a doubly linked list through the slots, latest access first
//! Cost:  O(1) per access, 32 B per item and the index

use super::Reference;
use super::index::Index;
use units::Bytes;

/// No slot: the list's end.
const NONE: u32 = u32::MAX;

/// The simulator.
#[derive(Debug)]
pub struct Lru {
    capacity: u64,
    per_item: u64,
    held: u64,
    index: Index,
    slots: Vec<Slot>,
    free: Vec<u32>,
    first: u32,
    last: u32,
}

#[derive(Debug)]
struct Slot {
    key_hash: u64,
    charge: u64,
    newer: u32,
    older: u32,
}

impl Lru {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes) -> Self {
        Self {
            capacity: capacity.0,
            per_item: per_item.0,
            held: 0,
            index: Index::default(),
            slots: Vec::new(),
            free: Vec::new(),
            first: NONE,
            last: NONE,
        }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert!(self.held <= self.capacity, "more is held than the capacity");
        assert_eq!(self.index.len() + self.free.len(), self.slots.len(), "a slot is lost");
        let (mut slot, mut newer, mut held, mut items) = (self.first, NONE, 0, 0);
        while slot != NONE {
            let item = &self.slots[slot as usize];
            assert_eq!(item.newer, newer, "the list's directions differ");
            assert_eq!(self.index.get(&item.key_hash), Some(&slot), "the index misses an item");
            held += item.charge;
            items += 1;
            (newer, slot) = (slot, item.older);
        }
        assert_eq!(self.last, newer, "the list does not end at its last item");
        assert_eq!(held, self.held, "held bytes are miscounted");
        assert_eq!(items, self.index.len(), "the list misses an item");
    }

    fn insert(&mut self, key_hash: u64, charge: u64) {
        if charge > self.capacity {
            return;
        }
        self.evict_down_to(self.capacity - charge);
        let item = Slot { key_hash, charge, newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = item;
                slot
            }
            None => {
                self.slots.push(item);
                u32::try_from(self.slots.len() - 1).expect("items are counted in 32 bits")
            }
        };
        self.index.insert(key_hash, slot);
        self.held += charge;
        self.link_first(slot);
    }

    fn evict_down_to(&mut self, bytes: u64) {
        while self.held > bytes {
            self.take_out(self.last);
        }
    }

    fn take_out(&mut self, slot: u32) {
        self.unlink(slot);
        let item = &self.slots[slot as usize];
        self.held -= item.charge;
        self.index.remove(&item.key_hash);
        self.free.push(slot);
    }

    fn link_first(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.first, slot);
        self.slots[slot as usize].newer = NONE;
        self.slots[slot as usize].older = older;
        match older {
            NONE => self.last = slot,
            older => self.slots[older as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.first = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.last = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

impl Reference for Lru {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        let charge = u64::from(bytes) + self.per_item;
        let Some(&slot) = self.index.get(&key_hash) else {
            self.insert(key_hash, charge);
            return false;
        };
        if self.slots[slot as usize].charge == charge {
            self.unlink(slot);
            self.link_first(slot);
        } else {
            self.take_out(slot);
            self.insert(key_hash, charge);
        }
        true
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.index.contains_key(&key_hash)
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        let slot = self.index.get(&key_hash).copied();
        slot.inspect(|&slot| self.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        Bytes(self.held)
    }

    fn items(&self) -> usize {
        self.index.len()
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
