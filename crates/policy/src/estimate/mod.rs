//! What policies work out from signals: means, quantiles, decisions that do not flutter, curves; what accesses cost, who
//! disturbs whom, how a tenant would perform alone.
//!
//! Shape:      samples -> a number or a curve; every estimator is a value that its policy owns
//! Invariants: memory is bounded when an estimator is made; samples that are no number change nothing
//! Non-goals:  taking samples (sensors do), deciding

pub mod access_cost;
pub mod access_histogram;
pub mod interference;
pub mod pause;
pub mod slowdown;
pub mod stand_alone;

mod distances;
mod ewma;
mod hysteresis;
mod operating_point;
mod quantile;
mod reuse;
mod shards;

pub use ewma::{Ewma, NEW_SAMPLE_WEIGHT};
pub use hysteresis::{Hysteresis, Median, PERIODS_TO_SWITCH};
pub use operating_point::through;
pub use quantile::{QUANTILE_ERROR, Quantiles};
pub use shards::{Newest, RATE_MAX, SAMPLES_MAX, Shards};
