//! The index of tables and figures against the experiments that exist, and the harness's own experiments.

use harness::experiments::{ALL, all, json_lines, outcome_table};
use lab::experiment::{
    Experiment, ExperimentError, Line, Options, Outcome, Results, Size, Status, Sweep, Verdict, index, judge,
    run,
};
use std::sync::LazyLock;

/// Every experiment of the harness run once; the tests of one process share it.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let own: Vec<&Experiment> = ALL.iter().copied().flatten().collect();
    run(&own, &options(), &|_| ())
});

fn options() -> Options {
    Options { size: Size::Tiny, seed: 1, threads: 2 }
}

#[test]
fn the_index_and_the_experiments_agree() {
    let index = index().expect("the index is read");
    let experiments = all(&index);
    let runs = |name: &str| experiments.iter().any(|experiment| experiment.name == name);
    let mut wrong = Vec::new();
    for entry in &index {
        let possible = entry.plants.first().map(String::as_str);
        match (entry.status, runs(&entry.name)) {
            (Status::Waits, true) => {
                let status =
                    possible.filter(|plant| ["model", "store", "live"].contains(plant)).unwrap_or("model");
                wrong.push(format!("{} has an experiment: its status is {status}", entry.name));
            }
            (Status::NoData | Status::NotApplicable, true) => {
                wrong.push(format!("{} has an experiment but the status {}", entry.name, entry.status));
            }
            (Status::Model | Status::Store | Status::Live | Status::Own, false) => {
                wrong.push(format!("{} has no experiment: its status is waits", entry.name));
            }
            (Status::Model | Status::Store | Status::Live, true) if possible != Some(entry.status.word()) => {
                wrong.push(format!("{}: its first plant is {}", entry.name, entry.status));
            }
            _ => {}
        }
    }
    let unlisted = experiments.iter().filter(|e| !index.iter().any(|entry| entry.name == e.name));
    wrong.extend(unlisted.map(|experiment| format!("{} is not in the index", experiment.name)));
    assert!(wrong.is_empty(), "experiments/index.csv:\n{}\n", wrong.join("\n"));
}

#[test]
fn every_experiment_of_the_harness_runs_with_tiny_parameters() {
    for outcome in &*OUTCOMES {
        assert_eq!(outcome.error, None, "{}", outcome.name);
        for row in &outcome.rows {
            let said = format!("{} {}: {}", outcome.name, row.line.item, row.line.note);
            assert!(!row.line.note.contains("error: ") && row.basis.is_some(), "{said}");
        }
    }
}

#[test]
fn every_verdict_of_the_harness_follows_from_the_lines_alone() {
    for outcome in &*OUTCOMES {
        let text = json_lines(std::slice::from_ref(outcome));
        let lines: Vec<Line> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        let given: Vec<_> = outcome.rows.iter().map(|row| row.line.verdict).collect();
        assert_eq!(judge(&lines), given, "{}", outcome.name);
    }
}

#[test]
fn a_table_shows_paper_ours_and_verdict() {
    let index = index().expect("the index is read");
    let table_3 = all(&index).into_iter().find(|e| e.name == "nyx/table_3").expect("it is registered");
    let outcomes = run(&[table_3], &options(), &|_| ());
    let text = outcome_table(&outcomes[0]);
    let row = text.lines().find(|line| line.contains("s1_key_bytes")).expect("each item has a row");
    let cells: Vec<&str> = row.trim_matches('|').split_whitespace().collect();
    assert_eq!(cells, ["s1_key_bytes", "36", "36", "B", "0", "%", "ok", "construction"]);
    let head = "nyx/table_3: Three Twitter traces, generated from their published statistics (1 seed)";
    assert_eq!(text.lines().next(), Some(head));
}

/// What a run of nyx/live_interference is given here.
fn interfered(_: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    results.number("kept_beside_8_gbps_reads", 0.9746);
    results.number("kept_beside_1_gbps_writes", 0.9666);
    Ok(())
}

#[test]
fn writes_that_cost_nothing_do_not_cost_as_much_as_reads() {
    let all = all(&index().expect("the index is read"));
    let live = all.into_iter().find(|e| e.name == "nyx/live_interference").expect("it is registered");
    let outcomes = run(&[&Experiment { run: interfered, ..*live }], &options(), &|_| ());
    let mut lines: Vec<Line> = outcomes[0].rows.iter().map(|row| row.line.clone()).collect();
    let writes =
        lines.iter().position(|line| line.item == "kept_beside_1_gbps_writes").expect("it is an item");
    for (kept, verdict) in
        [(0.9666, Verdict::Shape), (1.0, Verdict::Miss), (0.99, Verdict::Miss), (0.94, Verdict::Miss)]
    {
        lines[writes].ours = Some(kept);
        assert_eq!(judge(&lines)[writes], verdict, "{kept}");
    }
}
