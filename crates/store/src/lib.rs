//! The log-structured store: items of all tenants in one log, an index to find them, a cleaner that steers who holds
//! how much.
//!
//! Source:    Memshare §3 and §5; the layout and its sums are in `docs/decisions`
//! Non-goals: naming a policy (shares come in through `control`), speaking a protocol

pub mod fuzzing;
mod geometry;
mod hash;
pub mod limits;
mod sync;

mod item;
mod segment;
mod slot;
mod stamps;

mod epoch;
mod extents;
mod index;
mod log;
mod words;

mod tier;

mod curves;
mod expiry;
mod ghosts;
mod idle;
mod moments;
mod rank;
mod shadow;
mod tenant;

mod account;
mod census;
mod classes;
mod cleaner;
mod departed;
mod destinations;
mod effort;
mod large;
mod passes;
mod patience;
mod room;
mod sources;
mod survey;
mod survivors;
mod sweep;
mod trim;
mod witness;

mod bandwidth;
mod brakes;
mod check;
mod control;
mod group_floors;
mod headway;
mod joint;
mod latency;
mod metrics;
mod pin;
mod store;
mod upload;
mod worker;

#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;

pub use crate::control::MemoryControl;
pub use bandwidth::BandwidthControl;
pub use classes::{CLASSES, ClassTotals, class_bound, class_of};
pub use curves::{LookUps, RING_BYTES, SampledAccess, SampledKind};
pub use effort::{Effort, Interval};
pub use geometry::{Geometry, divisible_capacity};
pub use hash::Space;
pub use headway::Headway;
pub use item::ITEM_OVERHEAD_MAX;
pub use joint::JointControl;
pub use limits::{CLEANERS_MAX, ITEM_MAX, MARKS_MAX, MARKS_MIN, TIERS_MAX};
pub use metrics::{CleanerTotals, Eviction, Totals};
pub use passes::{FixedPass, PassKind, PassTotals};
pub use pin::Pinned;
pub use rank::{Expression, RankError, RankKind};
pub use store::{CLOCK_START, MemoryUse, Options, Store, StoreError};
pub use tenant::{OverShare, TenantSpec, TenantState};
pub use tier::{
    BelowTotals, Found, NotTaken, Placement, Promotion, Restored, TierTotals, TierUse, TrafficTotal,
    may_replace,
};
pub use upload::{Shortage, Upload};
pub use witness::Evicted;
pub use worker::{
    Count, Counted, CountedIf, Cursor, Death, Description, Fetch, FetchPlan, Fetched, Fields, Held, Item,
    Key, Mode, OutOfMemory, Refused, Removal, Remove, Removed, Stored, Worker, Write, Written,
};
