//! The segcache crate under measurement: CPU time of this thread per look-up and per write, and its hit ratio.
//!
//! Shape:      arguments: memory in MiB, keys; then a line per order on the input, an answer in a line on the output:
//!             `get N SEED` and `set N SEED` -> nanoseconds per operation and how
//!             many found or stored nothing; `replay MIB N EVICTION` and then N numbers of four bytes,
//!             little-endian -> hits of a look-aside client
//! Invariants: every value is verified; keys and values are those of the benchmark's store section
//! Failure:    a wrong value, a refused store or a bad order ends it with a message and exit code 1

use rustix::time::{ClockId, clock_gettime};
use segcache::{Policy, Segcache, SegcacheError};
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use units::{Rng, mix64};

/// Tenants by prefix, as in the benchmark.
const TENANTS: u32 = 8;
/// Operations drawn between two readings of the clock.
const BLOCK: u64 = 4096;
/// Bytes of an item with its header, rounded up to words: what a memory holds at most.
const ITEM: usize = 56;

fn key(number: u32) -> [u8; 23] {
    let mut key = *b"t0:00000000000000000000";
    key[1] += (number % TENANTS) as u8;
    let mut rest = number;
    for place in key.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn value(number: u32) -> [u8; 25] {
    let mut value = [b'v'; 25];
    let mut bits = mix64(u64::from(number));
    for place in &mut value[1..17] {
        *place = b'a' + (bits & 0xF) as u8;
        bits >>= 4;
    }
    value
}

/// CPU time of this thread.
fn cpu_nanos() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// A cache of so much memory in all: a hash table for `keys`, segments in the rest.
fn cache(mebibytes: usize, keys: u32, eviction: Policy) -> Result<Segcache, String> {
    // The power counts slots of 8 B; an eighth stays free at least.
    let power = (keys + keys / 8).next_power_of_two().ilog2();
    let heap = (mebibytes << 20).checked_sub(8 << power).ok_or("less memory than the hash table takes")?;
    Segcache::builder()
        .hash_power(power as u8)
        .heap_size(heap)
        .segment_size(1 << 20)
        .eviction(eviction)
        .build()
        .map_err(|e| e.to_string())
}

/// The eviction of the paper with its parameters.
fn merge() -> Policy {
    Policy::Merge { max: 8, merge: 4, compact: 2 }
}

/// A key, and its number.
type Numbered = (u32, [u8; 23]);

fn numbered(number: u32) -> Numbered {
    (number, key(number))
}

/// Whether the item was stored: now and then the hash table finds no slot long before it is full.
fn set(cache: &mut Segcache, (number, key): &Numbered) -> Result<bool, String> {
    match cache.insert(key, &value(*number)[..], None, Duration::ZERO) {
        Ok(()) => Ok(true),
        Err(SegcacheError::HashTableInsertEx) => Ok(false),
        Err(error) => Err(format!("set {number}: {error}")),
    }
}

/// Whether an item is there; an error if it is wrong.
fn get(cache: &mut Segcache, (number, key): &Numbered) -> Result<bool, String> {
    let number = *number;
    match cache.get(key) {
        Some(item) if item.value() == value(number)[..] => Ok(true),
        Some(_) => Err(format!("item {number} is not what was stored")),
        None => Ok(false),
    }
}

/// Nanoseconds per operation, uniform over the keys, and how many came to nothing.
fn time(
    cache: &mut Segcache,
    keys: u32,
    count: u64,
    seed: u64,
    one: impl Fn(&mut Segcache, &Numbered) -> Result<bool, String>,
) -> Result<String, String> {
    let mut rng = Rng::new(seed);
    let (mut spent, mut done, mut nothing) = (0, 0, 0_u64);
    while done < count {
        let block: Vec<_> = (0..BLOCK).map(|_| numbered(rng.below(u64::from(keys)) as u32)).collect();
        let started = cpu_nanos();
        for one_of in &block {
            nothing += u64::from(!one(cache, one_of)?);
        }
        spent += cpu_nanos() - started;
        done += BLOCK;
    }
    Ok(format!("{} {nothing}", spent as f64 / done as f64))
}

fn replay(mebibytes: usize, count: usize, eviction: Policy, input: &mut impl Read) -> Result<u64, String> {
    let mut numbers = vec![0; count * 4];
    input.read_exact(&mut numbers).map_err(|e| e.to_string())?;
    let numbers = numbers.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let keys = u32::try_from((mebibytes << 20) / (ITEM + 8)).map_err(|e| e.to_string())?;
    let mut cache = cache(mebibytes, keys, eviction)?;
    let mut hits = 0;
    for number in numbers {
        let item = numbered(number);
        if get(&mut cache, &item)? {
            hits += 1;
        } else {
            set(&mut cache, &item)?;
        }
    }
    Ok(hits)
}

fn run() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u32>().map_err(|_| text));
    let (Some(Ok(mebibytes)), Some(Ok(keys))) = (arguments.next(), arguments.next()) else {
        return Err("usage: segcache-peer MIB KEYS".to_owned());
    };
    let mut cache = cache(mebibytes as usize, keys, merge())?;
    for number in 0..keys {
        let _is_stored = set(&mut cache, &numbered(number))?;
    }
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).map_err(|e| e.to_string())? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
        let answer = match (words.first().copied(), number(1), number(2)) {
            (Some("get"), Some(count), Some(seed)) => time(&mut cache, keys, count, seed, get)?,
            (Some("set"), Some(count), Some(seed)) => time(&mut cache, keys, count, seed, set)?,
            (Some("replay"), Some(mebibytes), Some(count)) => {
                let eviction = match words.get(3).copied() {
                    Some("merge") => merge(),
                    Some("s3fifo") => Policy::S3Fifo { admission_ratio: 0.1 },
                    _ => return Err("an eviction is merge or s3fifo".to_owned()),
                };
                format!("{} 0", replay(mebibytes as usize, count as usize, eviction, &mut input)?)
            }
            _ => return Err(format!("'{}' is no order", line.trim_end())),
        };
        writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(|e| e.to_string())?;
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::FAILURE
        }
    }
}
