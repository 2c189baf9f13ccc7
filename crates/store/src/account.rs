//! Who is charged for what: items that the index begins or ceases to point at.
//!
//! Invariants: `link` and `unlink` run under the locks of the item's key, so that a flush falls between two of them and
//!             never into one; an item is taken off when no slot points at it any more, not before; what a tenant holds is
//!             exact whenever no thread is inside
//! Units:      bytes charged: log bytes, pages of a value that lies apart, the index's share, and what of a tier the item takes

use crate::expiry::Load;
use crate::item::{Meta, Sizes, View};
use crate::metrics::ThreadCounters;
use crate::slot::Place;
use crate::store::Store;
use crate::sync::Ordering;
use units::TenantId;

/// Accounts an item that the index points at now.
pub(crate) fn link(
    store: &Store,
    counters: &ThreadCounters,
    place: Place,
    meta: &Meta,
    sizes: Sizes,
    stamp: u64,
) {
    let tenant = store.tenant(meta.tenant);
    let charge = sizes.charge();
    let expired = meta.expiry.map_or(Load::default(), |expiry| tenant.expiries.add(expiry, charge));
    tenant.live.fetch_add(charge - expired.bytes, Ordering::Relaxed);
    tenant.items.fetch_add(1, Ordering::Relaxed);
    if expired.items != 0 {
        tenant.expired.fetch_add(expired.items, Ordering::Relaxed);
    }
    if sizes.below != 0 {
        tenant.away.fetch_add(sizes.below.cast_signed(), Ordering::Relaxed);
        tenant.away_items.fetch_add(1, Ordering::Relaxed);
    }
    let len32 = u32::try_from(sizes.in_segment).unwrap_or(u32::MAX);
    store.log.segment(place.segment).note_append(tenant.id, len32, stamp, meta.expiry.map(|e| e.at));
    counters.class(sizes.whole, meta.own_space).link(sizes.whole);
}

/// Accounts an item that the index points at no more, and lets go of its value if that lies apart or in a tier.
pub(crate) fn unlink(store: &Store, counters: &ThreadCounters, place: Place, view: &View<'_>) {
    take_off(store, counters, place, view);
    note_died(store, counters, view);
    let_go(store, view);
    if let Some(apart) = view.apart() {
        store.log.retire_value(&store.epochs, apart);
    }
}

/// Where nothing may go: who found too little dead learns of what has died since.
#[inline]
fn note_died(store: &Store, counters: &ThreadCounters, view: &View<'_>) {
    if store.no_evict {
        store.passes.full.note_died(&counters.died_bytes, view.len() as u64);
    }
}

/// Lets go of an item's value in a tier, if it is there.
pub(crate) fn let_go(store: &Store, view: &View<'_>) {
    if let Some(away) = view.away() {
        store.tier(away).release(away, view.key().len());
    }
}

/// Accounts an item that the index points at no more, and whose value, if that lies apart or in a tier, another item leads to.
pub(crate) fn take_off(store: &Store, counters: &ThreadCounters, place: Place, view: &View<'_>) {
    let sizes = view.sizes();
    counters.class(sizes.whole, view.own_space()).unlink(sizes.whole);
    let (len32, expiry) = (u32::try_from(sizes.in_segment).unwrap_or(u32::MAX), view.expiry());
    store.log.bury(place, len32, expiry.map(|e| e.at));
    let tenant = store.tenant(view.tenant());
    if view.is_away() {
        tenant.away.fetch_sub(view.footprint().cast_signed(), Ordering::Relaxed);
        tenant.away_items.fetch_sub(1, Ordering::Relaxed);
    }
    if store.is_flushed(place, view) {
        tenant.stale.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let charge = sizes.charge();
    let one = Load::one(charge);
    let live = expiry.map_or(one, |expiry| tenant.expiries.remove(expiry, charge));
    tenant.live.fetch_sub(live.bytes, Ordering::Relaxed);
    tenant.items.fetch_sub(1, Ordering::Relaxed);
    let expired = (one - live).items;
    if expired != 0 {
        tenant.expired.fetch_sub(expired, Ordering::Relaxed);
    }
}

/// Accounts an item that the index points at instead of another one from now on; it keeps the other's value in a tier if it
/// leads there. The value of the old one, if that lies apart, is the caller's to retire or to keep.
pub(crate) fn replace(
    store: &Store,
    counters: &ThreadCounters,
    (from, old): (Place, &View<'_>),
    (to, meta): (Place, &Meta),
    sizes: Sizes,
    stamp: u64,
) {
    let is_plain = old.tenant() == meta.tenant && old.expiry().is_none() && meta.expiry.is_none();
    let is_here = old.away().is_none() && meta.away.is_none();
    if !is_plain || !is_here || store.is_flushed(from, old) {
        take_off(store, counters, from, old);
        if old.away() != meta.away {
            let_go(store, old);
        }
        link(store, counters, to, meta, sizes, stamp);
        note_died(store, counters, old);
        return;
    }
    // The tenant has as many items as before, and most often as many bytes: its counts, which other threads write too, are
    // left alone.
    let before = old.sizes();
    counters.class(before.whole, old.own_space()).unlink(before.whole);
    counters.class(sizes.whole, meta.own_space).link(sizes.whole);
    if sizes.charge() != before.charge() {
        store.tenant(meta.tenant).live.fetch_add(sizes.charge() - before.charge(), Ordering::Relaxed);
    }
    relink(store, (from, before.in_segment), (to, sizes.in_segment), meta.tenant, stamp);
    note_died(store, counters, old);
}

/// Accounts an item without expiry that the index points at in another place from now on: its tenant and its size class hold
/// what they held. It is not flushed, which whoever moves it has seen under its locks.
pub(crate) fn relink(
    store: &Store,
    (from, old_len): (Place, usize),
    (to, len): (Place, usize),
    tenant: TenantId,
    stamp: u64,
) {
    let len32 = |len| u32::try_from(len).unwrap_or(u32::MAX);
    store.log.bury(from, len32(old_len), None);
    store.log.segment(to.segment).note_append(tenant, len32(len), stamp, None);
}
