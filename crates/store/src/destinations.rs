//! Where a cleaning pass copies to: one open segment for each half by rank, which passes hand on to one another, and the ends of
//! others.
//!
//! Invariants: a pass opens no more segments than it may, and none while one that another has left for its half takes the item;
//!             between passes at most `LEFT_OPEN` per half and `ENDS_MAX` others are open, one per half where the memory is about as
//!             small as can be
//! Source:     Memshare §3.2 drops a last segment that is under half full. We differ: it stays open for the next pass. What
//!             goes first and what goes last is kept apart, so that segments differ in what cleaning them frees (Rosenblum
//!             and Ousterhout, LFS, SOSP 1991; `docs/decisions`)

use crate::account::{let_go, link, relink, take_off};
use crate::census::{Half, Pending};
use crate::index::{Found, Locked};
use crate::item::{Meta, Sizes};
use crate::limits::{AGE_MAX, RESERVE_SEGMENTS};
use crate::log::Head;
use crate::metrics::ThreadCounters;
use crate::slot::Place;
use crate::stamps::{Needed, restamp};
use crate::store::Store;
use crate::sync::{Mutex, bump, lock};
use std::collections::VecDeque;

/// At most one byte in so many of a destination is left unused where another takes the item.
const END_PART: usize = 64;

/// Destinations of a half that stay open between passes at most: as many passes run at once on most machines. In a log that is not
/// roomy it is one, as what is open cannot be cleaned.
const LEFT_OPEN: usize = 2;

/// Destinations that did not take an item and have room for shorter ones, at most (guess: each is mostly full).
const ENDS_MAX: usize = 4;

/// Heads that no pass writes to at the moment.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<Left>);

/// What passes leave to one another.
#[derive(Debug, Default)]
struct Left {
    /// By half, the first to be taken first: so each is filled, and sealed, in its turn.
    open: [VecDeque<Head>; 2],
    /// Those that wait for shorter items.
    ends: Vec<Head>,
}

/// One of the destinations of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    /// What is open for a half.
    Open(Half),
    /// One that waits for shorter items.
    End(usize),
}

/// The destinations of one pass.
#[derive(Debug)]
pub(crate) struct Destinations {
    /// By half.
    open: [Option<Head>; 2],
    ends: Vec<Head>,
    /// Segments that are left to others.
    reserve: u32,
    opened: usize,
    opened_max: usize,
    /// One more than was allowed may be open.
    is_extended: bool,
}

impl Destinations {
    /// One of each half that no other pass has.
    pub(crate) fn take(store: &Store) -> Self {
        let mut left = lock(&store.parked.0);
        Self {
            open: left.open.each_mut().map(VecDeque::pop_front),
            ends: std::mem::take(&mut left.ends),
            reserve: 0,
            opened: 0,
            opened_max: 0,
            is_extended: false,
        }
    }

    /// The same for who does not empty segments: the reserve stays for those who do.
    pub(crate) fn take_sparing(store: &Store) -> Self {
        Self { reserve: RESERVE_SEGMENTS, ..Self::take(store) }
    }

    /// Leaves what is open to other passes: what is sealed before it is full is lost until another pass empties it. Of more than may
    /// be left the fullest is.
    pub(crate) fn park(self, store: &Store) {
        let (left_max, ends_max) = if store.is_roomy() { (LEFT_OPEN, ENDS_MAX) } else { (1, 0) };
        let mut left = lock(&store.parked.0);
        for (heads, head) in left.open.iter_mut().zip(self.open) {
            heads.extend(head);
            while left_max < heads.len() {
                let fullest = (0..heads.len()).min_by_key(|at| store.log.room(&heads[*at]));
                fullest.and_then(|at| heads.remove(at)).into_iter().for_each(|head| store.log.seal(head));
            }
        }
        left.ends.extend(self.ends);
        bound(store, &mut left.ends, ends_max);
    }

    /// Puts what did not take an item where shorter ones may fill it.
    fn leave(&mut self, store: &Store, head: Head) {
        self.ends.push(head);
        bound(store, &mut self.ends, ENDS_MAX);
    }

    /// Says how many segments the pass may open.
    pub(crate) fn allow(&mut self, opened_max: usize) {
        self.opened_max = opened_max;
        self.is_extended = false;
    }

    /// Segments that the pass has opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened
    }

    /// Bytes left in what is open and in what may be opened.
    pub(crate) fn room(&self, store: &Store) -> u64 {
        let open: usize = self.open.iter().flatten().map(|h| store.log.room(h)).sum();
        (open + self.opened_max.saturating_sub(self.opened) * store.log.segment_bytes()) as u64
    }

    /// Whether what is open, or may be opened beyond the segments that are left to others, takes anything worth the while.
    pub(crate) fn has_room(&self, store: &Store) -> bool {
        let least = (store.log.segment_bytes() / END_PART) as u64;
        self.reserve < store.log.available() || least <= self.room(store)
    }

    /// The destination that takes an item: the end of one that longer ones did not fit, what is open for its half, else what is
    /// opened for it if the pass still may, else what is open for the other.
    pub(crate) fn open_for(&mut self, store: &Store, item: &Pending<'_>, half: Half) -> Option<To> {
        let needed = Needed::new(item.view.len(), item.view.cas().is_some());
        let stamp = store.stamp_of(item.place, &item.view);
        self.open_for_needed(store, needed, stamp, half)
    }

    /// The same for an item that needs so much and has a stamp.
    pub(crate) fn open_for_needed(
        &mut self,
        store: &Store,
        needed: Needed,
        stamp: u64,
        half: Half,
    ) -> Option<To> {
        if let Some(end) = self.ends.iter().position(|head| store.log.fits(head, needed, stamp)) {
            return Some(To::End(end));
        }
        let fits =
            |head: &Option<Head>| head.as_ref().is_some_and(|head| store.log.fits(head, needed, stamp));
        if fits(&self.open[half as usize]) {
            return Some(To::Open(half));
        }
        let other = half.other();
        let other = fits(&self.open[other as usize]).then_some(To::Open(other));
        // What would be lost at the end of a destination is worth more than that its items are alike.
        let left = self.open[half as usize].as_ref().map_or(0, |head| store.log.room(head));
        let tries = other.is_none() || left <= store.log.segment_bytes() / END_PART;
        let next = if tries { self.next(store, (needed, stamp), half) } else { None };
        let Some(head) = next else { return other };
        if let Some(full) = self.open[half as usize].replace(head) {
            self.leave(store, full);
        }
        Some(To::Open(half))
    }

    /// The head of a destination, if it still takes an item.
    fn head(&mut self, store: &Store, to: To, needed: Needed, stamp: u64) -> Option<&mut Head> {
        let head = match to {
            To::Open(half) => self.open[half as usize].as_mut(),
            To::End(at) => self.ends.get_mut(at),
        };
        head.filter(|head| store.log.fits(head, needed, stamp))
    }

    /// Another destination: one that was left by another pass and takes the item, else a new one if the pass still may.
    fn next(&mut self, store: &Store, (needed, stamp): (Needed, u64), half: Half) -> Option<Head> {
        let left = {
            let heads = &mut lock(&store.parked.0).open[half as usize];
            let fits = heads.iter().position(|head| store.log.fits(head, needed, stamp));
            fits.and_then(|at| heads.remove(at))
        };
        if left.is_some() || self.opened_max <= self.opened {
            return left;
        }
        let opened = store.log.take(&store.epochs, self.reserve, store.stamp_base(), store.now_secs());
        self.opened += usize::from(opened.is_some());
        opened
    }

    /// The same for what leads to a tier, or is within its tenant's floor: a pass opens one destination more for that, and frees a segment less, where another is
    /// left for others.
    pub(crate) fn open_for_last(&mut self, store: &Store, needed: Needed, stamp: u64) -> Option<To> {
        let open = self.open_for_needed(store, needed, stamp, Half::Upper);
        if open.is_some()
            || self.opened < self.opened_max
            || self.is_extended
            || store.log.available() <= RESERVE_SEGMENTS
        {
            return open;
        }
        self.is_extended = true;
        self.opened_max += 1;
        self.open_for_needed(store, needed, stamp, Half::Upper)
    }

    /// Moves an item to the open destination that `open_for` named. Returns whether it did.
    pub(crate) fn copy(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        locked: &Locked<'_>,
        found: Found,
        item: &Pending<'_>,
        to: To,
    ) -> bool {
        let (from, view) = (item.place, &item.view);
        let stamp = store.stamp_of(from, view);
        let needed = Needed::new(view.len(), false);
        let head = self.head(store, to, needed, stamp);
        let Some((header, head)) = head.and_then(|head| Some((view.plain_at(stamp, head.base())?, head)))
        else {
            return self.move_to(store, counters, locked, (found, item), (view.meta(), to));
        };
        let parts = [&header[..], view.behind_header(), &[], &[]];
        let place = store.log.append(head, parts).expect("the destination has room");
        lead_to(store, locked, found, place);
        relink(store, (from, view.len()), (place, view.len()), view.tenant(), stamp);
        bump(&counters.of(view.tenant().index()).moved_bytes, view.len() as u64);
        true
    }

    /// The same with the value elsewhere: `meta` is the item's but for that.
    pub(crate) fn move_to(
        &mut self,
        store: &Store,
        counters: &ThreadCounters,
        locked: &Locked<'_>,
        (found, item): (Found, &Pending<'_>),
        (mut meta, to): (Meta, To),
    ) -> bool {
        let (from, view) = (item.place, &item.view);
        let stamp = store.stamp_of(from, view);
        let tail = if meta.away.is_some() { &[] } else { view.tail() };
        let needed = Needed::new(meta.item_len(view.key().len(), tail.len()), meta.cas.is_some());
        let Some(head) = self.head(store, to, needed, stamp) else { return false };
        restamp(&mut meta, stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(view.key().len(), tail.len(), &mut header);
        let parts = [&header[..header_len], view.key(), tail, &[]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = store.log.append(head, parts).expect("the destination has room");
        let goes_on = meta.away == view.away();
        lead_to(store, locked, found, place);
        if len == view.len() && meta.expiry.is_none() && goes_on {
            relink(store, (from, len), (place, len), meta.tenant, stamp);
        } else {
            // A value that lies apart or in a tier stays where it is.
            take_off(store, counters, from, view);
            let below = meta.away.map_or(0, |away| away.footprint(view.key().len()));
            link(store, counters, place, &meta, Sizes::new(len, view.apart()).with_below(below), stamp);
        }
        if !goes_on {
            // Who goes from one record to another leaves the first only once the second is known to be live, where the
            // device lets it be known at once.
            meta.away.inspect(|away| store.tier(*away).hold_settled(*away));
            let_go(store, view);
        }
        bump(&counters.of(meta.tenant.index()).moved_bytes, len as u64);
        true
    }
}

/// Seals those that are full, and the fullest of more than so many.
fn bound(store: &Store, ends: &mut Vec<Head>, most: usize) {
    let least = store.log.segment_bytes() / END_PART;
    ends.sort_by_key(|head| std::cmp::Reverse(store.log.room(head)));
    let open = ends.iter().take_while(|head| least < store.log.room(head)).count();
    ends.drain(open.min(most)..).for_each(|head| store.log.seal(head));
}

/// Makes the index lead to where an item is now.
fn lead_to(store: &Store, locked: &Locked<'_>, found: Found, place: Place) {
    let age = store.tick().wrapping_sub(found.slot.tick()).min(AGE_MAX);
    let tick = store.tick().wrapping_sub(age);
    locked.replace(found, found.slot.moved(place).used(tick, found.slot.uses()));
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Options;
    use crate::limits::GAP;
    use crate::log::Lent;
    use std::sync::Arc;
    use units::Bytes;

    fn new_store(threads: usize) -> Arc<Store> {
        let (memory, item_max) = (Bytes::mib(8), Bytes::mib(4));
        Store::new(Options { memory, item_max, threads, tenants_max: 1, no_evict: false, seed: 1 }).unwrap()
    }

    /// Passes that run at once leave what they have opened to others, none of it sealed.
    #[test]
    fn what_a_pass_leaves_is_filled_by_the_next() {
        let store = new_store(2);
        let open = |pass: &mut Destinations| {
            pass.open_for_needed(&store, Needed::new(1_000, true), store.stamp_base(), Half::Upper)
                .map(|_| pass.opened())
        };
        let (mut one, mut other) = (Destinations::take(&store), Destinations::take(&store));
        for pass in [&mut one, &mut other] {
            pass.allow(1);
            assert_eq!(open(pass), Some(1));
        }
        let free = store.log.available();
        one.park(&store);
        other.park(&store);
        let mut third = Destinations::take(&store);
        third.allow(0);
        let room = third.room(&store);
        assert!(0 < room, "it has one of them");
        third.open[Half::Upper as usize] = None;
        assert_eq!(open(&mut third), Some(0), "and then the other, which is none that it opened");
        assert_eq!((third.room(&store), store.log.available()), (room, free));
        third.open[Half::Upper as usize] = None;
        assert_eq!(open(&mut third), None, "there is no more, and it may open none");
    }

    /// What a long item did not fit in is filled by shorter ones, in this pass and in others, and is sealed when it is full.
    #[test]
    fn shorter_items_fill_the_ends_that_longer_ones_leave() {
        let store = new_store(1);
        // A gap stands before the first.
        let segment = store.log.segment_bytes() - GAP;
        let needs = |part: usize| Needed::new(segment * part / 10, true);
        let mut pass = Destinations::take(&store);
        pass.allow(9);
        let append = |pass: &mut Destinations, part: usize, half: Half| {
            let stamp = store.stamp_base();
            let to = pass.open_for_needed(&store, needs(part), stamp, half).unwrap();
            let bytes = vec![0; segment * part / 10];
            store
                .log
                .append(pass.head(&store, to, needs(part), stamp).unwrap(), [&bytes, &[], &[], &[]])
                .unwrap();
            to
        };
        let upper = To::Open(Half::Upper);
        assert_eq!([6, 6, 6].map(|part| append(&mut pass, part, Half::Upper)), [upper; 3]);
        assert_eq!((pass.opened(), pass.ends.len()), (3, 2), "two have four tenths left");
        assert_eq!(append(&mut pass, 4, Half::Lower), To::End(0), "whatever its half");
        pass.park(&store);
        let mut next = Destinations::take(&store);
        next.allow(9 + 3 * ENDS_MAX);
        assert_eq!(next.ends.len(), 1, "what was full is sealed");
        assert_eq!(append(&mut next, 3, Half::Lower), To::End(0));
        assert_eq!(append(&mut next, 3, Half::Lower), To::Open(Half::Lower), "a tenth does not take it");
        for _ in 0..3 * ENDS_MAX {
            append(&mut next, 8, Half::Lower);
        }
        assert_eq!(next.ends.len(), ENDS_MAX, "so many are open at most");
    }

    /// However many are left, some are sealed, or nothing could be cleaned in a small memory.
    #[test]
    fn of_many_that_are_left_the_fullest_are_sealed() {
        let buffers = |store: &Store| store.set_external(Bytes::mib(8));
        let values = |store: &Store| {
            let coming = store.log.begin_value(7 << 20).unwrap();
            assert_eq!(store.log.back_value(&store.epochs, coming, 6 << 20, u64::MAX), Lent::Done);
        };
        type Take = fn(&Store);
        let takes: [(Take, bool); 3] = [(|_| {}, true), (buffers, false), (values, false)];
        for (take, is_roomy) in takes {
            let store = new_store(1);
            let mut passes = [0; 3].map(|_| Destinations::take(&store));
            for pass in &mut passes {
                pass.allow(1);
                pass.open_for_needed(&store, Needed::new(1_000, true), store.stamp_base(), Half::Upper)
                    .unwrap();
            }
            take(&store);
            assert_eq!(store.is_roomy(), is_roomy);
            passes.into_iter().for_each(|pass| pass.park(&store));
            let left = lock(&store.parked.0).open[Half::Upper as usize].len();
            assert_eq!(left, if is_roomy { LEFT_OPEN } else { 1 });
        }
    }
}
