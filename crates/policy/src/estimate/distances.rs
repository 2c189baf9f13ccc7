//! Look-ups by reuse distance, in buckets whose width grows with the distance.
//!
//! Invariants: only octaves between the nearest and the farthest distance take memory; of the newest look-ups the octave is known
//! Units:      bytes; a weight is the look-ups that a sample stands for

use super::quantile::bucket_of;

/// Buckets that are added at once.
pub(super) const OCTAVE: usize = 32;

/// Look-ups by reuse distance: only octaves between the nearest and the farthest take memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    first: usize,
    weights: Box<[f32]>,
    /// Of these, the newest, by octave.
    newest: Box<[f32]>,
}

impl Histogram {
    /// Adds a look-up.
    pub(super) fn add(&mut self, distance: u64, weight: f64) {
        let bucket = bucket_of(distance);
        let octave = bucket - bucket % OCTAVE;
        if self.weights.is_empty() {
            self.first = octave;
        }
        let (first, end) = (self.first, self.first + self.weights.len());
        if octave < first || end <= octave {
            let octaves = (end.max(octave + OCTAVE) - first.min(octave)) / OCTAVE;
            let before = (first - first.min(octave)) / OCTAVE;
            self.weights = moved(&self.weights, before * OCTAVE, octaves * OCTAVE);
            self.newest = moved(&self.newest, before, octaves);
            self.first = first.min(octave);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a count; single precision is enough for parts of it"
        )]
        let weight = weight as f32;
        self.weights[bucket - self.first] += weight;
        self.newest[(bucket - self.first) / OCTAVE] += weight;
    }

    /// Buckets that are not empty, with their weights.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (usize, f64)> {
        let numbered = self.weights.iter().enumerate().filter(|(_, weight)| 0.0 < **weight);
        numbered.map(|(i, weight)| (self.first + i, f64::from(*weight)))
    }

    /// Halves all weights.
    pub(super) fn fade(&mut self) {
        self.weights.iter_mut().chain(&mut self.newest).for_each(|weight| *weight /= 2.0);
    }

    /// How far the newest look-ups are from those before: the largest part of either that comes at or below an octave in which so many
    /// fewer of the other do (the statistic of Kolmogorov and Smirnov). Of each, those that no sample stands for, and all, first ones
    /// included: the former come at some of the nearest distances, so that as many say nothing while fewer are counted of one of the two.
    pub(super) fn turned_by(&self, newest: (f64, f64), before: (f64, f64)) -> f64 {
        let unknown = (newest.0 / newest.1).abs().max((before.0 / before.1).abs());
        let (mut most, mut of_newest, mut of_before) = (0.0_f64, newest.0, before.0);
        for (weights, new) in self.octaves() {
            of_newest += new;
            of_before += weights - new;
            let (of_newest, of_before) = (of_newest / newest.1, of_before / before.1);
            let doubt = if of_newest.min(of_before) < unknown { unknown } else { 0.0 };
            most = most.max((of_newest - of_before).abs() - doubt);
        }
        most
    }

    /// The newest become part of what is known.
    pub(super) fn end_newest(&mut self) {
        self.newest.fill(0.0);
    }

    /// Keeps the newest alone: of each octave as many as they are, divided as all were.
    pub(super) fn keep_newest(&mut self) {
        for (weights, new) in self.weights.chunks_mut(OCTAVE).zip(&self.newest) {
            let all: f32 = weights.iter().sum();
            let part = if 0.0 < all { new / all } else { 0.0 };
            weights.iter_mut().for_each(|weight| *weight *= part);
        }
    }

    /// Weights by octave, all and the newest.
    fn octaves(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.weights.chunks(OCTAVE).map(|weights| f64::from(weights.iter().sum::<f32>()));
        all.zip(self.newest.iter().map(|new| f64::from(*new)))
    }

    /// Memory of the weights.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.weights) + size_of_val(&*self.newest)
    }
}

/// So many weights with those that there are from `before` on.
fn moved(weights: &[f32], before: usize, len: usize) -> Box<[f32]> {
    let mut moved = vec![0.0; len];
    moved[before..before + weights.len()].copy_from_slice(weights);
    moved.into_boxed_slice()
}
