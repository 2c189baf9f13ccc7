//! What a load is: how many connections ask for what, and when.
//!
//! Invariants: connection c of n asks only for numbers that are c modulo n, so that every answer can be judged exactly
//! Units:      requests, batches per second

use super::dialect::Dialect;
use super::latency::Latency;
use lab::workload::Zipf;
use std::net::SocketAddr;
use std::sync::Arc;

/// When requests are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// A connection sends its next batch when the last one is answered.
    Closed,
    /// Batches arrive by a Poisson process with this rate per second, whether or not earlier ones are answered; a latency
    /// counts from the moment of arrival, so that a server that stalls is charged for everybody who waits.
    Open(f64),
}

/// Which number is asked for next.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// Each number once, in order; a round of stores fills a cache so.
    Once,
    /// By Zipf's law within the numbers of a connection.
    Zipf(Arc<Zipf>),
}

/// A load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections, of all threads together.
    pub connections: u32,
    /// Threads that share the connections.
    pub threads: u32,
    /// Requests of a connection that are sent together.
    pub depth: u32,
    /// When.
    pub pace: Pace,
    /// Of 100 requests, how many look up; the others store.
    pub gets_percent: u64,
    /// Whether a look-up that misses is followed by a store of the item.
    pub look_aside: bool,
    /// Which numbers.
    pub popularity: Popularity,
    /// Requests in all, look-aside stores not counted.
    pub requests: u64,
    /// Of everything random.
    pub seed: u64,
}

impl Plan {
    /// Stores every item once.
    #[must_use]
    pub fn fill(items: u32) -> Self {
        Self {
            connections: 4,
            threads: 1,
            depth: 64,
            pace: Pace::Closed,
            gets_percent: 0,
            look_aside: false,
            popularity: Popularity::Once,
            requests: u64::from(items),
            seed: 0,
        }
    }
}

/// Where a server listens, and what it speaks.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Where.
    pub socket: SocketAddr,
    /// What.
    pub dialect: Dialect,
}

/// Of so many stores at most one is refused, where the server did the work: it had no memory at that moment (guess; most runs have none).
const REFUSED_ONE_IN: u64 = 1_000;

/// Whether a server that refused some of so many stores did the work.
#[must_use]
pub fn few_refused(refused: u64, stores: u64) -> bool {
    refused <= stores / REFUSED_ONE_IN
}

/// What came of a load.
#[derive(Clone, Default, Debug)]
pub struct Heard {
    /// Requests answered, look-aside stores not counted.
    pub requests: u64,
    /// Look-ups among them.
    pub gets: u64,
    /// Look-ups that found their item, each verified.
    pub hits: u64,
    /// Stores after a miss.
    pub fills: u64,
    /// Stores that the server had no memory for at that moment.
    pub refused: u64,
    /// From the moment a request was due to its answer, look-aside stores not counted.
    pub latency: Latency,
    /// From the moment a batch was due to the moment it was handed to the socket: what the client itself adds.
    pub lag: Latency,
    /// CPU time of the client's threads, in seconds.
    pub client_cpu_secs: f64,
    /// From the first request to the last answer, in seconds.
    pub secs: f64,
}

impl Heard {
    /// Hits ÷ look-ups.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    /// Requests per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.requests as f64 / self.secs.max(f64::MIN_POSITIVE)
    }

    /// Stores: those asked for, and those after a miss.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.requests - self.gets + self.fills
    }

    /// Adds what another thread heard in the same time.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.gets += other.gets;
        self.hits += other.hits;
        self.fills += other.fills;
        self.refused += other.refused;
        self.latency.merge(&other.latency);
        self.lag.merge(&other.lag);
        self.client_cpu_secs += other.client_cpu_secs;
        self.secs = self.secs.max(other.secs);
    }
}
