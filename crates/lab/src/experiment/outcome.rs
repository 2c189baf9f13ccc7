//! What became of an experiment: the runs of its seeds joined with the items of its paper.
//!
//! Shape:      items and runs -> one row per item, then a row per number that belongs to no item
//! Invariants: the number of several seeds is their median; its note says how many and how far they lie apart

use super::Experiment;
use super::error::ExperimentError;
use super::index::index;
use super::paper::{Basis, Item};
use super::results::{Plot, Results};
use super::sweep::{Plant, Sweep};
use super::verdict::{Line, Ours, Verdict, judge, line, stray, unanswerable};

/// What became of one experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// `paper/table`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What differs from the paper's set-up, and why.
    pub readme: String,
    /// Seeds run.
    pub seeds: u32,
    /// One row per item, in the order of `paper.csv`, then what belongs to no item.
    pub rows: Vec<Row>,
    /// Curves of the first seed.
    pub plots: Vec<Plot>,
    /// Why it could not be run.
    pub error: Option<String>,
}

/// One number with what the terminal and the page show of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The number.
    pub line: Line,
    /// Where agreement would come from; none for what belongs to no item.
    pub basis: Option<Basis>,
    /// Why this tolerance or predicate.
    pub reason: String,
}

impl Outcome {
    /// How many of its numbers with `basis` have `verdict`. Without a basis: those that belong to no item.
    #[must_use]
    pub fn count(&self, basis: Option<Basis>, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.basis == basis && row.line.verdict == verdict).count()
    }
}

/// The outcome of `runs`, one per seed.
pub(super) fn joined(
    experiment: &Experiment,
    sweep: &Sweep,
    items: &[Item],
    runs: Result<Vec<Results>, ExperimentError>,
) -> Outcome {
    let error = runs.as_ref().err().map(ToString::to_string);
    let runs = runs.unwrap_or_default();
    let (name, plant) = (experiment.name, sweep.plant());
    let mut rows: Vec<Row> = Vec::new();
    for item in items {
        let (ours, remarks) = match &error {
            Some(error) => (Ours::Error(error.clone()), Vec::new()),
            None => ours(item, &runs),
        };
        let line = line(name, plant, item, &ours, &remarks);
        rows.push(Row { line, basis: Some(item.basis), reason: item.reason.clone() });
    }
    rows.extend(strays(name, plant, items, &runs));
    settle(&mut rows, items);
    Outcome {
        name: name.to_owned(),
        title: title(name, sweep.title()),
        readme: experiment.readme.to_owned(),
        seeds: sweep.seeds(),
        rows,
        plots: runs.into_iter().next().map_or_else(Vec::new, |first| first.plots),
        error,
    }
}

/// The outcome of an experiment whose data cannot be read.
pub(super) fn unreadable(experiment: &Experiment, error: &ExperimentError) -> Outcome {
    let error = error.to_string();
    let line = stray(experiment.name, Plant::Model, "data", None, &error);
    Outcome {
        name: experiment.name.to_owned(),
        title: title(experiment.name, ""),
        readme: experiment.readme.to_owned(),
        seeds: 0,
        rows: vec![Row { line, basis: None, reason: String::new() }],
        plots: Vec::new(),
        error: Some(error),
    }
}

/// The title given, or the index's.
fn title(name: &str, given: &str) -> String {
    let known = || index().ok()?.into_iter().find(|entry| entry.name == name).map(|entry| entry.title);
    if given.is_empty() { known().unwrap_or_default() } else { given.to_owned() }
}

/// Gives every row its verdict. The rows begin with those of `items`.
fn settle(rows: &mut [Row], items: &[Item]) {
    let mut lines: Vec<Line> = rows.iter().map(|row| row.line.clone()).collect();
    for (row, item) in rows.iter_mut().zip(items) {
        let more = item.expect.as_ref().and_then(|predicate| unanswerable(predicate, &row.line, &lines));
        row.line.note.extend(more);
    }
    lines = rows.iter().map(|row| row.line.clone()).collect();
    for (row, verdict) in rows.iter_mut().zip(judge(&lines)) {
        row.line.verdict = verdict;
    }
}

/// What the runs say of `item`, with their remarks.
fn ours(item: &Item, runs: &[Results]) -> (Ours, Vec<String>) {
    let of = |list: &[(String, String)]| -> Vec<String> {
        list.iter().filter(|(name, _)| *name == item.name).map(|(_, text)| text.clone()).collect()
    };
    let given: Vec<Vec<f64>> = runs
        .iter()
        .map(|run| run.numbers.iter().filter(|(name, _)| *name == item.name).map(|(_, n)| *n).collect())
        .collect();
    let mut remarks: Vec<String> = Vec::new();
    for remark in runs.iter().flat_map(|run| of(&run.notes)) {
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    let reason = runs.iter().flat_map(|run| of(&run.not_applicable)).next();
    let ours = match (reason, given.iter().map(Vec::len).max()) {
        (Some(_), Some(1..)) => {
            Ours::Error("the run gave a number and says that it does not apply".to_owned())
        }
        (Some(reason), _) => Ours::NotApplicable(reason),
        (None, Some(2..)) => Ours::Error("the run gave several numbers".to_owned()),
        (None, _) if given.iter().any(Vec::is_empty) || given.is_empty() => {
            Ours::Error("the run gave no number".to_owned())
        }
        (None, _) => {
            let (median, spread) = median(given.concat());
            remarks.splice(..0, spread);
            Ours::Number(median)
        }
    };
    (ours, remarks)
}

/// The median of the numbers of several seeds, and how it is said. Of one number: itself. What is not finite wins.
fn median(mut numbers: Vec<f64>) -> (f64, Option<String>) {
    if let Some(&bad) = numbers.iter().find(|number| !number.is_finite()) {
        return (bad, None);
    }
    numbers.sort_by(f64::total_cmp);
    let seeds = numbers.len();
    let middle = f64::midpoint(numbers[(seeds - 1) / 2], numbers[seeds / 2]);
    let (low, high) = (shown(numbers[0]), shown(numbers[seeds - 1]));
    let said = (1 < seeds).then(|| {
        if low == high {
            format!("{seeds} seeds agree")
        } else {
            format!("median of {seeds} seeds, {low} to {high}")
        }
    });
    (middle, said)
}

/// A number in four significant digits, without needless zeros; large whole numbers in full.
#[must_use]
pub fn shown(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude <= 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e15).contains(&magnitude) {
        return format!("{number:.3e}");
    }
    let decimals =
        [1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2, 1e-3].iter().take_while(|&&step| magnitude < step).count();
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Numbers, reasons and remarks of names that are no item.
fn strays(name: &str, plant: Plant, items: &[Item], runs: &[Results]) -> Vec<Row> {
    let mut found: Vec<(String, Option<f64>)> = Vec::new();
    let is_known = |item: &String| items.iter().any(|known| known.name == *item);
    for run in runs {
        let numbers = run.numbers.iter().map(|(item, number)| (item, Some(*number)));
        let texts = run.not_applicable.iter().chain(&run.notes).map(|(item, _)| (item, None));
        for (item, number) in numbers.chain(texts).filter(|(item, _)| !is_known(item)) {
            if !found.iter().any(|(known, _)| known == item) {
                found.push((item.clone(), number));
            }
        }
    }
    let row = |(item, ours): (String, Option<f64>)| Row {
        line: stray(name, plant, &item, ours, "paper.csv has no such item"),
        basis: None,
        reason: String::new(),
    };
    found.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_say_their_spread() {
        for (numbers, expected, said) in [
            (vec![3.0], 3.0, None),
            (vec![3.0, 1.0, 2.0], 2.0, Some("median of 3 seeds, 1 to 3")),
            (vec![4.0, 1.0], 2.5, Some("median of 2 seeds, 1 to 4")),
            (vec![2.0, 2.0, 2.0], 2.0, Some("3 seeds agree")),
        ] {
            let (found, text) = median(numbers);
            assert!((found - expected).abs() < 1e-12);
            assert_eq!(text.as_deref(), said);
        }
        assert!(median(vec![1.0, f64::NAN]).0.is_nan());
    }

    #[test]
    fn numbers_are_shown_in_four_digits() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (97.64, "97.64"),
            (0.012_345, "0.01235"),
            (705_968.0, "705968"),
            (1234.6, "1235"),
            (0.000_001, "1.000e-6"),
        ] {
            assert_eq!(shown(number), expected);
        }
    }
}
