//! Divides several independent resources so that everybody's dominant share is as large as it can equally be.
//!
//! Shape:      capacities, (weight, demand per resource) -> how much of its demand each gets
//! Invariants: no resource is overcommitted; whoever could grow without taking from one with a smaller weighted dominant
//!             share grows; nobody gets more than it demands
//! Units:      any, one per resource; a dominant share is a part of a capacity, 0..=1
//! Cost:       O(tenants × rounds), at most one round per tenant and resource; no allocation once the tenants are steady
//! Source:     dominant resource fairness with weights and bounded demands (Spirit §2 and §7 set it above independent
//!             resources; its uDRF baseline is the case of equal demands)

use control::joint::{Joint, JointSignal};
use control::{Amount, Decision, Law, Policy, Seen, Shares};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

/// The policy looks again after so long (Spirit's epoch).
const PERIOD: Duration = Duration::from_secs(30);
/// The shares do no harm without a loop.
const LEASE: Duration = Duration::from_secs(3_600);

/// What one tenant wants of each resource, in the resource's own unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand<const R: usize> {
    weight: f64,
    wanted: [f64; R],
}

/// Why a demand is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DrfError {
    /// Weights are finite and above zero.
    #[error("a weight must be a finite number above zero")]
    Weight,
    /// Demands are finite and not negative.
    #[error("a demand must be a finite number of at least zero")]
    Wanted,
}

impl<const R: usize> Demand<R> {
    /// A demand.
    ///
    /// # Errors
    /// A weight or an amount that is no number, infinite or negative, or a weight of zero.
    pub fn new(weight: f64, wanted: [f64; R]) -> Result<Self, DrfError> {
        if !(weight.is_finite() && 0.0 < weight) {
            return Err(DrfError::Weight);
        }
        if !wanted.iter().all(|w| w.is_finite() && 0.0 <= *w) {
            return Err(DrfError::Wanted);
        }
        Ok(Self { weight, wanted })
    }

    /// Weighted dominant share of the whole demand: the largest part of any capacity, by weight.
    fn dominant(&self, capacity: &[f64; R]) -> f64 {
        let parts = self.wanted.iter().zip(capacity);
        let part = parts.map(|(w, c)| if *w == 0.0 { 0.0 } else { w / c }).fold(0.0, f64::max);
        part / self.weight
    }
}

/// Writes into `parts` how much of its demand each tenant gets, 0..=1: all fill at the same weighted dominant share until
/// a resource that they need is used up or their demand is met.
pub fn dominant_shares<const R: usize>(capacity: &[f64; R], demands: &[Demand<R>], parts: &mut Vec<f64>) {
    parts.clear();
    parts.resize(demands.len(), 0.0);
    let mut left = *capacity;
    let mut stopped = [false; R];
    // The level that all who still fill have reached.
    let mut level = 0.0;
    for _ in 0..=demands.len() + R {
        let grows = |d: &Demand<R>, part: f64| {
            part < 1.0 && !d.wanted.iter().zip(&stopped).any(|(w, stop)| *stop && 0.0 < *w)
        };
        let Some(rise) = next_rise(capacity, demands, parts, &left, level, &grows) else { return };
        level += rise;
        for (demand, part) in demands.iter().zip(parts.iter_mut()) {
            if !grows(demand, *part) {
                continue;
            }
            let dominant = demand.dominant(capacity);
            let to = if dominant == 0.0 { 1.0 } else { (level / dominant).min(1.0) };
            // The last step is exact, whatever rounding did before.
            let to = if 1.0 - 1e-12 < to { 1.0 } else { to };
            for (left, wanted) in left.iter_mut().zip(&demand.wanted) {
                *left -= wanted * (to - *part);
            }
            *part = to;
        }
        for r in 0..R {
            stopped[r] = left[r] <= capacity[r] * 1e-12;
        }
    }
}

/// How far the common level can rise until a demand is met or a resource is used up; none if nobody grows.
fn next_rise<const R: usize>(
    capacity: &[f64; R],
    demands: &[Demand<R>],
    parts: &[f64],
    left: &[f64; R],
    level: f64,
    grows: &impl Fn(&Demand<R>, f64) -> bool,
) -> Option<f64> {
    let mut speed = [0.0; R];
    let mut rise = f64::INFINITY;
    let mut any = false;
    for (demand, &part) in demands.iter().zip(parts) {
        if !grows(demand, part) {
            continue;
        }
        any = true;
        let dominant = demand.dominant(capacity);
        rise = rise.min((dominant - level).max(0.0));
        if 0.0 < dominant && dominant.is_finite() {
            for (speed, wanted) in speed.iter_mut().zip(&demand.wanted) {
                *speed += wanted / dominant;
            }
        }
    }
    for (left, speed) in left.iter().zip(&speed) {
        if 0.0 < *speed {
            rise = rise.min(left.max(0.0) / speed);
        }
    }
    (any && rise.is_finite()).then_some(rise)
}

/// Memory and bandwidth by dominant resource fairness over what tenants can use at most (their ceilings; without one, the
/// whole pool).
#[derive(Debug, Default)]
pub struct Drf {
    demands: Vec<Demand<2>>,
    parts: Vec<f64>,
    shares: Shares<Joint>,
    rows: Vec<(TenantId, Joint)>,
}

impl Policy for Drf {
    type Signal = JointSignal;
    type Share = Joint;

    fn name(&self) -> &'static str {
        "drf"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, JointSignal, Joint>) -> Decision<'_, Joint> {
        let capacity = seen.pool.capacity;
        let floors = seen.floors();
        let kept: Amount = seen.tenants.iter().map(|row| floors.kept(row.claim.floor)).sum();
        let free = [
            capacity.bytes.saturating_sub(kept.bytes).0,
            capacity.bandwidth.0.saturating_sub(kept.bandwidth.0),
        ]
        .map(|n| n as f64);
        self.demands.clear();
        self.demands.extend(seen.tenants.iter().map(|row| {
            let floor = floors.kept(row.claim.floor);
            let most = row.claim.ceiling_of(capacity);
            let over = |most: u64, floor: u64, free: f64| (most.saturating_sub(floor) as f64).min(free);
            Demand {
                weight: row.claim.weight.get(),
                wanted: [
                    over(most.bytes.0, floor.bytes.0, free[0]),
                    over(most.bandwidth.0, floor.bandwidth.0, free[1]),
                ],
            }
        }));
        dominant_shares(&free, &self.demands, &mut self.parts);
        self.rows.clear();
        let given = seen.tenants.iter().zip(&self.demands).zip(&self.parts);
        self.rows.extend(given.map(|((row, demand), part)| {
            let floor = floors.kept(row.claim.floor);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part in 0..=1 of a size, rounded down"
            )]
            let [bytes, bandwidth] = demand.wanted.map(|wanted| (wanted * part * (1.0 - 1e-12)) as u64);
            let bytes = floor.bytes + Bytes(bytes);
            let bandwidth = floor.bandwidth + BytesPerSec(bandwidth);
            (row.id, Joint { bytes, bandwidth })
        }));
        self.shares.rebuild(Law::AtMost { floor_part: 1.0 }, seen, self.rows.iter().copied());
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &[] }
    }
}
