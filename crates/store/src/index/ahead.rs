//! Loading ahead: the lines of many keys at once, so that nobody waits for each in turn.
//!
//! Shape:      first buckets of all keys -> the items that they lead to, or else the second buckets -> the items that those lead to
//! Invariants: these are hints: nothing is locked, and a moving item may be missed
//! Cost:       one line of 64 B for 54 to 65 % of the items at a load of .9, two for the others

use super::address::pair;
use super::{BUCKET_SLOTS, Index, slots_of, stripe_of};
use crate::hash::KeyHash;
use crate::slot::{Slot, has_tag, tag_of};
use crate::sync::Ordering;
use media::prefetch;

impl Index {
    /// Starts loading a bucket, if it is there.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, bucket: u32) {
        self.words.prefetch(bucket as usize * BUCKET_SLOTS);
    }

    /// Starts loading both buckets of a key.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.prefetch_first(hash);
        self.prefetch_second(hash);
    }

    /// Starts loading the first bucket of a key.
    #[inline]
    pub(crate) fn prefetch_first(&self, hash: KeyHash) {
        self.words.prefetch(self.pair_of(hash).0 as usize * BUCKET_SLOTS);
    }

    /// Starts loading the second one.
    #[inline]
    pub(crate) fn prefetch_second(&self, hash: KeyHash) {
        self.words.prefetch(self.pair_of(hash).1 as usize * BUCKET_SLOTS);
    }

    /// Starts loading their locks, which another thread has most often had last.
    #[inline]
    pub(crate) fn prefetch_locks(&self, hash: KeyHash) {
        let (first, second) = self.pair_of(hash);
        for bucket in [first, second] {
            prefetch(&self.stripes[stripe_of(bucket)]);
        }
    }

    /// Calls `each` with the slots of the first bucket that carry the hash's tag; whether there is one.
    #[inline]
    pub(crate) fn peek_first(&self, hash: KeyHash, each: impl FnMut(Slot)) -> bool {
        self.peek(self.pair_of(hash).0, hash, each)
    }

    /// The same of the second bucket.
    #[inline]
    pub(crate) fn peek_second(&self, hash: KeyHash, each: impl FnMut(Slot)) -> bool {
        self.peek(self.pair_of(hash).1, hash, each)
    }

    fn pair_of(&self, hash: KeyHash) -> (u32, u32) {
        pair(hash, self.buckets.load(Ordering::Relaxed))
    }

    #[inline]
    fn peek(&self, bucket: u32, hash: KeyHash, mut each: impl FnMut(Slot)) -> bool {
        let tag = tag_of(hash);
        // All of them first, without a branch: which have the tag is as good as random.
        let slots = &self.words.all()[slots_of(bucket)];
        let words: [u64; BUCKET_SLOTS] = std::array::from_fn(|i| slots[i].load(Ordering::Relaxed));
        let tagged = (0..BUCKET_SLOTS).fold(0_u32, |all, i| all | u32::from(has_tag(words[i], tag)) << i);
        let mut left = tagged;
        while left != 0 {
            each(Slot(words[left.trailing_zeros() as usize]));
            left &= left - 1;
        }
        tagged != 0
    }
}
