//! Bandwidth as a thing divided: kinds of traffic, signals and throttles.
//!
//! Source: NyxCache §4 (cost, slowdown), MT² §3 (four kinds of traffic, levers)

use crate::claim::Amount;
use crate::shares::Measured;
use units::{Bytes, BytesPerSec, Duration, Instant};

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

/// What one access costs a tier, in millionths of a second of the tier's time (NyxCache §4.1: 1 / MaxIOPS).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cost(pub u64);

/// What is measured of a tenant's traffic over a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BandwidthSignal {
    /// Bytes per kind.
    pub bytes: Kinds<Bytes>,
    /// Accesses per kind.
    pub accesses: Kinds<u64>,
    /// Cost of the accesses.
    pub cost: Cost,
    /// Requests finished.
    pub requests: u64,
    /// Time alone over time shared, where a probe has measured it.
    pub slowdown: Option<f64>,
    /// Latency at the goal's quantile.
    pub latency: Option<Duration>,
    /// When the budget of the window ran out.
    pub depleted_at: Option<Instant>,
}

/// How a tenant is held back.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Throttle {
    /// Not at all.
    #[default]
    Free,
    /// So many times 10 ns before each access.
    Delay(u16),
    /// No access at all until the next decision.
    Pause,
    /// So much cost per period; the brake enforces it inside the period and reports when it ran out.
    Budget {
        /// Cost granted per period.
        cost: Cost,
        /// The period.
        per: Duration,
    },
    /// So many bytes per second of each kind.
    Cap(Kinds<Option<BytesPerSec>>),
    /// The host's levers: memory bandwidth allocation in percent, CPU time in thousandths of one core.
    Host {
        /// Percent, 100 is free.
        mba: u8,
        /// Thousandths of a core; none is free.
        cpu: Option<u32>,
    },
}

impl Measured for Throttle {
    fn amount(&self) -> Amount {
        Amount::default()
    }
}
