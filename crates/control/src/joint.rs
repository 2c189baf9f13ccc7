//! Memory and bandwidth divided together.
//!
//! Source: Spirit §3 (an auction over both), §4.2 (what is known of a tenant)

use crate::claim::Amount;
use crate::curve::Curve;
use crate::shares::Measured;
use std::sync::Arc;
use units::{Bytes, BytesPerSec};

/// What is measured of a tenant for a joint division.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JointSignal {
    /// Fast memory used.
    pub held: Bytes,
    /// Bandwidth to the slow tier used.
    pub bandwidth: BytesPerSec,
    /// Operations finished.
    pub operations: u64,
    /// How speed depends on both, once something is known.
    pub utility: Option<Utility>,
}

impl JointSignal {
    /// Bytes that lie apart from it, and that it shares with clones of itself only: the points of a curve, the counts of accesses. A table is
    /// its profile's.
    #[must_use]
    pub fn bytes_apart(&self) -> usize {
        match &self.utility {
            Some(Utility::Curve(curve)) => size_of_val(curve.points()),
            Some(Utility::Accesses(accesses)) => size_of_val(accesses.counts()),
            Some(Utility::Table(_)) | None => 0,
        }
    }
}

/// What is known of how a tenant's speed depends on its share.
#[derive(Clone, PartialEq, Debug)]
pub enum Utility {
    /// Misses as a function of fast memory; the slowdown follows from them and the bandwidth used.
    Curve(Curve),
    /// Sampled accesses, from which a curve is fitted.
    Accesses(Accesses),
    /// The speed at every share: a profile.
    Table(Table),
}

/// Sampled accesses by page, with what was measured beside them. A clone shares the counts.
#[derive(Clone, PartialEq, Debug)]
pub struct Accesses {
    counts: Arc<[u32]>,
    page: Bytes,
    pages: u64,
    cached: Bytes,
    miss_ratio: f64,
}

/// Why numbers are no sampled accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessesError {
    /// Nothing was sampled.
    #[error("no page was sampled")]
    None,
    /// A page has a size.
    #[error("a page of no bytes")]
    NoPage,
    /// What was sampled belongs to the working set.
    #[error("{sampled} pages were sampled of a working set of {pages}")]
    MorePagesThanThereAre {
        /// Distinct pages sampled.
        sampled: usize,
        /// The working set.
        pages: u64,
    },
    /// A miss ratio is a number in 0..=1.
    #[error("the measured miss ratio is no ratio in 0..=1")]
    NoRatio,
}

impl Accesses {
    /// Accesses: `counts` per sampled page in any order (zeros are left out), the size of a `page`, the working set in
    /// `pages`, and the `miss_ratio` measured while `cached` bytes were in fast memory.
    ///
    /// # Errors
    /// What no estimator should have to look for.
    pub fn new(
        mut counts: Vec<u32>,
        page: Bytes,
        pages: u64,
        cached: Bytes,
        miss_ratio: f64,
    ) -> Result<Self, AccessesError> {
        counts.retain(|&count| 0 < count);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        match () {
            () if counts.is_empty() => Err(AccessesError::None),
            () if page == Bytes::ZERO => Err(AccessesError::NoPage),
            () if pages < counts.len() as u64 => {
                Err(AccessesError::MorePagesThanThereAre { sampled: counts.len(), pages })
            }
            () if !(0.0..=1.0).contains(&miss_ratio) => Err(AccessesError::NoRatio),
            () => Ok(Self { counts: counts.into(), page, pages, cached, miss_ratio }),
        }
    }

    /// Samples per page, falling, none of them zero.
    #[must_use]
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Size of a page.
    #[must_use]
    pub fn page(&self) -> Bytes {
        self.page
    }

    /// The working set in pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Fast memory while the miss ratio was measured.
    #[must_use]
    pub fn cached(&self) -> Bytes {
        self.cached
    }

    /// The measured miss ratio.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        self.miss_ratio
    }
}

/// The speed of a tenant at equally spaced shares from none to `most`, in any unit: only its own speeds are compared.
/// Linear between the points, constant beyond. A clone shares the speeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    most: Joint,
    rows: usize,
    columns: usize,
    speeds: Arc<[f32]>,
}

/// Why numbers are no table of speeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// A table says something about both only from two rows and two columns on, over a range of both.
    #[error("a table needs two rows, two columns and a range of both")]
    NoRange,
    /// One speed per point.
    #[error("a table of {expected} points was given {given} speeds")]
    Size {
        /// Rows × columns.
        expected: usize,
        /// What came.
        given: usize,
    },
    /// A speed is finite and not below zero.
    #[error("speed {0} of the table is no speed")]
    NoSpeed(usize),
    /// More of either cannot slow down.
    #[error("more of one slows down at point {0} of the table")]
    Falls(usize),
}

impl Table {
    /// A table with `rows` sizes of memory from none to `most.bytes` and `columns` bandwidths from none to
    /// `most.bandwidth`; `speeds` row by row.
    ///
    /// # Errors
    /// The first point that breaks an invariant.
    pub fn new(
        most: Joint,
        rows: usize,
        columns: usize,
        speeds: impl Into<Arc<[f32]>>,
    ) -> Result<Self, TableError> {
        let speeds = speeds.into();
        let no_range = most.bytes == Bytes::ZERO || most.bandwidth == BytesPerSec(0);
        if no_range || rows < 2 || columns < 2 {
            return Err(TableError::NoRange);
        }
        if Some(speeds.len()) != rows.checked_mul(columns) {
            return Err(TableError::Size { expected: rows.saturating_mul(columns), given: speeds.len() });
        }
        if let Some(i) = speeds.iter().position(|s| !(0.0..=f32::MAX).contains(s)) {
            return Err(TableError::NoSpeed(i));
        }
        let falls = |i: &usize| {
            (columns <= *i && speeds[*i] < speeds[*i - columns])
                || (!i.is_multiple_of(columns) && speeds[*i] < speeds[*i - 1])
        };
        match (0..speeds.len()).find(falls) {
            Some(i) => Err(TableError::Falls(i)),
            None => Ok(Self { most, rows, columns, speeds }),
        }
    }

    /// The share at the last row and column.
    #[must_use]
    pub fn most(&self) -> Joint {
        self.most
    }

    /// Sizes of memory.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The speeds, row by row.
    #[must_use]
    pub fn speeds(&self) -> &[f32] {
        &self.speeds
    }

    /// The speed with `memory` and `bandwidth` given as parts of [`Table::most`].
    #[must_use]
    pub fn speed(&self, memory: f64, bandwidth: f64) -> f64 {
        let (row, up) = place(memory, self.rows);
        let (column, right) = place(bandwidth, self.columns);
        let at = |row: usize, column: usize| f64::from(self.speeds[row * self.columns + column]);
        let low = at(row, column) + (at(row, column + 1) - at(row, column)) * right;
        let high = at(row + 1, column) + (at(row + 1, column + 1) - at(row + 1, column)) * right;
        low + (high - low) * up
    }
}

/// The point at or below `part` of `count` points over 0..=1, never the last, and how far it is to the next.
fn place(part: f64, count: usize) -> (usize, f64) {
    let steps = (count - 1) as f64;
    let at = part.clamp(0.0, 1.0) * steps;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in 0..count")]
    let point = (at as usize).min(count - 2);
    (point, at - point as f64)
}

/// A share of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Joint {
    /// Fast memory.
    pub bytes: Bytes,
    /// Bandwidth to the slow tier.
    pub bandwidth: BytesPerSec,
}

impl Measured for Joint {
    fn amount(&self) -> Amount {
        Amount { bytes: self.bytes, bandwidth: self.bandwidth, ..Amount::default() }
    }

    fn divided(amount: Amount) -> Amount {
        Amount { cost: crate::bandwidth::Cost(0), ..amount }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Joint = Joint { bytes: Bytes(100), bandwidth: BytesPerSec(10) };

    #[test]
    fn a_table_is_linear_between_its_points_and_constant_beyond() {
        let table = Table::new(MOST, 2, 3, [0.0, 1.0, 2.0, 1.0, 2.0, 5.0]).unwrap();
        for (memory, bandwidth, speed) in
            [(0.0, 0.0, 0.0), (1.0, 1.0, 5.0), (0.5, 0.5, 1.5), (0.5, 0.75, 2.5), (2.0, -1.0, 1.0)]
        {
            assert!((table.speed(memory, bandwidth) - speed).abs() < 1e-9, "{memory} {bandwidth}");
        }
    }

    #[test]
    fn what_lies_apart_from_a_signal_is_its_own_points_and_no_profile() {
        let curve = Curve::new(vec![(Bytes(0), 1.0), (Bytes(9), 0.5), (Bytes(20), 0.0)]).unwrap();
        let accesses = Accesses::new(vec![3, 1], Bytes(4096), 9, Bytes(0), 0.5).unwrap();
        let table = Table::new(MOST, 2, 2, vec![1.0; 4]).unwrap();
        let apart = |utility| JointSignal { utility, ..JointSignal::default() }.bytes_apart();
        assert_eq!(apart(Some(Utility::Curve(curve))), 3 * size_of::<(Bytes, f64)>());
        assert_eq!(apart(Some(Utility::Accesses(accesses))), 2 * size_of::<u32>());
        assert_eq!((apart(Some(Utility::Table(table))), apart(None)), (0, 0));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let none = Joint::default();
        for (most, rows, columns, speeds, error) in [
            (none, 2, 2, vec![0.0; 4], TableError::NoRange),
            (MOST, 1, 4, vec![0.0; 4], TableError::NoRange),
            (MOST, 2, 2, vec![0.0; 3], TableError::Size { expected: 4, given: 3 }),
            (MOST, 2, 2, vec![0.0, f32::NAN, 1.0, 1.0], TableError::NoSpeed(1)),
            (MOST, 2, 2, vec![0.0, 1.0, 1.0, f32::INFINITY], TableError::NoSpeed(3)),
            (MOST, 2, 2, vec![0.0, -1.0, 1.0, 1.0], TableError::NoSpeed(1)),
            (MOST, 2, 2, vec![0.0, 1.0, 1.0, 0.9], TableError::Falls(3)),
            (MOST, 2, 2, vec![0.5, 1.0, 0.4, 1.0], TableError::Falls(2)),
        ] {
            assert_eq!(Table::new(most, rows, columns, speeds), Err(error));
        }
        assert!(Table::new(MOST, 2, 2, vec![1.0; 4]).is_ok(), "flat: nothing matters to its tenant");
    }

    #[test]
    fn what_are_no_accesses_is_refused() {
        let page = Bytes(4096);
        let of =
            |counts: &[u32], page, pages, ratio| Accesses::new(counts.to_vec(), page, pages, page, ratio);
        assert_eq!(of(&[0, 0], page, 10, 0.5), Err(AccessesError::None));
        assert_eq!(of(&[1], Bytes(0), 10, 0.5), Err(AccessesError::NoPage));
        let more = AccessesError::MorePagesThanThereAre { sampled: 2, pages: 1 };
        assert_eq!(of(&[1, 1], page, 1, 0.5), Err(more));
        for ratio in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            assert_eq!(of(&[1], page, 1, ratio), Err(AccessesError::NoRatio), "{ratio}");
        }
        assert_eq!(of(&[1, 0, 3, 2], page, 9, 0.5).map(|a| a.counts().to_vec()), Ok(vec![3, 2, 1]));
    }
}
