//! What is asked of the system about a region's pages: huge ones, none in dumps, touched ahead, given back.
//!
//! Assumptions: 1. `MADV_DONTNEED` on a private anonymous mapping, `MADV_DONTNEED_LOCKED` on a locked one, makes pages read as zero
//!              again, also for readers that race with it; 2. other advice changes no content
//! Failure:     pages that the system does not have are an error where they are asked for; other advice that it refuses is ignored

#![allow(unsafe_code, reason = "advises the system about a mapping; see the SAFETY comments")]

use super::{PAGE, Region};
use std::io;

impl Region {
    /// Asks for whole huge pages. Refusal costs speed only.
    pub fn prefer_huge_pages(&self) {
        self.prefer_huge_pages_in(0, self.len);
    }

    /// The same for a range.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub fn prefer_huge_pages_in(&self, offset: usize, len: usize) {
        assert!(self.contains(offset, len), "advice outside of the region");
        #[cfg(not(miri))]
        {
            use rustix::mm::{Advice, madvise};
            let (at, len) = self.pages_around(offset, len);
            // SAFETY: the range is inside this live mapping; the advice changes no content.
            let _refused = unsafe { madvise(at, len, Advice::LinuxHugepage) };
        }
    }

    /// Makes huge pages of a range at once, and takes memory for what of it was not touched yet; threads that touch it wait meanwhile. Where
    /// huge pages are switched off altogether it makes none.
    ///
    /// # Errors
    /// If the system has none to spare, or does not know the advice (before Linux 6.1).
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub fn make_huge_pages_in(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(self.contains(offset, len), "advice outside of the region");
        #[cfg(not(miri))]
        {
            // The advice alone would make them against the administrator's will.
            let state = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")?;
            if state.contains("[never]") {
                return Ok(());
            }
            let (at, len) = self.pages_around(offset, len);
            // SAFETY: the range is inside this live mapping; the advice changes no content.
            if unsafe { libc::madvise(at, len, libc::MADV_COLLAPSE) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Asks for small pages only, where memory counts to the page.
    pub fn refuse_huge_pages(&self) {
        #[cfg(not(miri))]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the range is exactly this live mapping; the advice changes no content.
            let _refused = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxNoHugepage) };
        }
    }

    /// Leaves the region out of core dumps: it holds other people's data. Refusal only makes dumps larger.
    pub fn leave_out_of_dumps(&self) {
        #[cfg(not(miri))]
        {
            use rustix::mm::{Advice, madvise};
            // SAFETY: the range is exactly this live mapping; the advice changes no content.
            let _refused = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontDump) };
        }
    }

    /// Touches the pages of a range for writing without changing them, so that a later first touch costs nothing.
    ///
    /// # Errors
    /// If the system has not enough memory for them, or does not know the advice: Linux before 5.14 answers "invalid input".
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(self.contains(offset, len), "populate outside of the region");
        #[cfg(not(miri))]
        {
            use rustix::mm::{Advice, madvise};
            let (at, len) = self.pages_around(offset, len);
            // SAFETY: the range is inside this live mapping; populating changes no content.
            unsafe { madvise(at, len, Advice::LinuxPopulateWrite) }?;
        }
        Ok(())
    }

    /// Gives the whole pages inside a range back to the system; they read as zero afterwards. Pages of a file stay.
    ///
    /// # Safety
    /// No reference obtained from [`Region::bytes`] to these bytes may be alive. Atomic words may be: their readers
    /// see the old value or zero.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub unsafe fn release(&self, offset: usize, len: usize) {
        assert!(self.contains(offset, len), "release outside of the region");
        let start = offset.next_multiple_of(PAGE);
        let end = (offset + len) / PAGE * PAGE;
        if end <= start || self.is_file {
            return;
        }
        #[cfg(not(miri))]
        {
            // SAFETY: `start` is inside the mapping, checked above.
            let at = unsafe { self.base.as_ptr().add(start) };
            // SAFETY: whole pages inside this live private anonymous mapping; the caller holds no references.
            let _refused = unsafe { give_back(at.cast(), end - start) };
        }
    }
}

/// Gives pages back, locked ones too.
///
/// # Safety
/// Whole pages of a live private anonymous mapping, to which no reference leads.
#[cfg(not(miri))]
unsafe fn give_back(at: *mut std::ffi::c_void, len: usize) -> rustix::io::Result<()> {
    use rustix::io::Errno;
    use rustix::mm::{Advice, MlockFlags, madvise, mlock_with, munlock};
    // SAFETY: the caller's promise.
    let advise = |advice| unsafe { madvise(at, len, advice) };
    // Locked memory (`-k`) is given back by a call of its own, before Linux 5.18 by none.
    for advice in [Advice::LinuxDontNeed, Advice::LinuxDontneedLocked] {
        match advise(advice) {
            Err(Errno::INVAL) => {}
            done => return done,
        }
    }
    // SAFETY: the same.
    unsafe { munlock(at, len) }?;
    advise(Advice::LinuxDontNeed)?;
    // SAFETY: the same. It was the lock that stood in the way: pages are locked again as they are touched.
    unsafe { mlock_with(at, len, MlockFlags::ONFAULT) }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn pages_that_cannot_be_had_are_an_error() {
        let path = std::env::current_exe().unwrap().with_file_name(format!("beyond-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let beyond = Region::of_file(&file, 0, Bytes(PAGE as u64), false).unwrap();
        assert!(beyond.populate(0, PAGE).is_err(), "the file ends before them");
        std::fs::remove_file(path).unwrap();
    }

    /// Whether as much of the mapping that it is in is in huge pages as it is long, as the system tells.
    fn is_huge(region: &Region) -> bool {
        let at = region.base.addr().get();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let is_it = |line: &&str| {
            let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = ends.and_then(|(from, to)| {
                Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
            });
            ends.is_some_and(|(from, to)| from <= at && at < to)
        };
        let line =
            maps.lines().skip_while(|line| !is_it(line)).find(|line| line.starts_with("AnonHugePages:"));
        let kib =
            line.and_then(|line| line.split_whitespace().nth(1)).expect("every mapping has such a line");
        region.len >> 10 <= kib.parse().unwrap()
    }

    #[test]
    fn huge_pages_are_made_of_pages_that_are_in_use() {
        use crate::region::HUGE_PAGE;
        let region = Region::anonymous(Bytes(2 * HUGE_PAGE as u64)).unwrap();
        assert!(region.base.addr().get().is_multiple_of(HUGE_PAGE), "it begins where a huge page can");
        region.refuse_huge_pages();
        for at in (0..region.len).step_by(PAGE) {
            // SAFETY: this thread alone uses the region.
            unsafe { region.write(at, b"1234") };
        }
        assert!(!is_huge(&region));
        region.prefer_huge_pages();
        match region.make_huge_pages_in(0, region.len) {
            Ok(()) => {
                let state = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
                assert_eq!(is_huge(&region), !state.contains("[never]"));
            }
            Err(error) => println!("skipped: no huge pages here: {error}"),
        }
        // SAFETY: this thread alone uses the region.
        assert!((0..region.len).step_by(PAGE).all(|at| unsafe { region.bytes(at, 4) } == b"1234"));
    }

    #[test]
    fn locked_pages_are_given_back_too() {
        use rustix::mm::{MlockFlags, mlock_with};
        let region = Region::anonymous(Bytes(2 * PAGE as u64)).unwrap();
        // SAFETY: the whole of a live mapping.
        unsafe { mlock_with(region.base.as_ptr().cast(), 2 * PAGE, MlockFlags::ONFAULT) }.unwrap();
        for _ in 0..2 {
            // SAFETY: this thread alone uses the region.
            unsafe { region.write(PAGE - 2, b"abcd") };
            // SAFETY: no slice is alive.
            unsafe { region.release(0, PAGE) };
            // SAFETY: this thread alone uses the region.
            assert_eq!(unsafe { region.bytes(PAGE - 2, 4) }, b"\0\0cd");
        }
    }
}
