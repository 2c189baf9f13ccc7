//! Exact greedy-dual-size-frequency: evicts the item of the lowest rank.
//!
//! | paper | here |
//! |---|---|
//! | `H(i)`, the key of item i | `rank` = `floor` + `accesses` / `charge` |
//! | `L`, the inflation value | `floor`: the rank of the last item evicted |
//! | `F(i)` | `accesses` since the item was inserted |
//! | `S(i)` | `charge`: its bytes and the charge per item |
//! | `C(i)` | 1: every miss costs the same, which aims at the hit ratio |
//!
//! Shape:      index (hash -> slot) and a binary heap of slots, lowest rank at its root
//! Invariants: a parent's rank is at most its children's; every slot knows its place in the heap
//! Cost:       O(log items) per access
//! Source:     Cherkasova, Improving WWW proxies performance with greedy-dual-size-frequency caching policy, 1998.
//!             Ties go to the item that was accessed longer ago

use super::Reference;
use super::index::Index;
use units::Bytes;

/// The simulator.
#[derive(Debug)]
pub struct Gdsf {
    capacity: u64,
    per_item: u64,
    held: u64,
    floor: f64,
    accesses_total: u64,
    index: Index,
    slots: Vec<Slot>,
    free: Vec<u32>,
    heap: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    key_hash: u64,
    charge: u64,
    accesses: u64,
    rank: f64,
    last_access: u64,
    place: u32,
}

impl Gdsf {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes) -> Self {
        Self {
            capacity: capacity.0,
            per_item: per_item.0,
            held: 0,
            floor: 0.0,
            accesses_total: 0,
            index: Index::default(),
            slots: Vec::new(),
            free: Vec::new(),
            heap: Vec::new(),
        }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert!(self.held <= self.capacity, "more is held than the capacity");
        assert_eq!(self.heap.len(), self.index.len(), "heap and index differ");
        assert_eq!(self.heap.len() + self.free.len(), self.slots.len(), "a slot is lost");
        let mut held = 0;
        for (place, &slot) in self.heap.iter().enumerate() {
            let item = &self.slots[slot as usize];
            assert_eq!(item.place as usize, place, "an item does not know its place");
            assert_eq!(self.index.get(&item.key_hash), Some(&slot), "the index misses an item");
            assert!(self.floor <= item.rank, "an item ranks below the floor");
            if place > 0 {
                assert!(!self.goes_before(place, (place - 1) / 2), "the heap is out of order");
            }
            held += item.charge;
        }
        assert_eq!(held, self.held, "held bytes are miscounted");
    }

    fn insert(&mut self, key_hash: u64, charge: u64, accesses: u64) {
        if charge > self.capacity {
            return;
        }
        while self.held > self.capacity - charge {
            let victim = self.heap[0];
            self.floor = self.slots[victim as usize].rank;
            self.take_out(victim);
        }
        let rank = self.rank(accesses, charge);
        let place = u32::try_from(self.heap.len()).expect("items are counted in 32 bits");
        let item = Slot { key_hash, charge, accesses, rank, last_access: self.accesses_total, place };
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
        self.heap.push(slot);
        self.rise(place as usize);
    }

    /// H = L + C × F / S, with C = 1. An item without bytes and charge counts as one byte.
    fn rank(&self, accesses: u64, charge: u64) -> f64 {
        self.floor + accesses as f64 / charge.max(1) as f64
    }

    fn take_out(&mut self, slot: u32) {
        let item = &self.slots[slot as usize];
        let place = item.place as usize;
        self.held -= item.charge;
        self.index.remove(&item.key_hash);
        self.free.push(slot);
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.set_place(place);
            self.sink(place);
            self.rise(place);
        }
    }

    fn goes_before(&self, place: usize, other: usize) -> bool {
        let a = &self.slots[self.heap[place] as usize];
        let b = &self.slots[self.heap[other] as usize];
        a.rank.total_cmp(&b.rank).then(a.last_access.cmp(&b.last_access)).is_lt()
    }

    fn set_place(&mut self, place: usize) {
        let slot = self.heap[place];
        #[expect(
            clippy::cast_possible_truncation,
            reason = "items are counted in 32 bits, checked at insertion"
        )]
        let narrow = place as u32;
        self.slots[slot as usize].place = narrow;
    }

    fn swap(&mut self, place: usize, other: usize) {
        self.heap.swap(place, other);
        self.set_place(place);
        self.set_place(other);
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if !self.goes_before(place, parent) {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let right_first = right < self.heap.len() && self.goes_before(right, left);
            let child = if right_first { right } else { left };
            if !self.goes_before(child, place) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }
}

impl Reference for Gdsf {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        self.accesses_total += 1;
        let charge = u64::from(bytes) + self.per_item;
        let Some(&slot) = self.index.get(&key_hash) else {
            self.insert(key_hash, charge, 1);
            return false;
        };
        let item = &self.slots[slot as usize];
        let accesses = item.accesses + 1;
        if item.charge == charge {
            let (rank, place) = (self.rank(accesses, charge), item.place as usize);
            let last_access = self.accesses_total;
            let item = &mut self.slots[slot as usize];
            *item = Slot { accesses, rank, last_access, ..*item };
            self.sink(place);
        } else {
            self.take_out(slot);
            self.insert(key_hash, charge, accesses);
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
    fn large_and_rare_items_go_first() {
        let mut gdsf = Gdsf::new(Bytes(100), Bytes(0));
        gdsf.access(1, 50);
        gdsf.access(2, 10);
        gdsf.access(3, 40);
        assert!(!gdsf.access(4, 10) && !gdsf.contains(1), "the largest of equals goes");
        for _ in 0..5 {
            assert!(gdsf.access(3, 40));
        }
        assert!(!gdsf.access(5, 50) && gdsf.contains(3), "six accesses outweigh four times the size");
        assert!(!gdsf.contains(2), "the smaller one is older and was not accessed again");
        gdsf.check();
    }

    #[test]
    fn removing_and_what_cannot_fit() {
        let mut gdsf = Gdsf::new(Bytes(100), Bytes(1));
        gdsf.access(1, 50);
        assert!(gdsf.remove(1) && !gdsf.remove(1));
        assert!(!gdsf.access(2, 100) && !gdsf.contains(2));
        assert_eq!((gdsf.held(), gdsf.items()), (Bytes(0), 0));
    }

    #[test]
    fn it_equals_a_search_for_the_lowest_rank() {
        let mut rng = Rng::new(2);
        let mut gdsf = Gdsf::new(Bytes(1_000), Bytes(10));
        let mut model: Vec<(u64, f64, u64, f64)> = Vec::new();
        let mut floor = 0.0;
        for step in 0..20_000 {
            // A size per key, so that accesses do not resize.
            let key = rng.below(rng.clone().below(100) + 1);
            let charge = key % 7 * 13 + 10;
            let held = model.iter().position(|(k, ..)| *k == key);
            let accesses = held.map_or(1.0, |i| model.remove(i).3 + 1.0);
            while model.iter().map(|(k, ..)| k % 7 * 13 + 10).sum::<u64>() + charge > 1_000 {
                let order = |a: &(u64, f64, u64, f64), b: &(u64, f64, u64, f64)| {
                    a.1.total_cmp(&b.1).then(a.2.cmp(&b.2))
                };
                let lowest = *model.iter().min_by(|a, b| order(a, b)).unwrap();
                floor = lowest.1;
                model.retain(|item| item.0 != lowest.0);
            }
            model.push((key, floor + accesses / charge as f64, step, accesses));
            let bytes = u32::try_from(charge - 10).unwrap();
            assert_eq!(gdsf.access(key, bytes), held.is_some(), "step {step}");
            assert_eq!(gdsf.items(), model.len());
            if step % 1_000 == 0 {
                gdsf.check();
            }
        }
    }
}
