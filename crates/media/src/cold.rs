//! How long a load takes that no cache of the processor answers.
//!
//! Shape:       a line of a mapping is put out of the caches, then loaded and timed
//! Invariants:  no byte changes, and nobody who reads or writes the line meanwhile sees anything but a slower access
//! Units:       nanoseconds; the reading of the clock is in them
//! Assumptions: 1. `clflush` puts a line out of every cache, with what was written to it; 2. a load between two `lfence` is done
//!              when the second is
//! Source:      Intel, Software Developer's Manual, volume 2 (CLFLUSH, LFENCE)

#![allow(unsafe_code, reason = "instructions for cache lines; see the SAFETY comments")]

use crate::{Region, Stopwatch};
use units::Duration;

/// How long a load of the byte at `at` takes from the medium; none where the processor cannot be told to forget a line.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[must_use]
pub fn load(region: &Region, at: usize, watch: &Stopwatch) -> Option<Duration> {
    use std::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence};
    assert!(at < region.len(), "a load outside of the region");
    // SAFETY: inside of the mapping, checked above.
    let byte = unsafe { region.start().as_ptr().add(at) };
    // Its page is there from now on, and the processor knows where.
    // SAFETY: a byte of the live mapping.
    unsafe { touch(byte) };
    // SAFETY: the line is mapped; every x86-64 processor has the instruction, which changes no byte.
    unsafe { _mm_clflush(byte) };
    // SAFETY: a fence touches no memory; every x86-64 processor has it.
    unsafe { _mm_mfence() };
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    let started = watch.now();
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    // SAFETY: a byte of the live mapping.
    unsafe { touch(byte) };
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    Some(watch.now().since(started).max(Duration(1)))
}

/// Loads a byte and throws it away, whoever may be writing it: instructions know of no data races.
///
/// # Safety
/// The byte is mapped.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn touch(byte: *const u8) {
    // SAFETY: the caller's promise; the instruction reads one byte and changes nothing but a register.
    unsafe {
        std::arch::asm!("mov {loaded}, byte ptr [{byte}]", byte = in(reg) byte, loaded = out(reg_byte) _,
            options(nostack, preserves_flags, readonly));
    };
}

/// How long a load of the byte at `at` takes from the medium; none where the processor cannot be told to forget a line.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[must_use]
pub fn load(_region: &Region, _at: usize, _watch: &Stopwatch) -> Option<Duration> {
    None
}

#[cfg(test)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn nothing_changes_and_something_is_measured() {
        let region = Region::anonymous(Bytes::kib(64)).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(region.len()).collect();
        // SAFETY: this thread alone uses the region.
        unsafe { region.write(0, &bytes) };
        let watch = Stopwatch::new();
        for at in (0..region.len()).step_by(61) {
            assert!(Duration::ZERO < load(&region, at, &watch).unwrap());
        }
        // SAFETY: nothing is written while the slice lives.
        assert_eq!(unsafe { region.bytes(0, region.len()) }, bytes);
    }

    #[test]
    #[should_panic(expected = "outside of the region")]
    fn a_load_beyond_the_end_is_refused() {
        let region = Region::anonymous(Bytes::kib(4)).unwrap();
        let _time = load(&region, 4096, &Stopwatch::new());
    }
}
