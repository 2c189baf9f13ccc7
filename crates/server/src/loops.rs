//! The threads behind the workers: the control loop, the cleaner, the clock.
//!
//! Shape:      workers wake them; each also wakes by itself
//! Invariants: no request waits for them

use crate::admission::until;
use crate::limits::{JOURNAL_RECORDS, JOURNAL_ROWS, SHADOW_HITS_PER_DECISION};
use crate::reactor::Waker;
use crate::shared::Shared;
use crate::sharing::REST_MAX;
use crate::tenants::Router;
use control::{Loop, Policy as _};
use policy::memory::MemoryPolicy as Policy;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use store::MemoryControl;
use units::{Duration, Instant};

/// The loop about bandwidth is watched this often at most while its lease has ended (guess: some of its shortest turns).
const WATCH_AGAIN: Duration = Duration::from_millis(5);

/// A decision that is due, and cannot be made now, is looked after again so soon (guess: some times what tenants take to change places).
const DECIDE_AGAIN: Duration = Duration::from_millis(5);

/// The control loop about memory, which the administration reads.
pub(crate) type MemoryLoop = Arc<Mutex<Loop<Policy>>>;

/// A bell that wakes one thread; ringing it twice wakes it once.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
    waiting: AtomicBool,
}

/// The bells of the helping threads.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    cleaners: [Bell; store::CLEANERS_MAX],
    control: Bell,
    bandwidth: Bell,
    /// Of the workers, once they are there.
    workers: OnceLock<Vec<Arc<Waker>>>,
}

impl Bell {
    fn ring(&self) {
        // Relaxed: a ring that is missed is made up for by the next, or by the thread's own waking.
        if self.waiting.load(Ordering::Relaxed) {
            self.ring_surely();
        }
    }

    /// The same where a ring must not be missed, by a thread that is about to wait either.
    fn ring_surely(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    /// Waits for a ring, at most so long. Returns whether there was one.
    fn wait(&self, most: Duration) -> bool {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.store(true, Ordering::Relaxed);
        if !*rung {
            let waited = self.heard.wait_timeout(rung, most.to_std());
            rung = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.waiting.store(false, Ordering::Relaxed);
        std::mem::take(&mut *rung)
    }
}

impl Helpers {
    /// Wakes the first cleaner, and as many others as passes are wanted of them.
    pub(crate) fn wake_cleaners(&self, passes: usize) {
        for bell in &self.cleaners[..passes.clamp(1, store::CLEANERS_MAX)] {
            bell.ring();
        }
    }

    pub(crate) fn wake_control(&self) {
        self.control.ring();
    }

    pub(crate) fn wake_bandwidth(&self) {
        self.bandwidth.ring_surely();
    }

    /// Lets every thread look whether it is to stop.
    pub(crate) fn wake_all(&self) {
        self.wake_workers();
        self.wake_cleaners(store::CLEANERS_MAX);
        self.wake_control();
        self.wake_bandwidth();
    }

    /// Says who wakes the workers, once.
    pub(crate) fn know_workers(&self, wakers: Vec<Arc<Waker>>) {
        let _said_before = self.workers.set(wakers);
    }

    /// Lets the workers look again at what they wait for.
    pub(crate) fn wake_workers(&self) {
        for waker in self.workers.get().into_iter().flatten() {
            // One that cannot be woken wakes by itself.
            let _woken = waker.wake();
        }
    }
}

/// The loop of a policy.
pub(crate) fn memory_loop(policy: Policy) -> MemoryLoop {
    let mut pacer = Loop::new(policy, JOURNAL_RECORDS);
    pacer.limit_journal_rows(JOURNAL_ROWS);
    Arc::new(Mutex::new(pacer))
}

/// Runs the control loop and the clock until the server stops.
pub(crate) fn control(
    shared: &Shared,
    router: &Router,
    helpers: &Helpers,
    memory: &Mutex<Loop<Policy>>,
    stop: &AtomicBool,
) {
    let store = Arc::clone(&shared.store);
    let mut thing = MemoryControl::new(store);
    let mut due = Instant::ZERO;
    while !stop.load(Ordering::Acquire) {
        shared.tick();
        shared.account_external();
        let now = shared.clock.now();
        thing.look(now);
        shared.cleaning.govern(shared);
        shared.curves.lock().unwrap_or_else(PoisonError::into_inner).run(now);
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        if is_decision_wanted(shared, &router.has_new_tenant, due <= now) {
            let division = shared.in_charge.now();
            thing.set_private(division.terms.private);
            thing.set_groups(&division.reserve_and_weigh());
            thing.watch_idle(memory.policy().wants_idle().then_some(division.terms.idle_time));
            due = now + memory.step(now, &mut thing);
            let decisions = memory.journal().recorded_total();
            shared.controller.note(memory.policy().name(), decisions, now);
        }
        drop(memory);
        router.look_for_free_ids();
        let watch = shared.sharing.watch(now).map_or(WATCH_AGAIN, |at| until(at, now));
        // The clock ticks with the whole second.
        let to_tick = Duration(1_000_000_000 - now.0 % 1_000_000_000);
        // What is due already waits for tenants and groups that change places.
        let to_decide = if due <= now { DECIDE_AGAIN } else { due.since(now) };
        helpers.control.wait(to_tick.min(to_decide).min(watch.max(WATCH_AGAIN)));
    }
}

/// Whether somebody asks for a decision about memory, or it is due. Who asks while tenants and groups change places is heard behind that.
/// Called with the loop's lock, which they begin under: nobody does so between this and the decision.
fn is_decision_wanted(shared: &Shared, is_asked: &AtomicBool, is_due: bool) -> bool {
    !shared.is_regrouping.load(Ordering::Acquire)
        && (is_asked.swap(false, Ordering::Acquire)
            || is_due
            || SHADOW_HITS_PER_DECISION <= shared.store.pending_shadow_hits())
}

/// Runs the loop about bandwidth until the server stops. A step that fails is no end of it; its end lets everybody go, for the workers answer
/// what has arrived.
pub(crate) fn bandwidth(shared: &Shared, helpers: &Helpers, stop: &AtomicBool) {
    let mut let_go = 0;
    keep_stepping(
        stop,
        || {
            let wake = shared.sharing.step(shared);
            let before = std::mem::replace(&mut let_go, shared.store.times_let_go());
            if before != let_go {
                helpers.wake_workers();
            }
            shared.sharing.rest(wake.min(REST_MAX), shared, |most| helpers.bandwidth.wait(most));
        },
        || {
            shared.sharing.begin_again();
            helpers.bandwidth.wait(REST_MAX);
        },
    );
    shared.sharing.end(shared.clock.now());
    helpers.wake_workers();
}

/// Steps, each with the rest that follows, until it is to stop; after one that panics `begin_again` is called.
fn keep_stepping(stop: &AtomicBool, mut step: impl FnMut(), mut begin_again: impl FnMut()) {
    while !stop.load(Ordering::Acquire) {
        if catch_unwind(AssertUnwindSafe(&mut step)).is_err() {
            begin_again();
        }
    }
}

/// Pause of a cleaner that may not evict and has found nothing dead: a full memory stays full for a while, and a worker
/// that needs room looks for itself.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Cleans until the server stops: the first cleaner does all that is to be done behind the workers, the others only passes
/// that it cannot keep up with.
pub(crate) fn clean(
    mut worker: store::Worker,
    number: usize,
    shared: &Shared,
    helpers: &Helpers,
    stop: &AtomicBool,
) {
    let (clock, store) = (&*shared.clock, &*shared.store);
    while !stop.load(Ordering::Acquire) {
        worker.go_online();
        // One pass after another while there is need; others are let in between them.
        let turn =
            |worker: &mut store::Worker| {
                shared
                    .cleaning
                    .timed(clock, store, || if number == 0 { worker.maintain() } else { worker.help() })
            };
        while turn(&mut worker) && !stop.load(Ordering::Acquire) {
            // Nobody waits for this thread while it adds up what all tenants were asked.
            worker.go_offline();
            shared.cleaning.govern(shared);
            worker.go_online();
        }
        let needed = if number == 0 { store.wants_cleaning() } else { number < store.passes_wanted() };
        worker.go_offline();
        if needed && shared.config.no_evict {
            std::thread::sleep(FULL_PAUSE.to_std());
        }
        let (soon, late) = (Duration::from_millis(1), Duration::from_secs(1));
        let waits =
            || store.pass_waits().filter(|_| number == 0).map_or(late, |waits| waits.clamp(soon, late));
        helpers.cleaners[number].wait(if needed { soon } else { waits() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn who_asks_while_tenants_change_places_is_heard_behind_that() {
        let (shared, asked) = (crate::testing::small(2), AtomicBool::new(true));
        shared.is_regrouping.store(true, Ordering::Release);
        assert!(!is_decision_wanted(&shared, &asked, true), "nobody decides meanwhile");
        shared.is_regrouping.store(false, Ordering::Release);
        assert!(is_decision_wanted(&shared, &asked, false), "it was not forgotten");
        assert!(!is_decision_wanted(&shared, &asked, false), "once");
        assert!(is_decision_wanted(&shared, &asked, true));
    }

    #[test]
    fn a_step_that_panics_is_no_end_of_stepping() {
        let (stop, steps, begun) = (AtomicBool::new(false), Cell::new(0), Cell::new(0));
        keep_stepping(
            &stop,
            || {
                steps.set(steps.get() + 1);
                assert_ne!(steps.get(), 2, "the second one fails");
                stop.store(steps.get() == 4, Ordering::Release);
            },
            || begun.set(begun.get() + 1),
        );
        assert_eq!((steps.get(), begun.get()), (4, 1));
    }
}
