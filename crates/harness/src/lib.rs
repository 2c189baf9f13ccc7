//! Where the laboratory meets the server: replay, demo, benchmarks.
//!
//! Non-goals: being needed to serve

mod report;

pub mod replay;

pub use report::{Report, TenantReport};
