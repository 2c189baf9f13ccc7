//! The store without a server: CPU time of this thread per look-up and per write.
//!
//! Shape:      blocks of keys are drawn first, then timed: one after another, or in batches that load all index lines,
//!             then all items, then look
//! Invariants: every value is verified; the cleaner works in the writing thread
//! Units:      nanoseconds of this thread's CPU time
//! Non-goals:  other stores in the same process

use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::Claim;
use harness::live::keys::{self, KEY};
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

const PASSES: [(&str, &str, Pass); 4] = [
    ("store, get, one at a time", "segcache 260-350", gets),
    ("store, get, batches of 32", "3x segcache", batched_gets),
    ("store, set, one at a time", "segcache 430-540", sets),
    ("store, set, batches of 32", "3x segcache", batched_sets),
];

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("the store in this process");
    let options = Options {
        memory: MEMORY,
        item_max: Bytes::mib(1),
        threads: 1,
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
    let mut worker = store.worker()?;
    let all: Vec<_> = (0..KEYS).map(|number| (number, keys::key(number))).collect();
    for block in all.chunks(BLOCK) {
        sets(&mut worker, block)?;
    }
    drop(all);
    let held = memory_in_use(&store).0 as f64 / f64::from(KEYS);
    let moved = moved_bytes(&store);
    let mut rng = Rng::new(bench.seed);
    let mut nanos: Vec<Vec<f64>> = vec![Vec::new(); PASSES.len()];
    for _ in 0..bench.rounds {
        for (i, (.., pass)) in PASSES.iter().enumerate() {
            nanos[i].push(time(&mut worker, &mut rng, BLOCKS / bench.less, *pass)?);
        }
    }
    let moved = moved_bytes(&store) - moved;
    bench.premise(0 < moved, &format!("store: the cleaner moved {} while measured", Bytes(moved)));
    let total = store.memory_use().slots;
    bench.premise(total == u64::from(KEYS), &format!("store: {total} of {KEYS} items are there"));
    for ((name, reference, _), nanos) in PASSES.iter().zip(nanos) {
        let goal = Goal::None(reference);
        bench.add(Row { measure: (*name).to_owned(), unit: "ns", ours: nanos, peer: None, goal });
    }
    let measure = "store, memory per item, 1 M items".to_owned();
    bench.add(Row { measure, unit: "B", ours: vec![held], peer: None, goal: Goal::None("-") });
    Ok(())
}

fn memory_in_use(store: &Store) -> Bytes {
    let used = store.memory_use();
    used.segments + used.index + used.shadow
}

fn moved_bytes(store: &Arc<Store>) -> u64 {
    (0..keys::TENANTS).map(|number| store.totals(tenant(number)).moved_bytes).sum()
}

fn tenant(number: u32) -> TenantId {
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

fn hashed<'k>(worker: &Worker, key: &'k [u8]) -> Result<Key<'k>, BenchError> {
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
fn store(worker: &Worker, number: u32, key: &Key<'_>) -> Result<bool, BenchError> {
    match worker.set(tenant(number), key, Mode::Set, Fields::default(), &keys::value(number)) {
        Ok(_) => Ok(true),
        Err(Refused::NoRoom) => Ok(false),
        Err(Refused::TooLarge | Refused::OverShare) => {
            Err(BenchError::Premise("an item of the benchmark is too large".to_owned()))
        }
    }
}

fn make_room(worker: &mut Worker) -> Result<(), BenchError> {
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

/// Hashes a batch, loads its index lines, then its items.
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
    for (_, key) in &keys {
        worker.prefetch_item(key);
    }
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
