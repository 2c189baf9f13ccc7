//! Every promise of SPECIFICATION.md names a test that exists, or says *pending*, and its number is its own.
//!
//! Shape: a promise is a row of a table with a column headed "Test" or "Tests"; its cell holds `file::test_name` in
//!        backticks, several if need be, or the word pending; a file is named as in ARCHITECTURE.md; a column headed "#"
//!        has its number

use crate::Finding;
use crate::paths::{resolve, spans};
use crate::rust::{code_only, lines_with_word};

/// Checks the text of the specification at `path`; `paths` are the tree's, `read` gives a file's text.
#[must_use]
pub fn check(
    path: &str,
    text: &str,
    paths: &[String],
    read: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let rows = promises(text);
    if rows.is_empty() {
        return vec![Finding::new(path, "holds no table with a column 'Test' and rows under it")];
    }
    let mut findings = repeated(path, &rows);
    for Row { line, tests: cell, .. } in rows {
        let named: Vec<String> = spans(&cell).into_iter().map(|(_, span)| span).collect();
        if named.is_empty() && !is_pending(&cell) {
            findings.push(Finding::at(path, line, "names no test and does not say *pending*"));
        }
        let missing = named.iter().filter(|test| !exists(test, paths, &read));
        findings.extend(missing.map(|test| Finding::at(path, line, format!("no test `{test}`"))));
    }
    findings
}

/// A promise.
struct Row {
    line: usize,
    /// Empty where its table has no numbers.
    number: String,
    /// Its test cell.
    tests: String,
}

/// Every promise.
fn promises(text: &str) -> Vec<Row> {
    let mut columns = None;
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let Some(row) = text.trim().strip_prefix('|') else {
            columns = None;
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        let is_rule = cells.iter().all(|cell| cell.starts_with(['-', ':']));
        let cell =
            |at: Option<usize>| at.and_then(|at| cells.get(at)).copied().unwrap_or_default().to_owned();
        match columns {
            None => {
                let number = cells.iter().position(|&cell| cell == "#");
                columns = Some((number, cells.iter().position(|cell| is_heading(cell))));
            }
            Some((number, tests @ Some(_))) if !is_rule => {
                found.push(Row { line, number: cell(number), tests: cell(tests) });
            }
            Some(_) => {}
        }
    }
    found
}

/// Numbers that an earlier promise has.
fn repeated(path: &str, rows: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.number.is_empty()) {
        if let Some(first) = rows[..at].iter().find(|first| first.number == row.number) {
            let text = format!("the number {} is that of line {}", row.number, first.line);
            findings.push(Finding::at(path, row.line, text));
        }
    }
    findings
}

fn is_heading(cell: &str) -> bool {
    ["test", "tests"].contains(&cell.to_lowercase().as_str())
}

fn is_pending(cell: &str) -> bool {
    cell.split(|c: char| !c.is_alphanumeric()).any(|word| word == "pending")
}

fn exists(test: &str, paths: &[String], read: &impl Fn(&str) -> Option<String>) -> bool {
    let Some((file, inside)) = test.split_once("::") else { return false };
    let name = inside.rsplit("::").next().unwrap_or(inside);
    resolve(file, paths).into_iter().any(|found| read(found).is_some_and(|text| defines(found, &text, name)))
}

fn defines(path: &str, text: &str, name: &str) -> bool {
    let has = |text: &str, head: &str| {
        !name.is_empty() && !lines_with_word(text, &format!("{head}{name}")).is_empty()
    };
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => has(&code_only(text), "fn "),
        Some("py") => has(text, "def "),
        Some("sh") => text.lines().any(|line| line.starts_with(&format!("{name}()"))),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> usize {
        let text = format!("| Promise | Test |\n|---|:--|\n{rows}\n\nprose\n");
        let paths = ["crates/store/tests/model.rs", "tests/wire.py", "tests/run.sh"].map(str::to_owned);
        let read = |path: &str| {
            let text = match path {
                "crates/store/tests/model.rs" => "#[test]\nfn agrees() {}\n// fn commented() {}",
                "tests/wire.py" => "class TestWire:\n    def test_get(self):",
                _ => "ends_cleanly() {",
            };
            Some(text.to_owned())
        };
        check("SPECIFICATION.md", &text, &paths, read).len()
    }

    #[test]
    fn named_tests_and_pending_pass() {
        assert_eq!(findings("| a | `crates/store/tests/model.rs::agrees` |"), 0);
        assert_eq!(findings("| a | `model.rs::agrees`, `tests/wire.py::TestWire::test_get` |"), 0);
        assert_eq!(findings("| a | `tests/run.sh::ends_cleanly` |\n| b | *pending* |"), 0);
    }

    #[test]
    fn missing_tests_are_found() {
        for cell in [
            "`model.rs::agree`",
            "`model.rs::commented`",
            "`model.rs`",
            "`no.rs::agrees`",
            "`tests/wire.py::test_set`",
        ] {
            assert_eq!(findings(&format!("| a | {cell} |")), 1, "{cell}");
        }
        assert_eq!(findings("| a | |"), 1);
        assert_eq!(findings("| a |"), 1);
        assert_eq!(findings("| a | by hand |"), 1);
    }

    #[test]
    fn repeated_numbers_are_found() {
        let numbered = |numbers: &[&str]| {
            // Each in a table of its own.
            let table = |number: &&str| {
                format!("| # | Promise | Test |\n|---|---|---|\n| {number} | a | *pending* |\n\n")
            };
            let text: String = numbers.iter().map(table).collect();
            check("SPECIFICATION.md", &text, &[], |_| None).len()
        };
        assert_eq!(numbered(&["39", "39g", "39h", "3"]), 0);
        assert_eq!(numbered(&["39g", "40", "39g"]), 1);
        assert_eq!(numbered(&["7", "7", "7"]), 2);
    }

    #[test]
    fn a_specification_without_promises_is_found() {
        assert_eq!(findings(""), 1);
        assert_eq!(
            check("SPECIFICATION.md", "| Promise | How |\n|---|---|\n| a | b |", &[], |_| None).len(),
            1
        );
    }
}
