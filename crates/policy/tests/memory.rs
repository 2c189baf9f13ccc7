//! Acceptance checks of the memory policies: conservation, floors, credits, arrival and departure.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::journal::{Journal, Record, replay};
use control::memory::{MemoryShare, MemorySignal};
use control::{
    Actuator, Amount, Claim, Decision, Loop, Note, Policy, Pool, Reason, Row, Seen, Sensor, Weight, Window,
};
use policy::memory::{Auto, MemoryOptions, MemoryPolicy, Partitioned, Shared, Tax};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{Bytes, Duration, Instant, TenantId};

const CREDIT: Bytes = Bytes::kib(64);

fn options(seed: u64) -> MemoryOptions {
    MemoryOptions { credit: CREDIT.into(), seed, ..MemoryOptions::default() }
}

/// A tenant of a test: id, floor in MiB, weight, shadow hits, credit in KiB.
#[derive(Clone, Copy, Debug)]
struct T(u32, u64, f64, u64, u64);

fn rows(tenants: &[T]) -> Vec<Row<MemorySignal, MemoryShare>> {
    let row = |t: &T| Row {
        id: TenantId(t.0),
        claim: Claim {
            weight: Weight::new(t.2).unwrap(),
            floor: Amount::memory(Bytes::mib(t.1)),
            credit: Some(Bytes::kib(t.4)),
            ..Claim::default()
        },
        signal: Some(MemorySignal { shadow_hits: t.3, ..MemorySignal::default() }),
        in_force: None,
    };
    tenants.iter().map(row).collect()
}

fn decide(
    policy: &mut impl Policy<Signal = MemorySignal, Share = MemoryShare>,
    capacity_mib: u64,
    t: &[T],
) -> Vec<u64> {
    let pool = Pool { capacity: Amount::memory(Bytes::mib(capacity_mib)), ..Pool::default() };
    let rows = rows(t);
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    policy.decide(Instant::ZERO, &seen).shares.rows().iter().map(|(_, s)| s.target.0).collect()
}

fn mib(targets: &[u64]) -> Vec<u64> {
    targets.iter().map(|b| b >> 20).collect()
}

#[test]
fn partitioned_gives_floor_and_weighted_rest() {
    for (capacity, tenants, expected) in [
        (100, vec![T(1, 0, 1.0, 0, 64), T(2, 0, 1.0, 0, 64)], vec![50, 50]),
        (100, vec![T(1, 40, 1.0, 0, 64), T(2, 0, 2.0, 9, 64)], vec![60, 40]),
        (100, vec![T(1, 80, 1.0, 0, 64), T(2, 120, 1.0, 0, 64)], vec![40, 60]),
        (100, vec![T(7, 0, 1.0, 0, 64)], vec![100]),
        (100, vec![], vec![]),
    ] {
        assert_eq!(mib(&decide(&mut Partitioned::default(), capacity, &tenants)), expected, "{tenants:?}");
    }
}

/// Who holds more than its share when `partitioned` comes keeps it, grows no further, and is held to what others leave it.
#[test]
fn a_ceiling_comes_down_with_what_is_held() {
    let mut rows = rows(&[T(1, 0, 1.0, 0, 64), T(2, 0, 1.0, 0, 64)]);
    let pool = Pool { capacity: Amount::memory(Bytes::mib(96)), ..Pool::default() };
    let mut policy = Partitioned::default();
    let mut ceilings = Vec::new();
    // What the first holds falls, rises within the slack and beyond it, and falls below the share.
    for held in [64, 63, 64, 66, 60, 64, 30, 64] {
        rows[0].signal = Some(MemorySignal { held: Bytes::mib(held), ..MemorySignal::default() });
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let shares = policy.decide(Instant::ZERO, &seen).shares.rows().to_vec();
        assert_eq!(shares.iter().map(|(_, share)| share.target).collect::<Vec<_>>(), [Bytes::mib(48); 2]);
        assert_eq!(shares[1].1.ceiling, Some(Bytes::mib(48)), "who holds less has its share");
        ceilings.push(shares[0].1.ceiling.unwrap().0 as f64 / f64::from(1 << 20));
        rows.iter_mut().zip(&shares).for_each(|(row, (_, share))| row.in_force = Some(*share));
    }
    assert_eq!(ceilings, [66.0, 64.96875, 64.96875, 64.96875, 61.875, 61.875, 48.0, 48.0]);
    // Of whom nothing is known, what is in force stays, or it may hold what it does.
    for in_force in [None, Some(Bytes::mib(70))] {
        rows[0].signal = None;
        rows[0].in_force = in_force.map(|most| MemoryShare { ceiling: Some(most), ..MemoryShare::default() });
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        assert_eq!(policy.decide(Instant::ZERO, &seen).shares.rows()[0].1.ceiling, in_force);
    }
}

#[test]
fn who_joins_gets_an_equal_share_and_who_leaves_gives_it_back() {
    let mut policy = Shared::new(CREDIT, 1);
    assert_eq!(mib(&decide(&mut policy, 90, &[T(1, 0, 1.0, 0, 64), T(2, 0, 1.0, 0, 64)])), [45, 45]);
    let three = [T(1, 0, 1.0, 0, 64), T(2, 0, 1.0, 0, 64), T(3, 0, 1.0, 0, 64)];
    assert_eq!(mib(&decide(&mut policy, 90, &three)), [30, 30, 30]);
    // A floor comes out of the unreserved memory; the new tenant has it on top of its share.
    let four = [three[0], three[1], three[2], T(4, 10, 1.0, 0, 64)];
    assert_eq!(mib(&decide(&mut policy, 90, &four)), [20, 20, 20, 30]);
    assert_eq!(mib(&decide(&mut policy, 90, &three)), [30, 30, 30]);
    // The pool may shrink: floors hold, the rest shrinks in proportion.
    assert_eq!(mib(&decide(&mut policy, 45, &[T(1, 30, 1.0, 0, 64), three[1], three[2]])), [35, 5, 5]);
}

/// Where another policy has decided before, `shared` and `auto` go on from what is in force; what it left over, and who has
/// nothing in force yet, is settled as ever.
#[test]
fn shares_in_force_are_taken_over() {
    let tenants = [T(1, 10, 1.0, 0, 64), T(2, 0, 5.0, 0, 64), T(3, 0, 1.0, 0, 64)];
    for (in_force, expected) in [
        ([Some(20), Some(30), Some(50)], [20, 30, 50]),
        // A tax has left half of the memory to nobody: it goes to all in proportion.
        ([Some(15), Some(10), Some(30)], [20, 20, 60]),
        ([None, None, None], [22, 64, 12]),
    ] {
        let mut rows = rows(&tenants);
        for (row, mib) in rows.iter_mut().zip(in_force) {
            row.in_force = mib.map(|mib| MemoryShare::of(Bytes::mib(mib)));
        }
        let pool = Pool { capacity: Amount::memory(Bytes::mib(100)), ..Pool::default() };
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        for name in ["shared", "auto"] {
            let mut policy = MemoryPolicy::by_name(name, options(1)).unwrap();
            let decision = policy.decide(Instant::ZERO, &seen);
            let targets: Vec<u64> = decision.shares.rows().iter().map(|(_, s)| s.target.0).collect();
            assert_eq!(mib(&targets), expected, "{name} {in_force:?}");
        }
    }
}

#[test]
fn a_shadow_hit_moves_one_credit_from_one_donor() {
    let mut policy = Shared::new(CREDIT, 3);
    let before = decide(&mut policy, 30, &[T(1, 0, 1.0, 0, 64), T(2, 0, 1.0, 0, 64), T(3, 0, 1.0, 0, 64)]);
    let after = decide(&mut policy, 30, &[T(1, 0, 1.0, 1, 64), T(2, 0, 1.0, 0, 64), T(3, 0, 1.0, 0, 64)]);
    assert_eq!(after[0], before[0] + CREDIT.0);
    assert_eq!(after[1] + after[2] + CREDIT.0, before[1] + before[2]);
}

/// What there is to give is one credit, which two want at once.
#[test]
fn of_two_that_hit_neither_always_finds_donors_first() {
    let tenants = [T(1, 0, 1e-12, 1, 1_536), T(2, 0, 1e-12, 1, 1_536), T(3, 0, 1.0, 0, 64)];
    let firsts = (0..200).filter(|seed| {
        let targets = decide(&mut Shared::new(CREDIT, *seed), 2, &tenants);
        targets[1] < targets[0]
    });
    let firsts = firsts.count();
    assert!((20..=180).contains(&firsts), "the first has it {firsts} times of 200");
}

#[test]
fn without_a_donor_nothing_moves() {
    let mut policy = Shared::new(CREDIT, 3);
    let tenants = [T(1, 0, 1.0, 1_000_000, 64), T(2, 20, 1.0, 0, 64)];
    let targets = decide(&mut policy, 30, &tenants);
    assert_eq!(mib(&targets), [10, 20], "all that was unreserved has gone to the tenant that hits");
    assert_eq!(decide(&mut policy, 30, &tenants), targets);
    assert_eq!(decide(&mut Shared::new(CREDIT, 3), 30, &[T(1, 0, 1.0, 5, 64)]), [30 << 20]);
}

/// M5 (gross): with equal shadow-hit rates, tenants grow as their credit sizes 1:2:3.
#[test]
fn m5_growth_follows_credit_sizes() {
    let hits = 40;
    let grown = |credit_kib: u64| -> u64 {
        let mut policy = Shared::new(CREDIT, 11);
        let rest = [T(2, 0, 1.0, 0, 64), T(3, 0, 1.0, 0, 64), T(4, 0, 1.0, 0, 64)];
        let tenants = |hits| {
            let mut all = vec![T(1, 0, 1.0, hits, credit_kib)];
            all.extend(rest);
            all
        };
        let before = decide(&mut policy, 400, &tenants(0))[0];
        decide(&mut policy, 400, &tenants(hits))[0] - before
    };
    assert_eq!([grown(64), grown(128), grown(192)], [hits * 65536, hits * 131_072, hits * 196_608]);
    // Together, over many rounds, from donors that do not hit: the gross gains are exact, who pays is random.
    let mut policy = Shared::new(CREDIT, 5);
    let tenants = |hits| {
        let mut all: Vec<T> =
            [(1, 64), (2, 128), (3, 192)].map(|(id, kib)| T(id, 0, 1.0, hits, kib)).to_vec();
        all.extend((4..=23).map(|id| T(id, 0, 1.0, 0, 64)));
        all
    };
    let before = decide(&mut policy, 23 * 100, &tenants(0));
    let mut after = before.clone();
    for _ in 0..100 {
        after = decide(&mut policy, 23 * 100, &tenants(4));
    }
    let gain = |i: usize| (after[i] as f64 - before[i] as f64) / (400.0 * 65536.0);
    // Net gain = gross less what was drawn from it; 20 of 22 donors never hit, so about 1 − losses of 6 / 22.
    assert!(gain(0) < gain(1) && gain(1) < gain(2), "{} {} {}", gain(0), gain(1), gain(2));
}

fn tenants_of(draws: &[(u64, u64, u64)]) -> Vec<T> {
    let tenant = |(i, &(floor, hits, credit)): (usize, &(u64, u64, u64))| {
        T(u32::try_from(i).unwrap() * 3 + 1, floor, 1.0 + (floor % 3) as f64, hits, credit)
    };
    draws.iter().enumerate().map(tenant).collect()
}

proptest! {
    /// M1: targets sum to the pool and none is below its floor after any sequence of hits, arrivals, departures and
    /// changes of capacity (both laws are also asserted where the shares are built).
    #[test]
    fn m1_targets_are_conserved(
        seed: u64,
        steps in prop::collection::vec(
            (1_u64..500, prop::collection::vec((0_u64..40, 0_u64..300, 1_u64..200), 1..8)), 1..20),
    ) {
        let mut policy = Shared::new(CREDIT, seed);
        for (capacity, draws) in &steps {
            let tenants = tenants_of(draws);
            let targets = decide(&mut policy, *capacity, &tenants);
            prop_assert_eq!(targets.iter().sum::<u64>(), capacity << 20);
            let floors: u64 = tenants.iter().map(|t| t.1 << 20).sum();
            for (t, target) in tenants.iter().zip(&targets) {
                let kept = Bytes::mib(t.1).scale((capacity << 20).min(floors), floors.max(1));
                prop_assert!(kept.0 <= *target, "{:?} {}", t, target);
            }
        }
    }

    /// Every policy, on any signals (missing and impossible ones, too), any time (standing still, too) and any tenants
    /// (none, too): at most the pool is given, a partition gives all of it, a tax leaves its part of every floor.
    #[test]
    fn m1_every_policy_keeps_its_law(
        seed: u64,
        tax in 0.0..=1.0,
        learning_secs in 0_u64..20,
        steps in prop::collection::vec(
            (0_u64..500, 0_u64..10, prop::collection::vec((0_u64..40, 0_u64..300, any::<u32>()), 0..8)), 1..30),
    ) {
        for name in MemoryPolicy::NAMES {
            let tax = Tax::new(tax).unwrap();
            let learning = Duration::from_secs(learning_secs);
            let mut policy = MemoryPolicy::by_name(name, MemoryOptions { tax, learning, ..options(seed) }).unwrap();
            let mut now = Instant::ZERO;
            for (capacity, secs, draws) in &steps {
                let window = Window { start: now, end: now + Duration::from_secs(*secs), mixed: false };
                now = window.end;
                let pool = Pool { capacity: Amount::memory(Bytes::mib(*capacity)), ..Pool::default() };
                let draws: Vec<_> = draws.iter().map(|&(floor, hits, other)| (floor, hits, other)).collect();
                let tenants: Vec<_> = draws.iter().map(|&(f, h, o)| (f, h, u64::from(o % 200))).collect();
                let mut rows = rows(&tenants_of(&tenants));
                for (row, (_, hits, other)) in rows.iter_mut().zip(&draws) {
                    let held = Bytes(u64::from(other % 7) << 20);
                    let idle = Bytes(u64::from(*other));
                    let signal = MemorySignal { held, idle, shadow_hits: *hits, ..MemorySignal::default() };
                    row.signal = (other % 5 != 0).then_some(signal);
                }
                let seen = Seen::new(window, &pool, &rows).unwrap();
                let decision = policy.decide(now, &seen);
                let total: Bytes = decision.shares.rows().iter().map(|(_, s)| s.target).sum();
                prop_assert!(total <= pool.capacity.bytes, "{} gives {}", name, total);
                if matches!(name, "partitioned" | "shared") && !rows.is_empty() {
                    prop_assert_eq!(total, pool.capacity.bytes, "{}", name);
                }
                prop_assert!(Duration::ZERO < decision.wake && decision.steady);
            }
        }
    }
}

/// What notes say of each tenant's target.
fn told(notes: &[Note]) -> BTreeMap<TenantId, i64> {
    let mut told = BTreeMap::new();
    for note in notes.iter().filter(|note| note.reason != Reason::NoDonor) {
        *told.entry(note.tenant.unwrap()).or_insert(0) += note.amount;
    }
    told
}

proptest! {
    /// Reservations, tenants and the memory change, policies go on from what is in force, and `auto` begins to tax: the notes of a
    /// decision on a tenant sum to the change of its target.
    #[test]
    fn notes_tell_every_change_of_a_target(
        seed: u64,
        learning_secs in 0_u64..20,
        in_force in prop::collection::vec(prop::option::of(0_u64..60), 8),
        steps in prop::collection::vec(
            (1_u64..500, prop::collection::vec((0_u64..40, 0_u64..30, 1_u64..200), 1..8)), 1..20),
    ) {
        let learning = Duration::from_secs(learning_secs);
        let mut auto = Auto::new(Shared::new(CREDIT, seed), Tax::HALF, learning);
        let mut shared = Shared::new(CREDIT, seed);
        for is_auto in [true, false] {
            let mut targets: BTreeMap<TenantId, i64> = BTreeMap::new();
            for (second, (capacity, draws)) in (0..).zip(&steps) {
                let mut rows = rows(&tenants_of(draws));
                for (row, mib) in rows.iter_mut().zip(&in_force).filter(|_| second == 0) {
                    row.in_force = mib.map(|mib| MemoryShare::of(Bytes::mib(mib)));
                    targets.extend(mib.map(|mib| (row.id, i64::try_from(mib << 20).unwrap())));
                }
                for (at, row) in rows.iter_mut().enumerate() {
                    let signal = row.signal.as_mut().unwrap();
                    (signal.held, signal.idle) = (Bytes(100), Bytes(at as u64 * 10));
                }
                let end = Instant::ZERO + Duration::from_secs(second);
                let window = Window { start: Instant(end.0.saturating_sub(1_000_000_000)), end, mixed: false };
                let pool = Pool { capacity: Amount::memory(Bytes::mib(*capacity)), ..Pool::default() };
                let seen = Seen::new(window, &pool, &rows).unwrap();
                let was_taxing = auto.is_taxing();
                let decision = if is_auto { auto.decide(end, &seen) } else { shared.decide(end, &seen) };
                let mut changes: BTreeMap<TenantId, i64> = targets.iter().map(|(id, held)| (*id, -held)).collect();
                targets.clear();
                for (id, share) in decision.shares.rows() {
                    let target = i64::try_from(share.target.0).unwrap();
                    targets.insert(*id, target);
                    *changes.entry(*id).or_insert(0) += target;
                }
                let mut told = told(decision.notes);
                // What the tax takes from one decision to the next it does not say.
                if is_auto && was_taxing {
                    continue;
                }
                told.retain(|_, amount| *amount != 0);
                changes.retain(|_, amount| *amount != 0);
                prop_assert_eq!(told, changes, "auto: {} in second {}", is_auto, second);
            }
        }
    }
}

/// The policy `auto` over tenants with hits, one decision a second from `from` to `to`; the last targets in MiB.
fn auto_over(policy: &mut Auto, secs: std::ops::Range<u64>, capacity: u64, t: &[T], idle: u64) -> Vec<u64> {
    let mut targets = Vec::new();
    for second in secs {
        let end = Instant::ZERO + Duration::from_secs(second);
        let start = Instant(end.0.saturating_sub(1_000_000_000));
        targets = auto_step(policy, Window { start, end, mixed: false }, capacity, t, idle);
    }
    mib(&targets)
}

fn auto_step(policy: &mut Auto, window: Window, capacity: u64, t: &[T], idle: u64) -> Vec<u64> {
    let pool = Pool { capacity: Amount::memory(Bytes::mib(capacity)), ..Pool::default() };
    let mut rows = rows(t);
    for row in &mut rows {
        let signal = row.signal.as_mut().unwrap();
        (signal.held, signal.idle) = (Bytes(100), Bytes(idle));
    }
    let seen = Seen::new(window, &pool, &rows).unwrap();
    policy.decide(window.end, &seen).shares.rows().iter().map(|(_, s)| s.target.0).collect()
}

#[test]
fn auto_learns_and_then_taxes() {
    let mut policy = Auto::new(Shared::new(Bytes::mib(1), 1), Tax::HALF, Duration::from_secs(100));
    let hits = |id, hits| T(id, 10, 1.0, hits, 1024);
    // For half of the time the first gains all of the second's shared memory, then that of the first goes back.
    assert_eq!(auto_over(&mut policy, 0..50, 60, &[hits(1, 9), hits(2, 0)], 0), [50, 10]);
    assert_eq!(auto_over(&mut policy, 50..100, 60, &[hits(1, 0), hits(2, 9)], 0), [10, 50]);
    assert!(!policy.is_taxing());
    // Its means, learnt over the same time, are about equal; nobody is idle.
    let taxed = auto_over(&mut policy, 100..101, 60, &[hits(1, 0), hits(2, 9)], 0);
    assert!(policy.is_taxing() && taxed.iter().all(|t| (28..=32).contains(t)), "{taxed:?}");
    assert!(59 <= taxed.iter().sum::<u64>(), "what is learnt is the whole pool: {taxed:?}");
    // Shadow hits move nothing any more, idle memory does: half of it is taxed away from who is wholly idle.
    let idle = auto_over(&mut policy, 101..200, 60, &[hits(1, 9), hits(2, 0)], 100);
    assert_eq!(idle, taxed.iter().map(|t| t / 2).collect::<Vec<_>>());
    // Who leaves leaves its part to the others; who comes starts the learning anew.
    assert_eq!(auto_over(&mut policy, 200..201, 60, &[hits(2, 0)], 0), [60]);
    assert!(policy.is_taxing());
    auto_over(&mut policy, 201..202, 60, &[hits(2, 0), hits(3, 0)], 100);
    assert!(!policy.is_taxing());
    auto_over(&mut policy, 202..302, 60, &[hits(2, 0), hits(3, 0)], 100);
    assert!(policy.is_taxing());
}

/// Of one who has all for four fifths of the time and decisions that are few then.
#[test]
fn what_auto_learns_is_weighted_by_time() {
    let mut policy = Auto::new(Shared::new(Bytes::mib(1), 1), Tax::HALF, Duration::from_secs(100));
    let hits = |id, hits| T(id, 10, 1.0, hits, 1024);
    let mut targets = Vec::new();
    for (from, to) in (0..8).map(|n| (10 * n, 10 * n + 10)).chain((80..100).map(|n| (n, n + 1))) {
        let tenants = if to <= 80 { [hits(1, 99), hits(2, 0)] } else { [hits(1, 0), hits(2, 99)] };
        let [start, end] = [from, to].map(|secs| Instant::ZERO + Duration::from_secs(secs));
        // The first window begins with the policy.
        let start = if from == 0 { end } else { start };
        targets = auto_step(&mut policy, Window { start, end, mixed: false }, 60, &tenants, 0);
    }
    assert!(!policy.is_taxing() && mib(&targets) == [10, 50], "{targets:?}");
    let at = |secs| Instant::ZERO + Duration::from_secs(secs);
    let window = Window { start: at(100), end: at(110), mixed: false };
    let taxed = mib(&auto_step(&mut policy, window, 60, &[hits(1, 0), hits(2, 0)], 0));
    // Of the 40 MiB that are shared 71 of 100 seconds.
    assert!(policy.is_taxing() && taxed[0].abs_diff(10 + 28) <= 1, "{taxed:?}");
}

/// What was shared out when the tax began, [0, 60], is no more: everybody has what is in force, less what the new one gets.
#[test]
fn who_joins_while_the_tax_runs_takes_from_what_is_in_force() {
    let mut policy = Auto::new(Shared::new(Bytes::mib(1), 1), Tax::HALF, Duration::from_secs(100));
    let hits = |id, hits| T(id, 0, 1.0, hits, 1024);
    auto_over(&mut policy, 0..50, 60, &[hits(1, 9), hits(2, 0)], 0);
    assert_eq!(auto_over(&mut policy, 50..100, 60, &[hits(1, 0), hits(2, 9)], 0), [0, 60]);
    auto_over(&mut policy, 100..101, 60, &[hits(1, 0), hits(2, 9)], 0);
    assert!(policy.is_taxing());
    let mut rows = rows(&[hits(1, 0), hits(2, 0), hits(3, 0)]);
    for row in &mut rows[..2] {
        row.in_force = Some(MemoryShare::of(Bytes::mib(30)));
    }
    let pool = Pool { capacity: Amount::memory(Bytes::mib(60)), ..Pool::default() };
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    let decision = policy.decide(Instant::ZERO, &seen);
    let targets: Vec<u64> = decision.shares.rows().iter().map(|(_, s)| s.target.0).collect();
    assert_eq!(mib(&targets), [20, 20, 20]);
    assert!(!policy.is_taxing());
}

/// A thing that holds what it is told and misses as it likes.
struct Plant {
    hits: Vec<u64>,
    turn: usize,
}

impl Sensor for Plant {
    type Signal = MemorySignal;
    type Share = MemoryShare;
    fn read(&mut self, _: Instant, out: &mut Vec<Row<MemorySignal, MemoryShare>>) -> Pool {
        self.turn += 1;
        let hits = self.hits.iter().enumerate();
        let tenants: Vec<T> = hits
            .filter(|(i, _)| *i < 2 || !self.turn.is_multiple_of(5))
            .map(|(i, h)| T(u32::try_from(i).unwrap(), 2, 1.0, h * (self.turn as u64 % 7), 64))
            .collect();
        out.extend(rows(&tenants));
        Pool { capacity: Amount::memory(Bytes::mib(64)), ..Pool::default() }
    }
}

impl Actuator for Plant {
    type Share = MemoryShare;
    fn apply(
        &mut self,
        _: Instant,
        decision: &Decision<'_, MemoryShare>,
        in_force: &mut Vec<(TenantId, MemoryShare)>,
    ) -> bool {
        in_force.clear();
        in_force.extend_from_slice(decision.shares.rows());
        true
    }
}

#[test]
fn a_recorded_journal_replays_to_the_same_decisions() {
    let mut pacer = Loop::new(MemoryPolicy::by_name("shared", options(9)).unwrap(), 1000);
    let mut plant = Plant { hits: vec![1, 40, 3], turn: 0 };
    let mut now = Instant::ZERO;
    for _ in 0..100 {
        now += pacer.step(now, &mut plant);
    }
    assert_eq!(now, Instant::ZERO + Duration::from_secs(100));
    let mut fresh = MemoryPolicy::by_name("shared", options(9)).unwrap();
    assert_eq!(replay(&mut fresh, pacer.journal().records()), Ok(100));
    // Another seed decides otherwise: the comparison can fail.
    let mut other = MemoryPolicy::by_name("shared", options(10)).unwrap();
    assert!(replay(&mut other, pacer.journal().records()).is_err());

    // The same through text: inputs and shares survive the way to a file and back.
    let mut read_back = Journal::new(1000);
    for (i, record) in pacer.journal().records().enumerate() {
        let parsed = Record::<MemorySignal, MemoryShare>::of_line(i + 1, &record.to_line()).unwrap();
        assert_eq!(parsed.rows, record.rows);
        assert_eq!(parsed.shares, record.shares);
        read_back.push(control::journal::Record { notes: record.notes.clone(), ..parsed });
    }
    let mut fresh = MemoryPolicy::by_name("shared", options(9)).unwrap();
    assert_eq!(replay(&mut fresh, read_back.records()), Ok(100));
    assert!(
        Record::<MemorySignal, MemoryShare>::of_line(3, "{}").unwrap_err().to_string().contains("line 3")
    );
}

/// Floors that exceed the pool, and every number, are scaled to what there is.
#[test]
fn floors_beyond_any_pool_are_scaled() {
    let row = |id| Row {
        id: TenantId(id),
        claim: Claim { floor: Amount::memory(Bytes(u64::MAX - 5)), ..Claim::default() },
        signal: Some(MemorySignal::default()),
        in_force: None,
    };
    let rows: Vec<Row<MemorySignal, MemoryShare>> = (0..4).map(row).collect();
    let pool = Pool { capacity: Amount::memory(Bytes(1_000)), ..Pool::default() };
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    for name in MemoryPolicy::NAMES {
        let mut policy = MemoryPolicy::by_name(name, MemoryOptions::default()).unwrap();
        let targets = policy.decide(Instant::ZERO, &seen).shares.rows().iter().map(|(_, s)| s.target.0);
        assert!(targets.sum::<u64>() <= 1_000, "{name}");
    }
}
