//! Server CPU time per request on io_uring beside epoll, the same server otherwise.
//!
//! Shape:      both engines run at once, full; each load goes to one and then the other, and who is first turns
//! Invariants: every value is verified; a server that does not run the engine it was asked for ends the benchmark

use crate::equal::failed;
use crate::speed::{KEYS_PER_MIB, VALUE, fill};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::{Items, Kind, Pace, Peer, Plan, Popularity, Setup, Sizes};
use server::memcache::client::Client;
use std::io;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// io_uring is measured against epoll.
const ENGINES: [&str; 2] = ["io_uring", "epoll"];
/// Connections, requests sent together, requests.
const LOADS: [(u32, u32, u64); 4] =
    [(16, 1, 200_000), (64, 1, 200_000), (256, 1, 200_000), (64, 16, 1_600_000)];

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let Some((kind, program)) = bench.peers().into_iter().find(|(kind, _)| *kind == Kind::Cotenant) else {
        return Ok(());
    };
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let keys = mebibytes.saturating_mul(KEYS_PER_MIB);
    let servers: Vec<(Peer, Arc<Items>)> = ENGINES
        .iter()
        .map(|engine| start(bench, &program, engine, keys))
        .collect::<io::Result<_>>()
        .map_err(|e| failed(kind, e))?;
    for gets_percent in [95, 0] {
        for (connections, depth, requests) in LOADS {
            let mut micros: [Vec<f64>; 2] = Default::default();
            for round in 0..bench.rounds {
                for turn in 0..ENGINES.len() as u64 {
                    let i = usize::from(!(turn + round).is_multiple_of(2));
                    let (peer, items) = &servers[i];
                    let plan = Plan {
                        connections,
                        threads: 1,
                        depth,
                        pace: Pace::Closed,
                        gets_percent,
                        look_aside: false,
                        popularity: Popularity::Zipf(bench.zipf(items.count() / connections)),
                        requests: requests / bench.less,
                        seed: bench.seed ^ round,
                    };
                    micros[i].push(cost(bench, peer, &plan, items).map_err(|e| failed(kind, e))?);
                }
            }
            bench.say(&format!("engines: {connections} connections, depth {depth}: {micros:.2?}"));
            let [ours, theirs] = micros;
            bench.add(Row {
                measure: format!(
                    "io_uring: server CPU per request, {gets_percent}% gets, {connections} connections, depth {depth}"
                ),
                unit: "us",
                ours,
                peer: Some((ENGINES[1], theirs)),
                goal: Goal::None("-"),
            });
        }
    }
    Ok(())
}

/// A server on `engine`, full. Its items belong to it: versions are told apart.
fn start(bench: &Bench, program: &Path, engine: &str, keys: u32) -> io::Result<(Peer, Arc<Items>)> {
    let more = format!("--io-engine {engine}");
    let setup = Setup { more, ..Setup::new(Kind::Cotenant, bench.memory) };
    let peer = Peer::start_as(Kind::Cotenant, program, &setup)?;
    let in_force = Client::connect(peer.address())?.stat("stats settings", "io_engine")?;
    if in_force.as_deref() != Some(engine) {
        return Err(io::Error::other(format!("{engine} is not to be had here")));
    }
    let items = Arc::new(Items::new(keys, Sizes::Fixed(VALUE)));
    fill(bench, &peer, &items)?;
    Ok((peer, items))
}

/// Microseconds of the server's CPU time per request.
fn cost(bench: &Bench, peer: &Peer, plan: &Plan, items: &Arc<Items>) -> io::Result<f64> {
    let started = peer.cpu_secs()?;
    let heard = bench.load(peer, plan, items)?;
    Ok((peer.cpu_secs()? - started) * 1e6 / heard.requests.max(1) as f64)
}
