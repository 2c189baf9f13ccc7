//! A tier whose device fails: how long it rests, what it owes, and which of its segments cannot be read.
//!
//! Shape:      a write that fails -> nothing is written for a while; a segment that no pass can read -> passes take others meanwhile, and
//!             come back to it after longer and longer, a few times
//! Units:      seconds of the store's clock

use super::Tier;
use crate::limits;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use std::collections::HashMap;

/// Segments that passes could not read: how often, and until when they are left alone.
#[derive(Debug, Default)]
pub(super) struct Unread {
    segments: Mutex<HashMap<u32, (u32, u32)>>,
    /// How many there are: mostly none, and then nobody waits for the lock.
    count: AtomicU32,
}

impl Unread {
    /// Whether a segment is left alone for now.
    pub(super) fn rests(&self, segment: u32, now_secs: u32) -> bool {
        self.count.load(Ordering::Relaxed) != 0
            && lock(&self.segments).get(&segment).is_some_and(|(_, until)| now_secs < *until)
    }

    /// Notes that a pass could not read a segment. Returns whether what it holds is to be given up.
    pub(super) fn note(&self, segment: u32, now_secs: u32) -> bool {
        let mut all = lock(&self.segments);
        let (times, until) = all.entry(segment).or_default();
        *until = now_secs.saturating_add(limits::TIER_REST_SECS << *times);
        *times = (*times + 1).min(limits::TIER_READS_MAX);
        let is_lost = *times == limits::TIER_READS_MAX;
        self.count.store(u32::try_from(all.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        is_lost
    }

    /// Forgets a segment: it was read, or nothing is there any more.
    pub(super) fn forget(&self, segment: u32) {
        if self.count.load(Ordering::Relaxed) != 0 {
            let mut all = lock(&self.segments);
            all.remove(&segment);
            self.count.store(u32::try_from(all.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }
}

impl Tier {
    /// Whether nothing is written for now: the device failed to write a moment ago.
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

    /// The device failed to read, which says nothing of what it writes.
    pub(crate) fn note_unread(&self) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The device failed to write: for a moment nothing is written to it.
    pub(crate) fn note_unwritten(&self, now_secs: u32) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        // A longer rest goes on.
        self.ailing_until.fetch_max(now_secs.saturating_add(limits::TIER_REST_SECS), Ordering::Relaxed);
    }
}
