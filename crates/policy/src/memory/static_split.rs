//! Fixed shares: the floor and a weighted part of the rest, with a ceiling at the share.
//!
//! Shape:      claims -> shares; claims, what is held, ceilings in force -> ceilings
//! Invariants: shares sum to the pool; nobody ends below its floor; nobody of whom something is known borrows what another
//!             leaves free; who holds more than a new share leaves (of another policy, or other claims) grows no further than the
//!             slack, and its ceiling comes down with what it holds
//! Source:     the statically partitioned baseline of Memshare §2 and §6 (Memcachier's own scheme)

use super::split::add_by_weight;
use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, Law, Policy, Row, Seen, Shares};
use units::{Bytes, Duration, Instant};

/// Time between decisions: the shares change only with claims and capacity.
const PERIOD: Duration = Duration::from_secs(1);
/// The shares hold without a loop.
const LEASE: Duration = Duration::from_secs(3_600);

/// Fills `targets` with each tenant's floor and its weighted part of the rest, which sum to the pool.
pub(super) fn static_shares(
    seen: &Seen<'_, MemorySignal, MemoryShare>,
    weights: &mut Vec<f64>,
    targets: &mut Vec<Bytes>,
) {
    let floors = seen.floors();
    weights.clear();
    weights.extend(seen.tenants.iter().map(|row| row.claim.weight.get()));
    targets.clear();
    targets.extend(seen.tenants.iter().map(|row| floors.kept(row.claim.floor).bytes));
    let reserved: Bytes = targets.iter().copied().sum();
    add_by_weight(seen.pool.capacity.bytes.saturating_sub(reserved), weights, targets);
}

/// Of what a tenant holds, what its ceiling is above that on the way down: twice what a store leaves around a ceiling, so that
/// its own coming below it is not taken for a loss to others.
const SLACK_PART: u64 = 32;

/// A ceiling at the share; on the way down from more, at what is held, and never up again. Of whom nothing is known the ceiling in force
/// stays, or there is none yet.
fn ceiling(row: &Row<MemorySignal, MemoryShare>, target: Bytes) -> Option<Bytes> {
    let before = row.in_force.and_then(|share| share.ceiling);
    let held = row.signal.map(|signal| signal.held + Bytes(signal.held.0 / SLACK_PART));
    before.into_iter().chain(held).min().map(|most| most.max(target))
}

/// The policy `partitioned`.
#[derive(Debug, Default)]
pub struct Partitioned {
    shares: Shares<MemoryShare>,
    weights: Vec<f64>,
    targets: Vec<Bytes>,
}

impl Policy for Partitioned {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        "partitioned"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        static_shares(seen, &mut self.weights, &mut self.targets);
        let rows = seen.tenants.iter().zip(&self.targets).map(|(row, &target)| {
            (row.id, MemoryShare { ceiling: ceiling(row, target), ..MemoryShare::of(target) })
        });
        self.shares.rebuild(Law::Partition, seen, rows);
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &[] }
    }
}
