//! Stamps as segments tell them: by 32 bits from the segment's base.
//!
//! Invariants: an item is no longer than what it was said to need where its head's base is
//! Units:      bytes of the log, without rounding

use crate::item::Meta;

/// Bytes of a CAS value in an item.
const CAS_BYTES: usize = 8;

/// What an item needs in the log, wherever it is written next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needed {
    /// Its bytes as it is.
    len: usize,
    has_cas: bool,
}

impl Needed {
    /// For an item of so many bytes, a CAS value included if it has one.
    pub(crate) fn new(len: usize, has_cas: bool) -> Self {
        Self { len, has_cas }
    }

    /// Bytes where a segment counts from `base`: a stamp before that adds a CAS value.
    pub(crate) fn at(self, base: u64, stamp: u64) -> usize {
        if self.has_cas || base <= stamp { self.len } else { self.len + CAS_BYTES }
    }

    /// Bytes wherever that is.
    pub(crate) fn at_most(self) -> usize {
        if self.has_cas { self.len } else { self.len + CAS_BYTES }
    }
}

/// Writes a stamp relative to a segment's base; one that is older becomes the base, and the CAS value, which was the
/// stamp, is written out. A flush before the base was drawn has killed such an item already, so nothing is raised.
pub(crate) fn restamp(meta: &mut Meta, stamp: u64, base: u64) {
    let delta = stamp.saturating_sub(base);
    meta.stamp = u32::try_from(delta).unwrap_or(u32::MAX);
    if base + u64::from(meta.stamp) != stamp && meta.cas.is_none() {
        meta.cas = Some(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::PLAIN;

    #[test]
    fn a_stamp_that_does_not_fit_is_kept_as_a_cas_value() {
        for (stamp, base, cas, delta) in [
            (100, 90, None, 10),
            (90, 90, None, 0),
            (80, 90, Some(80), 0),
            (u64::from(u32::MAX), 0, None, u32::MAX),
        ] {
            let mut meta = PLAIN;
            restamp(&mut meta, stamp, base);
            assert_eq!((meta.cas, meta.stamp), (cas, delta), "{stamp} on {base}");
            let needed = Needed::new(100, false);
            assert_eq!(needed.at(base, stamp), 100 + cas.map_or(0, |_| 8), "{stamp} on {base}");
            assert_eq!(needed.at_most(), 108);
        }
    }
}
