//! What the bytes of a tier are used as.
//!
//! Source: PolyEMT §3 (functional and representational morphing)

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
    /// Uncompressed bytes per compressed byte, where known.
    pub compression: Option<f64>,
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
