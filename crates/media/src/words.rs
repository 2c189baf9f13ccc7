//! Regions of atomic words.
//!
//! Invariants: nobody makes byte references of such a region, so that giving its pages back is safe

#![allow(unsafe_code, reason = "gives pages back that are used as atomic words only")]

use crate::region::{MapError, Region};
use std::io;
use std::sync::atomic::AtomicU64;
use units::Bytes;

const WORD: usize = size_of::<AtomicU64>();

/// A region that is used as atomic words only, so that giving pages back is safe: readers see the old value or zero.
#[derive(Debug)]
pub struct WordRegion {
    region: Region,
}

impl WordRegion {
    /// At least `count` words, zero, kept out of core dumps.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub fn anonymous(count: usize) -> Result<Self, MapError> {
        let region = Region::anonymous(Bytes(count as u64 * WORD as u64))?;
        region.leave_out_of_dumps();
        Ok(Self { region })
    }

    /// Words of a mapping that nobody uses as bytes.
    pub(crate) fn of(region: Region) -> Self {
        Self { region }
    }

    /// The mapping that the words are in.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Waits until words of a file are on its disk.
    ///
    /// # Errors
    /// If the system says so.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub(crate) fn sync(&self, words: std::ops::Range<usize>) -> io::Result<()> {
        self.region.sync(words.start * WORD, words.len() * WORD)
    }

    /// The words.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.region.words()
    }

    /// Starts loading the cache line of a word.
    #[inline]
    pub fn prefetch(&self, word: usize) {
        self.region.prefetch(word * WORD);
    }

    /// Makes huge pages of what is between two words, at once or else when the system comes to it. Refusal costs speed only.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub fn make_huge_pages(&self, first: usize, last: usize) {
        let (offset, len) = (first * WORD, (last - first) * WORD);
        self.region.prefer_huge_pages_in(offset, len);
        let _not_now = self.region.make_huge_pages_in(offset, len);
    }

    /// Gives the whole pages between two words back to the system; they read as zero afterwards.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub fn release(&self, first: usize, last: usize) {
        // SAFETY: the region is private to this type, which never makes byte references of it.
        unsafe { self.region.release(first * WORD, (last - first) * WORD) };
    }
}
