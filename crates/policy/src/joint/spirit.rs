//! Memory and bandwidth by auction: every tenant bids for what its own miss ratio curve says helps it most.
//!
//! Shape:      signals (bandwidth used, curve or samples or profile) -> bids -> auction -> shares
//! Invariants: shares sum to at most the pool and keep floors and ceilings; by the estimates nobody is worse off than with
//!             its static share
//! Units:      parts of the pool inside
//! Cost:       O(tenants × rounds) passes over 200 steps in 32-bit floats; at most one curve in five is taken over per
//!             epoch; no allocation once the tenants are steady
//! Failure:    a missing signal leaves what was known of the tenant; a tenant of whom nothing is known yet, and every tenant
//!             in its first epochs, bids for its static share; its estimate stays over a window that mixes two settings
//! Source:     Spirit §3.2 (Symbiosis), §4 (windows, estimates), §7 (weights, stateful credits). We differ: see `auction`
//!             and `bidder`; what is left over goes back to those who left credits, then to all by weight; ranges are the
//!             tenants' own; where curves are noisy an epoch goes a part of the way to the outcome only ([`Options::ease`]).
//!
//! | Paper | here |
//! |---|---|
//! | f_i | `Bid::speed` |
//! | ε | a step of `Bid::range` |
//! | epoch | one decision, `Options::epoch` |
//! | ±5ε | `Options::window` |

use super::auction::{Auction, Bidder, Bundle, Closing, Outcome, Terms, take_back};
use super::desk::{Desk, note};
use super::options::Options;
use control::joint::{Joint, JointSignal};
use control::{Decision, Policy, Reason, Seen};
use std::borrow::Cow;
use units::Instant;

/// What shares on the way may sum to beside the outcome's, as a part of the pool.
const ROUNDED: f64 = 1e-6;

/// The policy `symbiosis`.
#[derive(Debug)]
pub struct Symbiosis {
    name: &'static str,
    desk: Desk,
    auction: Auction,
    granted: Vec<Bundle>,
}

impl Symbiosis {
    /// The policy with its options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::named("symbiosis", options)
    }

    pub(super) fn named(name: &'static str, options: Options) -> Self {
        Self { name, desk: Desk::new(options), auction: Auction::default(), granted: Vec::new() }
    }

    /// Remembers who left credits unspent and who got them.
    fn save(&mut self, outcome: &Outcome) {
        for place in 0..self.desk.bids.len() {
            let budget = outcome.prices.of(self.desk.bids[place].terms().endowment);
            let left = budget - outcome.prices.of(self.granted[place]);
            self.desk.save(place, left / budget.max(f64::MIN_POSITIVE));
        }
    }

    /// A part of the way from what is in force to the outcome, within every limit; the whole way if somebody has come or gone (`changed`), or
    /// a limit on the way would leave some of the pool to nobody. Where both ends are no worse than the static share, so is what lies between
    /// for whose gains get smaller the more it has; one whose curve falls at one size only has less bandwidth before it has that memory.
    fn go(&mut self, seen: &Seen<'_, JointSignal, Joint>, changed: bool) {
        let ease = self.desk.options.ease;
        let sums = |bundles: &[Bundle]| {
            bundles.iter().fold((0.0, 0.0), |sum, b| (sum.0 + b.memory, sum.1 + b.bandwidth))
        };
        let whole = sums(self.auction.bundles());
        // Of a pool that has grown or shrunk everybody keeps its part.
        let all = |of: fn(Joint) -> u64| -> f64 {
            seen.tenants
                .iter()
                .filter_map(|row| row.in_force)
                .map(|held| of(held) as f64)
                .sum::<f64>()
                .max(1.0)
        };
        let memory = |held: Joint| held.bytes.0;
        let bandwidth = |held: Joint| held.bandwidth.0;
        let (all_memory, all_bandwidth) = (all(memory), all(bandwidth));
        let ways = seen.tenants.iter().zip(self.auction.bundles()).zip(self.desk.book.terms());
        let ways = ways.map_while(|((row, to), Terms { floor, ceiling, .. })| {
            let held = row.in_force?;
            let between = |from: f64, to: f64| from + (to - from) * ease;
            Some(Bundle {
                memory: between(memory(held) as f64 / all_memory * whole.0, to.memory)
                    .clamp(floor.memory, ceiling.memory),
                bandwidth: between(bandwidth(held) as f64 / all_bandwidth * whole.1, to.bandwidth)
                    .clamp(floor.bandwidth, ceiling.bandwidth),
            })
        });
        self.granted.clear();
        self.granted.extend(ways);
        // Who gets at once what it is not taken below has it from those who have more than that.
        let most = Bundle { memory: whole.0, bandwidth: whole.1 };
        take_back(&mut self.granted, self.desk.book.terms().iter().map(|terms| terms.floor), most);
        let way = sums(&self.granted);
        let is_same = (way.0 - whole.0).abs().max((way.1 - whole.1).abs()) <= ROUNDED;
        if changed || !is_same || self.granted.len() < seen.tenants.len() || 1.0 <= ease {
            self.granted.clear();
            self.granted.extend(self.auction.bundles());
        }
    }

    fn explain(&mut self, closing: Closing) {
        let more = |(bid, bundle): (&super::Bid, &super::Bundle)| {
            (bundle.memory - bid.terms.endowment.memory).max(0.0)
        };
        let moved: f64 = self.desk.bids.iter().zip(&self.granted).map(more).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a part of the pool, for people")]
        let moved = (moved * self.desk.capacity.bytes.0 as f64) as i64;
        // Shares in force are whole bytes: up to one per tenant is rounding.
        let rounding = i64::try_from(self.desk.bids.len()).unwrap_or(i64::MAX);
        if closing == Closing::Fallback {
            let why = Cow::Borrowed("prices left somebody below its static share");
            self.desk.notes.push(note(None, Reason::Fallback(why), moved));
        } else if rounding < moved {
            self.desk.notes.push(note(None, Reason::Traded, moved));
        }
    }
}

impl Policy for Symbiosis {
    type Signal = JointSignal;
    type Share = Joint;

    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, JointSignal, Joint>) -> Decision<'_, Joint> {
        let changed = self.desk.open(seen);
        let outcome = self.auction.run(&self.desk.bids);
        self.go(seen, changed);
        if self.desk.options.stateful {
            self.save(&outcome);
        }
        self.explain(outcome.closing);
        self.desk.book.grant(seen, self.granted.iter().copied());
        let (wake, lease) = (self.desk.options.epoch, self.desk.options.lease());
        Decision { shares: self.desk.book.shares(), wake, lease, steady: true, notes: &self.desk.notes }
    }
}
