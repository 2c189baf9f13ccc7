//! Where the laboratory meets the server: replay, plan, demo, doctor, experiments, benchmarks.
//!
//! Non-goals: being needed to serve

mod names;
mod report;

pub mod demo;
pub mod doctor;
pub mod experiments;
pub mod live;
pub mod one_line;
pub mod plan;
pub mod replay;
pub mod wire;

pub use report::{Report, TenantReport, TierReport};
