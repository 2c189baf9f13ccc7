//! What comes back after a restart: most of it after a clean end, nothing stale or wrong after any end.
//!
//! Invariants checked: a key has the value that was last acknowledged, or that of the operation under way, or none; what was
//! deleted, flushed or has expired stays away
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

mod apart;
mod broken_off;
mod ends;
mod killed;
mod left_out;
mod load;
mod machine;
mod owners;
mod recorded;

use load::{Folder, Known, Server, TIER, WALL, start};
use media::FileTier;
use media::faults::{Fault, Faulty};
use std::sync::Arc;
use store::{Fields, Placement};
use units::Rng;

#[test]
fn a_clean_end_keeps_nearly_everything() {
    for placement in [Placement::Tier(0), Placement::Auto] {
        let folder = Folder::new(&format!("clean-{placement:?}"));
        let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(3));
        for round in 0..4 {
            let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
            let mut server = start(device, Some(&folder.saved()), WALL + round, placement);
            let before = known.0.len();
            let there = known.compare(&mut server);
            assert!(before * 95 <= there * 100, "{there} of {before}");
            assert_eq!(server.restored.from_saved, 0 < round, "{:?}", server.restored);
            assert!(!folder.saved().exists(), "nothing that was saved is taken twice");
            known.run(&mut server, &mut rng, 3_000, &mut version);
            assert_eq!(server.worker.save(&folder.saved()).unwrap(), known.0.len() as u64);
        }
    }
}

#[test]
fn a_crash_leaves_nothing_stale_or_wrong() {
    let folder = Folder::new("crash");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(5));
    let mut back = 0;
    for round in 0..30 {
        let placement = if round % 3 == 2 { Placement::Auto } else { Placement::Tier(0) };
        let mut server = start(Arc::clone(&device) as _, None, WALL + round, placement);
        back += known.compare(&mut server);
        assert!(!server.restored.from_saved);
        let turns = rng.below(4_000);
        known.run(&mut server, &mut rng, turns, &mut version);
        if round % 4 == 1 {
            server.store.flush(server.tenant, 0);
            known.0.clear();
            let turns = rng.below(1_000);
            known.run(&mut server, &mut rng, turns, &mut version);
        }
        drop(server);
        device.crash(&mut rng).unwrap();
    }
    assert!(3_000 < back, "{back} keys were there after crashes");
}

#[test]
fn what_expires_or_is_to_be_flushed_does_so_across_starts() {
    let folder = Folder::new("expiry");
    let open = || Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
    let mut first = start(open(), None, WALL, Placement::Tier(0));
    let now = first.store.now_secs();
    for key in 0..600 {
        let expires_at = if key % 2 == 0 { now + 100 } else { 0 };
        first.set(key, 1, Fields { client_flags: 0, expires_at });
    }
    first.store.flush(first.tenant, now + 500);
    // What is gathered and not full goes with a crash.
    drop(first);
    let there = |wall: u64| {
        let mut server = start(open(), None, wall, Placement::Tier(0));
        let mut there = [0, 0];
        for key in 0..600 {
            there[usize::try_from(key % 2).unwrap()] += usize::from(server.get(key).is_some());
        }
        (there, server)
    };
    let ([expiring, lasting], server) = there(WALL + 50);
    assert!(100 < expiring && 100 < lasting, "{expiring} {lasting}");
    drop(server);
    let ([expired, still], mut server) = there(WALL + 200);
    assert_eq!((expired, still), (0, lasting));
    server.store.set_now(server.store.now_secs() + 400);
    assert!((0..600).all(|key| server.get(key).is_none()), "the flush that waited is due");
    drop(server);
    assert_eq!(there(WALL + 700).0, [0, 0]);
}

#[test]
fn damage_is_a_miss() {
    let folder = Folder::new("damage");
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(9));
    for round in 0..6_u64 {
        let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
        let mut server = start(device, Some(&folder.saved()), WALL + round, Placement::Tier(0));
        let before = known.0.len();
        let there = known.compare(&mut server);
        assert!(round == 0 || 0 < there && there < before, "{there} of {before}");
        known.run(&mut server, &mut rng, 2_000, &mut version);
        server.worker.save(&folder.saved()).unwrap();
        drop(server);
        // Bits flip in what was saved, or in the tier itself, or the end of what was saved is missing.
        let path = if round % 3 == 0 { folder.saved() } else { folder.tier() };
        let mut bytes = std::fs::read(&path).unwrap();
        if round % 3 == 2 {
            let saved = std::fs::read(folder.saved()).unwrap();
            std::fs::write(folder.saved(), &saved[..saved.len() / 2]).unwrap();
        }
        // The superblock and the journal are in front.
        let from = if round % 3 == 0 { 0 } else { bytes.len() - TIER.as_usize() };
        for _ in 0..2_000 {
            let at = from + rng.index(bytes.len() - from);
            bytes[at] ^= 1 << rng.below(8);
        }
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn a_device_that_fails_for_a_moment_loses_nothing() {
    let folder = Folder::new("faults");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(11));
    for round in 0..12 {
        let mut server = start(Arc::clone(&device) as _, None, WALL + round, Placement::Tier(0));
        known.compare(&mut server);
        device.arm(rng.below(6), [Fault::Full, Fault::Torn][usize::try_from(round % 2).unwrap()]);
        known.run(&mut server, &mut rng, 3_000, &mut version);
        let known_before = known.0.len();
        let errors: u64 = server.store.tier_totals().iter().map(|tier| tier.errors).sum();
        assert!(0 < errors, "{:?}", server.store.tier_totals());
        assert_eq!(known.compare(&mut server), known_before, "it waits where it is gathered");
        drop(server);
        device.crash(&mut rng).unwrap();
    }
}

/// A device that takes nothing any more is given nothing any more: values stay in DRAM, where they are evicted like others.
#[test]
fn a_device_that_fails_for_good_takes_nothing_and_loses_nothing() {
    let folder = Folder::new("for-good");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let mut server = start(Arc::clone(&device) as _, None, WALL, Placement::Tier(0));
    device.arm(0, Fault::ForGood);
    let mut errors = 0;
    for round in 1..8 {
        // Each round is more than is gathered, all together less than DRAM has.
        (0..400).for_each(|key| server.set(key, round, Fields::default()));
        (0..20).for_each(|_| server.pass_a_second());
        assert!((0..400).all(|key| server.get(key) == Some(round)), "round {round}");
        errors = server.store.tier_totals()[0].errors;
    }
    assert!((1..=10).contains(&errors), "{errors} attempts in 140 seconds");
    server.worker.check();
}

/// A tier of which little is free when it fails loses nothing of what it has, for no pass can copy it anywhere.
#[test]
fn a_full_tier_that_fails_keeps_what_it_has() {
    let folder = Folder::new("full");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let mut server = start(Arc::clone(&device) as _, None, WALL, Placement::Tier(0));
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(13));
    known.run(&mut server, &mut rng, 30_000, &mut version);
    let passes = |server: &Server| server.store.tier_totals()[0].passes;
    assert!(0 < passes(&server), "it was cleaned before");
    device.arm(0, Fault::ForGood);
    // Until it is known.
    while server.store.tier_totals()[0].errors == 0 {
        known.run(&mut server, &mut rng, 50, &mut version);
    }
    known.compare(&mut server);
    let (before, made) = (known.0.len(), passes(&server));
    (0..200).for_each(|_| server.pass_a_second());
    for key in 0..300 {
        version += 1;
        server.set(key, version, Fields::default());
        known.0.insert(key, version);
    }
    let there = known.compare(&mut server);
    assert!(before <= there, "{there} of {before}");
    assert!(passes(&server) <= made + 20, "{} passes after {made}", passes(&server));
}

#[test]
fn what_gathers_for_a_second_is_written_though_its_segment_is_not_full() {
    let folder = Folder::new("late");
    let open = || Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
    let set = |server: &mut Server, keys: std::ops::Range<u64>, version| {
        keys.for_each(|key| server.set(key, version, Fields::default()));
    };
    let there = |server: &mut Server| (0..12).map(|key| server.get(key).unwrap_or(0)).collect::<Vec<_>>();
    let mut server = start(open(), None, WALL, Placement::Tier(0));
    set(&mut server, 0..6, 1);
    server.worker.maintain();
    drop(server);
    let mut server = start(open(), None, WALL + 1, Placement::Tier(0));
    assert_eq!(there(&mut server), [0; 12], "it is gathered, and a crash forgets it");
    set(&mut server, 0..6, 2);
    server.pass_a_second();
    // Later ones join the same segment, in the page that is written already, and what was written gives way.
    set(&mut server, 6..9, 3);
    server.delete(4);
    server.set(5, 4, Fields::default());
    drop(server);
    let mut server = start(open(), None, WALL + 2, Placement::Tier(0));
    assert_eq!(there(&mut server), [2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0], "and nothing of it is stale");
    set(&mut server, 0..4, 5);
    server.pass_a_second();
    set(&mut server, 4..9, 6);
    server.pass_a_second();
    set(&mut server, 9..12, 7);
    server.worker.check();
    drop(server);
    let mut server = start(open(), None, WALL + 3, Placement::Tier(0));
    assert_eq!(there(&mut server), [5, 5, 5, 5, 6, 6, 6, 6, 6, 0, 0, 0]);
}

#[test]
fn what_could_not_be_written_stays_gathered_until_it_is() {
    let folder = Folder::new("late-faults");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let mut server = start(Arc::clone(&device) as _, None, WALL, Placement::Tier(0));
    (0..6).for_each(|key| server.set(key, 1, Fields::default()));
    device.arm(0, Fault::Full);
    server.pass_a_second();
    assert_eq!(server.store.tier_totals()[0].errors, 1);
    assert!((0..6).all(|key| server.get(key) == Some(1)), "it is read where it is gathered");
    server.pass_a_second();
    assert_eq!(server.store.tier_totals()[0].errors, 1);
    drop(server);
    device.crash(&mut Rng::new(1)).unwrap();
    let mut server = start(device, None, WALL + 1, Placement::Tier(0));
    assert!((0..6).all(|key| server.get(key) == Some(1)), "the next second it was written");
}

#[test]
fn a_flush_that_waited_and_happened_is_not_due_again() {
    let folder = Folder::new("done");
    let saved = folder.saved();
    let open = || Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
    for (is_at_once, is_saved) in [(false, true), (false, false), (true, true)] {
        let mut first = start(open(), Some(&saved), WALL, Placement::Tier(0));
        let now = first.store.now_secs();
        (0..600).for_each(|key| first.set(key, 1, Fields::default()));
        first.store.flush(first.tenant, now + 10);
        if is_at_once {
            first.store.flush(first.tenant, 0);
        }
        first.store.set_now(now + 20);
        (0..600).for_each(|key| first.set(key, 2, Fields::default()));
        if is_saved {
            first.worker.save(&saved).unwrap();
        }
        drop(first);
        let mut next = start(open(), Some(&saved), WALL + 100, Placement::Tier(0));
        let least = if is_saved { 600 } else { 100 };
        let there = |next: &mut Server| (0..600).filter(|key| next.get(*key) == Some(2)).count();
        assert!(least <= there(&mut next), "{is_at_once} {is_saved}");
        let now = next.store.now_secs();
        next.store.set_now(now + 5);
        assert!(least.min(100) <= there(&mut next), "{is_at_once} {is_saved}");
        next.store.flush(next.tenant, 0);
    }
}
