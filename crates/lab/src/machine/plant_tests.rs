//! The machine in time: determinism, levers, budgets, bursts, faults.

use super::{Device, Faults, Machine, Stream, Tenant};
use control::bandwidth::{BandwidthSignal, Budget, Cost, Kind, Throttle};
use control::{Actuator, Claim, Decision, Law, Row, Seen, Sensor, Shares, Window};
use units::{Duration, Instant, TenantId};

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn two(seed: u64, faults: Faults) -> (Machine, TenantId, TenantId) {
    let mut machine = Machine::new(Device::mt2(), seed).with_faults(faults);
    let reader =
        machine.add(Tenant::new("reader", Claim::default(), vec![Stream::closed(Kind::SlowRead, 256, 14)]));
    let writer =
        machine.add(Tenant::new("writer", Claim::default(), vec![Stream::closed(Kind::SlowWrite, 256, 6)]));
    (machine, reader, writer)
}

fn read(machine: &mut Machine, now: Instant) -> Vec<Row<BandwidthSignal, Throttle>> {
    let mut rows = Vec::new();
    machine.read(now, &mut rows);
    rows
}

/// Applies throttles as a decision; returns what is then in force and whether all is.
fn apply(
    machine: &mut Machine,
    throttles: &[(TenantId, Throttle)],
    (lease, steady): (Duration, bool),
) -> (Vec<(TenantId, Throttle)>, bool) {
    let pool = machine.device().pool();
    let rows: Vec<Row<BandwidthSignal, Throttle>> = throttles
        .iter()
        .map(|(id, _)| Row { id: *id, claim: Claim::default(), signal: None, in_force: None })
        .collect();
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    let mut shares = Shares::default();
    shares.rebuild(Law::Free, &seen, throttles.iter().copied());
    let decision = Decision { shares: &shares, wake: lease, lease, steady, notes: &[] };
    let (now, mut in_force) = (machine.now(), Vec::new());
    let whole = machine.apply(now, &decision, &mut in_force);
    (in_force, whole)
}

#[test]
fn the_frontier_of_mt2_runs_in_time() {
    let (mut machine, reader, writer) = two(1, Faults::exact());
    machine.advance(at_ms(1000));
    let read = machine.mean_rate(reader, Kind::SlowRead, at_ms(0), at_ms(1000)).0 as f64 / 1e9;
    let written = machine.mean_rate(writer, Kind::SlowWrite, at_ms(0), at_ms(1000)).0 as f64 / 1e9;
    assert!((read - 12.5).abs() < 0.2 && (written - 7.2).abs() < 0.2, "{read} {written}");
    assert!((machine.slowdown(reader).unwrap() - 34.49 / 12.52).abs() < 0.01);
}

#[test]
fn a_budget_stops_at_its_access_and_says_when() {
    let (mut machine, _, writer) = two(1, Faults::exact());
    let budget = Budget { cost: Cost(100_000_000_000), per: Duration::from_secs(1) };
    machine.set_throttle(writer, Throttle { budget: Some(budget), ..Throttle::FREE });
    let rows = read(&mut machine, at_ms(1000));
    let signal = rows[1].signal.unwrap();
    let one = 256.0 / machine.device().write_limit() * 1e3;
    let spent = signal.cost.0 as f64 - 1e11;
    assert!((-1.0..=one).contains(&spent), "over by at most one access of {one} ps: {spent}");
    let depleted = signal.depleted_at.unwrap();
    assert!(at_ms(100) < depleted && depleted < at_ms(400), "{depleted:?}");
    assert_eq!(rows[0].signal.unwrap().depleted_at, None);
}

#[test]
fn an_experiment_lapses_to_the_last_steady_throttles() {
    let (mut machine, reader, writer) = two(1, Faults::exact());
    let held = Throttle { delay: 20, ..Throttle::FREE };
    let lease = Duration::from_millis(50);
    let (_, whole) = apply(&mut machine, &[(reader, Throttle::FREE), (writer, held)], (lease, true));
    assert!(whole);
    machine.advance(at_ms(10));
    apply(&mut machine, &[(reader, Throttle::FREE), (writer, Throttle::PAUSED)], (lease, false));
    machine.advance(at_ms(59));
    assert_eq!(machine.throttle(writer), Some(Throttle::PAUSED));
    machine.advance(at_ms(61));
    assert_eq!(machine.throttle(writer), Some(held));
    assert_eq!(machine.mean_rate(writer, Kind::SlowWrite, at_ms(10), at_ms(60)).0, 0);
}
