//! Remedy: who pays for a victim, in which order, and when it is given back.

use crate::stage::{PERIOD, Stage, braked, cap, critical, tenant, thresholds, toy_rate};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Levers, Mba, Reason, Row};
use policy::bandwidth::{Prevention, Remedy};
use policy::compose::Tighter;
use units::Bytes;

#[test]
fn remedy_picks_writers_of_the_slow_tier_first_and_spares_critical_tenants() {
    let rows = vec![
        tenant(1, critical()),
        tenant(2, Class::BestEffort),
        tenant(3, Class::BestEffort),
        tenant(4, Class::Exempt),
        tenant(5, Class::BestEffort),
    ];
    let mut stage = Stage::new(Remedy::new(thresholds()), rows);
    stage.latency(Some(2_000));
    for period in 0..12 {
        stage.runs(0, Kind::SlowWrite, 10.0);
        stage.runs(1, Kind::DramRead, 50.0);
        stage.runs(2, Kind::SlowWrite, 7.0);
        stage.runs(3, Kind::SlowWrite, 10.0);
        stage.runs(4, Kind::SlowRead, 10.0);
        stage.step();
        assert!(stage.noted("tightened") <= 1, "one step per period, in {period}");
    }
    let shares: Vec<Throttle> = (0..5).map(|at| stage.share(at)).collect();
    assert_eq!(shares[2].mba, 100, "MBA does not act on writes of the slow tier");
    // The first sample alone is no evidence: 11 steps of a tenth.
    assert!(shares[2].cpu.is_some_and(|cpu| cpu < 2000 && 1800 < cpu), "{:?}", shares[2]);
    for at in [0, 1, 3, 4] {
        assert_eq!(shares[at], Throttle::FREE, "tenant {at}");
    }
}

#[test]
fn remedy_goes_on_to_the_next_when_one_is_at_its_floor_and_back_in_the_opposite_order() {
    let rows = vec![tenant(1, critical()), tenant(2, Class::BestEffort), tenant(3, Class::BestEffort)];
    let mut stage = Stage::new(Remedy::new(thresholds()), rows);
    stage.latency(Some(2_000));
    let run = |stage: &mut Stage| {
        stage.runs(0, Kind::SlowRead, 5.0);
        stage.runs(1, Kind::SlowWrite, 7.0);
        stage.runs(2, Kind::DramRead, 50.0);
        stage.step();
    };
    for _ in 0..120 {
        run(&mut stage);
    }
    assert_eq!(stage.share(1).cpu, Some(60), "at its floor");
    assert_eq!((stage.share(2).mba, stage.share(2).cpu), (10, Some(60)));
    assert_eq!(stage.noted("incident"), 1, "nothing left to take");
    stage.latency(Some(500));
    let mut order = Vec::new();
    for _ in 0..160 {
        run(&mut stage);
        let relaxed = stage.notes.iter().filter(|note| note.reason == Reason::Relaxed);
        order.extend(relaxed.map(|note| note.tenant.unwrap().0));
    }
    assert_eq!((stage.share(1), stage.share(2)), (Throttle::FREE, Throttle::FREE));
    order.dedup();
    assert_eq!(order, [3, 2], "who was held back last is let go first");
}

#[test]
fn remedy_does_nothing_without_latency_and_waits_for_quiet() {
    let mut stage = Stage::new(Remedy::new(thresholds()), vec![tenant(1, Class::BestEffort)]);
    let run = |stage: &mut Stage, latency: Option<u64>| {
        stage.latency(latency);
        stage.runs(0, Kind::SlowWrite, 7.0);
        stage.step();
        stage.share(0).cpu
    };
    assert_eq!(run(&mut stage, None), None);
    assert_eq!(stage.noted("fallback"), 1);
    run(&mut stage, Some(2_000));
    assert_eq!(run(&mut stage, Some(2_000)), Some(5400));
    for latency in [None, None, Some(950), Some(950), Some(950), Some(800), Some(950), Some(800)] {
        assert_eq!(run(&mut stage, latency), Some(5400), "neither worse nor quiet: {latency:?}");
    }
    // The last two made one quiet period: newest and median.
    assert_eq!(run(&mut stage, Some(800)), Some(5400));
    assert_eq!(run(&mut stage, Some(800)), None, "after three quiet periods");
}

/// One that is held back, let go, and disturbs the other again at once; how many quiet periods it waits then, and before.
#[test]
fn who_had_to_be_held_back_again_waits_longer_until_it_has_stood_or_others_come() {
    for (stands, comes, is_longer) in [(false, false, true), (true, false, false), (false, true, false)] {
        let mut stage =
            Stage::new(Remedy::new(thresholds()), vec![tenant(1, critical()), tenant(2, Class::BestEffort)]);
        // Periods until the other is held back, or let go.
        let until = |stage: &mut Stage, latency: u64, word: &str| {
            let mut periods = 0;
            loop {
                stage.latency(Some(latency));
                stage.runs(0, Kind::SlowRead, 5.0);
                stage.runs(1, Kind::SlowWrite, 7.0);
                stage.step();
                periods += 1;
                assert!(periods < 100, "never {word}");
                if stage.noted(word) == 1 {
                    return periods;
                }
            }
        };
        until(&mut stage, 2_000, "tightened");
        let first = until(&mut stage, 500, "relaxed");
        until(&mut stage, 2_000, "tightened");
        if stands {
            until(&mut stage, 500, "relaxed");
            for _ in 0..6 {
                stage.runs(0, Kind::SlowRead, 5.0);
                stage.runs(1, Kind::SlowWrite, 7.0);
                stage.step();
            }
            until(&mut stage, 2_000, "tightened");
        }
        if comes {
            stage.rows.push(tenant(3, Class::BestEffort));
        }
        let next = until(&mut stage, 500, "relaxed");
        assert_eq!(next, first + 3 * u32::from(is_longer), "{stands} {comes}");
    }
}

#[test]
fn nobody_is_held_back_while_whoever_comes_first_sleeps() {
    let rows = vec![tenant(1, critical()), tenant(2, Class::BestEffort), tenant(3, Class::Exempt)];
    let mut stage = Stage::new(Remedy::new(thresholds()), rows);
    // Above the threshold all the time.
    stage.latency(Some(2_000));
    let run = |stage: &mut Stage, reads: f64, periods: u32| {
        for _ in 0..periods {
            stage.runs(0, Kind::SlowRead, reads);
            stage.runs(1, Kind::SlowWrite, 7.0);
            stage.runs(2, Kind::SlowRead, 0.0);
            stage.step();
        }
        stage.share(1)
    };
    assert_eq!(run(&mut stage, 0.0, 20), Throttle::FREE, "nobody is disturbed");
    assert!(run(&mut stage, 5.0, 20).cpu.is_some_and(|cpu| cpu < 2_000), "{:?}", stage.share(1));
    assert_eq!(run(&mut stage, 0.0, 80), Throttle::FREE, "it is given all back");
    // Operations are counted: what moves of a tenant that asks for nothing wakes nobody.
    for _ in 0..20 {
        stage.runs(0, Kind::SlowRead, 1.0);
        stage.runs(1, Kind::SlowWrite, 7.0);
        stage.rows[1].signal.as_mut().unwrap().operations = 100;
        stage.step();
    }
    assert_eq!(stage.share(1), Throttle::FREE);
    run(&mut stage, 5.0, 5);
    stage.rows[0].signal = None;
    let before = stage.share(1);
    stage.step();
    assert_ne!(stage.share(1), before, "who is not measured may be awake");
}

#[test]
fn a_relaxation_that_brings_interference_back_is_undone_and_waited_for_longer() {
    let rows = vec![tenant(1, Class::BestEffort), tenant(2, Class::BestEffort)];
    let mut stage = Stage::new(Remedy::new(thresholds()), rows);
    let mut waits = Vec::new();
    let mut since = 0;
    for period in 0..400 {
        // Quiet below half of the CPU time, interference above it.
        let cpu = stage.rows[0].in_force.map_or(6000, |now| now.cpu.unwrap_or(6000));
        stage.latency(Some(if 3000 < cpu { 2_000 } else { 500 }));
        stage.runs(0, Kind::SlowWrite, 3.0 * f64::from(cpu) / 6000.0);
        stage.runs(1, Kind::DramRead, 14.0);
        stage.step();
        since += 1;
        if stage.noted("relaxed") == 1 {
            waits.push((period, since));
            since = 0;
        }
    }
    assert_eq!(stage.share(1), Throttle::FREE, "who was relaxed pays, not who scores highest now");
    let lengths: Vec<u32> = waits.iter().map(|(_, since)| *since).collect();
    assert!(lengths.len() <= 10, "it does not swing: {lengths:?}");
    assert!(lengths.windows(2).skip(1).all(|pair| pair[0] <= pair[1] + 1), "{lengths:?}");
}

#[test]
fn scarce_hardware_makes_steps_coarser_and_unmeasured_tenants_last() {
    // Two classes of service: 100 and 10 percent.
    let mba = Mba { levels: 0b10_0000_0001, ..Mba::MT2 };
    let rows = vec![tenant(1, Class::BestEffort), tenant(2, Class::BestEffort)];
    let mut stage = Stage::new(Remedy::new(thresholds()), rows);
    stage.rows[0].claim.levers.mba = Some(mba);
    stage.rows[0].claim.levers.cpu = None;
    stage.latency(Some(2_000));
    for _ in 0..3 {
        stage.runs(0, Kind::DramRead, 50.0);
        stage.step();
    }
    assert_eq!(stage.share(0).mba, 10, "one coarse step");
    assert!(stage.share(1).cpu.is_some(), "then the tenant without a signal");
    // Without any lever nothing is done and it is said.
    stage.rows[0].claim.levers = Levers::default();
    stage.rows[1].claim.levers = Levers::default();
    stage.rows[1].in_force = Some(Throttle::FREE);
    stage.rows[0].in_force = Some(Throttle::FREE);
    for _ in 0..20 {
        stage.runs(0, Kind::DramRead, 50.0);
        stage.step();
    }
    assert_eq!(stage.noted("incident"), 1);
}

#[test]
fn prevention_and_remedy_hold_together() {
    let rows = vec![tenant(1, critical()), tenant(2, Class::BestEffort)];
    let both = Tighter::new(Prevention::default(), Remedy::new(thresholds()));
    let mut stage = Stage::new(both, rows);
    stage.rows[1].claim.caps = cap(Kind::SlowWrite, 5.0);
    stage.latency(Some(500));
    let run = |stage: &mut Stage, latency: u64| {
        let rate = stage.rows[1].in_force.map_or(7.2, |now| toy_rate(&now, Kind::SlowWrite, 7.2));
        stage.latency(Some(latency));
        stage.runs(0, Kind::SlowRead, 10.0);
        stage.runs(1, Kind::SlowWrite, rate);
        stage.step();
        rate
    };
    for _ in 0..30 {
        run(&mut stage, 500);
    }
    let capped = run(&mut stage, 500);
    assert!((capped - 5.0).abs() < 0.15, "{capped}");
    for _ in 0..14 {
        run(&mut stage, 2_000);
    }
    let held = run(&mut stage, 500);
    assert!(held < 2.5, "remedy goes below the cap: {held}");
    let mut most: f64 = 0.0;
    for _ in 0..60 {
        most = most.max(run(&mut stage, 500));
    }
    let back = run(&mut stage, 500);
    assert!((back - 5.0).abs() < 0.15, "{back}");
    assert!(most <= 7.2, "{most}");
}

#[test]
fn a_tenant_that_leaves_while_held_back_comes_back_free() {
    let mut stage = Stage::new(
        Remedy::new(thresholds()),
        vec![tenant(1, Class::BestEffort), tenant(2, Class::BestEffort)],
    );
    stage.latency(Some(2_000));
    for _ in 0..5 {
        stage.runs(0, Kind::SlowWrite, 7.0);
        stage.step();
    }
    assert!(stage.share(0).cpu.is_some());
    let gone = stage.rows.remove(0);
    stage.latency(Some(500));
    stage.step();
    assert_eq!(stage.noted("left"), 1);
    stage.rows.insert(0, Row { in_force: None, ..gone });
    stage.runs(0, Kind::SlowWrite, 7.0);
    stage.step();
    assert_eq!(stage.share(0), Throttle::FREE);
    stage.rows.clear();
    stage.step();
}

/// One brake delays reads and writes alike: a step of it is a tenth of both, whichever there is more of, and so is a step back.
#[test]
fn a_braked_writer_is_let_go_step_by_step() {
    const THREADS: f64 = 1.0;
    /// Accesses per second without a delay, and of so many one is a read.
    const FREE: f64 = 100_000.0;
    for reads_one_in in [u64::MAX, 5_000, 5] {
        let mut stage = Stage::new(Remedy::new(thresholds()), vec![braked(1, Class::BestEffort)]);
        let rate = |delay: u32| THREADS / (1.0 / FREE + f64::from(delay) / 1e8);
        let mut step = |latency: u64| {
            let before = stage.rows[0].in_force.map_or(0, |now| now.delay);
            let accesses = rate(before) * PERIOD.as_secs_f64();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let (all, reads) = (accesses as u64, accesses as u64 / reads_one_in);
            let of = |count: u64| Bytes(count * 4_096);
            stage.rows[0].signal = Some(BandwidthSignal {
                bytes: Kinds { slow_read: of(reads), slow_write: of(all - reads), ..Kinds::default() },
                accesses: Kinds { slow_read: reads, slow_write: all - reads, ..Kinds::default() },
                threads: 1,
                ..BandwidthSignal::default()
            });
            stage.latency(Some(latency));
            stage.step();
            (rate(before), rate(stage.share(0).delay), stage.share(0).delay)
        };
        for _ in 0..12 {
            step(2_000);
        }
        let (before, after, held) = step(2_000);
        assert!((0.88..0.92).contains(&(after / before)), "{reads_one_in}: {before} to {after}");
        let mut relaxed = 0;
        while relaxed < 3 {
            let (before, after, delay) = step(500);
            if before < after {
                relaxed += 1;
                assert!((1.05..1.15).contains(&(after / before)), "{reads_one_in}: {before} to {after}");
                assert!(held / 2 < delay, "{delay} of {held}");
            }
        }
    }
}

/// Of two tenants the noisier pays, also once its brake has made it the quieter one.
#[test]
fn who_is_held_back_by_a_delay_is_judged_by_what_it_would_do() {
    let rows = [1, 2].map(|id| braked(id, Class::BestEffort));
    let mut stage = Stage::new(Remedy::new(thresholds()), rows.to_vec());
    stage.latency(Some(2_000));
    for _ in 0..14 {
        // Six threads, 256 B: 2 and 4 GB/s without delays.
        for (at, kind, free) in [(0, Kind::SlowWrite, 2.0), (1, Kind::SlowRead, 4.0)] {
            let delay = stage.rows[at].in_force.map_or(0, |now| now.delay);
            let takes_ns = 6.0 * 256.0 / free + f64::from(delay) * 10.0;
            stage.runs(at, kind, 6.0 * 256.0 / takes_ns);
        }
        stage.step();
    }
    assert!(0 < stage.share(0).delay, "{:?}", stage.share(0));
    assert_eq!(stage.share(1), Throttle::FREE, "the writer pays alone");
}
