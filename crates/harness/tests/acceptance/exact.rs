//! A static partition with an exact cache per tenant: what the store's sampled ranks and its cleaner are held to.
//!
//! Units: an item is charged as the store charges it: key, value, header, optional fields, its share of the index

use lab::reference::{Gdsf, Lru, Reference};
use lab::{Op, Request, Tally, TraceReader};
use std::collections::HashMap;
use store::RankKind;
use units::Bytes;

/// The fixed part of an item's header and its slot in the index at the usual load (`store`: `item.rs`).
const PER_ITEM: Bytes = Bytes(10 + 9);
/// The header's bytes.
const HEADER: usize = 10;
/// Values from this length on have it in four bytes more.
const LONG_VALUE: u32 = 0xFFFF;

/// What an item without expiry is charged.
pub(crate) fn charged(key_len: u32, value_len: u32) -> u32 {
    let field = if LONG_VALUE <= value_len { 4 } else { 0 };
    key_len + value_len + field + u32::try_from(PER_ITEM.0).unwrap()
}

/// The partition.
pub(crate) struct Partition {
    parts: HashMap<Vec<u8>, Part>,
    item_max: Bytes,
}

struct Part {
    cache: Box<dyn Reference>,
    tally: Tally,
}

impl Partition {
    /// A partition in parts of a size each; an item above `item_max` is held by nobody.
    pub(crate) fn new(
        rank: RankKind,
        parts: impl IntoIterator<Item = (String, Bytes)>,
        item_max: Bytes,
    ) -> Self {
        let part = |capacity| Part {
            cache: match &rank {
                RankKind::Lru => Box::new(Lru::new(capacity, PER_ITEM)) as Box<dyn Reference>,
                RankKind::Gdsf => Box::new(Gdsf::new(capacity, PER_ITEM)),
                other => panic!("there is no exact {other} to compare with"),
            },
            tally: Tally::default(),
        };
        let parts = parts.into_iter().map(|(name, capacity)| (name.into_bytes(), part(capacity))).collect();
        Self { parts, item_max }
    }

    /// Replays up to `limit` requests.
    pub(crate) fn replay(mut self, trace: &mut dyn TraceReader, limit: u64) -> Self {
        let _busy = crate::load::busy();
        for _ in 0..limit {
            let Some(request) = trace.next().unwrap() else { break };
            self.apply(&request);
        }
        self
    }

    fn apply(&mut self, request: &Request<'_>) {
        let part = self.parts.get_mut(request.tenant).unwrap();
        let key = hash_of(request.key);
        // As a replay does: a longer value than any item is cut.
        let value = request.value_bytes.min(u32::try_from(self.item_max.0).unwrap());
        let bytes =
            charged(u32::try_from(request.key.len()).unwrap(), value) - u32::try_from(PER_ITEM.0).unwrap();
        let fits = bytes as usize + HEADER <= self.item_max.as_usize();
        let hit = match request.op {
            Op::Delete => part.cache.remove(key),
            Op::Replace | Op::Append | Op::Prepend | Op::Incr | Op::Decr => part.cache.contains(key),
            Op::Get | Op::Gets | Op::Set | Op::Cas | Op::Add if fits => part.cache.access(key, bytes),
            _ => part.cache.contains(key) && part.cache.remove(key),
        };
        part.tally.count(request.op, hit);
    }

    /// Hits over look-ups of all.
    pub(crate) fn hit_ratio(&self) -> f64 {
        let mut all = Tally::default();
        for part in self.parts.values() {
            all.gets += part.tally.gets;
            all.hits += part.tally.hits;
        }
        all.hit_ratio()
    }

    /// Hits over look-ups of one tenant.
    pub(crate) fn hit_ratio_of(&self, tenant: &str) -> f64 {
        self.parts[tenant.as_bytes()].tally.hit_ratio()
    }

    /// Bytes that one tenant holds.
    pub(crate) fn held_by(&self, tenant: &str) -> Bytes {
        self.parts[tenant.as_bytes()].cache.held()
    }
}

/// A hash of a key: collisions of 64 bits do not matter here.
fn hash_of(key: &[u8]) -> u64 {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key)
}
