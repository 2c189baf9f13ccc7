//! A miss ratio curve from a spatial sample of the keys, in fixed memory: what an LRU cache of any size would miss.
//!
//! Shape:      look-ups (key hash, bytes) -> reuse distances in bytes of the sampled keys -> `Curve`
//! Invariants: at most `samples_max` keys are known; the rate never rises; a key is sampled always or never, so that
//!             distances among sampled keys are true distances times the rate
//! Units:      distances in bytes, the item itself included, as it would be charged in the cache
//! Cost:       a key that is not sampled costs a multiplication and a compare; a sampled one O(log samples); about 60 B per
//!             sample and 15 KiB
//! Source:     Waldspurger, Park, Garthwaite, Ahmad, Efficient MRC construction with SHARDS, FAST '15: fixed size, with
//!             their correction of the expected number of samples (SHARDS-adj). We weigh a sample by 1 / rate when it is
//!             taken, which equals their rescaling of the histogram at every fall of the rate
//! Non-goals:  other orders of eviction than LRU; deletes and sizes that change are taken as the next look-up finds them
//!
//! | Paper | here |
//! |---|---|
//! | T, threshold | `limit` |
//! | R = T / P | `rate()` |
//! | s_max | `samples_max` |

use super::quantile::{BUCKETS, bucket_of, range_of};
use control::{Curve, CurveError};
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use units::{Bytes, mix64};

/// Part of the keys that is sampled as long as the memory suffices (the paper evaluates .01 and .001; at .01 the mean
/// error against exact caches is .003 to .016 on generated streams of 300,000 keys).
pub const RATE_MAX: f64 = 0.01;
/// Keys that are known at most (the paper evaluates 8 K samples, too).
pub const SAMPLES_MAX: usize = 8_192;
/// Points of a curve at most: the miss ratio falls by at least 1 / this between two of them.
const POINTS_MAX: f64 = 400.0;

/// The mixed hash is its own hash, turned: the upper bits of all sampled keys are alike.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, value: u64) {
        self.0 = value.rotate_left(32);
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Its place in the order of last look-ups.
    place: usize,
    bytes: u32,
}

/// The estimator.
#[derive(Clone, Debug)]
pub struct Shards {
    /// Keys whose mixed hash is at most this are sampled.
    limit: u64,
    rate_max: f64,
    samples_max: usize,
    known: HashMap<u64, Sample, BuildHasherDefault<Identity>>,
    largest: BinaryHeap<u64>,
    order: Order,
    /// Look-ups by reuse distance.
    weights: Box<[f64]>,
    /// Look-ups that the samples stand for, first ones included.
    weighed: f64,
    look_ups: u64,
}

impl Shards {
    /// An estimator that samples `rate_max` of the keys as long as those are at most `samples_max`. None unless the rate
    /// is above 0 and at most 1 and there is room for two keys.
    #[must_use]
    pub fn new(rate_max: f64, samples_max: usize) -> Option<Self> {
        if !(0.0 < rate_max && rate_max <= 1.0 && 2 <= samples_max) {
            return None;
        }
        Some(Self {
            limit: limit_of(rate_max),
            rate_max,
            samples_max,
            // Twice the room: the table then never grows, and clears its own removals in place.
            known: HashMap::with_capacity_and_hasher(samples_max * 2, BuildHasherDefault::default()),
            largest: BinaryHeap::with_capacity(samples_max + 1),
            order: Order::new(samples_max * 2 + 2),
            weights: vec![0.0; BUCKETS].into_boxed_slice(),
            weighed: 0.0,
            look_ups: 0,
        })
    }

    /// Takes one look-up. `hash` is any hash of the key; `bytes` what its item is charged.
    #[inline]
    pub fn note(&mut self, hash: u64, bytes: u32) {
        self.look_ups += 1;
        let key = mix64(hash);
        if key <= self.limit {
            self.sample(key, bytes);
        }
    }

    fn sample(&mut self, key: u64, bytes: u32) {
        let weight = 1.0 / self.rate();
        self.weighed += weight;
        if let Some(sample) = self.known.get(&key).copied() {
            let others = self.order.take(sample.place, sample.bytes);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a size; saturates at the largest"
            )]
            let distance = (others as f64 * weight) as u64;
            self.weights[bucket_of(distance.saturating_add(u64::from(bytes)))] += weight;
        } else {
            self.largest.push(key);
        }
        let known = &mut self.known;
        let moved = |key, place| {
            if let Some(sample) = known.get_mut(&key) {
                sample.place = place;
            }
        };
        let place = self.order.push(key, bytes, moved);
        self.known.insert(key, Sample { place, bytes });
        if self.samples_max < self.known.len() {
            self.lower_rate();
        }
    }

    /// Drops the key of the largest hash: from now on only smaller ones are sampled.
    fn lower_rate(&mut self) {
        if let Some(key) = self.largest.pop() {
            self.limit = key.saturating_sub(1);
            if let Some(sample) = self.known.remove(&key) {
                self.order.take(sample.place, sample.bytes);
            }
        }
    }

    /// The part of the keys that is sampled now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (self.limit as f64 + 1.0) / (u64::MAX as f64 + 1.0)
    }

    /// Keys known now.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.known.len()
    }

    /// Look-ups taken.
    #[must_use]
    pub fn look_ups(&self) -> u64 {
        self.look_ups
    }

    /// The curve of the look-ups so far.
    ///
    /// # Errors
    /// If no sampled key was looked up twice: there is no second point.
    pub fn curve(&self) -> Result<Curve, CurveError> {
        let total = self.look_ups as f64;
        // The samples stand for more or fewer look-ups than there were, mostly by the hottest keys, whose reuse is the
        // nearest: the difference goes there.
        let mut hits = total - self.weighed;
        let mut points = vec![(Bytes::ZERO, 1.0)];
        let (mut now, mut noted) = (1.0, 1.0);
        let end = self.weights.iter().rposition(|weight| 0.0 < *weight);
        for (bucket, weight) in self.weights.iter().enumerate().filter(|(_, weight)| 0.0 < **weight) {
            hits += weight;
            let before = now;
            now = (1.0 - hits / total).clamp(0.0, 1.0);
            if 1 < points.len() && noted - now < 1.0 / POINTS_MAX && Some(bucket) != end {
                continue;
            }
            noted = now;
            let (low, high) = range_of(bucket);
            // The ratio holds until the bucket begins: a loop is a step, not a slope.
            if points.last().is_some_and(|(size, _)| size.0 + 1 < low) {
                points.push((Bytes(low - 1), before));
            }
            points.push((Bytes(high), now));
        }
        Curve::smoothed(points)
    }

    /// Halves what was counted, so that old look-ups fade; keys and rate stay.
    pub fn fade(&mut self) {
        self.look_ups /= 2;
        self.weighed /= 2.0;
        for weight in &mut self.weights {
            *weight /= 2.0;
        }
    }

    /// Forgets everything and samples at the first rate again.
    pub fn clear(&mut self) {
        self.limit = limit_of(self.rate_max);
        self.known.clear();
        self.largest.clear();
        self.order.clear();
        self.weights.fill(0.0);
        (self.weighed, self.look_ups) = (0.0, 0);
    }
}

fn limit_of(rate: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part in 0..=1 of the largest number; saturates there"
    )]
    let limit = (rate * u64::MAX as f64) as u64;
    limit
}

/// Sampled keys in the order of their last look-ups, with the bytes after each (a Fenwick tree over places).
#[derive(Clone, Debug)]
struct Order {
    keys: Box<[Option<(u64, u32)>]>,
    /// Sums of bytes; index 0 is not used.
    sums: Box<[u64]>,
    /// The place that the next key gets.
    next: usize,
    total: u64,
}

impl Order {
    fn new(places: usize) -> Self {
        let keys = vec![None; places].into_boxed_slice();
        Self { keys, sums: vec![0; places + 1].into_boxed_slice(), next: 0, total: 0 }
    }

    /// Removes the key at a place and returns the bytes of all keys behind it.
    fn take(&mut self, place: usize, bytes: u32) -> u64 {
        let behind = self.total - self.sum_to(place);
        self.keys[place] = None;
        self.total -= u64::from(bytes);
        let mut i = place + 1;
        while i < self.sums.len() {
            self.sums[i] -= u64::from(bytes);
            i += i & i.wrapping_neg();
        }
        behind
    }

    /// Puts a key at the end and returns its place; says of others where they moved, if they had to.
    fn push(&mut self, key: u64, bytes: u32, moved: impl FnMut(u64, usize)) -> usize {
        if self.next == self.keys.len() {
            self.close_gaps(moved);
        }
        let place = self.next;
        self.next += 1;
        self.keys[place] = Some((key, bytes));
        self.total += u64::from(bytes);
        let mut i = place + 1;
        while i < self.sums.len() {
            self.sums[i] += u64::from(bytes);
            i += i & i.wrapping_neg();
        }
        place
    }

    /// Bytes of the keys up to a place.
    fn sum_to(&self, place: usize) -> u64 {
        let mut i = place + 1;
        let mut sum = 0;
        while 0 < i {
            sum += self.sums[i];
            i -= i & i.wrapping_neg();
        }
        sum
    }

    fn close_gaps(&mut self, mut moved: impl FnMut(u64, usize)) {
        self.sums.fill(0);
        let mut to = 0;
        for from in 0..self.keys.len() {
            if let Some((key, bytes)) = self.keys[from].take() {
                self.keys[to] = Some((key, bytes));
                self.sums[to + 1] = u64::from(bytes);
                moved(key, to);
                to += 1;
            }
        }
        for i in 1..self.sums.len() {
            let above = i + (i & i.wrapping_neg());
            if above < self.sums.len() {
                self.sums[above] += self.sums[i];
            }
        }
        self.next = to;
    }

    fn clear(&mut self) {
        self.keys.fill(None);
        self.sums.fill(0);
        (self.next, self.total) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::Rng;

    /// Reuse distances by definition: distinct bytes since the last look-up, the item itself included.
    fn exact_miss_ratio(look_ups: &[(u64, u32)], size: u64) -> f64 {
        let mut misses = 0;
        for (i, (key, bytes)) in look_ups.iter().enumerate() {
            let Some(last) = look_ups[..i].iter().rposition(|(k, _)| k == key) else {
                misses += 1;
                continue;
            };
            let mut between: Vec<(u64, u32)> = look_ups[last + 1..i].to_vec();
            between.sort_unstable();
            between.dedup();
            let distance: u64 = between.iter().map(|(_, b)| u64::from(*b)).sum();
            misses += u32::from(size < distance + u64::from(*bytes));
        }
        f64::from(misses) / look_ups.len() as f64
    }

    #[test]
    fn bad_sizes_are_refused_and_nothing_is_no_curve() {
        for (rate, samples) in [(0.0, 10), (1.1, 10), (f64::NAN, 10), (0.5, 1)] {
            assert!(Shards::new(rate, samples).is_none(), "{rate} {samples}");
        }
        let mut shards = Shards::new(1.0, 10).unwrap();
        assert_eq!(shards.curve(), Err(CurveError::TooFew(1)));
        shards.note(1, 10);
        assert_eq!(shards.curve(), Err(CurveError::TooFew(1)));
        shards.note(1, 10);
        assert!(shards.curve().is_ok());
    }

    #[test]
    fn memory_is_bounded_and_the_rate_falls() {
        let mut shards = Shards::new(1.0, 100).unwrap();
        for n in 0..100_000 {
            shards.note(n, 1);
            assert!(shards.samples() <= 100);
        }
        assert!((0.0005..0.002).contains(&shards.rate()), "{}", shards.rate());
        assert!(shards.known.capacity() < 1_000);
        shards.clear();
        assert_eq!((shards.samples(), shards.look_ups()), (0, 0));
        assert!((shards.rate() - 1.0).abs() < 1e-9);
    }

    /// A loop over more keys than are sampled: below its size everything misses, above it only the first round.
    #[test]
    fn a_loop_is_a_step() {
        for seed in 1..=3 {
            let mut shards = Shards::new(0.1, 1_000).unwrap();
            for _ in 0..10 {
                for n in 0..20_000_u64 {
                    shards.note(n ^ seed << 40, 100);
                }
            }
            let curve = shards.curve().unwrap();
            for (size, ratio) in [(1_500_000, 1.0), (2_500_000, 0.1)] {
                let ours = curve.miss_ratio(Bytes(size));
                assert!((ours - ratio).abs() < 0.02, "seed {seed}: {ours} at {size}");
            }
        }
    }

    #[test]
    fn fading_lets_the_newest_say_more() {
        let mut shards = Shards::new(1.0, 1_000).unwrap();
        (0..1_000).for_each(|n| shards.note(n, 1));
        (0..10).for_each(|_| shards.fade());
        (0..100).for_each(|_| shards.note(7, 1));
        assert!(shards.curve().unwrap().miss_ratio(Bytes(10)) < 0.05);
    }

    proptest! {
        /// Every key sampled, the curve is exact but for the width of its buckets.
        #[test]
        fn a_sample_of_all_is_exact(seed: u64, keys in 2_u64..40, length in 50_usize..300) {
            let mut rng = Rng::new(seed);
            let mut shards = Shards::new(1.0, 64).unwrap();
            let look_ups: Vec<(u64, u32)> = (0..length)
                .map(|_| rng.below(keys).min(rng.below(keys)))
                .map(|key| (key, 1 + u32::try_from(mix64(key) % 3).unwrap()))
                .collect();
            look_ups.iter().for_each(|(key, bytes)| shards.note(*key, *bytes));
            let Ok(curve) = shards.curve() else { return Ok(()) };
            // Below 64 a bucket is one byte wide; between points that are close the curve is straight.
            for (size, ratio) in curve.points().iter().skip(1).filter(|(size, _)| size.0 < 64) {
                let exact = exact_miss_ratio(&look_ups, size.0);
                prop_assert!((ratio - exact).abs() < 1.0 / POINTS_MAX + 1e-9, "{} {} {}", size, ratio, exact);
            }
        }
    }
}
