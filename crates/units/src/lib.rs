//! The words that every crate speaks: quantities with units, ids, time that is handed in, seeded randomness.
//!
//! Non-goals: I/O, domain rules, dependencies

mod id;
mod parse;
mod quantity;
mod rng;
mod time;

pub use id::{SegmentId, TenantId, TierId};
pub use parse::ParseError;
pub use quantity::{Bytes, BytesPerSec};
pub use rng::{Rng, mix64};
pub use time::{Duration, Instant};
