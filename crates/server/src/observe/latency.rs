//! How long requests take: one histogram for each operation.
//!
//! Shape:  buckets are whole microseconds up to 4, then four to each doubling (log-linear)
//! Units:  microseconds; sums in nanoseconds
//! Cost:   a histogram is 0.8 KiB and is made with its first request; a quantile is at most 25 % too large

use crate::limits::LATENCY_BUCKETS;
use units::Duration;

/// Buckets to a doubling, as a power of two.
const SUB_BITS: u32 = 2;
const SUBS: usize = 1 << SUB_BITS;

#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256")]
const BUCKET_LAST: u8 = LATENCY_BUCKETS as u8 - 1;
const _: () = assert!(LATENCY_BUCKETS <= 1 << u8::BITS);

/// The bucket of a time.
pub(crate) fn bucket_of(nanos: u64) -> u8 {
    let micros = nanos / 1000;
    let bucket = match micros.checked_ilog2() {
        None => 0,
        Some(log) if log < SUB_BITS => micros,
        Some(log) => {
            let sub = micros >> (log - SUB_BITS) & (SUBS as u64 - 1);
            u64::from(log - SUB_BITS + 1) * SUBS as u64 + sub
        }
    };
    u8::try_from(bucket).unwrap_or(u8::MAX).min(BUCKET_LAST)
}

/// The least microseconds of a bucket; of the one behind the last, where the last ends.
fn start_of(bucket: usize) -> u64 {
    match bucket {
        0..SUBS => bucket as u64,
        _ => ((SUBS + bucket % SUBS) as u64) << (bucket / SUBS - 1),
    }
}

/// The longest that is told of times up to `at_most`: who asks for that much is told no more while that holds. Below the first step
/// nothing is told, and a bound stays what it is, for who asks for less than a tier takes.
pub(crate) fn told_of(at_most: Duration) -> Duration {
    if at_most < Duration::from_micros(1) {
        return at_most;
    }
    let bucket = usize::from(bucket_of(at_most.0.saturating_sub(1)));
    at_most.max(Duration::from_micros(start_of(bucket + 1)))
}

/// Times of the requests of one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latency {
    counts: [u64; LATENCY_BUCKETS],
    sum_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { counts: [0; LATENCY_BUCKETS], sum_ns: 0 }
    }
}

impl Latency {
    pub(crate) fn add(&mut self, bucket: u8, count: u32, sum_ns: u64) {
        self.counts[usize::from(bucket).min(LATENCY_BUCKETS - 1)] += u64::from(count);
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    /// Adds another's.
    pub(crate) fn join(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// What came since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let counts = std::array::from_fn(|i| self.counts[i].saturating_sub(earlier.counts[i]));
        Self { counts, sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns) }
    }

    /// Their times together, in ns.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their times together, in seconds.
    #[must_use]
    pub fn sum_secs(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Microseconds that this part of the requests (per mille) took at most; none without requests.
    #[must_use]
    pub fn quantile_us(&self, per_mille: u64) -> Option<u64> {
        self.up_to((self.requests() * per_mille.min(1000)).div_ceil(1000))
    }

    /// The same of a part of 0..=1.
    #[must_use]
    pub(crate) fn part_us(&self, part: f64) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
        let wanted = (self.requests() as f64 * part.clamp(0.0, 1.0)).ceil() as u64;
        self.up_to(wanted)
    }

    /// Microseconds that so many requests took at most.
    fn up_to(&self, requests: u64) -> Option<u64> {
        let (wanted, mut seen) = (requests.max(1), 0);
        let at = self.counts.iter().position(|count| {
            seen += count;
            wanted <= seen
        });
        at.map(|bucket| start_of(bucket + 1))
    }

    /// Requests in coarse steps: upper bound in seconds, and how many lie below it and above the last bound. The last
    /// bound is endless.
    #[must_use]
    pub fn steps(&self) -> Vec<(f64, u64)> {
        let mut steps = Vec::with_capacity(LATENCY_BUCKETS / (2 * SUBS) + 1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            // Every fourth power of two: 4 µs, 16 µs, ….
            if (bucket + 1) % (2 * SUBS) == SUBS && bucket + 1 < LATENCY_BUCKETS {
                steps.push((start_of(bucket + 1) as f64 / 1e6, below));
                below = 0;
            }
        }
        steps.push((f64::INFINITY, below));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(999), 0);
        for bucket in 0..LATENCY_BUCKETS {
            let (from, to) = (start_of(bucket), start_of(bucket + 1));
            assert!(from < to, "{bucket}");
            assert_eq!(usize::from(bucket_of(from * 1000)), bucket);
            assert_eq!(usize::from(bucket_of(to * 1000 - 1)), bucket);
            assert!(bucket < SUBS || to - from <= from / 4, "{bucket}: wider than a quarter");
        }
        assert_eq!(usize::from(bucket_of(u64::MAX)), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn what_is_told_of_times_up_to_a_bound_is_inside_what_is_told_of_the_bound() {
        for (bound_us, told_us) in [(1, 1), (3, 3), (500, 512), (512, 512), (513, 640), (900_000, 917_504)] {
            let bound = Duration::from_micros(bound_us);
            assert_eq!(told_of(bound), Duration::from_micros(told_us));
            let told = |took: Duration| {
                let mut latency = Latency::default();
                latency.add(bucket_of(took.0), 1, took.0);
                latency.part_us(0.99).map(Duration::from_micros)
            };
            assert_eq!(told(Duration(bound.0 - 1)), Some(told_of(bound)), "just inside");
            assert!(Some(told_of(bound)) < told(told_of(bound)), "outside for certain");
        }
        assert_eq!([100, u64::MAX].map(|ns| told_of(Duration(ns))), [100, u64::MAX].map(Duration));
    }

    #[test]
    fn quantiles_and_steps_say_where_requests_are() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile_us(500), None);
        latency.add(bucket_of(10_000), 990, 9_900_000);
        latency.add(bucket_of(5_000_000), 10, 50_000_000);
        assert_eq!(latency.requests(), 1000);
        assert_eq!(latency.quantile_us(500), Some(12));
        assert_eq!(latency.quantile_us(990), Some(12));
        let p999 = latency.quantile_us(999).unwrap();
        assert!((5000..=6250).contains(&p999), "{p999}");
        assert!((latency.sum_secs() - 0.0599).abs() < 1e-9);
        let steps = latency.steps();
        assert_eq!(steps.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        let bound = steps.iter().find(|(_, count)| *count == 990).unwrap().0;
        assert!((bound - 16e-6).abs() < 1e-12, "{bound}");
    }
}
