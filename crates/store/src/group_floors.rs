//! What the cleaner leaves to tenants that are in groups.
//!
//! Shape:      what groups and members reserve, members' targets -> a floor per tenant
//! Invariants: a member's floor is at least its own reservation and at most its target, where that allows it; the floors
//!             of a group's members sum to what the group reserves, up to rounding down
//! Cost:       O(tenants + groups) per decision, nothing without groups

use control::memory::{MemoryShare, MemorySignal};
use control::{Claim, Row};
use units::{Bytes, TenantId};

/// The floors of groups and of those who are in them.
#[derive(Debug, Default)]
pub(crate) struct GroupFloors {
    /// What each group reserves, by its place.
    floors: Vec<Bytes>,
    /// Of each group, scratch.
    sums: Vec<Sums>,
    /// Of each tenant as last seen: its group's place and what it reserves itself.
    own: Vec<(TenantId, Option<usize>, Bytes)>,
    /// There were groups at the last decision.
    were_there: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Sums {
    members: u32,
    own: Bytes,
    beyond: Bytes,
}

impl GroupFloors {
    /// Takes over what groups reserve.
    pub(crate) fn set(&mut self, floors: Vec<Bytes>) {
        self.floors = floors;
    }

    fn clear_sums(&mut self) {
        self.sums.clear();
        self.sums.resize(self.floors.len(), Sums::default());
    }

    /// What groups that have members reserve beyond what these do.
    pub(crate) fn beyond_members(&mut self, rows: &[Row<MemorySignal, MemoryShare>]) -> Bytes {
        self.clear_sums();
        for row in rows {
            if let Some(place) = place(&self.floors, &row.claim) {
                self.sums[place].members += 1;
                self.sums[place].own += row.claim.floor.bytes;
            }
        }
        let groups = self.floors.iter().zip(&self.sums).filter(|(_, sums)| 0 < sums.members);
        groups.map(|(floor, sums)| floor.saturating_sub(sums.own)).sum()
    }

    /// Takes note of who is in which group and reserves what.
    pub(crate) fn see(&mut self, rows: &[Row<MemorySignal, MemoryShare>]) {
        self.own.clear();
        if !self.floors.is_empty() || self.were_there {
            let floors = &self.floors;
            let seen = rows.iter().map(|row| (row.id, place(floors, &row.claim), row.claim.floor.bytes));
            self.own.extend(seen);
        }
    }

    /// Says the floor of every tenant that was seen, if there are groups or were any: of what a group reserves, each
    /// member its own, and of the rest its part by what its target has beyond that.
    pub(crate) fn divide(
        &mut self,
        shares: &[(TenantId, MemoryShare)],
        mut tell: impl FnMut(TenantId, Bytes),
    ) {
        if self.own.is_empty() {
            return;
        }
        self.were_there = !self.floors.is_empty();
        self.clear_sums();
        let target = |id: TenantId| {
            let at = shares.binary_search_by_key(&id, |(id, _)| *id);
            at.map_or(Bytes::ZERO, |at| shares[at].1.target)
        };
        for (id, place, own) in &self.own {
            if let Some(place) = place {
                self.sums[*place].own += *own;
                self.sums[*place].beyond += target(*id).saturating_sub(*own);
            }
        }
        for (id, place, own) in &self.own {
            let more = place.map_or(Bytes::ZERO, |place| {
                let sums = self.sums[place];
                let rest = self.floors[place].saturating_sub(sums.own).min(sums.beyond);
                rest.scale(target(*id).saturating_sub(*own).0, sums.beyond.0.max(1))
            });
            tell(*id, *own + more);
        }
    }
}

/// The place of a claim's group, if there is one.
fn place(floors: &[Bytes], claim: &Claim) -> Option<usize> {
    let place = usize::from(claim.group?.0);
    (place < floors.len()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Amount, GroupId};

    /// Group, reservation, target of each tenant -> its floor, and what groups reserve beyond their members.
    fn check(floors: &[u64], tenants: &[(Option<u16>, u64, u64)], expected: &[u64], beyond: u64) {
        let rows: Vec<_> = (0..)
            .zip(tenants)
            .map(|(id, &(group, own, _))| {
                let floor = Amount::memory(Bytes(own));
                let claim = Claim { floor, group: group.map(GroupId), ..Claim::default() };
                Row { id: TenantId(id), claim, signal: None, in_force: None }
            })
            .collect();
        let share = |target| MemoryShare::of(Bytes(target));
        let shares: Vec<_> = (0..).map(TenantId).zip(tenants.iter().map(|t| share(t.2))).collect();
        let mut all = GroupFloors::default();
        all.set(floors.iter().copied().map(Bytes).collect());
        assert_eq!(all.beyond_members(&rows), Bytes(beyond), "{floors:?} {tenants:?}");
        all.see(&rows);
        let mut told = Vec::new();
        all.divide(&shares, |_, floor| told.push(floor.0));
        assert_eq!(told, expected, "{floors:?} {tenants:?}");
    }

    #[test]
    fn members_divide_what_their_group_reserves() {
        check(&[], &[(None, 5, 10), (Some(0), 6, 10)], &[], 0);
        check(&[100], &[(Some(0), 10, 60), (Some(0), 0, 150), (None, 7, 50)], &[32, 67, 7], 90);
        // A place without a group, and a group that reserves no more than its members.
        check(&[20], &[(Some(3), 5, 50), (Some(0), 20, 50)], &[5, 20], 0);
        // The idle tax left less than the group reserves.
        check(&[100], &[(Some(0), 0, 30), (Some(0), 0, 10)], &[30, 10], 100);
        check(&[100, 50], &[(Some(0), 0, 100)], &[100], 100);
    }

    #[test]
    fn who_was_in_a_group_that_is_gone_has_its_own_again() {
        let row = |group| Row {
            id: TenantId(1),
            claim: Claim { group, ..Claim::default() },
            signal: None,
            in_force: None,
        };
        let shares = [(TenantId(1), MemoryShare::of(Bytes(100)))];
        let mut all = GroupFloors::default();
        let mut told = Vec::new();
        for (floors, group) in [(vec![Bytes(80)], Some(GroupId(0))), (vec![], None), (vec![], None)] {
            all.set(floors);
            all.see(&[row(group)]);
            all.divide(&shares, |_, floor| told.push(floor.0));
        }
        assert_eq!(told, [80, 0], "once");
    }
}
