//! Nothing lies about unfinished: no reminders in the source, no holes in the code, no tests that do not run.
//!
//! Shape: reminders are looked for in every source text, comments included; holes and ignored tests in Rust code only

use crate::Finding;
use crate::rust::{code_only, is_word, lines_with_word};

/// Words that mark work left over. Put together here so that this file does not hold them.
const REMINDERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Code that says "later", or a test that says "not now".
const HOLES: &[&str] = &["todo!", "unimplemented!", "#[ignore"];

/// Endings of the files that are source.
const SOURCES: &[&str] = &["Makefile", ".rs", ".py", ".sh", ".js", ".css", ".html", ".toml"];

/// Whether `path` is a source text.
#[must_use]
pub fn is_source(path: &str) -> bool {
    SOURCES.iter().any(|end| path.ends_with(end)) || path.starts_with(".ci/")
}

/// Checks the source `files` (path and text).
#[must_use]
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    files.iter().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for word in REMINDERS {
        let lines = lines_with_word(text, word);
        findings.extend(lines.into_iter().map(|line| Finding::at(path, line, format!("says {word}"))));
    }
    if path.ends_with(".rs") {
        for (number, line) in (1..).zip(code_only(text).lines()) {
            let found = HOLES.iter().filter(|hole| holds(line, hole));
            findings.extend(found.map(|hole| Finding::at(path, number, format!("holds {hole}"))));
        }
    }
    findings
}

fn holds(line: &str, hole: &str) -> bool {
    line.match_indices(hole).any(|(start, _)| !line[..start].ends_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[(path.to_owned(), text.to_owned())]).len()
    }

    #[test]
    fn reminders_are_found_in_comments_too() {
        for word in REMINDERS {
            assert_eq!(findings("a.rs", &format!("// {word}: later")), 1);
            assert_eq!(findings("Makefile", &format!("# {word}(me) later")), 1);
            assert_eq!(findings("a.rs", &format!("const {word}S: u8 = 1;")), 0);
        }
    }

    #[test]
    fn holes_and_ignored_tests_are_found_in_code() {
        for code in ["todo!()", "unimplemented!(\"x\")", "#[ignore]", "#[ignore = \"slow\"]"] {
            assert_eq!(findings("a.rs", code), 1, "{code}");
            assert_eq!(findings("a.rs", &format!("// {code}")), 0, "{code}");
            assert_eq!(findings("a.py", code), 0, "{code}");
        }
        assert_eq!(findings("a.rs", "#[cfg_attr(miri, ignore)] my_todo!()"), 0);
    }

    #[test]
    fn sources_are_recognised() {
        assert!(
            is_source("Makefile") && is_source(".ci/run") && is_source("a/b.py") && !is_source("README.md")
        );
    }
}
