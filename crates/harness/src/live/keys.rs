//! The benchmark's items: a key and a value for every number, so that every answer can be verified.
//!
//! Shape:      number -> `tN:` and 20 digits (23 B); number -> 25 B that follow from it
//! Invariants: the tenant is the number modulo `TENANTS`

use units::mix64;

/// Tenants, told apart by the prefix.
pub const TENANTS: u32 = 8;
/// Length of a key.
pub const KEY: usize = 23;
/// Length of a value.
pub const VALUE: usize = 25;
const _: () = assert!(TENANTS <= 10, "a prefix has one digit");

/// The tenant's prefix, without the delimiter.
#[must_use]
pub fn tenant(number: u32) -> String {
    format!("t{number}")
}

/// The key of a number.
#[must_use]
pub fn key(number: u32) -> [u8; KEY] {
    key_of(number % TENANTS, number)
}

/// The key of a number with one tenant, whoever it belongs to otherwise.
#[must_use]
pub fn key_of(tenant: u32, number: u32) -> [u8; KEY] {
    let mut key = *b"t0:00000000000000000000";
    key[1] += u8::try_from(tenant % TENANTS).unwrap_or(0);
    let mut rest = number;
    for place in key.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    key
}

/// The value of a number.
#[must_use]
pub fn value(number: u32) -> [u8; VALUE] {
    let mut value = [b'v'; VALUE];
    let mut bits = mix64(u64::from(number));
    for place in &mut value[1..17] {
        *place = b'a' + u8::try_from(bits & 0xF).unwrap_or(0);
        bits >>= 4;
    }
    value
}

/// A permutation of `0..count`: popular keys are spread over tenants and over the order of the fill.
#[must_use]
pub fn spread(rank: u32, count: u32) -> u32 {
    // A prime larger than any count, so that it divides none.
    const STEP: u64 = 2_654_435_761;
    u32::try_from(u64::from(rank) * STEP % u64::from(count.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_and_values_are_distinct_and_name_their_tenant() {
        let keys: HashSet<_> = (0..2_000).map(key).collect();
        let values: HashSet<_> = (0..2_000).map(value).collect();
        assert_eq!((keys.len(), values.len()), (2_000, 2_000));
        assert_eq!(&key(1_234_567_891), b"t3:00000000001234567891");
        assert_eq!(&key_of(7, 15), b"t7:00000000000000000015");
    }

    #[test]
    fn spreading_loses_no_number() {
        for count in [1, 7, 1_000] {
            assert_eq!(
                (0..count).map(|rank| spread(rank, count)).collect::<HashSet<_>>().len(),
                count as usize
            );
        }
    }
}
