//! Whether every slot is where its hash says.

use super::address::pair;
use super::resize::RELEASE_STEP;
use super::{BUCKET_SLOTS, Index, slots_of};
use crate::hash::KeyHash;
use crate::slot::{Slot, has_tag, tag_of};
use crate::sync::Ordering;

impl Index {
    /// Walks every slot and asserts that it is where its hash says. No writer may run.
    pub(crate) fn check(&self, rehash: impl Fn(Slot) -> KeyHash) -> Vec<Slot> {
        let n = self.buckets.load(Ordering::Acquire);
        let mut slots = Vec::new();
        for bucket in 0..n {
            for at in slots_of(bucket) {
                let word = self.words.all()[at].load(Ordering::Acquire);
                if word != 0 {
                    let hash = rehash(Slot(word));
                    let both = pair(hash, n);
                    assert!(
                        bucket == both.0 || bucket == both.1,
                        "slot in bucket {bucket}, belongs in {both:?}"
                    );
                    assert!(has_tag(word, tag_of(hash)), "the tag is the key's");
                    slots.push(Slot(word));
                }
            }
        }
        assert_eq!(slots.len() as u64, self.len(), "the count of items is the number of slots");
        let beyond =
            n as usize * BUCKET_SLOTS..((n + RELEASE_STEP).min(self.buckets_max)) as usize * BUCKET_SLOTS;
        assert!(
            self.words.all()[beyond].iter().all(|w| w.load(Ordering::Relaxed) == 0),
            "buckets beyond the last are empty"
        );
        slots
    }
}
