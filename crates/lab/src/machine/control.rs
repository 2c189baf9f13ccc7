//! Sensor and actuator of the modelled machine, and the loop that drives it in virtual time.
//!
//! Shape:      counts since the last reading, with noise and faults -> signals; decision -> throttles in force
//! Invariants: what is reported in force is what is true now; a lease is kept as an actuator must
//! Failure:    as the faults say: rows without signals, repeated ones, refused or late throttles (then the answer is that
//!             not all of it is in force)

use super::faults::{LATENCY_CORRELATION, PROBE_EVERY};
use super::latency;
use super::model::threads;
use super::plant::{Live, Machine};
use control::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use control::{Actuator, Class, Decision, Goal, Loop, Policy, Pool, Row, Sensor};
use units::{Bytes, Duration, Instant, TenantId};

/// Shortest time between two turns of a loop whose policy wants the next at once.
const TURN_MIN: Duration = Duration::from_micros(1);
/// Quantile of the tail that is reported to tenants without a latency goal.
const TAIL: f64 = 0.99;

/// Lets `pacer` control `machine` until virtual time `until`; turns that fall due at `until` itself are left to the next call.
pub fn drive<P>(machine: &mut Machine, pacer: &mut Loop<P>, until: Instant)
where
    P: Policy<Signal = BandwidthSignal, Share = Throttle>,
{
    let mut at = machine.now().max(pacer.wake_at());
    while at < until {
        machine.advance(at);
        pacer.step(at, machine);
        at = pacer.wake_at().max(at + TURN_MIN);
    }
    machine.advance(until);
}

impl Sensor for Machine {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<BandwidthSignal, Throttle>>) -> Pool {
        self.advance(now);
        for at in 0..self.live.len() {
            let fresh = self.signal(at);
            let (missing, stale) =
                (self.chance.chance(self.faults.missing), self.chance.chance(self.faults.stale));
            let live = &mut self.live[at];
            let previous = live.previous.replace(fresh);
            let seen = if stale { previous.or(Some(fresh)) } else { Some(fresh) };
            if stale {
                live.previous = seen;
            }
            rows.push(Row {
                id: live.id,
                claim: live.tenant.claim.clone(),
                signal: seen.filter(|_| !missing),
                in_force: Some(live.throttle),
            });
        }
        let pool = self.pool();
        self.start_window();
        pool
    }
}

impl Actuator for Machine {
    type Share = Throttle;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Throttle>,
        in_force: &mut Vec<(TenantId, Throttle)>,
    ) -> bool {
        self.advance(now);
        self.lease.renew(now, decision);
        self.lease_end = Some(now + decision.lease);
        for (id, asked) in decision.shares.rows() {
            let refused = self.chance.chance(self.faults.refuse);
            if refused || self.at(*id).is_none() {
                continue;
            }
            if self.faults.late == Duration::ZERO {
                self.set_throttle(*id, *asked);
            } else {
                // Earlier ones stay first: all are equally late.
                self.late.push((now + self.faults.late, *id, *asked));
            }
        }
        in_force.clear();
        in_force.extend(self.live.iter().map(|live| (live.id, live.throttle)));
        let is_true = |(id, asked): &(TenantId, Throttle)| self.throttle(*id).is_none_or(|now| now == *asked);
        decision.shares.rows().iter().all(is_true)
    }
}

impl Machine {
    /// What a sensor makes of a tenant's counts.
    fn signal(&mut self, at: usize) -> BandwidthSignal {
        let live = &self.live[at];
        let window = &live.window;
        let (faults, rng) = (&self.faults, &mut self.noise);
        let factors = Kinds::from_fn(|kind| {
            faults.count_factor(rng, *window.accesses.get(kind), *faults.sampled.get(kind))
        });
        let noisy = |counts: &Kinds<f64>| Kinds::from_fn(|kind| whole(counts.get(kind) * factors.get(kind)));
        let (bytes, accesses, cost) = (noisy(&window.bytes), noisy(&window.accesses), noisy(&window.cost_ps));
        let independent = window.latencies.count() / LATENCY_CORRELATION;
        let quantile = tail_quantile(live);
        let mean_factor = faults.mean_factor(rng, latency::variation(), independent);
        let tail_factor = faults.mean_factor(rng, latency::quantile_variation(quantile), independent);
        let mean = window.latencies.mean_ns().map(|ns| Duration(whole(ns * mean_factor)));
        let tail = window.latencies.quantile_ns(quantile).map(|ns| Duration(whole(ns * tail_factor)));
        BandwidthSignal {
            bytes: Kinds::from_fn(|kind| Bytes(*bytes.get(kind))),
            accesses,
            sampled: faults.sampled,
            cost: Cost(cost.iter().map(|(_, ps)| ps).sum()),
            operations: accesses.iter().map(|(_, n)| n).sum(),
            threads: threads(&self.model.device, &live.streams),
            mean_latency: mean,
            tail_latency: tail,
            depleted_at: window.depleted_at,
        }
    }

    /// What is divided, and how the medium fared over the window.
    fn pool(&mut self) -> Pool {
        let length = self.now.since(self.read_at);
        let looks = length.0 as f64 / PROBE_EVERY.0 as f64;
        let missing = self.chance.chance(self.faults.missing);
        let (faults, rng, medium) = (&self.faults, &mut self.noise, &self.medium);
        let latency = Kinds::from_fn(|kind| {
            let factor = faults.mean_factor(rng, latency::variation(), looks);
            let seen = Duration::ZERO < length && !missing;
            seen.then(|| Duration(whole(medium.get(kind) / length.as_secs_f64() * factor)))
        });
        Pool { latency, ..self.model.device.pool() }
    }

    fn start_window(&mut self) {
        self.read_at = self.now;
        self.medium = Kinds::default();
        for live in &mut self.live {
            let window = &mut live.window;
            (window.bytes, window.accesses, window.cost_ps) = Default::default();
            window.latencies.clear();
            window.depleted_at = None;
        }
    }
}

fn tail_quantile(live: &Live) -> f64 {
    match live.tenant.claim.class {
        Class::Critical { goal: Goal::Latency { quantile, .. } } => quantile.get(),
        _ => TAIL,
    }
}

fn whole(x: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates; counts, ns and ps"
    )]
    let whole = x.round() as u64;
    whole
}
