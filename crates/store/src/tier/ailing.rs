//! A tier whose device fails: how long it rests, and what it owes.
//!
//! Units:      seconds of the store's clock

use super::Tier;
use crate::limits;
use crate::sync::{Ordering, lock};

impl Tier {
    /// Whether nothing is written for now: the device failed a moment ago.
    pub(crate) fn rests(&self, now_secs: u32) -> bool {
        now_secs < self.ailing_until.load(Ordering::Relaxed)
    }

    /// Lets the tier write at once, whatever became of it before.
    pub(crate) fn end_rest(&self) {
        self.ailing_until.store(0, Ordering::Relaxed);
    }

    /// Whether the device did not take what was gathered, and that waits still: nothing more is gathered then.
    pub(crate) fn owes(&self) -> bool {
        let waits = || self.has_full() || lock(&self.parked).iter().any(|head| head.written < head.used);
        self.unwritten.load(Ordering::Relaxed) != 0 && waits()
    }

    /// The device failed: for a moment nothing is written to it.
    pub(crate) fn note_error(&self, now_secs: u32) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        // A longer rest goes on.
        self.ailing_until.fetch_max(now_secs.saturating_add(limits::TIER_REST_SECS), Ordering::Relaxed);
    }
}
