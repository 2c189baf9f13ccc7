//! Where a key may be: two buckets, either of which tells the other to who knows the tag.
//!
//! Shape:      the hash's low 32 bits are one choice; the other is the same bits changed by what follows from the tag alone;
//!             linear hashing makes a bucket of each
//! Invariants: `other_bucket` says what `pair` says, or nothing; of `other_buckets` one is what `pair` says
//! Source:     linear hashing is Litwin 1980; the second choice by the tag is partial-key cuckoo hashing (Fan et al.,
//!             MemC3, NSDI 2013)
//!
//! A slot is displaced without reading its item: its bucket knows the low bits of one choice, the tag changes them into those
//! of the other. One bit more decides where the other's group is split already. It is known where the own group is split,
//! too; else only the item's key tells, in at most a quarter of the cases (half of the groups split).

use crate::hash::KeyHash;
use crate::slot::tag_of;

/// The bucket that linear hashing gives `x` among `n`.
#[inline]
pub(super) fn address(x: u32, n: u32) -> u32 {
    let low_mask = (1_u32 << n.ilog2()) - 1;
    let i = x & (low_mask << 1 | 1);
    if i < n { i } else { x & low_mask }
}

/// The bits in which the two choices of a key with this tag differ.
#[inline]
fn difference(tag: u64) -> u32 {
    ((tag + 1).wrapping_mul(0x9FB2_1C65_1E98_DF25) >> 32) as u32
}

/// The two buckets of a key among `n`. The tag is taken from the top bits, which the choices do not have.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "32 of 64 bits")]
pub(super) fn pair(hash: KeyHash, n: u32) -> (u32, u32) {
    let first = hash.0 as u32;
    (address(first, n), address(first ^ difference(tag_of(hash)), n))
}

/// The bucket of a pair that is not `bucket`.
pub(super) fn other_of((a, b): (u32, u32), bucket: u32) -> u32 {
    if a == bucket { b } else { a }
}

/// The other bucket of a slot in `bucket` with this tag, if they suffice to tell.
#[inline]
pub(super) fn other_bucket(bucket: u32, tag: u64, n: u32) -> Option<u32> {
    match other_buckets(bucket, tag, n) {
        (other, None) => Some(other),
        _ => None,
    }
}

/// The same, or the two of which it is one.
#[inline]
pub(super) fn other_buckets(bucket: u32, tag: u64, n: u32) -> (u32, Option<u32>) {
    let next_bit = 1_u32 << n.ilog2();
    let low_mask = next_bit - 1;
    let is_split = |group: u32| group | next_bit < n;
    let group = (bucket ^ difference(tag)) & low_mask;
    if !is_split(group) {
        (group, None)
    } else if is_split(bucket & low_mask) {
        (group | (bucket ^ difference(tag)) & next_bit, None)
    } else {
        (group, Some(group | next_bit))
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn addresses_stay_in_range_and_split_only_the_buddy() {
        let mut rng = Rng::new(1);
        for n in 1..200 {
            for _ in 0..50 {
                let x = u32::try_from(rng.next_u64() >> 32).unwrap();
                let (before, after) = (address(x, n), address(x, n + 1));
                assert!(before < n);
                assert!(after == before || (after == n && before == n - (1 << n.ilog2())));
            }
        }
    }

    #[test]
    fn a_bucket_and_the_tag_tell_the_other_bucket() {
        let mut rng = Rng::new(2);
        for n in (1..600).chain([65_536, 100_000, 131_071, 1 << 30, (1 << 30) + (1 << 29)]) {
            let (mut told, asked) = (0, if cfg!(miri) { 8 } else { 400 });
            for _ in 0..asked {
                let hash = KeyHash(rng.next_u64());
                let (a, b) = pair(hash, n);
                for (bucket, other) in [(a, b), (b, a)] {
                    let (one, two) = other_buckets(bucket, tag_of(hash), n);
                    assert!(one == other || two == Some(other), "{hash:?} among {n}");
                    assert_eq!(other_bucket(bucket, tag_of(hash), n), two.is_none().then_some(other));
                    told += u32::from(two.is_none());
                }
            }
            assert!(asked < told || cfg!(miri), "{told} of {} told among {n}", 2 * asked);
            assert!(!n.is_power_of_two() || told == 2 * asked, "all are told among {n}");
        }
    }

    #[test]
    fn the_second_choice_spreads() {
        // Keys whose first choice is one bucket: their second choices fall on others evenly.
        let n = 64;
        let mut counts = vec![0_u32; n as usize];
        let mut rng = Rng::new(3);
        let draws = if cfg!(miri) { 640 } else { 64_000 };
        for _ in 0..draws {
            let hash = KeyHash(rng.next_u64() & !63);
            counts[pair(hash, n).1 as usize] += 1;
        }
        let fair = draws / n;
        assert!(counts.iter().all(|&c| fair / 2 < c && c < fair * 2) || cfg!(miri), "{counts:?}");
    }
}
