//! The store without a server: CPU time of this thread per look-up and per write.
//!
//! Shape:      blocks of keys are drawn first, then timed: one after another, or in batches that load first index lines,
//!             then items and second lines, then look
//! Invariants: every value is verified; the cleaner works in the writing thread
//! Units:      nanoseconds of this thread's CPU time
//! Non-goals:  the segcache crate in this very process: its dependencies come in versions that are not ours, so it has a
//!             process of its own, and rounds alternate

use crate::segcache::{self, Segcache};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::Claim;
use harness::live::keys::{self, KEY};
use lab::workload::Zipf;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use store::{Fields, Key, Mode, Options, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Rng, TenantId};

/// Distinct keys, asked for uniformly.
const KEYS: u32 = 1_000_000;
/// Room for all keys and half as much again, so that overwriting keeps the cleaner at work.
const MEMORY: Bytes = Bytes::mib(112);
/// Keys drawn at once, between two readings of the clock.
const BLOCK: usize = 4096;
/// Operations in a batch.
const BATCH: usize = 32;
const _: () = assert!(BLOCK.is_multiple_of(BATCH));
/// Blocks per round: two million operations.
const BLOCKS: u64 = 512;

/// A way to go through a block of keys.
type Pass = fn(&mut Worker, &[(u32, [u8; KEY])]) -> Result<(), BenchError>;

/// A measure, what of segcache it is compared with, and how many times as fast it should be.
const PASSES: [(&str, &str, f64, Pass); 4] = [
    ("store, get, one at a time", "get", 1.3, gets),
    ("store, get, batches of 32", "get", 3.0, batched_gets),
    ("store, set, one at a time", "set", 1.3, sets),
    ("store, set, batches of 32", "set", 3.0, batched_sets),
];
/// Memory of the hit ratio's caches, index included, and the keys and look-ups of their load.
const SMALL: Bytes = Bytes::mib(32);
const ASKED_KEYS: u32 = 4_000_000;
const ASKED: usize = 8_000_000;
/// Part of segcache's operations that may come to nothing: its hash table loses an item now and then.
const LOST_MAX: f64 = 1e-3;
/// What segcache evicts by: its paper's order, and the newer one.
const EVICTIONS: [&str; 2] = ["merge", "s3fifo"];

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("the store in this process");
    let store = made(bench, MEMORY, 1)?;
    let mut worker = store.worker()?;
    let all: Vec<_> = (0..KEYS).map(|number| (number, keys::key(number))).collect();
    for block in all.chunks(BLOCK) {
        sets(&mut worker, block)?;
    }
    drop(all);
    let held = memory_in_use(&store).0 as f64 / f64::from(KEYS);
    let moved = moved_bytes(&store);
    let mut rng = Rng::new(bench.seed);
    // One is only asked, the other only written: overwriting makes it drop items that would be found missing.
    let mut asked = Segcache::start(bench, MEMORY, KEYS)?;
    let mut written = if asked.is_some() { Segcache::start(bench, MEMORY, KEYS)? } else { None };
    let mut nanos: Vec<(Vec<f64>, Vec<f64>)> = vec![(Vec::new(), Vec::new()); PASSES.len()];
    let blocks = BLOCKS / bench.less;
    for round in 0..bench.rounds {
        for (i, (_, order, _, pass)) in PASSES.iter().enumerate() {
            nanos[i].0.push(time(&mut worker, &mut rng, blocks, *pass)?);
            let peer = if *order == "get" { &mut asked } else { &mut written };
            if let Some(peer) = peer {
                let (theirs, missing) = peer.time(order, blocks * BLOCK as u64, bench.seed ^ round)?;
                let most = (blocks * BLOCK as u64) as f64 * LOST_MAX;
                bench.premise(missing <= most, &format!("segcache: {missing} of a pass came to nothing"));
                nanos[i].1.push(theirs);
            }
        }
    }
    let moved = moved_bytes(&store) - moved;
    bench.premise(0 < moved, &format!("store: the cleaner moved {} while measured", Bytes(moved)));
    let total = store.memory_use().slots;
    bench.premise(total == u64::from(KEYS), &format!("store: {total} of {KEYS} items are there"));
    for ((name, _, faster, _), (ours, theirs)) in PASSES.iter().zip(nanos) {
        let known = !theirs.is_empty();
        let goal = if known { Goal::RatioAtMost(1.0 / faster) } else { Goal::None("-") };
        let peer = known.then_some((segcache::NAME, theirs));
        bench.add(Row { measure: (*name).to_owned(), unit: "ns", ours, peer, goal });
    }
    let measure = "store, memory per item, 1 M items".to_owned();
    bench.add(Row { measure, unit: "B", ours: vec![held], peer: None, goal: Goal::None("-") });
    drop(worker);
    drop(store);
    match &mut asked {
        Some(peer) => hit_ratios(bench, peer),
        None => Ok(()),
    }
}

/// A store with the tenants of the benchmark.
pub(crate) fn made(bench: &Bench, memory: Bytes, threads: usize) -> Result<Arc<Store>, BenchError> {
    let options = Options {
        memory,
        item_max: Bytes::mib(1),
        threads,
        tenants_max: 16,
        no_evict: false,
        seed: bench.seed,
    };
    let store = Store::new(options)?;
    for tenant in 0..keys::TENANTS {
        let spec = TenantSpec {
            name: keys::tenant(tenant),
            own_space: false,
            claim: Claim::default(),
            rank: RankKind::default(),
        };
        store.add_tenant(spec).ok_or_else(|| BenchError::Usage("too many tenants".to_owned()))?;
    }
    Ok(store)
}

/// Hits of a look-aside client at equal memory, index included.
fn hit_ratios(bench: &mut Bench, peer: &mut Segcache) -> Result<(), BenchError> {
    let (zipf, mut rng) = (Zipf::new(ASKED_KEYS, bench.skew), Rng::new(bench.seed));
    let count = ASKED / usize::try_from(bench.less).unwrap_or(1);
    let numbers: Vec<u32> = (0..count).map(|_| keys::spread(zipf.draw(&mut rng), zipf.keys())).collect();
    let store = made(bench, SMALL, 1)?;
    let mut worker = store.worker()?;
    let mut hits = 0.0;
    for number in &numbers {
        let key = keys::key(*number);
        let hashed = hashed(&worker, &key)?;
        let found = worker.get(tenant(*number), &hashed).map(|item| item.value() == keys::value(*number));
        match found {
            Some(true) => hits += 1.0,
            Some(false) => return Err(BenchError::Premise(format!("item {number} is not what was stored"))),
            None => {
                while !self::store(&worker, *number, &hashed)? {
                    make_room(&mut worker)?;
                }
            }
        }
        worker.quiesce();
    }
    let evicted: u64 = (0..keys::TENANTS).map(|n| store.totals(tenant(n)).evictions).sum();
    bench.premise(0 < evicted, &format!("store: {evicted} evictions under the hit ratio's load"));
    let mut best: f64 = 0.0;
    for eviction in EVICTIONS {
        let theirs = peer.replay(SMALL, &numbers, eviction)?;
        bench.say(&format!("  segcache, {eviction}: {theirs} hits of {count}, ours {hits}"));
        best = best.max(theirs);
    }
    let ratio = |hits: f64| vec![hits / count as f64];
    bench.add(Row {
        measure: format!("store, hit ratio at {SMALL}, cold start"),
        unit: "of gets",
        ours: ratio(hits),
        peer: Some((segcache::NAME, ratio(best))),
        goal: Goal::RatioAtLeast(1.0),
    });
    Ok(())
}

fn memory_in_use(store: &Store) -> Bytes {
    let used = store.memory_use();
    used.segments + used.values + used.index + used.shadow + used.ghosts
}

fn moved_bytes(store: &Arc<Store>) -> u64 {
    (0..keys::TENANTS).map(|number| store.totals(tenant(number)).moved_bytes).sum()
}

pub(crate) fn tenant(number: u32) -> TenantId {
    TenantId(number % keys::TENANTS)
}

pub(crate) fn thread_cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds per operation.
fn time(worker: &mut Worker, rng: &mut Rng, blocks: u64, pass: Pass) -> Result<f64, BenchError> {
    let mut spent = 0.0;
    let mut block = Vec::with_capacity(BLOCK);
    for _ in 0..blocks {
        block.clear();
        block.extend((0..BLOCK).map(|_| {
            let number = u32::try_from(rng.below(u64::from(KEYS))).unwrap_or(0);
            (number, keys::key(number))
        }));
        let started = thread_cpu_nanos();
        pass(worker, &block)?;
        spent += thread_cpu_nanos() - started;
    }
    Ok(spent / (blocks as f64 * BLOCK as f64))
}

pub(crate) fn hashed<'k>(worker: &Worker, key: &'k [u8]) -> Result<Key<'k>, BenchError> {
    worker
        .key(Space::Shared, key)
        .ok_or_else(|| BenchError::Usage("a key of the benchmark is no key".to_owned()))
}

fn look(worker: &Worker, number: u32, key: &Key<'_>) -> Result<(), BenchError> {
    let item = worker.get(tenant(number), key);
    if item.is_some_and(|item| item.value() == keys::value(number)) {
        return Ok(());
    }
    Err(BenchError::Premise(format!("item {number} is not what was stored")))
}

/// Stores one item; whether there was room.
pub(crate) fn store(worker: &Worker, number: u32, key: &Key<'_>) -> Result<bool, BenchError> {
    match worker.set(tenant(number), key, Mode::Set, Fields::default(), &keys::value(number)) {
        Ok(_) => Ok(true),
        Err(Refused::NoRoom) => Ok(false),
        Err(Refused::Away) => Err(BenchError::Premise("a value is not in DRAM".to_owned())),
        Err(Refused::TooLarge | Refused::OverShare) => {
            Err(BenchError::Premise("an item of the benchmark is too large".to_owned()))
        }
    }
}

pub(crate) fn make_room(worker: &mut Worker) -> Result<(), BenchError> {
    worker.make_room().map_err(|_| BenchError::Premise("the store found no room".to_owned()))
}

fn gets(worker: &mut Worker, block: &[(u32, [u8; KEY])]) -> Result<(), BenchError> {
    for (number, key) in block {
        look(worker, *number, &hashed(worker, key)?)?;
        worker.quiesce();
    }
    Ok(())
}

fn sets(worker: &mut Worker, block: &[(u32, [u8; KEY])]) -> Result<(), BenchError> {
    for (number, key) in block {
        let key = hashed(worker, key)?;
        while !store(worker, *number, &key)? {
            make_room(worker)?;
        }
        worker.quiesce();
    }
    Ok(())
}

/// Hashes a batch, loads its first index lines, then its items.
fn prefetched<'k>(
    worker: &Worker,
    batch: &'k [(u32, [u8; KEY])],
) -> Result<[(u32, Key<'k>); BATCH], BenchError> {
    let first = batch.first().ok_or_else(|| BenchError::Usage("an empty batch".to_owned()))?;
    let mut keys = [(first.0, hashed(worker, &first.1)?); BATCH];
    for (place, (number, key)) in keys.iter_mut().zip(batch) {
        *place = (*number, hashed(worker, key)?);
        worker.prefetch_index(&place.1);
    }
    worker.prefetch_items(&keys, |(_, key)| key);
    Ok(keys)
}

fn batched_gets(worker: &mut Worker, block: &[(u32, [u8; KEY])]) -> Result<(), BenchError> {
    for batch in block.chunks_exact(BATCH) {
        for (number, key) in &prefetched(worker, batch)? {
            look(worker, *number, key)?;
        }
        worker.quiesce();
    }
    Ok(())
}

fn batched_sets(worker: &mut Worker, block: &[(u32, [u8; KEY])]) -> Result<(), BenchError> {
    for batch in block.chunks_exact(BATCH) {
        for (number, key) in &prefetched(worker, batch)? {
            while !store(worker, *number, key)? {
                make_room(worker)?;
            }
        }
        worker.quiesce();
    }
    Ok(())
}
