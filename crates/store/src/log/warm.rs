//! Pages of values that are gone: kept for the next, since the system clears every page that it maps anew, or given back.
//!
//! Shape:      a value that nobody can look at -> its pages kept, and the oldest that were kept given back -> those where the next value has its
//!             place are its
//! Invariants: at most so many pages, the newest; none is anybody's, and their addresses are free
//! Cost:       a walk over the extents kept, which are few

#![allow(unsafe_code, reason = "pages of values that nobody can look at any more go back to the system")]

use super::Log;
use super::values::{Book, PAGE, pages_of, start_of};
use crate::limits::VALUE_PAGE;
use crate::sync::lock;
use std::collections::VecDeque;

/// Kept extents around which a value looks for its place (guess: what one pass evicts).
const NEWEST: usize = 16;

/// Extents of pages that cost memory and have no value.
#[derive(Debug, Default)]
pub(super) struct Warm {
    /// First page and pages, oldest first; none overlap.
    extents: VecDeque<(u32, u32)>,
    pages: u32,
    most: u32,
}

impl Warm {
    /// Keeps so many pages at most.
    pub(super) fn new(most: u32) -> Self {
        Self { most, ..Self::default() }
    }

    /// Pages kept.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Where the newest of them begin.
    pub(super) fn newest(&self) -> impl Iterator<Item = u32> + '_ {
        self.extents.iter().rev().take(NEWEST).map(|(first, _)| *first)
    }

    /// Keeps an extent.
    pub(super) fn keep(&mut self, first: u32, pages: u32) {
        self.extents.push_back((first, pages));
        self.pages += pages;
    }

    /// Takes the oldest out until no more are kept than may be.
    pub(super) fn take_excess(&mut self) -> Vec<(u32, u32)> {
        self.take_beyond(self.most)
    }

    /// Takes the oldest out until no more than so many pages are kept.
    fn take_beyond(&mut self, most: u32) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        while most < self.pages
            && let Some(oldest) = self.extents.pop_front()
        {
            self.pages -= oldest.1;
            taken.push(oldest);
        }
        taken
    }

    /// Takes those out that are among these pages.
    pub(super) fn take_within(&mut self, first: u32, pages: u32) -> Vec<(u32, u32)> {
        let end = first + pages;
        let mut taken = Vec::new();
        for at in (0..self.extents.len()).rev() {
            let (from, to) = (self.extents[at].0, self.extents[at].0 + self.extents[at].1);
            if to <= first || end <= from {
                continue;
            }
            taken.push((from.max(first), to.min(end) - from.max(first)));
            let rest = [(from, first), (end, to)].into_iter().filter(|(from, to)| from < to);
            let mut rest = rest.map(|(from, to)| (from, to - from));
            if let Some(one) = rest.next() {
                self.extents[at] = one;
                rest.next().into_iter().for_each(|other| self.extents.insert(at, other));
            } else {
                self.extents.remove(at);
            }
        }
        self.pages -= taken.iter().map(|(_, pages)| pages).sum::<u32>();
        taken
    }
}

/// A value whose pages are to be given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emptied {
    pub(super) first: u32,
    pub(super) len: u32,
    pub(super) lent: u64,
}

impl Book {
    /// Takes the addresses of pages that were kept, and are not any more, until these are given back.
    fn cool(&mut self, extents: Vec<(u32, u32)>) -> Vec<Emptied> {
        for (first, pages) in &extents {
            self.addresses.take_at(*first, *pages);
        }
        let emptied = |(first, pages): (u32, u32)| {
            let lent = u64::from(pages) * VALUE_PAGE.0;
            self.giving_back += 1;
            self.giving_bytes += lent;
            Emptied { first, len: pages * PAGE, lent }
        };
        extents.into_iter().map(emptied).collect()
    }
}

impl Log {
    /// Keeps pages that nobody can look at for the next values, or gives them back.
    pub(super) fn release_values(&self, emptied: &[Emptied]) {
        let mut pool = lock(&self.pool);
        let book = &mut pool.values;
        let mut given = Vec::new();
        for value in emptied {
            let pages = pages_of(value.len).max(1);
            if value.lent == u64::from(pages) * VALUE_PAGE.0 {
                book.giving_back -= 1;
                book.giving_bytes -= value.lent;
                book.addresses.give(value.first, pages);
                book.warm.keep(value.first, pages);
            } else {
                given.push(*value);
            }
        }
        let excess = book.warm.take_excess();
        given.extend(book.cool(excess));
        drop(pool);
        self.give_back(&given);
    }

    /// Gives back the oldest of what is kept for the next values, so many bytes or more: there is need of them. Returns whether there was
    /// something.
    pub(crate) fn give_warm_back(&self, bytes: u64) -> bool {
        let mut pool = lock(&self.pool);
        let pages = u32::try_from(bytes.div_ceil(VALUE_PAGE.0)).unwrap_or(u32::MAX);
        let warm = &mut pool.values.warm;
        let oldest = warm.take_beyond(warm.pages().saturating_sub(pages));
        let warm = pool.values.cool(oldest);
        drop(pool);
        self.give_back(&warm);
        !warm.is_empty()
    }

    fn give_back(&self, emptied: &[Emptied]) {
        if emptied.is_empty() {
            return;
        }
        let Some(region) = &self.values else { return };
        for value in emptied {
            let pages = pages_of(value.len).max(1);
            // SAFETY: the value is off the book: no item leads to it, the epochs of all who saw one are past, and nobody
            // has pinned it; its writer is done. Its addresses are given to nobody before they are back below.
            unsafe { region.release(start_of(value.first), start_of(pages)) };
        }
        let mut pool = lock(&self.pool);
        for value in emptied {
            pool.values.addresses.give(value.first, pages_of(value.len).max(1));
            pool.values.lent -= value.lent;
            pool.values.giving_bytes -= value.lent;
        }
        pool.values.giving_back -= emptied.len();
        self.divide(&mut pool);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::epoch::Epochs;
    use crate::hash::KeyHash;
    use crate::log::Lent;
    use units::Bytes;

    #[test]
    fn the_newest_are_kept_and_parts_are_taken_where_they_are() {
        let mut warm = Warm::new(10);
        assert_eq!(warm.take_within(0, 100), []);
        warm.keep(0, 4);
        warm.keep(10, 6);
        assert_eq!(warm.take_excess(), []);
        warm.keep(20, 3);
        assert_eq!(warm.take_excess(), [(0, 4)], "13 of 10");
        assert_eq!(warm.take_within(12, 2), [(12, 2)], "out of the midst");
        assert_eq!(warm.take_within(15, 6), [(20, 1), (15, 1)], "ends of two");
        assert_eq!(warm.pages(), 5);
        warm.keep(30, 8);
        assert_eq!(warm.take_excess(), [(14, 1), (10, 2)], "parts are as old as the whole was");
        warm.keep(40, 11);
        assert_eq!(warm.take_excess(), [(21, 2), (30, 8), (40, 11)], "larger than all that is kept");
        assert_eq!(warm.pages(), 0);
    }

    /// Whatever becomes of extents, a page is kept once, and the count is right.
    #[test]
    fn what_is_kept_is_what_was_and_was_not_taken() {
        let (mut rng, mut warm, mut kept) = (units::Rng::new(3), Warm::new(60), [false; 200]);
        for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
            let (first, pages) = (rng.index(190), 1 + rng.index(10));
            let range = first..(first + pages).min(200);
            let (from, len) = [range.start, range.len()].map(|n| u32::try_from(n).unwrap()).into();
            let taken = warm.take_within(from, len);
            let were = kept[range.clone()].iter().filter(|kept| **kept).count();
            assert_eq!(taken.iter().map(|(_, pages)| *pages as usize).sum::<usize>(), were);
            kept[range.clone()].fill(false);
            if rng.index(3) != 0 {
                warm.keep(from, len);
                kept[range].fill(true);
                for (first, pages) in warm.take_excess() {
                    kept[first as usize..(first + pages) as usize].fill(false);
                }
            }
            assert_eq!(warm.pages() as usize, kept.iter().filter(|kept| **kept).count());
            assert!(warm.pages() <= 60);
        }
    }

    /// Pages of a value that is gone are the next one's, cost memory once, and go when others need it.
    #[test]
    fn pages_of_a_value_that_is_gone_are_the_next_ones() {
        let log = Log::new(&Geometry::new(Bytes::mib(64), Bytes::mib(32), 1)).unwrap();
        let epochs = Epochs::new();
        let store = |len: usize| {
            let coming = log.begin_value(len).unwrap();
            assert_eq!(log.back_value(&epochs, coming, len / 2, u64::MAX), Lent::Done);
            assert_eq!(log.back_value(&epochs, coming, len, u64::MAX), Lent::Done);
            log.check_values();
            log.link_value(coming.apart, KeyHash(7));
            coming.apart
        };
        let all = log.available();
        let first = store(600_000);
        let without = log.available();
        log.retire_value(&epochs, first);
        assert!(0 < log.coming().1);
        log.reclaim_now(&epochs);
        assert_eq!((log.available(), log.values_bytes()), (without, Bytes(0)), "they are kept");
        let second = store(400_000);
        assert_eq!((second.first, log.available()), (first.first, without), "and taken");
        assert_eq!(log.values_bytes().0, 400_000_u64.next_multiple_of(VALUE_PAGE.0));
        log.retire_value(&epochs, second);
        log.reclaim_now(&epochs);
        log.check_values();
        let kept = log.coming().1;
        assert!(log.give_warm_back(1) && (1..kept).contains(&log.coming().1), "the oldest alone");
        assert!(log.give_warm_back(u64::MAX) && !log.give_warm_back(1));
        assert_eq!((log.available(), log.coming()), (all, (0, 0)));
        assert_eq!(log.begin_value(4_096).unwrap().apart.first, 0, "their addresses are free");
    }
}
