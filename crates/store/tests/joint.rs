//! DRAM and a tier's time divided together: what the sensor says of both, what the two levers do, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::joint::{Joint, JointSignal};
use control::memory::MemoryShare;
use control::{Actuator, Amount, Claim, Decision, Law, Pool, Row, Seen, Sensor, Shares, Window};
use media::emulated::Dimms;
use media::{Plain, Profile, SlowAccess};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{
    Fields, Held, JointControl, MemoryControl, Mode, Options, Placement, Promotion, RankKind, Refused, Space,
    Store, TenantSpec, Worker,
};
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

const MS: u64 = 1_000_000;
/// What the held tenants do.
const READ: &[SlowAccess] = &[SlowAccess::Read];
/// A whole tier as bandwidth.
const WHOLE: u64 = 1_000_000_000;
const LEN: usize = 1_000;
/// Of each tenant: together three times what DRAM holds, and within the tier.
const KEYS: u64 = 10_000;

/// A store with a tier, and the time.
struct Rig {
    store: Arc<Store>,
    worker: Worker,
    control: JointControl,
    now: Arc<AtomicU64>,
    rng: Rng,
}

fn rig(tenants: u32, keys: u64) -> Rig {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 8,
        no_evict: false,
        seed: 1,
    };
    let store = Store::with_tiers(options, &[Arc::new(Plain::new(Bytes::mib(64)).unwrap())], 0).unwrap();
    let profile = Profile::new(&Profile::modelled(&Dimms::Two.system())).unwrap();
    assert!(store.set_profile(0, profile));
    let now = Arc::new(AtomicU64::new(MS));
    let time = Arc::clone(&now);
    store.set_brake_time(move || Instant(time.load(Ordering::Relaxed)));
    let worker = store.worker().unwrap();
    let control = JointControl::new(Arc::clone(&store), Instant(MS));
    let mut rig = Rig { store, worker, control, now, rng: Rng::new(1) };
    for i in 0..tenants {
        let spec = TenantSpec {
            name: format!("t{i}"),
            own_space: true,
            claim: Claim::default(),
            rank: RankKind::default(),
        };
        let id = rig.store.add_tenant(spec).unwrap();
        assert!(rig.store.set_placement(id, Placement::Auto));
    }
    rig.share_memory();
    for i in 0..tenants {
        (0..keys).for_each(|key| rig.set(TenantId(i), key));
    }
    rig
}

fn shares<S, A: control::Measured + Copy>(rows: &[Row<S, A>], all: &[A]) -> Shares<A> {
    let pool = Pool::default();
    let seen = Seen::new(Window::default(), &pool, rows).unwrap();
    let mut shares = Shares::default();
    shares.rebuild(Law::Free, &seen, rows.iter().map(|row| row.id).zip(all.iter().copied()));
    shares
}

fn decide<A>(shares: &Shares<A>) -> Decision<'_, A> {
    let second = Duration::from_secs(1);
    Decision { shares, wake: second, lease: Duration::from_secs(100), steady: true, notes: &[] }
}

impl Rig {
    fn now(&self) -> Instant {
        Instant(self.now.load(Ordering::Relaxed))
    }

    fn pass(&self, ns: u64) {
        self.now.fetch_add(ns, Ordering::Relaxed);
    }

    /// DRAM and tier are divided equally, as a policy about memory would.
    fn share_memory(&mut self) {
        let mut control = MemoryControl::new(Arc::clone(&self.store));
        let mut rows = Vec::new();
        let pool = control.read(self.now(), &mut rows);
        let target = Bytes(pool.capacity.bytes.0 / rows.len() as u64);
        let shares = shares(&rows, &vec![MemoryShare::of(target); rows.len()]);
        assert!(control.apply(self.now(), &decide(&shares), &mut Vec::new()));
    }

    fn set(&mut self, tenant: TenantId, key: u64) {
        let text = format!("key-{key}");
        loop {
            let hashed = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
            match self.worker.set(tenant, &hashed, Mode::Set, Fields::default(), &[7; LEN]) {
                Ok(_) => break,
                Err(Refused::NoRoom | Refused::Away) => self.worker.make_room().unwrap(),
                Err(why) => panic!("{why:?}"),
            }
        }
        self.maintain();
    }

    fn maintain(&mut self) {
        if self.store.wants_cleaning() {
            self.worker.maintain();
        }
        self.worker.quiesce();
    }

    /// How long a look-up of a key has to wait.
    fn held(&self, tenant: TenantId, key: u64) -> Option<Held> {
        let text = format!("key-{key}");
        let hashed = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        self.worker.held(tenant, &hashed, READ, Instant::ZERO)
    }

    /// Looks a key up; says whether it is there.
    fn get(&mut self, tenant: TenantId, key: u64) -> bool {
        let text = format!("key-{key}");
        let hashed = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        let found = self.worker.get(tenant, &hashed).is_some();
        self.maintain();
        found
    }

    fn read(&mut self) -> (Pool, Vec<Row<JointSignal, Joint>>) {
        let mut rows = Vec::new();
        let pool = self.control.read(self.now(), &mut rows);
        (pool, rows)
    }

    /// Gives each tenant a part of DRAM and of the tier, in per cent; returns what is in force.
    fn give(&mut self, parts: &[(u64, u64)]) -> (bool, Vec<(TenantId, Joint)>) {
        let (pool, rows) = self.read();
        let share = |&(memory, bandwidth): &(u64, u64)| Joint {
            bytes: Bytes(pool.capacity.bytes.0 / 100 * memory),
            bandwidth: BytesPerSec(WHOLE / 100 * bandwidth),
        };
        let shares = shares(&rows, &parts.iter().map(share).collect::<Vec<_>>());
        let mut in_force = Vec::new();
        let whole = self.control.apply(self.now(), &decide(&shares), &mut in_force);
        (whole, in_force)
    }

    /// Both ask for random keys of theirs, and store some, for a while.
    fn work(&mut self, times: u64) {
        for _ in 0..times {
            for tenant in [0, 1].map(TenantId) {
                let key = self.rng.below(KEYS);
                if self.rng.below(10) == 0 {
                    self.set(tenant, key);
                } else {
                    self.get(tenant, key);
                }
            }
        }
    }

    /// The part of what both have in DRAM that is the first one's.
    fn part(&self) -> f64 {
        let here = |id| {
            let state = self.store.tenant_state(TenantId(id)).unwrap();
            (state.held - state.away).0 as f64
        };
        here(0) / (here(0) + here(1))
    }

    fn all_there(&mut self) -> bool {
        (0..KEYS).all(|key| self.get(TenantId(0), key) && self.get(TenantId(1), key))
    }
}

#[test]
fn targets_in_dram_say_whose_values_are_there_and_nothing_is_lost() {
    let mut rig = rig(2, KEYS);
    let mut seen = Vec::new();
    for (first, second) in [(80, 20), (20, 80)] {
        assert!(rig.give(&[(first, 50), (second, 50)]).0);
        rig.work(40_000);
        seen.push(rig.part());
    }
    assert!(0.65 < seen[0] && seen[1] < 0.35, "80 %, then 20 %, of DRAM: {seen:?}");
    println!("{seen:?} of what both have in DRAM");
    assert!(rig.all_there(), "what is put below is there");
    rig.control.release(rig.now());
    assert_eq!(rig.store.tenant_state(TenantId(0)).unwrap().dram_target, None);
    rig.work(10_000);
    assert!(rig.all_there(), "nor does it go when nobody says any more who is in DRAM");
}

#[test]
fn a_share_of_the_tier_holds_and_is_what_the_sensor_says() {
    let mut rig = rig(2, KEYS);
    rig.store.set_promotion(Promotion::Never);
    let (whole, in_force) = rig.give(&[(50, 5), (50, 50)]);
    assert!(whole);
    assert_eq!(in_force[0].1.bandwidth, BytesPerSec(WHOLE / 20));
    let until = rig.now().0 + 500 * MS;
    let mut done = 0;
    while rig.now().0 < until {
        match rig.held(TenantId(0), done % 2_000) {
            Some(Held::Until(then)) => rig.now.store(then.0.min(until), Ordering::Relaxed),
            Some(Held::Paused) => panic!("nobody pauses"),
            None => {
                // The oldest, which are below.
                rig.get(TenantId(0), done % 2_000);
                rig.pass(200);
                done += 1;
            }
        }
    }
    let (_, rows) = rig.read();
    let signal = rows[0].signal.as_ref().unwrap();
    // What the cleaner puts below for it comes off its budget.
    let used = signal.bandwidth.0 as f64 / (WHOLE as f64 / 20.0);
    assert!((0.95..1.05).contains(&used), "{used} of its share, {done} look-ups");
    assert_eq!(signal.operations, done);
    assert!(Bytes::ZERO < signal.held && signal.held < Bytes::mib(8));
    rig.control.release(rig.now());
    assert_eq!(rig.held(TenantId(0), 0), None);
    assert_eq!(rig.store.throttle(TenantId(0)), control::bandwidth::Throttle::FREE);
}

#[test]
fn a_part_of_the_tier_may_be_divided_and_a_reservation_counts_by_its_part_of_dram() {
    let mut rig = rig(2, 10);
    let whole = rig.read().0.capacity;
    assert_eq!(whole.bandwidth, BytesPerSec(WHOLE));
    assert!(Bytes::ZERO < whole.bytes && whole.bytes < Bytes::mib(8));
    rig.control.set_part(0.02);
    let reserved = Bytes::mib(20);
    rig.store.set_claim(TenantId(1), Claim { floor: Amount::memory(reserved), ..Claim::default() });
    let (pool, rows) = rig.read();
    assert_eq!(pool.capacity.bandwidth, BytesPerSec(WHOLE / 50));
    assert_eq!(rows[0].claim.floor.bytes, Bytes::ZERO);
    let floor = rows[1].claim.floor.bytes.0 as f64;
    let all = (pool.capacity.bytes + Bytes::mib(64)).0 as f64;
    let part = pool.capacity.bytes.0 as f64 / all * reserved.0 as f64;
    // A tier holds less than its size, so that DRAM is more of all.
    assert!(part <= floor && floor < 1.2 * part, "{floor} of {part}");
}

#[test]
fn the_pool_is_another_when_it_has_changed_by_much() {
    let mut rig = rig(1, 10);
    let dram = |rig: &mut Rig| rig.read().0.capacity.bytes;
    let whole = dram(&mut rig);
    rig.store.set_external(Bytes::kib(32));
    assert_eq!(dram(&mut rig), whole, "buffers come and go");
    rig.store.set_external(Bytes::mib(1));
    assert!(dram(&mut rig) + Bytes::mib(1) <= whole);
}

#[test]
fn a_lease_that_nobody_renews_gives_the_last_shares_back() {
    let mut rig = rig(2, 10);
    let (_, in_force) = rig.give(&[(70, 30), (30, 70)]);
    // Whoever decided has gone wrong and is silent.
    rig.store.remove_tenant(TenantId(1));
    let lease = Duration::from_secs(100).0;
    assert!(!rig.control.lapse(Instant(rig.now().0 + lease - 1)));
    assert!(rig.control.lapse(Instant(rig.now().0 + lease)));
    assert_eq!(rig.store.tenant_state(TenantId(0)).unwrap().dram_target, Some(in_force[0].1.bytes));
    assert!(!rig.control.lapse(Instant(rig.now().0 + lease)), "once");
}

#[test]
fn who_leaves_has_no_share_and_who_comes_is_seen() {
    let mut rig = rig(2, 10);
    assert!(rig.control.has_other_tenants(), "nothing was decided yet");
    rig.give(&[(50, 50), (50, 50)]);
    assert!(!rig.control.has_other_tenants());
    let (_, rows) = rig.read();
    assert!(rig.store.remove_tenant(TenantId(0)));
    assert!(rig.control.has_other_tenants());
    // A decision that was made before it left.
    let shares = shares(&rows, &[Joint::default(); 2]);
    let mut in_force = Vec::new();
    assert!(!rig.control.apply(rig.now(), &decide(&shares), &mut in_force));
    assert_eq!(in_force, [(TenantId(1), Joint::default())]);
    assert_eq!(rig.read().1.len(), 1);
}

#[test]
fn who_neither_holds_nor_asks_takes_no_part() {
    let mut rig = rig(2, 0);
    assert!(rig.read().1.is_empty() && !rig.control.has_other_tenants());
    assert!(!rig.get(TenantId(1), 0));
    assert!(rig.control.has_other_tenants());
    assert!(rig.give(&[(100, 100)]).0);
    rig.set(TenantId(0), 0);
    assert!(rig.control.has_other_tenants());
    assert!(rig.give(&[(50, 50), (50, 50)]).0);
    assert!(!rig.control.has_other_tenants(), "one that asked once stays");
}

#[test]
fn who_is_exempt_is_never_held_back() {
    let mut rig = rig(2, 10);
    rig.control.set_exempt([TenantId(1)].into_iter());
    assert!(rig.give(&[(50, 1), (50, 1)]).0);
    assert!(rig.store.throttle(TenantId(0)).budget.is_some());
    assert_eq!(rig.store.throttle(TenantId(1)).budget, None);
}

#[test]
fn what_was_used_before_it_begins_is_not_its_to_see() {
    let mut rig = rig(2, KEYS);
    rig.work(1_000);
    rig.pass(1_000 * MS);
    rig.control.begin(rig.now());
    assert!(rig.read().1.iter().all(|row| row.signal.is_none()), "no time has passed");
    rig.pass(1_000 * MS);
    let (_, rows) = rig.read();
    let signal = |row: &Row<JointSignal, Joint>| row.signal.as_ref().map(|s| (s.operations, s.bandwidth));
    assert!(rows.iter().all(|row| signal(row) == Some((0, BytesPerSec(0)))));
}
