//! What a check found: where, and what is wrong there.

use std::fmt;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    path: String,
    line: Option<usize>,
    what: String,
}

impl Finding {
    /// A violation by `path` as a whole.
    #[must_use]
    pub fn new(path: &str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into() }
    }

    /// A violation in one line of `path`; lines count from 1.
    #[must_use]
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// All findings, one per line: what a failing test prints.
#[must_use]
pub fn report(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
