//! What is in DRAM and below: `stats tiers`, names of our own, and memcached's `extstore` for dashboards that know that.
//!
//! Invariants: a tenant's own connection is told of what is its own, not of how large or full a tier is

use super::{Row, baseline};
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::tiers::ALL_TIERS;
use crate::view::Visible;
use store::{BelowTotals, TierTotals, TierUse, Totals};
use units::Bytes;

/// `stats tiers`: what each kind of memory holds and carries, of what the connection sees.
pub(super) fn tiers(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let seen = Visible::to(shared, router, binding);
    let t = &seen.totals;
    let rows = [
        ("capacity_bytes", seen.limit.0),
        ("used_bytes", seen.held.saturating_sub(seen.away).0),
        ("items", seen.items),
        ("reads", t.dram_read.accesses),
        ("read_bytes", t.dram_read.bytes),
        ("writes", t.dram_write.accesses),
        ("write_bytes", t.dram_write.bytes),
    ];
    let mut rows: Vec<Row> =
        rows.into_iter().map(|(name, value)| (format!("dram:{name}"), value.to_string())).collect();
    if router.places.names().is_empty() {
        return rows;
    }
    let below = [
        ("used_bytes", seen.away.0),
        ("items", seen.away_items),
        ("hits", t.tier_hits),
        ("lost", t.tier_lost),
        ("promotions", t.promotions),
        ("demotions", t.demotions),
        ("evictions", t.tier_evictions),
        ("reads", t.slow_read.accesses),
        ("read_bytes", t.slow_read.bytes),
        ("writes", t.slow_write.accesses),
        ("write_bytes", t.slow_write.bytes),
    ];
    rows.extend(below.map(|(name, value)| (format!("{ALL_TIERS}:{name}"), value.to_string())));
    for (name, counted) in router.places.names().iter().zip(&t.tiers) {
        rows.extend(traffic(counted).map(|(what, value)| (format!("{name}:{what}"), value.to_string())));
    }
    if *binding == Binding::Unbound {
        let each = shared.store.tier_use().into_iter().zip(shared.store.tier_totals());
        for (name, (holds, totals)) in router.places.names().iter().zip(each) {
            let figures = figures(&holds, &totals);
            rows.extend(figures.map(|(what, value)| (format!("{name}:{what}"), value.to_string())));
        }
    }
    rows
}

/// What was done at one tier, under the names of `stats tiers`.
pub(crate) fn traffic(counted: &BelowTotals) -> [(&'static str, u64); 8] {
    [
        ("hits", counted.hits),
        ("promotions", counted.promotions),
        ("demotions", counted.demotions),
        ("evictions", counted.evictions),
        ("reads", counted.read.accesses),
        ("read_bytes", counted.read.bytes),
        ("writes", counted.written.accesses),
        ("write_bytes", counted.written.bytes),
    ]
}

/// What is known of one tier, under the names of `stats tiers`.
pub(crate) fn figures(holds: &TierUse, totals: &TierTotals) -> [(&'static str, u64); 13] {
    [
        ("capacity_bytes", holds.size.0),
        ("used_bytes", holds.live.0),
        ("free_bytes", holds.free.0),
        ("segment_bytes", holds.segment.0),
        ("memory_bytes", holds.memory.0),
        ("cleaner_passes", totals.passes),
        ("cleaner_moved", totals.moved),
        ("cleaner_moved_bytes", totals.moved_bytes),
        ("cleaner_freed_segments", totals.freed_segments),
        ("restored", totals.restored),
        ("dropped", totals.dropped),
        ("errors", totals.errors),
        ("damaged", totals.broken),
    ]
}

/// What `stats` says of look-ups in extstore, behind `get_flushed`; nothing without a tier.
pub(super) fn look_ups(router: &Router, t: &Totals, damaged: u64) -> Vec<Row> {
    if router.places.names().is_empty() {
        return Vec::new();
    }
    let rows = [
        ("get_extstore", t.tier_hits + t.tier_lost),
        ("get_aborted_extstore", 0),
        ("get_oom_extstore", 0),
        ("recache_from_extstore", t.promotions),
        ("miss_from_extstore", t.tier_lost),
        ("badcrc_from_extstore", damaged),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

/// memcached's `extstore_…`, of all tiers together, at the end of `stats`; nothing without a tier. Pages are segments, what
/// is compacted is what tiers' cleaners copy.
pub(super) fn extstore(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    if router.places.names().is_empty() || *binding != Binding::Unbound {
        return Vec::new();
    }
    let now = Visible::to(shared, router, binding);
    let t = baseline(shared, binding).map_or(now.totals, |zero| now.totals.since(&zero.totals));
    let (holds, totals) = (shared.store.tier_use(), shared.store.tier_totals());
    let pages = |of: fn(&TierUse) -> Bytes| -> u64 {
        holds.iter().map(|tier| of(tier).0 / tier.segment.0.max(1)).sum()
    };
    let (all, free) = (pages(|tier| tier.size), pages(|tier| tier.free));
    let bytes = |of: fn(&TierUse) -> Bytes| holds.iter().map(of).sum::<Bytes>().0;
    let written: u64 = bytes(|tier| tier.size).saturating_sub(bytes(|tier| tier.free));
    let reclaims: u64 = totals.iter().map(|totals| totals.freed_segments).sum();
    let moved: u64 = totals.iter().map(|totals| totals.moved).sum();
    let rows = [
        ("memory_pressure", 0),
        ("compact_lost", t.tier_evictions),
        ("compact_rescues", moved),
        ("compact_resc_cold", 0),
        ("compact_resc_old", 0),
        ("compact_skipped", 0),
        ("page_allocs", all - free.min(all) + reclaims),
        ("page_evictions", 0),
        ("page_reclaims", reclaims),
        ("pages_free", free),
        ("pages_used", all - free.min(all)),
        ("objects_evicted", t.tier_evictions),
        ("objects_read", t.slow_read.accesses),
        ("objects_written", t.slow_write.accesses),
        ("objects_used", now.away_items),
        ("bytes_evicted", 0),
        ("bytes_written", t.slow_write.bytes),
        ("bytes_read", t.slow_read.bytes),
        ("bytes_used", now.away.0),
        ("bytes_fragmented", written.saturating_sub(bytes(|tier| tier.live))),
        ("limit_maxbytes", bytes(|tier| tier.size)),
        ("io_queue", 0),
    ];
    rows.into_iter().map(|(name, value)| (format!("extstore_{name}"), value.to_string())).collect()
}
