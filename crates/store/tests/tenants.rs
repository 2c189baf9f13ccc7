//! Tenants come and go while others work: what a removed one held is free, its id is clean for the next, and writes beyond
//! a share follow the tenant's option.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::memory::MemoryShare;
use control::{Actuator, Amount, Claim, Decision, Law, Pool, Row, Seen, Sensor, Shares, Window};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use store::{
    Fields, MemoryControl, Mode, Options, OverShare, RankKind, Refused, Space, Store, TenantSpec, Worker,
};
use units::{Bytes, Duration, Instant, Rng, TenantId};

fn spec(name: &str) -> TenantSpec {
    TenantSpec { name: name.to_owned(), own_space: false, claim: Claim::default(), rank: RankKind::Lru }
}

fn new_store(memory: Bytes, tenants_max: usize, tenants: usize) -> Arc<Store> {
    let options =
        Options { memory, item_max: Bytes::kib(64), threads: 4, tenants_max, no_evict: false, seed: 1 };
    let store = Store::new(options).unwrap();
    for i in 0..tenants {
        store.add_tenant(spec(&format!("t{i}"))).unwrap();
    }
    store
}

fn set(
    worker: &mut Worker,
    tenant: TenantId,
    key: &str,
    value: &[u8],
    expires_at: u32,
) -> Result<(), Refused> {
    loop {
        let hashed = worker.key(Space::Shared, key.as_bytes()).unwrap();
        match worker.set(tenant, &hashed, Mode::Set, Fields { expires_at, ..Fields::default() }, value) {
            Ok(_) => return Ok(()),
            Err(Refused::NoRoom) => worker.make_room().unwrap(),
            Err(other) => return Err(other),
        }
    }
}

fn get(worker: &Worker, tenant: TenantId, key: &str) -> Option<Vec<u8>> {
    let key = worker.key(Space::Shared, key.as_bytes()).unwrap();
    worker.get(tenant, &key).map(|item| item.value().to_vec())
}

/// Turns of the background cleaner until nothing is left to do.
fn maintain(worker: &mut Worker) {
    for _ in 0..10_000 {
        worker.quiesce();
        if !worker.maintain() {
            return;
        }
    }
    panic!("the cleaner finds no end");
}

fn share_out(store: &Arc<Store>, share: MemoryShare) {
    let count = u32::try_from(store.tenant_count()).unwrap();
    let row = |i| Row { id: TenantId(i), claim: Claim::default(), signal: None, in_force: None };
    let rows: Vec<Row<(), MemoryShare>> = (0..count).map(row).collect();
    let pool = Pool::default();
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    let mut shares = Shares::default();
    shares.rebuild(Law::Free, &seen, rows.iter().map(|row| (row.id, share)));
    let (wake, lease) = (Duration::from_secs(1), Duration::from_secs(1));
    let decision = Decision { shares: &shares, wake, lease, steady: true, notes: &[] };
    MemoryControl::new(Arc::clone(store)).apply(Instant::default(), &decision, &mut Vec::new());
}

/// Tenants that fill tables of theirs within one second of the clock: segments give way without waiting for the next one.
#[test]
fn tables_that_writes_let_grow_count_before_the_second_ends() {
    let tenants = 500_u32;
    let store = new_store(Bytes::mib(16), tenants as usize, tenants as usize);
    let mut worker = store.worker().unwrap();
    let (empty, now) = (store.memory_use(), store.now_secs());
    for round in 0..6 {
        for tenant in 0..tenants {
            for ttl in [10, 100, 1_000, 10_000, 100_000] {
                let key = format!("{tenant}:{round}:{ttl}");
                set(&mut worker, TenantId(tenant), &key, &[1; 1_000], now + ttl).unwrap();
            }
        }
        worker.quiesce();
    }
    let full = store.memory_use();
    assert_eq!(store.now_secs(), now);
    assert!(empty.tables + Bytes::mib(1) < full.tables, "{} and {}", empty.tables, full.tables);
    maintain(&mut worker);
    let used = store.memory_use();
    let all = used.segments + used.values + used.index + used.shadow + used.tables;
    assert!(all <= Bytes::mib(16), "{all}: {used:?}");
    worker.check();
}

/// What a tenant holds that comes when the store has long been running, of items that expire later than the second that begins next.
#[test]
fn who_comes_late_is_charged_for_what_expires() {
    for late in [10, 3_600, 10_000_000] {
        let store = new_store(Bytes::mib(16), 4, 1);
        let mut worker = store.worker().unwrap();
        store.set_now(late);
        let tenant = store.add_tenant(spec("late")).unwrap();
        let ttls = [1, 60, 500, 30 * 86_400];
        for (i, ttl) in ttls.into_iter().enumerate() {
            set(&mut worker, tenant, &format!("key {i}"), &[1; 1_000], late + ttl).unwrap();
        }
        let all = store.held(tenant);
        for (after, left) in [(1, 3), (2, 3), (100, 2), (600, 1), (31 * 86_400, 0)] {
            store.set_now(late + after);
            worker.quiesce();
            assert_eq!(store.held(tenant).0, all.0 / 4 * left, "{after} seconds after {late}");
            worker.check();
        }
    }
}

/// Removing a tenant kills its items at once, costs nobody else one, and gives its memory and its id to who comes next.
#[test]
fn a_removed_tenant_leaves_its_memory_and_a_clean_id() {
    let store = new_store(Bytes::mib(8), 3, 3);
    let mut worker = store.worker().unwrap();
    let (stays, leaves) = (TenantId(1), TenantId(2));
    for n in 0..6_000 {
        set(&mut worker, stays, &format!("s:{n}"), &[1; 100], 0).unwrap();
        // Some with a time to live, so that there are wheels to come back to.
        set(&mut worker, leaves, &format!("l:{n}"), &[2; 300], if n % 3 == 0 { 1_000 } else { 0 }).unwrap();
    }
    let held = store.tenant_state(stays).unwrap().held;
    let sets = store.totals(leaves).cmd_set;
    assert!(store.totals(leaves).evictions == 0 && sets == 6_000, "nothing is short yet");
    let slots = store.memory_use().slots;

    assert!(store.remove_tenant(leaves) && !store.remove_tenant(leaves), "it leaves once");
    assert!(store.tenant_state(leaves).is_none() && !store.is_present(leaves));
    assert_eq!(get(&worker, TenantId(0), "l:7"), None, "dead at once, whoever asks");
    assert_eq!(store.totals(leaves).cmd_set, sets, "its counters stay for now");
    assert_eq!(store.add_tenant(spec("next")), None, "its id is not free while items of it are there");
    worker.quiesce();
    worker.check();

    maintain(&mut worker);
    assert_eq!(store.memory_use().slots, slots - 6_000, "the index leads to nothing of it");
    assert_eq!(store.tenant_state(stays).unwrap().held, held, "nobody else lost a byte");
    assert!((0..6_000).all(|n| get(&worker, stays, &format!("s:{n}")).is_some()));

    let next = store.add_tenant(spec("next")).unwrap();
    let state = store.tenant_state(next).unwrap();
    assert_eq!((next, state.name.as_str(), state.held, state.items), (leaves, "next", Bytes::ZERO, 0));
    assert_eq!(store.totals(next).cmd_set, 0, "counters begin anew");
    let counted = sets + store.totals(stays).cmd_set + store.totals(TenantId(0)).cmd_set;
    assert_eq!(store.totals_of_all(false).cmd_set, counted, "and nothing counted is lost");
    assert!((0..6_000).all(|n| get(&worker, next, &format!("l:{n}")).is_none()), "nothing comes back");
    for n in 0..40_000 {
        set(&mut worker, next, &format!("l:{n}"), &[3; 300], if n % 3 == 0 { 2_000 } else { 0 }).unwrap();
        assert_eq!(get(&worker, next, &format!("l:{n}")), Some(vec![3; 300]), "stored is stored");
    }
    assert!(0 < store.totals(next).evictions, "the memory is full now");
    worker.quiesce();
    worker.check();
    // Expiries of the first tenant are not taken off the second's bytes, and its own are.
    store.set_now(1_500);
    worker.check();
    store.set_now(2_500);
    worker.check();
}

/// A control loop that has not seen a tenant go does not take the next one with its id for it.
#[test]
fn an_id_is_given_again_when_the_loop_has_seen_its_tenant_gone() {
    let store = new_store(Bytes::mib(8), 8, 2);
    let mut worker = store.worker().unwrap();
    let mut control = MemoryControl::new(Arc::clone(&store));
    let mut read = || {
        let mut rows = Vec::new();
        control.read(Instant::default(), &mut rows);
        rows.iter().map(|row| (row.id.0, row.signal.unwrap().gets)).collect::<Vec<_>>()
    };
    assert_eq!(get(&worker, TenantId(1), "a"), None);
    assert_eq!(read(), [(0, 0), (1, 1)]);
    store.remove_tenant(TenantId(1));
    maintain(&mut worker);
    assert_eq!(store.add_tenant(spec("a")), Some(TenantId(2)), "no decision has seen that 1 is gone");
    assert_eq!(read(), [(0, 0), (2, 0)]);
    assert_eq!(store.add_tenant(spec("b")), Some(TenantId(1)));
    assert_eq!(get(&worker, TenantId(1), "a"), None);
    assert_eq!(read(), [(0, 0), (1, 1), (2, 0)], "the new tenant's look-up counts from zero");
}

/// What a tenant claims, and how it is ranked, changes while the store works.
#[test]
fn claims_change_at_run_time() {
    let store = new_store(Bytes::mib(8), 2, 2);
    let claim = Claim { floor: Amount::memory(Bytes::mib(2)), credit: Some(Bytes(7)), ..Claim::default() };
    assert!(store.set_claim(TenantId(1), claim.clone()) && store.set_rank(TenantId(1), RankKind::Gdsf));
    assert!(!store.set_claim(TenantId(2), claim.clone()), "there is no such tenant");
    let mut rows = Vec::new();
    MemoryControl::new(Arc::clone(&store)).read(Instant::default(), &mut rows);
    assert_eq!((&rows[0].claim, &rows[1].claim), (&Claim::default(), &claim));
    let state = store.tenant_state(TenantId(1)).unwrap();
    assert_eq!((state.rank, state.name.as_str()), (RankKind::Gdsf, "t1"));
}

/// Whoever reserves nothing has the private part of its first share as a reservation, which follows who is there; whoever
/// reserves something has that.
#[test]
fn private_memory_is_a_part_of_the_first_share() {
    let store = new_store(Bytes::mib(8), 4, 3);
    let reserved = Bytes::mib(1);
    let claim = Claim { floor: Amount::memory(reserved), ..Claim::default() };
    assert!(store.set_claim(TenantId(2), claim));
    let mut control = MemoryControl::new(Arc::clone(&store));
    for (round, (part, then_more)) in
        [(0.0, false), (0.5, true), (1.0, false), (0.0, false)].iter().enumerate()
    {
        control.set_private(*part);
        let mut rows = Vec::new();
        let pool = control.read(Instant::default(), &mut rows);
        let count = rows.len() as f64;
        let first = (pool.capacity.bytes - reserved).0 as f64 / count;
        for row in &rows {
            let floor = row.claim.floor.bytes;
            let wanted = if row.id == TenantId(2) { reserved.0 as f64 } else { first * part };
            assert!((floor.0 as f64 - wanted).abs() <= 1.0, "{part}: {floor} of {}, not {wanted}", row.id);
            // The cleaner is told as soon as there is a private part, and that there is none any more.
            assert!(round == 0 || store.tenant_state(row.id).unwrap().private == floor);
        }
        if *then_more {
            store.add_tenant(spec("more")).unwrap();
        }
    }
}

/// A tenant that refuses stores up to its share and not a byte more, loses nothing for it, and takes what makes it no
/// larger; one that evicts stores everything.
#[test]
fn writes_beyond_the_share_are_refused_where_the_tenant_wants_it() {
    let store = new_store(Bytes::mib(8), 2, 2);
    let mut worker = store.worker().unwrap();
    let target = Bytes::mib(1);
    share_out(&store, MemoryShare::of(target));
    let (refuses, evicts) = (TenantId(1), TenantId(0));
    assert!(store.set_over_share(refuses, OverShare::Refuse));
    let mut stored = 0;
    while set(&mut worker, refuses, &format!("r{stored}"), &[1; 1_000], 0).is_ok() {
        stored += 1;
    }
    let held = store.tenant_state(refuses).unwrap().held;
    assert!(target.0 - 1_100 < held.0 && held <= target, "{held} of {target}");
    assert!(
        (0..stored).all(|n| get(&worker, refuses, &format!("r{n}")).is_some()),
        "what was stored is there"
    );
    for n in 0..100 {
        assert_eq!(set(&mut worker, refuses, "new", &[1; 1_000], 0), Err(Refused::OverShare), "{n}");
    }
    assert_eq!(store.totals(refuses).writes_refused, 101);
    assert_eq!(set(&mut worker, refuses, "r0", &[2; 1_000], 0), Ok(()), "no larger: stored");
    assert_eq!(set(&mut worker, refuses, "r0", &[2; 2_500], 0), Err(Refused::OverShare));
    assert_eq!(get(&worker, refuses, "r0"), None, "nobody takes the older value for the new one");
    let key = worker.key(Space::Shared, b"r1").unwrap();
    assert_eq!(worker.touch(refuses, &key, 50), Ok(true), "a touch stores nothing new");
    // Under a policy with ceilings the ceiling is the share.
    share_out(&store, MemoryShare { ceiling: Some(target), ..MemoryShare::of(Bytes::mib(3)) });
    assert_eq!(set(&mut worker, refuses, "r0", &[2; 2_500], 0), Err(Refused::OverShare));
    share_out(&store, MemoryShare::of(Bytes::mib(3)));
    assert_eq!(set(&mut worker, refuses, "r0", &[2; 2_500], 0), Ok(()), "a larger share takes more");
    // Also where it is less than what was promised, of which the idle tax takes.
    store.set_claim(refuses, Claim { floor: Amount::memory(Bytes::mib(4)), ..Claim::default() });
    share_out(&store, MemoryShare::of(target));
    assert_eq!(set(&mut worker, refuses, "r2", &[2; 2_500], 0), Err(Refused::OverShare));
    store.set_over_share(refuses, OverShare::Evict);
    for n in 0..20_000 {
        set(&mut worker, evicts, &format!("e{n}"), &[1; 1_000], 0).unwrap();
        assert!(get(&worker, evicts, &format!("e{n}")).is_some());
    }
    let totals = store.totals(evicts);
    assert!(0 < totals.evictions && totals.writes_refused == 0);
    assert!(totals.evictions <= totals.evicted_over_share * 100 / 99, "it evicts its own: {totals:?}");
    let other = store.totals(refuses);
    assert!(other.evictions * 20 < totals.evictions, "who is within its share hardly loses: {other:?}");
    worker.quiesce();
    worker.check();
}

const CHURN: usize = 6;
const NOBODY: u32 = u32::MAX;

/// Who a key belongs to changes while threads read and write: nobody ever sees a value of the tenant that had the id or the
/// key before, and everything is accounted for in the end.
#[test]
fn tenants_come_and_go_under_load() {
    for seed in [3, 4, 5] {
        churn(seed);
    }
}

/// What routes keys: an id per prefix and a number that each tenant of the prefix has for itself.
struct Table {
    ids: [AtomicU32; CHURN],
    numbers: [AtomicU32; CHURN],
    ends: AtomicBool,
}

fn churn(seed: u64) {
    // More ids than prefixes: some wait to be free.
    let store = new_store(Bytes::mib(8), 1 + CHURN * 2, 1);
    let table = Arc::new(Table {
        ids: std::array::from_fn(|_| AtomicU32::new(NOBODY)),
        numbers: std::array::from_fn(|_| AtomicU32::new(0)),
        ends: AtomicBool::new(false),
    });
    let spawn = |act: fn(&Arc<Store>, &Table, u64), seed: u64| {
        let (store, table) = (Arc::clone(&store), Arc::clone(&table));
        std::thread::spawn(move || act(&store, &table, seed))
    };
    let users = [spawn(use_tenants, seed), spawn(use_tenants, seed + 100)];
    let cleaner = spawn(keep_clean, seed);
    let mut rng = Rng::new(seed);
    let mut given = std::collections::BTreeMap::<u32, u32>::new();
    for number in 1..400_u32 {
        let at = rng.index(CHURN);
        let id = table.ids[at].swap(NOBODY, Ordering::SeqCst);
        if id != NOBODY {
            assert!(store.remove_tenant(TenantId(id)));
        }
        table.numbers[at].store(number, Ordering::SeqCst);
        let added = loop {
            match store.add_tenant(spec(&format!("p{at}-{number}"))) {
                Some(id) => break id,
                None => std::thread::yield_now(),
            }
        };
        *given.entry(added.0).or_default() += 1;
        table.ids[at].store(added.0, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    table.ends.store(true, Ordering::SeqCst);
    users.into_iter().chain([cleaner]).for_each(|thread| thread.join().unwrap());
    assert!(given.values().any(|times| 5 < *times), "ids were given again: {given:?}");
    let mut worker = store.worker().unwrap();
    maintain(&mut worker);
    worker.quiesce();
    worker.check();
}

fn keep_clean(store: &Arc<Store>, table: &Table, _: u64) {
    let mut worker = store.worker().unwrap();
    while !table.ends.load(Ordering::SeqCst) {
        worker.maintain();
        worker.quiesce();
        std::thread::yield_now();
    }
}

fn use_tenants(store: &Arc<Store>, table: &Table, seed: u64) {
    let mut worker = store.worker().unwrap();
    let mut rng = Rng::new(seed);
    while !table.ends.load(Ordering::SeqCst) {
        let at = rng.index(CHURN);
        let number = table.numbers[at].load(Ordering::SeqCst);
        let id = table.ids[at].load(Ordering::SeqCst);
        // A tenant that changed between the two is left out.
        if id != NOBODY && table.numbers[at].load(Ordering::SeqCst) == number {
            let id = TenantId(id);
            let name = format!("{at}:{}", rng.below(300));
            let key = worker.key(Space::Shared, name.as_bytes()).unwrap();
            if let Some(item) = worker.get(id, &key) {
                let seen = u32::from_le_bytes(item.value()[..4].try_into().unwrap());
                assert!(number <= seen, "{name}: a value of tenant {seen} under tenant {number}");
            }
            let mut value = vec![0; 4 + rng.index(400)];
            value[..4].copy_from_slice(&number.to_le_bytes());
            let expires_at = if rng.below(4) == 0 { 500 } else { 0 };
            let fields = Fields { expires_at, ..Fields::default() };
            if worker.set(id, &key, Mode::Set, fields, &value) == Err(Refused::NoRoom) {
                worker.make_room().unwrap();
            }
        }
        worker.quiesce();
    }
}

/// An item that comes to a tenant by a touch is as new as one that is stored for it.
#[test]
fn what_is_touched_for_another_tenant_outlives_that_ones_flushes() {
    let store = new_store(Bytes::mib(8), 4, 2);
    let mut worker = store.worker().unwrap();
    let (one, two) = (TenantId(0), TenantId(1));
    set(&mut worker, one, "x", b"v", 0).unwrap();
    let hashed = worker.key(Space::Shared, b"x").unwrap();
    let cas = worker.get(one, &hashed).unwrap().cas();
    store.flush(two, 0);
    assert_eq!(worker.touch(two, &hashed, store.now_secs() + 100), Ok(true));
    assert_eq!(get(&worker, two, "x").as_deref(), Some(&b"v"[..]));
    assert_eq!(worker.get(two, &hashed).unwrap().cas(), cas, "a touch changes no CAS value");
    worker.check();
    store.flush_all(&[one, two], 0);
    assert_eq!(get(&worker, one, "x"), None);
    worker.check();
}

#[test]
fn several_are_flushed_at_once_now_or_later() {
    let store = new_store(Bytes::mib(8), 8, 5);
    let mut worker = store.worker().unwrap();
    let all: Vec<_> = (0..5).map(TenantId).collect();
    let fill = |worker: &mut Worker| {
        all.iter().for_each(|tenant| set(worker, *tenant, &format!("{}", tenant.0), b"v", 0).unwrap());
    };
    let there = |worker: &Worker| {
        all.iter().filter(|tenant| get(worker, **tenant, &format!("{}", tenant.0)).is_some()).count()
    };
    fill(&mut worker);
    store.flush_all(&all[1..3], 0);
    assert_eq!(there(&worker), 3);
    let later = store.now_secs() + 10;
    store.flush_all(&all, later);
    // One is flushed at once instead, and another later than that.
    store.flush(all[0], 0);
    store.flush(all[4], later + 10);
    fill(&mut worker);
    store.set_now(later);
    assert_eq!(there(&worker), 2, "all but the first and the last");
    store.set_now(later + 10);
    assert_eq!(there(&worker), 1);
    worker.check();
}

/// Each thread keeps a segment open, and however little memory there is, some can be cleaned.
#[test]
fn many_threads_share_a_small_memory() {
    for (memory, threads, withheld) in [(64, 64, 0), (64, 4, 56), (16, 32, 8), (8, 4, 0)] {
        let options = Options {
            memory: Bytes::mib(memory),
            item_max: Bytes::mib(1),
            threads,
            tenants_max: 4,
            no_evict: false,
            seed: 1,
        };
        assert!(store::Geometry::new(options.memory, options.item_max, threads).has_room());
        let store = Store::new(options).unwrap();
        store.add_tenant(spec("t")).unwrap();
        store.set_external(Bytes::mib(withheld));
        let mut workers: Vec<_> = (0..threads).map(|_| store.worker().unwrap()).collect();
        // Those that do nothing meanwhile hold nobody up.
        workers.iter_mut().for_each(Worker::go_offline);
        let (rounds, value) = (2 * memory * 1_024 / threads as u64, vec![7; 1_000]);
        for turn in [0, threads - 1, 1] {
            for (at, worker) in workers.iter_mut().enumerate() {
                worker.go_online();
                let rounds = if at == turn { 4 * rounds } else { rounds };
                for round in 0..rounds {
                    let written = set(worker, TenantId(0), &format!("{at} {round}"), &value, 0);
                    assert_eq!(written, Ok(()), "{memory} MiB, {threads} threads: {at} at {round}");
                    worker.quiesce();
                }
                worker.go_offline();
            }
        }
        workers[0].go_online();
        workers[0].check();
    }
}

#[test]
fn what_has_expired_is_no_live_item_whether_it_is_removed_or_not() {
    let store = new_store(Bytes::mib(16), 4, 2);
    let mut worker = store.worker().unwrap();
    let (ids, now) = ([TenantId(0), TenantId(1)], store.now_secs());
    for n in 0..1_000 {
        set(&mut worker, ids[0], &format!("soon{n}"), b"v", now + 1).unwrap();
        set(&mut worker, ids[1], &format!("later{n}"), b"v", now + 1_000).unwrap();
    }
    set(&mut worker, ids[0], "stays", b"v", 0).unwrap();
    let items = || ids.map(|id| store.tenant_state(id).unwrap().items);
    assert_eq!(items(), [1_001, 1_000]);
    store.set_now(now + 3);
    assert_eq!(items(), [1, 1_000]);
    for n in 0..500 {
        // One of another tenant, too, and one that never was live.
        set(&mut worker, ids[1], &format!("soon{n}"), b"v", 0).unwrap();
        set(&mut worker, ids[0], &format!("past{n}"), b"v", 1).unwrap();
        assert_eq!(get(&worker, ids[0], &format!("soon{}", n + 500)), None);
    }
    assert_eq!(items(), [1, 1_500]);
    worker.quiesce();
    worker.check();
    store.flush(ids[0], 0);
    assert_eq!(items(), [0, 1_500]);
    maintain(&mut worker);
    worker.check();
}
