//! Memory touched ahead of the writers: the first touch of a huge page takes milliseconds.
//!
//! Shape:      fewer free segments than should be touched -> the cleaner is called, before there are none -> it touches some
//! Invariants: what is touched ahead is a 64th of what is in use at most, or one huge page; none where memory gets short
//! Cost:       one system call per segment, without the pool's lock

use super::{Log, Pool};
use crate::geometry::Geometry;
use crate::limits;
use crate::sync::{Ordering, lock};
use units::{Bytes, SegmentId};

/// How many segments are touched ahead at least and at most.
pub(super) fn bounds(geometry: &Geometry) -> (u32, u32) {
    let segments = |bytes: Bytes| {
        let count = u32::try_from(bytes.count_of(geometry.segment)).unwrap_or(u32::MAX);
        count.min(geometry.segment_count / limits::TOUCHED_AHEAD_PART).max(2)
    };
    (segments(limits::TOUCHED_AHEAD), segments(limits::TOUCHED_AHEAD_MOST))
}

impl Log {
    /// Whether `touch_ahead` has something to do. A hint.
    pub(crate) fn wants_touching(&self) -> bool {
        self.untouched.load(Ordering::Relaxed)
    }

    /// Whether more segments should be touched, and could be without coming near the end of the memory.
    pub(super) fn has_untouched(&self, pool: &Pool) -> bool {
        let (least, most) = self.touched_ahead;
        pool.free_count() < (pool.backed / limits::TOUCHED_AHEAD_OF_USED).clamp(least, most)
            && self.low_water < pool.unbacked()
    }

    /// Touches the memory of segments before a writer takes them. Stops where memory gets short.
    pub(crate) fn touch_ahead(&self) {
        loop {
            let mut pool = lock(&self.pool);
            if !self.has_untouched(&pool) {
                self.publish_available(&pool);
                return;
            }
            let id = pool.back_one();
            drop(pool);
            self.populate(id);
            let mut pool = lock(&self.pool);
            pool.free.push(id);
            self.publish_available(&pool);
        }
    }

    /// Touches the memory of a segment.
    pub(super) fn populate(&self, id: SegmentId) {
        // Refusal only makes the first touch cost what it does.
        let _refused = self.region.populate(id.index() * self.segment_bytes, self.segment_bytes);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::epoch::Epochs;

    /// The cleaner is called as soon as one of those touched is taken, not when none is left.
    #[test]
    fn segments_are_touched_before_the_last_is_taken() {
        let geometry = Geometry::new(Bytes::mib(512), Bytes::mib(1), 1);
        let log = Log::new(&geometry).unwrap();
        let epochs = Epochs::new();
        let (least, most) = bounds(&geometry);
        assert!(least < most);
        let ahead = || lock(&log.pool).free_count();
        assert!(log.wants_touching());
        log.touch_ahead();
        assert_eq!((ahead(), log.wants_touching()), (least, false));
        let mut heads = Vec::new();
        let mut take = || heads.push(log.take(&epochs, 0, 1, 1).unwrap());
        take();
        assert_eq!((ahead(), log.wants_touching()), (least - 1, true));
        for _ in 0..geometry.segment_count / 2 {
            log.touch_ahead();
            take();
            let used = lock(&log.pool).backed;
            assert!(ahead() <= least.max(used / limits::TOUCHED_AHEAD_OF_USED) && ahead() <= most);
        }
        assert_eq!(
            ahead(),
            (geometry.segment_count / 2 / limits::TOUCHED_AHEAD_OF_USED).clamp(least, most) - 1
        );
        while log.low_water < log.available() {
            take();
        }
        log.touch_ahead();
        assert!(!log.wants_touching(), "the end of the memory is near");
    }
}
