//! Resident memory per item, everything that the process holds included.
//!
//! Shape:      start with more memory than needed -> store distinct items -> resident bytes ÷ items
//! Invariants: a server that evicted, or holds another number of items, fails the benchmark

use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::{Asked, Kind, Peer, keys};
use std::io;
use units::Bytes;

/// Memory that holds all items of any server here.
const MEMORY: Bytes = Bytes::mib(2048);
/// Items, and whether the goal is for so many; a quick run has the first two.
const ITEMS: [(u32, bool); 4] =
    [(1_000_000, false), (2_000_000, true), (5_000_000, true), (10_000_000, true)];
const QUICK: usize = 2;
/// Most bytes of resident memory per item.
const GOAL: f64 = 74.0;
/// Requests in a batch.
const DEPTH: usize = 64;

/// Measures; adds rows. One round is enough: nothing here depends on what else the machine does.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let peers = bench.peers();
    let sizes = if bench.is_quick() { &ITEMS[..QUICK] } else { &ITEMS[..] };
    let mut found: Vec<(Kind, Vec<f64>)> = Vec::new();
    for (kind, program) in &peers {
        bench.say(&format!("resident memory: {}", kind.name()));
        let failed = |source| BenchError::Peer { peer: kind.name(), source };
        let peer = Peer::start(*kind, program, MEMORY).map_err(failed)?;
        let mut filled = 0;
        let mut bytes = Vec::new();
        for (items, _) in sizes {
            let resident = fill(&peer, filled, *items).map_err(failed)?;
            let figures = peer.figures().map_err(failed)?;
            let all_there = figures.items == u64::from(*items) && figures.evictions == 0;
            let (name, held, evicted) = (kind.name(), figures.items, figures.evictions);
            bench.premise(
                all_there,
                &format!("{name}: {held} items, {evicted} evictions, {resident} resident"),
            );
            bytes.push(resident.0 as f64 / f64::from(*items));
            filled = *items;
        }
        found.push((*kind, bytes));
    }
    let Some((_, ours)) = found.iter().find(|(kind, _)| *kind == Kind::Cotenant) else { return Ok(()) };
    for (i, (items, judged)) in sizes.iter().enumerate() {
        for (kind, theirs) in found.iter().filter(|(kind, _)| *kind != Kind::Cotenant) {
            bench.add(Row {
                measure: format!("resident memory per item, {} M items", items / 1_000_000),
                unit: "B",
                ours: vec![ours[i]],
                peer: Some((kind.name(), vec![theirs[i]])),
                goal: if *judged { Goal::AtMost(GOAL) } else { Goal::None("-") },
            });
        }
    }
    Ok(())
}

/// Stores items `from..to`, each once, looks at some of them, and says how much memory is resident.
fn fill(peer: &Peer, from: u32, to: u32) -> io::Result<Bytes> {
    let mut load = peer.load(4)?;
    let mut numbers = from..to;
    load.run(DEPTH, || numbers.next().map(Asked::Set))?;
    let mut some = (0..to).step_by(97);
    let outcome = load.run(DEPTH, || some.next().map(Asked::Get))?;
    if outcome.hits < outcome.gets {
        return Err(io::Error::other(format!("{} of {} items are there", outcome.hits, outcome.gets)));
    }
    peer.resident()
}

/// The length of an item here, for the table's readers.
pub(crate) const ITEM: usize = keys::KEY + keys::VALUE;
