//! Counts accesses to a medium: per thread, per tenant and direction, summed lazily.
//!
//! Shape:      one `Meter` per thread, tenant and medium; its owner adds, anybody reads
//! Invariants: counters only grow; only the owning thread writes
//! Units:      bytes
//! Cost:       two additions to memory without a lock prefix per access
//! Source:     NyxCache §3.3 (kept per thread), MT² §3.2 (four kinds of traffic)
//! Non-goals:  what accesses to a slow tier cost: the store counts that by its records (`store/src/tier/traffic.rs`)

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

/// What one direction of traffic amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Accesses.
    pub accesses: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Counters of one thread for one tenant at one medium.
#[derive(Debug, Default)]
pub struct Meter {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
}

/// Adds to a counter that only the calling thread writes.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Meter {
    /// Counts one read. Only the owning thread may count; a second writer loses counts, nothing else.
    #[inline]
    pub fn count_read(&self, size: Bytes) {
        bump(&self.reads, 1);
        bump(&self.read_bytes, size.0);
    }

    /// Counts one write, with the same condition.
    #[inline]
    pub fn count_write(&self, size: Bytes) {
        bump(&self.writes, 1);
        bump(&self.written_bytes, size.0);
    }

    /// What was read so far.
    #[must_use]
    pub fn read(&self) -> Traffic {
        traffic(&self.reads, &self.read_bytes)
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Traffic {
        traffic(&self.writes, &self.written_bytes)
    }
}

fn traffic(accesses: &AtomicU64, bytes: &AtomicU64) -> Traffic {
    Traffic { accesses: accesses.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_counted_apart() {
        let meter = Meter::default();
        meter.count_read(Bytes(64));
        meter.count_read(Bytes(100));
        meter.count_write(Bytes(7));
        assert_eq!(meter.read(), Traffic { accesses: 2, bytes: 164 });
        assert_eq!(meter.written(), Traffic { accesses: 1, bytes: 7 });
    }
}
