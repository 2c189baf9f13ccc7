//! Every atomic, lock and yield of this crate, so that shuttle can take their place.
//!
//! Invariants: lock-free steps use these types only; `cfg(shuttle)` swaps them for a controlled scheduler's

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering, fence,
};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Locks, taking over from a holder that panicked: every structure behind a lock here is consistent between calls.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks if nobody holds the lock, taking over from a holder that panicked.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    use std::sync::TryLockError;
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Waits a moment for another thread: spins first, then lets it run, then sleeps, so that the core is free for whom it waits for.
pub(crate) fn pause(turn: &mut u32) {
    *turn += 1;
    if cfg!(shuttle) || (SPINS_MAX < *turn && *turn <= AWAKE_MAX) {
        give_way();
    } else if AWAKE_MAX < *turn {
        nap();
    } else {
        std::hint::spin_loop();
    }
}

/// Spins before yielding: about a microsecond, longer than a critical section that is not preempted.
const SPINS_MAX: u32 = 40;
/// Spins and yields before sleeping. A yield takes about a microsecond where nobody else wants the core, and a thread that was sent away on
/// another core stays away for milliseconds (guess: some ten of the shortest sleeps' overhead).
const AWAKE_MAX: u32 = SPINS_MAX + 50;

/// Lets other threads run.
#[cfg(not(shuttle))]
pub(crate) fn give_way() {
    #[cfg(test)]
    GAVE_WAY.set(GAVE_WAY.get() + 1);
    std::thread::yield_now();
}

/// Sleeps a moment: the system makes a tenth of a millisecond of it.
#[cfg(not(shuttle))]
pub(crate) fn nap() {
    #[cfg(test)]
    NAPS.set(NAPS.get() + 1);
    std::thread::sleep(std::time::Duration::from_micros(50));
}

#[cfg(shuttle)]
pub(crate) fn nap() {
    give_way();
}

#[cfg(test)]
#[cfg(not(shuttle))]
thread_local! {
    /// How often the calling thread did.
    pub(crate) static GAVE_WAY: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// How often it slept.
    pub(crate) static NAPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(shuttle)]
pub(crate) fn give_way() {
    shuttle::thread::yield_now();
}

/// Runs a test under generated schedules: uniformly random ones, and such as have few but nasty preemptions (PCT).
/// A failure prints the schedule, which `shuttle::replay` repeats.
#[cfg(test)]
#[cfg(shuttle)]
pub(crate) fn explore(schedules: usize, test: fn()) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(RandomScheduler::new(schedules), config.clone()).run(test);
    shuttle::Runner::new(PctScheduler::new(4, schedules), config).run(test);
}

/// Adds to a counter that only the calling thread writes: no lock prefix.
#[inline]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_long_sleeps() {
        let (gave_way, naps) = (GAVE_WAY.get(), NAPS.get());
        let mut turn = 0;
        (0..SPINS_MAX).for_each(|_| pause(&mut turn));
        assert_eq!((GAVE_WAY.get() - gave_way, NAPS.get() - naps), (0, 0), "a lock is held for less");
        (SPINS_MAX..AWAKE_MAX + 3).for_each(|_| pause(&mut turn));
        assert_eq!((GAVE_WAY.get() - gave_way, NAPS.get() - naps), (50, 3));
    }

    #[test]
    fn a_lock_is_had_behind_a_holder_that_panicked_and_not_beside_one() {
        let mutex = Mutex::new(1);
        let held = lock(&mutex);
        assert!(try_lock(&mutex).is_none());
        drop(held);
        let fail = std::panic::AssertUnwindSafe(|| {
            let _held = lock(&mutex);
            panic!("the holder's end");
        });
        std::panic::catch_unwind(fail).unwrap_err();
        assert_eq!(try_lock(&mutex).map(|held| *held), Some(1));
    }
}
