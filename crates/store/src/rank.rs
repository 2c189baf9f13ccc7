//! An item's place in eviction order, as one of 254 bins: the lowest goes first.
//!
//! Units:  age in ticks of the rank clock (which ticks per bytes allocated, so that a compressed replay decides like
//!         real time); uses as a Morris counter; cost of a miss is 1 for every item
//! Source: LRU and LFU as usual; GDSF is Cherkasova 1998, H = L + uses / size, where L is the H of the last eviction.
//!         H is not stored: L at the tick of the last access is kept per tenant and tick, the rest is in the slot.

use std::fmt;
use std::str::FromStr;

/// Which order the items of a tenant are evicted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RankKind {
    /// Longest unused first.
    Lru,
    /// Least used first, among those the longest unused.
    Lfu,
    /// Greedy dual size frequency: least uses per byte first, ageing by what was evicted.
    #[default]
    Gdsf,
}

/// A name that is no rank.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{0}' is no rank (lru, lfu, gdsf)")]
pub struct UnknownRank(String);

impl FromStr for RankKind {
    type Err = UnknownRank;
    fn from_str(text: &str) -> Result<Self, UnknownRank> {
        match text {
            "lru" => Ok(Self::Lru),
            "lfu" => Ok(Self::Lfu),
            "gdsf" => Ok(Self::Gdsf),
            other => Err(UnknownRank(other.to_owned())),
        }
    }
}

impl fmt::Display for RankKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Gdsf => "gdsf",
        })
    }
}

/// Bins 0 and 1 are not ranks (`cleaner`), so that a rank is one byte of its notes.
pub(crate) const BIN_MIN: u8 = 2;
const BINS: i32 = 256;
/// The bin of a GDSF item whose H equals the level of the last eviction.
const CENTRE: i32 = 128;
/// L before anything was evicted: uses per byte of an item of 4 KiB used once, the middle of what occurs.
const LEVEL_START: f32 = 1.0 / 4096.0;

/// Base of the Morris counter: a counter of `c` stands for about `(BASE^c − 1) / (BASE − 1)` uses. A base of 1.5
/// reaches 873 uses with 4 bits; a guess that was not varied.
const BASE: f64 = 1.5;

/// Uses that a counter stands for, the first use included.
pub(crate) const USES: [f32; 16] = uses_table();

const fn uses_table() -> [f32; 16] {
    let mut table = [1.0; 16];
    let mut c = 0;
    let mut power = 1.0;
    while c < 16 {
        #[expect(clippy::cast_possible_truncation, reason = "below 10^4, precision does not matter")]
        {
            table[c] = 1.0 + ((power - 1.0) / (BASE - 1.0)) as f32;
        }
        power *= BASE;
        c += 1;
    }
    table
}

/// Chance in 2^32 that a use raises the counter: BASE^−c.
pub(crate) const RAISE: [u32; 16] = raise_table();

const fn raise_table() -> [u32; 16] {
    let mut table = [0; 16];
    let mut c = 0;
    let mut chance = u32::MAX as f64;
    while c < 15 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0..=u32::MAX")]
        {
            table[c] = chance as u32;
        }
        chance /= BASE;
        c += 1;
    }
    table
}

/// What is known of an item when it is ranked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Ticks since its last access.
    pub(crate) age: u8,
    /// Its use counter.
    pub(crate) uses: u8,
    /// Bytes that it is charged.
    pub(crate) size: u32,
    /// The tenant's level at its last access (GDSF).
    pub(crate) level: f32,
}

/// Quarter-logarithm of a positive number: sixteenths of an octave, straight between them.
fn sixteenths(x: f32) -> i32 {
    (x.max(f32::MIN_POSITIVE).to_bits() >> 19).cast_signed()
}

/// The bin of an item; `level` is the tenant's level now.
#[inline]
pub(crate) fn bin(kind: RankKind, item: Usage, level: f32) -> u8 {
    let raw = match kind {
        RankKind::Lru => BINS - 1 - i32::from(item.age),
        RankKind::Lfu => i32::from(item.uses) * 16 + 15 - i32::from(item.age) / 16,
        RankKind::Gdsf => {
            let h = item.level + USES[usize::from(item.uses)] / item.size as f32;
            CENTRE + sixteenths(h) - sixteenths(level.max(LEVEL_START))
        }
    };
    u8::try_from(raw.clamp(i32::from(BIN_MIN), BINS - 1)).unwrap_or(u8::MAX)
}

/// Part of the way that the level moves towards a pass's threshold: one pass sees a sample, and some of its segments
/// were chosen for being poor. On the mixed trace .1 gives .8149 of hits, .3 .8126, 1 .8105, .03 .8116.
const LEVEL_STEP: f32 = 0.1;

/// The level after a pass that evicted everything below `threshold`: towards the lower edge of that bin, never falling.
pub(crate) fn raised_level(threshold: u8, level: f32) -> f32 {
    let sixteenth = sixteenths(level.max(LEVEL_START)) + i32::from(threshold) - CENTRE;
    let edge = f32::from_bits(u32::try_from(sixteenth.max(0)).unwrap_or(0) << 19);
    if edge.is_finite() { level + LEVEL_STEP * (edge.max(level) - level) } else { level }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(age: u8, uses: u8, size: u32, level: f32) -> Usage {
        Usage { age, uses, size, level }
    }

    #[test]
    fn ranks_order_as_their_names_say() {
        let order = |kind, better, worse| assert!(bin(kind, worse, 0.0) < bin(kind, better, 0.0), "{kind}");
        order(RankKind::Lru, usage(3, 0, 100, 0.0), usage(40, 15, 10, 0.0));
        order(RankKind::Lfu, usage(200, 5, 100, 0.0), usage(0, 4, 100, 0.0));
        order(RankKind::Lfu, usage(10, 5, 100, 0.0), usage(100, 5, 100, 0.0));
        order(RankKind::Gdsf, usage(0, 0, 100, 0.0), usage(0, 0, 1000, 0.0));
        order(RankKind::Gdsf, usage(0, 6, 1000, 0.0), usage(0, 1, 1000, 0.0));
        order(RankKind::Gdsf, usage(0, 0, 1000, 0.01), usage(0, 2, 1000, 0.0));
    }

    #[test]
    fn level_rises_to_the_threshold_and_never_falls() {
        let level = raised_level(u8::try_from(CENTRE).unwrap() + 16, 0.01);
        assert!((0.0109..0.0111).contains(&level), "a step towards one octave up: {level}");
        assert!((raised_level(60, level) - level).abs() < f32::EPSILON);
        // An item whose H is the new level lands in the middle.
        assert_eq!(
            bin(RankKind::Gdsf, usage(0, 0, 1_000_000_000, level), level),
            u8::try_from(CENTRE).unwrap()
        );
    }

    #[test]
    fn morris_counts_are_right_on_average() {
        let mut rng = units::Rng::new(4);
        let uses = 100;
        let (rounds, tolerance) = if cfg!(miri) { (100, 50.0) } else { (5_000, 10.0) };
        let mut sum = 0.0;
        for _ in 0..rounds {
            let mut c = 0_usize;
            for _ in 1..uses {
                if u32::try_from(rng.next_u64() >> 32).unwrap() <= RAISE[c] && c < 15 {
                    c += 1;
                }
            }
            sum += f64::from(USES[c]);
        }
        let mean = sum / f64::from(rounds);
        assert!((mean - 100.0).abs() < tolerance, "{mean}");
    }

    #[test]
    fn names_parse_back() {
        for kind in [RankKind::Lru, RankKind::Lfu, RankKind::Gdsf] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("fifo".parse::<RankKind>().is_err());
    }
}
