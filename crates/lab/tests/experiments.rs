//! Every registered experiment runs with tiny parameters, and its verdicts follow from its lines alone.

use lab::experiment::{ALL, Experiment, Line, Options, Outcome, Size, judge, run};
use std::sync::LazyLock;

/// Every experiment run once; the tests of one process share it.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| run(&all(), &options(2), &|_| ()));

fn all() -> Vec<&'static Experiment> {
    ALL.iter().copied().flatten().collect()
}

fn options(threads: usize) -> Options {
    Options { size: Size::Tiny, seed: 1, threads }
}

#[test]
fn every_experiment_runs_with_tiny_parameters() {
    for outcome in &*OUTCOMES {
        assert_eq!(outcome.error, None, "{}", outcome.name);
        assert!(!outcome.rows.is_empty(), "{}: no numbers", outcome.name);
        for row in &outcome.rows {
            let said = format!("{} {}: {}", outcome.name, row.line.item, row.line.note);
            assert!(!row.line.note.contains("error: "), "{said}");
            assert!(row.basis.is_some(), "{said}");
        }
    }
}

#[test]
fn every_verdict_follows_from_the_lines_alone() {
    for outcome in &*OUTCOMES {
        let texts = outcome.rows.iter().map(|row| serde_json::to_string(&row.line).expect("a line is JSON"));
        let lines: Vec<Line> =
            texts.map(|text| serde_json::from_str(&text).expect("what was written is read")).collect();
        let given: Vec<_> = outcome.rows.iter().map(|row| row.line.verdict).collect();
        assert_eq!(judge(&lines), given, "{}", outcome.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_on_any_number_of_threads() {
    for (outcome, again) in OUTCOMES.iter().zip(run(&all(), &options(1), &|_| ())) {
        assert_eq!(*outcome, again, "{}", outcome.name);
    }
}

#[test]
fn names_are_unique_and_have_two_parts() {
    let names: Vec<&str> = all().iter().map(|experiment| experiment.name).collect();
    for (index, name) in names.iter().enumerate() {
        assert_eq!(name.split('/').count(), 2, "{name}");
        assert!(!names[..index].contains(name), "{name} stands twice");
    }
}

#[test]
fn every_readme_says_what_differs() {
    for experiment in all() {
        let readme = experiment.readme;
        assert!(readme.starts_with("# ") && 3 < readme.lines().count(), "{}", experiment.name);
    }
}
