//! Where the laboratory meets the server: replay, demo, benchmarks.
//!
//! Non-goals: being needed to serve

mod report;

pub mod demo;
pub mod replay;
pub mod wire;

pub use report::{Report, TenantReport};
