//! Shares that obey their policy's law, by construction.
//!
//! Invariants: a `Shares` value exists only if the law held when it was built; rows are sorted by tenant

use crate::claim::Amount;
use crate::policy::Seen;
use units::TenantId;

/// What must hold of shares together. Belongs to the policy that builds them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Law {
    /// Shares sum to the pool exactly, nobody ends below its floor (`partitioned`, `shared`).
    Partition,
    /// Shares sum to at most the pool in each resource and none ends below `floor_part` of its floor (the idle tax:
    /// 1 − tax; an auction or budgets of a tier's time: 1).
    AtMost {
        /// Part of the floor that is kept, 0..=1.
        floor_part: f64,
    },
    /// Limits and caps: no law about the sum.
    Free,
}

/// A share that can be added up.
pub trait Measured {
    /// Its size.
    fn amount(&self) -> Amount;

    /// The part of an amount that this family divides; the rest is another policy's.
    fn divided(amount: Amount) -> Amount;
}

/// One share per tenant, sorted by tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Shares<A> {
    rows: Vec<(TenantId, A)>,
}

impl<A> Default for Shares<A> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<A: Measured> Shares<A> {
    /// Replaces the shares, keeping the buffer.
    ///
    /// # Panics
    /// If the shares break `law`: a defect of the policy, found where it was made.
    pub fn rebuild<S>(&mut self, law: Law, seen: &Seen<'_, S, A>, rows: impl Iterator<Item = (TenantId, A)>) {
        self.rows.clear();
        self.rows.extend(rows);
        assert_eq!(self.rows.len(), seen.tenants.len(), "one share per tenant");
        let total: Amount = self.rows.iter().map(|(_, share)| share.amount()).sum();
        let capacity = seen.pool.capacity;
        let floors = seen.floors();
        for ((id, share), row) in self.rows.iter().zip(seen.tenants) {
            assert_eq!(*id, row.id, "shares are in the order of the tenants");
            let floor = A::divided(floors.kept(row.claim.floor));
            let kept = match law {
                Law::Partition => Amount::memory(floor.bytes),
                Law::AtMost { floor_part } => floor.part(floor_part),
                Law::Free => Amount::default(),
            };
            assert!(kept.fits(share.amount()), "tenant {id} ends below its floor");
        }
        match law {
            Law::Partition if !self.rows.is_empty() => {
                assert_eq!(total.bytes, capacity.bytes, "a partition gives out the whole pool");
            }
            Law::AtMost { .. } => assert!(total.fits(capacity), "more is given than there is"),
            Law::Partition | Law::Free => {}
        }
    }
}

impl<A: Clone> Shares<A> {
    /// Becomes a copy of `other`, keeping the buffer.
    pub fn copy_from(&mut self, other: &Self) {
        self.rows.clone_from(&other.rows);
    }
}

impl<A> Shares<A> {
    /// The rows, sorted by tenant.
    #[must_use]
    pub fn rows(&self) -> &[(TenantId, A)] {
        &self.rows
    }

    /// The share of one tenant.
    #[must_use]
    pub fn get(&self, id: TenantId) -> Option<&A> {
        let at = self.rows.binary_search_by_key(&id, |(row, _)| *row).ok()?;
        self.rows.get(at).map(|(_, share)| share)
    }
}
