//! Experiments on a terminal: the index, the numbers of an experiment, and what all of them come to.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use lab::experiment::{Basis, Entry, Outcome, Row, Status, Verdict, shown};

/// What stands where there is nothing.
const NONE: &str = "-";

/// Columns of the index's texts in characters; longer ones are wrapped.
const TITLE_WIDTH: u16 = 40;
const WHY_WIDTH: u16 = 44;

/// The index of tables and figures as a table.
#[must_use]
pub fn index_table(index: &[Entry]) -> String {
    let mut table = empty(&["experiment", "status", "plants", "title", "why"]);
    for entry in index {
        let plants = entry.plants.join(", ");
        table.add_row([&entry.name, entry.status.word(), &plants, &entry.title, &entry.why]);
    }
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
    for (column, width) in table.column_iter_mut().skip(3).zip([TITLE_WIDTH, WHY_WIDTH]) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(width)));
    }
    let counts = Status::ALL.map(|status| {
        let count = index.iter().filter(|entry| entry.status == status).count();
        format!("{count} {status}")
    });
    let with_data = index.iter().filter(|entry| entry.has_data()).count();
    format!("{table}\n{with_data} tables and figures with data; all: {}", counts.join(", "))
}

/// The numbers of one experiment as a table, evidence first, with what went wrong below.
#[must_use]
pub fn outcome_table(outcome: &Outcome) -> String {
    let mut table = empty(&["item", "paper", "ours", "unit", "tolerance", "verdict", "basis"]);
    for row in by_basis(&outcome.rows) {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let seeds = if outcome.seeds == 1 { "1 seed".to_owned() } else { format!("{} seeds", outcome.seeds) };
    let mut text = format!("{}: {} ({seeds})\n{table}", outcome.name, outcome.title);
    for row in by_basis(&outcome.rows) {
        let said = row.line.note.split("; ").filter(|part| {
            part.starts_with("error: ") || part.starts_with("not applicable: ") || part.starts_with('(')
        });
        let said = said.filter(|part| !is_of_seeds(part)).collect::<Vec<_>>().join("; ");
        if !said.is_empty() {
            text.push_str(&format!("\n  {}: {said}", row.line.item));
        }
    }
    text
}

/// How many numbers of each basis came to which verdict.
#[must_use]
pub fn summary(outcomes: &[Outcome]) -> String {
    let mut table = empty(&["basis", "ok", "shape", "miss", "not-applicable"]);
    let count = |basis, verdict| outcomes.iter().map(|outcome| outcome.count(basis, verdict)).sum::<usize>();
    let bases = Basis::ALL.into_iter().map(Some).chain([None]);
    for basis in bases.filter(|basis| Verdict::ALL.into_iter().any(|verdict| 0 < count(*basis, verdict))) {
        let name = basis.map_or("(no item)", Basis::word);
        let counts = Verdict::ALL.map(|verdict| count(basis, verdict).to_string());
        table.add_row([name.to_owned()].into_iter().chain(counts));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let all = |verdict| {
        outcomes.iter().flat_map(|outcome| &outcome.rows).filter(|row| row.line.verdict == verdict).count()
    };
    let counts = Verdict::ALL.map(|verdict| format!("{} {verdict}", all(verdict)));
    let experiments = if outcomes.len() == 1 { "experiment" } else { "experiments" };
    let numbers: usize = outcomes.iter().map(|outcome| outcome.rows.len()).sum();
    let failed = outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    format!("{table}\n{} {experiments}{failed}, {numbers} numbers: {}", outcomes.len(), counts.join(", "))
}

/// The rows, those of one basis together, evidence first.
pub(super) fn by_basis(rows: &[Row]) -> Vec<&Row> {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| (row.basis.is_none(), row.basis));
    rows
}

/// What a terminal or a page shows of a row.
pub(super) fn cells(row: &Row) -> [String; 7] {
    let number = |number: Option<f64>| number.map_or_else(|| NONE.to_owned(), shown);
    let expect = row.line.note.split("; ").find_map(|part| part.strip_prefix("expect "));
    let tolerance = row.line.tolerance.map(|tolerance| format!("{} %", shown(tolerance * 100.0)));
    let criterion = tolerance.or_else(|| expect.map(str::to_owned));
    let unit = if row.line.unit.is_empty() { NONE } else { &row.line.unit };
    [
        row.line.item.clone(),
        number(row.line.paper),
        number(row.line.ours),
        unit.to_owned(),
        criterion.unwrap_or_else(|| NONE.to_owned()),
        row.line.verdict.to_string(),
        row.basis.map_or(NONE, Basis::word).to_owned(),
    ]
}

fn is_of_seeds(part: &str) -> bool {
    part.starts_with("(median of ") || part.ends_with(" seeds agree)")
}

fn empty(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table.set_header(header);
    table
}
