//! memcached's memory: slab classes with a segmented LRU each, and the automover between them.
//!
//! Shape:      item -> the class of the least chunk that holds it; free pages go to whoever asks first, then a class evicts
//!             its own; the automover takes a page from the class with the oldest tail for the one with the youngest
//! Invariants: pages of all classes fit the capacity; a class's chunks fit its pages
//! Units:      an item counts the bytes of the chunks that it takes; ages in accesses
//! Cost:       O(1) per access; a page that moves evicts as many items as it has
//! Source:     memcached 1.6 (doc/new_lru.txt, slabs.c, items.c, slab_automove.c), as its defaults are. We differ: a
//!             class without a page gets one from the largest class when none is free (memcached exceeds `-m` for it);
//!             the automover compares ages of tails as they are, not means over its window of 30 looks; time is
//!             accesses; the header and the last chunk of an item of several chunks are charged to the class of the full
//!             ones; keys are part of what is stored in chunks, not of the header's

mod automover;

use super::Reference;
use super::lists::Lists;
use units::Bytes;

/// Lists of a class: HOT, WARM, COLD.
const HOT: u32 = 0;
const WARM: u32 = 1;
const COLD: u32 = 2;
const LISTS: u32 = 3;
/// Hot and warm take so many hundredths of a class (`hot_lru_pct`, `warm_lru_pct`).
const HOT_PERCENT: u64 = 20;
const WARM_PERCENT: u64 = 40;
/// Their tails leave at so many tenths of the age of cold's tail (`hot_max_factor` .2, `warm_max_factor` 2).
const HOT_AGE_TENTHS: u64 = 2;
const WARM_AGE_TENTHS: u64 = 20;
/// `item` of 48 bytes, CAS of 8, a zero after the key; with the line end after the value.
const ITEM: u64 = 48 + 8 + 1;
const HEADER: u64 = ITEM + 2;
/// `item_chunk` of 48 bytes in each chunk of an item of several, the first of which has `item` and no value.
const LINK: u64 = 48;
/// Smallest chunk (`-n 48` and the header of 48), growth of chunks in hundredths (`-f 1.25`), their alignment.
const CHUNK_MIN: u64 = 96;
const GROWTH_PERCENT: u64 = 125;
const ALIGNMENT: u64 = 8;
/// Accesses between two looks of the automover (it looks once a second; guess, untried).
const AUTOMOVE_PERIOD: u64 = 1_000;
/// Bits of an item's use: fetched once, and again.
const FETCHED: u8 = 1;
const ACTIVE: u8 = 2;

/// The simulator.
#[derive(Debug)]
pub struct Slab {
    pages_free: u64,
    pages: u64,
    classes: Vec<Class>,
    lists: Lists,
    now: u64,
    header: u64,
    automove: bool,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    chunk: u64,
    per_page: u64,
    pages: u64,
    /// Evictions since the automover looked last.
    evictions: u64,
    /// Looks of the automover since the last eviction or new page.
    calm_looks: u32,
}

impl Class {
    /// Bytes of the chunks of one page.
    fn page_bytes(&self) -> u64 {
        self.per_page * self.chunk
    }
}

impl Slab {
    /// An empty cache of `capacity` in pages of `page`, half of which is the largest chunk; larger items take several.
    ///
    /// # Panics
    /// If a page is less than two of the smallest chunks.
    #[must_use]
    pub fn new(capacity: Bytes, page: Bytes, automove: bool) -> Self {
        assert!(2 * CHUNK_MIN <= page.0, "a page holds two chunks at least");
        let largest = page.0 / 2;
        let next = |chunk: &u64| {
            let grown = chunk * GROWTH_PERCENT / 100;
            let is_last = largest * 100 / GROWTH_PERCENT <= grown;
            let next = if is_last { largest } else { grown.next_multiple_of(ALIGNMENT) };
            (*chunk < largest).then_some(next)
        };
        let chunks = std::iter::successors(Some(CHUNK_MIN.min(largest)), next);
        Self::of_chunks(capacity, page, chunks.collect(), HEADER, automove)
    }

    /// One class whose items all have `chunk` bytes, header included: what is left is the segmented LRU.
    #[must_use]
    pub fn uniform(capacity: Bytes, chunk: Bytes) -> Self {
        Self::of_chunks(capacity, chunk, vec![chunk.0], 0, false)
    }

    fn of_chunks(capacity: Bytes, page: Bytes, chunks: Vec<u64>, header: u64, automove: bool) -> Self {
        let class =
            |chunk: u64| Class { chunk, per_page: page.0 / chunk, pages: 0, evictions: 0, calm_looks: 0 };
        let classes: Vec<Class> = chunks.into_iter().map(class).collect();
        let pages = capacity.count_of(page);
        let lists = Lists::new(classes.len() * LISTS as usize);
        Self { pages_free: pages, pages, classes, lists, now: 0, header, automove }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let used: u64 = self.classes.iter().map(|class| class.pages).sum();
        assert_eq!(used + self.pages_free, self.pages, "a page is lost");
        for (number, class) in self.classes.iter().enumerate() {
            let pages = class.pages * class.page_bytes();
            assert!(self.class_held(number) <= pages, "a class holds more than its pages");
        }
        self.lists.check();
    }

    /// The class of an item, and the bytes of chunks that it takes.
    fn place(&self, bytes: u32) -> (usize, u64) {
        let bytes = u64::from(bytes) + self.header;
        let number = self.class_for(bytes);
        let chunk = self.classes[number].chunk;
        (number, if bytes <= chunk { chunk } else { self.linked(bytes - self.header.min(ITEM)) })
    }

    /// The class of the least chunk that holds `bytes`, or else of the largest.
    fn class_for(&self, bytes: u64) -> usize {
        let last = self.classes.len() - 1;
        self.classes.partition_point(|class| class.chunk < bytes).min(last)
    }

    /// What `bytes` that fit no chunk take: as many of the largest as they fill, one for the rest, and one for the header.
    fn linked(&self, bytes: u64) -> u64 {
        let chunk_for = |bytes| self.classes[self.class_for(bytes)].chunk;
        let largest = chunk_for(u64::MAX);
        let within = largest.saturating_sub(LINK).max(1);
        let rest = bytes % within;
        let last = if rest == 0 { 0 } else { chunk_for(rest + LINK) };
        bytes / within * largest + last + chunk_for(ITEM + LINK)
    }

    fn list(number: usize, which: u32) -> u32 {
        u32::try_from(number).expect("classes are few") * LISTS + which
    }

    fn class_held(&self, number: usize) -> u64 {
        (HOT..LISTS).map(|which| self.lists.held(Self::list(number, which))).sum()
    }

    /// Bytes of a class's chunks that nobody uses.
    fn unused(&self, number: usize) -> u64 {
        let class = &self.classes[number];
        class.pages * class.page_bytes() - self.class_held(number)
    }

    fn insert(&mut self, key_hash: u64, number: usize, charge: u64) {
        if self.pages * self.classes[number].page_bytes() < charge {
            return;
        }
        while self.unused(number) < charge {
            if !self.take_page(number) && !self.evict(number) && !self.rob(number) {
                return;
            }
        }
        let slot = self.lists.add(Self::list(number, HOT), key_hash, charge);
        self.lists.note(slot, 0, self.now);
        self.balance(number);
    }

    fn take_page(&mut self, number: usize) -> bool {
        let is_free = 0 < self.pages_free;
        if is_free {
            self.pages_free -= 1;
            self.gain_page(number);
        }
        is_free
    }

    fn gain_page(&mut self, number: usize) {
        let class = &mut self.classes[number];
        class.pages += 1;
        class.calm_looks = 0;
    }

    /// Takes a page from the largest other class.
    fn rob(&mut self, number: usize) -> bool {
        let others = (0..self.classes.len()).filter(|&other| other != number);
        let Some(largest) = others.max_by_key(|&other| self.classes[other].pages) else { return false };
        let has_any = 0 < self.classes[largest].pages;
        if has_any {
            self.move_page(largest, Some(number));
        }
        has_any
    }

    /// Takes a page from a class, whose coldest items go until one is unused, and gives it to another or to nobody.
    fn move_page(&mut self, from: usize, to: Option<usize>) {
        while self.unused(from) < self.classes[from].page_bytes() && self.evict(from) {}
        self.classes[from].pages -= 1;
        match to {
            Some(to) => self.gain_page(to),
            None => self.pages_free += 1,
        }
    }

    fn evict(&mut self, number: usize) -> bool {
        let coldest =
            [COLD, HOT, WARM].into_iter().find_map(|which| self.lists.last(Self::list(number, which)));
        if let Some(slot) = coldest {
            self.lists.take_out(slot);
            let class = &mut self.classes[number];
            class.evictions += 1;
            class.calm_looks = 0;
        }
        coldest.is_some()
    }

    fn age(&self, slot: u32) -> u64 {
        self.now - self.lists.item(slot).at
    }

    /// Lets hot and warm shrink to their parts, as memcached's maintainer does; what is active at their ends goes to warm's
    /// head however large they are.
    fn balance(&mut self, number: usize) {
        let held = self.class_held(number);
        for (which, percent, tenths) in
            [(HOT, HOT_PERCENT, HOT_AGE_TENTHS), (WARM, WARM_PERCENT, WARM_AGE_TENTHS)]
        {
            let list = Self::list(number, which);
            while let Some(slot) = self.lists.last(list) {
                let cold_age = self.lists.last(Self::list(number, COLD)).map(|slot| self.age(slot));
                let is_old = cold_age.is_some_and(|age| age * tenths / 10 < self.age(slot));
                let item = self.lists.item(slot);
                let (uses, at) = (item.uses, item.at);
                let is_active = uses & ACTIVE != 0;
                if !is_active && !is_old && self.lists.held(list) <= held * percent / 100 {
                    break;
                }
                self.lists.note(slot, uses & !ACTIVE, at);
                self.lists.put_first(Self::list(number, if is_active { WARM } else { COLD }), slot);
            }
        }
    }

    fn hit(&mut self, slot: u32) {
        let item = self.lists.item(slot);
        let (list, uses, at) = (item.list, item.uses, item.at);
        let number = (list / LISTS) as usize;
        // The first fetch marks it, the second makes it active; only what becomes active gets a new time.
        if uses & FETCHED == 0 {
            self.lists.note(slot, FETCHED, at);
        } else if list % LISTS == COLD {
            self.lists.note(slot, FETCHED, self.now);
            self.lists.put_first(Self::list(number, WARM), slot);
            self.balance(number);
        } else if uses & ACTIVE == 0 {
            self.lists.note(slot, FETCHED | ACTIVE, self.now);
        }
    }
}

impl Reference for Slab {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        self.now += 1;
        let (number, charge) = self.place(bytes);
        let found = self.lists.find(key_hash);
        match found {
            Some(slot) if self.lists.item(slot).charge == charge => self.hit(slot),
            Some(slot) => {
                self.lists.take_out(slot);
                self.insert(key_hash, number, charge);
            }
            None => self.insert(key_hash, number, charge),
        }
        if self.automove && self.now.is_multiple_of(AUTOMOVE_PERIOD) && self.pages_free == 0 {
            self.automove();
        }
        found.is_some()
    }

    /// A new item takes the old one's place, first in HOT and never fetched.
    fn overwrite(&mut self, key_hash: u64, bytes: u32) -> bool {
        let found = self.remove(key_hash);
        self.access(key_hash, bytes);
        found
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.lists.find(key_hash).is_some()
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        self.lists.find(key_hash).inspect(|&slot| self.lists.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        Bytes((0..self.classes.len()).map(|number| self.class_held(number)).sum())
    }

    fn items(&self) -> usize {
        (0..self.classes.len())
            .flat_map(|n| (HOT..LISTS).map(move |w| Self::list(n, w)))
            .map(|l| self.lists.items(l))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    #[test]
    fn chunks_are_those_of_memcached() {
        let slab = Slab::new(Bytes::mib(64), Bytes::mib(1), true);
        let chunks: Vec<u64> = slab.classes.iter().map(|class| class.chunk).collect();
        // `memcached -vv`: 96, 120, 152, 192, 240, 304, 384, 480, 600, 752, ..., 394840, 524288.
        assert_eq!(chunks[..10], [96, 120, 152, 192, 240, 304, 384, 480, 600, 752]);
        assert_eq!((chunks.len(), chunks.last()), (39, Some(&(512 << 10))));
        assert_eq!(slab.place(96 - 59), (0, 96));
        assert_eq!(slab.place(97 - 59), (1, 120));
        // Two of the largest hold 512 KiB - 48 each, the last 98 + 48; a header of 105 beside them.
        assert_eq!(slab.place(1 << 20), (38, (1 << 20) + 152 + 120));
    }

    #[test]
    fn an_item_beyond_half_a_page_takes_full_chunks_and_one_that_fits_the_rest() {
        let slab = Slab::new(Bytes::mib(8), Bytes::kib(128), true);
        let (number, charge) = slab.place(65_600);
        assert_eq!(slab.classes[number].chunk, 64 << 10);
        assert!(65_600 < charge && charge < 70_000, "{charge}");
        let (_, of_two_and_a_half) = slab.place(160 << 10);
        assert!((160 << 10) < of_two_and_a_half && of_two_and_a_half < 180 << 10, "{of_two_and_a_half}");
        // Fifteen of them fit a mebibyte where fifteen times two whole chunks would not.
        let mut slab = Slab::new(Bytes::mib(1), Bytes::kib(128), true);
        (0..15).for_each(|key| assert!(!slab.access(key, 65_600)));
        assert_eq!((slab.items(), slab.held()), (15, Bytes(15 * charge)));
        slab.check();
    }

    #[test]
    fn ten_items_of_one_class_worked_by_hand() {
        let mut slab = Slab::uniform(Bytes(10), Bytes(1));
        let which = |slab: &Slab, key| slab.lists.find(key).map(|slot| slab.lists.item(slot).list);
        (0..10).for_each(|key| assert!(!slab.access(key, 1)));
        assert!(which(&slab, 9) == Some(HOT) && which(&slab, 0) == Some(COLD));
        assert!(slab.access(0, 1));
        assert_eq!(which(&slab, 0), Some(COLD), "fetched once");
        assert!(slab.access(0, 1));
        assert_eq!(which(&slab, 0), Some(WARM), "fetched again");
        assert!(!slab.access(10, 1));
        assert!(slab.contains(0) && !slab.contains(1), "cold's tail goes");
        slab.check();
    }

    #[test]
    fn only_an_item_that_becomes_active_gets_a_new_time() {
        let mut slab = Slab::uniform(Bytes(10), Bytes(1));
        let at = |slab: &Slab, key| slab.lists.find(key).map(|slot| slab.lists.item(slot).at);
        (0..10).for_each(|key| assert!(!slab.access(key, 1)));
        assert!(slab.access(5, 1) && slab.access(5, 1));
        assert_eq!(at(&slab, 5), Some(12), "fetched again in COLD: to WARM, at this time");
        assert!(slab.access(9, 1));
        assert_eq!(at(&slab, 9), Some(10), "the first fetch marks it only");
        assert!(slab.access(9, 1));
        assert_eq!(at(&slab, 9), Some(14));
        assert!(slab.access(1, 1) && slab.access(9, 1));
        assert_eq!((at(&slab, 1), at(&slab, 9)), (Some(2), Some(14)), "what is active keeps its time");
    }

    #[test]
    fn an_item_in_warm_is_as_old_as_its_second_fetch_says() {
        let mut slab = Slab::uniform(Bytes(10), Bytes(1));
        (0..10).for_each(|key| assert!(!slab.access(key, 1)));
        for key in [5, 5, 9, 9, 1] {
            assert!(slab.access(key, 1));
        }
        // Cold's tail is 1 after 0 went: 14 old, for its one fetch gave it no new time; 5 is 4 old, no reason to leave WARM.
        assert!(!slab.access(10, 1));
        assert_eq!(slab.lists.find(5).map(|slot| slab.lists.item(slot).list), Some(WARM));
        slab.check();
    }

    #[test]
    fn a_set_is_a_new_item_and_no_fetch() {
        let mut slab = Slab::uniform(Bytes(10), Bytes(1));
        let item = |slab: &Slab, key| {
            slab.lists.find(key).map(|slot| slab.lists.item(slot)).map(|item| (item.list, item.uses, item.at))
        };
        (0..10).for_each(|key| assert!(!slab.access(key, 1)));
        assert!(slab.access(0, 1) && slab.overwrite(0, 1));
        assert_eq!(item(&slab, 0), Some((HOT, 0, 12)));
        assert!(slab.overwrite(0, 1) && slab.access(0, 1));
        assert_eq!(item(&slab, 0), Some((HOT, FETCHED, 13)), "two sets and one fetch");
        assert!(!slab.overwrite(10, 1) && slab.contains(10));
        slab.check();
    }

    #[test]
    fn what_is_active_at_hots_end_goes_to_warm_though_hot_is_small() {
        let mut slab = Slab::uniform(Bytes(20), Bytes(1));
        let list = |slab: &Slab, key| slab.lists.find(key).map(|slot| slab.lists.item(slot).list);
        (0..20).for_each(|key| assert!(!slab.access(key, 1)));
        assert_eq!((list(&slab, 16), list(&slab, 17)), (Some(HOT), Some(HOT)));
        // Fetched again after it was fetched, 16 is active; without HOT's part being exceeded it leaves as one comes.
        assert!(slab.access(16, 1) && slab.access(16, 1));
        assert!((17..20).all(|key| slab.remove(key)) && !slab.access(30, 1));
        assert_eq!((list(&slab, 16), list(&slab, 30)), (Some(WARM), Some(HOT)));
        slab.check();
    }

    /// Miss ratio after small items filled all pages and large ones are asked for.
    fn misses_after_a_change(automove: bool) -> f64 {
        let mut slab = Slab::new(Bytes::mib(16), Bytes(1 << 18), automove);
        let mut rng = Rng::new(1);
        (0..200_000).for_each(|key| assert!(!slab.access(key, 100)));
        let mut misses = 0_u32;
        for step in 0..200_000 {
            let hit = slab.access(1_000_000 + rng.below(1_000), 10_000);
            misses += u32::from(100_000 <= step && !hit);
            if step % 1_000 == 0 {
                slab.check();
            }
        }
        f64::from(misses) / 100_000.0
    }

    #[test]
    fn without_the_automover_classes_are_calcified() {
        let (without, with) = (misses_after_a_change(false), misses_after_a_change(true));
        assert!(0.9 < without && with < 0.3, "without {without}, with {with}");
    }

    #[test]
    fn any_sizes_and_removals_keep_the_invariants() {
        for seed in 1..=3 {
            let mut rng = Rng::new(seed);
            let mut slab = Slab::new(Bytes(100_000), Bytes(4_096), true);
            for step in 0..50_000 {
                let key = rng.below(rng.clone().below(2_000) + 1);
                let held = slab.contains(key);
                if rng.chance(0.05) {
                    assert_eq!(slab.remove(key), held);
                } else {
                    let bytes = u32::try_from(rng.below(rng.clone().below(6_000) + 1)).unwrap();
                    assert_eq!(slab.access(key, bytes), held);
                }
                if step % 100 == 0 {
                    slab.check();
                }
            }
            assert!(slab.held() <= Bytes(100_000));
        }
    }
}
