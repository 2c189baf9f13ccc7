//! Look-ups by reuse distance, in buckets whose width grows with the distance.
//!
//! Invariants: only octaves between the nearest and the farthest distance take memory
//! Units:      bytes; a weight is the look-ups that a sample stands for

use super::quantile::bucket_of;

/// Buckets that are added at once.
pub(super) const OCTAVE: usize = 32;

/// Look-ups by reuse distance: only octaves between the nearest and the farthest take memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    first: usize,
    weights: Box<[f32]>,
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
            let mut weights = vec![0.0; end.max(octave + OCTAVE) - first.min(octave)];
            let at = first - first.min(octave);
            weights[at..at + self.weights.len()].copy_from_slice(&self.weights);
            self.first = first.min(octave);
            self.weights = weights.into_boxed_slice();
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a count; single precision is enough for parts of it"
        )]
        let weight = weight as f32;
        self.weights[bucket - self.first] += weight;
    }

    /// Buckets that are not empty, with their weights.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (usize, f64)> {
        let numbered = self.weights.iter().enumerate().filter(|(_, weight)| 0.0 < **weight);
        numbered.map(|(i, weight)| (self.first + i, f64::from(*weight)))
    }

    /// Halves all weights.
    pub(super) fn fade(&mut self) {
        self.weights.iter_mut().for_each(|weight| *weight /= 2.0);
    }

    /// Memory of the weights.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.weights)
    }
}
