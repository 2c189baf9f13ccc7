//! Whatever a look-up does beside looking, those who divide memory see it: gets, touches, counts, reads that create.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::Claim;
use std::sync::Arc;
use store::{
    Count, Fetch, Fields, Key, Mode, Options, RankKind, Refused, SampledKind, Space, Store, TenantSpec,
    Totals, Worker,
};
use units::{Bytes, Rng, TenantId};

const TENANT: TenantId = TenantId(0);
/// Twice as many as fit.
const KEYS: u64 = 28_000;
const LOOK_UPS: u64 = 120_000;
const VALUE: [u8; 400] = [b'1'; 400];

/// How a client looks something up that it stores where it is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Get,
    /// `gat`
    Touched,
    /// `mg … T`
    FetchTouched,
    /// `mg … N`
    FetchCreated,
}

fn store() -> Arc<Store> {
    new_store(false)
}

fn new_store(no_evict: bool) -> Arc<Store> {
    let (memory, item_max) = (Bytes::mib(8), Bytes::kib(64));
    let store =
        Store::new(Options { memory, item_max, threads: 2, tenants_max: 2, no_evict, seed: 1 }).unwrap();
    let (name, claim) = ("t".to_owned(), Claim::default());
    store.add_tenant(TenantSpec { name, own_space: false, claim, rank: RankKind::Lru }).unwrap();
    store
}

fn with_room<T>(worker: &mut Worker, act: impl Fn(&Worker) -> Result<T, Refused>) -> T {
    loop {
        match act(worker) {
            Ok(done) => return done,
            Err(Refused::NoRoom) => worker.make_room().unwrap(),
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn set(worker: &mut Worker, key: &[u8], expires_at: u32) {
    with_room(worker, |worker| {
        let key = worker.key(Space::Shared, key).unwrap();
        worker.set(TENANT, &key, Mode::Set, Fields { expires_at, ..Fields::default() }, &VALUE)
    });
}

impl Way {
    /// Looks a key up; says whether it was there.
    fn ask(self, worker: &mut Worker, bytes: &[u8], expires_at: u32) -> bool {
        let fetch = |worker: &mut Worker, how: Fetch| {
            with_room(worker, |worker| {
                let found = worker.fetch(TENANT, &hashed(worker, bytes), &how)?;
                Ok(found.is_some_and(|found| !found.created))
            })
        };
        match self {
            Self::Get => worker.get(TENANT, &hashed(worker, bytes)).is_some(),
            Self::Touched => with_room(worker, |worker| {
                Ok(worker.get_and_touch(TENANT, &hashed(worker, bytes), expires_at)?.is_some())
            }),
            Self::FetchTouched => fetch(worker, Fetch { touch: Some(expires_at), ..Fetch::default() }),
            Self::FetchCreated => fetch(worker, Fetch { vivify: Some(expires_at), ..Fetch::default() }),
        }
    }
}

fn hashed<'k>(worker: &Worker, bytes: &'k [u8]) -> Key<'k> {
    worker.key(Space::Shared, bytes).unwrap()
}

/// Runs the load; returns what was counted, and checks what was sampled.
fn run(way: Way) -> Totals {
    let store = store();
    let mut worker = store.worker().unwrap();
    store.set_now(100);
    store.sample_below(TENANT, u64::MAX / 16);
    let mut rng = Rng::new(5);
    let (mut looked_up, mut sampled) = (0, 0);
    for step in 0..LOOK_UPS {
        let key = format!("key {:06}", rng.below(KEYS));
        let expires_at = 100_000 + u32::try_from(step).unwrap();
        let was_there = way.ask(&mut worker, key.as_bytes(), expires_at);
        let mut kinds = Vec::new();
        store.drain_samples(|access| kinds.push(access.kind));
        sampled += u64::from(!kinds.is_empty());
        looked_up += u64::from(kinds.first() == Some(&SampledKind::LookUp));
        if !was_there {
            set(&mut worker, key.as_bytes(), expires_at);
        }
        store.drain_samples(|_| ());
        if step % 64 == 0 {
            worker.quiesce();
            while store.wants_cleaning() && worker.maintain() {}
        }
    }
    assert!(LOOK_UPS / 20 < sampled && sampled < LOOK_UPS / 10, "{way:?}: {sampled} sampled");
    assert_eq!(
        looked_up, sampled,
        "{way:?}: of each sampled key its look-up comes first, then what it wrote"
    );
    worker.check();
    store.totals(TENANT)
}

#[test]
fn every_way_to_look_up_counts_alike() {
    let plain = run(Way::Get);
    assert_eq!(plain.asked(), LOOK_UPS);
    let part = |found: u64, of: u64| found as f64 / of as f64;
    let (hits, shadow) = (part(plain.found(), LOOK_UPS), part(plain.shadow_hits, LOOK_UPS));
    assert!(0.2 < hits && hits < 0.8 && 0.02 < shadow, "{hits} {shadow}: some are found, some would be");
    for way in [Way::Touched, Way::FetchTouched, Way::FetchCreated] {
        let totals = run(way);
        assert_eq!(totals.asked(), LOOK_UPS, "{way:?}");
        let found = part(totals.found(), LOOK_UPS);
        // A new expiry is a new copy of the item, and until it is cleaned away the old one takes memory.
        assert!((found - hits).abs() < 0.1, "{way:?}: {found} found, {hits} by gets");
        let would_be = part(totals.shadow_hits, LOOK_UPS);
        assert!(
            (would_be - shadow).abs() < 0.25 * shadow,
            "{way:?}: {would_be} with more memory, {shadow} by gets"
        );
    }
}

#[test]
fn a_count_is_a_look_up() {
    let store = store();
    let worker = store.worker().unwrap();
    store.sample_below(TENANT, u64::MAX);
    let key = hashed(&worker, b"counter");
    let by = Count { delta: 1, up: true, ..Count::default() };
    let steps = [(by, (1, 0)), (Count { vivify: Some((7, 0)), ..by }, (2, 0)), (by, (3, 1))];
    for (step, (by, (asked, found))) in steps.into_iter().enumerate() {
        worker.count_if(TENANT, &key, &by).unwrap();
        let totals = store.totals(TENANT);
        assert_eq!((totals.asked(), totals.found()), (asked, found), "step {step}");
        let mut kinds = Vec::new();
        store.drain_samples(|access| {
            // Whoever takes them keeps nobody from reading what was counted.
            assert!(store.look_ups(access.tenant).is_some());
            kinds.push(access.kind);
        });
        assert_eq!(kinds.first(), Some(&SampledKind::LookUp), "step {step}");
    }
}

/// A look-up that writes.
type Ask = fn(&Worker, &Key<'_>) -> Result<(), Refused>;

/// Stores values until there is no memory for another; returns how many.
fn fill(worker: &mut Worker, kind: &str, value: &[u8]) -> u32 {
    let mut stored = 0;
    loop {
        let text = format!("{kind}{stored}");
        let key = hashed(worker, text.as_bytes());
        match worker.set(TENANT, &key, Mode::Set, Fields::default(), value) {
            Ok(_) => stored += 1,
            Err(_) if worker.make_room().is_ok() => {}
            Err(_) => return stored,
        }
    }
}

/// However often there is no room for what a look-up writes, it is one look-up.
#[test]
fn a_look_up_that_finds_no_room_is_sampled_once() {
    let asks: [(&str, bool, Ask); 5] = [
        ("gat", true, |worker, key| worker.get_and_touch(TENANT, key, 90_000).map(|_| ())),
        ("mg T", true, |worker, key| {
            let how = Fetch { touch: Some(90_000), ..Fetch::default() };
            worker.fetch(TENANT, key, &how).map(|_| ())
        }),
        ("ma", true, |worker, key| worker.count_by(TENANT, key, 1, true).map(|_| ())),
        ("mg N", false, |worker, key| {
            let how = Fetch { vivify: Some(0), ..Fetch::default() };
            worker.fetch(TENANT, key, &how).map(|_| ())
        }),
        ("ma N", false, |worker, key| {
            let by = Count { vivify: Some((7, 0)), up: true, ..Count::default() };
            worker.count_if(TENANT, key, &by).map(|_| ())
        }),
    ];
    // Longer than what fills the memory to its end.
    let bytes = [b'k'; 200];
    for (name, is_there, ask) in asks {
        let store = new_store(true);
        let mut worker = store.worker().unwrap();
        if is_there {
            let key = hashed(&worker, &bytes);
            worker.set(TENANT, &key, Mode::Set, Fields::default(), b"7").unwrap();
        }
        let large = fill(&mut worker, "large", &VALUE);
        fill(&mut worker, "small", b"");
        store.sample_below(TENANT, u64::MAX);
        assert_eq!(ask(&worker, &hashed(&worker, &bytes)), Err(Refused::NoRoom), "{name}");
        store.sample_below(TENANT, 0);
        for n in 0..large / 2 {
            worker.delete(TENANT, &hashed(&worker, format!("large{n}").as_bytes()));
        }
        worker.make_room().unwrap();
        store.sample_below(TENANT, u64::MAX);
        ask(&worker, &hashed(&worker, &bytes)).unwrap();
        let mut sampled = Vec::new();
        store.drain_samples(|access| sampled.push((access.kind, access.bytes != 0)));
        assert_eq!(sampled, [(SampledKind::LookUp, is_there), (SampledKind::Write, true)], "{name}");
    }
}

/// What becomes of a key.
type End = fn(&Store, &mut Worker, &[u8]);

/// What was deleted, flushed or would have expired no memory gives back.
#[test]
fn what_no_memory_would_keep_is_no_shadow_hit() {
    let ends: [(&str, End); 4] = [
        ("kept", |_, _, _| ()),
        ("deleted", |_, worker, key| _ = worker.delete(TENANT, &hashed(worker, key))),
        ("expired", |store, _, _| store.set_now(60_000)),
        ("flushed", |store, worker, key| {
            if key == b"key 000000" {
                worker.quiesce();
                store.flush(TENANT, 0);
            }
        }),
    ];
    for (name, end) in ends {
        let store = store();
        let mut worker = store.worker().unwrap();
        store.set_now(100);
        let keys: Vec<_> = (0..KEYS).map(|n| format!("key {n:06}")).collect();
        for key in &keys {
            set(&mut worker, key.as_bytes(), 50_000);
        }
        keys.iter().for_each(|key| end(&store, &mut worker, key.as_bytes()));
        for key in &keys {
            worker.get(TENANT, &hashed(&worker, key.as_bytes()));
        }
        let totals = store.totals(TENANT);
        assert!(KEYS / 4 < totals.evictions, "{name}: {} evicted", totals.evictions);
        assert_eq!(totals.shadow_hits != 0, name == "kept", "{name}: {}", totals.shadow_hits);
    }
}

/// All stay where they are, and are dead.
#[test]
fn a_flush_removes_no_item() {
    let store = store();
    let mut worker = store.worker().unwrap();
    let keys: Vec<_> = (0..10_000).map(|n| format!("key {n:06}")).collect();
    for key in &keys {
        set(&mut worker, key.as_bytes(), 0);
    }
    let before = store.memory_use();
    assert_eq!(before.slots, 10_000);
    store.flush(TENANT, 0);
    let after = store.memory_use();
    assert_eq!((after.slots, after.segments), (before.slots, before.segments));
    assert!(keys.iter().all(|key| worker.get(TENANT, &hashed(&worker, key.as_bytes())).is_none()));
}
