//! Kinds of memory, and the meters on them.
//!
//! Invariants: the only crate that maps memory; `region`, `heap` and the devices are the only modules here with unsafe code
//! Non-goals:  items, tenants' rules, policies

mod device;
mod dram;
mod heap;
mod meter;
mod region;

pub use device::{Device, Plain, SlowAccess, Survival, notes_words};
pub use dram::Dram;
pub use heap::give_freed_memory_back;
pub use meter::{Access, Meter, Traffic};
pub use region::{MapError, Region, WordRegion};

use units::{Bytes, TierId};

/// A kind of memory that regions can be mapped from.
pub trait Medium {
    /// Its place in the order of speed.
    fn tier(&self) -> TierId;
    /// Smallest piece that it reads or writes at once.
    fn access_unit(&self) -> Bytes;
    /// Whether its content survives the process.
    fn is_durable(&self) -> bool;
    /// Maps a region of `size`. Its bytes are zero and cost memory only once they are touched.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    fn map(&self, size: Bytes) -> Result<Region, MapError>;
}
