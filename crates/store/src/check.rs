//! Walks the whole store and asserts what must hold between its structures.

use crate::epoch::Participant;
use crate::store::{Store, space_of};
use crate::sync::{Ordering, lock};
use crate::tenant::FLUSHED_FOR_EVER;
use crate::tier::Reference;
use std::collections::{HashMap, HashSet};
use units::TenantId;

/// Asserts every invariant. No other thread may work on the store.
pub(crate) fn check(store: &Store, reader: &Participant) {
    let slots = store.index.check(|slot| store.hash_at(reader, slot));
    let mut keys = HashSet::new();
    let mut live: HashMap<TenantId, (i64, i64, i64)> = HashMap::new();
    let mut stale: HashMap<TenantId, i64> = HashMap::new();
    let mut live_in: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut away: HashMap<TenantId, i64> = HashMap::new();
    let mut leads: HashMap<u8, Vec<(Reference, usize)>> = HashMap::new();
    let mut values = store.log.check_values();
    for slot in slots {
        let view = store.log.view(reader, slot.place());
        assert!(!view.is_gone(), "the index points at no item that is gone");
        if let Some(apart) = view.apart() {
            let at = values
                .iter()
                .position(|known| *known == apart)
                .expect("an item leads to a value that is linked");
            values.swap_remove(at);
        }
        assert!(keys.insert((space_of(&view), view.key().to_vec())), "a key is in the index once");
        let (linked, expiring) = live_in.entry(slot.place().segment.0).or_default();
        *linked += view.len() as u64;
        *expiring += view.expiry().map_or(0, |_| view.len() as u64);
        if let Some(at) = view.away() {
            leads.entry(at.tier).or_default().push((at, view.key().len()));
            *away.entry(view.tenant()).or_default() += view.footprint().cast_signed();
        }
        if store.is_flushed(slot.place(), &view) {
            *stale.entry(view.tenant()).or_default() += 1;
            continue;
        }
        let charge = view.sizes().charge();
        let tenant = store.tenant(view.tenant());
        let entry = live.entry(tenant.id).or_default();
        entry.1 += 1;
        // What is accounted as expired is no longer in `live`.
        let counted = view.expiry().is_none_or(|e| !tenant.expiries.is_accounted(e));
        entry.0 += if counted { charge } else { 0 };
        entry.2 += i64::from(!counted);
    }
    assert!(values.is_empty(), "no item leads to {values:?}");
    for tenant in store.tenants() {
        let (bytes, items, expired) = live.get(&tenant.id).copied().unwrap_or_default();
        let in_tiers = away.get(&tenant.id).copied().unwrap_or_default();
        assert_eq!(tenant.away.load(Ordering::Relaxed), in_tiers, "bytes of {} in tiers", tenant.spec().name);
        let (name, flushed) = (&tenant.spec().name, stale.get(&tenant.id).copied().unwrap_or_default());
        let (counted, stale) = (tenant.items.load(Ordering::Relaxed), tenant.stale.load(Ordering::Relaxed));
        assert_eq!(counted + stale, items + flushed, "items of {name} that the index leads to");
        // What was written for a tenant while it left is settled with the sweep.
        if tenant.flushed_below.load(Ordering::Relaxed) != FLUSHED_FOR_EVER {
            assert_eq!(tenant.live.load(Ordering::Relaxed), bytes, "live bytes of {name}");
            assert_eq!(counted, items, "items of {name}");
            assert_eq!(tenant.expired.load(Ordering::Relaxed), expired, "expired items of {name}");
        }
        assert!(!tenant.is_gone() || tenant.share().target.0 == 0, "a removed tenant has a share");
        lock(&tenant.shadow).check();
    }
    let present = store.tenants().filter(|tenant| !tenant.is_gone()).count() as u64;
    assert_eq!(lock(&store.adding).present, present, "tenants that are there");
    check_segments(store, &live_in);
    for tier in &store.tiers {
        tier.check(leads.remove(&tier.id).unwrap_or_default());
    }
    let used = store.memory_use();
    let slack = store.geometry.segment.0 * 2;
    assert!(
        used.segments.0 + used.values.0 + used.index.0 + used.shadow.0 + used.ghosts.0 + used.tables.0
            <= store.geometry.memory.0 + slack,
        "the memory is bounded: {used:?}"
    );
    let items: i64 = [false, true].map(|own| store.class_totals(own)).iter().flatten().map(|c| c.items).sum();
    assert_eq!(items, i64::try_from(used.slots).unwrap_or(i64::MAX), "size classes count every item");
}

/// Asserts that the table of segments counts what the index leads to in each: all bytes, and those that expire.
fn check_segments(store: &Store, live_in: &HashMap<u32, (u64, u64)>) {
    for id in store.log.ids() {
        let (expected, segment) = (live_in.get(&id.0).copied().unwrap_or_default(), store.log.segment(id));
        let counted = (u64::from(segment.live()), u64::from(segment.expiring()));
        assert_eq!(counted, expected, "live bytes of segment {id}, and of them those that expire");
    }
}
