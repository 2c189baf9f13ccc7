//! What was measured: rows with medians, ranges, ratios and goals, for people and as JSON lines.
//!
//! Invariants: a goal that is not reached, or of which nothing was measured, is a miss, never left out; ratios are taken round by
//!             round, and are 1 where both are 0

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// What a row is measured against.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Goal {
    /// Ours ÷ theirs at most.
    RatioAtMost(f64),
    /// Ours ÷ theirs at least.
    RatioAtLeast(f64),
    /// Ours at most.
    AtMost(f64),
    /// Nothing is judged; for information, beside what is known.
    None(&'static str),
}

/// One measure: a value per round.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: Vec<f64>,
    pub(crate) peer: Option<(&'static str, Vec<f64>)>,
    pub(crate) goal: Goal,
}

/// The middle of some values; the mean of the middle two of an even number; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (len, middle) if len % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

/// Ours ÷ theirs; nothing is as much as nothing.
fn ratio(ours: f64, theirs: f64) -> f64 {
    if [ours, theirs].iter().all(|value| value.abs() <= 0.0) { 1.0 } else { ours / theirs }
}

/// Three significant digits are more than two runs agree on.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Median, and the range where there is one.
fn spread(values: &[f64]) -> String {
    let (low, high) = range(values);
    let middle = number(median(values));
    if values.len() < 2 { middle } else { format!("{middle} ({}-{})", number(low), number(high)) }
}

impl Row {
    /// Ours ÷ theirs, round by round.
    fn ratios(&self) -> Vec<f64> {
        let theirs = self.peer.iter().flat_map(|(_, values)| values);
        self.ours.iter().zip(theirs).map(|(ours, theirs)| ratio(*ours, *theirs)).collect()
    }

    /// Whether the goal is reached; none without a goal.
    pub(crate) fn is_reached(&self) -> Option<bool> {
        let of_some = |values: &[f64], is_good: &dyn Fn(f64) -> bool| {
            Some(
                !values.is_empty() && values.iter().all(|value| value.is_finite()) && is_good(median(values)),
            )
        };
        match self.goal {
            Goal::RatioAtMost(most) => of_some(&self.ratios(), &|ratio| ratio <= most),
            Goal::RatioAtLeast(least) => of_some(&self.ratios(), &|ratio| least <= ratio),
            Goal::AtMost(most) => of_some(&self.ours, &|value| value <= most),
            Goal::None(_) => None,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.is_reached() {
            Some(true) => "ok",
            Some(false) => "miss",
            None => "not judged",
        }
    }

    fn cells(&self) -> [String; 8] {
        let goal = match self.goal {
            Goal::RatioAtMost(most) => format!("<= {most:.2}x"),
            Goal::RatioAtLeast(least) => format!(">= {least:.2}x"),
            Goal::AtMost(most) => format!("<= {}", number(most)),
            Goal::None(known) => known.to_owned(),
        };
        let (peer, theirs, ratio) = match &self.peer {
            Some((name, values)) => ((*name).to_owned(), spread(values), spread(&self.ratios())),
            None => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        };
        let ours = spread(&self.ours);
        [
            self.measure.clone(),
            self.unit.to_owned(),
            ours,
            peer,
            theirs,
            ratio,
            goal,
            self.verdict().to_owned(),
        ]
    }

    /// The row as one object.
    pub(crate) fn to_json(&self) -> Value {
        let goal = match self.goal {
            Goal::RatioAtMost(most) => json!({"ratio_at_most": most}),
            Goal::RatioAtLeast(least) => json!({"ratio_at_least": least}),
            Goal::AtMost(most) => json!({"at_most": most}),
            Goal::None(_) => Value::Null,
        };
        let peer = self.peer.as_ref();
        json!({"measure": self.measure, "unit": self.unit, "ours": median(&self.ours), "ours_rounds": self.ours,
               "peer": peer.map(|(name, _)| name), "theirs": peer.map(|(_, values)| median(values)),
               "theirs_rounds": peer.map(|(_, values)| values),
               "ratio": peer.map(|_| median(&self.ratios())), "goal": goal, "verdict": self.verdict()})
    }
}

/// The table for people.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table.set_header(["measure", "unit", "ours", "peer", "theirs", "ours / theirs", "goal", "verdict"]);
    for row in rows {
        table.add_row(row.cells());
    }
    for column in [2, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: &[f64], theirs: &[f64], goal: Goal) -> Row {
        let peer = Some(("peer", theirs.to_vec()));
        Row { measure: "m".to_owned(), unit: "us", ours: ours.to_vec(), peer, goal }
    }

    #[test]
    fn a_goal_is_judged_by_the_median_of_ratios() {
        let reached = |ours: &[f64], goal| row(ours, &[2.0, 2.0, 4.0], goal).is_reached();
        assert_eq!(reached(&[1.0, 1.0, 9.0], Goal::RatioAtMost(0.5)), Some(true));
        assert_eq!(reached(&[1.1, 1.1, 0.1], Goal::RatioAtMost(0.5)), Some(false));
        assert_eq!(reached(&[3.0, 3.0, 0.1], Goal::RatioAtLeast(1.5)), Some(true));
        assert_eq!(reached(&[2.9, 2.9, 0.1], Goal::RatioAtLeast(1.5)), Some(false));
        assert_eq!(reached(&[1.1, 1.1, 0.1], Goal::AtMost(1.2)), Some(true));
        assert_eq!(reached(&[1.1, 1.1, 0.1], Goal::None("-")), None);
        for goal in [Goal::RatioAtMost(9.0), Goal::RatioAtLeast(0.0), Goal::AtMost(9.0)] {
            assert_eq!(reached(&[], goal), Some(false), "nothing was measured");
            assert_eq!(reached(&[f64::NAN], goal), Some(false));
        }
        assert_eq!(row(&[0.0], &[0.0], Goal::RatioAtMost(1.0)).is_reached(), Some(true));
        assert_eq!(
            row(&[1.0], &[0.0], Goal::RatioAtLeast(1.0)).is_reached(),
            Some(false),
            "of nothing there is no part"
        );
    }

    #[test]
    fn the_middle_is_found() {
        for (values, middle) in [(&[][..], 0.0), (&[3.0], 3.0), (&[3.0, 1.0], 2.0), (&[3.0, 1.0, 2.0], 2.0)] {
            assert!((median(values) - middle).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn a_miss_is_shown_as_a_miss() {
        let text = render(&[row(&[3.0], &[2.0], Goal::RatioAtMost(0.55))]);
        assert!(text.contains("miss") && text.contains("<= 0.55x") && text.contains("1.50"), "{text}");
        let object = row(&[3.0], &[2.0], Goal::AtMost(0.5)).to_json();
        assert_eq!((object["verdict"].as_str(), object["ratio"].as_f64()), (Some("miss"), Some(1.5)));
    }
}
