//! Curves of a store that is asked, their memory, and who has one.

use super::*;
use control::Claim;
use policy::memory::{MemoryOptions, MemoryPolicy};
use store::{Fields, Key, Mode, Options, RankKind, Refused, Space, TenantSpec, Worker};
use units::Rng;

/// Time between two decisions that read curves.
const EPOCH: Duration = Duration::from_secs(30);

fn store(memory: Bytes, tenants: usize) -> Arc<Store> {
    let options = Options {
        memory,
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 1_024,
        no_evict: false,
        seed: 1,
    };
    let store = Store::new(options).unwrap();
    for n in 0..tenants {
        let (name, claim) = (format!("t{n}"), Claim::default());
        store.add_tenant(TenantSpec { name, own_space: false, claim, rank: RankKind::Lru }).unwrap();
    }
    store
}

/// One look-aside request.
fn ask(worker: &mut Worker, tenant: u32, number: u64, len: usize) {
    let bytes = format!("{tenant}:{number}");
    let tenant = TenantId(tenant);
    let value = vec![b'x'; len];
    let key: Key<'_> = worker.key(Space::Shared, bytes.as_bytes()).unwrap();
    if worker.get(tenant, &key).is_none() {
        while worker.set(tenant, &key, Mode::Set, Fields::default(), &value) == Err(Refused::NoRoom) {
            worker.make_room().unwrap();
        }
    }
    worker.quiesce();
}

fn seconds(second: u64) -> Instant {
    Instant(second * 1_000_000_000)
}

#[test]
fn shadow_queues_and_curves_of_a_thousand_tenants_take_a_hundredth_of_the_memory() {
    for memory in [Bytes::mib(64), Bytes::mib(256)] {
        let store = store(memory, 1_000);
        let mut worker = store.worker().unwrap();
        let mut curves = Curves::new(Arc::clone(&store), 5, EPOCH);
        let mut rng = Rng::new(1);
        let policy = MemoryPolicy::by_name("shared", MemoryOptions::default()).unwrap();
        let mut pacer = control::Loop::new(policy, 1);
        let mut control = store::MemoryControl::new(Arc::clone(&store));
        pacer.step(seconds(0), &mut control);
        let (mut most, mut most_watched, mut counted) = (Bytes::ZERO, 0, 0);
        for turn in 0..400_000_u64 {
            // A few ask most, and who they are changes.
            let tenant = rng.below(1_000).min(rng.below(1_000)).min(rng.below(1_000)) + turn / 40_000 * 100;
            let tenant = u32::try_from(tenant % 1_000).unwrap();
            ask(&mut worker, tenant, rng.below(2_000), 1_000);
            if turn % 100 == 0 {
                let run = || curves.run(seconds(turn / 4_000));
                counted += allocation_counter::measure(run).bytes_current;
                pacer.step(seconds(turn / 4_000), &mut control);
                most = most.max(curves.memory() + store.memory_use().shadow);
                most_watched = most_watched.max(curves.watched.len());
                // The rings are their threads'; the rest is told before it is taken.
                let told = curves.memory() - Bytes(5 * RING_BYTES);
                assert!(counted <= i64::try_from(told.0).unwrap(), "{counted} counted, {told} told");
            }
        }
        assert!(0 < counted);
        println!("{memory}: {most} at most for {most_watched} curves and 1,000 shadow queues");
        assert!(most <= Bytes(memory.0 / 100), "{most}");
        assert!(10 <= most_watched, "{most_watched}");
    }
}

/// Uniform look-ups: the miss ratio is what part of the keys does not fit.
#[test]
fn a_curve_says_what_more_memory_would_hit() {
    for seed in 1..=3 {
        let store = store(Bytes::mib(16), 1);
        let mut worker = store.worker().unwrap();
        let mut curves = Curves::new(Arc::clone(&store), 2, EPOCH);
        let mut rng = Rng::new(seed);
        for turn in 0..400_000_u64 {
            ask(&mut worker, 0, rng.below(20_000), 1_000);
            if turn % 50 == 0 {
                curves.run(seconds(turn / 10_000));
            }
        }
        curves.catch_up(TenantId(0));
        let view = curves.view(TenantId(0)).unwrap();
        let curve = view.curve.unwrap();
        let charge = view.held.0 / store.tenant_state(TenantId(0)).unwrap().items;
        let error = |part: u64| {
            let size = Bytes(20_000 * charge * part / 20);
            (curve.miss_ratio(size) - (1.0 - part as f64 / 20.0)).abs()
        };
        let mean = (1..=19).map(error).sum::<f64>() / 19.0;
        println!("seed {seed}: mean error {mean:.4} at rate {:.3}", view.rate);
        assert!(mean <= 0.02, "seed {seed}: {mean}");
        assert_eq!(view.lost, 0);
    }
}

#[test]
fn without_enough_there_is_no_curve_and_it_says_why() {
    let store = store(Bytes::mib(64), 2);
    let mut worker = store.worker().unwrap();
    let mut curves = Curves::new(Arc::clone(&store), 2, EPOCH);
    assert_eq!(curves.view(TenantId(0)).unwrap().curve, Err(NoCurve::NotWatched(0)));
    curves.run(seconds(1));
    assert_eq!(curves.view(TenantId(0)).unwrap().curve, Err(NoCurve::TooFew(0)));
    assert!(curves.view(TenantId(2)).is_none());
    for second in 2..5 {
        (0..20).for_each(|n| ask(&mut worker, 0, n, 10));
        curves.run(seconds(second));
    }
    assert_eq!(curves.view(TenantId(0)).unwrap().curve, Err(NoCurve::TooFew(60)));
    assert_eq!(curves.view(TenantId(1)).unwrap().curve, Err(NoCurve::TooFew(0)));
}

/// Where one curve fits, it is not that of a tenant that nobody asks.
#[test]
fn who_asks_takes_the_place_of_who_does_not() {
    let store = store(Bytes::mib(8), 2);
    let mut worker = store.worker().unwrap();
    let mut curves = Curves::new(Arc::clone(&store), 2, EPOCH);
    curves.run(seconds(1));
    assert_eq!(curves.view(TenantId(1)).unwrap().curve, Err(NoCurve::NotWatched(1)));
    for second in 2..12 {
        (0..200).for_each(|n| ask(&mut worker, 1, n, 10));
        curves.run(seconds(second));
    }
    assert_eq!(curves.view(TenantId(0)).unwrap().curve, Err(NoCurve::NotWatched(1)));
    assert_eq!(curves.view(TenantId(1)).unwrap().curve.err(), None);
}

/// A burst of samples halves the rates until a second's samples keep the quota.
#[test]
fn the_quota_bounds_the_samples() {
    let store = store(Bytes::mib(64), 2);
    let mut worker = store.worker().unwrap();
    let mut curves = Curves::new(Arc::clone(&store), 2, EPOCH);
    let mut rng = Rng::new(1);
    for second in 1..10 {
        let mut taken = 0;
        for turn in 0..100_000 {
            ask(&mut worker, 0, rng.below(5_000), 10);
            if turn % 50 == 0 {
                let before = curves.taken;
                curves.run(seconds(second));
                taken += curves.taken.saturating_sub(before);
            }
        }
        assert!(second < 5 || taken <= 2 * QUOTA_PER_SEC, "{taken} in second {second}");
    }
    let rate = curves.view(TenantId(0)).unwrap().rate;
    assert!((0.05..0.4).contains(&rate), "{rate}");
}

/// Values in a tier are hits; of DRAM they are misses. Where they go straight into the tier more DRAM gains nothing.
#[test]
fn what_dram_does_not_answer_is_a_curve_of_its_own() {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 8,
        no_evict: false,
        seed: 1,
    };
    let tier: Arc<dyn media::Device> = Arc::new(media::Plain::new(Bytes::mib(64)).unwrap());
    let store = Store::with_tiers(options, &[tier], 0).unwrap();
    let id = TenantId(0);
    let spec =
        TenantSpec { name: "t".to_owned(), own_space: false, claim: Claim::default(), rank: RankKind::Lru };
    store.add_tenant(spec).unwrap();
    store.set_placement(id, Placement::Auto);
    let mut worker = store.worker().unwrap();
    let mut curves = Curves::new(Arc::clone(&store), 2, EPOCH);
    let mut rng = Rng::new(1);
    curves.run(seconds(1));
    assert!(curves.near(id).is_none(), "nothing is known yet");
    for turn in 0..200_000_u64 {
        ask(&mut worker, 0, rng.below(20_000), 1_000);
        if turn % 50 == 0 {
            curves.run(seconds(1 + turn / 10_000));
        }
    }
    let (totals, state) = (store.totals(id), store.tenant_state(id).unwrap());
    let gets = (totals.get_hits + totals.get_misses) as f64;
    let not_near = 1.0 - (totals.get_hits - totals.tier_hits) as f64 / gets;
    assert!(0.4 < not_near && totals.get_misses as f64 / gets < 0.2, "{not_near}");
    let curve = curves.near(id).unwrap();
    let here = curve.miss_ratio(state.held - state.away);
    // What was counted fades, and the first seconds had nothing in DRAM.
    assert!((here - not_near).abs() < 0.1, "{here} by the curve, {not_near} counted");
    assert!(curve.miss_ratio(Bytes::mib(20)) < here / 2.0, "{curve:?}");
    store.set_placement(id, Placement::Tier(0));
    let flat = curves.near(id).unwrap();
    assert!((flat.miss_ratio(Bytes(0)) - flat.miss_ratio(Bytes::mib(64))).abs() < 1e-12);
    assert!((flat.miss_ratio(Bytes(0)) - not_near).abs() < 0.1);
}

/// The curves of a tenant that has asked 60,000 times for a hundred keys in turn, so many per second, and who asks.
fn after_a_loop(epoch_secs: u64, per_sec: u64) -> (Curves, Worker) {
    let store = store(Bytes::mib(8), 1);
    let mut worker = store.worker().unwrap();
    let mut curves = Curves::new(Arc::clone(&store), 2, Duration::from_secs(60));
    curves.set_epoch(Duration::from_secs(epoch_secs));
    for turn in 0..60_000 {
        ask(&mut worker, 0, turn % 100, 100);
        curves.run(seconds(turn / per_sec));
    }
    (curves, worker)
}

/// A tenant that hit what it asks for turns to a loop that no memory below its size helps, at a third of the rate: a decision
/// each second knows it after six of them, one each minute does not yet.
#[test]
fn curves_follow_in_the_time_of_those_who_decide_by_them() {
    let missed_after_the_turn = |epoch: u64| {
        let (mut curves, mut worker) = after_a_loop(epoch, 3_000);
        for turn in 0..6_000 {
            ask(&mut worker, 0, 1_000 + turn % 500, 100);
            curves.run(seconds(20 + turn / 1_000));
        }
        curves.run(seconds(26));
        let lru = curves.view(TenantId(0)).unwrap().lru.unwrap();
        lru.miss_ratio(Bytes(150 * 150))
    };
    let (soon, late) = (missed_after_the_turn(1), missed_after_the_turn(60));
    assert!(0.85 < soon, "{soon}");
    assert!(late < 0.2, "{late}");
}

/// Of a load that does not turn, what came four half-lives ago counts for little: there are never many more than two half-lives' look-ups.
#[test]
fn old_look_ups_fade_under_a_steady_load() {
    let (curves, _worker) = after_a_loop(5, 1_500);
    let view = curves.view(TenantId(0)).unwrap();
    assert!(1.0 <= view.rate, "all keys are sampled");
    let taken = view.sampled_look_ups;
    assert!((7_500..=16_500).contains(&taken), "{taken} of 60,000, 7,500 in a half-life");
}

/// A tenant that asks for other things than before is judged by those after two decisions, and by what was measured with them.
#[test]
fn what_was_before_a_turn_is_forgotten_at_once() {
    let (mut curves, mut worker) = after_a_loop(5, 3_000);
    let before = curves.view(TenantId(0)).unwrap();
    assert!(before.miss_ratio.unwrap() < 0.01 && before.lru.unwrap().miss_ratio(Bytes(100 * 200)) < 0.02);
    for turn in 0..9_000 {
        ask(&mut worker, 0, 1_000 + turn, 100);
        curves.run(seconds(20 + turn / 1_000));
    }
    curves.run(seconds(30));
    let after = curves.view(TenantId(0)).unwrap();
    assert!(0.99 < after.miss_ratio.unwrap(), "{:?}", after.miss_ratio);
    let curve = after.curve.map_or(1.0, |curve| curve.miss_ratio(Bytes(100 * 200)));
    assert!(0.99 < curve, "{curve}");
}

#[test]
fn shares_change_by_steps_and_never_fall_below_the_least() {
    assert_eq!([1, 2, 3, 4, 5, 7, 22, 1_000].map(steps_up), [1, 2, 3, 4, 6, 8, 24, 1_024]);
    for share in [Bytes::kib(4), Bytes::kib(20), Bytes::mib(1)] {
        let samples = samples_for(share);
        assert!(Shards::memory_for(samples) <= share && samples <= SAMPLES_MAX);
    }
    assert_eq!(samples_for(Bytes::mib(1)), SAMPLES_MAX);
}
