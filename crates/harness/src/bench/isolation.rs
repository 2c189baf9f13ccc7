//! What a tenant notices of a neighbour that behaves worse and worse: its hit ratio and its p99, ours beside memcached's.
//!
//! Shape:      per attack and server: start -> fill with the neighbour's items, then the victim's -> per level, both at once
//!             for some seconds
//! Invariants: the victim's load is the same at every level and open, so that a server that stalls is charged for it; its
//!             values are verified; the cache is full before the first level
//! Units:      of look-ups; microseconds from the moment a look-up was due

mod aggressor;

use crate::chart::{Panel, render};
use crate::equal::failed;
use crate::table::{Goal, Row, median};
use crate::{Bench, BenchError, open_files};
use aggressor::{ATTACKS, Attack};
use harness::live::{Items, Kind, Pace, Peer, Plan, Popularity, Setup, Sizes};
use serde_json::json;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Bytes;

/// Memory of both servers.
const MEMORY: Bytes = Bytes::mib(32);
/// The victim, and its items: 7 to 12 MiB of them, a quarter to a third of the memory.
pub(super) const VICTIM: u32 = 0;
const ITEMS: u32 = 100_000;
/// Its look-ups per second; what misses is stored.
const RATE: f64 = 4_000.0;
const CONNECTIONS: u32 = 4;
/// Seconds of a level.
const SECS: f64 = 3.0;
/// Rounds at most: the medians are of so many.
const ROUNDS: u64 = 3;
/// Of ours: what is reserved for the victim.
const RESERVED: &str = "--tenant name=t0,prefix=t0:,reserved=10MiB";
/// Connections that the servers accept.
const ACCEPTED: &str = "-c 6000";
/// Those who are measured: a server, and whether it knows of a reservation.
const SERVERS: [(&str, Kind, &str); 3] = [
    ("cotenant, 10 MiB reserved", Kind::Cotenant, RESERVED),
    ("cotenant, nothing reserved", Kind::Cotenant, ""),
    ("memcached", Kind::Memcached, ""),
];

/// What the victim saw at one level.
#[derive(Clone, Copy, Debug)]
struct Seen {
    hit_ratio: f64,
    p99_us: f64,
    p999_us: f64,
    /// What the aggressor did per second.
    attacks: f64,
}

/// Measures; adds rows and draws.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let peers = bench.peers();
    let rounds = bench.rounds.min(ROUNDS);
    let mut panels = Vec::new();
    for attack in ATTACKS {
        let files = attack.files();
        // The servers inherit it.
        if !open_files::allow(files).map_err(|error| failed(Kind::Cotenant, error))? {
            println!("skipped: isolation: {}: {files} open files are not allowed (ulimit -n)", attack.name);
            continue;
        }
        let mut found: Vec<Vec<Vec<Seen>>> = vec![Vec::new(); SERVERS.len()];
        for round in 0..rounds {
            for (i, (name, kind, more)) in SERVERS.iter().enumerate() {
                let Some((_, program)) = peers.iter().find(|(k, _)| k == kind) else { continue };
                bench.say(&format!("isolation: {}, {name}, round {} of {rounds}", attack.name, round + 1));
                let levels =
                    measure(bench, *kind, program, more, attack, round).map_err(|e| failed(*kind, e))?;
                found[i].push(levels);
            }
        }
        tell(bench, attack, &found);
        panels.extend(draw(attack, &found));
    }
    if let Some(folder) = bench.plots() {
        let file = folder.join("isolation.svg");
        std::fs::write(&file, render(&panels, 2))
            .map_err(|source| BenchError::Write { file: file.display().to_string(), source })?;
    }
    Ok(())
}

fn measure(
    bench: &Bench,
    kind: Kind,
    program: &Path,
    more: &str,
    attack: &Attack,
    round: u64,
) -> io::Result<Vec<Seen>> {
    let setup = Setup { more: format!("{ACCEPTED} {more}"), ..Setup::new(kind, MEMORY) };
    let peer = Arc::new(Peer::start_as(kind, program, &setup)?);
    // Twice what fits, so that the neighbour has it all before the victim comes.
    let others =
        Arc::new(Items::of_tenant(aggressor::FILL, Sizes::Fixed(aggressor::VALUE), aggressor::TENANT));
    bench.load(&peer, &Plan::fill(others.count()), &others)?;
    let items = Arc::new(Items::of_tenant(ITEMS, Sizes::Fixed(crate::speed::VALUE), VICTIM));
    bench.load(&peer, &Plan::fill(ITEMS), &items)?;
    if peer.figures()?.evictions == 0 {
        return Err(io::Error::other("the cache is not full"));
    }
    let zipf = bench.zipf(ITEMS / CONNECTIONS);
    let mut levels = Vec::new();
    for (level, size) in (0_u64..).zip(attack.levels) {
        let stop = Arc::new(AtomicBool::new(false));
        let neighbour = {
            let (peer, stop, attack) = (Arc::clone(&peer), Arc::clone(&stop), *attack);
            std::thread::spawn(move || attack.run(&peer, size, level, SECS, &stop))
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "both are positive constants"
        )]
        let requests = (RATE * SECS) as u64;
        let plan = Plan {
            connections: CONNECTIONS,
            threads: 1,
            depth: 1,
            pace: Pace::Open(RATE),
            gets_percent: 100,
            look_aside: true,
            popularity: Popularity::Zipf(Arc::clone(&zipf)),
            requests,
            seed: bench.seed ^ round << 8 ^ level,
        };
        let heard = bench.load(&peer, &plan, &items);
        stop.store(true, Ordering::Relaxed);
        let done = neighbour.join().map_err(|_| io::Error::other("the aggressor has panicked"))??;
        let heard = heard?;
        if let Some(heard) = &done.heard {
            bench.refusals.borrow_mut().count(kind, heard);
        }
        let seen = Seen {
            hit_ratio: heard.hit_ratio(),
            p99_us: heard.latency.quantile_us(0.99),
            p999_us: heard.latency.quantile_us(0.999),
            attacks: done.per_sec(heard.secs),
        };
        bench.say(&format!(
            "  {size} {}: hit ratio {:.4}, p99 {:.0} us; the aggressor did {:.0} per second",
            attack.unit, seen.hit_ratio, seen.p99_us, seen.attacks
        ));
        levels.push(seen);
    }
    Ok(levels)
}

/// Medians over the rounds, level by level.
fn medians(rounds: &[Vec<Seen>], pick: fn(&Seen) -> f64) -> Vec<f64> {
    let levels = rounds.first().map_or(0, Vec::len);
    (0..levels)
        .map(|level| median(&rounds.iter().map(|round| pick(&round[level])).collect::<Vec<_>>()))
        .collect()
}

fn tell(bench: &mut Bench, attack: &Attack, found: &[Vec<Vec<Seen>>]) {
    for ((name, ..), rounds) in SERVERS.iter().zip(found) {
        bench.record(json!({
            "isolation": attack.name, "unit": attack.unit, "server": name, "levels": attack.levels,
            "hit_ratio": medians(rounds, |s| s.hit_ratio), "p99_us": medians(rounds, |s| s.p99_us),
            "p999_us": medians(rounds, |s| s.p999_us), "attacks_per_sec": medians(rounds, |s| s.attacks),
        }));
        for (level, attacks) in attack.levels.iter().zip(medians(rounds, |s| s.attacks)).skip(1) {
            bench.premise(
                0.0 < attacks,
                &format!("isolation, {name}: {level} {} were {attacks:.0} attacks per second", attack.unit),
            );
        }
    }
    let [ours, _, theirs] = found else { return };
    let Some(last) = attack.levels.len().checked_sub(1) else { return };
    let at = |rounds: &[Vec<Seen>], level: usize, pick: fn(&Seen) -> f64| {
        rounds.iter().map(|round| pick(&round[level])).collect::<Vec<f64>>()
    };
    type Pick = fn(&Seen) -> f64;
    let picks: [(&str, &'static str, Pick); 2] =
        [("hit ratio", "of gets", |s| s.hit_ratio), ("p99", "us", |s| s.p99_us)];
    for (what, unit, pick) in picks {
        for (level, when) in
            [(0, "alone".to_owned()), (last, format!("{} {}", attack.levels[last], attack.unit))]
        {
            bench.add(Row {
                measure: format!("victim's {what}, {}: {when}", attack.name),
                unit,
                ours: at(ours, level, pick),
                peer: Some((Kind::Memcached.name(), at(theirs, level, pick))),
                goal: Goal::None("-"),
            });
        }
    }
}

fn draw(attack: &Attack, found: &[Vec<Vec<Seen>>]) -> [Panel; 2] {
    let panel = |y: &str, pick: fn(&Seen) -> f64| Panel {
        title: attack.name.to_owned(),
        x: attack.unit.to_owned(),
        y: y.to_owned(),
        places: attack.levels.iter().map(|level| level.to_string()).collect(),
        lines: SERVERS
            .iter()
            .zip(found)
            .map(|((name, ..), rounds)| ((*name).to_owned(), medians(rounds, pick)))
            .collect(),
    };
    [panel("victim's hit ratio", |s| s.hit_ratio), panel("victim's p99, us", |s| s.p99_us)]
}
