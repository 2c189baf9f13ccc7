//! How often somebody may be wrong: attempts of who was wrong too often wait.
//!
//! Shape:      a failed attempt takes a token of its address, and one of the user's if it was dear; without a token attempts
//!             wait until there is one
//! Invariants: nobody is locked out: who waits is served in the end; who is forgotten has all tokens; memory is bounded
//! Units:      nanoseconds of the server's clock
//! Source:     the generic cell rate algorithm, as in `admission`

use crate::limits::{LOGIN_FAILURES_BURST, LOGIN_FAILURES_MAX, LOGIN_FAILURES_PER_SECOND};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use units::Instant;

/// Nanoseconds until a token comes back.
const SPACING_NS: u64 = 1_000_000_000 / LOGIN_FAILURES_PER_SECOND;
/// Nanoseconds until all have.
const DEPTH_NS: u64 = SPACING_NS * LOGIN_FAILURES_BURST;

/// Who can be wrong.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Whom {
    /// Everybody at an address; of IPv6 at a network of 64 bits, which is what one machine commonly has.
    Address([u8; 8]),
    /// Everybody who says that he is this user.
    User(Box<[u8]>),
}

impl From<IpAddr> for Whom {
    fn from(address: IpAddr) -> Self {
        let mut front = [0; 8];
        match address.to_canonical() {
            IpAddr::V4(four) => front[4..].copy_from_slice(&four.octets()),
            IpAddr::V6(six) => front.copy_from_slice(&six.octets()[..8]),
        }
        Self::Address(front)
    }
}

/// Everybody who was wrong of late.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When each has all tokens again.
    full_at_ns: Mutex<HashMap<Whom, u64>>,
}

impl Throttle {
    /// When there is a token; none if there is one now.
    pub(super) fn until(&self, whom: &Whom, now: Instant) -> Option<Instant> {
        let all = self.full_at_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let token_at = all.get(whom)?.saturating_sub(DEPTH_NS);
        (now.0 <= token_at).then_some(Instant(token_at + 1))
    }

    /// Somebody was wrong.
    pub(super) fn note_failure(&self, whom: Whom, now: Instant) {
        let mut all = self.full_at_ns.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == LOGIN_FAILURES_MAX && !all.contains_key(&whom) {
            all.retain(|_, full_at| now.0 < *full_at);
            if all.len() == LOGIN_FAILURES_MAX {
                // Who was wrong least, or longest ago.
                let first = all.iter().min_by_key(|(_, full_at)| **full_at).map(|(whom, _)| whom.clone());
                first.and_then(|whom| all.remove(&whom));
            }
        }
        let full_at = all.entry(whom).or_insert(now.0);
        *full_at = now.0.max(*full_at) + SPACING_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const NOW: Instant = Instant(1_000_000_000_000);

    #[test]
    fn who_is_wrong_too_often_waits_for_a_token_and_others_do_not() {
        let throttle = Throttle::default();
        let whom = |last| Whom::from(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        for _ in 0..LOGIN_FAILURES_BURST {
            assert_eq!(throttle.until(&whom(1), NOW), None);
            throttle.note_failure(whom(1), NOW);
        }
        let at = throttle.until(&whom(1), NOW).expect("it waits");
        assert_eq!(at, Instant(NOW.0 + 1));
        throttle.note_failure(whom(1), NOW);
        let at = throttle.until(&whom(1), NOW).expect("it waits");
        assert_eq!(at, Instant(NOW.0 + SPACING_NS + 1));
        assert_eq!(throttle.until(&whom(1), at), None);
        assert_eq!(throttle.until(&whom(2), NOW), None);
        assert_eq!(throttle.until(&Whom::User(b"ann"[..].into()), NOW), None);
    }

    #[test]
    fn addresses_of_one_machine_are_one() {
        let whom = |text: &str| Whom::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(whom("2001:db8::1"), whom("2001:db8::ffff:2"));
        assert_ne!(whom("2001:db8::1"), whom("2001:db8:0:1::1"));
        assert_eq!(whom("::ffff:10.0.0.1"), whom("10.0.0.1"));
        assert_ne!(whom("10.0.0.1"), whom("10.0.0.2"));
    }

    #[test]
    fn as_many_as_may_be_are_remembered_and_the_worst_longest() {
        let throttle = Throttle::default();
        let whom = |n: u128| Whom::from(IpAddr::V6(Ipv6Addr::from(n << 64)));
        for _ in 0..=LOGIN_FAILURES_BURST {
            throttle.note_failure(whom(1), NOW);
        }
        for n in 2..3 * LOGIN_FAILURES_MAX as u128 {
            throttle.note_failure(whom(n), Instant(NOW.0 + 1));
        }
        assert_eq!(throttle.full_at_ns.lock().unwrap().len(), LOGIN_FAILURES_MAX);
        assert!(throttle.until(&whom(1), NOW).is_some());
        // All tokens are back: all are forgotten for the next.
        throttle.note_failure(whom(0), Instant(NOW.0 + 2 * DEPTH_NS));
        assert_eq!(throttle.full_at_ns.lock().unwrap().len(), 1);
    }
}
