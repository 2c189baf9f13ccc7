//! Tiers that were left out of a run, and saved files that were not taken in one.

use crate::load::{Folder, KEYS, Known, TIER, WALL, start_on};
use media::{Device, FileTier};
use std::sync::Arc;
use store::{Fields, Placement};

/// Starts with tiers of these names.
fn start(folder: &Folder, names: &[&str], wall: u64) -> crate::load::Server {
    let open =
        |name: &&str| -> Arc<dyn Device> { Arc::new(FileTier::open(&folder.file(name), TIER).unwrap()) };
    let devices: Vec<_> = names.iter().map(open).collect();
    let last = u8::try_from(names.len()).unwrap().checked_sub(1);
    start_on(&devices, Some(&folder.saved()), wall, last.map_or(Placement::Dram, Placement::Tier))
}

/// What was overwritten or deleted while a tier was away stays so, however that run ended, and whatever tiers it had.
#[test]
fn a_tier_that_was_left_out_of_a_run_brings_nothing_old_back() {
    for (names, is_clean) in [(&["a"][..], true), (&["a"], false), (&["c"], true), (&[], true)] {
        let folder = Folder::new(&format!("left-out-{}-{is_clean}", names.concat()));
        let mut known = Known::default();
        let mut first = start(&folder, &["a", "b"], WALL);
        for key in 0..KEYS {
            first.set(key, 1, Fields::default());
            known.0.insert(key, 1);
        }
        first.worker.save(&folder.saved()).unwrap();
        drop(first);
        let mut second = start(&folder, names, WALL + 1);
        known.compare(&mut second);
        for key in 0..KEYS / 2 {
            second.set(key, 2, Fields::default());
            known.0.insert(key, 2);
        }
        for key in KEYS / 4..KEYS {
            second.delete(key);
            known.0.remove(&key);
        }
        if is_clean {
            second.worker.save(&folder.saved()).unwrap();
        }
        drop(second);
        let before = known.0.len();
        let mut third = start(&folder, &["a", "b"], WALL + 2);
        let there = known.compare(&mut third);
        assert!((0..KEYS).all(|key| third.get(key) != Some(1)), "{names:?}");
        // What the second run saved leads to no other tiers than it had, and is of the last end.
        let is_back = is_clean && names != ["c"];
        assert!(!is_back || before == there, "{there} of {before} with {names:?}");
        assert_eq!(third.restored.not_taken, None, "{names:?}");
        assert!(KEYS * 9 / 10 < third.restored.dropped, "{:?} with {names:?}", third.restored);
        third.worker.save(&folder.saved()).unwrap();
        drop(third);
        let mut fourth = start(&folder, &["a", "b"], WALL + 3);
        assert_eq!(known.compare(&mut fourth), there);
    }
}

/// Of two tiers that each had a run of its own the later one's content is taken.
#[test]
fn of_tiers_that_were_used_apart_the_last_counts() {
    let folder = Folder::new("apart");
    let saved = folder.saved();
    drop(start(&folder, &["a", "b"], WALL));
    for (name, version) in [("a", 2), ("b", 3)] {
        let mut server = start(&folder, &[name], WALL + version);
        (0..KEYS).for_each(|key| server.set(key, version, Fields::default()));
        server.worker.save(&saved).unwrap();
        std::fs::remove_file(&saved).unwrap();
    }
    let mut server = start(&folder, &["a", "b"], WALL + 4);
    let versions: Vec<_> = (0..KEYS).filter_map(|key| server.get(key)).collect();
    assert!(KEYS * 9 / 10 < versions.len() as u64, "{} are back", versions.len());
    assert!(versions.iter().all(|version| *version == 3));
}
