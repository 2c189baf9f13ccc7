//! Who the store is compared with on traces, by name.
//!
//! Invariants: who draws at random is replayed once per seed; the others once

use lab::reference::{
    Cliffhanger, Gdsf, Lhd, Lru, Recording, Reference, S3Fifo, Slab, WTinyLfu, hit_curves, split,
};
use units::Bytes;

/// memcached's page, and the least number of pages that a smaller memory is divided into.
const PAGE: Bytes = Bytes::mib(1);
const PAGES_MIN: u64 = 64;
/// Smallest page.
const PAGE_MIN: Bytes = Bytes::kib(4);
/// Windows of W-TinyLFU, in hundredths of the memory: the paper's (§4), and one for streams of recency (guess).
const WINDOWS: [u64; 2] = [1, 10];
/// Draws of who draws at random: their median is the measure (one of LHD or W-TinyLFU differs by up to .01).
pub(crate) const DRAWS: usize = 3;
/// Steps of the grid on which memory is split.
const SPLIT_STEPS: usize = 1024;

/// One peer, before it has seen a request.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    kind: Kind,
}

enum Kind {
    Fixed(Box<dyn Reference>),
    /// A cache by its seed.
    Drawn(Box<dyn Fn(u64) -> Box<dyn Reference>>),
    /// The static partition with the best split: capacity and charge per item.
    BestSplit(Bytes, Bytes),
}

impl Contender {
    pub(crate) fn new(name: &'static str, cache: impl Reference + 'static) -> Self {
        Self { name, kind: Kind::Fixed(Box::new(cache)) }
    }

    fn drawn<R: Reference + 'static>(name: &'static str, by_seed: impl Fn(u64) -> R + 'static) -> Self {
        Self { name, kind: Kind::Drawn(Box::new(move |seed| Box::new(by_seed(seed)))) }
    }

    /// Misses ÷ gets over all of `recording`, once per draw, with seeds from `seed` on.
    pub(crate) fn miss_ratios(self, recording: &Recording, seed: u64) -> Vec<f64> {
        let misses = |cache: &mut dyn Reference| 1.0 - recording.replay(cache).hit_ratio();
        match self.kind {
            Kind::Fixed(mut cache) => vec![misses(&mut *cache)],
            Kind::Drawn(by_seed) => (seed..).map(|seed| misses(&mut *by_seed(seed))).take(DRAWS).collect(),
            Kind::BestSplit(capacity, per_item) => {
                let step = Bytes(capacity.0 / SPLIT_STEPS as u64);
                let curves = hit_curves(recording, step, SPLIT_STEPS, per_item);
                let gets: u64 = curves.iter().map(|curve| curve.gets).sum();
                vec![1.0 - split::best(&curves, SPLIT_STEPS).hits as f64 / gets.max(1) as f64]
            }
        }
    }
}

/// The peers of one stream. Where all items count the same, `unit` says how much.
pub(crate) fn of_a_stream(capacity: Bytes, per_item: Bytes, unit: Option<u32>) -> Vec<Contender> {
    let mut peers = of_any(capacity, per_item);
    let slab = match unit {
        Some(unit) => Slab::uniform(capacity, Bytes(u64::from(unit))),
        None => Slab::new(capacity, page(capacity), true),
    };
    peers.push(Contender::new("slab LRU", slab));
    peers
}

/// The peers of the mix: memory is one for all, shared by slab classes and by queues per tenant, or split.
pub(crate) fn of_a_mix(capacity: Bytes, per_item: Bytes) -> Vec<Contender> {
    let mut peers = of_a_stream(capacity, per_item, None);
    peers.push(Contender { name: "best split", kind: Kind::BestSplit(capacity, per_item) });
    peers
}

fn page(capacity: Bytes) -> Bytes {
    let part = Bytes(1 << (capacity.0 / PAGES_MIN).max(1).ilog2());
    part.min(PAGE).max(PAGE_MIN)
}

fn of_any(capacity: Bytes, per_item: Bytes) -> Vec<Contender> {
    let w_tiny_lfu = move |window| move |seed| WTinyLfu::new(capacity, per_item, window, seed);
    let [small, large] = WINDOWS.map(w_tiny_lfu);
    vec![
        Contender::new("LRU", Lru::new(capacity, per_item)),
        Contender::new("S3-FIFO", S3Fifo::new(capacity, per_item)),
        Contender::new("S3-FIFO as run", S3Fifo::as_run(capacity, per_item)),
        Contender::drawn("W-TinyLFU", small),
        Contender::drawn("W-TinyLFU 10 %", large),
        Contender::new("GDSF", Gdsf::new(capacity, per_item)),
        Contender::drawn("LHD", move |seed| Lhd::new(capacity, per_item, seed)),
        Contender::drawn("Cliffhanger", move |seed| Cliffhanger::new(capacity, per_item, seed)),
        Contender::drawn("Cliffhanger hill", move |seed| Cliffhanger::hill(capacity, per_item, seed)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn who_draws_is_replayed_once_per_seed_and_the_others_once() {
        let text: String = {
            let mut rng = Rng::new(1);
            let rows =
                (0..20_000).map(|n| format!("{n},key-{},10,get\n", rng.below(rng.clone().below(900) + 1)));
            std::iter::once("t_ms,key,size,op\n".to_owned()).chain(rows).collect()
        };
        let mut reader =
            lab::open_reader(Box::new(std::io::Cursor::new(text)), "t", None).expect("it is a stream");
        let recording = Recording::read(&mut *reader, u64::MAX, Some(1)).expect("it is whole");
        let all = |seed| -> Vec<(&str, Vec<f64>)> {
            let peers = of_a_stream(Bytes(200), Bytes::ZERO, Some(1));
            peers.into_iter().map(|peer| (peer.name, peer.miss_ratios(&recording, seed))).collect()
        };
        let peers = all(1);
        for (name, ratios) in &peers {
            let draws = name.starts_with("W-") || ["LHD", "Cliffhanger", "Cliffhanger hill"].contains(name);
            assert_eq!(ratios.len(), if draws { DRAWS } else { 1 }, "{name}");
            assert!(ratios.iter().all(|ratio| 0.0 < *ratio && *ratio < 1.0), "{name}: {ratios:?}");
        }
        let lhd = peers.iter().find(|(name, _)| *name == "LHD").expect("it is one of them");
        assert!(lhd.1.iter().any(|ratio| 0.0 < (ratio - lhd.1[0]).abs()), "draws differ: {lhd:?}");
        assert_eq!(peers, all(1), "the same seeds give the same");
    }
}
