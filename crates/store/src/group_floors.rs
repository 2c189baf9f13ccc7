//! What the cleaner leaves to tenants that are in groups, and what of the unreserved memory is whose first share.
//!
//! Shape:      what groups and members reserve, members' targets -> a floor per tenant; weights -> parts
//! Invariants: a member's floor is at least its own reservation and at most its target, where that allows it; the floors
//!             of a group's members sum to what the group reserves, up to rounding down
//! Cost:       O(tenants + groups) per decision, nothing without groups

use control::memory::{MemoryShare, MemorySignal};
use control::{Claim, Row, Weight};
use units::{Bytes, TenantId};

/// The floors of groups and of those who are in them.
#[derive(Debug, Default)]
pub(crate) struct GroupFloors {
    /// What each group reserves, by its place.
    floors: Vec<Bytes>,
    /// Its weight among the groups and lone tenants.
    weights: Vec<f64>,
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
    weight: f64,
    own: Bytes,
    beyond: Bytes,
}

impl GroupFloors {
    /// Takes over what groups reserve, and their weights.
    pub(crate) fn set(&mut self, groups: &[(Bytes, Weight)]) {
        self.floors.clear();
        self.weights.clear();
        self.floors.extend(groups.iter().map(|(floor, _)| *floor));
        self.weights.extend(groups.iter().map(|(_, weight)| weight.get()));
    }

    fn clear_sums(&mut self) {
        self.sums.clear();
        self.sums.resize(self.floors.len(), Sums::default());
    }

    /// What groups that have members reserve beyond what these do, and the weight of those groups and of lone tenants together.
    pub(crate) fn beyond_members(&mut self, rows: &[Row<MemorySignal, MemoryShare>]) -> (Bytes, f64) {
        let mut weight = 0.0;
        self.clear_sums();
        for row in rows {
            if let Some(place) = place(&self.floors, &row.claim) {
                let sums = &mut self.sums[place];
                weight += if sums.members == 0 { self.weights[place] } else { 0.0 };
                sums.members += 1;
                sums.weight += row.claim.weight.get();
                sums.own += row.claim.floor.bytes;
            } else {
                weight += row.claim.weight.get();
            }
        }
        let groups = self.floors.iter().zip(&self.sums).filter(|(_, sums)| 0 < sums.members);
        (groups.map(|(floor, sums)| floor.saturating_sub(sums.own)).sum(), weight)
    }

    /// A tenant's part, 0..=1, of what nobody reserves, where those who divide it weigh so much together, as `beyond_members` has just said:
    /// by its own weight, or by that of its group, and inside by its own.
    pub(crate) fn part(&self, claim: &Claim, of: f64) -> f64 {
        match place(&self.floors, claim) {
            Some(place) => self.weights[place] / of * (claim.weight.get() / self.sums[place].weight),
            None => claim.weight.get() / of,
        }
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
        all.set(&floors.iter().map(|floor| (Bytes(*floor), Weight::ONE)).collect::<Vec<_>>());
        assert_eq!(all.beyond_members(&rows).0, Bytes(beyond), "{floors:?} {tenants:?}");
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

    /// One lone tenant and a group of nine, of a weight each; then a group of twice that, inside by weight.
    #[test]
    fn the_rest_is_divided_among_groups_before_members() {
        let parts = |group_weight: f64, tenants: &[(Option<u16>, f64)]| {
            let rows: Vec<_> = (0..)
                .zip(tenants)
                .map(|(id, &(group, weight))| {
                    let weight = Weight::new(weight).unwrap();
                    let claim = Claim { weight, group: group.map(GroupId), ..Claim::default() };
                    Row { id: TenantId(id), claim, signal: None, in_force: None }
                })
                .collect();
            let mut all = GroupFloors::default();
            // The second has no members, and no part.
            all.set(&[(Bytes(0), Weight::new(group_weight).unwrap()), (Bytes(50), Weight::ONE)]);
            let (beyond, weight) = all.beyond_members(&rows);
            assert_eq!(beyond, Bytes(0));
            rows.iter().map(|row| (all.part(&row.claim, weight) * 1_000.0).round()).collect::<Vec<_>>()
        };
        let many = [(None, 1.0)].into_iter().chain([(Some(0), 1.0); 9]).collect::<Vec<_>>();
        assert_eq!(parts(1.0, &many), [&[500.0][..], &[56.0; 9]].concat());
        assert_eq!(parts(2.0, &[(None, 2.0), (Some(0), 1.0), (Some(0), 4.0)]), [500.0, 100.0, 400.0]);
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
        let eighty = [(Bytes(80), Weight::ONE)];
        for (groups, group) in [(&eighty[..], Some(GroupId(0))), (&[], None), (&[], None)] {
            all.set(groups);
            all.see(&[row(group)]);
            all.divide(&shares, |_, floor| told.push(floor.0));
        }
        assert_eq!(told, [80, 0], "once");
    }
}
