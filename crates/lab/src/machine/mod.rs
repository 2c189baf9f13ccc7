//! A modelled machine in virtual time: tenants, a memory system, levers, and what goes wrong with them.
//!
//! Shape:      tenants' streams and throttles -> steady state -> signals; `drive` closes the loop with any bandwidth policy
//! Invariants: deterministic to the byte from its seed; tests freeze constants: of the memory system before any policy ran
//!             on it, of the SSD and the swap plants at the time that their headers say
//! Source:     the two-station model of DRAM and persistent memory behind one memory controller, calibrated on OptaneStudy,
//!             MT² and NyxCache; levers' responses of MT² Fig. 4 and Table 2
//! Non-goals:  cycle accuracy; what `device.rs` lists as not modelled

mod budget;
pub mod cache;
mod class;
mod control;
mod device;
mod faults;
mod history;
pub mod latency;
mod level0;
pub mod levers;
mod model;
mod plant;
pub mod ssd;
mod stations;
pub mod swap;
pub mod swap_programs;
mod tenant;
pub mod timing;
mod truth;

pub use self::control::drive;
pub use device::{Client, Device, Level, Modules};
pub use faults::Faults;
pub use history::Steady;
pub use plant::Machine;
pub use tenant::{Load, Phase, Stream, Tenant};
pub use timing::{Operation, ProfileRow};

#[cfg(test)]
mod calibration_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod plant_tests;
#[cfg(test)]
mod swap_freeze_tests;
