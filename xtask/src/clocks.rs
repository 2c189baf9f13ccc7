//! Time is an argument: only the binary reads a clock, so live and modelled runs are the same code.
//!
//! Non-goals: waiting and deadlines inside the operating system, which need no reading

use crate::Finding;
use crate::rust::{code_only, lines_with_word};

/// Calls that read a clock.
const READINGS: &[&str] = &["Instant::now", "SystemTime::now"];

/// Where a clock may be read, by the path's beginning, each with the reason.
pub const OWNERS: &[(&str, &str)] = &[("crates/cli/", "the binary builds the clock and passes time down")];

/// Checks the Rust `files` (path and text) against `owners` (beginning of a path and reason).
#[must_use]
pub fn check(files: &[(String, String)], owners: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let foreign = |path: &str| !owners.iter().any(|(owner, _)| path.starts_with(owner));
    for (path, text) in files.iter().filter(|(path, _)| foreign(path)) {
        let code = code_only(text);
        for reading in READINGS {
            let lines = lines_with_word(&code, reading);
            findings.extend(
                lines.into_iter().map(|line| Finding::at(path, line, format!("reads a clock: {reading}"))),
            );
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&[(path.to_owned(), text.to_owned())], OWNERS).len()
    }

    #[test]
    fn a_reading_outside_the_binary_is_found() {
        assert_eq!(findings("crates/store/src/a.rs", "let t = std::time::Instant::now();"), 1);
        assert_eq!(findings("crates/server/tests/a.rs", "SystemTime::now().elapsed()"), 1);
    }

    #[test]
    fn the_binary_and_comments_pass() {
        assert_eq!(findings("crates/cli/src/main.rs", "Instant::now()"), 0);
        assert_eq!(findings("crates/store/src/a.rs", "// Instant::now\nInstant::nowhere()"), 0);
    }
}
