//! Numbers with units as people write them: `64MiB`, `2GB/s`, `500ms`.
//!
//! Units:   `KiB MiB GiB TiB` are powers of 1024; `kB MB GB TB` powers of 1000; `B` is one byte
//! Failure: a number without a unit is an error that names the units that would do

use crate::{Bytes, BytesPerSec, Duration};
use std::fmt;

/// Why a text is no quantity. The text of the error says what would have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is not this.
    Not(&'static str),
    /// It is more than fits.
    TooLarge,
}

impl ParseError {
    /// Whether the text is a quantity, only more than there can be.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.fault == Fault::TooLarge
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::Not(wanted) => write!(f, "'{}' is not {wanted}", self.text),
            Fault::TooLarge => write!(f, "'{}' is too large", self.text),
        }
    }
}

impl std::error::Error for ParseError {}

const BYTE_UNITS: &[(&str, f64)] = &[
    ("TiB", 1_099_511_627_776.0),
    ("GiB", 1_073_741_824.0),
    ("MiB", 1_048_576.0),
    ("KiB", 1_024.0),
    ("TB", 1e12),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
];
const TIME_UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("min", 6e10), ("s", 1e9), ("h", 3.6e12), ("d", 8.64e13)];

/// Largest number accepted before it is converted: 2^63, so that nothing here can overflow.
const LARGEST: f64 = 9_223_372_036_854_775_808.0;

fn quantity(text: &str, units: &[(&str, f64)], wanted: &'static str) -> Result<u64, ParseError> {
    let error = |fault| ParseError { text: text.to_owned(), fault };
    let fail = || error(Fault::Not(wanted));
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fail)?;
    let (number, unit) = trimmed.split_at(digits);
    let (_, size) = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(fail)?;
    let value: f64 = number.parse().map_err(|_| fail())?;
    let scaled = value * size;
    if !(0.0..LARGEST).contains(&scaled) {
        return Err(error(Fault::TooLarge));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked above")]
    Ok(scaled.round() as u64)
}

impl std::str::FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        quantity(text, BYTE_UNITS, "a size with a unit (B, KiB, MiB, GiB, TiB, kB, MB, GB)").map(Self)
    }
}

impl std::str::FromStr for BytesPerSec {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wanted = "a bandwidth with a unit (MB/s, GB/s, MiB/s)";
        let whole = |error: ParseError| ParseError { text: text.to_owned(), ..error };
        let fail = || ParseError { text: text.to_owned(), fault: Fault::Not(wanted) };
        let amount = text.trim().strip_suffix("/s").ok_or_else(fail)?;
        quantity(amount, BYTE_UNITS, wanted).map(Self).map_err(whole)
    }
}

impl std::str::FromStr for Duration {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        quantity(text, TIME_UNITS, "a time with a unit (us, ms, s, min, h, d)").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("64MiB", 64 << 20), ("1.5GiB", 3 << 29), ("2GB", 2_000_000_000), ("0B", 0), (" 7 kB ", 7_000)]
        {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        for text in ["64", "MiB", "-1MiB", "64mib", "1e9MiB", "9999999999TiB", "", "1.2.3MiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_too_large_says_so() {
        let size = "9999999999TiB".parse::<Bytes>().unwrap_err();
        assert!(size.is_too_large() && size.to_string() == "'9999999999TiB' is too large");
        let time = "1000000d".parse::<Duration>().unwrap_err();
        assert!(time.is_too_large() && time.to_string() == "'1000000d' is too large");
        let rate = "9999999999TiB/s".parse::<BytesPerSec>().unwrap_err();
        assert_eq!(rate.to_string(), "'9999999999TiB/s' is too large");
        assert!(!"64".parse::<Bytes>().unwrap_err().is_too_large());
    }

    #[test]
    fn bandwidths_and_times_have_units() {
        assert_eq!("2GB/s".parse::<BytesPerSec>().unwrap(), BytesPerSec(2_000_000_000));
        assert!("2GB".parse::<BytesPerSec>().is_err());
        assert_eq!("500ms".parse::<Duration>().unwrap(), Duration::from_millis(500));
        assert_eq!("2min".parse::<Duration>().unwrap(), Duration::from_secs(120));
        assert!("10".parse::<Duration>().is_err());
    }

    #[test]
    fn what_is_printed_parses_back() {
        for bytes in [0, 1, 1023, 1 << 10, 5 << 20, 3 << 30] {
            let text = Bytes(bytes).to_string();
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        for ns in [0, 17, 4_000, 250_000_000, 90_000_000_000, 7_200_000_000_000] {
            let text = Duration(ns).to_string();
            assert_eq!(text.parse::<Duration>().unwrap(), Duration(ns), "{text}");
        }
    }
}
