//! `qos` on a plant written by hand: every tenant slows the critical ones by so much per GB/s that it reads.

mod promised;

use super::*;
use crate::bandwidth::mt2_model::Axis;
use crate::bandwidth::nyx_admission::{Refused, Standing};
use crate::bandwidth::testing::whole;
use crate::bandwidth::testing::{Case, Decided, Did as _, decide, tenant};
use control::{Claim, Goal, Quantile};
use std::collections::BTreeMap;

const GOAL: Duration = Duration::from_micros(1);

fn critical() -> Claim {
    let quantile = Quantile::new(0.99).unwrap();
    let goal = Goal::Latency { quantile, at_most: GOAL };
    Claim { class: Class::Critical { goal }, ..Claim::default() }
}

/// Latency of every critical tenant is its base and what each neighbour's GB/s add, in parts of the goal.
struct Plant {
    rows: Vec<Case>,
    free_mb: BTreeMap<u32, u64>,
    harm: BTreeMap<u32, f64>,
    base: BTreeMap<u32, f64>,
    now_ms: u64,
}

impl Plant {
    fn new(critical_at: &[(u32, f64)], others: &[(u32, u64, f64)]) -> Self {
        let mut plant = Self {
            rows: Vec::new(),
            free_mb: BTreeMap::new(),
            harm: BTreeMap::new(),
            base: critical_at.iter().copied().collect(),
            now_ms: 0,
        };
        for &(id, _) in critical_at {
            plant.rows.push(tenant(id, critical()));
            plant.free_mb.insert(id, 1_000);
        }
        for &(id, mb, harm) in others {
            plant.add(id, mb, harm);
        }
        plant
    }

    fn add(&mut self, id: u32, mb: u64, harm: f64) {
        self.rows.push(tenant(id, Claim::default()));
        self.rows.sort_by_key(|row| row.id);
        self.free_mb.insert(id, mb);
        self.harm.insert(id, harm);
    }

    fn rate_mb(&self, row: &Case) -> u64 {
        let throttle = row.in_force.unwrap_or_default();
        let ns = 256_000.0 / self.free_mb[&row.id.0] as f64 + f64::from(throttle.delay) * 10.0;
        if throttle.paused { 0 } else { whole(256_000.0 / ns) }
    }

    /// What a window of `span` shows under what is in force.
    fn measure(&mut self, span: Duration) {
        let rates: Vec<_> = self.rows.iter().map(|row| (row.id.0, self.rate_mb(row))).collect();
        let load: f64 =
            rates.iter().map(|(id, mb)| self.harm.get(id).unwrap_or(&0.0) * *mb as f64 / 1e3).sum();
        for (row, (id, mb)) in self.rows.iter_mut().zip(rates) {
            let base = self.base.get(&id).copied();
            let signal = row.reads(mb, span);
            let base = base.filter(|_| 0 < signal.operations);
            signal.tail_latency = base.map(|base| Duration(whole((base + load) * GOAL.0 as f64)));
        }
    }

    fn step(&mut self, policy: &mut Qos, last: Duration) -> Decided {
        self.measure(last);
        let start = self.now_ms;
        self.now_ms += last.as_millis();
        decide(policy, &mut self.rows, crate::bandwidth::testing::window(start, self.now_ms))
    }

    /// Runs until nothing was held back further or let go for ten steady windows; who was held back, in order.
    fn settle(&mut self, policy: &mut Qos) -> Vec<u32> {
        let (mut order, mut quiet, mut wake) = (Vec::new(), 0, Duration::ZERO);
        for _ in 0..500 {
            let decided = self.step(policy, wake);
            wake = decided.wake;
            let moved: Vec<_> = decided.notes.iter().filter(|n| n.reason == Reason::Tightened).collect();
            quiet = if moved.is_empty() && decided.steady { quiet + 1 } else { 0 };
            order.extend(moved.iter().filter_map(|n| n.tenant).map(|id| id.0));
            if 10 < quiet {
                return order;
            }
        }
        panic!("still moving after {order:?}")
    }

    fn held(&self, id: u32) -> Throttle {
        self.rows.iter().find(|row| row.id.0 == id).and_then(|row| row.in_force).unwrap_or_default()
    }
}

fn policy(seed: u64) -> Qos {
    Qos::new(EXPERIMENT_STEP, seed)
}

#[test]
fn only_the_culprit_is_held_back_though_another_is_bigger() {
    for seed in 1..=3 {
        let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_400, 0.05), (3, 1_000, 0.6)]);
        let order = plant.settle(&mut policy(seed));
        assert!(!order.is_empty() && order.iter().all(|&id| id == 3), "seed {seed}: {order:?}");
        assert_eq!(plant.held(2), Throttle::FREE, "seed {seed}");
    }
}

#[test]
fn with_one_candidate_there_is_no_experiment() {
    let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_000, 0.4)]);
    let mut policy = policy(1);
    let mut wake = Duration::ZERO;
    for _ in 0..20 {
        let decided = plant.step(&mut policy, wake);
        assert!(decided.steady);
        assert_eq!(decided.wake, TAIL_WINDOW);
        wake = decided.wake;
    }
    assert_ne!(plant.held(2), Throttle::FREE);
}

#[test]
fn experiments_are_short_unsteady_and_leave_nothing_behind() {
    let mut plant = Plant::new(&[(1, 0.7)], &[(2, 2_400, 0.05), (3, 2_000, 0.2)]);
    let mut policy = policy(2);
    let mut wake = Duration::ZERO;
    let mut trials = 0;
    loop {
        let decided = plant.step(&mut policy, wake);
        wake = decided.wake;
        if decided.notes.iter().any(|note| note.reason == Reason::Tightened) {
            assert!(decided.steady, "the finding stays");
            break;
        }
        if !decided.steady {
            trials += 1;
            assert!(decided.notes.iter().any(|note| note.reason == Reason::Experiment));
            let held = decided.shares.iter().filter(|(_, throttle)| *throttle != Throttle::FREE).count();
            assert!(held <= 1, "one candidate at a time, or nobody");
        }
    }
    assert_eq!(trials, 6, "two rounds of nobody and two candidates");
    assert_eq!(plant.held(2), Throttle::FREE);
    assert_ne!(plant.held(3), Throttle::FREE);
}

#[test]
fn all_have_slack_so_all_are_let_go() {
    let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_000, 0.4)]);
    let mut policy = policy(1);
    plant.settle(&mut policy);
    assert_ne!(plant.held(2), Throttle::FREE);
    plant.base.insert(1, 0.0);
    plant.harm.insert(2, 0.1);
    plant.settle(&mut policy);
    assert_eq!(plant.held(2), Throttle::FREE);
}

#[test]
fn without_best_effort_a_critical_tenant_with_slack_gives() {
    let mut plant = Plant::new(&[(1, 0.9), (2, 0.0), (3, 0.55)], &[]);
    plant.harm.extend([(2, 0.3), (3, 0.01)]);
    let order = plant.settle(&mut policy(1));
    assert!(!order.is_empty() && order.iter().all(|&id| id == 2), "{order:?}");
}

#[test]
fn if_all_have_little_slack_the_one_with_most_gives() {
    let mut plant = Plant::new(&[(1, 0.8), (2, 0.65), (3, 0.6)], &[]);
    plant.harm.extend([(2, 0.1), (3, 0.15)]);
    let order = plant.settle(&mut policy(1));
    assert_eq!(order.first(), Some(&3));
}

#[test]
fn who_comes_or_goes_ends_the_experiment_and_another_begins() {
    for departs in [false, true] {
        let mut plant = Plant::new(&[(1, 0.6)], &[(2, 2_000, 0.05), (3, 1_000, 0.5), (4, 900, 0.01)]);
        let mut policy = policy(5);
        let mut wake = Duration::ZERO;
        for _ in 0..4 {
            wake = plant.step(&mut policy, wake).wake;
        }
        assert!(policy.interference.victim().is_some(), "an experiment is under way");
        if departs {
            plant.rows.retain(|row| row.id != TenantId(4));
        } else {
            plant.add(5, 800, 0.02);
        }
        let decided = plant.step(&mut policy, wake);
        assert!(decided.steady, "it ends");
        let order = plant.settle(&mut policy);
        assert!(!order.is_empty() && order.iter().all(|&id| id == 3), "{order:?}");
    }
}

#[test]
fn the_victim_may_die_in_mid_experiment() {
    let mut plant = Plant::new(&[(1, 0.8)], &[(2, 2_000, 0.05), (3, 1_000, 0.5)]);
    let mut policy = policy(5);
    let mut wake = Duration::ZERO;
    for _ in 0..4 {
        wake = plant.step(&mut policy, wake).wake;
    }
    plant.rows.retain(|row| row.id != TenantId(1));
    assert!(plant.step(&mut policy, wake).steady);
    plant.settle(&mut policy);
    assert_eq!((plant.held(2), plant.held(3)), (Throttle::FREE, Throttle::FREE));
}

#[test]
fn missing_signals_and_mixed_windows_decide_nothing() {
    let mut plant = Plant::new(&[(1, 0.8)], &[(2, 2_000, 0.05), (3, 1_000, 0.5)]);
    let mut policy = policy(3);
    let mut wake = plant.step(&mut policy, Duration::ZERO).wake;
    let mut given_up = false;
    for round in 0..40 {
        plant.measure(wake);
        let mut window = crate::bandwidth::testing::window(plant.now_ms, plant.now_ms + wake.as_millis());
        plant.now_ms += wake.as_millis();
        if 2 <= round && round % 2 == 0 {
            plant.rows[0].signal = None;
        } else if 2 <= round {
            window.mixed = true;
        }
        let decided = decide(&mut policy, &mut plant.rows, window);
        given_up |= decided.notes.iter().any(|note| matches!(note.reason, Reason::Fallback(_)));
        wake = decided.wake;
        assert!(!decided.notes.iter().any(|note| note.reason == Reason::Tightened), "round {round}");
    }
    assert!(given_up, "an experiment that cannot be seen ends");
    let order = plant.settle(&mut policy);
    assert!(order.iter().all(|&id| id == 3) && !order.is_empty(), "{order:?}");
}

#[test]
fn a_tail_of_few_operations_gets_longer_windows() {
    let longer = [500, 1_000, 2_000, 4_000, 4_000, 4_000];
    for (class, windows_ms) in [(critical().class, longer), (keeps(1_000), [500; 6])] {
        let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_000, 0.1)]);
        plant.rows[0].claim.class = class;
        let mut policy = policy(1);
        let mut wakes = Vec::new();
        let mut wake = Duration::ZERO;
        for _ in 0..6 {
            plant.measure(wake);
            if let Some(signal) = plant.rows[0].signal.as_mut() {
                signal.operations = signal.operations.min(100);
            }
            let window = crate::bandwidth::testing::window(plant.now_ms, plant.now_ms + wake.as_millis());
            plant.now_ms += wake.as_millis();
            wake = decide(&mut policy, &mut plant.rows, window).wake;
            wakes.push(wake.as_millis());
        }
        assert_eq!(wakes, windows_ms, "{class:?}");
    }
}

#[test]
fn a_critical_tenant_that_has_gone_quiet_keeps_nobody_held_back() {
    let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_000, 0.6)]);
    let mut policy = policy(1);
    plant.settle(&mut policy);
    assert_ne!(plant.held(2), Throttle::FREE);
    plant.free_mb.insert(1, 0);
    let mut wake = Duration::ZERO;
    for _ in 0..40 {
        wake = plant.step(&mut policy, wake).wake;
    }
    assert_eq!(plant.held(2), Throttle::FREE);
}

#[test]
fn who_asks_for_less_than_its_bandwidth_keeps_nobody_held_back() {
    let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_000, 0.6), (3, 1_000, 0.1)]);
    plant.rows[0].claim.class = keeps(1_000);
    plant.free_mb.insert(1, 300);
    let mut policy = policy(1);
    let (mut wake, mut held, mut noted) = (Duration::ZERO, 0, 0);
    for _ in 0..200 {
        wake = plant.step(&mut policy, wake).wake;
        held = if [2, 3].map(|id| plant.held(id)) == [Throttle::FREE; 2] { 0 } else { held + 1 };
        noted = noted.max(held);
    }
    assert!(0 < noted, "somebody was held back to see whether that helps");
    assert_eq!(held, 0, "nobody is in the end");
}

#[test]
fn who_asks_for_less_does_not_stand_in_the_way_of_another_goal() {
    let mut plant = Plant::new(&[(1, 0.5), (3, 0.5)], &[(2, 2_000, 0.6)]);
    plant.rows[0].claim.class = keeps(1_000);
    plant.free_mb.insert(1, 300);
    let (mut policy, mut wake) = (policy(1), Duration::ZERO);
    for _ in 0..200 {
        wake = plant.step(&mut policy, wake).wake;
    }
    assert_ne!(plant.held(2), Throttle::FREE);
    assert_eq!([1, 3].map(|id| plant.held(id)), [Throttle::FREE; 2]);
    let at = policy.members.at(TenantId(3)).unwrap();
    assert!(policy.members[at].slack.is_some_and(|slack| 0.0 <= slack), "its goal is kept");
}

#[test]
fn a_critical_tenant_that_is_held_back_to_nothing_is_let_go() {
    for claim in [critical(), Claim { class: keeps(500), ..Claim::default() }] {
        let mut plant = Plant::new(&[(1, 0.5), (2, 0.3)], &[]);
        plant.rows[1].claim.class = claim.class;
        let mut policy = policy(1);
        let mut wake = plant.step(&mut policy, Duration::ZERO).wake;
        let at = policy.members.at(TenantId(2)).unwrap();
        policy.members[at].held = Throttle::PAUSED;
        for _ in 0..40 {
            wake = plant.step(&mut policy, wake).wake;
        }
        assert_eq!(plant.held(2), Throttle::FREE, "{:?}", claim.class);
    }
}

#[test]
fn the_exempt_are_never_held_back_and_nobody_is_no_case() {
    let mut plant = Plant::new(&[(1, 0.8)], &[(2, 2_000, 0.4), (3, 1_000, 0.5)]);
    for row in &mut plant.rows[1..] {
        row.claim.class = Class::Exempt;
    }
    let mut policy = policy(1);
    let mut wake = Duration::ZERO;
    let mut incident = false;
    for _ in 0..10 {
        let decided = plant.step(&mut policy, wake);
        wake = decided.wake;
        incident |= decided.notes.iter().any(|note| note.reason.word() == "incident");
        assert!(decided.shares.iter().all(|(_, throttle)| *throttle == Throttle::FREE));
    }
    assert!(incident, "a goal is missed and nobody can help");
    plant.rows.clear();
    assert!(plant.step(&mut policy, wake).shares.is_empty());
}

#[test]
fn the_biggest_is_a_candidate_beside_the_three_with_most_cost() {
    let mut plant = Plant::new(&[(1, 0.8)], &[(2, 100, 0.0), (3, 90, 0.0), (4, 80, 0.0), (5, 70, 0.0)]);
    plant.add(6, 60, 0.0);
    plant.measure(TAIL_WINDOW);
    let mut policy = policy(1);
    policy.members.settle(&plant.rows, &mut Vec::new(), Member::of);
    let big = plant.rows[5].signal.as_mut().unwrap();
    big.cost = Cost(0);
    big.bytes.dram_write = Bytes(1 << 40);
    big.accesses.dram_write = 1 << 30;
    let window = crate::bandwidth::testing::window(0, 500);
    let pool = control::Pool::default();
    let seen = Seen::new(window, &pool, &plant.rows).unwrap();
    policy.choose_candidates(Instant(0), &seen, TenantId(1));
    let chosen: Vec<_> = policy.candidates.iter().map(|heavy| seen.tenants[heavy.at].id.0).collect();
    assert_eq!(chosen, [2, 3, 4, 6]);
}

fn keeps(mb: u64) -> Class {
    let asked = Kinds { slow_read: BytesPerSec(mb * 1_000_000), ..Kinds::default() };
    Class::Critical { goal: Goal::Bandwidth(asked) }
}

/// A tier of which readers get 1 GB/s together.
fn gigabyte() -> EmpiricalModel {
    gigabyte_of(0)
}

/// The same, measured on a machine of this number.
fn gigabyte_of(id: u32) -> EmpiricalModel {
    let mut axes = Kinds::from_fn(|_| Axis::unmeasured());
    axes.slow_read = Axis::even(BytesPerSec(2_000_000_000), 4).unwrap();
    let run = |wanted: Kinds<f64>| Kinds { slow_read: wanted.slow_read.min(1e9), ..Kinds::splat(0.0) };
    EmpiricalModel::measured(id, axes, run).unwrap()
}

fn incidents(decided: &Decided) -> Vec<(u32, String)> {
    let told = |note: &Note| match &note.reason {
        Reason::Incident(why) => Some((note.tenant?.0, why.to_string())),
        _ => None,
    };
    decided.notes.iter().filter_map(told).collect()
}

#[test]
fn a_goal_that_cannot_be_kept_beside_the_others_is_not_taken_on() {
    let mut plant = Plant::new(&[], &[(1, 600, 0.0), (2, 700, 0.0)]);
    plant.rows[0].claim.class = keeps(650);
    plant.rows[1].claim.class = keeps(690);
    let mut policy = policy(1).admitting(Some(gigabyte()), None);
    let mut wake = Duration::ZERO;
    for _ in 0..4 {
        let decided = plant.step(&mut policy, wake);
        wake = decided.wake;
        let told = incidents(&decided);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].0 == 2 && told[0].1.contains("beside the others' goals"), "{told:?}");
    }
    assert_ne!(
        plant.held(2),
        Throttle::FREE,
        "the one whose goal is missed has it from the one whose is not taken on"
    );
    assert_eq!(plant.held(1), Throttle::FREE);
    plant.rows.remove(0);
    assert_eq!(incidents(&plant.step(&mut policy, wake)), [], "when there is room it is taken on");
    assert_eq!(policy.members[0].class, keeps(690));
    // Without a model, or with another machine's, promised bandwidths are taken to fit.
    plant.rows[0].claim.class = keeps(5_000);
    for (of, machine, is_refused) in [
        (None, 0, false),
        (Some(0), 0, true),
        (Some(0), 8, true),
        (Some(7), 0, true),
        (Some(7), 7, true),
        (Some(7), 8, false),
    ] {
        let admission = Admission { model: of.map(gigabyte_of), quiet: None };
        let mut standing = Standing::default();
        admission.judge(&keeps(5_000), None, &mut Kinds::splat(0.0), (machine, 1), &mut standing);
        assert_eq!(standing.refused, is_refused.then_some(Refused::Bandwidth), "{of:?} at {machine}");
    }
}

#[test]
fn a_latency_below_that_of_an_idle_tier_is_not_taken_on() {
    let mut plant = Plant::new(&[(1, 3.0)], &[(2, 1_000, 0.05)]);
    let mut policy = policy(1).admitting(None, Some(Duration(GOAL.0 * 2)));
    assert_eq!(incidents(&plant.step(&mut policy, Duration::ZERO)), [], "nothing was measured yet");
    for _ in 0..5 {
        let decided = plant.step(&mut policy, Duration::from_millis(500));
        let told = incidents(&decided);
        assert!(told.len() == 1 && told[0].1.contains("what the tier takes alone"), "{told:?}");
        assert!(decided.steady, "no experiment for what cannot be");
        assert_eq!(plant.held(2), Throttle::FREE);
    }
    // Where one operation in a thousand comes to the tier it may be kept.
    plant.measure(Duration::from_millis(500));
    let signal = plant.rows[0].signal.as_mut().unwrap();
    signal.accesses.slow_read = signal.operations / 1_000;
    let window = crate::bandwidth::testing::window(plant.now_ms, plant.now_ms + 500);
    assert_eq!(incidents(&decide(&mut policy, &mut plant.rows, window)), []);
    // A tier that is quicker than the goal keeps nobody out.
    let quick = Admission { model: None, quiet: Some(Duration(GOAL.0 / 2)) };
    let signal = plant.rows[0].signal;
    let class = critical().class;
    let mut standing = Standing::default();
    standing.refused = Some(Refused::Latency);
    quick.judge(&class, signal.as_ref(), &mut Kinds::splat(0.0), (0, 1), &mut standing);
    assert_eq!(standing.refused, None);
}

/// As where groups or steps change: whoever begins knows nothing, but what is in force.
#[test]
fn a_policy_that_begins_anew_goes_on_from_what_is_in_force() {
    let mut plant = Plant::new(&[(1, 0.5)], &[(2, 2_400, 0.05), (3, 1_000, 0.6)]);
    plant.settle(&mut policy(1));
    let before = plant.held(3);
    assert_ne!(before, Throttle::FREE);
    let mut anew = policy(2);
    let decided = plant.step(&mut anew, TAIL_WINDOW);
    assert!(decided.steady && before.delay <= 2 * plant.held(3).delay, "{:?} of {before:?}", plant.held(3));
    let order = plant.settle(&mut anew);
    assert!(order.iter().all(|&id| id == 3) && plant.held(2) == Throttle::FREE, "{order:?}");
    // What is another policy's is not taken over, and who is exempt is free.
    let budget = Some(control::bandwidth::Budget { cost: Cost(1), per: Duration::from_millis(1) });
    plant.rows[2].in_force = Some(Throttle { budget, paused: true, ..before });
    plant.rows[1].in_force = Some(before);
    plant.rows[1].claim.class = Class::Exempt;
    plant.step(&mut policy(3), TAIL_WINDOW);
    assert_eq!((plant.held(3).budget, plant.held(3).paused), (None, false));
    assert_eq!(plant.held(2), Throttle::FREE);
}
