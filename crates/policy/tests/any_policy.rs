//! What holds of every policy, whichever it is: it never fails whatever it sees, obeys its law, and allocates nothing once
//! the set of tenants is steady.
//!
//! Shares are checked against the policy's law where they are built, so that a policy that breaks it panics here.

use control::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use control::form::{FormSignal, Forms};
use control::joint::{Accesses, Joint, JointSignal, Table, Utility};
use control::memory::{MemoryShare, MemorySignal};
use control::{
    Amount, Claim, Class, CpuQuota, Curve, Goal, GroupId, Levers, Mba, Policy, Pool, Quantile, Row, Seen,
    Slowdown, Weight, Window,
};
use policy::bandwidth::{self, Axis, EmpiricalModel, Thresholds};
use policy::compose::{Group, Grouped};
use policy::memory::{MemoryOptions, MemoryPolicy};
use policy::{form, joint};
use std::fmt::Debug;
use units::{Bytes, BytesPerSec, Duration, Instant, Rng, TenantId};

/// Decisions per plant, plants per policy.
const DECISIONS: usize = 150;
const SEEDS: u64 = 12;
/// Decisions of a long run: signals are missing for 449 windows at a time, more than eight bits count.
const LONG: usize = 2_400;
/// Tenants of the steady plant, and its decisions before and while allocations are counted.
const MANY: u32 = 1_000;
const WARM: usize = 120;
const COUNTED: usize = 40;

/// Policies about memory over three groups with another inside.
const GROUPED: [&str; 3] = ["shared over idle-tax", "auto over shared", "idle-tax over partitioned"];

/// The same of a tier's time.
const GROUPED_BANDWIDTH: [&str; 7] = [
    "limit over limit",
    "qos over qos",
    "fair-slowdown over fair-slowdown",
    "proportional over proportional",
    "prevention over prevention",
    "guarantee over guarantee",
    "slo over slo",
];
/// The same of memory and bandwidth.
const GROUPED_BOTH: [&str; 4] =
    ["symbiosis over symbiosis", "static over static", "harvest over harvest", "trade over trade"];

/// How signals of a family look.
trait Family {
    type Signal: Clone + Debug;
    type Share: Clone + Debug + PartialEq;
    fn policy(name: &str, seed: u64) -> Box<dyn Policy<Signal = Self::Signal, Share = Self::Share>>;
    fn signal(rng: &mut Rng) -> Self::Signal;
}

struct Memory;
struct Bandwidth;
struct Both;
struct Form;

/// A count that is often zero, mostly ordinary and sometimes far from it.
fn count(rng: &mut Rng, ordinary: u64) -> u64 {
    match rng.below(10) {
        0 => 0,
        1 => 1,
        2 => ordinary.saturating_mul(1_000),
        _ => rng.below(ordinary.max(1) * 2),
    }
}

fn maybe<T>(rng: &mut Rng, value: T) -> Option<T> {
    rng.chance(0.7).then_some(value)
}

impl Family for Memory {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn policy(name: &str, seed: u64) -> Box<dyn Policy<Signal = MemorySignal, Share = MemoryShare>> {
        let options = MemoryOptions { seed, learning: Duration::from_secs(60), ..MemoryOptions::default() };
        let by_name = |name| MemoryPolicy::by_name(name, options).expect("a policy of this name");
        let Some((outer, inside)) = name.split_once(" over ") else { return Box::new(by_name(name)) };
        let claim = || Claim { floor: Amount::memory(Bytes(1 << 20)), ..Claim::default() };
        let groups = (0..3).map(|_| Group { claim: claim(), inside: by_name(inside) });
        Box::new(by_name(outer).over(groups.collect()))
    }

    fn signal(rng: &mut Rng) -> MemorySignal {
        let gets = count(rng, 10_000);
        let held = count(rng, 1 << 24);
        MemorySignal {
            held: Bytes(held),
            idle: Bytes(rng.below(held + 1)),
            shadow_hits: count(rng, 50),
            gets,
            hits: rng.below(gets + 1),
            expected_hits: count(rng, 20_000_000),
            ..MemorySignal::default()
        }
    }
}

impl Family for Bandwidth {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn policy(name: &str, seed: u64) -> Box<dyn Policy<Signal = BandwidthSignal, Share = Throttle>> {
        let axis = || Axis::even(BytesPerSec(1_000_000_000), 2).expect("two steps");
        let axes = Kinds { dram_read: axis(), dram_write: axis(), slow_read: axis(), slow_write: axis() };
        let model = EmpiricalModel::measured(0, axes, |wanted| wanted).expect("a table of its own axes");
        let thresholds = Thresholds::new(Kinds::splat(Some(Duration(200)))).expect("above zero");
        let options =
            bandwidth::Options { seed, thresholds, model: Some(model), ..bandwidth::Options::default() };
        let by_name = |name| bandwidth::by_name(name, &options).expect("a policy of this name");
        let Some((outer, inside)) = name.split_once(" over ") else { return by_name(name) };
        let ceiling = Some(Amount::tier_time(Cost(Cost::SECOND.0 / 3)));
        let caps = Kinds { slow_write: Some(BytesPerSec(1 << 20)), ..Kinds::default() };
        let claim = || Claim { ceiling, caps, ..Claim::default() };
        let groups = (0..3).map(|_| Group { claim: claim(), inside: by_name(inside) });
        Box::new(Grouped::new(by_name(outer), groups.collect()))
    }

    fn signal(rng: &mut Rng) -> BandwidthSignal {
        let at = Instant(rng.below(1 << 40));
        let (mean, tail) = (Duration(count(rng, 2_000)), Duration(count(rng, 20_000)));
        BandwidthSignal {
            bytes: Kinds::from_fn(|_| Bytes(count(rng, 1 << 30))),
            accesses: Kinds::from_fn(|_| count(rng, 1 << 22)),
            sampled: Kinds::from_fn(|_| rng.chance(0.1)),
            cost: Cost(count(rng, 200_000_000_000)),
            operations: count(rng, 1 << 20),
            threads: u16::try_from(rng.below(20)).unwrap_or(1),
            mean_latency: maybe(rng, mean),
            tail_latency: maybe(rng, tail),
            depleted_at: rng.chance(0.2).then_some(at),
        }
    }
}

impl Family for Form {
    type Signal = FormSignal;
    type Share = Forms;

    fn policy(name: &str, _seed: u64) -> Box<dyn Policy<Signal = FormSignal, Share = Forms>> {
        form::by_name(name, form::Options::default(), form::Parts::MEMORY).expect("a policy of this name")
    }

    fn signal(rng: &mut Rng) -> FormSignal {
        // What a careless sensor divides by zero.
        let odd = |rng: &mut Rng, usual: f64| match rng.below(20) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -1.0,
            _ => usual * rng.unit(),
        };
        let held = Forms {
            write_cache: Bytes(count(rng, 1 << 30)),
            memory: Bytes(count(rng, 1 << 30)),
            compressed: Bytes(count(rng, 1 << 30)),
        };
        let (latency_error, tail_error, compression) = (odd(rng, 0.1), odd(rng, 0.2), odd(rng, 4.0));
        FormSignal {
            operations: count(rng, 10_000),
            latency: Duration(count(rng, 500_000)),
            tail: Duration(count(rng, 5_000_000)),
            latency_error: maybe(rng, latency_error),
            tail_error: maybe(rng, tail_error),
            compression: maybe(rng, compression),
            held: maybe(rng, held),
        }
    }
}

impl Family for Both {
    type Signal = JointSignal;
    type Share = Joint;

    fn policy(name: &str, seed: u64) -> Box<dyn Policy<Signal = JointSignal, Share = Joint>> {
        let window = if seed.is_multiple_of(2) { Some(5) } else { None };
        let stateful = seed.is_multiple_of(3);
        let ease = [1.0, 0.3, 0.01][(seed / 2 % 3) as usize];
        let options = joint::Options { window, stateful, ease, ..joint::Options::default() };
        let by_name = |name| joint::by_name(name, options.clone()).expect("a policy of this name");
        let Some((outer, inside)) = name.split_once(" over ") else { return by_name(name) };
        let groups = (0..3).map(|_| Group { claim: Claim::default(), inside: by_name(inside) });
        Box::new(Grouped::new(by_name(outer), groups.collect()))
    }

    fn signal(rng: &mut Rng) -> JointSignal {
        let utility = match rng.below(5) {
            0 => None,
            1 => Some(Utility::Accesses(accesses(rng))),
            2 => Some(Utility::Table(table(rng))),
            _ => Some(Utility::Curve(curve(rng))),
        };
        JointSignal {
            held: Bytes(count(rng, 1 << 30)),
            bandwidth: BytesPerSec(count(rng, 1 << 30)),
            operations: count(rng, 10_000),
            utility,
        }
    }
}

fn curve(rng: &mut Rng) -> Curve {
    let (mut size, mut ratio) = (rng.below(1 << 20), rng.unit());
    let points: Vec<(Bytes, f64)> = (0..2 + rng.below(6))
        .map(|_| {
            size += 1 + rng.below(1 << 28);
            ratio *= if rng.chance(0.3) { 1.0 } else { rng.unit() };
            (Bytes(size), ratio)
        })
        .collect();
    Curve::new(points).expect("sizes rise, ratios do not")
}

fn accesses(rng: &mut Rng) -> Accesses {
    let counts: Vec<u32> =
        (0..1 + rng.below(50)).map(|_| u32::try_from(1 + rng.below(9)).unwrap_or(1)).collect();
    let pages = 50 + count(rng, 1 << 18);
    let cached = Bytes(count(rng, 1 << 28));
    Accesses::new(counts, Bytes(4096), pages, cached, rng.unit()).expect("all is in range")
}

fn table(rng: &mut Rng) -> Table {
    let mut speed = 0.0;
    let row: Vec<f32> = (0..3)
        .map(|_| {
            speed += if rng.chance(0.3) { 0.0 } else { rng.below(100) as f32 };
            speed
        })
        .collect();
    let most =
        Joint { bytes: Bytes(1 + count(rng, 1 << 30)), bandwidth: BytesPerSec(1 + count(rng, 1 << 30)) };
    let more: Vec<f32> = row.iter().map(|speed| speed + 1.0).collect();
    Table::new(most, 2, 3, [row, more].concat()).expect("it rises")
}

/// Groups of a claim: of three that there are, of one that is not there, of none.
const GROUPS: [Option<GroupId>; 6] =
    [Some(GroupId(0)), Some(GroupId(1)), Some(GroupId(2)), Some(GroupId(7)), None, None];

/// A claim of any class with any levers.
fn claim(rng: &mut Rng) -> Claim {
    let kinds = |rng: &mut Rng| Kinds::from_fn(|_| BytesPerSec(count(rng, 1_000_000_000)));
    let goal = match rng.below(3) {
        0 => Goal::Bandwidth(kinds(rng)),
        1 => Goal::Slowdown(Slowdown::new(1.0 + 3.0 * rng.unit()).expect("at least 1")),
        _ => Goal::Latency {
            quantile: Quantile::new(0.99).expect("inside 0..1"),
            at_most: Duration(count(rng, 3_000)),
        },
    };
    let class = match rng.below(5) {
        0 => Class::Exempt,
        1 | 2 => Class::Critical { goal },
        _ => Class::BestEffort,
    };
    let floor = Amount {
        bytes: Bytes(count(rng, 1 << 20)),
        bandwidth: BytesPerSec(count(rng, 1 << 20)),
        cost: Cost(count(rng, 1_000_000_000)),
    };
    let more = Amount {
        bytes: Bytes(count(rng, 1 << 26)),
        bandwidth: BytesPerSec(count(rng, 1 << 30)),
        cost: Cost(count(rng, 500_000_000_000)),
    };
    let levers = Levers {
        brake: Kinds::from_fn(|kind| kind.is_slow() && rng.chance(0.7)),
        mba: rng.chance(0.5).then_some(Mba::MT2),
        cpu: rng.chance(0.5).then_some(CpuQuota { most: 4_000, least: 100 }),
    };
    Claim {
        weight: Weight::new(0.001 + rng.unit() * 5.0).expect("above zero"),
        floor,
        ceiling: rng.chance(0.3).then_some(floor + more),
        caps: Kinds::from_fn(|_| rng.chance(0.3).then(|| BytesPerSec(count(rng, 1_000_000_000)))),
        credit: rng.chance(0.3).then(|| Bytes(count(rng, 1 << 17))),
        class,
        levers,
        group: GROUPS.get(rng.index(GROUPS.len())).copied().flatten(),
    }
}

fn pool(rng: &mut Rng) -> Pool {
    let capacity = Amount {
        bytes: Bytes(count(rng, 1 << 30)),
        bandwidth: BytesPerSec(count(rng, 10_000_000_000)),
        cost: Cost::SECOND,
    };
    let latency = Kinds::from_fn(|_| rng.chance(0.8).then(|| Duration(count(rng, 400))));
    Pool { capacity, latency, ..Pool::default() }
}

/// A plant that does anything: tenants come and go, signals are missing, actuators refuse, time stands still.
struct Anything<F: Family> {
    rng: Rng,
    rows: Vec<Row<F::Signal, F::Share>>,
    pool: Pool,
    now: Instant,
    last: Instant,
}

impl<F: Family> Anything<F> {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let pool = pool(&mut rng);
        Self { rng, rows: Vec::new(), pool, now: Instant::ZERO, last: Instant::ZERO }
    }

    fn join(&mut self, id: u32) {
        if let Err(at) = self.rows.binary_search_by_key(&TenantId(id), |row| row.id) {
            let claim = claim(&mut self.rng);
            self.rows.insert(at, Row { id: TenantId(id), claim, signal: None, in_force: None });
        }
    }

    fn stir(&mut self) {
        if self.rng.chance(0.2) {
            let id = u32::try_from(self.rng.below(10)).unwrap_or(0);
            self.join(id);
        }
        if self.rng.chance(0.15) && !self.rows.is_empty() {
            let at = self.rng.index(self.rows.len());
            self.rows.remove(at);
        }
        if self.rng.chance(0.02) {
            self.rows.clear();
        }
        if self.rng.chance(0.05) {
            self.pool = pool(&mut self.rng);
        }
        for row in &mut self.rows {
            row.signal = self.rng.chance(0.9).then(|| F::signal(&mut self.rng));
            if self.rng.chance(0.02) {
                row.claim = claim(&mut self.rng);
            }
        }
    }

    fn step(&mut self, policy: &mut dyn Policy<Signal = F::Signal, Share = F::Share>) {
        let window = Window { start: self.last, end: self.now, mixed: self.rng.chance(0.1) };
        let seen =
            Seen::new(window, &self.pool, &self.rows).expect("rows are sorted and claims are in order");
        let decision = policy.decide(self.now, &seen);
        let shares: Vec<_> = decision.shares.rows().to_vec();
        assert_eq!(shares.len(), self.rows.len(), "one share per tenant");
        assert!(decision.wake <= Duration::from_secs(24 * 3_600), "it wants to be asked again");
        assert!(Duration::ZERO < decision.wake, "it lets time pass");
        assert!(Duration::ZERO < decision.lease);
        let wake = decision.wake;
        self.last = self.now;
        self.now += if self.rng.chance(0.1) { Duration::ZERO } else { wake };
        for (row, (id, share)) in self.rows.iter_mut().zip(shares) {
            assert_eq!(row.id, id);
            if self.rng.chance(0.9) {
                row.in_force = Some(share);
            }
        }
    }
}

/// Names the policy and the seed of a panic.
struct Named<'a> {
    policy: &'a str,
    seed: u64,
}

impl Drop for Named<'_> {
    #[expect(clippy::print_stderr, reason = "a failing test says how to repeat it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("policy={} seed={}", self.policy, self.seed);
        }
    }
}

fn survives<F: Family>(names: &[&str]) {
    for name in names {
        for seed in 0..SEEDS {
            let mut policy = F::policy(name, seed);
            assert_eq!(Some(policy.name()), name.split(" over ").next());
            let _named = Named { policy: name, seed };
            let mut plant = Anything::<F>::new(seed);
            for _ in 0..DECISIONS {
                plant.stir();
                plant.step(&mut *policy);
            }
        }
    }
}

fn allocates_nothing<F: Family>(names: &[&str]) {
    for name in names {
        let mut policy = F::policy(name, 1);
        let mut plant = Anything::<F>::new(7);
        for id in 0..MANY {
            plant.join(id);
        }
        let mut total = 0;
        for turn in 0..WARM + COUNTED {
            for row in &mut plant.rows {
                row.signal = Some(F::signal(&mut plant.rng));
            }
            let window = Window { start: plant.last, end: plant.now, mixed: false };
            let seen = Seen::new(window, &plant.pool, &plant.rows).expect("rows are sorted");
            let mut wake = Duration::ZERO;
            let mut shares = Vec::with_capacity(plant.rows.len());
            let info = allocation_counter::measure(|| {
                let decision = policy.decide(plant.now, &seen);
                wake = decision.wake;
                shares.extend_from_slice(decision.shares.rows());
            });
            if WARM <= turn {
                total += info.count_total;
            }
            plant.last = plant.now;
            plant.now += wake;
            for (row, (_, share)) in plant.rows.iter_mut().zip(shares) {
                row.in_force = Some(share);
            }
        }
        assert_eq!(total, 0, "{name} allocates with {MANY} steady tenants");
    }
}

#[test]
fn memory_policies_survive_anything() {
    survives::<Memory>(&MemoryPolicy::NAMES);
    survives::<Memory>(&GROUPED);
}

#[test]
fn bandwidth_policies_survive_anything() {
    survives::<Bandwidth>(&bandwidth::NAMES);
    survives::<Bandwidth>(&GROUPED_BANDWIDTH);
}

#[test]
fn joint_policies_survive_anything() {
    survives::<Both>(&joint::NAMES);
    survives::<Both>(&GROUPED_BOTH);
}

#[test]
fn joint_policies_allocate_nothing_when_steady() {
    allocates_nothing::<Both>(&joint::NAMES);
}

#[test]
fn memory_policies_allocate_nothing_when_steady() {
    allocates_nothing::<Memory>(&MemoryPolicy::NAMES);
    allocates_nothing::<Memory>(&GROUPED);
}

#[test]
fn bandwidth_policies_allocate_nothing_when_steady() {
    allocates_nothing::<Bandwidth>(&bandwidth::NAMES);
    allocates_nothing::<Bandwidth>(&GROUPED_BANDWIDTH);
}

#[test]
fn form_policies_survive_anything() {
    survives::<Form>(&form::NAMES);
}

/// Counters of missing windows are small: more of them than any such counter holds, with gaps of every length.
#[test]
fn morph_survives_hours_of_missing_signals() {
    for name in ["morph", "morph-functional"] {
        for seed in 0..4 {
            let mut policy = Form::policy(name, seed);
            let _named = Named { policy: name, seed };
            let mut plant = Anything::<Form>::new(seed);
            plant.pool.capacity = Amount::memory(Bytes(1 << 30));
            (0..3).for_each(|id| plant.join(id));
            for row in &mut plant.rows {
                row.claim = Claim::default();
            }
            for decision in 0..LONG {
                // Signals long enough to find a split, then none for ever longer.
                let missing = 150 < decision % 600;
                for row in &mut plant.rows {
                    row.signal = (!missing).then(|| Form::signal(&mut plant.rng));
                }
                plant.step(&mut *policy);
            }
        }
    }
}

#[test]
fn form_policies_allocate_nothing_when_steady() {
    allocates_nothing::<Form>(&form::NAMES);
}
