//! What an operator promised a tenant: the part of a policy's input that is set, not measured.

use crate::bandwidth::Kinds;
use units::{Bytes, BytesPerSec, Duration};

/// A place in the order of who gets more: a finite number above zero.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Weight(f64);

/// An amount of what is divided; a family that divides only one of the two leaves the other at zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Memory.
    pub bytes: Bytes,
    /// Bandwidth.
    pub bandwidth: BytesPerSec,
}

/// What a tenant claims.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claim {
    /// Its part of what is not reserved, relative to the others'.
    pub weight: Weight,
    /// Reservation: what nobody takes from it.
    pub floor: Amount,
    /// Limit: what it never gets beyond.
    pub ceiling: Option<Amount>,
    /// Bytes that one shadow hit moves to it (Memshare §4.1); none means the policy's default.
    pub credit: Option<Bytes>,
    /// Whose needs come first.
    pub class: Class,
    /// Which actuators act on it.
    pub levers: Levers,
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

/// What a critical tenant was promised.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Goal {
    /// Bytes per second at least (NyxCache `qos`, MT² `guarantee`).
    Bandwidth(BytesPerSec),
    /// Time shared ÷ time alone at most (NyxCache `fair-slowdown`).
    Slowdown(f64),
    /// A latency at a quantile in 0..=1 (MT² `slo`).
    Latency {
        /// The quantile, 0.99 for p99.
        quantile: f64,
        /// The latency that it must not pass.
        at_most: Duration,
    },
}

/// The actuators that exist for a tenant, as data: what each acts on and in what steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Levers {
    /// A delay per access in steps of 10 ns acts on these kinds.
    pub brake: Kinds<bool>,
    /// Memory bandwidth allocation acts on these kinds, in steps of so many percent; zero means absent.
    pub mba: (Kinds<bool>, u8),
    /// A CPU quota is available (it acts on every kind).
    pub cpu_quota: bool,
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
    /// Memory only.
    #[must_use]
    pub const fn memory(bytes: Bytes) -> Self {
        Self { bytes, bandwidth: BytesPerSec(0) }
    }
}

impl std::ops::Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, bandwidth: self.bandwidth + other.bandwidth }
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |a, b| a + b)
    }
}
