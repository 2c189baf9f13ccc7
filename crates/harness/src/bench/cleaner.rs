//! What cleaning costs our server, with a full cache: its part of the CPU time, with its limit and without one.
//!
//! Shape:      per round, with and without the limit: start -> fill with more keys than fit -> per load, requests until
//!             the passes have settled, then between two readings of the server's own figures
//! Invariants: a round in which nothing was cleaned while measured, or a tenant was spared, fails the benchmark
//! Units:      parts of the CPU time of the whole server process

use crate::speed::KEYS_PER_MIB;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::keys::{self, TENANTS};
use harness::live::{Asked, Cleaning, Kind, Load, Peer};
use lab::workload::Zipf;
use std::io;
use units::{Bytes, Rng};

/// One kind of load, and what cleaning may take of it.
struct Workload {
    name: &'static str,
    gets_percent: u64,
    depth: usize,
    connections: usize,
    requests: u64,
    goal: f64,
}

/// Pipelined, the server's own work is all there is; one by one, most of the time is the kernel's.
const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "5% writes, 32 pipelined",
        gets_percent: 95,
        depth: 32,
        connections: 4,
        requests: 10_000_000,
        goal: 0.05,
    },
    Workload {
        name: "20% writes, 32 pipelined",
        gets_percent: 80,
        depth: 32,
        connections: 4,
        requests: 8_000_000,
        goal: 0.05 + (0.12 - 0.05) * 0.15 / 0.95,
    },
    Workload {
        name: "100% writes, 32 pipelined",
        gets_percent: 0,
        depth: 32,
        connections: 4,
        requests: 4_000_000,
        goal: 0.12,
    },
    Workload {
        name: "100% writes, one by one",
        gets_percent: 0,
        depth: 1,
        connections: 16,
        requests: 400_000,
        goal: 0.12,
    },
];
/// The limit of the server, and one that is never reached: passes are as thorough as they can be then.
const LIMITS: [(&str, &str); 2] = [("limit", "--cleaner-cpu 0.05"), ("no limit", "--cleaner-cpu 1")];
/// Connections and depth of the fill.
const FILL: (usize, usize) = (4, 64);
/// Parts of a load's requests that it is given at most to settle, and those after which nothing may have changed.
const SETTLE_MAX: u32 = 12;
const SETTLED: u32 = 3;

/// What one load did.
struct Measured {
    share: f64,
    marks: f64,
    moved_per_write: f64,
    waits: f64,
    hit_ratio: f64,
}

/// Measures all rounds; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let Some(program) = Kind::Cotenant.program(bench.server()) else { return Ok(()) };
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let zipf = Zipf::new(mebibytes.saturating_mul(KEYS_PER_MIB), bench.skew);
    let mut found: [Vec<Vec<Measured>>; 2] = Default::default();
    for round in 0..bench.rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for i in order {
            let (name, option) = LIMITS[i];
            bench.say(&format!("round {} of {}: cleaning, {name}", round + 1, bench.rounds));
            let failed = |source| BenchError::Peer { peer: name, source };
            let peer = Peer::start_with(Kind::Cotenant, &program, bench.memory, option).map_err(failed)?;
            let measured = measure(bench, &peer, &zipf, round).map_err(failed)?;
            prove(bench, name, round, &measured, &peer.figures().map_err(failed)?.tenant_evictions);
            found[i].push(measured);
        }
    }
    add_rows(bench, &found);
    Ok(())
}

fn drive(load: &mut Load, zipf: &Zipf, rng: &mut Rng, w: &Workload, requests: u64) -> io::Result<f64> {
    let mut left = requests;
    let outcome = load.run(w.depth, || {
        left = left.checked_sub(1)?;
        let number = keys::spread(zipf.draw(rng), zipf.keys());
        Some(if rng.below(100) < w.gets_percent { Asked::Get(number) } else { Asked::Set(number) })
    })?;
    Ok(outcome.hits as f64 / outcome.gets.max(1) as f64)
}

fn measure(bench: &Bench, peer: &Peer, zipf: &Zipf, round: u64) -> io::Result<Vec<Measured>> {
    let mut rng = Rng::new(bench.seed ^ round);
    let mut numbers = 0..zipf.keys();
    peer.load(FILL.0)?.run(FILL.1, || numbers.next().map(Asked::Set))?;
    let mut all = Vec::new();
    for workload in &WORKLOADS {
        bench.say(&format!("  {}", workload.name));
        let mut load = peer.load(workload.connections)?;
        let requests = workload.requests / bench.less;
        settle(peer, || drive(&mut load, zipf, &mut rng, workload, requests / 4).map(drop))?;
        let (before, cpu) = (peer.cleaning()?, peer.cpu_secs()?);
        let hit_ratio = drive(&mut load, zipf, &mut rng, workload, requests)?;
        let (after, cpu) = (peer.cleaning()?, peer.cpu_secs()? - cpu);
        let writes = requests as f64 * (100 - workload.gets_percent) as f64 / 100.0;
        let measured = Measured {
            share: (after.cpu_secs - before.cpu_secs) / cpu.max(f64::MIN_POSITIVE),
            marks: after.marks,
            moved_per_write: (after.moved_bytes - before.moved_bytes) / writes,
            waits: (after.writer_waits - before.writer_waits) / writes * 1e6,
            hit_ratio,
        };
        let Measured { share, marks, moved_per_write, .. } = measured;
        bench.say(&format!(
            "    {share:.3} of the CPU time, {marks} thousandths marked, {moved_per_write:.0} B moved per write"
        ));
        all.push(measured);
    }
    Ok(all)
}

/// Sends requests until passes have marked the same for some time.
fn settle(peer: &Peer, mut drive: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let marks = |c: &Cleaning| c.marks;
    let (mut last, mut same) = (0.0, 0);
    for _ in 0..SETTLE_MAX {
        drive()?;
        let now = marks(&peer.cleaning()?);
        same = if (now - last).abs() < 0.5 { same + 1 } else { 0 };
        last = now;
        if SETTLED <= same {
            break;
        }
    }
    Ok(())
}

fn prove(bench: &mut Bench, name: &str, round: u64, all: &[Measured], evictions: &[u64]) {
    for (measured, workload) in all.iter().zip(&WORKLOADS) {
        let what = format!(
            "{name}, round {}, {}: the cleaner moved {:.1} B per write",
            round + 1,
            workload.name,
            measured.moved_per_write
        );
        bench.premise(0.0 < measured.moved_per_write, &what);
    }
    let every = evictions.len() == TENANTS as usize && evictions.iter().all(|n| 0 < *n);
    bench.premise(every, &format!("{name}, round {}: evictions of each tenant {evictions:?}", round + 1));
}

fn add_rows(bench: &mut Bench, found: &[Vec<Vec<Measured>>; 2]) {
    for (w, workload) in WORKLOADS.iter().enumerate() {
        type Pick = fn(&Measured) -> f64;
        let measures: [(&str, &'static str, Pick, Goal); 5] = [
            ("CPU time of cleaning", "of all", |m| m.share, Goal::AtMost(workload.goal)),
            ("marked to go", "thousandths", |m| m.marks, Goal::None("-")),
            ("bytes moved per write", "B", |m| m.moved_per_write, Goal::None("-")),
            ("writers that had to clean or wait, per million writes", "", |m| m.waits, Goal::None("-")),
            ("hit ratio", "of gets", |m| m.hit_ratio, Goal::None("-")),
        ];
        for (measure, unit, pick, goal) in measures {
            if measure == "hit ratio" && workload.gets_percent == 0 {
                continue;
            }
            let all = |i: usize| found[i].iter().map(|round| pick(&round[w])).collect::<Vec<f64>>();
            bench.add(Row {
                measure: format!("{measure}, {}", workload.name),
                unit,
                ours: all(0),
                peer: Some((LIMITS[1].0, all(1))),
                goal,
            });
        }
    }
}
