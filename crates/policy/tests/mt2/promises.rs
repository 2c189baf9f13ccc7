//! Guarantees and service levels, and the baselines that they are compared with.

use crate::stage::{GB, PERIOD, Stage, critical, gb, model, only, tenant, thresholds, toy_rate};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Amount, Class, Goal, Levers, Reason, Row, Weight};
use policy::bandwidth::{
    Axis, BandwidthLimit, EmpiricalModel, Guarantee, Slo, Thresholds, ThrottleBiggest, cpu_only, mba_only,
};
use units::{BytesPerSec, Duration, TenantId};

#[test]
fn a_guarantee_caps_the_others_and_refuses_what_cannot_be_kept() {
    let demand =
        |kind, rate_gb: f64| Class::Critical { goal: Goal::Bandwidth(only(kind, BytesPerSec(gb(rate_gb)))) };
    let rows = vec![
        tenant(1, demand(Kind::DramRead, 20.0)),
        tenant(2, demand(Kind::SlowWrite, 4.0)),
        tenant(3, Class::BestEffort),
        tenant(4, Class::Exempt),
    ];
    let mut stage = Stage::new(Guarantee::new(model()), rows);
    for _ in 0..30 {
        for (at, kind, free) in
            [(0, Kind::DramRead, 100.0), (1, Kind::SlowWrite, 10.0), (2, Kind::SlowRead, 36.0)]
        {
            let rate = stage.rows[at].in_force.map_or(free, |now| toy_rate(&now, kind, free));
            stage.runs(at, kind, rate);
        }
        stage.runs(3, Kind::SlowWrite, 9.0);
        stage.step();
    }
    assert_eq!(stage.noted("incident"), 0);
    let rates: Vec<f64> = [(0, Kind::DramRead, 100.0), (1, Kind::SlowWrite, 10.0), (2, Kind::SlowRead, 36.0)]
        .into_iter()
        .map(|(at, kind, free)| toy_rate(&stage.share(at), kind, free))
        .collect();
    let used = rates[0] + 10.0 * rates[1] + 3.0 * rates[2];
    assert!(used <= 112.0, "together they keep nine tenths: {rates:?}");
    assert!(18.0 <= rates[0] && 3.6 <= rates[1], "guarantees: {rates:?}");
    assert!(1.0 < rates[2] && rates[2] < 30.0, "the others have what is left: {rates:?}");
    assert_eq!(stage.share(3), Throttle::FREE, "exempt");
    // A newcomer that does not fit is refused; those before it keep what they have.
    stage.rows.push(tenant(9, demand(Kind::SlowRead, 20.0)));
    stage.step();
    let refused: Vec<_> = stage.notes.iter().filter(|note| note.reason.word() == "incident").collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].tenant, Some(TenantId(9)));
    // When there is room it is admitted.
    stage.rows.remove(1);
    stage.step();
    assert_eq!(stage.noted("incident"), 0);
    stage.pool.model = 3;
    stage.step();
    let all = stage.notes.iter().filter(|note| note.tenant.is_none()).count();
    assert_eq!(all, 0, "a model of an unknown machine is not refused");
}

/// A tier of 4 GB/s of reads and 1 GB/s of writes in proportion, whose DRAM nobody measured.
fn tier() -> EmpiricalModel {
    let axis = |most: u64| Axis::even(BytesPerSec(most), 4).unwrap();
    let axes = Kinds {
        dram_read: Axis::unmeasured(),
        dram_write: Axis::unmeasured(),
        slow_read: axis(4 * GB),
        slow_write: axis(GB),
    };
    let run = |wanted: Kinds<f64>| {
        let used = wanted.slow_read + 4.0 * wanted.slow_write;
        Kinds::from_fn(|kind| wanted.get(kind) * (4e9 / used.max(4e9)))
    };
    EmpiricalModel::measured(0, axes, run).unwrap()
}

/// Who asks for less, or more than fits, does not stand behind those who were refused.
#[test]
fn a_guarantee_outlives_a_change_of_ones_own() {
    let demand = |rate_gb: f64| Class::Critical {
        goal: Goal::Bandwidth(only(Kind::SlowRead, BytesPerSec(gb(rate_gb)))),
    };
    let rows = vec![braked(2, demand(2.0)), braked(5, demand(3.0))];
    let mut stage = Stage::new(Guarantee::new(tier()), rows[1..].to_vec());
    stage.step();
    stage.rows = rows;
    for (rate_gb, refused) in [(3.0, 2), (2.5, 2), (3.5, 2), (9.0, 5)] {
        stage.rows[1].claim.class = demand(rate_gb);
        stage.step();
        let told = stage.notes.iter().filter(|note| note.reason.word() == "incident");
        let told: Vec<_> = told.filter_map(|note| note.tenant).collect();
        assert_eq!(told, [TenantId(refused)], "with {rate_gb} GB/s");
    }
}

/// Though it comes first by its number.
#[test]
fn who_raises_its_demand_pushes_out_nobodys_earlier_guarantee() {
    let demand = |rate_gb: f64| Class::Critical {
        goal: Goal::Bandwidth(only(Kind::SlowRead, BytesPerSec(gb(rate_gb)))),
    };
    let rows = vec![braked(2, demand(1.0)), braked(5, demand(2.5))];
    let mut stage = Stage::new(Guarantee::new(tier()), rows);
    for (rate_gb, refused) in
        [(1.0, None), (3.0, Some(2)), (3.0, Some(2)), (1.5, None), (1.0, None), (3.0, Some(2))]
    {
        stage.rows[0].claim.class = demand(rate_gb);
        stage.step();
        let told = stage.notes.iter().filter(|note| note.reason.word() == "incident");
        let told: Vec<_> = told.filter_map(|note| note.tenant).collect();
        assert_eq!(told, Vec::from_iter(refused.map(TenantId)), "with {rate_gb} GB/s");
    }
}

#[test]
fn what_nobody_was_promised_is_divided_by_weight() {
    let demand = Class::Critical { goal: Goal::Bandwidth(only(Kind::SlowRead, BytesPerSec(GB))) };
    let rows = vec![braked(1, Class::BestEffort), braked(2, Class::BestEffort), braked(3, demand)];
    let mut stage = Stage::new(Guarantee::new(tier()), rows);
    let mut divided = |weights: [f64; 3]| {
        for (row, weight) in stage.rows.iter_mut().zip(weights) {
            row.claim.weight = Weight::new(weight).unwrap();
        }
        stage.step();
        [0, 1, 2].map(|at| stage.share(at).cap.slow_read.unwrap().0 as f64 / 1e9)
    };
    let even = divided([1.0; 3]);
    let extra = 3.0 * even[0];
    assert!((even[1] - even[0]).abs() < 1e-6 && (even[2] - 1.0 - even[0]).abs() < 1e-6, "{even:?}");
    let found = divided([1.0, 3.0, 2.0]);
    let wanted = [extra / 6.0, extra / 2.0, 1.0 + extra / 3.0];
    assert!(
        found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6),
        "{found:?} {wanted:?}"
    );
}

/// A tenant whose caps a brake holds, as in a server.
fn braked(id: u32, class: Class) -> Row<BandwidthSignal, Throttle> {
    let mut row = tenant(id, class);
    let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::splat(false) };
    row.claim.levers = Levers { brake, ..Levers::default() };
    row
}

#[test]
fn what_the_model_does_not_know_is_not_capped_and_who_declares_nothing_is_best_effort() {
    let demand = Class::Critical { goal: Goal::Bandwidth(only(Kind::SlowRead, BytesPerSec(GB))) };
    let rows = vec![braked(1, demand), braked(2, critical()), braked(3, Class::BestEffort)];
    let mut stage = Stage::new(Guarantee::new(tier()), rows);
    for _ in 0..3 {
        (0..3).for_each(|at| stage.runs(at, Kind::DramRead, 50.0));
        stage.step();
        assert_eq!(stage.noted("incident"), 0, "{:?}", stage.notes);
    }
    let caps = |at: usize| stage.share(at).cap;
    assert!((0..3).all(|at| caps(at).dram_read.is_none() && caps(at).dram_write.is_none()));
    assert_eq!(caps(1), caps(2), "a class without a demand is best-effort");
    let rate = |cap: Option<BytesPerSec>| cap.unwrap().0 as f64 / 1e9;
    let trickle = 0.01 / 3.0;
    assert!((rate(caps(0).slow_write) - trickle).abs() < 1e-6, "a trickle: {:?}", caps(0));
    let reads: f64 = (0..3).map(|at| rate(caps(at).slow_read)).sum();
    let writes: f64 = (0..3).map(|at| rate(caps(at).slow_write)).sum::<f64>() - trickle;
    assert!(1.0 <= rate(caps(0).slow_read) && 0.1 < rate(caps(1).slow_read), "{:?} {:?}", caps(0), caps(1));
    let all = Kinds { slow_read: 1e9 * reads, slow_write: 1e9 * writes, ..Kinds::splat(0.0) };
    let kept = tier().kept(all).slow_read;
    assert!((0.9..0.91).contains(&(kept + 1e-6)), "nine tenths and no more are kept: {kept} of {all:?}");
}

#[test]
fn an_slo_on_a_small_tier_reserves_in_smaller_steps_and_says_what_it_cannot_keep() {
    let mut stage = Stage::new(
        Slo::new(tier(), Thresholds::default()),
        vec![braked(1, critical()), braked(2, Class::BestEffort)],
    );
    let run = |stage: &mut Stage, reads: f64| {
        let mut incidents = 0;
        for _ in 0..20 {
            stage.runs(0, Kind::SlowRead, reads);
            let cap = stage.rows[1].in_force.map_or(4.0, |now| toy_rate(&now, Kind::SlowRead, 4.0));
            stage.runs(1, Kind::SlowRead, cap.min((4.0 - reads).max(0.0)));
            stage.step();
            incidents += stage.noted("incident");
        }
        incidents
    };
    assert_eq!(run(&mut stage, 0.1), 0);
    let (quiet, free) = (stage.share(1).cap.slow_read.unwrap().0, stage.share(0));
    assert_eq!(free, Throttle::FREE, "critical tenants are never capped");
    assert_eq!(run(&mut stage, 2.0), 0);
    let busy = stage.share(1).cap.slow_read.unwrap().0;
    assert!(busy + GB < quiet, "{quiet} {busy}");
    assert_eq!(run(&mut stage, 0.1), 0);
    let again = stage.share(1).cap.slow_read.unwrap().0;
    assert!(quiet.abs_diff(again) < GB / 20, "{quiet} {again}");
    assert_ne!(run(&mut stage, 400.0), 0, "a reservation beyond the tier is told");
    let trickle = stage.share(1).cap.slow_read.unwrap().0;
    assert!(0 < trickle && trickle <= 4 * GB / 100, "nobody is locked out: {trickle}");
    // A step less each three periods.
    (0..3).for_each(|_| _ = run(&mut stage, 0.1));
    assert_eq!(stage.noted("incident"), 0, "{:?}", stage.notes);
}

#[test]
fn an_slo_reserves_in_steps_and_gives_back() {
    let rows = vec![tenant(1, critical()), tenant(2, Class::BestEffort)];
    let mut stage = Stage::new(Slo::new(model(), thresholds()), rows);
    let run = |stage: &mut Stage, foreground: f64, periods: u32| {
        let mut rate = 0.0;
        for _ in 0..periods {
            rate = stage.rows[1].in_force.map_or(30.0, |now| toy_rate(&now, Kind::SlowRead, 30.0));
            stage.runs(0, Kind::SlowRead, foreground);
            stage.runs(1, Kind::SlowRead, rate);
            stage.step();
        }
        rate
    };
    let before = run(&mut stage, 0.1, 30);
    let during = run(&mut stage, 5.0, 30);
    let after = run(&mut stage, 0.1, 60);
    assert!(1.0 < before - during, "5 GB/s need a reservation of 6: {before} {during}");
    assert!(3.0 < during, "what is left is not lost: {before} {during}");
    assert!((before - after).abs() < 0.3, "{before} {after}");
    assert_eq!(stage.share(0), Throttle::FREE, "critical tenants are never capped");
    // Sampled bytes: only classes count, and the latency.
    stage.latency(Some(2_000));
    for _ in 0..4 {
        stage.runs(0, Kind::SlowRead, 5.0);
        stage.runs(1, Kind::SlowWrite, 5.0);
        stage.rows[1].signal.as_mut().unwrap().sampled = only(Kind::SlowWrite, true);
        stage.step();
    }
    assert_eq!(stage.noted("fallback"), 1);
    assert!(stage.share(1).cpu.is_some());
}

#[test]
fn baselines_do_what_they_are_known_for() {
    // One lever alone.
    for (policy, kind, held) in [
        (mba_only(thresholds()), Kind::SlowWrite, Throttle::FREE),
        (mba_only(thresholds()), Kind::DramRead, Throttle { mba: 10, ..Throttle::FREE }),
        (cpu_only(thresholds()), Kind::DramRead, Throttle { cpu: Some(60), ..Throttle::FREE }),
    ] {
        let mut stage = Stage::new(policy, vec![tenant(1, Class::BestEffort)]);
        stage.latency(Some(2_000));
        for _ in 0..80 {
            stage.runs(0, kind, 10.0);
            stage.step();
        }
        assert_eq!(stage.share(0), held);
    }
    // A limit of bytes, whatever the kind.
    let mut stage = Stage::new(BandwidthLimit::default(), vec![tenant(1, Class::BestEffort)]);
    let ceiling = Amount { bandwidth: BytesPerSec(2 * GB), ..Amount::default() };
    stage.rows[0].claim.ceiling = Some(ceiling);
    let mut rate = 7.0;
    for _ in 0..30 {
        stage.runs(0, Kind::SlowWrite, rate);
        stage.step();
        rate = toy_rate(&stage.share(0), Kind::SlowWrite, 7.0);
    }
    assert!((rate - 2.0).abs() < 0.1, "{rate}");
    // The biggest loses a core at a time, although the writer does the harm.
    let rows = vec![tenant(1, critical()), tenant(2, Class::BestEffort), tenant(3, Class::BestEffort)];
    let mut stage = Stage::new(ThrottleBiggest::new(BytesPerSec(20 * GB)), rows);
    let run = |stage: &mut Stage, reader: f64| {
        stage.runs(1, Kind::SlowRead, reader);
        stage.runs(2, Kind::SlowWrite, 10.0);
        stage.step();
    };
    for _ in 0..4 {
        run(&mut stage, 30.0);
    }
    assert_eq!(
        (stage.share(1).cpu, stage.share(2).cpu),
        (Some(3000), None),
        "one window to sample, three cores"
    );
    for _ in 0..3 {
        run(&mut stage, 5.0);
    }
    assert_eq!(stage.share(1), Throttle::FREE);
}

#[test]
fn the_biggest_is_noted_with_its_rate_however_long_the_window() {
    for millis in [50, 100, 2_000] {
        let rows = vec![tenant(1, Class::BestEffort)];
        let mut stage = Stage::new(ThrottleBiggest::new(BytesPerSec(20 * GB)), rows);
        let period = Duration::from_millis(millis);
        let mut amounts = Vec::new();
        for _ in 0..3 {
            stage.runs(0, Kind::SlowRead, 30.0 * period.as_secs_f64() / PERIOD.as_secs_f64());
            stage.step_for(period);
            amounts.extend(stage.notes.iter().filter(|n| n.reason == Reason::Tightened).map(|n| n.amount));
        }
        assert_eq!(amounts, [-30_000_000_000; 2], "windows of {millis} ms");
    }
}
