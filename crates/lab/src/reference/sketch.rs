//! A count-min sketch of four-bit counters that forgets by halving.
//!
//! Shape:      hash -> four counters in four rows; the lowest is the estimate, and only those as low as it are raised
//! Invariants: an estimate is at most 15; it is never below the true count since the last halving, up to 15
//! Cost:       O(1); halving is O(size) once in `SAMPLE` additions per item
//! Source:     Einziger, Friedman and Manes, TinyLFU: a highly efficient cache admission policy, TOS 2017, §3.2 to 3.4.
//!             Without a doorkeeper (§3.4.2, optional): four bits per counter are spent here instead

use units::mix64;

const ROWS: usize = 4;
/// Four bits (§3.4.1: counters need not exceed the sample divided by the cache).
const COUNT_MAX: u8 = 15;
/// Additions per item until all counters are halved (the value of Caffeine, the authors' implementation).
const SAMPLE: u64 = 10;
/// Counters per item and row (as in Caffeine: four rows of four).
const COUNTERS_PER_ITEM: usize = 4;
/// Smallest row.
const WIDTH_MIN: usize = 64;

/// The sketch. A counter takes a byte here: the simulator's own memory is not measured.
#[derive(Debug)]
pub(super) struct Sketch {
    rows: [Vec<u8>; ROWS],
    additions: u64,
    items: usize,
    /// What makes this sketch's hash functions others than another's.
    salt: u64,
}

impl Sketch {
    pub(super) fn new(seed: u64) -> Self {
        let rows = std::array::from_fn(|_| vec![0; WIDTH_MIN]);
        Self { rows, additions: 0, items: 0, salt: mix64(seed) }
    }

    /// Makes the sketch large enough for a cache of `items`. A row that doubles is repeated: no estimate changes.
    pub(super) fn fit(&mut self, items: usize) {
        self.items = self.items.max(items);
        while self.rows[0].len() < self.items * COUNTERS_PER_ITEM {
            self.rows.iter_mut().for_each(|row| row.extend_from_within(..));
        }
    }

    /// How often the key was added lately, at most 15.
    pub(super) fn estimate(&self, key_hash: u64) -> u8 {
        let places = self.places(key_hash);
        self.rows.iter().zip(places).map(|(row, place)| row[place]).min().unwrap_or(0)
    }

    /// Counts one access.
    pub(super) fn add(&mut self, key_hash: u64) {
        let low = self.estimate(key_hash);
        if low == COUNT_MAX {
            return;
        }
        let places = self.places(key_hash);
        for (row, place) in self.rows.iter_mut().zip(places) {
            row[place] = row[place].max(low + 1);
        }
        self.additions += 1;
        if SAMPLE * (self.items.max(WIDTH_MIN / COUNTERS_PER_ITEM) as u64) <= self.additions {
            self.rows.iter_mut().flatten().for_each(|count| *count /= 2);
            self.additions /= 2;
        }
    }

    fn places(&self, key_hash: u64) -> [usize; ROWS] {
        let mask = self.rows[0].len() - 1;
        let mut hash = key_hash ^ self.salt;
        std::array::from_fn(|_| {
            hash = mix64(hash);
            usize::try_from(hash >> 32).unwrap_or(0) & mask
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_saturate_halve_and_survive_growth() {
        let mut sketch = Sketch::new(1);
        sketch.fit(1_000);
        (0..5).for_each(|_| sketch.add(1));
        (0..20).for_each(|_| sketch.add(2));
        assert_eq!((sketch.estimate(1), sketch.estimate(2), sketch.estimate(3)), (5, 15, 0));
        sketch.fit(4_000);
        assert_eq!((sketch.estimate(1), sketch.estimate(2)), (5, 15), "a larger sketch says the same");
        // 20 additions are there, 15 of them of key 2: halving comes at 40,000.
        (0..40_000 - 20).for_each(|key| sketch.add(key + 100));
        assert!(sketch.estimate(2) <= 8 && sketch.estimate(1) <= 3, "halved");
        assert!(7 <= sketch.estimate(2));
    }

    #[test]
    fn another_seed_makes_others_collide() {
        let wrong = |seed| {
            let mut sketch = Sketch::new(seed);
            (0..200).for_each(|key| sketch.add(key));
            (200..2_000).filter(|&key| 0 < sketch.estimate(key)).collect::<Vec<u64>>()
        };
        assert!(!wrong(1).is_empty() && wrong(1) == wrong(1) && wrong(1) != wrong(2));
    }
}
