//! What a tier has room for is put there, and not evicted.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::memory::{MemoryShare, Worth};
use control::{Actuator, Decision, Law, Pool, Row, Seen, Sensor, Shares, Window};
use media::faults::Faulty;
use media::{Device, FileTier, Plain};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{
    BandwidthControl, Fields, MemoryControl, Mode, Options, Placement, RankKind, Refused, Space, Store,
    TenantSpec, Worker,
};
use units::{Bytes, Duration, Instant, TenantId};

const TENANTS: [(&str, u64, usize); 3] =
    [("small", 5_000, 2_000), ("even", 2_500, 4_000), ("large", 3_750, 4_000)];

const OPTIONS: Options = Options {
    memory: Bytes::mib(16),
    item_max: Bytes::mib(1),
    threads: 2,
    tenants_max: 8,
    no_evict: false,
    seed: 1,
};

fn spec(name: &str) -> TenantSpec {
    TenantSpec {
        name: name.to_owned(),
        own_space: true,
        claim: control::Claim::default(),
        rank: RankKind::default(),
    }
}

/// A store with a tier four times as large as DRAM.
fn new_store(seed: u64) -> Arc<Store> {
    let options = Options { seed, ..OPTIONS };
    Store::with_tiers(options, &[Arc::new(Plain::new(Bytes::mib(64)).unwrap())], 0).unwrap()
}

fn set(worker: &mut Worker, tenant: TenantId, number: u64, len: usize) {
    let text = format!("key-{number}");
    loop {
        let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        match worker.set(tenant, &key, Mode::Set, Fields::default(), &vec![7; len]) {
            Ok(_) => break,
            Err(Refused::NoRoom | Refused::Away) => worker.make_room().unwrap(),
            Err(why) => panic!("{why:?}"),
        }
    }
    worker.quiesce();
}

fn new_tenants(store: &Store) -> [TenantId; 3] {
    TENANTS.map(|(name, _, _)| {
        let id = store.add_tenant(spec(name)).unwrap();
        assert!(store.set_placement(id, Placement::Auto));
        id
    })
}

/// Each tenant's values are written so many times, by other names each time. Once is twice what DRAM holds, half of what
/// the tier holds.
fn write_all(tenants: [TenantId; 3], times: u64, mut write: impl FnMut(TenantId, u64, usize)) {
    for (id, (_, keys, len)) in tenants.into_iter().zip(TENANTS) {
        (0..keys * times).for_each(|number| write(id, number, len));
    }
}

/// What was evicted while another thread cleaned.
fn evictions(seed: u64) -> u64 {
    let store = new_store(seed);
    let mut worker = store.worker().unwrap();
    let mut cleaner = store.worker().unwrap();
    let tenants = new_tenants(&store);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                cleaner.maintain();
                cleaner.quiesce();
            }
        });
        write_all(tenants, 1, |id, number, len| set(&mut worker, id, number, len));
        done.store(true, Ordering::Relaxed);
    });
    tenants.iter().map(|id| store.totals(*id).evictions).sum()
}

/// Values go below, whatever room the cleaner finds for what stays.
#[test]
fn what_fits_below_is_not_evicted() {
    let all: Vec<u64> = (1..=20).map(evictions).collect();
    assert_eq!(all.iter().sum::<u64>(), 0, "{all:?}");
}

/// Where the tier is full, what goes goes from there, and not what is small enough to stay in DRAM, or leads to a value below.
/// The cleaner comes after every value: what a thread evicts that it has not helped in time is another matter.
#[test]
fn what_goes_goes_from_the_tier() {
    let store = new_store(1);
    let mut worker = store.worker().unwrap();
    let mut cleaner = store.worker().unwrap();
    let tenants = new_tenants(&store);
    let mut write = |id, number, len| {
        cleaner.go_offline();
        worker.go_online();
        set(&mut worker, id, number, len);
        worker.go_offline();
        cleaner.go_online();
        cleaner.maintain();
    };
    // Too small for the tier.
    (0..40_000).for_each(|number| write(tenants[0], u64::MAX - number, 60));
    write_all(tenants, 10, write);
    let totals = tenants.map(|id| store.totals(id));
    let all: u64 = totals.iter().map(|of| of.evictions).sum();
    let below: u64 = totals.iter().map(|of| of.tier_evictions).sum();
    assert!(50_000 < below && all == below, "{all} were evicted, {below} of them below");
}

/// What a device does not take in time is evicted, or stays in DRAM: who serves requests does not wait for it.
#[test]
fn a_device_that_hangs_holds_no_writer_back() {
    let folder = std::env::temp_dir().join(format!("cotenant-hangs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let device = Arc::new(Faulty::new(FileTier::open(&folder.join("tier"), Bytes::mib(64)).unwrap()));
    let store = Store::with_tiers(OPTIONS, &[Arc::clone(&device) as Arc<dyn Device>], 0).unwrap();
    store.set_cleaners(1);
    let mut cleaner = store.worker().unwrap();
    cleaner.restore(None, &mut |_, _| None);
    let tenants = [("auto", Placement::Auto), ("below", Placement::Tier(0))].map(|(name, placement)| {
        let id = store.add_tenant(spec(name)).unwrap();
        assert!(store.set_placement(id, placement));
        id
    });
    let done = AtomicBool::new(false);
    let (tell, told) = std::sync::mpsc::channel();
    let write = |worker: &mut Worker, from: u64| {
        (from..from + 5_000).for_each(|number| tenants.iter().for_each(|id| set(worker, *id, number, 4_000)));
    };
    let put_below = || tenants.map(|id| store.totals(id).demotions).iter().sum::<u64>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                cleaner.maintain();
                cleaner.quiesce();
            }
        });
        let hung = device.hang();
        let writer = scope.spawn(|| {
            let mut worker = store.worker().unwrap();
            write(&mut worker, 0);
            tell.send(tenants.map(|id| store.totals(id).evictions)).unwrap();
            worker
        });
        let evictions = told.recv_timeout(std::time::Duration::from_secs(60));
        drop(hung);
        let before = put_below();
        let worker = writer.join();
        let goes_on = worker.map(|mut worker| (1..=10).for_each(|time| write(&mut worker, 5_000 * time)));
        done.store(true, Ordering::Relaxed);
        goes_on.unwrap();
        // Of 20 MB each a part is in DRAM and in what was gathered.
        let evictions = evictions.expect("the writer has not waited for the device");
        assert!(evictions.iter().all(|of| 5_000 / 2 < *of), "{evictions:?}");
        assert!(before + 1_000 < put_below(), "{before}, then {}", put_below());
    });
    std::fs::remove_dir_all(folder).unwrap();
}

/// Who only cleans is none of the threads that a delay between requests holds back.
#[test]
fn a_cleaner_is_no_thread_of_a_tenant() {
    let store = new_store(1);
    let (mut worker, mut cleaner) = (store.worker().unwrap(), store.worker().unwrap());
    let id = store.add_tenant(spec("auto")).unwrap();
    assert!(store.set_placement(id, Placement::Auto));
    let mut control = BandwidthControl::new(Arc::clone(&store));
    let mut read = || {
        let mut rows = Vec::new();
        control.read(Instant::ZERO, &mut rows);
        rows[0].signal.unwrap_or_default()
    };
    read();
    for number in 0..8_000 {
        set(&mut worker, id, number, 2_000);
        // What it cleans itself comes from its own thread.
        while store.wants_cleaning() {
            worker.go_offline();
            cleaner.maintain();
            cleaner.quiesce();
            worker.go_online();
        }
    }
    let cleaned = read();
    assert!(0 < cleaned.accesses.slow_write && cleaned.threads == 0, "{cleaned:?}");
    let text = (0..8_000).map(|number| format!("key-{number}")).find(|text| {
        let key = worker.key(Space::Own(id), text.as_bytes()).unwrap();
        worker.reads_tier(&key)
    });
    let text = text.unwrap();
    let key = worker.key(Space::Own(id), text.as_bytes()).unwrap();
    assert!(worker.get(id, &key).is_some());
    let read = read();
    assert_eq!((read.accesses.slow_read, read.threads), (1, 1));
}

/// What ranks let expect of a tenant does not depend on where its values may go.
#[test]
fn as_many_hits_are_expected_of_values_that_can_go_below() {
    let store = new_store(1);
    let mut worker = store.worker().unwrap();
    let both = [Placement::Auto, Placement::Dram].map(|placement| {
        let spec = TenantSpec {
            name: format!("{placement:?}"),
            own_space: true,
            claim: control::Claim::default(),
            rank: RankKind::default(),
        };
        let id = store.add_tenant(spec).unwrap();
        assert!(store.set_placement(id, placement));
        id
    });
    // Both hold as much when cleaning begins: nothing has gone anywhere.
    for number in 0..4_000 {
        both.iter().for_each(|id| set(&mut worker, *id, number, 2_000));
    }
    let mut rows = Vec::new();
    MemoryControl::new(Arc::clone(&store)).read(Instant::ZERO, &mut rows);
    let expected = both.map(|id| {
        let signal = rows.iter().find(|row| row.id == id).and_then(|row| row.signal);
        signal.unwrap().expected_hits as f64
    });
    assert!(0.0 < expected[1] && (0.5..2.0).contains(&(expected[0] / expected[1])), "{expected:?}");
}

/// Looks one tenant's items up again and again while another stores twice what the tier holds once each, which is given nearly all
/// of the memory; returns what is left of the items that are used, in per cent.
fn left_of_what_is_used(rank: RankKind, worth: Option<Worth>) -> u64 {
    let (store, used_items) = (new_store(1), 6_000);
    let mut worker = store.worker().unwrap();
    let [used, once] = ["used", "once"].map(|name| {
        let (name, claim, rank) = (name.to_owned(), control::Claim::default(), rank.clone());
        let id = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
        assert!(store.set_placement(id, Placement::Auto));
        id
    });
    let rows: [Row<(), MemoryShare>; 2] =
        [used, once].map(|id| Row { id, claim: control::Claim::default(), signal: None, in_force: None });
    let (mut shares, pool) = (Shares::default(), Pool::default());
    let of = |id, mib| (id, MemoryShare { worth, ..MemoryShare::of(Bytes::mib(mib)) });
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    shares.rebuild(Law::Free, &seen, [of(used, 1), of(once, 70)].into_iter());
    let second = Duration::from_secs(1);
    let decision = Decision { shares: &shares, wake: second, lease: second, steady: true, notes: &[] };
    MemoryControl::new(Arc::clone(&store)).apply(Instant::default(), &decision, &mut Vec::new());
    let is_there = |worker: &mut Worker, number: u64| {
        let text = format!("key-{number}");
        let there = worker.get(used, &worker.key(Space::Own(used), text.as_bytes()).unwrap()).is_some();
        worker.quiesce();
        there
    };
    (0..used_items).for_each(|number| set(&mut worker, used, number, 2_000));
    for number in 0..60_000 {
        set(&mut worker, once, number, 2_000);
        is_there(&mut worker, number % used_items);
    }
    assert!(0 < store.totals(once).evictions);
    let left = (0..used_items).filter(|number| is_there(&mut worker, *number)).count() as u64;
    left * 100 / used_items
}

/// Who competes by worth does so in tiers and for places above them, too, whatever its rank.
#[test]
fn what_is_worth_least_goes_from_a_tier_whosever_it_is() {
    for rank in [RankKind::default(), RankKind::Lru] {
        let by_need = left_of_what_is_used(rank.clone(), None);
        let by_worth = left_of_what_is_used(rank.clone(), Some(Worth::default()));
        println!("{rank:?}: {by_need} % are left by need, {by_worth} % by worth");
        assert!(by_need < 50 && 99 <= by_worth, "{rank:?}: {by_need} % by need, {by_worth} % by worth");
    }
}

/// Records that have expired below are not counted as held, but as below, until they are found: what goes of what the tenant has in
/// DRAM is what ranks lowest all the same.
#[test]
fn what_has_expired_below_changes_nothing_of_what_goes_in_dram() {
    let store = new_store(1);
    let mut worker = store.worker().unwrap();
    let [below, neighbour] = ["below", "neighbour"].map(|name| {
        let (name, claim, rank) = (name.to_owned(), control::Claim::default(), RankKind::Lru);
        store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap()
    });
    assert!(store.set_placement(below, Placement::Tier(0)));
    store.set_now(10);
    for number in 0..5_000 {
        let text = format!("expires-{number}");
        let key = worker.key(Space::Own(below), text.as_bytes()).unwrap();
        let fields = Fields { expires_at: 20, ..Fields::default() };
        worker.set(below, &key, Mode::Set, fields, &[7; 4_000]).unwrap();
        worker.quiesce();
    }
    store.set_now(30);
    assert!(store.set_placement(below, Placement::Dram));
    (0..50_000).for_each(|number| set(&mut worker, below, number, 200));
    (0..2_250).for_each(|number| set(&mut worker, neighbour, number, 2_000));
    let is_there = |number: &u64| {
        let text = format!("key-{number}");
        worker.peek(&worker.key(Space::Own(below), text.as_bytes()).unwrap()).is_some()
    };
    let there = [0..25_000, 25_000..50_000].map(|half| half.filter(is_there).count());
    assert!(there[0] < 24_500 && 24_900 < there[1], "{there:?} of its older and its newer half");
}
