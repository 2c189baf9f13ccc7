//! The sampled miss ratio curve against exact LRU caches, at sizes from 5 to 95 % of the footprint.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]
#![allow(clippy::print_stdout, reason = "the figures behind each assertion are worth reading")]

use lab::reference::{Lru, Reference};
use lab::workload::Zipf;
use policy::estimate::{SAMPLES_MAX, Shards};
use units::{Bytes, Rng, mix64};

/// Mean absolute error over the sizes that a rate of .01 may have.
const ERROR_MAX: f64 = 0.02;
const RATE: f64 = 0.01;
/// Parts of the footprint that are compared, in percent.
const SIZES: [u64; 7] = [5, 15, 30, 45, 60, 80, 95];
const KEYS: u32 = 300_000;
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

fn exact(stream: &Stream, size: Bytes) -> f64 {
    let mut lru = Lru::new(size, Bytes::ZERO);
    let misses = stream.iter().filter(|(key, bytes)| !lru.access(*key, *bytes)).count();
    misses as f64 / stream.len() as f64
}

/// Mean absolute error at the sizes, and the largest.
fn errors(stream: &Stream, rate: f64, samples_max: usize) -> (f64, f64) {
    let mut shards = Shards::new(rate, samples_max).unwrap();
    stream.iter().for_each(|(key, bytes)| shards.note(*key, *bytes));
    let curve = shards.curve().unwrap();
    let mut keys: Vec<_> = stream.clone();
    keys.sort_unstable();
    keys.dedup();
    let footprint = Bytes(keys.iter().map(|(_, bytes)| u64::from(*bytes)).sum());
    let (mut sum, mut worst) = (0.0, 0.0_f64);
    for percent in SIZES {
        let size = footprint.scale(percent, 100);
        let (ours, exact) = (curve.miss_ratio(size), exact(stream, size));
        sum += (ours - exact).abs();
        worst = worst.max((ours - exact).abs());
    }
    println!(
        "rate {:.4}, {} samples: mean {:.4}, worst {worst:.4}",
        shards.rate(),
        shards.samples(),
        sum / 7.0
    );
    (sum / SIZES.len() as f64, worst)
}

#[test]
fn a_curve_of_one_key_in_a_hundred_is_within_its_error() {
    for seed in 1..=3 {
        for (name, stream) in [("zipf", zipf(0.9, seed)), ("scan and zipf", scan_and_zipf(seed))] {
            let (mean, _) = errors(&stream, RATE, SAMPLES_MAX);
            assert!(mean <= ERROR_MAX, "{name}, seed {seed}: {mean:.4}");
        }
    }
}

/// A rate that is too high for the memory falls by itself, and the curve stays right.
#[test]
fn a_rate_that_falls_keeps_the_curve() {
    let (mean, _) = errors(&scan_and_zipf(4), 1.0, 4_096);
    assert!(mean <= ERROR_MAX, "{mean:.4}");
}

/// Too few samples are seen to be too few: the check can fail.
#[test]
fn a_handful_of_samples_is_not_enough() {
    let worst = (1..=3).map(|seed| errors(&scan_and_zipf(seed), 0.000_05, SAMPLES_MAX).0).fold(0.0, f64::max);
    assert!(ERROR_MAX < worst, "{worst:.4}");
}
