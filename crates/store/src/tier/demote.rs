//! Values that the cleaner of DRAM puts into the tier below instead of evicting their items.

use super::{Tier, access_behind};
use crate::census::Pending;
use crate::item::{INDEX_SHARE, Meta};
use crate::limits::TIER_RESERVE;
use crate::metrics::ThreadCounters;
use crate::stamps::Needed;
use crate::store::Store;
use crate::tier::Reference;
use media::SlowAccess;

/// The tier that may take an item's value.
fn tier_for<'a>(store: &'a Store, item: &Pending<'_>) -> Option<&'a Tier> {
    if store.tiers.is_empty() || item.view.is_away() || item.view.apart().is_some() {
        return None;
    }
    let tier = store.tier_below(store.tenant(item.view.tenant()))?;
    let takes =
        tier.is_begun() && tier.takes(item.view.tenant(), item.view.key().len(), item.view.value().len());
    (takes && TIER_RESERVE < tier.segments.available()).then_some(tier)
}

/// What an item is still charged in DRAM once its value is in the tier below; 0 if it cannot be put there.
pub(crate) fn charge_below(store: &Store, item: &Pending<'_>) -> u64 {
    let Some(tier) = tier_for(store, item) else { return 0 };
    let away = Reference { tier: tier.id, at: 0, value_len: 0 };
    let meta = Meta { away: Some(away), ..item.view.meta() };
    let charge = meta.item_len(item.view.key().len(), 0) as u64 + INDEX_SHARE;
    if charge < item.charge() { charge } else { 0 }
}

/// Puts an item's value into the tier below; nothing leads there yet. Returns what the item is then, and the room that it
/// needs. Called without locks.
pub(crate) fn put_below(
    store: &Store,
    counters: &ThreadCounters,
    item: &Pending<'_>,
) -> Option<(Meta, Needed)> {
    let tier = tier_for(store, item)?;
    let mut meta = item.view.meta();
    let fields = store.record_fields(tier, &meta, store.stamp_of(item.place, &item.view));
    let (key, value) = (item.view.key(), item.view.value());
    let room = (TIER_RESERVE, store.now_secs());
    let away = tier.append(&store.epochs, room, &fields, key, [value, &[]]).ok()?;
    let below = counters.of(meta.tenant.index()).at(tier.id);
    access_behind(store, tier, (below, meta.tenant), SlowAccess::Write, away.lines(key.len()));
    meta.away = Some(away);
    Some((meta, Needed::new(meta.item_len(key.len(), 0), meta.cas.is_some())))
}
