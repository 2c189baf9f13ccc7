//! Curves of a running server: against the exact simulation, and against what happens with that much memory.

use crate::live;
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use lab::reference::{Lru, Reference};
use lab::workload::Zipf;
use lab::{Op, Request, TraceError, TraceReader};
use server::MemoryPolicy;
use store::RankKind;
use units::{Bytes, Instant, Rng, mix64};

const KEYS: u32 = 40_000;
/// Half of them are a warm-up.
const LOOK_UPS: u64 = 400_000;
/// What an item is charged beside key and value, where nothing is optional: header and index share.
const BESIDE: u32 = 19;

/// Look-ups of one tenant by Zipf's law.
struct Asking {
    zipf: Zipf,
    rng: Rng,
    left: u64,
    key: String,
}

impl Asking {
    fn new(seed: u64, look_ups: u64) -> Self {
        Self { zipf: Zipf::new(KEYS, 0.8), rng: Rng::new(seed), left: look_ups, key: String::new() }
    }
}

impl TraceReader for Asking {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let number = self.zipf.draw(&mut self.rng);
        let value_bytes = 100 + u32::try_from(mix64(number.into()) % 900).unwrap();
        self.key = format!("z:{number:016}");
        let (tenant, key) = (&b"z"[..], self.key.as_bytes());
        Ok(Some(Request { at: Instant::ZERO, tenant, key, value_bytes, op: Op::Get, ttl_secs: 0 }))
    }
}

/// A server that was asked, its curve, and the miss ratio over TCP after the warm-up.
fn asked(memory: Bytes, rank: RankKind, seed: u64) -> (server::CurveView, f64) {
    let config = server::Config { rank, ..live::config(memory, MemoryPolicy::Shared) };
    let (server, address) = live::serve(config);
    let options = ReplayOptions::default();
    let mut asking = Asking::new(seed, LOOK_UPS);
    let half = ReplayOptions { limit: Some(LOOK_UPS / 2), ..options.clone() };
    over_tcp(&half, &address, &mut [&mut asking], &mut |_| {}, None).unwrap();
    let report = over_tcp(&options, &address, &mut [&mut asking], &mut |_| {}, None).unwrap();
    let view = server.view().curve("z").unwrap();
    server.shut_down();
    (view, 1.0 - report.hits as f64 / report.gets as f64)
}

/// Exact LRU: misses of the second half at a size.
fn exact(seed: u64, size: Bytes) -> f64 {
    let mut lru = Lru::new(size, Bytes::ZERO);
    let mut asking = Asking::new(seed, LOOK_UPS);
    let (mut misses, mut turn) = (0, 0);
    while let Some(request) = asking.next().unwrap() {
        let bytes = request.value_bytes + u32::try_from(request.key.len()).unwrap() + BESIDE;
        let hit = lru.access(rapidhash::v3::rapidhash_v3(request.key), bytes);
        turn += 1;
        misses += u64::from(LOOK_UPS / 2 < turn && !hit);
    }
    misses as f64 / (LOOK_UPS / 2) as f64
}

#[test]
fn the_curve_of_a_server_is_that_of_the_exact_simulation() {
    for seed in 1..=3 {
        let (view, measured) = asked(Bytes::mib(16), RankKind::Lru, seed);
        let curve = view.curve.unwrap();
        let footprint = Bytes((0..KEYS).map(|n| 100 + mix64(n.into()) % 900 + 18 + u64::from(BESIDE)).sum());
        let error = |part: u64| {
            let size = footprint.scale(part, 20);
            (curve.miss_ratio(size) - exact(seed, size)).abs()
        };
        let mean = (1..=19).map(error).sum::<f64>() / 19.0;
        let (held, samples, rate, lost) = (view.held, view.samples, view.rate, view.lost);
        println!(
            "seed {seed}: mean error {mean:.4}; {held} of {footprint} held, {measured:.4} missed, \
             {samples} samples at {rate:.3}, {lost} lost"
        );
        assert!(mean <= 0.02, "seed {seed}: {mean}");
    }
}

/// What a fifth more memory gives is what was said before, under the default rank.
#[test]
fn a_fifth_more_memory_gives_what_was_said() {
    let (view, measured) = asked(Bytes::mib(16), RankKind::default(), 1);
    let curve = view.curve.unwrap();
    for memory in [Bytes::kib(19_661), Bytes::kib(13_107)] {
        let (other, truth) = asked(memory, RankKind::default(), 1);
        let said = curve.miss_ratio(other.held);
        println!(
            "{} held: {measured:.4} missed; said for {}: {said:.4}, it is {truth:.4}",
            view.held, other.held
        );
        assert!((said - truth).abs() <= 0.02, "{said} said, {truth} true, {measured} before");
    }
}
