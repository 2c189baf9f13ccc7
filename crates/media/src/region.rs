//! A mapped region: bytes by offset, and the only `mmap` of the project but for what takes the place of a lost page (`file/lost_pages.rs`).
//!
//! Invariants:  a mapping lives exactly as long as the last `Region` that is a part of it, and is unmapped as a whole: a DAX device
//!              gives no part of one back; every offset is checked against the region's length
//! Assumptions: 1. a mapping is aligned to 4 KiB, of anonymous memory one of 2 MiB and more to 2 MiB (not under Miri); 2. untouched pages read as zero
//! Failure:     a mapping that the system refuses is an error

#![allow(unsafe_code, reason = "maps memory and hands out views of it; see the SAFETY comments")]

mod advice;

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use units::Bytes;

/// Why there is no region.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The system refused the mapping.
    #[error("cannot map {size}")]
    Map {
        /// How much was asked.
        size: Bytes,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
}

/// A mapping of zeroed memory or of a part of a file, or some pages of one.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    /// Whether its pages are a file's: they are not given back while it is there.
    is_file: bool,
    /// What it is a part of, or all of.
    mapping: Arc<Mapping>,
}

/// What the system mapped, until it is dropped.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pointer is not tied to a thread; nobody reaches bytes through this type.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

// SAFETY: the region keeps its mapping alive; the pointer is not tied to a thread, and all shared access goes through
// methods whose contracts (atomics, or `unsafe` with stated conditions) rule out data races.
unsafe impl Send for Region {}
// SAFETY: as for `Send`: no method gives unsynchronised mutable access from `&self` without an `unsafe` contract.
unsafe impl Sync for Region {}

const PAGE: usize = 4096;

/// Bytes of a huge page of x86-64, and of ARM with small pages of 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;

impl Region {
    /// Anonymous memory of `size`, rounded up to whole pages, in huge pages where allowed.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub fn anonymous(size: Bytes) -> Result<Self, MapError> {
        let len = size.as_usize().next_multiple_of(PAGE).max(PAGE);
        let base = map(len).map_err(|cause| MapError::Map { size, cause })?;
        Ok(Self::whole(base, len, false))
    }

    fn whole(base: NonNull<u8>, len: usize, is_file: bool) -> Self {
        Self { base, len, is_file, mapping: Arc::new(Mapping { base, len }) }
    }

    /// `size` bytes of `file` from `offset` on, both in whole pages, shared with whoever else maps them. The file is at least
    /// so long, and nobody shortens it as long as the region lives.
    ///
    /// # Errors
    /// If the system refuses the mapping; with `is_durable_at_once`, where a store is not durable once it has left the caches.
    #[cfg(not(miri))]
    pub(crate) fn of_file(
        file: &std::fs::File,
        offset: u64,
        size: Bytes,
        is_durable_at_once: bool,
    ) -> Result<Self, MapError> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let len = size.as_usize().next_multiple_of(PAGE).max(PAGE);
        let flags = match is_durable_at_once {
            true => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            false => MapFlags::SHARED,
        };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let fail = |cause| MapError::Map { size, cause };
        // SAFETY: a null hint without MAP_FIXED creates a new mapping and touches no existing memory.
        let at = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, file, offset) };
        let at = at.map_err(|errno| fail(errno.into()))?;
        let base = NonNull::new(at.cast()).ok_or_else(|| fail(io::Error::other("mapped at address zero")))?;
        Ok(Self::whole(base, len, true))
    }

    /// No files here.
    #[cfg(miri)]
    pub(crate) fn of_file(_: &std::fs::File, _: u64, size: Bytes, _: bool) -> Result<Self, MapError> {
        Err(MapError::Map { size, cause: io::Error::from(io::ErrorKind::Unsupported) })
    }

    /// Some pages of it as a region of their own.
    ///
    /// # Panics
    /// If they are not inside the region, are none, or not whole.
    pub(crate) fn part(&self, offset: usize, len: usize) -> Self {
        assert!(self.contains(offset, len), "part outside of the region");
        assert!(0 < len && offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE), "whole pages");
        // SAFETY: inside of the mapping, checked above.
        let base = unsafe { self.base.add(offset) };
        Self { base, len, is_file: self.is_file, mapping: Arc::clone(&self.mapping) }
    }

    /// Waits until what was written to a range of a file is on its disk.
    ///
    /// # Errors
    /// If the system says so.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub(crate) fn sync(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(self.contains(offset, len), "sync outside of the region");
        #[cfg(not(miri))]
        {
            use rustix::mm::{MsyncFlags, msync};
            let (at, len) = self.pages_around(offset, len);
            // SAFETY: whole pages of this live mapping; nothing in memory changes.
            unsafe { msync(at, len, MsyncFlags::SYNC) }?;
        }
        Ok(())
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where bytes of this region begin in it; none for others.
    #[must_use]
    pub fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let offset = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        self.contains(offset, bytes.len()).then_some(offset)
    }

    /// A view of bytes.
    ///
    /// # Safety
    /// Nobody may write these bytes while the returned slice lives, and what wrote them must have happened before.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline]
    #[must_use]
    pub unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(self.contains(offset, len), "read outside of the region");
        // SAFETY: `offset` is inside the mapping, checked above.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: the range is inside the mapping, which lives as long as `self` and is initialised (zero or written);
        // the caller promises that nobody writes it meanwhile.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Copies `N` bytes, of which others may change the one at `shared` meanwhile, by `set_bits`: that one is read with Acquire.
    ///
    /// # Safety
    /// As for `bytes`, but for the byte at `shared`, which no slice may cover.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline]
    #[must_use]
    pub unsafe fn copy<const N: usize>(&self, offset: usize, shared: usize) -> [u8; N] {
        assert!(shared < N && self.contains(offset, N), "read outside of the region");
        let mut copy = [0; N];
        // SAFETY: as for `bytes`, by the caller's promise: the shared byte is in neither part.
        copy[..shared].copy_from_slice(unsafe { self.bytes(offset, shared) });
        let behind = offset + shared + 1;
        // SAFETY: the same.
        copy[shared + 1..].copy_from_slice(unsafe { self.bytes(behind, N - shared - 1) });
        // SAFETY: as above; all accesses to this byte that may be at the same time are atomic.
        copy[shared] = unsafe { self.shared_byte(offset + shared) }.load(Ordering::Acquire);
        copy
    }

    /// Sets bits of one byte, with Release.
    ///
    /// # Safety
    /// No slice covers this byte, and nobody else writes it at the same time.
    ///
    /// # Panics
    /// If it is not inside the region.
    #[inline]
    pub unsafe fn set_bits(&self, offset: usize, bits: u8) {
        assert!(self.contains(offset, 1), "write outside of the region");
        // SAFETY: inside the mapping, checked above; the caller promises that it is used as a shared byte only.
        let byte = unsafe { self.shared_byte(offset) };
        byte.store(byte.load(Ordering::Relaxed) | bits, Ordering::Release);
    }

    /// A byte as an atomic one.
    ///
    /// # Safety
    /// It is inside the mapping, and no access that is not atomic is at the same time as one to what is returned.
    #[inline]
    unsafe fn shared_byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: the caller promises that `offset` is inside the mapping.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: the caller promises what accesses there are; a byte is aligned, and lives as long as `self`.
        unsafe { AtomicU8::from_ptr(at) }
    }

    /// Copies `source` into the region.
    ///
    /// # Safety
    /// Nobody else may read or write these bytes at the same time.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline]
    pub unsafe fn write(&self, offset: usize, source: &[u8]) {
        assert!(self.contains(offset, source.len()), "write outside of the region");
        // SAFETY: `offset` is inside the mapping, checked above.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: the range is inside the mapping, cannot overlap `source` (the caller has sole access to it), and the
        // caller promises that nobody else touches it.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), at, source.len()) };
    }

    /// The region as atomic words. A region used this way is never used as bytes.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.len / size_of::<AtomicU64>();
        // SAFETY: the mapping is page-aligned, initialised and lives as long as `self`; `AtomicU64` allows shared
        // mutation, and the users of `bytes`/`write` promise not to touch what is accessed as words.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), count) }
    }

    /// Starts loading the cache line at `offset`. Outside of the region nothing happens.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        if offset < self.len {
            prefetch_at(self.base.as_ptr().wrapping_add(offset));
        }
    }

    /// Where the pages that a range is in begin, and how long they are. The range is inside the region.
    #[cfg(not(miri))]
    fn pages_around(&self, offset: usize, len: usize) -> (*mut std::ffi::c_void, usize) {
        let start = offset / PAGE * PAGE;
        (self.base.as_ptr().wrapping_add(start).cast(), (offset + len).next_multiple_of(PAGE) - start)
    }

    #[inline]
    fn contains(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }
}

/// Starts loading the cache line where `of` begins.
#[inline]
pub fn prefetch<T>(of: &T) {
    prefetch_at(std::ptr::from_ref(of).cast());
}

#[inline]
fn prefetch_at(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the caches, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[cfg(not(miri))]
fn map(len: usize) -> io::Result<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let spare = if len < HUGE_PAGE { 0 } else { HUGE_PAGE - PAGE };
    let whole = len.checked_add(spare).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a null hint without MAP_FIXED creates a new mapping and touches no existing memory.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, protection, flags) }?;
    let before = if spare == 0 { 0 } else { at.addr().next_multiple_of(HUGE_PAGE) - at.addr() };
    let base = at.wrapping_byte_add(before);
    for (start, len) in [(at, before), (base.wrapping_byte_add(len), spare - before)] {
        if len != 0 {
            // SAFETY: pages of the mapping just made, before and behind the part that is used; who keeps them loses addresses only.
            let _kept = unsafe { munmap(start, len) };
        }
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}

#[cfg(miri)]
fn map(len: usize) -> io::Result<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(len, PAGE).map_err(io::Error::other)?;
    // SAFETY: the layout has a size above zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or_else(|| io::Error::other("out of memory"))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(not(miri))]
        {
            // SAFETY: exactly what was mapped (`map`, `of_file`), unmapped once; every region of it is gone, and so is every borrow.
            let _unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        }
        #[cfg(miri)]
        {
            let layout = std::alloc::Layout::from_size_align(self.len, PAGE).expect("the layout of `map`");
            // SAFETY: allocated in `map` with this layout, freed once.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn bytes_come_back_and_released_pages_are_zero() {
        let region = Region::anonymous(Bytes(3 * PAGE as u64)).unwrap();
        // Older systems know no such advice.
        let _populated = region.populate(10, PAGE);
        region.prefetch(0);
        region.prefetch(usize::MAX);
        // SAFETY: this thread alone uses the region.
        unsafe { region.write(PAGE - 2, b"abcd") };
        // SAFETY: as above; nothing is written while the slice lives.
        let bytes = unsafe { region.bytes(PAGE - 2, 4) };
        assert_eq!((bytes, region.offset_of(bytes)), (b"abcd".as_slice(), Some(PAGE - 2)));
        assert_eq!(region.offset_of(&[0; 4]), None);
        // SAFETY: no slice is alive.
        unsafe { region.release(0, PAGE) };
        if cfg!(not(miri)) {
            // SAFETY: this thread alone uses the region.
            assert_eq!(unsafe { region.bytes(PAGE - 2, 4) }, b"\0\0cd");
        }
    }

    #[test]
    fn a_shared_byte_changes_while_what_is_around_it_is_read() {
        let region = Region::anonymous(Bytes(PAGE as u64)).unwrap();
        // SAFETY: this thread alone uses the region.
        unsafe { region.write(8, &[1, 2, 4, 8]) };
        let header = || {
            // SAFETY: nobody writes the other three bytes.
            unsafe { region.copy::<4>(8, 2) }
        };
        std::thread::scope(|scope| {
            // SAFETY: no slice covers the byte, and only this thread writes it.
            scope.spawn(|| unsafe { region.set_bits(10, 32) });
            assert!([[1, 2, 4, 8], [1, 2, 36, 8]].contains(&header()));
        });
        assert_eq!(header(), [1, 2, 36, 8]);
        assert!(
            std::panic::catch_unwind(|| {
                // SAFETY: the range check is what is tested.
                unsafe { region.set_bits(PAGE, 1) }
            })
            .is_err()
        );
    }

    #[test]
    fn a_part_keeps_the_whole_alive() {
        let whole = Region::anonymous(Bytes(3 * PAGE as u64)).unwrap();
        let (first, rest) = (whole.part(0, PAGE), whole.part(PAGE, 2 * PAGE));
        drop((whole, first));
        assert_eq!((rest.len(), rest.words()[2 * PAGE / 8 - 1].load(Ordering::Relaxed)), (2 * PAGE, 0));
        for (offset, len) in [(0, 0), (8, PAGE), (0, 8), (PAGE, 2 * PAGE)] {
            assert!(std::panic::catch_unwind(|| rest.part(offset, len)).is_err(), "{offset} {len}");
        }
    }

    #[test]
    fn words_are_shared() {
        let region = Region::anonymous(Bytes(64)).unwrap();
        region.words()[3].store(9, Ordering::Relaxed);
        assert_eq!(region.words()[3].load(Ordering::Relaxed), 9);
        assert_eq!(region.words().len(), PAGE / 8);
    }

    #[test]
    #[should_panic(expected = "outside of the region")]
    fn a_read_beyond_the_end_is_refused() {
        let region = Region::anonymous(Bytes(1)).unwrap();
        // SAFETY: nothing is written; the range check is what is tested.
        let _ = unsafe { region.bytes(PAGE - 1, 2) };
    }

    #[test]
    fn an_impossible_mapping_is_an_error() {
        if cfg!(not(miri)) {
            assert!(matches!(Region::anonymous(Bytes(1 << 62)), Err(MapError::Map { .. })));
        }
    }
}
