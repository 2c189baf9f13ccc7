//! Reclamation under generated schedules.

use super::*;
use crate::sync::explore;
use shuttle::thread;
use std::sync::atomic::AtomicBool;

/// Things that one word points at, one after the other; a thing that is used again is poisoned.
struct Things {
    epochs: Arc<Epochs>,
    current: AtomicU64,
    poisoned: [AtomicBool; 3],
}

impl Things {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            epochs: Arc::new(Epochs::new()),
            current: AtomicU64::new(0),
            poisoned: std::array::from_fn(|_| AtomicBool::new(false)),
        })
    }

    fn read(&self) -> usize {
        usize::try_from(self.current.load(Ordering::Acquire)).unwrap()
    }

    fn assert_whole(&self, thing: usize) {
        assert!(!self.poisoned[thing].load(Ordering::Relaxed), "reused while a thread could see it");
    }

    /// Points the word elsewhere and reuses the old thing as soon as that is allowed, if it ever is.
    fn replace(&self, old: usize) {
        self.current.store(old as u64 + 1, Ordering::Release);
        let epoch = self.epochs.retire();
        for _ in 0..20 {
            if self.epochs.is_past(epoch) {
                self.poisoned[old].store(true, Ordering::Relaxed);
                return;
            }
            thread::yield_now();
        }
    }
}

/// What a thread saw since it last announced is not reused before it announces again.
#[test]
fn nothing_is_reused_while_a_thread_online_could_have_seen_it() {
    explore(10_000, || {
        let things = Things::new();
        let mut reader = things.epochs.join().unwrap();
        let writing = Arc::clone(&things);
        let writer = thread::spawn(move || {
            writing.replace(0);
            writing.replace(1);
        });
        for _ in 0..3 {
            let thing = things.read();
            thread::yield_now();
            things.assert_whole(thing);
            reader.quiesce();
        }
        drop(reader);
        writer.join().unwrap();
    });
}

/// The same for a thread that sleeps in between and comes back while something is retired.
#[test]
fn who_comes_online_during_a_retirement_is_waited_for() {
    explore(10_000, || {
        let things = Things::new();
        let mut reader = things.epochs.join().unwrap();
        let writing = Arc::clone(&things);
        let writer = thread::spawn(move || {
            writing.replace(0);
            writing.replace(1);
        });
        for _ in 0..2 {
            reader.go_offline();
            thread::yield_now();
            reader.go_online();
            let thing = things.read();
            things.assert_whole(thing);
            thread::yield_now();
            things.assert_whole(thing);
        }
        drop(reader);
        writer.join().unwrap();
    });
}

/// A place that a thread left is taken by the next without losing the protection of either.
#[test]
fn places_are_handed_on() {
    explore(3_000, || {
        let things = Things::new();
        let writing = Arc::clone(&things);
        let writer = thread::spawn(move || writing.replace(0));
        for _ in 0..2 {
            let reader = things.epochs.join().unwrap();
            let thing = things.read();
            thread::yield_now();
            things.assert_whole(thing);
            drop(reader);
        }
        writer.join().unwrap();
    });
}
