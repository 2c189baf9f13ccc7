//! Where the value of an item is that does not lie in the log: ten bytes of the item instead of the value.
//!
//! ```text
//!  0      1               6            10
//! +------+---------------+------------+
//! | tier | record, 64 B  | value len  |
//! +------+---------------+------------+
//! ```
//! Little endian. Records begin at multiples of 64 bytes, so that five bytes tell places in 64 TiB.

use super::record::{GRAIN, HEADER, footprint, lines};

/// Bytes of a reference.
pub(crate) const REFERENCE: usize = 10;

/// A record of a tier, and how long its value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    /// Which tier.
    pub(crate) tier: u8,
    /// Byte of the tier at which the record begins, a multiple of `GRAIN`.
    pub(crate) at: u64,
    pub(crate) value_len: u32,
}

impl Reference {
    pub(crate) fn encode(self) -> [u8; REFERENCE] {
        debug_assert!(self.at.is_multiple_of(GRAIN));
        let mut out = [0; REFERENCE];
        out[0] = self.tier;
        out[1..6].copy_from_slice(&(self.at / GRAIN).to_le_bytes()[..5]);
        out[6..].copy_from_slice(&self.value_len.to_le_bytes());
        out
    }

    /// The reference at the beginning of `bytes`.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut grains = [0; 8];
        grains[..5].copy_from_slice(&bytes[1..6]);
        let value_len = u32::from_le_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]);
        Self { tier: bytes[0], at: u64::from_le_bytes(grains) * GRAIN, value_len }
    }

    /// Bytes of the tier that an item of such a key takes.
    #[inline]
    pub(crate) fn footprint(self, key_len: usize) -> u64 {
        footprint(key_len, self.value_len as usize)
    }

    /// The same in lines of `GRAIN`.
    #[inline]
    pub(crate) fn lines(self, key_len: usize) -> u64 {
        lines(key_len, self.value_len as usize)
    }

    /// Byte of the tier at which the value begins.
    #[inline]
    pub(crate) fn value_at(self, key_len: usize) -> u64 {
        self.at + (HEADER + key_len) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_bytes_tell_sixty_four_tebibytes() {
        for (tier, at, value_len) in [(0, 0, 0), (255, ((1 << 40) - 1) * GRAIN, u32::MAX), (1, 64, 70_000)] {
            let reference = Reference { tier, at, value_len };
            assert_eq!(Reference::decode(&reference.encode()), reference);
        }
    }
}
