//! What goes wrong on the modelled machine: the faults that policies and loops promise to survive, and no others.
//!
//! Shape:      a `Faults` value and a seed -> missing, stale and noisy signals, late and refusing actuators, dying tenants
//! Invariants: faults touch what sensors report and what actuators do, never the ground truth of what runs
//! Units:      chances in 0..=1, relative standard deviations, virtual time
//! Source:     noise of counts: guess, see the constants; writes of untrusted tenants are sampled every 10,007th store
//!             (MT² §4, §3.2.1)

use super::latency::normal_quantile;
use control::bandwidth::Kinds;
use units::{Duration, Instant, Rng, TenantId};

/// Variance of a count ÷ its mean: accesses come in batches, so that a count of n is off by 3 √n (guess in 1..=25; at 1.6 GB/s
/// of 256 B that is 4 % of a millisecond and .1 % of a second).
const DISPERSION: f64 = 9.0;
/// Accesses after which a latency says something new (guess in 10..=1000; NyxCache §4.3 needs 500 ms for a stable 99th
/// percentile, which here is then 2 % off).
pub(super) const LATENCY_CORRELATION: f64 = 100.0;
/// Stores between two samples where writes are sampled (MT² §4).
const SAMPLING_PERIOD: f64 = 10_007.0;
/// Time between two looks at the medium's own latency: timed probes and queue counters (guess in 1..=100 µs).
pub(super) const PROBE_EVERY: Duration = Duration::from_micros(10);

/// Every constant of the noise with its name: what is frozen.
#[cfg(test)]
pub(super) const CONSTANTS: [(&str, f64); 4] = [
    ("noise.dispersion", DISPERSION),
    ("noise.latency_correlation", LATENCY_CORRELATION),
    ("noise.sampling_period", SAMPLING_PERIOD),
    ("noise.probe_every_ns", PROBE_EVERY.0 as f64),
];

/// What goes wrong, how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Scale of the noise that finite windows have: 1 as declared, 0 for exact signals.
    pub noise: f64,
    /// More noise: relative standard deviation of every figure of a signal, however long the window.
    pub jitter: f64,
    /// Chance that a tenant's signal is missing from a reading.
    pub missing: f64,
    /// Chance that a reading repeats the tenant's previous one.
    pub stale: f64,
    /// Kinds whose traffic is estimated from samples.
    pub sampled: Kinds<bool>,
    /// Chance that an actuator refuses a tenant's new throttle and keeps the old one.
    pub refuse: f64,
    /// Time from being told to being in force.
    pub late: Duration,
    /// Time between two looks of the brake at a budget: it can run over by so much. Zero stops at the very access.
    pub budget_tick: Duration,
    /// Tenants that die, and when.
    pub deaths: Vec<(Instant, TenantId)>,
}

impl Faults {
    /// Nothing but the noise of finite windows.
    pub const NONE: Self = Self {
        noise: 1.0,
        jitter: 0.0,
        missing: 0.0,
        stale: 0.0,
        sampled: Kinds { dram_read: false, dram_write: false, slow_read: false, slow_write: false },
        refuse: 0.0,
        late: Duration::ZERO,
        budget_tick: Duration::ZERO,
        deaths: Vec::new(),
    };

    /// Exact signals too.
    #[must_use]
    pub const fn exact() -> Self {
        let mut exact = Self::NONE;
        exact.noise = 0.0;
        exact
    }

    /// Factor by which a count of `count` is off.
    pub(super) fn count_factor(&self, rng: &mut Rng, count: f64, sampled: bool) -> f64 {
        let dispersion = if sampled { SAMPLING_PERIOD } else { DISPERSION };
        let finite = if 0.0 < count { self.noise * (dispersion / count).sqrt() } else { 0.0 };
        self.factor(rng, finite)
    }

    /// Factor by which something is off that has a relative standard deviation of `variation` for one observation.
    pub(super) fn mean_factor(&self, rng: &mut Rng, variation: f64, observations: f64) -> f64 {
        self.factor(rng, self.noise * variation / observations.max(1.0).sqrt())
    }

    fn factor(&self, rng: &mut Rng, finite: f64) -> f64 {
        // Always one draw, so that a change of noise shifts nothing else.
        let deviation = normal_quantile(rng.unit());
        (1.0 + deviation * finite.hypot(self.jitter)).max(0.0)
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::NONE
    }
}
