//! The items of a load: what each value must be follows from the key and from how often it was stored.
//!
//! Shape:      number, version -> value; the versions are counted here while the load runs
//! Invariants: a number belongs to one connection, so its requests are in order and exactly one version may be answered
//! Cost:       2 B per number; a value costs one mix of 64 bits per 8 B

use super::keys::{self, KEY};
use std::sync::atomic::{AtomicU16, Ordering};
use units::mix64;

/// How long values are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sizes {
    /// All alike.
    Fixed(u32),
    /// Uniform between two lengths, both included.
    Between(u32, u32),
    /// Log-normal: the median, the standard deviation of the logarithm, and the longest.
    LogNormal(u32, f64, u32),
}

/// Mixed into a number before its length is drawn, so that length and content are independent.
const LENGTH: u64 = 0x6C65_6E67_7468;
/// Mixed in between the two uniforms of a normal.
const SECOND: u64 = 0x7365_636F_6E64;

/// A uniform in `(0, 1]` that follows from `bits`.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

impl Sizes {
    /// The length of a number's value.
    #[must_use]
    pub fn of(self, number: u32) -> u32 {
        let bits = mix64(u64::from(number) ^ LENGTH);
        match self {
            Self::Fixed(len) => len,
            Self::Between(low, high) => {
                let span = u64::from(high.saturating_sub(low)) + 1;
                low + u32::try_from(bits % span).unwrap_or(0)
            }
            Self::LogNormal(middle, sigma, most) => {
                // Box and Muller 1958.
                let normal = (-2.0 * unit(bits).ln()).sqrt()
                    * (std::f64::consts::TAU * unit(mix64(bits ^ SECOND))).cos();
                let len = (f64::from(middle) * (sigma * normal).exp()).clamp(1.0, f64::from(most));
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
                let len = len as u32;
                len
            }
        }
    }
}

/// The items of one server's run.
#[derive(Debug)]
pub struct Items {
    sizes: Sizes,
    /// Whose all keys are; without one they are spread over all tenants.
    tenant: Option<u32>,
    /// Added to a number in its key.
    first: u32,
    /// The version that was stored last, 0 for none. Relaxed: a number is used by one thread at a time.
    versions: Box<[AtomicU16]>,
}

impl Items {
    /// Numbers below `count`, none of them stored.
    #[must_use]
    pub fn new(count: u32, sizes: Sizes) -> Self {
        Self { sizes, tenant: None, first: 0, versions: (0..count).map(|_| AtomicU16::new(0)).collect() }
    }

    /// The same with all keys of one tenant.
    #[must_use]
    pub fn of_tenant(count: u32, sizes: Sizes, tenant: u32) -> Self {
        Self { tenant: Some(tenant), ..Self::new(count, sizes) }
    }

    /// The same with keys that begin at another number.
    #[must_use]
    pub fn starting_at(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// The key of a number.
    #[must_use]
    pub fn key(&self, number: u32) -> [u8; KEY] {
        let number = number.wrapping_add(self.first);
        self.tenant.map_or_else(|| keys::key(number), |tenant| keys::key_of(tenant, number))
    }

    /// How many numbers there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.versions.len()).unwrap_or(u32::MAX)
    }

    /// The version that a look-up sent now may find; 0 if none.
    #[must_use]
    pub fn version(&self, number: u32) -> u16 {
        self.versions[number as usize].load(Ordering::Relaxed)
    }

    /// Counts a store that is sent now, and says its version.
    pub fn advance(&self, number: u32) -> u16 {
        // After the last comes the first again: 0 means that nothing was stored.
        let next = self.version(number).checked_add(1).unwrap_or(1);
        self.versions[number as usize].store(next, Ordering::Relaxed);
        next
    }

    /// Makes `value` the value of a version of a number.
    pub fn write_value(&self, number: u32, version: u16, value: &mut Vec<u8>) {
        let len = self.sizes.of(number) as usize;
        value.clear();
        let seed = u64::from(number) << 16 | u64::from(version);
        for place in 0_u64.. {
            if len <= value.len() {
                break;
            }
            value.extend_from_slice(&mix64(seed ^ mix64(place)).to_le_bytes());
        }
        value.truncate(len);
    }

    /// What is wrong with a value that is not the one of `version`.
    #[must_use]
    pub fn explain(&self, number: u32, version: u16, got: &[u8]) -> String {
        let mut value = Vec::new();
        let other = (1..=version).rev().find(|other| {
            self.write_value(number, *other, &mut value);
            value == got
        });
        match other {
            Some(other) => format!("item {number} is of version {other} instead of {version}"),
            None => format!("item {number} holds {} B that were never stored under it", got.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn values_differ_by_number_and_version() {
        let items = Items::new(10, Sizes::Fixed(25));
        let mut seen = HashSet::new();
        for number in 0..100 {
            for version in 1..100 {
                let mut value = Vec::new();
                items.write_value(number, version, &mut value);
                assert_eq!(value.len(), 25);
                assert!(seen.insert(value), "{number} {version}");
            }
        }
    }

    #[test]
    fn a_stale_value_is_told_from_a_foreign_one() {
        let items = Items::new(10, Sizes::Between(5, 9));
        let mut value = Vec::new();
        items.write_value(3, 2, &mut value);
        assert_eq!(items.explain(3, 7, &value), "item 3 is of version 2 instead of 7");
        assert!(items.explain(4, 7, &value).contains("never stored"));
    }

    #[test]
    fn versions_never_return_to_none() {
        let items = Items::new(1, Sizes::Fixed(1));
        assert_eq!(items.version(0), 0);
        let mut last = 0;
        for _ in 0..=u16::MAX {
            last = items.advance(0);
            assert_ne!(last, 0);
        }
        assert_eq!(last, 1);
    }

    #[test]
    fn lengths_follow_their_law() {
        let all = |sizes: Sizes| {
            let mut all: Vec<u32> = (0..10_001).map(|number| sizes.of(number)).collect();
            all.sort_unstable();
            all
        };
        let uniform = all(Sizes::Between(10, 19));
        assert_eq!((uniform[0], uniform[10_000]), (10, 19));
        assert!((14..=15).contains(&uniform[5_000]));
        let normal = all(Sizes::LogNormal(200, 1.0, 5_000));
        assert!((190..=210).contains(&normal[5_000]), "{}", normal[5_000]);
        // One standard deviation below the median: a factor of e.
        assert!((68..=80).contains(&normal[1_587]), "{}", normal[1_587]);
        assert_eq!(normal[10_000], 5_000);
    }
}
