//! Sampled keys in the order of their last accesses, and how many bytes were accessed after each.
//!
//! Shape:      a place per key, rising with time; places hold key and bytes, blocks of places hold sums, a table finds a
//!             key's place
//! Invariants: a key has one place; at most the places' four fifths are taken when gaps are closed; memory is that of four
//!             arrays, told exactly by `memory`
//! Cost:       an access reads at most two blocks' worth of places and one sum per block; closing gaps costs five moves per
//!             access on average. 18.3 B per key at full load: 15 B of places, 3 B of table, the sums
//! Non-goals:  choosing keys; keys are uniform numbers already

use std::mem::size_of_val;

/// Places whose bytes are summed up: a few cache lines of `u32`, and few sums for the largest number of samples.
const BLOCK: usize = 64;
/// Keys at most: places are numbered in 16 bits.
pub(super) const KEYS_LIMIT: usize = 48 << 10;
/// Keys that there is room for at first.
const KEYS_FIRST: usize = 64;

/// The order.
#[derive(Clone, Debug)]
pub(super) struct Order {
    keys: Box<[u64]>,
    /// By place; 0 is a gap.
    bytes: Box<[u32]>,
    /// Bytes of each block of places.
    sums: Box<[u64]>,
    /// Open addressing, linear: one more than a place, 0 for none.
    table: Box<[u16]>,
    room: usize,
    known: usize,
    /// No place below this is taken.
    begin: usize,
    /// The place that the next key gets.
    next: usize,
    total: u64,
}

impl Order {
    /// Nothing, with room for a few keys.
    pub(super) fn new(keys_max: usize) -> Self {
        let mut order = Self {
            keys: Box::default(),
            bytes: Box::default(),
            sums: Box::default(),
            table: Box::default(),
            room: 0,
            known: 0,
            begin: 0,
            next: 0,
            total: 0,
        };
        order.resize(keys_max.min(KEYS_FIRST));
        order
    }

    /// Memory of an order with room for so many keys.
    pub(super) fn memory_for(room: usize) -> usize {
        let places = places_for(room);
        places * 12 + places.div_ceil(BLOCK) * 8 + table_for(room) * 2
    }

    /// Memory in use.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.keys)
            + size_of_val(&*self.bytes)
            + size_of_val(&*self.sums)
            + size_of_val(&*self.table)
    }

    /// Keys known.
    pub(super) fn len(&self) -> usize {
        self.known
    }

    /// Keys that there is room for.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Bytes of all keys.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Gives it room for so many keys; those that are known must fit.
    pub(super) fn resize(&mut self, room: usize) {
        debug_assert!(self.known <= room && room <= KEYS_LIMIT, "{} keys, room for {room}", self.known);
        self.close_gaps();
        let places = places_for(room);
        let mut keys = vec![0; places].into_boxed_slice();
        let mut bytes = vec![0; places].into_boxed_slice();
        keys[..self.known].copy_from_slice(&self.keys[..self.known]);
        bytes[..self.known].copy_from_slice(&self.bytes[..self.known]);
        (self.keys, self.bytes) = (keys, bytes);
        self.sums = vec![0; places.div_ceil(BLOCK)].into_boxed_slice();
        self.table = vec![0; table_for(room)].into_boxed_slice();
        self.room = room;
        self.recount();
    }

    /// Removes a key: its bytes, and those of all keys accessed after it.
    pub(super) fn take(&mut self, key: u64) -> Option<(u32, u64)> {
        let row = self.row_of(key)?;
        let place = usize::from(self.table[row]) - 1;
        let block = place / BLOCK;
        let end = (block * BLOCK + BLOCK).min(self.next);
        let near: u64 = self.bytes[place + 1..end].iter().map(|bytes| u64::from(*bytes)).sum();
        let blocks = self.next.div_ceil(BLOCK);
        let far: u64 = self.sums[(block + 1).min(blocks)..blocks].iter().sum();
        let bytes = self.free(row, place);
        Some((bytes, near + far))
    }

    /// Puts a key that is not known at the end. There must be room.
    pub(super) fn push(&mut self, key: u64, bytes: u32) {
        if self.next == self.keys.len() {
            self.close_gaps();
            self.recount();
        }
        let place = self.next;
        self.next += 1;
        self.known += 1;
        self.keys[place] = key;
        self.bytes[place] = bytes.max(1);
        self.sums[place / BLOCK] += u64::from(bytes.max(1));
        self.total += u64::from(bytes.max(1));
        self.enter(key, place);
    }

    /// Forgets the key that was not accessed for longest.
    pub(super) fn pop(&mut self) {
        while self.begin < self.next && self.bytes[self.begin] == 0 {
            self.begin += 1;
        }
        if self.begin < self.next
            && let Some(row) = self.row_of(self.keys[self.begin])
        {
            self.free(row, self.begin);
        }
    }

    /// Forgets the keys above `limit`.
    pub(super) fn keep_up_to(&mut self, limit: u64) {
        for place in 0..self.next {
            if limit < self.keys[place] {
                self.bytes[place] = 0;
            }
        }
        self.close_gaps();
        self.recount();
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.bytes.fill(0);
        self.close_gaps();
        self.recount();
    }

    fn free(&mut self, row: usize, place: usize) -> u32 {
        let bytes = std::mem::take(&mut self.bytes[place]);
        self.sums[place / BLOCK] -= u64::from(bytes);
        self.total -= u64::from(bytes);
        self.known -= 1;
        self.leave(row);
        bytes
    }

    /// Moves every key down to the places before it that are gaps. Sums and table are wrong then.
    fn close_gaps(&mut self) {
        let mut to = 0;
        for from in 0..self.next {
            if self.bytes[from] != 0 {
                self.keys[to] = self.keys[from];
                self.bytes[to] = self.bytes[from];
                to += 1;
            }
        }
        self.bytes[to..self.next].fill(0);
        (self.known, self.begin, self.next) = (to, 0, to);
    }

    /// Makes sums and table from keys without gaps.
    fn recount(&mut self) {
        for (block, sum) in self.sums.iter_mut().enumerate() {
            let end = (block * BLOCK + BLOCK).min(self.bytes.len());
            *sum = self.bytes[block * BLOCK..end].iter().map(|bytes| u64::from(*bytes)).sum();
        }
        self.total = self.sums.iter().sum();
        self.table.fill(0);
        for place in 0..self.known {
            self.enter(self.keys[place], place);
        }
    }

    /// Where a key's probing begins: by its lower half, for the upper bits of all sampled keys are alike.
    fn home(&self, key: u64) -> usize {
        let row = ((key & u64::from(u32::MAX)) * self.table.len() as u64) >> 32;
        usize::try_from(row).unwrap_or(0)
    }

    fn after(&self, row: usize) -> usize {
        if row + 1 == self.table.len() { 0 } else { row + 1 }
    }

    fn row_of(&self, key: u64) -> Option<usize> {
        let mut row = self.home(key);
        while self.table[row] != 0 {
            if self.keys[usize::from(self.table[row]) - 1] == key {
                return Some(row);
            }
            row = self.after(row);
        }
        None
    }

    fn enter(&mut self, key: u64, place: usize) {
        let mut row = self.home(key);
        while self.table[row] != 0 {
            row = self.after(row);
        }
        self.table[row] = u16::try_from(place + 1).expect("places are fewer than 2^16");
    }

    /// Empties a row, and moves those behind it that would not be found otherwise.
    fn leave(&mut self, mut hole: usize) {
        let len = self.table.len();
        let mut row = self.after(hole);
        while self.table[row] != 0 {
            let home = self.home(self.keys[usize::from(self.table[row]) - 1]);
            if (row + len - hole) % len <= (row + len - home) % len {
                self.table[hole] = self.table[row];
                hole = row;
            }
            row = self.after(row);
        }
        self.table[hole] = 0;
    }
}

/// A fifth of the places are gaps when all keys are known.
fn places_for(room: usize) -> usize {
    room + room / 4 + 4
}

/// A table is full to two thirds at most.
fn table_for(room: usize) -> usize {
    room + room / 2 + 2
}

const _: () = assert!(KEYS_LIMIT + KEYS_LIMIT / 4 + 4 < u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::mix64;

    #[test]
    fn a_sample_takes_less_than_20_bytes() {
        for room in [256, 1_000, 8_192, KEYS_LIMIT] {
            let per_key = Order::memory_for(room) as f64 / room as f64;
            assert!(per_key < 19.0, "{room}: {per_key}");
            let mut order = Order::new(room);
            order.resize(room);
            assert_eq!(order.memory(), Order::memory_for(room));
        }
    }

    proptest! {
        /// Against a list that is searched from end to end.
        #[test]
        fn it_equals_a_list(
            steps in prop::collection::vec((0_u8..12, 0_u64..60, 1_u32..1_000), 1..600),
        ) {
            let mut order = Order::new(100);
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (what, number, bytes) in steps {
                let key = mix64(number) >> 3;
                match what {
                    0 => {
                        order.pop();
                        if !model.is_empty() {
                            model.remove(0);
                        }
                    }
                    1 => {
                        order.keep_up_to(key);
                        model.retain(|(k, _)| *k <= key);
                    }
                    2 => order.resize(64 + usize::try_from(number).unwrap()),
                    _ => {
                        let at = model.iter().position(|(k, _)| *k == key);
                        let expected = at.map(|i| {
                            let behind = model[i + 1..].iter().map(|(_, b)| u64::from(*b)).sum::<u64>();
                            (model[i].1, behind)
                        });
                        prop_assert_eq!(order.take(key), expected);
                        if let Some(i) = at {
                            model.remove(i);
                        }
                        order.push(key, bytes);
                        model.push((key, bytes));
                    }
                }
                prop_assert_eq!(order.len(), model.len());
                prop_assert_eq!(order.total(), model.iter().map(|(_, b)| u64::from(*b)).sum::<u64>());
            }
        }
    }
}
