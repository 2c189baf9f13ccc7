//! How long an actuator may hold shares that nobody renews.
//!
//! Shape:      decisions -> the last steady shares; a lapsed lease -> those shares, once
//! Invariants: an experiment never outlives the loop that made it by more than its lease
//! Non-goals:  a clock: its owner asks with the time in hand

use crate::policy::Decision;
use units::{Instant, TenantId};

/// The last steady shares and the moment from which they hold again if nothing is heard.
#[derive(Clone, Debug)]
pub struct Lease<A> {
    steady: Vec<(TenantId, A)>,
    until: Option<Instant>,
}

impl<A> Default for Lease<A> {
    fn default() -> Self {
        Self { steady: Vec::new(), until: None }
    }
}

impl<A: Clone> Lease<A> {
    /// Takes note of a decision that comes into force at `now`.
    pub fn renew(&mut self, now: Instant, decision: &Decision<'_, A>) {
        self.until = Some(now + decision.lease);
        if decision.steady {
            self.steady.clear();
            self.steady.extend_from_slice(decision.shares.rows());
        }
    }

    /// The shares to return to if the lease ran out before `now`; says so once.
    pub fn lapsed(&mut self, now: Instant) -> Option<&[(TenantId, A)]> {
        self.until.take_if(|until| *until <= now).map(|_| self.steady.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::Throttle;
    use crate::{Law, Pool, Row, Seen, Shares, Window};
    use units::Duration;

    #[test]
    fn an_experiment_lapses_to_the_last_steady_shares() {
        let pool = Pool::default();
        let rows: [Row<(), Throttle>; 1] =
            [Row { id: TenantId(3), claim: crate::Claim::default(), signal: None, in_force: None }];
        let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
        let mut lease = Lease::default();
        let mut give = |at: u64, throttle: Throttle, steady: bool| {
            let mut shares = Shares::default();
            shares.rebuild(Law::Free, &seen, [(TenantId(3), throttle)].into_iter());
            let decision = Decision {
                shares: &shares,
                wake: Duration::from_millis(1),
                lease: Duration::from_millis(10),
                steady,
                notes: &[],
            };
            lease.renew(Instant(at), &decision);
            lease.clone()
        };
        give(0, Throttle::FREE, true);
        let mut lease = give(1_000_000, Throttle::PAUSED, false);
        assert_eq!(lease.lapsed(Instant(10_999_999)), None);
        assert_eq!(lease.lapsed(Instant(11_000_000)), Some(&[(TenantId(3), Throttle::FREE)][..]));
        assert_eq!(lease.lapsed(Instant(12_000_000)), None, "said once");
    }
}
