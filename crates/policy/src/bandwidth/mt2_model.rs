//! What is left of four bandwidths when they are wanted together: a table measured on one machine.
//!
//! Shape:      grid of wanted bandwidths per kind -> part of each kind that is kept -> intensity of the competition
//! Invariants: axes start at zero and rise, every point of the grid has a value, every part is in 0..=1; a kind that was not
//!             measured has zero alone on its axis: it harms nobody and keeps all
//! Units:      bytes per second wanted; parts in 0..=1
//! Cost:       16 corners per look-up
//! Source:     MT² §5.1 ("empirical model": four bandwidths without interference in, four as they run together out). The
//!             paper does not say how it is built; we choose a grid, linear between its points
//! Non-goals:  knowing why; a machine that changes is measured again and gets another id

use control::bandwidth::{Kind, Kinds};
use units::BytesPerSec;

/// Halvings of a search along a line: 2⁻²⁰ of it is finer than any cap.
const HALVINGS: u32 = 20;
/// Points of an axis at most (guess, 9 to 64: MT² prints none): a grid of four such axes has a million points of 32 bytes.
pub const AXIS_POINTS_MAX: usize = 32;

/// A measured table of what competing tenants keep.
#[derive(Clone, PartialEq, Debug)]
pub struct EmpiricalModel {
    id: u32,
    axes: Kinds<Axis>,
    /// Row-major in the order of [`Kind::ALL`].
    kept: Vec<Kinds<f64>>,
}

/// The bandwidths of one kind at which the table was measured, in bytes per second.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis(Vec<f64>);

/// Why a table is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModelError {
    /// An axis needs zero and at least one more point.
    #[error("an axis has {0} points, it needs two")]
    TooFew(usize),
    /// Four axes multiply: each has [`AXIS_POINTS_MAX`] points at most.
    #[error("an axis of {0} points, at most {AXIS_POINTS_MAX} are possible")]
    TooMany(usize),
    /// The first point of an axis is no traffic at all.
    #[error("an axis does not start at zero")]
    NoZero,
    /// Points must rise and be finite.
    #[error("point {0} of an axis does not rise")]
    DoesNotRise(usize),
    /// One value per point of the grid.
    #[error("{have} values for a grid of {need}")]
    Size {
        /// Values given.
        have: usize,
        /// Points of the grid.
        need: usize,
    },
    /// What is kept is a part.
    #[error("value {0} is no part in 0..=1")]
    NoPart(usize),
}

impl Axis {
    /// An axis of these bandwidths.
    ///
    /// # Errors
    /// Fewer than two points or more than [`AXIS_POINTS_MAX`], a first one that is not zero, or points that do not rise.
    pub fn new(points: Vec<f64>) -> Result<Self, ModelError> {
        if points.len() < 2 {
            return Err(ModelError::TooFew(points.len()));
        }
        if AXIS_POINTS_MAX < points.len() {
            return Err(ModelError::TooMany(points.len()));
        }
        if points[0].total_cmp(&0.0).is_ne() {
            return Err(ModelError::NoZero);
        }
        let stays = |&i: &usize| !(points[i].is_finite() && points[i - 1] < points[i]);
        match (1..points.len()).find(stays) {
            Some(i) => Err(ModelError::DoesNotRise(i)),
            None => Ok(Self(points)),
        }
    }

    /// `steps` equal steps from zero to `most`.
    ///
    /// # Errors
    /// No step, as many steps as [`AXIS_POINTS_MAX`] or more, or a `most` of zero.
    pub fn even(most: BytesPerSec, steps: u32) -> Result<Self, ModelError> {
        // Before any of them is written down.
        let points = usize::try_from(steps).unwrap_or(usize::MAX).saturating_add(1);
        if AXIS_POINTS_MAX < points {
            return Err(ModelError::TooMany(points));
        }
        let step = most.0 as f64 / f64::from(steps.max(1));
        Self::new((0..=steps).map(|i| step * f64::from(i)).collect())
    }

    /// The axis of a kind that was not measured: what it does to others, and they to it, is not known.
    #[must_use]
    pub fn unmeasured() -> Self {
        Self(vec![0.0])
    }

    /// The bandwidths.
    #[must_use]
    pub fn points(&self) -> &[f64] {
        &self.0
    }

    fn is_unmeasured(&self) -> bool {
        self.0.len() < 2
    }

    fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    /// Between which points `wanted` lies, how far, and the part of it that the axis covers.
    fn place(&self, wanted: f64) -> (usize, f64, f64) {
        let most = self.most();
        if self.is_unmeasured() {
            return (0, 0.0, 1.0);
        }
        if most <= wanted {
            return (self.0.len() - 2, 1.0, most / wanted);
        }
        let after = self.0.partition_point(|point| *point <= wanted).max(1);
        let (low, high) = (self.0[after - 1], self.0[after]);
        (after - 1, (wanted - low) / (high - low), 1.0)
    }
}

impl EmpiricalModel {
    /// The table `kept`, measured at the points of `axes` on the machine `id` (0: unknown), the last kind varying fastest.
    ///
    /// # Errors
    /// A table of another size than the grid, or a value that is no part.
    pub fn new(id: u32, axes: Kinds<Axis>, kept: Vec<Kinds<f64>>) -> Result<Self, ModelError> {
        let need = axes.iter().map(|(_, axis)| axis.0.len()).product();
        if kept.len() != need {
            return Err(ModelError::Size { have: kept.len(), need });
        }
        let no_part = |kept: &Kinds<f64>| kept.iter().any(|(_, part)| !(0.0..=1.0).contains(part));
        if let Some(at) = kept.iter().position(no_part) {
            return Err(ModelError::NoPart(at));
        }
        Ok(Self { id, axes, kept })
    }

    /// Measures the table: `run` is told what is wanted of each kind at once and returns what each kind got. Where a kind
    /// is not wanted, its part is taken from the next point of its axis: what a first byte of it would keep.
    ///
    /// # Errors
    /// As [`Self::new`], with more than was wanted counted as all of it.
    pub fn measured(
        id: u32,
        axes: Kinds<Axis>,
        mut run: impl FnMut(Kinds<f64>) -> Kinds<f64>,
    ) -> Result<Self, ModelError> {
        let grid = Grid::of(&axes);
        let mut kept: Vec<Kinds<f64>> = (0..grid.size)
            .map(|at| {
                let wanted = Kinds::from_fn(|kind| axes.get(kind).0[grid.index(at, kind)]);
                let got = run(wanted);
                let part = |kind: Kind| got.get(kind) / wanted.get(kind).max(1.0);
                // `min` would take what is no number for all of it.
                Kinds::from_fn(|kind| if 1.0 < part(kind) { 1.0 } else { part(kind) })
            })
            .collect();
        for kind in Kind::ALL {
            let axis = axes.get(kind);
            for at in (0..grid.size).filter(|&at| grid.index(at, kind) == 0) {
                if axis.is_unmeasured() {
                    *kept[at].get_mut(kind) = 1.0;
                    continue;
                }
                *kept[at].get_mut(kind) = *kept[at + grid.strides.get(kind)].get(kind);
            }
        }
        Self::new(id, axes, kept)
    }

    /// Which machine it was measured on, 0 for unknown.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether a kind was measured: a cap on another has no reason here.
    #[must_use]
    pub fn knows(&self, kind: Kind) -> bool {
        !self.axes.get(kind).is_unmeasured()
    }

    /// The most of each kind that was measured, in bytes per second; zero of one that was not.
    #[must_use]
    pub fn most(&self) -> Kinds<f64> {
        Kinds::from_fn(|kind| self.axes.get(kind).most())
    }

    /// The part of each kind that is kept when all of `wanted` is wanted together.
    #[must_use]
    pub fn kept(&self, wanted: Kinds<f64>) -> Kinds<f64> {
        let grid = Grid::of(&self.axes);
        let places = Kinds::from_fn(|kind| self.axes.get(kind).place(wanted.get(kind).max(0.0)));
        let mut kept = Kinds::splat(0.0);
        for corner in 0..16_usize {
            let (mut at, mut weight) = (0, 1.0);
            for (bit, kind) in Kind::ALL.into_iter().enumerate() {
                let (low, part, _) = *places.get(kind);
                let up = corner >> bit & 1;
                at += (low + up) * grid.strides.get(kind);
                weight *= if up == 1 { part } else { 1.0 - part };
            }
            if 0.0 < weight {
                kept = Kinds::from_fn(|kind| kept.get(kind) + weight * self.kept[at].get(kind));
            }
        }
        Kinds::from_fn(|kind| kept.get(kind) * places.get(kind).2)
    }

    /// How hard the competition is: the largest part that a kind in `wanted` loses.
    #[must_use]
    pub fn intensity(&self, wanted: Kinds<f64>) -> f64 {
        let kept = self.kept(wanted);
        let lost = |kind: Kind| if 0.0 < *wanted.get(kind) { 1.0 - kept.get(kind) } else { 0.0 };
        Kind::ALL.into_iter().map(lost).fold(0.0, f64::max)
    }

    /// The largest part of `extra`, in 0..=1, that can be wanted on top of `base` while each kind in `base` keeps
    /// `least`; none if `base` alone does not.
    #[must_use]
    pub fn room(&self, base: Kinds<f64>, extra: Kinds<f64>, least: f64) -> Option<f64> {
        let keeps = |part: f64| {
            let kept = self.kept(Kinds::from_fn(|kind| base.get(kind) + part * extra.get(kind)));
            Kind::ALL.into_iter().all(|kind| *base.get(kind) <= 0.0 || least <= *kept.get(kind))
        };
        if !keeps(0.0) {
            return None;
        }
        if keeps(1.0) {
            return Some(1.0);
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = (low + high) * 0.5;
            if keeps(middle) { low = middle } else { high = middle }
        }
        Some(low)
    }
}

/// How the table lies in memory.
#[derive(Clone, Copy, Debug)]
struct Grid {
    strides: Kinds<usize>,
    counts: Kinds<usize>,
    size: usize,
}

impl Grid {
    fn of(axes: &Kinds<Axis>) -> Self {
        let counts = Kinds::from_fn(|kind| axes.get(kind).0.len());
        let mut strides = Kinds::splat(1);
        let mut size = 1;
        for kind in Kind::ALL.into_iter().rev() {
            *strides.get_mut(kind) = size;
            size *= counts.get(kind);
        }
        Self { strides, counts, size }
    }

    fn index(&self, at: usize, kind: Kind) -> usize {
        at / self.strides.get(kind) % self.counts.get(kind)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A medium that is shared in proportion: the four kinds cost 1, 4, 3 and 10 of 100 per byte.
    pub(crate) fn proportional() -> EmpiricalModel {
        let axes = Kinds {
            dram_read: Axis::even(BytesPerSec(100), 4),
            dram_write: Axis::even(BytesPerSec(24), 4),
            slow_read: Axis::even(BytesPerSec(36), 4),
            slow_write: Axis::even(BytesPerSec(8), 4),
        };
        let axes = Kinds::from_fn(|kind| axes.get(kind).clone().unwrap());
        let run = |wanted: Kinds<f64>| {
            let used = wanted.dram_read
                + 4.0 * wanted.dram_write
                + 3.0 * wanted.slow_read
                + 10.0 * wanted.slow_write;
            Kinds::from_fn(|kind| wanted.get(kind) * (100.0 / used.max(100.0)))
        };
        EmpiricalModel::measured(7, axes, run).unwrap()
    }

    #[test]
    fn the_table_is_met_at_its_points_and_linear_between() {
        let model = proportional();
        let only = |dram_read: f64, slow_write: f64| Kinds { dram_read, slow_write, ..Kinds::splat(0.0) };
        for (wanted, kept) in [
            (only(0.0, 0.0), 1.0),
            (only(100.0, 0.0), 1.0),
            (only(100.0, 4.0), 100.0 / 140.0),
            (only(100.0, 2.0), 100.0 / 120.0),
            (only(100.0, 3.0), (100.0 / 120.0 + 100.0 / 140.0) / 2.0),
            (only(200.0, 0.0), 0.5),
        ] {
            let found = model.kept(wanted).dram_read;
            assert!((found - kept).abs() < 1e-9, "{wanted:?}: {found} for {kept}");
        }
        assert!((model.intensity(only(100.0, 4.0)) - 40.0 / 140.0).abs() < 1e-9);
        assert!(model.intensity(only(50.0, 4.0)) < 1e-9);
    }

    #[test]
    fn what_was_not_measured_harms_nobody_and_keeps_all() {
        let axis = |most: u64| Axis::even(BytesPerSec(most), 2).unwrap();
        let axes = Kinds {
            dram_read: Axis::unmeasured(),
            dram_write: Axis::unmeasured(),
            slow_read: axis(36),
            slow_write: axis(8),
        };
        let run = |wanted: Kinds<f64>| {
            let used = wanted.slow_read + 4.0 * wanted.slow_write;
            Kinds::from_fn(|kind| wanted.get(kind) * (36.0 / used.max(36.0)))
        };
        let model = EmpiricalModel::measured(0, axes, run).unwrap();
        let known = Kinds::from_fn(|kind| model.knows(kind));
        assert_eq!(known, Kinds { slow_read: true, slow_write: true, ..Kinds::default() });
        assert!(model.most().dram_read.abs() < 1e-9);
        let alone = Kinds { slow_read: 36.0, slow_write: 8.0, ..Kinds::splat(0.0) };
        let beside = Kinds { dram_read: 1e12, dram_write: 1e12, ..alone };
        assert_eq!(model.kept(alone), model.kept(beside));
        assert!((model.kept(beside).dram_read - 1.0).abs() < 1e-9);
        assert!((model.intensity(beside) - 32.0 / 68.0).abs() < 1e-9);
    }

    #[test]
    fn room_is_what_fits_on_top() {
        let model = proportional();
        let base = Kinds { dram_read: 50.0, ..Kinds::splat(0.0) };
        let extra = Kinds { slow_write: 8.0, ..Kinds::splat(0.0) };
        let part = model.room(base, extra, 1.0 - 1e-9).unwrap();
        assert!((part - 0.5).abs() < 0.01, "4 of 8 is the last point of the grid where 50 is kept: {part}");
        assert_eq!(model.room(base, Kinds::splat(0.0), 0.9), Some(1.0));
        let too_much = Kinds::splat(24.0);
        assert_eq!(model.room(too_much, extra, 0.9), None);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (points, error) in [
            (vec![], ModelError::TooFew(0)),
            (vec![0.0], ModelError::TooFew(1)),
            (vec![1.0, 2.0], ModelError::NoZero),
            (vec![f64::NAN, 2.0], ModelError::NoZero),
            (vec![0.0, 2.0, 2.0], ModelError::DoesNotRise(2)),
            (vec![0.0, f64::INFINITY], ModelError::DoesNotRise(1)),
            (vec![0.0, f64::NAN], ModelError::DoesNotRise(1)),
        ] {
            assert_eq!(Axis::new(points), Err(error));
        }
        assert_eq!(Axis::even(BytesPerSec(0), 3), Err(ModelError::DoesNotRise(1)));
        let most = u32::try_from(AXIS_POINTS_MAX).unwrap();
        let even = |steps: u32| Axis::even(BytesPerSec(1_000), steps).map(|axis| axis.points().len());
        assert_eq!(even(most - 1), Ok(AXIS_POINTS_MAX));
        assert_eq!(even(most), Err(ModelError::TooMany(AXIS_POINTS_MAX + 1)));
        assert_eq!(even(u32::MAX), Err(ModelError::TooMany(1 << 32)), "nothing is allocated");
        let many = (0..=most).map(f64::from).collect();
        assert_eq!(Axis::new(many), Err(ModelError::TooMany(AXIS_POINTS_MAX + 1)));
        let axes = || Kinds::from_fn(|_| Axis::new(vec![0.0, 1.0]).unwrap());
        let table = |part: f64, count: usize| EmpiricalModel::new(0, axes(), vec![Kinds::splat(part); count]);
        assert_eq!(table(1.0, 15), Err(ModelError::Size { have: 15, need: 16 }));
        assert_eq!(table(1.1, 16), Err(ModelError::NoPart(0)));
        assert_eq!(table(f64::NAN, 16), Err(ModelError::NoPart(0)));
        assert!(table(1.0, 16).is_ok());
        let broken = EmpiricalModel::measured(0, axes(), |_| Kinds::splat(f64::NAN));
        assert!(matches!(broken, Err(ModelError::NoPart(_))), "{broken:?}");
    }
}
