//! How often somebody may be wrong: attempts of who was wrong too often wait.
//!
//! Shape:      an attempt takes a token of its address, and one of the user's if it is dear; they go back unless it turns out
//!             to be wrong; without a token attempts wait until there is one
//! Invariants: nobody is locked out: no wait is longer than a token takes to come back, and an address that was not wrong of
//!             late does not wait for a user's token; who is forgotten has all tokens; memory is bounded
//! Units:      nanoseconds of the server's clock

use crate::limits::{LOGIN_FAILURES_BURST, LOGIN_FAILURES_MAX, LOGIN_FAILURES_PER_SECOND};
use crate::tokens::Bucket;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use units::Instant;

/// Nanoseconds until a token comes back.
const SPACING_NS: u64 = 1_000_000_000 / LOGIN_FAILURES_PER_SECOND;
/// Everybody's bucket.
const BUCKET: Bucket = Bucket { spacing_ns: SPACING_NS, depth_ns: SPACING_NS * LOGIN_FAILURES_BURST };

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

/// The tokens that an attempt has taken; dropped, they are given back.
#[derive(Debug)]
pub(super) struct Taken {
    throttle: Arc<Throttle>,
    of: Vec<Whom>,
    at: Instant,
}

/// Everybody who was wrong of late, or may turn out to have been.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When each has all tokens again.
    full_at_ns: Mutex<HashMap<Whom, u64>>,
}

impl Throttle {
    /// Takes the tokens of an attempt from `address`; `dear` is its user where it is dear to look at. When to try again, if
    /// there is no token.
    pub(super) fn take(
        self: &Arc<Self>,
        address: Option<Whom>,
        dear: Option<Whom>,
        now: Instant,
    ) -> Result<Taken, Instant> {
        let mut all = self.full_at_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let lacks_until = |whom: Option<&Whom>| {
            let full_at = *all.get(whom?)?;
            BUCKET.taken(full_at, 1, now).is_none().then(|| BUCKET.token_at(full_at))
        };
        if let Some(at) = lacks_until(address.as_ref()) {
            return Err(at);
        }
        let is_wrong = |address: &Whom| all.get(address).is_some_and(|full_at| now.0 < *full_at);
        let dear = match lacks_until(dear.as_ref()) {
            // Who floods a user's log-ins from elsewhere keeps the user himself from nothing.
            Some(_) if address.as_ref().is_some_and(|address| !is_wrong(address)) => None,
            Some(at) => return Err(at),
            None => dear,
        };
        let of: Vec<_> = address.into_iter().chain(dear).collect();
        of.iter().for_each(|whom| charge(&mut all, whom, now));
        Ok(Taken { throttle: Arc::clone(self), of, at: now })
    }
}

impl Taken {
    /// The attempt was wrong.
    pub(super) fn spend(mut self) {
        self.of.clear();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut all = self.throttle.full_at_ns.lock().unwrap_or_else(PoisonError::into_inner);
        for whom in &self.of {
            let Some(full_at) = all.get_mut(whom) else { continue };
            *full_at = BUCKET.given_back(*full_at, 1);
            if *full_at <= self.at.0 {
                all.remove(whom);
            }
        }
    }
}

/// Takes a token that is there.
fn charge(all: &mut HashMap<Whom, u64>, whom: &Whom, now: Instant) {
    if all.len() == LOGIN_FAILURES_MAX && !all.contains_key(whom) {
        all.retain(|_, full_at| now.0 < *full_at);
        if all.len() == LOGIN_FAILURES_MAX {
            // Who was wrong least, or longest ago.
            let first = all.iter().min_by_key(|(_, full_at)| **full_at).map(|(whom, _)| whom.clone());
            first.and_then(|whom| all.remove(&whom));
        }
    }
    let full_at = all.entry(whom.clone()).or_insert(0);
    *full_at = BUCKET.taken(*full_at, 1, now).unwrap_or(*full_at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const NOW: Instant = Instant(1_000_000_000_000);

    fn host(last: u8) -> Option<Whom> {
        Some(Whom::from(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))))
    }

    fn ann() -> Option<Whom> {
        Some(Whom::User(b"ann"[..].into()))
    }

    fn wrong(
        throttle: &Arc<Throttle>,
        address: Option<Whom>,
        dear: Option<Whom>,
        now: Instant,
    ) -> Result<(), Instant> {
        throttle.take(address, dear, now).map(Taken::spend)
    }

    #[test]
    fn who_is_wrong_too_often_waits_for_a_token_and_others_do_not() {
        let throttle = Arc::default();
        for _ in 0..LOGIN_FAILURES_BURST {
            assert_eq!(wrong(&throttle, host(1), None, NOW), Ok(()));
        }
        let at = Instant(NOW.0 + 1);
        assert_eq!(wrong(&throttle, host(1), None, NOW), Err(at));
        assert_eq!(wrong(&throttle, host(1), None, at), Ok(()));
        let at = Instant(NOW.0 + SPACING_NS + 1);
        assert_eq!(wrong(&throttle, host(1), None, NOW), Err(at));
        assert_eq!(wrong(&throttle, host(2), None, NOW), Ok(()));
        assert_eq!(wrong(&throttle, host(1), None, at), Ok(()));
    }

    #[test]
    fn who_is_right_has_taken_nothing() {
        let throttle = Arc::<Throttle>::default();
        for _ in 0..3 * LOGIN_FAILURES_BURST {
            assert!(throttle.take(host(1), ann(), NOW).is_ok());
        }
        assert!(throttle.full_at_ns.lock().unwrap().is_empty());
        // One that nobody has a verdict of counts as wrong, so long.
        let first = throttle.take(host(1), ann(), NOW).unwrap();
        for _ in 1..LOGIN_FAILURES_BURST {
            assert_eq!(wrong(&throttle, host(1), ann(), NOW), Ok(()));
        }
        assert!(throttle.take(host(1), ann(), NOW).is_err());
        drop(first);
        assert!(throttle.take(host(1), ann(), NOW).is_ok());
    }

    #[test]
    fn whom_others_guess_at_gets_in_from_where_nobody_was_wrong() {
        let throttle = Arc::default();
        // From a few addresses at once.
        let guesses = [0, 1, 2, 3].into_iter().cycle().take(1000);
        let passed = guesses.filter(|last| wrong(&throttle, host(*last), ann(), NOW).is_ok()).count();
        assert_eq!(passed as u64, LOGIN_FAILURES_BURST);
        let at = Instant(NOW.0 + 1);
        assert_eq!(wrong(&throttle, host(3), ann(), NOW), Err(at));
        assert_eq!(wrong(&throttle, host(9), ann(), NOW), Ok(()));
        // Its next attempt is one of somebody who was wrong, until its token has come back; and there is no debt.
        assert_eq!(wrong(&throttle, host(9), ann(), NOW), Err(at));
        assert_eq!(wrong(&throttle, None, ann(), NOW), Err(at));
        assert_eq!(wrong(&throttle, host(9), ann(), at), Ok(()));
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
        let throttle = Arc::<Throttle>::default();
        let whom = |n: u128| Some(Whom::from(IpAddr::V6(Ipv6Addr::from(n << 64))));
        for _ in 0..LOGIN_FAILURES_BURST {
            assert_eq!(wrong(&throttle, whom(1), None, NOW), Ok(()));
        }
        for n in 2..3 * LOGIN_FAILURES_MAX as u128 {
            assert_eq!(wrong(&throttle, whom(n), None, Instant(NOW.0 + 1)), Ok(()));
        }
        assert_eq!(throttle.full_at_ns.lock().unwrap().len(), LOGIN_FAILURES_MAX);
        assert!(throttle.take(whom(1), None, NOW).is_err());
        // All tokens are back: all are forgotten for the next.
        assert_eq!(wrong(&throttle, whom(0), None, Instant(NOW.0 + 2 * BUCKET.depth_ns)), Ok(()));
        assert_eq!(throttle.full_at_ns.lock().unwrap().len(), 1);
    }
}
