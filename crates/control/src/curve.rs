//! A miss ratio curve: the miss ratio as a function of size.
//!
//! Shape:      points (size, miss ratio) -> a function, linear between them and constant outside
//! Invariants: at least two points; sizes rise strictly; ratios are in 0..=1 and never rise. A flat curve is one: its tenant
//!             gains nothing from memory
//! Cost:       a clone shares the points

use std::sync::Arc;
use units::Bytes;

/// A miss ratio curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    points: Arc<[(Bytes, f64)]>,
}

/// Why points are no curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CurveError {
    /// One point says nothing about sizes.
    #[error("a miss ratio curve needs at least two points, not {0}")]
    TooFew(usize),
    /// Sizes must rise.
    #[error("point {0} of the miss ratio curve is not larger than the one before")]
    SizesDoNotRise(usize),
    /// A ratio is a number in 0..=1.
    #[error("point {0} of the miss ratio curve is no ratio in 0..=1")]
    NoRatio(usize),
    /// More memory cannot mean more misses; [`Curve::smoothed`] is for measured points.
    #[error("the miss ratio rises at point {0} of the curve")]
    Rises(usize),
}

impl Curve {
    /// A curve through exact points.
    ///
    /// # Errors
    /// The first point that breaks an invariant.
    pub fn new(points: impl Into<Arc<[(Bytes, f64)]>>) -> Result<Self, CurveError> {
        let points = points.into();
        check_shape(&points)?;
        match (1..points.len()).find(|&i| points[i - 1].1 < points[i].1) {
            Some(i) => Err(CurveError::Rises(i)),
            None => Ok(Self { points }),
        }
    }

    /// A curve through measured points, whose noise may let it rise: pooled to the nearest curve that does not (least
    /// squares, pool adjacent violators).
    ///
    /// # Errors
    /// The first point that breaks an invariant other than falling.
    pub fn smoothed(mut points: Vec<(Bytes, f64)>) -> Result<Self, CurveError> {
        check_shape(&points)?;
        // Blocks of points with their mean; a block that lies above its predecessor is merged into it.
        let mut blocks: Vec<(f64, usize)> = Vec::with_capacity(points.len());
        for &(_, ratio) in &points {
            blocks.push((ratio, 1));
            while let [.., (mean, count), (next, next_count)] = blocks[..] {
                if next <= mean {
                    break;
                }
                let all = count + next_count;
                let pooled = (mean * count as f64 + next * next_count as f64) / all as f64;
                blocks.truncate(blocks.len() - 2);
                blocks.push((pooled, all));
            }
        }
        let smooth = blocks.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
        for (point, ratio) in points.iter_mut().zip(smooth) {
            point.1 = ratio;
        }
        // Pooled means of a block differ from the next by rounding at most.
        for i in 1..points.len() {
            points[i].1 = points[i].1.min(points[i - 1].1);
        }
        Self::new(points)
    }

    /// The points.
    #[must_use]
    pub fn points(&self) -> &[(Bytes, f64)] {
        &self.points
    }

    /// The miss ratio at `size`: linear between points, constant outside.
    #[must_use]
    pub fn miss_ratio(&self, size: Bytes) -> f64 {
        self.between(self.points.partition_point(|(at, _)| *at <= size), size.0 as f64)
    }

    /// The miss ratio at a size, by the place of the first point beyond it.
    fn between(&self, after: usize, size: f64) -> f64 {
        match (after.checked_sub(1).map(|i| self.points[i]), self.points.get(after)) {
            (Some((low, high_ratio)), Some(&(high, low_ratio))) => {
                let part = (size - low.0 as f64) / (high.0 - low.0) as f64;
                high_ratio + (low_ratio - high_ratio) * part
            }
            (Some((_, ratio)), None) | (None, Some(&(_, ratio))) => ratio,
            (None, None) => 0.0,
        }
    }

    /// The same at sizes that rise, in bytes.
    pub(crate) fn miss_ratios(&self, sizes: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
        let mut after = 0;
        sizes.map(move |size| {
            while self.points.get(after).is_some_and(|(at, _)| at.0 as f64 <= size) {
                after += 1;
            }
            self.between(after, size)
        })
    }
}

fn check_shape(points: &[(Bytes, f64)]) -> Result<(), CurveError> {
    if points.len() < 2 {
        return Err(CurveError::TooFew(points.len()));
    }
    if let Some(i) = points.iter().position(|(_, ratio)| !(0.0..=1.0).contains(ratio)) {
        return Err(CurveError::NoRatio(i));
    }
    match (1..points.len()).find(|&i| points[i].0 <= points[i - 1].0) {
        Some(i) => Err(CurveError::SizesDoNotRise(i)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(points: &[(u64, f64)]) -> Vec<(Bytes, f64)> {
        points.iter().map(|&(size, ratio)| (Bytes(size), ratio)).collect()
    }

    #[test]
    fn a_curve_is_linear_between_its_points_and_constant_outside() {
        let curve = Curve::new(points(&[(10, 0.8), (20, 0.4), (40, 0.4)])).unwrap();
        for (size, ratio) in [(0, 0.8), (10, 0.8), (15, 0.6), (20, 0.4), (30, 0.4), (90, 0.4)] {
            assert!((curve.miss_ratio(Bytes(size)) - ratio).abs() < 1e-12, "{size}");
        }
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        for (bad, error) in [
            (points(&[]), CurveError::TooFew(0)),
            (points(&[(1, 0.5)]), CurveError::TooFew(1)),
            (points(&[(1, 0.5), (1, 0.4)]), CurveError::SizesDoNotRise(1)),
            (points(&[(1, f64::NAN), (2, 0.4)]), CurveError::NoRatio(0)),
            (points(&[(1, 0.5), (2, f64::INFINITY)]), CurveError::NoRatio(1)),
            (points(&[(1, 0.5), (2, -0.1)]), CurveError::NoRatio(1)),
            (points(&[(1, 0.5), (2, 0.6)]), CurveError::Rises(1)),
        ] {
            assert_eq!(Curve::new(bad), Err(error));
        }
        assert!(Curve::new(points(&[(1, 0.5), (2, 0.5)])).is_ok(), "flat: memory gains nothing");
    }

    #[test]
    fn smoothing_pools_what_rises() {
        let curve = Curve::smoothed(points(&[(1, 0.9), (2, 0.5), (3, 0.7), (4, 0.3), (5, 0.31)])).unwrap();
        let ratios: Vec<f64> = curve.points().iter().map(|(_, ratio)| *ratio).collect();
        for (ratio, expected) in ratios.iter().zip([0.9, 0.6, 0.6, 0.305, 0.305]) {
            assert!((ratio - expected).abs() < 1e-12, "{ratios:?}");
        }
    }
}
