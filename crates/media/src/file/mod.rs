//! A slow tier in a file on an SSD: direct I/O in pages, many reads under way at once.
//!
//! It outlives the process, however that ends. That it outlives a crash of the machine has to be asked for: each record that dies
//! then waits for the disk.
//!
//! Shape:       | superblock | notes | bytes | in one preallocated file; bytes past the page cache, notes through a mapping
//! Invariants:  one server at a time (a lock on the file); a file appears under its name only once it is complete
//! Assumptions: 1. direct I/O in whole pages of memory and of the file works, or fails as a whole; 2. what `fdatasync` returned
//!              for is on the disk, so far as the disk keeps its promises; 3. blocks that were preallocated do not run out;
//!              4. direct writes to the bytes and the mapping of the notes meet in no page; 5. whoever syncs a file that was just
//!              opened is told of writes to it that were lost before, once (Linux's error sequence; the kernel may have forgotten);
//!              6. a disk that did not take the word that notes are void either gives nothing old to a later start
//! Failure:     after a failed `settle` nothing is known of what was written since the one before, and every later one fails:
//!              the system may have dropped what it could not write (fsyncgate). Pages of the notes that the disk does not give read
//!              as zero. Either way the notes are void: the superblock says so, past the page cache, and a start makes them worthless
//!              before anything else; so does one that is told of lost writes. One that cannot read them is refused
//! Cost:        4 KiB at least per access

#![allow(unsafe_code, reason = "`Device::write` is unsafe by contract; nothing here needs it")]

mod boot;
mod error;
mod lost_pages;
pub(crate) mod new_file;
pub(crate) mod place;
mod superblock;

pub use error::{Damage, Home, TierError};
pub use new_file::{NewFile, beside};
pub(crate) use superblock::{PAGE, PAGE_LEN, Superblock};

use crate::device::{check_units, refuse_once_failed};
use crate::queue::{Engine, Part};
use crate::{Buffer, Device, ReadQueue, Region, Survival, WordRegion};
use lost_pages::Watched;
use place::{Place, Reach};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::Bytes;

/// Smallest tier.
pub const TIER_MIN: Bytes = Bytes::mib(1);
/// Largest piece that is copied to memory which begins on a page, where the caller's does not.
const BOUNCE: Bytes = Bytes::kib(256);

/// A tier in a file.
#[derive(Debug)]
pub struct FileTier {
    file: Arc<File>,
    block: Superblock,
    notes: Watched,
    is_new: bool,
    /// The start of the machine that it does not outlive; 0 if it does.
    boot: u64,
    has_failed: AtomicBool,
    /// The superblock says that the notes are void.
    is_void: AtomicBool,
    /// Acts that have found it failed.
    tried: AtomicU64,
}

impl FileTier {
    /// Opens the tier at `path`, or creates it with `size`, rounded down to whole pages.
    ///
    /// # Errors
    /// If it cannot be created, is in use, or is not what was asked for.
    pub fn open(path: &Path, size: Bytes) -> Result<Self, TierError> {
        // Where the system does not tell its starts apart, everything waits for the disk.
        Self::open_in(path, size, boot::boot().unwrap_or(0))
    }

    /// The same; what is settled outlives a crash of the machine, too.
    ///
    /// # Errors
    /// As of `open`.
    pub fn open_synced(path: &Path, size: Bytes) -> Result<Self, TierError> {
        Self::open_in(path, size, 0)
    }

    fn open_in(path: &Path, size: Bytes, boot: u64) -> Result<Self, TierError> {
        let Place { file, block, is_new } = Place::open(path, size, Reach::Direct)?;
        let notes = Region::of_file(&file, PAGE, Bytes(block.notes * 8), false)?;
        notes.leave_out_of_dumps();
        let notes = Watched::new(WordRegion::of(notes));
        let failed = |what| move |cause| TierError::System { what, path: path.to_owned(), cause };
        // All of them are read at a start anyway; what the disk does not give is not the kernel's to say later.
        let words = notes.words().words().iter();
        words.step_by(PAGE_LEN / size_of::<AtomicU64>()).for_each(|word| _ = word.load(Ordering::Relaxed));
        if notes.is_any_lost() {
            return Err(failed("read the notes of")(io::Error::other("the disk does not give them")));
        }
        let is_dropped = file.sync_data().is_err();
        let tier = Self {
            file: Arc::new(file),
            block: Superblock { is_void: false, ..block },
            notes,
            is_new,
            boot,
            has_failed: AtomicBool::new(false),
            is_void: AtomicBool::new(false),
            tried: AtomicU64::new(0),
        };
        if block.is_void || is_dropped {
            tier.begin_anew().map_err(failed("write to"))?;
        }
        Ok(tier)
    }

    /// Makes the notes worthless, so that whoever reads them next begins anew, and says that they are void no more.
    fn begin_anew(&self) -> io::Result<()> {
        self.notes.words().words()[0].store(0, Ordering::Release);
        self.notes.words().sync(0..1)?;
        if self.notes.is_any_lost() {
            return Err(io::Error::other("the disk does not take the tier's notes"));
        }
        self.write_block(self.block)
    }

    fn write_block(&self, block: Superblock) -> io::Result<()> {
        let mut page = Buffer::new(Bytes(PAGE)).map_err(io::Error::other)?;
        page.bytes_mut().copy_from_slice(&block.to_page());
        self.file.write_all_at(page.bytes(), 0)?;
        self.file.sync_data()
    }

    /// After something of the notes was not kept: says in the file that they are void. A disk that does not take it is asked again
    /// after twice as many acts.
    #[cold]
    fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
        let is_time = self.tried.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_power_of_two();
        if is_time && !self.is_void.load(Ordering::Acquire) {
            let is_said = self.write_block(Superblock { is_void: true, ..self.block }).is_ok();
            self.is_void.store(is_said, Ordering::Release);
        }
    }

    /// Refuses what relies on notes that are lost.
    fn check_notes(&self) -> io::Result<()> {
        if self.notes.is_any_lost() {
            self.fail();
            return Err(io::Error::other("the disk does not give what it was given of the tier's notes"));
        }
        Ok(())
    }

    /// Whether it was created just now and holds nothing.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Its name for what is kept about it elsewhere: random, given when it was created.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        self.block.identity
    }

    /// The same as [`Device::read_queue`], by an engine of choice.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn queue(&self, depth: u32, engine: Engine) -> io::Result<ReadQueue> {
        self.queue_with(depth, engine, None)
    }

    fn queue_with(&self, depth: u32, engine: Engine, bell: Option<Arc<OwnedFd>>) -> io::Result<ReadQueue> {
        let part = Part { base: self.block.base(), size: self.block.size.0, unit: PAGE };
        ReadQueue::new(self.file.clone(), part, depth, engine, bell)
    }

    /// Runs `io` over pieces of `len` bytes with memory that begins on a page.
    fn in_pieces(
        len: usize,
        mut io: impl FnMut(Range<usize>, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        thread_local! {
            static BUFFER: RefCell<Option<Buffer>> = const { RefCell::new(None) };
        }
        BUFFER.with_borrow_mut(|kept| {
            let buffer = match kept {
                Some(buffer) => buffer,
                None => kept.insert(Buffer::new(BOUNCE).map_err(io::Error::other)?),
            };
            for start in (0..len).step_by(buffer.len()) {
                let end = len.min(start + buffer.len());
                io(start..end, &mut buffer.bytes_mut()[..end - start])?;
            }
            Ok(())
        })
    }
}

impl Device for FileTier {
    fn size(&self) -> Bytes {
        self.block.size
    }

    fn access_unit(&self) -> Bytes {
        Bytes(PAGE)
    }

    fn survival(&self) -> Survival {
        if self.boot == 0 { Survival::Machine } else { Survival::Process }
    }

    fn boot(&self) -> u64 {
        self.boot
    }

    fn mapped(&self) -> Option<&Region> {
        None
    }

    fn notes(&self) -> Option<&WordRegion> {
        Some(self.notes.words())
    }

    fn settle_notes(&self, words: Range<usize>) {
        let is_lost = self.notes.is_any_lost() || self.has_failed.load(Ordering::Acquire);
        if is_lost || (self.boot == 0 && self.notes.words().sync(words).is_err()) {
            self.fail();
        }
    }

    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        check_units(self.block.size.0, PAGE, at, bytes.len())?;
        let base = self.block.base() + at;
        if is_aligned(bytes) {
            return self.file.write_all_at(bytes, base);
        }
        Self::in_pieces(bytes.len(), |range, piece| {
            piece.copy_from_slice(&bytes[range.clone()]);
            self.file.write_all_at(piece, base + range.start as u64)
        })
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        check_units(self.block.size.0, PAGE, at, into.len())?;
        let base = self.block.base() + at;
        if is_aligned(into) {
            return self.file.read_exact_at(into, base);
        }
        Self::in_pieces(into.len(), |range, piece| {
            self.file.read_exact_at(piece, base + range.start as u64)?;
            into[range].copy_from_slice(piece);
            Ok(())
        })
    }

    fn read_queue(&self, depth: u32, bell: Option<Arc<OwnedFd>>) -> io::Result<Option<ReadQueue>> {
        self.queue_with(depth, Engine::Auto, bell).map(Some)
    }

    fn settle(&self) -> io::Result<()> {
        if self.boot == 0 { self.settle_all() } else { self.check_notes() }
    }

    fn settle_all(&self) -> io::Result<()> {
        refuse_once_failed(&self.has_failed, || {
            self.check_notes()?;
            if self.boot != 0 {
                self.notes.words().sync(0..self.notes.words().words().len())?;
            }
            self.file.sync_data()
        })
        .inspect_err(|_| self.fail())
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(PAGE_LEN)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
