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
    fn new(seed: u64) -> Self {
        let options = Options {
            memory: Bytes::mib(32),
            item_max: Bytes::kib(64),
            threads: 1,
            tenants_max: 4,
            no_evict: false,
            seed,
        };
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
        let (tenant, text) = (TenantId(tenant), format!("{n:023}"));
        let key = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        if self.worker.get(tenant, &key).is_none() {
            while self.worker.set(tenant, &key, Mode::Set, Fields::default(), &[1; 500])
                == Err(Refused::NoRoom)
            {
                self.worker.make_room().unwrap();
            }
        }
        self.worker.quiesce();
    }

    /// One second: the first tenant reads all its items, the second every other one, the third none, the fourth writes.
    fn second(&mut self, written: u64) {
        for n in 0..ITEMS {
            self.get(0, n);
            self.get(1, n / 2 * 2);
        }
        for _ in 0..written {
            let n = self.rng.next_u64();
            self.get(3, n);
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
        let mut rig = Rig::new(seed);
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

#[test]
fn a_sensor_without_idle_time_and_a_store_without_items_say_nothing() {
    let mut rig = Rig::new(1);
    let mut without = MemoryControl::new(Arc::clone(&rig.store));
    let mut empty = MemoryControl::with_idle(Arc::clone(&rig.store), Duration::ZERO);
    assert!(is_none(idle_parts(&mut empty, Instant(5))));
    rig.second(20_000);
    assert!(is_none(idle_parts(&mut without, Instant::ZERO + Duration::from_secs(100))));
}
