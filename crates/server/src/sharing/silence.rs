//! A loop that fails, that nobody steps any more, or that ends.
//!
//! Shape:      a step that panicked -> an incident, and the policy in charge in its first state; a lease that has ended -> the last
//!             steady shares; the end of the loop -> nobody is held back
//! Invariants: what is in force when a step fails holds until its lease ends or the policy decides anew, whichever is sooner

use super::history::Family;
use super::{Running, Sharing, with_model};
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use units::Instant;

/// What is said of a step that failed.
const FAILED: &str = "a decision about the bandwidth of tiers failed: the policy begins again";

impl Sharing {
    /// After a step that failed: the policy in charge begins again.
    pub(crate) fn begin_again(&self) {
        tracing::error!("{FAILED}");
        let mut running = self.running();
        running.incidents.take(vec![(None, FAILED.to_owned())], false);
        // Whoever is in charge had its model then.
        if let Ok(options) = with_model(&self.options(), &self.model, running.kind) {
            running.begin(&options);
        }
    }

    /// The loop has ended with the server: nobody is held back any more, so that what waits is answered.
    pub(crate) fn end(&self, now: Instant) {
        let mut running = self.running();
        self.lease_ends_ns.store(u64::MAX, Ordering::Relaxed);
        match running.kind.family() {
            Family::Bandwidth => running.thing.control.release(now),
            Family::Joint => running.both.release(now),
        }
    }

    /// Gives the last steady throttles back if the loop has fallen silent. Returns when to look again.
    pub(crate) fn watch(&self, now: Instant) -> Option<Instant> {
        let ends = Instant(self.lease_ends_ns.load(Ordering::Relaxed));
        if ends == Instant(u64::MAX) || now < ends {
            return Some(ends);
        }
        let mut running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // It steps at this moment.
            Err(TryLockError::WouldBlock) => return None,
        };
        if running.lapse(now) {
            tracing::error!("nobody decides about the bandwidth of tiers: the last steady shares hold");
            self.lease_ends_ns.store(u64::MAX, Ordering::Relaxed);
        }
        None
    }
}

impl Running {
    fn lapse(&mut self, now: Instant) -> bool {
        match self.kind.family() {
            Family::Bandwidth => self.thing.control.lapse(now),
            Family::Joint => self.both.lapse(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::{Helpers, bandwidth};
    use crate::shared::Shared;
    use crate::sharing::TierClaim;
    use crate::sharing::testing::{two, two_under};
    use crate::testing::pass;
    use control::bandwidth::Throttle;
    use std::sync::atomic::AtomicBool;
    use units::{Duration, TenantId};

    /// Who of the tenants is paused.
    fn paused(shared: &Shared, tenants: [TenantId; 2]) -> [bool; 2] {
        tenants.map(|id| shared.store.throttle(id).paused)
    }

    #[test]
    fn an_experiment_ends_though_nobody_steps_any_more() {
        let (clock, shared, tenants) = two();
        shared.sharing.step(&shared);
        assert_eq!(paused(&shared, tenants), [false, true], "one is alone");
        let now = pass(&clock, Duration::from_secs(1));
        assert_eq!(shared.sharing.watch(now), None);
        assert_eq!(paused(&shared, tenants), [false, false], "the last steady shares");
    }

    #[test]
    fn a_server_that_ends_holds_nobody_back() {
        for policy in ["fair-slowdown", "limit"] {
            let (clock, shared, tenants) = two_under(policy);
            shared.sharing.set_claim(tenants[1], &"limit 1%".parse::<TierClaim>().expect("a claim"));
            shared.sharing.step(&shared);
            let throttle = |id| shared.store.throttle(id);
            assert_ne!(throttle(tenants[1]), Throttle::FREE, "{policy}");
            let before = shared.store.times_let_go();
            bandwidth(&shared, &Helpers::default(), &AtomicBool::new(true));
            assert_eq!(tenants.map(throttle), [Throttle::FREE; 2], "{policy}");
            assert!(before < shared.store.times_let_go(), "who waits asks again");
            let now = pass(&clock, Duration::from_secs(86_400));
            assert_eq!(shared.sharing.watch(now), Some(Instant(u64::MAX)));
            assert_eq!(tenants.map(throttle), [Throttle::FREE; 2], "no silence holds anybody back again");
        }
    }

    #[test]
    fn a_step_that_failed_is_an_incident_and_the_policy_begins_again() {
        let (clock, shared, tenants) = two();
        shared.sharing.step(&shared);
        shared.sharing.begin_again();
        let view = shared.sharing.view();
        assert_eq!((view.incidents_total, view.incident.as_deref()), (1, Some(FAILED)));
        let before = view.decisions_total;
        pass(&clock, Duration::from_secs(1));
        shared.sharing.step(&shared);
        assert!(before < shared.sharing.view().decisions_total);
        assert_eq!(paused(&shared, tenants), [false, true], "it looks at each alone first");
    }
}
