//! Memory of segments beyond what is allowed: off the accounts at once, given back to the system piece by piece.
//!
//! Shape:      a free segment too many -> surplus -> a few given back where they became too many, the others by the cleaner -> cold
//! Invariants: nobody has a segment whose memory is being given back; what is only to be given back is taken again before other memory is
//! Cost:       some 50 us for a mebibyte, by the cleaner without the pool's lock

#![allow(unsafe_code, reason = "memory of free segments goes back to the system")]

use super::{Log, Pool};
use crate::sync::{Ordering, lock};
use units::SegmentId;

/// Segments whose memory whoever holds the lock of the pool gives back at most, beside what values are about to take: a tenth of a millisecond.
const COOLED_AT_ONCE: u32 = 2;
/// Segments whose memory a turn of the cleaner gives back at most: about a millisecond.
const COOLED_A_TURN: usize = 16;

impl Pool {
    /// Takes a free segment off the accounts.
    pub(super) fn discard(&mut self, id: SegmentId) {
        self.surplus.push(id);
        self.backed -= 1;
    }

    pub(super) fn surplus_count(&self) -> u32 {
        u32::try_from(self.surplus.len()).unwrap_or(u32::MAX)
    }
}

impl Log {
    /// Whether `give_surplus_back` has something to do. A hint.
    pub(crate) fn has_surplus(&self) -> bool {
        self.surplus.load(Ordering::Relaxed) != 0
    }

    /// Gives the memory of a few segments back, of as many as values took.
    pub(super) fn cool(&self, pool: &mut Pool, for_values: u32) {
        for _ in 0..COOLED_AT_ONCE.max(for_values) {
            let Some(id) = pool.surplus.pop() else { break };
            self.release(id);
            pool.cold.push(id);
        }
    }

    /// Gives the memory of some segments back that are off the accounts. Returns whether there may be more.
    pub(crate) fn give_surplus_back(&self) -> bool {
        let ids = self.begin_cooling();
        ids.iter().for_each(|id| self.release(*id));
        self.end_cooling(&ids)
    }

    fn begin_cooling(&self) -> Vec<SegmentId> {
        if !self.has_surplus() {
            return Vec::new();
        }
        let mut pool = lock(&self.pool);
        let kept = pool.surplus.len().saturating_sub(COOLED_A_TURN);
        let ids = pool.surplus.split_off(kept);
        pool.cooling += u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.publish_available(&pool);
        ids
    }

    fn end_cooling(&self, ids: &[SegmentId]) -> bool {
        if ids.is_empty() {
            return false;
        }
        let mut pool = lock(&self.pool);
        pool.cold.extend_from_slice(ids);
        pool.cooling -= u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.publish_available(&pool);
        !pool.surplus.is_empty()
    }

    fn release(&self, id: SegmentId) {
        // SAFETY: the segment was free: the index points at nothing in it and every reader's epoch has passed. Nobody can take it
        // meanwhile: the caller holds the lock of the pool, or it is on none of its lists.
        unsafe { self.region.release(id.index() * self.segment_bytes, self.segment_bytes) };
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::epoch::Epochs;
    use crate::limits::RESERVE_SEGMENTS;
    use std::collections::HashSet;
    use units::Bytes;

    #[test]
    fn what_is_too_much_is_off_the_accounts_at_once_and_given_back_by_and_by() {
        let geometry = Geometry::new(Bytes::mib(256), Bytes::mib(1), 1);
        let log = Log::new(&geometry).unwrap();
        let (epochs, count) = (Epochs::new(), geometry.segment_count);
        let take = || log.take(&epochs, 0, 1, 1);
        let heads: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!((heads.len(), log.available()), (count as usize, 0));
        for head in heads {
            let id = head.segment;
            log.seal(head);
            log.retire(&epochs, id);
        }
        log.reclaim_now(&epochs);
        let least = RESERVE_SEGMENTS + 4;
        log.allow(least);
        let state = || {
            let pool = lock(&log.pool);
            (pool.backed, pool.surplus_count(), pool.cooling, pool.cold.len())
        };
        let beyond = count - least;
        assert_eq!(state(), (least, beyond - COOLED_AT_ONCE, 0, COOLED_AT_ONCE as usize));
        assert_eq!((log.excess(), log.available(), log.has_surplus()), (0, least, true));
        // While some are being given back, all that may be had are; nobody has one of those.
        let cooling = log.begin_cooling();
        assert_eq!(cooling.len(), COOLED_A_TURN);
        log.allow(count);
        assert_eq!(log.available(), count - u32::try_from(COOLED_A_TURN).unwrap());
        let heads: Vec<_> = std::iter::from_fn(take).collect();
        let taken: HashSet<_> = heads.iter().map(|head| head.segment).collect();
        assert_eq!(taken.len(), count as usize - COOLED_A_TURN);
        assert!(cooling.iter().all(|id| !taken.contains(id)));
        assert!(!log.end_cooling(&cooling) && !log.has_surplus(), "the others were taken first");
        assert_eq!(std::iter::from_fn(take).count(), COOLED_A_TURN);
        assert_eq!(state(), (count, 0, 0, 0));
    }

    #[test]
    fn turns_of_the_cleaner_give_all_of_it_back() {
        let log = Log::new(&Geometry::new(Bytes::mib(128), Bytes::mib(1), 1)).unwrap();
        let mut pool = lock(&log.pool);
        for _ in 0..40 {
            let id = pool.back_one();
            pool.free.push(id);
        }
        drop(pool);
        log.allow(0);
        let surplus = 40 - RESERVE_SEGMENTS - COOLED_AT_ONCE;
        let turns = std::iter::from_fn(|| log.give_surplus_back().then_some(())).count() + 1;
        assert_eq!(turns, (surplus as usize).div_ceil(COOLED_A_TURN));
        assert_eq!((log.has_surplus(), lock(&log.pool).cold.len()), (false, 40 - RESERVE_SEGMENTS as usize));
    }
}
