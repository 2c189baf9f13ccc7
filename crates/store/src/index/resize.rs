//! The index's number of buckets: it grows by splitting and shrinks by merging, one bucket at a time.
//!
//! Invariants: under the resize lock, and under the stripes of both buckets of a split or a merge; what is in the index is
//!             found throughout, as in a move. A merge tries the stripe of each bucket that takes what does not fit
//! Cost:       a split reads the items of one bucket
//! Source:     linear hashing is Litwin 1980; the two choices even out split and unsplit buckets

use super::address::pair;
use super::{BUCKET_SLOTS, BUCKETS_MIN, Index, Locked, slots_of, stripe_of};
use crate::hash::KeyHash;
use crate::slot::Slot;
use crate::sync::{Ordering, lock};

/// Load above which the index grows, in percent.
const LOAD_MAX_PERCENT: i64 = 90;
/// Load up to which it shrinks.
const LOAD_MIN_PERCENT: i64 = 70;
/// Buckets that are split at once at most: bounds the pause of the writer that does it.
const RESIZE_STEP: u32 = 64;
/// Buckets that are merged at once at most. Who merges holds two stripes nearly all the time, and a writer who meets one of them waits if the
/// system sends the holder away meanwhile: it gives way between steps, where it holds none.
pub(crate) const MERGE_STEP: u32 = 16;
/// Memory of removed buckets goes back in pieces of so many buckets.
pub(super) const RELEASE_STEP: u32 = 1024;

impl Index {
    fn load_percent(&self, buckets: u32) -> i64 {
        self.used.load(Ordering::Relaxed) * 100 / (i64::from(buckets) * BUCKET_SLOTS.cast_signed() as i64)
    }

    /// Whether `grow` should be called.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let slots = i64::from(buckets) * BUCKET_SLOTS.cast_signed() as i64;
        // `load_percent` without its division, which every write would wait for.
        (LOAD_MAX_PERCENT + 1) * slots <= self.used.load(Ordering::Relaxed) * 100
            && buckets < self.buckets_max
    }

    /// Whether most places are free, of an index that has grown.
    pub(crate) fn is_sparse(&self) -> bool {
        let n = self.buckets.load(Ordering::Relaxed);
        4 * BUCKETS_MIN < n && self.load_percent(n) < LOAD_MIN_PERCENT / 2
    }

    /// Splits up to a step of buckets while the load is high, at least one if `force`. `rehash` gives the hash of the
    /// item in a slot. Returns whether a bucket was added.
    pub(crate) fn grow(&self, force: bool, rehash: impl Fn(Slot) -> KeyHash) -> bool {
        let _resize = lock(&self.resize);
        let mut grew = false;
        for _ in 0..RESIZE_STEP {
            let n = self.buckets.load(Ordering::Relaxed);
            let wanted = LOAD_MAX_PERCENT - 2 < self.load_percent(n) || (force && !grew);
            if !wanted || n == self.buckets_max {
                break;
            }
            self.split(n, &rehash);
            grew = true;
        }
        grew
    }

    /// Adds the buckets that so many more items will need, as far as it may grow: what is added while little is in the index
    /// costs next to nothing, and finds place at once.
    pub(crate) fn reserve(&self, items: u64, rehash: impl Fn(Slot) -> KeyHash) {
        let _resize = lock(&self.resize);
        let wanted = self.len().saturating_add(items).saturating_mul(100);
        let buckets = wanted.div_ceil(LOAD_MAX_PERCENT.cast_unsigned() * BUCKET_SLOTS as u64);
        let buckets = u32::try_from(buckets).unwrap_or(u32::MAX).min(self.buckets_max);
        for n in self.buckets.load(Ordering::Relaxed)..buckets {
            self.split(n, &rehash);
        }
    }

    /// Adds bucket `n`, under the resize lock: the items of its buddy that the new address sends there follow.
    fn split(&self, n: u32, rehash: &impl Fn(Slot) -> KeyHash) {
        let buddy = n - (1 << n.ilog2());
        let stripes = self.hold_pair((buddy, n));
        let words = self.words.all();
        let mut target = slots_of(n);
        let mut moved = [None; BUCKET_SLOTS];
        for (at, moved) in slots_of(buddy).zip(&mut moved) {
            let word = words[at].load(Ordering::Relaxed);
            if word == 0 {
                continue;
            }
            let after = pair(rehash(Slot(word)), n + 1);
            if after.0 != buddy && after.1 != buddy {
                let to = target.next().expect("the new bucket has as many slots as its buddy");
                words[to].store(word, Ordering::Release);
                *moved = Some(at);
            }
        }
        self.stripes[stripe_of(buddy)].moves.fetch_add(1, Ordering::Release);
        self.buckets.store(n + 1, Ordering::Release);
        for at in moved.into_iter().flatten() {
            words[at].store(0, Ordering::Release);
        }
        self.leave_pair(stripes);
    }

    /// Removes up to `MERGE_STEP` buckets while the load is low. `rehash` gives the hash of the item in a slot. Returns whether one was
    /// removed.
    pub(crate) fn shrink(&self, rehash: impl Fn(Slot) -> KeyHash) -> bool {
        let _resize = lock(&self.resize);
        let mut shrank = false;
        for _ in 0..MERGE_STEP {
            let n = self.buckets.load(Ordering::Relaxed);
            if n <= BUCKETS_MIN || LOAD_MIN_PERCENT <= self.load_percent(n - 1) || !self.merge(n - 1, &rehash)
            {
                break;
            }
            shrank = true;
            self.huge_pages.end_at(n - 1);
            if (n - 1).is_multiple_of(RELEASE_STEP) {
                let last = (n - 1 + RELEASE_STEP).min(self.buckets_max);
                self.words.release((n - 1) as usize * BUCKET_SLOTS, last as usize * BUCKET_SLOTS);
            }
        }
        shrank
    }

    /// Puts the items of the last bucket back into its buddy, those that do not fit into their other buckets. False if these are full, or
    /// held by others: then both buckets stay.
    fn merge(&self, last: u32, rehash: &impl Fn(Slot) -> KeyHash) -> bool {
        let buddy = last - (1 << last.ilog2());
        let locked = Locked { index: self, pair: (buddy, last), stripes: self.hold_pair((buddy, last)) };
        if !locked.thin_out(rehash) {
            return false;
        }
        let words = self.words.all();
        let is_taken = |at: &usize| words[*at].load(Ordering::Relaxed) != 0;
        let mut free = slots_of(buddy).filter(|at| !is_taken(at));
        for from in slots_of(last).filter(is_taken) {
            let to = free.next().expect("one bucket has room for what is left in both");
            words[to].store(words[from].load(Ordering::Relaxed), Ordering::Release);
        }
        self.stripes[stripe_of(last)].moves.fetch_add(1, Ordering::Release);
        self.buckets.store(last, Ordering::Release);
        for at in slots_of(last) {
            words[at].store(0, Ordering::Release);
        }
        true
    }
}
