//! Servers in processes of their own, measured from outside: ours and others, and a load that verifies every answer.
//!
//! Shape:     a program -> `Peer`; connections -> `Load`; numbers -> keys and values
//! Non-goals: judging what is measured

mod load;
mod peer;

pub mod keys;

pub use load::{Asked, Dialect, Load, Outcome};
pub use peer::{Cleaning, Figures, Kind, Peer};
