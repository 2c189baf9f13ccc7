//! Ages that outgrow the rank clock's eight bits: a slow walk over the index holds them back, and lets uses fade that are so old.
//!
//! Shape:      ticks that have passed -> that part of the index's buckets, the next ones round and round; slots older than
//!             `AGE_MAX` are set back to it, and their use counter a step: a third of its uses for each quarter of a turnover, so that
//!             what was asked for often and is not any more goes in the end
//! Invariants: an age that is visited once in `SWEEP_TICKS` never wraps, so nothing old looks new; what a thread used
//!             meanwhile stays as that thread left it
//! Cost:       a sequential look at four slots per item written, about a nanosecond each (measured: `docs/benchmarks.md`)
//! Failure:    where a cleaner is late by more than the rest of the clock's range, items wrap and look new

use crate::limits::AGE_MAX;
use crate::store::Store;
use crate::sync::{Mutex, try_lock};

/// Ticks in which every bucket is visited once. With what one pass frees between two visits (up to 13 ticks in the
/// smallest store) it stays below the 31 that are left of the clock beyond `AGE_MAX`.
const SWEEP_TICKS: u32 = 16;
const _: () = assert!(SWEEP_TICKS + 13 < u8::MAX as u32 - AGE_MAX as u32);

/// How far the walk has come.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The tick up to which the walk has been done.
    tick: u32,
    /// The next bucket.
    bucket: u32,
}

impl Sweep {
    /// Does the part of the walk that is due. A thread that finds another at it leaves it its part.
    pub(crate) fn advance(&self, store: &Store) {
        let Some(mut progress) = try_lock(&self.progress) else { return };
        let tick = store.tick_count();
        let passed = tick.wrapping_sub(progress.tick).min(SWEEP_TICKS);
        if passed == 0 {
            return;
        }
        progress.tick = tick;
        let buckets = store.index.buckets();
        let mut left = part(buckets, passed);
        while 0 < left {
            if buckets <= progress.bucket {
                progress.bucket = 0;
            }
            let first = progress.bucket;
            let last = first.saturating_add(left).min(buckets);
            store.index.hold_ages(first..last, AGE_MAX, || store.tick());
            left -= last - first;
            progress.bucket = last;
        }
    }
}

/// Buckets to visit in so many ticks, rounded up.
fn part(buckets: u32, ticks: u32) -> u32 {
    let due = (u64::from(buckets) * u64::from(ticks)).div_ceil(u64::from(SWEEP_TICKS));
    u32::try_from(due).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_is_due_once_in_a_period() {
        for buckets in [64, 1_000, u32::MAX / 2] {
            for step in [1, 3, SWEEP_TICKS] {
                let turns = SWEEP_TICKS.div_ceil(step);
                assert!(buckets <= part(buckets, step) * turns, "{buckets} by {step}");
            }
            assert_eq!((part(buckets, 0), part(buckets, SWEEP_TICKS)), (0, buckets));
        }
    }
}
