//! What was seen of each tenant, as a record keeps it.
//!
//! Shape:      rows, and what the record before keeps -> the same rows, in less than half of the memory: claims, half of a row, seldom change
//! Invariants: what is taken out is what was put in

use crate::claim::Claim;
use crate::policy::Row;
use std::sync::Arc;
use units::TenantId;

/// Rows that share their claims with those of the record before where they are the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Rows<S, A> {
    claims: Arc<[Claim]>,
    rows: Box<[Unclaimed<S, A>]>,
}

/// A row without its claim.
#[derive(Clone, PartialEq, Debug)]
struct Unclaimed<S, A> {
    id: TenantId,
    signal: Option<S>,
    in_force: Option<A>,
}

impl<S: Clone, A: Clone> Rows<S, A> {
    /// Keeps rows; `before` are those of the record before.
    #[must_use]
    pub fn of(rows: &[Row<S, A>], before: Option<&Self>) -> Self {
        let are_same = |claims: &&Arc<[Claim]>| claims.iter().eq(rows.iter().map(|row| &row.claim));
        let claims = before.map(|before| &before.claims).filter(are_same);
        let unclaimed = |row: &Row<S, A>| Unclaimed {
            id: row.id,
            signal: row.signal.clone(),
            in_force: row.in_force.clone(),
        };
        Self {
            claims: claims.map_or_else(|| rows.iter().map(|row| row.claim.clone()).collect(), Arc::clone),
            rows: rows.iter().map(unclaimed).collect(),
        }
    }

    /// The rows as they were.
    pub fn iter(&self) -> impl Iterator<Item = Row<S, A>> {
        self.claims.iter().zip(&self.rows).map(|(claim, row)| Row {
            id: row.id,
            claim: claim.clone(),
            signal: row.signal.clone(),
            in_force: row.in_force.clone(),
        })
    }

    /// All of them, as a policy looks at them.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Row<S, A>> {
        self.iter().collect()
    }
}

impl<S, A> Rows<S, A> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nobody was there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What was measured of those of whom something was.
    pub fn signals(&self) -> impl Iterator<Item = &S> {
        self.rows.iter().filter_map(|row| row.signal.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Weight;

    fn row(id: u32, weight: f64) -> Row<u64, u8> {
        let claim = Claim { weight: Weight::new(weight).unwrap(), ..Claim::default() };
        Row { id: TenantId(id), claim, signal: (id != 2).then_some(7), in_force: (id != 3).then_some(9) }
    }

    #[test]
    fn rows_come_out_as_they_went_in_and_claims_are_shared_while_they_are_the_same() {
        let first = [row(1, 1.0), row(2, 3.0), row(3, 1.0)];
        let kept = Rows::of(&first, None);
        assert_eq!((kept.len(), kept.is_empty()), (3, false));
        assert_eq!(kept.to_vec(), first);
        assert_eq!(kept.signals().collect::<Vec<_>>(), [&7, &7]);
        let mut later = first.clone();
        later[1].signal = Some(8);
        let again = Rows::of(&later, Some(&kept));
        assert_eq!(again.to_vec(), later);
        assert!(Arc::ptr_eq(&kept.claims, &again.claims));
        let others = [vec![row(1, 1.0), row(2, 3.5), row(3, 1.0)], later[..2].to_vec(), vec![]];
        for other in others {
            let changed = Rows::of(&other, Some(&again));
            assert_eq!(changed.to_vec(), other);
            assert!(!Arc::ptr_eq(&kept.claims, &changed.claims));
        }
        // Who leaves while another of the same claims comes is another tenant all the same.
        let replaced = [row(1, 1.0), row(5, 3.0), row(6, 1.0)];
        assert_eq!(Rows::of(&replaced, Some(&again)).to_vec(), replaced);
    }

    /// What the memory's loop keeps.
    #[test]
    fn a_row_takes_less_than_half_without_its_claim() {
        use crate::memory::{MemoryShare, MemorySignal};
        let (whole, kept) =
            (size_of::<Row<MemorySignal, MemoryShare>>(), size_of::<Unclaimed<MemorySignal, MemoryShare>>());
        assert!(2 * kept <= whole, "{kept} of {whole}");
    }
}
