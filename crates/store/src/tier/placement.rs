//! Where a tenant's values go.

use std::fmt;

/// Where a tenant's values are held, where they are not too small for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// In DRAM.
    #[default]
    Dram,
    /// In a tier, by its place among them.
    Tier(u8),
    /// In DRAM while they are in use; the cleaner puts others into the first tier, from where hits bring them back.
    Auto,
}

/// When a hit brings a value back to DRAM under [`Placement::Auto`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Promotion {
    /// Never.
    Never,
    /// With its first hit.
    Always,
    /// When hits repeat.
    #[default]
    Repeated,
}

impl Placement {
    /// As one number, for an atomic.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Dram => 0,
            Self::Auto => 1,
            Self::Tier(tier) => 2 + u32::from(tier),
        }
    }

    pub(crate) fn of_code(code: u32) -> Self {
        match code {
            0 => Self::Dram,
            1 => Self::Auto,
            tier => Self::Tier(u8::try_from(tier - 2).unwrap_or(0)),
        }
    }
}

impl Promotion {
    /// From how many uses on a hit brings its value back.
    pub(crate) const fn uses(self) -> Option<u8> {
        match self {
            Self::Never => None,
            Self::Always => Some(0),
            Self::Repeated => Some(2),
        }
    }

    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Never => 0,
            Self::Always => 1,
            Self::Repeated => 2,
        }
    }

    pub(crate) fn of_code(code: u32) -> Self {
        [Self::Never, Self::Always, Self::Repeated][code.min(2) as usize]
    }
}

impl fmt::Display for Promotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::Repeated => "repeated",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back() {
        for placement in [Placement::Dram, Placement::Auto, Placement::Tier(0), Placement::Tier(255)] {
            assert_eq!(Placement::of_code(placement.code()), placement);
        }
        for promotion in [Promotion::Never, Promotion::Always, Promotion::Repeated] {
            assert_eq!(Promotion::of_code(promotion.code()), promotion);
        }
    }
}
