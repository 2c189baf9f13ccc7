//! What a run reports: numbers by item, remarks, and curves to look at.
//!
//! Shape:   the run calls `number`, `not_applicable`, `note`, `series` -> `Results`, joined later with the items
//! Failure: nothing here fails; what does not fit the items becomes a miss that says so

use crate::limits::SERIES_POINTS_MAX;

/// The results of one run with one seed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    pub(super) numbers: Vec<(String, f64)>,
    pub(super) not_applicable: Vec<(String, String)>,
    pub(super) notes: Vec<(String, String)>,
    pub(super) plots: Vec<Plot>,
}

/// Curves over one pair of axes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// What runs to the right, with its unit.
    pub x: String,
    /// What runs upwards, with its unit.
    pub y: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points; at most `SERIES_POINTS_MAX`, all finite.
    pub points: Vec<(f64, f64)>,
}

impl Results {
    /// Our number for `item`.
    pub fn number(&mut self, item: impl Into<String>, ours: f64) {
        self.numbers.push((item.into(), ours));
    }

    /// `item` has no number on this plant, for `reason`.
    pub fn not_applicable(&mut self, item: impl Into<String>, reason: impl Into<String>) {
        self.not_applicable.push((item.into(), reason.into()));
    }

    /// A remark on the number of `item`.
    pub fn note(&mut self, item: impl Into<String>, text: impl Into<String>) {
        self.notes.push((item.into(), text.into()));
    }

    /// A curve of the plot `title`. Of more than `SERIES_POINTS_MAX` points every n-th is kept.
    pub fn series(&mut self, title: &str, name: &str, points: &[(f64, f64)]) {
        let step = points.len().div_ceil(SERIES_POINTS_MAX).max(1);
        let finite = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
        let points = points.iter().step_by(step).filter(finite).copied().collect();
        self.plot(title).series.push(Series { name: name.to_owned(), points });
    }

    /// What the axes of the plot `title` show.
    pub fn axes(&mut self, title: &str, x: &str, y: &str) {
        let plot = self.plot(title);
        (plot.x, plot.y) = (x.to_owned(), y.to_owned());
    }

    fn plot(&mut self, title: &str) -> &mut Plot {
        let known = self.plots.iter().position(|plot| plot.title == title);
        let index = known.unwrap_or_else(|| {
            self.plots.push(Plot { title: title.to_owned(), ..Plot::default() });
            self.plots.len() - 1
        });
        &mut self.plots[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_title_share_a_plot_and_stay_small() {
        let mut results = Results::default();
        let long: Vec<(f64, f64)> = (0..3 * SERIES_POINTS_MAX).map(|i| (i as f64, 1.0)).collect();
        results.series("a", "one", &long);
        results.axes("a", "seconds", "GB/s");
        results.series("a", "two", &[(0.0, f64::NAN), (1.0, 2.0)]);
        results.series("b", "one", &[]);
        let counts: Vec<(usize, usize)> =
            results.plots.iter().map(|p| (p.series.len(), p.series[0].points.len())).collect();
        assert_eq!(counts, [(2, SERIES_POINTS_MAX), (1, 0)]);
        assert_eq!(results.plots[0].series[1].points, [(1.0, 2.0)]);
        assert_eq!((&*results.plots[0].x, &*results.plots[0].y), ("seconds", "GB/s"));
    }
}
