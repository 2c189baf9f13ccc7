//! The SSD of the model: mean latencies that rise with its load, and the distributions around them.
//!
//! Shape:  utilisation (others' and our own operations per second) -> mean and spread of a read and of a write
//! Units:  microseconds, operations of 4 KiB per second
//! Source: PolyEMT Fig. 4c (80 and 100 µs unloaded), Fig. 6 (400 and 850 µs mean, 500 and 4,200 µs at the 95th
//!         percentile at high load), §5 (16,000 operations per second)
//! Non-goals: wear, garbage collection in time (its pauses are a share of all writes), requests larger than 4 KiB

/// Operations of 4 KiB per second that the SSD bears (PolyEMT §5).
const IOPS: f64 = 16_000.0;
/// Mean read without load (PolyEMT Fig. 4c).
const READ_US: f64 = 80.0;
/// Mean write without load (PolyEMT Fig. 4c).
const WRITE_US: f64 = 100.0;
/// A read waits as in a queue with one server, `1 + u / (1 - u)` of its unloaded time: 400 µs (Fig. 6) then is a
/// utilisation of 0.8, which is what "high load" means here.
const READ_WAIT: f64 = 1.0;
/// A write waits so much more that it takes 850 µs (Fig. 6) at the same utilisation of 0.8.
const WRITE_WAIT: f64 = 1.875;
/// Utilisation beyond which the queue's formula is held: the model has no overload. A guess (0.95 to 0.99).
const UTILISATION_MAX: f64 = 0.98;
/// Part of the utilisation that others make in [`Ssd::loaded`]: with some 1,600 operations per second of our own it
/// stands at the paper's high load. A guess (0.6 to 0.8).
const OTHERS: f64 = 0.7;
/// Spread of reads as the standard deviation of their logarithm: 95th percentile ÷ mean is 1.25 (Fig. 6).
const READ_SPREAD: f64 = 0.141;
/// One write in so many meets a pause of the SSD; with the three constants below the mean is 1 and the 95th percentile
/// 4.94 means (Fig. 6: 850 and 4,200 µs). A guess between .06, the least that can have it, and .2.
const PAUSED_PART: f64 = 0.12;
/// Mean of a write that meets a pause, in means of all writes.
const PAUSED_MEAN: f64 = 4.837;
/// Spread of the writes that meet a pause.
const PAUSED_SPREAD: f64 = 0.25;
/// Spread of the other writes: as that of reads, a guess.
const PLAIN_SPREAD: f64 = READ_SPREAD;

/// An SSD with the load that others put on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ssd {
    others: f64,
}

/// Mean latencies at one load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latencies {
    /// Mean of a read.
    pub read_us: f64,
    /// Mean of a write.
    pub write_us: f64,
}

/// A part of all outcomes: how often, how long on average, and how wide around it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Branch {
    /// Part of all, 0..=1.
    pub part: f64,
    /// Mean in microseconds.
    pub mean_us: f64,
    /// Variance in square microseconds.
    pub variance: f64,
}

impl Ssd {
    /// An SSD of which `others` use the part 0..=0.95; none outside of that.
    #[must_use]
    pub fn new(others: f64) -> Option<Self> {
        (0.0..=0.95).contains(&others).then_some(Self { others })
    }

    /// An SSD that nobody else uses.
    #[must_use]
    pub const fn quiet() -> Self {
        Self { others: 0.0 }
    }

    /// An SSD that others keep near the paper's high load.
    #[must_use]
    pub const fn loaded() -> Self {
        Self { others: OTHERS }
    }

    /// The part that others use.
    #[must_use]
    pub const fn others(self) -> f64 {
        self.others
    }

    /// Operations per second that others leave free.
    #[must_use]
    pub fn spare_iops(self) -> f64 {
        IOPS * (1.0 - self.others)
    }

    /// The utilisation with `own` operations per second on top of the others'.
    #[must_use]
    pub fn utilisation(self, own: f64) -> f64 {
        (self.others + own / IOPS).min(UTILISATION_MAX)
    }

    /// Mean latencies at `utilisation`.
    #[must_use]
    pub fn latencies(utilisation: f64) -> Latencies {
        let u = utilisation.clamp(0.0, UTILISATION_MAX);
        let queue = u / (1.0 - u);
        Latencies {
            read_us: READ_US * (1.0 + READ_WAIT * queue),
            write_us: WRITE_US * (1.0 + WRITE_WAIT * queue),
        }
    }
}

impl Latencies {
    /// The 95th percentiles of a read and of a write.
    #[must_use]
    pub fn p95_us(self) -> (f64, f64) {
        (quantile_us(&[self.read()], 0.95), quantile_us(&self.write(), 0.95))
    }

    /// A read as a distribution.
    pub(super) fn read(self) -> Branch {
        Branch::spread(1.0, self.read_us, READ_SPREAD)
    }

    /// A write as a distribution: plain ones and those that meet a pause.
    pub(super) fn write(self) -> [Branch; 2] {
        let plain = (1.0 - PAUSED_PART * PAUSED_MEAN) / (1.0 - PAUSED_PART);
        [
            Branch::spread(1.0 - PAUSED_PART, plain * self.write_us, PLAIN_SPREAD),
            Branch::spread(PAUSED_PART, PAUSED_MEAN * self.write_us, PAUSED_SPREAD),
        ]
    }
}

impl Branch {
    /// A branch of `part` of all, lognormal with `mean_us` and a logarithm that deviates by `spread`.
    pub(super) fn spread(part: f64, mean_us: f64, spread: f64) -> Self {
        let relative = (spread * spread).exp() - 1.0;
        Self { part, mean_us, variance: relative * mean_us * mean_us }
    }

    /// Both one after the other, `count` times the second.
    pub(super) fn then(self, other: Self, count: f64) -> Self {
        Self {
            part: self.part * other.part,
            mean_us: self.mean_us + count * other.mean_us,
            variance: self.variance + count * other.variance,
        }
    }

    /// Later by `us` without any spread.
    pub(super) fn later(self, us: f64) -> Self {
        Self { mean_us: self.mean_us + us, ..self }
    }

    /// Chance that an outcome of the branch takes at most `us`: lognormal with the branch's mean and variance.
    pub(super) fn at_most(self, us: f64) -> f64 {
        if us <= 0.0 || self.mean_us <= 0.0 {
            return if self.mean_us <= us { 1.0 } else { 0.0 };
        }
        let square = (self.variance / (self.mean_us * self.mean_us)).ln_1p();
        if square <= 0.0 {
            return if self.mean_us <= us { 1.0 } else { 0.0 };
        }
        let middle = self.mean_us.ln() - square / 2.0;
        normal_at_most((us.ln() - middle) / square.sqrt())
    }
}

/// The quantile of a mixture of branches in microseconds; zero without any.
pub(super) fn quantile_us(branches: &[Branch], quantile: f64) -> f64 {
    let all: f64 = branches.iter().map(|b| b.part).sum();
    if all <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0_f64, 1e7_f64);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        let below: f64 = branches.iter().map(|b| b.part * b.at_most(middle)).sum();
        if below < quantile * all { low = middle } else { high = middle }
    }
    high
}

/// The normal distribution function (Abramowitz and Stegun 26.2.17, error below 1e-7).
fn normal_at_most(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let above = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly;
    if 0.0 <= z { 1.0 - above } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ssd_has_the_latencies_of_the_paper() {
        let quiet = Ssd::latencies(0.0);
        let loaded = Ssd::latencies(0.8);
        for (ours, paper) in [
            (quiet.read_us, 80.0),
            (quiet.write_us, 100.0),
            (loaded.read_us, 400.0),
            (loaded.write_us, 850.0),
            (quantile_us(&[loaded.read()], 0.95), 500.0),
            (quantile_us(&loaded.write(), 0.95), 4_200.0),
        ] {
            assert!((ours / paper - 1.0).abs() < 0.01, "{ours} {paper}");
        }
        let mean: f64 = loaded.write().iter().map(|b| b.part * b.mean_us).sum();
        assert!((mean - 850.0).abs() < 1.0, "{mean}");
    }

    #[test]
    fn more_load_is_never_quicker_and_never_infinite() {
        let mut before = Ssd::latencies(0.0);
        for i in 1..=200 {
            let now = Ssd::latencies(f64::from(i) / 100.0);
            assert!(before.read_us <= now.read_us && before.write_us <= now.write_us);
            assert!(now.write_us.is_finite());
            before = now;
        }
        assert!(Ssd::new(f64::NAN).is_none() && Ssd::new(1.0).is_none() && Ssd::new(-0.1).is_none());
    }
}
