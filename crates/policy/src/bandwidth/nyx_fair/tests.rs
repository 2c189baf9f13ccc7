//! `fair-slowdown` on a plant written by hand: the tier serves so many bytes, whoever asks for more gets its part.

use super::*;
use crate::bandwidth::testing::whole;
use crate::bandwidth::testing::{Case, Decided, Did as _, decide, tenant, window};
use crate::estimate::stand_alone::Turn;
use control::{Claim, Slowdown, Weight};
use units::Rng;

const THREADS: u16 = 8;

/// One tenant: what it reads alone, and how much of a neighbour's traffic it suffers.
#[derive(Clone, Copy)]
struct Load {
    alone_mb: f64,
    suffers: f64,
}

/// Each tenant's time per access grows with the traffic of the others, by as much as it suffers.
struct Plant {
    rows: Vec<Case>,
    loads: Vec<Load>,
    now_us: u64,
    noise: f64,
    rng: Rng,
    /// Of whom each incident was.
    incidents: Vec<Option<TenantId>>,
    /// How often an incident was in a decision and in none of the one before.
    begun: u32,
    is_incident: bool,
}

impl Plant {
    fn new(loads: &[(f64, f64)], claims: &[Claim]) -> Self {
        let rows = (1..).zip(loads).map(|(id, _)| {
            let claim = claims.get(id as usize - 1).cloned().unwrap_or_default();
            tenant(id, claim)
        });
        Self {
            rows: rows.collect(),
            loads: loads.iter().map(|&(alone_mb, suffers)| Load { alone_mb, suffers }).collect(),
            now_us: 0,
            noise: 0.0,
            rng: Rng::new(7),
            incidents: Vec::new(),
            begun: 0,
            is_incident: false,
        }
    }

    fn free_mb(&self, at: usize) -> f64 {
        let throttle = self.rows[at].in_force.unwrap_or_default();
        let busy = 256_000.0 * f64::from(THREADS);
        let ns = busy / self.loads[at].alone_mb + f64::from(throttle.delay) * 10.0;
        if throttle.paused { 0.0 } else { busy / ns }
    }

    fn rates(&self) -> Vec<f64> {
        let count = self.rows.len();
        let mut rates: Vec<f64> = (0..count).map(|at| self.free_mb(at)).collect();
        for _ in 0..50 {
            let total: f64 = rates.iter().sum();
            let next: Vec<f64> = (0..count)
                .map(|at| {
                    let others = total - rates[at];
                    self.free_mb(at) / (1.0 + self.loads[at].suffers * others / 1e4)
                })
                .collect();
            rates = next;
        }
        rates
    }

    fn slowdowns(&self) -> Vec<f64> {
        self.rates().iter().zip(&self.loads).map(|(rate, load)| load.alone_mb / rate).collect()
    }

    fn step(&mut self, policy: &mut FairSlowdown, last: Duration) -> Decided {
        let rates = self.rates();
        for (row, rate) in self.rows.iter_mut().zip(rates) {
            let noisy = rate * (1.0 + self.noise * (self.rng.unit() - 0.5));
            // In KB per second: who is held back most reads less than one MB.
            row.reads(whole(noisy * 1e3), Duration(last.0 / 1_000)).threads = THREADS;
        }
        let start = self.now_us;
        self.now_us += last.0 / 1_000;
        let mut span = window(0, 0);
        span.start = Instant(start * 1_000);
        span.end = Instant(self.now_us * 1_000);
        decide(policy, &mut self.rows, span)
    }

    fn run(&mut self, policy: &mut FairSlowdown, seconds: u64) -> u32 {
        let (mut wake, mut probes) = (Duration::ZERO, 0);
        let end = self.now_us + seconds * 1_000_000;
        while self.now_us < end || self.rows.iter().any(|row| row.in_force == Some(Throttle::PAUSED)) {
            let decided = self.step(policy, wake);
            wake = decided.wake;
            probes += u32::from(!decided.steady);
            let incidents = decided.notes.iter().filter(|note| matches!(note.reason, Reason::Incident(_)));
            let known = self.incidents.len();
            self.incidents.extend(incidents.map(|note| note.tenant));
            let is_incident = known < self.incidents.len();
            self.begun += u32::from(is_incident && !std::mem::replace(&mut self.is_incident, is_incident));
            self.is_incident = is_incident;
        }
        probes
    }
}

fn unfairness(slowdowns: &[f64]) -> f64 {
    let most = slowdowns.iter().copied().fold(f64::MIN, f64::max);
    most / slowdowns.iter().copied().fold(f64::MAX, f64::min)
}

#[test]
fn slowdowns_become_equal() {
    for (seed, noise) in [(1, 0.0), (2, 0.02), (3, 0.04)] {
        let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
        plant.noise = noise;
        let before = plant.slowdowns();
        assert!(1.5 < unfairness(&before), "{before:?}");
        plant.run(&mut FairSlowdown::new(Pause::default(), seed), 30);
        let after = plant.slowdowns();
        assert!(unfairness(&after) < 1.08, "seed {seed}: {before:?} -> {after:?}");
        assert!(after[0] < before[0], "the one slowed down most gains");
    }
}

#[test]
fn weights_make_slowdown_times_weight_equal() {
    let weight = |w| Claim { weight: Weight::new(w).unwrap(), ..Claim::default() };
    let mut plant = Plant::new(&[(3_000.0, 3.0), (3_000.0, 3.0)], &[weight(1.0), weight(1.5)]);
    plant.run(&mut FairSlowdown::new(Pause::default(), 4), 30);
    let slowdowns = plant.slowdowns();
    let ratio = slowdowns[0] / slowdowns[1];
    assert!((1.4..1.6).contains(&ratio), "{slowdowns:?}");
}

#[test]
fn nobody_is_paused_for_a_hard_limit_that_cannot_be_kept() {
    let goal = Goal::Slowdown(Slowdown::new(1.01).unwrap());
    let claim = Claim { class: Class::Critical { goal }, ..Claim::default() };
    // Who waits for as long as may be reads 1 MB/s, and that is too much.
    let mut plant = Plant::new(&[(1_500.0, 1_000.0), (6_000.0, 1.0)], &[claim]);
    plant.run(&mut FairSlowdown::new(Pause::default(), 8), 60);
    assert!(
        plant.incidents.iter().all(|tenant| *tenant == Some(TenantId(1))),
        "it is whose limit is not kept"
    );
    assert!(!plant.incidents.is_empty());
    assert!(1.01 < plant.slowdowns()[0], "{:?}", plant.slowdowns());
    let held = plant.rows[1].in_force.unwrap();
    assert_eq!((held.delay, held.paused), (crate::bandwidth::regulator::DELAY_MAX, false));
}

#[test]
fn a_limit_that_cannot_be_kept_is_said_in_every_decision_until_it_can_be() {
    let goal = Goal::Slowdown(Slowdown::new(1.01).unwrap());
    let claim = Claim { class: Class::Critical { goal }, ..Claim::default() };
    let mut plant = Plant::new(&[(1_500.0, 1_000.0), (6_000.0, 1.0)], &[claim]);
    let mut policy = FairSlowdown::new(Pause::default(), 8);
    plant.run(&mut policy, 60);
    let probes = plant.run(&mut policy, 60);
    assert!(100 < probes, "experiments and the decisions after them go on: {probes}");
    assert_eq!((plant.begun, plant.is_incident), (1, true), "it goes on over all of them");
    // The neighbour no longer disturbs.
    plant.loads[0].suffers = 0.0;
    plant.run(&mut policy, 5);
    assert_eq!((plant.begun, plant.is_incident), (1, false));
    // Who has no limit any more has none that is not kept.
    plant.loads[0].suffers = 1_000.0;
    plant.run(&mut policy, 60);
    assert!(plant.is_incident);
    plant.rows[0].claim.class = Class::BestEffort;
    let decided = plant.step(&mut policy, Duration::ZERO);
    assert!(!decided.notes.iter().any(|note| matches!(note.reason, Reason::Incident(_))));
}

/// What is aimed at is less than a limit, and nobody is told of a limit that is kept.
#[test]
fn a_limit_that_is_kept_and_not_aimed_at_is_no_incident() {
    let course = |limit: f64| {
        let goal = Goal::Slowdown(Slowdown::new(limit).unwrap());
        let claim = Claim { class: Class::Critical { goal }, ..Claim::default() };
        let mut plant = Plant::new(&[(1_500.0, 1_000.0), (6_000.0, 1.0)], &[claim]);
        plant.run(&mut FairSlowdown::new(Pause::default(), 8), 60);
        let held = plant.rows[1].in_force.unwrap().delay;
        assert_eq!(held, crate::bandwidth::regulator::DELAY_MAX, "nobody is left to hold back");
        plant
    };
    let least = course(1.01).slowdowns()[0];
    let by = |part: f64| 1.0 + (least - 1.0) / part;
    assert!(course(by(1.02)).is_incident);
    assert!(!course(by(0.95)).is_incident && 1.0 < least);
}

/// Of two with limits one may be further beyond what is aimed at, and the other beyond its limit: that one's is not kept.
#[test]
fn whose_limit_is_not_kept_is_told_beside_who_is_worse_against_its_aim() {
    let critical = |limit: f64| {
        let goal = Goal::Slowdown(Slowdown::new(limit).unwrap());
        Claim { class: Class::Critical { goal }, ..Claim::default() }
    };
    let loads = [(1_500.0, 1_000.0), (1_500.0, 100.0), (6_000.0, 1.0)];
    let slowdowns = {
        let mut plant = Plant::new(&loads, &[critical(1.01), critical(1.01)]);
        plant.run(&mut FairSlowdown::new(Pause::default(), 8), 60);
        plant.slowdowns()
    };
    let claims = [critical(1.0 + (slowdowns[0] - 1.0) / 0.97), critical(1.0 + (slowdowns[1] - 1.0) / 1.03)];
    let mut plant = Plant::new(&loads, &claims);
    plant.run(&mut FairSlowdown::new(Pause::default(), 8), 60);
    let over = |at: usize, part: f64| plant.slowdowns()[at] / (1.0 + (limit_of(&claims[at]) - 1.0) * part);
    assert!(over(1, 0.91) < over(0, 0.91) && over(0, 1.0) < 1.0 && 1.0 < over(1, 1.0));
    assert_eq!((plant.is_incident, plant.incidents.last()), (true, Some(&Some(TenantId(2)))));
}

fn limit_of(claim: &Claim) -> f64 {
    let Class::Critical { goal: Goal::Slowdown(limit) } = claim.class else { panic!("{claim:?}") };
    limit.get()
}

#[test]
fn who_is_given_a_hard_limit_while_it_is_held_back_is_let_go() {
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let mut policy = FairSlowdown::new(Pause::default(), 6);
    plant.run(&mut policy, 10);
    assert_ne!(plant.rows[1].in_force, Some(Throttle::FREE));
    let goal = Goal::Slowdown(Slowdown::new(1.5).unwrap());
    plant.rows[1].claim.class = Class::Critical { goal };
    plant.run(&mut policy, 1);
    assert_eq!(plant.rows[1].in_force, Some(Throttle::FREE));
}

#[test]
fn a_hard_limit_holds_all_others_back() {
    let goal = Goal::Slowdown(Slowdown::new(1.5).unwrap());
    let claim = Claim { class: Class::Critical { goal }, ..Claim::default() };
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0), (2_000.0, 1.0)], &[claim]);
    assert!(2.0 < plant.slowdowns()[0]);
    let mut policy = FairSlowdown::new(Pause::default(), 5);
    plant.run(&mut policy, 30);
    let after = plant.slowdowns();
    assert!((1.3..1.53).contains(&after[0]), "{after:?}");
    // The day ends: the neighbours no longer disturb, and are let go.
    for load in &mut plant.loads {
        load.suffers = 0.01;
    }
    plant.run(&mut policy, 60);
    let after = plant.slowdowns();
    assert!(after.iter().all(|&slowdown| slowdown < 1.1), "{after:?}");
}

#[test]
fn once_fair_throttles_are_relaxed_for_utilisation() {
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    plant.run(&mut policy, 20);
    let before = plant.rows[1].in_force.unwrap().delay;
    plant.loads[0].suffers = 1.0;
    plant.loads[0].alone_mb = 6_000.0;
    plant.run(&mut policy, 60);
    let after = plant.rows[1].in_force.unwrap().delay;
    assert!(after * 2 < before, "from {before} to {after} units of delay");
}

#[test]
fn probes_cost_little_and_are_short_decisions() {
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0), (500.0, 1.0)], &[]);
    let probes = plant.run(&mut FairSlowdown::new(Pause::default(), 1), 100);
    assert!((250..350).contains(&probes), "each of three about once a second: {probes}");
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let decided = plant.step(&mut policy, Duration::ZERO);
    assert!(!decided.steady);
    assert_eq!(
        (decided.wake, decided.shares[0].1, decided.shares[1].1),
        (PAUSE, Throttle::FREE, Throttle::PAUSED)
    );
}

#[test]
fn who_does_nothing_is_not_watched_alone() {
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0), (0.001, 1.0)], &[]);
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    let (mut wake, mut of_idle, mut all) = (Duration::ZERO, 0, 0);
    for _ in 0..2_000 {
        let decided = plant.step(&mut policy, wake);
        wake = decided.wake;
        all += u32::from(!decided.steady);
        of_idle +=
            u32::from(!decided.steady && policy.probing.is_some_and(|probe| probe.alone == TenantId(3)));
    }
    assert!(of_idle <= 2 && 100 < all, "{of_idle} of {all}");
}

/// A request every 20 ms is met in one pause of twenty, and nobody slows it down.
#[test]
fn who_makes_few_requests_is_not_taken_for_slowed_down() {
    for seed in 1..=3 {
        let mut policy = FairSlowdown::new(Pause::default(), seed);
        let mut rows = [tenant(1, Claim::default()), tenant(2, Claim::default())];
        let (mut now, mut wake, mut waiting) = (0, Duration::ZERO, 0);
        let every = 20_000_000;
        while now < 60_000_000_000 {
            let mut span = window(0, 0);
            (span.start, span.end) = (Instant(now), Instant(now + wake.0));
            let [light, heavy] = rows.each_ref().map(|row| row.in_force.is_some_and(|held| held.paused));
            waiting += span.end.0 / every - span.start.0 / every;
            let done = if light { 0 } else { std::mem::take(&mut waiting) };
            let signal = rows[0].reads(0, wake);
            (signal.operations, signal.accesses.slow_read) = (done, done);
            signal.bytes.slow_read = units::Bytes(4096 * done);
            rows[1].reads(if heavy { 0 } else { 2_000 }, wake).threads = THREADS;
            now = span.end.0;
            let decided = decide(&mut policy, &mut rows, span);
            wake = decided.wake;
            let slowed =
                decided.notes.iter().find(|note| note.reason == Reason::Slowed && 1_500 < note.amount);
            assert_eq!(slowed, None, "seed {seed}");
            let held = decided.shares.iter().all(|(_, throttle)| throttle.delay == 0);
            assert!(held, "seed {seed}: nobody is held back for it");
        }
    }
}

/// Who has stopped makes no operations: what a cleaner moves of its values is no slow performance of its own.
#[test]
fn what_a_cleaner_moves_for_who_has_stopped_slows_nobody_down() {
    let mut plant = Plant::new(&[(6_000.0, 0.0), (6_000.0, 0.0), (6_000.0, 0.0)], &[]);
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    plant.run(&mut policy, 10);
    let (mut wake, mut probes) = (Duration::ZERO, [0; 3]);
    for _ in 0..2_000 {
        let rates = plant.rates();
        for (at, row) in plant.rows.iter_mut().enumerate() {
            // A fortieth of what it read, whoever pauses.
            let mb = if at == 0 { 150 } else { whole(rates[at]) };
            let signal = row.reads(mb, wake);
            signal.threads = THREADS;
            signal.operations *= u64::from(at != 0);
        }
        let mut span = window(0, 0);
        span.start = Instant(plant.now_us * 1_000);
        plant.now_us += wake.0 / 1_000;
        span.end = Instant(plant.now_us * 1_000);
        let decided = decide(&mut policy, &mut plant.rows, span);
        wake = decided.wake;
        let told = decided.notes.iter().find(|note| note.reason == Reason::Slowed && 1_100 < note.amount);
        assert_eq!(told, None);
        let held = decided.shares.iter().all(|(_, throttle)| throttle.delay == 0);
        assert!(held, "nobody is held back for it: {:?}", decided.shares);
        if let Some(probe) = policy.probing {
            probes[probe.alone.index() - 1] += 1;
        }
    }
    assert!(probes[0] <= 2 && 100 < probes[1], "who has stopped is not watched: {probes:?}");
}

#[test]
fn a_pause_counts_when_it_has_settled() {
    let settle = Duration::from_micros(500);
    let mut policy = FairSlowdown::new(Pause::new(settle, None), 1);
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let first = plant.step(&mut policy, Duration::ZERO);
    assert_eq!((first.wake, first.steady), (settle, false));
    let second = plant.step(&mut policy, first.wake);
    assert_eq!((second.wake, second.steady, &second.shares), (PAUSE, false, &first.shares), "the same pause");
    assert_eq!(policy.members[0].alone.turn(), Turn::AtOnce, "nothing was learnt of the first part");
    let third = plant.step(&mut policy, second.wake);
    assert_ne!(policy.members[0].alone.turn(), Turn::AtOnce);
    assert_eq!(third.shares[1].1, Throttle::FREE, "the other one's turn");
    // Somebody asks for a decision before it has settled.
    let cut = plant.step(&mut policy, Duration(settle.0 / 2));
    assert_eq!((cut.wake, policy.members[1].alone.turn()), (settle, Turn::AtOnce), "it settles anew");
}

/// Who is alone finds the processor's caches full of what another moved, and does a tenth less for ten milliseconds.
#[test]
fn a_pause_counts_when_the_caches_are_ones_own_again() {
    let slow = Pause::new(Duration::from_micros(500), Some(Duration(6_250)));
    let mut policy = FairSlowdown::new(slow, 1);
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let (mut wake, mut alone_for, mut told) = (Duration::ZERO, Duration::ZERO, [Vec::new(), Vec::new()]);
    while plant.now_us < 20_000_000 {
        let (truth, rates) = (plant.slowdowns(), plant.rates());
        let paused = |row: &Case| row.in_force == Some(Throttle::PAUSED);
        let is_alone = plant.rows.iter().any(paused);
        let cold = Duration(Duration::from_millis(10).0.saturating_sub(alone_for.0).min(wake.0));
        for (row, rate) in plant.rows.iter_mut().zip(rates) {
            let part = if is_alone { 1.0 - 0.1 * cold.0 as f64 / wake.0.max(1) as f64 } else { 1.0 };
            row.reads(whole(rate * part * 1e3), Duration(wake.0 / 1_000)).threads = THREADS;
        }
        alone_for = if is_alone { Duration(alone_for.0 + wake.0) } else { Duration::ZERO };
        let mut span = window(0, 0);
        span.start = Instant(plant.now_us * 1_000);
        plant.now_us += wake.0 / 1_000;
        span.end = Instant(plant.now_us * 1_000);
        wake = decide(&mut policy, &mut plant.rows, span).wake;
        if !is_alone && 5_000_000 < plant.now_us {
            for ((told, (_, member)), truth) in told.iter_mut().zip(policy.members.iter()).zip(truth) {
                told.extend(member.slowdown.map(|slowdown| slowdown / truth));
            }
        }
    }
    for told in told {
        let mean = told.iter().sum::<f64>() / told.len() as f64;
        assert!(100 < told.len() && (mean - 1.0).abs() < 0.01, "{mean} of what it is, {} times", told.len());
    }
}

#[test]
fn one_tenant_or_none_is_left_alone() {
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    let mut plant = Plant::new(&[(1_500.0, 4.0)], &[]);
    assert_eq!(plant.run(&mut policy, 3), 0, "no probes");
    assert_eq!(plant.rows[0].in_force, Some(Throttle::FREE));
    plant.rows.clear();
    plant.loads.clear();
    assert!(plant.step(&mut policy, PERIOD).shares.is_empty());
}

#[test]
fn the_exempt_are_neither_paused_nor_held_back() {
    let exempt = Claim { class: Class::Exempt, ..Claim::default() };
    let mut plant = Plant::new(&[(6_000.0, 1.0), (1_500.0, 4.0), (1_500.0, 4.0)], &[exempt]);
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    let mut wake = Duration::ZERO;
    for _ in 0..500 {
        let decided = plant.step(&mut policy, wake);
        wake = decided.wake;
        assert_eq!(decided.shares[0].1, Throttle::FREE);
    }
}

#[test]
fn a_probed_tenant_may_die_and_another_come() {
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    let mut wake = plant.step(&mut policy, Duration::ZERO).wake;
    assert_eq!(policy.probing.map(|probe| probe.alone), Some(TenantId(1)));
    plant.rows.remove(0);
    plant.loads.remove(0);
    plant.rows.push(tenant(9, Claim::default()));
    plant.loads.push(Load { alone_mb: 1_500.0, suffers: 4.0 });
    for _ in 0..2_000 {
        wake = plant.step(&mut policy, wake).wake;
    }
    let slowdowns = plant.slowdowns();
    assert!(
        plant.rows.iter().any(|row| row.in_force == Some(Throttle::PAUSED)) || unfairness(&slowdowns) < 1.1
    );
}

#[test]
fn missing_signals_and_mixed_windows_move_nobody() {
    let mut plant = Plant::new(&[(1_500.0, 4.0), (6_000.0, 1.0)], &[]);
    let mut policy = FairSlowdown::new(Pause::default(), 1);
    let mut span = window(0, 0);
    for step in 0..1_000_u64 {
        for row in &mut plant.rows {
            row.reads(1_000, PAUSE);
            if step % 2 == 0 {
                row.signal = None;
            }
        }
        span.mixed = step % 2 == 1;
        let decided = decide(&mut policy, &mut plant.rows, span);
        span.start = span.end;
        span.end += decided.wake;
        assert!(!decided.notes.iter().any(|note| note.reason == Reason::Tightened));
    }
}
