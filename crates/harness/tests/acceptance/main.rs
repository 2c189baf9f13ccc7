//! Acceptance of the main job: many tenants in one memory, by the figures that were promised.
//!
//! Shape:  `load` (requests), `exact` (what an ideal cache does with them), `rig` (the store under its control loop),
//!         `live` (a server in this process); one file per promise
//! Traces: the shared ones are found by `COTENANT_TRACES` or beside the repository; a test that lacks them prints that
//!         it skips
//! Notes:  nothing here asserts a wall-clock time; `--nocapture` shows the figures
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]
#![allow(clippy::print_stdout, reason = "the figures behind each assertion are worth reading")]

mod exact;
mod live;
mod load;
mod rig;

mod bounded_memory;
mod curves;
mod floors;
mod generator;
mod journal;
mod mixed_trace;
mod one_policy;
mod over_tcp;
mod shadow;
mod shares;
mod spraying;
mod sweeps;
mod switching;
