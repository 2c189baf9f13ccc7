//! Items whose values fit no segment: stored whole or piece by piece, kept while they are sent, evicted whole by their rank, and
//! never beyond the memory.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::Claim;
use std::sync::Arc;
use store::{
    Fetch, Fields, Key, Mode, Options, RankKind, Refused, Removal, Remove, Removed, Shortage, Space, Store,
    Stored, TenantSpec, Upload, Worker, Write,
};
use units::{Bytes, Rng, TenantId};

const ITEM_MAX: Bytes = Bytes::mib(4);
const ONE: TenantId = TenantId(0);

fn new_store(memory: Bytes, no_evict: bool, ranks: &[RankKind]) -> (Arc<Store>, Worker) {
    let options = Options { memory, item_max: ITEM_MAX, threads: 1, tenants_max: 8, no_evict, seed: 1 };
    let store = Store::new(options).unwrap();
    for (i, rank) in ranks.iter().enumerate() {
        let claim = Claim::default();
        store
            .add_tenant(TenantSpec { name: format!("t{i}"), own_space: true, claim, rank: rank.clone() })
            .unwrap();
    }
    let worker = store.worker().unwrap();
    (store, worker)
}

fn lru(memory: Bytes) -> (Arc<Store>, Worker) {
    new_store(memory, false, &[RankKind::Lru])
}

fn key<'k>(worker: &Worker, tenant: TenantId, name: &'k str) -> Key<'k> {
    worker.key(Space::Own(tenant), name.as_bytes()).unwrap()
}

/// Bytes that belong to a name and a length, so that a mixed-up page shows.
fn value_of(name: &str, len: usize) -> Vec<u8> {
    let seed = name.bytes().fold(len as u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
    let mut rng = Rng::new(seed);
    let mut value = Vec::with_capacity(len + 8);
    while value.len() < len {
        value.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    value.truncate(len);
    value
}

/// Runs a write, making room as often as it takes; false if there is none.
fn write(worker: &mut Worker, mut act: impl FnMut(&Worker) -> Result<Stored, Refused>) -> Option<Stored> {
    loop {
        match act(worker) {
            Ok(stored) => return Some(stored),
            Err(Refused::NoRoom) if worker.make_room().is_err() => return None,
            Err(Refused::NoRoom) => {}
            Err(refused) => panic!("{refused:?}"),
        }
    }
}

fn set(worker: &mut Worker, tenant: TenantId, name: &str, value: &[u8]) -> bool {
    write(worker, |w| w.set(tenant, &key(w, tenant, name), Mode::Set, Fields::default(), value)).is_some()
}

/// Receives a value in pieces.
fn upload(worker: &mut Worker, value: &[u8]) -> Result<Upload, Shortage> {
    let mut upload = worker.begin_upload(value.len()).unwrap();
    for mut piece in value.chunks(60_000) {
        while let Err(shortage) = upload.take(&mut piece) {
            if shortage == Shortage::TooMany || worker.make_room().is_err() {
                return Err(shortage);
            }
        }
    }
    assert_eq!((upload.missing(), upload.filled()), (0, value.len()));
    Ok(upload)
}

fn has(worker: &Worker, tenant: TenantId, name: &str, len: usize) -> bool {
    let Some(item) = worker.get(tenant, &key(worker, tenant, name)) else { return false };
    assert_eq!(item.value().len(), len, "{name}");
    assert!(item.value() == value_of(name, len), "{name} has another value's bytes");
    true
}

#[test]
fn values_of_every_size_come_back_and_go() {
    let (store, mut worker) = lru(Bytes::mib(64));
    let half = store.geometry().in_segment_max.as_usize();
    let sizes = [half - 100, half - 40, half - 20, half, half + 1, 7 * half + 4_095, 4_194_000];
    for len in sizes {
        assert!(set(&mut worker, ONE, "a", &value_of("a", len)));
        assert!(has(&worker, ONE, "a", len), "{len}");
        let held = store.held(ONE).0;
        assert!(len as u64 <= held && held < len as u64 + 4_096 + 64, "{len} bytes are charged {held}");
        let is_large = worker.peek(&key(&worker, ONE, "a")).unwrap().is_large();
        assert_eq!(is_large, half < len + 32, "{len}");
        worker.quiesce();
        worker.check();
    }
    assert_eq!(
        worker.set(ONE, &key(&worker, ONE, "a"), Mode::Set, Fields::default(), &[0; 4 << 20]),
        Err(Refused::TooLarge)
    );
    assert!(!has(&worker, ONE, "a", 0), "the older value goes with it");
    worker.quiesce();
    worker.maintain();
    assert_eq!((store.held(ONE), store.memory_use().values), (Bytes::ZERO, Bytes::ZERO));
    worker.check();
}

#[test]
fn what_changes_beside_the_value_leaves_it_where_it_is() {
    let (store, mut worker) = lru(Bytes::mib(32));
    let len = 2_000_000;
    assert!(set(&mut worker, ONE, "a", &value_of("a", len)));
    let before = worker.peek(&key(&worker, ONE, "a")).unwrap();
    let (place, cas) = (before.value().as_ptr(), before.cas());
    let expires_at = store.now_secs() + 100;
    assert_eq!(worker.touch(ONE, &key(&worker, ONE, "a"), expires_at), Ok(true));
    let stale = Remove { compare: None, what: Removal::Item, stale: true, expires_at: None, cas: None };
    assert_eq!(worker.remove(ONE, &key(&worker, ONE, "a"), &stale), Ok(Removed::Done));
    let fetched = worker.fetch(ONE, &key(&worker, ONE, "a"), &Fetch::default()).unwrap().unwrap();
    assert!(fetched.won && fetched.is_stale() && fetched.was.item.value().as_ptr() == place);
    let now = worker.peek(&key(&worker, ONE, "a")).unwrap();
    assert!(now.value().as_ptr() == place && now.expires_at() == expires_at && cas < now.cas());
    assert!(has(&worker, ONE, "a", len));
    worker.quiesce();
    worker.check();
    let emptied = Remove { what: Removal::Value(Fields::default()), stale: false, ..stale };
    assert_eq!(worker.remove(ONE, &key(&worker, ONE, "a"), &emptied), Ok(Removed::Done));
    worker.quiesce();
    worker.maintain();
    assert_eq!(store.memory_use().values, Bytes::ZERO);
    worker.check();
}

/// Who announces values and sends nothing takes the addresses of others who do, and none from what is there: an item that grows finds its
/// place, and nothing is evicted for that.
#[test]
fn values_that_are_announced_and_do_not_come_leave_addresses_to_others() {
    let (store, mut worker) = lru(Bytes::mib(32));
    assert!(set(&mut worker, ONE, "a", &value_of("a", 2_000_000)) && set(&mut worker, ONE, "b", &[7; 1_000]));
    let announced: Vec<Upload> = std::iter::from_fn(|| worker.begin_upload(4_000_000)).collect();
    assert!(7 < announced.len(), "{} of 4 MB in twice 32 MiB", announced.len());
    assert!(worker.begin_upload(4_000_000).is_none());
    assert_eq!(store.memory_use().values.0, 2_002_944, "they take no memory");
    let append = |w: &Worker| w.set(ONE, &key(w, ONE, "a"), Mode::Append, Fields::default(), &[1; 1_000_000]);
    assert_eq!(write(&mut worker, append), Some(Stored::Stored));
    assert!(worker.get(ONE, &key(&worker, ONE, "b")).is_some());
    assert_eq!(store.totals(ONE).evictions, 0);
    drop(announced);
    assert!(worker.begin_upload(4_000_000).is_some());
    worker.quiesce();
    worker.check();
}

#[test]
fn what_has_pages_of_its_own_is_no_number() {
    let (_store, mut worker) = lru(Bytes::mib(32));
    let mut text = vec![b' '; 2_000_000];
    text[0] = b'7';
    assert!(set(&mut worker, ONE, "a", &text));
    let count = store::Count { delta: 1, up: true, ..store::Count::default() };
    let counted = worker.count_if(ONE, &key(&worker, ONE, "a"), &count);
    assert_eq!(counted, Ok(store::CountedIf::NotNumber), "memcached says so of values in several chunks");
    assert!(worker.peek(&key(&worker, ONE, "a")).unwrap().value() == text);
}

#[test]
fn every_mode_of_storing_works() {
    let (_store, mut worker) = lru(Bytes::mib(64));
    let (left, right) = (value_of("l", 300_000), value_of("r", 1_500_000));
    let put = |worker: &mut Worker, mode, value: &[u8]| {
        write(worker, |w| w.set(ONE, &key(w, ONE, "a"), mode, Fields::default(), value)).unwrap()
    };
    assert_eq!(put(&mut worker, Mode::Replace, &right), Stored::NotStored);
    assert_eq!(put(&mut worker, Mode::Append, &right), Stored::NotStored);
    assert_eq!(put(&mut worker, Mode::Add, &left), Stored::Stored);
    assert_eq!(put(&mut worker, Mode::Add, &right), Stored::NotStored);
    assert_eq!(put(&mut worker, Mode::Append, &right), Stored::Stored);
    assert!(worker.peek(&key(&worker, ONE, "a")).unwrap().value() == [&left[..], &right].concat());
    assert_eq!(put(&mut worker, Mode::Prepend, &right), Stored::Stored);
    assert_eq!(put(&mut worker, Mode::Append, &[]), Stored::Stored);
    let joined = [&right[..], &left, &right].concat();
    let cas = worker.peek(&key(&worker, ONE, "a")).filter(|item| item.value() == joined).unwrap().cas();
    assert_eq!(put(&mut worker, Mode::Cas(cas + 1), &right), Stored::Exists);
    assert_eq!(put(&mut worker, Mode::Cas(cas), &right), Stored::Stored);
    // A value that is not stored leaves nothing behind.
    let before = worker.store().memory_use().values;
    let refused = Write { compare: cas, ..Write::plain(Mode::Append, Fields::default(), &right) };
    let written = worker.store_if(ONE, &key(&worker, ONE, "a"), &refused).unwrap();
    assert_eq!((written.outcome, worker.store().memory_use().values), (Stored::Exists, before));
    assert_eq!(put(&mut worker, Mode::Replace, b"small"), Stored::Stored);
    worker.quiesce();
    worker.maintain();
    worker.check();
}

#[test]
fn an_upload_is_stored_without_a_copy_or_leaves_nothing() {
    let (store, mut worker) = lru(Bytes::mib(32));
    let bytes = value_of("a", 3_000_000);
    let received = upload(&mut worker, &bytes).unwrap();
    assert_eq!(store.memory_use().values.0, 3_000_000_u64.next_multiple_of(4_096));
    let place = received.value().as_ptr();
    let plain = Write::plain(Mode::Replace, Fields::default(), received.value());
    assert_eq!(worker.store_if(ONE, &key(&worker, ONE, "a"), &plain).unwrap().outcome, Stored::NotStored);
    let plain = Write { mode: Mode::Set, ..plain };
    assert_eq!(worker.store_if(ONE, &key(&worker, ONE, "a"), &plain).unwrap().outcome, Stored::Stored);
    drop(received);
    assert!(worker.peek(&key(&worker, ONE, "a")).unwrap().value().as_ptr() == place);
    assert!(has(&worker, ONE, "a", 3_000_000));
    worker.quiesce();
    worker.check();
    let before = store.memory_use().values;
    let mut broken = worker.begin_upload(4_000_000).unwrap();
    broken.take(&mut &bytes[..2_000_000]).unwrap();
    assert!(before + Bytes(2_000_000) <= store.memory_use().values);
    drop(broken);
    assert_eq!(store.memory_use().values, before, "an upload that broke off leaves nothing");
    // A copy: this one belongs to another key.
    let item = worker.peek(&key(&worker, ONE, "a")).unwrap();
    worker.set(ONE, &key(&worker, ONE, "b"), Mode::Set, Fields::default(), item.value()).unwrap();
    assert!(worker.peek(&key(&worker, ONE, "b")).unwrap().value().as_ptr() != place);
    worker.quiesce();
    worker.check();
}

#[test]
fn a_pinned_value_outlives_its_item() {
    let (store, mut worker) = lru(Bytes::mib(32));
    let len = 3_000_000;
    assert!(set(&mut worker, ONE, "a", &value_of("a", len)) && set(&mut worker, ONE, "small", b"x"));
    let small = worker.peek(&key(&worker, ONE, "small")).unwrap();
    assert!(worker.pin(&small).is_none());
    let pins = [0, 1].map(|_| worker.pin(&worker.peek(&key(&worker, ONE, "a")).unwrap()).unwrap());
    assert!(worker.delete(ONE, &key(&worker, ONE, "a")));
    // The memory turns over twice meanwhile.
    for n in 0..20 {
        assert!(set(&mut worker, ONE, &format!("other{n}"), &value_of("o", 3_000_000)));
        worker.quiesce();
    }
    assert!(pins.iter().all(|pin| pin.value() == value_of("a", len)));
    let before = store.memory_use().values.0;
    let [first, second] = pins;
    drop(first);
    assert_eq!(store.memory_use().values.0, before);
    drop(second);
    assert_eq!(store.memory_use().values.0, before - (len as u64).next_multiple_of(4_096));
    worker.check();
}

/// Nothing but large values, of which each takes an eighth of the memory: the cleaner has no segment to clean.
#[test]
fn large_values_alone_turn_the_memory_over() {
    let (store, mut worker) = lru(Bytes::mib(32));
    for n in 0..200 {
        assert!(set(&mut worker, ONE, &format!("k{n}"), &value_of(&format!("k{n}"), 4_000_000)), "{n}");
        assert!(has(&worker, ONE, "k0", 4_000_000), "what is used all the time stays");
        worker.quiesce();
        let used = store.memory_use();
        assert!(used.segments + used.values + used.index + used.shadow + used.tables <= Bytes::mib(32));
    }
    assert!(has(&worker, ONE, "k199", 4_000_000));
    let there = (0..200).filter(|n| has(&worker, ONE, &format!("k{n}"), 4_000_000)).count();
    let evicted = store.totals(ONE).evictions;
    assert!(5 <= there && evicted + there as u64 == 200, "{there} are there, {evicted} went");
    worker.quiesce();
    worker.check();
}

/// Small and large items of the same use, half of what is written each: neither crowds the other out.
#[test]
fn small_and_large_items_share_the_memory_by_rank() {
    let (store, mut worker) = lru(Bytes::mib(64));
    let (mut small, mut large) = (0_u64, 0_u64);
    for round in 0..400 {
        for _ in 0..1_000 {
            assert!(set(&mut worker, ONE, &format!("s{small}"), &[1; 950]));
            small += 1;
        }
        if round % 2 == 0 {
            let name = format!("l{large}");
            assert!(set(&mut worker, ONE, &name, &value_of(&name, 2_000_000)));
            large += 1;
        }
        worker.quiesce();
    }
    let small_held =
        (0..small).filter(|n| worker.peek(&key(&worker, ONE, &format!("s{n}"))).is_some()).count();
    let large_held = (0..large).filter(|n| has(&worker, ONE, &format!("l{n}"), 2_000_000)).count();
    let part = large_held as f64 * 2e6 / (large_held as f64 * 2e6 + small_held as f64 * 1e3);
    assert!(0.3 < part && part < 0.7, "{small_held} small and {large_held} large ones are there: {part}");
    assert!(0 < store.totals(ONE).evictions);
    worker.quiesce();
    worker.check();
}

#[test]
fn a_tenant_over_its_ceiling_loses_large_values_too() {
    use control::memory::MemoryShare;
    use control::{Actuator, Decision, Law, Pool, Row, Seen, Shares, Window};
    use store::MemoryControl;
    use units::{Duration, Instant};
    let (store, mut worker) = lru(Bytes::mib(64));
    for n in 0..20 {
        assert!(set(&mut worker, ONE, &format!("k{n}"), &value_of(&format!("k{n}"), 2_000_000)));
    }
    let rows: [Row<(), MemoryShare>; 1] =
        [Row { id: ONE, claim: Claim::default(), signal: None, in_force: None }];
    let (mut shares, pool) = (Shares::default(), Pool::default());
    let share = MemoryShare { ceiling: Some(Bytes::mib(10)), ..MemoryShare::of(Bytes::mib(10)) };
    shares.rebuild(
        Law::Free,
        &Seen::new(Window::default(), &pool, &rows).unwrap(),
        [(ONE, share)].into_iter(),
    );
    let second = Duration::from_secs(1);
    let decision = Decision { shares: &shares, wake: second, lease: second, steady: true, notes: &[] };
    MemoryControl::new(Arc::clone(&store)).apply(Instant::default(), &decision, &mut Vec::new());
    assert!(has(&worker, ONE, "k3", 2_000_000));
    assert!(set(&mut worker, ONE, "small", b"x"));
    while worker.maintain() {}
    assert!(store.held(ONE) <= Bytes::mib(11), "{} are held", store.held(ONE));
    worker.quiesce();
    worker.check();
}

#[test]
fn dead_values_come_back_without_need() {
    let (store, mut worker) = lru(Bytes::mib(64));
    for n in 0..10 {
        let fields =
            Fields { expires_at: if n < 5 { store.now_secs() + 10 } else { 0 }, ..Fields::default() };
        worker.set(ONE, &key(&worker, ONE, &format!("k{n}")), Mode::Set, fields, &[7; 1 << 20]).unwrap();
    }
    store.set_now(store.now_secs() + 11);
    while worker.maintain() {}
    worker.quiesce();
    worker.maintain();
    assert_eq!(store.memory_use().values, Bytes::mib(5), "five have expired");
    store.flush(ONE, 0);
    while worker.maintain() {}
    worker.quiesce();
    worker.maintain();
    assert_eq!(store.memory_use().values, Bytes::ZERO);
    assert_eq!((store.totals(ONE).reclaimed, store.totals(ONE).evictions), (10, 0));
    worker.check();
}

#[test]
fn without_eviction_large_values_are_refused_when_the_memory_is_full() {
    let (store, mut worker) = new_store(Bytes::mib(16), true, &[RankKind::Lru]);
    let stored = (0..100)
        .take_while(|n| set(&mut worker, ONE, &format!("k{n}"), &value_of(&format!("k{n}"), 1_000_000)))
        .count();
    assert!((10..=16).contains(&stored), "{stored}");
    assert!((0..stored).all(|n| has(&worker, ONE, &format!("k{n}"), 1_000_000)));
    // What is left takes none of 900,000 beside the one that a deleted one makes room for.
    let refused = |n: &u32| !set(&mut worker, ONE, &format!("l{n}"), &value_of(&format!("l{n}"), 200_000));
    assert!((0..6).find(refused).is_some(), "less than a million was left");
    assert!(worker.delete(ONE, &key(&worker, ONE, "k3")));
    assert!(set(&mut worker, ONE, "new", &value_of("new", 900_000)), "what was deleted makes room");
    assert!(!set(&mut worker, ONE, "more", &value_of("more", 900_000)));
    assert_eq!(worker.touch(ONE, &key(&worker, ONE, "k4"), store.now_secs() + 1), Ok(true));
    store.set_now(store.now_secs() + 2);
    assert!(set(&mut worker, ONE, "more", &value_of("more", 900_000)), "what has expired makes room");
    assert_eq!(store.totals(ONE).evictions, 0);
    worker.quiesce();
    worker.check();
}

#[test]
fn uploads_take_their_part_and_no_more() {
    let (store, mut worker) = lru(Bytes::mib(32));
    let mut under_way = Vec::new();
    let refused = loop {
        match upload(&mut worker, &[9; 1_500_000]) {
            Ok(upload) => under_way.push(upload),
            Err(shortage) => break shortage,
        }
    };
    assert_eq!(refused, Shortage::TooMany);
    let taken = store.memory_use().values;
    assert!(Bytes::mib(14) < taken && taken <= Bytes::mib(16), "{taken} of 32 MiB are on their way in");
    under_way.clear();
    assert_eq!(store.memory_use().values, Bytes::ZERO);
    assert!(upload(&mut worker, &[9; 4_000_000]).is_ok());
    worker.check();
}

#[test]
fn uploads_take_their_part_of_what_is_not_withheld() {
    let (store, mut worker) = lru(Bytes::mib(64));
    store.withhold(Bytes::mib(32));
    let under_way: Vec<_> = std::iter::from_fn(|| upload(&mut worker, &[9; 1_500_000]).ok()).collect();
    let taken = store.memory_use().values;
    assert!(Bytes::mib(14) < taken && taken <= Bytes::mib(16), "{taken} of 32 MiB are on their way in");
    drop(under_way);
    let begins = |mib: usize| worker.begin_upload(mib << 20).is_some();
    assert!(begins(16) && !begins(17), "what can never come is not begun");
    store.withhold(Bytes::ZERO);
    assert!(begins(17));
}

/// Whoever has stored an upload may hold it for a while: its pages can be another value's by then.
#[test]
fn an_upload_that_is_held_on_to_takes_nothing_from_the_next() {
    let (store, mut worker) = lru(Bytes::mib(32));
    let (first, second) = (value_of("first", 1_500_000), value_of("second", 1_500_000));
    let held = upload(&mut worker, &first).unwrap();
    let stored = |worker: &mut Worker, name: &str, value: &[u8]| {
        write(worker, |w| w.set(ONE, &key(w, ONE, name), Mode::Set, Fields::default(), value))
    };
    assert_eq!(stored(&mut worker, "first", held.value()), Some(Stored::Stored));
    assert!(worker.delete(ONE, &key(&worker, ONE, "first")));
    (0..3).for_each(|_| {
        worker.quiesce();
        worker.maintain();
    });
    assert_eq!(store.memory_use().values, Bytes::ZERO);
    let mut next = worker.begin_upload(second.len()).unwrap();
    let (mut half, mut rest) = second.split_at(700_000);
    next.take(&mut half).unwrap();
    drop(held);
    next.take(&mut rest).unwrap();
    assert_eq!(stored(&mut worker, "second", next.value()), Some(Stored::Stored));
    drop(next);
    worker.quiesce();
    let hashed = key(&worker, ONE, "second");
    assert!(worker.get(ONE, &hashed).is_some_and(|item| item.value() == second));
    worker.check();
}

/// Threads store, upload, read with pins, delete and clean at once; every value read belongs to its key.
#[test]
fn threads_never_see_a_large_value_of_another_key() {
    let (store, mut worker) = new_store(Bytes::mib(24), false, &[RankKind::Lru, RankKind::Gdsf]);
    let run = |seed: u64| {
        let store = Arc::clone(&store);
        move || {
            let mut worker = store.worker().unwrap();
            let mut rng = Rng::new(seed);
            for _ in 0..3_000 {
                let n = rng.below(60);
                let (tenant, name) = (TenantId(u32::try_from(n % 2).unwrap()), format!("k{n}"));
                let len = 1 + usize::try_from(n * 37_003 % 1_500_000).unwrap();
                match rng.index(8) {
                    0 | 1 => {
                        if let Ok(received) = upload(&mut worker, &value_of(&name, len)) {
                            let value = received.value();
                            write(&mut worker, |w| {
                                w.set(tenant, &key(w, tenant, &name), Mode::Set, Fields::default(), value)
                            });
                        }
                    }
                    2 => drop(set(&mut worker, tenant, &name, &value_of(&name, len))),
                    3 => drop(worker.delete(tenant, &key(&worker, tenant, &name))),
                    4 => {
                        let at = store.now_secs() + u32::try_from(1 + rng.below(1_000)).unwrap();
                        let touch =
                            |w: &Worker| w.touch(tenant, &key(w, tenant, &name), at).map(|_| Stored::Stored);
                        write(&mut worker, touch);
                    }
                    5 => {
                        let pin =
                            worker.peek(&key(&worker, tenant, &name)).and_then(|item| worker.pin(&item));
                        worker.quiesce();
                        std::thread::yield_now();
                        assert!(pin.is_none_or(|pin| pin.value() == value_of(&name, len)));
                    }
                    6 => drop(worker.maintain()),
                    _ => drop(has(&worker, tenant, &name, len)),
                }
                worker.quiesce();
            }
        }
    };
    worker.go_offline();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(run(seed));
        }
    });
    worker.go_online();
    worker.check();
    let evictions = store.totals(TenantId(0)).evictions + store.totals(TenantId(1)).evictions;
    assert!(0 < evictions, "the memory was never full");
}
