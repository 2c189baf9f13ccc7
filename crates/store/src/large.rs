//! Values in pages of their own and the cleaner: which of them go, and the dead ones.
//!
//! Shape:      a survey draws as many of them as it looks at of the segments -> ranked beside what is in those, weighed by their
//!             pages -> those at or below their tenant's mark go, and passes have as much less to do
//! Invariants: such a value is never copied; one that is being sent stays; its item, which stands in a segment as any other, is
//!             moved by passes and evicted here alone
//! Cost:       an index look-up and a rank for each value drawn

use crate::account::unlink;
use crate::census::{Census, Fate, Pending};
use crate::cleaner::{Cleaner, Removal, note_removal};
use crate::epoch::Participant;
use crate::hash::KeyHash;
use crate::index::Found;
use crate::item::Apart;
use crate::limits::{LARGE_SAMPLED_MAX, LARGE_SAMPLES_MAX, LARGE_SWEPT};
use crate::metrics::ThreadCounters;
use crate::segment::State;
use crate::slot::Slot;
use crate::store::Store;
use crate::sync::Ordering;
use crate::worker::Worker;
use units::TenantId;

/// A value that a pass may evict, and the item that leads to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn<'a> {
    pub(crate) found: Found,
    pub(crate) item: Pending<'a>,
    /// Bytes of its pages.
    pub(crate) bytes: u64,
}

impl Cleaner {
    /// Draws values to be weighed beside so many segments: one is as likely among them as a segment is. Without segments they are
    /// all that there is.
    pub(crate) fn draw<'a>(
        &mut self,
        store: &'a Store,
        reader: &'a Participant,
        beside: usize,
    ) -> Vec<Drawn<'a>> {
        let values = store.log.values_linked();
        if values == 0 || store.no_evict {
            return Vec::new();
        }
        let is_candidate = |state| matches!(state, State::Sealed | State::Cleaning);
        let segments = store.log.ids().filter(|id| is_candidate(store.log.segment(*id).state())).count();
        let rng = self.chooser.rng();
        let most = if beside < 2 {
            values
        } else {
            let part = beside as f64 / segments.max(beside) as f64;
            draws(values, part, rng.unit())
        };
        let drawn = store.log.values_drawn(rng, most.min(LARGE_SAMPLES_MAX)).into_iter();
        within_limits(drawn.filter_map(|drawn| evictable(store, reader, drawn)))
    }

    /// Draws values of one tenant.
    pub(crate) fn draw_of<'a>(
        &mut self,
        store: &'a Store,
        reader: &'a Participant,
        tenant: TenantId,
    ) -> Vec<Drawn<'a>> {
        if store.log.values_linked() == 0 {
            return Vec::new();
        }
        let drawn = store.log.values_drawn(self.chooser.rng(), LARGE_SWEPT).into_iter();
        let known = drawn.filter_map(|drawn| evictable(store, reader, drawn));
        within_limits(known.filter(|drawn| drawn.item.view.tenant() == tenant))
    }
}

/// Evicts what was drawn and is at or below its tenant's mark. Returns how many segments its pages are worth.
pub(crate) fn evict_drawn(
    census: &mut Census,
    store: &Store,
    counters: &ThreadCounters,
    drawn: &[Drawn<'_>],
) -> usize {
    let mut evicted = 0;
    for Drawn { found, item, bytes } in drawn {
        if !item.is_dead(store) && census.fate_of(store, item, *found, *bytes) != Fate::Goes {
            continue;
        }
        let is_over = census.is_over(item.view.tenant());
        if remove(store, counters, *found, item, is_over) {
            evicted += bytes;
        }
    }
    usize::try_from(evicted).unwrap_or(0) / store.log.segment_bytes()
}

/// How many of so many values a part of them is; what is left of one counts by chance.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part in 0..=1 of a count")]
fn draws(values: usize, part: f64, chance: f64) -> usize {
    (values as f64 * part + chance) as usize
}

/// The first of them that a census can count.
fn within_limits<'a>(drawn: impl Iterator<Item = Drawn<'a>>) -> Vec<Drawn<'a>> {
    let mut left = LARGE_SAMPLED_MAX.0;
    let fits = |drawn: &Drawn<'_>| {
        let fits = drawn.bytes <= left;
        left = left.saturating_sub(drawn.bytes);
        fits
    };
    drawn.take(LARGE_SAMPLES_MAX).take_while(fits).collect()
}

/// A value that is not being sent.
fn evictable<'a>(store: &'a Store, reader: &'a Participant, drawn: (Apart, KeyHash)) -> Option<Drawn<'a>> {
    if store.log.is_pinned(drawn.0) { None } else { find(store, reader, drawn) }
}

/// The item that leads to a value.
fn find<'a>(store: &'a Store, reader: &'a Participant, (apart, hash): (Apart, KeyHash)) -> Option<Drawn<'a>> {
    let mut leads = |slot: Slot| store.log.view(reader, slot.place()).apart() == Some(apart);
    let found = store.index.find_surely(hash, &mut leads)?;
    let place = found.slot.place();
    let item = Pending { place, hash, view: store.log.view(reader, place) };
    Some(Drawn { found, item, bytes: apart.page_bytes() })
}

/// Removes an item and its value. False if the index leads to it no more.
fn remove(store: &Store, counters: &ThreadCounters, found: Found, item: &Pending<'_>, is_over: bool) -> bool {
    let locked = store.index.lock(item.hash);
    let Some(found) = locked.find_again(found, item.hash) else { return false };
    // Asked under the lock: a flush cannot come between this and the accounting.
    let removal = if item.is_dead(store) { Removal::Dead } else { Removal::Live { is_over } };
    locked.remove(found);
    unlink(store, counters, item.place, &item.view);
    drop(locked);
    note_removal(store, counters, found, item, removal);
    true
}

impl Worker {
    /// Takes the values of some items back that have expired or were flushed, the next ones round and round. Returns whether
    /// there were any.
    pub(crate) fn sweep_values(&mut self, store: &Store) -> bool {
        let from = store.values_swept.load(Ordering::Relaxed);
        let next = store.log.values_from(from, LARGE_SWEPT);
        let end = if next.len() < LARGE_SWEPT { None } else { next.last() };
        store.values_swept.store(end.map_or(0, |(apart, _)| apart.first + 1), Ordering::Relaxed);
        let mut removed = false;
        for known in next {
            let Some(Drawn { found, item, .. }) = find(store, &self.reader, known) else { continue };
            if item.is_dead(store) {
                removed |= remove(store, &self.counters, found, &item, false);
            }
        }
        if removed {
            self.reader.quiesce();
        }
        removed
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{Fields, Mode, Options, RankKind, Space, TenantSpec};
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use units::{Bytes, Rng};

    fn store_of_one() -> (Arc<Store>, TenantId) {
        let (memory, item_max) = (Bytes::mib(64), Bytes::mib(1));
        let options = Options { memory, item_max, threads: 2, tenants_max: 1, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        let (name, claim, rank) = ("t".to_owned(), control::Claim::default(), RankKind::Lru);
        let tenant = store.add_tenant(TenantSpec { name, own_space: false, claim, rank }).unwrap();
        (store, tenant)
    }

    fn set(worker: &mut Worker, tenant: TenantId, number: u64, value: &[u8]) {
        let name = format!("key {number}");
        let key = worker.key(Space::Shared, name.as_bytes()).unwrap();
        worker.set(tenant, &key, Mode::Set, Fields::default(), value).unwrap();
        worker.quiesce();
    }

    /// While another thread holds an epoch, what was evicted is not free yet: that is no reason to evict the rest.
    #[test]
    fn what_was_emptied_and_waits_is_no_reason_to_evict_more() {
        let (store, tenant) = store_of_one();
        let (mut worker, mut other) = (store.worker().unwrap(), store.worker().unwrap());
        let value = vec![b'7'; 500_000];
        let mut stored = 0;
        while store.passes_wanted() == 0 {
            set(&mut worker, tenant, stored, &value);
            stored += 1;
        }
        other.quiesce();
        for _ in 0..100 {
            worker.maintain();
        }
        let evicted = store.totals(tenant).evictions;
        // What one pass evicts: of so few it draws all, and frees some segments' worth.
        assert!(0 < evicted && evicted <= stored / 8, "{evicted} of {stored}");
        other.quiesce();
        worker.maintain();
        assert_eq!(store.passes_wanted(), 0, "what waited was enough");
    }

    /// Where all segments are looked at all values are, and else as many as are asked for, none twice.
    #[test]
    fn values_are_drawn_in_proportion_and_none_twice() {
        let (store, tenant) = store_of_one();
        let mut worker = store.worker().unwrap();
        let len = store.geometry().in_segment_max.as_usize();
        (0..200).for_each(|number| set(&mut worker, tenant, number, &vec![1; len]));
        assert_eq!(store.log.values_linked(), 200);
        let mut cleaner = Cleaner::new(Rng::new(1));
        let segments = store.log.ids().count();
        assert_eq!(cleaner.draw(&store, &worker.reader, segments).len(), 200, "beside all segments");
        for most in [1, 100, 199, 200, 300] {
            let drawn = store.log.values_drawn(&mut Rng::new(2), most);
            let firsts: BTreeSet<u32> = drawn.iter().map(|(apart, _)| apart.first).collect();
            assert_eq!((drawn.len(), firsts.len()), (most.min(200), most.min(200)));
            assert!(
                most < 100 || drawn.iter().map(|(apart, _)| apart.first).ne(firsts),
                "by chance, not by place"
            );
        }
    }

    #[test]
    fn a_part_of_a_value_counts_by_chance() {
        let drawn = |part: f64| (0_u32..100).filter(|n| draws(10, part, f64::from(*n) / 100.0) == 1).count();
        assert_eq!((drawn(0.0), drawn(0.05), drawn(0.1)), (0, 50, 100));
        assert_eq!((draws(10, 1.0, 0.99), draws(0, 1.0, 0.99)), (10, 0));
    }
}
