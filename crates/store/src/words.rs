//! The index's memory: a large range of words of which only the used front costs memory.

use crate::sync::AtomicU64;

/// Words by index.
#[derive(Debug)]
pub(crate) struct Words {
    #[cfg(not(shuttle))]
    region: media::WordRegion,
    #[cfg(shuttle)]
    words: Box<[AtomicU64]>,
}

#[cfg(not(shuttle))]
impl Words {
    pub(crate) fn new(count: usize) -> Result<Self, media::MapError> {
        Ok(Self { region: media::WordRegion::anonymous(count)? })
    }

    #[inline]
    pub(crate) fn all(&self) -> &[AtomicU64] {
        self.region.words()
    }

    #[inline]
    pub(crate) fn prefetch(&self, word: usize) {
        self.region.prefetch(word);
    }

    /// Makes huge pages of words from `first` to `last`, if the system has any.
    pub(crate) fn make_huge_pages(&self, first: usize, last: usize) {
        self.region.make_huge_pages(first, last);
    }

    /// Gives the memory of words from `first` to `last` back; they read as zero.
    pub(crate) fn release(&self, first: usize, last: usize) {
        self.region.release(first, last);
    }
}

#[cfg(shuttle)]
impl Words {
    pub(crate) fn new(count: usize) -> Result<Self, media::MapError> {
        Ok(Self { words: (0..count).map(|_| AtomicU64::new(0)).collect() })
    }

    pub(crate) fn all(&self) -> &[AtomicU64] {
        &self.words
    }

    pub(crate) fn prefetch(&self, _word: usize) {}

    pub(crate) fn make_huge_pages(&self, _first: usize, _last: usize) {}

    pub(crate) fn release(&self, first: usize, last: usize) {
        for word in &self.words[first..last] {
            word.store(0, crate::sync::Ordering::Relaxed);
        }
    }
}
