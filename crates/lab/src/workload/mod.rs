//! Workloads made from published production statistics, for when no trace is at hand.
//!
//! Shape:      demo.csv (facts with their sources) -> `Tenant` -> `Mix`, an endless `TraceReader`
//! Invariants: the same seed, scale and pace give the same requests on every run

mod mix;
mod phase;
mod tenant;
mod value;
mod zipf;

pub use mix::{Mix, Pace};
pub use phase::Phase;
pub use tenant::{OpShares, TableError, Tenant, demo_tenants, parse_tenants};
pub use value::ValueSizes;
pub use zipf::Zipf;
