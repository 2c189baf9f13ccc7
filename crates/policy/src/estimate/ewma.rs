//! An exponentially weighted mean of samples that come at regular or irregular times.
//!
//! Shape:      samples (a number, and the time it stands for) -> their mean, the newest counting most
//! Invariants: the mean lies between the smallest and the largest sample; what is no number changes nothing
//! Units:      the samples' own
//! Source:     exponential smoothing; for irregular times the weight of a sample that stands for a time dt is
//!             1 − e^(−dt/τ), so that one sample for two seconds counts as two equal ones for one second each

use units::Duration;

/// Weight of a new sample in Spirit's released estimator (`notes/algorithms.md` 2.2: .95 for the new).
pub const NEW_SAMPLE_WEIGHT: f64 = 0.95;

/// The mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ewma {
    pace: Pace,
    mean: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Pace {
    /// Every sample has this weight.
    PerSample(f64),
    /// A sample's weight follows from the time it stands for and this time constant in seconds.
    PerTime(f64),
}

impl Ewma {
    /// A mean in which every new sample has `weight`; none unless it is above 0 and at most 1.
    #[must_use]
    pub fn per_sample(weight: f64) -> Option<Self> {
        (0.0 < weight && weight <= 1.0).then_some(Self { pace: Pace::PerSample(weight), mean: None })
    }

    /// A mean that forgets all but 37 % (1/e) of what it knew in `time_constant`; none if that is no time.
    #[must_use]
    pub fn over(time_constant: Duration) -> Option<Self> {
        let pace = Pace::PerTime(time_constant.as_secs_f64());
        (Duration::ZERO < time_constant).then_some(Self { pace, mean: None })
    }

    /// Takes a sample that stands for the last `window`. The first one is the mean. Over time, a sample that stands for
    /// no time says nothing beyond that; a sample that is not finite is dropped.
    pub fn note(&mut self, sample: f64, window: Duration) {
        if !sample.is_finite() {
            return;
        }
        let weight = match self.pace {
            Pace::PerSample(weight) => weight,
            Pace::PerTime(constant) => -(-window.as_secs_f64() / constant).exp_m1(),
        };
        // Two products instead of a difference: the difference of two large numbers may be infinite.
        self.mean = Some(self.mean.map_or(sample, |mean| mean * (1.0 - weight) + sample * weight));
    }

    /// The mean, none before the first sample.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }

    /// Forgets every sample.
    pub fn clear(&mut self) {
        self.mean = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_no_weight_is_refused() {
        for bad in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Ewma::per_sample(bad), None, "{bad}");
        }
        assert_eq!(Ewma::over(Duration::ZERO), None);
    }

    #[test]
    fn the_newest_sample_counts_most() {
        let mut mean = Ewma::per_sample(NEW_SAMPLE_WEIGHT).unwrap();
        assert_eq!(mean.mean(), None);
        for sample in [100.0, f64::NAN, 200.0, f64::INFINITY] {
            mean.note(sample, Duration::ZERO);
        }
        assert!((mean.mean().unwrap() - 195.0).abs() < 1e-9, "{mean:?}");
        mean.clear();
        assert_eq!(mean.mean(), None);
    }

    #[test]
    fn a_step_is_followed_to_63_percent_in_one_time_constant() {
        let mut mean = Ewma::over(Duration::from_secs(10)).unwrap();
        mean.note(0.0, SECOND);
        for _ in 0..10 {
            mean.note(1.0, SECOND);
        }
        assert!((mean.mean().unwrap() - 0.632_120_559).abs() < 1e-9, "{mean:?}");
    }

    proptest! {
        /// How a time is cut into windows makes no difference; a window of no length neither.
        #[test]
        fn cutting_a_window_changes_nothing(
            first in -1e3..1e3, sample in -1e3..1e3, cuts in prop::collection::vec(0_u64..5_000_000_000, 1..20),
        ) {
            let (mut cut, mut whole) = [(); 2].map(|()| Ewma::over(Duration::from_secs(3)).unwrap()).into();
            cut.note(first, SECOND);
            whole.note(first, SECOND);
            for part in &cuts {
                cut.note(sample, Duration(*part));
            }
            whole.note(sample, Duration(cuts.iter().sum()));
            let (cut, whole) = (cut.mean().unwrap(), whole.mean().unwrap());
            prop_assert!((cut - whole).abs() < 1e-6, "{} {}", cut, whole);
        }

        #[test]
        fn the_mean_stays_among_its_samples(
            samples in prop::collection::vec((-1e300..1e300, 0_u64..10_000_000_000), 1..50),
        ) {
            let mut mean = Ewma::over(SECOND).unwrap();
            for (sample, window) in &samples {
                mean.note(*sample, Duration(*window));
            }
            let least = samples.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
            let most = samples.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
            let slack = 1e-9 * least.abs().max(most.abs());
            let mean = mean.mean().unwrap();
            prop_assert!(least - slack <= mean && mean <= most + slack, "{} {} {}", least, mean, most);
        }
    }
}
