//! Pages of a mapped file that its disk does not give: zeroed memory takes their place, and the process goes on.
//!
//! Shape:       a region under watch -> whether any of its pages was lost
//! Invariants:  a fault outside of watched regions goes to whoever handled it before; the handler takes no lock and allocates nothing
//! Assumptions: 1. SIGBUS says at which address; 2. memory can be mapped over a page while other threads fault on it
//! Failure:     a region that is one too many is not watched, and where the system has no memory for a page the process ends as
//!              it would without a watch
//! Cost:        nothing without a fault; a system call for a lost page

#![allow(unsafe_code, reason = "a signal's handler, and a mapping over a page that cannot be had")]

use crate::Region;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Regions that are watched at once.
const WATCHED_MAX: usize = 16;
const PAGE: usize = 4096;

static SLOTS: [Slot; WATCHED_MAX] = [const { Slot::free() }; WATCHED_MAX];
/// What the process did about such faults before.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Addresses under watch.
#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

impl Slot {
    const fn free() -> Self {
        Self {
            taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
        }
    }

    fn has(&self, at: usize) -> bool {
        self.start.load(Ordering::Acquire) <= at && at < self.end.load(Ordering::Acquire)
    }
}

/// A region under watch as long as this lives, which the region outlives.
#[derive(Debug)]
pub(super) struct LostPages(Option<&'static Slot>);

impl LostPages {
    /// Watches a region that is used as atomic words only.
    pub(super) fn watch(region: &Region) -> Self {
        if BEFORE.get_or_init(handle).is_none() {
            return Self(None);
        }
        let slot = SLOTS.iter().find(|slot| !slot.taken.swap(true, Ordering::AcqRel));
        if let Some(slot) = slot {
            let start = region.start().as_ptr().addr();
            slot.lost.store(false, Ordering::Relaxed);
            slot.start.store(start, Ordering::Release);
            slot.end.store(start + region.len(), Ordering::Release);
        }
        Self(slot)
    }

    /// Whether words of the region may read as zero that are not.
    pub(super) fn is_any(&self) -> bool {
        self.0.is_some_and(|slot| slot.lost.load(Ordering::Acquire))
    }
}

impl Drop for LostPages {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.end.store(0, Ordering::Release);
            slot.start.store(0, Ordering::Release);
            slot.taken.store(false, Ordering::Release);
        }
    }
}

/// Handles such faults from now on; what was done before, or none if the system refuses it.
fn handle() -> Option<libc::sigaction> {
    // SAFETY: a set of flags and pointers, of which all zeros is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both point to this function's variables; the handler does what handlers may.
    let done = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
    (done == 0).then_some(before)
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system hands a handler with SA_SIGINFO what it says of the signal.
    let info_of = unsafe { &*info };
    // SAFETY: of a SIGBUS it says the address.
    let at = unsafe { info_of.si_addr() };
    if let Some(slot) = SLOTS.iter().find(|slot| slot.has(at.addr())) {
        slot.lost.store(true, Ordering::Release);
        let page = at.map_addr(|at| at / PAGE * PAGE);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        // SAFETY: a page of a mapping that lives as long as its slot is taken, and that nobody has byte references to: whoever
        // reads words there reads zeros.
        if unsafe { mmap_anonymous(page, PAGE, protection, flags) }.is_ok() {
            return;
        }
    }
    hand_on(signal, info, context);
}

/// Lets whoever handled such faults before have it; by default it comes again and ends the process.
fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().and_then(Option::as_ref);
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: sets the default, which a handler may.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    } else if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
        // SAFETY: what was registered as a handler with these arguments.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: what was registered as a handler with this argument.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::WordRegion;
    use units::Bytes;

    #[test]
    fn words_behind_the_end_of_a_file_read_as_zero_and_are_lost() {
        let path = std::env::temp_dir().join(format!("lost-pages-{}", std::process::id()));
        std::fs::write(&path, [7_u8; 4 * PAGE]).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let region = Region::of_file(&file, 0, Bytes(4 * PAGE as u64), false).unwrap();
        let lost = LostPages::watch(&region);
        let words = WordRegion::of(region);
        let word = |page: usize| &words.words()[page * PAGE / 8];
        file.set_len(2 * PAGE as u64).unwrap();
        let sevens = u64::from_le_bytes([7; 8]);
        assert_eq!((word(1).load(Ordering::Relaxed), lost.is_any()), (sevens, false));
        assert_eq!((word(2).load(Ordering::Relaxed), lost.is_any()), (0, true));
        word(3).store(5, Ordering::Relaxed);
        assert_eq!((word(3).load(Ordering::Relaxed), word(1).load(Ordering::Relaxed)), (5, sevens));
        drop(lost);
        assert!(!LostPages::watch(words.region()).is_any(), "a watch begins with nothing lost");
    }

    #[test]
    fn one_too_many_is_not_watched() {
        let regions: Vec<_> = (0..2 * WATCHED_MAX).map(|_| Region::anonymous(Bytes(1)).unwrap()).collect();
        let watches: Vec<_> = regions.iter().map(LostPages::watch).collect();
        let watched = watches.iter().filter(|watch| watch.0.is_some()).count();
        assert!((1..=WATCHED_MAX).contains(&watched), "{watched}");
    }
}
