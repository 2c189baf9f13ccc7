//! A process that is killed at any moment.

use crate::load::{Folder, KEYS, Known, LARGE, Server, TIER, WALL, start};
use media::FileTier;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use store::{Fields, Placement, Store};
use units::Rng;

/// Names the file of the tier to a process that is to be killed.
const CHILD: &str = "COTENANT_TEST_TIER";
/// How often it is killed; more by this variable.
const ROUNDS: &str = "COTENANT_TEST_KILLS";

/// What ends it.
const SIGKILL: i32 = 9;
/// Steps in a second of a store's clock.
const STEPS_A_SECOND: usize = 100;
/// Between looks of a cleaner.
const CLEANER_LOOKS: Duration = Duration::from_micros(200);

/// What the process that is to be killed does: says what it is going to do, does it, says that it did. Every other one has more
/// than its DRAM holds, a cleaner beside it that lets values go down, and look-ups that bring them back.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let seed: u64 = std::env::var(ROUNDS).unwrap().parse().unwrap();
    let device = Arc::new(FileTier::open(Path::new(&path), TIER).unwrap());
    let mut out = std::io::stdout().lock();
    if seed.is_multiple_of(2) {
        let mut server = start(device, None, WALL + seed, Placement::Tier(0));
        for step in steps(seed) {
            tell_and_take(&mut out, &mut server, step, || true);
        }
        return;
    }
    let mut server = start(device, None, WALL + seed, Placement::Auto);
    let store = Arc::clone(&server.store);
    std::thread::spawn(move || clean(&store));
    let (mut rng, mut own) = (Rng::new(!seed), HashMap::new());
    for (n, (key, version)) in steps(seed).enumerate() {
        let version = if version == 0 { 0 } else { version | LARGE };
        tell_and_take(&mut out, &mut server, (key, version), || true);
        own.insert(key, version);
        let key = rng.below(KEYS);
        // What is evicted is gone; what is there is what was written last.
        if let (Some(found), Some(written)) = (server.get(key), own.get(&key)) {
            assert_eq!(found, *written, "key {key}");
        }
        if n.is_multiple_of(STEPS_A_SECOND) {
            server.store.set_now(server.store.now_secs() + 1);
        }
    }
}

fn clean(store: &Arc<Store>) {
    let mut worker = store.worker().unwrap();
    loop {
        if store.wants_cleaning() {
            worker.maintain();
        }
        worker.quiesce();
        std::thread::sleep(CLEANER_LOOKS);
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
    let (mut known, mut rng, mut back, mut went_down) = (Known::default(), Rng::new(13), 0, 0);
    for round in 1..=rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture"])
            .env(CHILD, folder.tier())
            .env(ROUNDS, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut left, mut begun) = (2 + rng.below(6_000), None);
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
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(SIGKILL), "it ended otherwise: {status}");
        let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
        let mut server = start(device, None, WALL + rounds + round, Placement::Tier(0));
        if let Some(step) = begun {
            known.learn(&mut server, step);
        }
        back += known.compare(&mut server);
        went_down += known.0.values().filter(|version| *version & LARGE != 0).count();
    }
    assert!(rounds * 100 < back as u64, "{back} keys were there after {rounds} kills");
    assert!(rounds * 10 < went_down as u64, "{went_down} of them had gone down from DRAM");
}
