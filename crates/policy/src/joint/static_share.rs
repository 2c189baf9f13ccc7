//! Fixed shares of both: what dominant resource fairness comes to when everybody asks for all it can get.
//!
//! Source: Spirit §6 (uDRF)

use super::auction::Bundle;
use super::book::Book;
use super::options::Options;
use control::joint::{Joint, JointSignal};
use control::{Decision, Policy, Seen};
use units::{Duration, Instant};

/// The policy `static`.
#[derive(Debug)]
pub struct Static {
    epoch: Duration,
    lease: Duration,
    book: Book,
}

impl Static {
    /// The policy; only the epoch of the options matters.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let options = options.clone().bounded();
        Self { epoch: options.epoch, lease: options.lease(), book: Book::default() }
    }
}

impl Policy for Static {
    type Signal = JointSignal;
    type Share = Joint;

    fn name(&self) -> &'static str {
        "static"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, JointSignal, Joint>) -> Decision<'_, Joint> {
        self.book.settle(seen, |_, _| Bundle::default());
        self.book.grant_static(seen);
        let (wake, lease) = (self.epoch, self.lease);
        Decision { shares: self.book.shares(), wake, lease, steady: true, notes: &[] }
    }
}
