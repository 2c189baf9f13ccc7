//! Who a connection is: as the listener has it, or as somebody who has shown a password.
//!
//! Invariants: what was granted goes with the next attempt that fails

use crate::limits::AUTH_ATTEMPTS_MAX;
use crate::tenants::Binding;

/// What a user may do beside reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rights {
    /// Nothing is changed.
    pub(crate) read_only: bool,
    /// Nothing is flushed.
    pub(crate) no_flush: bool,
}

/// What a request needs of whoever asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Nothing is changed.
    Read,
    /// An item is changed, its time included.
    Write,
    /// Every item goes.
    Flush,
    /// The server is changed.
    Administer,
}

/// Why a request is not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// The credentials are read-only.
    ReadOnly,
    /// The credentials may not flush.
    NoFlush,
}

/// What a password gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) binding: Binding,
    pub(crate) rights: Rights,
}

/// Who a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// Whose connections come in at its listener.
    door: Binding,
    /// Its listener asks for a password.
    is_asked: bool,
    grant: Option<Grant>,
    failures: u8,
    /// A mechanism was named, its message is to follow.
    has_begun: bool,
}

impl Rights {
    /// Why a request is refused, if it is.
    pub(crate) fn denies(self, need: Need) -> Option<Denied> {
        match need {
            Need::Read => None,
            Need::Write | Need::Administer | Need::Flush if self.read_only => Some(Denied::ReadOnly),
            Need::Flush if self.no_flush => Some(Denied::NoFlush),
            Need::Write | Need::Administer | Need::Flush => None,
        }
    }
}

impl Identity {
    /// Somebody who comes in.
    pub(crate) fn new(door: Binding, is_asked: bool) -> Self {
        Self { door, is_asked, grant: None, failures: 0, has_begun: false }
    }

    /// Whose connection it is.
    #[inline]
    pub(crate) fn binding(&self) -> Binding {
        self.grant.map_or(self.door, |grant| grant.binding)
    }

    /// Somebody whose certificate is the tenant's: no password is asked for, and none that is wrong takes the tenant away.
    pub(crate) fn certified(self, binding: Binding) -> Self {
        Self { door: binding, is_asked: false, ..self }
    }

    /// Why a request is refused, if it is.
    #[inline]
    pub(crate) fn denies(&self, need: Need) -> Option<Denied> {
        self.grant.and_then(|grant| grant.rights.denies(need))
    }

    /// Whether a password is asked for and was not shown.
    #[inline]
    pub(crate) fn is_stranger(&self) -> bool {
        self.is_asked && self.grant.is_none()
    }

    /// After an attempt: what it gave, or one more failure.
    pub(crate) fn after(self, grant: Option<Grant>) -> Self {
        let failures = if grant.is_some() { 0 } else { self.failures.saturating_add(1) };
        Self { grant, failures, has_begun: false, ..self }
    }

    /// Whether so many attempts failed that the connection ends.
    pub(crate) fn is_worn_out(&self) -> bool {
        AUTH_ATTEMPTS_MAX <= self.failures
    }

    /// After a mechanism was named without a message.
    pub(crate) fn begun(self) -> Self {
        Self { grant: None, has_begun: true, ..self }
    }

    /// Whether a mechanism was named and its message is to follow.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::TenantId;

    #[test]
    fn a_certificate_lasts_whatever_is_said_of_passwords() {
        let own = Binding::To(TenantId(3));
        for is_asked in [false, true] {
            let certified = Identity::new(Binding::Unbound, is_asked).certified(own);
            for identity in
                [certified, certified.begun(), certified.after(None), certified.begun().after(None)]
            {
                assert_eq!((identity.binding(), identity.is_stranger()), (own, false));
            }
        }
    }

    #[test]
    fn rights_deny_what_they_say() {
        let rights = |read_only, no_flush| Rights { read_only, no_flush };
        for (rights, need, denied) in [
            (rights(false, false), Need::Flush, None),
            (rights(false, false), Need::Administer, None),
            (rights(true, false), Need::Read, None),
            (rights(true, false), Need::Write, Some(Denied::ReadOnly)),
            (rights(true, true), Need::Flush, Some(Denied::ReadOnly)),
            (rights(true, false), Need::Administer, Some(Denied::ReadOnly)),
            (rights(false, true), Need::Write, None),
            (rights(false, true), Need::Flush, Some(Denied::NoFlush)),
        ] {
            assert_eq!(rights.denies(need), denied, "{rights:?} {need:?}");
        }
    }

    #[test]
    fn a_failure_takes_back_what_was_granted() {
        let grant = Grant { binding: Binding::To(TenantId(7)), rights: Rights::default() };
        let stranger = Identity::new(Binding::Unbound, true);
        assert!(stranger.is_stranger());
        let known = stranger.after(Some(grant));
        assert_eq!((known.binding(), known.is_stranger()), (Binding::To(TenantId(7)), false));
        let again = known.after(None);
        assert_eq!((again.binding(), again.is_stranger()), (Binding::Unbound, true));
        let mut identity = again;
        for _ in 1..AUTH_ATTEMPTS_MAX {
            assert!(!identity.is_worn_out());
            identity = identity.after(None);
        }
        assert!(identity.is_worn_out());
    }

    #[test]
    fn who_begins_anew_is_nobody_until_it_is_through() {
        let (own, rights) = (Binding::To(TenantId(3)), Rights::default());
        let known = Identity::new(Binding::Unbound, true).after(Some(Grant { binding: own, rights }));
        assert_eq!((known.binding(), known.is_stranger(), known.has_begun()), (own, false, false));
        let begun = known.begun();
        assert_eq!((begun.binding(), begun.is_stranger(), begun.has_begun()), (Binding::Unbound, true, true));
        assert!(begun.after(None).is_stranger());
    }
}
