//! The benchmark: CPU time per request, memory per item and misses, ours beside other servers', in one run on one machine.
//!
//! Shape:   arguments -> sections (speed, memtier, cleaner, resident, misses, store, media, file, sharing, policies;
//!          metered, restart and streams if asked for) -> table, JSON lines
//! Failure: exit code 1 if a premise does not hold, 2 for wrong use, 3 if a server cannot be measured; a goal that is
//!          missed is printed as a miss and is no failure

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for people at a terminal")]

mod chart;
mod cleaner;
mod contenders;
mod engines;
mod equal;
mod file;
mod growth;
mod half;
mod idle;
mod in_force;
mod in_process;
mod isolation;
mod media;
mod memtier;
mod metered;
mod misses;
mod open_files;
mod policies;
mod refusals;
mod resident;
mod restart;
mod scaling;
mod segcache;
mod sharing;
mod speed;
mod streams;
mod table;
mod tiers;

use half::Half;
use harness::live::{Heard, Items, Kind, Peer, Plan, keys};
use lab::workload::Zipf;
use refusals::Refusals;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use table::Row;
use units::Bytes;

/// What is asked for.
const USAGE: &str = "usage: bench [--quick] [--rounds N] [--only SECTION] [--skew S] [--json FILE] [--plots FOLDER] \
                     [--server FILE] [--segcache FILE] [--traces FOLDER] [--half first|second]";
/// A part of the benchmark.
type Section = fn(&mut Bench) -> Result<(), BenchError>;
/// All of them, in order; whether one runs without being asked for, and whether it needs the servers.
const SECTIONS: [(&str, Section, Needs); 19] = [
    ("speed", speed::run, Needs::Servers),
    ("memtier", memtier::run, Needs::Servers),
    ("cleaner", cleaner::run, Needs::Servers),
    ("resident", resident::run, Needs::Servers),
    ("idle", idle::run, Needs::Servers),
    ("isolation", isolation::run, Needs::Servers),
    ("scaling", scaling::run, Needs::Servers),
    ("engines", engines::run, Needs::Servers),
    ("misses", misses::run, Needs::Servers),
    ("tiers", tiers::run, Needs::Servers),
    ("store", in_process::run, Needs::Nothing),
    ("growth", growth::run, Needs::Nothing),
    ("media", media::run, Needs::Nothing),
    ("file", file::run, Needs::Nothing),
    ("sharing", sharing::run, Needs::Nothing),
    ("policies", policies::run, Needs::Nothing),
    ("metered", metered::run, Needs::Asking),
    ("restart", restart::run, Needs::Asking),
    ("streams", streams::run, Needs::Asking),
];
/// Alternating rounds, and rounds of a quick run.
const ROUNDS: (u64, u64) = (5, 1);
/// Memory of the servers, and of a quick run.
const MEMORY: (Bytes, Bytes) = (Bytes::mib(128), Bytes::mib(64));
/// A quick run sends this part of the requests.
const QUICK_LESS: u64 = 4;
/// Popularity: the skew that YCSB uses (Cooper et al. 2010).
const SKEW: f64 = 0.99;
/// Where traces are looked for, beside the checkout.
const TRACES: &str = "../shared/traces";
/// Seed of everything random.
const SEED: u64 = 42;

/// What a section needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Needs {
    /// Our program and memcached.
    Servers,
    /// Nothing but this program.
    Nothing,
    /// To be asked for: it takes minutes.
    Asking,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{0}")]
    Usage(String),
    #[error("a premise does not hold: {0}")]
    Premise(String),
    #[error("{peer} cannot be measured: {source}")]
    Peer { peer: &'static str, source: io::Error },
    #[error("the store cannot be made: {0}")]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    Trace(#[from] lab::TraceError),
    #[error(transparent)]
    Replay(#[from] harness::replay::ReplayError),
    #[error("cannot write {file}: {source}")]
    Write { file: String, source: io::Error },
}

/// The settings of a run and what it has found.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) rounds: u64,
    pub(crate) memory: Bytes,
    /// Every count of requests is divided by this.
    pub(crate) less: u64,
    pub(crate) skew: f64,
    pub(crate) seed: u64,
    /// The part of each trace that `streams` replays.
    pub(crate) half: Option<Half>,
    only: Option<String>,
    json: Option<PathBuf>,
    server: Option<PathBuf>,
    segcache: Option<PathBuf>,
    plots: Option<PathBuf>,
    traces: PathBuf,
    zipfs: RefCell<HashMap<u32, Arc<Zipf>>>,
    rows: Vec<Row>,
    records: Vec<serde_json::Value>,
    refusals: RefCell<Refusals>,
    premises: Vec<(bool, String)>,
}

fn main() -> ExitCode {
    match Bench::from_arguments(std::env::args().skip(1)).and_then(Bench::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            match error {
                BenchError::Usage(_) => ExitCode::from(2),
                BenchError::Premise(_) => ExitCode::from(1),
                _ => ExitCode::from(3),
            }
        }
    }
}

impl Bench {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, BenchError> {
        let mut bench = Self {
            rounds: ROUNDS.0,
            memory: MEMORY.0,
            less: 1,
            skew: SKEW,
            seed: SEED,
            only: None,
            json: None,
            server: None,
            segcache: None,
            plots: None,
            half: None,
            zipfs: RefCell::default(),
            traces: TRACES.into(),
            rows: Vec::new(),
            records: Vec::new(),
            refusals: RefCell::default(),
            premises: Vec::new(),
        };
        let wrong = |what: &str| BenchError::Usage(format!("{what}\n{USAGE}"));
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| wrong(&format!("{name} needs a value")));
            match name.as_str() {
                "--quick" => (bench.rounds, bench.memory, bench.less) = (ROUNDS.1, MEMORY.1, QUICK_LESS),
                "--rounds" => {
                    let rounds = value()?.parse().ok().filter(|rounds| 0 < *rounds);
                    bench.rounds = rounds.ok_or_else(|| wrong("--rounds needs a number from 1 on"))?
                }
                "--skew" => bench.skew = value()?.parse().map_err(|_| wrong("--skew needs a number"))?,
                "--only" => bench.only = Some(value()?),
                "--json" => bench.json = Some(value()?.into()),
                "--traces" => bench.traces = value()?.into(),
                "--plots" => bench.plots = Some(value()?.into()),
                "--segcache" => bench.segcache = Some(value()?.into()),
                "--half" => {
                    let half = Half::named(&value()?);
                    bench.half = Some(half.ok_or_else(|| wrong("--half needs first or second"))?)
                }
                "--server" => bench.server = Some(value()?.into()),
                _ => return Err(wrong(&format!("'{name}' is no option"))),
            }
        }
        match bench.only.as_deref() {
            Some(other) if !SECTIONS.iter().any(|(name, ..)| *name == other) => {
                let names: Vec<&str> = SECTIONS.iter().map(|(name, ..)| *name).collect();
                Err(wrong(&format!("'{other}' is no section; there are {}", names.join(", "))))
            }
            _ => Ok(bench),
        }
    }

    fn run(mut self) -> Result<(), BenchError> {
        let asked = self.only.clone();
        let chosen = SECTIONS.iter().filter(|(name, _, needs)| match asked.as_deref() {
            Some(only) => only == *name,
            None => *needs != Needs::Asking,
        });
        let mut has_told = false;
        for (name, section, needs) in chosen {
            if *needs == Needs::Servers && !has_told {
                self.print_peers()?;
                has_told = true;
            }
            section(&mut self)?;
            for (holds, what) in self.refusals.take().premises(name) {
                self.premise(holds, &what);
            }
        }
        println!("\n{}", table::render(&self.rows));
        let missed = self.rows.iter().filter(|row| row.is_reached() == Some(false)).count();
        let judged = self.rows.iter().filter(|row| row.is_reached().is_some()).count();
        println!("medians (and ranges) of {} rounds; {missed} of {judged} goals missed", self.rounds);
        self.write_json()?;
        match self.premises.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(BenchError::Premise(what.clone())),
            None => Ok(()),
        }
    }

    fn print_peers(&self) -> Result<(), BenchError> {
        if Kind::Cotenant.program(self.server.as_deref()).is_none() {
            return Err(BenchError::Usage(
                "the server is not beside this program; build it (cargo build --release -p cli) or name it with --server"
                    .to_owned(),
            ));
        }
        if Kind::Memcached.program(None).is_none() {
            return Err(BenchError::Usage("memcached is missing; apt-get install memcached".to_owned()));
        }
        if Kind::Redis.program(None).is_none() {
            println!("skipped: redis: redis-server is not installed");
        }
        println!(
            "items: {} B key and value; keys of {} tenants by Zipf's law, skew {}; memory {}",
            resident::ITEM,
            keys::TENANTS,
            self.skew,
            self.memory
        );
        Ok(())
    }

    /// Whether the run should take minutes at most.
    pub(crate) fn is_quick(&self) -> bool {
        1 < self.less
    }

    /// The servers that are there, ours first.
    pub(crate) fn peers(&self) -> Vec<(Kind, PathBuf)> {
        let found = |kind: Kind| Some((kind, kind.program(self.server.as_deref())?));
        [Kind::Cotenant, Kind::Memcached, Kind::Redis].into_iter().filter_map(found).collect()
    }

    /// Runs a load, and counts what was refused of it for the section's premises.
    pub(crate) fn load(&self, peer: &Peer, plan: &Plan, items: &Arc<Items>) -> io::Result<Heard> {
        let heard = peer.run(plan, items)?;
        self.refusals.borrow_mut().count(peer.kind, &heard);
        Ok(heard)
    }

    /// Our program, where it was named.
    pub(crate) fn server(&self) -> Option<&Path> {
        self.server.as_deref()
    }

    /// The program that measures the segcache crate: as told, or from beside this one.
    pub(crate) fn segcache(&self) -> Option<PathBuf> {
        let beside = || Some(std::env::current_exe().ok()?.with_file_name("segcache-peer"));
        self.segcache.clone().or_else(beside).filter(|file| file.is_file())
    }

    /// Where plots go, if anywhere.
    pub(crate) fn plots(&self) -> Option<&Path> {
        self.plots.as_deref()
    }

    pub(crate) fn say(&self, what: &str) {
        eprintln!("{what}");
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The file of a trace; says so where it is absent.
    pub(crate) fn trace(&self, name: &str) -> Option<PathBuf> {
        let path = self.traces.join(format!("{name}.csv.zst"));
        if !path.is_file() {
            println!("skipped: {} is absent", path.display());
            return None;
        }
        Some(path)
    }

    /// Keeps a line for the JSON file that is no row.
    pub(crate) fn record(&mut self, line: serde_json::Value) {
        self.records.push(line);
    }

    /// Prints a premise with its figures, and remembers whether it holds.
    pub(crate) fn premise(&mut self, holds: bool, what: &str) {
        println!("premise {}: {what}", if holds { "holds" } else { "FAILS" });
        self.premises.push((holds, what.to_owned()));
    }

    fn write_json(&self) -> Result<(), BenchError> {
        let Some(file) = &self.json else { return Ok(()) };
        let mut text = String::new();
        for line in &self.records {
            // A string takes every write.
            let _ = writeln!(text, "{line}");
        }
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.to_json());
        }
        for (holds, what) in &self.premises {
            let _ = writeln!(text, "{}", serde_json::json!({"premise": what, "holds": holds}));
        }
        std::fs::write(file, text)
            .map_err(|source| BenchError::Write { file: file.display().to_string(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Bench, BenchError> {
        Bench::from_arguments(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_understood_or_refused() {
        let quick = parsed("--quick --only store --rounds 2 --json x --traces y").expect("all are options");
        assert_eq!((quick.rounds, quick.memory, quick.only.as_deref()), (2, MEMORY.1, Some("store")));
        for wrong in ["--fast", "--rounds", "--rounds many", "--only nothing", "--half third"] {
            assert!(matches!(parsed(wrong), Err(BenchError::Usage(_))), "{wrong}");
        }
    }
}
