//! Every module opens by saying what it is, holds one idea and has a name that says which.

use crate::Finding;

/// Longest file in lines, tests excluded (house style, rule 4).
const LINES_MAX: usize = 800;

/// Names of files and folders that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "misc", "types", "util", "utils"];

/// Checks the Rust `files` (path and text).
#[must_use]
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    files.iter().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(Finding::at(path, 1, "does not begin with `//!` and what the module is"));
    }
    let lines = lines_without_tests(path, text);
    if lines > LINES_MAX {
        findings
            .push(Finding::new(path, format!("{lines} lines without tests; which second idea moved in?")));
    }
    let names = path.trim_end_matches(".rs").split('/');
    for name in names.filter(|name| EMPTY_NAMES.contains(name)) {
        findings.push(Finding::new(path, format!("'{name}' says nothing; name the idea")));
    }
    findings
}

/// Lines of `text` up to its test module; 0 for a file of tests.
fn lines_without_tests(path: &str, text: &str) -> usize {
    if path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests") {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| {
        pair[0].starts_with("#[cfg(") && pair[0].contains("test") && pair[1].starts_with("mod ")
    };
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[(path.to_owned(), text.to_owned())]).len()
    }

    #[test]
    fn a_module_without_a_header_is_found() {
        assert_eq!(findings("a/src/b.rs", "//! What it is.\n"), 0);
        for text in ["use std::fmt;\n", "// What it is.\n", "", "/// What it is.\n", "\n//! What it is.\n"] {
            assert_eq!(findings("a/src/b.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn a_long_file_is_found_but_tests_do_not_count() {
        let head = "//! What it is.\n";
        let long = format!("{head}{}", "x\n".repeat(800));
        assert_eq!(findings("a/src/b.rs", &long), 1);
        assert_eq!(findings("a/tests/b.rs", &long), 0);
        assert_eq!(findings("a/src/b/tests.rs", &long), 0);
        let mostly_tests = format!("{head}#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(800));
        assert_eq!(findings("a/src/b.rs", &mostly_tests), 0);
    }

    #[test]
    fn empty_names_are_found() {
        for path in
            ["a/src/utils.rs", "a/src/helpers/b.rs", "a/tests/common/mod.rs", "crates/types/src/lib.rs"]
        {
            assert_eq!(findings(path, "//! What it is.\n"), 1, "{path}");
        }
        assert_eq!(findings("a/src/commonly.rs", "//! What it is.\n"), 0);
    }
}
