//! Memory and bandwidth divided together.
//!
//! Source: Spirit §3 (an auction over both)

use crate::claim::Amount;
use crate::curve::Curve;
use crate::shares::Measured;
use units::{Bytes, BytesPerSec};

/// What is measured of a tenant for a joint division.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JointSignal {
    /// Fast memory used.
    pub held: Bytes,
    /// Bandwidth to the slow tier used.
    pub bandwidth: BytesPerSec,
    /// Operations finished.
    pub operations: u64,
    /// Misses as a function of fast memory, once they are known.
    pub curve: Option<Curve>,
}

/// A share of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Joint {
    /// Fast memory.
    pub bytes: Bytes,
    /// Bandwidth to the slow tier.
    pub bandwidth: BytesPerSec,
}

impl Measured for Joint {
    fn amount(&self) -> Amount {
        Amount { bytes: self.bytes, bandwidth: self.bandwidth, ..Amount::default() }
    }

    fn divided(amount: Amount) -> Amount {
        Amount { cost: crate::bandwidth::Cost(0), ..amount }
    }
}
