//! Each fault: noisy, missing, stale and sampled signals, late and refusing actuators, tenants that die.

use super::Faults;
use super::plant_tests::{apply, at_ms, read, two};
use control::bandwidth::{Budget, Cost, Kind, Throttle};
use units::{Duration, TenantId};

#[test]
fn noise_of_a_window_falls_with_its_length_and_is_unbiased() {
    for seed in [1, 2, 3] {
        let mut off = Vec::new();
        for ms in [1, 100] {
            let (mut machine, reader, _) = two(seed, Faults::NONE);
            let (mut squares, mut sum, windows) = (0.0, 0.0, 200_u32);
            for window in 1..=u64::from(windows) {
                let from = machine.now();
                let rows = read(&mut machine, at_ms(window * ms));
                let bytes = rows[0].signal.unwrap().bytes.slow_read.0 as f64;
                let secs = Duration::from_millis(ms).as_secs_f64();
                let truth = machine.mean_rate(reader, Kind::SlowRead, from, machine.now()).0 as f64 * secs;
                sum += bytes / truth - 1.0;
                squares += (bytes / truth - 1.0).powi(2);
            }
            let deviation = (squares / f64::from(windows)).sqrt();
            assert!(
                (sum / f64::from(windows)).abs() < 5.0 * deviation / f64::from(windows).sqrt(),
                "seed={seed}"
            );
            off.push(deviation);
        }
        // A count of 49,000 per millisecond is off by 3 / sqrt(49,000), of a hundred times as many by a tenth of that.
        assert!(
            (off[0] / 0.0136 - 1.0).abs() < 0.25 && (off[0] / off[1] / 10.0 - 1.0).abs() < 0.4,
            "{off:?}"
        );
    }
}

#[test]
fn signals_are_missing_and_stale_as_often_as_said() {
    for seed in [1, 2, 3] {
        let (mut machine, ..) = two(seed, Faults { missing: 0.2, stale: 0.3, ..Faults::NONE });
        let (mut missing, mut stale, mut last) = (0, 0, None);
        for ms in 1..=1000 {
            let signal = read(&mut machine, at_ms(ms))[0].signal;
            missing += u32::from(signal.is_none());
            stale += u32::from(signal.is_some() && signal == last);
            last = signal.or(last);
        }
        // Five standard deviations of 1000 trials; a repetition shows only where neither reading is missing.
        assert!((137..=263).contains(&missing), "seed={seed}: {missing}");
        assert!((140..=340).contains(&stale), "seed={seed}: {stale}");
    }
}

#[test]
fn sampled_writes_are_marked_and_coarse() {
    let mut faults = Faults::NONE;
    faults.sampled.slow_write = true;
    let (mut machine, ..) = two(1, faults);
    let deviation: Vec<f64> = (1..=50)
        .map(|window| {
            let signal = read(&mut machine, at_ms(window * 100))[1].signal.unwrap();
            assert!(signal.sampled.slow_write && !signal.sampled.slow_read);
            signal.bytes.slow_write.0 as f64 / 718.0e6 - 1.0
        })
        .collect();
    let rms = (deviation.iter().map(|x| x * x).sum::<f64>() / 50.0).sqrt();
    // 2.8 million writes in 100 ms, every 10,007th sampled: 280 samples.
    assert!((0.03..0.12).contains(&rms), "{rms}");
}

#[test]
fn a_late_actuator_says_what_is_still_true() {
    let (mut machine, reader, writer) = two(1, Faults { late: Duration::from_millis(20), ..Faults::exact() });
    let held = Throttle { delay: 100, ..Throttle::FREE };
    let lease = (Duration::from_secs(1), true);
    let (in_force, whole) = apply(&mut machine, &[(reader, Throttle::FREE), (writer, held)], lease);
    assert!(!whole && in_force[1].1 == Throttle::FREE);
    machine.advance(at_ms(19));
    assert_eq!(machine.throttle(writer), Some(Throttle::FREE));
    machine.advance(at_ms(20));
    assert_eq!(machine.throttle(writer), Some(held));
    let (_, whole) = apply(&mut machine, &[(reader, Throttle::FREE), (writer, held)], lease);
    assert!(whole, "what is asked again is already true");
}

#[test]
fn a_refusing_actuator_keeps_the_old_throttle_and_says_so() {
    let (mut machine, reader, writer) = two(1, Faults { refuse: 1.0, ..Faults::exact() });
    let held = Throttle { delay: 100, ..Throttle::FREE };
    let lease = (Duration::from_secs(1), true);
    let (in_force, whole) = apply(&mut machine, &[(reader, Throttle::FREE), (writer, held)], lease);
    assert!(!whole);
    assert_eq!(in_force, [(reader, Throttle::FREE), (writer, Throttle::FREE)]);
    machine.set_faults(Faults::exact());
    let (in_force, whole) = apply(&mut machine, &[(reader, Throttle::FREE), (writer, held)], lease);
    assert!(whole && in_force[1].1 == held);
}

#[test]
fn the_dead_leave_and_the_others_gain() {
    let (mut machine, reader, writer) =
        two(1, Faults { deaths: vec![(at_ms(50), TenantId(2))], ..Faults::exact() });
    machine.advance(at_ms(100));
    assert_eq!(machine.tenants().map(|(id, _)| id).collect::<Vec<_>>(), [reader]);
    let rate = |from, to| machine.mean_rate(reader, Kind::SlowRead, at_ms(from), at_ms(to)).0;
    assert!(2 * rate(0, 50) < rate(50, 100));
    assert_eq!(machine.mean_rate(writer, Kind::SlowWrite, at_ms(50), at_ms(100)).0, 0);
    assert_eq!(read(&mut machine, at_ms(101)).len(), 1);
}

#[test]
fn jitter_stays_however_long_the_window() {
    let (mut machine, reader, _) = two(1, Faults { jitter: 0.1, ..Faults::exact() });
    let off: Vec<f64> = (1..=100)
        .map(|second| {
            let from = machine.now();
            let bytes = read(&mut machine, at_ms(second * 1000))[0].signal.unwrap().bytes.slow_read.0;
            bytes as f64 / machine.mean_rate(reader, Kind::SlowRead, from, at_ms(second * 1000)).0 as f64
                - 1.0
        })
        .collect();
    let rms = (off.iter().map(|x| x * x).sum::<f64>() / 100.0).sqrt();
    assert!((0.07..0.13).contains(&rms), "{rms}");
}

#[test]
fn a_brake_that_looks_every_tick_runs_over_by_at_most_one() {
    let tick = Duration::from_millis(10);
    let (mut machine, _, writer) = two(1, Faults { budget_tick: tick, ..Faults::exact() });
    let budget = Budget { cost: Cost(105_000_000_000), per: Duration::from_secs(1) };
    machine.set_throttle(writer, Throttle { budget: Some(budget), ..Throttle::FREE });
    let free = machine.steady(writer).cost_total();
    let signal = read(&mut machine, at_ms(1000))[1].signal.unwrap();
    let over = (signal.cost.0 as f64 - 1.05e11) / 1e12;
    assert!(0.0 < over && over <= free * tick.as_secs_f64(), "{over} of {free} per second");
    assert_eq!(signal.depleted_at.unwrap().0 % tick.0, 0, "it says when it noticed");
}
