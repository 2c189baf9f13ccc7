//! Memory and bandwidth by auction: every tenant bids for what its own miss ratio curve says helps it most.
//!
//! Shape:      signals (bandwidth used, curve or samples or profile) -> bids -> auction -> shares
//! Invariants: shares sum to at most the pool and keep floors and ceilings; by the estimates nobody is worse off than with
//!             its static share
//! Units:      parts of the pool inside
//! Cost:       O(tenants × rounds) passes over 200 steps in 32-bit floats; at most one curve in five is taken over per
//!             epoch; no allocation once the tenants are steady
//! Failure:    a missing signal leaves what was known of the tenant; a tenant of whom nothing is known yet, and every tenant
//!             in its first epochs, stays at its static share; so does its estimate over a window that mixes two settings
//! Source:     Spirit §3.2 (Symbiosis), §4 (windows, estimates), §7 (weights, stateful credits). We differ: see `auction`
//!             and `bidder`; what is left over is given away by weight; ranges are the tenants' own.
//!
//! | Paper | here |
//! |---|---|
//! | f_i | `Bid::speed` |
//! | ε | a step of `Bid::range` |
//! | epoch | one decision, `Options::epoch` |
//! | ±5ε | `Options::window` |

use super::auction::{Auction, Bidder, Closing, Outcome};
use super::desk::{Desk, note};
use super::options::Options;
use control::joint::{Joint, JointSignal};
use control::{Decision, Policy, Reason, Seen};
use std::borrow::Cow;
use units::Instant;

/// The policy `symbiosis`.
#[derive(Debug)]
pub struct Symbiosis {
    name: &'static str,
    desk: Desk,
    auction: Auction,
}

impl Symbiosis {
    /// The policy with its options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::named("symbiosis", options)
    }

    pub(super) fn named(name: &'static str, options: Options) -> Self {
        Self { name, desk: Desk::new(options), auction: Auction::default() }
    }

    /// Remembers who left credits unspent and who got them.
    fn save(&mut self, outcome: &Outcome) {
        for place in 0..self.desk.bids.len() {
            let budget = outcome.prices.of(self.desk.bids[place].terms().endowment);
            let left = budget - outcome.prices.of(self.auction.bundles()[place]);
            self.desk.save(place, left / budget.max(f64::MIN_POSITIVE));
        }
    }

    fn explain(&mut self, closing: Closing) {
        let more = |(bid, bundle): (&super::Bid, &super::Bundle)| {
            (bundle.memory - bid.terms.endowment.memory).max(0.0)
        };
        let moved: f64 = self.desk.bids.iter().zip(self.auction.bundles()).map(more).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a part of the pool, for people")]
        let moved = (moved * self.desk.capacity.bytes.0 as f64) as i64;
        if closing == Closing::Fallback {
            let why = Cow::Borrowed("prices left somebody below its static share");
            self.desk.notes.push(note(None, Reason::Fallback(why), moved));
        } else if moved != 0 {
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
        self.desk.open(seen);
        let outcome = self.auction.run(&self.desk.bids);
        if self.desk.options.stateful {
            self.save(&outcome);
        }
        self.explain(outcome.closing);
        self.desk.book.grant(seen, self.auction.bundles().iter().copied());
        let (wake, lease) = (self.desk.options.epoch, self.desk.options.lease());
        Decision { shares: self.desk.book.shares(), wake, lease, steady: true, notes: &self.desk.notes }
    }
}
