//! Whether tenants disturb each other, told from the latency of the medium.
//!
//! Shape:      latency per kind, thresholds -> interference, quiet, between, unknown
//! Invariants: one sample alone changes nothing; a kind that was measured and is missing is unknown, not quiet
//! Source:     MT² §3.2.2, Listing 1: interference is a latency above its threshold, the latency at which a kind's own
//!             throughput has fallen by 10 %. We add: the median of three agrees with the newest sample, and quiet means
//!             below .95 of every threshold (the paper leaves "disappeared" open); where it is known what an access takes by the
//!             own doing of those who come first, a threshold is above that by as much as above a quiet medium

use control::Pool;
use control::bandwidth::{Kind, Kinds};
use units::Duration;

/// Part of the throughput whose loss sets a threshold (MT² §3.2.2).
pub const LOST_PART: f64 = 0.1;
/// Below this part of a threshold the medium is quiet (our choice, the paper leaves it open): half of the way from what takes the lost
/// part longer than the quiet medium back to that. At .9, which is the quiet medium itself, nobody is let go where it shows what it does.
const QUIET_PART: f64 = 1.0 - LOST_PART / 2.0;
/// A kind that is missing for so many periods is forgotten: ten seconds at 100 ms.
const FORGOTTEN_AFTER: u32 = 100;

/// The latency of each kind above which tenants disturb each other; none for a kind that is not watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds(Kinds<Option<Duration>>);

/// Why thresholds are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ThresholdError {
    /// No time at all is above every threshold of zero.
    #[error("a threshold of zero")]
    Zero,
    /// A curve needs a point alone and one that has lost enough.
    #[error("the throughput of the curve never falls far enough")]
    NeverFalls,
    /// A throughput that is no number above zero.
    #[error("point {0} of the curve has no throughput")]
    NoThroughput(usize),
}

impl Thresholds {
    /// The thresholds of each kind.
    ///
    /// # Errors
    /// A threshold of zero.
    pub fn new(by_kind: Kinds<Option<Duration>>) -> Result<Self, ThresholdError> {
        if by_kind.iter().any(|(_, threshold)| *threshold == Some(Duration::ZERO)) {
            return Err(ThresholdError::Zero);
        }
        Ok(Self(by_kind))
    }

    /// The threshold that a measured curve of (throughput, latency) under rising load of others gives: the latency at
    /// which the throughput is a part `lost` ([`LOST_PART`] in the paper) below the first point's, linear between points.
    ///
    /// # Errors
    /// A curve that never falls so far, or a throughput that is no finite number above zero.
    pub fn of_curve(points: &[(f64, Duration)], lost: f64) -> Result<Duration, ThresholdError> {
        let no_number = |(throughput, _): &(f64, Duration)| !(throughput.is_finite() && 0.0 < *throughput);
        if let Some(at) = points.iter().position(no_number) {
            return Err(ThresholdError::NoThroughput(at));
        }
        let wanted = points.first().map_or(0.0, |(alone, _)| alone * (1.0 - lost));
        let after = points.iter().position(|(throughput, _)| *throughput <= wanted);
        let Some([before, after]) = after.and_then(|i| points.get(i.checked_sub(1)?..=i)) else {
            return Err(ThresholdError::NeverFalls);
        };
        let part = (before.0 - wanted) / (before.0 - after.0);
        let latency = before.1.0 as f64 + part * (after.1.0 as f64 - before.1.0 as f64);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two latencies in u64"
        )]
        let latency = Duration(latency as u64);
        if latency == Duration::ZERO { Err(ThresholdError::Zero) } else { Ok(latency) }
    }

    /// The threshold of a kind.
    #[must_use]
    pub fn get(&self, kind: Kind) -> Option<Duration> {
        *self.0.get(kind)
    }
}

/// How long an access of each kind takes, where that is known.
pub(super) type Latencies = Kinds<Option<Duration>>;

/// How the medium is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weather {
    /// A kind is above its threshold.
    Interference,
    /// Every kind that is known is below [`QUIET_PART`] of its threshold.
    Quiet,
    /// Neither.
    Between,
    /// Nothing is known, or a kind that was known is missing.
    Unknown,
}

/// The newest latencies of each kind against its threshold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detector {
    thresholds: Thresholds,
    recent: Kinds<Recent>,
}

/// The newest three samples of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    samples: [u64; 3],
    count: usize,
    missed: u32,
}

impl Detector {
    pub(super) fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, recent: Kinds::default() }
    }

    /// Takes note of one more window.
    pub(super) fn observe(&mut self, pool: &Pool) {
        for kind in Kind::ALL.into_iter().filter(|&kind| self.thresholds.get(kind).is_some()) {
            self.recent.get_mut(kind).observe(*pool.latency.get(kind));
        }
    }

    /// How the medium is, where an access takes `own` by the doing of those alone who come first.
    pub(super) fn weather(&self, own: &Latencies) -> Weather {
        let of = |kind| {
            let threshold = self.thresholds.get(kind)?.0 as f64;
            let own = own.get(kind).map_or(0.0, |own| own.0 as f64 / (1.0 - LOST_PART));
            self.recent.get(kind).weather(threshold.max(own))
        };
        Kind::ALL.into_iter().filter_map(of).reduce(worse).unwrap_or(Weather::Unknown)
    }
}

fn worse(a: Weather, b: Weather) -> Weather {
    let rank = |weather: &Weather| match weather {
        Weather::Quiet => 0,
        Weather::Between => 1,
        Weather::Unknown => 2,
        Weather::Interference => 3,
    };
    std::cmp::max_by_key(a, b, rank)
}

impl Recent {
    fn observe(&mut self, latency: Option<Duration>) {
        let Some(newest) = latency else {
            self.missed = self.missed.saturating_add(1);
            if FORGOTTEN_AFTER < self.missed {
                self.count = 0;
            }
            return;
        };
        self.missed = 0;
        self.samples.rotate_right(1);
        self.samples[0] = newest.0;
        self.count = (self.count + 1).min(3);
    }

    /// How one kind is; none if it was never seen or not for long.
    fn weather(&self, threshold: f64) -> Option<Weather> {
        if self.count == 0 {
            return None;
        }
        let (newest, median) = (self.samples[0], self.median());
        Some(if 0 < self.missed {
            Weather::Unknown
        } else if threshold < newest.min(median) as f64 {
            Weather::Interference
        } else if (newest.max(median) as f64) < threshold * QUIET_PART {
            Weather::Quiet
        } else {
            Weather::Between
        })
    }

    /// The middle of three samples, the smaller of two: the first alone is no evidence of interference.
    fn median(&self) -> u64 {
        let [a, b, c] = self.samples;
        match self.count {
            3 => a.max(b).min(a.min(b).max(c)),
            2 => a.min(b),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    fn pool(slow_read: Option<u64>) -> Pool {
        Pool { latency: Kinds { slow_read: slow_read.map(US), ..Kinds::default() }, ..Pool::default() }
    }

    fn weather(detector: &mut Detector, us: Option<u64>) -> Weather {
        detector.observe(&pool(us));
        detector.weather(&Kinds::default())
    }

    #[test]
    fn one_sample_alone_changes_nothing() {
        let watched = Kinds { slow_read: Some(US(10)), ..Kinds::default() };
        let mut detector = Detector::new(Thresholds::new(watched).unwrap());
        use Weather::{Between, Interference, Quiet, Unknown};
        for (at, (latency, expected)) in [
            (None, Unknown),
            (Some(50), Between),
            (Some(50), Interference),
            (Some(8), Between),
            (Some(8), Quiet),
            (Some(50), Between),
            (Some(8), Quiet),
            (None, Unknown),
            (Some(9), Quiet),
            (Some(10), Between),
            (Some(11), Between),
            (Some(11), Interference),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(weather(&mut detector, latency), expected, "sample {at}");
        }
        for _ in 0..=FORGOTTEN_AFTER {
            assert_eq!(weather(&mut detector, None), Unknown);
        }
        assert_eq!(weather(&mut detector, Some(50)), Between, "samples of long ago do not count");
    }

    #[test]
    fn a_threshold_is_above_what_those_who_come_first_do_themselves() {
        let watched = Kinds { slow_read: Some(US(10)), ..Kinds::default() };
        let mut detector = Detector::new(Thresholds::new(watched).unwrap());
        let own = |us| Kinds { slow_read: Some(US(us)), ..Kinds::default() };
        for _ in 0..3 {
            detector.observe(&pool(Some(20)));
        }
        for (us, expected) in [
            (0, Weather::Interference),
            (9, Weather::Interference),
            (17, Weather::Interference),
            (18, Weather::Between),
            (20, Weather::Quiet),
        ] {
            assert_eq!(detector.weather(&own(us)), expected, "{us} us of their own");
        }
    }

    #[test]
    fn a_threshold_is_the_latency_at_a_tenth_lost() {
        let curve = [(100.0, US(1)), (95.0, US(2)), (85.0, US(4)), (50.0, US(9))];
        assert_eq!(Thresholds::of_curve(&curve, LOST_PART), Ok(US(3)));
        assert_eq!(Thresholds::of_curve(&curve[..2], LOST_PART), Err(ThresholdError::NeverFalls));
        assert_eq!(Thresholds::of_curve(&[], LOST_PART), Err(ThresholdError::NeverFalls));
        assert_eq!(
            Thresholds::of_curve(&[(1.0, US(1)), (f64::NAN, US(1))], LOST_PART),
            Err(ThresholdError::NoThroughput(1))
        );
        assert_eq!(Thresholds::of_curve(&[(0.0, US(1))], LOST_PART), Err(ThresholdError::NoThroughput(0)));
        assert_eq!(Thresholds::new(Kinds::splat(Some(Duration::ZERO))), Err(ThresholdError::Zero));
    }
}
