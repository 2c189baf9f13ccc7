//! The wheels under generated schedules.

use super::*;
use crate::sync::explore;
use shuttle::thread;
use std::sync::Arc;

/// Bytes and items that are live, and items that have expired but are there.
#[derive(Default)]
struct Books {
    wheels: Expiries,
    live: Count,
    expired: Count,
}

struct Count(AtomicI64);

impl Default for Count {
    fn default() -> Self {
        Self(AtomicI64::new(0))
    }
}

impl Books {
    fn link(&self, expiry: Expiry, bytes: i64) {
        let expired = self.wheels.add(expiry, bytes);
        self.live.0.fetch_add(bytes - expired.bytes, Ordering::Relaxed);
        self.expired.0.fetch_add(expired.items, Ordering::Relaxed);
    }

    fn unlink(&self, expiry: Expiry, bytes: i64) {
        let live = self.wheels.remove(expiry, bytes);
        self.live.0.fetch_sub(live.bytes, Ordering::Relaxed);
        self.expired.0.fetch_sub(1 - live.items, Ordering::Relaxed);
    }

    fn turn(&self, now_secs: u32) {
        self.wheels.turn(now_secs, &self.live.0, &self.expired.0);
    }

    /// Live bytes and expired items.
    fn read(&self) -> (i64, i64) {
        (self.live.0.load(Ordering::Relaxed), self.expired.0.load(Ordering::Relaxed))
    }
}

/// Adds and removes that race the turn which accounts them leave live bytes and expired items exact: what was added and not
/// removed is live until its time has passed, then it has expired.
#[test]
fn live_bytes_are_exact_whatever_races_the_turn() {
    explore(10_000, || {
        let books = Arc::new(Books::default());
        let (soon, later) = (expiry_at(10, 5), expiry_at(1_000, 5));
        books.link(soon, 100);
        books.link(soon, 10_000);
        let turning = Arc::clone(&books);
        let turner = thread::spawn(move || {
            turning.turn(9);
            turning.turn(11);
        });
        let adding = Arc::clone(&books);
        let adder = thread::spawn(move || {
            adding.link(soon, 1);
            adding.link(later, 1_000_000);
        });
        books.unlink(soon, 100);
        turner.join().unwrap();
        adder.join().unwrap();
        assert_eq!(books.read(), (1_000_000, 2), "all but the later has expired, each once");
        books.turn(2_000);
        assert_eq!(books.read(), (0, 3));
    });
}
