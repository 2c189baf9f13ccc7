//! How many files this program, and the servers that it starts, may have open.
//!
//! Invariants: the limit is never lowered

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the limit to so many, if it is below; whether that many are allowed.
///
/// # Errors
/// If the system does not raise it, though it should.
pub(crate) fn allow(wanted: u64) -> io::Result<bool> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_below = |limit: Option<u64>| limit.is_some_and(|most| most < wanted);
    if is_below(maximum) {
        return Ok(false);
    }
    if is_below(current) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_and_never_lowered() {
        let before = getrlimit(Resource::Nofile);
        assert!(allow(8).unwrap());
        assert_eq!(getrlimit(Resource::Nofile), before);
        let more = before.current.map_or(u64::MAX, |current| current + 1);
        let is_allowed = before.maximum.is_none_or(|most| more <= most);
        assert_eq!(allow(more).unwrap(), is_allowed);
        assert!(!is_allowed || before.current.is_none() || getrlimit(Resource::Nofile).current == Some(more));
    }
}
