//! Whether a pass over a tier may gain something, as far as that is known without one.
//!
//! Shape:      what passes found, and how much has died since -> whether another is worth the while
//! Units:      bytes; seconds of the store's clock
//! Cost:       where nothing alive goes a look at every segment, once a second and whenever enough has died

use crate::limits;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::tier::Tier;

/// What is known of the passes to come.
#[derive(Debug, Default)]
pub(in crate::tier) struct Prospects {
    /// Dead bytes from which on a pass may gain something where nothing alive goes.
    dead_enough: AtomicU64,
    /// As long as no more has died, and in this second, there is less of them: nobody has to look again.
    futile_until: AtomicU64,
    futile_second: AtomicU32,
    /// Before this second no pass finds anything that may go: what the tier holds is within floors.
    barren_until: AtomicU32,
}

impl Tier {
    /// Bytes that hold nothing alive in the segments that a pass would take if nothing alive went.
    fn dead(&self, now_secs: u32) -> u64 {
        let live = |segment| self.segments.live(segment);
        let mut live: Vec<u32> = self.candidates(now_secs).map(live).collect();
        let width = self.width(live.len());
        if let Some(last) = width.checked_sub(1) {
            live.select_nth_unstable(last);
        }
        live[..width].iter().map(|live| self.segments.bytes().saturating_sub(u64::from(*live))).sum()
    }

    /// Whether a pass may gain something: where nothing alive goes, what is dead has to make up a segment, and more than when a pass
    /// found no use for it, as at ends of segments; else not for a moment after one has found nothing that is beyond floors.
    pub(in crate::tier) fn may_gain(&self, now_secs: u32) -> bool {
        if !self.keeps_all {
            return self.prospects.barren_until.load(Ordering::Relaxed) <= now_secs;
        }
        let Prospects { futile_until: until, futile_second: second, .. } = &self.prospects;
        let died = self.segments.died();
        if second.load(Ordering::Relaxed) == now_secs && died < until.load(Ordering::Relaxed) {
            return false;
        }
        let enough = self.prospects.dead_enough.load(Ordering::Relaxed).max(self.segments.bytes());
        let missing = enough.saturating_sub(self.dead(now_secs));
        until.store(died + missing, Ordering::Relaxed);
        second.store(now_secs, Ordering::Relaxed);
        missing == 0
    }

    /// Notes whether a pass found something to gain.
    pub(super) fn note_gain(&self, gains: bool, now_secs: u32) {
        let Prospects { dead_enough, futile_until, barren_until, .. } = &self.prospects;
        if gains {
            dead_enough.store(0, Ordering::Relaxed);
            // What was missing was of what was enough before.
            futile_until.store(0, Ordering::Relaxed);
        } else if self.keeps_all {
            let more = self.segments.bytes() / limits::TIER_DEAD_PART;
            dead_enough.store(self.dead(now_secs) + more, Ordering::Relaxed);
        } else {
            barren_until.store(now_secs.saturating_add(limits::TIER_REST_SECS), Ordering::Relaxed);
        }
    }
}
