//! The first page of a tier that outlives its process: what it is, and whose.
//!
//! Layout (little endian), then zeros up to a page:
//!   | 0 magic 8 | 8 version 4 | 12 checksum 4 | 16 size 8 | 24 words of notes 8 | 32 identity 16 | 48 void 1 |
//! Then the notes up to a multiple of 2 MiB, then the bytes of the tier.
//! Invariants: the checksum (CRC-32C) is that of the whole page with zeros in its own place
//! Failure:    a page that is not exactly this is refused: another version is not read, nothing is mended

use super::error::Damage;
use crate::notes_words;
use units::Bytes;

/// Bytes of the superblock, and the unit of direct I/O.
pub(crate) const PAGE: u64 = PAGE_LEN as u64;
/// The same as a length.
pub(crate) const PAGE_LEN: usize = 4096;
/// Version that is written and read. Another one has to be created anew: a cache's content is worth less than a conversion.
pub(crate) const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"COTENANT";
const CHECKSUM: std::ops::Range<usize> = 12..16;
/// What the bytes of the tier begin at a multiple of, and end at: a huge page, so that a mapping can be of huge pages.
const ALIGN: u64 = 2 << 20;
/// Largest tier, far beyond any there is: sums of sizes do not overflow.
pub(crate) const SIZE_MAX: u64 = 1 << 60;

/// What a tier is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// Bytes of the tier.
    pub(crate) size: Bytes,
    /// Words of its notes.
    pub(crate) notes: u64,
    /// Random when it was created: what is known of a tier is kept under this name.
    pub(crate) identity: [u8; 16],
    /// Whether the notes are not to be believed: not all that they were told is there.
    pub(crate) is_void: bool,
}

impl Superblock {
    pub(crate) fn new(size: Bytes, identity: [u8; 16]) -> Self {
        let front = (PAGE + notes_words(size) as u64 * 8).next_multiple_of(ALIGN);
        Self { size, notes: (front - PAGE) / 8, identity, is_void: false }
    }

    /// Where the bytes of the tier begin.
    pub(crate) fn base(&self) -> u64 {
        PAGE + self.notes * 8
    }

    /// Length of everything.
    pub(crate) fn end(&self) -> u64 {
        (self.base() + self.size.0).next_multiple_of(ALIGN)
    }

    pub(crate) fn to_page(self) -> [u8; PAGE_LEN] {
        let mut page = [0; PAGE_LEN];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&VERSION.to_le_bytes());
        page[16..24].copy_from_slice(&self.size.0.to_le_bytes());
        page[24..32].copy_from_slice(&self.notes.to_le_bytes());
        page[32..48].copy_from_slice(&self.identity);
        page[48] = u8::from(self.is_void);
        let checksum = crc32c::crc32c(&page);
        page[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    pub(crate) fn from_page(page: &[u8; PAGE_LEN]) -> Result<Self, Damage> {
        if page[..8] != MAGIC {
            return Err(Damage::Foreign);
        }
        let version = u32::from_le_bytes([page[8], page[9], page[10], page[11]]);
        if version != VERSION {
            return Err(Damage::Version(version));
        }
        let mut unsigned = *page;
        unsigned[CHECKSUM].fill(0);
        if crc32c::crc32c(&unsigned).to_le_bytes() != page[CHECKSUM] {
            return Err(Damage::Checksum);
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| page[at + i]));
        let read = Self {
            size: Bytes(word(16)),
            notes: word(24),
            identity: std::array::from_fn(|i| page[32 + i]),
            is_void: page[48] != 0,
        };
        let new = Self { is_void: read.is_void, ..Self::new(read.size, read.identity) };
        // Whoever wrote it followed these rules, or is another program with our magic.
        if read == new && read.to_page() == *page { Ok(read) } else { Err(Damage::Checksum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written() {
        for size in [1 << 20, 1 << 30, 3 << 40] {
            let block = Superblock::new(Bytes(size), [7; 16]);
            assert_eq!(Superblock::from_page(&block.to_page()), Ok(block));
            let void = Superblock { is_void: true, ..block };
            assert_eq!(Superblock::from_page(&void.to_page()), Ok(void));
            assert_eq!((block.base() % ALIGN, block.end() % ALIGN), (0, 0));
            assert!(notes_words(Bytes(size)) as u64 <= block.notes && size <= block.end() - block.base());
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn every_flipped_bit_is_seen() {
        let page = Superblock::new(Bytes(1 << 30), [9; 16]).to_page();
        for bit in 0..PAGE_LEN * 8 {
            let mut flipped = page;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let read = Superblock::from_page(&flipped);
            assert!(read.is_err(), "bit {bit}");
            match bit / 8 {
                0..8 => assert_eq!(read, Err(Damage::Foreign)),
                8..12 => assert!(matches!(read, Err(Damage::Version(_))), "{read:?}"),
                _ => assert_eq!(read, Err(Damage::Checksum)),
            }
        }
    }
}
