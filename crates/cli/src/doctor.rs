//! `doctor`: what this machine offers, what is used instead, and the command that enables the rest.

use crate::failure::{Code, Failure, say};
use harness::doctor::{Tried, examine, to_json, to_text};
use std::path::{Path, PathBuf};

/// What `doctor` is told.
#[derive(Debug)]
pub(crate) struct DoctorOptions {
    /// Where a tier would be.
    pub(crate) at: PathBuf,
    /// Print one JSON object instead of a text.
    pub(crate) json: bool,
}

/// Prints what was found. That something is missing is an answer, no failure.
pub(crate) fn run(options: &DoctorOptions) -> Result<Code, Failure> {
    if !options.at.is_dir() {
        let what = format!("--at: {} is no folder", options.at.display());
        let is_free = std::fs::symlink_metadata(&options.at).is_err();
        let make = format!("mkdir -p {}", options.at.display());
        let cure = if is_free { make } else { "name a folder: --at FOLDER".to_owned() };
        return Err(Failure::wrong_use(what, cure));
    }
    let findings = examine(Path::new("/"), &Tried::in_folder(&options.at));
    if options.json {
        say(to_json(&findings));
    } else {
        say(to_text(&findings));
    }
    Ok(Code::Done)
}
