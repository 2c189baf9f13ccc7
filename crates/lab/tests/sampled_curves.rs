//! The sampled miss ratio curve against exact LRU caches, at 19 sizes from 5 to 95 % of the footprint.
//!
//! Traces: the shared single streams, skipped with a message where they are absent; `COTENANT_TRACES` says where they are
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]
#![allow(clippy::print_stdout, reason = "the figures behind each assertion are worth reading")]

use lab::reference::{Gdsf, Lru, Reference, S3Fifo};
use lab::trace::STREAMS;
use lab::workload::Zipf;
use policy::estimate::{SAMPLES_MAX, Shards, through};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use units::{Bytes, Rng, mix64};

/// Mean absolute error over the sizes that a rate of .01 may have.
const ERROR_MAX: f64 = 0.02;
/// The same of a curve through the present where the order is LRU, and only the sample is off: .0032 at most on these streams.
const LRU_ERROR_MAX: f64 = 0.005;
/// Parts of the footprint that are compared, in 20ths.
const SIZES: std::ops::RangeInclusive<u64> = 1..=19;
const KEYS: u32 = 300_000;
/// Bytes that an item is charged beside its value: header, index and a key of usual length.
const CHARGE: u32 = 40;
const LOOK_UPS: u64 = 1_500_000;

/// What is looked up: a key and its bytes.
type Stream = Vec<(u64, u32)>;

fn bytes_of(key: u64) -> u32 {
    40 + u32::try_from(mix64(key) % 1_000).unwrap()
}

fn zipf(skew: f64, seed: u64) -> Stream {
    let (zipf, mut rng) = (Zipf::new(KEYS, skew), Rng::new(seed));
    let mut key = || u64::from(zipf.draw(&mut rng)) ^ seed << 40;
    (0..LOOK_UPS).map(|_| key()).map(|key| (key, bytes_of(key))).collect()
}

/// Every third look-up goes round a loop of its own keys.
fn scan_and_zipf(seed: u64) -> Stream {
    let mut stream = zipf(0.9, seed);
    for (i, look_up) in stream.iter_mut().enumerate().step_by(3) {
        let key = 1 << 60 | (i as u64 / 3 % 150_000) ^ seed << 40;
        *look_up = (key, bytes_of(key));
    }
    stream
}

/// An exact miss ratio curve: look-ups by reuse distance, first look-ups beyond all distances.
struct Exact {
    distances: Vec<u64>,
    look_ups: usize,
    footprint: Bytes,
}

impl Exact {
    /// Distances by a tree over moments that has the bytes of each key at its last look-up.
    fn of(stream: &Stream) -> Self {
        Self::of_end(stream, 0)
    }

    /// The curve of the look-ups from one on, after those before it.
    fn of_end(stream: &Stream, first: usize) -> Self {
        let mut tree = vec![0_u64; stream.len() + 1];
        let add = |tree: &mut Vec<u64>, at: usize, by: u64| {
            let mut i = at + 1;
            while i < tree.len() {
                tree[i] = tree[i].wrapping_add(by);
                i += i & i.wrapping_neg();
            }
        };
        let (mut last, mut distances, mut total) = (HashMap::new(), Vec::new(), 0);
        for (now, (key, bytes)) in stream.iter().enumerate() {
            let bytes = u64::from(*bytes);
            if let Some((then, before)) = last.insert(*key, (now, bytes)) {
                let (mut i, mut older) = (then + 1, 0_u64);
                while 0 < i {
                    older = older.wrapping_add(tree[i]);
                    i -= i & i.wrapping_neg();
                }
                if first <= now {
                    distances.push(total - older + bytes);
                }
                add(&mut tree, then, 0_u64.wrapping_sub(before));
                total -= before;
            }
            add(&mut tree, now, bytes);
            total += bytes;
        }
        distances.sort_unstable();
        Self { distances, look_ups: stream.len() - first, footprint: Bytes(total) }
    }

    fn miss_ratio(&self, size: Bytes) -> f64 {
        1.0 - self.distances.partition_point(|d| *d <= size.0) as f64 / self.look_ups as f64
    }
}

/// Mean absolute error at the sizes.
fn error(name: &str, shards: &Shards, exact: &Exact) -> f64 {
    let curve = shards.curve().unwrap();
    let (mut sum, mut worst) = (0.0, 0.0_f64);
    for part in SIZES {
        let size = exact.footprint.scale(part, 20);
        let error = (curve.miss_ratio(size) - exact.miss_ratio(size)).abs();
        sum += error;
        worst = worst.max(error);
    }
    let (rate, samples) = (shards.rate(), shards.samples());
    let mean = sum / SIZES.count() as f64;
    println!("{name}: rate {rate:.4}, {samples} samples: mean {mean:.4}, worst {worst:.4}");
    mean
}

fn sampled(stream: &Stream, rate: f64, samples_max: usize) -> Shards {
    let mut shards = Shards::new(rate, samples_max).unwrap();
    stream.iter().for_each(|(key, bytes)| shards.note(*key, *bytes));
    shards
}

/// Mean absolute error of a generated stream.
fn errors(stream: &Stream, rate: f64, samples_max: usize) -> f64 {
    error("generated", &sampled(stream, rate, samples_max), &Exact::of(stream))
}

#[test]
fn the_exact_curve_is_that_of_exact_caches() {
    let stream: Stream = scan_and_zipf(1).into_iter().take(200_000).collect();
    let exact = Exact::of(&stream);
    for part in [2, 9, 15] {
        let size = exact.footprint.scale(part, 20);
        let mut lru = Lru::new(size, Bytes::ZERO);
        let misses = stream.iter().filter(|(key, bytes)| !lru.access(*key, *bytes)).count();
        let simulated = misses as f64 / stream.len() as f64;
        assert!((exact.miss_ratio(size) - simulated).abs() < 1e-9, "{part}: {simulated}");
    }
}

/// The look-ups of a shared trace, charged as an item of the store is.
fn trace(name: &str) -> Option<Stream> {
    let folder = std::env::var_os("COTENANT_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    let path = folder.join(format!("{name}.csv.zst"));
    if !path.is_file() {
        println!("skipped: {name} is absent");
        return None;
    }
    let mut reader = lab::open(&path, None).unwrap();
    let mut stream = Vec::new();
    while let Some(request) = reader.next().unwrap() {
        if request.op.is_look_up() {
            stream.push((rapidhash::v3::rapidhash_v3(request.key), request.value_bytes + CHARGE));
        }
    }
    Some(stream)
}

/// Samples of a tenant among many: 22 tenants in 256 MiB have 1,300 each.
const SAMPLES_FEW: usize = 1_024;

/// From rate 1, as a server begins: with all the samples that a tenant can have, and with those of one among many.
#[test]
fn curves_of_the_shared_streams_are_within_their_error() {
    for (name, _) in STREAMS {
        let Some(stream) = trace(name) else { continue };
        let exact = Exact::of(&stream);
        for samples in [SAMPLES_MAX, SAMPLES_FEW] {
            let mean = error(name, &sampled(&stream, 1.0, samples), &exact);
            assert!(mean <= ERROR_MAX, "{name}: {mean:.4}");
        }
    }
}

#[test]
fn curves_of_generated_streams_are_within_their_error() {
    for seed in 1..=3 {
        for (name, stream) in [("zipf", zipf(0.9, seed)), ("scan and zipf", scan_and_zipf(seed))] {
            let exact = Exact::of(&stream);
            for samples in [SAMPLES_MAX, SAMPLES_FEW] {
                let mean = error(name, &sampled(&stream, 1.0, samples), &exact);
                assert!(mean <= ERROR_MAX, "{name}, seed {seed}: {mean:.4}");
            }
        }
    }
}

/// A rate that is too high for the memory falls by itself, and the curve stays right.
#[test]
fn a_rate_that_falls_keeps_the_curve() {
    let mean = errors(&scan_and_zipf(4), 1.0, 4_096);
    assert!(mean <= ERROR_MAX, "{mean:.4}");
}

/// Too few samples are seen to be too few: the check can fail.
#[test]
fn a_handful_of_samples_is_not_enough() {
    let worst = (1..=3).map(|seed| errors(&scan_and_zipf(seed), 0.000_05, SAMPLES_MAX)).fold(0.0, f64::max);
    assert!(ERROR_MAX < worst, "{worst:.4}");
}

/// A curve that ages: a steady stream's stays right, and after a change it turns to the new one.
#[test]
fn a_curve_that_ages_follows_a_change_of_keys() {
    for seed in 1..=3 {
        let (before, after) = (Zipf::new(100_000, 0.9), Zipf::new(30_000, 0.6));
        let mut rng = Rng::new(seed);
        let mut shards = Shards::new(1.0, 2 * SAMPLES_FEW).unwrap();
        let mut fixed = shards.clone();
        let steady: Stream =
            (0..1_000_000).map(|_| (u64::from(before.draw(&mut rng)) | seed << 40, 100)).collect();
        let changed: Stream =
            (0..600_000).map(|_| (u64::from(after.draw(&mut rng)) | 1 << 50, 100)).collect();
        let feed = |shards: &mut Shards, stream: &Stream, ages: bool| {
            for (key, bytes) in stream {
                shards.note(*key, *bytes);
                if ages {
                    shards.age();
                }
            }
        };
        feed(&mut shards, &steady, true);
        feed(&mut fixed, &steady, false);
        let mean = error("steady", &shards, &Exact::of_end(&steady, 700_000));
        assert!(mean <= ERROR_MAX, "seed {seed}: {mean:.4}");
        feed(&mut shards, &changed, true);
        feed(&mut fixed, &changed, false);
        let changed = Exact::of_end(&changed, 300_000);
        let (ageing, fixed) =
            (error("changed", &shards, &changed), error("changed, not ageing", &fixed, &changed));
        assert!(ageing <= 0.06 && 1.5 * ageing < fixed, "seed {seed}: {ageing:.4} against {fixed:.4}");
    }
}

/// Whatever the order is: through the present miss ratio the curve says what other sizes change.
#[test]
fn a_curve_through_the_present_predicts_any_order() {
    type Make = fn(Bytes) -> Box<dyn Reference>;
    let orders: [(&str, f64, Make); 3] = [
        ("LRU", LRU_ERROR_MAX, |size| Box::new(Lru::new(size, Bytes::ZERO))),
        ("GDSF", ERROR_MAX, |size| Box::new(Gdsf::new(size, Bytes::ZERO))),
        ("S3-FIFO", ERROR_MAX, |size| Box::new(S3Fifo::new(size, Bytes::ZERO))),
    ];
    let names = ["arc-P6", "http-nasa-19950801", "scarab-recs-h1", "web12"];
    let streams: Vec<_> = names.into_iter().filter_map(|name| trace(name).map(|t| (name, t))).collect();
    for (order, error_max, make) in orders {
        let (mut all_with, mut all_without) = (0.0, 0.0);
        for (name, stream) in &streams {
            let shards = sampled(stream, 1.0, SAMPLES_FEW);
            let curve = shards.curve().unwrap();
            let now = Exact::of(stream).footprint.scale(1, 5);
            let missed = |size: Bytes| {
                let mut cache = make(size);
                let misses = stream.iter().filter(|(key, bytes)| !cache.access(*key, *bytes)).count();
                misses as f64 / stream.len() as f64
            };
            let present = missed(now);
            let bent = through(&curve, now, present, shards.slack());
            let (mut with, mut without, mut same) = (0.0, 0.0, 0.0);
            for size in [50, 80, 120, 200].map(|percent| now.scale(percent, 100)) {
                let truth = missed(size);
                with += (bent.miss_ratio(size) - truth).abs() / 4.0;
                without += (curve.miss_ratio(size) - truth).abs() / 4.0;
                same += (present - truth).abs() / 4.0;
            }
            println!("{name}, {order}: {with:.4}; {without:.4} without the present, {same:.4} of no change");
            assert!(with <= error_max, "{name}, {order}: {with:.4}");
            all_with += with;
            all_without += without;
        }
        assert!(2.0 * all_with <= all_without, "{order}: {all_with:.4}, {all_without:.4}");
    }
}
