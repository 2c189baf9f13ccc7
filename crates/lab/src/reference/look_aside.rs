//! Replays requests through a simulator as a look-aside client does.
//!
//! | op | effect |
//! |---|---|
//! | get, gets | a miss inserts; only these count as gets and hits |
//! | set | inserts or overwrites |
//! | add | inserts; an item that is there counts as accessed |
//! | replace, cas, append, prepend | overwrites an item that is there, otherwise nothing |
//! | incr, decr | accesses an item that is there, otherwise nothing |
//! | delete | removes |

use super::Reference;
use crate::trace::{Op, Request, TraceError, TraceReader};

/// What a replay counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Requests of any op.
    pub requests: u64,
    /// Requests that looked up.
    pub gets: u64,
    /// Look-ups that found.
    pub hits: u64,
}

impl Tally {
    /// Hits over gets; zero without gets.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        if self.gets == 0 { 0.0 } else { self.hits as f64 / self.gets as f64 }
    }

    /// Counts one request.
    pub fn count(&mut self, op: Op, hit: bool) {
        self.requests += 1;
        self.gets += u64::from(op.is_look_up());
        self.hits += u64::from(op.is_look_up() && hit);
    }
}

/// Replays up to `requests_max` requests of `reader` through `cache`.
///
/// # Errors
/// What the reader says.
pub fn look_aside(
    reader: &mut dyn TraceReader,
    cache: &mut dyn Reference,
    requests_max: u64,
) -> Result<Tally, TraceError> {
    let mut tally = Tally::default();
    while tally.requests < requests_max {
        let Some(request) = reader.next()? else { break };
        let hit = apply(&request, cache);
        tally.count(request.op, hit);
    }
    Ok(tally)
}

/// Applies one request; true if it found its item.
pub fn apply(request: &Request<'_>, cache: &mut dyn Reference) -> bool {
    let key_hash = rapidhash::v3::rapidhash_v3(request.key);
    let key_bytes = u32::try_from(request.key.len()).unwrap_or(u32::MAX);
    let bytes = request.value_bytes.saturating_add(key_bytes);
    act(request.op, key_hash, bytes, cache)
}

/// What an op does to `cache`; true if it found its item.
pub(super) fn act(op: Op, key_hash: u64, bytes: u32, cache: &mut dyn Reference) -> bool {
    match op {
        Op::Get | Op::Gets | Op::Add => cache.access(key_hash, bytes),
        Op::Set => cache.overwrite(key_hash, bytes),
        Op::Replace | Op::Cas | Op::Append | Op::Prepend => {
            cache.contains(key_hash) && cache.overwrite(key_hash, bytes)
        }
        Op::Incr | Op::Decr => cache.contains(key_hash) && cache.access(key_hash, bytes),
        Op::Delete => cache.remove(key_hash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Lru;
    use crate::trace::open_reader;
    use units::Bytes;

    #[test]
    fn only_gets_count_and_every_op_has_its_effect() {
        let text = "t_ms,key,size,op\n,a,1,get\n,a,1,get\n,a,1,delete\n,a,1,gets\n,b,1,set\n,b,1,get\n\
                    ,c,1,incr\n,c,1,get\n,d,1,add\n,d,1,get\n";
        let mut reader = open_reader(Box::new(text.as_bytes()), "t", None).unwrap();
        let mut lru = Lru::new(Bytes(1_000), Bytes(48));
        let tally = look_aside(&mut *reader, &mut lru, u64::MAX).unwrap();
        assert_eq!(tally, Tally { requests: 10, gets: 6, hits: 3 });
        assert!((tally.hit_ratio() - 0.5).abs() < 1e-9);
        assert_eq!(lru.held(), Bytes(4 * 50));
    }

    #[test]
    fn what_stores_overwrites_and_what_looks_up_accesses() {
        /// Holds the key 1 and nothing else; counts what it is told.
        #[derive(Default)]
        struct Counter(u32, u32);
        impl Reference for Counter {
            fn access(&mut self, _: u64, _: u32) -> bool {
                self.0 += 1;
                true
            }
            fn overwrite(&mut self, _: u64, _: u32) -> bool {
                self.1 += 1;
                true
            }
            fn contains(&self, key_hash: u64) -> bool {
                key_hash == 1
            }
            fn remove(&mut self, _: u64) -> bool {
                false
            }
            fn held(&self) -> Bytes {
                Bytes::ZERO
            }
            fn items(&self) -> usize {
                1
            }
        }
        for (op, accesses, overwrites) in [
            (Op::Get, 2, 0),
            (Op::Gets, 2, 0),
            (Op::Add, 2, 0),
            (Op::Incr, 1, 0),
            (Op::Decr, 1, 0),
            (Op::Set, 0, 2),
            (Op::Replace, 0, 1),
            (Op::Cas, 0, 1),
            (Op::Append, 0, 1),
            (Op::Prepend, 0, 1),
            (Op::Delete, 0, 0),
        ] {
            let mut counter = Counter::default();
            act(op, 1, 10, &mut counter);
            act(op, 2, 10, &mut counter);
            assert_eq!((counter.0, counter.1), (accesses, overwrites), "{op:?}");
        }
    }
}
