//! Who may use a tier how fast.

pub mod regulator;

mod none;
#[expect(dead_code, reason = "policies with a memory of each tenant are its users")]
mod roster;

pub use none::Unregulated;

use control::Policy;
use control::bandwidth::{BandwidthSignal, Throttle};

/// A policy about bandwidth, whichever the operator names.
pub type BandwidthPolicy = dyn Policy<Signal = BandwidthSignal, Share = Throttle>;

/// What policies of this family can be told besides the tenants' claims; the default is what their papers use.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Options {
    /// The seed of the policy's generator.
    pub seed: u64,
}

/// The policy called `name` (`none`), or none.
#[must_use]
pub fn by_name(name: &str, _options: &Options) -> Option<Box<BandwidthPolicy>> {
    Some(match name {
        "none" => Box::new(Unregulated::default()),
        _ => return None,
    })
}
