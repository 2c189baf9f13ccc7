//! Bytes by the time at which they expire, so that expired bytes count as dead without finding the items.
//!
//! Shape:      one wheel per level; an item with a time to live of T is accounted at the level whose step is the
//!             largest power of two ≤ max(1 s, 3 % of T), in the slot of its expiry rounded up to that step
//! Invariants: a slot is taken off the live bytes once, when its time has passed; who removes an item earlier takes its
//!             bytes out of the slot, who removes it later does not; who comes at the same time settles what is left in
//!             the slot, so that live bytes are exact whenever nobody is inside
//! Units:      seconds of the store's clock; bytes charged
//! Cost:       a KiB per level that a tenant uses, and as much again for the first

use crate::item::Expiry;
use crate::sync::{AtomicI64, AtomicU32, Mutex, Ordering, fence, lock};
use std::sync::OnceLock;

/// Levels: steps of 1 s to 2^26 s, a part in 33 of what 32 bits of seconds can say.
const LEVELS: usize = 27;
/// Slots of a wheel: an expiry is at most 67 steps ahead (2 / 3 %), and the past must not meet the future.
const SLOTS: u64 = 128;
/// A step is at most one part in so many of the time to live (3 %).
const STEP_PART: u32 = 33;

#[derive(Debug)]
struct Wheel {
    slots: Box<[AtomicI64]>,
}

/// One tenant's wheels.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// None before the first item that expires: most tenants of many never have one.
    levels: OnceLock<Box<[OnceLock<Wheel>; LEVELS]>>,
    /// Slots that end at or before this second have been taken.
    done_secs: AtomicU32,
    turning: Mutex<()>,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicI64::new(0)).collect() }
    }
}

impl Default for Expiries {
    fn default() -> Self {
        Self { levels: OnceLock::new(), done_secs: AtomicU32::new(0), turning: Mutex::new(()) }
    }
}

impl Expiries {
    /// The wheels of who comes at this second: all that was due before is none of theirs.
    pub(crate) fn from(now_secs: u32) -> Self {
        Self { done_secs: AtomicU32::new(now_secs), ..Self::default() }
    }
}

/// The expiry of an item stored now, with its level.
pub(crate) fn expiry_at(at: u32, now_secs: u32) -> Expiry {
    let step = (at.saturating_sub(now_secs) / STEP_PART).max(1);
    Expiry { at, level: u8::try_from(step.ilog2()).unwrap_or(0) }
}

/// The second at which an expiry is accounted: itself rounded up to a step.
fn due(expiry: Expiry) -> u64 {
    u64::from(expiry.at).next_multiple_of(1 << expiry.level)
}

fn slot_of(due: u64, level: u8) -> usize {
    slot_of_step(due >> level)
}

fn slot_of_step(step: u64) -> usize {
    usize::try_from(step % SLOTS).unwrap_or(0)
}

impl Expiries {
    /// Counts bytes that will expire. Returns what counts as expired already, which never enters the live bytes.
    pub(crate) fn add(&self, expiry: Expiry, bytes: i64) -> i64 {
        self.change(expiry, bytes).unwrap_or(bytes)
    }

    /// Takes bytes out again. Returns what of them still is among the live bytes.
    pub(crate) fn remove(&self, expiry: Expiry, bytes: i64) -> i64 {
        self.change(expiry, -bytes).map_or(0, |late| bytes + late)
    }

    /// Whether the bytes of this expiry have been taken off.
    pub(crate) fn is_accounted(&self, expiry: Expiry) -> bool {
        due(expiry) <= u64::from(self.done_secs.load(Ordering::Acquire))
    }

    /// Changes a slot; none if its time has been accounted. If that happens at the same time, returns what came too
    /// late to be taken by it (from this thread or another, it does not matter who accounts it), else zero.
    fn change(&self, expiry: Expiry, bytes: i64) -> Option<i64> {
        if self.is_accounted(expiry) {
            return None;
        }
        let level = usize::from(expiry.level).min(LEVELS - 1);
        let levels = self.levels.get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let slot = &levels[level].get_or_init(Wheel::default).slots[slot_of(due(expiry), expiry.level)];
        slot.fetch_add(bytes, Ordering::Relaxed);
        // Pairs with the fence in `turn`: either that sees the change, or this sees that its time has come.
        fence(Ordering::SeqCst);
        if !self.is_accounted(expiry) {
            return Some(0);
        }
        // The turn is over once the lock is here. Nothing else can be in the slot: its next use is 61 steps away.
        let _turning = lock(&self.turning);
        Some(slot.swap(0, Ordering::Relaxed))
    }

    /// Takes everything whose time has passed off the live bytes.
    pub(crate) fn turn(&self, now_secs: u32, live: &AtomicI64) {
        let _turning = lock(&self.turning);
        let done = self.done_secs.load(Ordering::Relaxed);
        if now_secs <= done {
            return;
        }
        self.done_secs.store(now_secs, Ordering::Release);
        fence(Ordering::SeqCst);
        for (level, wheel) in self.wheels() {
            let first = (u64::from(done) >> level) + 1;
            let last = u64::from(now_secs) >> level;
            for step in first..=last.min(first + SLOTS - 1) {
                let expired = wheel.slots[slot_of_step(step)].swap(0, Ordering::Relaxed);
                live.fetch_sub(expired, Ordering::Relaxed);
            }
        }
    }

    /// The wheels in use, with their levels.
    fn wheels(&self) -> impl Iterator<Item = (usize, &Wheel)> {
        let levels = self.levels.get().into_iter().flat_map(|levels| levels.iter().enumerate());
        levels.filter_map(|(level, wheel)| wheel.get().map(|wheel| (level, wheel)))
    }

    /// Memory of the wheels.
    pub(crate) fn bytes(&self) -> u64 {
        let levels = self.levels.get().map_or(0, |levels| size_of_val(&**levels));
        (levels + self.wheels().map(|(_, wheel)| size_of_val(&*wheel.slots)).sum::<usize>()) as u64
    }

    /// Forgets everything and all live bytes: the tenant was flushed. Nobody may add or remove meanwhile.
    pub(crate) fn clear(&self, live: &AtomicI64) {
        let _turning = lock(&self.turning);
        for (_, wheel) in self.wheels() {
            for slot in &wheel.slots {
                slot.store(0, Ordering::Relaxed);
            }
        }
        live.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// A turn of the wheels; returns what it took off.
    fn turn(wheels: &Expiries, now_secs: u32) -> i64 {
        let live = AtomicI64::new(0);
        wheels.turn(now_secs, &live);
        -live.load(Ordering::Relaxed)
    }

    #[test]
    fn bytes_expire_within_a_second_or_three_percent() {
        let years = 365 * 86_400;
        for ttl in [1, 10, 33, 34, 100, 3_600, 86_400, 30 * 86_400, years, 12 * years, 100 * years] {
            let wheels = Expiries::default();
            let start = 1_000_003;
            turn(&wheels, start);
            let expiry = expiry_at(start + ttl, start);
            assert_eq!(wheels.add(expiry, 100), 0);
            let tolerance = (ttl / 100 * 3).max(1);
            for part in 1..20 {
                assert_eq!(turn(&wheels, start + ttl / 20 * part), 0, "{ttl}: long before");
            }
            assert_eq!(turn(&wheels, start + ttl - 1), 0, "{ttl}: not before");
            assert_eq!(turn(&wheels, start + ttl + tolerance), 100, "{ttl}: not long after");
            assert_eq!(turn(&wheels, start.saturating_add(ttl).saturating_add(ttl)), 0, "{ttl}: once");
        }
    }

    #[test]
    fn what_is_removed_early_does_not_expire() {
        let wheels = Expiries::default();
        turn(&wheels, 5);
        let (a, b) = (expiry_at(20, 5), expiry_at(21, 5));
        wheels.add(a, 100);
        wheels.add(b, 10);
        assert_eq!(wheels.remove(a, 100), 100);
        assert_eq!(turn(&wheels, 50), 10);
        assert_eq!(wheels.remove(b, 10), 0, "too late: it was accounted");
    }

    #[test]
    fn what_has_expired_when_it_comes_is_never_live() {
        let wheels = Expiries::default();
        turn(&wheels, 50);
        let past = expiry_at(1, 50);
        assert_eq!(wheels.add(past, 100), 100);
        assert_eq!(turn(&wheels, 1_000), 0);
        assert_eq!(wheels.remove(past, 100), 0);
    }

    #[test]
    fn a_step_of_hours_misses_nothing() {
        let wheels = Expiries::default();
        turn(&wheels, 0);
        let mut stored = 0;
        for ttl in (1..100_000_u32).step_by(997) {
            wheels.add(expiry_at(ttl, 0), 1);
            stored += 1;
        }
        assert_eq!(turn(&wheels, 40_000) + turn(&wheels, 80_000) + turn(&wheels, 200_000), stored);
    }
}
