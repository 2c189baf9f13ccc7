//! What an operator promised a tenant: the part of a policy's input that is set, not measured.

use crate::bandwidth::{Cost, Kinds};
use units::{Bytes, BytesPerSec, Duration, TenantId};

/// A place in the order of who gets more: a finite number above zero.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Weight(f64);

/// An amount of what is divided; a family that divides only one of the three leaves the others at zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Memory.
    pub bytes: Bytes,
    /// Bandwidth.
    pub bandwidth: BytesPerSec,
    /// Time of a tier per second.
    pub cost: Cost,
}

/// A group of tenants: its place in the list that the policy was made with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GroupId(pub u16);

/// A number of at least 1: time shared ÷ time alone.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Slowdown(f64);

/// A quantile in 0..1: 0.99 for p99.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Quantile(f64);

/// What a tenant claims.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claim {
    /// Its part of what is not reserved, relative to the others'.
    pub weight: Weight,
    /// Reservation: what nobody takes from it.
    pub floor: Amount,
    /// Limit: what it never gets beyond; a part of zero limits nothing ([`Claim::ceiling_of`]).
    pub ceiling: Option<Amount>,
    /// Limits of single kinds of traffic (MT² §2.1, prevention).
    pub caps: Kinds<Option<BytesPerSec>>,
    /// Bytes that one shadow hit moves to it (Memshare §4.1); none means the policy's default.
    pub credit: Option<Bytes>,
    /// Whose needs come first.
    pub class: Class,
    /// Which actuators act on it.
    pub levers: Levers,
    /// The group that it is in; none stands for itself. A policy that knows no groups does not look at it.
    pub group: Option<GroupId>,
}

/// Whose needs come first when not all can be met.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Class {
    /// Has a goal that must be kept.
    Critical {
        /// The goal.
        goal: Goal,
    },
    /// Takes what is left.
    #[default]
    BestEffort,
    /// Never touched by this policy.
    Exempt,
}

impl Class {
    /// Whether the tenant comes after all others.
    #[must_use]
    pub const fn is_best_effort(&self) -> bool {
        matches!(self, Self::BestEffort)
    }
}

/// What a critical tenant was promised.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Goal {
    /// Bytes per second of each kind at least (MT² §5.1).
    Bandwidth(Kinds<BytesPerSec>),
    /// At most so much slower than alone (NyxCache §3.4, hard limit of fair slowdown).
    Slowdown(Slowdown),
    /// A latency at a quantile (NyxCache `qos`, MT² `slo`).
    Latency {
        /// The quantile.
        quantile: Quantile,
        /// The latency that it must not pass.
        at_most: Duration,
    },
}

/// The actuators that exist for a tenant, as data: what each acts on and in what steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Levers {
    /// A delay before each access acts on these kinds, in steps of 10 ns.
    pub brake: Kinds<bool>,
    /// Memory bandwidth allocation.
    pub mba: Option<Mba>,
    /// A CPU quota; it acts on every kind.
    pub cpu: Option<CpuQuota>,
}

/// Memory bandwidth allocation as a lever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mba {
    /// The kinds that it slows down.
    pub acts_on: Kinds<bool>,
    /// The percentages that can be set: bit `i` is `10 (i + 1)` percent.
    pub levels: u16,
}

/// A CPU quota as a lever, in thousandths of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuQuota {
    /// What the tenant can use at most: free.
    pub most: u32,
    /// What it is never taken below.
    pub least: u32,
}

impl Claim {
    /// What it gets at most of `capacity`. A ceiling's part of zero is no limit of that thing: an operator who limits one of
    /// the three leaves the others at zero.
    #[must_use]
    pub fn ceiling_of(&self, capacity: Amount) -> Amount {
        let Some(ceiling) = self.ceiling else { return capacity };
        let most = |limit: u64, all: u64| if limit == 0 { all } else { limit.min(all) };
        Amount {
            bytes: Bytes(most(ceiling.bytes.0, capacity.bytes.0)),
            bandwidth: BytesPerSec(most(ceiling.bandwidth.0, capacity.bandwidth.0)),
            cost: Cost(most(ceiling.cost.0, capacity.cost.0)),
        }
    }
}

impl Mba {
    /// The eight percentages of MT² §4: {10, 20, 30, 40, 50, 60, 90, 100}; writes of a slow tier hardly feel it (Fig. 4).
    pub const MT2: Self = Self {
        acts_on: Kinds { dram_read: true, dram_write: true, slow_read: true, slow_write: false },
        levels: 0b11_0011_1111,
    };

    /// The next tighter percentage than `now`, if there is one.
    #[must_use]
    pub fn below(self, now: u8) -> Option<u8> {
        (1..=10).rev().map(|i| i * 10).find(|&level| level < now && self.has(level))
    }

    /// The next looser percentage than `now`, if there is one.
    #[must_use]
    pub fn above(self, now: u8) -> Option<u8> {
        (1..=10).map(|i| i * 10).find(|&level| now < level && self.has(level))
    }

    fn has(self, level: u8) -> bool {
        self.levels & (1 << (level / 10 - 1)) != 0
    }
}

/// Above every id that a tenant has.
const GROUP_ROWS: u32 = u32::MAX - u16::MAX as u32;

impl GroupId {
    /// The id under which a policy over groups knows this one.
    #[must_use]
    pub const fn row(self) -> TenantId {
        TenantId(GROUP_ROWS + self.0 as u32)
    }

    /// The group that such an id stands for; none for a tenant's.
    #[must_use]
    pub fn of_row(id: TenantId) -> Option<Self> {
        let at = id.0.checked_sub(GROUP_ROWS)?;
        u16::try_from(at).ok().map(Self)
    }
}

impl Slowdown {
    /// A slowdown, if `value` is finite and at least 1.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && 1.0 <= value).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Quantile {
    /// A quantile, if `value` is inside 0..1.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (0.0 < value && value < 1.0).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Weight {
    /// The weight that everybody has who was given none.
    pub const ONE: Self = Self(1.0);

    /// A weight, if `value` is finite and above zero.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && 0.0 < value).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl Amount {
    /// More of each than there is of anything.
    pub const MOST: Self =
        Self { bytes: Bytes(u64::MAX), bandwidth: BytesPerSec(u64::MAX), cost: Cost(u64::MAX) };

    /// Memory only.
    #[must_use]
    pub const fn memory(bytes: Bytes) -> Self {
        Self { bytes, bandwidth: BytesPerSec(0), cost: Cost(0) }
    }

    /// Time of a tier only.
    #[must_use]
    pub const fn tier_time(cost: Cost) -> Self {
        Self { bytes: Bytes(0), bandwidth: BytesPerSec(0), cost }
    }

    /// The greater of each.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            bandwidth: self.bandwidth.max(other.bandwidth),
            cost: self.cost.max(other.cost),
        }
    }

    /// Whether no part of it is more than that part of `other`.
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        self.bytes <= other.bytes && self.bandwidth <= other.bandwidth && self.cost <= other.cost
    }
}

impl Amount {
    /// `part` (0..=1) of each, rounded down.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part in 0..=1 of a size; rounding down is meant"
    )]
    pub fn part(self, part: f64) -> Self {
        let of = |n: u64| (n as f64 * part.clamp(0.0, 1.0)) as u64;
        Self {
            bytes: Bytes(of(self.bytes.0)),
            bandwidth: BytesPerSec(of(self.bandwidth.0)),
            cost: Cost(of(self.cost.0)),
        }
    }
}

impl std::ops::Add for Amount {
    type Output = Self;
    /// Saturates: what operators promise together may be more than any number says.
    fn add(self, other: Self) -> Self {
        Self {
            bytes: Bytes(self.bytes.0.saturating_add(other.bytes.0)),
            bandwidth: BytesPerSec(self.bandwidth.0.saturating_add(other.bandwidth.0)),
            cost: self.cost + other.cost,
        }
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_groups_are_no_tenants() {
        for group in [0, 1, u16::MAX].map(GroupId) {
            assert_eq!(GroupId::of_row(group.row()), Some(group));
        }
        assert_eq!(GroupId::of_row(TenantId(65_535)), None);
        assert!(GroupId(0).row() < GroupId(1).row());
    }

    #[test]
    fn a_ceiling_of_nothing_is_no_limit_of_it() {
        let amount = |bytes, bandwidth, cost| Amount {
            bytes: Bytes(bytes),
            bandwidth: BytesPerSec(bandwidth),
            cost: Cost(cost),
        };
        let capacity = amount(100, 200, 300);
        for (ceiling, most) in [
            (None, capacity),
            (Some(amount(0, 0, 0)), capacity),
            (Some(amount(10, 0, 0)), amount(10, 200, 300)),
            (Some(amount(0, 20, 0)), amount(100, 20, 300)),
            (Some(amount(0, 0, 30)), amount(100, 200, 30)),
            (Some(amount(101, 201, 301)), capacity),
        ] {
            let claim = Claim { ceiling, ..Claim::default() };
            assert_eq!(claim.ceiling_of(capacity), most, "{ceiling:?}");
        }
    }
}
