//! Starts that end before they serve, at any moment: the next finds what they did.

use crate::load::{Folder, KEYS, LARGE, TIER, WALL, fill, prepare, start_on, value};
use media::faults::Faulty;
use media::{Device, FileTier};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Headway, Placement, Worker};

/// Bytes of the least value that goes into a tier.
const TIER_LEAST: usize = 128;

/// How a start ends that serves nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    /// It was told so before it began.
    AtOnce,
    /// It is told so when something is back.
    Halfway,
    /// All is back.
    BeforeItServes,
}

const ALL: [Ends; 3] = [Ends::AtOnce, Ends::Halfway, Ends::BeforeItServes];

fn tiers(folder: &Folder, names: &[&str]) -> Vec<Arc<dyn Device>> {
    let open =
        |name: &&str| -> Arc<dyn Device> { Arc::new(FileTier::open(&folder.file(name), TIER).unwrap()) };
    names.iter().map(open).collect()
}

/// Items of `fill` whose values are worth a place in a tier.
fn in_tiers() -> usize {
    (0..KEYS).filter(|key| TIER_LEAST <= value(*key, 1).len()).count()
}

/// Begins to start, and ends.
fn break_off(folder: &Folder, devices: &[Arc<dyn Device>], wall: u64, ends: Ends) {
    let placement = if devices.is_empty() { Placement::Dram } else { Placement::Auto };
    let (mut worker, _) = prepare(devices, wall, placement);
    let broken_off = Arc::new(AtomicBool::new(ends == Ends::AtOnce));
    let headway = Headway::until(Arc::clone(&broken_off));
    let is_done = AtomicBool::new(false);
    let recover = |worker: &mut Worker| worker.recover(Some(&folder.saved()), &mut |_, _| None, &headway);
    let found = std::thread::scope(|scope| {
        if ends == Ends::Halfway {
            scope.spawn(|| {
                while headway.items() == 0 && !is_done.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                broken_off.store(true, Ordering::Relaxed);
            });
        }
        let found = recover(&mut worker);
        is_done.store(true, Ordering::Relaxed);
        found
    });
    match ends {
        Ends::AtOnce => assert!(found.is_none()),
        // It may have been too late for that.
        Ends::Halfway => {}
        Ends::BeforeItServes => assert!(found.is_some_and(|found| found.restored.items != 0)),
    }
}

#[test]
fn a_start_that_serves_nobody_leaves_all_to_the_next_and_one_that_does_leaves_nothing_old() {
    let kinds: [(&[&str], Placement, u64); 4] = [
        (&[], Placement::Dram, 1),
        (&["a"], Placement::Tier(0), 1),
        (&["a"], Placement::Auto, 1 | LARGE),
        (&["a", "b"], Placement::Tier(1), 1),
    ];
    for (names, placement, version) in kinds {
        let folder = Folder::new(&format!("broken-{}-{placement:?}-{}", names.concat(), version & 1));
        let devices = tiers(&folder, names);
        let start = |wall| start_on(&devices, Some(&folder.saved()), wall, placement);
        let mut first = start(WALL);
        let mut known = fill(&mut first, version);
        let items = first.worker.save(&folder.saved()).unwrap();
        drop(first);
        let saved = std::fs::read(folder.saved()).unwrap();
        for (wall, ends) in (WALL + 1..).zip(ALL.into_iter().chain(ALL)) {
            break_off(&folder, &devices, wall, ends);
            assert_eq!(std::fs::read(folder.saved()).unwrap(), saved, "{ends:?} with {names:?}");
        }
        let mut last = start(WALL + 9);
        assert!(last.restored.from_saved, "{:?}", last.restored);
        assert_eq!((last.restored.items, last.restored.dropped), (items, 0));
        // Where DRAM was full, a few go again to make room.
        let least = if version & LARGE == 0 { items } else { items * 95 / 100 };
        let there = known.compare(&mut last) as u64;
        assert!(least <= there, "{there} of {items}, {placement:?} with {names:?}");
        assert!(!folder.saved().exists());
        for key in 0..KEYS {
            last.delete(key);
        }
        drop(last);
        let mut after = start(WALL + 10);
        assert!((0..KEYS).all(|key| after.get(key).is_none()), "{placement:?} with {names:?}");
    }
}

/// No clean end has left anything but the records themselves.
#[test]
fn a_start_that_reads_records_can_be_broken_off_too() {
    let folder = Folder::new("broken-records");
    let devices = tiers(&folder, &["a", "b"]);
    let start = |wall| start_on(&devices, Some(&folder.saved()), wall, Placement::Tier(1));
    let mut first = start(WALL);
    let mut known = fill(&mut first, 1);
    // What is gathered is written.
    for _ in 0..4 {
        first.pass_a_second();
    }
    drop(first);
    for (wall, ends) in (WALL + 1..).zip(ALL.into_iter().chain(ALL)) {
        break_off(&folder, &devices, wall, ends);
    }
    let mut last = start(WALL + 9);
    assert!(!last.restored.from_saved);
    assert_eq!(known.compare(&mut last), in_tiers());
}

/// The process ends between the two: what was saved is gone, and the notes do not say yet that it served.
#[test]
fn between_the_file_and_the_notes_a_start_leaves_what_tiers_hold() {
    let folder = Folder::new("broken-between");
    let devices = tiers(&folder, &["a", "b"]);
    let start = |wall| start_on(&devices, Some(&folder.saved()), wall, Placement::Tier(1));
    let mut first = start(WALL);
    let mut known = fill(&mut first, 1);
    first.worker.save(&folder.saved()).unwrap();
    drop(first);
    break_off(&folder, &devices, WALL + 1, Ends::BeforeItServes);
    std::fs::remove_file(folder.saved()).unwrap();
    let mut last = start(WALL + 2);
    assert!(!last.restored.from_saved);
    assert_eq!(known.compare(&mut last), in_tiers());
}

#[test]
fn a_crash_of_the_machine_during_a_start_leaves_the_clean_end_before_it() {
    for ends in ALL {
        let folder = Folder::new(&format!("broken-machine-{ends:?}"));
        let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
        device.set_boot(1);
        let devices = [Arc::clone(&device) as Arc<dyn Device>];
        let start = |wall| start_on(&devices, Some(&folder.saved()), wall, Placement::Tier(0));
        let mut first = start(WALL);
        let mut known = fill(&mut first, 1);
        first.worker.save(&folder.saved()).unwrap();
        drop(first);
        break_off(&folder, &devices, WALL + 1, ends);
        device.lose_notes();
        device.set_boot(2);
        let mut last = start(WALL + 2);
        assert!(last.restored.from_saved, "{ends:?}: {:?}", last.restored);
        assert_eq!(known.compare(&mut last) as u64, KEYS);
    }
}

/// Nobody may be served while a later start would take it for the last state.
#[test]
fn a_file_that_cannot_be_removed_is_told_of() {
    let folder = Folder::new("broken-kept");
    let mut first = start_on(&[], Some(&folder.saved()), WALL, Placement::Dram);
    fill(&mut first, 1);
    first.worker.save(&folder.saved()).unwrap();
    drop(first);
    let (mut worker, _) = prepare(&[], WALL + 1, Placement::Dram);
    let found = worker.recover(Some(&folder.saved()), &mut |_, _| None, &Headway::default()).unwrap();
    assert!(folder.saved().exists());
    // A folder cannot be removed as a file is, whoever the user is.
    std::fs::remove_file(folder.saved()).unwrap();
    std::fs::create_dir(folder.saved()).unwrap();
    assert!(worker.begin_serving(found).is_err());
}

/// A run without the file has changed what is in it, and the machine has gone down: the tier begins anew in a start that serves nobody.
#[test]
fn a_file_older_than_a_tier_that_begins_anew_is_taken_by_no_start_behind_a_broken_off_one() {
    let folder = Folder::new("older");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    device.set_boot(1);
    let devices: [Arc<dyn Device>; 1] = [Arc::clone(&device) as _];
    let mut server = start_on(&devices, Some(&folder.saved()), WALL, Placement::Auto);
    fill(&mut server, 1);
    server.worker.save(&folder.saved()).unwrap();
    drop(server);
    let mut server = start_on(&devices, None, WALL + 1, Placement::Auto);
    fill(&mut server, 2);
    drop(server);
    device.set_boot(2);
    break_off(&folder, &devices, WALL + 2, Ends::AtOnce);
    let mut server = start_on(&devices, Some(&folder.saved()), WALL + 3, Placement::Auto);
    assert!((0..KEYS).all(|key| server.get(key) != Some(1)));
}
