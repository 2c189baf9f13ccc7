//! The administration over HTTP: health, metrics, journal, tenants and the policy; and a client of it.

mod audit;
pub mod client;
mod connections;
mod curve;
mod door;
mod groups;
mod http;
mod journal;
mod named;
mod observed;
mod pieces;
mod policy;
mod prometheus;
mod sharing;
mod tenants;

pub(crate) use http::Administration;
