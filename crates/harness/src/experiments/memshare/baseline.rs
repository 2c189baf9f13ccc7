//! What memcached without slab classes would do: exact LRU caches, one for all tenants or one for each.
//!
//! Units: an item is charged as the store charges it (`PER_ITEM`)

use super::source::Source;
use lab::experiment::ExperimentError;
use lab::reference::{Lru, Reference, apply};
use lab::{Request, Tally, TraceReader};
use units::Bytes;

/// The fixed part of an item's header and its slot in the index at the usual load (`store`: `item.rs`).
pub(super) const PER_ITEM: Bytes = Bytes(10 + 9);

/// Each tenant has a cache of its part.
pub(super) fn partitioned(
    reader: &mut dyn TraceReader,
    source: &Source,
    parts: &[Bytes],
) -> Result<Vec<Tally>, ExperimentError> {
    exact(reader, source, parts, &|part| Box::new(Lru::new(part, PER_ITEM)))
}

/// Each tenant has a cache, as `cache` makes it for a part.
pub(super) fn exact(
    reader: &mut dyn TraceReader,
    source: &Source,
    parts: &[Bytes],
    cache: &dyn Fn(Bytes) -> Box<dyn Reference>,
) -> Result<Vec<Tally>, ExperimentError> {
    let mut caches: Vec<Box<dyn Reference>> = parts.iter().map(|part| cache(*part)).collect();
    tally(reader, source, &mut |tenant, request| apply(request, &mut *caches[tenant]))
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

/// Counts the hits that `access` reports, by tenant.
pub(super) fn tally(
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
