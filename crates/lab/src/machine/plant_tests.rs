//! The machine in time: determinism, budgets, leases, bursts, phases, truth.

use super::{Device, Faults, Load, Machine, Stream, Tenant, drive};
use control::bandwidth::{BandwidthSignal, Budget, Cost, Kind, Throttle};
use control::{Actuator, Claim, Decision, Law, Loop, Policy, Row, Seen, Sensor, Shares, Window};
use std::fmt::Write as _;
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

pub(super) fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

pub(super) fn two(seed: u64, faults: Faults) -> (Machine, TenantId, TenantId) {
    let mut machine = Machine::new(Device::mt2(), seed).with_faults(faults);
    let reader =
        machine.add(Tenant::new("reader", Claim::default(), vec![Stream::closed(Kind::SlowRead, 256, 14)]));
    let writer =
        machine.add(Tenant::new("writer", Claim::default(), vec![Stream::closed(Kind::SlowWrite, 256, 6)]));
    (machine, reader, writer)
}

pub(super) fn read(machine: &mut Machine, now: Instant) -> Vec<Row<BandwidthSignal, Throttle>> {
    let mut rows = Vec::new();
    machine.read(now, &mut rows);
    rows
}

/// Applies throttles as a decision; returns what is then in force and whether all is.
pub(super) fn apply(
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

/// Holds the second tenant back a little more each turn, and keeps no other state.
#[derive(Debug, Default)]
struct Tightening {
    shares: Shares<Throttle>,
    delay: u32,
}

impl Policy for Tightening {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "tightening"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, BandwidthSignal, Throttle>,
    ) -> Decision<'_, Throttle> {
        self.delay += 1;
        let held = Throttle { delay: self.delay, ..Throttle::FREE };
        let rows = seen.tenants.iter();
        let rows = rows.map(|row| (row.id, if row.id == TenantId(2) { held } else { Throttle::FREE }));
        self.shares.rebuild(Law::Free, seen, rows);
        let (wake, lease) = (Duration::from_millis(10), Duration::from_millis(50));
        Decision { shares: &self.shares, wake, lease, steady: true, notes: &[] }
    }
}

/// Everything that a loop saw and did on a machine with bursts, phases, arrivals and faults, as text.
fn trace(seed: u64) -> String {
    let faults = Faults {
        jitter: 0.05,
        missing: 0.1,
        stale: 0.1,
        refuse: 0.1,
        late: Duration::from_millis(3),
        deaths: vec![(at_ms(350), TenantId(3))],
        ..Faults::NONE
    };
    let (mut machine, ..) = two(seed, faults);
    let turns = (Duration::from_millis(7), Duration::from_millis(4));
    let bursts = Load::Bursts { threads: 8, on: turns.0, off: turns.1 };
    let stream = |kind, load| Stream { kind, size: Bytes(1024), load };
    let bursty = Tenant::new("bursty", Claim::default(), vec![stream(Kind::SlowRead, bursts)]);
    machine.add(bursty.then(at_ms(200), vec![Stream::closed(Kind::DramWrite, 64, 4)]));
    let mut pacer = Loop::new(Tightening::default(), 1000);
    drive(&mut machine, &mut pacer, at_ms(250));
    let paced = Load::OpenBursts { per: BytesPerSec(2_000_000_000), on: turns.1, off: turns.0 };
    machine.add(Tenant::new("paced", Claim::default(), vec![stream(Kind::SlowWrite, paced)]));
    drive(&mut machine, &mut pacer, at_ms(500));
    let mut text = String::new();
    for record in pacer.journal().records() {
        writeln!(text, "{:?} {:?} {:?}", record.at, record.pool, record.rows).unwrap();
    }
    for id in 1..=4 {
        writeln!(text, "{id}: {:?}", machine.operations_per_sec(TenantId(id), at_ms(0), at_ms(500))).unwrap();
    }
    text
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    for seed in [1, 2, 3] {
        let first = trace(seed);
        assert!(10_000 < first.len());
        assert_eq!(first, trace(seed), "seed={seed}");
        assert_ne!(first, trace(seed + 10), "seed={seed}");
    }
}

#[test]
fn bursts_run_for_their_part_of_the_time_and_phases_at_theirs() {
    for seed in [1, 2, 3] {
        let mut machine = Machine::new(Device::mt2(), seed);
        let (on, off) = (Duration::from_millis(3), Duration::from_millis(6));
        let load = Load::Bursts { threads: 2, on, off };
        let stream = Stream { kind: Kind::SlowRead, size: Bytes(256), load };
        let tenant = Tenant::new("bursty", Claim::default(), vec![stream]);
        let id =
            machine.add(tenant.then(at_ms(9000), vec![Stream::open(Kind::SlowRead, 256, 1_000_000_000)]));
        machine.advance(at_ms(10_000));
        let burst = machine.mean_rate(id, Kind::SlowRead, at_ms(0), at_ms(9000)).0 as f64 / 5.94e9;
        // A third, off by 1.5 % for each standard deviation of a thousand turns.
        assert!((burst - 1.0 / 3.0).abs() < 0.07, "seed={seed}: {burst}");
        let after = machine.mean_rate(id, Kind::SlowRead, at_ms(9000), at_ms(10_000)).0;
        assert!(after.abs_diff(1_000_000_000) < 1000, "seed={seed}: {after}");
    }
}

#[test]
fn a_paced_tenant_of_twice_the_medium_gets_the_medium_and_waits() {
    let mut machine = Machine::new(Device::mt2(), 1).with_faults(Faults::exact());
    let limit = 11.4e9;
    let id = machine.add(Tenant::new(
        "flood",
        Claim::default(),
        vec![Stream::open(Kind::SlowWrite, 256, 22_800_000_000)],
    ));
    machine.advance(at_ms(100));
    let got = machine.mean_rate(id, Kind::SlowWrite, at_ms(0), at_ms(100)).0 as f64;
    assert!(got <= limit && 0.8 * limit <= got, "{got}");
    let flooded = machine.mean_latency(id, at_ms(0), at_ms(100)).unwrap();
    let mut calm = Machine::new(Device::mt2(), 1);
    let id = calm.add(Tenant::new(
        "calm",
        Claim::default(),
        vec![Stream::open(Kind::SlowWrite, 256, 1_000_000_000)],
    ));
    calm.advance(at_ms(100));
    let alone = calm.mean_latency(id, at_ms(0), at_ms(100)).unwrap();
    assert!(4 * alone.0 < flooded.0, "{alone:?} {flooded:?}");
}

#[test]
fn truth_knows_who_hurts_most() {
    // NyxCache §2.2.4: a writer of 1 GB/s hurts a reader like 8 GB/s of reads do.
    let mut machine = Machine::new(Device::nyx(), 1);
    let tenant = |name, stream| Tenant::new(name, Claim::default(), vec![stream]);
    let victim = machine.add(tenant("victim", Stream::closed(Kind::SlowRead, 256, 1)));
    let reader = machine.add(tenant("reader", Stream::open(Kind::SlowRead, 4096, 4_000_000_000)));
    let writer = machine.add(tenant("writer", Stream::open(Kind::SlowWrite, 256, 1_000_000_000)));
    let less = BytesPerSec(500_000_000);
    let (by_reader, by_writer) = (machine.gain(victim, reader, less), machine.gain(victim, writer, less));
    assert!(0.0 < by_reader && 2.0 * by_reader < by_writer, "{by_reader} {by_writer}");
    assert_eq!(machine.throttle(writer), Some(Throttle::FREE), "asking changes nothing");
}

#[test]
fn no_tenant_and_one_tenant_without_streams_are_fine() {
    let mut machine = Machine::new(Device::nyx(), 1);
    assert!(read(&mut machine, at_ms(10)).is_empty());
    let id = machine.add(Tenant::new("idle", Claim::default(), Vec::new()));
    let rows = read(&mut machine, at_ms(20));
    let signal = rows[0].signal.unwrap();
    assert_eq!((signal.operations, signal.mean_latency), (0, None));
    assert!(machine.slowdown(id).is_none() && machine.alone(id).bytes_total().abs() < 1e-9);
    let rows = read(&mut machine, at_ms(20));
    assert_eq!(rows.len(), 1, "time that stands still is no error");
}

#[test]
fn exact_windows_add_up_to_what_really_happened() {
    for seed in [1, 2, 3] {
        let (mut machine, reader, writer) = two(seed, Faults::exact());
        let budget = Budget { cost: Cost(1_000_000_000), per: Duration::from_millis(4) };
        machine.set_throttle(writer, Throttle { budget: Some(budget), ..Throttle::FREE });
        let turns = (Duration::from_millis(2), Duration::from_millis(3));
        let bursts = Load::Bursts { threads: 9, on: turns.0, off: turns.1 };
        let stream = Stream { kind: Kind::SlowRead, size: Bytes(4096), load: bursts };
        machine.add(Tenant::new("bursty", Claim::default(), vec![stream]));
        let (mut bytes, mut cost) = ([0; 3], 0);
        for ms in 1..=300 {
            for (sum, row) in bytes.iter_mut().zip(read(&mut machine, at_ms(ms))) {
                let signal = row.signal.unwrap();
                *sum += signal.bytes_total().0;
                cost += if row.id == writer { signal.cost.0 } else { 0 };
            }
        }
        for (id, sum) in [reader, writer, TenantId(3)].into_iter().zip(bytes) {
            let truth = machine.mean_rate_total(id, at_ms(0), at_ms(300)).0 as f64 * 0.3;
            assert!((sum as f64 / truth - 1.0).abs() < 1e-5, "seed={seed} {id}: {sum} against {truth}");
        }
        // 75 periods, each spent to the access.
        assert!((cost as f64 / 75e9 - 1.0).abs() < 1e-3, "seed={seed}: {cost}");
    }
}

#[test]
fn the_mediums_own_latency_is_an_idle_one_alone_and_rises_with_interference() {
    let latency = |machine: &mut Machine| {
        let pool = machine.read(at_ms(100), &mut Vec::new());
        Kind::ALL.map(|kind| pool.latency.get(kind).unwrap().0)
    };
    let idle = latency(&mut Machine::new(Device::mt2(), 1).with_faults(Faults::exact()));
    // OptaneStudy's idle latencies: DRAM 81 to 101 ns, reads of the slow tier 169 to 305 ns.
    assert!((80..=102).contains(&idle[0]) && (169..=305).contains(&idle[2]), "{idle:?}");
    let loaded = latency(&mut two(1, Faults::exact()).0);
    for (kind, (idle, loaded)) in Kind::ALL.into_iter().zip(idle.into_iter().zip(loaded)) {
        assert!(idle < loaded, "{kind:?}: {idle} {loaded}");
    }
    assert!(2 * idle[2] < loaded[2], "reads of the slow tier suffer most of writes: {loaded:?}");
}
