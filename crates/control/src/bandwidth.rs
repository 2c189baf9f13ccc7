//! Bandwidth as a thing divided: kinds of traffic, signals and throttles.
//!
//! Source: NyxCache §3.3 (cost, slowdown, delays in units of 10 ns), MT² §3 (four kinds of traffic, host levers)

use crate::claim::Amount;
use crate::shares::Measured;
use units::{Bytes, BytesPerSec, Duration, Instant};

/// A kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Reads of DRAM.
    DramRead,
    /// Writes of DRAM.
    DramWrite,
    /// Reads of a slow tier.
    SlowRead,
    /// Writes of a slow tier.
    SlowWrite,
}

/// One value for each of the four kinds of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kinds<T> {
    /// Reads of DRAM.
    pub dram_read: T,
    /// Writes of DRAM.
    pub dram_write: T,
    /// Reads of a slow tier.
    pub slow_read: T,
    /// Writes of a slow tier.
    pub slow_write: T,
}

/// Time of a tier that accesses use up, in picoseconds (NyxCache §3.3: 1 / MaxIOPS of the kind and size). A tier that is
/// used to its limit spends 10¹² of it per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cost(pub u64);

/// What is measured of a tenant's traffic over a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BandwidthSignal {
    /// Bytes per kind.
    pub bytes: Kinds<Bytes>,
    /// Accesses per kind.
    pub accesses: Kinds<u64>,
    /// True where bytes and accesses are estimated from samples, too coarse to hold a cap against (MT² §3.2.1).
    pub sampled: Kinds<bool>,
    /// Cost of the accesses to the tier that is divided.
    pub cost: Cost,
    /// Operations (requests) finished.
    pub operations: u64,
    /// Threads that made the accesses; a delay slows each of them.
    pub threads: u16,
    /// Mean latency of an operation.
    pub mean_latency: Option<Duration>,
    /// Latency at the goal's quantile, or at the 99th percentile without one.
    pub tail_latency: Option<Duration>,
    /// When the budget of the window ran out.
    pub depleted_at: Option<Instant>,
}

/// Cost granted per period; the brake enforces it inside the period and reports when it ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The cost.
    pub cost: Cost,
    /// The period.
    pub per: Duration,
}

/// How a tenant is held back: every lever at once, each free by default. Two throttles combine to the tighter of both,
/// lever by lever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    /// So many times 10 ns before each access to the slow tier.
    pub delay: u32,
    /// No access to the slow tier at all until the next decision.
    pub paused: bool,
    /// So much cost per period.
    pub budget: Option<Budget>,
    /// So many bytes per second of each kind.
    pub cap: Kinds<Option<BytesPerSec>>,
    /// Memory bandwidth allocation in percent, 100 is free.
    pub mba: u8,
    /// CPU time in thousandths of a core; none is free.
    pub cpu: Option<u32>,
}

impl Kind {
    /// All four, in the order of the fields of [`Kinds`].
    pub const ALL: [Self; 4] = [Self::DramRead, Self::DramWrite, Self::SlowRead, Self::SlowWrite];

    /// Whether it is traffic to a slow tier.
    #[must_use]
    pub const fn is_slow(self) -> bool {
        matches!(self, Self::SlowRead | Self::SlowWrite)
    }
}

impl<T> Kinds<T> {
    /// The value of each kind by `f`.
    pub fn from_fn(mut f: impl FnMut(Kind) -> T) -> Self {
        Self {
            dram_read: f(Kind::DramRead),
            dram_write: f(Kind::DramWrite),
            slow_read: f(Kind::SlowRead),
            slow_write: f(Kind::SlowWrite),
        }
    }

    /// The value of one kind.
    pub const fn get(&self, kind: Kind) -> &T {
        match kind {
            Kind::DramRead => &self.dram_read,
            Kind::DramWrite => &self.dram_write,
            Kind::SlowRead => &self.slow_read,
            Kind::SlowWrite => &self.slow_write,
        }
    }

    /// The value of one kind, to change.
    pub const fn get_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::DramRead => &mut self.dram_read,
            Kind::DramWrite => &mut self.dram_write,
            Kind::SlowRead => &mut self.slow_read,
            Kind::SlowWrite => &mut self.slow_write,
        }
    }

    /// Every kind with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &T)> {
        Kind::ALL.into_iter().map(|kind| (kind, self.get(kind)))
    }
}

impl<T: Copy> Kinds<T> {
    /// The same value for every kind.
    #[must_use]
    pub const fn splat(value: T) -> Self {
        Self { dram_read: value, dram_write: value, slow_read: value, slow_write: value }
    }
}

impl Cost {
    /// A second of the whole tier.
    pub const SECOND: Self = Self(1_000_000_000_000);

    /// What `self`, spent over `span`, is of the whole tier: 1 is all of it. Zero for an empty span.
    #[must_use]
    pub fn part_of(self, span: Duration) -> f64 {
        if span == Duration::ZERO { 0.0 } else { self.0 as f64 / (span.0 as f64 * 1e3) }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl BandwidthSignal {
    /// Bytes of all kinds.
    #[must_use]
    pub fn bytes_total(&self) -> Bytes {
        self.bytes.iter().map(|(_, bytes)| *bytes).sum()
    }

    /// Bytes to and from the slow tier.
    #[must_use]
    pub fn slow_bytes(&self) -> Bytes {
        self.bytes.slow_read + self.bytes.slow_write
    }
}

impl Throttle {
    /// Not held back.
    pub const FREE: Self = Self {
        delay: 0,
        paused: false,
        budget: None,
        cap: Kinds { dram_read: None, dram_write: None, slow_read: None, slow_write: None },
        mba: 100,
        cpu: None,
    };

    /// No access to the slow tier.
    pub const PAUSED: Self = Self { paused: true, ..Self::FREE };

    /// The tighter of both, lever by lever (the meet of the two). Budgets compare by what they grant per second.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let least = |a: Option<BytesPerSec>, b: Option<BytesPerSec>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let rate = |b: Budget| b.cost.part_of(b.per);
        Self {
            delay: self.delay.max(other.delay),
            paused: self.paused || other.paused,
            budget: match (self.budget, other.budget) {
                (Some(a), Some(b)) => Some(if rate(a) <= rate(b) { a } else { b }),
                (a, b) => a.or(b),
            },
            cap: Kinds::from_fn(|kind| least(*self.cap.get(kind), *other.cap.get(kind))),
            mba: self.mba.min(other.mba),
            cpu: match (self.cpu, other.cpu) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::FREE
    }
}

impl Measured for Throttle {
    /// Budgets sum; other levers have no law about their sum.
    fn amount(&self) -> Amount {
        let cost = self.budget.map_or(Cost(0), |b| {
            // Cost per second, in whole picoseconds: u128 holds any product of the two.
            let per_sec = u128::from(b.cost.0) * 1_000_000_000 / u128::from(b.per.0.max(1));
            Cost(u64::try_from(per_sec).unwrap_or(u64::MAX))
        });
        Amount { cost, ..Amount::default() }
    }

    fn divided(amount: Amount) -> Amount {
        Amount::tier_time(amount.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_of_two_throttles_is_the_tighter_of_each_lever() {
        let ms = Duration::from_millis;
        let a = Throttle {
            delay: 3,
            mba: 60,
            budget: Some(Budget { cost: Cost(10), per: ms(1) }),
            ..Throttle::FREE
        };
        let b = Throttle {
            delay: 1,
            cpu: Some(500),
            budget: Some(Budget { cost: Cost(50), per: ms(10) }),
            ..Throttle::FREE
        };
        let both = a.tighter(b);
        assert_eq!((both.delay, both.mba, both.cpu), (3, 60, Some(500)));
        assert_eq!(both.budget, b.budget, "5 per ms is tighter than 10 per ms");
        assert_eq!(both, b.tighter(a));
        assert_eq!(a.tighter(Throttle::FREE), a);
        assert!(a.tighter(Throttle::PAUSED).paused);
    }

    #[test]
    fn cost_is_a_part_of_the_tier() {
        assert!((Cost(500_000_000_000).part_of(Duration::from_secs(1)) - 0.5).abs() < 1e-12);
        assert!(Cost(1).part_of(Duration::ZERO).abs() < 1e-12);
        let budget = Throttle {
            budget: Some(Budget { cost: Cost(10), per: Duration::from_millis(1) }),
            ..Throttle::FREE
        };
        assert_eq!(budget.amount().cost, Cost(10_000));
    }
}
