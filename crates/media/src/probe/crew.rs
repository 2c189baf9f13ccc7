//! Threads that begin together, or none of them.
//!
//! Shape:   jobs -> a thread for each, which makes ready and then waits at the gate for the others -> what each job found
//! Failure: a thread that the system refuses is an error; those that were started go home

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

/// What threads wait at until all are there.
#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    awaited: usize,
    given_up: bool,
}

impl Gate {
    fn new(awaited: usize) -> Self {
        Self { state: Mutex::new(State { awaited, given_up: false }), changed: Condvar::new() }
    }

    /// Waits until all have come.
    ///
    /// # Errors
    /// If they do not.
    pub(super) fn pass(&self) -> io::Result<()> {
        self.change(|state| state.awaited -= 1);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| 0 < state.awaited && !state.given_up;
        let state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        if state.given_up { Err(io::Error::other("not all threads could be started")) } else { Ok(()) }
    }

    fn give_up(&self) {
        self.change(|state| state.given_up = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Runs every job on a thread of its own, which `builder` is asked for; each comes to the gate once.
///
/// # Errors
/// The first of what the system refuses and of what jobs fail with.
pub(super) fn at_once<J: Sync, T: Send>(
    jobs: &[J],
    builder: impl Fn(usize) -> io::Result<Builder>,
    run: impl Fn(usize, &J, &Gate) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let (gate, run) = (&Gate::new(jobs.len()), &run);
    std::thread::scope(|scope| {
        let start = |(thread, job)| builder(thread)?.spawn_scoped(scope, move || run(thread, job, gate));
        let started: io::Result<Vec<_>> = jobs.iter().enumerate().map(start).collect();
        if started.is_err() {
            gate.give_up();
        }
        // All are joined before one that failed is told of.
        let found: Vec<_> = started?.into_iter().map(ScopedJoinHandle::join).collect();
        let of = |found: Result<_, _>| found.unwrap_or_else(|_panic| Err(io::Error::other("a prober died")));
        found.into_iter().map(of).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_begin_once_all_are_there() {
        let there = AtomicUsize::new(0);
        let run = |thread, job: &u32, gate: &Gate| {
            there.fetch_add(1, Ordering::Relaxed);
            gate.pass()?;
            Ok((thread, *job, there.load(Ordering::Relaxed)))
        };
        let found = at_once(&[7, 8, 9], |_| Ok(Builder::new()), run).unwrap();
        assert_eq!(found, [(0, 7, 3), (1, 8, 3), (2, 9, 3)]);
        assert!(at_once(&[], |_| Ok(Builder::new()), run).unwrap().is_empty());
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_and_the_others_go_home() {
        let begun = AtomicUsize::new(0);
        let builder = |thread| match thread {
            1 => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            _ => Ok(Builder::new()),
        };
        let run = |_, _: &u32, gate: &Gate| {
            gate.pass()?;
            begun.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let refused = at_once(&[7, 8, 9], builder, run).unwrap_err();
        assert_eq!((refused.kind(), begun.load(Ordering::Relaxed)), (io::ErrorKind::WouldBlock, 0));
    }

    #[test]
    fn a_job_that_fails_or_dies_is_an_error() {
        let run = |_, job: &u32, gate: &Gate| {
            gate.pass()?;
            assert_ne!(*job, 8, "as it should");
            if *job == 9 { Err(io::Error::from(io::ErrorKind::NotFound)) } else { Ok(()) }
        };
        let kind = |jobs: &[u32]| at_once(jobs, |_| Ok(Builder::new()), run).map_err(|e| e.kind());
        assert_eq!(kind(&[7, 7]), Ok(vec![(), ()]));
        assert_eq!(kind(&[7, 9]), Err(io::ErrorKind::NotFound));
        assert_eq!(kind(&[8, 7]), Err(io::ErrorKind::Other));
    }
}
