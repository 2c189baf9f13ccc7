//! Single streams and the mix: miss ratios of the store beside exact simulators, at equal bytes.
//!
//! Shape:      trace -> memory -> every peer at every size, the median of its draws; the store replays the same requests in
//!             this process
//! Invariants: peers get exactly what the store can divide among tenants, whatever its reserve and tables take
//! Units:      sizes in parts of the footprint (every distinct key once, with its charge) for single streams
//! Failure:    a trace that is absent is skipped with a line
//! Non-goals:  TTLs, times

use crate::contenders::{self, Contender};
use crate::half;
use crate::table::{Goal, Row, median};
use crate::{Bench, BenchError};
use comfy_table::{CellAlignment, Table, presets};
use harness::replay::{ReplayOptions, in_process};
use lab::reference::{Gdsf, Recording};
use lab::trace::STREAMS;
use lab::{Request, TraceError, TraceReader};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use units::{Bytes, Instant};

/// Sizes in hundredths of the footprint.
const PERCENTS: [u64; 4] = [5, 10, 20, 40];
/// The mix and its memories.
const MIX: &str = "mix-dev";
const MIX_MEMORIES: [Bytes; 3] = [Bytes::mib(128), Bytes::mib(256), Bytes::mib(512)];
/// What a simulator charges per item where items have sizes, as the references of the mix do.
const PER_ITEM: Bytes = Bytes(48);
/// Requests of a quick run, and what its memories of the mix are divided by.
const QUICK_REQUESTS: u64 = 100_000;
const QUICK_MIX_LESS: u64 = 16;
/// The store's largest item, as by default. Few items of one stream are larger.
const ITEM_MAX: Bytes = Bytes::mib(1);
/// Where all items count 1, the smallest memory of the store: 64 KiB of segment 256 times over.
const UNIT_MEMORY_MIN: Bytes = Bytes::mib(16);
/// Log bytes of such an item: a power of two between these, so that segments are filled to their ends.
const UNIT_BYTES: (u64, u64) = (1 << 10, 1 << 16);
/// Key of such an item: 16 hexadecimal digits.
const UNIT_KEY: u32 = 16;
/// What such an item counts for a peer. Only Cliffhanger's credits and shadow queues are absolute sizes.
const UNIT: u32 = 1 << 10;
/// Memories are tried in such steps.
const MEMORY_STEP: Bytes = Bytes::kib(4);
/// Of what the store charges: an item's header with what is remembered of its key, and its place in the index.
const HEADER: u64 = 11;
const INDEX_SHARE: u64 = 9;
const OUR_CHARGE: Bytes = Bytes(HEADER + INDEX_SHARE);
/// How many streams may miss more, by the mean over the sizes, than the best peer and than LRU.
const GOALS: [(&str, f64); 2] =
    [("single streams above their best peer", 2.0), ("single streams above LRU", 0.0)];
/// LRU's place in a line, after ours.
const LRU: usize = 1;

/// One line of a table: miss ratios, one per draw, with their owners, ours first.
struct Line {
    name: String,
    size: String,
    memory: Bytes,
    misses: Vec<(&'static str, Vec<f64>)>,
}

/// Measures; prints both tables; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let limit = if bench.less == 1 { u64::MAX } else { QUICK_REQUESTS };
    let mut lines = Vec::new();
    let mut above = [0.0, 0.0];
    for stream in STREAMS {
        let Some(path) = bench.trace(stream.0) else { continue };
        let measured = single(bench, &path, stream, limit)?;
        let sum = |peer: usize| measured.iter().map(|line| median(&line.misses[peer].1)).sum::<f64>();
        let peers = measured.first().map_or(0, |line| line.misses.len());
        let best = (1..peers).map(sum).fold(f64::INFINITY, f64::min);
        above[0] += f64::from(u8::from(best < sum(0)));
        above[1] += f64::from(u8::from(sum(LRU) < sum(0)));
        lines.extend(measured);
    }
    show(bench, "single streams", &lines);
    let judged = lines.len() == STREAMS.len() * PERCENTS.len() && bench.less == 1;
    for ((measure, most), above) in GOALS.into_iter().zip(above) {
        let goal = if judged { Goal::AtMost(most) } else { Goal::None("needs all of all") };
        bench.add(Row { measure: measure.to_owned(), unit: "-", ours: vec![above], peer: None, goal });
    }
    mix(bench, limit)
}

/// What the store is given, and what the peers get in exchange.
struct Sizes {
    memory: Bytes,
    /// The capacity of a peer.
    capacity: Bytes,
    /// The value of every item in the store where all items count 1.
    value_bytes: Option<u32>,
}

impl Sizes {
    /// For a part of the footprint of a stream whose items have sizes.
    fn of_bytes(divisible: Bytes) -> Self {
        let (memory, capacity) = memory_for(divisible);
        Self { memory, capacity, value_bytes: None }
    }

    /// For so many items of one size. Few items are large in the store, so that it has its least number of segments.
    fn of_items(items: u64) -> Self {
        let log_bytes = UNIT_MEMORY_MIN.0.div_ceil(items).next_power_of_two();
        let log_bytes = log_bytes.clamp(UNIT_BYTES.0, UNIT_BYTES.1);
        let charge = log_bytes + INDEX_SHARE;
        let (memory, divisible) = memory_for(Bytes(items * charge));
        let capacity = Bytes(divisible.0 / charge * u64::from(UNIT));
        let value_bytes = u32::try_from(log_bytes - HEADER).unwrap_or(UNIT) - UNIT_KEY;
        Self { memory, capacity, value_bytes: Some(value_bytes) }
    }
}

/// The least memory of a store that can divide so much, and what it can divide.
fn memory_for(divisible: Bytes) -> (Bytes, Bytes) {
    let mut memory = divisible;
    loop {
        let found = store::divisible_capacity(memory, ITEM_MAX, 1);
        if divisible <= found {
            return (memory, found);
        }
        memory += MEMORY_STEP;
    }
}

/// One stream at every size.
fn single(
    bench: &Bench,
    path: &Path,
    (stream, sized): (&str, bool),
    limit: u64,
) -> Result<Vec<Line>, BenchError> {
    bench.say(stream);
    let unit = (!sized).then_some(UNIT);
    let per_item = if sized { PER_ITEM } else { Bytes::ZERO };
    let recording = Recording::read(&mut *half::open(path, bench.half)?, limit, unit)?;
    let (keys, footprint) = recording.footprint(per_item);
    let mut lines = Vec::new();
    for percent in PERCENTS {
        let sizes = match unit {
            Some(_) => Sizes::of_items((keys * percent / 100).max(1)),
            None => Sizes::of_bytes(Bytes(footprint.0 * percent / 100)),
        };
        let peers = contenders::of_a_stream(sizes.capacity, per_item, unit);
        let report = match sizes.value_bytes {
            Some(value_bytes) => ours(bench, &sizes, limit, &mut OfOneSize::new(&recording, value_bytes))?,
            None => ours(bench, &sizes, limit, &mut half::open(path, bench.half)?)?,
        };
        let name = stream.to_owned();
        lines.push(line(
            (name, format!("{percent} %"), sizes.memory),
            report,
            &recording,
            (peers, bench.seed),
        ));
    }
    Ok(lines)
}

/// The mix in the memories that others were measured with.
fn mix(bench: &mut Bench, limit: u64) -> Result<(), BenchError> {
    let Some(path) = bench.trace(MIX) else { return Ok(()) };
    bench.say(MIX);
    let recording = Recording::read(&mut *half::open(&path, bench.half)?, limit, None)?;
    let mut lines = Vec::new();
    for memory in MIX_MEMORIES {
        let memory = if bench.less == 1 { memory } else { Bytes(memory.0 / QUICK_MIX_LESS) };
        let mut peers = contenders::of_a_mix(memory, PER_ITEM);
        // What the store itself charges, of what it can divide of this memory: the rest of the difference is eviction's.
        let divisible = store::divisible_capacity(memory, ITEM_MAX, 1);
        peers.push(Contender::new("GDSF at our charge", Gdsf::new(divisible, OUR_CHARGE)));
        let sizes = Sizes { memory, capacity: memory, value_bytes: None };
        let report = ours(bench, &sizes, limit, &mut half::open(&path, bench.half)?)?;
        lines.push(line(
            (MIX.to_owned(), memory.to_string(), memory),
            report,
            &recording,
            (peers, bench.seed),
        ));
    }
    show(bench, "the mix, all tenants in one memory", &lines);
    Ok(())
}

/// Miss ratio of the store.
fn ours(bench: &Bench, sizes: &Sizes, limit: u64, trace: &mut dyn TraceReader) -> Result<f64, BenchError> {
    let options = ReplayOptions {
        memory: sizes.memory,
        item_max: ITEM_MAX,
        limit: Some(limit),
        seed: bench.seed,
        ..ReplayOptions::default()
    };
    Ok(1.0 - in_process(options, &mut [trace], &mut |_| {})?.hit_ratio())
}

fn line(
    (name, size, memory): (String, String, Bytes),
    ours: f64,
    recording: &Recording,
    (peers, seed): (Vec<Contender>, u64),
) -> Line {
    let mut misses = vec![("ours", vec![ours])];
    misses.extend(peers.into_iter().map(|peer| (peer.name, peer.miss_ratios(recording, seed))));
    Line { name, size, memory, misses }
}

/// Prints a table and keeps its lines for the JSON file.
fn show(bench: &mut Bench, title: &str, lines: &[Line]) {
    let Some(first) = lines.first() else { return };
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    let names = first.misses.iter().map(|(name, _)| (*name).to_owned());
    table.set_header(["miss ratio", "size"].map(str::to_owned).into_iter().chain(names));
    for line in lines {
        let ratios = line.misses.iter().map(|(_, draws)| format!("{:.4}", median(draws)));
        table.add_row([line.name.clone(), line.size.clone()].into_iter().chain(ratios));
        for (peer, draws) in &line.misses {
            bench.record(object(title, line, peer, draws));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("\n{title}\n{table}");
}

/// One peer's figure: the median of its draws, and their range.
fn object(title: &str, line: &Line, peer: &str, draws: &[f64]) -> Value {
    let least = draws.iter().copied().reduce(f64::min);
    let most = draws.iter().copied().reduce(f64::max);
    json!({"table": title, "trace": line.name, "size": line.size, "memory_bytes": line.memory.0, "peer": peer,
           "miss_ratio": median(draws), "least": least, "most": most, "draws": draws.len()})
}

/// The requests of a recording, with keys of one length and values of one size.
struct OfOneSize<'r> {
    recording: &'r Recording,
    next: usize,
    key: String,
    value_bytes: u32,
}

impl<'r> OfOneSize<'r> {
    fn new(recording: &'r Recording, value_bytes: u32) -> Self {
        Self { recording, next: 0, key: String::new(), value_bytes }
    }
}

impl TraceReader for OfOneSize<'_> {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        let Some(access) = self.recording.accesses.get(self.next) else { return Ok(None) };
        self.next += 1;
        self.key.clear();
        // A string takes every write.
        let _ = write!(self.key, "{:016x}", access.key_hash);
        let (key, value_bytes) = (self.key.as_bytes(), self.value_bytes);
        Ok(Some(Request { at: Instant::ZERO, tenant: b"", key, value_bytes, op: access.op, ttl_secs: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_can_divide_what_the_peers_get() {
        for items in [100, 700, 5_000, 100_000] {
            let sizes = Sizes::of_items(items);
            let divisible = store::divisible_capacity(sizes.memory, ITEM_MAX, 1);
            let charge =
                u64::from(sizes.value_bytes.expect("all are alike") + UNIT_KEY) + HEADER + INDEX_SHARE;
            assert_eq!(sizes.capacity.0 / u64::from(UNIT), divisible.0 / charge, "{items}");
            assert!(
                items <= divisible.0 / charge && divisible.0 / charge <= items + items / 20 + 4,
                "{items}"
            );
        }
        let sizes = Sizes::of_bytes(Bytes::mib(30));
        assert!(Bytes::mib(30) <= sizes.capacity && sizes.capacity < sizes.memory);
    }

    #[test]
    fn the_figure_of_a_peer_that_draws_is_the_median_and_its_range_is_kept() {
        let (name, size) = ("t".to_owned(), "5 %".to_owned());
        let line = Line { name, size, memory: Bytes(1), misses: Vec::new() };
        let of = |draws: &[f64]| {
            let object = object("single streams", &line, "LHD", draws);
            ["miss_ratio", "least", "most", "draws"].map(|field| object[field].as_f64())
        };
        assert_eq!(of(&[0.5, 0.25, 0.375]), [Some(0.375), Some(0.25), Some(0.5), Some(3.0)]);
        assert_eq!(of(&[0.5]), [Some(0.5), Some(0.5), Some(0.5), Some(1.0)]);
    }

    #[test]
    fn keys_and_sizes_are_all_alike() {
        let text = "t_ms,key,size,op\n,a,,get\n,longer,,get\n,a,,get\n";
        let mut reader = lab::open_reader(Box::new(text.as_bytes()), "t", None).expect("it is a stream");
        let recording = Recording::read(&mut *reader, u64::MAX, Some(UNIT)).expect("it is whole");
        let mut all = OfOneSize::new(&recording, 998);
        let mut keys = Vec::new();
        while let Some(request) = all.next().expect("nothing can fail") {
            assert_eq!((request.key.len(), request.value_bytes), (UNIT_KEY as usize, 998));
            keys.push(request.key.to_vec());
        }
        assert!(keys.len() == 3 && keys[0] == keys[2] && keys[0] != keys[1]);
    }
}
