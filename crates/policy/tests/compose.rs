//! Policies made of policies keep what each of them keeps.

use control::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use control::memory::{MemoryShare, MemorySignal};
use control::{
    Amount, Claim, Decision, GroupId, Join, Law, Note, Policy, Pool, Reason, Row, Seen, Shares, Weight,
    Window,
};
use policy::compose::{Demand, Drf, DrfError, Group, Grouped, Tighter, dominant_shares};
use policy::memory::{MemoryOptions, MemoryPolicy, Pooled};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

/// What a script saw of the first tenant: length of the window in ms, operations, what is in force.
type Log = Arc<Mutex<Vec<(u64, Option<u64>, Option<Throttle>)>>>;

/// Asks for the next of a list of throttles for everybody, every `wake`, and remembers what it saw.
#[derive(Debug)]
struct Script {
    wake: Duration,
    asks: Vec<Throttle>,
    log: Log,
    shares: Shares<Throttle>,
    /// What it says of each of its decisions but the last.
    notes: Vec<Note>,
    lease: Duration,
    steady: bool,
    /// Whether the windows that it decided on were of more than one setting.
    mixed: Arc<Mutex<Vec<bool>>>,
}

impl Script {
    fn new(wake_ms: u64, asks: &[Throttle]) -> Self {
        Self {
            wake: Duration::from_millis(wake_ms),
            asks: asks.to_vec(),
            log: Log::default(),
            shares: Shares::default(),
            notes: Vec::new(),
            lease: Duration::from_secs(1),
            steady: true,
            mixed: Arc::default(),
        }
    }

    fn lasting(self, lease_ms: u64, steady: bool) -> Self {
        Self { lease: Duration::from_millis(lease_ms), steady, ..self }
    }

    fn saying(self, reasons: &[Reason]) -> Self {
        let note = |reason: &Reason| Note { tenant: Some(TenantId(7)), reason: reason.clone(), amount: 0 };
        Self { notes: reasons.iter().map(note).collect(), ..self }
    }
}

impl Policy for Script {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "script"
    }

    fn decide(&mut self, _: Instant, seen: &Seen<'_, BandwidthSignal, Throttle>) -> Decision<'_, Throttle> {
        let mut log = self.log.lock().expect("no holder panics");
        let ask = self.asks[log.len().min(self.asks.len() - 1)];
        let first = &seen.tenants[0];
        log.push((seen.window.length().as_millis(), first.signal.map(|s| s.operations), first.in_force));
        self.shares.rebuild(Law::Free, seen, seen.tenants.iter().map(|row| (row.id, ask)));
        if log.len() == self.asks.len() {
            self.notes.clear();
        }
        self.mixed.lock().expect("no holder panics").push(seen.window.mixed);
        Decision {
            shares: &self.shares,
            wake: self.wake,
            lease: self.lease,
            steady: self.steady,
            notes: &self.notes,
        }
    }
}

fn row(operations: Option<u64>, in_force: Option<Throttle>) -> Row<BandwidthSignal, Throttle> {
    let signal = operations.map(|operations| BandwidthSignal { operations, ..BandwidthSignal::default() });
    Row { id: TenantId(7), claim: Claim::default(), signal, in_force }
}

#[test]
fn each_of_two_policies_keeps_its_own_pace_and_sees_its_own_share() {
    let delay = |delay| Throttle { delay, ..Throttle::FREE };
    let mba = |mba| Throttle { mba, ..Throttle::FREE };
    let quick = Script::new(10, &[delay(1), delay(2), delay(3), delay(4), delay(5)]);
    let slow = Script::new(30, &[mba(50), mba(90)]);
    let log = Arc::clone(&slow.log);
    let mut both = Tighter::new(quick, slow);
    let pool = Pool::default();
    let mut in_force = None;
    let mut asked = Vec::new();
    let mut now = Instant::ZERO;
    let mut start = now;
    for operations in [0, 1, 2, 4, 8] {
        let rows = [row(Some(operations), in_force)];
        let window = Window { start, end: now, mixed: false };
        let decision = both.decide(now, &Seen::new(window, &pool, &rows).unwrap());
        let share = *decision.shares.get(TenantId(7)).unwrap();
        asked.push((share.delay, share.mba));
        in_force = Some(share);
        start = now;
        now += decision.wake;
    }
    assert_eq!(asked, [(1, 50), (2, 50), (3, 50), (4, 90), (5, 90)], "10 ms apart, and every 30 ms");
    // The slow one saw 1 + 2 + 4 operations in one window of 30 ms, and its own MBA as in force.
    assert_eq!(*log.lock().unwrap(), [(0, Some(0), None), (30, Some(7), Some(mba(50)))]);
}

#[test]
fn of_two_policies_the_sooner_is_waited_for_and_the_shorter_lease_holds() {
    for (first, second) in [((10, 5_000, true), (30, 2_000, true)), ((30, 2_000, true), (10, 5_000, false))] {
        let script = |(wake, lease, steady)| Script::new(wake, &[Throttle::FREE]).lasting(lease, steady);
        let mut lone = row(Some(1), None);
        let tighter = Tighter::new(script(first), script(second));
        let inside = Group { claim: Claim::default(), inside: script(second) };
        let grouped = Grouped::new(script(first), vec![inside]);
        let pool = Pool::default();
        let mut check = |mut policy: Box<dyn Policy<Signal = BandwidthSignal, Share = Throttle>>, group| {
            lone.claim.group = group;
            let rows = [lone.clone()];
            let decision = policy.decide(Instant::ZERO, &Seen::new(Window::default(), &pool, &rows).unwrap());
            let waits = (decision.wake.as_millis(), decision.lease.as_millis(), decision.steady);
            assert_eq!(waits, (10, 2_000, first.2 && second.2), "{first:?} {second:?} {group:?}");
        };
        check(Box::new(tighter), None);
        check(Box::new(grouped), Some(GroupId(0)));
    }
}

#[test]
fn while_a_groups_share_changes_windows_inside_show_more_than_one_setting() {
    let delay = |delay| Throttle { delay, ..Throttle::FREE };
    for (asks, is_mixed) in [([1, 1, 1, 1], false), ([1, 2, 2, 2], true), ([1, 1, 1, 2], false)] {
        let inside = Script::new(30, &[Throttle::FREE]);
        let mixed = Arc::clone(&inside.mixed);
        let group = Group { claim: Claim::default(), inside };
        let mut grouped = Grouped::new(Script::new(10, &asks.map(delay)), vec![group]);
        let mut lone = row(Some(1), None);
        lone.claim.group = Some(GroupId(0));
        for turn in 0..4 {
            let at = |turn: u64| Instant::ZERO + Duration::from_millis(turn * 10);
            let window = Window { start: at(turn - u64::from(0 < turn)), end: at(turn), mixed: false };
            let rows = [lone.clone()];
            grouped.decide(at(turn), &Seen::new(window, &Pool::default(), &rows).unwrap());
        }
        assert_eq!(*mixed.lock().unwrap(), [false, is_mixed], "{asks:?}");
    }
}

#[test]
fn a_signal_that_is_missing_for_a_part_is_missing_for_the_whole() {
    for (signals, joined) in
        [([Some(0), Some(1), None, Some(4)], None), ([Some(0), Some(1), Some(2), Some(4)], Some(7))]
    {
        let slow = Script::new(30, &[Throttle::FREE]);
        let log = Arc::clone(&slow.log);
        let mut both = Tighter::new(Script::new(10, &[Throttle::FREE]), slow);
        let pool = Pool::default();
        for (turn, operations) in (0..).zip(signals) {
            let rows = [row(operations, None)];
            let at = |turn: u64| Instant::ZERO + Duration::from_millis(turn * 10);
            let window = Window { start: at(turn - u64::from(0 < turn)), end: at(turn), mixed: false };
            both.decide(at(turn), &Seen::new(window, &pool, &rows).unwrap());
        }
        assert_eq!(*log.lock().unwrap(), [(0, Some(0), None), (30, joined, None)]);
    }
}

#[test]
fn a_promise_that_is_not_kept_is_said_again_until_its_policy_decides_anew() {
    let asks = [Throttle::FREE; 2];
    let slow = Script::new(30, &asks).saying(&[Reason::Tightened, Reason::Incident("none is left".into())]);
    let mut both = Tighter::new(Script::new(10, &[Throttle::FREE]), slow);
    let pool = Pool::default();
    let mut said = Vec::new();
    for turn in 0..6 {
        let rows = [row(Some(1), None)];
        let at = |turn: u64| Instant::ZERO + Duration::from_millis(turn * 10);
        let window = Window { start: at(turn.max(1) - 1), end: at(turn), mixed: false };
        let decision = both.decide(at(turn), &Seen::new(window, &pool, &rows).unwrap());
        let is_incident = |note: &&Note| matches!(note.reason, Reason::Incident(_));
        said.push((decision.notes.iter().filter(is_incident).count(), decision.notes.len()));
    }
    // What was done is said once.
    assert_eq!(said, [(1, 2), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)]);
}

#[test]
fn another_profile_or_model_of_the_medium_is_due_at_once() {
    let usual = Pool::default();
    let latency = Kinds::splat(Some(Duration::from_micros(1)));
    for (changed, decisions) in [
        (Pool { profile: 1, ..usual }, 2),
        (Pool { model: 1, ..usual }, 2),
        (Pool { capacity: Amount::memory(Bytes(1)), ..usual }, 2),
        (Pool { latency, ..usual }, 1),
    ] {
        let slow = Script::new(30, &[Throttle::FREE]);
        let log = Arc::clone(&slow.log);
        let mut both = Tighter::new(Script::new(10, &[Throttle::FREE]), slow);
        for (turn, pool) in (0..).zip([usual, changed]) {
            let rows = [row(Some(1), None)];
            let at = |turn: u64| Instant::ZERO + Duration::from_millis(turn * 10);
            let window = Window { start: at(turn - u64::from(0 < turn)), end: at(turn), mixed: false };
            both.decide(at(turn), &Seen::new(window, &pool, &rows).unwrap());
        }
        assert_eq!(log.lock().unwrap().len(), decisions, "{changed:?}");
    }
}

fn policy(name: &str, seed: u64) -> MemoryPolicy {
    let options = MemoryOptions { credit: Bytes(100).into(), seed, ..MemoryOptions::default() };
    MemoryPolicy::by_name(name, options).expect("a policy of this name")
}

/// Groups of 500 bytes of floor each and weights 1, 2, 3, one after another, with the policies inside that `inside` names.
fn grouped(outer: &str, inside: &[&str]) -> MemoryPolicy {
    let group = |(i, name): (u32, &&str)| {
        let weight = Weight::new(f64::from(i + 1)).expect("a positive weight");
        let claim = Claim { weight, floor: Amount::memory(Bytes(FLOOR)), ..Claim::default() };
        Group { claim, inside: policy(name, u64::from(i) + 10) }
    };
    policy(outer, 5).over((0..).zip(inside).map(group).collect())
}

/// What a group reserves.
const FLOOR: u64 = 500;

/// A tenant of a round: which group (one that is not there, too), its own floor, its shadow hits.
type Drawn = (Option<u16>, u64, u64);

fn member(
    id: u32,
    &(group, floor, shadow_hits): &Drawn,
    before: &Shares<MemoryShare>,
) -> Row<MemorySignal, MemoryShare> {
    let floor = Amount::memory(Bytes(floor));
    Row {
        id: TenantId(id),
        claim: Claim { group: group.map(GroupId), floor, ..Claim::default() },
        signal: Some(MemorySignal { shadow_hits, ..MemorySignal::default() }),
        in_force: before.get(TenantId(id)).copied(),
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (prop::option::of(0_u16..4), 0_u64..100, 0_u64..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Tenants come, go and change groups: Σ of all is the pool, everybody keeps its floor and each group its own beside
    /// those of the others, and the same input to a fresh policy gives the same shares.
    #[test]
    fn groups_conserve_the_pool(
        outer in prop::sample::select(vec!["partitioned", "shared"]),
        inside in prop::collection::vec(prop::sample::select(vec!["partitioned", "shared"]), 3),
        rounds in prop::collection::vec(
            (prop::collection::btree_map(0_u32..12, drawn(), 0..12), 10_000_u64..20_000, 0_u64..1_500), 1..20),
    ) {
        let (mut policy, mut again) = (grouped(outer, &inside), grouped(outer, &inside));
        let mut before = Shares::default();
        let mut now = Instant::ZERO;
        for (tenants, capacity, later_ms) in rounds {
            let pool = Pool { capacity: Amount::memory(Bytes(capacity)), ..Pool::default() };
            let rows: Vec<_> = tenants.iter().map(|(&id, drawn)| member(id, drawn, &before)).collect();
            let seen = Seen::new(Window { start: now, end: now, mixed: false }, &pool, &rows).unwrap();
            let decision = policy.decide(now, &seen);
            let ids: Vec<u32> = decision.shares.rows().iter().map(|(id, _)| id.0).collect();
            prop_assert_eq!(&ids, &tenants.keys().copied().collect::<Vec<_>>());
            let total: u64 = decision.shares.rows().iter().map(|(_, s)| s.target.0).sum();
            prop_assert_eq!(total, if ids.is_empty() { 0 } else { capacity });
            for group in 0..3 {
                let of_group = decision.shares.rows().iter().filter(|(id, _)| tenants[&id.0].0 == Some(group));
                let held: u64 = of_group.map(|(_, s)| s.target.0).sum();
                prop_assert!(held == 0 || FLOOR <= held, "group {group} keeps its floor: {held}");
            }
            for (id, share) in decision.shares.rows() {
                prop_assert!(tenants[&id.0].1 <= share.target.0, "tenant {id} keeps its floor");
            }
            prop_assert_eq!(again.decide(now, &seen).shares, decision.shares);
            before.copy_from(decision.shares);
            now += Duration::from_millis(later_ms);
        }
    }

    /// Under the idle tax, too, members fit what their group has: a group of the whole weight beside lone tenants.
    #[test]
    fn members_fit_their_group(
        outer in prop::sample::select(MemoryPolicy::NAMES.to_vec()),
        inside in prop::sample::select(MemoryPolicy::NAMES.to_vec()),
        tenants in prop::collection::btree_map(0_u32..12, (drawn(), 0_u64..3_000, 0_u64..3_000), 1..12),
    ) {
        let pool = Pool { capacity: Amount::memory(Bytes(10_000)), ..Pool::default() };
        let rows: Vec<_> = tenants.iter().map(|(&id, (drawn, held, idle))| {
            let mut row = member(id, drawn, &Shares::default());
            let signal = row.signal.unwrap();
            row.signal = Some(MemorySignal { held: Bytes(*held), idle: Bytes(*idle.min(held)), ..signal });
            row
        }).collect();
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let mut nested = grouped(outer, &[inside; 3]);
        let decision = nested.decide(Instant::ZERO, &seen);
        // The same outer policy over one tenant per group, who claims what the group does.
        let mut of_group: BTreeMap<u32, Row<MemorySignal, MemoryShare>> = BTreeMap::new();
        for row in &rows {
            let group = row.claim.group.filter(|group| group.0 < 3);
            let at = group.map_or(row.id, GroupId::row);
            match of_group.get_mut(&at.0) {
                Some(all) => {
                    all.claim.floor = all.claim.floor + row.claim.floor;
                    all.signal.as_mut().unwrap().beside(&row.signal.unwrap());
                }
                None => {
                    let weight = group.map_or(Weight::ONE, |g| Weight::new(f64::from(g.0) + 1.0).unwrap());
                    of_group.insert(at.0, Row { id: at, claim: Claim { weight, ..row.claim.clone() }, ..row.clone() });
                }
            }
        }
        let least = |row: &mut Row<MemorySignal, MemoryShare>| {
            if GroupId::of_row(row.id).is_some() {
                row.claim.floor.bytes = row.claim.floor.bytes.max(Bytes(FLOOR));
                // Whose members are taxed is not.
                if inside == "idle-tax" || inside == "auto" {
                    row.signal.as_mut().unwrap().idle = Bytes::ZERO;
                }
            }
        };
        let mut flat: Vec<_> = of_group.into_values().collect();
        flat.iter_mut().for_each(least);
        let mut alone = match outer {
            // Who cannot be compared has its part by weight there, too.
            "pooled" if inside != "pooled" => {
                let groups = (0..3).map(|at| GroupId(at).row()).collect();
                MemoryPolicy::Pooled(Pooled::new(Bytes(100)).giving_by_weight(groups))
            }
            _ => grouped(outer, &[]),
        };
        let groups = alone.decide(Instant::ZERO, &Seen::new(Window::default(), &pool, &flat).unwrap());
        for (id, share) in groups.shares.rows() {
            let is_member = |row: &&Row<_, _>| row.claim.group.filter(|g| g.0 < 3).map_or(row.id, GroupId::row) == *id;
            let members = rows.iter().filter(is_member).map(|row| decision.shares.get(row.id).unwrap().target);
            let sum: Bytes = members.sum();
            prop_assert!(sum <= share.target, "{id}: {sum} of {}", share.target);
        }
    }

    /// Nothing is overcommitted, nobody gets more than its demand, and whoever is short is held by a used-up resource in
    /// which nobody with a larger weighted dominant share could give.
    #[test]
    fn dominant_shares_are_fair(
        users in prop::collection::vec((1_u32..5, 0.0_f64..50.0, 0.0_f64..50.0), 0..12),
        capacity in (1.0_f64..100.0, 1.0_f64..100.0),
    ) {
        let capacity = [capacity.0, capacity.1];
        let demands: Vec<Demand<2>> =
            users.iter().map(|&(w, a, b)| Demand::new(f64::from(w), [a, b]).unwrap()).collect();
        let mut parts = Vec::new();
        dominant_shares(&capacity, &demands, &mut parts);
        prop_assert_eq!(parts.len(), users.len());
        let used: Vec<f64> =
            (0..2).map(|r| users.iter().zip(&parts).map(|(u, p)| [u.1, u.2][r] * p).sum()).collect();
        let full = |r: usize| capacity[r] * (1.0 - 1e-6) <= used[r];
        prop_assert!(used[0] <= capacity[0] * (1.0 + 1e-9) && used[1] <= capacity[1] * (1.0 + 1e-9));
        let level = |i: usize| {
            let (w, a, b) = users[i];
            (a / capacity[0]).max(b / capacity[1]) * parts[i] / f64::from(w)
        };
        for i in 0..users.len() {
            prop_assert!((0.0..=1.0).contains(&parts[i]));
            if parts[i] < 1.0 {
                let needs = |j: usize, r: usize| 0.0 < [users[j].1, users[j].2][r];
                let held = (0..2).any(|r| needs(i, r) && full(r)
                    && (0..users.len()).all(|j| !needs(j, r) || level(j) <= level(i) + 1e-6));
                prop_assert!(held, "tenant {i} could have more: {users:?} {parts:?}");
            }
        }
    }
}

#[test]
fn drf_gives_the_published_example_of_two_users() {
    // 9 CPUs and 18 GB; one wants <1, 4> per task, the other <3, 1>: three and two tasks.
    let demands =
        [Demand::new(1.0, [9.0 * 1.0, 9.0 * 4.0]).unwrap(), Demand::new(1.0, [9.0 * 3.0, 9.0]).unwrap()];
    let mut parts = Vec::new();
    dominant_shares(&[9.0, 18.0], &demands, &mut parts);
    assert!((parts[0] * 9.0 - 3.0).abs() < 1e-9 && (parts[1] * 9.0 - 2.0).abs() < 1e-9, "{parts:?}");
    assert_eq!(Demand::new(0.0, [1.0]).unwrap_err(), DrfError::Weight);
    assert_eq!(Demand::new(f64::NAN, [1.0]).unwrap_err(), DrfError::Weight);
    assert_eq!(Demand::new(1.0, [f64::INFINITY]).unwrap_err(), DrfError::Wanted);
}

#[test]
fn drf_divides_memory_and_bandwidth_between_their_claims() {
    let amount =
        |bytes, bandwidth| Amount { bytes: Bytes(bytes), bandwidth: BytesPerSec(bandwidth), cost: Cost(0) };
    let row = |id, floor, ceiling| Row {
        id: TenantId(id),
        claim: Claim { floor, ceiling: Some(ceiling), ..Claim::default() },
        signal: None,
        in_force: None,
    };
    let rows = [
        row(1, amount(0, 0), amount(9, 36)),
        row(2, amount(0, 0), amount(27, 9)),
        row(3, amount(1, 2), amount(1, 2)),
    ];
    let pool = Pool { capacity: amount(10_000, 20_000), ..Pool::default() };
    let mut policy = Drf::default();
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    let shares: Vec<_> = policy.decide(Instant::ZERO, &seen).shares.rows().to_vec();
    // Far more than anybody claims: everybody gets its claim, up to rounding down.
    for ((id, share), row) in shares.iter().zip(&rows) {
        let most = row.claim.ceiling.unwrap();
        assert!(share.bytes <= most.bytes && most.bytes.0 - share.bytes.0 <= 1, "{id} {share:?}");
        assert!(
            share.bandwidth <= most.bandwidth && most.bandwidth.0 - share.bandwidth.0 <= 1,
            "{id} {share:?}"
        );
    }
}

#[test]
fn drf_takes_a_ceiling_of_nothing_for_no_limit() {
    let most =
        |bytes, bandwidth| Amount { bytes: Bytes(bytes), bandwidth: BytesPerSec(bandwidth), cost: Cost(0) };
    let row = |id, ceiling| Row {
        id: TenantId(id),
        claim: Claim { ceiling: Some(ceiling), ..Claim::default() },
        signal: None,
        in_force: None,
    };
    let rows = [row(1, most(1_000, 0)), row(2, most(0, 1_000)), row(3, Amount::tier_time(Cost(1)))];
    let pool = Pool { capacity: most(30_000, 30_000), ..Pool::default() };
    let mut policy = Drf::default();
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    let shares: Vec<_> = policy.decide(Instant::ZERO, &seen).shares.rows().to_vec();
    for (id, share) in &shares {
        assert!(Bytes::ZERO < share.bytes && BytesPerSec(0) < share.bandwidth, "{id} {share:?}");
    }
    assert!(shares[0].1.bytes <= Bytes(1_000) && BytesPerSec(1_000) < shares[0].1.bandwidth, "{shares:?}");
    assert!(shares[1].1.bandwidth <= BytesPerSec(1_000) && Bytes(1_000) < shares[1].1.bytes, "{shares:?}");
}
