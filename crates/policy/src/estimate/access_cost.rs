//! What an access costs of a tier's time, from a profile of how many of its kind and size the tier bears.
//!
//! Shape:      MaxIOPS per size, for reads and writes of the tier -> cost of an access, cost of a limit
//! Invariants: every profiled size has a cost of at least 1 ps; a cost never depends on who pays it
//! Units:      sizes in bytes, costs in picoseconds of the whole tier
//! Cost:       one table look-up per access
//! Source:     NyxCache §3.3 (cost = 1 / MaxIOPS, profiled from 64 B to 4 KB in steps of 64 B, random accesses) and §3.4
//!             (limits in standard operations). We differ: an access above 4 KiB is charged as pieces of 4 KiB and a rest;
//!             the paper's profile ends there, at the tier's full bandwidth.
//! Non-goals:  measuring the profile (crate `media`)
//!
//! | Paper | here |
//! |---|---|
//! | MaxIOPS | one entry of a profile |
//! | 1 / MaxIOPS | [`AccessCost::access`] |
//! | standard operations | [`StandardOps`] |

use control::bandwidth::{Cost, Kind};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, BytesPerSec};

/// Step between profiled sizes (NyxCache §3.3).
pub const SIZE_STEP: Bytes = Bytes(64);
/// Number of profiled sizes: 64 B to 4 KiB.
pub const SIZES: usize = 64;
/// The largest profiled size.
pub const SIZE_MAX: Bytes = Bytes(SIZE_STEP.0 * SIZES as u64);
/// Most accesses per second that a cost can express: 1 ps each.
const IOPS_MAX: f64 = 1e12;

/// The cost of every kind and size of access to one tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessCost {
    read: [Cost; SIZES],
    write: [Cost; SIZES],
}

/// A limit as operators write it: so many accesses of one kind and size per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StandardOps {
    per_sec: f64,
    size: Bytes,
    kind: Kind,
}

/// Why numbers are no profile, or a text no limit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CostError {
    /// A profile's entry that is no number of accesses.
    #[error("the profile of {kind:?} at {size} is not between 1 and 10^12 accesses per second")]
    Profile {
        /// Reads or writes.
        kind: Kind,
        /// The entry's size.
        size: Bytes,
    },
    /// A text that says no limit.
    #[error("'{0}' is no limit such as '1000 1KB random reads per second' or '5GB/s random reads'")]
    Limit(String),
}

impl AccessCost {
    /// The costs by a profile: entry `i` is the most random accesses of `64 × (i + 1)` bytes per second.
    ///
    /// # Errors
    /// An entry that is not a number between 1 and 10¹².
    pub fn new(read: &[f64; SIZES], write: &[f64; SIZES]) -> Result<Self, CostError> {
        Ok(Self { read: costs(Kind::SlowRead, read)?, write: costs(Kind::SlowWrite, write)? })
    }

    /// What one access costs. Accesses to DRAM take no time of the tier.
    #[must_use]
    pub fn access(&self, kind: Kind, size: Bytes) -> Cost {
        let table = match kind {
            Kind::SlowRead => &self.read,
            Kind::SlowWrite => &self.write,
            Kind::DramRead | Kind::DramWrite => return Cost(0),
        };
        let pieces = size.count_of(SIZE_MAX);
        let rest = Bytes(size.0 - pieces * SIZE_MAX.0);
        let whole = Cost(table[SIZES - 1].0.saturating_mul(pieces));
        match rest.0.div_ceil(SIZE_STEP.0) {
            0 => whole,
            steps => whole + table[Bytes(steps - 1).as_usize()],
        }
    }

    /// The most accesses of a kind and size per second; infinite where they cost nothing.
    #[must_use]
    pub fn max_iops(&self, kind: Kind, size: Bytes) -> f64 {
        Cost::SECOND.0 as f64 / self.access(kind, size).0 as f64
    }

    /// What a limit in standard operations is in time of the tier per second.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates at the ends")]
    pub fn per_sec(&self, limit: StandardOps) -> Cost {
        Cost((self.access(limit.kind, limit.size).0 as f64 * limit.per_sec).round() as u64)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 ..= 10¹² after the check")]
fn costs(kind: Kind, profile: &[f64; SIZES]) -> Result<[Cost; SIZES], CostError> {
    let mut costs = [Cost(0); SIZES];
    for (i, (cost, &iops)) in costs.iter_mut().zip(profile).enumerate() {
        if !(1.0..=IOPS_MAX).contains(&iops) {
            return Err(CostError::Profile { kind, size: Bytes(SIZE_STEP.0 * (i as u64 + 1)) });
        }
        *cost = Cost((Cost::SECOND.0 as f64 / iops).round() as u64);
    }
    Ok(costs)
}

impl StandardOps {
    /// `per_sec` accesses of one kind and size; none if it is no number, negative, or the size is zero.
    #[must_use]
    pub fn new(per_sec: f64, size: Bytes, kind: Kind) -> Option<Self> {
        let fine = per_sec.is_finite() && 0.0 <= per_sec && Bytes::ZERO < size && kind.is_slow();
        fine.then_some(Self { per_sec, size, kind })
    }

    /// Accesses per second.
    #[must_use]
    pub const fn per_sec(&self) -> f64 {
        self.per_sec
    }

    /// Size of each.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// Reads or writes of the tier.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

/// Writes what is read again as the same.
impl fmt::Display for StandardOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind == Kind::SlowWrite { "writes" } else { "reads" };
        write!(f, "{} {kind} of {}B per second", self.per_sec, self.size.0)
    }
}

/// Reads `1000 reads of 1KB per second`, `1000 1KB random reads per second`, `1.25M 4KB random reads per second` and `5GB/s
/// random reads`. Bandwidth is meant in accesses of 4 KiB, the size at which the paper states it (§4.2); KB is 1024 bytes there.
impl FromStr for StandardOps {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        standard_ops(text).ok_or_else(|| CostError::Limit(text.to_owned()))
    }
}

fn standard_ops(text: &str) -> Option<StandardOps> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    if let [kind, "of", size, "per", "second"] = words.clone().collect::<Vec<_>>()[..] {
        return StandardOps::new(count(first)?, access_size(size)?, access_kind(kind)?);
    }
    let (per_sec, size, per_second_follows) = match first.parse::<BytesPerSec>() {
        Ok(bandwidth) => (bandwidth.0 as f64 / SIZE_MAX.0 as f64, SIZE_MAX, false),
        Err(_) => (count(first)?, access_size(words.next()?)?, true),
    };
    if words.next()? != "random" {
        return None;
    }
    let kind = access_kind(words.next()?)?;
    if per_second_follows && (words.next()? != "per" || words.next()? != "second") {
        return None;
    }
    if words.next().is_some() {
        return None;
    }
    StandardOps::new(per_sec, size, kind)
}

fn access_kind(word: &str) -> Option<Kind> {
    match word {
        "read" | "reads" => Some(Kind::SlowRead),
        "write" | "writes" => Some(Kind::SlowWrite),
        _ => None,
    }
}

/// `1000`, `10k`, `1.25M`.
fn count(text: &str) -> Option<f64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| digits.parse::<f64>().ok()).flatten().map(|n| n * factor)
}

/// A size with a unit, where KB is what storage means by it: 1024 bytes.
fn access_size(text: &str) -> Option<Bytes> {
    match text.strip_suffix("KB") {
        Some(number) => number.parse::<u64>().ok()?.checked_mul(1024).map(Bytes),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads by units of 256 B up to 3 M of 4 KiB per second, writes three times as dear.
    fn profile() -> AccessCost {
        let iops = |i: usize| 48e6 / (i / 4 + 1) as f64;
        let read = std::array::from_fn(iops);
        let write = std::array::from_fn(|i| iops(i) / 3.0);
        AccessCost::new(&read, &write).unwrap()
    }

    #[test]
    fn an_access_costs_the_reciprocal_of_its_max_iops() {
        let profile = profile();
        for (kind, size, ps) in [
            (Kind::SlowRead, 4096, 333_333),
            (Kind::SlowRead, 256, 20_833),
            (Kind::SlowRead, 1, 20_833),
            (Kind::SlowRead, 64, 20_833),
            (Kind::SlowRead, 257, 41_667),
            (Kind::SlowWrite, 4096, 1_000_000),
            (Kind::SlowRead, 0, 0),
            (Kind::DramRead, 4096, 0),
            (Kind::DramWrite, 64, 0),
        ] {
            assert_eq!(profile.access(kind, Bytes(size)), Cost(ps), "{kind:?} {size}");
        }
    }

    #[test]
    fn above_the_profile_an_access_is_pieces_and_a_rest() {
        let profile = profile();
        for (size, ps) in [(8192, 666_666), (8193, 666_666 + 20_833), (67_485, 16 * 333_333 + 166_667)] {
            assert_eq!(profile.access(Kind::SlowRead, Bytes(size)), Cost(ps), "{size}");
        }
        assert_eq!(profile.access(Kind::SlowRead, Bytes(u64::MAX)).0, u64::MAX, "saturates");
    }

    #[test]
    fn a_profile_is_checked_where_it_is_made() {
        let good = [1e6; SIZES];
        for bad in [0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 2e12] {
            let mut write = good;
            write[3] = bad;
            let error = AccessCost::new(&good, &write).unwrap_err();
            assert_eq!(error, CostError::Profile { kind: Kind::SlowWrite, size: Bytes(256) }, "{bad}");
        }
    }

    #[test]
    fn limits_are_written_in_standard_operations() {
        let profile = profile();
        for (text, part) in [
            ("1000 1KB random reads per second", 1000.0 * 83_333.0),
            ("1000 reads of 1KB per second", 1000.0 * 83_333.0),
            ("1.25M 4KB random reads per second", 1.25e6 * 333_333.0),
            ("10k 256B random writes per second", 1e4 * 62_500.0),
            ("5.12GB/s random reads", 1.25e6 * 333_333.0),
            ("0 64B random writes per second", 0.0),
        ] {
            let limit: StandardOps = text.parse().unwrap();
            assert!((profile.per_sec(limit).0 as f64 - part).abs() <= 1.0, "{text}");
            assert_eq!(limit.to_string().parse(), Ok(limit), "{text}");
        }
        for text in [
            "",
            "1000",
            "1000 reads per second",
            "1000 1KB reads per second",
            "1000 reads of 1KB per hour",
            "1000 scans of 1KB per second",
            "1000 reads of 1KB per second and more",
            "1000 1KB random reads",
            "-5 1KB random reads per second",
            "NaN 1KB random reads per second",
            "1e3 1KB random reads per second",
            "1000 0KB random reads per second",
            "1000 1KB random scans per second",
            "1MB/s random reads per hour",
            "1000 99999999999999999999KB random reads per second",
        ] {
            assert_eq!(text.parse::<StandardOps>(), Err(CostError::Limit(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn forty_two_percent_is_the_papers_example() {
        let limit: StandardOps = "1.25M 4KB random reads per second".parse().unwrap();
        let part = profile().per_sec(limit).0 as f64 / Cost::SECOND.0 as f64;
        assert!((part - 0.42).abs() < 0.005, "§4.2: 1.25 M of 3 M is 42 %, here {part}");
    }
}
