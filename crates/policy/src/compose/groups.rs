//! Tenants in groups: one policy divides among groups, another inside each.
//!
//! Shape:      rows of tenants -> a row per group (signals side by side) -> outer policy -> a pool per group -> inner policies
//! Invariants: the shares of a group's members together fit the group's share; every tenant is in one group, those that no
//!             group names in the last
//! Cost:       the sum of the policies' own; O(tenants) beside them, no allocation once the tenants are steady
//! Source:     NyxCache §5 (groups of caches), Spirit §7 (a tenant of many containers)

use super::paced::Paced;
use control::Measured;
use control::{Claim, Decision, Join, Law, Nest, Note, Policy, Pool, Row, Seen, Shares};
use units::{Duration, Instant, TenantId};

/// A group: what it claims as a whole, who is in it and which policy divides inside it.
#[derive(Debug)]
pub struct Group<I> {
    /// Its claim among the groups.
    pub claim: Claim,
    /// Its members; the last group's list is ignored.
    pub members: Vec<TenantId>,
    /// The policy inside.
    pub inside: I,
}

/// A policy over groups with a policy inside each.
#[derive(Debug)]
pub struct Grouped<O, I>
where
    O: Policy,
    I: Policy<Signal = O::Signal, Share = O::Share>,
{
    outer: Paced<O>,
    outer_moved: bool,
    group_rows: Vec<Row<O::Signal, O::Share>>,
    groups: Vec<Inside<I>>,
    /// Tenant to group, sorted by tenant.
    membership: Vec<(TenantId, usize)>,
    shares: Shares<O::Share>,
    rows: Vec<(TenantId, O::Share)>,
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Inside<I: Policy> {
    claim: Claim,
    policy: Paced<I>,
    rows: Vec<Row<I::Signal, I::Share>>,
    pool: Pool,
}

impl<O, I> Grouped<O, I>
where
    O: Policy,
    I: Policy<Signal = O::Signal, Share = O::Share>,
    O::Signal: Join,
    O::Share: Nest + Measured + Clone + PartialEq,
{
    /// `outer` over `groups` in their order; `others` takes every tenant that no group names.
    pub fn new(outer: O, groups: Vec<Group<I>>, others: Group<I>) -> Self {
        let mut membership: Vec<(TenantId, usize)> = groups
            .iter()
            .enumerate()
            .flat_map(|(at, group)| group.members.iter().map(move |&id| (id, at)))
            .collect();
        membership.sort_unstable();
        // A tenant that two groups name belongs to the first.
        membership.dedup_by_key(|(id, _)| *id);
        let groups = groups.into_iter().chain([others]);
        let inside = |group: Group<I>| Inside {
            claim: group.claim,
            policy: Paced::new(group.inside),
            rows: Vec::new(),
            pool: Pool::default(),
        };
        Self {
            outer: Paced::new(outer),
            outer_moved: false,
            group_rows: Vec::new(),
            groups: groups.map(inside).collect(),
            membership,
            shares: Shares::default(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn group_of(&self, tenant: TenantId) -> usize {
        let named = self.membership.binary_search_by_key(&tenant, |(id, _)| *id);
        named.map_or(self.groups.len() - 1, |at| self.membership[at].1)
    }

    /// Sorts the tenants into their groups. A member's row is as it was seen: its share in force is its own, already under
    /// its group's.
    fn sort_in(&mut self, seen: &Seen<'_, O::Signal, O::Share>) {
        for group in &mut self.groups {
            group.rows.clear();
        }
        for row in seen.tenants {
            let at = self.group_of(row.id);
            self.groups[at].rows.push(row.clone());
        }
    }

    /// One row per group that has members. What the outer policy sees in force is what it asked: no actuator holds a
    /// group, so whatever came into force weaker shows to it only as `window.mixed`.
    fn gather(&mut self) {
        self.group_rows.clear();
        for (at, group) in self.groups.iter().enumerate() {
            if group.rows.is_empty() {
                continue;
            }
            let id = group_id(at);
            self.group_rows.push(Row {
                id,
                claim: group.claim.clone(),
                signal: beside(&group.rows),
                in_force: self.outer.held(Instant::ZERO).shares.get(id).cloned(),
            });
        }
    }

    /// Lets each group divide its share; says what is decided next when.
    fn divide(&mut self, now: Instant, seen: &Seen<'_, O::Signal, O::Share>, disturbed: bool) -> Waits {
        let mut waits = Waits::of(&self.outer.held(now));
        self.notes.clear();
        self.notes.extend_from_slice(self.outer.held(now).notes);
        self.rows.clear();
        for (at, group) in self.groups.iter_mut().enumerate().filter(|(_, group)| !group.rows.is_empty()) {
            let Some(share) = self.outer.held(now).shares.get(group_id(at)).cloned() else { continue };
            group.pool = share.pool(seen.pool);
            let Ok(own) = Seen::new(seen.window, &group.pool, &group.rows) else { continue };
            group.policy.see(now, &own, disturbed);
            let decision = group.policy.held(now);
            waits = waits.and(&decision);
            self.notes.extend_from_slice(decision.notes);
            let members = decision.shares.rows().iter();
            self.rows.extend(members.map(|(id, own)| (*id, own.clone().under(&share))));
        }
        self.rows.sort_unstable_by_key(|(id, _)| *id);
        waits
    }
}

/// The id under which the outer policy knows a group: its place in the list.
fn group_id(at: usize) -> TenantId {
    TenantId(u32::try_from(at).unwrap_or(u32::MAX))
}

/// The signal of a group; none if any member's is missing.
fn beside<S: Join, A>(rows: &[Row<S, A>]) -> Option<S> {
    let (first, others) = rows.split_first()?;
    let mut all = first.signal.clone()?;
    for row in others {
        all.beside(row.signal.as_ref()?);
    }
    Some(all)
}

/// When to decide again and how long it holds.
#[derive(Clone, Copy, Debug)]
struct Waits {
    wake: Duration,
    lease: Duration,
    steady: bool,
}

impl Waits {
    fn of<A>(decision: &Decision<'_, A>) -> Self {
        Self { wake: decision.wake, lease: decision.lease, steady: decision.steady }
    }

    fn and<A>(self, decision: &Decision<'_, A>) -> Self {
        Self {
            wake: self.wake.min(decision.wake),
            lease: self.lease.min(decision.lease),
            steady: self.steady && decision.steady,
        }
    }
}

impl<O, I> Policy for Grouped<O, I>
where
    O: Policy,
    I: Policy<Signal = O::Signal, Share = O::Share>,
    O::Signal: Join + std::fmt::Debug + Send,
    O::Share: Nest + Measured + Clone + PartialEq + std::fmt::Debug + Send,
{
    type Signal = O::Signal;
    type Share = O::Share;

    fn name(&self) -> &'static str {
        self.outer.name()
    }

    fn decide(&mut self, now: Instant, seen: &Seen<'_, O::Signal, O::Share>) -> Decision<'_, O::Share> {
        self.sort_in(seen);
        self.gather();
        let disturbed = self.outer_moved;
        if let Ok(groups) = Seen::new(seen.window, seen.pool, &self.group_rows) {
            self.outer_moved = self.outer.see(now, &groups, false);
        }
        let waits = self.divide(now, seen, disturbed);
        self.shares.rebuild(Law::AtMost { floor_part: 0.0 }, seen, self.rows.iter().cloned());
        Decision {
            shares: &self.shares,
            wake: waits.wake,
            lease: waits.lease,
            steady: waits.steady,
            notes: &self.notes,
        }
    }
}
