//! The laboratory: traces to replay, workloads to generate, exact simulators to compare with, papers to reproduce.
//!
//! Shape:      trace or workload (requests in order) -> a store, a server or a reference simulator
//! Invariants: nothing here reads a clock; time is in the requests, chance comes from a seed
//! Failure:    traces are untrusted input: every fault is a `TraceError` with a line number, never a panic

pub mod experiment;
pub mod limits;
pub mod machine;
pub mod reference;
pub mod trace;
pub mod workload;

pub use reference::{Reference, Tally, look_aside};
pub use trace::{
    Format, Op, Request, TraceError, TraceReader, UnknownFormat, head, open, open_reader, unpack, zstd_magic,
};
pub use workload::{Mix, Pace, Tenant, demo_tenants};
