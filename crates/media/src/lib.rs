//! Kinds of memory, and the meters on them.
//!
//! Invariants: the only crate that maps memory; `region`, `words`, `heap`, `cold` and the devices (`lost_pages` is a file's) are the only modules here with
//!             unsafe code
//! Non-goals:  items, tenants' rules, policies

pub mod brake;
mod buffer;
pub mod cold;
pub mod dax;
mod device;
mod dram;
pub mod emulated;
pub mod faults;
mod file;
mod heap;
mod meter;
pub mod model;
mod numa;
pub mod probe;
mod profile;
mod queue;
mod region;
mod spec;
mod stopwatch;
mod words;

pub use buffer::Buffer;
pub use dax::DaxTier;
pub use device::{Device, Plain, SlowAccess, Survival, notes_words};
pub use dram::Dram;
pub use file::{Damage, FileTier, Home, NewFile, TIER_MIN, TierError, beside};
pub use heap::give_freed_memory_back;
pub use meter::{Access, Meter, Traffic};
pub use numa::NumaTier;
pub use profile::{PROFILE_MAX, Profile, ProfileError, ProfileRow};
pub use queue::{Completed, DEPTH_MAX, Engine, ReadQueue, Ticket};
pub use region::{HUGE_PAGE, MapError, Region, prefetch};
pub use spec::{OpenTier, SPEC_FORMS, SpecError, TierMedium, TierSpec};
pub use stopwatch::Stopwatch;
pub use words::WordRegion;

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
