//! The parsers that read what others send or write, each with what must hold of it whatever comes: for fuzzers.
//!
//! Failure: what does not hold is a panic

use crate::memcache::fuzzed::{binary, log_in, sasl_plain, text};
use crate::{Address, Defaults, Listener, TierClaim, TlsMode, UNIX_MODE, auth, proxy_protocol};
use store::fuzzing::Target;

/// What is the server's.
pub const TARGETS: &[Target] = &[
    ("text", text),
    ("binary", binary),
    ("log-in", log_in),
    ("sasl-plain", sasl_plain),
    ("proxy-header", proxy_protocol::fuzzed),
    ("users", auth::fuzzed),
    ("listener", listener),
    ("claim", claim),
];

/// A listener as an option names it: a wrong one is told in a line, with a cure in another.
fn listener(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let defaults = Defaults { port: None, tls: TlsMode::Off, unix_mode: UNIX_MODE };
    match Listener::parse(text, &defaults) {
        Ok(listener) => {
            // Where it listens does not depend on what stands before the address.
            let address = match &listener.address {
                Address::Unix(path, mode) => format!("unix:{}:{mode:o}", path.display()),
                other => other.to_string(),
            };
            let again = Listener::parse(&address, &defaults).map(|again| again.address);
            assert!(again.as_ref().is_ok_and(|again| *again == listener.address), "{text}: {again:?}");
        }
        Err(error) => {
            // The text is repeated as it is.
            let breaks = |what: &str| what.matches('\n').count();
            assert!(!error.cure.is_empty() && breaks(&error.what) <= breaks(text), "{error:?}");
        }
    }
}

/// What a tenant claims of a tier: what is shown of it is read again as the same, but for what is shown in per cent, to a billionth.
fn claim(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(claim) = text.parse::<TierClaim>() {
        let shown = claim.to_string();
        let again = shown.parse::<TierClaim>();
        let is_rounded = |clause: &str| clause.ends_with('%') || clause.starts_with('p');
        let is_same = again.as_ref().is_ok_and(|again| *again == claim || shown.split("; ").any(is_rounded));
        assert!(is_same && again.is_ok_and(|again| again.to_string() == shown), "{shown}: {claim:?}");
    }
}
