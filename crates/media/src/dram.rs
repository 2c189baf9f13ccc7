//! DRAM: anonymous memory, in huge pages where the system allows.
//!
//! Assumptions: 1. anonymous pages read as zero until they are written; 2. `MADV_DONTNEED` gives the pages back and
//! makes them read as zero again, unless memory is locked; 3. nothing survives the process

use crate::{MapError, Medium, Region};
use units::{Bytes, TierId};

/// The medium `dram`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dram;

impl Medium for Dram {
    fn tier(&self) -> TierId {
        TierId(0)
    }

    fn access_unit(&self) -> Bytes {
        Bytes(64)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn map(&self, size: Bytes) -> Result<Region, MapError> {
        Region::anonymous(size)
    }
}
