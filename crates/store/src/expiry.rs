//! Bytes by the time at which they expire, so that expired bytes count as dead without finding the items.
//!
//! Shape:      one wheel per level; an item with a time to live of T is accounted at the level whose step is the
//!             largest power of two ≤ max(1 s, 3 % of T), in the slot of its expiry rounded up to that step
//! Invariants: a slot is taken off the live bytes once, when its time has passed; who removes an item earlier takes its
//!             bytes out of the slot, who removes it later does not
//! Units:      seconds of the store's clock; bytes charged
//! Cost:       1 KiB per level that a tenant uses

use crate::item::Expiry;
use crate::sync::{AtomicI64, AtomicU32, Mutex, Ordering, lock};
use std::sync::OnceLock;

/// Levels: steps of 1 s to 2^20 s.
const LEVELS: usize = 21;
/// Slots of a wheel: an expiry is at most 67 steps ahead (2 / 3 %), and the past must not meet the future.
const SLOTS: u32 = 128;
/// A step is at most one part in so many of the time to live (3 %).
const STEP_PART: u32 = 33;

#[derive(Debug)]
struct Wheel {
    slots: [AtomicI64; SLOTS as usize],
}

/// One tenant's wheels.
#[derive(Debug)]
pub(crate) struct Expiries {
    levels: [OnceLock<Box<Wheel>>; LEVELS],
    /// Slots that end at or before this second have been taken.
    done_secs: AtomicU32,
    turning: Mutex<()>,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| AtomicI64::new(0)) }
    }
}

impl Default for Expiries {
    fn default() -> Self {
        Self {
            levels: std::array::from_fn(|_| OnceLock::new()),
            done_secs: AtomicU32::new(0),
            turning: Mutex::new(()),
        }
    }
}

/// The expiry of an item stored now, with its level.
pub(crate) fn expiry_at(at: u32, now_secs: u32) -> Expiry {
    let step = (at.saturating_sub(now_secs) / STEP_PART).max(1);
    let level = u8::try_from(step.ilog2()).unwrap_or(0).min(LEVELS as u8 - 1);
    Expiry { at, level }
}

/// The second at which an expiry is accounted: itself rounded up to a step.
fn due(expiry: Expiry) -> u64 {
    u64::from(expiry.at).next_multiple_of(1 << expiry.level)
}

fn slot_of(due: u64, level: u8) -> usize {
    ((due >> level) % u64::from(SLOTS)) as usize
}

impl Expiries {
    /// Counts bytes that will expire.
    pub(crate) fn add(&self, expiry: Expiry, bytes: i64) {
        let level = usize::from(expiry.level).min(LEVELS - 1);
        let wheel = self.levels[level].get_or_init(Box::default);
        wheel.slots[slot_of(due(expiry), expiry.level)].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes bytes out again. Returns false if their time has been accounted already.
    pub(crate) fn remove(&self, expiry: Expiry, bytes: i64) -> bool {
        if due(expiry) <= u64::from(self.done_secs.load(Ordering::Acquire)) {
            return false;
        }
        self.add(expiry, -bytes);
        true
    }

    /// Takes everything whose time has passed; returns the bytes.
    pub(crate) fn turn(&self, now_secs: u32) -> i64 {
        let _turning = lock(&self.turning);
        let done = self.done_secs.load(Ordering::Relaxed);
        if now_secs <= done {
            return 0;
        }
        // Release: who sees the new time does not take out what is taken here.
        self.done_secs.store(now_secs, Ordering::Release);
        let mut expired = 0;
        for (level, wheel) in self.levels.iter().enumerate() {
            let Some(wheel) = wheel.get() else { continue };
            let first = (u64::from(done) >> level) + 1;
            let last = u64::from(now_secs) >> level;
            for step in first..=last.min(first + u64::from(SLOTS) - 1) {
                expired += wheel.slots[(step % u64::from(SLOTS)) as usize].swap(0, Ordering::Relaxed);
            }
        }
        expired
    }

    /// Forgets everything: the tenant was flushed.
    pub(crate) fn clear(&self) {
        let _turning = lock(&self.turning);
        for wheel in self.levels.iter().filter_map(OnceLock::get) {
            for slot in &wheel.slots {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_expire_within_a_second_or_three_percent() {
        for ttl in [1, 10, 33, 34, 100, 3_600, 86_400, 30 * 86_400, 365 * 86_400] {
            let wheels = Expiries::default();
            let start = 1_000_003;
            wheels.turn(start);
            let expiry = expiry_at(start + ttl, start);
            wheels.add(expiry, 100);
            let tolerance = (ttl * 3 / 100).max(1);
            assert_eq!(wheels.turn(start + ttl - 1), 0, "{ttl}: not before");
            assert_eq!(wheels.turn(start + ttl + tolerance), 100, "{ttl}: not long after");
            assert_eq!(wheels.turn(start + 3 * ttl), 0, "{ttl}: once");
        }
    }

    #[test]
    fn what_is_removed_early_does_not_expire() {
        let wheels = Expiries::default();
        wheels.turn(5);
        let (a, b) = (expiry_at(20, 5), expiry_at(21, 5));
        wheels.add(a, 100);
        wheels.add(b, 10);
        assert!(wheels.remove(a, 100));
        assert_eq!(wheels.turn(50), 10);
        assert!(!wheels.remove(b, 10), "too late: it was accounted");
    }

    #[test]
    fn a_step_of_hours_misses_nothing() {
        let wheels = Expiries::default();
        wheels.turn(0);
        let mut stored = 0;
        for ttl in (1..100_000_u32).step_by(997) {
            wheels.add(expiry_at(ttl, 0), 1);
            stored += 1;
        }
        assert_eq!(wheels.turn(40_000) + wheels.turn(80_000) + wheels.turn(200_000), stored);
    }
}
