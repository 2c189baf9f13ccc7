//! Learnt hit density: what items of a class may expect at an age, from how such items ended; what expects least per byte
//! goes first.
//!
//! | paper | here |
//! |---|---|
//! | hits and evictions at age a | `hits` and `ends` per class and step of age, decayed |
//! | class | the use counter, in eight steps |
//! | hit density at age a | the most hits per tick, over all times for which an item of that age could be kept |
//! | explorers | one key in `EXPLORERS` stays for `EXPLORES_TICKS`, or no age would be known that nothing is kept for |
//! | before anything is known | where few have been, the density of the rank `density` stands in, scaled to fit the tenant |
//!
//! Shape:      hits (of look-ups) and ends (of the cleaner) -> counts -> now and then a new model -> hits per tick of an item
//! Invariants: a density is a positive number; a model is made from counts alone, so a replay makes the same ones
//! Units:      ages in ticks of the rank clock; densities in hits per tick
//! Cost:       a hit adds to one counter, without a lock; a model is `CELLS` steps; `HitDensity::BYTES` per tenant so ranked
//! Failure:    counts of hits that come at the same moment may lose some to a new model; it is a sample anyway
//! Source:     Beckmann, Chen and Cidon, LHD: improving cache hit rate by maximizing hit density, NSDI 2018, §3 to 5. We
//!             differ: an eviction says nothing of what would have come later (Kaplan and Meier 1958), so that what is always
//!             evicted young is not taken for what is never used; and an item is not charged for the time after its
//!             best moment to go (Gittins' index)

use super::uses::USES;
use crate::hash::KeyHash;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use std::sync::Arc;
use units::mix64;

/// Steps of the use counter that are told apart.
const CLASSES: usize = 8;
/// The class of each count: the first uses matter most.
const CLASS_OF: [u8; 16] = [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7];
/// The count that stands for a class.
const COUNT_OF: [usize; CLASSES] = [0, 1, 2, 3, 4, 6, 9, 12];
/// Steps of age that are told apart: eight of a tick, then four per octave.
const AGES: usize = 28;
const CELLS: usize = CLASSES * AGES;
/// A model is made after so many ends and hits: one for each two items, at least and at most (guess; the paper's are 2^20).
const EVENTS_PER_ITEM: f32 = 0.5;
const EVENTS: (f32, f32) = (512.0, 65_536.0);
/// What is left of old counts when a model is made (paper: .9 at longer intervals; guess).
const KEPT: f32 = 0.8;
/// What stands in where little is known weighs as much as so many ends (guess).
const STAND_IN: f32 = 32.0;
/// An item is kept for so many ticks at least: about the time until a pass looks at it again (guess; on single streams 8 to 64
/// ticks differ by less than one stream from another).
const HORIZON_TICKS: usize = 16;
/// One key in so many explores (paper: 1 %): with an item of each that is asked for again, what is always evicted young is
/// known to be worth keeping.
const EXPLORERS: u64 = 64;
/// So long: two turnovers of the memory (guess).
const EXPLORES_TICKS: u8 = 128;
/// The stand-in's ticks added to an age (guess; `density` adds more, since it counts uses before an eviction, too).
const SOFTENING_TICKS: f32 = 4.0;

/// The step of an age.
const fn step_of(age: usize) -> usize {
    if age < 8 {
        return age;
    }
    let octave = age.ilog2() as usize;
    8 + (octave - 3) * 4 + ((age >> (octave - 2)) & 3)
}

/// The first age of a step; of the step after the last, where ages end.
const fn start_of(step: usize) -> usize {
    if step < 8 {
        return step;
    }
    let (octave, quarter) = ((step - 8) / 4 + 3, (step - 8) % 4);
    (4 + quarter) << (octave - 2)
}

const _: () = assert!(step_of(255) + 1 == AGES && start_of(AGES) == 256);

#[inline]
fn cell_of(uses: u8, age: u8) -> usize {
    usize::from(CLASS_OF[usize::from(uses & 15)]) * AGES + step_of(usize::from(age))
}

/// Hits per tick by class and step of age.
#[derive(Debug)]
pub(crate) struct Densities([f32; CELLS]);

impl Densities {
    /// Hits per tick that an item may expect.
    #[inline]
    pub(crate) fn of(&self, uses: u8, age: u8) -> f32 {
        self.0[cell_of(uses, age)]
    }

    /// The same of the item of a key: if it explores, more than of any other.
    #[inline]
    pub(crate) fn of_key(&self, key: KeyHash, uses: u8, age: u8) -> f32 {
        let explores = age < EXPLORES_TICKS && mix64(!key.0).is_multiple_of(EXPLORERS);
        if explores { 1.0 } else { self.of(uses, age) }
    }
}

/// Decayed counts and what follows from them.
#[derive(Debug)]
struct Model {
    hits: [f32; CELLS],
    ends: [f32; CELLS],
    densities: Arc<Densities>,
}

/// What one tenant's items told.
#[derive(Debug)]
pub(crate) struct HitDensity {
    /// Since the last model.
    hits: [AtomicU32; CELLS],
    ends: [AtomicU32; CELLS],
    model: Mutex<Model>,
}

impl Default for HitDensity {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU32::new(0));
        Self { hits: zeros(), ends: zeros(), model: Mutex::new(Model::new()) }
    }
}

impl HitDensity {
    /// Memory of one.
    pub(crate) const BYTES: u64 = (size_of::<Self>() + size_of::<Densities>() + 16) as u64;

    /// An item was used that had not been for `age` ticks.
    #[inline]
    pub(crate) fn note_hit(&self, uses: u8, age: u8) {
        self.hits[cell_of(uses, age)].fetch_add(1, Ordering::Relaxed);
    }

    /// An item was evicted that had not been used for `age` ticks.
    pub(crate) fn note_end(&self, uses: u8, age: u8) {
        self.ends[cell_of(uses, age)].fetch_add(1, Ordering::Relaxed);
    }

    /// Begins anew, for another tenant.
    pub(crate) fn forget(&self) {
        let mut model = lock(&self.model);
        for count in self.hits.iter().chain(&self.ends) {
            count.store(0, Ordering::Relaxed);
        }
        *model = Model::new();
    }

    /// The densities in force for a tenant of so many items: of a new model, if enough has happened.
    pub(crate) fn densities(&self, items: u64) -> Arc<Densities> {
        let mut model = lock(&self.model);
        let cells = self.hits.iter().chain(&self.ends);
        let events: f32 = cells.map(|count| count.load(Ordering::Relaxed) as f32).sum();
        if (items as f32 * EVENTS_PER_ITEM).clamp(EVENTS.0, EVENTS.1) <= events {
            let take = |old: &mut [f32; CELLS], new: &[AtomicU32; CELLS]| {
                for (old, new) in old.iter_mut().zip(new) {
                    *old = *old * KEPT + new.swap(0, Ordering::Relaxed) as f32;
                }
            };
            let model = &mut *model;
            take(&mut model.hits, &self.hits);
            take(&mut model.ends, &self.ends);
            model.remake();
        }
        Arc::clone(&model.densities)
    }
}

impl Model {
    /// Nothing is known.
    fn new() -> Self {
        let none = [0.0; CELLS];
        let mut model = Self { hits: none, ends: none, densities: Arc::new(Densities(none)) };
        model.remake();
        model
    }

    /// Densities anew from the counts.
    fn remake(&mut self) {
        let stand_in = self.stand_in();
        let mut densities = [0.0; CELLS];
        for (class, count) in COUNT_OF.into_iter().enumerate() {
            let cells = class * AGES..(class + 1) * AGES;
            let (hits, ends) = (&self.hits[cells.clone()], &self.ends[cells.clone()]);
            let hazards = hazards(hits, ends, stand_in * USES[count]);
            for (step, density) in densities[cells].iter_mut().enumerate() {
                *density = best_density(&hazards, step);
            }
        }
        self.densities = Arc::new(Densities(densities));
    }

    /// Hits per use that foretells them, so that the rank `density` foretells as many hits as there were.
    fn stand_in(&self) -> f32 {
        let (mut hits, mut foretold) = (0.0, 0.0);
        for (cell, (hit, end)) in self.hits.iter().zip(&self.ends).enumerate() {
            let (class, step) = (cell / AGES, cell % AGES);
            let age = f32::midpoint(start_of(step) as f32, start_of(step + 1) as f32);
            hits += hit;
            foretold += (hit + end) * USES[COUNT_OF[class]] * (1.0 + age / SOFTENING_TICKS).ln();
        }
        hits.max(1.0) / foretold.max(1.0)
    }
}

/// Hits per tick in each step of age, of those who are there: an eviction tells nothing of what would have come later. Where
/// few have been, `expected` over the age stands in.
fn hazards(hits: &[f32], ends: &[f32], expected: f32) -> [f32; AGES] {
    let mut hazards = [0.0; AGES];
    let mut later = 0.0;
    for step in (0..AGES).rev() {
        let here = hits[step] + ends[step];
        let width = width_of(step);
        // Who ends later spends all of this step, who ends here half of it.
        let ticks = (later + here / 2.0) * width;
        let weight = STAND_IN * width;
        let stand_in = expected / (start_of(step) as f32 + width / 2.0 + SOFTENING_TICKS);
        hazards[step] = (hits[step] + weight * stand_in) / (ticks + weight);
        later += here;
    }
    hazards
}

/// Hits per tick of an item that is kept from a step on for as long as that is best, or until it is hit.
fn best_density(hazards: &[f32; AGES], from: usize) -> f32 {
    let (mut stay, mut hits, mut ticks, mut best) = (1.0_f32, 0.0, 0.0, 0.0_f32);
    for (step, hazard) in hazards.iter().enumerate().skip(from) {
        let lost = (-hazard * width_of(step)).exp();
        hits += stay * (1.0 - lost);
        ticks += stay * (1.0 - lost) / hazard.max(f32::MIN_POSITIVE);
        stay *= lost;
        if start_of(from) + HORIZON_TICKS <= start_of(step + 1) || step + 1 == AGES {
            best = best.max(hits / ticks.max(f32::MIN_POSITIVE));
        }
    }
    best
}

fn width_of(step: usize) -> f32 {
    (start_of(step + 1) - start_of(step)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_tile_the_ages() {
        for age in 0..256 {
            let step = step_of(age);
            assert!(start_of(step) <= age && age < start_of(step + 1), "{age} in {step}");
        }
        assert!(CLASS_OF.iter().all(|class| usize::from(*class) < CLASSES));
        assert!(COUNT_OF.iter().enumerate().all(|(class, count)| usize::from(CLASS_OF[*count]) == class));
    }

    /// Before anything happened it orders as `density` does: by uses over age.
    #[test]
    fn nothing_known_is_density() {
        let densities = HitDensity::default().densities(10);
        assert!(densities.of(0, 40) < densities.of(0, 4) && densities.of(0, 4) < densities.of(3, 4));
        assert!((1..16).all(|uses| densities.of(uses - 1, 9) <= densities.of(uses, 9)), "{densities:?}");
        assert!((1..=255).all(|age| densities.of(1, age) <= densities.of(1, age - 1)), "{densities:?}");
    }

    /// A loop: all hits come at one age, and the older an item gets the sooner its hit is.
    #[test]
    fn what_comes_back_late_is_worth_more_as_it_ages() {
        let learnt = HitDensity::default();
        for _ in 0..40_000 {
            learnt.note_hit(0, 100);
            learnt.note_end(1, 200);
        }
        let densities = learnt.densities(1_000);
        assert!(densities.of(0, 10) * 3.0 < densities.of(0, 90), "{densities:?}");
        // By hand: from age 10 all hits come some 94 ticks later.
        assert!((0.009..0.012).contains(&densities.of(0, 10)), "{}", densities.of(0, 10));
        // What was never hit, as often as it was seen, is worth next to nothing.
        assert!(densities.of(1, 0) * 10.0 < densities.of(0, 10), "{densities:?}");
    }

    #[test]
    fn old_counts_fade() {
        let learnt = HitDensity::default();
        let mut of_the_old = Vec::new();
        for round in 0..40 {
            for _ in 0..1_000 {
                if round == 0 { learnt.note_hit(5, 2) } else { learnt.note_end(5, 2) }
            }
            of_the_old.push(learnt.densities(0).of(5, 0));
        }
        assert!(of_the_old[39] < of_the_old[0] / 100.0, "{of_the_old:?}");
        assert!(of_the_old.iter().all(|density| 0.0 < *density));
        learnt.forget();
        let unknown = HitDensity::default().densities(0);
        assert!((learnt.densities(0).of(5, 0) - unknown.of(5, 0)).abs() < f32::EPSILON);
    }
}
