//! Misses of the mixed trace over TCP, ours beside memcached at no more resident memory.
//!
//! Shape:      per size: memcached with that `-m`, its peak resident memory; ours, with its defaults, with the `-m` that
//!             stays at or below it; the whole trace through both, one after the other
//! Invariants: ours never had more memory resident than memcached had in the same run, else the benchmark fails
//! Units:      misses in parts of look-ups; resident memory in MiB
//! Failure:    without the trace the section is skipped and says so

use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::Report;
use harness::live::{Kind, Peer};
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use std::io;
use std::path::Path;
use units::Bytes;

/// Memory of memcached, and the most of its misses that ours may have: half of the way from an exact GDSF to an offline rule.
const SIZES: [(Bytes, f64); 3] = [(Bytes::mib(128), 0.62), (Bytes::mib(256), 0.62), (Bytes::mib(512), 0.65)];
/// Of these a quick run takes the one in the middle.
const QUICK: std::ops::Range<usize> = 1..2;
/// Values of up to 1 MiB with key and header: memcached holds them from here on.
const MEMCACHED_ITEM_MAX: &str = "-I 2m";
/// Our default, where other sections have `shared`.
const OUR_POLICY: &str = "--policy pooled";
/// What a server of ours has resident beside its `-m` at first: the program, stacks, buffers (measured: 7 to 13 MiB).
const BESIDE: Bytes = Bytes::mib(12);
/// How often ours is started with another memory.
const TRIES: u32 = 5;
/// So much less resident than memcached is as near as it has to be.
const CLOSE: Bytes = Bytes::mib(2);
/// The trace.
const TRACE: &str = "mix-dev";

/// One server's run.
struct Run {
    report: Report,
    resident: Bytes,
}

/// Measures; adds rows. One round: the trace is long and fixed, and the servers' choices move a ratio by less than .01.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let Some(trace) = bench.trace(TRACE) else { return Ok(()) };
    let peers = bench.peers();
    let program = |kind: Kind| peers.iter().find(|(k, _)| *k == kind).map(|(_, program)| program.as_path());
    let (Some(ours), Some(theirs)) = (program(Kind::Cotenant), program(Kind::Memcached)) else {
        return Ok(());
    };
    let sizes = if bench.is_quick() { &SIZES[QUICK] } else { &SIZES[..] };
    for (memory, goal) in sizes {
        let memcached = replay(bench, (Kind::Memcached, theirs, MEMCACHED_ITEM_MAX), *memory, &trace)?;
        let cotenant = at_most(bench, ours, memcached.resident, &trace)?;
        tell(bench, (*memory, *goal), &cotenant, &memcached);
    }
    Ok(())
}

/// Ours with the most memory that keeps it at or below `resident`.
fn at_most(bench: &Bench, program: &Path, resident: Bytes, trace: &Path) -> Result<Run, BenchError> {
    let mut memory = Bytes::mib(resident.saturating_sub(BESIDE).count_of(Bytes::mib(1)));
    let (mut best, mut tries) = (None, 0);
    loop {
        tries += 1;
        let run = replay(bench, (Kind::Cotenant, program, OUR_POLICY), memory, trace)?;
        let (beyond, spare) = (run.resident.saturating_sub(resident), resident.saturating_sub(run.resident));
        let is_last = TRIES <= tries;
        if beyond == Bytes::ZERO {
            if is_last || spare < CLOSE {
                return Ok(run);
            }
            memory += Bytes::mib(spare.count_of(Bytes::mib(1)) - 1);
            best = Some(run);
        } else {
            if is_last || best.is_some() {
                return Ok(best.unwrap_or(run));
            }
            memory = memory.saturating_sub(Bytes::mib(beyond.count_of(Bytes::mib(1)) + 1));
        }
    }
}

/// The whole trace through one server.
fn replay(
    bench: &Bench,
    (kind, program, more): (Kind, &Path, &str),
    memory: Bytes,
    trace: &Path,
) -> Result<Run, BenchError> {
    bench.say(&format!("misses: {} with -m {memory} {more}", kind.name()));
    let failed = |source| BenchError::Peer { peer: kind.name(), source };
    let peer = Peer::start_with(kind, program, memory, more).map_err(failed)?;
    let mut reader = lab::open(trace, None).map_err(|e| failed(io::Error::other(e)))?;
    let (options, server) = (ReplayOptions::default(), peer.address().to_string());
    let report = over_tcp(&options, &server, &mut [&mut reader], &mut |_| {}, None)
        .map_err(|e| failed(io::Error::other(e)))?;
    let resident = peer.peak_resident().map_err(failed)?;
    bench.say(&format!("  misses {:.4}, peak resident {resident}", 1.0 - report.hit_ratio()));
    Ok(Run { report, resident })
}

fn tell(bench: &mut Bench, (memory, goal): (Bytes, f64), ours: &Run, theirs: &Run) {
    let misses = |run: &Run| vec![1.0 - run.report.hit_ratio()];
    bench.add(Row {
        measure: format!("misses on mix-dev, memcached -m {memory}"),
        unit: "of gets",
        ours: misses(ours),
        peer: Some((Kind::Memcached.name(), misses(theirs))),
        goal: Goal::RatioAtMost(goal),
    });
    let mebibytes = |run: &Run| vec![run.resident.0 as f64 / Bytes::mib(1).0 as f64];
    bench.add(Row {
        measure: format!("peak resident memory in that run, memcached -m {memory}"),
        unit: "MiB",
        ours: mebibytes(ours),
        peer: Some((Kind::Memcached.name(), mebibytes(theirs))),
        goal: Goal::None("-"),
    });
    let (most, peak) = (theirs.resident, ours.resident);
    bench.premise(peak <= most, &format!("misses, {memory}: ours had {peak} resident, memcached {most}"));
    let evicted = |run: &Run| run.report.evictions.unwrap_or(0);
    let (o, t) = (evicted(ours), evicted(theirs));
    bench.premise(0 < o && 0 < t, &format!("misses, {memory}: ours evicted {o} items, memcached {t}"));
    bench.premise(
        ours.report.gets == theirs.report.gets && 0 < ours.report.gets,
        &format!("misses, {memory}: {} look-ups of both", ours.report.gets),
    );
}
