//! Tables 9 and 10: latency and throughput beside memcached, on this machine, in real time.
//!
//! Shape:      per round and server: start -> fill with more keys than fit -> requests between two readings of the clock; the
//!             order of the servers turns with the round; the best of the rounds, for what else runs here only slows down
//! Invariants: every value is verified; only full caches are measured, so that ours cleans meanwhile
//! Units:      microseconds per request as a client sees it; requests per second
//! Failure:    without memcached, or the program of our server beside this one, every item is not applicable

use crate::live::{Asked, Kind, Peer, few_refused, is_stored, keys};
use lab::experiment::{ExperimentError, Results, Sweep};
use lab::workload::Zipf;
use rustix::time::{ClockId, clock_gettime};
use server::memcache::client::Client;
use std::io;
use std::path::PathBuf;
use units::{Bytes, Rng};

/// Requests in a batch of the fill, and connections of it.
const FILL: (usize, usize) = (64, 4);
/// The servers, in the order of the tables' rows.
const SERVERS: [(Kind, &str); 2] = [(Kind::Memcached, "memcached"), (Kind::Cotenant, "memshare")];

/// What is asked of both servers.
struct Scene {
    memory: Bytes,
    zipf: Zipf,
    requests: u64,
    rounds: u64,
    seed: u64,
}

impl Scene {
    fn read(sweep: &Sweep) -> Result<Self, ExperimentError> {
        let memory_mib = sweep.count("memory_mib")?;
        let keys = memory_mib * sweep.count("keys_per_mib")?;
        Ok(Self {
            memory: Bytes::mib(memory_mib),
            zipf: Zipf::new(u32::try_from(keys).unwrap_or(u32::MAX), sweep.number("skew")?),
            requests: sweep.count("requests")?,
            rounds: sweep.count("rounds")?,
            seed: sweep.seed,
        })
    }

    /// What `measure` finds of each server, the best of the rounds: one list of numbers per server.
    fn beside(
        &self,
        programs: &[PathBuf],
        best: fn(f64, f64) -> f64,
        measure: &dyn Fn(&Peer, &mut Rng) -> io::Result<Vec<f64>>,
    ) -> Result<Vec<Vec<f64>>, ExperimentError> {
        let mut found: Vec<Vec<Vec<f64>>> = vec![Vec::new(); SERVERS.len()];
        for round in 0..self.rounds {
            for turn in 0..SERVERS.len() {
                let i = if round % 2 == 0 { turn } else { SERVERS.len() - 1 - turn };
                let peer =
                    Peer::start(SERVERS[i].0, &programs[i], self.memory).map_err(ExperimentError::failed)?;
                let mut rng = Rng::new(self.seed ^ round);
                let numbers = self.fill(&peer).and_then(|()| measure(&peer, &mut rng));
                found[i].push(numbers.map_err(ExperimentError::failed)?);
            }
        }
        let best = |rounds: &Vec<Vec<f64>>| {
            let numbers = rounds.first().map_or(0, Vec::len);
            let of = |n: usize| rounds.iter().map(|round| round[n]).reduce(best).unwrap_or(f64::NAN);
            (0..numbers).map(of).collect()
        };
        Ok(found.iter().map(best).collect())
    }

    /// Every key once.
    fn fill(&self, peer: &Peer) -> io::Result<()> {
        let mut numbers = 0..self.zipf.keys();
        let outcome = peer.load(FILL.1)?.run(FILL.0, || numbers.next().map(Asked::Set))?;
        stored(outcome.refused, outcome.stores())?;
        if peer.figures()?.evictions == 0 {
            return Err(io::Error::other(format!("{} is not full", peer.kind.name())));
        }
        Ok(())
    }

    fn key(&self, rng: &mut Rng) -> u32 {
        keys::spread(self.zipf.draw(rng), self.zipf.keys())
    }
}

/// Fails where more stores were refused than the odd one: what did not take place took no time.
fn stored(refused: u64, stores: u64) -> io::Result<()> {
    let what = || io::Error::other(format!("{refused} of {stores} stores were refused"));
    if few_refused(refused, stores) { Ok(()) } else { Err(what()) }
}

/// The programs of the servers, or why there is nothing to measure.
fn programs() -> Result<Vec<PathBuf>, &'static str> {
    let found = |(kind, _): (Kind, &str)| {
        kind.program(None).ok_or(if kind == Kind::Memcached {
            "memcached is not installed (tests/setup.sh)"
        } else {
            "the program cotenant is not beside this one"
        })
    };
    SERVERS.into_iter().map(found).collect()
}

/// The programs; none, with the reason at every one of `items`, if one is missing.
fn servers(results: &mut Results, items: &[String]) -> Option<Vec<PathBuf>> {
    programs().map_err(|why| items.iter().for_each(|item| results.not_applicable(item.as_str(), why))).ok()
}

fn items(measures: &[String]) -> Vec<String> {
    SERVERS.iter().flat_map(|(_, name)| measures.iter().map(move |m| format!("{name}_{m}"))).collect()
}

fn tell(results: &mut Results, items: &[String], found: &[Vec<f64>]) {
    items
        .iter()
        .zip(found.iter().flatten())
        .for_each(|(item, number)| results.number(item.as_str(), *number));
}

fn seconds() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Memshare, Table 9: latency of hits, misses and sets.
pub(super) fn table_9(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let items = items(&["get_hit", "get_miss", "set"].map(str::to_owned));
    let Some(programs) = servers(results, &items) else { return Ok(()) };
    let scene = Scene::read(sweep)?;
    let sets_percent = sweep.count("sets_percent")?;
    let found = scene.beside(&programs, f64::min, &|peer, rng| latencies(&scene, sets_percent, peer, rng))?;
    tell(results, &items, &found);
    Ok(())
}

/// Mean microseconds of a hit, a miss and a set, one request at a time.
fn latencies(scene: &Scene, sets_percent: u64, peer: &Peer, rng: &mut Rng) -> io::Result<Vec<f64>> {
    let mut client = Client::connect(peer.address())?;
    let (mut spent, mut refused) = ([(0.0, 0_u64); 3], 0);
    for _ in 0..scene.requests {
        let number = scene.key(rng);
        let (key, value) = (keys::key(number), keys::value(number));
        let is_set = rng.below(100) < sets_percent;
        if is_set {
            client.queue_store("set", &key, 0, &value);
        } else {
            client.queue_get(&key);
        }
        let started = seconds();
        client.send()?;
        let kind = if is_set {
            refused += u64::from(!is_stored(&mut client)?);
            2
        } else {
            let mut is_right = true;
            let hit = client.read_get(|bytes| is_right = bytes == &value[..])?;
            if !is_right {
                return Err(io::Error::other("a value is not what was stored"));
            }
            usize::from(hit.is_none())
        };
        spent[kind].0 += seconds() - started;
        spent[kind].1 += 1;
    }
    stored(refused, spent[2].1)?;
    Ok(spent.iter().map(|(secs, count)| secs * 1e6 / *count as f64).collect())
}

/// Memshare, Table 10: throughput at few and at only writes.
pub(super) fn table_10(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let writes = sweep.list("writes_percent")?;
    let measures: Vec<String> = writes.iter().map(|part| format!("writes_{part}")).collect();
    let items = items(&measures);
    let Some(programs) = servers(results, &items) else { return Ok(()) };
    let scene = Scene::read(sweep)?;
    let (depth, connections) = (sweep.count("depth")?, sweep.count("connections")?);
    let (depth, connections) =
        (usize::try_from(depth).unwrap_or(1), usize::try_from(connections).unwrap_or(1));
    let found = scene.beside(&programs, f64::max, &|peer, rng| {
        let mut rates = Vec::new();
        for part in &writes {
            let mut load = peer.load(connections)?;
            let mut left = scene.requests;
            let started = seconds();
            let outcome = load.run(depth, || {
                left = left.checked_sub(1)?;
                let number = scene.key(rng);
                Some(if rng.unit() * 100.0 < *part { Asked::Set(number) } else { Asked::Get(number) })
            })?;
            stored(outcome.refused, outcome.stores())?;
            rates.push(outcome.requests as f64 / (seconds() - started));
        }
        Ok(rates)
    })?;
    tell(results, &items, &found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_were_refused_are_not_measured() {
        assert!(stored(0, 0).is_ok() && stored(1, 1_000).is_ok());
        assert!(stored(1, 999).is_err() && stored(1_000, 1_000).is_err());
    }
}
