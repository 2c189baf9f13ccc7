//! The segcache crate beside our store: a program of its own, told what to do line by line, so that rounds can alternate.
//!
//! Shape:   memory, keys -> a process whose cache holds them; an order -> its answer
//! Failure: a process that leaves, or says something else than two numbers

use crate::{Bench, BenchError};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use units::Bytes;

/// What measures it.
pub(crate) const NAME: &str = "segcache";

/// The process; it ends when its input does.
#[derive(Debug)]
pub(crate) struct Segcache {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

pub(crate) fn failed(source: io::Error) -> BenchError {
    BenchError::Peer { peer: NAME, source }
}

impl Segcache {
    /// Starts it and stores all keys; says so where it was not built.
    pub(crate) fn start(bench: &Bench, memory: Bytes, keys: u32) -> Result<Option<Self>, BenchError> {
        let Some(program) = bench.segcache() else {
            println!(
                "skipped: segcache: segcache-peer is not beside this program (cargo build --release \
                 --manifest-path crates/harness/peers/segcache/Cargo.toml)"
            );
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.arg(memory.count_of(Bytes::mib(1)).to_string()).arg(keys.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Some(Self { child, orders: Some(orders), answers: BufReader::new(answers) }))
    }

    /// Nanoseconds per operation of a `kind`, get or set, and how many found or stored nothing.
    pub(crate) fn time(&mut self, kind: &str, count: u64, seed: u64) -> Result<(f64, f64), BenchError> {
        self.ask(&format!("{kind} {count} {seed}\n"), &[]).map_err(failed)
    }

    /// Hits of a look-aside client that asks for `numbers` in a cache of its own.
    pub(crate) fn replay(
        &mut self,
        memory: Bytes,
        numbers: &[u32],
        eviction: &str,
    ) -> Result<f64, BenchError> {
        let mut order = String::new();
        let mebibytes = memory.count_of(Bytes::mib(1));
        // A string takes every write.
        let _ = writeln!(order, "replay {mebibytes} {} {eviction}", numbers.len());
        Ok(self.ask(&order, numbers).map_err(failed)?.0)
    }

    fn ask(&mut self, order: &str, numbers: &[u32]) -> io::Result<(f64, f64)> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        orders.write_all(order.as_bytes())?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        orders.write_all(&bytes)?;
        orders.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(first)), Some(Ok(second))) => Ok((first, second)),
            _ => Err(io::Error::other(format!("it answered '{}'", line.trim_end()))),
        }
    }
}

impl Drop for Segcache {
    fn drop(&mut self) {
        self.orders = None;
        // It leaves when its input ends; nothing depends on how.
        let _ = self.child.wait();
    }
}
