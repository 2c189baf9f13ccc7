//! Server CPU time per request, ours beside the peers', with full caches.
//!
//! Shape:      per round and server: start -> fill with more keys than fit -> the workloads, each between two readings
//!             of the process's CPU time; servers alternate, and their order turns with the round
//! Invariants: every value is verified; a round in which a server evicted nothing, or ours moved nothing or spared a
//!             tenant from the fill on, fails the benchmark
//! Units:      microseconds of user and system time of the whole server process

use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::keys::{self, TENANTS};
use harness::live::{Asked, Figures, Kind, Load, Outcome, Peer};
use lab::workload::Zipf;
use std::io;
use units::{Bytes, Rng};

/// One kind of load.
struct Workload {
    name: &'static str,
    gets_percent: u64,
    depth: usize,
    connections: usize,
    requests: u64,
    /// Most that ours may take of memcached's time.
    goal: f64,
}

/// Requests: about two seconds of memcached's CPU time pipelined, one otherwise, against ticks of 10 ms.
const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "95% gets, 32 pipelined",
        gets_percent: 95,
        depth: 32,
        connections: 4,
        requests: 1_600_000,
        goal: 0.55,
    },
    Workload {
        name: "100% sets, 32 pipelined",
        gets_percent: 0,
        depth: 32,
        connections: 4,
        requests: 1_200_000,
        goal: 0.55,
    },
    Workload {
        name: "95% gets, one by one",
        gets_percent: 95,
        depth: 1,
        connections: 16,
        requests: 120_000,
        goal: 0.95,
    },
    Workload {
        name: "100% sets, one by one",
        gets_percent: 0,
        depth: 1,
        connections: 16,
        requests: 120_000,
        goal: 0.95,
    },
];
/// Keys per MiB of memory: ours holds about 14,500 items of this size per MiB, the others fewer.
pub(crate) const KEYS_PER_MIB: u32 = 20_000;
/// Requests between the fill and the first reading, so that popular keys are in.
const WARM_UP: u64 = 500_000;
/// Requests in a batch of the fill.
const FILL_DEPTH: usize = 64;
/// Connections of the fill.
pub(crate) const FILL_CONNECTIONS: usize = 4;

/// What one server did in one round.
struct Measured {
    micros: Vec<f64>,
    hit_ratios: Vec<f64>,
    evictions: Vec<u64>,
    refused: u64,
    bytes_per_item: f64,
    before: Figures,
    after: Figures,
}

/// Measures all rounds; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let memory = bench.memory;
    let mebibytes = u32::try_from(memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let zipf = Zipf::new(mebibytes.saturating_mul(KEYS_PER_MIB), bench.skew);
    let peers = bench.peers();
    let mut found: Vec<Vec<Measured>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.rounds {
        let order: Vec<usize> =
            if round % 2 == 0 { (0..peers.len()).collect() } else { (0..peers.len()).rev().collect() };
        for i in order {
            let (kind, program) = &peers[i];
            bench.say(&format!("round {} of {}: {}", round + 1, bench.rounds, kind.name()));
            let failed = |source| BenchError::Peer { peer: kind.name(), source };
            let peer = Peer::start(*kind, program, memory).map_err(failed)?;
            let measured = measure(bench, &peer, &zipf, round).map_err(failed)?;
            prove(bench, *kind, round, &measured);
            found[i].push(measured);
        }
    }
    add_rows(bench, &peers.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), &found);
    Ok(())
}

/// Every key once.
pub(crate) fn fill(load: &mut Load, keys: u32) -> io::Result<Outcome> {
    let mut numbers = 0..keys;
    load.run(FILL_DEPTH, || numbers.next().map(Asked::Set))
}

fn drive(load: &mut Load, zipf: &Zipf, rng: &mut Rng, w: &Workload, requests: u64) -> io::Result<Outcome> {
    let mut left = requests;
    load.run(w.depth, || {
        left = left.checked_sub(1)?;
        let number = keys::spread(zipf.draw(rng), zipf.keys());
        Some(if rng.below(100) < w.gets_percent { Asked::Get(number) } else { Asked::Set(number) })
    })
}

fn measure(bench: &Bench, peer: &Peer, zipf: &Zipf, round: u64) -> io::Result<Measured> {
    let mut rng = Rng::new(bench.seed ^ round);
    let mut refused = 0;
    {
        let mut load = peer.load(FILL_CONNECTIONS)?;
        refused += fill(&mut load, zipf.keys())?.refused;
        drive(&mut load, zipf, &mut rng, &WORKLOADS[1], WARM_UP / bench.less)?;
    }
    let before = peer.figures()?;
    let mut after = before.clone();
    let (mut micros, mut hit_ratios, mut evictions) = (Vec::new(), Vec::new(), Vec::new());
    for workload in &WORKLOADS {
        bench.say(&format!("  {}", workload.name));
        let mut load = peer.load(workload.connections)?;
        let started = peer.cpu_secs()?;
        let outcome = drive(&mut load, zipf, &mut rng, workload, workload.requests / bench.less)?;
        refused += outcome.refused;
        micros.push((peer.cpu_secs()? - started) * 1e6 / outcome.requests as f64);
        hit_ratios.push(outcome.hits as f64 / outcome.gets.max(1) as f64);
        let now = peer.figures()?;
        evictions.push(now.evictions - after.evictions);
        after = now;
    }
    let bytes_per_item = peer.resident()?.0 as f64 / after.items.max(1) as f64;
    Ok(Measured { micros, hit_ratios, evictions, refused, bytes_per_item, before, after })
}

/// The premises: full caches that evict, a cleaner that moves, no tenant spared.
fn prove(bench: &mut Bench, kind: Kind, round: u64, m: &Measured) {
    let of = format!("{}, round {}", kind.name(), round + 1);
    let by_workload = m.evictions.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    if 0 < m.refused {
        bench.say(&format!("{of}: refused {} sets, out of memory", m.refused));
    }
    let evicted = m.after.evictions - m.before.evictions;
    bench.premise(0 < evicted, &format!("{of}: {evicted} evictions while measured ({by_workload})"));
    if kind == Kind::Cotenant {
        let moved = m.after.moved_bytes - m.before.moved_bytes;
        bench.premise(0 < moved, &format!("{of}: the cleaner moved {} while measured", Bytes(moved)));
        // A tenant that the policy lets grow evicts nothing while it does, so the fill counts here.
        let each = &m.after.tenant_evictions;
        let every = each.len() == TENANTS as usize && each.iter().all(|n| 0 < *n);
        bench.premise(every, &format!("{of}: evictions of each tenant since the start {each:?}"));
    }
}

fn add_rows(bench: &mut Bench, kinds: &[Kind], found: &[Vec<Measured>]) {
    let all = |i: usize, pick: &dyn Fn(&Measured) -> f64| found[i].iter().map(pick).collect::<Vec<f64>>();
    let Some(ours) = kinds.iter().position(|kind| *kind == Kind::Cotenant) else { return };
    for (w, workload) in WORKLOADS.iter().enumerate() {
        for (i, kind) in kinds.iter().enumerate().filter(|(i, _)| *i != ours) {
            let goal = match kind {
                Kind::Redis if 1 < workload.depth => Goal::RatioAtMost(1.0),
                Kind::Redis => Goal::None("-"),
                _ => Goal::RatioAtMost(workload.goal),
            };
            let micros: &dyn Fn(&Measured) -> f64 = &|m| m.micros[w];
            bench.add(Row {
                measure: format!("server CPU per request, {}", workload.name),
                unit: "us",
                ours: all(ours, micros),
                peer: Some((kind.name(), all(i, micros))),
                goal,
            });
            if 0 < workload.gets_percent && 1 < workload.depth {
                let hits: &dyn Fn(&Measured) -> f64 = &|m| m.hit_ratios[w];
                bench.add(Row {
                    measure: format!("hit ratio, {}", workload.name),
                    unit: "of gets",
                    ours: all(ours, hits),
                    peer: Some((kind.name(), all(i, hits))),
                    goal: Goal::None("-"),
                });
            }
        }
    }
    for (i, kind) in kinds.iter().enumerate().filter(|(i, _)| *i != ours) {
        let bytes: &dyn Fn(&Measured) -> f64 = &|m| m.bytes_per_item;
        bench.add(Row {
            measure: "resident memory per item, cache full".to_owned(),
            unit: "B",
            ours: all(ours, bytes),
            peer: Some((kind.name(), all(i, bytes))),
            goal: Goal::None("-"),
        });
    }
}
