//! What runs in a virtual machine that is killed: `tests/vm/test_dax.py` is the other side.
//!
//! Shape: what is known comes in, `KEY VERSION` for each key that may be there, `> KEY VERSION` for what was under way, then
//!        `load`. Out go what became of that as `< KEY VERSION`, each key that is not there as `- KEY`, and `= THERE KNOWN`; then
//!        steps as a process that is to be killed takes them, but each only after a `go`: a machine that is killed takes with it what
//!        is on its way out. At `stop` it saves, and `saved NUMBER` goes out

use crate::killed::{steps, tell_and_take};
use crate::load::{Known, WALL, start};
use media::{Device, TierSpec};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use store::Placement;

/// Names the tier as an operator does.
const TIER: &str = "COTENANT_TEST_MACHINE_TIER";
/// Where a clean end saves what it knows.
const SAVED: &str = "COTENANT_TEST_MACHINE_SAVED";
/// How often the machine was started before.
const ROUND: &str = "COTENANT_TEST_MACHINE_ROUND";

#[test]
fn on_a_machine() {
    let Ok(tier) = std::env::var(TIER) else { return };
    let saved = std::env::var(SAVED).unwrap();
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let device: Arc<dyn Device> = Arc::from(tier.parse::<TierSpec>().unwrap().open().unwrap().device);
    let mut server = start(device, Some(Path::new(&saved)), WALL + round, Placement::Tier(0));
    println!("\nrestored {:?}", server.restored);
    let (mut known, under_way) = told();
    if let Some(step) = under_way {
        known.learn(&mut server, step);
        println!("\n< {} {}", step.0, known.0.get(&step.0).unwrap_or(&0));
    }
    let before: BTreeSet<u64> = known.0.keys().copied().collect();
    let there = known.compare(&mut server);
    for gone in before.iter().filter(|key| !known.0.contains_key(key)) {
        println!("\n- {gone}");
    }
    println!("\n= {there} {}", before.len());
    let mut out = std::io::stdout().lock();
    let may = || std::io::stdin().lines().next().unwrap().unwrap() == "go";
    let _stopped = steps(round + 1).find(|step| !tell_and_take(&mut out, &mut server, *step, may));
    let number = server.worker.save(Path::new(&saved)).unwrap();
    drop(out);
    println!("\nsaved {number}");
}

/// What is known, and what was under way when the machine was killed.
fn told() -> (Known, Option<(u64, u64)>) {
    let (mut known, mut under_way) = (Known::default(), None);
    for line in std::io::stdin().lines().map(Result::unwrap).take_while(|line| line != "load") {
        let words: Vec<_> = line.split(' ').collect();
        let step = |key: &str, version: &str| (key.parse().unwrap(), version.parse().unwrap());
        match words[..] {
            [">", key, version] => under_way = Some(step(key, version)),
            [key, version] => known.note(step(key, version)),
            _ => panic!("not understood: {line}"),
        }
    }
    (known, under_way)
}
