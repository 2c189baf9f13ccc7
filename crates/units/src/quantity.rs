//! Amounts with a unit: bytes and bytes per second.
//!
//! Invariants: quantities add and subtract with their own kind only; dividing names how it rounds

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// Bandwidth: bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BytesPerSec(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// As a slice length; saturates where `usize` is narrower.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// `self * part / whole`, rounded down; zero when `whole` is zero.
    #[must_use]
    pub fn scale(self, part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self::ZERO;
        }
        let scaled = u128::from(self.0) * u128::from(part) / u128::from(whole);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// `self - other`, zero when `other` is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// How many whole pieces of `unit` fit; zero when `unit` is zero.
    #[must_use]
    pub const fn count_of(self, unit: Self) -> u64 {
        match self.0.checked_div(unit.0) {
            Some(count) => count,
            None => 0,
        }
    }
}

macro_rules! arithmetic {
    ($($t:ident),*) => {$(
        impl Add for $t {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl Sub for $t {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl AddAssign for $t {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl SubAssign for $t {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Sum for $t {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                Self(iter.map(|x| x.0).sum())
            }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
arithmetic!(Bytes, BytesPerSec);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            let size = 1_u64 << shift;
            if self.0 >= size {
                if self.0.is_multiple_of(size) {
                    return write!(f, "{}{unit}", self.0 >> shift);
                }
                return write!(f, "{:.1}{unit}", self.0 as f64 / size as f64);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl fmt::Display for BytesPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)] {
            if self.0 as f64 >= size {
                return write!(f, "{:.1}{unit}", self.0 as f64 / size);
            }
        }
        write!(f, "{}B/s", self.0)
    }
}
