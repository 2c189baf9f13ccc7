//! Decisions that do not flutter: two thresholds and a number of periods; and the median of the last few samples.
//!
//! Shape:      samples -> on or off; samples -> their median
//! Invariants: the state changes only after so many samples in a row beyond the threshold of the other state; samples
//!             between the thresholds start the count anew; what is no number changes nothing, not even the count
//! Source:     the Schmitt trigger, with a count of periods; none of the papers says how its thresholds are held

/// Periods beyond a threshold before the state changes (guess; 1 reacts to every outlier, 5 and more take half a second
/// of 100 ms windows).
pub const PERIODS_TO_SWITCH: u32 = 3;

/// On or off, with two thresholds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hysteresis {
    low: f64,
    high: f64,
    periods: u32,
    on: bool,
    beyond: u32,
}

impl Hysteresis {
    /// Off; goes on after `periods` samples of `high` or more, off after as many of `low` or less. None unless both are
    /// finite with `low` ≤ `high` and there is at least one period.
    #[must_use]
    pub fn new(low: f64, high: f64, periods: u32) -> Option<Self> {
        let fit = low.is_finite() && high.is_finite() && low <= high && 0 < periods;
        fit.then_some(Self { low, high, periods, on: false, beyond: 0 })
    }

    /// Takes the sample of one period and returns whether it is on now.
    pub fn note(&mut self, sample: f64) -> bool {
        if sample.is_nan() {
            return self.on;
        }
        let is_beyond = if self.on { sample <= self.low } else { self.high <= sample };
        self.beyond = if is_beyond { self.beyond + 1 } else { 0 };
        if self.periods <= self.beyond {
            self.on = !self.on;
            self.beyond = 0;
        }
        self.on
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }
}

/// The last `K` samples, to take their median: one outlier in three, or two in five, move it no further than its
/// neighbour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Median<const K: usize> {
    last: [f64; K],
    count: usize,
    next: usize,
}

impl<const K: usize> Default for Median<K> {
    fn default() -> Self {
        const { assert!(0 < K, "a median needs a sample") };
        Self { last: [0.0; K], count: 0, next: 0 }
    }
}

impl<const K: usize> Median<K> {
    /// Takes a sample, in place of the oldest of `K`; one that is not finite is dropped.
    pub fn note(&mut self, sample: f64) {
        if sample.is_finite() {
            self.last[self.next] = sample;
            self.next = (self.next + 1) % K;
            self.count = (self.count + 1).min(K);
        }
    }

    /// The median (of an even number of samples the mean of the middle two), none before the first sample.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.last;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable_by(f64::total_cmp);
        let high = *sorted.get(self.count / 2)?;
        let low = sorted[(self.count - 1) / 2];
        Some(low / 2.0 + high / 2.0)
    }

    /// Forgets every sample.
    pub fn clear(&mut self) {
        (self.count, self.next) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_pair_of_thresholds_is_refused() {
        for (low, high, periods) in
            [(2.0, 1.0, 1), (f64::NAN, 1.0, 1), (1.0, f64::INFINITY, 1), (1.0, 2.0, 0)]
        {
            assert_eq!(Hysteresis::new(low, high, periods), None, "{low} {high} {periods}");
        }
    }

    #[test]
    fn it_switches_after_its_periods() {
        let mut state = Hysteresis::new(1.0, 2.0, 2).unwrap();
        let samples = [2.5, 1.5, 2.0, 2.0, 0.5, f64::NAN, 1.0, 3.0, f64::NAN, 1.5, 3.0, 3.0];
        let on = [false, false, false, true, true, true, false, false, false, false, false, true];
        assert_eq!(samples.map(|s| state.note(s)), on);
        assert!(state.is_on());
    }

    #[test]
    fn the_median_ignores_outliers() {
        let mut median = Median::<5>::default();
        assert_eq!(median.median(), None);
        for (sample, expected) in
            [(3.0, 3.0), (5.0, 4.0), (1e300, 5.0), (f64::NAN, 5.0), (4.0, 4.5), (-1e300, 4.0), (9.0, 5.0)]
        {
            median.note(sample);
            assert!((median.median().unwrap() - expected).abs() < 1e-12, "{sample}: {median:?}");
        }
        median.clear();
        assert_eq!(median.median(), None);
    }

    proptest! {
        /// Noise between the thresholds, or shorter than the periods, never switches.
        #[test]
        fn short_bursts_never_switch(bursts in prop::collection::vec((1_usize..3, 1_usize..5), 0..50)) {
            let mut state = Hysteresis::new(1.0, 2.0, PERIODS_TO_SWITCH).unwrap();
            for (above, between) in bursts {
                (0..above).for_each(|_| assert!(!state.note(9.0)));
                (0..between).for_each(|_| assert!(!state.note(1.5)));
            }
        }

        #[test]
        fn a_median_is_one_of_the_middle(samples in prop::collection::vec(-1e9..1e9, 7..30)) {
            let mut median = Median::<7>::default();
            samples.iter().for_each(|s| median.note(*s));
            let mut last = samples[samples.len() - 7..].to_vec();
            last.sort_unstable_by(f64::total_cmp);
            prop_assert!((median.median().unwrap() - last[3]).abs() < 1e-6);
        }
    }
}
