//! Ghosts: how often items had been used that are gone, so that one which is stored again is not taken for one that never was there.
//!
//! Shape:      key and length of an evicted item, and its uses -> a bucket of ghosts in one cache line: those of this generation, the latest
//!             first, and those of the one before. Who comes behind the last is forgotten, as is what is older
//! Invariants: memory is fixed. Nobody leaves more than one ghost per `GRAIN` bytes evicted: of items below that one key in `GRAIN` / length
//!             is remembered, the same one each time. So who evicts many small items pushes others' ghosts out no sooner than who evicts
//!             items of `GRAIN`: after half a turnover of the memory at the soonest
//! Units:      bytes of key and value; ticks of the rank clock, 64 in a turnover of the memory; what is remembered is a use counter and
//!             one: 0 is nothing
//! Cost:       one cache line for a key that is evicted, and for one that is stored and was not there
//! Failure:    two keys of one bucket are taken for each other once in 4,096: with 31 ghosts a new key is taken for one of them
//!             once in 132. Threads that write a bucket at once lose a ghost of it
//! Source:     a ghost queue tells that a key was there (2Q, Johnson and Shasha, VLDB 1994; S3-FIFO, Yang et al., SOSP 2023). We
//!             differ: it tells how often it was used, too, and what comes back is ranked as everything else is

use crate::hash::KeyHash;
use crate::sync::Ordering::Relaxed;
use crate::words::Words;
use media::MapError;
use units::{Bytes, mix64};

/// A ghost for so many bytes evicted (guess; with half and twice as much the mixed trace misses the same within .001).
const GRAIN: u64 = 1024;
/// Ticks of a generation: ghosts reach back over one and a half turnovers of the memory, of DRAM and what is below, where there is room for
/// all, and over three at most (`docs/decisions/2026-11-26-uses-outlive-eviction.md`).
const GENERATION_TICKS: u32 = 96;
/// Words of a bucket: one cache line.
const WORDS: usize = 8;
/// What a bucket has room for: ghosts of two bytes, and their generation.
const LANES: usize = 32;
/// Where the generation is.
const GENERATION: usize = LANES - 1;
/// Ghosts of this generation in a bucket; the others are of the one before.
const YOUNG: usize = LANES / 2;
/// Where in a ghost its key begins; what is remembered is below.
const KEY_AT: u32 = 4;
/// The most that can be remembered.
const REMEMBERED_MAX: u8 = (1 << KEY_AT) - 1;

/// Every ghost of a store.
#[derive(Debug)]
pub(crate) struct Ghosts {
    words: Words,
    buckets: u64,
}

/// Where a ghost is, and what it is known by.
#[derive(Clone, Copy)]
struct Spot {
    /// The first word of its bucket.
    first: usize,
    key: u16,
}

type Bucket = [u16; LANES];

impl Ghosts {
    /// As many as fit so much memory, which costs something once they are there.
    pub(crate) fn new(memory: Bytes) -> Result<Self, MapError> {
        let buckets = (memory.0 / (WORDS as u64 * 8)).max(1);
        let words = Words::new(usize::try_from(buckets).unwrap_or(usize::MAX).saturating_mul(WORDS))?;
        Ok(Self { words, buckets })
    }

    /// Where the ghost of an item of so many bytes is, if it is one that is remembered.
    #[inline]
    fn spot(&self, hash: KeyHash, len: u64) -> Option<Spot> {
        // Nothing of it is what the index or the shadow queues go by.
        let mixed = mix64(hash.0.rotate_left(32));
        if len <= mixed % GRAIN {
            return None;
        }
        let bucket = ((mixed >> 32) * self.buckets) >> 32;
        let key = u16::try_from((mixed >> 16) & 0xFFF).unwrap_or(0) << KEY_AT;
        Some(Spot { first: usize::try_from(bucket).unwrap_or(0) * WORDS, key })
    }

    /// Remembers at a tick that an item that is evicted had these uses.
    pub(crate) fn remember(&self, hash: KeyHash, len: u64, uses: impl FnOnce() -> u8, tick: u32) {
        let Some(spot) = self.spot(hash, len) else { return };
        let before = self.read(spot);
        let mut bucket = without(aged(before, tick), spot);
        let young = &mut bucket[..YOUNG];
        let at = young.iter().position(|ghost| *ghost == 0).unwrap_or(YOUNG - 1);
        young.copy_within(..at, 1);
        young[0] = spot.key | u16::from((uses() + 1).min(REMEMBERED_MAX));
        self.write(spot, &before, &bucket);
    }

    /// What is remembered at a tick of a key whose item takes so many bytes.
    #[inline]
    pub(crate) fn recall(&self, hash: KeyHash, len: u64, tick: u32) -> u8 {
        let Some(spot) = self.spot(hash, len) else { return 0 };
        let bucket = aged(self.read(spot), tick);
        let ghost = bucket[..GENERATION].iter().find(|ghost| is_of(**ghost, spot));
        ghost.map_or(0, |ghost| u8::try_from(ghost & u16::from(REMEMBERED_MAX)).unwrap_or(0))
    }

    /// Forgets a key whose item is there again and carries what was remembered.
    pub(crate) fn forget(&self, hash: KeyHash, len: u64) {
        let Some(spot) = self.spot(hash, len) else { return };
        let before = self.read(spot);
        self.write(spot, &before, &without(before, spot));
    }

    fn read(&self, spot: Spot) -> Bucket {
        let words = &self.words.all()[spot.first..spot.first + WORDS];
        let mut bucket = [0; LANES];
        for (lanes, word) in bucket.chunks_exact_mut(LANES / WORDS).zip(words) {
            let word = word.load(Relaxed);
            for (at, lane) in lanes.iter_mut().enumerate() {
                *lane = u16::try_from(word >> (16 * at) & 0xFFFF).unwrap_or(0);
            }
        }
        bucket
    }

    /// Writes the words that have changed.
    fn write(&self, spot: Spot, before: &Bucket, after: &Bucket) {
        let words = &self.words.all()[spot.first..spot.first + WORDS];
        let (before, after) = (before.chunks_exact(LANES / WORDS), after.chunks_exact(LANES / WORDS));
        for ((word, before), after) in words.iter().zip(before).zip(after) {
            if before != after {
                word.store(after.iter().rev().fold(0, |word, lane| word << 16 | u64::from(*lane)), Relaxed);
            }
        }
    }
}

/// A bucket as it is at a tick: what was of this generation may be of the one before by now, or older.
fn aged(mut bucket: Bucket, tick: u32) -> Bucket {
    let generation = u16::try_from((tick / GENERATION_TICKS) & 0xFFFF).unwrap_or(0);
    match generation.wrapping_sub(bucket[GENERATION]) {
        // A thread may have read the clock a moment ago.
        0 | u16::MAX => return bucket,
        1 => {
            bucket.copy_within(..GENERATION - YOUNG, YOUNG);
            bucket[..YOUNG].fill(0);
        }
        _ => bucket.fill(0),
    }
    bucket[GENERATION] = generation;
    bucket
}

fn without(mut bucket: Bucket, spot: Spot) -> Bucket {
    bucket[..GENERATION].iter_mut().filter(|ghost| is_of(**ghost, spot)).for_each(|ghost| *ghost = 0);
    bucket
}

/// Whether a ghost is that of a key; an empty one is nobody's.
fn is_of(ghost: u16, spot: Spot) -> bool {
    ghost ^ spot.key <= u16::from(REMEMBERED_MAX) && ghost != 0
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn hash(n: u64) -> KeyHash {
        KeyHash(mix64(n))
    }

    fn ghosts() -> Ghosts {
        Ghosts::new(Bytes::kib(64)).unwrap()
    }

    /// Young ghosts that `ghosts()` has room for.
    const YOUNG_ALL: u64 = 16 << 10;

    /// How many of some keys are known with one use.
    fn known(ghosts: &Ghosts, keys: std::ops::Range<u64>, len: u64, tick: u32) -> usize {
        keys.filter(|n| ghosts.recall(hash(*n), len, tick) == 1).count()
    }

    #[test]
    fn uses_are_remembered_until_the_item_is_there_again() {
        let ghosts = ghosts();
        assert_eq!(ghosts.recall(hash(1), 2_000, 7), 0);
        for (uses, remembered) in [(0, 1), (3, 4), (14, 15), (15, 15), (2, 3)] {
            ghosts.remember(hash(1), 2_000, || uses, 7);
            assert_eq!(ghosts.recall(hash(1), 5_000, 8), remembered, "the latest counts");
        }
        ghosts.forget(hash(1), 2_000);
        assert_eq!(ghosts.recall(hash(1), 2_000, 7), 0);
    }

    #[test]
    fn what_is_older_than_two_generations_is_forgotten() {
        let ghosts = ghosts();
        for n in 0..1_000 {
            ghosts.remember(hash(n), GRAIN, || 0, GENERATION_TICKS - 1);
        }
        let known_at = |tick| known(&ghosts, 0..1_000, GRAIN, tick);
        assert_eq!(known_at(GENERATION_TICKS - 1), 1_000);
        assert_eq!(known_at(GENERATION_TICKS), 1_000);
        // What others have written meanwhile moves them aside.
        (1_000..2_000).for_each(|n| ghosts.remember(hash(n), GRAIN, || 0, GENERATION_TICKS));
        assert_eq!(known_at(2 * GENERATION_TICKS - 1), 1_000);
        assert_eq!(known_at(2 * GENERATION_TICKS), 0);
        assert_eq!(known(&ghosts, 1_000..2_000, GRAIN, 3 * GENERATION_TICKS - 1), 1_000);
    }

    #[test]
    fn the_latest_push_out_the_first_and_a_key_has_one_ghost() {
        let ghosts = ghosts();
        for n in 0..4 * YOUNG_ALL {
            ghosts.remember(hash(n), GRAIN, || 9, 0);
            ghosts.remember(hash(n), GRAIN, || 0, 0);
        }
        let latest = known(&ghosts, 4 * YOUNG_ALL - 5_000..4 * YOUNG_ALL, GRAIN, 0);
        let first = known(&ghosts, 0..5_000, GRAIN, 0);
        assert!(4_900 < latest && first < 100, "{latest} of the latest, {first} of the first");
    }

    #[test]
    fn a_strange_key_is_seldom_taken_for_another() {
        let ghosts = ghosts();
        for (tick, first) in [(0, 0), (GENERATION_TICKS, 2 * YOUNG_ALL)] {
            (first..first + 2 * YOUNG_ALL).for_each(|n| ghosts.remember(hash(n), GRAIN, || 0, tick));
        }
        let taken = known(&ghosts, 1 << 40..(1 << 40) + 100_000, GRAIN, GENERATION_TICKS);
        assert!((500..1_100).contains(&taken), "{taken} of 100,000: 757 are to be expected");
    }

    #[test]
    fn small_items_have_as_many_ghosts_for_what_they_take() {
        for (len, expected) in
            [(64, 240..390), (256, 1_150..1_350), (1_023, 4_950..5_000), (1_024, 5_000..5_001)]
        {
            let (ghosts, keys) = (ghosts(), len << 32..(len << 32) + 5_000);
            keys.clone().for_each(|n| ghosts.remember(hash(n), len, || 0, 0));
            let count = known(&ghosts, keys, len, 0);
            assert!(expected.contains(&count), "{count} of 5,000 with {len} B");
        }
    }
}
