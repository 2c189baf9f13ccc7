//! The numbers of a paper, each with what decides whether a run agrees with it.
//!
//! Shape:      `paper.csv` -> items; columns item, paper, unit, tolerance, basis, expect, reason
//! Invariants: an item is judged by a tolerance around its number or by a predicate, never by both; one that has
//!             neither is an input and counts for nothing; every item gives its reason; names are unique
//! Failure:    the first malformed field is an error with line and column

use super::error::ExperimentError;
use super::predicate::{Predicate, is_name};
use super::rows::{Field, Rows};
use std::fmt;
use std::str::FromStr;

/// The header of `paper.csv`.
const HEADER: &str = "item,paper,unit,tolerance,basis,expect,reason";

/// One number of a paper, or one predicate on a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Its name: a letter, then letters, digits, `_` and `.`.
    pub name: String,
    /// The paper's number; a predicate may stand without one.
    pub paper: Option<f64>,
    /// The unit of both numbers; empty for ratios.
    pub unit: String,
    /// How far ours may be off, relative to the paper's number: 0.05 is 5 %.
    pub tolerance: Option<f64>,
    /// Where agreement would come from.
    pub basis: Basis,
    /// What is expected, where it is not closeness.
    pub expect: Option<Predicate>,
    /// Why this tolerance or this predicate.
    pub reason: String,
}

/// Where agreement of a number would come from. Only held-out and predicted numbers are evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Basis {
    /// Measured by the paper and used for nothing in the model.
    HeldOut,
    /// Follows from the policy on the model; the model's constants do not aim at it.
    Predicted,
    /// Follows from how the model is built.
    Construction,
    /// The model's constants were chosen to meet it.
    Fitted,
    /// Given to the run.
    Input,
}

impl Basis {
    /// All of them, evidence first.
    pub const ALL: [Self; 5] =
        [Self::HeldOut, Self::Predicted, Self::Construction, Self::Fitted, Self::Input];

    /// Its word in `paper.csv`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::HeldOut => "held-out",
            Self::Predicted => "predicted",
            Self::Construction => "construction",
            Self::Fitted => "fitted",
            Self::Input => "input",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Basis {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::word).join(", ");
        let found = Self::ALL.into_iter().find(|basis| basis.word() == word);
        found.ok_or_else(|| format!("the basis '{word}' is none of {known}"))
    }
}

/// Reads the items of `file`, whose text is `text`.
///
/// # Errors
/// The first fault, with line and column.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Item>, ExperimentError> {
    let rows = Rows::parse(file, text, HEADER)?;
    let mut items: Vec<Item> = Vec::new();
    for row in rows.iter() {
        let item = item(&rows, row)?;
        if items.iter().any(|known| known.name == item.name) {
            return Err(rows.fault(&row[0], format!("the item '{}' stands twice", item.name)));
        }
        items.push(item);
    }
    if items.is_empty() {
        let first = Field { text: String::new(), line: 1, column: 1 };
        return Err(rows.fault(&first, "there is no item below the header"));
    }
    for (row, item) in rows.iter().zip(&items) {
        let known = |name: &str| {
            name == "ours"
                || (name == "paper" && item.paper.is_some())
                || items.iter().any(|i| i.name == name)
        };
        if let Some(name) = item.expect.iter().flat_map(Predicate::names).find(|name| !known(name)) {
            return Err(rows.fault(&row[5], format!("the predicate names '{name}', which is no item")));
        }
    }
    Ok(items)
}

fn item(rows: &Rows<'_>, row: &[Field]) -> Result<Item, ExperimentError> {
    let [name, paper, unit, tolerance, basis, expect, reason] = row else {
        return Err(rows.fault(&row[0], "a row has seven fields"));
    };
    let is_named = name.text.starts_with(|c: char| c.is_ascii_alphabetic()) && name.text.chars().all(is_name);
    if !is_named || ["ours", "paper", "and"].contains(&name.text.as_str()) {
        let what = format!("'{}' is no name of an item: a letter, then letters, digits, _ and .", name.text);
        return Err(rows.fault(name, what));
    }
    let item = Item {
        name: name.text.clone(),
        paper: rows.number(paper)?,
        unit: unit.text.clone(),
        tolerance: rows.number(tolerance)?,
        basis: basis.text.parse().map_err(|what: String| rows.fault(basis, what))?,
        expect: predicate(rows, expect)?,
        reason: reason.text.clone(),
    };
    if item.reason.is_empty() {
        return Err(rows.fault(reason, "the reason is missing"));
    }
    match (item.paper, item.tolerance, &item.expect) {
        (_, Some(_), Some(_)) => {
            Err(rows.fault(tolerance, "an item is judged by its tolerance or by its predicate, not by both"))
        }
        (None, Some(_), _) => Err(rows.fault(paper, "a tolerance needs the paper's number")),
        (_, Some(t), _) if t < 0.0 => Err(rows.fault(tolerance, "the tolerance is below zero")),
        (Some(p), Some(_), _) if p.abs() <= 0.0 => {
            Err(rows.fault(tolerance, "no tolerance is relative to zero; give a predicate"))
        }
        (_, None, None) if item.basis != Basis::Input => {
            Err(rows.fault(tolerance, "without tolerance and predicate the basis must be input"))
        }
        _ => Ok(item),
    }
}

fn predicate(rows: &Rows<'_>, field: &Field) -> Result<Option<Predicate>, ExperimentError> {
    if field.text.is_empty() {
        return Ok(None);
    }
    Predicate::parse(&field.text).map(Some).map_err(|e| rows.fault_inside(field, e.at, e.what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: &str, expected: &str) {
        let text = format!("{HEADER}\nalone,10,GB/s,0.05,fitted,,why\n{row}\n");
        let found = match parse("t.csv", &text) {
            Ok(items) => format!("{:?}", items.last().expect("there are two").name),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{row}");
    }

    #[test]
    fn items_are_read() {
        for row in [
            "a,1.5,,0.05,held-out,,why",
            "a,,,,predicted,ours >= 0.9 * alone,why",
            "a,3,,,construction,\"paper <= ours\",\"why, and why not\"",
            "a,3,,,input,,given",
            "a.b_2,-3,,0,fitted,,exact",
        ] {
            check(row, &format!("{:?}", row.split(',').next().expect("there is a first")));
        }
    }

    #[test]
    fn malformed_items_say_where() {
        let at = "experiments/t.csv:3:";
        for (row, fault) in [
            (
                "1a,1,,0.1,fitted,,why",
                "1: '1a' is no name of an item: a letter, then letters, digits, _ and .",
            ),
            (
                "ours,1,,0.1,fitted,,why",
                "1: 'ours' is no name of an item: a letter, then letters, digits, _ and .",
            ),
            ("alone,1,,0.1,fitted,,why", "1: the item 'alone' stands twice"),
            ("a,one,,0.1,fitted,,why", "3: 'one' is no number"),
            ("a,inf,,0.1,fitted,,why", "3: 'inf' is no number"),
            ("a,1,,-0.1,fitted,,why", "6: the tolerance is below zero"),
            ("a,0,,0.1,fitted,,why", "6: no tolerance is relative to zero; give a predicate"),
            ("a,,,0.1,fitted,,why", "3: a tolerance needs the paper's number"),
            (
                "a,1,,0.1,guess,,why",
                "10: the basis 'guess' is none of held-out, predicted, construction, fitted, input",
            ),
            (
                "a,1,,0.1,fitted,ours < 2,why",
                "6: an item is judged by its tolerance or by its predicate, not by both",
            ),
            ("a,1,,,fitted,,why", "6: without tolerance and predicate the basis must be input"),
            ("a,1,,,fitted,ours < none,why", "14: the predicate names 'none', which is no item"),
            ("a,,,,fitted,ours < paper,why", "13: the predicate names 'paper', which is no item"),
            ("a,,,,fitted,ours ! 2,why", "18: '!' has no meaning here"),
            ("a,1,,0.1,fitted,,", "18: the reason is missing"),
        ] {
            check(row, &format!("{at}{fault}"));
        }
        let empty = parse("t.csv", &format!("{HEADER}\n")).map_err(|e| e.to_string());
        assert_eq!(empty, Err("experiments/t.csv:1:1: there is no item below the header".to_owned()));
    }
}
