//! Who gets how many bytes of a tier.

mod auto;
mod credit;
mod idle_tax;
mod memshare;
mod pooled;
mod split;
mod static_split;

pub use auto::{Auto, LEARNING};
pub use credit::Credit;
pub use idle_tax::{IdleTax, Tax};
pub use memshare::Shared;
pub use pooled::Pooled;
pub use static_split::Partitioned;

use crate::compose::{Group, Grouped};
use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, GroupId, Policy, Seen};
use units::{Bytes, Duration, Instant};

/// The policies about memory as one type, so that a loop can hold the one that the configuration names.
#[derive(Debug)]
pub enum MemoryPolicy {
    /// Fixed shares.
    Partitioned(Partitioned),
    /// Credits for shadow hits.
    Shared(Shared),
    /// A tax on idle memory.
    IdleTax(IdleTax),
    /// Credits first, then a tax on what was learnt.
    Auto(Auto),
    /// One pool beyond the floors.
    Pooled(Pooled),
    /// One of them among groups, one inside each.
    Grouped(Box<Grouped<Self, Self>>),
}

/// What the policies about memory can be told; each takes what it knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryOptions {
    /// What one shadow hit moves (`shared`, `auto`), or whose worth it moves (`pooled`).
    pub credit: Credit,
    /// The part of idle memory that is taken (`idle-tax`, `auto`).
    pub tax: Tax,
    /// How long `auto` learns.
    pub learning: Duration,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for MemoryOptions {
    /// Memshare's own settings (§4.1, §6.1, §4.3).
    fn default() -> Self {
        Self { credit: Bytes::kib(64).into(), tax: Tax::HALF, learning: LEARNING, seed: 0 }
    }
}

impl MemoryPolicy {
    /// Every name that [`MemoryPolicy::by_name`] knows.
    pub const NAMES: [&'static str; 5] = ["partitioned", "shared", "idle-tax", "auto", "pooled"];

    /// The policy called `name`, or none.
    #[must_use]
    pub fn by_name(name: &str, options: MemoryOptions) -> Option<Self> {
        let shared = || Shared::new(options.credit, options.seed);
        match name {
            "partitioned" => Some(Self::Partitioned(Partitioned::default())),
            "shared" => Some(Self::Shared(shared())),
            "idle-tax" => Some(Self::IdleTax(IdleTax::new(options.tax))),
            "auto" => Some(Self::Auto(Auto::new(shared(), options.tax, options.learning))),
            "pooled" => Some(Self::Pooled(Pooled::new(options.credit))),
            _ => None,
        }
    }

    /// The same among groups, which have policies of their own inside. Who is in which, claims say.
    #[must_use]
    pub fn over(self, groups: Vec<Group<Self>>) -> Self {
        if groups.is_empty() {
            return self;
        }
        let those = |which: fn(&Self) -> bool| -> Vec<_> {
            let of = |(id, group): (GroupId, &Group<Self>)| which(&group.inside).then_some(id.row());
            (0..).map(GroupId).zip(&groups).filter_map(of).collect()
        };
        let taxes = |inside: &Self| matches!(inside, Self::IdleTax(_) | Self::Auto(_));
        let outer = match self {
            // Items are compared where both policies do so; a group with another inside has its part by weight.
            Self::Pooled(pooled) => {
                let others = those(|inside| !matches!(inside, Self::Pooled(_)));
                Self::Pooled(pooled.giving_by_weight(others))
            }
            // Nobody is taxed twice, nor for what others of its group leave idle.
            Self::IdleTax(tax) => Self::IdleTax(tax.sparing(those(taxes))),
            Self::Auto(auto) => Self::Auto(auto.sparing(those(taxes))),
            other => other,
        };
        let inside = |group: Group<Self>| Group { inside: group.inside.in_group(), ..group };
        Self::Grouped(Box::new(Grouped::new(outer, groups.into_iter().map(inside).collect())))
    }

    /// The same among the members of a group.
    fn in_group(self) -> Self {
        match self {
            Self::Shared(p) => Self::Shared(p.in_group()),
            Self::Auto(p) => Self::Auto(p.in_group()),
            Self::Pooled(p) => Self::Pooled(p.in_group()),
            Self::Partitioned(_) | Self::IdleTax(_) | Self::Grouped(_) => self,
        }
    }

    /// Tells a policy that is at work other options; the seed stays. What it has learnt stays, too.
    pub fn retell(&mut self, options: MemoryOptions) {
        match self {
            Self::Partitioned(_) => {}
            Self::Shared(p) => p.retell(options.credit),
            Self::IdleTax(p) => p.retell(options.tax),
            Self::Auto(p) => p.retell(options.credit, options.tax, options.learning),
            Self::Pooled(p) => p.retell(options.credit),
            Self::Grouped(p) => p.each_mut(|outer| outer.retell(options), |inside| inside.retell(options)),
        }
    }

    /// Whether it looks at idle bytes: a sensor that has to search for them may save it otherwise.
    #[must_use]
    pub fn wants_idle(&self) -> bool {
        match self {
            Self::Partitioned(_) | Self::Shared(_) | Self::Pooled(_) => false,
            Self::IdleTax(_) | Self::Auto(_) => true,
            Self::Grouped(p) => p.outer().wants_idle() || p.inside().any(Self::wants_idle),
        }
    }
}

impl Policy for MemoryPolicy {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        match self {
            Self::Partitioned(p) => p.name(),
            Self::Shared(p) => p.name(),
            Self::IdleTax(p) => p.name(),
            Self::Auto(p) => p.name(),
            Self::Pooled(p) => p.name(),
            Self::Grouped(p) => p.name(),
        }
    }

    fn decide(
        &mut self,
        now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        match self {
            Self::Partitioned(p) => p.decide(now, seen),
            Self::Shared(p) => p.decide(now, seen),
            Self::IdleTax(p) => p.decide(now, seen),
            Self::Auto(p) => p.decide(now, seen),
            Self::Pooled(p) => p.decide(now, seen),
            Self::Grouped(p) => p.decide(now, seen),
        }
    }
}
