//! What an emulated tier bears: as many threads as it takes, in virtual time, since a machine may have too few for real ones.
//!
//! Shape:      threads that access one after the other on the stations, each as fast as it can or at a pace -> accesses per second;
//!             of the most alone the best number of threads counts, of a pace the fewest that reach it
//! Source:     the machines that the presets stand for were measured with 1 to 24 threads (OptaneStudy)

use super::Competition;
use crate::SlowAccess;
use crate::emulated::{ROUND, Stations};
use crate::model::{MEDIA_UNIT, MemorySystem};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use units::{Bytes, Instant};

/// Numbers of threads that are tried.
const THREADS: [u64; 7] = [1, 2, 4, 6, 8, 16, 24];
/// Time until the stations are steady, and time that counts, in ns (measured: within a thousandth after 100 rounds).
const STEADY: u64 = 100 * ROUND.0;
const COUNTED: u64 = 25 * ROUND.0;
/// A second in ps.
const SECOND_PS: f64 = 1e12;

/// Threads that make the same accesses.
#[derive(Clone, Copy)]
struct Crew {
    access: SlowAccess,
    threads: u64,
    /// Accesses per second of all of them, at most.
    per_sec: f64,
}

/// One of them.
struct Thread {
    crew: usize,
    /// Shortest time between the beginnings of two accesses, in ps.
    pace_ps: u64,
}

/// The most accesses per second that any number of threads gets through.
pub(super) fn most_per_sec(system: MemorySystem, access: SlowAccess, size: Bytes) -> f64 {
    by_threads(system, access, size).into_iter().fold(0.0, f64::max)
}

/// How reads and writes slow each other, in accesses of the medium's unit as MT² made them.
pub(super) fn competition(system: MemorySystem) -> Competition {
    let size = Bytes(MEDIA_UNIT);
    let kinds = [SlowAccess::Read, SlowAccess::Write];
    let alone = kinds.map(|access| by_threads(system, access, size));
    let bytes = size.0 as f64;
    let found = Competition::measured(size, |wanted| {
        let crew = |kind: usize| {
            let per_sec = wanted[kind] / bytes;
            let most = alone[kind].iter().copied().fold(0.0, f64::max).min(per_sec);
            let enough = alone[kind].iter().position(|reached| most <= *reached).unwrap_or(THREADS.len() - 1);
            let threads = if 0.0 < per_sec { THREADS[enough] } else { 0 };
            Crew { access: kinds[kind], threads, per_sec }
        };
        Ok::<_, Infallible>(run(system, size, [crew(0), crew(1)]).map(|per_sec| per_sec * bytes))
    });
    found.unwrap_or_else(|never| match never {})
}

/// Accesses per second of each number of threads alone.
fn by_threads(system: MemorySystem, access: SlowAccess, size: Bytes) -> [f64; THREADS.len()] {
    THREADS.map(|threads| run(system, size, [Crew { access, threads, per_sec: f64::INFINITY }])[0])
}

/// Accesses per second of each crew, all at once.
fn run<const N: usize>(system: MemorySystem, size: Bytes, crews: [Crew; N]) -> [f64; N] {
    let stations = Stations::new(system);
    let mut threads = Vec::new();
    // Times in ps: short accesses of different threads stay apart.
    let mut next = BinaryHeap::new();
    for (at, crew) in crews.iter().enumerate() {
        let pace = SECOND_PS * crew.threads as f64 / crew.per_sec;
        for i in 0..crew.threads {
            let id = threads.len();
            threads.push(Thread { crew: at, pace_ps: whole(pace) });
            next.push(Reverse((id as u64 * 7_001 + whole(pace * i as f64 / crew.threads as f64), id)));
        }
    }
    let mut done = [0_u64; N];
    while let Some(Reverse((ps, id))) = next.pop() {
        let (now, Thread { crew, pace_ps }) = (Instant(ps / 1000), &threads[id]);
        if STEADY + COUNTED <= now.0 {
            break;
        }
        let held = stations.access(now, crews[*crew].access.into(), size).held_ns;
        done[*crew] += u64::from(STEADY <= now.0);
        next.push(Reverse((ps + whole(held * 1e3).max(*pace_ps).max(1), id)));
    }
    done.map(|done| done as f64 * 1e9 / COUNTED as f64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time that is not below zero")]
fn whole(ps: f64) -> u64 {
    ps as u64
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

    #[test]
    fn little_of_both_is_kept_and_all_of_both_is_not() {
        for system in [MemorySystem::nyx(), MemorySystem::mt2()] {
            let found = competition(system);
            assert_eq!((found.reads.len(), found.writes.len()), (5, 5), "{found:?}");
            assert_eq!(found, competition(system), "the same every time");
            let kept = |read, write| found.kept(read, write).map(|part| part.unwrap());
            assert!(kept(1, 1).iter().all(|part| 0.9 <= *part), "a quarter of both: {found:?}");
            let all = kept(4, 4);
            assert!(all[0] < 0.9 && all[1] < 0.9 && 0.9 < all[0] + all[1], "all of both: {all:?}");
            let lost = |of: &dyn Fn(usize) -> f64| (1..4).all(|i| of(i + 1) <= of(i) + 0.02);
            assert!(lost(&|write| kept(2, write)[0]), "reads lose with writes: {found:?}");
            assert!(lost(&|read| kept(read, 2)[1]), "writes lose with reads: {found:?}");
        }
    }
}
