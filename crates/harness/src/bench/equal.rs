//! Who is compared, at equal memory and each at its best: what every server is started with.
//!
//! Shape:      memcached with the memory of the run -> what is resident of it when full; each of the others gets the most
//!             memory that keeps it at or below that
//! Invariants: a peer with several settings takes the one that costs least CPU time per look-up; ours has its defaults

use crate::speed::{Workload, fill};
use crate::{Bench, BenchError};
use harness::live::{Items, Kind, Peer, Setup, Sizes};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use units::Bytes;

/// Settings that may be better than a peer's own: more requests of a connection in a row for memcached (its default of 20
/// cuts a batch of 32), both eviction orders that approximate a cache's for Redis.
const VARIANTS: [(Kind, &[&str]); 3] = [
    (Kind::Memcached, &["-R 20", "-R 64"]),
    (Kind::Redis, &["--maxmemory-policy allkeys-lru", "--maxmemory-policy allkeys-lfu"]),
    (Kind::Cotenant, &[""]),
];
/// How often a memory is tried.
const TRIES: usize = 4;
/// A server this part below the goal is as large as it can be.
const CLOSE: f64 = 0.99;

/// A server and how it is started.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    pub(crate) program: PathBuf,
    pub(crate) setup: Setup,
}

/// What one start of a server gave.
struct Trial {
    setup: Setup,
    resident: Bytes,
    micros: f64,
}

impl Contestant {
    /// Starts it.
    pub(crate) fn start(&self) -> Result<Peer, BenchError> {
        Peer::start_as(self.kind, &self.program, &self.setup).map_err(|e| failed(self.kind, e))
    }
}

pub(crate) fn failed(kind: Kind, source: io::Error) -> BenchError {
    BenchError::Peer { peer: kind.name(), source }
}

/// The contestants, ours first; `probe` is the load that settings are chosen by.
pub(crate) fn contestants(
    bench: &mut Bench,
    items: u32,
    probe: &Workload,
) -> Result<Vec<Contestant>, BenchError> {
    let peers = bench.peers();
    let mut order: Vec<_> = peers.clone();
    // memcached says how much memory everybody has.
    order.sort_by_key(|(kind, _)| *kind != Kind::Memcached);
    let mut goal = None;
    let mut all = Vec::new();
    for (kind, program) in order {
        let variants = VARIANTS.iter().find(|(k, _)| *k == kind).map_or(&[""][..], |(_, v)| v);
        let mut best: Option<Trial> = None;
        for more in variants {
            let start = Setup { more: (*more).to_owned(), ..Setup::new(kind, bench.memory) };
            let contestant = Contestant { kind, program: program.clone(), setup: start };
            let trial = fit(bench, contestant, items, probe, goal)?;
            bench.say(&format!(
                "equal memory: {} {more}: {} of its own accounting, {} resident, {:.2} us per request",
                kind.name(),
                trial.setup.memory,
                trial.resident,
                trial.micros
            ));
            if best.as_ref().is_none_or(|best| trial.micros < best.micros) {
                best = Some(trial);
            }
        }
        let Some(best) = best else { continue };
        let most = *goal.get_or_insert(best.resident);
        let what = format!(
            "{} started with {} {}: {} resident when full, memcached {most}",
            kind.name(),
            best.setup.memory,
            best.setup.more,
            best.resident
        );
        bench.premise(best.resident <= most, &what);
        all.push(Contestant { kind, program, setup: best.setup });
    }
    all.sort_by_key(|contestant| contestant.kind != Kind::Cotenant);
    Ok(all)
}

/// The largest memory with which at most `goal` is resident; the memory as it is without a goal.
fn fit(
    bench: &Bench,
    mut contestant: Contestant,
    items: u32,
    probe: &Workload,
    goal: Option<Bytes>,
) -> Result<Trial, BenchError> {
    let mut best: Option<Trial> = None;
    for _ in 0..TRIES {
        let trial = measure(bench, &contestant, items, probe)?;
        let Some(goal) = goal else { return Ok(trial) };
        let resident = trial.resident;
        let is_below = resident <= goal;
        if best.as_ref().is_none_or(|best| goal < best.resident || (is_below && best.resident < resident)) {
            best = Some(trial);
        }
        if is_below && goal.0 as f64 * CLOSE <= resident.0 as f64 {
            break;
        }
        let mebibyte = Bytes::mib(1);
        let memory = contestant.setup.memory;
        contestant.setup.memory = if is_below {
            memory + Bytes::mib((goal.0 - resident.0).div_ceil(mebibyte.0).max(2) - 1)
        } else {
            memory.saturating_sub(Bytes::mib((resident.0 - goal.0).div_ceil(mebibyte.0)))
        };
        if contestant.setup.memory == memory {
            break;
        }
    }
    best.ok_or_else(|| BenchError::Usage("no memory was tried".to_owned()))
}

fn measure(
    bench: &Bench,
    contestant: &Contestant,
    items: u32,
    probe: &Workload,
) -> Result<Trial, BenchError> {
    let peer = contestant.start()?;
    let failed = |e| failed(contestant.kind, e);
    let items = Arc::new(Items::new(items, Sizes::Fixed(crate::speed::VALUE)));
    fill(bench, &peer, &items).map_err(failed)?;
    let cpu = peer.cpu_secs().map_err(failed)?;
    let heard = bench.load(&peer, &probe.closed(bench, &items, 0), &items).map_err(failed)?;
    let micros = (peer.cpu_secs().map_err(failed)? - cpu) * 1e6 / heard.requests.max(1) as f64;
    let resident = peer.resident().map_err(failed)?;
    Ok(Trial { setup: contestant.setup.clone(), resident, micros })
}
