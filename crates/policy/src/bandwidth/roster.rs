//! What a policy remembers of each tenant, kept in step with the rows that it sees.
//!
//! Invariants: after `settle`, entry `i` belongs to row `i`; nothing allocates while the tenants are the same

use control::{Note, Reason, Row};
use units::TenantId;

/// One `T` per tenant, in the order of the rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster<T> {
    entries: Vec<(TenantId, T)>,
    before: Vec<(TenantId, T)>,
}

impl<T: Copy> Roster<T> {
    /// Takes over who is there: `fresh` makes the entry of a tenant that has come, entries of tenants that have gone are
    /// dropped, both are noted. Returns whether anybody came or went.
    pub(super) fn settle<S, A>(
        &mut self,
        rows: &[Row<S, A>],
        notes: &mut Vec<Note>,
        fresh: impl Fn(&Row<S, A>) -> T,
    ) -> bool {
        let same = self.entries.len() == rows.len()
            && self.entries.iter().zip(rows).all(|((id, _), row)| *id == row.id);
        if same {
            return false;
        }
        std::mem::swap(&mut self.entries, &mut self.before);
        self.entries.clear();
        for row in rows {
            let known = find(&self.before, row.id);
            if known.is_none() {
                notes.push(note(Some(row.id), Reason::Joined, 0));
            }
            self.entries.push((row.id, known.unwrap_or_else(|| fresh(row))));
        }
        for (id, _) in &self.before {
            if rows.binary_search_by_key(id, |row| row.id).is_err() {
                notes.push(note(Some(*id), Reason::Left, 0));
            }
        }
        true
    }

    /// Where a tenant's entry (and row) is, if it is there.
    pub(super) fn at(&self, id: TenantId) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |(known, _)| *known).ok()
    }

    /// Every entry with its tenant.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TenantId, &T)> + Clone {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// Every entry, to change.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (TenantId, &mut T)> {
        self.entries.iter_mut().map(|(id, entry)| (*id, entry))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<T> std::ops::Index<usize> for Roster<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        &self.entries[at].1
    }
}

impl<T> std::ops::IndexMut<usize> for Roster<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.entries[at].1
    }
}

fn find<T: Copy>(entries: &[(TenantId, T)], id: TenantId) -> Option<T> {
    entries.binary_search_by_key(&id, |(known, _)| *known).ok().map(|at| entries[at].1)
}

/// A note of a decision.
pub(super) fn note(tenant: Option<TenantId>, reason: Reason, amount: i64) -> Note {
    Note { tenant, reason, amount }
}
