//! How long single operations take while the index grows to millions of items, and while it shrinks again.
//!
//! Shape:      one thread stores new keys, then deletes them, twice, the second time with each operation timed; another does what a
//!             background cleaner does
//! Invariants: the index has grown and shrunk by most of what it was, or the benchmark fails
//! Units:      microseconds of the thread's CPU time, and of the clock, which has in it what else the machine does
//! Cost:       four million operations each way, twice

use crate::in_process::{hashed, made, make_room, store, tenant, thread_cpu_nanos};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::keys;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Store, Worker};
use units::Bytes;

/// Keys that are stored and deleted.
const KEYS: u32 = 4_000_000;
/// Room for all of them.
const MEMORY: Bytes = Bytes::mib(512);
/// The longest that an operation may take (`index`, no pause above a millisecond).
const MOST_US: f64 = 1_000.0;
/// The cleaner's rest when there is nothing to do.
const REST: Duration = Duration::from_millis(1);

/// Looks at the index at most until it is at rest, a tenth of a second apart.
const LOOKS_MAX: u32 = 600;

/// What operations of one kind took at most.
#[derive(Clone, Copy, Debug, Default)]
struct Longest {
    cpu_us: f64,
    clock_us: f64,
}

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("the index grows and shrinks");
    let count = KEYS / u32::try_from(bench.less).unwrap_or(1);
    let mut found = [const { (Vec::new(), Vec::new()) }; 2];
    for _ in 0..bench.rounds {
        let (longest, index) = measure(bench, count)?;
        for ((cpu, clock), longest) in found.iter_mut().zip(longest) {
            cpu.push(longest.cpu_us);
            clock.push(longest.clock_us);
        }
        let [empty, full, after] = index.map(|bytes| bytes as f64);
        bench.premise(4.0 * empty < full, &format!("the index grew from {empty} to {full} B"));
        bench.premise(after < full / 2.0, &format!("the index shrank from {full} to {after} B"));
    }
    for ((cpu, clock), what) in
        found.into_iter().zip(["set while the index grows", "delete while it shrinks"])
    {
        let of = |how: &str| format!("longest {what} by {count}, {how}");
        let goal = Goal::AtMost(MOST_US);
        bench.add(Row { measure: of("CPU time"), unit: "us", ours: cpu, peer: None, goal });
        let goal = Goal::None("has the machine's noise");
        bench.add(Row { measure: of("by the clock"), unit: "us", ours: clock, peer: None, goal });
    }
    Ok(())
}

/// The longest set and delete, and the index's bytes at the beginning, when full, and in the end.
fn measure(bench: &Bench, count: u32) -> Result<([Longest; 2], [u64; 3]), BenchError> {
    let shared = made(bench, MEMORY, 2)?;
    let mut worker = shared.worker()?;
    let cleaner = shared.worker()?;
    let index = || shared.memory_use().index.0;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| clean(cleaner, &ends));
        // The log's memory is touched first: what the system takes for a huge page is not the index's.
        let warm = longest(&mut worker, count, set).and_then(|_| longest(&mut worker, count, delete));
        worker.go_offline();
        let empty = settled(&shared);
        worker.go_online();
        let set = longest(&mut worker, count, set);
        let full = index();
        let delete = longest(&mut worker, count, delete);
        worker.go_offline();
        let after = settled(&shared);
        ends.store(true, Ordering::Release);
        warm.and(Ok(([set?, delete?], [empty, full, after])))
    })
}

fn set(worker: &mut Worker, number: u32) -> Result<(), BenchError> {
    let key = keys::key(number);
    let key = hashed(worker, &key)?;
    while !store(worker, number, &key)? {
        make_room(worker)?;
    }
    Ok(())
}

fn delete(worker: &mut Worker, number: u32) -> Result<(), BenchError> {
    let key = keys::key(number);
    worker.delete(tenant(number), &hashed(worker, &key)?);
    Ok(())
}

/// What a background cleaner does.
fn clean(mut worker: Worker, ends: &AtomicBool) {
    while !ends.load(Ordering::Acquire) {
        worker.go_online();
        let more = worker.maintain();
        worker.go_offline();
        if !more {
            std::thread::sleep(REST);
        }
    }
}

/// The index's bytes once they do not change any more, or after a while.
fn settled(store: &Arc<Store>) -> u64 {
    let mut last = store.memory_use().index.0;
    for _ in 0..LOOKS_MAX {
        std::thread::sleep(REST * 100);
        let now = store.memory_use().index.0;
        if now == last {
            break;
        }
        last = now;
    }
    last
}

fn longest(
    worker: &mut Worker,
    count: u32,
    act: impl Fn(&mut Worker, u32) -> Result<(), BenchError>,
) -> Result<Longest, BenchError> {
    let clock = || {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let mut longest = Longest::default();
    for number in 0..count {
        let (cpu, began) = (thread_cpu_nanos(), clock());
        act(worker, number)?;
        worker.quiesce();
        let (cpu, took) = ((thread_cpu_nanos() - cpu) / 1e3, clock() - began);
        longest = Longest { cpu_us: longest.cpu_us.max(cpu), clock_us: longest.clock_us.max(took) };
    }
    Ok(longest)
}
