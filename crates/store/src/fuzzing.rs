//! What reads texts and bytes of others, each with what must hold of it whatever comes: for fuzzers.
//!
//! Failure: what does not hold is a panic

use crate::{rank, tier};

/// A name, and what bytes are given to.
pub type Target = (&'static str, fn(&[u8]));

/// What is the store's.
pub const TARGETS: &[Target] =
    &[("rank", rank::fuzzed), ("record", tier::fuzzed::record), ("saved", tier::fuzzed::saved)];
