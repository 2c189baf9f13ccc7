//! Bytes and items by the time at which they expire, so that what has expired counts as dead without finding the items.
//!
//! Shape:      one wheel per level; an item with a time to live of T is accounted at the level whose step is the
//!             largest power of two ≤ max(1 s, 3 % of T), in the slot of its expiry rounded up to that step
//! Invariants: a slot is taken off what is live once, when its time has passed; who removes an item earlier takes it out of
//!             the slot, who removes it later does not; who comes at the same time settles what is left in the slot, so
//!             that live bytes and items are exact whenever nobody is inside
//! Units:      seconds of the store's clock; bytes charged; items of one slot fewer than 2^31
//! Cost:       one and a half KiB per level that a tenant uses, and a KiB more for the first

use crate::item::Expiry;
use crate::sync::{AtomicI32, AtomicI64, AtomicU32, Mutex, Ordering, fence, lock};
use std::ops::{Add, Neg, Sub};
use std::sync::OnceLock;

/// Levels: steps of 1 s to 2^26 s, a part in 33 of what 32 bits of seconds can say.
const LEVELS: usize = 27;
/// Slots of a wheel: an expiry is at most 67 steps ahead (2 / 3 %), and the past must not meet the future.
const SLOTS: u64 = 128;
/// A step is at most one part in so many of the time to live (3 %).
const STEP_PART: u32 = 33;

/// Items, and the bytes that are charged for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    pub(crate) bytes: i64,
    pub(crate) items: i64,
}

impl Load {
    /// One item.
    pub(crate) fn one(bytes: i64) -> Self {
        Self { bytes, items: 1 }
    }
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, items: self.items + other.items }
    }
}

impl Neg for Load {
    type Output = Self;

    fn neg(self) -> Self {
        Self { bytes: -self.bytes, items: -self.items }
    }
}

impl Sub for Load {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

#[derive(Debug)]
struct Wheel {
    bytes: Box<[AtomicI64]>,
    items: Box<[AtomicI32]>,
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
        let (bytes, items) = (|_| AtomicI64::new(0), |_| AtomicI32::new(0));
        Self { bytes: (0..SLOTS).map(bytes).collect(), items: (0..SLOTS).map(items).collect() }
    }
}

impl Wheel {
    fn change(&self, slot: usize, by: Load) {
        self.bytes[slot].fetch_add(by.bytes, Ordering::Relaxed);
        // One item comes or goes.
        self.items[slot].fetch_add(i32::try_from(by.items).unwrap_or(0), Ordering::Relaxed);
    }

    fn size(&self) -> usize {
        size_of_val(&*self.bytes) + size_of_val(&*self.items)
    }

    fn take(&self, slot: usize) -> Load {
        let bytes = self.bytes[slot].swap(0, Ordering::Relaxed);
        Load { bytes, items: self.items[slot].swap(0, Ordering::Relaxed).into() }
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
    /// Counts an item of so many bytes that will expire. Returns what counts as expired already, which never enters what is
    /// live.
    pub(crate) fn add(&self, expiry: Expiry, bytes: i64) -> Load {
        self.change(expiry, Load::one(bytes)).unwrap_or(Load::one(bytes))
    }

    /// Takes an item out again. Returns what of it still is among what is live.
    pub(crate) fn remove(&self, expiry: Expiry, bytes: i64) -> Load {
        self.change(expiry, -Load::one(bytes)).map_or(Load::default(), |late| Load::one(bytes) + late)
    }

    /// Whether what has this expiry has been taken off.
    pub(crate) fn is_accounted(&self, expiry: Expiry) -> bool {
        due(expiry) <= u64::from(self.done_secs.load(Ordering::Acquire))
    }

    /// Changes a slot; none if its time has been accounted. If that happens at the same time, returns what came too
    /// late to be taken by it (from this thread or another, it does not matter who accounts it), else zero.
    fn change(&self, expiry: Expiry, by: Load) -> Option<Load> {
        if self.is_accounted(expiry) {
            return None;
        }
        let level = usize::from(expiry.level).min(LEVELS - 1);
        let levels = self.levels.get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let (wheel, slot) = (levels[level].get_or_init(Wheel::default), slot_of(due(expiry), expiry.level));
        wheel.change(slot, by);
        // Pairs with the fence in `turn`: either that sees the change, or this sees that its time has come.
        fence(Ordering::SeqCst);
        if !self.is_accounted(expiry) {
            return Some(Load::default());
        }
        // The turn is over once the lock is here. Nothing else can be in the slot: its next use is 61 steps away, and the wheels are
        // turned before the clock is (`Store::set_now`).
        let _turning = lock(&self.turning);
        Some(wheel.take(slot))
    }

    /// Takes everything whose time has passed off the live bytes, and counts its items among the expired.
    pub(crate) fn turn(&self, now_secs: u32, live: &AtomicI64, expired: &AtomicI64) {
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
                let past = wheel.take(slot_of_step(step));
                live.fetch_sub(past.bytes, Ordering::Relaxed);
                expired.fetch_add(past.items, Ordering::Relaxed);
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
        (levels + self.wheels().map(|(_, wheel)| wheel.size()).sum::<usize>()) as u64
    }

    /// Forgets everything, all live bytes and all expired items: the tenant was flushed. Nobody may add or remove meanwhile.
    pub(crate) fn clear(&self, live: &AtomicI64, expired: &AtomicI64) {
        let _turning = lock(&self.turning);
        for (_, wheel) in self.wheels() {
            for slot in 0..wheel.bytes.len() {
                wheel.take(slot);
            }
        }
        live.store(0, Ordering::Relaxed);
        expired.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// A turn of the wheels; returns the bytes and the items that it took off.
    fn turn_all(wheels: &Expiries, now_secs: u32) -> (i64, i64) {
        let (live, expired) = (AtomicI64::new(0), AtomicI64::new(0));
        wheels.turn(now_secs, &live, &expired);
        (-live.load(Ordering::Relaxed), expired.load(Ordering::Relaxed))
    }

    /// The same; returns the bytes.
    fn turn(wheels: &Expiries, now_secs: u32) -> i64 {
        turn_all(wheels, now_secs).0
    }

    #[test]
    fn bytes_expire_within_a_second_or_three_percent() {
        let years = 365 * 86_400;
        for ttl in [1, 10, 33, 34, 100, 3_600, 86_400, 30 * 86_400, years, 12 * years, 100 * years] {
            let wheels = Expiries::default();
            let start = 1_000_003;
            turn(&wheels, start);
            let expiry = expiry_at(start + ttl, start);
            assert_eq!(wheels.add(expiry, 100), Load::default());
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
        assert_eq!(wheels.remove(a, 100), Load::one(100));
        assert_eq!(turn_all(&wheels, 50), (10, 1));
        assert_eq!(wheels.remove(b, 10), Load::default(), "too late: it was accounted");
    }

    #[test]
    fn what_has_expired_when_it_comes_is_never_live() {
        let wheels = Expiries::default();
        turn(&wheels, 50);
        let past = expiry_at(1, 50);
        assert_eq!(wheels.add(past, 100), Load::one(100));
        assert_eq!(turn_all(&wheels, 1_000), (0, 0));
        assert_eq!(wheels.remove(past, 100), Load::default());
    }

    #[test]
    fn who_stores_by_a_clock_behind_the_wheels_is_counted_once() {
        let wheels = Expiries::default();
        turn(&wheels, 180);
        let (past, to_come) = (expiry_at(160, 100), expiry_at(200, 100));
        assert_eq!(wheels.add(past, 100), Load::one(100), "it has expired for them");
        assert_eq!(wheels.add(to_come, 10), Load::default());
        assert_eq!(wheels.remove(past, 100), Load::default());
        assert_eq!(turn_all(&wheels, 400), (10, 1));
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
