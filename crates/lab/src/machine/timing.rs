//! Cost of single operations on a slow tier: what does one access of a given size take of it?
//!
//! Shape:      kind, size -> MaxIOPS and cost
//! Units:      operations per second; cost in picoseconds of the tier
//! Source:     NyxCache §3.3 (cost = 1 / MaxIOPS, profile from 64 B to 4 KiB in steps of 64 B).
//!             We add: above 4 KiB an access costs as many pieces of 4 KiB (the paper's profile ends there).

use super::device::{Device, access};
use control::bandwidth::{Cost, Kind};
use media::Profile;
pub use media::ProfileRow;
pub use media::model::{LINE, MEDIA_UNIT, Operation, amplification, lines, prefetch_waste};
use units::Bytes;

/// Largest access of a profile; larger ones cost whole pieces of it.
pub const PROFILE_MAX: u64 = 4096;

impl Device {
    /// Most accesses per second of one kind and size that the tier bears alone; none for DRAM, which is not divided.
    #[must_use]
    pub fn max_iops(&self, kind: Kind, size: Bytes) -> Option<f64> {
        self.system.max_iops(access(kind), size)
    }

    /// What a tier's probe would find: MaxIOPS from 64 B to 4 KiB in steps of 64 B.
    #[must_use]
    pub fn profile(&self) -> Vec<ProfileRow> {
        Profile::modelled(&self.system)
    }

    /// Cost of one access in picoseconds of the tier; 0 for DRAM. Sizes round up to the profile's steps, above its end whole
    /// pieces of 4 KiB and the rest.
    #[must_use]
    pub fn cost_ps(&self, kind: Kind, size: Bytes) -> f64 {
        let step = |bytes: u64| {
            let size = Bytes(bytes.max(1).div_ceil(LINE) * LINE);
            self.max_iops(kind, size).map_or(0.0, |iops| Cost::SECOND.0 as f64 / iops)
        };
        let (pieces, rest) = (size.0 / PROFILE_MAX, size.0 % PROFILE_MAX);
        let rest = if 0 < rest || size.0 == 0 { step(rest) } else { 0.0 };
        pieces as f64 * step(PROFILE_MAX) + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_has_steps_of_256_bytes_for_writes_and_pieces_of_4_kib() {
        let device = Device::nyx();
        let write = |size| device.cost_ps(Kind::SlowWrite, Bytes(size));
        assert!((write(64) - write(256)).abs() < 1e-6, "a line costs what a unit of the medium costs");
        assert!((write(320) / write(256) - 2.0).abs() < 1e-9);
        assert!((write(8192) / write(4096) - 2.0).abs() < 1e-9);
        assert!((write(4096 + 1) - write(4096) - write(64)).abs() < 1e-6);
        assert!(device.cost_ps(Kind::DramRead, Bytes(64)).abs() < 1e-12);
        assert_eq!(device.profile().len(), 64);
    }
}
