//! What the cleaner keeps under each rank: of two kinds of items stored in turn, the kind that the rank prefers.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::Claim;
use std::sync::Arc;
use store::{CLOCK_START, Fields, Mode, Options, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, TenantId};

const TENANT: TenantId = TenantId(0);
/// Items stored: some three times what the memory holds, or more.
const ITEMS: u32 = 30_000;
/// A set of items that is asked for again and again is so large.
const HOT: u32 = 500;
/// It is asked for after so many stores.
const HOT_EVERY: u32 = 250;

/// Which items are of the preferred kind.
#[derive(Clone, Copy)]
enum Kind {
    /// Every second one.
    Even,
    /// The first of all, which are used again and again.
    Hot,
    /// All but those.
    AllButHot,
}

impl Kind {
    fn has(self, n: u32) -> bool {
        match self {
            Self::Even => n.is_multiple_of(2),
            Self::Hot => n < HOT,
            Self::AllButHot => HOT <= n,
        }
    }
}

/// Sizes and times to live of the preferred items and of the others.
struct Case {
    rank: &'static str,
    kind: Kind,
    sizes: [usize; 2],
    ttls: [u32; 2],
}

const fn case(rank: &'static str, kind: Kind, sizes: [usize; 2], ttls: [u32; 2]) -> Case {
    Case { rank, kind, sizes, ttls }
}

const SAME: [usize; 2] = [300, 300];

const CASES: [Case; 21] = [
    case("density", Kind::Hot, SAME, [0, 0]),
    case("density", Kind::Even, [100, 800], [0, 0]),
    case("lhd", Kind::Hot, SAME, [0, 0]),
    case("lhd", Kind::Even, [100, 800], [0, 0]),
    case("lru", Kind::Hot, SAME, [0, 0]),
    case("lfu", Kind::Hot, SAME, [0, 0]),
    case("slru", Kind::Hot, SAME, [0, 0]),
    case("gdsf", Kind::Hot, SAME, [0, 0]),
    case("gdsf", Kind::Even, [100, 800], [0, 0]),
    case("hyperbolic", Kind::Hot, SAME, [0, 0]),
    case("hyperbolic-size", Kind::Hot, SAME, [0, 0]),
    case("hyperbolic-size", Kind::Even, [100, 800], [0, 0]),
    case("f", Kind::Hot, SAME, [0, 0]),
    case("-t", Kind::Hot, SAME, [0, 0]),
    case("f / (size * t)", Kind::Hot, SAME, [0, 0]),
    case("age", Kind::Hot, SAME, [0, 0]),
    case("-age", Kind::AllButHot, SAME, [0, 0]),
    case("size", Kind::Even, [800, 100], [0, 0]),
    case("if(size > 500, 0 / 0, -t)", Kind::Even, [100, 800], [0, 0]),
    case("ttl_left", Kind::Even, SAME, [0, 3_600]),
    case("-ttl_left", Kind::Even, SAME, [3_600, 0]),
];

fn set(worker: &mut Worker, n: u32, value: &[u8], expires_at: u32) {
    let text = format!("{n:08}");
    loop {
        let key = worker.key(Space::Shared, text.as_bytes()).unwrap();
        let fields = Fields { expires_at, ..Fields::default() };
        match worker.set(TENANT, &key, Mode::Set, fields, value) {
            Ok(_) => return,
            Err(Refused::NoRoom) => worker.make_room().unwrap(),
            Err(why) => panic!("{why:?}"),
        }
    }
}

fn has(worker: &Worker, n: u32) -> bool {
    worker.get(TENANT, &worker.key(Space::Shared, format!("{n:08}").as_bytes()).unwrap()).is_some()
}

fn new_store(rank: RankKind, seed: u64) -> (Arc<Store>, Worker) {
    let (memory, item_max) = (Bytes::mib(4), Bytes::kib(64));
    let options = Options { memory, item_max, threads: 1, tenants_max: 2, no_evict: false, seed };
    let store = Store::new(options).unwrap();
    let spec = TenantSpec { name: "t".to_owned(), own_space: false, claim: Claim::default(), rank };
    store.add_tenant(spec).unwrap();
    let worker = store.worker().unwrap();
    (store, worker)
}

/// Parts of the preferred items and of the others that are still there.
fn kept(case: &Case, seed: u64) -> [f64; 2] {
    let (store, mut worker) = new_store(case.rank.parse().unwrap(), seed);
    let value = vec![b'v'; 1_000];
    for n in 0..ITEMS {
        let of = usize::from(!case.kind.has(n));
        let ttl = case.ttls[of];
        let expires_at = if ttl == 0 { 0 } else { store.now_secs() + ttl };
        set(&mut worker, n, &value[..case.sizes[of]], expires_at);
        if n % HOT_EVERY == 0 && !matches!(case.kind, Kind::Even) {
            for hot in 0..HOT.min(n) {
                has(&worker, hot);
            }
        }
        worker.quiesce();
        // A second per so many stores: the clock moves on, nothing expires.
        store.set_now(CLOCK_START + n / 1_000);
    }
    let mut seen = [0.0; 2];
    let mut all = [0.0; 2];
    for n in 0..ITEMS {
        let of = usize::from(!case.kind.has(n));
        all[of] += 1.0;
        seen[of] += f64::from(u8::from(has(&worker, n)));
    }
    worker.check();
    [seen[0] / all[0], seen[1] / all[1]]
}

#[test]
fn each_rank_keeps_what_it_prefers() {
    for case in &CASES {
        for seed in 1..=3 {
            let [preferred, others] = kept(case, seed);
            println!(
                "{:28} seed {seed}: kept {preferred:.3} of the preferred, {others:.3} of the others",
                case.rank
            );
            assert!(2.0 * others < preferred && 0.2 < preferred, "{}: {preferred:.3} {others:.3}", case.rank);
        }
    }
}

/// Items of a loop, which alone would fit; between two of them comes one that never comes again.
const LOOP: u32 = 7_000;
const ROUNDS: u32 = 12;

/// Hit ratio of the loop's items in the second half of the rounds.
fn loop_hits_under_a_scan(rank: &str, seed: u64) -> f64 {
    let (_store, mut worker) = new_store(rank.parse().unwrap(), seed);
    let value = vec![b'v'; 300];
    let mut hits = 0;
    for round in 0..ROUNDS {
        for n in 0..LOOP {
            let hit = has(&worker, n);
            hits += u32::from(hit && ROUNDS / 2 <= round);
            if !hit {
                set(&mut worker, n, &value, 0);
            }
            set(&mut worker, LOOP * (round + 1) + n, &value, 0);
            worker.quiesce();
        }
    }
    worker.check();
    f64::from(hits) / f64::from(LOOP * ROUNDS / 2)
}

#[test]
fn lhd_keeps_a_loop_under_a_scan() {
    for seed in 1..=3 {
        let [lhd, lru] = ["lhd", "lru"].map(|rank| loop_hits_under_a_scan(rank, seed));
        println!("seed {seed}: lhd {lhd:.3}, lru {lru:.3}");
        assert!(0.8 < lhd && lru < 0.3, "seed {seed}: lhd {lhd:.3}, lru {lru:.3}");
    }
}

/// What a rank has learnt counts in the memory, and goes on when the rank is chosen again.
#[test]
fn a_rank_that_learns_may_come_and_go() {
    let (store, mut worker) = new_store("lhd".parse().unwrap(), 1);
    let learnt = store.memory_use().ranks;
    assert!(Bytes::ZERO < learnt && learnt < Bytes::kib(8), "{learnt}");
    let value = vec![b'v'; 300];
    for (turn, rank) in ["density", "lhd", "lru", "lhd"].into_iter().enumerate() {
        assert!(store.set_rank(TENANT, rank.parse().unwrap()));
        for n in 0..ITEMS {
            set(&mut worker, n + ITEMS * u32::try_from(turn).unwrap(), &value, 0);
            worker.quiesce();
        }
        assert_eq!(store.memory_use().ranks, learnt);
    }
    worker.check();
    assert_eq!(new_store("density".parse().unwrap(), 1).0.memory_use().ranks, Bytes::ZERO);
}
