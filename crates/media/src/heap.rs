//! Keeps the C library's allocator from holding on to memory that was freed, so that a bound on the memory of a process holds
//! for what is resident, not only for what is in use.
//!
//! Shape:      called once, before threads start
//! Cost:       a freed buffer of 128 KiB or more goes back to the system at once, and is touched anew when one is needed again;
//!             a heap that grows for good asks for every page or two
//! Source:     mallopt(3): without these settings the first large buffer that is freed raises both thresholds to its size,
//!             every thread's own heap keeps twice as much, and 128 KiB beside what it needs
//! Failure:    an allocator that refuses keeps its own ways; other C libraries have no such settings

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    allow(
        unsafe_code,
        reason = "three calls of the C library that no safe crate offers; see the SAFETY comment"
    )
)]

/// Buffers from this size on are mapped, and unmapped when they are freed (glibc's own start).
const MAPPED_FROM: i32 = 128 << 10;
/// Free memory at the end of a heap from this size on is given back (glibc's own start).
const TRIMMED_FROM: i32 = 128 << 10;

/// What a heap asks for, and keeps, beyond what is needed (glibc's own start is 128 KiB, of each of its heaps).
const KEPT_BESIDE: i32 = 4 << 10;

/// Gives freed memory back soon.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_freed_memory_back() {
    /// `malloc.h`.
    const M_TRIM_THRESHOLD: i32 = -1;
    const M_TOP_PAD: i32 = -2;
    const M_MMAP_THRESHOLD: i32 = -3;
    unsafe extern "C" {
        fn mallopt(param: i32, value: i32) -> i32;
    }
    let settings =
        [(M_MMAP_THRESHOLD, MAPPED_FROM), (M_TRIM_THRESHOLD, TRIMMED_FROM), (M_TOP_PAD, KEPT_BESIDE)];
    for (param, value) in settings {
        // SAFETY: `mallopt` takes two integers by value, locks what it changes, and refuses what it does not know.
        let _refused = unsafe { mallopt(param, value) };
    }
}

/// Gives freed memory back soon, where the C library can be told to.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_freed_memory_back() {}
