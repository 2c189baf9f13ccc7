//! Throughput and CPU time per request with more threads, ours beside memcached's.
//!
//! Shape:      threads 1, 2, 4, … up to half of the cores; as many threads of the client
//! Invariants: every value is verified; nothing is measured where client and server would share cores

use crate::equal::failed;
use crate::speed::{KEYS_PER_MIB, VALUE, fill};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::{Heard, Items, Kind, Pace, Peer, Plan, Popularity, Setup, Sizes};
use std::io;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// Fewer cores say nothing.
const CORES_MIN: usize = 4;
/// Requests per thread.
const REQUESTS: u64 = 2_000_000;

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < CORES_MIN {
        println!("skipped: scaling: {cores} cores are allowed, {CORES_MIN} are needed");
        return Ok(());
    }
    let most = u32::try_from(cores / 2).unwrap_or(u32::MAX);
    let peers: Vec<_> = bench.peers().into_iter().filter(|(kind, _)| *kind != Kind::Redis).collect();
    let threads: Vec<u32> = (0..u32::BITS).map(|power| 1 << power).take_while(|n| *n <= most).collect();
    for count in threads {
        let mut found: Vec<Vec<(f64, f64)>> = vec![Vec::new(); peers.len()];
        for round in 0..bench.rounds {
            for (i, (kind, program)) in peers.iter().enumerate() {
                bench.say(&format!("scaling: {} with {count} threads", kind.name()));
                let (heard, micros) =
                    measure(bench, *kind, program, count, round).map_err(|e| failed(*kind, e))?;
                found[i].push((heard.throughput() / 1e3, micros));
            }
        }
        let (Some(ours), Some(theirs)) = (found.first(), found.get(1)) else { return Ok(()) };
        type Pick = fn(&(f64, f64)) -> f64;
        let picks: [(&str, &'static str, Pick); 2] =
            [("throughput", "1000/s", |m| m.0), ("server CPU per request", "us", |m| m.1)];
        let rows = picks.map(|(what, unit, pick)| Row {
            measure: format!("{what}, {count} threads, 95% gets, 32 pipelined"),
            unit,
            ours: ours.iter().map(pick).collect(),
            peer: Some((Kind::Memcached.name(), theirs.iter().map(pick).collect())),
            goal: Goal::None("-"),
        });
        rows.into_iter().for_each(|row| bench.add(row));
    }
    Ok(())
}

fn measure(bench: &Bench, kind: Kind, program: &Path, threads: u32, round: u64) -> io::Result<(Heard, f64)> {
    let peer = Peer::start_as(kind, program, &Setup { threads, ..Setup::new(kind, bench.memory) })?;
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let items = Arc::new(Items::new(mebibytes.saturating_mul(KEYS_PER_MIB), Sizes::Fixed(VALUE)));
    fill(bench, &peer, &items)?;
    let connections = 4 * threads;
    let plan = Plan {
        connections,
        threads,
        depth: 32,
        pace: Pace::Closed,
        gets_percent: 95,
        look_aside: false,
        popularity: Popularity::Zipf(bench.zipf(items.count() / connections)),
        requests: REQUESTS * u64::from(threads) / bench.less,
        seed: bench.seed ^ round,
    };
    let cpu = peer.cpu_secs()?;
    let heard = bench.load(&peer, &plan, &items)?;
    let micros = (peer.cpu_secs()? - cpu) * 1e6 / heard.requests.max(1) as f64;
    Ok((heard, micros))
}
