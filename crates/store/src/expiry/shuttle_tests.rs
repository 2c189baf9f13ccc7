//! The wheels under generated schedules.

use super::*;
use crate::sync::explore;
use shuttle::thread;
use std::sync::Arc;

/// Adds and removes that race the turn which accounts them leave live bytes exact: what was added and not removed is
/// live until its time has passed, then nothing is.
#[test]
fn live_bytes_are_exact_whatever_races_the_turn() {
    explore(10_000, || {
        let wheels = Arc::new(Expiries::default());
        let live = Arc::new(AtomicI64::new(0));
        let (soon, later) = (expiry_at(10, 5), expiry_at(1_000, 5));
        let link = |wheels: &Expiries, live: &AtomicI64, expiry, bytes| {
            live.fetch_add(bytes - wheels.add(expiry, bytes), Ordering::Relaxed);
        };
        let unlink = |wheels: &Expiries, live: &AtomicI64, expiry, bytes| {
            live.fetch_sub(wheels.remove(expiry, bytes), Ordering::Relaxed);
        };
        link(&wheels, &live, soon, 100);
        link(&wheels, &live, soon, 10_000);
        let turning = (Arc::clone(&wheels), Arc::clone(&live));
        let turner = thread::spawn(move || {
            turning.0.turn(9, &turning.1);
            turning.0.turn(11, &turning.1);
        });
        let adding = (Arc::clone(&wheels), Arc::clone(&live));
        let adder = thread::spawn(move || {
            link(&adding.0, &adding.1, soon, 1);
            link(&adding.0, &adding.1, later, 1_000_000);
        });
        unlink(&wheels, &live, soon, 100);
        turner.join().unwrap();
        adder.join().unwrap();
        assert_eq!(live.load(Ordering::Relaxed), 1_000_000, "all but the later has expired, each once");
        wheels.turn(2_000, &live);
        assert_eq!(live.load(Ordering::Relaxed), 0);
    });
}
