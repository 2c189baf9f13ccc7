//! The three acts that make bytes of persistent memory durable: a store past the caches, writing a line back, a fence.
//!
//! Shape:       what a tier does, as a trait, so that a recorder can take the processor's place
//! Assumptions: 1. a line is 64 bytes and reaches the medium as a whole; 2. stores past the caches and lines that were written
//!              back are durable once a later fence of the same thread has completed (asynchronous DRAM refresh: what the memory
//!              controller accepted is safe); 3. without either, a line may become durable at any time or never
//! Non-goals:   processors that are not x86-64: there a mapping can be used and nothing of it is durable
//! Source:      Intel, Software Developer's Manual, volume 1, 10.4.6.2 (non-temporal stores), volume 2 (CLWB, CLFLUSHOPT, SFENCE)

#![allow(unsafe_code, reason = "instructions for cache lines; see the SAFETY comments")]

use crate::Region;
use std::fmt::Debug;

/// A processor's cache line.
pub const LINE: usize = 64;

/// Makes bytes of a mapping durable.
pub trait Persistence: Debug + Send + Sync {
    /// Stores `bytes`, whole lines at the beginning of a line, past the caches.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes at the same time.
    unsafe fn stream(&self, region: &Region, at: usize, bytes: &[u8]);
    /// Writes back the lines that a range touches.
    fn write_back(&self, region: &Region, at: usize, len: usize);
    /// Waits until what was streamed and written back is durable.
    fn fence(&self);
}

/// The processor's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instructions {
    flush: Flush,
}

/// The best way to write a line back that the processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flush {
    /// `clwb`: the line stays in the cache.
    WriteBack,
    /// `clflushopt`: the line leaves the cache.
    Optimised,
    /// `clflush`: the same, one after the other.
    Plain,
}

impl Instructions {
    /// Whether they make anything durable here.
    pub const ARE_KNOWN: bool = cfg!(all(target_arch = "x86_64", not(miri)));

    /// Those of this processor.
    #[must_use]
    pub fn new() -> Self {
        Self { flush: Flush::best() }
    }
}

impl Default for Instructions {
    fn default() -> Self {
        Self::new()
    }
}

/// Lines that a range touches, as offsets.
pub(crate) fn lines(at: usize, len: usize) -> impl Iterator<Item = usize> {
    let first = at / LINE * LINE;
    (first..at + len).step_by(LINE)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Persistence for Instructions {
    unsafe fn stream(&self, region: &Region, at: usize, bytes: &[u8]) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const PIECE: usize = size_of::<__m128i>();
        assert!(at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE), "whole lines");
        assert!(at <= region.len() && bytes.len() <= region.len() - at, "stream outside of the region");
        for offset in (0..bytes.len()).step_by(PIECE) {
            // SAFETY: `offset + PIECE` is at most `bytes.len()`, a multiple of `PIECE`.
            let from = unsafe { bytes.as_ptr().add(offset) };
            // SAFETY: 16 bytes of the slice, of any alignment.
            let piece = unsafe { _mm_loadu_si128(from.cast()) };
            // SAFETY: inside of the mapping, checked above.
            let to = unsafe { region.start().as_ptr().add(at + offset) };
            // SAFETY: 16 bytes of the live mapping, aligned as the mapping begins on a page and `at` on a line; the caller keeps
            // others away.
            unsafe { _mm_stream_si128(to.cast(), piece) };
        }
    }

    fn write_back(&self, region: &Region, at: usize, len: usize) {
        assert!(at <= region.len() && len <= region.len() - at, "lines outside of the region");
        for line in lines(at, len) {
            // SAFETY: a line that begins inside of the mapping, as mappings are of whole pages.
            let line = unsafe { region.start().as_ptr().add(line) };
            // SAFETY: the line is mapped, and the processor has the instruction (`Flush::best`).
            unsafe { self.flush.line(line) };
        }
    }

    fn fence(&self) {
        // SAFETY: a fence touches no memory; every x86-64 processor has it.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Flush {
    fn best() -> Self {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        if __cpuid(0).eax < 7 {
            return Self::Plain;
        }
        // Structured extended features, EBX: bit 24 CLWB, bit 23 CLFLUSHOPT.
        let features = __cpuid_count(7, 0).ebx;
        if features & (1 << 24) != 0 {
            Self::WriteBack
        } else if features & (1 << 23) != 0 {
            Self::Optimised
        } else {
            Self::Plain
        }
    }

    /// Writes one line back.
    ///
    /// # Safety
    /// The line is mapped, and the processor has the instruction.
    unsafe fn line(self, line: *const u8) {
        use std::arch::asm;
        match self {
            // SAFETY: the caller's promise; the instruction changes no byte and no flag.
            Self::WriteBack => unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) },
            // SAFETY: as above.
            Self::Optimised => unsafe {
                asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
            },
            // SAFETY: as above; every x86-64 processor has it.
            Self::Plain => unsafe { std::arch::x86_64::_mm_clflush(line) },
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Persistence for Instructions {
    unsafe fn stream(&self, region: &Region, at: usize, bytes: &[u8]) {
        // SAFETY: the caller keeps others away.
        unsafe { region.write(at, bytes) };
    }

    fn write_back(&self, region: &Region, at: usize, len: usize) {
        assert!(at <= region.len() && len <= region.len() - at, "lines outside of the region");
    }

    fn fence(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Flush {
    fn best() -> Self {
        Self::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn streamed_bytes_are_there_and_lines_are_those_touched() {
        let region = Region::anonymous(Bytes::kib(8)).unwrap();
        let acts = Instructions::new();
        let bytes: Vec<u8> = (0..=255).collect();
        // SAFETY: this thread alone uses the region.
        unsafe { acts.stream(&region, 4032, &bytes) };
        acts.write_back(&region, 0, 8192);
        acts.fence();
        // SAFETY: nothing is written while the slice lives.
        assert_eq!(unsafe { region.bytes(4032, 256) }, bytes);
        assert_eq!(lines(60, 8).collect::<Vec<_>>(), [0, 64]);
        assert_eq!(lines(64, 64).collect::<Vec<_>>(), [64]);
        assert_eq!(lines(64, 0).count(), 0);
    }

    #[test]
    #[should_panic(expected = "whole lines")]
    fn a_part_of_a_line_is_refused() {
        let region = Region::anonymous(Bytes::kib(4)).unwrap();
        if cfg!(miri) {
            panic!("whole lines");
        }
        // SAFETY: nothing is written.
        unsafe { Instructions::new().stream(&region, 8, &[0; 64]) };
    }
}
