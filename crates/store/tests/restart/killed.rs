//! A process that is killed at any moment.

use crate::load::{Folder, KEYS, Known, Server, TIER, WALL, start};
use media::FileTier;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use store::{Fields, Placement};
use units::Rng;

/// Names the file of the tier to a process that is to be killed.
const CHILD: &str = "COTENANT_TEST_TIER";
/// How often it is killed; more by this variable.
const ROUNDS: &str = "COTENANT_TEST_KILLS";

/// What the process that is to be killed does: says what it is going to do, does it, says that it did.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let seed: u64 = std::env::var(ROUNDS).unwrap().parse().unwrap();
    let device = Arc::new(FileTier::open(Path::new(&path), TIER).unwrap());
    let mut server = start(device, None, WALL + seed, Placement::Tier(0));
    let mut out = std::io::stdout().lock();
    for step in steps(seed) {
        tell_and_take(&mut out, &mut server, step, || true);
    }
}

/// Keys and versions without end; version 0 is a delete.
pub(crate) fn steps(seed: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut rng = Rng::new(seed);
    (1..).map(move |turn| {
        let key = rng.below(KEYS);
        (key, if rng.below(5) == 0 { 0 } else { (seed << 32) + turn })
    })
}

/// Says what is going to be done, does it if it may, says that it was done. Returns whether it was.
pub(crate) fn tell_and_take(
    out: &mut impl Write,
    server: &mut Server,
    (key, version): (u64, u64),
    may: impl FnOnce() -> bool,
) -> bool {
    writeln!(out, "\n> {key} {version}").unwrap();
    if !may() {
        return false;
    }
    match version {
        0 => server.delete(key),
        _ => server.set(key, version, Fields::default()),
    }
    writeln!(out, "\n< {key} {version}").unwrap();
    true
}

#[test]
fn killed_at_any_moment_nothing_stale_or_wrong_is_served() {
    if std::env::var(CHILD).is_ok() {
        return;
    }
    let folder = Folder::new("killed");
    let rounds: u64 = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    let (mut known, mut rng, mut back) = (Known::default(), Rng::new(13), 0);
    for round in 1..=rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture"])
            .env(CHILD, folder.tier())
            .env(ROUNDS, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut left, mut begun) = (2 + rng.below(4_000), None);
        for line in lines.map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            let &[sign @ (">" | "<"), key, version] = &words[..] else { continue };
            let step = (key.parse::<u64>().unwrap(), version.parse::<u64>().unwrap());
            begun = if sign == ">" { Some(step) } else { None };
            if sign == "<" {
                known.note(step);
            }
            left -= 1;
            if left == 0 {
                child.kill().unwrap();
            }
            left = left.max(1);
        }
        child.wait().unwrap();
        let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
        let mut server = start(device, None, WALL + rounds + round, Placement::Tier(0));
        if let Some(step) = begun {
            known.learn(&mut server, step);
        }
        back += known.compare(&mut server);
    }
    assert!(rounds * 100 < back as u64, "{back} keys were there after {rounds} kills");
}
