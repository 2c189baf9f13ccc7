//! Why an experiment could not be read or run.

use std::fmt;

/// A fault of an experiment's data or of its run. The text is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A data file is malformed. Line and column count from 1.
    #[error("experiments/{file}:{line}:{column}: {what}")]
    Data {
        /// The file's path under `experiments/`.
        file: String,
        /// Line number.
        line: usize,
        /// Column, in characters.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// The run asks for a key that the sweep lacks, or that is of another kind.
    #[error("experiments/{file}: {what}")]
    Key {
        /// The file's path under `experiments/`.
        file: String,
        /// Which key, and what was wanted.
        what: String,
    },
    /// The run itself could not go on.
    #[error("{0}")]
    Failed(String),
}

impl ExperimentError {
    /// A run that could not go on, for `cause`.
    pub fn failed(cause: impl fmt::Display) -> Self {
        Self::Failed(cause.to_string())
    }
}

/// Line and column, from 1, of the byte at `offset` of `text`.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}
