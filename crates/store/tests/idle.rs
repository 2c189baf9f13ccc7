//! What the store says is idle: nothing that was touched, all that was not, and the part in between.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::{Claim, Sensor};
use std::sync::Arc;
use store::{Fields, MemoryControl, Mode, Options, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Duration, Instant, Rng, TenantId};

const IDLE_TIME: Duration = Duration::from_secs(30);
/// By how much a sample of some thousand items may miss the idle part.
const TOLERANCE: f64 = 0.08;
const ITEMS: u64 = 4_000;

struct Rig {
    store: Arc<Store>,
    worker: Worker,
    rng: Rng,
}

impl Rig {
    fn new(memory: Bytes, seed: u64) -> Self {
        let options =
            Options { memory, item_max: Bytes::kib(64), threads: 1, tenants_max: 4, no_evict: false, seed };
        let store = Store::new(options).unwrap();
        for name in ["busy", "half", "idle", "churn"] {
            let spec = TenantSpec {
                name: name.to_owned(),
                own_space: true,
                claim: Claim::default(),
                rank: RankKind::Lru,
            };
            store.add_tenant(spec).unwrap();
        }
        Self { worker: store.worker().unwrap(), store, rng: Rng::new(seed) }
    }

    fn get(&mut self, tenant: u32, n: u64) {
        self.get_sized(tenant, n, 500);
    }

    fn get_sized(&mut self, tenant: u32, n: u64, len: usize) {
        let (tenant, text) = (TenantId(tenant), format!("{n:023}"));
        let key = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        if self.worker.get(tenant, &key).is_none() {
            while self.worker.set(tenant, &key, Mode::Set, Fields::default(), &[1; 5_000][..len])
                == Err(Refused::NoRoom)
            {
                self.worker.make_room().unwrap();
            }
        }
        self.worker.quiesce();
    }

    /// One second: the first tenant reads all its items, the second every other one, the third none, the fourth writes.
    fn second(&mut self, written: u64) {
        self.second_of(written, 500);
    }

    fn second_of(&mut self, written: u64, len: usize) {
        for n in 0..ITEMS {
            self.get(0, n);
            self.get(1, n / 2 * 2);
        }
        for _ in 0..written {
            let n = self.rng.next_u64();
            self.get_sized(3, n, len);
        }
    }
}

fn idle_parts(control: &mut MemoryControl, now: Instant) -> [f64; 4] {
    let mut rows = Vec::new();
    control.read(now, &mut rows);
    let part = |i: usize| {
        let signal = rows[i].signal.unwrap();
        signal.idle.0 as f64 / signal.held.0.max(1) as f64
    };
    [0, 1, 2, 3].map(part)
}

fn is_none(parts: [f64; 4]) -> bool {
    parts.iter().all(|part| *part <= 0.0)
}

#[test]
fn what_is_not_touched_becomes_idle() {
    for seed in 1..=3 {
        let mut rig = Rig::new(Bytes::mib(32), seed);
        for n in 0..ITEMS {
            (0..3).for_each(|tenant| rig.get(tenant, n));
        }
        let mut control = MemoryControl::with_idle(Arc::clone(&rig.store), IDLE_TIME);
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        for second in 0..28 {
            rig.second(1_500);
            let parts = idle_parts(&mut control, at(second));
            assert!(is_none(parts), "seed {seed}: nothing is idle before the idle time: {parts:?}");
        }
        for second in 28..60 {
            rig.second(1_500);
            idle_parts(&mut control, at(second));
        }
        let [busy, half, idle, churn] = idle_parts(&mut control, at(61));
        println!("seed {seed}: busy {busy:.3}, half {half:.3}, idle {idle:.3}, churn {churn:.3}");
        assert!(busy < 0.01, "seed {seed}: {busy}");
        assert!((half - 0.5).abs() < TOLERANCE, "seed {seed}: {half}");
        assert!(0.99 < idle, "seed {seed}: {idle}");
        // What it writes in 30 s is more than its part of the memory.
        assert!(churn < 0.2, "seed {seed}: {churn}");
    }
}

/// Items of the tenant that nobody touches: some 14 MiB of a store of 64.
const UNTOUCHED: u64 = 24_000;
/// By how much the estimate may be wrong where the memory is written over again and again between two decisions.
const ERROR_MAX: f64 = 0.10;

/// A full store of 64 MiB and writes of 1 and 10 MB/s: once a minute and every six seconds all of it is written. Decisions
/// are a minute apart, as under the tax; the look is once a second, as a server's.
#[test]
fn what_is_not_touched_reads_as_idle_however_much_is_written() {
    let minute = Duration::from_secs(60);
    let mut worst: f64 = 0.0;
    // Sizes of what is written, 2,000 items a second.
    for (seed, len) in [(1, 500), (2, 500), (3, 500), (1, 5_000), (2, 5_000), (3, 5_000)] {
        let mut rig = Rig::new(Bytes::mib(64), seed);
        (0..ITEMS).for_each(|n| rig.get(1, n));
        (0..UNTOUCHED).for_each(|n| rig.get(2, n));
        let mut control = MemoryControl::with_idle(Arc::clone(&rig.store), minute);
        for second in 0..=120_u64 {
            let now = Instant::ZERO + Duration::from_secs(second);
            rig.second_of(2_000, len);
            control.look(now);
            if second % 60 != 0 {
                continue;
            }
            let [busy, half, idle, _] = idle_parts(&mut control, now);
            println!("seed {seed}, {len} B, {second} s: {busy:.3} {half:.3} {idle:.3}");
            assert!(busy <= ERROR_MAX, "seed {seed}: {busy} of what is busy reads as idle");
            if 120 <= second {
                worst = worst.max((half - 0.5).abs()).max(1.0 - idle).max(busy);
                assert!(
                    (half - 0.5).abs() <= ERROR_MAX,
                    "seed {seed}, {second} s: {half} of what is half idle"
                );
                assert!(1.0 - idle <= ERROR_MAX, "seed {seed}, {second} s: {idle} of what is idle");
            }
        }
        rig.worker.quiesce();
        rig.worker.check();
    }
    println!("worst error {worst:.3}");
}

#[test]
fn a_sensor_without_idle_time_and_a_store_without_items_say_nothing() {
    let mut rig = Rig::new(Bytes::mib(32), 1);
    let mut without = MemoryControl::new(Arc::clone(&rig.store));
    let mut empty = MemoryControl::with_idle(Arc::clone(&rig.store), Duration::ZERO);
    assert!(is_none(idle_parts(&mut empty, Instant(5))));
    rig.second(20_000);
    assert!(is_none(idle_parts(&mut without, Instant::ZERO + Duration::from_secs(100))));
}
