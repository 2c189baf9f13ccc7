//! A store on a recorder of persistent memory: are all write-backs and fences there?
//!
//! Invariants checked: whatever memory holds after a crash between any two acts, nothing stale or wrong is served; without the
//! write-backs, or without the fences, it is

use crate::killed::steps;
use crate::load::{KEYS, Known, Server, WALL, start, value};
use media::faults::{Omitted, Recorder};
use media::{DaxTier, Device};
use std::sync::Arc;
use store::{Fields, Placement};
use units::{Bytes, Rng};

/// In which all segments are used several times; at times a value finds no room and stays in DRAM.
const SMALL: Bytes = Bytes::mib(4);
/// In which every value finds room.
const AMPLE: Bytes = Bytes::mib(16);
const STEPS: usize = 3_000;
const CRASHES: u64 = 60;

/// What was found after many crashes.
#[derive(Default, Debug)]
struct Found {
    /// Acknowledged values that were there.
    there: usize,
    /// Such as were not, but those that are too small for a tier.
    lost: usize,
    /// Older ones, deleted ones, and such as were never written.
    wrong: usize,
}

/// Takes steps on a tier whose acts are recorded, and starts anew from what crashes leave.
fn crashes(size: Bytes, omitted: Omitted) -> Found {
    let tier = Arc::new(DaxTier::recorded(size, Recorder::default()).unwrap());
    let mut server = start(Arc::clone(&tier) as Arc<dyn Device>, None, WALL, Placement::Tier(0));
    tier.acts().omit(omitted);
    let first = tier.acts().moments();
    // Each step, and the acts until it was acknowledged.
    let mut taken = Vec::new();
    for (key, version) in steps(17).take(STEPS) {
        match version {
            0 => server.delete(key),
            _ => server.set(key, version, Fields::default()),
        }
        taken.push(((key, version), tier.acts().moments()));
    }
    let (mut found, mut rng) = (Found::default(), Rng::new(19));
    for _ in 0..CRASHES {
        let moment = first + rng.index(tier.acts().moments() - first);
        let after = tier.acts().crash(moment, &mut rng).tier(&tier).unwrap();
        let mut known = Known::default();
        let acknowledged = taken.iter().take_while(|(_, acts)| *acts <= moment);
        acknowledged.for_each(|(step, _)| known.note(*step));
        let under_way = taken.iter().find(|(_, acts)| moment < *acts).map(|(step, _)| *step);
        let mut server = start(Arc::new(after), None, WALL + 1, Placement::Tier(0));
        compare(&mut server, &known, under_way, &mut found);
    }
    found
}

fn compare(server: &mut Server, known: &Known, under_way: Option<(u64, u64)>, found: &mut Found) {
    for key in 0..KEYS {
        match server.look(key) {
            None => {
                found.lost +=
                    usize::from(known.0.get(&key).is_some_and(|version| 128 <= value(key, *version).len()))
            }
            Some(Ok(version)) if known.0.get(&key) == Some(&version) => found.there += 1,
            Some(Ok(version)) if under_way == Some((key, version)) => {}
            Some(_) => found.wrong += 1,
        }
    }
}

#[test]
fn nothing_stale_or_wrong_is_served_after_a_crash_between_any_two_acts() {
    for size in [SMALL, AMPLE] {
        let found = crashes(size, Omitted::default());
        println!("{size}: {found:?}");
        assert!(found.wrong == 0 && 10_000 < found.there, "{found:?}");
        // What is in the segment that is being written may be forgotten; some hundred KiB of 2 MiB at most.
        assert!(size == SMALL || found.lost * 20 < found.there, "{found:?}");
    }
}

/// The fence between a record and its bit is not among them: other processors need it, a crash does not, as what the bit leads to
/// has a checksum.
#[test]
fn forgotten_write_backs_and_fences_are_seen() {
    for omitted in [
        Omitted { write_backs: true, ..Omitted::default() },
        Omitted { fences_of_notes: true, ..Omitted::default() },
        Omitted::FENCES,
    ] {
        let found = crashes(AMPLE, omitted);
        println!("{omitted:?}: {found:?}");
        assert!(0 < found.wrong, "{omitted:?}: {found:?}");
    }
}

/// One thing that a store says to the notes, and what is wrong after a crash right behind it if that was not durable.
struct Said {
    name: &'static str,
    say: fn(&mut Server),
    /// Whether a start after the crash is to come much later.
    later: bool,
    wrong: fn(&mut Server) -> usize,
}

/// Keys that are overwritten, deleted, or another tenant's.
const FEW: u64 = 50;

fn found(server: &mut Server, keys: std::ops::Range<u64>, version: u64) -> usize {
    keys.filter(|key| server.get(*key) == Some(version)).count()
}

const SAID: [Said; 5] = [
    Said {
        name: "overwrites",
        say: |server| (0..FEW).for_each(|key| server.set(key, 2, Fields::default())),
        later: false,
        wrong: |server| found(server, 0..FEW, 1),
    },
    Said {
        name: "deletes",
        say: |server| (0..FEW).for_each(|key| server.delete(key)),
        later: false,
        wrong: |server| found(server, 0..FEW, 1),
    },
    Said {
        name: "a flush",
        say: |server| server.store.flush(server.tenant, 0),
        later: false,
        wrong: |server| found(server, 0..KEYS, 1),
    },
    Said {
        name: "a flush that waits",
        say: |server| server.store.flush(server.tenant, server.store.now_secs() + LATER / 2),
        later: true,
        wrong: |server| found(server, 0..KEYS, 1),
    },
    Said {
        name: "a tenant that goes",
        say: |server| assert!(server.store.remove_tenant(server.tenant)),
        later: false,
        wrong: |server| found(server, 0..KEYS, 1),
    },
];

/// Seconds until a start that comes much later.
const LATER: u32 = 1_000;
const DRAWS: u64 = 20;

/// How many keys are wrong in crashes right behind what is said, each without what is `omitted` of it.
fn wrong_after(said: &Said, omitted: Omitted) -> usize {
    let tier = Arc::new(DaxTier::recorded(AMPLE, Recorder::default()).unwrap());
    let mut server = start(Arc::clone(&tier) as Arc<dyn Device>, None, WALL, Placement::Tier(0));
    (0..KEYS).for_each(|key| server.set(key, 1, Fields::default()));
    (0..3).for_each(|_| server.pass_a_second());
    tier.acts().omit(omitted);
    (said.say)(&mut server);
    let moment = tier.acts().moments();
    let after = |seed| {
        let after = tier.acts().crash(moment, &mut Rng::new(seed)).tier(&tier).unwrap();
        let wall = WALL + 1 + u64::from(LATER) * u64::from(said.later);
        start(Arc::new(after), None, wall, Placement::Tier(0))
    };
    (0..DRAWS).map(|seed| (said.wrong)(&mut after(seed))).sum()
}

/// Each by itself: what makes one of them durable does not do so for another.
#[test]
fn whatever_is_said_to_the_notes_is_durable_at_once_by_its_own_acts() {
    for said in SAID {
        assert_eq!(wrong_after(&said, Omitted::default()), 0, "{}", said.name);
        for omitted in [
            Omitted { write_backs: true, ..Omitted::default() },
            Omitted { fences_of_notes: true, ..Omitted::default() },
        ] {
            let wrong = wrong_after(&said, omitted);
            assert!(0 < wrong, "{} without {omitted:?}: {wrong}", said.name);
        }
    }
}
