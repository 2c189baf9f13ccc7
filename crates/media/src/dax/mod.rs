//! A slow tier in persistent memory: a file on a DAX file system, or a DAX device, mapped so that a store is durable once it
//! has left the caches.
//!
//! Shape:       | superblock | notes | bytes | in one mapping; bytes by stores past the caches, notes by stores and write-back
//! Invariants:  what was written before `settle` is durable before anything that is written after it; so are notes before
//!              `settle_notes` returns
//! Assumptions: 1. those of `persistence.rs`; 2. with `MAP_SYNC` the file system's own metadata of a page is durable before the
//!              page can be written to; 3. the medium writes 256 B at once, and 64 B at the price of 256 B; 4. a page that the
//!              medium cannot read any more is a signal that ends the process
//! Failure:     a file system or device that does not promise assumption 2 is refused; so is any on a processor whose instructions
//!              `persistence.rs` does not have
//! Source:      Linux, Documentation/filesystems/dax.rst; mmap(2), `MAP_SYNC`

#![allow(unsafe_code, reason = "the contract of `Device::write`; see the SAFETY comment")]

pub mod persistence;

use crate::device::{check_units, copy_out};
use crate::file::new_file::{beside, identity};
use crate::file::place::{Place, Reach, destination, lock, refusal, whole_pages};
use crate::file::{Home, PAGE, PAGE_LEN, Superblock, TierError};
use crate::{Device, MapError, Region, Survival, WordRegion, notes_words};
use persistence::{Instructions, Persistence};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use units::Bytes;

/// A tier in persistent memory.
#[derive(Debug)]
pub struct DaxTier<P: Persistence = Instructions> {
    /// Keeps other servers away; a recorder has none.
    _file: Option<File>,
    bytes: Region,
    notes: WordRegion,
    identity: [u8; 16],
    is_new: bool,
    acts: P,
}

impl DaxTier {
    /// Opens the tier at `path`, a file or a DAX device, or creates it with `size`, rounded down to whole pages.
    ///
    /// # Errors
    /// If it cannot be created, is in use, is not what was asked for, or is not persistent memory, or the processor is none that keeps it.
    pub fn open(path: &Path, size: Bytes) -> Result<Self, TierError> {
        Self::open_where(Instructions::ARE_KNOWN, path, size)
    }

    fn open_where(instructions_are_known: bool, path: &Path, size: Bytes) -> Result<Self, TierError> {
        let size = whole_pages(size)?;
        if !instructions_are_known {
            return Err(TierError::Processor { path: path.to_owned(), name: std::env::consts::ARCH });
        }
        let is_device = path.metadata().is_ok_and(|meta| meta.file_type().is_char_device());
        if is_device { Self::of_device(path, size) } else { Self::of_file(path, size) }
    }

    fn of_file(path: &Path, size: Bytes) -> Result<Self, TierError> {
        let existed = path.metadata().is_ok_and(|meta| 0 < meta.len());
        if !existed {
            probe(&destination(path))?;
        }
        let Place { file, block, is_new } = Place::open(path, size, Reach::Mapped)?;
        let [_front, notes, bytes] = map(path, &file, &block)?;
        let notes = WordRegion::of(notes);
        let (identity, acts) = (block.identity, Instructions::new());
        Ok(Self { _file: Some(file), bytes, notes, identity, is_new, acts })
    }

    /// A whole device: it is new where it is zero. What is noted of one whose front was cleared is of what was there before.
    fn of_device(path: &Path, size: Bytes) -> Result<Self, TierError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|cause| refusal(path, "open", cause))?;
        lock(path, &file)?;
        let has =
            device_size(&file).ok_or(TierError::Kind { path: path.to_owned(), wanted: "DAX device" })?;
        let fresh = Superblock::new(size, identity());
        if has < fresh.end() {
            return Err(TierError::Room {
                path: path.to_owned(),
                has: Bytes(has),
                needs: Bytes(fresh.end()),
            });
        }
        let [front, notes, bytes] = map(path, &file, &fresh)?;
        let mut page = [0; PAGE_LEN];
        copy_out(&front, 0, &mut page).map_err(|cause| refusal(path, "read", cause))?;
        let acts = Instructions::new();
        let is_new = page.iter().all(|byte| *byte == 0);
        let block = if is_new {
            // SAFETY: the lock keeps other servers away, and nobody here has seen the mapping yet.
            unsafe { forget(&acts, &notes) };
            // SAFETY: as above.
            unsafe { acts.stream(&front, 0, &fresh.to_page()) };
            acts.fence();
            fresh
        } else {
            let damaged = |damage| TierError::Damaged { path: path.to_owned(), home: Home::Device, damage };
            Superblock::from_page(&page).map_err(damaged)?
        };
        if block.size != size {
            return Err(TierError::Size {
                path: path.to_owned(),
                home: Home::Device,
                found: block.size,
                asked: size,
            });
        }
        let notes = WordRegion::of(notes);
        Ok(Self { _file: Some(file), bytes, notes, identity: block.identity, is_new, acts })
    }
}

impl<P: Persistence> DaxTier<P> {
    /// A tier in anonymous memory whose durability `acts` stands for: what a recorder needs.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub fn recorded(size: Bytes, acts: P) -> Result<Self, MapError> {
        let (bytes, notes) = (
            Region::anonymous(size)?,
            WordRegion::of(Region::anonymous(Bytes(notes_words(size) as u64 * 8))?),
        );
        Ok(Self { _file: None, bytes, notes, identity: [0; 16], is_new: true, acts })
    }

    /// Whether it was created just now and holds nothing.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Its name for what is kept about it elsewhere: random, given when it was created.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        self.identity
    }

    /// What makes it durable.
    #[must_use]
    pub fn acts(&self) -> &P {
        &self.acts
    }
}

impl<P: Persistence> Device for DaxTier<P> {
    fn size(&self) -> Bytes {
        Bytes(self.bytes.len() as u64)
    }

    fn access_unit(&self) -> Bytes {
        Bytes(persistence::LINE as u64)
    }

    fn survival(&self) -> Survival {
        Survival::Machine
    }

    fn mapped(&self) -> Option<&Region> {
        Some(&self.bytes)
    }

    fn notes(&self) -> Option<&WordRegion> {
        Some(&self.notes)
    }

    fn settle_notes(&self, words: Range<usize>) {
        self.acts.write_back(
            self.notes.region(),
            words.start * size_of::<u64>(),
            words.len() * size_of::<u64>(),
        );
        self.acts.fence();
    }

    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        check_units(self.size().0, self.access_unit().0, at, bytes.len())?;
        // SAFETY: the caller keeps others away.
        unsafe { self.acts.stream(&self.bytes, Bytes(at).as_usize(), bytes) };
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        copy_out(&self.bytes, at, into)
    }

    fn settle_all(&self) -> io::Result<()> {
        // Bytes went past the caches; notes may be in them.
        let notes = self.notes.region();
        self.acts.write_back(notes, 0, notes.len());
        self.settle()
    }

    fn settle(&self) -> io::Result<()> {
        self.acts.fence();
        Ok(())
    }
}

/// Clears the front of notes, durably: they say nothing any more.
///
/// # Safety
/// Nobody else reads or writes them at the same time.
unsafe fn forget(acts: &impl Persistence, notes: &Region) {
    let front = [0; PAGE_LEN];
    // SAFETY: the caller keeps others away.
    unsafe { acts.stream(notes, 0, &front[..notes.len().min(PAGE_LEN)]) };
    acts.fence();
}

/// Superblock, notes and bytes, mapped so that stores are durable once they have left the caches.
fn map(path: &Path, file: &File, block: &Superblock) -> Result<[Region; 3], TierError> {
    let all = Region::of_file(file, 0, Bytes(block.end()), true).map_err(|e| no_dax(path, e))?;
    all.leave_out_of_dumps();
    let part = |from: u64, size: u64| all.part(Bytes(from).as_usize(), Bytes(size).as_usize());
    Ok([part(0, PAGE), part(PAGE, block.notes * 8), part(block.base(), block.size.0)])
}

fn no_dax(path: &Path, error: MapError) -> TierError {
    let MapError::Map { cause, .. } = error;
    TierError::NoDax { path: path.to_owned(), cause }
}

/// Finds out whether the file system can do it before room is taken.
fn probe(path: &Path) -> Result<(), TierError> {
    let beside = beside(path, "probe");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&beside);
    let file = file.map_err(|cause| refusal(path, "open", cause))?;
    let mapped = file
        .set_len(PAGE)
        .map_err(|cause| refusal(path, "create", cause))
        .and_then(|()| Region::of_file(&file, 0, Bytes(PAGE), true).map_err(|e| no_dax(path, e)));
    // What is left would only be a file of a page.
    let _removed = std::fs::remove_file(&beside);
    mapped.map(|_| ())
}

/// The size of a DAX device, from the system's description of it.
fn device_size(file: &File) -> Option<u64> {
    let number = file.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let described = std::fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/size")).ok()?;
    let is_dax = std::fs::canonicalize(format!("/sys/dev/char/{major}:{minor}/subsystem"))
        .is_ok_and(|subsystem| subsystem.ends_with("dax"));
    if is_dax { described.trim().parse().ok() } else { None }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
