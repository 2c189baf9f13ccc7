//! What really happened to a tenant: the ground truth that verdicts are made from and policies never see.
//!
//! Shape:      spans of steady state, in the order of time -> rates, latencies and series over any time asked for
//! Units:      bytes and operations per ns inside, per second outside
//! Cost:       one span per change of state; a question walks the spans that it covers

use super::latency::Mixture;
use control::bandwidth::{Kind, Kinds};
use units::{BytesPerSec, Duration, Instant};

/// How a tenant runs while nothing changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steady {
    /// Bytes per second of each kind.
    pub bytes_per_sec: Kinds<f64>,
    /// Accesses per second of each kind.
    pub accesses_per_sec: Kinds<f64>,
    /// Parts of the slow tier's time that its accesses of each kind cost.
    pub cost: Kinds<f64>,
    /// Mean latency of an access and accesses per second, stream by stream.
    pub latencies: Vec<(f64, f64)>,
}

impl Steady {
    /// Bytes per second of all kinds.
    #[must_use]
    pub fn bytes_total(&self) -> f64 {
        self.bytes_per_sec.iter().map(|(_, rate)| rate).sum()
    }

    /// Accesses per second of all kinds.
    #[must_use]
    pub fn operations_per_sec(&self) -> f64 {
        self.accesses_per_sec.iter().map(|(_, rate)| rate).sum()
    }

    /// Part of the slow tier's time that its accesses cost.
    #[must_use]
    pub fn cost_total(&self) -> f64 {
        self.cost.iter().map(|(_, cost)| cost).sum()
    }

    /// Mean latency of an access in ns; none if there are no accesses.
    #[must_use]
    pub fn mean_latency_ns(&self) -> Option<f64> {
        self.mixture(1.0).mean_ns()
    }

    /// Latency at a quantile in ns, by the declared distribution; none if there are no accesses.
    #[must_use]
    pub fn tail_latency_ns(&self, quantile: f64) -> Option<f64> {
        self.mixture(1.0).quantile_ns(quantile)
    }

    fn mixture(&self, secs: f64) -> Mixture {
        let mut mixture = Mixture::default();
        self.add_to(&mut mixture, secs);
        mixture
    }

    /// Adds the accesses of `secs` seconds.
    pub(super) fn add_to(&self, mixture: &mut Mixture, secs: f64) {
        for &(mean_ns, per_sec) in &self.latencies {
            mixture.add(mean_ns, per_sec * secs);
        }
    }
}

#[derive(Clone, Debug)]
struct Span {
    start: Instant,
    end: Instant,
    steady: Steady,
}

/// All spans of a tenant.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    spans: Vec<Span>,
}

impl History {
    /// Adds a span; the same state as before lengthens the last one.
    pub(super) fn push(&mut self, start: Instant, end: Instant, steady: &Steady) {
        match self.spans.last_mut() {
            Some(last) if last.end == start && last.steady == *steady => last.end = end,
            _ => self.spans.push(Span { start, end, steady: steady.clone() }),
        }
    }

    /// The spans that overlap `from..to`, with the seconds that they overlap.
    fn over(&self, from: Instant, to: Instant) -> impl Iterator<Item = (&Steady, f64)> {
        let first = self.spans.partition_point(|span| span.end <= from);
        self.spans[first..].iter().take_while(move |span| span.start < to).map(move |span| {
            let overlap = span.end.min(to).since(span.start.max(from));
            (&span.steady, overlap.as_secs_f64())
        })
    }

    /// Mean of a rate per second over `from..to`; zero for an empty time.
    fn mean(&self, from: Instant, to: Instant, rate: impl Fn(&Steady) -> f64) -> f64 {
        let length = to.since(from);
        if length == Duration::ZERO {
            return 0.0;
        }
        self.over(from, to).map(|(steady, secs)| rate(steady) * secs).sum::<f64>() / length.as_secs_f64()
    }

    pub(super) fn rate(&self, kind: Kind, from: Instant, to: Instant) -> BytesPerSec {
        let rate = self.mean(from, to, |steady| *steady.bytes_per_sec.get(kind));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of some GB/s")]
        let rate = rate.round() as u64;
        BytesPerSec(rate)
    }

    pub(super) fn operations_per_sec(&self, from: Instant, to: Instant) -> f64 {
        self.mean(from, to, Steady::operations_per_sec)
    }

    pub(super) fn cost(&self, from: Instant, to: Instant) -> f64 {
        self.mean(from, to, Steady::cost_total)
    }

    pub(super) fn latencies(&self, from: Instant, to: Instant) -> Mixture {
        let mut mixture = Mixture::default();
        for (steady, secs) in self.over(from, to) {
            steady.add_to(&mut mixture, secs);
        }
        mixture
    }
}
