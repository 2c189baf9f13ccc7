//! Bandwidth guaranteed to some by capping the others.
//!
//! Shape:      demands per kind -> admission by the empirical model -> caps of everybody -> levers
//! Invariants: what is admitted together keeps 90 % of its demand by the model; an earlier guarantee is not broken for a
//!             later one; caps cover every demand that was admitted
//! Cost:       O(tenants) per decision; O(tenants) look-ups of the model when tenants or demands change
//! Failure:    a demand that cannot be kept is an incident, its tenant is best-effort until it can; a model of another
//!             machine caps nobody, which is noted
//! Source:     MT² §5.1
//!
//! | Paper | here |
//! |---|---|
//! | pre-declared demand | `Goal::Bandwidth` |
//! | empirical model, intensity of competition | [`EmpiricalModel`] |
//! | 90 % of the desired value | `KEPT_PART` |
//! | report an incident | `Reason::Incident` on the tenant whose demand is refused |
//!
//! We differ: the extra bandwidth is looked for along one line, from the demands towards all of every kind, and divided by
//! weight among those who can use a kind: its claimants and the best-effort tenants (the paper: "proportionally to all
//! programs"; all of its programs declare demands). A kind that a tenant did not declare is held to a trickle; one that the
//! model does not know is not capped. Who declares nothing of any kind is best-effort, whatever its class.

use super::mt2_cap::{CapKeeper, Caps, bytes_per_sec, signed};
use super::mt2_model::EmpiricalModel;
use super::mt2_throttle::{LEASE, PERIOD};
use super::roster::{Roster, note};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Decision, Goal, Law, Note, Policy, Reason, Row, Seen, Shares};
use units::{BytesPerSec, Instant};

/// Part of a demand that counts as kept (MT² §5.1).
pub(super) const KEPT_PART: f64 = 0.9;
/// Part of a kind's most that undeclared traffic of all tenants together may have (guess: what a program that declared
/// nothing of it does in passing; .5 to 2 % are lost in the model's own error).
pub(super) const TRICKLE: f64 = 0.01;

/// The policy `guarantee`.
#[derive(Debug)]
pub struct Guarantee {
    model: EmpiricalModel,
    roster: Roster<Member>,
    keeper: CapKeeper,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
    /// Arrivals and departures are noted by the keeper.
    unread: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Member {
    role: Role,
    weight: f64,
    standing: Standing,
    caps: Caps,
}

/// How a demand stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Standing {
    /// It is not kept.
    #[default]
    None,
    /// It was kept, and is larger now.
    Grown,
    /// It was kept.
    Kept,
    /// It is kept from now on.
    Admitted,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
enum Role {
    /// Declared its demand.
    Demand(Kinds<BytesPerSec>),
    /// Takes what is left.
    #[default]
    BestEffort,
    /// Exempt, or critical with another goal: neither counted nor capped.
    Outside,
}

impl Guarantee {
    /// The policy that admits by `model`.
    #[must_use]
    pub fn new(model: EmpiricalModel) -> Self {
        Self {
            model,
            roster: Roster::default(),
            keeper: CapKeeper::default(),
            shares: Shares::default(),
            notes: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Takes over who is there and what they demand; returns whether anything is new.
    fn settle(&mut self, seen: &Seen<'_, BandwidthSignal, Throttle>) -> bool {
        self.unread.clear();
        let mut changed = self.roster.settle(seen.tenants, &mut self.unread, |_| Member::default());
        for (at, row) in seen.tenants.iter().enumerate() {
            let (role, weight) = (role_of(row), row.claim.weight.get());
            let member = &mut self.roster[at];
            if member.role != role {
                let standing = member.standing_as(&role);
                *member = Member { role, standing, ..Member::default() };
                changed = true;
            }
            changed |= member.weight.total_cmp(&weight).is_ne();
            member.weight = weight;
        }
        changed
    }

    /// Who is admitted, and the caps that follow.
    fn plan(&mut self) {
        let demanded = self.admit();
        let most = self.model.most();
        let rest = Kinds::from_fn(|kind| (most.get(kind) - demanded.get(kind)).max(0.0));
        let part = self.model.room(demanded, rest, KEPT_PART).unwrap_or(0.0);
        let mut weights = Kinds::splat(0.0);
        for (_, member) in self.roster.iter() {
            for kind in Kind::ALL.into_iter().filter(|&kind| member.can_use(kind)) {
                *weights.get_mut(kind) += member.weight;
            }
        }
        let trickle = TRICKLE / self.roster.len().max(1) as f64;
        for (_, member) in self.roster.iter_mut() {
            let cap = |kind: Kind| {
                let extra = if member.can_use(kind) {
                    part * rest.get(kind) * member.weight / weights.get(kind)
                } else {
                    0.0
                };
                bytes_per_sec((member.demand(kind) + extra).max(trickle * most.get(kind)))
            };
            member.caps = match member.role {
                Role::Outside => Caps::default(),
                Role::Demand(_) | Role::BestEffort => {
                    Kinds::from_fn(|kind| self.model.knows(kind).then(|| cap(kind)))
                }
            };
        }
    }

    /// Admits demands as long as all admitted are kept, those that were admitted before first, and returns their sum.
    fn admit(&mut self) -> Kinds<f64> {
        let mut sum = Kinds::splat(0.0);
        for turn in [Standing::Kept, Standing::Grown, Standing::None] {
            for (_, member) in self.roster.iter_mut() {
                let Role::Demand(demand) = member.role else { continue };
                if member.standing != turn {
                    continue;
                }
                let with = Kinds::from_fn(|kind| sum.get(kind) + demand.get(kind).0 as f64);
                // In the last round those that others have dropped are asked again, in vain.
                let is_kept = self.model.intensity(with) <= 1.0 - KEPT_PART;
                member.standing = if is_kept { Standing::Admitted } else { Standing::None };
                if is_kept {
                    sum = with;
                }
            }
        }
        for (_, member) in self.roster.iter_mut().filter(|(_, member)| member.is_admitted()) {
            member.standing = Standing::Kept;
        }
        sum
    }

    fn report_incidents(&mut self) {
        for (id, member) in self.roster.iter() {
            let Role::Demand(demand) = member.role else { continue };
            if !member.is_admitted() {
                let all: BytesPerSec = demand.iter().map(|(_, rate)| *rate).sum();
                let why = "this demand cannot be kept beside the others";
                self.notes.push(note(Some(id), Reason::Incident(why.into()), signed(all)));
            }
        }
    }
}

impl Member {
    /// Whether its demand is kept.
    fn is_admitted(&self) -> bool {
        matches!(self.standing, Standing::Kept | Standing::Admitted)
    }

    /// How it stands with another role: who was kept and demands no more goes before all, who demands more before those that
    /// were not.
    fn standing_as(&self, role: &Role) -> Standing {
        match (&self.role, role) {
            (Role::Demand(before), Role::Demand(now)) if self.is_admitted() => {
                let is_no_more = before.iter().all(|(kind, rate)| now.get(kind) <= rate);
                if is_no_more { Standing::Kept } else { Standing::Grown }
            }
            _ => Standing::None,
        }
    }

    /// Whether extra bandwidth of this kind is any use to it.
    fn can_use(&self, kind: Kind) -> bool {
        match self.role {
            Role::Demand(demand) => !self.is_admitted() || BytesPerSec(0) < *demand.get(kind),
            Role::BestEffort => true,
            Role::Outside => false,
        }
    }

    /// What it was promised.
    fn demand(&self, kind: Kind) -> f64 {
        match self.role {
            Role::Demand(demand) if self.is_admitted() => demand.get(kind).0 as f64,
            _ => 0.0,
        }
    }
}

impl Policy for Guarantee {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "guarantee"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, BandwidthSignal, Throttle>,
    ) -> Decision<'_, Throttle> {
        self.notes.clear();
        if self.settle(seen) {
            self.plan();
        }
        self.report_incidents();
        let usable = is_of_this_machine(&self.model, seen.pool.model, &mut self.notes);
        let roster = &self.roster;
        let caps = |at: usize, _: &Row<_, _>| if usable { roster[at].caps } else { Caps::default() };
        self.keeper.hold(seen, caps, &mut self.notes);
        self.shares.rebuild(Law::Free, seen, self.keeper.asked());
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}

fn role_of(row: &Row<BandwidthSignal, Throttle>) -> Role {
    match row.claim.class {
        Class::Critical { goal: Goal::Bandwidth(demand) } if demand != Kinds::default() => {
            Role::Demand(demand)
        }
        Class::Critical { goal: Goal::Bandwidth(_) } | Class::BestEffort => Role::BestEffort,
        Class::Critical { .. } | Class::Exempt => Role::Outside,
    }
}

/// Whether the model was measured where the pool is; notes if not. Unknown ids pass.
pub(super) fn is_of_this_machine(model: &EmpiricalModel, pool_model: u32, notes: &mut Vec<Note>) -> bool {
    let usable = model.id() == 0 || pool_model == 0 || model.id() == pool_model;
    if !usable {
        let why = "the model was measured on another machine: nobody is capped";
        notes.push(note(None, Reason::Fallback(why.into()), 0));
    }
    usable
}
