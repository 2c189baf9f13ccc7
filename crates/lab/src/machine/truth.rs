//! Questions that verdicts ask and policies cannot: what really happened, what would happen if.
//!
//! Shape:      tenant and time -> rates and latencies; tenant -> how it runs now, alone, or if others were held differently
//! Units:      per second, nanoseconds

use super::history::Steady;
use super::latency::Mixture;
use super::model::{Asked, Model};
use super::plant::Machine;
use control::bandwidth::{Kind, Kinds, Throttle};
use units::{BytesPerSec, Duration, Instant, TenantId};

impl Machine {
    /// Mean bandwidth of one kind over `from..to`; zero for a time at which the tenant was not there.
    #[must_use]
    pub fn mean_rate(&self, id: TenantId, kind: Kind, from: Instant, to: Instant) -> BytesPerSec {
        self.histories.get(&id).map_or(BytesPerSec(0), |history| history.rate(kind, from, to))
    }

    /// Mean bandwidth of all kinds over `from..to`.
    #[must_use]
    pub fn mean_rate_total(&self, id: TenantId, from: Instant, to: Instant) -> BytesPerSec {
        Kind::ALL.into_iter().map(|kind| self.mean_rate(id, kind, from, to)).sum()
    }

    /// Mean operations (accesses) per second over `from..to`.
    #[must_use]
    pub fn operations_per_sec(&self, id: TenantId, from: Instant, to: Instant) -> f64 {
        self.histories.get(&id).map_or(0.0, |history| history.operations_per_sec(from, to))
    }

    /// Part of the slow tier's time that the tenant's accesses cost over `from..to`.
    #[must_use]
    pub fn cost_part(&self, id: TenantId, from: Instant, to: Instant) -> f64 {
        self.histories.get(&id).map_or(0.0, |history| history.cost(from, to))
    }

    /// Mean latency of its operations over `from..to`; none if there were none.
    #[must_use]
    pub fn mean_latency(&self, id: TenantId, from: Instant, to: Instant) -> Option<Duration> {
        self.latencies(id, from, to).mean_ns().map(nanos)
    }

    /// Latency at a quantile (inside 0..1) of its operations over `from..to`, by the declared distribution; none if there
    /// were none.
    #[must_use]
    pub fn tail_latency(&self, id: TenantId, quantile: f64, from: Instant, to: Instant) -> Option<Duration> {
        self.latencies(id, from, to).quantile_ns(quantile).map(nanos)
    }

    /// Bandwidth of one kind at each `step` of `from..to`: seconds and bytes per second, for plots.
    #[must_use]
    pub fn series(
        &self,
        id: TenantId,
        kind: Kind,
        (from, to): (Instant, Instant),
        step: Duration,
    ) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        let mut at = from;
        while at < to && Duration::ZERO < step {
            let end = (at + step).min(to);
            let middle = f64::midpoint(at.0 as f64, end.0 as f64) / 1e9;
            points.push((middle, self.mean_rate(id, kind, at, end).0 as f64));
            at = end;
        }
        points
    }

    /// How a tenant runs now; at rest if it is not there.
    pub fn steady(&mut self, id: TenantId) -> Steady {
        self.settle();
        self.at(id).map(|at| self.steady[at].clone()).unwrap_or_default()
    }

    /// How a tenant would run now if nobody else were there and nothing held it back, inside a burst if it has bursts.
    #[must_use]
    pub fn alone(&self, id: TenantId) -> Steady {
        let Some(at) = self.at(id) else { return Steady::default() };
        let on = vec![true; self.live[at].streams.len()];
        let free = Asked { throttle: Throttle::FREE, depleted: false, on: &on, ..self.live[at].asked() };
        let mut steady = Vec::new();
        Model::new(self.device().clone()).solve(std::iter::once(free), &mut steady);
        steady.pop().unwrap_or_default()
    }

    /// Time shared ÷ time alone of a tenant's operations now; none if it makes none.
    pub fn slowdown(&mut self, id: TenantId) -> Option<f64> {
        let shared = self.steady(id).operations_per_sec();
        (0.0 < shared).then(|| self.alone(id).operations_per_sec() / shared)
    }

    /// How everybody would run now if some were held by other throttles than they are.
    #[must_use]
    pub fn what_if(&self, throttles: &[(TenantId, Throttle)]) -> Vec<(TenantId, Steady)> {
        let other = |id| throttles.iter().find(|(of, _)| *of == id).map(|(_, throttle)| *throttle);
        let asked = self.live.iter().map(|live| {
            let now = live.asked();
            Asked { throttle: other(live.id).unwrap_or(now.throttle), ..now }
        });
        let mut steady = Vec::new();
        self.model.clone().solve(asked, &mut steady);
        self.live.iter().map(|live| live.id).zip(steady).collect()
    }

    /// What a victim would gain now if a culprit did `less` bytes per second less, the same part of each kind: bytes per
    /// second, below zero for a loss. The culprit stops where it does no more than that.
    pub fn gain(&mut self, victim: TenantId, culprit: TenantId, less: BytesPerSec) -> f64 {
        let does = self.steady(culprit);
        let left = (1.0 - less.0 as f64 / does.bytes_total().max(1.0)).max(0.0);
        let cap = Kinds::from_fn(|kind| {
            let rate = *does.bytes_per_sec.get(kind) * left;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate of some GB/s"
            )]
            let rate = rate.round() as u64;
            Some(BytesPerSec(rate.max(1)))
        });
        let held = Throttle { cap, ..Throttle::FREE };
        let throttle = self.throttle(culprit).unwrap_or(Throttle::FREE).tighter(held);
        let before = self.steady(victim).bytes_total();
        let then = self.what_if(&[(culprit, throttle)]);
        then.iter().find(|(id, _)| *id == victim).map_or(0.0, |(_, steady)| steady.bytes_total() - before)
    }

    fn latencies(&self, id: TenantId, from: Instant, to: Instant) -> Mixture {
        self.histories.get(&id).map(|history| history.latencies(from, to)).unwrap_or_default()
    }
}

fn nanos(ns: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency, above zero")]
    let ns = ns.round() as u64;
    Duration(ns)
}
