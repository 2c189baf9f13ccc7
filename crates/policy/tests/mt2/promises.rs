//! Guarantees and service levels, and the baselines that they are compared with.

use crate::stage::{GB, PERIOD, Stage, critical, gb, model, only, tenant, thresholds, toy_rate};
use control::bandwidth::{Kind, Throttle};
use control::{Amount, Class, Goal, Reason};
use policy::bandwidth::{BandwidthLimit, Guarantee, Slo, ThrottleBiggest, cpu_only, mba_only};
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
