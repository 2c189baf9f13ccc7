//! Trades of memory for bandwidth between two bidders that both gain.
//!
//! Shape:      bundles -> what each would pay for a step more of memory, and take for a step less -> trades
//! Invariants: the sums of both stay as they are; no trade leaves anybody worse; floors and ceilings hold
//! Cost:       O(bidders × log bidders) utilities per sweep; pairs are all compared while there are few bidders

use super::auction::{Bidder, Bundle, SAME};

/// Sweeps at most. A guess: bidders with the whole of their 200 steps to go need as many.
const SWEEPS_MAX: u32 = 200;
/// Up to so many bidders every pair is compared.
const PAIRED_MAX: usize = 16;
/// Halvings of the search for a price: a millionth of the range.
const HALVINGS: u32 = 24;

/// A bidder's price for a step of memory, in bandwidth per memory.
#[derive(Clone, Copy, Debug)]
struct Offer {
    who: usize,
    price: f64,
}

/// The buffers of trading.
#[derive(Debug, Default)]
pub(super) struct Trades {
    buyers: Vec<Offer>,
    sellers: Vec<Offer>,
    traded: Vec<bool>,
}

impl Trades {
    /// Trades until nobody gains.
    pub(super) fn run<B: Bidder>(&mut self, bidders: &[B], bundles: &mut [Bundle]) {
        for _ in 0..SWEEPS_MAX {
            self.offers(bidders, bundles);
            let trades = if bidders.len() <= PAIRED_MAX {
                u32::from(self.best_pair(bidders, bundles))
            } else {
                self.sweep(bidders, bundles)
            };
            if trades == 0 {
                return;
            }
        }
    }

    fn offers<B: Bidder>(&mut self, bidders: &[B], bundles: &[Bundle]) {
        let offer = |(who, price): (usize, Option<f64>)| price.map(|price| Offer { who, price });
        let bids = bidders.iter().zip(bundles).map(|(bidder, bundle)| bid(bidder, *bundle));
        self.buyers.clear();
        self.buyers.extend(bids.enumerate().filter_map(offer));
        let asks = bidders.iter().zip(bundles).map(|(bidder, bundle)| ask(bidder, *bundle));
        self.sellers.clear();
        self.sellers.extend(asks.enumerate().filter_map(offer));
        self.buyers.sort_unstable_by(|a, b| b.price.total_cmp(&a.price).then(a.who.cmp(&b.who)));
        self.sellers.sort_unstable_by(|a, b| a.price.total_cmp(&b.price).then(a.who.cmp(&b.who)));
    }

    /// Trades between the pair that gains most, if any gains.
    fn best_pair<B: Bidder>(&self, bidders: &[B], bundles: &mut [Bundle]) -> bool {
        for buyer in &self.buyers {
            for seller in &self.sellers {
                if buyer.price <= seller.price {
                    break;
                }
                if buyer.who != seller.who && trade(bidders, bundles, *buyer, *seller) {
                    return true;
                }
            }
        }
        false
    }

    /// Trades between the best buyer and the best seller, the second best, and so on; everybody once.
    fn sweep<B: Bidder>(&mut self, bidders: &[B], bundles: &mut [Bundle]) -> u32 {
        self.traded.clear();
        self.traded.resize(bidders.len(), false);
        let mut trades = 0;
        let mut sellers = self.sellers.iter().peekable();
        for buyer in &self.buyers {
            while sellers.next_if(|seller| self.traded[seller.who] || seller.who == buyer.who).is_some() {}
            let Some(seller) = sellers.peek() else { break };
            if buyer.price <= seller.price {
                break;
            }
            if !self.traded[buyer.who] && trade(bidders, bundles, *buyer, **seller) {
                self.traded[buyer.who] = true;
                self.traded[seller.who] = true;
                trades += 1;
                sellers.next();
            }
        }
        trades
    }
}

/// What it would pay at most for a step more of memory.
fn bid<B: Bidder>(bidder: &B, at: Bundle) -> Option<f64> {
    let terms = bidder.terms();
    let memory = at.memory + terms.step;
    let enough = bidder.utility(at) * (1.0 + SAME);
    let gains = |paid: f64| enough < bidder.utility(Bundle { memory, bandwidth: at.bandwidth - paid });
    let most = at.bandwidth - terms.floor.bandwidth;
    if terms.step <= 0.0 || terms.ceiling.memory < memory || !gains(0.0) {
        return None;
    }
    let (mut paid, mut too_much) = (0.0, most);
    if gains(most) {
        return Some(most / terms.step);
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(paid, too_much);
        if gains(middle) { paid = middle } else { too_much = middle }
    }
    Some(paid / terms.step)
}

/// What it would take at least for a step less of memory.
fn ask<B: Bidder>(bidder: &B, at: Bundle) -> Option<f64> {
    let terms = bidder.terms();
    let memory = at.memory - terms.step;
    let enough = bidder.utility(at) * (1.0 + SAME);
    let gains = |got: f64| enough < bidder.utility(Bundle { memory, bandwidth: at.bandwidth + got });
    let most = terms.ceiling.bandwidth.min(1.0) - at.bandwidth;
    if terms.step <= 0.0 || memory < terms.floor.memory || !gains(most) {
        return None;
    }
    let (mut too_little, mut got) = (0.0, most);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(too_little, got);
        if gains(middle) { got = middle } else { too_little = middle }
    }
    Some(got / terms.step)
}

/// Exchanges the smaller of both steps at the price in the middle, if both gain by it.
fn trade<B: Bidder>(bidders: &[B], bundles: &mut [Bundle], buyer: Offer, seller: Offer) -> bool {
    let (buys, sells) = (&bidders[buyer.who], &bidders[seller.who]);
    let memory = buys.terms().step.min(sells.terms().step);
    let bandwidth = memory * f64::midpoint(buyer.price, seller.price);
    let paid = Bundle { memory, bandwidth: -bandwidth };
    let got = Bundle { memory: -memory, bandwidth };
    let (had, gave) = (bundles[buyer.who], bundles[seller.who]);
    let (has, keeps) = (had.plus(paid), gave.plus(got));
    let fits = keeps.bandwidth <= sells.terms().ceiling.bandwidth
        && sells.terms().floor.memory <= keeps.memory
        && buys.terms().floor.bandwidth <= has.bandwidth;
    let gain = buys.utility(had) < buys.utility(has) && sells.utility(gave) < sells.utility(keeps);
    if fits && gain {
        bundles[buyer.who] = has;
        bundles[seller.who] = keeps;
    }
    fits && gain
}
