//! Groups of tenants under policies about memory: what a group has of all, and what its members have of that.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::memory::{MemoryShare, MemorySignal};
use control::{Amount, Claim, GroupId, Policy, Pool, Reason, Row, Seen, Weight, Window};
use policy::compose::Group;
use policy::memory::{MemoryOptions, MemoryPolicy, Tax};
use units::{Bytes, Duration, Instant, TenantId};

fn policy(name: &str, seed: u64) -> MemoryPolicy {
    let options = MemoryOptions { credit: Bytes(100).into(), seed, ..MemoryOptions::default() };
    MemoryPolicy::by_name(name, options).expect("a policy of this name")
}

/// A group of a weight and nothing reserved.
fn one_group(outer: &str, inside: &str, weight: f64) -> MemoryPolicy {
    let claim = Claim { weight: Weight::new(weight).expect("a positive weight"), ..Claim::default() };
    policy(outer, 5).over(vec![Group { claim, inside: policy(inside, 10) }])
}

/// What a tenant of a group (or none) and a weight holds.
fn holder(id: u32, group: Option<u16>, weight: f64, held: u64) -> Row<MemorySignal, MemoryShare> {
    let weight = Weight::new(weight).expect("a positive weight");
    let signal = MemorySignal { held: Bytes(held), ..MemorySignal::default() };
    let claim = Claim { group: group.map(GroupId), weight, ..Claim::default() };
    Row { id: TenantId(id), claim, signal: Some(signal), in_force: None }
}

/// The shares of one decision over 10,000 bytes.
fn decided(policy: &mut MemoryPolicy, rows: &[Row<MemorySignal, MemoryShare>]) -> Vec<MemoryShare> {
    let pool = Pool { capacity: Amount::memory(Bytes(10_000)), ..Pool::default() };
    let seen = Seen::new(Window::default(), &pool, rows).expect("rows in order");
    let decision = policy.decide(Instant::ZERO, &seen);
    decision.shares.rows().iter().map(|(_, share)| *share).collect()
}

/// Whatever others hold: shadow hits and weights do nothing for a group whose items are not compared with theirs.
#[test]
fn a_group_of_another_policy_has_its_part_of_one_pool_by_weight() {
    for inside in MemoryPolicy::NAMES.into_iter().filter(|name| *name != "pooled") {
        for (weight, part) in [(1.0, 5_000), (8.0, 8_888)] {
            let mut policy = one_group("pooled", inside, weight);
            for held in [0, 10, 1_000] {
                let rows = [holder(1, None, 1.0, 9_000), holder(2, Some(0), 1.0, held)];
                let shares = decided(&mut policy, &rows);
                let targets = [0, 1].map(|at: usize| shares[at].target.0);
                assert_eq!(targets, [10_000 - part, part], "{inside} {weight} {held}");
                assert!(shares[1].ceiling.is_none_or(|ceiling| ceiling == Bytes(part)), "{shares:?}");
                assert_eq!(shares[1].worth, None);
            }
        }
    }
    // The others divide what is left of the pool by what they hold.
    for (inside, expected) in [("partitioned", [6_667, 3_333, 0]), ("pooled", [9_000, 1_000, 0])] {
        let rows = [holder(1, None, 1.0, 9_000), holder(2, Some(0), 1.0, 1_000), holder(3, None, 1.0, 0)];
        let shares = decided(&mut one_group("pooled", inside, 1.0), &rows);
        let targets = [0, 1, 2].map(|at: usize| shares[at].target.0);
        assert!(targets.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 2), "{inside}: {targets:?}");
    }
}

/// Who is idle pays for itself, in a group as alone: nobody is taxed twice, and nobody for its neighbour. A group that does not tax is taxed
/// as a whole.
#[test]
fn a_tax_is_paid_once_and_by_who_is_idle() {
    let row = |id, group: Option<u16>, reserved, idle| {
        let mut row = holder(id, group, 1.0, 1_000);
        row.claim.floor = Amount::memory(Bytes(reserved));
        row.signal = Some(MemorySignal { held: Bytes(1_000), idle: Bytes(idle), ..MemorySignal::default() });
        row
    };
    let targets = |policy: &mut MemoryPolicy, group: Option<u16>, idle: [u64; 2]| {
        let rows = [row(1, None, 5_000, 0), row(2, group, 2_500, idle[0]), row(3, group, 2_500, idle[1])];
        let shares = decided(policy, &rows);
        [0, 1, 2].map(|at: usize| shares[at].target.0)
    };
    for name in ["idle-tax", "auto"] {
        for (idle, wanted) in [([0, 1_000], [5_000, 2_500, 1_250]), ([1_000, 1_000], [5_000, 1_250, 1_250])] {
            let taxing = |name| {
                let options = MemoryOptions { learning: Duration::ZERO, ..MemoryOptions::default() };
                MemoryPolicy::by_name(name, options).expect("a policy of this name")
            };
            let alone = targets(&mut taxing(name), None, idle);
            let group = Group { claim: Claim::default(), inside: taxing(name) };
            let grouped = targets(&mut taxing(name).over(vec![group]), Some(0), idle);
            assert_eq!((alone, grouped), (wanted, wanted), "{name} {idle:?}");
        }
    }
    let mut of_another = one_group("idle-tax", "partitioned", 1.0);
    assert_eq!(targets(&mut of_another, Some(0), [0, 1_000]), [5_000, 1_667, 1_666], "half is idle");
}

/// Under `partitioned` a group holds no more than its share, whichever policy is inside: one member fills it, and gives way when
/// another comes. Where a ceiling is passed by a 64th, a store brings its tenant as far below it.
#[test]
fn members_together_hold_no_more_than_a_group_of_partitioned_may() {
    for inside in MemoryPolicy::NAMES {
        let mut policy = one_group("partitioned", inside, 1.0);
        let mut held = [0_u64; 2];
        let mut in_force = [None; 3];
        for step in 0..400 {
            let mut rows =
                [holder(1, None, 1.0, 0), holder(2, Some(0), 1.0, held[0]), holder(3, Some(0), 1.0, held[1])];
            rows.iter_mut().zip(in_force).for_each(|(row, share)| row.in_force = share);
            let shares = decided(&mut policy, &rows);
            in_force = std::array::from_fn(|at| Some(shares[at]));
            let writes = usize::from(100 <= step);
            held[writes] += 50;
            for (held, share) in held.iter_mut().zip(&shares[1..]) {
                let most = share.ceiling.expect("a static share is one").0;
                *held = if most + most / 64 < *held { most - most / 64 } else { *held };
            }
            assert!(held[0] + held[1] <= 5_000 + 5_000 / 16, "{inside}, step {step}: {held:?}");
            if step == 99 {
                let alone = if inside == "partitioned" { 2_500 } else { 5_000 };
                assert!(held[0].abs_diff(alone) <= alone / 50, "{inside}: {held:?}");
            }
        }
        assert!(2_400 < held[1], "{inside} freezes nobody: {held:?}");
    }
}

/// Weights of members divide what is their group's. Where one of them is hit in its shadow queue and no tenant beside them is, it
/// stands as far above that one as a tenant of its own would, and not once more for its group.
#[test]
fn members_compete_beyond_their_group_with_its_weight_and_once_for_their_hits() {
    let worths = |outer: f64, inside: [f64; 2], hits: u64| {
        let mut policy = one_group("pooled", "pooled", outer);
        let mut rows = [
            holder(1, None, 1.0, 5_000),
            holder(2, Some(0), inside[0], 2_500),
            holder(3, Some(0), inside[1], 2_500),
        ];
        rows[1].signal.as_mut().unwrap().shadow_hits = hits;
        rows[1].claim.credit = Some(Bytes(100));
        let shares = decided(&mut policy, &rows);
        let more = shares.iter().map(|share| share.worth.expect("it competes").more).collect::<Vec<_>>();
        [1, 2].map(|at: usize| more[at] - more[0])
    };
    for weight in [0.25, 1.0, 4.0] {
        assert_eq!(worths(1.0, [weight; 2], 0), [0, 0], "{weight}");
        assert_eq!(worths(2.0, [weight; 2], 0), [8, 8], "{weight}");
    }
    assert_eq!(worths(1.0, [3.0, 1.0], 0), [5, -8], "their mean is their group's");
    assert_eq!(worths(1.0, [1.0; 2], 1_000), [16, 0], "two octaves, once");
}

/// A hit moves at most an 8192nd of a group's memory, however much there is beside it; a credit of a tenant's own in proportion.
#[test]
fn credits_fit_the_memory_of_a_group() {
    let own = Some(Bytes::kib(128));
    for (inside, credit, moved) in
        [("shared", None, 2 << 10), ("auto", None, 2 << 10), ("shared", own, 4 << 10)]
    {
        let options = MemoryOptions { credit: Bytes::kib(64).into(), ..MemoryOptions::default() };
        let by_name = |name| MemoryPolicy::by_name(name, options).unwrap();
        let group = Group { claim: Claim::default(), inside: by_name(inside) };
        let mut policy = by_name("partitioned").over(vec![group]);
        let mut rows = [holder(1, None, 255.0, 0), holder(2, Some(0), 1.0, 0), holder(3, Some(0), 1.0, 0)];
        rows[1].claim.credit = credit;
        rows[1].signal.as_mut().unwrap().shadow_hits = 1;
        let pool = Pool { capacity: Amount::memory(Bytes::mib(4_096)), ..Pool::default() };
        let decision = policy.decide(Instant::ZERO, &Seen::new(Window::default(), &pool, &rows).unwrap());
        let targets = [2, 3].map(|id| decision.shares.get(TenantId(id)).unwrap().target);
        assert_eq!(targets, [Bytes((8 << 20) + moved), Bytes((8 << 20) - moved)], "{inside}");
    }
    let mut policy = one_group("pooled", "pooled", 1.0);
    let mut rows = [holder(1, Some(0), 1.0, 5_000), holder(2, Some(0), 1.0, 5_000)];
    rows[0].signal.as_mut().unwrap().shadow_hits = 4;
    let worths: Vec<_> = decided(&mut policy, &rows).iter().map(|share| share.worth.unwrap().more).collect();
    assert_eq!(worths, [0, 0], "four hits of 1 in 10,000, not of 100");
}

/// Ids are given again: whoever comes with one finds nothing of who had it, also under `auto`, whose learning was over.
#[test]
fn a_group_that_was_empty_begins_anew() {
    for inside in ["shared", "auto"] {
        let mut policy = one_group("shared", inside, 1.0);
        let row = |id, group, shadow_hits| {
            let mut row = holder(id, group, 1.0, 0);
            // A hundred times what all have, of which 1 B fits.
            row.claim.credit = Some(Bytes(10_000));
            row.signal.as_mut().unwrap().shadow_hits = shadow_hits;
            row
        };
        let all = |hits| [row(1, None, 0), row(2, Some(0), hits), row(3, Some(0), 0)];
        let shares = decided(&mut policy, &all(10));
        assert!(shares[2].target + Bytes(1_000) < shares[1].target, "{inside}: {shares:?}");
        let pool = Pool { capacity: Amount::memory(Bytes(10_000)), ..Pool::default() };
        let (now, alone) = (Instant::ZERO + Duration::from_secs(86_400), [row(1, None, 0)]);
        let decision =
            policy.decide(now, &Seen::new(Window { end: now, ..Window::default() }, &pool, &alone).unwrap());
        let left: Vec<_> = decision.notes.iter().filter(|n| n.reason == Reason::Left).collect();
        for id in [2, 3].map(TenantId) {
            assert_eq!(left.iter().filter(|n| n.tenant == Some(id)).count(), 1, "{inside}: {left:?}");
        }
        let decision = policy
            .decide(now, &Seen::new(Window { start: now, end: now, mixed: false }, &pool, &alone).unwrap());
        assert!(decision.notes.is_empty(), "{inside}: it is said once: {:?}", decision.notes);
        let seen = Window { start: now, end: now, mixed: false };
        let (rows, now) = (all(0), now + Duration::from_secs(86_400));
        let shares = policy.decide(now, &Seen::new(seen, &pool, &rows).unwrap()).shares.rows().to_vec();
        assert!(shares[1].1.target.0.abs_diff(shares[2].1.target.0) <= 1, "{inside}: {shares:?}");
        let rows = all(10);
        let shares = policy.decide(now, &Seen::new(seen, &pool, &rows).unwrap()).shares.rows().to_vec();
        assert!(shares[2].1.target < shares[1].1.target, "{inside} learns again: {shares:?}");
    }
}

/// The targets of two tenants, each alone or both in a group, after a decision at each of these seconds.
fn targets_at(
    policy: &mut MemoryPolicy,
    secs: std::ops::Range<u64>,
    group: Option<u16>,
    signal: [(u64, u64); 2],
) -> Vec<u64> {
    let pool = Pool { capacity: Amount::memory(Bytes(10_000)), ..Pool::default() };
    let rows: Vec<_> = (1..)
        .zip(signal)
        .map(|(id, (shadow_hits, idle))| {
            let mut row = holder(id, group, 1.0, 5_000);
            let signal = row.signal.as_mut().unwrap();
            (signal.shadow_hits, signal.idle) = (shadow_hits, Bytes(idle));
            row
        })
        .collect();
    let at = |sec: u64| Instant::ZERO + Duration::from_secs(sec);
    let mut targets = Vec::new();
    for sec in secs {
        let window = Window { start: at(sec.saturating_sub(1)), end: at(sec), mixed: false };
        let seen = Seen::new(window, &pool, &rows).unwrap();
        targets = policy.decide(at(sec), &seen).shares.rows().iter().map(|(_, s)| s.target.0).collect();
    }
    targets
}

/// `auto` that has learnt taxes on with another tax, alone and inside a group, and another credit moves from the next hit on.
#[test]
fn who_is_told_something_else_goes_on_with_what_it_has_learnt() {
    let learning = Duration::from_secs(10);
    let options = MemoryOptions { credit: Bytes(100).into(), learning, seed: 3, ..MemoryOptions::default() };
    for group in [None, Some(0)] {
        let of = |name: &str| {
            let inside = |claim| Group { claim, inside: MemoryPolicy::by_name(name, options).unwrap() };
            let groups = group.map(|_: u16| inside(Claim::default())).into_iter().collect();
            MemoryPolicy::by_name(name, options).unwrap().over(groups)
        };
        let mut auto = of("auto");
        // The first is hit and comes to have more; then half of what both hold is idle.
        targets_at(&mut auto, 0..12, group, [(3, 0), (0, 0)]);
        let half = targets_at(&mut auto, 12..80, group, [(0, 5_000), (0, 5_000)]);
        auto.retell(MemoryOptions { tax: Tax::new(0.8).unwrap(), ..options });
        let more = targets_at(&mut auto, 80..150, group, [(0, 5_000), (0, 5_000)]);
        // A fifth instead of a half of each.
        for (half, more) in half.iter().zip(&more) {
            assert!((*half as f64 * 0.4 - *more as f64).abs() < 10.0, "{half} and {more}, {group:?}");
        }
        assert!(half[1] < half[0], "what was learnt: {half:?}");
        if group.is_some() {
            // A credit is what fits a group, here a byte.
            continue;
        }
        let mut shared = of("shared");
        let before = targets_at(&mut shared, 0..1, group, [(0, 0), (0, 0)]);
        assert_eq!(before, [5_000, 5_000]);
        assert_eq!(targets_at(&mut shared, 1..2, group, [(1, 0), (0, 0)]), [5_100, 4_900]);
        shared.retell(MemoryOptions { credit: Bytes(300).into(), ..options });
        assert_eq!(targets_at(&mut shared, 2..3, group, [(1, 0), (0, 0)]), [5_400, 4_600]);
    }
}
