//! Devices that fail on purpose, for tests of whoever builds on them.
//!
//! Shape:      `Faulty` wraps any device and fails, tears or forgets writes; `Recorder` stands for the processor under a DAX tier
//!             and says what memory may look like after a crash at any moment
//! Invariants: deterministic: what fails is told or drawn from a seed

mod faulty;
mod recorder;

pub use faulty::{Fault, Faulty, Hung};
pub use recorder::{Crash, Omitted, Recorder};
