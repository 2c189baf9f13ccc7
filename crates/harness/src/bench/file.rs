//! Reads of a file tier: are they as many as the disk can give?
//!
//! Shape:      a queue of reads, fio, a store and a server whose values are all in such tiers, by turns on the same disk
//! Invariants: who reads waits for the queue's bell, as an event loop does; every block was written, for what was not is read
//!             without the disk
//! Units:      reads of 4 KiB per second; gets per second of values that lie in one such page, or (a quarter of a store's, a tenth of a server's) in two

use crate::media::failed;
use crate::restart::{self, Started};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::keys;
use harness::live::{Items, Kind, Pace, Peer, Plan, Popularity, Setup, Sizes};
use lab::workload::Zipf;
use media::{Buffer, Completed, Device, Engine, FileTier, ReadQueue, Stopwatch, Ticket};
use rustix::event::{PollFd, PollFlags, poll};
use server::memcache::client::Client;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use store::{FetchPlan, Space};
use units::{Bytes, Duration, Rng};

/// The file, reads under way, and how long they are counted.
const FILE: Bytes = Bytes::mib(1024);
const DEPTH: u32 = 32;
const READING: Duration = Duration::from_secs(1);
/// What the server holds in a tier of the same size: items of less than half a KiB, and gets of them.
const ITEMS: u32 = 1_500_000;
const SIZES: Sizes = Sizes::Between(380, 420);
const GETS: u64 = 200_000;
/// Items of the store, of the length that restarts are measured with.
const STORED: u32 = 800_000;
const HITS_LEAST: f64 = 0.999;
/// Connections, and gets that each sends together: a client that waits for all of them has some of them under way at the disk.
const TOGETHER: u32 = 16;
/// The server's DRAM: what is fetched at once takes a sixteenth of it at most.
const MEMORY: Bytes = Bytes::mib(512);

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("reads of a file tier");
    let path = std::env::current_exe().map_err(failed)?.with_file_name("bench-tier");
    let done = at(bench, &path);
    // Where none was made none is left.
    let _removed = std::fs::remove_file(&path);
    done
}

fn at(bench: &mut Bench, path: &Path) -> Result<(), BenchError> {
    let mut tier = FileTier::open(path, FILE).map_err(|e| failed(io::Error::other(e)))?;
    fill(&mut tier).map_err(failed)?;
    let served = path.with_extension("served");
    let server = Server::start(bench, &served);
    // The server has it open for as long as it is needed.
    let _removed = std::fs::remove_file(&served);
    let server = server.map_err(failed)?;
    let stored = path.with_extension("stored");
    let store = Stored::new(&stored);
    let _removed = std::fs::remove_file(&stored);
    let mut store = store?;
    let (mut rings, mut threads, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fetched, mut gets) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        // Who comes first turns with the round.
        for turn in 0..5 {
            match (round + turn) % 5 {
                0 => rings.push(reads(&tier, Engine::Auto).map_err(failed)?),
                1 => theirs.extend(fio(path)),
                2 => threads.push(reads(&tier, Engine::Threads).map_err(failed)?),
                3 => fetched.push(store.gets(round).map_err(failed)?),
                _ => gets.push(server.gets(bench, round).map_err(failed)?),
            }
        }
    }
    let has_peer = theirs.len() == rings.len();
    if !has_peer {
        println!("skipped: fio: not installed");
    }
    let peer = has_peer.then_some(("fio", theirs));
    let goal = if has_peer { Goal::RatioAtLeast(0.9) } else { Goal::None("fio is not there") };
    let engine = tier.queue(1, Engine::Auto).map_err(failed)?.engine_name();
    let row = |name: &str, ours, goal| Row {
        measure: format!("file tier, {name}"),
        unit: "/s",
        ours,
        peer: peer.clone(),
        goal,
    };
    bench.add(row(&format!("reads of 4 KiB, {DEPTH} under way, {engine}"), rings, goal));
    bench.add(row(
        &format!("reads of 4 KiB, {DEPTH} under way, threads"),
        threads,
        Goal::None("the fallback"),
    ));
    bench.add(row(&format!("gets of a store, {DEPTH} under way, {engine}"), fetched, goal));
    let served = format!("gets of a server, {TOGETHER} connections, depth {TOGETHER}");
    bench.add(row(&served, gets, Goal::None("more under way")));
    Ok(())
}

/// A store whose values are all in a tier of its own, and the tier.
struct Stored {
    up: Started,
    tier: Arc<FileTier>,
}

impl Stored {
    fn new(path: &Path) -> Result<Self, BenchError> {
        let tier = FileTier::open(path, FILE).map_err(|e| failed(io::Error::other(e)))?;
        let tier = Arc::new(tier);
        let mut up = restart::started_on(|| Ok(Arc::clone(&tier)), None, 1)?;
        (0..STORED).try_for_each(|number| restart::set(&mut up, number))?;
        Ok(Self { up, tier })
    }

    /// Gets per second of one thread that has as many reads under way, as a server's worker does it: what is looked up and is away is
    /// asked of the queue, and looked up again when it has come. Each that comes makes room for the next before its value is
    /// looked at: the disk does not wait for who verifies.
    fn gets(&mut self, round: u64) -> io::Result<f64> {
        let watch = Stopwatch::new();
        let (mut queue, mut rng) = (self.tier.queue(DEPTH, Engine::Auto)?, Rng::new(round));
        let (mut wanted, mut done) = (HashMap::new(), 0_u64);
        let start = watch.now();
        while watch.now() < start + READING {
            self.ask(&mut queue, &mut wanted, &mut rng)?;
            queue.submit()?;
            poll(&mut [PollFd::new(&queue, PollFlags::IN)], None)?;
            queue.hear();
            while let Some(Completed { ticket, buffer, result }) = queue.completed() {
                self.ask(&mut queue, &mut wanted, &mut rng)?;
                result?;
                let Some((plan, number)) = wanted.remove(&ticket) else { continue };
                self.up.worker.bring(&plan, buffer);
                self.verify(number)?;
                done += 1;
            }
            // Once a turn, as a server's worker does.
            self.up.worker.quiesce();
        }
        Ok(done as f64 / watch.now().since(start).as_secs_f64())
    }

    /// Asks for values until as many reads are under way.
    fn ask(&mut self, queue: &mut ReadQueue, wanted: &mut Wanted, rng: &mut Rng) -> io::Result<()> {
        let worker = &mut self.up.worker;
        while queue.under_way() < DEPTH {
            let number = u32::try_from(rng.below(u64::from(STORED))).unwrap_or(0);
            let text = keys::key(number);
            let key = worker.key(Space::Shared, &text).ok_or_else(no_key)?;
            // What is still gathered in memory takes no read, and does not count.
            let Some(plan) = worker.fetch_plan(&key) else { continue };
            let buffer = worker.buffer_for(&plan).ok_or_else(|| io::Error::other("no memory"))?;
            let full = |_| io::Error::other("a queue that is not full is full");
            wanted.insert(queue.fetch(plan.at, buffer).map_err(full)?, (plan, number));
        }
        Ok(())
    }

    fn verify(&mut self, number: u32) -> io::Result<()> {
        let Started { worker, tenant, .. } = &mut self.up;
        let text = keys::key(number);
        let key = worker.key(Space::Shared, &text).ok_or_else(no_key)?;
        match worker.get(*tenant, &key) {
            Some(item) if item.value() == restart::value(number) => Ok(()),
            _ => Err(io::Error::other(format!("item {number} is not what was stored"))),
        }
    }
}

/// What is asked for: where it is, and which item.
type Wanted = HashMap<Ticket, (FetchPlan, u32)>;

fn no_key() -> io::Error {
    io::Error::other("a key of the benchmark is no key")
}

/// A server whose values are all in a tier of its own.
struct Server {
    peer: Peer,
    items: Arc<Items>,
    all_alike: Arc<Zipf>,
}

impl Server {
    fn start(bench: &Bench, path: &Path) -> io::Result<Self> {
        let ours = bench.peers().into_iter().find(|(kind, _)| *kind == Kind::Cotenant);
        let (kind, program) = ours.ok_or_else(|| io::Error::other("no server of ours"))?;
        let more =
            format!("--tier ssd=file:{}:{}MiB --placement ssd", path.display(), FILE.count_of(Bytes::mib(1)));
        let peer = Peer::start_as(kind, &program, &Setup { more, ..Setup::new(kind, MEMORY) })?;
        let items = Arc::new(Items::new(ITEMS, SIZES));
        // What the disk does not take in time stays in DRAM, until it comes again.
        for _ in 0..2 {
            bench.load(&peer, &Plan { depth: 16, ..Plan::fill(items.count()) }, &items)?;
        }
        let below = Client::connect(peer.address())?.stat("stats tiers", "below:items")?;
        if below.as_deref() != Some(&items.count().to_string()) {
            return Err(io::Error::other(format!(
                "of {} values there are in the tier: {below:?}",
                items.count()
            )));
        }
        let all_alike = Arc::new(Zipf::new(items.count() / TOGETHER, 0.0));
        Ok(Self { peer, items, all_alike })
    }

    /// Gets per second.
    fn gets(&self, bench: &Bench, round: u64) -> io::Result<f64> {
        let plan = Plan {
            connections: TOGETHER,
            threads: 1,
            depth: TOGETHER,
            pace: Pace::Closed,
            gets_percent: 100,
            look_aside: false,
            popularity: Popularity::Zipf(Arc::clone(&self.all_alike)),
            requests: GETS / bench.less,
            seed: bench.seed ^ round,
        };
        let heard = bench.load(&self.peer, &plan, &self.items)?;
        bench.say(&format!(
            "  gets: {:.0} per second, {:.4} of them hits",
            heard.throughput(),
            heard.hit_ratio()
        ));
        if heard.hit_ratio() < HITS_LEAST {
            return Err(io::Error::other("values are missed"));
        }
        Ok(heard.throughput())
    }
}

/// Blocks that were never written are read without the disk.
fn fill(tier: &mut FileTier) -> io::Result<()> {
    let mut buffer = Buffer::new(Bytes::mib(1)).map_err(io::Error::other)?;
    buffer.bytes_mut().fill(7);
    (0..FILE.count_of(Bytes::mib(1))).try_for_each(|i| tier.write_owned(i << 20, buffer.bytes()))?;
    tier.settle()
}

/// Reads per second.
fn reads(tier: &FileTier, engine: Engine) -> io::Result<f64> {
    let watch = Stopwatch::new();
    let mut queue = tier.queue(DEPTH, engine)?;
    let mut rng = Rng::new(7);
    let new = |_| Buffer::new(Bytes::kib(4)).map_err(io::Error::other);
    let mut buffers = (0..DEPTH).map(new).collect::<io::Result<Vec<Buffer>>>()?;
    let (start, mut done) = (watch.now(), 0_u64);
    let end = start + READING;
    while watch.now() < end {
        while let Some(buffer) = buffers.pop() {
            let at = rng.below(FILE.count_of(Bytes::kib(4))) << 12;
            queue
                .fetch(at, buffer)
                .map_err(|_| io::Error::other("a queue as deep as its buffers is full"))?;
        }
        // As an event loop does it: the bell among other things to wait for.
        queue.submit()?;
        poll(&mut [PollFd::new(&queue, PollFlags::IN)], None)?;
        queue.hear();
        while let Some(completed) = queue.completed() {
            completed.result?;
            buffers.push(completed.buffer);
            done += 1;
        }
    }
    Ok(done as f64 / watch.now().since(start).as_secs_f64())
}

/// The same by fio, if it is there.
fn fio(path: &Path) -> Option<f64> {
    let output = Command::new("fio")
        .args(["--name=reads", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring", "--readonly"])
        // As a process of a session of its own it would have a share of the processors that this program has not.
        .args(["--offset=4m", "--size=1000m", "--time_based", "--output-format=json", "--thread"])
        .arg(format!("--iodepth={DEPTH}"))
        .arg(format!("--runtime={}", READING.as_secs_f64().round()))
        .arg(format!("--filename={}", path.display()))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    answer["jobs"][0]["read"]["iops"].as_f64()
}
