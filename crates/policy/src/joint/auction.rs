//! An auction of two things for credits: prices are searched until what everybody wants of both fits.
//!
//! Shape:      bidders (endowment, limits, demand at prices) -> bracket of prices -> bundles
//! Invariants: bundles sum to at most the pool; nobody ends below the utility of its endowment; floors and ceilings hold
//! Units:      parts of the pool, 0..=1, of both; prices sum to 1
//! Cost:       O(bidders × rounds) demands; no allocation once the number of bidders is steady
//! Source:     Spirit §3.2, Algorithm 1. We differ: the algorithm ends when both sums are exactly 1, which no grid and no
//!             utility that jumps ever meets; here the final bracket of prices is closed by moving bidders one by one from
//!             the demand at one end to that at the other, one of them part of the way. A budget is the value of the
//!             static share at the prices, which is the paper's 1/N where no floor or ceiling binds. What satisfied
//!             bidders leave unspent is passed on; what nobody buys even so goes back to them first, then to all by weight. If
//!             all this leaves anybody below its static share, everything falls back to the static shares and trades that
//!             gain.
//! Non-goals:  truthful bids (demands are estimated, Spirit §2.2); comparing everybody with everybody (envy follows from
//!             equal budgets)
//!
//! | Paper | here |
//! |---|---|
//! | c_i, b_i | `Bundle` |
//! | p_c, p_b | `Prices` |
//! | credits, 1/N | budget: the value of `Terms::endowment` |

use super::trades::Trades;

/// Rounds of the search, whatever happens.
const ROUNDS_MAX: u32 = 40;
/// Width of the bracket at which the two ends differ by jumps of demand only: far below one step of the largest table.
const BRACKET_LEAST: f64 = 1e-7;
/// Unspent credits worth another search.
const UNSPENT_LEAST: f64 = 1e-3;
/// Searches for passing on what is unspent. A guess: each leaves a fraction of the one before.
const PASSES_MAX: u32 = 4;
/// A utility lower by this part is not worse: table values carry 24 bits.
pub(super) const SAME: f64 = 1e-6;
/// Parts of the pool below which nothing is given: rounding.
const GIVEN_LEAST: f64 = 1e-12;
/// Closings that are tried, each with another bidder in the middle.
const CLOSINGS_MAX: usize = 8;

/// An amount of both, as parts of the pool.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bundle {
    /// Part of the memory.
    pub memory: f64,
    /// Part of the bandwidth.
    pub bandwidth: f64,
}

/// What both cost; together 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prices {
    memory: f64,
}

/// What holds of a bidder whatever it wants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// Its static share; everybody's sum to at most 1.
    pub endowment: Bundle,
    /// What it is never taken below; no more than the endowment.
    pub floor: Bundle,
    /// What it never gets beyond; no less than the endowment.
    pub ceiling: Bundle,
    /// A step of its own range of memory.
    pub step: f64,
    /// Its part of what is left over, relative to the others'.
    pub weight: f64,
    /// Its part of what others leave unspent, relative to the others'.
    pub unspent_weight: f64,
}

/// Somebody who bids.
pub trait Bidder {
    /// What holds of it.
    fn terms(&self) -> &Terms;

    /// How it does with `bundle`; only its own utilities are compared.
    fn utility(&self, bundle: Bundle) -> f64;

    /// The best bundle within its limits that costs at most `budget`, or its endowment where that is as good.
    fn demand(&self, prices: Prices, budget: f64) -> Bundle;
}

/// How an auction ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// The last prices.
    pub prices: Prices,
    /// Rounds in all.
    pub rounds: u32,
    /// How the sums were closed.
    pub closing: Closing,
}

/// How the sums of an auction were closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// All demands at one price fit.
    Cleared,
    /// Between two neighbouring prices; at most the bidder named got a mixture of its two demands.
    Split(Option<usize>),
    /// Static shares and trades that gain.
    Fallback,
}

/// The auction: buffers that are kept from one to the next.
#[derive(Debug, Default)]
pub struct Auction {
    asked: Vec<Bundle>,
    /// Demands at the price at which too much memory is wanted.
    cheap: Vec<Bundle>,
    /// Demands at the price at which too much bandwidth is wanted.
    dear: Vec<Bundle>,
    bundles: Vec<Bundle>,
    /// What was sold before credits were passed on.
    before: Vec<Bundle>,
    /// Credits passed on, by bidder.
    extra: Vec<f64>,
    trades: Trades,
}

impl Prices {
    /// Prices with memory at `memory`, in 0..=1.
    #[must_use]
    pub fn with_memory(memory: f64) -> Self {
        Self { memory: memory.clamp(0.0, 1.0) }
    }

    /// The price of all memory.
    #[must_use]
    pub fn memory(self) -> f64 {
        self.memory
    }

    /// The price of all bandwidth.
    #[must_use]
    pub fn bandwidth(self) -> f64 {
        1.0 - self.memory
    }

    /// What `bundle` costs.
    #[must_use]
    pub fn of(self, bundle: Bundle) -> f64 {
        self.memory() * bundle.memory + self.bandwidth() * bundle.bandwidth
    }
}

impl Bundle {
    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, |own, other| own + other)
    }

    pub(super) fn times(self, part: Self) -> Self {
        self.with(part, |own, part| own * part)
    }

    /// The more of each.
    pub(super) fn most(self, other: Self) -> Self {
        self.with(other, f64::max)
    }

    /// The less of each.
    pub(super) fn least(self, other: Self) -> Self {
        self.with(other, f64::min)
    }

    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self { memory: of(self.memory, other.memory), bandwidth: of(self.bandwidth, other.bandwidth) }
    }

    fn towards(self, other: Self, part: f64) -> Self {
        Self {
            memory: self.memory + (other.memory - self.memory) * part,
            bandwidth: self.bandwidth + (other.bandwidth - self.bandwidth) * part,
        }
    }
}

fn sum(bundles: &[Bundle]) -> Bundle {
    bundles.iter().fold(Bundle::default(), |sum, bundle| sum.plus(*bundle))
}

/// Takes back what is more than `most` in all, from what everybody has above its floor.
pub(super) fn take_back(bundles: &mut [Bundle], floors: impl Iterator<Item = Bundle> + Clone, most: Bundle) {
    let (all, least) = (sum(bundles), floors.clone().fold(Bundle::default(), Bundle::plus));
    let keep = |all: f64, least: f64, most: f64| {
        if most < all && least < all { ((most - least) / (all - least)).clamp(0.0, 1.0) } else { 1.0 }
    };
    let keep = Bundle {
        memory: keep(all.memory, least.memory, most.memory),
        bandwidth: keep(all.bandwidth, least.bandwidth, most.bandwidth),
    };
    for (bundle, floor) in bundles.iter_mut().zip(floors) {
        bundle.memory = floor.memory + (bundle.memory - floor.memory) * keep.memory;
        bundle.bandwidth = floor.bandwidth + (bundle.bandwidth - floor.bandwidth) * keep.bandwidth;
    }
}

/// Which ends of the bracket have been seen, and whether the demands asked last fit.
#[derive(Default)]
struct Search {
    has_cheap: bool,
    has_dear: bool,
    fits: bool,
    rounds: u32,
    memory_price: f64,
}

impl Auction {
    /// What everybody got, in the order of the bidders.
    #[must_use]
    pub fn bundles(&self) -> &[Bundle] {
        &self.bundles
    }

    /// Sells the pool.
    pub fn run<B: Bidder>(&mut self, bidders: &[B]) -> Outcome {
        self.extra.clear();
        self.extra.resize(bidders.len(), 0.0);
        let (prices, rounds, closing) = self.sell(bidders);
        self.trim(bidders);
        self.give_back(bidders, prices);
        self.give_remainder(bidders);
        let loses = |(bidder, bundle): (&B, &Bundle)| {
            bidder.utility(*bundle) < bidder.utility(bidder.terms().endowment) * (1.0 - SAME)
        };
        if !bidders.iter().zip(&self.bundles).any(loses) {
            return Outcome { prices, rounds, closing };
        }
        self.bundles.clear();
        self.bundles.extend(bidders.iter().map(|bidder| bidder.terms().endowment));
        self.trades.run(bidders, &mut self.bundles);
        self.give_remainder(bidders);
        Outcome { prices, rounds, closing: Closing::Fallback }
    }

    /// Searches, closes, passes on what is unspent and searches again, while that helps.
    fn sell<B: Bidder>(&mut self, bidders: &[B]) -> (Prices, u32, Closing) {
        let search = self.search(bidders);
        let mut prices = Prices::with_memory(search.memory_price);
        let mut rounds = search.rounds;
        let mut closing = self.close(bidders, &search);
        for _ in 1..PASSES_MAX {
            if !self.pass_on(bidders, prices) {
                break;
            }
            std::mem::swap(&mut self.bundles, &mut self.before);
            let search = self.search(bidders);
            rounds += search.rounds;
            let next = self.close(bidders, &search);
            let sums = sum(&self.bundles);
            // Credits passed on at one price may be too many at the next: then what was sold before stands.
            if 1.0 + SAME < sums.memory.max(sums.bandwidth) {
                std::mem::swap(&mut self.bundles, &mut self.before);
                break;
            }
            prices = Prices::with_memory(search.memory_price);
            closing = next;
        }
        (prices, rounds, closing)
    }

    /// Halves the bracket of prices until demands fit or the bracket is as narrow as it may be.
    fn search<B: Bidder>(&mut self, bidders: &[B]) -> Search {
        let (mut low, mut high) = (0.0, 1.0);
        let mut search = Search::default();
        while search.rounds < ROUNDS_MAX && BRACKET_LEAST < high - low {
            search.rounds += 1;
            search.memory_price = f64::midpoint(low, high);
            let wanted = self.ask(bidders, Prices::with_memory(search.memory_price));
            let too_much_memory = 1.0 < wanted.memory && wanted.bandwidth <= wanted.memory;
            if wanted.memory <= 1.0 && wanted.bandwidth <= 1.0 {
                search.fits = true;
                break;
            } else if too_much_memory {
                low = search.memory_price;
                search.has_cheap = true;
                std::mem::swap(&mut self.asked, &mut self.cheap);
            } else {
                high = search.memory_price;
                search.has_dear = true;
                std::mem::swap(&mut self.asked, &mut self.dear);
            }
        }
        search
    }

    /// What everybody wants at `prices`, into `asked`; returns the sums.
    fn ask<B: Bidder>(&mut self, bidders: &[B], prices: Prices) -> Bundle {
        let extra = self.extra.iter();
        let demand =
            |(bidder, extra): (&B, &f64)| bidder.demand(prices, prices.of(bidder.terms().endowment) + extra);
        self.asked.clear();
        self.asked.extend(bidders.iter().zip(extra).map(demand));
        sum(&self.asked)
    }

    /// Turns what the search found into bundles.
    fn close<B: Bidder>(&mut self, bidders: &[B], search: &Search) -> Closing {
        self.bundles.clear();
        if search.fits {
            self.bundles.extend_from_slice(&self.asked);
            return Closing::Cleared;
        }
        if !(search.has_cheap && search.has_dear) {
            // One of the two is wanted by nobody at any price: what is too much of the other is a rounding error.
            let found = if search.has_cheap { &self.cheap } else { &self.dear };
            self.bundles.extend_from_slice(found);
            return Closing::Split(None);
        }
        for first in 0..bidders.len().min(CLOSINGS_MAX) {
            let split = self.mix(first);
            let is_good = |&i: &usize| {
                let at = |bundle| bidders[i].utility(bundle);
                let worst = at(self.cheap[i]).min(at(self.dear[i]));
                worst * (1.0 - SAME) <= at(self.bundles[i])
            };
            if split.as_ref().is_none_or(is_good) {
                return Closing::Split(split);
            }
        }
        Closing::Split(self.mix(0))
    }

    /// Moves bidders, beginning with `first`, from their demand where memory is cheap to that where it is dear until the
    /// memory fits; the last goes part of the way and is returned.
    fn mix(&mut self, first: usize) -> Option<usize> {
        self.bundles.clear();
        self.bundles.extend_from_slice(&self.cheap);
        let mut memory = sum(&self.bundles).memory;
        let count = self.bundles.len();
        for i in (first..count).chain(0..first) {
            let less = self.cheap[i].memory - self.dear[i].memory;
            if memory - less <= 1.0 {
                let part = if 0.0 < less { (memory - 1.0) / less } else { 1.0 };
                self.bundles[i] = self.cheap[i].towards(self.dear[i], part);
                return Some(i);
            }
            self.bundles[i] = self.dear[i];
            memory -= less;
        }
        None
    }

    /// Raises everybody's credits so that those who spent all of theirs get what is unspent; says whether that is worth
    /// another search. The satisfied get as much, so that nobody envies for lack of credits, and do not use it.
    fn pass_on<B: Bidder>(&mut self, bidders: &[B], prices: Prices) -> bool {
        let spent: f64 = self.bundles.iter().map(|bundle| prices.of(*bundle)).sum();
        let rows = bidders.iter().zip(&self.bundles).zip(&self.extra);
        let is_hungry = |((bidder, bundle), extra): &((&B, &Bundle), &f64)| {
            let budget = prices.of(bidder.terms().endowment) + **extra;
            budget * (1.0 - UNSPENT_LEAST) <= prices.of(**bundle)
        };
        let hungry: f64 = rows.filter(is_hungry).map(|((bidder, _), _)| bidder.terms().unspent_weight).sum();
        let unspent = (1.0 - spent).max(0.0);
        if unspent <= UNSPENT_LEAST || hungry <= 0.0 {
            return false;
        }
        for (bidder, extra) in bidders.iter().zip(&mut self.extra) {
            *extra += unspent * bidder.terms().unspent_weight / hungry;
        }
        true
    }

    /// Takes back what the width of the last bracket gave too much, from what everybody has above its floor.
    fn trim<B: Bidder>(&mut self, bidders: &[B]) {
        let floors = bidders.iter().map(|bidder| bidder.terms().floor);
        take_back(&mut self.bundles, floors, Bundle { memory: 1.0, bandwidth: 1.0 });
    }

    /// Gives back what nobody bought to those who have less of it than their static share and did not spend all of its value.
    fn give_back<B: Bidder>(&mut self, bidders: &[B], prices: Prices) {
        let up_to = |own: f64, home: f64, price: f64, unspent: f64| {
            let is_free = price <= BRACKET_LEAST;
            if home <= own {
                own
            } else if is_free {
                home
            } else {
                home.min(own + unspent.max(0.0) / price)
            }
        };
        let unspent = |terms: &Terms, own: Bundle| prices.of(terms.endowment) - prices.of(own);
        give(
            bidders,
            &mut self.bundles,
            |bundle| &mut bundle.memory,
            |terms, own| up_to(own.memory, terms.endowment.memory, prices.memory(), unspent(terms, own)),
        );
        give(
            bidders,
            &mut self.bundles,
            |bundle| &mut bundle.bandwidth,
            |terms, own| {
                up_to(own.bandwidth, terms.endowment.bandwidth, prices.bandwidth(), unspent(terms, own))
            },
        );
    }

    /// Gives what is left to those below their ceilings, by weight.
    fn give_remainder<B: Bidder>(&mut self, bidders: &[B]) {
        give(bidders, &mut self.bundles, |bundle| &mut bundle.memory, |terms, _| terms.ceiling.memory);
        give(bidders, &mut self.bundles, |bundle| &mut bundle.bandwidth, |terms, _| terms.ceiling.bandwidth);
    }
}

/// Gives what is left of one thing by weight to those who have less than `most` of it.
fn give<B: Bidder>(
    bidders: &[B],
    bundles: &mut [Bundle],
    part: impl Fn(&mut Bundle) -> &mut f64,
    most: impl Fn(&Terms, Bundle) -> f64,
) {
    // Each turn but the last fills at least one bidder; what is left after so many is given by who is asked next.
    for _ in 0..16 {
        let given: f64 = bundles.iter_mut().map(|bundle| *part(bundle)).sum();
        let left = 1.0 - given;
        let open = |(bidder, bundle): &mut (&B, &mut Bundle)| {
            *part(bundle) + GIVEN_LEAST < most(bidder.terms(), **bundle)
        };
        let weight: f64 = bidders
            .iter()
            .zip(bundles.iter_mut())
            .filter_map(|mut b| open(&mut b).then(|| b.0.terms().weight))
            .sum();
        if left < GIVEN_LEAST || weight <= 0.0 {
            return;
        }
        for (bidder, bundle) in
            bidders.iter().zip(bundles.iter_mut()).filter_map(|mut b| open(&mut b).then_some(b))
        {
            let terms = bidder.terms();
            let most = most(terms, *bundle);
            let amount = part(bundle);
            *amount = (*amount + left * terms.weight / weight).min(most);
        }
    }
}
