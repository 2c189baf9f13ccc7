//! Replays requests through a simulator as a look-aside client does.
//!
//! | op | effect |
//! |---|---|
//! | get, gets | a miss inserts; only these count as gets and hits |
//! | set | inserts or overwrites |
//! | add | inserts; an item that is there counts as accessed |
//! | replace, cas, append, prepend, incr, decr | accesses an item that is there, otherwise nothing |
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
        Op::Get | Op::Gets | Op::Set | Op::Add => cache.access(key_hash, bytes),
        Op::Replace | Op::Cas | Op::Append | Op::Prepend | Op::Incr | Op::Decr => {
            cache.contains(key_hash) && cache.access(key_hash, bytes)
        }
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
}
