//! Values in pages of their own: the large ones.
//!
//! Shape:      addresses in a row for the whole value -> memory for as much of it as has come -> linked to an item, which
//!             stands in a segment as any other -> retired with it -> pages given back when its epoch has passed and nobody
//!             sends it any more, but for some that are kept for the next
//! Invariants: pages cost memory that segments give up: what is lent here is not allowed there; a value has one writer, which
//!             ends when an item leads to it; a retired value that is pinned stays until it is not
//! Units:      pages of `VALUE_PAGE`; lent memory counts in segments, all values together
//! Cost:       the system maps and clears a page before it is written, where none is kept, and no byte is ever moved
//! Failure:    no memory, or no addresses: an answer; the caller makes room and comes again
//! Non-goals:  which of them goes; that is `large`'s

#![allow(
    unsafe_code,
    reason = "bytes of values: written by one thread before an item leads to them, read under an epoch or a pin"
)]

use super::Log;
use super::value::{Stage, Value, bytes_of};
use super::warm::{Emptied, Warm};
use crate::epoch::Epochs;
use crate::extents::Extents;
use crate::hash::KeyHash;
use crate::item::{Apart, View};
use crate::limits::{ANNOUNCED_PART, RESERVE_SEGMENTS, VALUE_PAGE, WARM_PART};
use crate::sync::lock;
use media::{Dram, MapError, Medium, Region};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{Bytes, Rng};

/// What became of a wish for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lent {
    /// It is there.
    Done,
    /// So many segments must become free first.
    NoRoom(u32),
    /// Values on their way in have all that they may.
    TooMany,
}

/// All values, known by their first page.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) addresses: Extents,
    values: BTreeMap<u32, Value>,
    /// Values that no item leads to, until their epochs are past.
    retired: VecDeque<(u64, u32)>,
    /// Bytes of their pages.
    retired_bytes: u64,
    /// Values off the book whose pages are being given back.
    pub(super) giving_back: usize,
    /// Bytes of those.
    pub(super) giving_bytes: u64,
    /// Pages of values that are gone, for the next.
    pub(super) warm: Warm,
    /// Bytes of pages that cost memory, until they are given back.
    pub(super) lent: u64,
    /// Of these, bytes of values on their way in.
    uploading: u64,
    /// Pages that values on their way in have addresses for.
    announced: u32,
    /// Values that items lead to.
    linked: usize,
    /// Pins on all values together.
    pins: u64,
    /// Values that ever began.
    begun: u64,
}

/// A value on its way in, as its writer knows it. The same pages may be another value's once an item has led to this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) apart: Apart,
    number: u64,
}

/// Maps the addresses; of a machine that has not so many, fewer.
pub(super) fn map(addresses: Bytes) -> Result<Option<Region>, MapError> {
    if addresses == Bytes::ZERO {
        return Ok(None);
    }
    let region = Dram.map(addresses).or_else(|_| Dram.map(Bytes(addresses.0 / 4)))?;
    // A huge page would cost memory beyond the end of a value.
    region.refuse_huge_pages();
    region.leave_out_of_dumps();
    Ok(Some(region))
}

pub(super) fn pages_of(len: u32) -> u32 {
    len.div_ceil(PAGE)
}

pub(super) const PAGE: u32 = 4096;
const _: () = assert!(VALUE_PAGE.0 == PAGE as u64);

pub(super) fn start_of(first: u32) -> usize {
    first as usize * PAGE as usize
}

impl Book {
    /// For the values of a memory.
    pub(super) fn new(region: Option<&Region>, memory: Bytes) -> Self {
        let pages = region.map_or(0, |region| region.len() / PAGE as usize);
        let addresses = Extents::new(u32::try_from(pages).unwrap_or(u32::MAX));
        let most = Bytes(memory.0 / WARM_PART).count_of(VALUE_PAGE);
        Self { addresses, warm: Warm::new(u32::try_from(most).unwrap_or(u32::MAX)), ..Self::default() }
    }

    /// Segments' worth of memory that the values take.
    pub(super) fn lent_segments(&self, segment_bytes: usize) -> u32 {
        u32::try_from(self.lent.div_ceil(segment_bytes as u64)).unwrap_or(u32::MAX)
    }

    /// Segments' worth of memory that becomes free without anything going.
    pub(super) fn coming_segments(&self, segment_bytes: usize) -> u32 {
        let kept = u64::from(self.warm.pages()) * VALUE_PAGE.0;
        let bytes = self.retired_bytes + self.giving_bytes + kept;
        u32::try_from(bytes / segment_bytes as u64).unwrap_or(u32::MAX)
    }

    /// Whether memory becomes free without anything going: values wait for their epoch, or their pages are being given back.
    pub(super) fn has_retired(&self) -> bool {
        !self.retired.is_empty() || 0 < self.giving_back
    }

    /// Takes values off the book that nobody can look at any more; the caller gives their pages back. Those that are pinned follow when they are not.
    pub(super) fn take_emptied(&mut self, is_past: impl Fn(u64) -> bool) -> Vec<Emptied> {
        let mut emptied = Vec::new();
        while let Some((_, first)) = self.retired.pop_front_if(|(epoch, _)| is_past(*epoch)) {
            if let Some(value) = self.values.get_mut(&first) {
                value.stage = Stage::Pinned;
                self.retired_bytes -= value.bytes();
            }
            emptied.extend(self.take_off(first));
        }
        emptied
    }

    /// A value that is still on its way in.
    fn coming(&mut self, coming: Coming) -> Option<&mut Value> {
        let value = self.values.get_mut(&coming.apart.first)?;
        (value.number == coming.number && value.stage == Stage::Uploading).then_some(value)
    }

    /// Takes a value off that waits for nothing but its pins, if it has none.
    fn take_off(&mut self, first: u32) -> Option<Emptied> {
        let value = self.values.get(&first).filter(|v| v.stage == Stage::Pinned && v.pins == 0)?;
        let emptied = Emptied { first, len: value.len, lent: value.bytes() };
        self.values.remove(&first);
        self.giving_back += 1;
        self.giving_bytes += emptied.lent;
        Some(emptied)
    }
}

impl Log {
    /// An item with its value, wherever that is.
    #[inline]
    pub(super) fn whole<'a>(&'a self, view: View<'a>) -> View<'a> {
        match view.apart() {
            None => view,
            Some(apart) => view.with_value(self.value(apart)),
        }
    }

    /// The bytes of a value that an item leads to.
    fn value(&self, apart: Apart) -> &[u8] {
        let Some(region) = &self.values else { return &[] };
        // SAFETY: an item leads to this value, so it was written before the item was published with Release, which the
        // reader's Acquire load saw, and it is written no more. Its pages are given back only when the reader's epoch is
        // past, or its pin is gone.
        unsafe { region.bytes(start_of(apart.first), apart.len as usize) }
    }

    /// The bytes of a value whose only writer asks, or who holds a pin on it.
    pub(crate) fn value_held(&self, apart: Apart) -> &[u8] {
        let Some(region) = &self.values else { return &[] };
        // SAFETY: the caller is its writer, and so does not write while it reads, or its pin keeps the pages, which have
        // not been written since an item led to them.
        unsafe { region.bytes(start_of(apart.first), apart.len as usize) }
    }

    /// Addresses for a value of so many bytes; none if there are none in a row.
    pub(crate) fn begin_value(&self, len: usize) -> Option<Coming> {
        self.begin_value_of(len, u32::MAX)
    }

    /// The same for a value that may come or not: all such have a part of the addresses and leave the rest to what is there.
    pub(crate) fn announce_value(&self, len: usize) -> Option<Coming> {
        let all = self.values.as_ref().map_or(0, Region::len) / PAGE as usize / ANNOUNCED_PART;
        self.begin_value_of(len, u32::try_from(all).unwrap_or(u32::MAX))
    }

    /// The same while values on their way in have no more pages than `most` with it.
    fn begin_value_of(&self, len: usize, most: u32) -> Option<Coming> {
        let len = u32::try_from(len).ok()?;
        let pages = pages_of(len).max(1);
        let mut pool = lock(&self.pool);
        let book = &mut pool.values;
        if most < book.announced.saturating_add(pages) {
            return None;
        }
        let addresses = &mut book.addresses;
        let near = book.warm.newest().find_map(|page| addresses.take_near(page, pages));
        let first = near.or_else(|| addresses.take(pages))?;
        let warm = book.warm.take_within(first, pages);
        book.announced += pages;
        book.begun += 1;
        let number = book.begun;
        book.values.insert(first, Value { number, len, lent: 0, warm, pins: 0, stage: Stage::Uploading });
        Some(Coming { apart: Apart { first, len }, number })
    }

    /// Memory for the first `bytes` of a value on its way in, while all such take `uploads_max` at most. Reclaims what was
    /// emptied first.
    pub(crate) fn back_value(&self, epochs: &Epochs, coming: Coming, bytes: usize, uploads_max: u64) -> Lent {
        let apart = coming.apart;
        let wanted = (bytes as u64).next_multiple_of(VALUE_PAGE.0);
        self.reclaim_now(epochs);
        let mut pool = lock(&self.pool);
        let end = apart.first + u32::try_from(wanted / VALUE_PAGE.0).unwrap_or(u32::MAX);
        let known = pool.values.coming(coming).map(|value| (value.lent, value.warm_before(end)));
        let Some((before, warm)) = known else { return Lent::TooMany };
        let more = wanted.saturating_sub(before);
        let fresh = more.saturating_sub(warm);
        if uploads_max < pool.values.uploading + more {
            return Lent::TooMany;
        }
        let lent = pool.values.lent_segments(self.segment_bytes);
        pool.values.lent += fresh;
        let segments = pool.values.lent_segments(self.segment_bytes) - lent;
        let left = u64::from(pool.free_count()) + u64::from(pool.allowed);
        let needed = u64::from(pool.backed) + u64::from(RESERVE_SEGMENTS + segments);
        if 0 < fresh && left < needed {
            pool.values.lent -= fresh;
            self.publish_available(&pool);
            drop(pool);
            let has_more = self.give_warm_back((needed - left) * self.segment_bytes as u64);
            return if has_more {
                self.back_value(epochs, coming, bytes, uploads_max)
            } else {
                Lent::NoRoom(segments)
            };
        }
        pool.values.uploading += more;
        if let Some(value) = pool.values.values.get_mut(&apart.first) {
            value.lend(end, more);
        }
        self.divide(&mut pool);
        drop(pool);
        if 0 < fresh
            && let Some(region) = &self.values
        {
            let from = usize::try_from(before).unwrap_or(usize::MAX);
            // Refusal only makes the first touch cost what it does.
            let _refused = region.populate(start_of(apart.first) + from, usize::try_from(more).unwrap_or(0));
        }
        Lent::Done
    }

    /// Writes a part of a value. Its writer alone may call this, and for memory that it has.
    pub(crate) fn write_value(&self, apart: Apart, at: usize, part: &[u8]) {
        assert!(at + part.len() <= apart.len as usize, "a value is written where it has its place");
        if let Some(region) = &self.values {
            // SAFETY: the addresses were taken for this value and are given to no other; no item leads to it yet, and its
            // writer, the caller, reads nothing of it meanwhile.
            unsafe { region.write(start_of(apart.first) + at, part) };
        }
    }

    /// Where a value on its way in is whose bytes these are.
    pub(crate) fn uploaded(&self, value: &[u8]) -> Option<Apart> {
        let at = self.values.as_ref()?.offset_of(value)?;
        let first = u32::try_from(at / PAGE as usize).ok().filter(|first| start_of(*first) == at)?;
        let pool = lock(&self.pool);
        let known = pool.values.values.get(&first)?;
        (known.stage == Stage::Uploading && known.len as usize == value.len())
            .then_some(Apart { first, len: known.len })
    }

    /// An item of this key leads to a value from now on.
    pub(crate) fn link_value(&self, apart: Apart, hash: KeyHash) {
        let mut pool = lock(&self.pool);
        let Some(value) = pool.values.values.get_mut(&apart.first) else { return };
        let (before, lent) = (std::mem::replace(&mut value.stage, Stage::Linked(hash)), value.lent);
        let pages = value.pages();
        if before == Stage::Uploading {
            pool.values.uploading -= lent;
            pool.values.announced -= pages;
            pool.values.linked += 1;
        }
    }

    /// No item leads to a value any more.
    pub(crate) fn retire_value(&self, epochs: &Epochs, apart: Apart) {
        let epoch = epochs.retire();
        let mut pool = lock(&self.pool);
        if let Some(value) = pool.values.values.get_mut(&apart.first) {
            value.stage = Stage::Retired;
            let bytes = value.bytes();
            pool.values.retired_bytes += bytes;
            pool.values.linked -= 1;
            pool.values.retired.push_back((epoch, apart.first));
        }
    }

    /// A value to which no item ever led is not wanted. One that is linked stays.
    pub(crate) fn give_up_value(&self, coming: Coming) {
        let mut pool = lock(&self.pool);
        let Some(value) = pool.values.coming(coming) else { return };
        value.stage = Stage::Pinned;
        let (lent, pages) = (value.lent, value.pages());
        pool.values.uploading -= lent;
        pool.values.announced -= pages;
        let emptied = pool.values.take_off(coming.apart.first);
        drop(pool);
        self.release_values(emptied.as_slice());
    }

    /// Keeps a value although its item may go. The caller sees it under an epoch.
    pub(crate) fn pin_value(&self, apart: Apart) {
        let mut pool = lock(&self.pool);
        if let Some(value) = pool.values.values.get_mut(&apart.first) {
            value.pins += 1;
            pool.values.pins += 1;
        }
    }

    /// Keeps it no longer.
    pub(crate) fn unpin_value(&self, apart: Apart) {
        let mut pool = lock(&self.pool);
        let Some(value) = pool.values.values.get_mut(&apart.first) else { return };
        value.pins -= 1;
        pool.values.pins -= 1;
        let emptied = pool.values.take_off(apart.first);
        drop(pool);
        if emptied.is_some() {
            self.release_values(emptied.as_slice());
        }
    }

    /// Whether a value is being sent.
    pub(crate) fn is_pinned(&self, apart: Apart) -> bool {
        lock(&self.pool).values.values.get(&apart.first).is_some_and(|value| 0 < value.pins)
    }

    /// Whether some are being sent.
    pub(crate) fn has_pinned_values(&self) -> bool {
        self.values.is_some() && 0 < lock(&self.pool).values.pins
    }

    /// Memory of values; of what is kept for the next beside.
    pub(crate) fn values_bytes(&self) -> Bytes {
        let pool = lock(&self.pool);
        Bytes(pool.values.lent - u64::from(pool.values.warm.pages()) * VALUE_PAGE.0)
    }

    /// Values that items lead to.
    pub(crate) fn values_linked(&self) -> usize {
        if self.values.is_none() {
            return 0;
        }
        lock(&self.pool).values.linked
    }

    /// Values that items lead to and their keys: `most` of those with a first page from `from` on.
    pub(crate) fn values_from(&self, from: u32, most: usize) -> Vec<(Apart, KeyHash)> {
        let pool = lock(&self.pool);
        pool.values.linked_from(from).take(most).collect()
    }

    /// `most` of them drawn by their bytes, and none twice; in the order of the draw, so that the first ones are as good as any.
    pub(crate) fn values_drawn(&self, rng: &mut Rng, most: usize) -> Vec<(Apart, KeyHash)> {
        let pool = lock(&self.pool);
        let book = &pool.values;
        if book.linked <= most {
            let mut all: Vec<_> = book.linked().collect();
            for i in 1..all.len() {
                all.swap(i, rng.index(i + 1));
            }
            return all;
        }
        let Some((last, value)) = book.values.last_key_value() else { return Vec::new() };
        let end = *last + pages_of(value.len);
        let (mut drawn, mut firsts) = (Vec::with_capacity(most), BTreeSet::new());
        for _ in 0..most {
            let page = u32::try_from(rng.below(u64::from(end))).unwrap_or(0);
            // The value that has this page, or the next one.
            let from = book.values.range(..=page).next_back().map_or(0, |(first, _)| *first);
            let is_new = |(apart, _): &(Apart, KeyHash)| firsts.insert(apart.first);
            let next = book.linked_from(from).chain(book.linked()).find(is_new);
            drawn.extend(next);
        }
        drawn
    }
}

impl Book {
    fn linked(&self) -> impl Iterator<Item = (Apart, KeyHash)> {
        self.linked_from(0)
    }

    fn linked_from(&self, from: u32) -> impl Iterator<Item = (Apart, KeyHash)> {
        self.values.range(from..).filter_map(|(&first, value)| match value.stage {
            Stage::Linked(hash) => Some((Apart { first, len: value.len }, hash)),
            _ => None,
        })
    }

    /// Asserts that the sums are those of the values; returns what items should lead to.
    pub(super) fn check(&self) -> Vec<Apart> {
        let lent = |stage: fn(&Stage) -> bool| {
            self.values.values().filter(|v| stage(&v.stage)).map(|v| v.lent).sum::<u64>()
        };
        let warm = self.values.values().map(|value| bytes_of(&value.warm)).sum::<u64>();
        let warm = warm + u64::from(self.warm.pages()) * VALUE_PAGE.0;
        assert_eq!((lent(|_| true) + warm, self.giving_back), (self.lent, 0), "memory of values");
        assert_eq!(lent(|stage| *stage == Stage::Uploading), self.uploading, "of those on their way in");
        let retired = self.values.values().filter(|value| value.stage == Stage::Retired);
        let retired: u64 = retired.map(Value::bytes).sum();
        assert_eq!((retired, 0), (self.retired_bytes, self.giving_bytes), "of those that go");
        let coming = self.values.values().filter(|value| value.stage == Stage::Uploading);
        assert_eq!(
            coming.map(Value::pages).sum::<u32>(),
            self.announced,
            "addresses of those on their way in"
        );
        assert_eq!(self.linked().count(), self.linked, "values that items lead to");
        assert_eq!(self.values.values().map(|v| u64::from(v.pins)).sum::<u64>(), self.pins, "pins");
        self.linked().map(|(apart, _)| apart).collect()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn whoever_wants_memory_waits_for_pages_that_are_being_given_back() {
        let log = Log::new(&Geometry::new(Bytes::mib(64), Bytes::mib(32), 1)).unwrap();
        let epochs = Epochs::new();
        let coming = log.begin_value(20 << 20).unwrap();
        assert_eq!(log.back_value(&epochs, coming, 20 << 20, u64::MAX), Lent::Done);
        log.link_value(coming.apart, KeyHash(7));
        assert!(!log.has_retired());
        log.retire_value(&epochs, coming.apart);
        assert!(log.has_retired());
        let without = log.available();
        let emptied = lock(&log.pool).values.take_emptied(|_| true);
        assert_eq!((emptied.len(), log.available()), (1, without), "its pages still cost memory");
        assert!(log.has_retired(), "and nothing has to go for it");
        // More than is kept for the next.
        log.release_values(&emptied);
        assert!(!log.has_retired());
        assert_eq!(log.available(), without + 20 * (1 << 20) / u32::try_from(log.segment_bytes()).unwrap());
        assert!(log.check_values().is_empty());
    }
}
