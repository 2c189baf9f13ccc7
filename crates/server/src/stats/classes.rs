//! `stats items`, `slabs` and `sizes`: size classes, shown as memcached's slab classes.

use super::{Row, baseline, lines};
use crate::dump::sees;
use crate::limits::AGES_BUCKETS;
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::view::Visible;
use store::{CLASSES, ClassTotals, Worker, class_bound, class_of};

/// One answer over the size classes that have items: they stand for memcached's slab classes.
pub(super) fn classes(
    shared: &Shared,
    router: &Router,
    binding: &Binding,
    rows_of: impl Fn(usize, &ClassTotals) -> Vec<Row>,
    with_totals: bool,
) -> Vec<u8> {
    let all = classes_seen(shared, router, binding);
    let mut rows = Vec::new();
    let mut active = 0;
    let mut bytes = 0;
    for (class, totals) in all.iter().enumerate() {
        if totals.items <= 0 {
            continue;
        }
        active += 1;
        bytes += totals.bytes;
        rows.extend(rows_of(class, totals));
    }
    if with_totals {
        rows.push(("active_slabs".to_owned(), active.to_string()));
        rows.push(("total_malloced".to_owned(), bytes.to_string()));
    }
    lines(&rows)
}

/// The size classes that a connection sees, with what was counted since its `stats reset`.
fn classes_seen(shared: &Shared, router: &Router, binding: &Binding) -> [ClassTotals; CLASSES] {
    let zero = baseline(shared, binding);
    if *binding != Binding::Unbound {
        let mut seen = Visible::to(shared, router, binding);
        // Before there is a class: its items' mean size, and so their class, may have been another then.
        if let Some(zero) = &zero {
            seen.totals = seen.totals.since(&zero.totals);
        }
        return class_of_bound(&seen);
    }
    let mut all = shared.store.class_totals(false);
    if let Some(before) = zero.and_then(|zero| zero.classes) {
        all.iter_mut().zip(before.iter()).for_each(|(now, before)| *now = now.since(before));
    }
    all
}

/// Classes are counted for all tenants together; a bound connection sees its own items as one class, that of their
/// mean size.
fn class_of_bound(seen: &Visible) -> [ClassTotals; CLASSES] {
    let mut all = [ClassTotals::default(); CLASSES];
    let mean = seen.held.0.checked_div(seen.items).unwrap_or(0);
    all[class_of(usize::try_from(mean).unwrap_or(usize::MAX))] = ClassTotals {
        items: i64::try_from(seen.items).unwrap_or(i64::MAX),
        bytes: i64::try_from(seen.held.0).unwrap_or(i64::MAX),
        get_hits: seen.totals.get_hits,
        cmd_set: seen.totals.cmd_set,
        delete_hits: seen.totals.delete_hits,
        incr_hits: seen.totals.incr_hits,
        decr_hits: seen.totals.decr_hits,
        cas_hits: seen.totals.cas_hits,
        cas_badval: seen.totals.cas_badval,
        touch_hits: seen.totals.touch_hits,
        evicted: seen.totals.evictions,
        evicted_unfetched: seen.totals.evicted_unfetched,
        evicted_nonzero: seen.totals.evicted_nonzero,
        last_eviction: seen.totals.last_eviction,
        reclaimed: seen.totals.reclaimed,
        expired_unfetched: seen.totals.expired_unfetched,
        out_of_memory: seen.totals.store_no_memory,
    };
    all
}

/// The answer to `stats items`. Classes have no lists, so that what memcached says of its lists is zero; ages are those of a
/// part of the items, of all in a small store.
pub(super) fn items(shared: &Shared, router: &Router, worker: &Worker, binding: &Binding) -> Vec<u8> {
    let ages_secs = worker.longest_idle(AGES_BUCKETS, |item| sees(binding, item));
    let longest_secs = ages_secs.iter().copied().max().unwrap_or(0);
    let rows_of = |class: usize, totals: &ClassTotals| {
        // A bound connection's items are one class.
        let age_secs = if *binding == Binding::Unbound { ages_secs[class] } else { longest_secs };
        items_of_class(class, totals, age_secs)
    };
    classes(shared, router, binding, rows_of, false)
}

fn items_of_class(class: usize, t: &ClassTotals, age_secs: u32) -> Vec<Row> {
    let zero = || "0".to_owned();
    let rows = [
        ("number", t.items.to_string()),
        ("number_hot", zero()),
        ("number_warm", zero()),
        ("number_cold", t.items.to_string()),
        ("age_hot", zero()),
        ("age_warm", zero()),
        ("age", age_secs.to_string()),
        ("mem_requested", t.bytes.max(0).to_string()),
        ("evicted", t.evicted.to_string()),
        ("evicted_nonzero", t.evicted_nonzero.to_string()),
        ("evicted_time", t.last_eviction.idle_secs.to_string()),
        ("outofmemory", t.out_of_memory.to_string()),
        ("tailrepairs", zero()),
        ("reclaimed", t.reclaimed.to_string()),
        ("expired_unfetched", t.expired_unfetched.to_string()),
        ("evicted_unfetched", t.evicted_unfetched.to_string()),
        ("evicted_active", zero()),
        ("crawler_reclaimed", zero()),
        ("crawler_items_checked", zero()),
        ("lrutail_reflocked", zero()),
        ("moves_to_cold", zero()),
        ("moves_to_warm", zero()),
        ("moves_within_lru", zero()),
        ("direct_reclaims", zero()),
        ("hits_to_hot", zero()),
        ("hits_to_warm", zero()),
        ("hits_to_cold", t.get_hits.to_string()),
        ("hits_to_temp", zero()),
    ];
    rows.into_iter().map(|(name, value)| (format!("items:{class}:{name}"), value)).collect()
}

pub(super) fn slabs_of_class(class: usize, t: &ClassTotals) -> Vec<Row> {
    let chunk = class_bound(class) as u64;
    let per_page = ((1 << 20) / chunk).max(1);
    let items = u64::try_from(t.items).unwrap_or(0);
    let rows = [
        ("chunk_size", chunk),
        ("chunks_per_page", per_page),
        ("total_pages", items.div_ceil(per_page)),
        ("total_chunks", items.div_ceil(per_page) * per_page),
        ("used_chunks", items),
        ("free_chunks", items.div_ceil(per_page) * per_page - items),
        ("free_chunks_end", 0),
        ("get_hits", t.get_hits),
        ("cmd_set", t.cmd_set),
        ("delete_hits", t.delete_hits),
        ("incr_hits", t.incr_hits),
        ("decr_hits", t.decr_hits),
        ("cas_hits", t.cas_hits),
        ("cas_badval", t.cas_badval),
        ("touch_hits", t.touch_hits),
    ];
    rows.into_iter().map(|(name, value)| (format!("{class}:{name}"), value.to_string())).collect()
}

/// `stats sizes`: how many items there are of each size class, by its upper bound in bytes.
pub(super) fn sizes(shared: &Shared, router: &Router, binding: &Binding) -> Vec<Row> {
    let all = classes_seen(shared, router, binding);
    let counted = all.iter().enumerate().filter(|(_, totals)| 0 < totals.items);
    counted.map(|(class, totals)| (class_bound(class).to_string(), totals.items.to_string())).collect()
}
