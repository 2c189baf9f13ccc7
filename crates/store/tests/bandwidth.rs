//! Who may use a tier how fast: what sensor and actuator of its time say and do, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::bandwidth::{BandwidthSignal, Budget, Cost, Kinds, Throttle};
use control::{Actuator, Amount, Claim, Decision, Law, Pool, Row, Seen, Sensor, Shares, Window};
use media::emulated::Dimms;
use media::{Plain, Profile, SlowAccess};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{
    BandwidthControl, Fields, Held, Mode, Options, Placement, RankKind, Refused, Space, Store, TenantSpec,
    Worker,
};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

const MS: u64 = 1_000_000;
/// What the held tenants do.
const READ: &[SlowAccess] = &[SlowAccess::Read];
const KEYS: u64 = 64;

/// A store with a tier, and the time.
struct Rig {
    store: Arc<Store>,
    worker: Worker,
    control: BandwidthControl,
    now: Arc<AtomicU64>,
}

/// What a tenant does all the time.
#[derive(Clone, Copy, Debug)]
enum Load {
    Gets,
    Sets,
}

fn spec(name: &str) -> TenantSpec {
    let (claim, rank) = (Claim::default(), RankKind::default());
    TenantSpec { name: name.to_owned(), own_space: true, claim, rank }
}

fn rig(tenants: usize, value_len: usize) -> Rig {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(256),
        threads: 1,
        tenants_max: 8,
        no_evict: false,
        seed: 1,
    };
    // So large that nothing has to be cleaned: what a cleaner moves is counted, and not held back.
    let store = Store::with_tiers(options, &[Arc::new(Plain::new(Bytes::mib(256)).unwrap())], 0).unwrap();
    let profile = Profile::new(&Profile::modelled(&Dimms::Two.system())).unwrap();
    assert!(store.set_profile(0, profile));
    let now = Arc::new(AtomicU64::new(MS));
    let time = Arc::clone(&now);
    store.set_brake_time(move || Instant(time.load(Ordering::Relaxed)));
    let worker = store.worker().unwrap();
    let control = BandwidthControl::new(Arc::clone(&store));
    let mut rig = Rig { store, worker, control, now };
    for i in 0..tenants {
        let id = rig.store.add_tenant(spec(&format!("t{i}"))).unwrap();
        assert!(rig.store.set_placement(id, Placement::Tier(0)));
        (0..KEYS).for_each(|key| rig.set(id, key, value_len));
    }
    rig
}

impl Rig {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn set(&mut self, tenant: TenantId, key: u64, value_len: usize) {
        let (text, value) = (format!("key-{key}"), vec![7; value_len]);
        loop {
            let hashed = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
            match self.worker.set(tenant, &hashed, Mode::Set, Fields::default(), &value) {
                Ok(_) => break,
                Err(Refused::NoRoom | Refused::Away) => self.worker.make_room().unwrap(),
                Err(why) => panic!("{why:?}"),
            }
        }
        if self.store.wants_cleaning() {
            self.worker.maintain();
        }
        self.worker.quiesce();
    }

    fn get(&mut self, tenant: TenantId, key: u64) {
        let text = format!("key-{key}");
        let hashed = self.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        assert!(self.worker.reads_tier(&hashed));
        assert!(self.worker.get(tenant, &hashed).is_some());
        self.worker.quiesce();
    }

    /// How long a tenant's next access to a value in the tier has to wait.
    fn held(&self, tenant: TenantId, kinds: &[SlowAccess]) -> Option<Held> {
        let hashed = self.worker.key(Space::Own(tenant), b"key-0").unwrap();
        // It has been there all along.
        self.worker.held(tenant, &hashed, kinds, Instant::ZERO)
    }

    /// Lets a tenant work until `until`, waiting as its brake says; an operation takes 200 ns. Returns how many it made.
    fn work(&mut self, tenant: TenantId, load: Load, value_len: usize, until: u64) -> u64 {
        let mut done = 0;
        while self.now() < until {
            let comes_to_do = match load {
                Load::Gets => READ,
                Load::Sets => &[SlowAccess::Write],
            };
            match self.held(tenant, comes_to_do) {
                Some(Held::Until(then)) => self.now.store(then.0.min(until), Ordering::Relaxed),
                Some(Held::Paused) => self.now.store(until, Ordering::Relaxed),
                None => {
                    match load {
                        Load::Gets => self.get(tenant, done % KEYS),
                        Load::Sets => self.set(tenant, done % KEYS, value_len),
                    }
                    self.now.fetch_add(200, Ordering::Relaxed);
                    done += 1;
                }
            }
        }
        done
    }

    fn read(&mut self) -> Vec<Row<BandwidthSignal, Throttle>> {
        let mut rows = Vec::new();
        let pool = self.control.read(Instant(self.now()), &mut rows);
        assert_eq!(pool.capacity, Amount::tier_time(Cost::SECOND));
        rows
    }

    /// Puts throttles in force, as a decision that holds for `lease`.
    fn apply(&mut self, throttles: &[Throttle], steady: bool, lease: Duration) -> bool {
        let rows = self.read();
        let pool = Pool::default();
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let mut shares = Shares::default();
        let ids = rows.iter().map(|row| row.id);
        shares.rebuild(Law::Free, &seen, ids.zip(throttles.iter().copied()));
        let decision = Decision { shares: &shares, wake: Duration::from_secs(1), lease, steady, notes: &[] };
        let mut in_force = Vec::new();
        self.control.apply(Instant(self.now()), &decision, &mut in_force)
    }

    fn throttle(&mut self, throttles: &[Throttle]) {
        assert!(self.apply(throttles, true, Duration::from_secs(100)));
    }
}

#[test]
fn a_budget_holds_in_cost_for_every_size_and_kind() {
    let (part, epoch) = (0.05, 50 * MS);
    for value_len in [130, 700, 2_000, 4_000, 60_000] {
        for load in [Load::Gets, Load::Sets] {
            let mut rig = rig(2, value_len);
            let granted = Cost::SECOND.0 / 1_000 * 50;
            let budget = Budget { cost: Cost(granted / 20), per: Duration(epoch) };
            rig.throttle(&[Throttle { budget: Some(budget), ..Throttle::FREE }, Throttle::FREE]);
            rig.read();
            let start = rig.now();
            let mut all = 0.0;
            for i in 1..=10 {
                rig.work(TenantId(0), load, value_len, start + i * epoch);
                let signal = rig.read()[0].signal.unwrap();
                let used = signal.cost.part_of(Duration(epoch)) / part;
                // One access may be charged to the next epoch, whatever it costs.
                let one = rig.store.access_cost_ps(0, media::SlowAccess::Write, Bytes(value_len as u64 + 64));
                let slack = one.unwrap() as f64 / budget.cost.0 as f64 + 0.002;
                assert!(
                    (used - 1.0).abs() <= slack.max(0.05),
                    "{used} of its budget, {value_len} B {load:?}"
                );
                // The second and all that follow are begun by nobody: what is granted then as time passes is no budget that runs out.
                assert_eq!((signal.depleted_at.is_some(), signal.threads), (i == 1, 1), "epoch {i}");
                all += used;
            }
            assert!((all / 10.0 - 1.0).abs() < 0.01, "{all} of 10 budgets, {value_len} B {load:?}");
        }
    }
}

#[test]
fn what_is_divided_can_be_a_part_of_the_tiers_time() {
    let mut rig = rig(1, 200);
    rig.control.set_part(0.25);
    let pool = rig.control.read(Instant(rig.now()), &mut Vec::new());
    assert_eq!(pool.capacity, Amount::tier_time(Cost(Cost::SECOND.0 / 4)));
}

#[test]
fn who_is_paused_waits_and_nobody_else() {
    let mut rig = rig(2, 1_000);
    rig.throttle(&[Throttle::PAUSED, Throttle::FREE]);
    assert_eq!(rig.held(TenantId(0), READ), Some(Held::Paused));
    assert_eq!(rig.held(TenantId(1), READ), None);
    let until = rig.now() + MS;
    assert_eq!(rig.work(TenantId(1), Load::Gets, 1_000, until), 5_000);
    assert_eq!(rig.store.throttle(TenantId(0)), Throttle::PAUSED);
    rig.throttle(&[Throttle::FREE, Throttle::FREE]);
    assert_eq!(rig.held(TenantId(0), READ), None);
    // An experiment's pause has an end, and who asks after it asks again soon.
    rig.apply(&[Throttle::PAUSED, Throttle::FREE], false, Duration(10 * MS));
    let ends = rig.now() + Duration::from_secs(1).0;
    assert_eq!(rig.held(TenantId(0), READ), Some(Held::Until(Instant(ends))));
    rig.now.store(ends + MS, Ordering::Relaxed);
    assert_eq!(rig.held(TenantId(0), READ), Some(Held::Until(Instant(ends + MS + 100_000))));
}

#[test]
fn a_delay_and_a_cap_hold_what_they_are_for() {
    let mut rig = rig(2, 1_000);
    rig.throttle(&[Throttle { delay: 1_000, ..Throttle::FREE }, Throttle::FREE]);
    let until = rig.now() + 10 * MS;
    let done = rig.work(TenantId(0), Load::Gets, 1_000, until);
    assert!((990..=1_010).contains(&done), "{done} accesses, 10 µs for each, ten at a time");
    let cap = Kinds { slow_write: Some(BytesPerSec(100_000_000)), ..Kinds::default() };
    rig.throttle(&[Throttle { cap, ..Throttle::FREE }, Throttle::FREE]);
    rig.read();
    let until = rig.now() + 100 * MS;
    rig.work(TenantId(0), Load::Sets, 1_000, until);
    let written = rig.read()[0].signal.unwrap().bytes.slow_write.0;
    assert!((9_900_000..=10_200_000).contains(&written), "{written} B of 10 MB");
    let until = rig.now() + MS;
    assert!(4_000 < rig.work(TenantId(0), Load::Gets, 1_000, until), "reads have no cap");
}

/// What a tenant owes for its values in the tier is waited for by those alone, however often it asks for others meanwhile.
#[test]
fn who_does_not_come_to_the_tier_waits_for_nothing_and_works_nothing_off() {
    let mut rig = rig(1, 1_000);
    let tenant = TenantId(0);
    assert!(rig.store.set_placement(tenant, Placement::Dram));
    let in_dram = |rig: &mut Rig| {
        rig.set(tenant, KEYS, 100);
        let text = format!("key-{KEYS}");
        let hashed = rig.worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        assert!(!rig.worker.reads_tier(&hashed));
        for kind in [SlowAccess::Read, SlowAccess::Write] {
            assert_eq!(rig.worker.held(tenant, &hashed, &[kind], Instant::ZERO), None);
        }
        assert!(rig.worker.get(tenant, &hashed).is_some());
        rig.worker.quiesce();
    };
    in_dram(&mut rig);
    rig.throttle(&[Throttle { delay: 10_000, ..Throttle::FREE }]);
    let (from, until) = (rig.now(), rig.now() + 100 * MS);
    let mut done = 0_u64;
    while rig.now() < until {
        in_dram(&mut rig);
        rig.now.fetch_add(20_000, Ordering::Relaxed);
        if let Some(Held::Until(then)) = rig.held(tenant, READ) {
            in_dram(&mut rig);
            rig.now.store(then.0, Ordering::Relaxed);
        }
        assert_eq!(rig.held(tenant, READ), None);
        rig.get(tenant, 0);
        done += 1;
    }
    let wanted = (rig.now() - from) / 120_000;
    assert!(done.abs_diff(wanted) <= 2, "{done} of {wanted}, each 100 µs and what it did else");
}

#[test]
fn what_this_store_cannot_hold_is_not_in_force() {
    let mut rig = rig(1, 200);
    let asked = Throttle { mba: 50, delay: 3, ..Throttle::FREE };
    assert!(!rig.apply(&[asked], true, Duration::from_secs(1)));
    assert_eq!(rig.store.throttle(TenantId(0)), Throttle { delay: 3, ..Throttle::FREE });
    assert_eq!(rig.read()[0].in_force, Some(Throttle { delay: 3, ..Throttle::FREE }));
}

#[test]
fn a_lease_that_nobody_renews_gives_the_last_steady_throttles_back() {
    let mut rig = rig(2, 200);
    let steady = Throttle { delay: 7, ..Throttle::FREE };
    rig.apply(&[steady, Throttle::FREE], true, Duration(10 * MS));
    rig.apply(&[Throttle::PAUSED, Throttle::PAUSED], false, Duration(10 * MS));
    assert!(!rig.control.lapse(Instant(rig.now() + 9 * MS)));
    assert!(rig.control.lapse(Instant(rig.now() + 10 * MS)));
    assert_eq!(rig.store.throttle(TenantId(0)), steady);
    assert_eq!(rig.store.throttle(TenantId(1)), Throttle::FREE);
}

#[test]
fn a_tenant_that_leaves_is_free_and_whoever_has_its_id_next_begins_anew() {
    let mut rig = rig(2, 200);
    rig.throttle(&[Throttle::PAUSED, Throttle::PAUSED]);
    assert!(rig.store.remove_tenant(TenantId(0)));
    assert_eq!(rig.held(TenantId(0), READ), None);
    assert_eq!(rig.read().iter().map(|row| row.id).collect::<Vec<_>>(), [TenantId(1)]);
    // A decision that was made before it left.
    let rows = rig.read();
    assert_eq!(rows[0].in_force, Some(Throttle::PAUSED));
}

#[test]
fn of_the_first_window_of_who_gets_an_id_nothing_is_known() {
    let mut rig = rig(2, 200);
    rig.read();
    assert!(rig.read().iter().all(|row| row.signal.is_some()));
    assert!(rig.store.remove_tenant(TenantId(0)));
    let mut is_given = || {
        rig.worker.quiesce();
        rig.worker.maintain();
        rig.read();
        rig.store.add_tenant(spec("next")).is_some_and(|id| id == TenantId(0))
    };
    assert!((0..1_000).any(|_| is_given()), "the id is not free again");
    let signals = |rig: &mut Rig| rig.read().iter().map(|row| row.signal.is_some()).collect::<Vec<_>>();
    assert_eq!(signals(&mut rig)[..2], [false, true]);
    assert_eq!(signals(&mut rig)[..2], [true, true]);
}

#[test]
fn an_access_of_a_tier_without_a_profile_costs_by_its_bytes() {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 2,
        no_evict: false,
        seed: 1,
    };
    let tiers: [Arc<dyn media::Device>; 2] =
        [Arc::new(Plain::new(Bytes::mib(16)).unwrap()), Arc::new(Plain::new(Bytes::mib(16)).unwrap())];
    let store = Store::with_tiers(options, &tiers, 0).unwrap();
    assert_eq!(store.access_cost_ps(0, media::SlowAccess::Read, Bytes(4096)), Some(4_096_000));
    assert_eq!(store.access_cost_ps(2, media::SlowAccess::Read, Bytes(4096)), None);
    assert_eq!((store.divided_tier(), store.has_profile(0)), (Some(0), false));
    assert!(store.divide_tier(1) && !store.divide_tier(2));
    assert_eq!(store.divided_tier(), Some(1));
}

#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn loads_of_a_tier_that_is_memory_are_timed_while_somebody_looks() {
    let mut rig = rig(1, 200);
    let latency = |rig: &mut Rig| rig.control.read(Instant(rig.now()), &mut Vec::new()).latency;
    assert_eq!(latency(&mut rig), Kinds::default());
    rig.control.watch_latency(true);
    assert_eq!(latency(&mut rig), Kinds::default(), "nobody has looked yet");
    let seen = rig.store.tier_latency();
    // No cache answers in less than 10 ns, and a reading of the clock takes as long.
    assert!(seen.slow_read.is_some_and(|load| Duration(10) <= load), "{seen:?}");
    assert_eq!(Kinds { slow_read: None, ..seen }, Kinds::default(), "stores are not");
    rig.control.note_latency(seen);
    rig.control.note_latency(Kinds { slow_read: seen.slow_read.map(|load| Duration(3 * load.0)), ..seen });
    assert_eq!(
        latency(&mut rig).slow_read,
        seen.slow_read.map(|load| Duration(2 * load.0)),
        "the mean of both"
    );
    rig.control.note_latency(seen);
    rig.control.watch_latency(false);
    assert_eq!((rig.control.watches_latency(), latency(&mut rig)), (false, Kinds::default()));
}
