//! Passes that wait for tenants' budgets and caps, in time that the test tells.

use super::*;
use crate::sync::AtomicU64;
use crate::{BandwidthControl, JointControl};
use control::bandwidth::{Budget, Cost, Kinds, Throttle};
use media::Access;
use units::{BytesPerSec, Duration, Instant};

/// Of the tier's time, in each second.
const LIMIT_PS: u64 = 2_000_000_000;

type Divided = (Arc<Store>, Worker, [TenantId; 2], BandwidthControl, Arc<AtomicU64>);

/// A store with a tier that is divided, whose time is told by the last.
fn divided(size: Bytes) -> Divided {
    divided_on(Arc::new(Plain::new(size).unwrap()))
}

fn divided_on(device: Arc<dyn Device>) -> Divided {
    let (store, worker) = start(device, OPTIONS);
    let tenants = [add(&store, "t"), add(&store, "other")];
    let time = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&time);
    store.set_brake_time(move || Instant(told.load(Ordering::Relaxed)));
    let control = BandwidthControl::new(Arc::clone(&store));
    (store, worker, tenants, control, time)
}

/// Begins a period in which the first tenant has `LIMIT_PS`, or nobody a limit.
fn begin(control: &mut BandwidthControl, has_limit: bool, at: Instant) {
    let budget = has_limit.then_some(Budget { cost: Cost(LIMIT_PS), per: Duration::from_secs(1) });
    decide(control, Throttle { budget, ..Throttle::FREE }, at);
}

/// Holds the first tenant back.
fn decide(control: &mut BandwidthControl, limited: Throttle, at: Instant) {
    let mut rows = Vec::new();
    control::Sensor::read(control, at, &mut rows);
    let pool = control::Pool::default();
    let seen = control::Seen::new(control::Window::default(), &pool, &rows).unwrap();
    let mut shares = control::Shares::default();
    let throttles = [limited, Throttle::FREE];
    shares.rebuild(control::Law::Free, &seen, rows.iter().map(|row| row.id).zip(throttles));
    let (wake, lease) = (Duration::from_secs(1), Duration::from_secs(100));
    let decision = control::Decision { shares: &shares, wake, lease, steady: true, notes: &[] };
    assert!(control::Actuator::apply(control, at, &decision, &mut Vec::new()));
}

/// The tenant's budget is used up.
fn spend_all(store: &Store, tenant: TenantId) {
    let access = (Access::SlowRead, Bytes(64), LIMIT_PS);
    store.tenant(tenant).below.brake().owe(access, || store.brakes.now());
}

/// Stores of both tenants, so that each segment has something of both.
fn fill(worker: &mut Worker, [tenant, other]: [TenantId; 2], number: &mut u32, until: &dyn Fn() -> bool) {
    while !until() {
        assert!(set(worker, if number.is_multiple_of(8) { tenant } else { other }, *number));
        *number += 1;
    }
}

/// Segments that a pass has claimed.
fn claimed(tier: &Tier) -> usize {
    lock(&tier.desk).begun.as_ref().map_or(0, |begun| begun.sources.len())
}

/// A tenant's limit is no reason to be beyond it: a pass that would spend what is not left of it waits for the next period, as long as
/// others find room, evicts nothing meanwhile, and goes on with what it has.
#[test]
fn a_pass_waits_for_budgets_while_there_is_room() {
    let (store, mut worker, tenants, mut control, time) = divided(Bytes::mib(16));
    let (tier, mut number) = (&store.tiers[0], 0);
    let done = || (tier.counters.totals().passes, store.totals(tenants[0]).evictions);
    let sealed = || tier.segments.sealed().count() + claimed(tier);
    begin(&mut control, true, Instant::ZERO);
    fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
    let before = (done(), sealed());
    spend_all(&store, tenants[0]);
    assert!(tier.can_clean(&store));
    worker.clean_tiers(By::Background);
    assert!(
        !tier.can_clean(&store) && !store.tiers_want_cleaning(),
        "nobody is called for it again and again"
    );
    (0..10).for_each(|_| _ = worker.clean_tiers(By::Background));
    assert_eq!((done(), sealed()), before, "it waits, and keeps what it looked at");
    let has = claimed(tier);
    assert_eq!(has, limits::TIER_PASS_WIDTH);
    worker.quiesce();
    worker.check();

    time.store(1_002_000_000, Ordering::Relaxed);
    begin(&mut control, true, Instant(1_000_000_000));
    assert!(store.tiers_want_cleaning());
    worker.clean_tiers(By::Background);
    let (passes, _) = done();
    assert!(before.0.0 < passes && !tier.wants_cleaning(&store), "it goes on in the next period");
    assert!(claimed(tier) == 0 && !tier.has_begun());

    // It waits until a pass is due where there are no budgets, and no longer.
    fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
    spend_all(&store, tenants[0]);
    worker.clean_tiers(By::Background);
    assert_eq!(done().0, passes);
    fill(&mut worker, tenants, &mut number, &|| tier.left_or_coming() < limits::TIER_POSTPONES_MIN);
    assert_eq!(done().0, passes, "nobody has waited for room");
    assert!(store.tiers_want_cleaning());
    worker.clean_tiers(By::Background);
    assert!(passes < done().0);
    worker.quiesce();
    worker.check();
}

#[test]
fn where_budgets_are_in_force_no_more_no_pass_waits() {
    for ends in 0..4 {
        let (store, mut worker, tenants, mut control, _) = divided(Bytes::mib(16));
        let (tier, mut number) = (&store.tiers[0], 0);
        begin(&mut control, true, Instant::ZERO);
        fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
        spend_all(&store, tenants[0]);
        worker.clean_tiers(By::Background);
        assert!(tier.low_water(&store) == limits::TIER_LOW_WATER_LIMITS.1 && tier.is_postponed(&store));
        match ends {
            0 => begin(&mut control, false, Instant(1)),
            1 => control.release(Instant(1)),
            2 => assert!(control.lapse(Instant(101_000_000_000))),
            _ => JointControl::new(Arc::clone(&store), Instant(1)).release(Instant(1)),
        }
        assert!(tier.low_water(&store) == limits::TIER_LOW_WATER && !tier.is_postponed(&store), "{ends}");
        assert!(tier.can_clean(&store), "{ends}");
        worker.clean_tiers(By::Background);
        assert!(0 < tier.counters.totals().passes && claimed(tier) == 0, "{ends}: what was begun goes on");
        worker.quiesce();
        worker.check();
    }
}

/// What is dead is not copied, and no reason to wait.
#[test]
fn a_pass_over_what_is_dead_waits_for_no_budget() {
    let (store, mut worker, tenants, mut control, _) = divided(Bytes::mib(16));
    let (tier, mut number) = (&store.tiers[0], 0);
    begin(&mut control, true, Instant::ZERO);
    fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
    store.tenant(tenants[0]).flushed_below.store(u64::MAX, Ordering::Relaxed);
    spend_all(&store, tenants[0]);
    worker.clean_tiers(By::Background);
    assert!(0 < tier.counters.totals().passes);
}

/// Under a cap a pass copies a tenant's values no faster than that lets it, in pieces, while there is room; where there is not it goes on.
#[test]
fn a_pass_copies_as_fast_as_caps_let_it_while_there_is_room() {
    const CAP: u64 = 1_000_000;
    // 5 ms' worth, and a value beyond it.
    const SLICE: u64 = 5_000 + 2_112;
    let (store, mut worker, tenants, mut control, time) = divided(Bytes::mib(256));
    let (tier, mut number) = (&store.tiers[0], 0);
    let written = |worker: &Worker| worker.counters.of(tenants[0].index()).at(0).totals().written.bytes;
    let passes = || tier.counters.totals().passes;
    let holds = |control: &mut BandwidthControl, rate| {
        let mut cap = Kinds::from_fn(|_| None);
        cap.slow_write = Some(BytesPerSec(rate));
        let now = Instant(time.fetch_add(1_000_000_000, Ordering::Relaxed) + 1_000_000_000);
        decide(control, Throttle { cap, ..Throttle::FREE }, now);
    };
    holds(&mut control, 1 << 30);
    fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
    holds(&mut control, CAP);
    let (began, before) = (store.brakes.now(), written(&worker));
    let (mut slices, mut last) = (0, before);
    while passes() == 0 {
        assert!(tier.can_clean(&store), "it goes on, also where no other is wanted");
        worker.clean_tiers(By::Background);
        let wrote = written(&worker) - last;
        assert!(wrote <= SLICE, "{wrote}");
        if tier.has_begun() {
            let waits = Instant(tier.postponed.0.load(Ordering::Relaxed)).since(store.brakes.now());
            assert_eq!(store.pass_waits(), Some(waits));
            assert!(0 < wrote && !tier.can_clean(&store) && !store.tiers_want_cleaning(), "{wrote}");
            time.store(tier.postponed.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        (last, slices) = (written(&worker), slices + 1);
    }
    let (wrote, took) = (written(&worker) - before, store.brakes.now().since(began));
    assert!(claimed(tier) == 0 && took < limits::TIER_PASS_WAITS_MAX, "{took}");
    assert!(100 * SLICE < wrote && 100 < slices, "{wrote} in {slices} slices");
    let most = CAP * took.0 / 1_000_000_000 + SLICE;
    assert!(wrote <= most && most - most / 10 <= wrote, "{wrote} of {most}");
    worker.quiesce();
    worker.check();

    holds(&mut control, 1 << 30);
    fill(&mut worker, tenants, &mut number, &|| tier.left_or_coming() < limits::TIER_POSTPONES_MIN);
    holds(&mut control, CAP);
    let before = written(&worker);
    worker.clean_tiers(By::Background);
    let wrote = written(&worker) - before;
    assert!(10 * SLICE < wrote && !tier.wants_cleaning(&store), "{wrote}: it goes on to its end");
    assert!(!tier.has_begun() && claimed(tier) == 0);
    worker.quiesce();
    worker.check();

    // Caps stay in force, and are waited for, without a loop.
    holds(&mut control, 1 << 30);
    fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
    holds(&mut control, CAP);
    time.fetch_add(101_000_000_000, Ordering::Relaxed);
    assert!(control.lapse(store.brakes.now()));
    worker.clean_tiers(By::Background);
    assert!(tier.has_begun() && !tier.can_clean(&store) && store.pass_waits().is_some());
    // What is left goes on when nobody has a cap any more.
    control.release(store.brakes.now());
    assert!(tier.can_clean(&store));
    worker.clean_tiers(By::Background);
    assert!(!tier.has_begun() && claimed(tier) == 0 && store.pass_waits().is_none());
    worker.quiesce();
    worker.check();
}

/// However long its tenants stay without, a pass has its sources for ten seconds at the most, and others come.
#[test]
fn a_pass_waits_ten_seconds_in_all() {
    let (store, mut worker, tenants, mut control, time) = divided(Bytes::mib(16));
    let (tier, mut number) = (&store.tiers[0], 0);
    begin(&mut control, true, Instant::ZERO);
    fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
    let mut waited = 0;
    for second in 0..100 {
        let at = Instant(second * 1_000_000_000 + 2_000_000);
        time.store(at.0, Ordering::Relaxed);
        begin(&mut control, true, at);
        spend_all(&store, tenants[0]);
        worker.clean_tiers(By::Background);
        if claimed(tier) == 0 {
            break;
        }
        waited += 1;
    }
    assert_eq!(Duration::from_secs(waited), limits::TIER_PASS_WAITS_MAX);
    assert!(!tier.has_begun() && tier.can_clean(&store) && tier.counters.totals().moved == 0);
    worker.clean_tiers(By::Background);
    assert_eq!(claimed(tier), limits::TIER_PASS_WIDTH);
    worker.quiesce();
    worker.check();
}

/// What a pass knew of the first tenant's values while it waited for that one is old: some were written again, some are deleted. Nobody else's is
/// lost, whoever goes on with it, also where it was read from a device.
#[test]
fn what_changes_while_a_pass_waits_is_as_it_became() {
    let folder = Folder::new("postponed");
    for is_mapped in [true, false] {
        let device: Arc<dyn Device> =
            if is_mapped { Arc::new(Plain::new(Bytes::mib(16)).unwrap()) } else { Arc::new(folder.tier()) };
        let (store, mut worker, tenants, mut control, time) = divided_on(device);
        let (tier, mut number) = (&store.tiers[0], 0);
        begin(&mut control, true, Instant::ZERO);
        fill(&mut worker, tenants, &mut number, &|| tier.wants_cleaning(&store));
        spend_all(&store, tenants[0]);
        worker.clean_tiers(By::Background);
        assert!(0 < claimed(tier) && tier.has_begun(), "mapped: {is_mapped}");
        let width = claimed(tier);
        for number in (0..number).step_by(8) {
            assert!(delete(&mut worker, tenants[0], number));
            if number % 128 == 0 {
                assert!(set(&mut worker, tenants[0], number));
            }
        }
        // What is dead costs nothing of a budget of which nothing is left; another thread goes on.
        assert_eq!((claimed(tier), tier.can_clean(&store)), (width, false));
        time.store(1_002_000_000, Ordering::Relaxed);
        begin(&mut control, true, Instant(1_000_000_000));
        spend_all(&store, tenants[0]);
        let mut other = store.worker().unwrap();
        worker.go_offline();
        other.clean_tiers(By::Background);
        assert!(0 < tier.counters.totals().passes && !tier.has_begun(), "mapped: {is_mapped}");
        other.quiesce();
        let gone: u64 = tenants.iter().map(|tenant| store.totals(*tenant).evictions).sum();
        let has = |worker: &mut Worker, tenant, number| u64::from(has(worker, tenant, number));
        let there: u64 =
            (0..number).map(|number| has(&mut other, tenants[usize::from(number % 8 != 0)], number)).sum();
        let deleted = u64::from(number.div_ceil(8) - number.div_ceil(128));
        assert_eq!(there + gone + deleted, u64::from(number), "mapped: {is_mapped}");
        other.check();
    }
}
