//! What is told of a tenant's curve, or why there is none.

use super::LOOK_UPS_MIN;
use units::Bytes;

/// What is known of a tenant's curve.
#[derive(Clone, PartialEq, Debug)]
pub struct CurveView {
    /// The tenant's name.
    pub name: String,
    /// Live bytes charged.
    pub held: Bytes,
    /// The share in force.
    pub target: Bytes,
    /// Look-ups per second, of late.
    pub gets_per_sec: f64,
    /// Misses over look-ups, of late; none without look-ups.
    pub miss_ratio: Option<f64>,
    /// Keys that the curve is made of.
    pub samples: usize,
    /// The part of the tenant's keys that is sampled.
    pub rate: f64,
    /// Sampled look-ups that the curve is made of.
    pub sampled_look_ups: u64,
    /// Samples that were dropped since the start, of all tenants: nobody took them in time. Their keys are sampled no more.
    pub lost: u64,
    /// The curve through what is measured, or why there is none.
    pub curve: Result<control::Curve, NoCurve>,
    /// What an LRU cache would miss, which that was made of.
    pub lru: Result<control::Curve, NoCurve>,
}

/// Why a tenant has no curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoCurve {
    /// Others ask more, and the memory does not suffice for all.
    #[error("not watched: it asks too little to be among the {0} tenants whose curves fit the memory")]
    NotWatched(usize),
    /// It is too early.
    #[error("not enough samples yet: {0} look-ups of sampled keys, {LOOK_UPS_MIN} are needed")]
    TooFew(u64),
    /// No sampled key was looked up twice.
    #[error("not enough samples yet: no sampled key was looked up twice in {0} look-ups")]
    NoReuse(u64),
}
