//! Quiescent-state reclamation: a segment is reused only when no thread can still read what it held.
//!
//! Shape:      a thread is online with the epoch that it last announced, or offline; retiring something returns an
//!             epoch; it may be reused once every online thread has announced that epoch or a later one
//! Invariants: a reference into the log is held only between two announcements of one thread (the borrow of `Slot`)
//! Cost:       one store per announcement

use crate::limits::THREADS_MAX;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

const OFFLINE: u64 = 0;
/// Places for threads; few under shuttle, where every look at one is a step.
const PLACES: usize = if cfg!(shuttle) { 4 } else { THREADS_MAX };

/// The epochs of one store.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// Publishes retirements: a thread that reads it (Acquire) sees what was unlinked before it was raised (Release).
    global: AtomicU64,
    /// What each thread announced. Release by its thread; Acquire by whoever wants to reuse.
    announced: Box<[CachePadded<AtomicU64>]>,
    free: Mutex<Vec<usize>>,
}

/// One thread's place. References into the log borrow it, announcing takes it mutably.
#[derive(Debug)]
pub(crate) struct Participant {
    epochs: Arc<Epochs>,
    at: usize,
    online: bool,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        let announced = (0..PLACES).map(|_| CachePadded::new(AtomicU64::new(OFFLINE))).collect();
        Self { global: AtomicU64::new(1), announced, free: Mutex::new((0..PLACES).rev().collect()) }
    }

    /// Registers a thread, online; none if too many are registered.
    pub(crate) fn join(self: &Arc<Self>) -> Option<Participant> {
        let at = lock(&self.free).pop()?;
        let mut participant = Participant { epochs: Arc::clone(self), at, online: false };
        participant.go_online();
        Some(participant)
    }

    /// What was unlinked before this call may be reused once `is_past` holds for the returned epoch.
    pub(crate) fn retire(&self) -> u64 {
        // The fence pairs with the one in `go_online`: either the thread that comes online sees the unlinking, or
        // `is_past` sees that it is online.
        fence(Ordering::SeqCst);
        self.global.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether no thread can hold a reference that is older than `epoch`.
    pub(crate) fn is_past(&self, epoch: u64) -> bool {
        fence(Ordering::SeqCst);
        self.announced.iter().all(|slot| {
            let announced = slot.load(Ordering::Acquire);
            announced == OFFLINE || epoch <= announced
        })
    }
}

impl Participant {
    /// Announces that this thread holds no reference any more; the mutable borrow proves it.
    #[inline]
    pub(crate) fn quiesce(&mut self) {
        if self.online {
            let now = self.epochs.global.load(Ordering::Acquire);
            self.epochs.announced[self.at].store(now, Ordering::Release);
        }
    }

    /// Leaves: others need not wait for this thread, which must not touch the log until it is back.
    pub(crate) fn go_offline(&mut self) {
        self.epochs.announced[self.at].store(OFFLINE, Ordering::Release);
        self.online = false;
    }

    /// Comes back.
    pub(crate) fn go_online(&mut self) {
        let now = self.epochs.global.load(Ordering::Acquire);
        // Release: who sees this thread here again also sees that it is done with what it read before it left.
        self.epochs.announced[self.at].store(now, Ordering::Release);
        fence(Ordering::SeqCst);
        self.online = true;
    }

    /// Does something that may take long and touches no log: others need not wait for this thread meanwhile.
    pub(crate) fn apart<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let was_online = self.online;
        self.go_offline();
        let done = act();
        if was_online {
            self.go_online();
        }
        done
    }

    /// Whether references into the log may be taken.
    #[inline]
    pub(crate) fn is_online(&self) -> bool {
        self.online
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.go_offline();
        lock(&self.epochs.free).push(self.at);
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn reuse_waits_for_every_online_thread() {
        let epochs = Arc::new(Epochs::new());
        let mut a = epochs.join().unwrap();
        let mut b = epochs.join().unwrap();
        let retired = epochs.retire();
        assert!(!epochs.is_past(retired));
        a.quiesce();
        assert!(!epochs.is_past(retired), "b has not announced");
        b.go_offline();
        assert!(epochs.is_past(retired));
        b.go_online();
        assert!(epochs.is_past(retired), "b came online after the retirement");
        let later = epochs.retire();
        drop(b);
        assert!(!epochs.is_past(later));
        drop(a);
        assert!(epochs.is_past(later));
    }
}
