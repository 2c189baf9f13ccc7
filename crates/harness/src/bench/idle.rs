//! What idle connections cost: resident memory of a server with many of them, over that with none.
//!
//! Shape:      start -> resident -> connections that each store and look up one item and then rest -> resident again
//! Invariants: every connection is answered before it rests, so that buffers were needed once
//! Non-goals:  what the kernel holds for a socket, which no server can change

use crate::equal::failed;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError, open_files};
use harness::live::{Asked, Kind, Load, Peer, Setup};
use std::io;
use std::path::Path;
use std::time::Duration;
use units::Bytes;

/// Connections of the goal.
const CONNECTIONS: usize = 10_000;
/// Connections beside them, and descriptors that a process has otherwise.
const BESIDE: usize = 200;
/// Most bytes of all of them together.
const GOAL: f64 = 10.0;
/// Memory of the servers: Redis counts the connections' buffers in it.
const MEMORY: Bytes = Bytes::mib(256);
/// Time in which a server may give back what a connection no longer needs.
const REST: Duration = Duration::from_secs(2);

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let wanted = CONNECTIONS + BESIDE;
    // The servers inherit it.
    if !open_files::allow(wanted as u64).map_err(|error| failed(Kind::Cotenant, error))? {
        println!("skipped: idle connections: {wanted} open files are not allowed (ulimit -n)");
        return Ok(());
    }
    let mut found = Vec::new();
    for (kind, program) in bench.peers() {
        bench.say(&format!("idle connections: {}", kind.name()));
        let mebibytes = measure(kind, &program, wanted).map_err(|error| failed(kind, error))?;
        found.push((kind, mebibytes));
    }
    let Some((_, ours)) = found.iter().find(|(kind, _)| *kind == Kind::Cotenant) else { return Ok(()) };
    for (kind, theirs) in found.iter().filter(|(kind, _)| *kind != Kind::Cotenant) {
        bench.add(Row {
            measure: "resident memory of 10,000 idle connections".to_owned(),
            unit: "MB",
            ours: vec![*ours],
            peer: Some((kind.name(), vec![*theirs])),
            goal: Goal::AtMost(GOAL),
        });
    }
    Ok(())
}

/// Megabytes that the connections cost.
fn measure(kind: Kind, program: &Path, most: usize) -> io::Result<f64> {
    let more = match kind {
        Kind::Redis => format!("--maxmemory-policy allkeys-lru --maxclients {}", most - 100),
        _ => format!("-c {}", most - 100),
    };
    let peer = Peer::start_as(kind, program, &Setup { more, ..Setup::new(kind, MEMORY) })?;
    let mut first = peer.load(1)?;
    touch(&mut first, 1)?;
    let before = peer.resident()?;
    let mut idle = peer.load(CONNECTIONS)?;
    touch(&mut idle, CONNECTIONS)?;
    std::thread::sleep(REST);
    let after = peer.resident()?;
    // They are still served.
    touch(&mut idle, CONNECTIONS)?;
    Ok(after.saturating_sub(before).0 as f64 / 1e6)
}

/// One store and one look-up on every connection.
fn touch(load: &mut Load, connections: usize) -> io::Result<()> {
    let mut number = 0;
    let outcome = load.run(2, || {
        number += 1;
        (number <= connections * 2).then_some(if number % 2 == 1 { Asked::Set(7) } else { Asked::Get(7) })
    })?;
    if outcome.gets < connections as u64 {
        return Err(io::Error::other(format!("{} of {connections} connections were served", outcome.gets)));
    }
    Ok(())
}
