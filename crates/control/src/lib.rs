//! The contract between sensors, policies and actuators, and the loop that joins them.
//!
//! Shape:      sensor -> `Seen` (signals) -> `Policy` -> `Decision` (shares) -> actuator -> in force
//! Invariants: a policy sees nothing but `Seen`; shares are checked against the policy's law when they are built
//! Source:     the algorithms of Memshare, NyxCache, MT², Spirit and PolyEMT, walked through one by one
//! Non-goals:  algorithms (crate `policy`), sensors and actuators (each thing's own `control.rs`)

mod claim;
mod curve;
mod join;
mod lease;
mod policy;
mod shares;

pub mod bandwidth;
pub mod form;
pub mod joint;
pub mod journal;
pub mod memory;
pub mod pacer;

pub use claim::{Amount, Claim, Class, CpuQuota, Goal, GroupId, Levers, Mba, Quantile, Slowdown, Weight};
pub use curve::{Curve, CurveError};
pub use join::{Join, Nest};
pub use lease::Lease;
pub use pacer::{Actuator, Loop, Sensor};
pub use policy::{Decision, Floors, Note, Policy, Pool, Reason, Row, Seen, SeenError, Window};
pub use shares::{Law, Measured, Shares};
