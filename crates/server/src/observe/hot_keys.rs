//! The keys that a tenant is asked for most, of those sampled.
//!
//! Shape:      Space-Saving with `HOT_KEYS` counters: a key without a counter takes over the smallest, count and all
//! Invariants: a count is at most `excess` too large; a key asked for more often than the smallest count has a counter, but
//!             for keys that there was no memory for
//! Units:      samples, one key in `HOT_SAMPLING`; they halve every `HOT_HALVING_SECS`, so that they are of late
//! Source:     Metwally, Agrawal, El Abbadi, ICDT 2005, algorithm 1

use crate::limits::HOT_KEYS;

/// A key that is asked for often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotKey {
    /// The key.
    pub key: Box<[u8]>,
    /// Samples of it, of late.
    pub samples: u64,
    /// How many of them may be others'.
    pub excess: u64,
}

/// Counters of one tenant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HotKeys {
    counters: Vec<HotKey>,
    total: u64,
}

impl HotKeys {
    /// Counts a sampled key, if what it takes more on the heap is no more than `room` bytes; as a sample always.
    pub(crate) fn add(&mut self, key: Box<[u8]>, room: usize) {
        self.total += 1;
        if let Some(counter) = self.counters.iter_mut().find(|counter| counter.key == key) {
            counter.samples += 1;
            return;
        }
        if self.counters.len() < HOT_KEYS {
            let is_first = self.counters.capacity() == 0;
            let table = if is_first { HOT_KEYS * size_of::<HotKey>() } else { 0 };
            if room < table + key.len() {
                return;
            }
            if is_first {
                self.counters.reserve_exact(HOT_KEYS);
            }
            self.counters.push(HotKey { key, samples: 1, excess: 0 });
        } else if let Some(least) = self.counters.iter_mut().min_by_key(|counter| counter.samples)
            && key.len() <= least.key.len() + room
        {
            *least = HotKey { key, samples: least.samples + 1, excess: least.samples };
        }
    }

    /// Forgets half of every count.
    pub(crate) fn halve(&mut self) {
        self.total /= 2;
        for counter in &mut self.counters {
            counter.samples /= 2;
            counter.excess /= 2;
        }
        self.counters.retain(|counter| 0 < counter.samples);
    }

    /// Memory on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let keys: usize = self.counters.iter().map(|counter| counter.key.len()).sum();
        self.counters.capacity() * size_of::<HotKey>() + keys
    }

    /// All samples, of late.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The hottest first.
    pub(crate) fn ranked(&self) -> Vec<HotKey> {
        let mut ranked = self.counters.clone();
        ranked.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.key.cmp(&b.key)));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> Box<[u8]> {
        n.to_string().into_bytes().into()
    }

    #[test]
    fn a_hot_key_is_found_among_many_cold_ones_and_its_excess_is_bounded() {
        let mut keys = HotKeys::default();
        for n in 0..10_000 {
            keys.add(key(if n % 4 == 0 { 7 } else { 1_000_000 + n }), usize::MAX);
        }
        let ranked = keys.ranked();
        assert_eq!(ranked.len(), HOT_KEYS);
        assert_eq!(ranked[0].key, key(7));
        let least = ranked[0].samples - ranked[0].excess;
        assert!(least <= 2500 && 2500 <= ranked[0].samples, "{:?}", ranked[0]);
        assert!(ranked.iter().all(|k| k.excess <= 10_000 / HOT_KEYS as u64));
        assert!(ranked[1].samples < ranked[0].samples);
    }

    #[test]
    fn what_was_hot_is_forgotten() {
        let mut keys = HotKeys::default();
        (0..8).for_each(|_| keys.add(key(1), usize::MAX));
        (0..4).for_each(|_| keys.halve());
        assert_eq!(keys.total(), 0);
        assert!(keys.ranked().is_empty());
    }

    #[test]
    fn no_more_memory_is_taken_than_there_is() {
        let mut keys = HotKeys::default();
        let table = HOT_KEYS * size_of::<HotKey>();
        keys.add(key(7), table);
        assert_eq!((keys.bytes(), keys.total()), (0, 1), "the table has room, the key has none");
        keys.add(key(7), table + 1);
        assert_eq!(keys.bytes(), table + 1);
        keys.add(key(7), 0);
        keys.add(key(8), 0);
        assert_eq!((keys.ranked().len(), keys.ranked()[0].samples, keys.total()), (1, 2, 4));
        (100..115).for_each(|n| keys.add(key(n), usize::MAX));
        let full = keys.bytes();
        (1_000..1_100).for_each(|n| keys.add(key(n), 0));
        assert_eq!(keys.bytes(), full, "a longer key replaces none");
        keys.add(key(1_000), 1);
        assert_eq!(keys.bytes(), full + 1);
    }
}
