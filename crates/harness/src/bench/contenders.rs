//! Who the store is compared with on traces, by name.

use lab::reference::{
    Cliffhanger, Gdsf, Lhd, Lru, Recording, Reference, S3Fifo, Slab, WTinyLfu, hit_curves, split,
};
use units::Bytes;

/// memcached's page, and the least number of pages that a smaller memory is divided into.
const PAGE: Bytes = Bytes::mib(1);
const PAGES_MIN: u64 = 64;
/// Smallest page.
const PAGE_MIN: Bytes = Bytes::kib(4);
/// Steps of the grid on which memory is split.
const SPLIT_STEPS: usize = 1024;

/// One peer, before it has seen a request.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    kind: Kind,
}

enum Kind {
    Cache(Box<dyn Reference>),
    /// The static partition with the best split: capacity and charge per item.
    BestSplit(Bytes, Bytes),
}

impl Contender {
    fn new(name: &'static str, cache: impl Reference + 'static) -> Self {
        Self { name, kind: Kind::Cache(Box::new(cache)) }
    }

    /// Misses ÷ gets over all of `recording`.
    pub(crate) fn miss_ratio(self, recording: &Recording) -> f64 {
        let hit_ratio = match self.kind {
            Kind::Cache(mut cache) => recording.replay(&mut *cache).hit_ratio(),
            Kind::BestSplit(capacity, per_item) => {
                let step = Bytes(capacity.0 / SPLIT_STEPS as u64);
                let curves = hit_curves(recording, step, SPLIT_STEPS, per_item);
                let gets: u64 = curves.iter().map(|curve| curve.gets).sum();
                split::best(&curves, SPLIT_STEPS).hits as f64 / gets.max(1) as f64
            }
        };
        1.0 - hit_ratio
    }
}

/// The peers of one stream. Where all items count the same, `unit` says how much.
pub(crate) fn of_a_stream(capacity: Bytes, per_item: Bytes, unit: Option<u32>, seed: u64) -> Vec<Contender> {
    let mut peers = of_any(capacity, per_item, seed);
    let slab = match unit {
        Some(unit) => Slab::uniform(capacity, Bytes(u64::from(unit))),
        None => Slab::new(capacity, page(capacity), true),
    };
    peers.insert(peers.len() - 1, Contender::new("slab LRU", slab));
    peers
}

/// The peers of the mix: memory is one for all, shared by slab classes and by queues per tenant, or split.
pub(crate) fn of_a_mix(capacity: Bytes, per_item: Bytes, seed: u64) -> Vec<Contender> {
    let mut peers = of_a_stream(capacity, per_item, None, seed);
    peers.push(Contender { name: "best split", kind: Kind::BestSplit(capacity, per_item) });
    peers
}

fn page(capacity: Bytes) -> Bytes {
    let part = Bytes(1 << (capacity.0 / PAGES_MIN).max(1).ilog2());
    part.min(PAGE).max(PAGE_MIN)
}

fn of_any(capacity: Bytes, per_item: Bytes, seed: u64) -> Vec<Contender> {
    vec![
        Contender::new("LRU", Lru::new(capacity, per_item)),
        Contender::new("S3-FIFO", S3Fifo::new(capacity, per_item)),
        Contender::new("W-TinyLFU", WTinyLfu::new(capacity, per_item)),
        Contender::new("GDSF", Gdsf::new(capacity, per_item)),
        Contender::new("LHD", Lhd::new(capacity, per_item, seed)),
        Contender::new("Cliffhanger", Cliffhanger::new(capacity, per_item, seed)),
    ]
}
