//! Who is charged for what: items that the index begins or ceases to point at.
//!
//! Invariants: `link` and `unlink` run under the locks of the item's key, so that a flush falls between two of them and
//!             never into one; what a tenant holds is exact whenever no thread is inside
//! Units:      bytes charged: log bytes, the index's share, and what of a tier the item takes

use crate::item::{INDEX_SHARE, Meta, View};
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
    (meta, key_len): (&Meta, usize),
    len: usize,
    stamp: u64,
) {
    let tenant = store.tenant(meta.tenant);
    let charge = charge_of(len) + footprint_of(key_len, meta);
    let expired = meta.expiry.map_or(0, |expiry| tenant.expiries.add(expiry, charge));
    tenant.live.fetch_add(charge - expired, Ordering::Relaxed);
    tenant.items.fetch_add(1, Ordering::Relaxed);
    if meta.away.is_some() {
        tenant.away.fetch_add(footprint_of(key_len, meta), Ordering::Relaxed);
    }
    let len32 = u32::try_from(len).unwrap_or(u32::MAX);
    store.log.segment(place.segment).note_append(tenant.id, len32, stamp, meta.expiry.map(|e| e.at));
    counters.class(len, meta.own_space).link(len);
}

/// Accounts an item that the index points at no more, and lets go of its value in a tier.
pub(crate) fn unlink(store: &Store, counters: &ThreadCounters, place: Place, view: &View<'_>) {
    unlink_here(store, counters, place, view);
    let_go(store, view);
}

/// Lets go of an item's value in a tier, if it is there.
pub(crate) fn let_go(store: &Store, view: &View<'_>) {
    if let Some(away) = view.away() {
        store.tier(away).release(away, view.key().len());
    }
}

/// Accounts an item that the index points at no more, but for its value in a tier, which another item keeps.
pub(crate) fn unlink_here(store: &Store, counters: &ThreadCounters, place: Place, view: &View<'_>) {
    let len = view.bytes().len();
    counters.class(len, view.own_space()).unlink(len);
    store.log.segment(place.segment).note_dead(u32::try_from(len).unwrap_or(u32::MAX));
    let tenant = store.tenant(view.tenant());
    if view.is_away() {
        tenant.away.fetch_sub(view.footprint().cast_signed(), Ordering::Relaxed);
    }
    if store.is_flushed(place, view) {
        tenant.stale.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let charge = charge_of(len) + view.footprint().cast_signed();
    let counted = view.expiry().map_or(charge, |expiry| tenant.expiries.remove(expiry, charge));
    tenant.live.fetch_sub(counted, Ordering::Relaxed);
    tenant.items.fetch_sub(1, Ordering::Relaxed);
}

/// Accounts an item that the index points at instead of another one from now on; it keeps the other's value in a tier if it
/// leads there.
pub(crate) fn replace(
    store: &Store,
    counters: &ThreadCounters,
    (from, old): (Place, &View<'_>),
    (to, meta): (Place, &Meta),
    len: usize,
    stamp: u64,
) {
    let is_plain = old.tenant() == meta.tenant && old.expiry().is_none() && meta.expiry.is_none();
    let is_here = old.away().is_none() && meta.away.is_none();
    if !is_plain || !is_here || store.is_flushed(from, old) {
        unlink_here(store, counters, from, old);
        if old.away() != meta.away {
            let_go(store, old);
        }
        link(store, counters, to, (meta, old.key().len()), len, stamp);
        return;
    }
    // The tenant has as many items as before, and most often as many bytes: its counts, which other threads write too, are
    // left alone.
    let old_len = old.bytes().len();
    counters.class(old_len, old.own_space()).unlink(old_len);
    counters.class(len, meta.own_space).link(len);
    if len != old_len {
        store.tenant(meta.tenant).live.fetch_add(charge_of(len) - charge_of(old_len), Ordering::Relaxed);
    }
    relink(store, (from, old_len), (to, len), meta.tenant, stamp);
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
    store.log.segment(from.segment).note_dead(len32(old_len));
    store.log.segment(to.segment).note_append(tenant, len32(len), stamp, None);
}

/// Bytes that an item is charged.
pub(crate) fn whole_charge(view: &View<'_>) -> i64 {
    charge_of(view.bytes().len()) + view.footprint().cast_signed()
}

/// Bytes of a tier that an item takes.
fn footprint_of(key_len: usize, meta: &Meta) -> i64 {
    meta.away.map_or(0, |away| away.footprint(key_len).cast_signed())
}

/// Bytes that an item of `len` log bytes is charged in DRAM.
pub(crate) fn charge_of(len: usize) -> i64 {
    i64::try_from(len as u64 + INDEX_SHARE).unwrap_or(i64::MAX)
}

/// Log bytes that an item may need where it is written next: a stamp that does not fit there adds a CAS value.
pub(crate) fn bytes_needed(len: usize, has_cas: bool) -> usize {
    if has_cas { len } else { len + 8 }
}

/// Writes a stamp relative to a segment's base; one that is older becomes the base, and the CAS value, which was the
/// stamp, is written out. A flush before the base was drawn has killed such an item already, so nothing is raised.
pub(crate) fn restamp(meta: &mut Meta, stamp: u64, base: u64) {
    let delta = stamp.saturating_sub(base);
    meta.stamp = u32::try_from(delta).unwrap_or(u32::MAX);
    if base + u64::from(meta.stamp) != stamp && meta.cas.is_none() {
        meta.cas = Some(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_that_does_not_fit_is_kept_as_a_cas_value() {
        let meta = Meta {
            tenant: units::TenantId(0),
            own_space: false,
            client_flags: 0,
            expiry: None,
            cas: None,
            state: 0,
            away: None,
            stamp: 0,
        };
        for (stamp, base, cas, delta) in [
            (100, 90, None, 10),
            (90, 90, None, 0),
            (80, 90, Some(80), 0),
            (u64::from(u32::MAX), 0, None, u32::MAX),
        ] {
            let mut meta = meta;
            restamp(&mut meta, stamp, base);
            assert_eq!((meta.cas, meta.stamp), (cas, delta), "{stamp} on {base}");
        }
    }
}
