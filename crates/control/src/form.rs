//! What the bytes of a tier are used as.
//!
//! Source: PolyEMT §3 (functional and representational morphing). The latency of the SSD behind the tier (§4) is the
//!         pool's: `slow_read` and `slow_write` of [`crate::Pool::latency`]

use crate::claim::Amount;
use crate::shares::Measured;
use units::{Bytes, Duration};

/// What is measured of a mapped tenant over a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FormSignal {
    /// Operations finished.
    pub operations: u64,
    /// Mean latency of an operation.
    pub latency: Duration,
    /// Latency at the 99th percentile.
    pub tail: Duration,
    /// Standard error of `latency` relative to it, from the means of equal parts of the window; none if not known.
    pub latency_error: Option<f64>,
    /// Standard error of `tail` relative to it, by the same means.
    pub tail_error: Option<f64>,
    /// Uncompressed bytes per compressed byte, where known.
    pub compression: Option<f64>,
    /// Bytes that each form holds now; a form that was just given fills by and by. None if not known.
    pub held: Option<Forms>,
}

/// A tier's bytes by use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forms {
    /// Durable buffer in front of the SSD.
    pub write_cache: Bytes,
    /// Pages as they are.
    pub memory: Bytes,
    /// Pages compressed.
    pub compressed: Bytes,
}

impl Measured for Forms {
    fn amount(&self) -> Amount {
        Amount::memory(self.write_cache + self.memory + self.compressed)
    }

    fn divided(amount: Amount) -> Amount {
        Amount::memory(amount.bytes)
    }
}
