//! Groups of tenants that share what their group is given of a tier's time, of its bandwidth, and of memory and bandwidth together.

use control::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use control::joint::{Joint, JointSignal};
use control::{Amount, Claim, Class, GroupId, Levers, Policy, Pool, Row, Seen, Window};
use policy::bandwidth::{BandwidthPolicy, Options, by_name};
use policy::compose::{Group, Grouped};
use policy::joint;
use units::{Bytes, BytesPerSec, Instant, TenantId};

/// A hundredth of a tier's time.
const PART: u64 = Cost::SECOND.0 / 100;
/// Bytes per second that a hundredth of its time moves.
const RATE: u64 = 1_000_000;
const BRAKE: Kinds<bool> = Kinds { dram_read: false, dram_write: false, slow_read: true, slow_write: true };
const GROUP: Option<u16> = Some(0);

type Boxed = Box<BandwidthPolicy>;

/// Tenants that want so many hundredths of a tier's time; some of them are in the one group that there is.
struct Stage {
    policy: Grouped<Boxed, Boxed>,
    pool: Pool,
    rows: Vec<Row<BandwidthSignal, Throttle>>,
    wants: Vec<f64>,
    start: Instant,
    now: Instant,
}

impl Stage {
    fn new(name: &str, group: Claim, tenants: &[(f64, Option<u16>)]) -> Self {
        let made = || by_name(name, &Options::default()).expect("a policy of this name");
        let row = |(id, (_, group)): (u32, &(f64, Option<u16>))| Row {
            id: TenantId(id),
            claim: Claim {
                group: group.map(GroupId),
                levers: Levers { brake: BRAKE, ..Levers::default() },
                ..Claim::default()
            },
            signal: None,
            in_force: None,
        };
        Self {
            policy: Grouped::new(made(), vec![Group { claim: group, inside: made() }]),
            pool: Pool { capacity: Amount::tier_time(Cost::SECOND), profile: 1, ..Pool::default() },
            rows: (0..).zip(tenants).map(row).collect(),
            wants: tenants.iter().map(|(want, _)| *want).collect(),
            start: Instant::ZERO,
            now: Instant::ZERO,
        }
    }

    /// One decision and what follows; returns what each uses under it, in hundredths of the tier.
    fn step(&mut self) -> Vec<f64> {
        let window = Window { start: self.start, end: self.now, mixed: false };
        let seen = Seen::new(window, &self.pool, &self.rows).expect("rows in order");
        let decision = self.policy.decide(self.now, &seen);
        let (wake, shares) = (decision.wake, decision.shares.rows().to_vec());
        let secs = wake.as_secs_f64();
        let mut all = Vec::new();
        for ((row, (id, share)), &want) in self.rows.iter_mut().zip(&shares).zip(&self.wants) {
            assert_eq!(row.id, *id);
            let capped = share.cap.slow_read.map_or(f64::INFINITY, |cap| cap.0 as f64 / RATE as f64);
            let budget = share.budget.map_or(f64::INFINITY, |budget| budget.cost.part_of(budget.per) * 100.0);
            let used = if share.paused { 0.0 } else { want.min(capped).min(budget) };
            let ran_out = budget < want;
            row.signal = Some(BandwidthSignal {
                cost: Cost(whole(used * PART as f64 * secs)),
                bytes: Kinds { slow_read: Bytes(whole(used * RATE as f64 * secs)), ..Kinds::default() },
                operations: 1_000,
                threads: 1,
                depleted_at: ran_out
                    .then_some(self.now + units::Duration(whole(used / want * wake.0 as f64))),
                ..BandwidthSignal::default()
            });
            row.in_force = Some(*share);
            all.push(used);
        }
        (self.start, self.now) = (self.now, self.now + wake);
        all
    }

    /// The means of what each used over `count` decisions.
    fn used(&mut self, count: u32) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows.len()];
        for _ in 0..count {
            sums.iter_mut().zip(self.step()).for_each(|(sum, used)| *sum += used / f64::from(count));
        }
        sums
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below zero")]
fn whole(x: f64) -> u64 {
    x as u64
}

fn limited(hundredths: u64) -> Claim {
    Claim { ceiling: Some(Amount::tier_time(Cost(PART * hundredths))), ..Claim::default() }
}

#[test]
fn members_share_the_limit_of_their_group() {
    let mut stage = Stage::new("limit", limited(40), &[(100.0, GROUP), (100.0, GROUP), (60.0, None)]);
    stage.used(20);
    for _ in 0..10 {
        let used = stage.step();
        assert!(used[0] + used[1] <= 40.01 && 39.0 <= used[0] + used[1], "{used:?}");
        assert!((used[0] - used[1]).abs() < 1.0, "alike by weight: {used:?}");
        assert!((used[2] - 60.0).abs() < 1e-9, "who is in no group is free: {used:?}");
    }
    // What one leaves the other has, and it comes back to its part.
    stage.wants[0] = 0.0;
    stage.used(5);
    let used = stage.used(5);
    assert!(39.0 <= used[1] && used[1] <= 40.01, "{used:?}");
    stage.wants[0] = 100.0;
    stage.used(20);
    let used = stage.used(5);
    assert!((used[0] - used[1]).abs() < 1.0 && used[0] + used[1] <= 40.01, "{used:?}");
}

#[test]
fn a_member_s_own_limit_holds_inside_and_who_is_exempt_is_free() {
    let mut stage = Stage::new("limit", limited(40), &[(100.0, GROUP), (100.0, GROUP), (10.0, GROUP)]);
    stage.rows[0].claim.ceiling = limited(5).ceiling;
    stage.rows[2].claim.class = Class::Exempt;
    stage.used(20);
    let used = stage.used(10);
    assert!(used[0] <= 5.01, "{used:?}");
    assert!((used[2] - 10.0).abs() < 1e-9, "{used:?}");
    assert!(used[0] + used[1] <= 40.01 && 20.0 < used[1], "{used:?}");
}

#[test]
fn members_share_the_caps_of_their_group() {
    let caps = Kinds { slow_read: Some(BytesPerSec(40 * RATE)), ..Kinds::default() };
    let group = Claim { caps, ..Claim::default() };
    let mut stage = Stage::new("prevention", group, &[(100.0, GROUP), (30.0, GROUP), (60.0, None)]);
    stage.used(40);
    for _ in 0..10 {
        let used = stage.step();
        assert!(used[0] + used[1] <= 40.01 && 38.0 <= used[0] + used[1], "{used:?}");
        assert!((used[2] - 60.0).abs() < 1e-9, "{used:?}");
    }
}

#[test]
fn a_group_has_the_part_of_one_tenant_of_its_weight() {
    let tenants = [(100.0, GROUP), (100.0, GROUP), (100.0, None)];
    let mut stage = Stage::new("proportional", Claim::default(), &tenants);
    stage.used(200);
    let used = stage.used(500);
    assert!((used[0] + used[1] - used[2]).abs() < 5.0, "{used:?}");
    assert!((used[0] - used[1]).abs() < 3.0 && 40.0 < used[2], "{used:?}");
}

#[test]
fn memory_and_bandwidth_of_a_group_are_its_members_pool() {
    let made = || joint::by_name("static", joint::Options::default()).unwrap();
    let mut policy = Grouped::new(made(), vec![Group { claim: Claim::default(), inside: made() }]);
    let capacity = Amount { bytes: Bytes(1 << 20), bandwidth: BytesPerSec(1 << 20), ..Amount::default() };
    let pool = Pool { capacity, ..Pool::default() };
    let row = |id, group: Option<u16>| Row::<JointSignal, Joint> {
        id: TenantId(id),
        claim: Claim { group: group.map(GroupId), ..Claim::default() },
        signal: Some(JointSignal::default()),
        in_force: None,
    };
    let rows = [row(1, GROUP), row(2, None), row(3, GROUP)];
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    let shares: Vec<_> = policy.decide(Instant::ZERO, &seen).shares.rows().to_vec();
    let of = |part: u64| Joint { bytes: Bytes((1 << 20) / part), bandwidth: BytesPerSec((1 << 20) / part) };
    let wanted = [(1, 4), (2, 2), (3, 4)].map(|(id, part)| (TenantId(id), of(part)));
    assert_eq!(shares, wanted);
}

#[test]
fn a_group_that_reserves_more_than_it_may_have_is_divided_all_the_same() {
    let mut stage = Stage::new("limit", limited(40), &[(100.0, GROUP), (60.0, None)]);
    stage.rows[0].claim.floor = Amount::tier_time(Cost(PART * 50));
    let used = stage.used(10);
    assert!(used[0] <= 40.01 && (used[1] - 60.0).abs() < 1e-9, "{used:?}");
}
