//! Memory that begins on a page: what devices without a mapping read into and write from at full speed.
//!
//! Invariants: one owner; its bytes are initialised, zero at first

#![allow(unsafe_code, reason = "a view of memory that this type alone owns; see the SAFETY comments")]

use crate::{MapError, Region};
use units::Bytes;

/// Whole pages of memory with one owner.
#[derive(Debug)]
pub struct Buffer {
    region: Region,
    len: usize,
}

impl Buffer {
    /// Zeroed memory of `size`.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn new(size: Bytes) -> Result<Self, MapError> {
        Ok(Self { region: Region::anonymous(size)?, len: size.as_usize() })
    }

    /// The same memory as a buffer of `size`, whatever is in it, or other memory where it is too small.
    ///
    /// # Errors
    /// If the system refuses that.
    pub fn fitted(self, size: Bytes) -> Result<Self, MapError> {
        if size.as_usize() <= self.region.len() {
            Ok(Self { len: size.as_usize(), ..self })
        } else {
            Self::new(size)
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: who writes needs `&mut self`, so nobody does while the slice lives.
        unsafe { self.region.bytes(0, self.len) }
    }

    /// Its bytes, to change.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.start();
        // SAFETY: the mapping has `len` bytes, is initialised, lives as long as `self`, and `&mut self` keeps others away.
        unsafe { std::slice::from_raw_parts_mut(at, self.len) }
    }

    /// Where it begins.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.region.start().as_ptr()
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_on_a_page_and_keeps_what_is_written() {
        let mut buffer = Buffer::new(Bytes(5000)).unwrap();
        assert_eq!((buffer.len(), buffer.start() as usize % 4096), (5000, 0));
        assert!(buffer.bytes().iter().all(|byte| *byte == 0));
        buffer.bytes_mut()[4999] = 7;
        assert_eq!(buffer.bytes()[4999], 7);
        let buffer = buffer.fitted(Bytes(100)).unwrap().fitted(Bytes(5000)).unwrap();
        assert_eq!((buffer.len(), buffer.bytes()[4999]), (5000, 7));
        assert_eq!(buffer.fitted(Bytes(9000)).unwrap().bytes(), [0; 9000]);
    }
}
