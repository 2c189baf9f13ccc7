//! Memory as a thing divided: its signal and its share.

use crate::claim::Amount;
use crate::shares::Measured;
use units::Bytes;

/// What is measured of a tenant's memory over a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemorySignal {
    /// Live bytes with their index share, now.
    pub held: Bytes,
    /// Bytes not touched for the configured idle time, now.
    pub idle: Bytes,
    /// Misses that a shadow queue would have hit, scaled up by its sampling rate.
    pub shadow_hits: u64,
    /// Look-ups.
    pub gets: u64,
    /// Look-ups that found their item.
    pub hits: u64,
    /// Hits that the ranks of what it holds let expect in the meantime, in thousandths; 0 if its rank lets expect none in particular.
    pub expected_hits: u64,
    /// What of it is in tiers below DRAM.
    pub below: TierTraffic,
}

/// What is measured of a tenant's values in tiers below DRAM over a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierTraffic {
    /// Bytes there, a part of what it holds, now.
    pub held: Bytes,
    /// Look-ups that found their value there.
    pub hits: u64,
    /// Values that hits brought back to DRAM.
    pub promotions: u64,
    /// Values that went there instead of being evicted.
    pub demotions: u64,
}

/// A tenant's share of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryShare {
    /// What it should hold.
    pub target: Bytes,
    /// What it must not hold beyond even while memory is free; none lets it borrow.
    pub ceiling: Option<Bytes>,
    /// Who has one keeps what is worth most of what all who have one hold; who has none keeps by need, the target against
    /// what it holds.
    pub worth: Option<Worth>,
}

/// How a tenant competes with others for memory by what items are worth: the hits that they bring per byte and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worth {
    /// How much more its items are worth than their rank says: eighths of an octave, 8 for twice as much.
    pub more: i16,
    /// It competes with those of its group only, whose share is not its members' to enlarge.
    pub within_group: bool,
}

impl MemoryShare {
    /// A target that binds by need, with no ceiling.
    #[must_use]
    pub fn of(target: Bytes) -> Self {
        Self { target, ..Self::default() }
    }
}

impl Measured for MemoryShare {
    fn amount(&self) -> Amount {
        Amount::memory(self.target)
    }

    fn divided(amount: Amount) -> Amount {
        Amount::memory(amount.bytes)
    }
}
