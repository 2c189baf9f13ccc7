//! What must hold of memcached's protocols whatever comes, for fuzzers and tests.

use super::binary::{self, HEADER, plain};
use super::log_in;
use super::parse::{self, Bounds, Parsed};
use crate::cuts::{Front, read_at_every_cut};

/// Small: longer streams cost the square of their length.
const BOUNDS: Bounds = Bounds { body_max: 1001, upload_from: 900, flush_disabled: false };

impl<'b> From<Parsed<'b>> for Front<Parsed<'b>> {
    fn from(parsed: Parsed<'b>) -> Self {
        match parsed {
            Parsed::Request(_, taken) => Self::Means(parsed, taken as u64),
            Parsed::Refused { skip, .. } => Self::Means(parsed, skip),
            Parsed::Upload { taken, len, .. } => Self::Means(parsed, (taken + len) as u64),
            Parsed::Incomplete(needed) => Self::Incomplete(needed),
            Parsed::Hopeless => Self::Hopeless,
        }
    }
}

/// A stream of the text protocols, classic and meta.
pub(crate) fn text(stream: &[u8]) {
    read_at_every_cut(stream, |rest| parse::parse(rest, &BOUNDS).into());
}

/// A stream of the binary protocol.
pub(crate) fn binary(stream: &[u8]) {
    read_at_every_cut(stream, |rest| match binary::parse(rest, &BOUNDS) {
        binary::Parsed::Request(request, takes) => {
            assert!(HEADER as u64 <= takes, "a header is taken whole");
            Front::Means(request, takes)
        }
        binary::Parsed::Upload { request, taken, len } => Front::Means(request, (taken + len) as u64),
        binary::Parsed::Incomplete(needed) => Front::Incomplete(needed),
        binary::Parsed::Hopeless => Front::Hopeless,
    });
}

/// What a stranger sends in the text protocol.
pub(crate) fn log_in(stream: &[u8]) {
    read_at_every_cut(stream, |rest| match log_in::parse(rest) {
        log_in::Parsed::Message(message, takes) => Front::Means(message, takes),
        log_in::Parsed::Incomplete(needed) => Front::Incomplete(needed),
        log_in::Parsed::Hopeless => Front::Hopeless,
    });
}

/// A message of SASL's mechanism PLAIN.
pub(crate) fn sasl_plain(message: &[u8]) {
    let (nuls, first) = (message.iter().filter(|b| **b == 0).count(), message.split(|b| *b == 0).next());
    match plain(message) {
        Some((user, password)) => {
            let acts_for = first.unwrap_or_default();
            assert!(acts_for.is_empty() || acts_for == user);
            assert_eq!([acts_for, user, password].join(&0), message);
        }
        None => assert!(nuls != 2 || !matches!(first, Some(b"")), "{message:?} is one"),
    }
}
