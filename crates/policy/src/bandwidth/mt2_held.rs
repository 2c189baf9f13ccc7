//! One tenant as a policy holds it back, and whether the actuators follow.
//!
//! Invariants: while what was asked is not in force, no more is asked of the same lever: a late actuator is waited for,
//!             and a lever that refuses for long is left out until it follows again
//! Source:     MT² §3.3.2 (one step per period, its effect is measured before the next)

use control::Levers;
use control::bandwidth::{Kinds, Throttle};

/// After so many decisions without effect a lever counts as refusing: a second at MT²'s 100 ms (guess; a late write of a
/// cgroup file takes one period or two).
const REFUSED_AFTER: u32 = 10;
/// What is in force may be so much looser than what was asked: levers round to their own steps (MBA to ten percent, CPU
/// quotas to the scheduler's granule).
const ROUNDING: f64 = 0.1;

/// One tenant's throttle as asked, and for how long it was not followed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Held {
    /// What was asked.
    pub(super) asked: Throttle,
    unheeded: u32,
}

/// Whether what was asked is in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heed {
    /// It is.
    Yes,
    /// Not yet: asking for more would wind up.
    NotYet,
    /// Not for long: other levers have to do.
    Refused,
}

impl Held {
    /// Takes note of what is in force in a new window.
    pub(super) fn heed(&mut self, in_force: Option<Throttle>) -> Heed {
        if in_force.is_none_or(|now| follows(now, self.asked)) {
            self.unheeded = 0;
            return Heed::Yes;
        }
        self.unheeded = self.unheeded.saturating_add(1);
        if self.unheeded < REFUSED_AFTER { Heed::NotYet } else { Heed::Refused }
    }

    /// Whether it has just been found that a lever refuses.
    pub(super) fn gave_up_now(&self) -> bool {
        self.unheeded == REFUSED_AFTER
    }

    /// Whether the tenant is held back by a lever that moves in steps.
    pub(super) fn is_stepped(&self) -> bool {
        stepped(self.asked) != Throttle::FREE
    }

    /// Where a further step starts: the levers that move in steps as they are in force.
    pub(super) fn base(&self, in_force: Option<Throttle>) -> Throttle {
        Throttle { cap: self.asked.cap, budget: self.asked.budget, ..in_force.unwrap_or(self.asked) }
    }

    /// The levers that follow: all of them, or without those that refuse.
    pub(super) fn levers(&self, levers: &Levers, in_force: Option<Throttle>, heed: Heed) -> Levers {
        let mut working = *levers;
        if let (Heed::Refused, Some(now)) = (heed, in_force) {
            if !mba_follows(now, self.asked) {
                working.mba = None;
            }
            if !cpu_follows(now, self.asked) {
                working.cpu = None;
            }
            if !brake_follows(now, self.asked) {
                working.brake = Kinds::splat(false);
            }
        }
        working
    }
}

/// Whether `other` holds the tenant back clearly more than `own`, beyond rounding: then another policy does.
pub(super) fn holds_more(other: Throttle, own: Throttle) -> bool {
    !(mba_follows(own, other) && cpu_follows(own, other) && brake_follows(own, other))
}

/// What the levers that move in steps hold back.
fn stepped(throttle: Throttle) -> Throttle {
    Throttle { cap: Throttle::FREE.cap, budget: None, ..throttle }
}

fn follows(now: Throttle, asked: Throttle) -> bool {
    mba_follows(now, asked) && cpu_follows(now, asked) && brake_follows(now, asked)
}

fn mba_follows(now: Throttle, asked: Throttle) -> bool {
    now.mba <= asked.mba.saturating_add(10).min(99) || asked.mba == 100
}

fn cpu_follows(now: Throttle, asked: Throttle) -> bool {
    match (now.cpu, asked.cpu) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(now), Some(asked)) => f64::from(now) <= f64::from(asked) * (1.0 + ROUNDING) + 1.0,
    }
}

fn brake_follows(now: Throttle, asked: Throttle) -> bool {
    if now.paused || asked == Throttle::FREE {
        return true;
    }
    let capped = asked.cap.iter().all(|(kind, cap)| {
        cap.is_none_or(|cap| now.cap.get(kind).is_some_and(|now| now.0 <= cap.0 + cap.0 / 10))
    });
    !asked.paused && capped && f64::from(asked.delay) * (1.0 - ROUNDING) - 1.0 <= f64::from(now.delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{CpuQuota, Mba};
    use units::BytesPerSec;

    const FREE: Throttle = Throttle::FREE;

    #[test]
    fn what_is_in_force_follows_up_to_rounding() {
        let cap = |rate: u64| Throttle {
            cap: Kinds { slow_write: Some(BytesPerSec(rate)), ..Kinds::default() },
            ..FREE
        };
        for (asked, now, followed) in [
            (FREE, FREE, true),
            (FREE, Throttle { mba: 10, cpu: Some(1), delay: 9, ..FREE }, true),
            (Throttle { cpu: Some(500), ..FREE }, FREE, false),
            (Throttle { cpu: Some(500), ..FREE }, Throttle { cpu: Some(540), ..FREE }, true),
            (Throttle { cpu: Some(500), ..FREE }, Throttle { cpu: Some(560), ..FREE }, false),
            (Throttle { mba: 90, ..FREE }, FREE, false),
            (Throttle { mba: 60, ..FREE }, Throttle { mba: 70, ..FREE }, true),
            (Throttle { delay: 100, ..FREE }, Throttle { delay: 95, ..FREE }, true),
            (Throttle { delay: 100, ..FREE }, FREE, false),
            (Throttle { paused: true, ..FREE }, Throttle { delay: 9_999, ..FREE }, false),
            (Throttle { delay: 7, ..FREE }, Throttle { paused: true, ..FREE }, true),
            (cap(100), FREE, false),
            (cap(100), cap(105), true),
        ] {
            assert_eq!(follows(now, asked), followed, "{asked:?} {now:?}");
        }
    }

    #[test]
    fn a_late_lever_is_waited_for_and_a_refusing_one_is_left_out() {
        let levers = Levers {
            mba: Some(Mba::MT2),
            cpu: Some(CpuQuota { most: 1000, least: 10 }),
            ..Levers::default()
        };
        let mut held = Held { asked: Throttle { mba: 60, cpu: Some(500), ..FREE }, ..Held::default() };
        let now = Some(Throttle { cpu: Some(500), ..FREE });
        for _ in 1..REFUSED_AFTER {
            assert_eq!(held.heed(now), Heed::NotYet);
        }
        let heed = held.heed(now);
        assert_eq!(heed, Heed::Refused);
        assert!(held.gave_up_now());
        let working = held.levers(&levers, now, heed);
        assert_eq!((working.mba, working.cpu), (None, levers.cpu), "only what does not follow is left out");
        assert_eq!(held.heed(Some(held.asked)), Heed::Yes);
        assert_eq!(held.levers(&levers, Some(held.asked), Heed::Yes), levers);
        assert_eq!(held.heed(None), Heed::Yes, "before the first decision nothing can be late");
    }

    #[test]
    fn caps_and_budgets_of_others_are_not_taken_over() {
        let held = Held::default();
        let others = Throttle { cpu: Some(7), cap: Kinds::splat(Some(BytesPerSec(1))), ..FREE };
        assert_eq!(held.base(Some(others)), Throttle { cpu: Some(7), ..FREE });
        assert!(holds_more(others, held.asked));
        assert!(!holds_more(FREE, held.asked));
        assert!(!held.is_stepped());
    }
}
