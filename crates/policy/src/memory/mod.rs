//! Who gets how many bytes of a tier.

mod idle_tax;
mod memshare;
mod split;
mod static_split;

pub use idle_tax::{IdleTax, Tax};
pub use memshare::Shared;
pub use static_split::Partitioned;

use control::memory::{MemoryShare, MemorySignal};
use control::{Decision, Policy, Seen};
use units::{Bytes, Instant};

/// The policies about memory as one type, so that a loop can hold the one that the configuration names.
#[derive(Debug)]
pub enum MemoryPolicy {
    /// Fixed shares.
    Partitioned(Partitioned),
    /// Credits for shadow hits.
    Shared(Shared),
}

impl MemoryPolicy {
    /// The policy called `name` (`partitioned`, `shared`), or none.
    #[must_use]
    pub fn by_name(name: &str, credit: Bytes, seed: u64) -> Option<Self> {
        match name {
            "partitioned" => Some(Self::Partitioned(Partitioned::default())),
            "shared" => Some(Self::Shared(Shared::new(credit, seed))),
            _ => None,
        }
    }
}

impl Policy for MemoryPolicy {
    type Signal = MemorySignal;
    type Share = MemoryShare;

    fn name(&self) -> &'static str {
        match self {
            Self::Partitioned(p) => p.name(),
            Self::Shared(p) => p.name(),
        }
    }

    fn decide(
        &mut self,
        now: Instant,
        seen: &Seen<'_, MemorySignal, MemoryShare>,
    ) -> Decision<'_, MemoryShare> {
        match self {
            Self::Partitioned(p) => p.decide(now, seen),
            Self::Shared(p) => p.decide(now, seen),
        }
    }
}
