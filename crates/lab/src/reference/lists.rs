//! Items in doubly linked lists: what most eviction orders are made of.
//!
//! Shape:      index (hash -> slot), slots, and lists through the slots, each from the first (newest) to the last
//! Invariants: an item is in exactly one list; a list knows its bytes and its items
//! Cost:       O(1) per step, 48 B per item and the index

use super::index::Index;

/// No slot: a list's end.
const NONE: u32 = u32::MAX;

/// All items and all lists of a simulator.
#[derive(Debug)]
pub(super) struct Lists {
    index: Index,
    slots: Vec<Item>,
    free: Vec<u32>,
    lists: Vec<List>,
}

/// One item.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) key_hash: u64,
    pub(super) charge: u64,
    /// When it was last accessed, for those who keep that.
    pub(super) at: u64,
    /// How it was used, for those who keep that.
    pub(super) uses: u8,
    pub(super) list: u32,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
    held: u64,
    items: usize,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE, held: 0, items: 0 };
}

/// A slot, or none at a list's end.
fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}

impl Lists {
    /// So many empty lists, numbered from 0.
    pub(super) fn new(count: usize) -> Self {
        let lists = vec![List::EMPTY; count];
        Self { index: Index::default(), slots: Vec::new(), free: Vec::new(), lists }
    }

    /// Adds empty lists until there are `count`.
    pub(super) fn extend_to(&mut self, count: usize) {
        self.lists.resize(self.lists.len().max(count), List::EMPTY);
    }

    pub(super) fn find(&self, key_hash: u64) -> Option<u32> {
        self.index.get(&key_hash).copied()
    }

    pub(super) fn item(&self, slot: u32) -> &Item {
        &self.slots[slot as usize]
    }

    pub(super) fn note(&mut self, slot: u32, uses: u8, at: u64) {
        let item = &mut self.slots[slot as usize];
        (item.uses, item.at) = (uses, at);
    }

    pub(super) fn last(&self, list: u32) -> Option<u32> {
        some(self.lists[list as usize].last)
    }

    /// The item before it in its list, which was put there later.
    pub(super) fn newer(&self, slot: u32) -> Option<u32> {
        some(self.item(slot).newer)
    }

    pub(super) fn held(&self, list: u32) -> u64 {
        self.lists[list as usize].held
    }

    pub(super) fn items(&self, list: u32) -> usize {
        self.lists[list as usize].items
    }

    /// Adds an item that is not there yet as the first of `list`, unused.
    pub(super) fn add(&mut self, list: u32, key_hash: u64, charge: u64) -> u32 {
        let item = Item { key_hash, charge, at: 0, uses: 0, list, newer: NONE, older: NONE };
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
        self.link_first(list, slot);
        slot
    }

    /// Makes an item the first of `list`.
    pub(super) fn put_first(&mut self, list: u32, slot: u32) {
        self.unlink(slot);
        self.link_first(list, slot);
    }

    /// Gives an item another charge where it is.
    pub(super) fn resize(&mut self, slot: u32, charge: u64) {
        let item = &mut self.slots[slot as usize];
        let list = &mut self.lists[item.list as usize];
        list.held = list.held - item.charge + charge;
        item.charge = charge;
    }

    /// Forgets an item.
    pub(super) fn take_out(&mut self, slot: u32) {
        self.unlink(slot);
        self.index.remove(&self.slots[slot as usize].key_hash);
        self.free.push(slot);
    }

    /// Asserts every invariant.
    pub(super) fn check(&self) {
        assert_eq!(self.index.len() + self.free.len(), self.slots.len(), "a slot is lost");
        let mut all = 0;
        for (number, list) in self.lists.iter().enumerate() {
            let (mut slot, mut newer, mut held, mut items) = (list.first, NONE, 0, 0);
            while slot != NONE {
                let item = self.item(slot);
                assert_eq!(item.newer, newer, "the list's directions differ");
                assert_eq!(item.list as usize, number, "an item does not know its list");
                assert_eq!(self.find(item.key_hash), Some(slot), "the index misses an item");
                held += item.charge;
                items += 1;
                (newer, slot) = (slot, item.older);
            }
            assert_eq!(list.last, newer, "the list does not end at its last item");
            assert_eq!((list.held, list.items), (held, items), "a list is miscounted");
            all += items;
        }
        assert_eq!(all, self.index.len(), "the lists miss an item");
    }

    fn link_first(&mut self, number: u32, slot: u32) {
        let list = &mut self.lists[number as usize];
        let older = std::mem::replace(&mut list.first, slot);
        let item = &mut self.slots[slot as usize];
        (item.list, item.newer, item.older) = (number, NONE, older);
        list.held += item.charge;
        list.items += 1;
        match older {
            NONE => list.last = slot,
            older => self.slots[older as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Item { newer, older, list, charge, .. } = self.slots[slot as usize];
        let list = &mut self.lists[list as usize];
        list.held -= charge;
        list.items -= 1;
        match newer {
            NONE => list.first = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => list.last = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}
