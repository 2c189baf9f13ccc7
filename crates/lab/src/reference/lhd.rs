//! LHD: evicts, out of a sample, the item with the least expected hits per byte and time.
//!
//! | paper | here |
//! |---|---|
//! | hit density | `density` by class and age, ÷ the item's charge |
//! | age, coarsened | accesses since the item's last one, in steps of `1 << shift`, `AGES` of them |
//! | class | the sum of the item's last two ages when hit, by powers of two |
//! | explorers | items whose density is one more while their age is within range |
//! | age out of range | the worst density |
//!
//! Shape:      events (hit or eviction at an age, per class) -> decayed counts -> densities, anew every interval
//! Invariants: bytes held and bytes explored are those of the items
//! Units:      ages in accesses
//! Cost:       O(sample) per eviction, O(classes × ages) per interval
//! Source:     Beckmann, Chen and Cidon, LHD: improving cache hit rate by maximizing hit density, NSDI 2018, §3 to 5, and
//!             the rules of the authors' implementation where the paper leaves them open (sample, explorers, ages).
//!             We differ: intervals follow the number of items, as the streams here are shorter than the paper's;
//!             items of all applications are in the same classes; what is out of range is not in the mean of victims

use super::Reference;
use super::hit_density::{AGES, Class, classes};
use super::index::Index;
use units::{Bytes, Rng};

/// Items looked at per eviction: until so many models were made, while items explore, and then (§5.1: 32 are enough; all as the authors').
const SAMPLE_FIRST: usize = 8;
const SAMPLE: usize = 32;
const MODELS_FIRST: u32 = 50;
/// Items that were admitted though their density is below the mean of victims, and are looked at too (as the authors').
const ON_TRIAL: usize = 8;
/// What that mean keeps when a victim is added to it (as the authors').
const MEAN_KEEPS: f64 = 0.9;
/// Of so many items that are admitted or hit one explores (as the authors').
const EXPLORER_PART: u64 = 32;
/// Explorers hold at most one byte in so many, and one item more (as the authors').
const EXPLORED_PART: u64 = 100;
/// What an explorer's density is greater by (as the authors').
const EXPLORER_MORE: f64 = 1.0;
/// Accesses between two models: at least, at most (§4.4: 2^20), and per item (guess).
const INTERVAL: (u64, u64) = (1 << 12, 1 << 20);
const INTERVAL_PER_ITEM: u64 = 2;
/// The range of ages is at least so many times the number of items (as the authors'): who comes back later is not worth a
/// place.
const RANGE_PER_ITEM: u64 = 100;

/// The simulator.
#[derive(Debug)]
pub struct Lhd {
    capacity: u64,
    per_item: u64,
    held: u64,
    now: u64,
    model_due: u64,
    models: u32,
    shift: u32,
    explored: u64,
    classes: Vec<Class>,
    index: Index,
    items: Vec<Item>,
    /// Mean density of victims, the last ones most.
    victims_density: f64,
    on_trial: [u64; ON_TRIAL],
    next_trial: usize,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    key_hash: u64,
    charge: u64,
    last_access: u64,
    /// Ages at its last hit and at the one before: before any hit out of range together, after one its age alone.
    ages: [u64; 2],
    explores: bool,
}

impl Lhd {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes and draws by `seed`.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes, seed: u64) -> Self {
        Self {
            capacity: capacity.0,
            per_item: per_item.0,
            held: 0,
            now: 0,
            model_due: INTERVAL.0,
            models: 0,
            shift: 0,
            explored: 0,
            classes: classes(),
            index: Index::default(),
            items: Vec::new(),
            victims_density: 0.0,
            on_trial: [0; ON_TRIAL],
            next_trial: 0,
            rng: Rng::new(seed),
        }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert!(self.held <= self.capacity, "more is held than the capacity");
        assert_eq!(self.items.len(), self.index.len(), "items and index differ");
        let (mut held, mut explored) = (0, 0);
        for (slot, item) in self.items.iter().enumerate() {
            assert_eq!(self.index.get(&item.key_hash).map(|&s| s as usize), Some(slot), "an item is lost");
            held += item.charge;
            explored += if item.explores { item.charge } else { 0 };
        }
        assert_eq!((held, explored), (self.held, self.explored), "bytes are miscounted");
    }

    fn age(&self, item: &Item) -> usize {
        let age = (self.now - item.last_access) >> self.shift;
        usize::try_from(age).map_or(AGES - 1, |age| age.min(AGES - 1))
    }

    fn class(&self, item: &Item) -> usize {
        Class::number((item.ages[0] >> self.shift).saturating_add(item.ages[1] >> self.shift))
    }

    fn density(&self, slot: usize) -> f64 {
        let item = &self.items[slot];
        let age = self.age(item);
        if age == AGES - 1 {
            return f64::NEG_INFINITY;
        }
        let more = if item.explores { EXPLORER_MORE } else { 0.0 };
        self.classes[self.class(item)].density(age) / item.charge.max(1) as f64 + more
    }

    /// Whether an item that was just admitted or hit explores.
    fn begins_to_explore(&mut self, charge: u64) -> bool {
        let is_early = self.models < MODELS_FIRST;
        let explores =
            is_early && self.rng.below(EXPLORER_PART) == 0 && self.explored < self.capacity / EXPLORED_PART;
        self.explored += if explores { charge } else { 0 };
        explores
    }

    fn hit(&mut self, slot: usize, charge: u64) {
        let item = self.items[slot];
        let (class, age) = (self.class(&item), self.age(&item));
        self.classes[class].note_hit(age);
        self.held = self.held - item.charge + charge;
        self.explored -= if item.explores { item.charge } else { 0 };
        let ages = [self.now - item.last_access, item.ages[0]];
        let explores = self.begins_to_explore(charge);
        self.items[slot] = Item { charge, last_access: self.now, ages, explores, ..item };
        while self.capacity < self.held {
            self.evict();
        }
    }

    fn insert(&mut self, key_hash: u64, charge: u64) {
        if self.capacity < charge {
            return;
        }
        while self.capacity - charge < self.held {
            self.evict();
        }
        let explores = self.begins_to_explore(charge);
        self.held += charge;
        let slot = self.items.len();
        self.index.insert(key_hash, u32::try_from(slot).expect("items are counted in 32 bits"));
        self.items.push(Item { key_hash, charge, last_access: self.now, ages: [0, u64::MAX], explores });
        if !explores && self.density(slot) < self.victims_density {
            self.on_trial[self.next_trial] = key_hash;
            self.next_trial = (self.next_trial + 1) % ON_TRIAL;
        }
    }

    fn evict(&mut self) {
        let sample = if MODELS_FIRST < self.models { SAMPLE } else { SAMPLE_FIRST };
        let mut victim = self.rng.index(self.items.len());
        let mut least = self.density(victim);
        for turn in 1..sample + ON_TRIAL {
            let slot = match self.on_trial.get(turn.wrapping_sub(sample)).map(|key| self.index.get(key)) {
                None => self.rng.index(self.items.len()),
                Some(Some(&slot)) => slot as usize,
                Some(None) => continue,
            };
            let density = self.density(slot);
            if density < least {
                (victim, least) = (slot, density);
            }
        }
        if least.is_finite() {
            self.victims_density = MEAN_KEEPS * self.victims_density + (1.0 - MEAN_KEEPS) * least;
        }
        let item = self.items[victim];
        let (class, age) = (self.class(&item), self.age(&item));
        self.classes[class].note_eviction(age);
        self.take_out(victim);
    }

    fn take_out(&mut self, slot: usize) {
        let item = self.items.swap_remove(slot);
        self.held -= item.charge;
        self.explored -= if item.explores { item.charge } else { 0 };
        self.index.remove(&item.key_hash);
        if let Some(moved) = self.items.get(slot) {
            let slot = u32::try_from(slot).expect("items are counted in 32 bits");
            self.index.insert(moved.key_hash, slot);
        }
    }

    fn remodel(&mut self) {
        let items = self.items.len() as u64;
        self.model_due = self.now + (items * INTERVAL_PER_ITEM).clamp(INTERVAL.0, INTERVAL.1);
        while (AGES as u64) << self.shift < items * RANGE_PER_ITEM {
            self.shift += 1;
            self.classes.iter_mut().for_each(Class::coarsen);
        }
        self.classes.iter_mut().for_each(Class::remodel);
        self.models += 1;
    }
}

impl Reference for Lhd {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        self.now += 1;
        if self.model_due <= self.now {
            self.remodel();
        }
        let charge = u64::from(bytes) + self.per_item;
        let found = self.index.get(&key_hash).map(|&slot| slot as usize);
        match found {
            Some(slot) if self.capacity < charge => self.take_out(slot),
            Some(slot) => self.hit(slot, charge),
            None => self.insert(key_hash, charge),
        }
        found.is_some()
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.index.contains_key(&key_hash)
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        let slot = self.index.get(&key_hash).map(|&slot| slot as usize);
        slot.inspect(|&slot| self.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        Bytes(self.held)
    }

    fn items(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Lru;
    use crate::reference::testing::{hit_ratio_of_a_loop, hit_ratio_of_a_set_under_scans, random_steps};

    #[test]
    fn a_loop_larger_than_the_cache_hits() {
        for seed in 1..=3 {
            let lhd = hit_ratio_of_a_loop(&mut Lhd::new(Bytes(1_000), Bytes(0), seed), 1_500);
            let lru = hit_ratio_of_a_loop(&mut Lru::new(Bytes(1_000), Bytes(0)), 1_500);
            assert!(lru <= 0.0 && 0.5 < lhd && lhd <= 1_000.0 / 1_500.0, "LHD {lhd}, LRU {lru}");
        }
    }

    #[test]
    fn scans_do_not_wash_out_what_is_used() {
        for seed in 1..=3 {
            let lhd = hit_ratio_of_a_set_under_scans(Lhd::new(Bytes(1_000), Bytes(0), seed));
            assert!(0.9 < lhd, "{lhd}");
        }
    }

    #[test]
    fn of_two_that_are_used_alike_the_larger_goes() {
        let mut lhd = Lhd::new(Bytes(100), Bytes(0), 1);
        lhd.access(1, 50);
        lhd.access(2, 45);
        lhd.access(3, 10);
        assert!(!lhd.contains(1) && lhd.contains(2) && lhd.contains(3));
        lhd.check();
    }

    #[test]
    fn who_comes_with_less_than_victims_had_on_the_mean_is_on_trial() {
        let mut lhd = Lhd::new(Bytes(10_000), Bytes(0), 1);
        (0..1_000).for_each(|key| assert!(!lhd.access(key, 10)));
        assert_eq!(lhd.on_trial, [0; ON_TRIAL], "no victim yet");
        // Of what was never hit little is expected, of what was more: newcomers are not worth a place.
        (0..1_000).for_each(|key| assert!(lhd.access(key, 10)));
        (0..10_000).for_each(|_| lhd.classes[0].note_eviction(10_000));
        lhd.classes[1..].iter_mut().for_each(|class| class.note_hit(3_000));
        lhd.classes.iter_mut().for_each(Class::remodel);
        lhd.victims_density = 1e-4;
        (2_000..2_100).for_each(|key| assert!(!lhd.access(key, 10)));
        assert!(lhd.on_trial.iter().any(|&key| 2_000 <= key));
        let admitted = (2_000..2_100).filter(|&key| lhd.contains(key)).count();
        assert!(admitted <= 10, "each makes room for the next, but for explorers: {admitted}");
        lhd.check();
    }

    #[test]
    fn an_explorer_is_one_more_dense_and_may_be_so_again_when_hit() {
        let mut lhd = Lhd::new(Bytes(100_000), Bytes(0), 1);
        (0..10_000).for_each(|key| assert!(!lhd.access(key, 10)));
        let first = lhd.explored;
        assert!(0 < first && first < 100_000 / EXPLORED_PART + 10);
        let slot = lhd.items.iter().position(|item| item.explores).unwrap();
        let explorers = lhd.density(slot);
        lhd.items[slot].explores = false;
        assert!((explorers - lhd.density(slot) - EXPLORER_MORE).abs() < 1e-9);
        lhd.items[slot].explores = true;
        (0..10_000).for_each(|key| assert!(lhd.access(key, 10)));
        assert!(0 < lhd.explored && lhd.explored < 100_000 / EXPLORED_PART + 10, "{}", lhd.explored);
        lhd.check();
    }

    #[test]
    fn a_sample_is_small_until_much_is_known() {
        let draws = |models: u32| {
            let mut lhd = Lhd::new(Bytes(1_000), Bytes(0), 1);
            (0..1_000).for_each(|key| assert!(!lhd.access(key, 1)));
            lhd.models = models;
            let mut rng = lhd.rng.clone();
            lhd.evict();
            (1..100).find(|_| {
                rng.index(1_000);
                rng.clone().below(u64::MAX) == lhd.rng.clone().below(u64::MAX)
            })
        };
        assert_eq!((draws(MODELS_FIRST), draws(MODELS_FIRST + 1)), (Some(SAMPLE_FIRST), Some(SAMPLE)));
    }

    #[test]
    fn who_is_older_than_the_range_is_the_first_to_go() {
        let mut lhd = Lhd::new(Bytes(10), Bytes(0), 1);
        (0..3).for_each(|key| assert!(!lhd.access(key, 1)));
        // At the last age all that was seen were hits: as if nothing were better there.
        lhd.classes.iter_mut().for_each(|class| (0..100).for_each(|_| class.note_hit(AGES - 1)));
        lhd.classes.iter_mut().for_each(Class::remodel);
        lhd.items[0].explores = true;
        lhd.explored = 1;
        lhd.now += AGES as u64;
        lhd.items[2].last_access = lhd.now - 1;
        assert!(lhd.density(0) < lhd.density(2) && lhd.density(1) < lhd.density(2), "explorers included");
        lhd.evict();
        lhd.evict();
        assert!(lhd.contains(2) && lhd.items() == 1);
        lhd.check();
    }

    #[test]
    fn any_sizes_and_removals_keep_the_invariants() {
        random_steps(|capacity, per_item| Lhd::new(capacity, per_item, 1), Lhd::check);
    }
}
