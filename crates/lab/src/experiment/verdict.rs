//! Whether a number agrees: decided from paper, ours and tolerance or predicate, and from nothing else.
//!
//! Shape:      an item and the numbers of a run -> `Line`; lines alone -> the same verdicts again
//! Invariants: `ok` is closeness within the tolerance, `shape` a predicate that holds, `miss` all else that has a
//!             criterion; what has none, or does not apply, counts for nothing
//! Failure:    a number that is missing or not finite, or that belongs to no item, is a `miss` that says so

use super::paper::Item;
use super::predicate::Predicate;
use super::sweep::Plant;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Relative slack of a tolerance: decimal numbers are not exact in binary. Far below any tolerance.
const ROUNDING: f64 = 1e-9;

/// What a number says about the paper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Ours is within the tolerance of the paper's.
    Ok,
    /// The predicate holds.
    Shape,
    /// It is not, or it does not.
    Miss,
    /// Nothing is said.
    NotApplicable,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Shape, Self::Miss, Self::NotApplicable];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Shape => "shape",
            Self::Miss => "miss",
            Self::NotApplicable => "not-applicable",
        })
    }
}

/// One number of an experiment: an object of `experiment run --json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// `paper/table`.
    pub experiment: String,
    /// Which number.
    pub item: String,
    /// What ours was measured on.
    pub plant: Plant,
    /// The paper's number.
    pub paper: Option<f64>,
    /// Our number.
    pub ours: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// How far ours may be off, relative to the paper's.
    pub tolerance: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
    /// Parts divided by `; `: the basis, the predicate after `expect `, what is wrong after `error: `, why it does
    /// not apply after `not applicable: `, and remarks.
    pub note: String,
}

/// Divides the parts of a note; a remark never holds it.
const DIVIDER: &str = "; ";
const EXPECT: &str = "expect ";
const ERROR: &str = "error: ";
const NOT_APPLICABLE: &str = "not applicable: ";

/// What a run says of one item.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Ours {
    Number(f64),
    NotApplicable(String),
    Error(String),
}

/// The line of `item`; its verdict is given by [`judge`].
pub(super) fn line(experiment: &str, plant: Plant, item: &Item, ours: &Ours, remarks: &[String]) -> Line {
    let mut note = vec![format!("basis {}", item.basis)];
    note.extend(item.expect.as_ref().map(|predicate| format!("{EXPECT}{predicate}")));
    let number = match ours {
        Ours::Number(number) if number.is_finite() => Some(*number),
        Ours::Number(number) => {
            note.push(format!("{ERROR}the run gave {number}"));
            None
        }
        Ours::NotApplicable(why) => {
            note.push(format!("{NOT_APPLICABLE}{}", one_part(why)));
            None
        }
        Ours::Error(what) => {
            note.push(format!("{ERROR}{}", one_part(what)));
            None
        }
    };
    note.extend(remarks.iter().map(|remark| format!("({})", one_part(remark))));
    Line {
        experiment: experiment.to_owned(),
        item: item.name.clone(),
        plant,
        paper: item.paper,
        ours: number,
        unit: item.unit.clone(),
        tolerance: item.tolerance,
        verdict: Verdict::Miss,
        note: note.join(DIVIDER),
    }
}

/// The line of something that went wrong and belongs to no item.
pub(super) fn stray(experiment: &str, plant: Plant, item: &str, ours: Option<f64>, what: &str) -> Line {
    Line {
        experiment: experiment.to_owned(),
        item: item.to_owned(),
        plant,
        paper: None,
        ours: ours.filter(|number| number.is_finite()),
        unit: String::new(),
        tolerance: None,
        verdict: Verdict::Miss,
        note: format!("{ERROR}{}", one_part(what)),
    }
}

/// The verdicts of the lines of one experiment, from their numbers, tolerances and predicates alone.
#[must_use]
pub fn judge(lines: &[Line]) -> Vec<Verdict> {
    lines.iter().map(|line| judge_line(line, lines)).collect()
}

fn judge_line(line: &Line, all: &[Line]) -> Verdict {
    let parts: Vec<&str> = line.note.split(DIVIDER).collect();
    let begins = |with: &str| parts.iter().any(|part| part.starts_with(with));
    if begins(ERROR) {
        return Verdict::Miss;
    }
    if begins(NOT_APPLICABLE) {
        return Verdict::NotApplicable;
    }
    let expect = parts.iter().find_map(|part| part.strip_prefix(EXPECT));
    match (line.paper, line.ours, line.tolerance, expect) {
        (_, None, ..) => Verdict::Miss,
        (.., Some(text)) => match Predicate::parse(text).map(|predicate| holds(&predicate, line, all)) {
            Ok(true) => Verdict::Shape,
            _ => Verdict::Miss,
        },
        (Some(paper), Some(ours), Some(tolerance), None) => {
            let allowed = paper.abs() * (tolerance + ROUNDING);
            if (ours - paper).abs() <= allowed { Verdict::Ok } else { Verdict::Miss }
        }
        (.., None) => Verdict::NotApplicable,
    }
}

fn holds(predicate: &Predicate, line: &Line, all: &[Line]) -> bool {
    // A name without a number makes no predicate true.
    predicate.holds(&|name| value(name, line, all)).unwrap_or(false)
}

/// The number that `name` means in the predicate of `line`.
fn value(name: &str, line: &Line, all: &[Line]) -> Option<f64> {
    match name {
        "ours" => line.ours,
        "paper" => line.paper,
        _ => all.iter().find(|other| other.item == name)?.ours,
    }
}

/// What to add to the note of `line` if its predicate names a number that no line has.
pub(super) fn unanswerable(predicate: &Predicate, line: &Line, all: &[Line]) -> Option<String> {
    line.ours?;
    let name = predicate.missing(&|name| value(name, line, all))?;
    Some(format!("{DIVIDER}{ERROR}the predicate needs '{name}', which has no number"))
}

/// `text` in one line that does not look like several parts.
fn one_part(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace(';', ",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::paper::parse;

    /// Judges `row` where the item `alone` has 10, `gone` has no number and `row` has `ours`.
    fn check(row: &str, ours: Ours, expected: Verdict) {
        let head =
            "item,paper,unit,tolerance,basis,expect,reason\nalone,10,,0.1,fitted,,x\ngone,1,,0.1,fitted,,x\n";
        let items = parse("t.csv", &format!("{head}{row}\n")).unwrap();
        let ours = [Ours::Number(10.0), Ours::Error("none".to_owned()), ours];
        let lines: Vec<Line> = items
            .iter()
            .zip(&ours)
            .map(|(i, o)| line("p/t", Plant::Model, i, o, &["a; expect ours < 0".to_owned()]))
            .collect();
        assert_eq!(judge(&lines), [Verdict::Ok, Verdict::Miss, expected], "{row}");
        let again: Vec<Line> = lines
            .iter()
            .map(|line| serde_json::from_str(&serde_json::to_string(line).unwrap()).unwrap())
            .collect();
        assert_eq!(judge(&again), judge(&lines), "{row}");
    }

    #[test]
    fn a_tolerance_is_relative_and_reaches_its_edge() {
        let row = "a,5,,0.05,held-out,,why";
        for (ours, verdict) in
            [(5.25, Verdict::Ok), (4.75, Verdict::Ok), (5.26, Verdict::Miss), (-5.0, Verdict::Miss)]
        {
            check(row, Ours::Number(ours), verdict);
        }
        check("a,-5,,0.05,held-out,,why", Ours::Number(-5.2), Verdict::Ok);
        check("a,1.1,,0,construction,,why", Ours::Number(1.0 + 0.1), Verdict::Ok);
        check("a,1.1,,0,construction,,why", Ours::Number(1.1001), Verdict::Miss);
    }

    #[test]
    fn a_predicate_gives_shape_or_miss() {
        check("a,,,,predicted,ours >= 0.9 * alone,why", Ours::Number(9.0), Verdict::Shape);
        check("a,,,,predicted,ours >= 0.9 * alone,why", Ours::Number(8.9), Verdict::Miss);
        check("a,3,,,predicted,ours <= paper,why", Ours::Number(3.0), Verdict::Shape);
        check("a,3,,,predicted,ours <= 2 * gone,why", Ours::Number(0.0), Verdict::Miss);
    }

    #[test]
    fn what_is_wrong_is_a_miss() {
        let row = "a,5,,0.05,held-out,,why";
        for ours in [f64::NAN, f64::INFINITY] {
            check(row, Ours::Number(ours), Verdict::Miss);
        }
        check(row, Ours::Error("no number".to_owned()), Verdict::Miss);
        check("a,5,,,input,,why", Ours::Error("no number".to_owned()), Verdict::Miss);
    }

    #[test]
    fn inputs_and_what_does_not_apply_say_nothing() {
        check("a,5,,,input,,why", Ours::Number(7.0), Verdict::NotApplicable);
        let why = Ours::NotApplicable("needs; a pager".to_owned());
        check("a,5,,0.05,held-out,,why", why.clone(), Verdict::NotApplicable);
        check("a,5,,,held-out,ours < 1,why", why, Verdict::NotApplicable);
    }
}
