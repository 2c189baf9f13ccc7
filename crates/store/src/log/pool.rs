//! Which segments cost memory, and which of them are free.
//!
//! Shape:      ids of the log's region -> free ones, emptied ones that wait for their epoch, and cold ones, whose memory was given back
//! Invariants: what is cold is at the end: of two segments the one behind goes cold first, and the first one that is cold costs memory first. A
//!             segment that comes free behind a cold one goes in its stead. So all but the end of the log stays in huge pages,
//!             which a hole in their middle breaks, and which the system, once it makes them anew, fills with memory that
//!             nobody accounts for
//! Cost:       where holes have come in the middle each moves up to the end in some steps, a segment's memory given back and touched each time

use super::values;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::SegmentId;

#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) free: Vec<SegmentId>,
    /// Ids whose memory was given back, the first on top.
    cold: BinaryHeap<Reverse<SegmentId>>,
    pub(super) retired: VecDeque<(u64, SegmentId)>,
    /// The first id that was never used.
    pub(super) fresh: u32,
    /// Segments that cost memory now.
    pub(super) backed: u32,
    /// Segments that may: what was granted less what is lent to values.
    pub(super) allowed: u32,
    /// Segments that may cost memory together with the values.
    pub(super) granted: u32,
    pub(super) values: values::Book,
}

impl Pool {
    /// So many segments may cost memory; none does.
    pub(super) fn new(segments: u32, values: values::Book) -> Self {
        Self { allowed: segments, granted: segments, values, ..Self::default() }
    }

    /// An id that costs memory from now on. Called only if `backed` is below `allowed`.
    pub(super) fn back_one(&mut self) -> SegmentId {
        self.backed += 1;
        self.cold.pop().map_or_else(
            || {
                self.fresh += 1;
                SegmentId(self.fresh - 1)
            },
            |Reverse(id)| id,
        )
    }

    /// A segment costs no memory from now on.
    pub(super) fn note_cold(&mut self, id: SegmentId) {
        self.cold.push(Reverse(id));
        self.backed -= 1;
    }

    /// Takes the free segment that is behind all others.
    pub(super) fn take_last_free(&mut self) -> Option<SegmentId> {
        let last = (0..self.free.len()).max_by_key(|at| self.free[*at])?;
        Some(self.free.swap_remove(last))
    }

    /// Whether a segment before this one is cold.
    pub(super) fn is_behind_a_hole(&self, id: SegmentId) -> bool {
        self.cold.peek().is_some_and(|Reverse(first)| *first < id)
    }

    /// Whether segments could be touched without coming near the end of the memory.
    pub(super) fn has_untouched(&self, low_water: u32) -> bool {
        self.backed + low_water < self.allowed
    }

    pub(super) fn free_count(&self) -> u32 {
        u32::try_from(self.free.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use crate::epoch::Epochs;
    use crate::geometry::Geometry;
    use crate::log::{Head, Log};
    use units::{Bytes, Rng, SegmentId};

    #[test]
    fn what_is_given_back_ends_up_behind_what_stays() {
        let log = Log::new(&Geometry::new(Bytes::mib(16), Bytes::mib(1), 1)).unwrap();
        let epochs = Epochs::new();
        let take = || log.take(&epochs, 0, 0, 0);
        let empty = |head: Head| {
            let id = head.segment;
            log.seal(head);
            log.retire(&epochs, id);
            log.reclaim_now(&epochs);
        };
        let mut held: Vec<Head> = std::iter::from_fn(take).collect();
        let all = held.len();
        let stays = all - 12;
        log.allow(u32::try_from(stays).unwrap());
        let mut rng = Rng::new(3);
        for _ in 0..12 {
            empty(held.swap_remove(rng.index(held.len())));
        }
        // Those that are kept for who copies are no more than were.
        while held.len() < stays {
            held.push(take().expect("there is memory for it"));
        }
        let last = |held: &[Head]| held.iter().map(|head| head.segment).max().unwrap();
        assert!(SegmentId(u32::try_from(stays).unwrap()) <= last(&held), "there are holes");
        for _ in 0..3_000 {
            empty(held.swap_remove(rng.index(held.len())));
            held.push(take().expect("what came free is there to take"));
        }
        assert_eq!(last(&held), SegmentId(u32::try_from(stays - 1).unwrap()), "of {all}, {stays} stay");
        assert!(take().is_none());
        // More again: the first of them costs memory first.
        log.allow(u32::try_from(all).unwrap());
        held.extend(take());
        assert_eq!(last(&held), SegmentId(u32::try_from(stays).unwrap()));
    }
}
