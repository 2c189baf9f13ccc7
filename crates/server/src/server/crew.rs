//! The threads of a server that is being started: a start that fails ends those that it has started.
//!
//! Invariants: no thread is left behind without somebody who can end it

use super::gate::{Gate, Pass};
use crate::loops::Helpers;
use crate::reactor::Waker;
use crate::vigil::Vigil;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// Threads of a server, as long as not all have been started.
pub(super) struct Crew {
    vigil: Arc<Vigil>,
    helpers: Arc<Helpers>,
    pub(super) threads: Vec<JoinHandle<()>>,
    /// Of the workers: the helpers know them once all are there.
    pub(super) wakers: Vec<Arc<Waker>>,
    gate: Gate,
}

impl Crew {
    /// Nobody yet.
    pub(super) fn new(vigil: &Arc<Vigil>, helpers: &Arc<Helpers>) -> Self {
        let (vigil, helpers) = (Arc::clone(vigil), Arc::clone(helpers));
        Self { vigil, helpers, threads: Vec::new(), wakers: Vec::new(), gate: Gate::default() }
    }

    /// A place behind the gate.
    pub(super) fn pass(&mut self) -> Pass {
        self.gate.pass()
    }

    /// Lets those behind the gate act.
    pub(super) fn open_gate(&mut self) {
        std::mem::take(&mut self.gate).open();
    }

    /// Hands over all of them: the server runs, and ends them when it ends.
    pub(super) fn all_are_there(mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.threads)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        // Before the gate goes: nobody behind it is taken for one that has ended by itself.
        self.vigil.stop().store(true, Ordering::Release);
        drop(std::mem::take(&mut self.gate));
        self.helpers.wake_all();
        for waker in &self.wakers {
            // One that cannot be woken wakes by itself.
            let _woken = waker.wake();
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread had panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_start_that_fails_ends_its_threads_and_one_that_does_not_keeps_them() {
        for fails in [true, false] {
            let (vigil, helpers) = (Arc::new(Vigil::default()), Arc::new(Helpers::default()));
            let (mut crew, ended) = (Crew::new(&vigil, &helpers), Arc::new(AtomicUsize::new(0)));
            for _ in 0..2 {
                let (stop, ended) = (Arc::clone(vigil.stop()), Arc::clone(&ended));
                let act = move || {
                    while !stop.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    ended.fetch_add(1, Ordering::Release);
                };
                crew.threads.push(vigil.spawn("worker", act).unwrap());
            }
            if fails {
                drop(crew);
                assert_eq!(ended.load(Ordering::Acquire), 2);
                continue;
            }
            let threads = crew.all_are_there();
            assert!(!vigil.stop().load(Ordering::Acquire), "it runs");
            vigil.stop().store(true, Ordering::Release);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }
}
