//! LHD's model: what a class of items may expect at an age, from how its items ended.
//!
//! | paper | here |
//! |---|---|
//! | hits and evictions at age a | `hits[a]`, `evictions[a]`, decayed |
//! | hit density at age a | events at a or later that are hits ÷ the time that all those take from a on |
//!
//! Cost:   O(ages) per model
//! Source: Beckmann, Chen and Cidon, NSDI 2018, §3.3 and §4.2 (16 classes, decay .9)

/// Steps of age that are told apart (as in the authors' implementation).
pub(super) const AGES: usize = 20_000;
/// Classes (§4.2).
const CLASSES: usize = 16;
/// What is left of old counts when a model is made (§4.4).
const DECAY: f64 = 0.9;
/// Below so many events nothing is known of an age: what decay leaves of one after 110 models (guess).
const EVENTS_MIN: f64 = 1e-5;

/// One class.
#[derive(Debug)]
pub(super) struct Class {
    hits: Vec<f64>,
    evictions: Vec<f64>,
    densities: Vec<f64>,
}

/// All classes. Before anything is known, young and recently hit is good.
pub(super) fn classes() -> Vec<Class> {
    let class = |number: usize| Class {
        hits: vec![0.0; AGES],
        evictions: vec![0.0; AGES],
        densities: (0..AGES).map(|age| (number + 1) as f64 / (age + 1) as f64).collect(),
    };
    (0..CLASSES).map(class).collect()
}

impl Class {
    /// The class of an item whose last two ages sum to `ages` steps: 0 is out of range, each next one half as old.
    pub(super) fn number(ages: u64) -> usize {
        let halvings = (0..CLASSES - 1).take_while(|&halvings| ages << halvings < AGES as u64);
        halvings.count()
    }

    pub(super) fn density(&self, age: usize) -> f64 {
        self.densities[age]
    }

    pub(super) fn note_hit(&mut self, age: usize) {
        self.hits[age] += 1.0;
    }

    pub(super) fn note_eviction(&mut self, age: usize) {
        self.evictions[age] += 1.0;
    }

    /// Makes a step of age twice as long.
    pub(super) fn coarsen(&mut self) {
        for counts in [&mut self.hits, &mut self.evictions] {
            let pairs: Vec<f64> = counts.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
            counts.fill(0.0);
            counts[..pairs.len()].copy_from_slice(&pairs);
        }
    }

    /// Densities anew from the counts; then the counts lose weight.
    pub(super) fn remodel(&mut self) {
        let (mut hits, mut events, mut lifetime) = (0.0, 0.0, 0.0);
        for age in (0..AGES).rev() {
            hits += self.hits[age];
            events += self.hits[age] + self.evictions[age];
            lifetime += events;
            self.densities[age] = if EVENTS_MIN < events { hits / lifetime } else { 0.0 };
        }
        for counts in [&mut self.hits, &mut self.evictions] {
            counts.iter_mut().for_each(|count| *count *= DECAY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_density_worked_by_hand() {
        let mut class = classes().remove(0);
        class.note_hit(0);
        class.note_hit(2);
        class.note_eviction(3);
        class.remodel();
        // From age 2: one hit; two events leave after 1 and 2 steps. From age 0: two hits in 1 + 3 + 4 steps.
        for (age, density) in [(3, 0.0), (2, 1.0 / 3.0), (1, 1.0 / 5.0), (0, 2.0 / 8.0), (4, 0.0)] {
            assert!((class.density(age) - density).abs() < 1e-9, "{age}: {}", class.density(age));
        }
        class.coarsen();
        class.remodel();
        // Half as many steps: a hit at 0; a hit and an eviction at 1; all of the same lower weight.
        assert!((class.density(0) - 2.0 / 5.0).abs() < 1e-9, "{}", class.density(0));
    }

    #[test]
    fn classes_halve() {
        for (ages, number) in
            [(u64::MAX, 0), (20_000, 0), (19_999, 1), (10_000, 1), (9_999, 2), (2, 14), (1, 15), (0, 15)]
        {
            assert_eq!(Class::number(ages), number, "{ages}");
        }
    }
}
