//! Size classes, and what is counted of each: memcached's `stats slabs` and `stats items` for a store that has no slabs.
//!
//! Shape:      length of an item -> class 1 to 63
//! Invariants: counters of a class are written by their thread alone; they only grow, but for items and bytes
//! Units:      bytes of whole items

use crate::metrics::{Eviction, LastEviction};
use crate::sync::{AtomicI64, AtomicU64, Ordering};

/// Size classes, presented as memcached's slab classes: four per octave (steps of 1.25, 1.2, 1.17, 1.14).
pub const CLASSES: usize = 64;

macro_rules! class_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What was counted per size class.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct ClassTotals {
            /// Items now.
            pub items: i64,
            /// Their bytes.
            pub bytes: i64,
            /// The last eviction.
            pub last_eviction: Eviction,
            $($(#[$doc])* pub $name: u64,)*
        }

        /// One thread's counters per size class.
        #[derive(Debug, Default)]
        pub(crate) struct ClassCounters {
            items: AtomicI64,
            bytes: AtomicI64,
            pub(crate) last_eviction: LastEviction,
            $(pub(crate) $name: AtomicU64,)*
        }

        impl ClassTotals {
            /// What was counted since `earlier`; items and bytes are those of now.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_sub(earlier.$name),)*
                    last_eviction: self.last_eviction.after(earlier.last_eviction),
                    ..*self
                }
            }
        }

        impl ClassCounters {
            pub(crate) fn add_to(&self, totals: &mut ClassTotals) {
                totals.items += self.items.load(Ordering::Relaxed);
                totals.bytes += self.bytes.load(Ordering::Relaxed);
                totals.last_eviction = totals.last_eviction.max(self.last_eviction.get());
                $(totals.$name += self.$name.load(Ordering::Relaxed);)*
            }
        }
    };
}

class_counters! {
    /// Look-ups that found their item.
    get_hits,
    /// Commands that store.
    cmd_set,
    /// Deletes that found their item.
    delete_hits,
    /// Increments that found their item.
    incr_hits,
    /// Decrements that found their item.
    decr_hits,
    /// CAS commands whose value matched.
    cas_hits,
    /// CAS commands whose value did not match.
    cas_badval,
    /// Touches that found their item.
    touch_hits,
    /// Evictions.
    evicted,
    /// Evictions of items that no look-up had found.
    evicted_unfetched,
    /// Evictions of items with a time to live.
    evicted_nonzero,
    /// Expired or flushed items removed.
    reclaimed,
    /// Of these, items that no look-up had found.
    expired_unfetched,
    /// Writes that found no memory.
    out_of_memory,
}

impl ClassCounters {
    /// An item came.
    pub(crate) fn link(&self, len: usize) {
        bump_signed(&self.items, 1);
        bump_signed(&self.bytes, i64::try_from(len).unwrap_or(i64::MAX));
    }

    /// An item went.
    pub(crate) fn unlink(&self, len: usize) {
        bump_signed(&self.items, -1);
        bump_signed(&self.bytes, -i64::try_from(len).unwrap_or(i64::MAX));
    }
}

fn bump_signed(counter: &AtomicI64, by: i64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Sizes up to 2^5 bytes are class 1; each octave above has four classes.
const FIRST_OCTAVE: u32 = 5;

/// The size class of an item of so many bytes, 1 to 63.
#[inline]
#[must_use]
pub fn class_of(len: usize) -> usize {
    // The exponent and two bits of the mantissa of (len − 1): classes end at their upper bound.
    let quarter = ((len.saturating_sub(1) as f32).to_bits() >> 21) as usize;
    let first = ((127 + FIRST_OCTAVE) << 2) as usize;
    (quarter.saturating_sub(first) + 1 + usize::from(first <= quarter)).clamp(1, CLASSES - 1)
}

/// Largest item of a size class.
#[must_use]
pub fn class_bound(class: usize) -> usize {
    let class = class.clamp(1, CLASSES - 1);
    if class == 1 {
        return 1 << FIRST_OCTAVE;
    }
    let quarters = class - 1;
    let (octave, part) = (FIRST_OCTAVE as usize + (quarters - 1) / 4, (quarters - 1) % 4 + 1);
    (1 << octave) + ((part << octave) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_their_bounds() {
        for class in 1..CLASSES {
            assert_eq!(class_of(class_bound(class)), class, "bound of {class}");
            if class + 1 < CLASSES {
                assert_eq!(class_of(class_bound(class) + 1), class + 1, "beyond {class}");
                let ratio = class_bound(class + 1) as f64 / class_bound(class) as f64;
                assert!(ratio <= 1.251, "{class}: {ratio}");
            }
        }
        assert!(1 << 20 <= class_bound(CLASSES - 1));
        assert_eq!((class_of(0), class_of(10), class_of(usize::MAX)), (1, 1, CLASSES - 1));
    }
}
