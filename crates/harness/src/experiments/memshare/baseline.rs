//! What memcached without slab classes would do: exact LRU caches, one for all tenants or one for each.
//!
//! Units: an item is charged as the store charges it (`PER_ITEM`)

use super::source::Source;
use lab::experiment::ExperimentError;
use lab::reference::{Lru, apply};
use lab::{Request, Tally, TraceReader};
use units::Bytes;

/// The fixed part of an item's header and its slot in the index at the usual load (`store`: `item.rs`).
const PER_ITEM: Bytes = Bytes(10 + 9);

/// Each tenant has a cache of `part`.
pub(super) fn partitioned(
    reader: &mut dyn TraceReader,
    source: &Source,
    part: Bytes,
) -> Result<Vec<Tally>, ExperimentError> {
    let mut caches: Vec<Lru> = source.tenants().iter().map(|_| Lru::new(part, PER_ITEM)).collect();
    tally(reader, source, &mut |tenant, request| apply(request, &mut caches[tenant]))
}

/// All tenants have one cache of `memory`.
pub(super) fn pooled(
    reader: &mut dyn TraceReader,
    source: &Source,
    memory: Bytes,
) -> Result<Vec<Tally>, ExperimentError> {
    let mut cache = Lru::new(memory, PER_ITEM);
    tally(reader, source, &mut |_, request| apply(request, &mut cache))
}

fn tally(
    reader: &mut dyn TraceReader,
    source: &Source,
    access: &mut dyn FnMut(usize, &Request<'_>) -> bool,
) -> Result<Vec<Tally>, ExperimentError> {
    let mut tallies = vec![Tally::default(); source.tenants().len()];
    for _ in 0..source.requests() {
        let Some(request) = reader.next().map_err(ExperimentError::failed)? else { break };
        let Some(tenant) = source.position(request.tenant) else { continue };
        let hit = access(tenant, &request);
        tallies[tenant].count(request.op, hit);
    }
    Ok(tallies)
}
