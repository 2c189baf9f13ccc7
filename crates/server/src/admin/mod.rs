//! The administration over HTTP: health, metrics, journal, tenants and the policy; and a client of it.

pub mod client;
mod curve;
mod http;
mod prometheus;
mod groups;
mod tenants;

pub(crate) use http::serve;
