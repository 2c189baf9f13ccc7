//! Experiments for people: which there are, what became of them on a terminal, as JSON lines and on a page.
//!
//! Invariants: experiments stand in the order of the papers' index, whoever registers them

mod memshare;
mod mt2;
mod nyx;
mod page;
mod plot;
mod profile;
mod spirit;
mod table;
mod trace_file;

pub use page::page;
pub use profile::profile_page;
pub use table::{index_table, outcome_table, summary};

use lab::experiment::{Entry, Experiment, Outcome};

/// Experiments that need more than the laboratory, one list per family.
pub static ALL: &[&[Experiment]] = &[memshare::MEMSHARE, mt2::MT2, nyx::NYX, spirit::SPIRIT];

/// Every experiment, in the order of `index`; what the index does not hold comes last.
#[must_use]
pub fn all(index: &[Entry]) -> Vec<&'static Experiment> {
    let mut all: Vec<&Experiment> = lab::experiment::ALL.iter().chain(ALL).copied().flatten().collect();
    all.sort_by_key(|e| index.iter().position(|entry| entry.name == e.name).unwrap_or(index.len()));
    all
}

/// Of `all`, those that `name` means: itself, all of a paper, or `all`.
#[must_use]
pub fn meant<'a>(all: &[&'a Experiment], name: &str) -> Vec<&'a Experiment> {
    let is_meant = |experiment: &&&Experiment| {
        let paper = experiment.name.split('/').next();
        ["all", experiment.name].contains(&name) || paper == Some(name)
    };
    all.iter().filter(is_meant).copied().collect()
}

/// One JSON object per number, each on a line.
#[must_use]
pub fn json_lines(outcomes: &[Outcome]) -> String {
    let lines = outcomes.iter().flat_map(|outcome| &outcome.rows).map(|row| {
        // A line holds numbers and texts only; both have a form in JSON.
        serde_json::to_string(&row.line).unwrap_or_default() + "\n"
    });
    lines.collect()
}
