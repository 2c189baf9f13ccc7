//! MaxIOPS of an emulated tier: as many threads as it takes, in virtual time, since a machine may have too few for real ones.
//!
//! Shape:      threads that access one after the other on the stations -> accesses per second, the best number of threads counts
//! Source:     the machines that the presets stand for were measured with 1 to 24 threads (OptaneStudy)

use crate::SlowAccess;
use crate::emulated::{ROUND, Stations};
use crate::model::MemorySystem;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Instant};

/// Numbers of threads that are tried.
const THREADS: [u64; 7] = [1, 2, 4, 6, 8, 16, 24];
/// Time until the stations are steady, and time that counts, in ns (measured: within a thousandth after 100 rounds).
const STEADY: u64 = 100 * ROUND.0;
const COUNTED: u64 = 25 * ROUND.0;

/// The most accesses per second that any number of threads gets through.
pub(super) fn most_per_sec(system: MemorySystem, access: SlowAccess, size: Bytes) -> f64 {
    THREADS.into_iter().map(|threads| per_sec(system, access, size, threads)).fold(0.0, f64::max)
}

fn per_sec(system: MemorySystem, access: SlowAccess, size: Bytes, threads: u64) -> f64 {
    let stations = Stations::new(system);
    // Times in ps: short accesses of different threads stay apart.
    let mut next: BinaryHeap<_> = (0..threads).map(|thread| Reverse((thread * 7_001, thread))).collect();
    let mut done = 0_u64;
    while let Some(Reverse((ps, thread))) = next.pop() {
        let now = Instant(ps / 1000);
        if STEADY + COUNTED <= now.0 {
            break;
        }
        let held = stations.access(now, access.into(), size).held_ns;
        done += u64::from(STEADY <= now.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
        let held_ps = (held * 1e3) as u64;
        next.push(Reverse((ps + held_ps.max(1), thread)));
    }
    done as f64 * 1e9 / COUNTED as f64
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::Access;

    #[test]
    fn it_is_near_what_the_medium_bears() {
        let system = MemorySystem::nyx();
        for size in [64, 256, 4096] {
            let ours = most_per_sec(system, SlowAccess::Read, Bytes(size));
            let limit = system.max_iops(Access::SlowRead, Bytes(size)).unwrap();
            assert!((0.9..=1.01).contains(&(ours / limit)), "{size} B: {ours} of {limit} reads");
        }
        let published = 3.0e6;
        let ours = most_per_sec(system, SlowAccess::Read, Bytes(4096));
        assert!((ours / published - 1.0).abs() <= 0.10, "loads of 4 KB: {ours}");
    }

    #[test]
    fn writes_cost_more_than_reads_and_a_line_what_a_unit_does() {
        let most = |access, size| most_per_sec(MemorySystem::mt2(), access, Bytes(size));
        let (line, unit) = (most(SlowAccess::Write, 64), most(SlowAccess::Write, 256));
        assert!((line / unit - 1.0).abs() < 0.15, "{line} {unit}");
        assert!(most(SlowAccess::Write, 320) * 1.5 < unit);
        assert!(unit * 2.0 < most(SlowAccess::Read, 256));
    }
}
