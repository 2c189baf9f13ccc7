//! Where an application's pages are: the chance to find one in memory, in the write cache, compressed, or on the SSD only.
//!
//! Shape:  rates per page, capacities in pages -> ages at which pages leave each form -> chances by place
//! Units:  ages count operations
//! Cost:   three bisections over about 150 classes, some 100 µs
//! Source: Che, Tung and Wang 2002 (an LRU cache keeps what was touched within one characteristic time); the lookup
//!         order write cache, compressed, SSD and what moves where are PolyEMT §3.2 and §4
//! Non-goals: correlation beyond Zipf's law with independent references; Clock's difference from LRU; a page both clean
//!         in the compressed store and dirty in it counts twice
//!
//! Memory keeps pages touched within `memory_age`, the write cache those written within `write_age`. What leaves either
//! (clean pages too) stays compressed for another `compressed_age`; what leaves that, unless it is clean, goes to the SSD.

use super::application::{Application, PageRate};

/// Longest age in operations: "for ever".
const AGE_MAX: f64 = 1e15;
/// Steps of a bisection over the logarithm of an age: from 18 decades to 1e-8 of it.
const BISECTIONS: u32 = 32;

/// Capacities in pages.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Capacities {
    /// DRAM and the tier's memory.
    pub memory: f64,
    /// The write cache.
    pub write_cache: f64,
    /// The compressed store, in pages that fit once compressed.
    pub compressed: f64,
}

/// Chances for a page that an operation touches.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Places {
    /// In memory.
    pub hit: f64,
    /// In a form of the tier: compressed (or, page by page, in the write cache).
    pub near: f64,
    /// On the SSD only.
    pub far: f64,
    /// Not touched for so long that memory and the compressed store have lost it: `far`, or in the write cache.
    pub old: f64,
}

/// Chances for a page that an operation writes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Written {
    /// In the write cache.
    pub hit: f64,
    /// Dirty in the compressed store.
    pub near: f64,
    /// In neither: in the end it costs a write of the SSD.
    pub miss: f64,
}

/// Where pages are.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Residence {
    /// Of pages asked for by popularity.
    pub popular: Places,
    /// Of any page, as scans ask for it.
    pub any: Places,
    /// Of pages that updates write.
    pub written: Written,
    /// Part of the compressed store that is dirty.
    pub dirty_part: f64,
}

impl Residence {
    /// Where the pages of `app` are once caches of these capacities are full.
    pub(super) fn solve(app: &Application, capacity: Capacities) -> Self {
        let fresh = app.new_pages();
        let pages_of = |part: &dyn Fn(&PageRate) -> f64| -> f64 {
            app.page_rates().map(|rate| rate.pages * part(&rate)).sum()
        };
        let memory_age =
            age(capacity.memory, |age| pages_of(&|r| 1.0 - (-r.touched * age).exp()) + fresh * age);
        let write_age =
            age(capacity.write_cache, |age| pages_of(&|r| 1.0 - (-r.written * age).exp()) + fresh * age);
        let ages = Ages { memory: memory_age, write: write_age, compressed: 0.0 };
        let dirty = |age: f64| pages_of(&|r| ages.dirty_compressed(r, age)) + fresh * age;
        let clean = |age: f64| pages_of(&|r| ages.clean_compressed(r, age));
        let compressed = age(capacity.compressed, |age| clean(age) + dirty(age));
        let held = clean(compressed) + dirty(compressed);
        let dirty_part = if 0.0 < held { dirty(compressed) / held } else { 0.0 };
        Self::sum(app, Ages { compressed, ..ages }, dirty_part)
    }

    fn sum(app: &Application, ages: Ages, dirty_part: f64) -> Self {
        let all_pages = app.dataset.records as f64 * app.pages_per_record();
        let mut sum = Self { dirty_part, ..Self::default() };
        for rate in app.page_rates() {
            let (places, written) = (ages.places(&rate), ages.written(&rate));
            sum.popular.add(places, rate.reference);
            sum.any.add(places, rate.pages / all_pages);
            sum.written.hit += written.hit * rate.reference;
            sum.written.near += written.near * rate.reference;
            sum.written.miss += written.miss * rate.reference;
        }
        sum
    }
}

impl Places {
    fn add(&mut self, other: Self, weight: f64) {
        self.hit += other.hit * weight;
        self.near += other.near * weight;
        self.far += other.far * weight;
        self.old += other.old * weight;
    }
}

/// Ages in operations at which pages leave.
#[derive(Clone, Copy, Debug)]
struct Ages {
    memory: f64,
    write: f64,
    compressed: f64,
}

impl Ages {
    /// Chance that a page that memory has lost is not in the write cache either.
    fn unwritten(self, rate: &PageRate) -> f64 {
        (-rate.written * (self.write - self.memory).max(0.0)).exp()
    }

    fn clean_compressed(self, rate: &PageRate, age: f64) -> f64 {
        let lost = (-rate.touched * self.memory).exp();
        lost * (1.0 - (-rate.touched * age).exp()) * self.unwritten(rate)
    }

    fn dirty_compressed(self, rate: &PageRate, age: f64) -> f64 {
        (-rate.written * self.write).exp() * (1.0 - (-rate.written * age).exp())
    }

    fn places(self, rate: &PageRate) -> Places {
        let lost = (-rate.touched * self.memory).exp();
        let old = lost * (-rate.touched * self.compressed).exp();
        let far = old * self.unwritten(rate);
        Places { hit: 1.0 - lost, near: lost - old, far, old }
    }

    fn written(self, rate: &PageRate) -> Written {
        let lost = (-rate.written * self.write).exp();
        let miss = lost * (-rate.written * self.compressed).exp();
        Written { hit: 1.0 - lost, near: lost - miss, miss }
    }
}

/// The age at which a cache of `capacity` pages lets go of a page, if `held` says how many pages are younger than an age.
fn age(capacity: f64, held: impl Fn(f64) -> f64) -> f64 {
    if capacity <= 0.0 {
        return 0.0;
    }
    if held(AGE_MAX) <= capacity {
        return AGE_MAX;
    }
    let (mut low, mut high) = (1e-3_f64.ln(), AGE_MAX.ln());
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if held(middle.exp()) < capacity { low = middle } else { high = middle }
    }
    high.exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ssd::application::{Dataset, Mix};
    use crate::workload::Zipf;
    use std::collections::{BTreeMap, HashMap};
    use units::{Bytes, Rng};

    fn capacities(memory: f64, write_cache: f64, compressed: f64) -> Capacities {
        Capacities { memory, write_cache, compressed }
    }

    #[test]
    fn chances_sum_to_one_and_more_memory_never_finds_less() {
        for letter in ['A', 'B', 'C', 'D', 'E', 'F', 'L'] {
            let app = Application::ycsb(letter);
            let mut before = 0.0;
            for i in 0..=10 {
                let r = Residence::solve(&app, capacities(f64::from(i) * 1e6, 1e6, 1e6));
                assert!((r.popular.hit + r.popular.near + r.popular.old - 1.0).abs() < 1e-9);
                assert!(r.popular.far <= r.popular.old + 1e-12);
                assert!((r.written.hit + r.written.near + r.written.miss - 1.0).abs() < 1e-9);
                assert!(before <= r.popular.hit + 1e-9, "{letter} {i}");
                before = r.popular.hit;
            }
        }
    }

    #[test]
    fn the_miss_ratio_is_that_of_a_simulated_lru() {
        let dataset = Dataset { records: 2_000, pages_per_record: 1, ..Dataset::YCSB };
        let app = Application::new(dataset, Mix::ycsb('C').unwrap(), Bytes(0)).unwrap();
        let zipf = Zipf::new(2_000, 0.99);
        for seed in 1..=3 {
            let mut rng = Rng::new(seed);
            let (mut last, mut order, mut misses) = (HashMap::new(), BTreeMap::new(), 0_u32);
            for now in 0..120_000_u32 {
                let page = zipf.draw(&mut rng);
                match last.insert(page, now) {
                    Some(then) => drop(order.remove(&then)),
                    None if 20_000 <= now => misses += 1,
                    None => {}
                }
                order.insert(now, page);
                if 500 < order.len() {
                    let (_, evicted) = order.pop_first().unwrap();
                    last.remove(&evicted);
                }
            }
            let simulated = f64::from(misses) / 100_000.0;
            let ours = 1.0 - Residence::solve(&app, capacities(500.0, 0.0, 0.0)).popular.hit;
            assert!((ours - simulated).abs() < 0.01, "seed {seed}: {ours} {simulated}");
        }
    }

    #[test]
    fn compression_brings_pages_near() {
        let app = Application::ycsb('A');
        let without = Residence::solve(&app, capacities(7e6, 1e6, 0.0));
        let with = Residence::solve(&app, capacities(7e6, 1e6, 1e6));
        assert!(with.popular.far < without.popular.far && with.written.miss < without.written.miss);
        assert!(0.0 < with.dirty_part && with.dirty_part < 1.0);
        assert!(without.popular.near.abs() < 1e-12, "only the compressed store is near record by record");
    }
}
