//! Reads of a file tier: are they as many as the disk can give?
//!
//! Shape:      a queue of reads and fio by turns on the same file
//! Invariants: who reads waits for the queue's bell, as an event loop does; every block was written, for what was not is read
//!             without the disk
//! Units:      reads of 4 KiB per second

use crate::media::failed;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use media::{Buffer, Device, Engine, FileTier, Stopwatch};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::path::Path;
use std::process::Command;
use units::{Bytes, Duration, Rng};

/// The file, reads under way, and how long they are counted.
const FILE: Bytes = Bytes::mib(1024);
const DEPTH: u32 = 32;
const READING: Duration = Duration::from_secs(1);

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
    let (mut rings, mut threads, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        // Who comes first turns with the round.
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => rings.push(reads(&tier, Engine::Auto).map_err(failed)?),
                1 => theirs.extend(fio(path)),
                _ => threads.push(reads(&tier, Engine::Threads).map_err(failed)?),
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
        measure: format!("file tier, reads of 4 KiB, {DEPTH} under way, {name}"),
        unit: "/s",
        ours,
        peer: peer.clone(),
        goal,
    };
    bench.add(row(engine, rings, goal));
    bench.add(row("threads", threads, Goal::None("the fallback")));
    Ok(())
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
