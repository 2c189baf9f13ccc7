//! A tenant of the modelled machine: what it asks of the memory, from when to when.
//!
//! Shape:      streams of accesses (kind, size, load) that phases replace at given times
//! Units:      bytes, bytes per second, virtual time

use control::Claim;
use control::bandwidth::Kind;
use units::{Bytes, BytesPerSec, Duration, Instant};

/// A tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// What it is called in results.
    pub name: String,
    /// What the operator promised it.
    pub claim: Claim,
    /// What it does from its arrival on.
    pub streams: Vec<Stream>,
    /// What it does later: at each time other streams replace all before. In the order of time.
    pub phases: Vec<Phase>,
}

/// A change of what a tenant does.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    /// When.
    pub at: Instant,
    /// What it does from then on.
    pub streams: Vec<Stream>,
}

/// Accesses of one kind and size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stream {
    /// Kind of traffic.
    pub kind: Kind,
    /// Bytes of one access.
    pub size: Bytes,
    /// How they come.
    pub load: Load,
}

/// How accesses come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// Threads that make the next access as soon as one is done.
    Closed {
        /// How many.
        threads: u16,
    },
    /// A paced client: so much per second whatever it takes, until its threads are all waiting.
    Open {
        /// How much is offered.
        per: BytesPerSec,
    },
    /// Threads that compute for a while after each access.
    Thinking {
        /// How many.
        threads: u16,
        /// How long.
        think: Duration,
    },
    /// Threads that are busy and idle in turns of exponentially distributed length, all together.
    Bursts {
        /// How many.
        threads: u16,
        /// Mean length of a burst.
        on: Duration,
        /// Mean length of a pause.
        off: Duration,
    },
    /// A paced client that is busy and idle in such turns.
    OpenBursts {
        /// How much is offered in a burst.
        per: BytesPerSec,
        /// Mean length of a burst.
        on: Duration,
        /// Mean length of a pause.
        off: Duration,
    },
}

impl Tenant {
    /// A tenant without phases.
    #[must_use]
    pub fn new(name: &str, claim: Claim, streams: Vec<Stream>) -> Self {
        Self { name: name.to_owned(), claim, streams, phases: Vec::new() }
    }

    /// The same tenant, which does something else from `at` on.
    #[must_use]
    pub fn then(mut self, at: Instant, streams: Vec<Stream>) -> Self {
        self.phases.push(Phase { at, streams });
        self
    }
}

impl Stream {
    /// Threads without think time.
    #[must_use]
    pub const fn closed(kind: Kind, size: u64, threads: u16) -> Self {
        Self { kind, size: Bytes(size), load: Load::Closed { threads } }
    }

    /// A paced client.
    #[must_use]
    pub const fn open(kind: Kind, size: u64, bytes_per_sec: u64) -> Self {
        Self { kind, size: Bytes(size), load: Load::Open { per: BytesPerSec(bytes_per_sec) } }
    }
}

impl Load {
    /// Mean lengths of its bursts and pauses, if it has any.
    #[must_use]
    pub const fn turns(&self) -> Option<(Duration, Duration)> {
        match *self {
            Self::Bursts { on, off, .. } | Self::OpenBursts { on, off, .. } => Some((on, off)),
            Self::Closed { .. } | Self::Open { .. } | Self::Thinking { .. } => None,
        }
    }
}
