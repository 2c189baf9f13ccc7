//! Ranges of pages: which are free, and where the next fits.
//!
//! Shape:      `take` so many pages in a row -> the first of them; `give` them back
//! Invariants: free ranges neither overlap nor touch: neighbours become one
//! Cost:       a walk over the free ranges per `take`
//! Source:     first fit by address, which among simple orders leaves the fewest holes (Knuth, TAOCP 1, 2.5)

use std::collections::BTreeMap;

/// The free ones among so many pages.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// First page -> pages.
    free: BTreeMap<u32, u32>,
}

impl Extents {
    /// So many pages, all free.
    pub(crate) fn new(pages: u32) -> Self {
        Self { free: (0 < pages).then_some((0, pages)).into_iter().collect() }
    }

    /// Takes so many pages in a row; none if nowhere are as many.
    pub(crate) fn take(&mut self, pages: u32) -> Option<u32> {
        let (&first, &found) = self.free.iter().find(|(_, found)| pages <= **found)?;
        self.free.remove(&first);
        if pages < found {
            self.free.insert(first + pages, found - pages);
        }
        Some(first)
    }

    /// Takes so many pages in a row out of the free ones around `page`, from there on if they suffice; none if they are too few.
    pub(crate) fn take_near(&mut self, page: u32, pages: u32) -> Option<u32> {
        let (start, end) =
            self.free.range(..=page).next_back().map(|(start, len)| (*start, *start + *len))?;
        if end <= page || end - start < pages {
            return None;
        }
        let first = page.min(end - pages);
        self.take_at(first, pages);
        Some(first)
    }

    /// Takes these pages.
    ///
    /// # Panics
    /// If some of them are not free.
    pub(crate) fn take_at(&mut self, first: u32, pages: u32) {
        let around = self.free.range(..=first).next_back().map(|(start, len)| (*start, *start + *len));
        let (start, end) =
            around.filter(|(_, end)| first + pages <= *end).expect("pages are taken where they are free");
        self.free.remove(&start);
        for (from, to) in [(start, first), (first + pages, end)] {
            if from < to {
                self.free.insert(from, to - from);
            }
        }
    }

    /// Gives pages back that were taken.
    ///
    /// # Panics
    /// If some of them are free.
    pub(crate) fn give(&mut self, first: u32, pages: u32) {
        let (mut start, mut end) = (first, first + pages);
        if let Some((&before, &len)) = self.free.range(..=first).next_back() {
            assert!(before + len <= first, "pages are given back once");
            if before + len == first {
                start = before;
            }
        }
        if let Some((&after, &len)) = self.free.range(first..).next() {
            assert!(end <= after, "pages are given back once");
            if end == after {
                self.free.remove(&after);
                end = after + len;
            }
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn neighbours_become_one() {
        let mut extents = Extents::new(10);
        let [a, b, c] = [3, 3, 4].map(|pages| extents.take(pages).unwrap());
        assert_eq!((a, b, c, extents.take(1)), (0, 3, 6, None));
        extents.give(a, 3);
        extents.give(c, 4);
        assert_eq!(extents.take(5), None, "there is a hole, and b");
        extents.give(b, 3);
        assert_eq!(extents.free, BTreeMap::from([(0, 10)]));
    }

    #[test]
    fn pages_are_taken_where_they_are() {
        let mut extents = Extents::new(10);
        extents.take_at(4, 2);
        assert_eq!(extents.free, BTreeMap::from([(0, 4), (6, 4)]));
        extents.take_at(0, 4);
        extents.take_at(9, 1);
        assert_eq!(extents.free, BTreeMap::from([(6, 3)]));
    }

    #[test]
    fn pages_near_another_are_had_where_the_free_ones_around_it_suffice() {
        let mut extents = Extents::new(20);
        extents.take_at(8, 2);
        assert_eq!(
            [extents.take_near(9, 1), extents.take_near(2, 9), extents.take_near(3, 2)],
            [None, None, Some(3)]
        );
        assert_eq!(extents.take_near(19, 4), Some(16), "back from the end");
        assert_eq!(extents.free, BTreeMap::from([(0, 3), (5, 3), (10, 6)]));
    }

    #[test]
    #[should_panic(expected = "where they are free")]
    fn taking_what_is_taken_is_noticed() {
        let mut extents = Extents::new(10);
        extents.take_at(4, 2);
        extents.take_at(5, 2);
    }

    #[test]
    #[should_panic(expected = "once")]
    fn giving_twice_is_noticed() {
        let mut extents = Extents::new(10);
        let first = extents.take(3).unwrap();
        extents.give(first, 3);
        extents.give(first, 3);
    }

    #[test]
    fn no_page_is_ever_given_to_two() {
        let mut rng = Rng::new(1);
        let mut extents = Extents::new(500);
        let mut taken: Vec<(u32, u32)> = Vec::new();
        for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
            if rng.index(2) == 0 && !taken.is_empty() {
                let (first, pages) = taken.swap_remove(rng.index(taken.len()));
                extents.give(first, pages);
            } else if let Some(first) = extents.take(1) {
                extents.give(first, 1);
                let pages = u32::try_from(1 + rng.index(40)).unwrap();
                let Some(first) = extents.take(pages) else { continue };
                let overlaps = |&(other, len): &(u32, u32)| first < other + len && other < first + pages;
                assert!(!taken.iter().any(overlaps) && first + pages <= 500);
                taken.push((first, pages));
            }
        }
        taken.into_iter().for_each(|(first, pages)| extents.give(first, pages));
        assert_eq!(extents.free, BTreeMap::from([(0, 500)]));
    }
}
