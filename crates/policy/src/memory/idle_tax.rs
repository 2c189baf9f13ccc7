//! Idle memory is taxed: a tenant keeps all of its private memory only while it uses it.
//!
//! Shape:      signals (held and idle bytes) -> active fraction -> target between (1 − tax) × private memory and all of it
//! Invariants: targets sum to at most the pool; nobody ends below (1 − tax) of its floor
//! Source:     Memshare §4.2, Algorithm 3: τ = (1 − active·tax) / (1 − tax), target = private / τ. All memory is private
//!             (§6.1): the floor and a weighted part of the rest. We differ: at a tax of 1, where τ is undefined, the
//!             target is the private memory for a tenant that is wholly active and 0 for others.
//! Non-goals:  measuring idle bytes; a plant that cannot tell them sends 0, and then nothing is taxed
//!
//! | Paper | here |
//! |---|---|
//! | privateMem | `private`: the share that `partitioned` gives |
//! | idleMem / actualMem | `idle / held` |
//! | taxRate | `tax` |

use super::static_split::static_shares;
use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, Law, Policy, Seen, Shares};
use units::{Bytes, Duration, Instant, TenantId};

/// Time between decisions. Memshare counts memory as idle after hours, so a minute is soon enough.
const PERIOD: Duration = Duration::from_secs(60);
/// The targets hold without a loop.
const LEASE: Duration = Duration::from_secs(3_600);

/// The part of idle memory that is taken, 0..=1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Tax(f64);

impl Tax {
    /// The tax of Memshare's evaluation (§6.1): a half.
    pub const HALF: Self = Self(0.5);

    /// A tax, if `part` is in 0..=1.
    #[must_use]
    pub fn new(part: f64) -> Option<Self> {
        (0.0..=1.0).contains(&part).then_some(Self(part))
    }

    /// What remains of `private` memory for a tenant of which `active` (0..=1) is in use.
    #[must_use]
    pub fn target(self, private: Bytes, active: f64) -> Bytes {
        let active = active.clamp(0.0, 1.0);
        let kept = if 1.0 <= active { 1.0 } else { (1.0 - self.0) / (1.0 - active * self.0) };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part in 0..=1 of a size; rounded to the byte"
        )]
        Bytes((private.0 as f64 * kept).round() as u64)
    }
}

/// Fills `shares` with what the tax leaves of each tenant's `private` memory, which the policy has divided; those that are `spared` keep all
/// of it.
pub(super) fn tax_all(
    (tax, spared): (Tax, &[TenantId]),
    seen: &Seen<'_, MemorySignal, MemoryShare>,
    private: &[Bytes],
    shares: &mut Shares<MemoryShare>,
) {
    let rows = seen.tenants.iter().zip(private).map(|(row, &private)| {
        // A missing signal, or nothing held, taxes nothing.
        let is_taxed = spared.binary_search(&row.id).is_err();
        let held = row.signal.filter(|s| Bytes::ZERO < s.held && is_taxed);
        let idle_part = held.map_or(0.0, |s| s.idle.0 as f64 / s.held.0 as f64);
        (row.id, MemoryShare::of(tax.target(private, 1.0 - idle_part)))
    });
    shares.rebuild(Law::AtMost { floor_part: 1.0 - tax.0 }, seen, rows);
}

/// What a tax decides: the loop may sleep, the targets are safe.
pub(super) fn taxed(shares: &Shares<MemoryShare>) -> Decision<'_, MemoryShare> {
    Decision { shares, wake: PERIOD, lease: LEASE, steady: true, notes: &[] }
}

/// The policy `idle-tax`.
#[derive(Debug)]
pub struct IdleTax {
    tax: Tax,
    /// Groups that tax their members themselves, sorted.
    spared: Vec<TenantId>,
    weights: Vec<f64>,
    private: Vec<Bytes>,
    shares: Shares<MemoryShare>,
}

impl IdleTax {
    /// The policy with one tax for all.
    #[must_use]
    pub fn new(tax: Tax) -> Self {
        Self { tax, spared: Vec::new(), weights: Vec::new(), private: Vec::new(), shares: Shares::default() }
    }

    /// The same where these are not taxed: groups whose own policy takes what their members leave idle.
    #[must_use]
    pub fn sparing(self, spared: Vec<TenantId>) -> Self {
        Self { spared, ..self }
    }

    /// Another tax from the next decision on.
    pub(super) fn retell(&mut self, tax: Tax) {
        self.tax = tax;
    }
}

impl Policy for IdleTax {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        "idle-tax"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        static_shares(seen, &mut self.weights, &mut self.private);
        tax_all((self.tax, &self.spared), seen, &self.private, &mut self.shares);
        taxed(&self.shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, Claim, Pool, Row, Window};

    /// M6: at a tax of 50 %, tenants that are wholly, half and not at all active keep 100, 66.7 and 50 % of their
    /// private memory; at 100 % whoever is idle at all keeps nothing.
    #[test]
    fn m6_the_tax_follows_the_active_part() {
        for (tax, active, floor, target) in [
            (0.5, 1.0, 3_000, 3_000),
            (0.5, 0.5, 3_000, 2_000),
            (0.5, 0.0, 3_000, 1_500),
            (0.0, 0.0, 3_000, 3_000),
            (1.0, 1.0, 3_000, 3_000),
            (1.0, 0.999, 3_000, 0),
            (1.0, 0.0, 3_000, 0),
        ] {
            assert_eq!(Tax::new(tax).unwrap().target(Bytes(floor), active), Bytes(target), "{tax} {active}");
        }
        assert!(Tax::new(1.1).is_none() && Tax::new(f64::NAN).is_none());
    }

    /// Without floors everything is private by weight; whoever is not idle keeps it.
    #[test]
    fn m6_without_floors_all_memory_is_private_by_weight() {
        let row = |id, weight, idle| Row {
            id: TenantId(id),
            claim: Claim { weight: control::Weight::new(weight).unwrap(), ..Claim::default() },
            signal: Some(MemorySignal { held: Bytes(100), idle: Bytes(idle), ..MemorySignal::default() }),
            in_force: None,
        };
        let rows = [row(0, 1.0, 100), row(1, 2.0, 0)];
        let pool = Pool { capacity: Amount::memory(Bytes(900)), ..Pool::default() };
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let mut policy = IdleTax::new(Tax::HALF);
        let targets: Vec<_> = policy.decide(Instant::ZERO, &seen).shares.rows().to_vec();
        assert_eq!([targets[0].1.target, targets[1].1.target], [Bytes(150), Bytes(600)]);
    }

    #[test]
    fn m6_the_policy_taxes_what_it_is_told_is_idle() {
        let row = |id, held, idle| Row {
            id: TenantId(id),
            claim: Claim { floor: Amount::memory(Bytes(300)), ..Claim::default() },
            signal: Some(MemorySignal { held: Bytes(held), idle: Bytes(idle), ..MemorySignal::default() }),
            in_force: None,
        };
        let mut rows = vec![row(0, 100, 0), row(1, 100, 50), row(2, 100, 100), row(3, 0, 0)];
        rows[3].signal = None;
        let pool = Pool { capacity: Amount::memory(Bytes(1_200)), ..Pool::default() };
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let mut policy = IdleTax::new(Tax::new(0.5).unwrap());
        let decision = policy.decide(Instant::ZERO, &seen);
        let targets: Vec<u64> = decision.shares.rows().iter().map(|(_, s)| s.target.0).collect();
        assert_eq!(targets, [300, 200, 150, 300]);
    }
}
