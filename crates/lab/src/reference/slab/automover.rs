//! The automover: at each look one class gives a page, to all or to the class with the youngest tail.
//!
//! Units:  looks, of which memcached takes one per second
//! Source: memcached 1.6, slab_automove.c

use super::{COLD, Slab};

/// A page becomes free when a class has so many tenths of a page unused (2.5).
const FREE_TENTHS: u64 = 25;
/// It has so many looks without an eviction and without a new page behind it then (`slab_automove_window` 30).
const CALM_LOOKS: u32 = 30;
/// A source has more pages than this.
const SOURCE_PAGES_MIN: u64 = 2;
/// The youngest tail is younger than so many tenths of the oldest (`slab_automove_ratio` .8).
const AUTOMOVE_TENTHS: u64 = 8;

impl Slab {
    /// One look of the automover.
    pub(super) fn automove(&mut self) {
        self.classes.iter_mut().for_each(|class| class.calm_looks = class.calm_looks.saturating_add(1));
        let is_spare = |&number: &usize| {
            let class = &self.classes[number];
            let spare = class.page_bytes() * FREE_TENTHS / 10;
            CALM_LOOKS < class.calm_looks && 1 < class.pages && spare < self.unused(number)
        };
        if let Some(number) = (0..self.classes.len()).find(is_spare) {
            self.move_page(number, None);
        } else {
            self.level_ages();
        }
        self.classes.iter_mut().for_each(|class| class.evictions = 0);
    }

    /// A page from the class with the oldest tail for the one with the youngest.
    fn level_ages(&mut self) {
        let tail = |number: &usize| self.lists.last(Self::list(*number, COLD)).map(|slot| self.age(slot));
        let all = 0..self.classes.len();
        let sources = all.clone().filter(|&n| SOURCE_PAGES_MIN < self.classes[n].pages);
        let oldest = sources.filter_map(|n| Some((tail(&n)?, n))).max();
        let youngest =
            all.filter(|&n| 0 < self.classes[n].evictions).filter_map(|n| Some((tail(&n)?, n))).min();
        if let (Some((old, from)), Some((young, to))) = (oldest, youngest)
            && young * 10 < old * AUTOMOVE_TENTHS
            && from != to
        {
            self.move_page(from, Some(to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference as _;
    use units::Bytes;

    #[test]
    fn a_page_becomes_free_after_a_window_without_evictions() {
        let mut slab = Slab::new(Bytes(1 << 20), Bytes(1 << 14), true);
        (0..20_500).for_each(|key| assert!(!slab.access(key, 100)));
        let (number, _) = slab.place(100);
        assert!((0..20_500).filter(|&key| slab.remove(key)).count() > 5_000);
        assert_eq!((slab.pages_free, slab.class_held(number)), (0, 0));
        (0..CALM_LOOKS).for_each(|_| slab.automove());
        assert_eq!(slab.pages_free, 0, "not yet");
        slab.automove();
        assert_eq!(slab.pages_free, 1, "one per look");
        slab.automove();
        assert_eq!(slab.pages_free, 2);
        slab.check();
    }
}
