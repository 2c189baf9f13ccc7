//! Experiments: tables and figures of papers as data, runs that give our numbers, verdicts that follow from both.
//!
//! Shape:      `experiments/<paper>/<item>/` (sweep.toml, paper.csv, README.md) and a `Run` -> `Outcome`
//! Invariants: the data is part of the program; a verdict follows from paper, ours and tolerance or predicate alone;
//!             the same seed and size give the same outcome on every run and any number of threads
//! Failure:    malformed data says file, line and column; a number that is missing is a miss
//! Non-goals:  printing; who runs experiments shows the outcomes

mod error;
mod index;
mod model;
mod nyx;
mod outcome;
mod paper;
mod polyemt;
mod predicate;
mod results;
mod rows;
mod run;
mod sweep;
mod verdict;

pub mod mt2;
mod spirit;
mod workload;

pub use error::ExperimentError;
pub use index::{Entry, PAPERS, Status, index};
pub use outcome::{Outcome, Row, shown};
pub use paper::{Basis, Item};
pub use predicate::{Predicate, PredicateError};
pub use results::{Plot, Results, Series};
pub use run::{Options, run, runs};
pub use spirit::stays_after;
pub use sweep::{Plant, Size, Sweep};
pub use verdict::{Line, Verdict, judge};

/// What an experiment does: with these parameters, report these results.
pub type Run = fn(&Sweep, &mut Results) -> Result<(), ExperimentError>;

/// One table or figure that can be run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// `paper/item`, its folder under `experiments/`.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
    /// The text of its `sweep.toml`.
    pub sweep: &'static str,
    /// The text of its `paper.csv`.
    pub paper: &'static str,
    /// The text of its `README.md`.
    pub readme: &'static str,
}

/// An [`Experiment`](crate::experiment::Experiment) with its data from `experiments/NAME/` in this repository.
#[macro_export]
macro_rules! experiment {
    ($name:literal, $run:path) => {
        $crate::experiment::Experiment {
            name: $name,
            run: $run,
            sweep: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../experiments/",
                $name,
                "/sweep.toml"
            )),
            paper: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../experiments/",
                $name,
                "/paper.csv"
            )),
            readme: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../experiments/",
                $name,
                "/README.md"
            )),
        }
    };
}

/// Every experiment of the laboratory, one list per family.
#[rustfmt::skip]
pub static ALL: &[&[Experiment]] = &[
    workload::WORKLOAD,
    model::MODEL,
    mt2::MT2,
    nyx::NYX,
    polyemt::POLYEMT,
    spirit::SPIRIT,
];
