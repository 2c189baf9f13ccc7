//! Pages of a mapped file that its disk does not give: zeroed memory takes their place, and the process goes on.
//!
//! Shape:       words of a file -> the same under watch, and whether any of their pages was lost
//! Invariants:  a fault outside of watched regions goes to whoever handled it before; the handler takes no lock and allocates nothing
//! Assumptions: 1. SIGBUS says at which address; 2. memory can be mapped over a page while other threads fault on it
//! Failure:     a region that is one too many is not watched, and where the system has no memory or no place in its map (some 65,000
//!              pages lost one by one) the process ends as it would without a watch
//! Cost:        nothing without a fault; a system call for a lost page

#![allow(unsafe_code, reason = "a signal's handler, and a mapping over a page that cannot be had")]

use crate::WordRegion;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Regions that are watched at once: twice the tiers that a store has.
const WATCHED_MAX: usize = 16;
const PAGE: usize = super::PAGE_LEN;

static SLOTS: [Slot; WATCHED_MAX] = [const { Slot::free() }; WATCHED_MAX];
/// What the process did about such faults before.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// Addresses under watch. Whoever has `taken` it publishes `start`, then `end`, and takes `end` back first; the handler looks at `end` between
/// two looks at `start`, so that it never takes another's end for that start's.
#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Set by the handler before it lets the one go on who faulted.
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
        let start = self.start.load(Ordering::SeqCst);
        let is_inside = start <= at && at < self.end.load(Ordering::SeqCst);
        is_inside && start == self.start.load(Ordering::SeqCst)
    }
}

/// Words of a file of which pages may be lost.
#[derive(Debug)]
pub(super) struct Watched {
    slot: Option<&'static Slot>,
    words: WordRegion,
}

impl Watched {
    /// Watches words of a file.
    pub(super) fn new(words: WordRegion) -> Self {
        let is_handled = BEFORE.get_or_init(handle).is_some();
        let free = |slot: &&Slot| !slot.taken.swap(true, Ordering::AcqRel);
        let slot = if is_handled { SLOTS.iter().find(free) } else { None };
        if let Some(slot) = slot {
            let start = words.region().start().as_ptr().addr();
            slot.lost.store(false, Ordering::Relaxed);
            slot.start.store(start, Ordering::SeqCst);
            slot.end.store(start + words.region().len(), Ordering::SeqCst);
        }
        Self { slot, words }
    }

    /// The words.
    pub(super) fn words(&self) -> &WordRegion {
        &self.words
    }

    /// Whether words may read as zero that are not.
    #[inline]
    pub(super) fn is_any_lost(&self) -> bool {
        self.slot.is_some_and(|slot| slot.lost.load(Ordering::Acquire))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The words go after this.
        if let Some(slot) = self.slot {
            slot.end.store(0, Ordering::SeqCst);
            slot.start.store(0, Ordering::SeqCst);
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
    use crate::Region;
    use std::fs::File;
    use units::Bytes;

    fn watched(file: &File) -> Watched {
        Watched::new(WordRegion::of(Region::of_file(file, 0, Bytes(4 * PAGE as u64), false).unwrap()))
    }

    #[test]
    fn words_behind_the_end_of_a_file_read_as_zero_and_are_lost() {
        let path = std::env::temp_dir().join(format!("lost-pages-{}", std::process::id()));
        std::fs::write(&path, [7_u8; 4 * PAGE]).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let notes = watched(&file);
        assert!(notes.slot.is_some(), "it is watched");
        let word = |page: usize| &notes.words().words()[page * PAGE / 8];
        file.set_len(2 * PAGE as u64).unwrap();
        let sevens = u64::from_le_bytes([7; 8]);
        assert_eq!((word(1).load(Ordering::Relaxed), notes.is_any_lost()), (sevens, false));
        assert_eq!((word(2).load(Ordering::Relaxed), notes.is_any_lost()), (0, true));
        word(3).store(5, Ordering::Relaxed);
        assert_eq!((word(3).load(Ordering::Relaxed), word(1).load(Ordering::Relaxed)), (5, sevens));
        drop(notes);
        // Of more than there are places for some are not watched; whoever comes later begins with nothing lost.
        let many: Vec<_> = (0..2 * WATCHED_MAX).map(|_| watched(&file)).collect();
        let places = many.iter().filter(|one| one.slot.is_some()).count();
        assert!((1..=WATCHED_MAX).contains(&places) && many.iter().all(|one| !one.is_any_lost()), "{places}");
    }
}
