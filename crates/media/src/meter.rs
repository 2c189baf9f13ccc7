//! Counts accesses to tiers: per thread, per tenant and kind of traffic, summed lazily.
//!
//! Shape:      one `Meter` per thread and tenant; its owner adds, anybody reads
//! Invariants: counters only grow; only the owning thread writes
//! Units:      bytes; cost in picoseconds of the tier
//! Cost:       two loads and two stores without a lock prefix per access, three of each for a slow tier
//! Source:     NyxCache §3.3 (cost per access, kept per thread), MT² §3.2 (four kinds of traffic)

use crate::SlowAccess;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Bytes;

/// A kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read of DRAM.
    DramRead,
    /// Write of DRAM.
    DramWrite,
    /// Read of a slow tier.
    SlowRead,
    /// Write of a slow tier.
    SlowWrite,
}

impl Access {
    /// All four.
    pub const ALL: [Self; 4] = [Self::DramRead, Self::DramWrite, Self::SlowRead, Self::SlowWrite];

    /// Whether it is traffic to a slow tier.
    #[must_use]
    pub const fn is_slow(self) -> bool {
        matches!(self, Self::SlowRead | Self::SlowWrite)
    }
}

impl From<SlowAccess> for Access {
    fn from(access: SlowAccess) -> Self {
        match access {
            SlowAccess::Read => Self::SlowRead,
            SlowAccess::Write => Self::SlowWrite,
        }
    }
}

const KINDS: usize = 4;

/// What one kind of traffic amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Accesses.
    pub accesses: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Counters of one thread for one tenant.
#[derive(Debug, Default)]
pub struct Meter {
    accesses: [AtomicU64; KINDS],
    bytes: [AtomicU64; KINDS],
    cost_ps: AtomicU64,
}

/// Adds to a counter that only the calling thread writes.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Meter {
    /// Counts one access. Only the owning thread may call this; a second writer loses counts, nothing else.
    #[inline]
    pub fn count(&self, access: Access, size: Bytes) {
        let kind = access as usize;
        bump(&self.accesses[kind], 1);
        bump(&self.bytes[kind], size.0);
    }

    /// Counts one access to a slow tier and its cost, with the same condition.
    #[inline]
    pub fn count_slow(&self, access: SlowAccess, size: Bytes, cost_ps: u64) {
        self.count(access.into(), size);
        bump(&self.cost_ps, cost_ps);
    }

    /// Cost of all accesses to the slow tier so far, in ps.
    #[must_use]
    pub fn cost_ps(&self) -> u64 {
        self.cost_ps.load(Ordering::Relaxed)
    }

    /// What has been counted so far.
    #[must_use]
    pub fn read(&self, access: Access) -> Traffic {
        let kind = access as usize;
        Traffic {
            accesses: self.accesses[kind].load(Ordering::Relaxed),
            bytes: self.bytes[kind].load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart() {
        let meter = Meter::default();
        meter.count(Access::DramRead, Bytes(64));
        meter.count(Access::DramRead, Bytes(100));
        meter.count(Access::SlowWrite, Bytes(7));
        assert_eq!(meter.read(Access::DramRead), Traffic { accesses: 2, bytes: 164 });
        assert_eq!(meter.read(Access::SlowWrite), Traffic { accesses: 1, bytes: 7 });
        assert_eq!(meter.read(Access::DramWrite), Traffic::default());
        assert_eq!(meter.cost_ps(), 0);
        meter.count_slow(SlowAccess::Write, Bytes(64), 5);
        meter.count_slow(SlowAccess::Read, Bytes(64), 3);
        assert_eq!((meter.cost_ps(), meter.read(Access::SlowWrite).accesses), (8, 2));
    }
}
