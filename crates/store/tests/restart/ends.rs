//! What ends leave that are not quite clean, or after which the server is not quite the same.

use crate::load::{Folder, KEYS, Known, TIER, WALL, fill, start, start_on};
use media::faults::{Fault, Faulty};
use media::{Device, FileTier};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use store::{Fields, NotTaken, Placement};
use units::Rng;

fn open(folder: &Folder, name: &str) -> Arc<dyn Device> {
    Arc::new(FileTier::open(&folder.file(name), TIER).unwrap())
}

/// The machine may not have written down that there was a start: what it says of the end before is not true any more.
#[test]
fn a_crash_of_the_machine_soon_after_a_clean_end_brings_nothing_old_back() {
    let folder = Folder::new("soon");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    device.set_boot(1);
    let start = |wall| start(Arc::clone(&device) as _, Some(&folder.saved()), wall, Placement::Tier(0));
    let mut first = start(WALL);
    fill(&mut first, 1);
    first.worker.save(&folder.saved()).unwrap();
    drop(first);
    let mut second = start(WALL + 1);
    assert!(second.restored.from_saved);
    (0..KEYS / 2).for_each(|key| second.delete(key));
    second.store.flush(second.tenant, 0);
    drop(second);
    device.lose_notes();
    device.set_boot(2);
    let mut third = start(WALL + 2);
    assert_eq!((0..KEYS).filter(|key| third.get(*key).is_some()).count(), 0);
}

/// Which tier is which is not what their places say.
#[test]
fn tiers_that_change_places_lead_to_nothing_of_each_other() {
    let folder = Folder::new("places");
    let saved = folder.saved();
    let placed = |names: &[&str], wall, placement| {
        let devices: Vec<_> = names.iter().map(|name| open(&folder, name)).collect();
        start_on(&devices, Some(&saved), wall, placement)
    };
    let mut first = placed(&["a", "b"], WALL, Placement::Tier(0));
    let mut known = fill(&mut first, 1);
    assert!(first.store.set_placement(first.tenant, Placement::Tier(1)));
    for key in 0..KEYS / 2 {
        first.set(key, 2, Fields::default());
        known.0.insert(key, 2);
    }
    first.worker.save(&saved).unwrap();
    drop(first);
    for (wall, names) in [(1, &["b", "a"][..]), (2, &["a", "b"]), (3, &["b"]), (4, &["new", "b"])] {
        let mut server = placed(names, WALL + wall, Placement::Tier(0));
        let before = known.0.len();
        let there = known.compare(&mut server);
        let least = if names == ["b"] { KEYS / 2 } else { before as u64 } * 95 / 100;
        assert!(least <= there as u64, "{there} of {before} with {names:?}");
        server.worker.save(&saved).unwrap();
    }
}

#[test]
fn a_tier_ends_cleanly_though_the_items_cannot_be_saved() {
    let folder = Folder::new("unsaved");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    device.set_boot(1);
    let mut server = start(Arc::clone(&device) as _, None, WALL, Placement::Tier(0));
    let mut known = fill(&mut server, 1);
    let nowhere = folder.file("none").join("saved");
    assert!(server.worker.save(&nowhere).is_err());
    drop(server);
    device.set_boot(2);
    let mut server = start(device, Some(&nowhere), WALL + 1, Placement::Tier(0));
    assert!(KEYS * 95 / 100 <= known.compare(&mut server) as u64);
}

#[test]
fn a_flush_that_waits_is_saved_with_the_items() {
    let folder = Folder::new("waits");
    let saved = folder.saved();
    let start = |wall| start_on(&[], Some(&saved), wall, Placement::Dram);
    let mut server = start(WALL);
    (0..100).for_each(|key| server.set(key, 1, Fields::default()));
    let now = server.store.now_secs();
    server.store.flush(server.tenant, now + 60);
    server.worker.save(&saved).unwrap();
    assert_eq!(saved.metadata().unwrap().permissions().mode() & 0o777, 0o600, "nobody else reads it");
    drop(server);
    let mut server = start(WALL + 30);
    assert!((0..100).all(|key| server.get(key) == Some(1)), "it waits still");
    server.worker.save(&saved).unwrap();
    drop(server);
    let mut server = start(WALL + 90);
    assert!((0..100).all(|key| server.get(key).is_none()), "it was due meanwhile");
}

/// One write that fails at the end costs nothing: each segment has its turn, and those that fail another one.
#[test]
fn a_write_that_fails_at_the_end_is_made_again() {
    for good in 0..3 {
        let folder = Folder::new(&format!("once-{good}"));
        let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
        let mut server = start(Arc::clone(&device) as _, Some(&folder.saved()), WALL, Placement::Tier(0));
        let mut known = fill(&mut server, 1);
        device.arm(good, Fault::Torn);
        server.worker.save(&folder.saved()).unwrap();
        drop(server);
        let mut server = start(device, Some(&folder.saved()), WALL + 1, Placement::Tier(0));
        assert_eq!(known.compare(&mut server) as u64, KEYS);
    }
}

/// What is not taken says why; only what a clean end has written is removed.
#[test]
fn what_was_not_saved_here_is_left_and_what_was_says_why_it_is_not_taken() {
    let folder = Folder::new("taken");
    let saved = folder.saved();
    let device = open(&folder, "tier");
    let begin = |wall| start(Arc::clone(&device), Some(&saved), wall, Placement::Tier(0));
    let mut server = begin(WALL);
    fill(&mut server, 1);
    server.worker.save(&saved).unwrap();
    drop(server);
    let good = std::fs::read(&saved).unwrap();
    drop(begin(WALL + 1));
    let version = [b"COTSAVE2", &good[8..]].concat();
    for (wall, bytes, why, is_left) in [
        (2, &good[..], Some(NotTaken::Stale), false),
        (3, &version[..], Some(NotTaken::Version), false),
        (4, &good[..20], Some(NotTaken::Damaged), false),
        (5, &good[..7], Some(NotTaken::Foreign), true),
        (6, &b"hello, this is a file of somebody else's"[..], Some(NotTaken::Foreign), true),
        (7, &[][..], None, true),
    ] {
        std::fs::write(&saved, bytes).unwrap();
        assert_eq!(store::may_replace(&saved).unwrap(), why != Some(NotTaken::Foreign), "{why:?}");
        let server = begin(WALL + wall);
        assert_eq!((server.restored.not_taken, server.restored.from_saved), (why, false));
        assert_eq!(std::fs::read(&saved).ok().as_deref(), is_left.then_some(bytes), "{why:?}");
    }
    std::fs::remove_file(&saved).unwrap();
    assert!(store::may_replace(&saved).unwrap(), "there is nothing");
    assert!(store::may_replace(&folder.file("")).is_err(), "a folder");
}

/// The end of what was saved is missing, so that every record is looked at; those that cannot be read have their items already.
#[test]
fn what_cannot_be_read_at_the_start_stays_where_it_was() {
    let folder = Folder::new("unread");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let mut server = start(Arc::clone(&device) as _, Some(&folder.saved()), WALL, Placement::Tier(0));
    let mut known = fill(&mut server, 1);
    server.worker.save(&folder.saved()).unwrap();
    drop(server);
    let saved = std::fs::read(folder.saved()).unwrap();
    std::fs::write(folder.saved(), &saved[..saved.len() - 8]).unwrap();
    device.fail_reads(0..TIER.0);
    let server = start(Arc::clone(&device) as _, Some(&folder.saved()), WALL + 1, Placement::Tier(0));
    assert_eq!((server.restored.items, server.restored.dropped), (KEYS, 0));
    let totals = server.store.tier_totals()[0];
    assert!(0 < totals.errors && KEYS * 9 / 10 < totals.restored, "{totals:?}");
    drop(server);
    device.fail_reads(0..0);
    let mut server = start(device, None, WALL + 2, Placement::Tier(0));
    assert_eq!(known.compare(&mut server) as u64, totals.restored, "it was noted as live all the while");
}

/// What had expired when it ended, or does before the start, hides nothing of the rest.
#[test]
fn what_expires_around_an_end_does_not_make_the_start_read_the_tier() {
    let folder = Folder::new("expires");
    let mut server = start(open(&folder, "tier"), Some(&folder.saved()), WALL, Placement::Tier(0));
    let now = server.store.now_secs();
    for key in 0..300 {
        let expires_at = [now + 1, now + 50, 0][usize::try_from(key % 3).unwrap()];
        server.set(key, 1, Fields { client_flags: 0, expires_at });
    }
    server.store.set_now(now + 10);
    server.worker.save(&folder.saved()).unwrap();
    drop(server);
    let mut server = start(open(&folder, "tier"), Some(&folder.saved()), WALL + 100, Placement::Tier(0));
    assert!(server.restored.from_saved, "{:?}", server.restored);
    assert!((0..300).all(|key| server.get(key).is_some() == (key % 3 == 2)));
}

/// Starts are counted by each tier, and stamps go on from whichever has the greatest.
#[test]
fn what_is_written_beside_an_older_tier_is_not_taken_for_flushed_without_it() {
    let folder = Folder::new("stamps");
    let names = [&["old"][..], &["old"], &["old"], &["new", "old"], &["new"], &["new"]];
    let mut known = Known::default();
    let (mut rng, mut version) = (Rng::new(7), 0);
    for (wall, names) in (WALL..).zip(names) {
        let devices: Vec<_> = names.iter().map(|name| open(&folder, name)).collect();
        let mut server = start_on(&devices, None, wall, Placement::Tier(0));
        let is_new = names[0] == "new";
        let before = known.0.len();
        let there = known.compare(&mut server);
        assert!(wall < WALL + 5 || before / 2 < there, "{there} of {before}");
        known.run(&mut server, &mut rng, 3_000, &mut version);
        if names.len() == 2 {
            server.store.flush(server.tenant, 0);
            known.0.clear();
        }
        assert!(!is_new || server.store.tier_totals()[0].errors == 0);
    }
}

/// The machine's clock was an hour ahead at the start, and was set while the server ran.
#[test]
fn expiries_go_by_the_clock_as_it_was_set() {
    let folder = Folder::new("clock");
    let saved = folder.saved();
    for (passed, is_there) in [(50, true), (200, false)] {
        let mut server = start(open(&folder, "tier"), Some(&saved), WALL + 3_600, Placement::Tier(0));
        let expires_at = server.store.now_secs() + 100;
        server.store.set_wall(WALL);
        (0..100).for_each(|key| server.set(key, 1, Fields { client_flags: 0, expires_at }));
        server.worker.save(&saved).unwrap();
        drop(server);
        let mut server = start(open(&folder, "tier"), Some(&saved), WALL + passed, Placement::Tier(0));
        assert!((0..100).all(|key| server.get(key).is_some() == is_there), "after {passed} s");
    }
}
