//! Acceptance checks of MT²'s policies and their baselines on hand-written rows and on a plant of four lines.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates of a test")]

use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{
    Amount, Claim, Class, CpuQuota, Goal, Levers, Mba, Note, Policy, Pool, Reason, Row, Seen, Window,
};
use policy::bandwidth::{
    Axis, BandwidthLimit, EmpiricalModel, Guarantee, Prevention, Remedy, Slo, Thresholds, ThrottleBiggest,
    cpu_only, mba_only,
};
use policy::compose::Tighter;
use proptest::prelude::*;
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

const PERIOD: Duration = Duration::from_millis(100);
const GB: u64 = 1_000_000_000;

type Boxed = Box<dyn Policy<Signal = BandwidthSignal, Share = Throttle>>;
type Rows = Vec<Row<BandwidthSignal, Throttle>>;

fn host() -> Levers {
    Levers { mba: Some(Mba::MT2), cpu: Some(CpuQuota { most: 6000, least: 60 }), brake: Kinds::default() }
}

fn only<T: Default>(kind: Kind, value: T) -> Kinds<T> {
    let mut kinds = Kinds::from_fn(|_| T::default());
    *kinds.get_mut(kind) = value;
    kinds
}

fn gb(rate: f64) -> u64 {
    (rate * 1e9) as u64
}

fn cap(kind: Kind, rate_gb: f64) -> Kinds<Option<BytesPerSec>> {
    only(kind, Some(BytesPerSec(gb(rate_gb))))
}

fn tenant(id: u32, class: Class) -> Row<BandwidthSignal, Throttle> {
    Row {
        id: TenantId(id),
        claim: Claim { class, levers: host(), ..Claim::default() },
        signal: None,
        in_force: None,
    }
}

fn critical() -> Class {
    Class::Critical { goal: Goal::Bandwidth(Kinds::default()) }
}

/// Steps a policy with hand-written rows; keeps time and what is in force.
struct Stage {
    policy: Boxed,
    now: Instant,
    pool: Pool,
    rows: Rows,
    notes: Vec<Note>,
    /// Tenants whose actuators refuse.
    refuse: Vec<TenantId>,
}

impl Stage {
    fn new(policy: impl Policy<Signal = BandwidthSignal, Share = Throttle> + 'static, rows: Rows) -> Self {
        let now = Instant::ZERO;
        Self { policy: Box::new(policy), now, pool: Pool::default(), rows, notes: vec![], refuse: vec![] }
    }

    /// One period; puts what is asked in force.
    fn step(&mut self) {
        self.step_for(PERIOD);
    }

    fn step_for(&mut self, period: Duration) {
        let window = Window { start: self.now, end: self.now + period, mixed: false };
        self.now = window.end;
        let seen = Seen::new(window, &self.pool, &self.rows).unwrap();
        let decision = self.policy.decide(self.now, &seen);
        assert_eq!(decision.wake, PERIOD);
        assert!(decision.steady);
        self.notes = decision.notes.to_vec();
        let shares: Vec<_> = decision.shares.rows().to_vec();
        for ((id, share), row) in shares.iter().zip(&mut self.rows) {
            assert_eq!(*id, row.id);
            let refused = self.refuse.contains(id);
            row.in_force = Some(if refused { row.in_force.unwrap_or_default() } else { *share });
        }
    }

    /// Gives a tenant a rate of one kind over the next period.
    fn runs(&mut self, at: usize, kind: Kind, rate_gb: f64) {
        let bytes = only(kind, Bytes(gb(rate_gb * PERIOD.as_secs_f64())));
        self.rows[at].signal = Some(BandwidthSignal {
            bytes,
            accesses: only(kind, bytes.get(kind).0 / 256),
            threads: 6,
            ..BandwidthSignal::default()
        });
    }

    fn latency(&mut self, ns: Option<u64>) {
        self.pool.latency = only(Kind::SlowRead, ns.map(Duration::from_nanos));
    }

    fn share(&self, at: usize) -> Throttle {
        self.rows[at].in_force.unwrap()
    }

    fn noted(&self, word: &str) -> usize {
        self.notes.iter().filter(|note| note.reason.word() == word).count()
    }
}

fn thresholds() -> Thresholds {
    Thresholds::new(only(Kind::SlowRead, Some(Duration::from_nanos(1_000)))).unwrap()
}

/// Kinds that cost 1, 4, 3 and 10 of 100 GB/s per byte.
fn model() -> EmpiricalModel {
    let most = Kinds { dram_read: 100, dram_write: 24, slow_read: 36, slow_write: 10 };
    let axes = Kinds::from_fn(|kind| Axis::even(BytesPerSec(most.get(kind) * GB), 8).unwrap());
    let run = |wanted: Kinds<f64>| {
        let used =
            wanted.dram_read + 4.0 * wanted.dram_write + 3.0 * wanted.slow_read + 10.0 * wanted.slow_write;
        Kinds::from_fn(|kind| wanted.get(kind) * (1e11 / used.max(1e11)))
    };
    EmpiricalModel::measured(0, axes, run).unwrap()
}

/// The rate that a tenant of the toy plant makes: proportional to CPU time; MBA holds DRAM and reads back.
fn toy_rate(throttle: &Throttle, kind: Kind, free_gb: f64) -> f64 {
    let cpu = throttle.cpu.map_or(1.0, |cpu| f64::from(cpu) / 6000.0);
    let mba = if kind == Kind::SlowWrite { 1.0 } else { (f64::from(throttle.mba) / 60.0).min(1.0) };
    let capped = throttle.cap.get(kind).map_or(f64::INFINITY, |cap| cap.0 as f64 / 1e9);
    (free_gb * cpu * mba).min(capped)
}

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

#[test]
fn no_input_makes_a_policy_panic() {
    let policies: [fn() -> Boxed; 9] = [
        || Box::new(Prevention::default()),
        || Box::new(Remedy::new(thresholds())),
        || Box::new(Guarantee::new(model())),
        || Box::new(Slo::new(model(), thresholds())),
        || Box::new(BandwidthLimit::default()),
        || Box::new(ThrottleBiggest::default()),
        || Box::new(mba_only(thresholds())),
        || Box::new(cpu_only(thresholds())),
        || Box::new(Tighter::new(Prevention::default(), Remedy::new(thresholds()))),
    ];
    for (which, policy) in policies.iter().enumerate() {
        for seed in 0..40 {
            random_run(policy(), seed, which);
        }
    }
}

/// Rows that come and go, signals that are missing, time that stands still, numbers at their ends.
fn random_run(mut policy: Boxed, seed: u64, which: usize) {
    let mut rng = Rng::new(seed);
    let mut now = Instant::ZERO;
    let mut in_force: Vec<(TenantId, Throttle)> = Vec::new();
    for step in 0..60 {
        let mut rows: Rows = Vec::new();
        for id in 0..6_u32 {
            if rng.index(5) == 0 {
                continue;
            }
            let known = in_force.iter().find(|(known, _)| known.0 == id).map(|(_, share)| *share);
            rows.push(random_row(&mut rng, id, known));
        }
        let length = [Duration::ZERO, Duration(1), PERIOD, Duration::from_secs(3_600)][rng.index(4)];
        let window = Window { start: now, end: now + length, mixed: rng.index(3) == 0 };
        now = window.end;
        let latency = |rng: &mut Rng| match rng.index(4) {
            0 => None,
            1 => Some(Duration(u64::MAX)),
            _ => Some(Duration(rng.index(3_000) as u64)),
        };
        let pool = Pool { latency: Kinds::from_fn(|_| latency(&mut rng)), ..Pool::default() };
        let seen = Seen::new(window, &pool, &rows).unwrap();
        let decision = policy.decide(now, &seen);
        assert_eq!(decision.shares.rows().len(), rows.len(), "policy {which} seed {seed} step {step}");
        for ((_, share), row) in decision.shares.rows().iter().zip(&rows) {
            assert!(
                row.claim.class != Class::Exempt || *share == Throttle::FREE,
                "policy {which} seed {seed}"
            );
            assert!((10..=100).contains(&share.mba), "policy {which} seed {seed}");
        }
        if rng.index(4) != 0 {
            in_force = decision.shares.rows().to_vec();
        }
    }
}

fn random_row(rng: &mut Rng, id: u32, in_force: Option<Throttle>) -> Row<BandwidthSignal, Throttle> {
    let amount = |rng: &mut Rng| [0, 1, gb(rng.index(100) as f64), u64::MAX >> 12][rng.index(4)];
    let class = match rng.index(4) {
        0 => Class::Exempt,
        1 => Class::Critical { goal: Goal::Bandwidth(Kinds::from_fn(|_| BytesPerSec(amount(rng)))) },
        _ => Class::BestEffort,
    };
    let levers = match rng.index(3) {
        0 => Levers::default(),
        1 => host(),
        _ => Levers { brake: Kinds::from_fn(|_| rng.index(2) == 0), ..host() },
    };
    let caps = Kinds::from_fn(|_| (rng.index(2) == 0).then(|| BytesPerSec(amount(rng))));
    let ceiling = Amount { bandwidth: BytesPerSec(amount(rng)), ..Amount::default() };
    let signal = BandwidthSignal {
        bytes: Kinds::from_fn(|_| Bytes(amount(rng))),
        accesses: Kinds::from_fn(|_| amount(rng)),
        sampled: Kinds::from_fn(|_| rng.index(8) == 0),
        threads: [0, 1, u16::MAX][rng.index(3)],
        ..BandwidthSignal::default()
    };
    Row {
        id: TenantId(id),
        claim: Claim { class, levers, caps, ceiling: Some(ceiling), ..Claim::default() },
        signal: (rng.index(4) != 0).then_some(signal),
        in_force,
    }
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
