//! The contract between sensors, policies and actuators, and the loop that joins them.
//!
//! Shape:      sensor -> `Seen` (signals) -> `Policy` -> `Decision` (shares) -> actuator -> in force
//! Invariants: a policy sees nothing but `Seen`; shares are checked against the policy's law when they are built
//! Source:     the algorithms of Memshare, NyxCache, MT², Spirit and PolyEMT, walked through one by one
//! Non-goals:  algorithms (crate `policy`), sensors and actuators (each thing's own `control.rs`)

mod claim;
mod policy;
mod shares;

pub mod bandwidth;
pub mod form;
pub mod joint;
pub mod journal;
pub mod memory;
pub mod pacer;

pub use claim::{Amount, Claim, Class, Goal, Levers, Weight};
pub use pacer::{Actuator, Loop, Sensor};
pub use policy::{Decision, Note, Policy, Pool, Reason, Row, Seen, Window};
pub use shares::{Law, Measured, Shares};
