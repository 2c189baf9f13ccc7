//! A slow tier in a file on an SSD: direct I/O in pages, many reads under way at once.
//!
//! Shape:       | superblock | notes | bytes | in one preallocated file; bytes past the page cache, notes through a mapping
//! Invariants:  one server at a time (a lock on the file); a file appears under its name only once it is complete
//! Assumptions: 1. direct I/O in whole pages of memory and of the file works, or fails as a whole; 2. what `fdatasync` returned
//!              for is on the disk, so far as the disk keeps its promises; 3. blocks that were preallocated do not run out;
//!              4. direct writes to the bytes and the mapping of the notes meet in no page
//! Failure:     after a failed `settle` nothing is known of what was written since the one before, and every later one fails:
//!              the system may have dropped what it could not write (fsyncgate)
//! Cost:        4 KiB at least per access

#![allow(unsafe_code, reason = "`Device::write` is unsafe by contract; nothing here needs it")]

mod error;
mod superblock;

pub use error::{Damage, TierError};
pub(crate) use superblock::{PAGE, PAGE_LEN, Superblock};

use crate::device::{check_units, refuse_once_failed};
use crate::queue::{Engine, Part};
use crate::{Buffer, Device, ReadQueue, Region, SlowAccess, Survival, WordRegion};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock, fstatfs};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    notes: WordRegion,
    is_new: bool,
    has_failed: AtomicBool,
}

impl FileTier {
    /// Opens the tier at `path`, or creates it with `size`, rounded down to whole pages.
    ///
    /// # Errors
    /// If it cannot be created, is in use, or is not what was asked for.
    pub fn open(path: &Path, size: Bytes) -> Result<Self, TierError> {
        let size = whole_pages(size)?;
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            return Err(TierError::Kind { path: path.to_owned(), wanted: "file" });
        }
        let found = match open(path, OFlags::empty()) {
            Ok(file) => Some(file).filter(|file| file.metadata().is_ok_and(|meta| 0 < meta.len())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(refusal(path, "open", e)),
        };
        let is_new = found.is_none();
        let (file, block) = match found {
            Some(file) => {
                let block = existing(path, &file, size)?;
                (file, block)
            }
            None => created(path, size)?,
        };
        let notes = Region::of_file(&file, PAGE, Bytes(block.notes * 8), false)?;
        notes.leave_out_of_dumps();
        let notes = WordRegion::of(notes);
        Ok(Self { file: Arc::new(file), block, notes, is_new, has_failed: AtomicBool::new(false) })
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
        let part = Part { base: self.block.base(), size: self.block.size.0, unit: PAGE };
        ReadQueue::new(self.file.clone(), part, depth, engine)
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
        Survival::Machine
    }

    fn mapped(&self) -> Option<&Region> {
        None
    }

    fn notes(&self) -> Option<&WordRegion> {
        Some(&self.notes)
    }

    fn settle_notes(&self, words: Range<usize>) {
        if self.notes.sync(words).is_err() {
            self.has_failed.store(true, Ordering::Release);
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

    fn read_queue(&self, depth: u32) -> io::Result<Option<ReadQueue>> {
        self.queue(depth, Engine::Auto).map(Some)
    }

    fn settle(&self) -> io::Result<()> {
        refuse_once_failed(&self.has_failed, || self.file.sync_data())
    }

    fn take_time(&self, _access: SlowAccess, _size: Bytes) {}
}

/// Whole pages of what was asked for.
pub(crate) fn whole_pages(size: Bytes) -> Result<Bytes, TierError> {
    if size < TIER_MIN {
        return Err(TierError::TooSmall { size, min: TIER_MIN });
    }
    Ok(Bytes(size.0 / PAGE * PAGE))
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(PAGE_LEN)
}

fn open(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = OFlags::DIRECT | more;
    #[expect(clippy::cast_possible_wrap, reason = "a set of bits")]
    let flags = flags.bits() as i32;
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(path)
}

/// What an error of the system means here.
pub(crate) fn refusal(path: &Path, what: &'static str, cause: io::Error) -> TierError {
    let path = path.to_owned();
    match cause.kind() {
        io::ErrorKind::NotFound => TierError::NoFolder { path },
        io::ErrorKind::InvalidInput if what == "open" => {
            TierError::NoDirectIo { path, kind: "it refuses O_DIRECT" }
        }
        _ => TierError::System { what, path, cause },
    }
}

/// Makes sure that it is on a disk and this process's; says how long it is.
fn claim(path: &Path, file: &File) -> Result<u64, TierError> {
    let meta = file.metadata().map_err(|cause| refusal(path, "look at", cause))?;
    let system = fstatfs(file).map_err(|errno| refusal(path, "look at the file system of", errno.into()))?;
    // Some kernels accept O_DIRECT there and copy all the same.
    let in_memory = [(0x0102_1994, "tmpfs"), (0x8584_58F6_u32, "ramfs")];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "magic numbers have 32 bits")]
    let magic = system.f_type as u32;
    if let Some((_, kind)) = in_memory.into_iter().find(|(number, _)| *number == magic) {
        return Err(TierError::NoDirectIo { path: path.to_owned(), kind });
    }
    lock(path, file)?;
    Ok(meta.len())
}

/// Takes the lock that keeps other servers away as long as the file is open.
pub(crate) fn lock(path: &Path, file: &File) -> Result<(), TierError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        rustix::io::Errno::WOULDBLOCK => TierError::InUse { path: path.to_owned() },
        errno => refusal(path, "lock", errno.into()),
    })
}

/// The tier that is there.
fn existing(path: &Path, file: &File, size: Bytes) -> Result<Superblock, TierError> {
    let len = claim(path, file)?;
    let damaged = |damage| TierError::Damaged { path: path.to_owned(), damage };
    if len < PAGE {
        return Err(damaged(Damage::Foreign));
    }
    let mut page = Buffer::new(Bytes(PAGE))?;
    file.read_exact_at(page.bytes_mut(), 0).map_err(|cause| refusal(path, "read", cause))?;
    let page = page.bytes().try_into().expect("a page");
    let block = Superblock::from_page(page).map_err(damaged)?;
    if block.size != size {
        return Err(TierError::Size { path: path.to_owned(), found: block.size, asked: size });
    }
    if len < block.end() {
        return Err(damaged(Damage::Truncated { len: Bytes(len), expected: Bytes(block.end()) }));
    }
    Ok(block)
}

/// A new tier: made beside its place and moved there once it is complete.
fn created(path: &Path, size: Bytes) -> Result<(File, Superblock), TierError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let file = open(&beside, OFlags::CREATE | OFlags::TRUNC).map_err(|cause| refusal(path, "open", cause))?;
    let done = claim(path, &file).and_then(|_len| fill(path, &file, size)).and_then(|block| {
        publish(&beside, path).map_err(|cause| refusal(path, "create", cause))?;
        Ok(block)
    });
    match done {
        Ok(block) => Ok((file, block)),
        Err(e) => {
            // What could not be made is of no use; the error says why.
            let _removed = std::fs::remove_file(&beside);
            Err(e)
        }
    }
}

fn fill(path: &Path, file: &File, size: Bytes) -> Result<Superblock, TierError> {
    let block = Superblock::new(size, identity());
    let allocated = fallocate(file, FallocateFlags::empty(), 0, block.end());
    allocated.map_err(|errno| refusal(path, "reserve the room for", errno.into()))?;
    let mut page = Buffer::new(Bytes(PAGE))?;
    page.bytes_mut().copy_from_slice(&block.to_page());
    let written = file.write_all_at(page.bytes(), 0).and_then(|()| file.sync_all());
    written.map_err(|cause| refusal(path, "write", cause))?;
    Ok(block)
}

/// Gives the complete file its name, unless a tier has appeared there.
fn publish(beside: &Path, path: &Path) -> io::Result<()> {
    if path.metadata().is_ok_and(|meta| 0 < meta.len()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another server has just created it"));
    }
    std::fs::rename(beside, path)?;
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

pub(crate) fn identity() -> [u8; 16] {
    let mut identity = [0; 16];
    // The random device does not fail once the system is up; then the name is no secret, only less unique.
    let _filled = rustix::rand::getrandom(&mut identity, rustix::rand::GetRandomFlags::empty());
    identity
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
