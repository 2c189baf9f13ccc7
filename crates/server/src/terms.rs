//! What can change while the server runs of how memory is divided: what policies are told, and the private part, which is added to
//! what tenants claim.

use crate::config::{Config, ConfigError, refuse};
use policy::memory::{Credit, LEARNING, MemoryOptions, Tax};
use units::{Bytes, Duration};

/// What the policies about memory are told, and what part of it is private.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// Bytes that a shadow hit moves (Memshare §4.1).
    pub credit: Bytes,
    /// The part of idle memory that the idle tax takes, 0 to 1 (Memshare §6.1).
    pub tax: f64,
    /// Memory that was not touched for so long is idle (Memshare §4.2).
    pub idle_time: Duration,
    /// How long `auto` learns (Memshare §4.3).
    pub learning: Duration,
    /// The part of its first share, 0 to 1, that a tenant without a reservation has as private memory (Memshare §4.1).
    pub private: f64,
}

impl Default for Terms {
    /// Memshare's own, and nothing private.
    fn default() -> Self {
        let idle_time = Duration::from_secs(5 * 3_600);
        Self { credit: Bytes::kib(64), tax: 0.5, idle_time, learning: LEARNING, private: 0.0 }
    }
}

impl Terms {
    /// Those of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            credit: config.credit,
            tax: config.tax,
            idle_time: config.idle_time,
            learning: config.learning,
            private: config.private,
        }
    }

    /// Refuses what makes no sense.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.credit == Bytes::ZERO {
            return refuse(
                "a credit of zero moves nothing".to_owned(),
                "use policy = \"partitioned\" for fixed shares",
            );
        }
        if Tax::new(self.tax).is_none() {
            return refuse(format!("a tax of {} is outside 0 to 1", self.tax), "leave it at 0.5, a half");
        }
        if !(0.0..=1.0).contains(&self.private) {
            let what = format!("a private part of {} is outside 0 to 1", self.private);
            return refuse(what, "0 shares all memory, 1 none");
        }
        if self.idle_time == Duration::ZERO {
            let what = "with an idle time of zero everything is idle".to_owned();
            return refuse(what, "leave idle_time at 5h");
        }
        Ok(())
    }

    /// What a policy is told of them in a memory.
    pub(crate) fn options(&self, memory: Bytes, seed: u64) -> MemoryOptions {
        MemoryOptions {
            credit: Credit::fitting(self.credit, memory),
            tax: Tax::new(self.tax).unwrap_or(Tax::HALF),
            learning: self.learning,
            seed,
        }
    }
}
