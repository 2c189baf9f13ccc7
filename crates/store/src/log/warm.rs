//! Pages of values that are gone: kept for the next, since the system clears every page that it maps anew, or given back.
//!
//! Shape:      a value that nobody can look at -> its pages kept, or the oldest that were kept given back -> taken by a value on its way in
//! Invariants: at most so many pages, the newest; none is anybody's
//! Cost:       a walk over the extents kept, which are few

#![allow(unsafe_code, reason = "pages of values that nobody can look at any more go back to the system")]

use super::Log;
use super::values::{PAGE, pages_of, start_of};
use crate::limits::VALUE_PAGE;
use crate::sync::lock;
use std::collections::VecDeque;

/// Extents of pages that cost memory and have no value.
#[derive(Debug, Default)]
pub(super) struct Warm {
    /// First page and pages, oldest first.
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

    /// Keeps an extent. Returns those that are kept no longer, it may be this one.
    pub(super) fn keep(&mut self, first: u32, pages: u32) -> Vec<(u32, u32)> {
        self.extents.push_back((first, pages));
        self.pages += pages;
        let mut dropped = Vec::new();
        while self.most < self.pages
            && let Some(oldest) = self.extents.pop_front()
        {
            self.pages -= oldest.1;
            dropped.push(oldest);
        }
        dropped
    }

    /// Takes so many pages in a row out of the smallest extent that has them, and leaves the rest of it; none if none has.
    pub(super) fn take(&mut self, pages: u32) -> Option<u32> {
        let fits = self.extents.iter().enumerate().filter(|(_, (_, found))| pages <= *found);
        let (at, &(first, found)) = fits.min_by_key(|(_, (_, found))| *found)?;
        self.pages -= pages;
        if pages == found {
            self.extents.remove(at);
        } else {
            self.extents[at] = (first + pages, found - pages);
        }
        Some(first)
    }

    /// Keeps nothing any more. Returns what was kept.
    pub(super) fn drain(&mut self) -> Vec<(u32, u32)> {
        self.pages = 0;
        self.extents.drain(..).collect()
    }
}

/// A value whose pages are to be given back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emptied {
    pub(super) first: u32,
    pub(super) len: u32,
    pub(super) lent: u64,
}

impl Emptied {
    /// An extent that was kept: pages, all of which cost memory.
    fn of((first, pages): (u32, u32)) -> Self {
        Self { first, len: pages * PAGE, lent: u64::from(pages) * VALUE_PAGE.0 }
    }
}

impl Log {
    /// Keeps pages that nobody can look at for the next values, or gives them back.
    pub(super) fn release_values(&self, emptied: &[Emptied]) {
        let mut given = Vec::new();
        let mut pool = lock(&self.pool);
        let book = &mut pool.values;
        for value in emptied {
            let pages = pages_of(value.len).max(1);
            if value.lent == u64::from(pages) * VALUE_PAGE.0 {
                let dropped = book.warm.keep(value.first, pages).into_iter().map(Emptied::of);
                book.giving_back -= 1;
                book.giving_bytes -= value.lent;
                dropped.for_each(|value| {
                    book.giving_back += 1;
                    book.giving_bytes += value.lent;
                    given.push(value);
                });
            } else {
                given.push(*value);
            }
        }
        drop(pool);
        self.give_back(&given);
    }

    /// Gives back what is kept for the next values: there is need of it. Returns whether there was something.
    pub(crate) fn give_warm_back(&self) -> bool {
        let mut pool = lock(&self.pool);
        let warm: Vec<Emptied> = pool.values.warm.drain().into_iter().map(Emptied::of).collect();
        pool.values.giving_back += warm.len();
        pool.values.giving_bytes += warm.iter().map(|value| value.lent).sum::<u64>();
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
            let bytes = usize::try_from(value.lent).unwrap_or(usize::MAX);
            // SAFETY: the value is off the book: no item leads to it, the epochs of all who saw one are past, and nobody
            // has pinned it; its writer is done. Its addresses are given to nobody before they are back below.
            unsafe { region.release(start_of(value.first), bytes) };
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
    fn the_newest_are_kept_and_the_smallest_that_fits_is_taken() {
        let mut warm = Warm::new(10);
        assert_eq!(warm.take(1), None);
        assert_eq!(warm.keep(0, 4), []);
        assert_eq!(warm.keep(10, 6), []);
        assert_eq!(warm.keep(20, 3), [(0, 4)], "13 of 10");
        assert_eq!(warm.take(2), Some(20), "of three, not of six");
        assert_eq!((warm.take(2), warm.pages()), (Some(10), 5));
        assert_eq!(warm.keep(30, 11), [(12, 4), (22, 1), (30, 11)], "larger than all that is kept");
        assert_eq!((warm.drain(), warm.pages()), (vec![], 0));
        assert_eq!(warm.keep(40, 5), []);
        assert_eq!((warm.drain(), warm.take(1)), (vec![(40, 5)], None));
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
        assert!(log.give_warm_back() && !log.give_warm_back());
        assert_eq!((log.available(), log.coming()), (all, (0, 0)));
        assert_eq!(log.begin_value(4_096).unwrap().apart.first, 0, "their addresses are free");
    }
}
