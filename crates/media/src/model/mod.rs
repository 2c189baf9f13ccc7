//! How persistent memory and DRAM behind one memory controller behave: constants and formulas of the two-station model.
//!
//! Shape:      a `MemorySystem` says what one unit of traffic asks of the medium and of the controller, and how a thread
//!             behaves beside them; the laboratory solves it in virtual time, the emulated tier takes its time for real
//! Units:      nanoseconds, GB/s (which is bytes per nanosecond)
//! Non-goals:  solving it; NUMA-remote access, thermal limits, misses of the address table, fences, CXL

mod operation;
mod system;

pub use operation::{
    LINE, MEDIA_UNIT, Operation, amplification, lines, media_bytes_per_byte, prefetch_waste,
};
pub use system::{Client, MemorySystem, Modules, SCALARS};
