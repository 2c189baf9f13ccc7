//! An item's place in eviction order, as one of 254 bins: the lowest goes first.
//!
//! Shape:      what is known of an item, its tenant's rank and the rank's level -> bin. The cleaner sums bytes by bin
//!             over a pass, and tells the rank below which bin items went; what a rank remembers of that is its level
//! Invariants: nothing is kept per item but what the slot and the header have; bins of one pass are made with one level
//! Units:      age in ticks of the rank clock (which ticks per bytes allocated, so that a compressed replay decides like
//!             real time); uses as a Morris counter; cost of a miss is 1 for every item
//! Cost:       one `match` per item, no call through a pointer; what it takes per item was not measured alone, a replay
//!             with an expression takes no more time than with GDSF (`docs/policies.md`)

mod clock;
mod density;
mod error;
mod expression;
mod gdsf;
mod hit_density;
mod hyperbolic;
mod recency;
mod scale;
mod uses;

pub(crate) use clock::{Clock, History};
pub(crate) use density::density;
pub use error::RankError;
pub use expression::Expression;
pub(crate) use expression::fuzzed;
pub(crate) use hit_density::{Densities, HitDensity};
pub(crate) use uses::{RAISE, all_uses, all_uses_by_chance};

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Which order the items of a tenant are evicted in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RankKind {
    /// Longest unused first.
    Lru,
    /// Least used first, among those the longest unused.
    Lfu,
    /// Longest unused first, those never used before the others, which are four fifths at most.
    Slru,
    /// Greedy dual size frequency: least uses per byte first, ageing by what was evicted.
    Gdsf,
    /// Fewest uses per byte and per time since the last use first.
    #[default]
    Density,
    /// Fewest hits to be expected per byte and time first, as learnt from how items ended (LHD).
    Lhd,
    /// Fewest uses per time in the cache first.
    Hyperbolic,
    /// Fewest uses per time in the cache and byte first.
    HyperbolicSize,
    /// Lowest value of an expression first.
    Expression(Arc<Expression>),
}

/// Every rank that has a name.
const NAMED: [(&str, RankKind); 8] = [
    ("density", RankKind::Density),
    ("lhd", RankKind::Lhd),
    ("lru", RankKind::Lru),
    ("lfu", RankKind::Lfu),
    ("slru", RankKind::Slru),
    ("gdsf", RankKind::Gdsf),
    ("hyperbolic", RankKind::Hyperbolic),
    ("hyperbolic-size", RankKind::HyperbolicSize),
];

impl FromStr for RankKind {
    type Err = RankError;

    /// A name, or else an expression.
    fn from_str(text: &str) -> Result<Self, RankError> {
        let text = text.trim();
        if let Some((_, kind)) = NAMED.into_iter().find(|(name, _)| *name == text) {
            return Ok(kind);
        }
        let is_word =
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        match text.parse() {
            Ok(expression) => Ok(Self::Expression(Arc::new(expression))),
            // Who writes a lone word means a name.
            Err(RankError { unknown: Some(_), .. }) if is_word => Err(RankError {
                what: format!("'{text}' is no rank"),
                cure: String::new(),
                text: text.to_owned(),
                column: 0,
                width: text.len(),
                unknown: Some(text.to_owned()),
            }),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for RankKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Slru => "slru",
            Self::Gdsf => "gdsf",
            Self::Density => "density",
            Self::Lhd => "lhd",
            Self::Hyperbolic => "hyperbolic",
            Self::HyperbolicSize => "hyperbolic-size",
            Self::Expression(expression) => return expression.fmt(f),
        })
    }
}

/// Bins 0 and 1 are not ranks (`cleaner`), so that a rank is one byte of its notes.
pub(crate) const BIN_MIN: u8 = 2;
const BINS: i32 = 256;

/// What is known of an item when it is ranked.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Usage {
    /// Ticks since its last access.
    pub(crate) age: u8,
    /// The counter of its uses, those that are remembered of its key included.
    pub(crate) uses: u8,
    /// Bytes that it is charged.
    pub(crate) size: u32,
    /// The rank's level at its last access.
    pub(crate) level: f32,
    /// Its stamp, which tells when it was stored.
    pub(crate) stamp: u64,
    /// When it expires, in seconds of the store's clock; 0 if it does not.
    pub(crate) expires_at: u32,
    /// Hits per tick that it may expect, where its tenant's rank learns that.
    pub(crate) hits_per_tick: f32,
}

impl RankKind {
    /// Every word that a rank may have in it.
    pub fn words() -> impl Iterator<Item = &'static str> {
        NAMED.into_iter().map(|(name, _)| name).chain(Expression::words())
    }

    /// Whether it is told how items end.
    pub(crate) fn learns(&self) -> bool {
        matches!(self, Self::Lhd)
    }

    /// Whether a bin means the same in every tenant, so that their items can be compared.
    pub(crate) fn is_absolute(&self) -> bool {
        matches!(self, Self::Density)
    }

    /// Ranks of one family understand each other's levels. None is 0.
    pub(crate) fn family(&self) -> u64 {
        match self {
            Self::Lru | Self::Lfu => 1,
            Self::Slru => 2,
            Self::Gdsf => 3,
            Self::Hyperbolic => 4,
            Self::HyperbolicSize => 5,
            Self::Expression(_) => 6,
            Self::Density => 7,
            Self::Lhd => 8,
        }
    }

    /// The level before anything was ranked; not a number if it depends on what is ranked.
    pub(crate) fn level_start(&self) -> f32 {
        match self {
            Self::Lru | Self::Lfu | Self::Gdsf | Self::Density => 0.0,
            Self::Slru => recency::LIMIT_START,
            Self::Hyperbolic | Self::HyperbolicSize | Self::Lhd | Self::Expression(_) => scale::CENTRE_START,
        }
    }

    /// The level that a tenant's first item gives, where there is none yet.
    #[cold]
    pub(crate) fn level_by(&self, item: &Usage, clock: &Clock) -> f32 {
        self.value(item, clock).map_or_else(|| self.level_start(), scale::centre_at)
    }

    /// The value of an item where that is what orders, whatever number it is.
    #[inline]
    fn value(&self, item: &Usage, clock: &Clock) -> Option<f64> {
        match self {
            Self::Lru | Self::Lfu | Self::Slru | Self::Gdsf | Self::Density => None,
            Self::Hyperbolic => Some(hyperbolic::uses_per_tick(item, clock)),
            Self::HyperbolicSize => Some(hyperbolic::uses_per_tick_and_byte(item, clock)),
            Self::Lhd => Some(f64::from(item.hits_per_tick) / f64::from(item.size)),
            Self::Expression(expression) => Some(expression.value(item, clock)),
        }
    }

    /// The bin of an item; `level` is the rank's in this pass.
    #[inline]
    pub(crate) fn bin(&self, item: &Usage, level: f32, clock: &Clock) -> u8 {
        let raw = match self {
            Self::Lru => recency::lru(item),
            Self::Lfu => recency::lfu(item),
            Self::Slru => recency::slru(item, level),
            Self::Gdsf => gdsf::bin(item, level),
            Self::Density => density::bin(item),
            _ => self.value(item, clock).map_or(BINS, |value| scale::bin(value, level)),
        };
        in_bins(raw)
    }

    /// The level after a pass that saw so many bytes in each bin and evicted everything below `threshold`.
    pub(crate) fn level_after(&self, bytes_by_bin: &[u64; 256], threshold: u8, level: f32) -> f32 {
        match self {
            Self::Lru | Self::Lfu | Self::Density => level,
            Self::Slru => recency::slru_limit(bytes_by_bin, level),
            Self::Gdsf => gdsf::raised_level(threshold, level),
            Self::Hyperbolic | Self::HyperbolicSize | Self::Lhd | Self::Expression(_) => {
                scale::centre_after(threshold, level)
            }
        }
    }
}

/// The bin of items that let expect so many hits per byte and tick, whatever their tenant ranks by. Never the last one.
pub(crate) fn worth(density: f32) -> u8 {
    in_bins(density::bin_of(density)).min(u8::MAX - 1)
}

/// A bin, held to those that there are.
fn in_bins(raw: i32) -> u8 {
    u8::try_from(raw.clamp(i32::from(BIN_MIN), BINS - 1)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(age: u8, uses: u8, size: u32, level: f32) -> Usage {
        Usage { age, uses, size, level, ..Usage::default() }
    }

    #[test]
    fn ranks_order_as_their_names_say() {
        let mut clock = Clock::default();
        clock.take(&History::default(), 0.0, 0, (2, 2), 0);
        let order = |text: &str, better: Usage, worse: Usage| {
            let kind: RankKind = text.parse().unwrap();
            let start = kind.level_start();
            let level = if start.is_nan() { kind.level_by(&better, &clock) } else { start.max(0.01) };
            assert!(kind.bin(&worse, level, &clock) < kind.bin(&better, level, &clock), "{kind}");
        };
        order("lru", usage(3, 0, 100, 0.0), usage(40, 15, 10, 0.0));
        order("lfu", usage(200, 5, 100, 0.0), usage(0, 4, 100, 0.0));
        order("lfu", usage(10, 5, 100, 0.0), usage(100, 5, 100, 0.0));
        order("slru", usage(90, 1, 100, 0.0), usage(3, 0, 100, 0.0));
        order("slru", usage(3, 0, 100, 0.0), usage(40, 0, 100, 0.0));
        order("gdsf", usage(0, 0, 100, 0.0), usage(0, 0, 1000, 0.0));
        order("gdsf", usage(0, 6, 1000, 0.0), usage(0, 1, 1000, 0.0));
        order("gdsf", usage(0, 0, 1000, 0.01), usage(0, 2, 1000, 0.0));
        order("density", usage(4, 9, 1000, 0.0), usage(4, 2, 1000, 0.0));
        order("density", usage(4, 2, 10, 0.0), usage(8, 2, 10, 0.0));
        let learnt = |hits_per_tick, size| Usage { hits_per_tick, ..usage(4, 2, size, 0.0) };
        order("lhd", learnt(0.2, 100), learnt(0.1, 100));
        order("lhd", learnt(0.1, 100), learnt(0.1, 200));
        order("hyperbolic", usage(4, 9, 1000, 0.0), usage(4, 2, 10, 0.0));
        order("hyperbolic", usage(4, 2, 1000, 0.0), usage(40, 2, 10, 0.0));
        order("hyperbolic-size", usage(4, 2, 10, 0.0), usage(4, 2, 1000, 0.0));
        order("f/(size*t)", usage(4, 2, 10, 0.0), usage(4, 2, 1000, 0.0));
        order("-t", usage(4, 0, 10, 0.0), usage(5, 9, 10, 0.0));
        // The logarithm of a negative number is none.
        order("log(t - 3)", usage(4, 0, 10, 0.0), usage(0, 0, 10, 0.0));
    }

    #[test]
    fn names_and_expressions_parse_back() {
        for (name, kind) in NAMED {
            assert_eq!(kind.to_string(), name);
            assert_eq!(name.parse(), Ok(kind));
        }
        let kind: RankKind = " f / size ".parse().unwrap();
        assert_eq!(kind.to_string(), "f / size");
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }

    #[test]
    fn a_lone_word_is_taken_for_a_name() {
        for text in ["fifo", "lru-2", "hyperbolic_size"] {
            let error = text.parse::<RankKind>().unwrap_err();
            assert_eq!((error.what, error.unknown.as_deref()), (format!("'{text}' is no rank"), Some(text)));
        }
    }
}
