//! Where a cleaning pass copies to: open segments, which passes hand on to one another.
//!
//! Invariants: a pass opens no more segments than it may; between passes at most `OPEN_MAX` are open, however many threads
//!             clean
//! Source:     Memshare §3.2 drops a last segment that is under half full. We differ: it stays open for the next pass
//!             (`docs/decisions`)

use crate::account::{bytes_needed, let_go, link, relink, restamp, unlink_here};
use crate::census::Pending;
use crate::index::{Found, Locked};
use crate::item::Meta;
use crate::limits::{AGE_MAX, RESERVE_SEGMENTS};
use crate::log::Head;
use crate::metrics::ThreadCounters;
use crate::store::Store;
use crate::sync::{Mutex, bump, lock};

/// Destinations kept open: a large item that does not fit one may fit the other.
const OPEN_MAX: usize = 2;

/// Heads that no pass writes to at the moment.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<Vec<Head>>);

/// The destinations of one pass.
#[derive(Debug)]
pub(crate) struct Destinations {
    open: Vec<Head>,
    /// Segments that are left to others.
    reserve: u32,
    opened: usize,
    opened_max: usize,
    /// As many for what is within a floor.
    opened_for_floors: usize,
}

impl Destinations {
    /// Those that no other pass has.
    pub(crate) fn take(store: &Store) -> Self {
        Self {
            open: std::mem::take(&mut lock(&store.parked.0)),
            reserve: 0,
            opened: 0,
            opened_max: 0,
            opened_for_floors: 0,
        }
    }

    /// The same for who does not empty segments: the reserve stays for those who do.
    pub(crate) fn take_sparing(store: &Store) -> Self {
        Self { reserve: RESERVE_SEGMENTS, ..Self::take(store) }
    }

    /// Leaves what is open to the next pass; what is too many is sealed, the fullest first.
    pub(crate) fn park(mut self, store: &Store) {
        let mut parked = lock(&store.parked.0);
        self.open.append(&mut parked);
        while OPEN_MAX < self.open.len() {
            self.seal_fullest(store);
        }
        *parked = self.open;
    }

    fn seal_fullest(&mut self, store: &Store) {
        let room = |(_, head): &(usize, &Head)| store.log.room(head);
        if let Some((fullest, _)) = self.open.iter().enumerate().min_by_key(room) {
            store.log.seal(self.open.swap_remove(fullest));
        }
    }

    /// Says how many segments the pass may open.
    pub(crate) fn allow(&mut self, opened_max: usize) {
        self.opened_max = opened_max;
        self.opened_for_floors = opened_max;
    }

    /// Lets what is within a floor open more: what is lost at ends of destinations beyond what was foreseen is not to come
    /// from there.
    pub(crate) fn spare_floors(&mut self, opened_max: usize) {
        self.opened_for_floors = opened_max.max(self.opened_max);
    }

    /// Segments that the pass has opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened
    }

    /// Bytes left in what is open and in what may be opened.
    pub(crate) fn room(&self, store: &Store) -> u64 {
        let open: usize = self.open.iter().map(|h| store.log.room(h)).sum();
        (open + self.opened_max.saturating_sub(self.opened) * store.log.segment_bytes()) as u64
    }

    /// Sees to it that an open destination takes an item, opening one if the pass still may for what is within a floor, or
    /// is not.
    pub(crate) fn open_for(&mut self, store: &Store, item: &Pending<'_>, is_floor: bool) -> bool {
        let len = bytes_needed(item.view.bytes().len(), item.view.cas().is_some());
        let stamp = store.stamp_of(item.place, &item.view);
        self.open_for_len(store, len, stamp, is_floor)
    }

    /// The same for an item of a length and a stamp.
    pub(crate) fn open_for_len(&mut self, store: &Store, len: usize, stamp: u64, is_floor: bool) -> bool {
        if self.open.iter().any(|h| store.log.fits(h, len, stamp)) {
            return true;
        }
        if (if is_floor { self.opened_for_floors } else { self.opened_max }) <= self.opened {
            return false;
        }
        let Some(head) = store.log.take(&store.epochs, self.reserve, store.stamp_base(), store.now_secs())
        else {
            return false;
        };
        self.opened += 1;
        if self.open.len() == OPEN_MAX {
            self.seal_fullest(store);
        }
        self.open.push(head);
        true
    }

    /// Moves an item to the first open destination that has room, which `open_for` has seen to. Returns whether it did.
    pub(crate) fn copy(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        locked: &Locked<'_>,
        found: Found,
        item: &Pending<'_>,
    ) -> bool {
        self.put(store, counters, locked, found, item, item.view.meta())
    }

    /// The same with the value elsewhere: `meta` is the item's but for that.
    pub(crate) fn put(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        locked: &Locked<'_>,
        found: Found,
        item: &Pending<'_>,
        mut meta: Meta,
    ) -> bool {
        let (from, view) = (item.place, &item.view);
        let stamp = store.stamp_of(from, view);
        let needed = bytes_needed(meta.item_len(view.key().len(), view.value().len()), meta.cas.is_some());
        let Some(head) = self.open.iter_mut().find(|h| store.log.fits(h, needed, stamp)) else {
            return false;
        };
        restamp(&mut meta, stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(view.key().len(), view.value().len(), &mut header);
        let value = if meta.away.is_some() { &[] } else { view.value() };
        let parts = [&header[..header_len], view.key(), value, &[]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = store.log.append(head, parts).expect("the destination has room");
        let goes_on = meta.away == view.away();
        if len == view.bytes().len() && meta.expiry.is_none() && goes_on {
            relink(store, (from, len), (place, len), meta.tenant, stamp);
        } else {
            unlink_here(store, counters, from, view);
            link(store, counters, place, (&meta, view.key().len()), len, stamp);
        }
        let age = store.tick().wrapping_sub(found.slot.tick()).min(AGE_MAX);
        let tick = store.tick().wrapping_sub(age);
        locked.replace(found, found.slot.moved(place).used(tick, found.slot.uses()));
        if !goes_on {
            meta.away.inspect(|away| store.tier(*away).hold(*away));
            let_go(store, view);
        }
        bump(&counters.of(meta.tenant.index()).moved_bytes, len as u64);
        true
    }
}
