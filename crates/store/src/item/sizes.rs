//! What an item takes: bytes in its segment, pages of its own, bytes of a tier; what of that it is charged.
//!
//! Units: bytes

use crate::limits::VALUE_PAGE;

/// What an item is charged beside its log bytes: its slot at the index's load.
pub(crate) const INDEX_SHARE: u64 = 9;

/// Where a value in pages of its own is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Apart {
    /// Its first page.
    pub(crate) first: u32,
    /// Its length in bytes.
    pub(crate) len: u32,
}

impl Apart {
    /// Bytes of a reference.
    pub(crate) const BYTES: usize = 8;

    /// What stands in the value's place.
    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.first.to_le_bytes());
        out[4..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    /// Bytes of its pages.
    pub(crate) fn page_bytes(self) -> u64 {
        u64::from(self.len).next_multiple_of(VALUE_PAGE.0)
    }
}

/// What an item takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    /// Bytes in its segment.
    pub(crate) in_segment: usize,
    /// The same with all of its value, wherever that is.
    pub(crate) whole: usize,
    /// Bytes of pages of its own.
    pub(crate) apart: u64,
    /// Bytes of a tier.
    pub(crate) below: u64,
}

impl Sizes {
    /// Of an item that is so long in its segment.
    pub(crate) fn new(in_segment: usize, apart: Option<Apart>) -> Self {
        let (value, pages) = apart.map_or((0, 0), |apart| (apart.len as usize, apart.page_bytes()));
        Self { in_segment, whole: in_segment + value, apart: pages, below: 0 }
    }

    /// The same with so many bytes of a tier.
    pub(crate) fn with_below(self, below: u64) -> Self {
        Self { below, ..self }
    }

    /// Bytes charged: what it takes, and the index's share.
    pub(crate) fn charge(self) -> i64 {
        i64::try_from(self.here() + self.below).unwrap_or(i64::MAX)
    }

    /// What of that is in DRAM.
    pub(crate) fn here(self) -> u64 {
        self.in_segment as u64 + self.apart + INDEX_SHARE
    }
}
