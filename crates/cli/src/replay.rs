//! `replay`: traces through the store, or against a server.

use crate::failure::{Code, Failure};
use server::MemoryPolicy;
use std::path::PathBuf;
use store::RankKind;
use units::Bytes;

/// What `replay` is told.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "the replayer does not exist yet"))]
pub(crate) struct ReplayOptions {
    /// At least one file, replayed in this order.
    pub(crate) traces: Vec<PathBuf>,
    /// Memory of the store.
    pub(crate) memory: Bytes,
    /// What divides it.
    pub(crate) policy: MemoryPolicy,
    /// Floors: of one tenant by its name, or of each.
    pub(crate) reserved: Vec<(Option<String>, Bytes)>,
    /// Eviction order.
    pub(crate) rank: RankKind,
    /// Bytes that one shadow hit moves.
    pub(crate) credit: Bytes,
    /// `HOST:PORT` of a running server; none means in-process.
    pub(crate) server: Option<String>,
    /// Print one JSON object instead of a table.
    pub(crate) json: bool,
    /// Honour the trace's times to live.
    pub(crate) ttl: bool,
    /// Keep the trace's pace.
    pub(crate) realtime: bool,
    /// The traces' format; none means found by their look.
    pub(crate) format: Option<String>,
    /// Requests at most.
    pub(crate) limit: Option<u64>,
    /// Seed of everything random.
    pub(crate) seed: u64,
}

/// Replays the traces and prints the hit ratios.
pub(crate) fn run(_options: ReplayOptions) -> Result<Code, Failure> {
    Err(Failure::failed("replay is not part of this build: the replayer is missing", "cotenant --help"))
}
