//! Passes over tiers: what they take, what they leave, what is lost.

mod postponed;

use super::*;
use crate::passes::By;
use crate::sync::lock;
use crate::worker::Worker;
use crate::{Fields, Mode, Options, Placement, Promotion, RankKind, Refused, TenantSpec};
use control::Claim;
use control::memory::MemoryShare;
use media::faults::Faulty;
use media::{Device, FileTier, Plain};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Bytes;

const OPTIONS: Options = Options {
    memory: Bytes::mib(8),
    item_max: Bytes::kib(64),
    threads: 2,
    tenants_max: 4,
    no_evict: false,
    seed: 1,
};

/// A folder of a test's own, which goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("cotenant-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn tier(&self) -> FileTier {
        FileTier::open(&self.path(), Bytes::mib(16)).unwrap()
    }

    fn path(&self) -> PathBuf {
        Path::new(&self.0).join("tier")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A store with one tier that is in use, and its first thread.
fn start(device: Arc<dyn Device>, options: Options) -> (Arc<Store>, Worker) {
    let store = Store::with_tiers(options, &[device], 1_000_000_000).unwrap();
    let mut worker = store.worker().unwrap();
    worker.restore(None, &mut |_, _| None);
    (store, worker)
}

/// A tenant whose values go into the tier.
fn add(store: &Store, name: &str) -> TenantId {
    let (name, claim, rank) = (name.to_owned(), Claim::default(), RankKind::default());
    let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
    assert!(store.set_placement(tenant, Placement::Tier(0)));
    tenant
}

/// Stores a value of 2,000 B; false if there is no memory.
fn set(worker: &mut Worker, tenant: TenantId, number: u32) -> bool {
    let text = format!("key {number}");
    let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
    loop {
        let made = worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 2_000]);
        worker.quiesce();
        match made {
            Ok(_) => return true,
            Err(Refused::NoRoom) if worker.make_room().is_ok() => {}
            Err(Refused::NoRoom) => return false,
            Err(why) => panic!("{why:?}"),
        }
    }
}

/// Whether a key is there, with its value.
fn has(worker: &mut Worker, tenant: TenantId, number: u32) -> bool {
    let text = format!("key {number}");
    let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
    worker.quiesce();
    if let Some(plan) = worker.fetch_plan(&key) {
        worker.fetch_now(&plan).unwrap();
    }
    worker.get(tenant, &key).is_some_and(|item| item.value() == [7; 2_000])
}

fn delete(worker: &mut Worker, tenant: TenantId, number: u32) -> bool {
    let text = format!("key {number}");
    let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
    worker.quiesce();
    worker.delete(tenant, &key)
}

/// Where the record of a key is in the tier, if it is there.
fn place(worker: &Worker, tenant: TenantId, number: u32) -> Option<u64> {
    let text = format!("key {number}");
    let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
    let locked = worker.store.index.lock(key.hash());
    let found = worker.live(&locked, &key).found()?;
    worker.store.log.view(&worker.reader, found.slot.place()).away().map(|away| away.at)
}

/// What is remembered of a key that is there.
fn remembered(worker: &Worker, tenant: TenantId, number: u32) -> u8 {
    let text = format!("key {number}");
    let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
    let locked = worker.store.index.lock(key.hash());
    let found = worker.live(&locked, &key).found().unwrap();
    worker.store.log.view(&worker.reader, found.slot.place()).remembered()
}

#[test]
fn what_is_remembered_of_a_key_goes_below_with_its_value_and_comes_back_with_it() {
    let (store, mut worker) = start(Arc::new(Plain::new(Bytes::mib(64)).unwrap()), OPTIONS);
    store.set_promotion(Promotion::Always);
    let tenant = add(&store, "t");
    assert!(store.set_placement(tenant, Placement::Auto));
    let hash = worker.key(Space::Own(tenant), b"key 0").unwrap().hash();
    store.ghosts.remember(hash, 2_000, || 1, store.tick_count());
    assert!(set(&mut worker, tenant, 0));
    assert_eq!((remembered(&worker, tenant, 0), place(&worker, tenant, 0)), (2, None));
    let mut others = 1..100_000;
    while place(&worker, tenant, 0).is_none() {
        assert!(set(&mut worker, tenant, others.next().expect("it goes below")));
    }
    assert_eq!(remembered(&worker, tenant, 0), 2, "below");
    assert!(has(&mut worker, tenant, 0));
    assert_eq!((remembered(&worker, tenant, 0), place(&worker, tenant, 0)), (2, None), "back in DRAM");
}

#[test]
fn a_tier_has_one_pass_at_a_time_in_memory_that_is_counted() {
    let folder = Folder::new("passes");
    let (store, mut worker) = start(Arc::new(folder.tier()), OPTIONS);
    let tenant = add(&store, "t");
    assert!((0..2_000).all(|number| set(&mut worker, tenant, number)));
    worker.clean_tiers(By::Background);
    let tier = &store.tiers[0];
    let sources = limits::TIER_PASS_WIDTH_UNMAPPED as u64 * tier.segments.bytes();
    assert_eq!(tier.memory(), tier.area.memory() + Bytes(sources), "notes are in the file");
    let mut cleaner = TierCleaner::new(Rng::new(1));
    let mut pass = |worker: &mut Worker| cleaner.pass(&store, &mut worker.reader, &worker.counters, tier);
    let another = lock(&tier.desk);
    assert_eq!(pass(&mut worker), None, "another is at it");
    assert_eq!(tier.counters.totals().passes, 0);
    drop(another);
    assert!(pass(&mut worker).is_some());
    assert_eq!(tier.counters.totals().passes, 1);
    worker.check();
}

/// What a reader may still see is room as soon as it looks away: nothing more is evicted for it.
#[test]
fn what_was_emptied_and_waits_for_a_reader_is_room() {
    let (store, mut worker) = start(Arc::new(Plain::new(Bytes::mib(16)).unwrap()), OPTIONS);
    let tenant = add(&store, "t");
    let mut reader = store.worker().unwrap();
    reader.go_offline();
    let tier = &store.tiers[0];
    let mut number = 0;
    while !tier.wants_cleaning(&store) {
        assert!(set(&mut worker, tenant, number));
        number += 1;
    }
    reader.go_online();
    worker.clean_tiers(By::Background);
    let passes = tier.counters.totals().passes;
    assert!(0 < passes && 0 < tier.segments.retired(), "the reader holds what {passes} passes emptied");
    let evicted = store.totals(tenant).evictions;
    (0..10).for_each(|_| _ = worker.clean_tiers(By::Background));
    assert_eq!((tier.counters.totals().passes, store.totals(tenant).evictions), (passes, evicted));
    reader.go_offline();
    worker.clean_tiers(By::Background);
    assert_eq!(tier.segments.retired(), 0);
    assert!(!tier.wants_cleaning(&store), "it goes on once the reader has looked away");
}

/// Where nothing may be evicted a full tier keeps all that it took, and gives back what is dead; passes that would gain nothing
/// move nothing.
#[test]
fn where_nothing_may_go_a_full_tier_keeps_all_that_it_took() {
    let folder = Folder::new("keeps");
    let devices: [Arc<dyn Device>; 2] =
        [Arc::new(Plain::new(Bytes::mib(16)).unwrap()), Arc::new(folder.tier())];
    for device in devices {
        let (store, mut worker) = start(device, Options { no_evict: true, ..OPTIONS });
        let tenant = add(&store, "t");
        let tier = &store.tiers[0];
        let (mut stored, mut before) = (0, tier.counters.totals());
        for _ in 0..2 {
            // Twice what there is room for.
            while stored < 20_000 && set(&mut worker, tenant, stored) {
                stored += 1;
            }
            before = tier.counters.totals();
            (0..100).for_each(|_| _ = worker.maintain());
        }
        assert!(7_000 < stored && stored < 20_000, "{stored}: they are in the tier and in DRAM");
        assert!((0..stored).all(|number| has(&mut worker, tenant, number)), "something was lost");
        assert_eq!(tier.counters.totals(), before, "nothing is to be gained");
        let keeps = |number: u32| number.is_multiple_of(3);
        assert!((0..stored).filter(|number| !keeps(*number)).all(|n| delete(&mut worker, tenant, n)));
        let more = stored..stored + stored / 2;
        for number in more.clone() {
            assert!(set(&mut worker, tenant, number), "what is dead comes back: {number} of {more:?}");
        }
        let kept = (0..stored).filter(|number| keeps(*number));
        assert!(kept.chain(more).all(|number| has(&mut worker, tenant, number)), "something was lost");
        assert_eq!(store.totals(tenant).evictions, 0);
        assert!(before.passes < tier.counters.totals().passes);
        worker.quiesce();
        worker.check();
    }
}

/// A segment that cannot be read holds up neither writes nor passes over others; its items go after some tries, and it is used again.
#[test]
fn a_segment_that_cannot_be_read_is_given_up_after_some_tries_and_nothing_else_is() {
    let folder = Folder::new("unreadable");
    let device = Arc::new(Faulty::new(folder.tier()));
    let (store, mut worker) = start(Arc::clone(&device) as _, OPTIONS);
    let tenant = add(&store, "t");
    let tier = &store.tiers[0];
    assert!((0..4_000).all(|number| set(&mut worker, tenant, number)));
    worker.clean_tiers(By::Background);
    let bad = tier.segments.sealed().next().unwrap();
    device.fail_reads(tier.segments.range(bad));
    // Passes take first what has the least alive.
    let (mut kept, mut lost) = (0, 0);
    for number in 0..4_000 {
        let at = place(&worker, tenant, number);
        if at.is_some_and(|at| tier.segments.of(at) == bad) {
            (kept, lost) = (number, lost + 1);
            assert!(lost == 1 || delete(&mut worker, tenant, number));
        }
    }
    assert!(10 < lost);
    let mut cleaner = TierCleaner::new(Rng::new(1));
    let mut pass = |worker: &mut Worker| {
        let freed = cleaner.pass(&store, &mut worker.reader, &worker.counters, tier);
        worker.clean_tiers(By::Background);
        freed
    };
    let (mut tries, mut freed) = (0, 0);
    while tier.segments.live(bad) != 0 {
        let before = (tier.counters.totals(), store.now_secs());
        freed += pass(&mut worker).unwrap();
        assert!(!tier.rests(store.now_secs()), "what cannot be read says nothing of writes");
        tries += tier.counters.totals().errors - before.0.errors;
        store.set_now(before.1 + 1);
        assert!(before.1 < 1_000, "it is never given up");
    }
    assert_eq!(tries, u64::from(limits::TIER_READS_MAX));
    assert!(0 < freed, "others were emptied meanwhile");
    assert!(15 <= store.now_secs(), "it was given time");
    assert_eq!(tier.counters.totals().broken, 1);
    assert!(place(&worker, tenant, kept).is_none());
    worker.quiesce();
    worker.check();
}

/// A disk that reads nothing for a moment loses nothing by passes, and nothing but what is asked for by requests.
#[test]
fn a_disk_that_cannot_be_read_for_a_moment_is_written_to_and_loses_nothing() {
    let folder = Folder::new("moment");
    let device = Arc::new(Faulty::new(folder.tier()));
    let (store, mut worker) = start(Arc::clone(&device) as _, OPTIONS);
    let tenant = add(&store, "t");
    let tier = &store.tiers[0];
    assert!((0..4_000).all(|number| set(&mut worker, tenant, number)));
    let live = tier.in_use().live;
    device.fail_reads(0..Bytes::mib(16).0);
    let mut cleaner = TierCleaner::new(Rng::new(1));
    for _ in 0..10 {
        cleaner.pass(&store, &mut worker.reader, &worker.counters, tier);
        store.set_now(store.now_secs() + 1);
    }
    assert!(10 < tier.counters.totals().errors);
    assert!(!has(&mut worker, tenant, 0), "that one is asked for");
    assert!(!tier.rests(store.now_secs()), "writes go on");
    let lost = live.0 - tier.in_use().live.0;
    assert_eq!((lost, tier.counters.totals().broken), (record::footprint(5, 2_000), 1));
    device.fail_reads(0..0);
    assert!((1..4_000).all(|number| has(&mut worker, tenant, number)));
}

/// What is within a reservation stays in a tier that a neighbour writes over and over; where nothing else is there, nothing is moved.
#[test]
fn what_is_within_a_floor_stays_in_a_tier() {
    let folder = Folder::new("floors");
    let devices: [Arc<dyn Device>; 2] =
        [Arc::new(Plain::new(Bytes::mib(16)).unwrap()), Arc::new(folder.tier())];
    for device in devices {
        let (store, mut worker) = start(device, OPTIONS);
        let (kept, other) = (add(&store, "kept"), add(&store, "other"));
        let floor = Bytes::mib(15);
        store.tenant(kept).set_floor(floor);
        store.tenant(kept).set_share(MemoryShare::of(floor), Bytes::ZERO);
        store.tenant(other).set_share(MemoryShare::of(Bytes::mib(8)), Bytes::ZERO);
        let tier = &store.tiers[0];
        assert!((0..5_500).all(|number| set(&mut worker, kept, number)));
        assert!(store.tenant(kept).held() <= floor);
        let passes = |number: u32, worker: &mut Worker| {
            store.set_now(store.now_secs() + u32::from(number.is_multiple_of(100)));
            worker.clean_tiers(By::Background);
        };
        for number in 0..20_000 {
            assert!(set(&mut worker, other, number));
            passes(number, &mut worker);
        }
        assert_eq!(store.totals(kept).evictions, 0);
        assert!((0..5_500).all(|number| has(&mut worker, kept, number)));
        let totals = store.totals(other);
        assert!(2_000 < totals.tier_evictions, "the other's go from there: {}", totals.tier_evictions);
        worker.quiesce();
        worker.check();
        // Now all of both is within their floors.
        store.tenant(other).set_floor(Bytes::mib(60));
        store.tenant(other).set_share(MemoryShare::of(Bytes::mib(60)), Bytes::ZERO);
        let before = (tier.counters.totals().moved, store.totals(other).tier_evictions);
        let mut cleaner = TierCleaner::new(Rng::new(1));
        for _ in 0..20 {
            cleaner.pass(&store, &mut worker.reader, &worker.counters, tier);
            assert!(!tier.may_gain(store.now_secs()), "there is nothing to gain for a moment");
        }
        assert_eq!((tier.counters.totals().moved, store.totals(other).tier_evictions), before);
        assert!(tier.may_gain(store.now_secs() + 1));
    }
}

/// Writes bytes over those of a tier's file, behind its back.
fn damage(folder: &Folder, at: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(folder.path()).unwrap();
    let front = file.metadata().unwrap().len() - Bytes::mib(16).0;
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, front + at).unwrap();
    file.sync_all().unwrap();
}

/// A record whose damaged key or owner leads to no item does not keep its segment for ever; its item goes, and no other.
#[test]
fn a_record_that_does_not_say_whose_it_is_keeps_no_segment() {
    let folder = Folder::new("hidden");
    let (store, mut worker) = start(Arc::new(folder.tier()), OPTIONS);
    let (tenant, other) = (add(&store, "t"), add(&store, "other"));
    let tier = &store.tiers[0];
    assert!((0..4_000).all(|number| set(&mut worker, tenant, number)));
    worker.clean_tiers(By::Background);
    let bad = tier.segments.sealed().next().unwrap();
    let is_there = |at: u64| tier.segments.of(at) == bad;
    let there: Vec<u32> =
        (0..4_000).filter(|number| place(&worker, tenant, *number).is_some_and(is_there)).collect();
    // Passes take first what has the least alive.
    assert!(there[3..].iter().all(|number| delete(&mut worker, tenant, *number)));
    // What is alive stays, and what is dead is of use.
    store.tenant(tenant).set_floor(Bytes::mib(60));
    store.tenant(tenant).set_share(MemoryShare::of(Bytes::mib(60)), Bytes::ZERO);
    (0..4_000)
        .filter(|n: &u32| !n.is_multiple_of(3) && !there.contains(n))
        .for_each(|n| _ = delete(&mut worker, tenant, n));
    let at = |of: usize| place(&worker, tenant, there[of]).unwrap();
    damage(&folder, at(0) + record::HEADER as u64, b"X");
    damage(&folder, at(1) + 8, &tier.owner(other).0.to_le_bytes());
    worker.quiesce();
    let mut cleaner = TierCleaner::new(Rng::new(1));
    for _ in 0..10 {
        cleaner.pass(&store, &mut worker.reader, &worker.counters, tier);
        worker.clean_tiers(By::Background);
    }
    assert_eq!(tier.segments.live(bad), 0, "it has come back");
    assert_eq!(tier.counters.totals().broken, 2);
    assert!(!has(&mut worker, tenant, there[0]) && !has(&mut worker, tenant, there[1]));
    assert!(has(&mut worker, tenant, there[2]));
    worker.quiesce();
    worker.check();
}

/// Who has no row in the notes, here for a name that does not fit, has its values in DRAM, and takes no longer for that than others.
#[test]
fn who_has_no_row_in_the_notes_stays_in_dram() {
    let folder = Folder::new("rowless");
    for placement in [Placement::Tier(0), Placement::Auto] {
        let (store, mut worker) = start(Arc::new(folder.tier()), OPTIONS);
        let tenant = add(&store, &"n".repeat(65));
        assert!(store.set_placement(tenant, placement));
        assert_eq!(store.tiers[0].owner(tenant), NOBODY);
        for number in 0..1_000 {
            let text = format!("key {number}");
            let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
            let made = worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 2_000]);
            assert!(made.is_ok(), "it is stored at once: {number} {made:?}");
            worker.quiesce();
        }
        assert!((0..1_000).all(|number| has(&mut worker, tenant, number)));
        assert!((1_000..20_000).all(|number| set(&mut worker, tenant, number)), "and DRAM turns over");
        assert_eq!(store.tiers[0].in_use().live, Bytes::ZERO);
        worker.quiesce();
        worker.check();
    }
}
