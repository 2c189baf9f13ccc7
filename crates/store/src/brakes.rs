//! What brakes of tenants share: the tier whose time is divided, what its accesses cost, and the time.
//!
//! Invariants: one tier's time is divided at a time; the time is asked for by accesses of tenants that are held back, and by passes over tiers, and looks whether one waits
//! Non-goals:  who is held back: a policy decides that, `bandwidth.rs` puts it in force

use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::tier::Tier;
use media::{Profile, Stopwatch};
use std::fmt;
use std::sync::OnceLock;
use units::{Duration, Instant};

/// Who was paused by an experiment that should be over asks again after so long.
const PAUSE_LATE: Duration = Duration::from_micros(100);

/// Tells the time.
type Time = Box<dyn Fn() -> Instant + Send + Sync>;

/// What brakes share.
#[derive(Default)]
pub(crate) struct Brakes {
    /// Place of the tier whose time is divided.
    divided: AtomicU32,
    /// Held by who changes which tier that is, or what it costs.
    dividing: Mutex<()>,
    /// When the pauses of an experiment should end, in ns; 0 while there is none.
    pauses_end: AtomicU64,
    /// Somebody begins long periods of tenants' budgets, or keeps their caps.
    waited_for: AtomicBool,
    /// Times that somebody was let go. Relaxed: who looks is woken afterwards, or looks again.
    let_go: AtomicU64,
    time: OnceLock<Time>,
    watch: OnceLock<Stopwatch>,
}

impl Store {
    /// Says what accesses to a tier cost of its time, by its place among the tiers; false for an unknown tier, or one of which
    /// that is known. Until then a byte costs what it would of a gigabyte per second.
    pub fn set_profile(&self, tier: u8, profile: Profile) -> bool {
        let is_new = self.tiers.get(usize::from(tier)).is_some_and(|tier| tier.set_profile(profile));
        if is_new {
            self.set_tariffs(None);
        }
        is_new
    }

    /// Whether what accesses to a tier cost was measured.
    #[must_use]
    pub fn has_profile(&self, tier: u8) -> bool {
        self.tiers.get(usize::from(tier)).is_some_and(Tier::has_profile)
    }

    /// Divides another tier's time from now on; false for an unknown one. It is the first tier's at the start.
    pub fn divide_tier(&self, tier: u8) -> bool {
        let exists = usize::from(tier) < self.tiers.len();
        if exists {
            self.set_tariffs(Some(tier));
        }
        exists
    }

    /// Lets accesses to the tier whose time is divided cost what they do, and to every other one nothing. `divided` is another
    /// tier than before, if it is to be.
    pub(crate) fn set_tariffs(&self, divided: Option<u8>) {
        let _one = lock(&self.brakes.dividing);
        if let Some(divided) = divided {
            self.brakes.divided.store(u32::from(divided), Ordering::Relaxed);
        }
        self.tiers.iter().for_each(|tier| tier.set_divided(self.divides(tier)));
    }

    /// The tier whose time is divided, by its place; none if there are no tiers.
    #[must_use]
    pub fn divided_tier(&self) -> Option<u8> {
        let tier = u8::try_from(self.brakes.divided.load(Ordering::Relaxed)).unwrap_or(0);
        (usize::from(tier) < self.tiers.len()).then_some(tier)
    }

    /// Says who tells the time to brakes, once: without it budgets and caps stand still. It is the time that
    /// `BandwidthControl` is handed.
    pub fn set_brake_time(&self, time: impl Fn() -> Instant + Send + Sync + 'static) {
        // Who said it first goes on telling it.
        let _said_before = self.brakes.time.set(Box::new(time));
    }

    /// Whether a tier is the one whose time is divided.
    #[inline]
    pub(crate) fn divides(&self, tier: &Tier) -> bool {
        self.brakes.divided.load(Ordering::Relaxed) == u32::from(tier.id)
    }

    /// Grows whenever some tenant is let go, by a shorter delay, the end of a pause, or with everybody else: requests that wait for a brake should
    /// ask again then.
    #[must_use]
    pub fn times_let_go(&self) -> u64 {
        self.brakes.let_go.load(Ordering::Relaxed)
    }
}

impl Brakes {
    /// Says that somebody may have been let go.
    pub(crate) fn note(&self, lets_go: bool) {
        if lets_go {
            self.let_go.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        self.time.get().map_or(Instant::ZERO, |time| time())
    }

    /// Pauses that begin now are meant to end then; none if they last until somebody decides otherwise.
    pub(crate) fn set_pauses_end(&self, at: Option<Instant>) {
        self.pauses_end.store(at.map_or(0, |at| at.0), Ordering::Relaxed);
    }

    /// Says whether somebody begins long periods of tenants' budgets, or keeps their caps: who else spends for them may wait for those.
    pub(crate) fn set_waited_for(&self, are: bool) {
        self.waited_for.store(are, Ordering::Relaxed);
    }

    /// Whether somebody does.
    pub(crate) fn are_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Relaxed)
    }

    /// When a pause should end, if that is known; one that should have ended is about to.
    pub(crate) fn pause_ends(&self) -> Option<Instant> {
        let ends = Instant(self.pauses_end.load(Ordering::Relaxed));
        (ends != Instant::ZERO).then(|| ends.max(self.now() + PAUSE_LATE))
    }

    /// Spins for what a brake says, a microsecond at most.
    pub(crate) fn spin(&self, from: Instant, until: Instant) {
        self.watch().spin(until.since(from));
    }

    pub(crate) fn watch(&self) -> &Stopwatch {
        self.watch.get_or_init(Stopwatch::new)
    }
}

impl fmt::Debug for Brakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brakes").field("divided", &self.divided).finish_non_exhaustive()
    }
}
