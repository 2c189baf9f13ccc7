//! Tenants in groups: one policy divides among groups and lone tenants, another inside each group.
//!
//! Shape:      rows of tenants -> a row per lone tenant and per group that has members (signals side by side) -> outer
//!             policy -> a share per lone tenant, a pool per group -> inner policies -> what they leave undivided, shared out
//! Invariants: the shares of a group's members together fit the group's share; a group claims at least what its members
//!             reserve together, and at most its ceiling; who names a group that is not there stands for itself; a group that
//!             nobody is in any more remembers nobody
//! Cost:       the sum of the policies' own; O(tenants) beside them, no allocation once the tenants are steady but for the curve of a group
//! Source:     NyxCache §5 (groups of caches), Spirit §7 (a tenant of many containers)

use super::paced::Paced;
use super::share_out::ShareOut;
use control::Measured;
use control::{Amount, Claim, Decision, GroupId, Join, Nest, Note, Policy, Pool, Row, Seen, Shares, Window};
use units::{Duration, Instant};

/// A group: what it claims as a whole and which policy divides inside it. Who is in it, its members' claims say.
#[derive(Debug)]
pub struct Group<I> {
    /// Its claim among the groups and lone tenants.
    pub claim: Claim,
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
    /// Lone tenants, then groups.
    outer_rows: Vec<Row<O::Signal, O::Share>>,
    groups: Vec<Inside<I>>,
    /// When it last wished to be asked again: who asks sooner has a reason, and everybody decides.
    wish: Instant,
    shares: Shares<O::Share>,
    rows: Vec<(units::TenantId, O::Share)>,
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
    O::Share: Nest + ShareOut<O::Signal> + Measured + Clone + PartialEq,
{
    /// `outer` over lone tenants and `groups`, which claims name by their places.
    pub fn new(outer: O, groups: Vec<Group<I>>) -> Self {
        let inside = |group: Group<I>| Inside {
            claim: group.claim,
            policy: Paced::new(group.inside),
            rows: Vec::new(),
            pool: Pool::default(),
        };
        Self {
            outer: Paced::new(outer),
            outer_moved: false,
            outer_rows: Vec::new(),
            groups: groups.into_iter().map(inside).collect(),
            wish: Instant::ZERO,
            shares: Shares::default(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The policy among groups.
    pub fn outer(&self) -> &O {
        self.outer.policy()
    }

    /// Does something with the policy among the groups and with each inside.
    pub fn each_mut(&mut self, outer: impl FnOnce(&mut O), mut inside: impl FnMut(&mut I)) {
        outer(self.outer.policy_mut());
        self.groups.iter_mut().for_each(|group| inside(group.policy.policy_mut()));
    }

    /// The policies inside them, in their order.
    pub fn inside(&self) -> impl Iterator<Item = &I> {
        self.groups.iter().map(|group| group.policy.policy())
    }

    /// Sorts the tenants into their groups. A member's row is as it was seen: its share in force is its own, already under
    /// its group's.
    fn sort_in(&mut self, seen: &Seen<'_, O::Signal, O::Share>) {
        self.outer_rows.clear();
        for group in &mut self.groups {
            group.rows.clear();
        }
        for row in seen.tenants {
            let group = row.claim.group.and_then(|group| self.groups.get_mut(usize::from(group.0)));
            group.map_or(&mut self.outer_rows, |group| &mut group.rows).push(row.clone());
        }
    }

    /// One row per group that has members. What the outer policy sees in force is what it asked, at first what the members
    /// have together: no actuator holds a group, so whatever came into force weaker shows to it only as `window.mixed`.
    fn gather(&mut self) {
        for (at, group) in (0..).zip(&self.groups) {
            if group.rows.is_empty() {
                continue;
            }
            let id = GroupId(at).row();
            let floors: Amount = group.rows.iter().map(|row| row.claim.floor).sum();
            let asked = self.outer.held(Instant::ZERO).shares.get(id).cloned();
            // It reserves what its members do, but no more than it may have.
            let floor = group.claim.ceiling_of(group.claim.floor.at_least(floors));
            // What acts on its members acts on it.
            let levers = group.rows.first().map_or(group.claim.levers, |row| row.claim.levers);
            self.outer_rows.push(Row {
                id,
                claim: Claim { floor, levers, ..group.claim.clone() },
                signal: beside(&group.rows),
                in_force: asked.or_else(|| together(&group.rows)),
            });
        }
    }

    /// Lets each group divide its share; says what is decided next when.
    fn divide(&mut self, now: Instant, seen: &Seen<'_, O::Signal, O::Share>, disturbed: bool) -> Waits {
        let outer = self.outer.held(now);
        let mut waits = Waits::of(&outer);
        self.notes.clear();
        self.notes.extend_from_slice(outer.notes);
        self.rows.clear();
        let lone = outer.shares.rows().iter().filter(|(id, _)| GroupId::of_row(*id).is_none());
        self.rows.extend(lone.cloned());
        for (at, group) in (0..).zip(&mut self.groups) {
            if group.rows.is_empty() {
                self.notes.extend_from_slice(group.see_nobody(now, seen.window));
                continue;
            }
            let Some(share) = outer.shares.get(GroupId(at).row()) else { continue };
            group.pool = share.pool(seen.pool);
            let Ok(own) = Seen::new(seen.window, &group.pool, &group.rows) else { continue };
            group.policy.see(now, &own, disturbed);
            let decision = group.policy.held(now);
            waits = waits.and(&decision);
            self.notes.extend_from_slice(decision.notes);
            let members = decision.shares.rows().iter();
            let first = self.rows.len();
            self.rows.extend(members.map(|(id, own)| (*id, own.clone().under(share))));
            share.share_out(seen.window, &group.rows, &mut self.rows[first..]);
        }
        self.rows.sort_unstable_by_key(|(id, _)| *id);
        waits
    }
}

impl<I> Inside<I>
where
    I: Policy,
    I::Signal: Join,
    I::Share: Clone + PartialEq,
{
    /// Lets the policy of a group that the last one has left decide once, so that it knows nobody any more: ids are given again. Returns
    /// its notes on that.
    fn see_nobody(&mut self, now: Instant, window: Window) -> &[Note] {
        if self.policy.has_nobody() {
            return &[];
        }
        let Ok(nobody) = Seen::new(window, &self.pool, &[]) else { return &[] };
        self.policy.see(now, &nobody, false);
        self.policy.held(now).notes
    }
}

/// The signal of a group; none if any member's is missing.
fn beside<S: Join, A>(rows: &[Row<S, A>]) -> Option<S> {
    let (first, others) = rows.split_first()?;
    if others.iter().any(|row| row.signal.is_none()) {
        return None;
    }
    let mut all = first.signal.clone()?;
    all.beside_all(others.iter().filter_map(|row| row.signal.as_ref()));
    Some(all)
}

/// What is in force of a group; none if any member has nothing yet.
fn together<S, A: Nest + Clone>(rows: &[Row<S, A>]) -> Option<A> {
    let (first, others) = rows.split_first()?;
    let mut all = first.in_force.clone()?;
    for row in others {
        all = all.together(row.in_force.as_ref()?)?;
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
    O::Share: Nest + ShareOut<O::Signal> + Measured + Clone + PartialEq + std::fmt::Debug + Send,
{
    type Signal = O::Signal;
    type Share = O::Share;

    fn name(&self) -> &'static str {
        self.outer.name()
    }

    fn decide(&mut self, now: Instant, seen: &Seen<'_, O::Signal, O::Share>) -> Decision<'_, O::Share> {
        if now < self.wish {
            self.outer.hurry();
            self.groups.iter_mut().for_each(|group| group.policy.hurry());
        }
        self.sort_in(seen);
        self.gather();
        let disturbed = self.outer_moved;
        if let Ok(groups) = Seen::new(seen.window, seen.pool, &self.outer_rows) {
            self.outer_moved = self.outer.see(now, &groups, false);
        }
        let waits = self.divide(now, seen, disturbed);
        self.wish = now + waits.wake;
        self.shares.rebuild(<O::Share as ShareOut<O::Signal>>::LAW, seen, self.rows.iter().cloned());
        Decision {
            shares: &self.shares,
            wake: waits.wake,
            lease: waits.lease,
            steady: waits.steady,
            notes: &self.notes,
        }
    }
}
