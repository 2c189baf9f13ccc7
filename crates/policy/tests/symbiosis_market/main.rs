//! The market of `symbiosis`: closed forms, grids, properties on random tables (S1 to S4, S11).

mod released;

use control::joint::{Joint, Table};
use policy::joint::{Auction, Bid, Bidder, Bundle, Closing, Prices, Range, Stance, Terms, Value};
use units::{Bytes, BytesPerSec, Rng};

/// Seeds of the random cases.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Points of a random table along each side.
const POINTS: usize = 21;

/// No ceiling: bids beyond the pool only show that a price is too low.
const BEYOND: Bundle = Bundle { memory: 4.0, bandwidth: 4.0 };

fn terms(weight: f64) -> Terms {
    let endowment = Bundle { memory: weight, bandwidth: weight };
    Terms {
        endowment,
        floor: Bundle::default(),
        ceiling: BEYOND,
        step: 1.0 / 200.0,
        weight,
        unspent_weight: weight,
    }
}

/// A bidder whose demand is known in closed form.
struct Exact {
    terms: Terms,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// c²/2 + c·b of Fig 3.
    Mixed,
    /// b.
    Bandwidth,
    /// c.
    Memory,
    /// c^a · b^(1 − a).
    CobbDouglas(f64),
    /// min(c / x, b / y).
    Leontief(f64, f64),
    /// c·v + b·u.
    Substitutes(f64, f64),
    /// min(c / x, b / y, 1): no more of either helps.
    Sated(f64, f64),
}

impl Bidder for Exact {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn utility(&self, at: Bundle) -> f64 {
        let (c, b) = (at.memory, at.bandwidth);
        match self.kind {
            Kind::Mixed => c * c / 2.0 + c * b,
            Kind::Bandwidth => b,
            Kind::Memory => c,
            Kind::CobbDouglas(a) => c.powf(a) * b.powf(1.0 - a),
            Kind::Leontief(x, y) => (c / x).min(b / y),
            Kind::Substitutes(v, u) => c * v + b * u,
            Kind::Sated(x, y) => (c / x).min(b / y).min(1.0),
        }
    }

    fn demand(&self, prices: Prices, budget: f64) -> Bundle {
        let (p, q) = (prices.memory(), prices.bandwidth());
        let memory = match self.kind {
            Kind::Mixed if p <= q / 2.0 => budget / p,
            Kind::Mixed => (budget / (2.0 * p - q)).min(budget / p),
            Kind::Bandwidth => 0.0,
            Kind::Memory => budget / p,
            Kind::CobbDouglas(a) => a * budget / p,
            Kind::Leontief(x, y) => x * budget / (p * x + q * y),
            Kind::Sated(x, y) => return Bundle { memory: x, bandwidth: y },
            Kind::Substitutes(v, u) => {
                if u / q <= v / p {
                    budget / p
                } else {
                    0.0
                }
            }
        };
        let memory = memory.min(4.0);
        Bundle { memory, bandwidth: ((budget - p * memory) / q).clamp(0.0, 4.0) }
    }
}

fn exact(kinds: &[Kind]) -> Vec<Exact> {
    let weight = 1.0 / kinds.len() as f64;
    kinds.iter().map(|&kind| Exact { terms: terms(weight), kind }).collect()
}

const FIG_3: [Kind; 3] = [Kind::Mixed, Kind::Bandwidth, Kind::Memory];

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

/// The paper's rounds cut every bid at the pool.
fn within_pool(bundle: Bundle) -> Bundle {
    Bundle { memory: bundle.memory.min(1.0), bandwidth: bundle.bandwidth.min(1.0) }
}

fn total(bundles: &[Bundle]) -> Bundle {
    bundles.iter().fold(Bundle::default(), |sum, b| Bundle {
        memory: sum.memory + b.memory,
        bandwidth: sum.bandwidth + b.bandwidth,
    })
}

/// What nobody buys is no gift to who has most: those who left credits have their static share first.
#[test]
fn what_nobody_bought_goes_back_to_those_who_left_it() {
    let mut auction = Auction::default();
    let thrifty = Kind::Sated(0.1, 0.25);
    let outcome = auction.run(&exact(&[Kind::Sated(0.25, 0.25), thrifty, thrifty, thrifty]));
    assert_eq!(outcome.closing, Closing::Cleared);
    for bundle in auction.bundles() {
        assert!(close(bundle.memory, 0.25, 1e-9) && close(bundle.bandwidth, 0.25, 1e-9), "{bundle:?}");
    }
    // The first has paid with its memory for bandwidth: of what is left over it has its part, and no more.
    let thrifty = Kind::Sated(0.1, 0.2);
    let outcome = auction.run(&exact(&[Kind::Sated(0.1, 0.4), thrifty, thrifty, thrifty]));
    assert_eq!((outcome.closing, outcome.prices.memory()), (Closing::Cleared, 0.5));
    let memory = auction.bundles().iter().map(|bundle| bundle.memory);
    for (memory, expected) in memory.zip([0.1375, 0.2875, 0.2875, 0.2875]) {
        assert!(close(memory, expected, 1e-9), "{:?}", auction.bundles());
    }
}

#[test]
fn s1_the_closed_form_of_fig_3() {
    let mut auction = Auction::default();
    let outcome = auction.run(&exact(&FIG_3));
    let price = (7.0 + 13_f64.sqrt()) / 18.0;
    assert!(outcome.rounds <= 40 && close(outcome.prices.memory(), price, 1e-6), "{outcome:?}");
    let expected = [(0.434_258_5, 0.188_580_5), (0.0, 0.811_419_5), (0.565_741_5, 0.0)];
    for (bundle, (memory, bandwidth)) in auction.bundles().iter().zip(expected) {
        assert!(close(bundle.memory, memory, 1e-6) && close(bundle.bandwidth, bandwidth, 1e-6), "{bundle:?}");
    }
}

#[test]
fn s1_the_rounds_of_fig_3() {
    let bidders = exact(&FIG_3);
    for (price, memory, bandwidth, first) in [
        (0.5, 1.3333, 0.6667, (0.667, 0.0)),
        (0.75, 0.7111, 1.5333, (0.267, 0.533)),
        (0.625, 0.9143, 1.1429, (0.381, 0.254)),
        (0.5625, 1.0774, 0.9004, (0.485, 0.139)),
        (0.59375, 0.9881, 1.0174, (0.427, 0.197)),
        (0.578_125, 1.0305, 0.9582, (0.454, 0.168)),
        (0.585_938, 1.0088, 0.9876, (0.440, 0.183)),
        (0.589_844, 0.9983, 1.0025, (0.433, 0.190)),
        (0.588_867, 1.0009, 0.9987, (0.435, 0.188)),
        (0.589_111, 1.0002, 0.9997, (0.434, 0.188)),
    ] {
        let prices = Prices::with_memory(price);
        let asked: Vec<Bundle> =
            bidders.iter().map(|b| b.demand(prices, prices.of(b.terms.endowment))).map(within_pool).collect();
        let sum = total(&asked);
        assert!(close(sum.memory, memory, 1e-4) && close(sum.bandwidth, bandwidth, 1e-4), "{price}: {sum:?}");
        let near = close(asked[0].memory, first.0, 1e-3) && close(asked[0].bandwidth, first.1, 1e-3);
        assert!(near, "{price}: {:?}", asked[0]);
    }
}

#[test]
fn s2_cobb_douglas_for_any_number_of_bidders() {
    let mut auction = Auction::default();
    for seed in SEEDS {
        let mut rng = Rng::new(seed);
        for case in 0..300 {
            let count = 2 + rng.index(19);
            let raw: Vec<f64> = (0..count).map(|_| 0.1 + rng.unit()).collect();
            let all: f64 = raw.iter().sum();
            let bidders: Vec<Exact> = raw
                .iter()
                .map(|w| Exact { terms: terms(w / all), kind: Kind::CobbDouglas(0.05 + 0.9 * rng.unit()) })
                .collect();
            let outcome = auction.run(&bidders);
            let elasticity = |b: &Exact| if let Kind::CobbDouglas(a) = b.kind { a } else { 0.0 };
            let price: f64 = bidders.iter().map(|b| elasticity(b) * b.terms.weight).sum();
            assert!(close(outcome.prices.memory(), price, 1e-6), "seed={seed} case={case}");
            for (bidder, got) in bidders.iter().zip(auction.bundles()) {
                let (a, w) = (elasticity(bidder), bidder.terms.weight);
                let right = close(got.memory, a * w / price, 1e-6)
                    && close(got.bandwidth, (1.0 - a) * w / (1.0 - price), 1e-6);
                assert!(right, "seed={seed} case={case}: {got:?}");
            }
        }
    }
}

#[test]
fn s2_leontief_identical_and_substitutes() {
    let mut auction = Auction::default();
    auction.run(&exact(&[Kind::Leontief(1.0, 2.0), Kind::Leontief(2.0, 1.0)]));
    for (got, (memory, bandwidth)) in
        auction.bundles().iter().zip([(1.0 / 3.0, 2.0 / 3.0), (2.0 / 3.0, 1.0 / 3.0)])
    {
        assert!(close(got.memory, memory, 1e-6) && close(got.bandwidth, bandwidth, 1e-6), "{got:?}");
    }
    for kind in [Kind::Mixed, Kind::CobbDouglas(0.3), Kind::Leontief(1.0, 1.0), Kind::Substitutes(1.0, 1.0)] {
        let bidders = exact(&[kind; 4]);
        auction.run(&bidders);
        for (bidder, got) in bidders.iter().zip(auction.bundles()) {
            let home = bidder.utility(bidder.terms.endowment);
            assert!(home * (1.0 - 1e-6) <= bidder.utility(*got), "identical bidders: {got:?}");
        }
    }
    // Demand jumps from all of one to all of the other: no price clears.
    let jump =
        exact(&[Kind::Substitutes(1.0, 1.0), Kind::Substitutes(1.0, 1.0), Kind::Substitutes(2.0, 1.0)]);
    auction.run(&jump);
    let sum = total(auction.bundles());
    assert!(close(sum.memory, 1.0, 1e-6) && close(sum.bandwidth, 1.0, 1e-6), "{sum:?}");
    for (bidder, got) in jump.iter().zip(auction.bundles()) {
        assert!(bidder.utility(bidder.terms.endowment) * (1.0 - 1e-6) <= bidder.utility(*got), "{got:?}");
    }
}

/// A bidder with a table over the whole pool.
fn tabled(weight: f64, points: usize, speed: impl Fn(f64, f64) -> f64) -> Bid {
    let at = |i: usize| i as f64 / (points - 1) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a table holds 32 bits")]
    let speeds: Vec<f32> =
        (0..points * points).map(|i| speed(at(i / points), at(i % points)) as f32).collect();
    let most = Joint { bytes: Bytes(1 << 30), bandwidth: BytesPerSec(1 << 30) };
    let table = Table::new(most, points, points, speeds).expect("the table rises");
    let scale = Bundle { memory: 1.0, bandwidth: 1.0 };
    let value = Value::Profile { table, scale };
    Bid {
        terms: terms(weight),
        range: Range::new(0.0, 1.0),
        window: (0, 200),
        stance: Stance::Bids,
        worth: 0.0,
        ratios: Box::default(),
        value,
    }
}

#[test]
fn s3_a_grid_sells_everything() {
    let mut auction = Auction::default();
    let outcome = auction.run(&fig_3_bids());
    let sum = total(auction.bundles());
    let unsold = 3.0 / 200.0;
    assert!(sum.memory <= 1.0 + 1e-9 && sum.bandwidth <= 1.0 + 1e-9, "{sum:?}");
    assert!(1.0 - unsold <= sum.memory && 1.0 - unsold <= sum.bandwidth, "{sum:?}");
    let near = |price: f64| close(outcome.prices.memory(), price, 0.01);
    assert!(near(0.589_197), "{outcome:?}");
}

/// A table that rises and is otherwise anything: steps, plateaus, jumps.
fn anything(rng: &mut Rng, weight: f64) -> Bid {
    let mut speeds = vec![0.0_f64; POINTS * POINTS];
    let sparse = rng.unit();
    for i in 0..POINTS * POINTS {
        let left = if i % POINTS == 0 { 0.0 } else { speeds[i - 1] };
        let below = if i < POINTS { 0.0 } else { speeds[i - POINTS] };
        let rise = if rng.unit() < sparse { 0.0 } else { rng.unit() * rng.unit() };
        speeds[i] = left.max(below) + rise + 1e-4;
    }
    let last = (POINTS - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a point of the table")]
    let point = |x: f64| (x * last + 0.5) as usize;
    tabled(weight, POINTS, |c, b| speeds[point(c) * POINTS + point(b)])
}

/// A concave utility that doubles when both double: a mean with constant elasticity of substitution.
fn concave(rng: &mut Rng, weight: f64) -> Bid {
    let (a, power) = (0.05 + 0.9 * rng.unit(), [0.0_f64, 0.5, -1.0, 0.9][rng.index(4)]);
    tabled(weight, POINTS, |c, b| {
        if power.abs() < 0.1 {
            return c.powf(a) * b.powf(1.0 - a);
        }
        (a * c.powf(power) + (1.0 - a) * b.powf(power)).powf(1.0 / power)
    })
}

/// What is wrong with a division of the pool; the properties that every division must have.
#[derive(Default, Debug)]
struct Findings {
    below_static: u32,
    envious: Vec<usize>,
    unsold: bool,
    oversold: bool,
    trade_left: bool,
    /// What is missing in log utility, by weight, to the best division found by trying all.
    gap: f64,
}

/// Steps of the grid of the market, and of the trades looked for.
const STEP: f64 = 1.0 / 200.0;

fn inspect(bids: &[Bid], got: &[Bundle], prices: Prices) -> Findings {
    let sum = total(got);
    let unsold = 1.0 - bids.len() as f64 * STEP;
    let mut found = Findings {
        unsold: sum.memory < unsold || sum.bandwidth < unsold,
        oversold: 1.0 + 1e-9 < sum.memory || 1.0 + 1e-9 < sum.bandwidth,
        ..Findings::default()
    };
    for (i, (bid, mine)) in bids.iter().zip(got).enumerate() {
        let utility = bid.utility(*mine);
        found.below_static += u32::from(utility < bid.utility(bid.terms.endowment) * (1.0 - 1e-5));
        let envies = |(other, theirs): (&Bid, &Bundle)| {
            let weights = bid.terms.weight / other.terms.weight;
            let (memory, bandwidth) = (theirs.memory * weights - STEP, theirs.bandwidth * weights - STEP);
            utility * (1.0 + 1e-5) < bid.utility(Bundle { memory, bandwidth })
        };
        if bids.iter().zip(got).any(envies) {
            found.envious.push(i);
        }
    }
    found.trade_left = trade_left(bids, got, prices);
    if bids.len() <= 3 {
        let ours: f64 =
            bids.iter().zip(got).map(|(bid, got)| bid.terms.weight * bid.utility(*got).ln()).sum();
        found.gap = best_by_trying(bids) - ours;
    }
    found
}

/// Whether two would both gain a thousandth by exchanging a step of memory at the market's prices.
fn trade_left(bids: &[Bid], got: &[Bundle], prices: Prices) -> bool {
    let paid = STEP * prices.memory() / prices.bandwidth();
    let gains = |i: usize, memory: f64, bandwidth: f64| {
        let then = Bundle { memory: got[i].memory + memory, bandwidth: got[i].bandwidth + bandwidth };
        let inside = 0.0 <= then.memory.min(then.bandwidth) && then.memory.max(then.bandwidth) <= 1.0;
        inside && bids[i].utility(got[i]) * 1.001 < bids[i].utility(then)
    };
    let buyers: Vec<usize> = (0..bids.len()).filter(|&i| gains(i, STEP, -paid)).collect();
    (0..bids.len()).any(|i| gains(i, -STEP, paid) && buyers.iter().any(|&buyer| buyer != i))
}

/// The largest sum of log utilities by weight over all divisions on a grid of twentieths that leave nobody below static.
fn best_by_trying(bids: &[Bid]) -> f64 {
    let side = POINTS;
    let last = side - 1;
    let part = |i: usize| i as f64 / last as f64;
    let logs: Vec<Vec<f64>> = bids
        .iter()
        .map(|bid| {
            let home = bid.utility(bid.terms.endowment);
            let at = |i: usize| bid.utility(Bundle { memory: part(i / side), bandwidth: part(i % side) });
            (0..side * side)
                .map(at)
                .map(|u| if u < home { f64::NEG_INFINITY } else { bid.terms.weight * u.ln() })
                .collect()
        })
        .collect();
    let mut best: f64 = bids.iter().map(|bid| bid.terms.weight * bid.utility(bid.terms.endowment).ln()).sum();
    // The best of the bidders from the second on, by what they have together.
    let others = |memory: usize, bandwidth: usize| match logs.get(2) {
        None => logs[1][memory * side + bandwidth],
        Some(third) => (0..=memory)
            .flat_map(|m| (0..=bandwidth).map(move |b| (m, b)))
            .map(|(m, b)| logs[1][m * side + b] + third[(memory - m) * side + bandwidth - b])
            .fold(f64::NEG_INFINITY, f64::max),
    };
    for memory in 0..side {
        for bandwidth in 0..side {
            let first = logs[0][memory * side + bandwidth];
            if first.is_finite() {
                best = best.max(first + others(last - memory, last - bandwidth));
            }
        }
    }
    best
}

/// Random cases of a kind, with two or three bidders (up to twelve in every fifth) and unequal weights in every third.
fn cases(kind: fn(&mut Rng, f64) -> Bid, count: u32, mut check: impl FnMut(&str, &[Bid])) {
    for seed in SEEDS {
        let mut rng = Rng::new(seed);
        for case in 0..count.div_ceil(3) {
            let many = if case % 5 == 0 { 4 + rng.index(9) } else { 2 + rng.index(2) };
            let raw: Vec<f64> =
                (0..many).map(|_| if case % 3 == 0 { 0.5 + rng.unit() } else { 1.0 }).collect();
            let all: f64 = raw.iter().sum();
            let bids: Vec<Bid> = raw.iter().map(|weight| kind(&mut rng, weight / all)).collect();
            check(&format!("seed={seed} case={case}"), &bids);
        }
    }
}

#[test]
fn s4_properties_on_concave_tables() {
    let mut auction = Auction::default();
    cases(concave, 10_000, |name, bids| {
        let outcome = auction.run(bids);
        assert_ne!(outcome.closing, Closing::Fallback, "{name}: the market closes on concave tables");
        let found = inspect(bids, auction.bundles(), outcome.prices);
        assert_eq!(found.below_static, 0, "{name}: {found:?}");
        assert!(found.envious.is_empty() && !found.trade_left, "{name}: {found:?}");
        assert!(!found.unsold && !found.oversold, "{name}: {found:?}");
        assert!(found.gap <= 0.01, "{name}: {found:?}");
    });
}

/// On utilities that only rise, prices that clear need not exist. What holds nevertheless: nobody below static, nothing
/// sold twice, nothing unsold; where the market closes, at most the bidder in the middle may envy.
#[test]
fn s4_properties_on_any_tables_that_rise() {
    let mut auction = Auction::default();
    let (mut all, mut fallbacks, mut trades_left) = (0_u32, 0_u32, 0_u32);
    let mut gaps: Vec<f64> = Vec::new();
    cases(anything, 10_000, |name, bids| {
        let outcome = auction.run(bids);
        let found = inspect(bids, auction.bundles(), outcome.prices);
        assert_eq!(found.below_static, 0, "{name}: {found:?}");
        assert!(!found.unsold && !found.oversold, "{name}: {found:?}");
        all += 1;
        match outcome.closing {
            Closing::Fallback => fallbacks += 1,
            Closing::Cleared => assert!(found.envious.is_empty(), "{name}: {found:?}"),
            Closing::Split(middle) => {
                assert!(found.envious.iter().all(|i| Some(*i) == middle), "{name}: {outcome:?} {found:?}");
            }
        }
        trades_left += u32::from(found.trade_left);
        if bids.len() <= 3 {
            gaps.push(found.gap);
        }
    });
    gaps.sort_by(f64::total_cmp);
    println!(
        "fallbacks {fallbacks} of {all}, trades left {trades_left}, gap median {:.3}, p90 {:.3}",
        gaps[gaps.len() / 2],
        gaps[gaps.len() * 9 / 10]
    );
    // Such tables do not let prices find the best division; these figures are a known miss of the 1 % of concave tables.
    assert!(fallbacks * 2 < all && trades_left * 50 < all, "{fallbacks} {trades_left} {all}");
}

#[test]
fn s4_the_static_share_fails_the_properties() {
    for (kind, least) in [(concave as fn(&mut Rng, f64) -> Bid, 0.85), (anything, 0.15)] {
        let (mut all, mut failed) = (0_u32, 0_u32);
        let mut auction = Auction::default();
        cases(kind, 1_000, |_, bids| {
            let prices = auction.run(bids).prices;
            let home: Vec<Bundle> = bids.iter().map(|bid| bid.terms.endowment).collect();
            let found = inspect(bids, &home, prices);
            assert!(found.below_static == 0 && found.envious.is_empty(), "it passes the old properties");
            all += 1;
            failed += u32::from(found.trade_left || 0.01 < found.gap);
        });
        assert!(least * f64::from(all) <= f64::from(failed), "{failed} of {all}");
    }
}

fn fig_3_bids() -> [Bid; 3] {
    let third = 1.0 / 3.0;
    [
        tabled(third, 201, |c, b| c * c / 2.0 + c * b),
        tabled(third, 201, |_, b| b),
        tabled(third, 201, |c, _| c),
    ]
}

#[test]
fn no_bidder_and_one_bidder() {
    let mut auction = Auction::default();
    auction.run::<Bid>(&[]);
    assert!(auction.bundles().is_empty());
    auction.run(&[tabled(1.0, 21, |c, b| c + b)]);
    let got = auction.bundles()[0];
    assert!(close(got.memory, 1.0, 1e-6) && close(got.bandwidth, 1.0, 1e-6), "{got:?}");
}
