//! The administration over HTTP: health and metrics.

mod curve;
mod http;
mod prometheus;

pub(crate) use http::serve;
