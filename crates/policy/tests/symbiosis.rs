//! The policy `symbiosis` around its market: first epochs, weights, limits, missing signals, credits that are remembered.

use control::joint::{Joint, JointSignal, Table, Utility};
use control::{Amount, Claim, Policy, Pool, Reason, Row, Seen, Weight, Window};
use policy::joint::{Bundle, Options, Symbiosis};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

const POOL: Joint = Joint { bytes: Bytes(3_000_000), bandwidth: BytesPerSec(600_000) };

/// What a tenant's speed follows.
#[derive(Clone, Copy)]
enum Taste {
    Memory,
    Bandwidth,
    Nothing,
}

fn table(taste: Taste) -> Table {
    let speed = |i: u8, j: u8| match taste {
        Taste::Memory => f32::from(i),
        Taste::Bandwidth => f32::from(j),
        Taste::Nothing => 1.0,
    };
    let speeds: Vec<f32> = (0..11).flat_map(|i| (0..11).map(move |j| speed(i, j))).collect();
    Table::new(POOL, 11, 11, speeds).expect("it rises")
}

struct Plant {
    policy: Symbiosis,
    rows: Vec<Row<JointSignal, Joint>>,
    now: Instant,
    notes: Vec<Reason>,
}

impl Plant {
    fn new(options: Options, tastes: &[Taste]) -> Self {
        let row = |(id, taste): (u32, &Taste)| Row {
            id: TenantId(id),
            claim: Claim::default(),
            signal: Some(signal(*taste)),
            in_force: None,
        };
        let rows = (1..).zip(tastes).map(row).collect();
        Self { policy: Symbiosis::new(options), rows, now: Instant::ZERO, notes: Vec::new() }
    }

    fn step(&mut self) -> Vec<Joint> {
        let window = Window { start: self.now, end: self.now + Duration::from_secs(30), mixed: false };
        self.now = window.end;
        let capacity = Amount { bytes: POOL.bytes, bandwidth: POOL.bandwidth, ..Amount::default() };
        let pool = Pool { capacity, ..Pool::default() };
        let seen = Seen::new(window, &pool, &self.rows).expect("rows are in order");
        let decision = self.policy.decide(self.now, &seen);
        self.notes = decision.notes.iter().map(|note| note.reason.clone()).collect();
        let shares: Vec<Joint> = decision.shares.rows().iter().map(|(_, share)| *share).collect();
        for (row, share) in self.rows.iter_mut().zip(&shares) {
            row.in_force = Some(*share);
        }
        shares
    }

    fn steps(&mut self, count: u32) -> Vec<Joint> {
        (1..count).for_each(|_| drop(self.step()));
        self.step()
    }
}

fn signal(taste: Taste) -> JointSignal {
    JointSignal { utility: Some(Utility::Table(table(taste))), ..JointSignal::default() }
}

fn unbounded() -> Options {
    Options { window: None, ..Options::default() }
}

#[test]
fn everybody_starts_at_the_static_share_and_so_does_who_comes() {
    let mut plant = Plant::new(unbounded(), &[Taste::Memory, Taste::Bandwidth]);
    let even = Joint { bytes: Bytes(1_500_000), bandwidth: BytesPerSec(300_000) };
    for _ in 0..3 {
        assert_eq!(plant.step(), [even, even]);
    }
    let traded = plant.step();
    assert!(even.bytes < traded[0].bytes && even.bandwidth < traded[1].bandwidth, "{traded:?}");
    assert_eq!(plant.notes, [Reason::Traded]);
    let new = Row { id: TenantId(9), ..plant.rows[0].clone() };
    plant.rows.push(Row { in_force: None, ..new });
    let shares = plant.step();
    assert_eq!(shares[2], Joint { bytes: Bytes(1_000_000), bandwidth: BytesPerSec(200_000) });
}

#[test]
fn weights_and_limits_bind() {
    let mut plant = Plant::new(unbounded(), &[Taste::Memory, Taste::Bandwidth, Taste::Bandwidth]);
    plant.rows[0].claim.weight = Weight::new(4.0).expect("above zero");
    let limit = Amount { bytes: Bytes(2_100_000), ..Amount::default() };
    plant.rows[0].claim.ceiling = Some(limit);
    plant.rows[1].claim.floor = Amount { bandwidth: BytesPerSec(150_000), ..Amount::default() };
    let shares = plant.step();
    assert_eq!(shares[0].bytes, Bytes(2_000_000), "four sixths");
    let shares = plant.steps(10);
    assert!(shares[0].bytes <= limit.bytes, "{shares:?}");
    assert!(BytesPerSec(150_000) <= shares[1].bandwidth, "{shares:?}");
    let sum: Bytes = shares.iter().map(|share| share.bytes).sum();
    assert_eq!(sum, POOL.bytes, "{shares:?}");
}

/// With a quarter of the way per epoch shares come to the same, each epoch a quarter nearer, and all of the pool is somebody's all the time;
/// who comes, who goes and who is limited waits for nothing.
#[test]
fn an_epoch_may_go_a_part_of_the_way() {
    let tastes = [Taste::Memory, Taste::Bandwidth];
    let whole = Plant::new(unbounded(), &tastes).steps(10);
    let mut plant = Plant::new(Options { ease: 0.25, ..unbounded() }, &tastes);
    let mut before = plant.steps(3);
    for epoch in 0..12 {
        let shares = plant.step();
        for (share, (before, whole)) in shares.iter().zip(before.iter().zip(&whole)) {
            let left = |share: &Joint| {
                let bandwidth = whole.bandwidth.0 as f64 - share.bandwidth.0 as f64;
                [whole.bytes.0 as f64 - share.bytes.0 as f64, bandwidth]
            };
            for (now, before) in left(share).into_iter().zip(left(before)) {
                assert!((now - 0.75 * before).abs() <= 4.0, "{epoch}: {shares:?} of {whole:?}");
            }
        }
        assert_eq!(all_of(&shares), POOL, "{epoch}: {shares:?}");
        before = shares;
    }
    plant.rows[0].claim.ceiling = Some(Amount { bytes: Bytes(1_600_000), ..Amount::default() });
    let shares = plant.step();
    assert!(shares[0].bytes <= Bytes(1_600_000), "a limit holds at once: {shares:?}");
    assert_eq!(all_of(&shares), POOL, "and what it frees is another's: {shares:?}");
    let new = Row { id: TenantId(9), in_force: None, ..plant.rows[0].clone() };
    plant.rows.push(new);
    let shares = plant.step();
    assert_eq!(shares[2].bytes, Bytes(1_000_000), "who comes has its static share at once");
    assert_eq!(all_of(&shares), POOL, "{shares:?}");
    plant.rows.truncate(2);
    plant.rows.remove(0);
    assert_eq!(plant.step(), [POOL], "who is left has all at once");
}

/// Static shares that are whole bytes of a pool that does not divide evenly are no trade on the way either.
#[test]
fn rounding_on_the_way_is_no_trade() {
    let mut plant = Plant::new(Options { ease: 0.25, ..unbounded() }, &[Taste::Nothing; 7]);
    for epoch in 0..3 {
        plant.step();
        assert!(!plant.notes.contains(&Reason::Traded), "{epoch}: {:?}", plant.notes);
    }
}

fn all_of(shares: &[Joint]) -> Joint {
    let bandwidth = shares.iter().map(|share| share.bandwidth.0).sum();
    Joint { bytes: shares.iter().map(|share| share.bytes).sum(), bandwidth: BytesPerSec(bandwidth) }
}

#[test]
fn a_missing_signal_leaves_what_was_known() {
    let mut plant = Plant::new(unbounded(), &[Taste::Memory, Taste::Bandwidth]);
    let before = plant.steps(6);
    plant.rows.iter_mut().for_each(|row| row.signal = None);
    assert_eq!(plant.steps(12), before);
    let mut plant = Plant::new(unbounded(), &[Taste::Memory, Taste::Bandwidth]);
    plant.rows.iter_mut().for_each(|row| row.signal = None);
    let shares = plant.steps(12);
    assert_eq!(shares[0], shares[1], "nothing was ever known");
}

/// Tenant 1 needs nothing for ten epochs and leaves its credits to others; then it wants memory as tenant 2 always did.
#[test]
fn credits_left_to_others_are_remembered() {
    let shares = |stateful: bool| {
        let options = Options { stateful, ..unbounded() };
        let mut plant = Plant::new(options, &[Taste::Nothing, Taste::Memory, Taste::Nothing]);
        plant.steps(10);
        plant.rows[0].signal = Some(signal(Taste::Memory));
        // Its turn to be looked at comes within five epochs; savings are spent soon after.
        (0..6)
            .map(|_| plant.step())
            .map(|shares| shares[0].bytes.0 as f64 / shares[1].bytes.0 as f64)
            .fold(0.0, f64::max)
    };
    let (with, without) = (shares(true), shares(false));
    assert!((without - 1.0).abs() < 0.01, "equal tenants get equal shares: {without}");
    assert!(1.05 < with, "who left credits is served first: {with}");
}

/// A tenant holds and uses so much from now on.
fn use_now(plant: &mut Plant, place: usize, used: Joint) {
    let signal = plant.rows[place].signal.as_mut().expect("there is one");
    (signal.held, signal.bandwidth) = (used.bytes, used.bandwidth);
}

/// One would sell all of its bandwidth for memory, the other all of its memory for bandwidth.
#[test]
fn what_is_used_is_kept_and_of_the_rest_little() {
    let idle_floor_part = Some(Bundle { memory: 0.1, bandwidth: 0.25 });
    for (uses, bandwidth, memory) in [(true, 0.825, 0.45), (false, 0.25, 0.1)] {
        let options = Options { idle_floor_part, ..unbounded() };
        let mut plant = Plant::new(options, &[Taste::Memory, Taste::Bandwidth]);
        let mut shares = plant.step();
        for _ in 0..20 {
            for (place, share) in shares.iter().enumerate() {
                use_now(&mut plant, place, if uses { *share } else { Joint::default() });
            }
            shares = plant.step();
        }
        let of_static = |part: u64, pool: u64| part as f64 / (pool / 2) as f64;
        let sold = of_static(shares[0].bandwidth.0, POOL.bandwidth.0);
        assert!((sold - bandwidth).abs() < 0.01, "{uses}: {sold} of the bandwidth");
        let sold = of_static(shares[1].bytes.0, POOL.bytes.0);
        assert!((sold - memory).abs() < 0.01, "{uses}: {sold} of the memory");
    }
}

/// Who has sold its bandwidth and uses what is left of it has .825 of its static share after four epochs, though it would sell; the others go a
/// part of the way all the same.
#[test]
fn what_was_sold_comes_back_with_its_use_and_nobody_else_jumps() {
    let idle_floor_part = Some(Bundle { memory: 0.1, bandwidth: 0.25 });
    let options = Options { idle_floor_part, ease: 0.28, ..unbounded() };
    let mut plant = Plant::new(options, &[Taste::Memory, Taste::Bandwidth, Taste::Memory]);
    let sold = plant.steps(40);
    let home = POOL.bandwidth.0 as f64 / 3.0;
    assert!((sold[0].bandwidth.0 as f64) < 0.3 * home, "{sold:?}");
    // What helped the third helps it no more: it would sell all of its memory at once.
    plant.rows[2].signal = Some(signal(Taste::Bandwidth));
    let mut before = sold;
    for epoch in 0..4 {
        use_now(&mut plant, 0, before[0]);
        let shares = plant.step();
        let left = shares[2].bytes.0 as f64 / before[2].bytes.0 as f64;
        assert!(0.6 < left, "epoch {epoch}: {left} of the third's memory is left at once");
        before = shares;
    }
    assert!(0.82 * home < before[0].bandwidth.0 as f64, "{before:?}");
}
