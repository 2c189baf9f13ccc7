//! Ranks by recency: the longest unused first, as a whole (LRU), within a use count (LFU), or within two parts (SLRU).
//!
//! Units:  ages in ticks of the rank clock
//! Source: LRU and LFU as usual; SLRU is Karedla 1994. An item that was used since it was stored, or of whose key a use is
//!         remembered, is protected; when the protected part is more than its bound, what is the oldest in it goes back to
//!         the young end of the other part. No queue is kept: an item goes back at the age at which the protected part is full, which is learnt from the
//!         bytes that passes see, and is ranked from then on as if it had come at that moment

use super::{BIN_MIN, BINS, Usage};

/// Longest unused first.
#[inline]
pub(super) fn lru(item: &Usage) -> i32 {
    BINS - 1 - i32::from(item.age)
}

/// Least used first, among those the longest unused.
#[inline]
pub(super) fn lfu(item: &Usage) -> i32 {
    i32::from(item.uses) * 16 + 15 - i32::from(item.age) / 16
}

/// The lowest bin of protected items: each part has half of the bins, two ticks of age in a bin.
const PROTECTED: i32 = BINS / 2;
/// Part of the bytes that may be protected: the customary four fifths, not varied.
const PROTECTED_PART: f64 = 0.8;
/// Part of the way that the age limit moves down in a pass: some of what a pass sees was chosen for being poor. A guess,
/// not varied.
const LIMIT_STEP: f32 = 0.1;
/// Ticks that the age limit moves up in a pass. A guess: slow, so that it does not swing around the bound.
const LIMIT_RISE: f32 = 0.5;
/// Ages end here: eight bits.
const AGES: f32 = 256.0;

/// An age limit that protects every used item.
pub(super) const LIMIT_START: f32 = AGES;

/// Unprotected items first; `limit` is the age up to which a used item is protected.
#[inline]
pub(super) fn slru(item: &Usage, limit: f32) -> i32 {
    let age = i32::from(item.age);
    #[expect(clippy::cast_possible_truncation, reason = "an age limit is within 0..=256")]
    let limit = limit as i32;
    if item.uses == 0 {
        PROTECTED - 1 - age / 2
    } else if age < limit {
        BINS - 1 - age / 2
    } else {
        PROTECTED - 1 - (age - limit) / 2
    }
}

/// The age limit after a pass that saw so many bytes in each bin: towards the age at which the protected part is full;
/// up, while it is not.
pub(super) fn slru_limit(bytes_by_bin: &[u64; 256], limit: f32) -> f32 {
    let all: u64 = bytes_by_bin[usize::from(BIN_MIN)..].iter().sum();
    let bound = all as f64 * PROTECTED_PART;
    let mut protected = 0;
    for (age, bin) in (PROTECTED..BINS).rev().enumerate() {
        protected += bytes_by_bin[usize::try_from(bin).unwrap_or(0)];
        if bound < protected as f64 {
            let full = age as f32 * 2.0;
            return limit + LIMIT_STEP * (full - limit);
        }
    }
    (limit + LIMIT_RISE).min(AGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(age: u8, uses: u8) -> Usage {
        Usage { age, uses, ..Usage::default() }
    }

    #[test]
    fn an_item_that_goes_back_is_ranked_as_if_it_had_just_come() {
        let limit = 100.0;
        assert_eq!(slru(&item(99, 1), limit), BINS - 1 - 49);
        assert_eq!(slru(&item(100, 1), limit), slru(&item(0, 0), limit));
        assert_eq!(slru(&item(160, 9), limit), slru(&item(60, 0), limit));
        assert!(slru(&item(255, 0), limit) < slru(&item(255, 1), limit));
    }

    /// Items of all ages alike, a part of them used: passes find the age at which the protected ones are four fifths.
    #[test]
    fn the_limit_finds_the_age_at_which_the_protected_part_is_full() {
        for (used_in_ten, wanted) in [(10, 204.8), (9, 227.5), (8, 256.0), (3, 256.0)] {
            let mut limit = LIMIT_START;
            for _ in 0..200 {
                let mut bytes = [0; 256];
                for age in 0..=255 {
                    for i in 0..10 {
                        let bin = slru(&item(age, u8::from(i < used_in_ten)), limit).max(2);
                        bytes[usize::try_from(bin).unwrap()] += 1_000;
                    }
                }
                limit = slru_limit(&bytes, limit);
            }
            assert!((limit - wanted).abs() < 3.0, "{used_in_ten}: {limit}, not {wanted}");
        }
    }
}
