//! Prevention: caps hold, whatever actuators do.

use crate::stage::{GB, Stage, cap, only, tenant, toy_rate};
use control::bandwidth::{Kind, Kinds, Throttle};
use control::{Class, Levers};
use policy::bandwidth::Prevention;
use proptest::prelude::*;
use units::{BytesPerSec, Rng, TenantId};

#[test]
fn a_cap_holds_within_a_second_and_over_ten() {
    for (kind, free, caps) in [
        (Kind::SlowWrite, 7.2, [5.0, 1.0, 3.0]),
        (Kind::SlowRead, 35.5, [20.0, 2.0, 30.0]),
        (Kind::DramRead, 102.0, [60.0, 10.0, 20.0]),
        (Kind::DramWrite, 7.4, [6.9, 0.5, 0.6]),
    ] {
        let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
        stage.step();
        for cap_gb in caps {
            stage.rows[0].claim.caps = cap(kind, cap_gb);
            let mut epoch = Vec::new();
            for period in 0..110 {
                let rate = toy_rate(&stage.share(0), kind, free);
                stage.runs(0, kind, rate);
                stage.step();
                if 10 <= period {
                    epoch.push(rate);
                    let last = &epoch[epoch.len().saturating_sub(10)..];
                    let mean = last.iter().sum::<f64>() / 10.0;
                    assert!(mean <= cap_gb * 1.05, "{kind:?} {mean} over {cap_gb} up to period {period}");
                }
            }
            let mean = epoch.iter().sum::<f64>() / epoch.len() as f64;
            assert!(mean <= cap_gb * 1.01, "{kind:?} mean {mean} over {cap_gb}");
            assert!(cap_gb * 0.95 <= mean, "{kind:?} mean {mean} far below {cap_gb}");
        }
        stage.rows[0].claim.caps = Kinds::default();
        stage.step();
        assert_eq!(stage.share(0), Throttle::FREE, "no cap, no throttle, at once");
    }
}

#[test]
fn a_burst_is_paid_back() {
    let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
    stage.rows[0].claim.caps = cap(Kind::SlowWrite, 2.0);
    stage.step();
    let mut total = 0.0;
    for period in 0..200 {
        // Idle for a second of every two.
        let free = if period / 10 % 2 == 0 { 0.0 } else { 7.2 };
        let rate = toy_rate(&stage.share(0), Kind::SlowWrite, free);
        stage.runs(0, Kind::SlowWrite, rate);
        stage.step();
        total += rate * 0.1;
    }
    assert!(total <= 2.0 * 10.0 * 1.05, "{total} GB in ten busy seconds under a cap of 2 GB/s");
    assert!(2.0 * 10.0 * 0.6 <= total, "{total}");
}

#[test]
fn what_came_before_a_cap_that_changes_is_not_owed_under_it() {
    let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
    let under = |stage: &mut Stage, cap_gb, periods: u32| {
        stage.rows[0].claim.caps = cap(Kind::SlowWrite, cap_gb);
        for _ in 0..periods {
            let rate = stage.rows[0].in_force.map_or(7.2, |now| toy_rate(&now, Kind::SlowWrite, 7.2));
            stage.runs(0, Kind::SlowWrite, rate);
            stage.step();
        }
        toy_rate(&stage.share(0), Kind::SlowWrite, 7.2)
    };
    let first = under(&mut stage, 5.0, 50);
    assert!((4.7..5.2).contains(&first), "{first}");
    let lower = under(&mut stage, 1.0, 1);
    assert!((0.9..=1.05).contains(&lower), "{lower}: five times as much was no excess over this cap");
    // It goes beyond the cap for a second, whatever it is asked.
    for _ in 0..10 {
        stage.runs(0, Kind::SlowWrite, 3.0);
        stage.step();
    }
    let owing = toy_rate(&stage.share(0), Kind::SlowWrite, 7.2);
    assert!(owing < 0.7, "{owing}");
    let higher = under(&mut stage, 2.0, 1);
    assert!(owing * 1.2 < higher, "{owing} {higher}: what was owed under the lower cap is gone");
}

#[test]
fn a_brake_takes_the_cap_itself() {
    let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
    let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::default() };
    stage.rows[0].claim.levers = Levers { brake, ..Levers::default() };
    stage.rows[0].claim.caps = cap(Kind::SlowWrite, 2.0);
    for _ in 0..5 {
        let rate = stage.rows[0].in_force.map_or(7.0, |now| toy_rate(&now, Kind::SlowWrite, 7.0));
        stage.runs(0, Kind::SlowWrite, rate);
        stage.step();
    }
    let expected = Throttle { cap: cap(Kind::SlowWrite, 2.0), ..Throttle::FREE };
    assert_eq!(stage.share(0), expected, "and nothing else");
}

#[test]
fn caps_on_sampled_bytes_are_refused() {
    let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
    stage.rows[0].claim.caps = cap(Kind::SlowWrite, 1.0);
    stage.runs(0, Kind::SlowWrite, 7.0);
    stage.step();
    assert!(stage.share(0).cpu.is_some());
    stage.runs(0, Kind::SlowWrite, 7.0);
    stage.rows[0].signal.as_mut().unwrap().sampled = only(Kind::SlowWrite, true);
    stage.step();
    assert_eq!(stage.share(0), Throttle::FREE);
    assert_eq!(stage.noted("fallback"), 1);
    // Another kind that is exact still holds.
    stage.rows[0].claim.caps = Kinds { slow_read: Some(BytesPerSec(GB)), ..cap(Kind::SlowWrite, 1.0) };
    stage.runs(0, Kind::SlowRead, 7.0);
    stage.rows[0].signal.as_mut().unwrap().sampled = only(Kind::SlowWrite, true);
    stage.step();
    assert_ne!(stage.share(0), Throttle::FREE);
}

#[test]
fn an_actuator_that_refuses_does_not_wind_the_policy_up() {
    let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
    stage.rows[0].claim.caps = cap(Kind::SlowWrite, 1.0);
    stage.step();
    stage.refuse = vec![TenantId(1)];
    let mut incidents = 0;
    for _ in 0..50 {
        stage.runs(0, Kind::SlowWrite, 7.2);
        stage.step();
        incidents += stage.noted("incident");
    }
    assert!(0 < incidents, "it says so");
    stage.refuse.clear();
    stage.step();
    let rate = toy_rate(&stage.share(0), Kind::SlowWrite, 7.2);
    assert!((0.45..=1.05).contains(&rate), "{rate}: one step from where it stood, half of the cap at least");
}

#[test]
fn a_lever_that_refuses_is_left_out_for_the_others() {
    let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
    stage.rows[0].claim.caps = cap(Kind::DramRead, 10.0);
    stage.step();
    for _ in 0..40 {
        // MBA stays at 100 whatever is asked.
        let mut now = stage.share(0);
        now.mba = 100;
        stage.rows[0].in_force = Some(now);
        stage.runs(0, Kind::DramRead, toy_rate(&now, Kind::DramRead, 102.0));
        stage.step();
    }
    let now = Throttle { mba: 100, ..stage.share(0) };
    let rate = toy_rate(&now, Kind::DramRead, 102.0);
    assert!(rate <= 10.5, "CPU time alone holds the cap: {rate}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// On the toy plant any cap that the levers can reach is held, from any start.
    #[test]
    fn any_reachable_cap_is_held(free in 1.0_f64..30.0, part in 0.05_f64..0.95, noise in 0.0_f64..0.03, seed in 0_u64..1000) {
        let mut rng = Rng::new(seed);
        let cap_gb = free * part;
        let mut stage = Stage::new(Prevention::default(), vec![tenant(1, Class::BestEffort)]);
        stage.rows[0].claim.caps = cap(Kind::SlowWrite, cap_gb);
        stage.step();
        let mut sum = 0.0;
        for period in 0..120 {
            let rate = toy_rate(&stage.share(0), Kind::SlowWrite, free);
            let error = 1.0 + noise * (rng.index(2001) as f64 / 1000.0 - 1.0);
            stage.runs(0, Kind::SlowWrite, rate * error);
            stage.step();
            if 20 <= period {
                sum += rate;
            }
        }
        let mean = sum / 100.0;
        prop_assert!(mean <= cap_gb * 1.01, "seed {seed}: {mean} over {cap_gb}");
        prop_assert!(cap_gb * 0.93 <= mean, "seed {seed}: {mean} far below {cap_gb}");
    }
}
