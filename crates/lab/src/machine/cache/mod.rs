//! Caches as plants of memory policies: by miss ratio curves in virtual time, and by the real store.
//!
//! Shape:      plant -> signals -> policy -> shares -> plant; `drive` closes the loop, as the server's control thread does
//! Invariants: a policy cannot tell these plants from the live server; the same seed gives the same run
//! Units:      virtual time; the store's plant takes it from its requests

mod by_curve;
mod by_store;

pub use by_curve::{CurveCaches, CurveTenant, optimum};
pub use by_store::StoreCaches;

use control::memory::{MemoryShare, MemorySignal};
use control::{Actuator, Loop, Policy, Sensor};
use units::Instant;

/// A decision is due after so many shadow hits, as on the server.
pub const SHADOW_HITS_PER_DECISION: u64 = 64;

/// Caches that share one memory, and their time.
pub trait Caches: Sensor<Signal = MemorySignal, Share = MemoryShare> + Actuator<Share = MemoryShare> {
    /// Its time.
    fn now(&self) -> Instant;
    /// Lets time pass up to `until`, or until so many shadow hits were seen that a decision is due.
    fn advance(&mut self, until: Instant);
    /// Shadow hits that no decision has seen yet.
    fn pending_shadow_hits(&self) -> u64;
}

/// Steps the loop whenever its policy wakes or enough shadow hits were seen, and lets time pass in between.
pub fn drive<P>(caches: &mut impl Caches, pacer: &mut Loop<P>, until: Instant)
where
    P: Policy<Signal = MemorySignal, Share = MemoryShare>,
{
    while caches.now() < until {
        let is_due = SHADOW_HITS_PER_DECISION <= caches.pending_shadow_hits();
        if is_due || pacer.wake_at() <= caches.now() {
            pacer.step(caches.now(), caches);
        }
        caches.advance(until.min(pacer.wake_at()));
    }
}
