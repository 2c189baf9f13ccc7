//! `proportional`, line by line of Algorithm 4, and on tenants that want fixed amounts.

mod turns;

use super::*;
use crate::bandwidth::testing::whole;
use crate::bandwidth::testing::{Case, Decided, Did as _, decide, step, tenant, window};
use control::{Amount, Claim, Weight};

fn weighing(id: u32, weight: f64) -> Case {
    tenant(id, Claim { weight: Weight::new(weight).unwrap(), ..Claim::default() })
}

/// Tenants that want fixed parts of the tier, in hundredths, and suffer nothing.
struct Plant {
    rows: Vec<Case>,
    wants: Vec<f64>,
    /// Performance of each relative to alone, as the shared windows show it.
    kept: Vec<f64>,
    /// So many of the last do nothing.
    asleep: usize,
    now: Instant,
}

impl Plant {
    fn new(tenants: &[(f64, f64)]) -> Self {
        let rows = (1..).zip(tenants).map(|(id, (weight, _))| weighing(id, *weight)).collect();
        let wants = tenants.iter().map(|(_, wants)| wants / 100.0).collect();
        Self { rows, wants, kept: vec![1.0; tenants.len()], asleep: 0, now: Instant::ZERO }
    }

    fn step(&mut self, policy: &mut Proportional, last: Duration) -> Decided {
        let start = self.now;
        self.now = start + last;
        for (at, row) in self.rows.iter_mut().enumerate() {
            let throttle = row.in_force.unwrap_or_default();
            let wants = self.wants[at] * last.0 as f64 * 1e3;
            let granted = throttle.budget.map_or(f64::INFINITY, |budget| budget.cost.0 as f64);
            let used = if throttle.paused { 0.0 } else { wants.min(granted) };
            let signal = row.reads(1_000, last);
            signal.cost = Cost(whole(used));
            let alone = throttle.budget.is_none();
            signal.operations = whole(1e6 * if alone { 1.0 } else { self.kept[at] }) * last.0 / 1_000_000;
            if self.wants.len() - self.asleep <= at {
                *signal = control::bandwidth::BandwidthSignal::default();
                continue;
            }
            signal.depleted_at =
                (granted < wants).then(|| start + Duration(whole(last.0 as f64 * granted / wants)));
        }
        let mut span = window(0, 0);
        (span.start, span.end) = (start, self.now);
        let decided = decide(policy, &mut self.rows, span);
        let total: u64 =
            decided.shares.iter().filter_map(|(_, throttle)| throttle.budget).map(|b| b.cost.0).sum();
        assert!(total <= EPOCH.0 * 1_000, "more is given than there is");
        decided
    }

    /// Budgets in thousandths of the tier after `epochs` steady epochs.
    fn run(&mut self, policy: &mut Proportional, epochs: usize) -> Vec<u64> {
        let mut last = Vec::new();
        let (mut wake, mut steady) = (Duration::ZERO, 0);
        while steady < epochs {
            let decided = self.step(policy, wake);
            wake = decided.wake;
            if decided.steady {
                steady += 1;
                last = decided.shares;
            }
        }
        last.iter().map(|(_, throttle)| throttle.budget.unwrap().cost.0 / 2_000_000).collect()
    }
}

fn aware(step: f64) -> Donation {
    Donation::Aware(DonateStep::new(step).unwrap())
}

#[test]
fn whoever_wants_all_gets_its_part_by_weight() {
    for donation in [Donation::Kept, Donation::All, aware(0.1)] {
        let mut plant = Plant::new(&[(2.0, 100.0), (1.0, 100.0)]);
        let budgets = plant.run(&mut Proportional::new(donation, Pause::default(), 1), 20);
        assert_eq!(budgets, [666, 333], "{donation:?}");
    }
}

#[test]
fn option_1_lends_all_that_is_idle() {
    let mut plant = Plant::new(&[(2.0, 16.0), (1.0, 100.0)]);
    let budgets = plant.run(&mut Proportional::new(Donation::All, Pause::default(), 1), 20);
    assert!((155..=175).contains(&budgets[0]) && 820 < budgets[1], "{budgets:?}");
    let kept = Plant::new(&[(2.0, 16.0), (1.0, 100.0)])
        .run(&mut Proportional::new(Donation::Kept, Pause::default(), 1), 20);
    assert_eq!(kept, [666, 333]);
}

#[test]
fn option_2_lends_a_step_at_a_time_while_the_donor_stands_it() {
    let mut policy = Proportional::new(aware(0.1), Pause::default(), 1);
    let mut plant = Plant::new(&[(2.0, 16.0), (1.0, 100.0)]);
    let (mut wake, mut budgets) = (Duration::ZERO, Vec::new());
    for _ in 0..8 {
        let decided = plant.step(&mut policy, wake);
        wake = decided.wake;
        if decided.steady {
            budgets.push(decided.shares[0].1.budget.unwrap().cost.0 / 2_000_000);
        }
    }
    assert_eq!(budgets[..4], [666, 600, 540, 486], "a tenth less each time, once its pace alone is known");
    let budgets = plant.run(&mut policy, 40);
    assert!((155..=180).contains(&budgets[0]), "down to what it uses: {budgets:?}");
}

#[test]
fn option_2_takes_back_a_step_when_the_donor_is_past_its_bound() {
    let mut policy = Proportional::new(aware(0.1), Pause::default(), 1);
    let mut plant = Plant::new(&[(2.0, 16.0), (1.0, 100.0)]);
    plant.run(&mut policy, 6);
    let before = policy.members[0].assigned;
    // Slowed down to 1.6 of alone, past W / w = 1.5.
    plant.kept[0] = 1.0 / 1.6;
    plant.run(&mut policy, 2);
    let after = policy.members[0].assigned;
    assert!((after / before - 1.1).abs() < 0.01, "{before} -> {after}");
    let budgets = plant.run(&mut policy, 20);
    assert_eq!(budgets, [666, 333], "at most its part");
}

/// 190 requests a second alone, 40 beside another: an epoch holds one or none. Of those that hold none nothing follows.
#[test]
fn option_2_sees_who_makes_few_requests_and_is_past_its_bound() {
    let pause = Pause::new(Duration::ZERO, Some(Duration::from_micros(80)));
    let mut policy = Proportional::new(aware(0.1), pause, 1);
    let mut rows = [weighing(1, 1.0), weighing(2, 1.0)];
    let (mut now, mut wake, mut told) = (0, Duration::ZERO, 0);
    // By what it does under each, in nanoseconds of one request.
    let mut done = [0, 0];
    while now < 120_000_000_000 {
        let [paused, alone] =
            rows[0].in_force.map_or([false; 2], |held| [held.paused, held.budget.is_none()]);
        let each = if alone { 1_000_000_000 / 190 } else { 1_000_000_000 / 40 };
        let did = &mut done[usize::from(alone)];
        let before = *did / each;
        *did += if paused { 0 } else { wake.0 };
        let operations = *did / each - before;
        let signal = rows[0].reads(0, wake);
        (signal.operations, signal.cost) = (operations, Cost(operations * 1_000_000));
        signal.bytes.slow_read = units::Bytes(operations * 4096);
        let used = rows[1].in_force.and_then(|held| held.budget).map_or(0, |budget| budget.cost.0);
        let signal = rows[1].reads(1_000, wake);
        (signal.cost, signal.depleted_at) = (Cost(used), Some(Instant(now + wake.0 / 2)));
        let mut span = window(0, 0);
        (span.start, span.end) = (Instant(now), Instant(now + wake.0));
        now = span.end.0;
        let decided = decide(&mut policy, &mut rows, span);
        wake = decided.wake;
        let slowed = |note: &&Note| note.reason == Reason::Slowed && note.tenant == Some(TenantId(1));
        told = decided.notes.iter().find(slowed).map_or(told, |note| note.amount);
        let assigned = policy.members[0].assigned;
        assert!(now < 60_000_000_000 || 0.45 < assigned, "at {now}: {assigned}");
    }
    assert!((3_500..6_000).contains(&told), "4.75 times slower, here {told} thousandths");
}

#[test]
fn a_donor_that_comes_back_has_its_part_at_once() {
    for donation in [Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut plant = Plant::new(&[(1.0, 0.0), (1.0, 100.0)]);
        let budgets = plant.run(&mut policy, 100);
        assert!(budgets[0] <= 8 && 980 < budgets[1], "{donation:?}: {budgets:?}");
        plant.wants[0] = 1.0;
        let budgets = plant.run(&mut policy, 3);
        assert_eq!(budgets, [500, 500], "{donation:?}");
    }
}

#[test]
fn who_was_exempt_has_its_part_once_it_is_budgeted() {
    for donation in [Donation::Kept, Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut plant = Plant::new(&[(1.0, 100.0), (1.0, 100.0)]);
        // In turn from the beginning, and after it once had a part.
        for _ in 0..2 {
            plant.rows[0].claim.class = Class::Exempt;
            let mut wake = Duration::ZERO;
            for _ in 0..20 {
                wake = plant.step(&mut policy, wake).wake;
            }
            plant.rows[0].claim.class = Class::BestEffort;
            // The first decision comes over a window of no length: nobody has more than there is.
            let budgets = plant.run(&mut policy, 10);
            assert_eq!(budgets, [500, 500], "{donation:?}");
        }
    }
}

#[test]
fn the_forecast_is_what_would_have_lasted() {
    let member = Member { part: 0.5, most: 1.0, assigned: 0.2, ..Member::default() };
    for (lasted_us, desired) in [(2_000, 0.2), (1_000, 0.4), (500, 0.8), (100, 1.0), (0, 1.0)] {
        let got = member.wants_more(0.2, Duration::from_micros(lasted_us), EPOCH);
        assert!((got - desired).abs() < 1e-9, "{lasted_us}: {got}");
    }
}

#[test]
fn filling_is_weighted_max_min() {
    for (members, filled) in [
        (&[(1.0, 1.0), (1.0, 1.0)][..], &[0.5, 0.5][..]),
        (&[(1.0, 0.1), (1.0, 1.0), (1.0, 1.0)], &[0.1, 0.45, 0.45]),
        (&[(2.0, 1.0), (1.0, 0.2), (1.0, 1.0)], &[0.5333, 0.2, 0.2667]),
        // Nobody wants the rest: it goes back to those below their part, and to nobody else.
        (&[(1.0, 0.1), (1.0, 0.2)], &[0.5, 0.5]),
        (&[(1.0, 0.1), (1.0, 0.7)], &[0.3, 0.7]),
        (&[], &[]),
        (&[(1.0, 1.0)], &[1.0]),
    ] {
        let mut policy = Proportional::new(Donation::All, Pause::default(), 1);
        let rows: Vec<_> = (1..).zip(members).map(|(id, (weight, _))| weighing(id, *weight)).collect();
        policy.members.settle(&rows, &mut Vec::new(), |_| Member::default());
        let pool = control::Pool::default();
        let seen = Seen::new(window(0, 1), &pool, &rows).unwrap();
        policy.entitle(&seen, true);
        for (at, (_, desired)) in members.iter().enumerate() {
            policy.members[at].desired = *desired;
        }
        policy.fill();
        for (at, expected) in filled.iter().enumerate() {
            let got = policy.members[at].assigned;
            assert!((got - expected).abs() < 1e-4, "{members:?}: {at} got {got}");
        }
    }
}

#[test]
fn use_beyond_the_budget_is_charged() {
    let mut policy = Proportional::new(Donation::Kept, Pause::default(), 1);
    let mut rows = [weighing(1, 1.0), weighing(2, 1.0)];
    let mut budgets = Vec::new();
    for (at, used) in [0, 50, 60, 50, 50].into_iter().enumerate() {
        for row in &mut rows {
            row.used_percent(Some(used), EPOCH);
        }
        rows[1].used_percent(Some(50), EPOCH);
        let at = at as u64 * 2;
        let shares = decide(&mut policy, &mut rows, window(at, at + 2)).shares;
        budgets.push(shares[0].1.budget.unwrap().cost.0 / 20_000_000);
    }
    assert_eq!(budgets, [50, 50, 40, 40, 40], "10 beyond, then 10 less until it was 10 less");
}

#[test]
fn the_pool_may_be_a_part_and_a_ceiling_holds() {
    let mut policy = Proportional::new(Donation::All, Pause::default(), 1);
    let pool = control::Pool { capacity: Amount::tier_time(Cost(Cost::SECOND.0 / 2)), ..Default::default() };
    let mut rows = [weighing(1, 1.0), weighing(2, 1.0), weighing(3, 1.0)];
    rows[1].claim.ceiling = Some(Amount::tier_time(Cost(Cost::SECOND.0 / 20)));
    rows[2].claim.class = Class::Exempt;
    let mut at = 0;
    for _ in 0..10 {
        for row in &mut rows {
            row.used_percent(Some(30), EPOCH);
            row.signal.as_mut().unwrap().depleted_at = Some(Instant(at * 1_000_000 + 500_000));
        }
        let seen = Seen::new(window(at, at + 2), &pool, &rows).unwrap();
        let shares = policy.decide(Instant(at), &seen).shares.rows().to_vec();
        for (row, (_, throttle)) in rows.iter_mut().zip(&shares) {
            row.in_force = Some(*throttle);
        }
        at += 2;
    }
    let part = |at: usize| rows[at].in_force.unwrap().budget.unwrap().cost.part_of(EPOCH);
    assert!(part(1) <= 0.05 + 1e-9 && part(0) + part(1) <= 0.5 + 1e-9);
    assert_eq!(rows[2].in_force, Some(Throttle::FREE));
}

#[test]
fn missing_mixed_and_standing_windows_change_nothing() {
    for donation in [Donation::Kept, Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut plant = Plant::new(&[(2.0, 16.0), (1.0, 100.0)]);
        let before = plant.run(&mut policy, 30);
        for step in 0..30_u64 {
            let mut span = window(10_000, 10_000 + 2 * (step % 3));
            span.mixed = step % 3 == 1;
            for row in &mut plant.rows {
                row.used_percent((step % 3 == 0).then_some(90), EPOCH);
            }
            decide(&mut policy, &mut plant.rows, span);
        }
        let assigned: Vec<_> = policy.members.iter().map(|(_, m)| m.assigned * 1e3).collect();
        for (before, after) in before.iter().zip(assigned) {
            assert!((*before as f64 - after).abs() < 8.0, "{donation:?}: {before} {after}");
        }
    }
}

#[test]
fn tenants_come_and_go_in_mid_probe() {
    let mut policy = Proportional::new(aware(0.1), Pause::default(), 3);
    for ids in [&[][..], &[1], &[1, 2, 7], &[2], &[2, 3], &[], &[7, 9]] {
        let mut rows: Vec<_> = ids.iter().map(|&id| weighing(id, 1.0)).collect();
        for step in 0..5 {
            let decided = decide(&mut policy, &mut rows, window(step, step + 1));
            assert_eq!(decided.shares.len(), ids.len());
        }
    }
}

/// One access may take more than an epoch's budget, for the brake looks before it and not within: it is paid for, however long
/// that takes, and in windows of any length.
#[test]
fn an_access_longer_than_many_budgets_is_paid_for() {
    for window_ms in [2, 5] {
        let mut rows = [weighing(1, 1.0), weighing(2, 99.0)];
        let mut policy = Proportional::new(Donation::Kept, Pause::default(), 1);
        // A value of 1 MiB takes .52 ms: a quarter of an epoch, of which the tenant has a hundredth.
        let access = Cost(520_000_000);
        let (windows, mut accesses) = (2_000, 0_u64);
        let mut now = 0;
        for _ in 0..windows {
            let budget = rows[0].in_force.and_then(|throttle| throttle.budget);
            let signal = rows[0].reads(1, Duration::from_millis(window_ms));
            let is_let_in = budget.is_some_and(|budget| Cost(0) < budget.cost);
            signal.cost = if is_let_in { access } else { Cost(0) };
            signal.depleted_at = Some(Instant(now * 1_000_000));
            accesses += u64::from(is_let_in);
            rows[1].reads(1, Duration::from_millis(window_ms)).cost = Cost(0);
            step(&mut policy, &mut rows, now, now + window_ms);
            now += window_ms;
        }
        let used = accesses as f64 * access.0 as f64 / (now as f64 * 1e9);
        // Nothing is saved: of the window in which the last of an access is paid for, one in eleven, the rest is lost.
        assert!((0.009..0.0101).contains(&used), "{used} of the tier in windows of {window_ms} ms");
    }
}

/// A group that has used up what it is given has nothing to divide for a while: who overdrew pays afterwards, and its mate does not.
#[test]
fn who_overdrew_what_its_group_has_pays_for_it_itself() {
    let mut rows = [weighing(1, 1.0), weighing(2, 1.0)];
    let mut policy = Proportional::new(Donation::Kept, Pause::default(), 1);
    let tenth = Cost(Cost::SECOND.0 / 10);
    let mut now = 0;
    let mut epoch = |pool_cost: Cost, used: [Cost; 2], rows: &mut [Case]| -> Vec<u64> {
        for (row, used) in rows.iter_mut().zip(used) {
            let signal = row.reads(1, EPOCH);
            signal.cost = used;
            signal.depleted_at = Some(Instant(now * 1_000_000));
        }
        let mut pool = control::Pool::default();
        pool.capacity.cost = pool_cost;
        let span = window(now, now + 2);
        now += 2;
        let seen = Seen::new(span, &pool, rows).unwrap();
        let shares = policy.decide(span.end, &seen).shares.rows().to_vec();
        for (row, (_, throttle)) in rows.iter_mut().zip(&shares) {
            row.in_force = Some(*throttle);
        }
        shares.iter().map(|(_, throttle)| throttle.budget.unwrap().cost.0).collect()
    };
    let whole = epoch(tenth, [Cost(0); 2], &mut rows);
    assert_eq!(whole[0], whole[1]);
    // A value of 1 MiB: five epochs of what a tenant has. The group pays by having nothing for three.
    let access = Cost(520_000_000);
    epoch(Cost(1), [access, Cost(0)], &mut rows);
    epoch(Cost(1), [Cost(0); 2], &mut rows);
    epoch(Cost(1), [Cost(0); 2], &mut rows);
    let mut paid = 0;
    loop {
        let budgets = epoch(tenth, [Cost(0); 2], &mut rows);
        assert!(0 < budgets[1], "its mate has its part at once");
        if 0 < budgets[0] {
            break;
        }
        paid += 1;
        assert!(paid < 20, "it is paid for some time");
    }
    assert!((3..=5).contains(&paid), "{paid} epochs");
}

/// What is owed beyond a second of what a tenant has is let off, however little the pool is; an epoch in which there is nothing to divide lets
/// nothing off.
#[test]
fn nobody_pays_for_longer_than_a_second() {
    let mut policy = Proportional::new(Donation::Kept, Pause::default(), 1);
    let mut rows = [weighing(1, 1.0)];
    let (mut now, mut nothing) = (0, 0);
    for epoch in 0..1_000 {
        let signal = rows[0].reads(1, EPOCH);
        signal.cost = if epoch == 1 { Cost(Cost::SECOND.0 / 10) } else { Cost(0) };
        signal.depleted_at = Some(Instant(now * 1_000_000));
        let mut pool = control::Pool::default();
        pool.capacity.cost = if epoch == 2 { Cost(1) } else { Cost(Cost::SECOND.0 / 100) };
        let span = window(now, now + 2);
        now += 2;
        let seen = Seen::new(span, &pool, &rows).unwrap();
        let budget = policy.decide(span.end, &seen).shares.rows()[0].1;
        rows[0].in_force = Some(budget);
        nothing += u32::from(budget.budget.unwrap().cost == Cost(0));
    }
    assert!((490..=502).contains(&nothing), "{nothing} epochs without a budget");
}
