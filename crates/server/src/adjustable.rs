//! Settings that are numbers and may change while the server runs.
//!
//! Invariants: each is read anew wherever it is used; what began under the old value ends under it or under the new one

use crate::config::Config;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Duration;

/// The values in force.
#[derive(Debug, Default)]
pub(crate) struct Adjustable {
    max_connections: AtomicU64,
    idle_timeout_ns: AtomicU64,
    send_timeout_ns: AtomicU64,
    slow_request_ns: AtomicU64,
}

impl Adjustable {
    /// Those of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let new = Self::default();
        new.adopt(config);
        new
    }

    /// Takes them over from a configuration.
    pub(crate) fn adopt(&self, config: &Config) {
        self.max_connections.store(config.max_connections as u64, Ordering::Relaxed);
        self.idle_timeout_ns.store(config.idle_timeout.0, Ordering::Relaxed);
        self.send_timeout_ns.store(config.send_timeout.0, Ordering::Relaxed);
        self.slow_request_ns.store(config.slow_request.0, Ordering::Relaxed);
    }

    /// Connections accepted at once.
    pub(crate) fn max_connections(&self) -> u64 {
        self.max_connections.load(Ordering::Relaxed)
    }

    /// After so long connections are closed that are silent; zero means never.
    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration(self.idle_timeout_ns.load(Ordering::Relaxed))
    }

    /// After so long connections are closed that do not take a reply; zero means never.
    pub(crate) fn send_timeout(&self) -> Duration {
        Duration(self.send_timeout_ns.load(Ordering::Relaxed))
    }

    /// Requests that take so long are in the list of slow ones; zero means all.
    pub(crate) fn slow_request(&self) -> Duration {
        Duration(self.slow_request_ns.load(Ordering::Relaxed))
    }
}
