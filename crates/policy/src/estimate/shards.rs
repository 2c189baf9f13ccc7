//! A miss ratio curve from a spatial sample of the keys, in bounded memory: what an LRU cache of any size would miss.
//!
//! Shape:      look-ups, writes and removals of keys -> reuse distances in bytes of the sampled keys -> `Curve`
//! Invariants: at most `samples_max` keys are known; the rate never rises; a key is sampled always or never, so that
//!             distances among sampled keys are true distances times the rate
//! Units:      distances in bytes, the item itself included, as it would be charged in the cache
//! Cost:       a key that is not sampled costs a compare (and a multiplication in `note`); a sampled one about 100 ns at a
//!             thousand samples, 300 ns at eight thousand. 18.3 B per sample, 132 B per octave of distances, 250 B
//! Source:     Waldspurger, Park, Garthwaite, Ahmad, Efficient MRC construction with SHARDS, FAST '15: fixed size, with
//!             their correction of the expected number of samples (SHARDS-adj). We weigh a sample by 1 / rate when it is
//!             taken, which equals their rescaling of the histogram at every fall of the rate; and the rate falls by a
//!             sixteenth at once where theirs falls by one key, so that no heap of keys is needed
//! Non-goals:  other orders of eviction than LRU
//!
//! | Paper | here |
//! |---|---|
//! | T, threshold | `limit` |
//! | R = T / P | `rate()` |
//! | s_max | `samples_max` |

use super::distances::{Histogram, OCTAVE};
use super::quantile::range_of;
use super::reuse::{KEYS_LIMIT, Order};
use control::{Curve, CurveError};
use units::{Bytes, mix64};

/// Part of the keys that is sampled as long as the memory suffices (the paper evaluates .01 and .001; at .01 the mean
/// error against exact caches is .003 to .016 on generated streams of 300,000 keys).
pub const RATE_MAX: f64 = 0.01;
/// Keys that are known at most (the paper evaluates 8 K samples, too).
pub const SAMPLES_MAX: usize = 8_192;
/// Points of a curve at most: the miss ratio falls by at least 1 / this between two of them.
const POINTS_MAX: f64 = 400.0;
/// When there are too many keys, one in so many goes: rarely enough that looking at all of them costs little.
const FALL_PART: u64 = 16;
/// Sampled look-ups after which old ones fade without being told to: single precision counts so far one by one.
const TAKEN_MAX: u64 = 1 << 23;

/// Look-ups fade by half whenever so many were sampled per sample known, where that is no more than `WINDOW_ENOUGH`; beyond, when one
/// was per sample. Measured as the mean error of the curve up to half of all keys on Zipf streams (20,000 to a million keys, 1,024 to
/// 8,192 samples, three seeds), steady and 200,000 to 400,000 look-ups after a turn to a third as many others: steady .003 to .014 and
/// turned .006 to .018 with 1; .003 to .013 and .008 to .026 with 2; .003 to .041 and .009 to .042 with 4, where first look-ups stay in it.
/// With 1 and 2,000 samples one steady curve of three was off by .02.
const WINDOW_PER_SAMPLE: u64 = 2;
/// The mean of so many look-ups is off by .008 (a standard error).
const WINDOW_ENOUGH: u64 = 4_096;
/// The least window's samples: a few keys that are asked often say little about the next minute, too.
const WINDOW_SAMPLES_MIN: usize = 256;
/// Sampled look-ups that are compared with others, at least: as many of both differ by .09 once in twenty times where they are alike.
const NEWEST_MIN: u64 = 512;
/// A part of the look-ups that comes at other distances than before, above which what was before says nothing of what comes (guess).
const TURNED_BY: f64 = 0.25;
/// What of a difference to a measured ratio is taken for the sample's error, in standard deviations: the rest is the order's, which says
/// more of other sizes. Two, a quarter and none were off by .0126, .0113, .0132 where the order was LRU, and by .0305, .0212, .0204 where
/// it was another (at a quarter and 3.5 times the present, 31 streams, 1,024 samples).
const OF_DEVIATION: f64 = 0.25;

/// The estimator.
#[derive(Clone, Debug)]
pub struct Shards {
    /// Keys that are at most this are sampled.
    limit: u64,
    rate_max: f64,
    samples_max: usize,
    /// Distances beyond this are not told apart from first look-ups.
    depth_max: Bytes,
    order: Order,
    histogram: Histogram,
    /// What the histogram was made of, fading with it.
    all: Sums,
    /// Of that, the newest.
    newest: Sums,
    /// The size that the cache has now.
    present: Bytes,
}

/// Look-ups by what they say.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    look_ups: f64,
    /// Those that the samples stand for, first ones included.
    weighed: f64,
    /// Of these, those that an LRU cache of the size at that time would have missed.
    missed: f64,
    /// Sampled ones.
    taken: u64,
}

/// How the newest look-ups compare with those before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Newest {
    /// They are too few to say.
    Few,
    /// They come at the same distances, more or less, and are part of what is known.
    Alike,
    /// They come at other distances: what was before is forgotten.
    Turned,
}

impl Sums {
    fn fade(&mut self) {
        self.look_ups /= 2.0;
        self.weighed /= 2.0;
        self.missed /= 2.0;
        self.taken /= 2;
    }
}

impl Shards {
    /// An estimator that samples `rate_max` of the keys as long as those are at most `samples_max`. None unless the rate
    /// is above 0 and at most 1 and there is room for two keys, and no more than 48 K.
    #[must_use]
    pub fn new(rate_max: f64, samples_max: usize) -> Option<Self> {
        if !(0.0 < rate_max && rate_max <= 1.0 && (2..=KEYS_LIMIT).contains(&samples_max)) {
            return None;
        }
        Some(Self {
            limit: limit_of(rate_max),
            rate_max,
            samples_max,
            depth_max: Bytes(u64::MAX),
            order: Order::new(samples_max),
            histogram: Histogram::default(),
            all: Sums::default(),
            newest: Sums::default(),
            present: Bytes::ZERO,
        })
    }

    /// Memory of an estimator with so many samples whose distances span 20 octaves (64 B to 64 MiB).
    #[must_use]
    pub fn memory_for(samples: usize) -> Bytes {
        Bytes((Order::memory_for(samples) + 20 * (OCTAVE + 1) * size_of::<f32>() + size_of::<Self>()) as u64)
    }

    /// Memory in use.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        Bytes((self.order.memory() + self.histogram.memory() + size_of::<Self>()) as u64)
    }

    /// Takes one look-up that counts. `hash` is any hash of the key; `bytes` what its item is charged.
    #[inline]
    pub fn note(&mut self, hash: u64, bytes: u32) {
        self.count(1);
        let key = mix64(hash);
        if key <= self.limit {
            self.look_up(key, Some(bytes));
        }
    }

    /// Counts look-ups, of sampled keys and others.
    pub fn count(&mut self, look_ups: u64) {
        self.all.look_ups += look_ups as f64;
        self.newest.look_ups += look_ups as f64;
    }

    /// Takes a look-up of a key, a uniform number, which `count` is told of. Without `bytes` its item has those of its last
    /// access; if there was none, a write will tell.
    pub fn look_up(&mut self, key: u64, bytes: Option<u32>) {
        if self.limit < key {
            return;
        }
        let weight = self.weigh();
        if let Some((before, behind)) = self.order.take(key) {
            let bytes = bytes.unwrap_or(before);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a size; saturates at the largest"
            )]
            let distance = ((behind as f64 * weight) as u64).saturating_add(u64::from(bytes));
            self.histogram.add(distance, weight);
            if self.present.0 < distance {
                self.miss(weight);
            }
            self.order.push(key, bytes);
        } else {
            self.miss(weight);
            if let Some(bytes) = bytes {
                self.push(key, bytes);
            }
        }
    }

    /// Takes a look-up that no memory would have hit: the item had expired, or was removed.
    pub fn look_up_dead(&mut self, key: u64) {
        if key <= self.limit {
            let weight = self.weigh();
            self.miss(weight);
            self.order.take(key);
        }
    }

    /// Takes a write of a key: an access that is no look-up.
    pub fn write(&mut self, key: u64, bytes: u32) {
        if key <= self.limit {
            self.order.take(key);
            self.push(key, bytes);
        }
    }

    /// Takes a removal of a key.
    pub fn remove(&mut self, key: u64) {
        if key <= self.limit {
            self.order.take(key);
        }
    }

    /// What a sampled look-up stands for.
    fn weigh(&mut self) -> f64 {
        if TAKEN_MAX <= self.all.taken {
            self.fade();
        }
        let weight = 1.0 / self.rate();
        for sums in [&mut self.all, &mut self.newest] {
            sums.taken += 1;
            sums.weighed += weight;
        }
        weight
    }

    fn miss(&mut self, weight: f64) {
        self.all.missed += weight;
        self.newest.missed += weight;
    }

    fn push(&mut self, key: u64, bytes: u32) {
        while self.order.len() == self.order.room() {
            if self.order.room() < self.samples_max {
                self.order.resize((self.order.room() * 2).min(self.samples_max));
            } else {
                self.lower(self.limit - self.limit / FALL_PART);
            }
        }
        if key <= self.limit {
            self.order.push(key, bytes);
        }
        let beyond = |order: &Order, rate: f64| self.depth_max.0 as f64 * rate < order.total() as f64;
        while 1 < self.order.len() && beyond(&self.order, self.rate()) {
            self.order.pop();
        }
    }

    /// Samples no keys above `limit` any more, if they were.
    pub fn lower(&mut self, limit: u64) {
        if limit < self.limit {
            self.limit = limit;
            self.order.keep_up_to(limit);
        }
    }

    /// Lets it know so many keys, 2 at least: the rate falls at once if they are fewer than it knows.
    pub fn set_samples_max(&mut self, samples_max: usize) {
        self.samples_max = samples_max.clamp(2, KEYS_LIMIT);
        while self.samples_max < self.order.len() {
            self.lower(self.limit - self.limit / FALL_PART);
        }
        if self.samples_max < self.order.room() {
            self.order.resize(self.samples_max);
        }
    }

    /// Sets how large a cache the curve is wanted for: keys that even that would have lost are forgotten.
    pub fn set_depth_max(&mut self, depth_max: Bytes) {
        self.depth_max = depth_max;
    }

    /// Tells how large the cache is from now on, for `missed`.
    pub fn set_present(&mut self, present: Bytes) {
        self.present = present;
    }

    /// The part of the look-ups that an LRU cache would have missed which always was as large as the cache then was.
    #[must_use]
    pub fn missed(&self) -> f64 {
        (self.all.missed / self.all.look_ups.max(1.0)).clamp(0.0, 1.0)
    }

    /// The largest key that is sampled now.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The part of the keys that is sampled now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (self.limit as f64 + 1.0) / (u64::MAX as f64 + 1.0)
    }

    /// What of a difference to a measured ratio is the sample's and not the order's, at most: `OF_DEVIATION` of the standard deviation of
    /// how many of the look-ups hit sampled keys, if all keys are asked alike.
    #[must_use]
    pub fn slack(&self) -> f64 {
        OF_DEVIATION * ((1.0 - self.rate()).max(0.0) / self.order.len().max(1) as f64).sqrt()
    }

    /// Keys known now.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.order.len()
    }

    /// Keys that it may know.
    #[must_use]
    pub fn samples_max(&self) -> usize {
        self.samples_max
    }

    /// Look-ups counted, older ones faded.
    #[must_use]
    pub fn look_ups(&self) -> f64 {
        self.all.look_ups
    }

    /// Sampled look-ups taken, older ones faded.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.all.taken
    }

    /// Bytes of all keys that are known and of those that they stand for.
    #[must_use]
    pub fn footprint(&self) -> Bytes {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size; saturates at the largest"
        )]
        let bytes = (self.order.total() as f64 / self.rate()) as u64;
        Bytes(bytes)
    }

    /// The curve of the look-ups so far.
    ///
    /// # Errors
    /// If no sampled key was looked up twice: there is no second point.
    pub fn curve(&self) -> Result<Curve, CurveError> {
        let total = self.all.look_ups;
        // The samples stand for more or fewer look-ups than there were, mostly by the hottest keys, whose reuse is the
        // nearest: the difference goes there.
        let mut hits = total - self.all.weighed;
        let mut points = vec![(Bytes::ZERO, 1.0)];
        let (mut now, mut noted) = (1.0, 1.0);
        let end = self.histogram.buckets().map(|(bucket, _)| bucket).last();
        for (bucket, weight) in self.histogram.buckets() {
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
        self.all.fade();
        self.newest.fade();
        self.histogram.fade();
    }

    /// Compares the look-ups since the last comparison that came to an end with those before. Whoever asks for other things than before
    /// is not held to what it did: that would fade by half only when every sampled key was asked for again.
    pub fn compare(&mut self) -> Newest {
        if self.newest.taken < NEWEST_MIN {
            return Newest::Few;
        }
        // What the samples stand for is more or less than there was, mostly by the hottest keys, whose reuse is the nearest (see `curve`).
        let (newest, all) = (self.newest, self.all);
        let of_newest = (newest.look_ups - newest.weighed, newest.look_ups);
        let of_before = (all.look_ups - all.weighed - of_newest.0, all.look_ups - newest.look_ups);
        let has_before = NEWEST_MIN <= all.taken.saturating_sub(newest.taken);
        let turned = has_before && TURNED_BY < self.histogram.turned_by(of_newest, of_before);
        if turned {
            self.all = self.newest;
            self.histogram.keep_newest();
        }
        self.newest = Sums::default();
        self.histogram.end_newest();
        if turned { Newest::Turned } else { Newest::Alike }
    }

    /// Whether enough new look-ups came for old ones to fade.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let samples = self.order.len().max(WINDOW_SAMPLES_MIN) as u64;
        samples.max((WINDOW_PER_SAMPLE * samples).min(WINDOW_ENOUGH)) <= self.all.taken
    }

    /// Lets old look-ups fade if enough new ones came; says how many times they were halved.
    pub fn age(&mut self) -> i32 {
        let mut halved = 0;
        while self.is_due() {
            self.fade();
            halved += 1;
        }
        halved
    }

    /// Forgets everything and samples at the first rate again.
    pub fn clear(&mut self) {
        self.limit = limit_of(self.rate_max);
        self.order.clear();
        self.histogram = Histogram::default();
        (self.all, self.newest) = (Sums::default(), Sums::default());
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

#[cfg(test)]
mod tests;
