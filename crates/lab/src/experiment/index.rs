//! Every table and figure of the five papers, and what has become of each: `experiments/index.csv`.
//!
//! Shape:      columns paper, item, title, status, plant, why -> entries in the papers' order
//! Invariants: an entry with the status `model`, `store`, `live` or `own` has an experiment of its name, and every experiment has
//!             an entry; the harness, which knows all experiments, tests both
//! Failure:    a malformed row is an error with line and column

use super::error::ExperimentError;
use super::rows::Rows;
use std::fmt;

const TEXT: &str = include_str!("../../../../experiments/index.csv");
const HEADER: &str = "paper,item,title,status,plant,why";

/// The papers, in the order of the index.
pub const PAPERS: [&str; 5] = ["memshare", "nyx", "mt2", "spirit", "polyemt"];

/// One table or figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// `paper/item`: the name of its experiment, if it has one.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What has become of it.
    pub status: Status,
    /// The plants it can be shown on, the one that the status is about first; for the status `waits` what it waits
    /// for.
    pub plants: Vec<String>,
    /// What limits it, or why it is not done.
    pub why: String,
}

/// What has become of a table or figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Runs on the modelled machine.
    Model,
    /// Runs on the real store, in the time of a trace.
    Store,
    /// Runs on this machine, in real time.
    Live,
    /// Is in no paper: shows a promise of this project, on the plant named first.
    Own,
    /// Waits for the plant named.
    Waits,
    /// Cannot be reproduced, for the reason named.
    NotApplicable,
    /// Gives the inputs of another; may have an experiment that checks them.
    Inputs,
    /// Holds no numbers.
    NoData,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Model,
        Self::Store,
        Self::Live,
        Self::Own,
        Self::Waits,
        Self::NotApplicable,
        Self::Inputs,
        Self::NoData,
    ];

    /// Its word in the index.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Store => "store",
            Self::Live => "live",
            Self::Own => "own",
            Self::Waits => "waits",
            Self::NotApplicable => "not-applicable",
            Self::Inputs => "inputs",
            Self::NoData => "no-data",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Entry {
    /// Whether it is a paper's and holds results, not words, diagrams or inputs.
    #[must_use]
    pub fn has_data(&self) -> bool {
        !matches!(self.status, Status::NoData | Status::Inputs | Status::Own)
    }

    /// Its paper.
    #[must_use]
    pub fn paper(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The index.
///
/// # Errors
/// The first fault, with line and column.
pub fn index() -> Result<Vec<Entry>, ExperimentError> {
    parse(TEXT)
}

fn parse(text: &str) -> Result<Vec<Entry>, ExperimentError> {
    let rows = Rows::parse("index.csv", text, HEADER)?;
    let mut entries: Vec<Entry> = Vec::new();
    for row in rows.iter() {
        let [paper, item, title, status, plant, why] = row else {
            return Err(rows.fault(&row[0], "a row has six fields"));
        };
        if !PAPERS.contains(&paper.text.as_str()) {
            return Err(
                rows.fault(paper, format!("the paper '{}' is none of {}", paper.text, PAPERS.join(", ")))
            );
        }
        let found = Status::ALL.into_iter().find(|known| known.word() == status.text);
        let Some(status) = found else {
            let known = Status::ALL.map(Status::word).join(", ");
            return Err(rows.fault(status, format!("the status '{}' is none of {known}", status.text)));
        };
        let number = item.text.strip_prefix("table_").or_else(|| item.text.strip_prefix("fig_"));
        if (status != Status::Own) != number.is_some_and(|n| n.parse::<u8>().is_ok()) {
            let what = format!("'{}' is neither table_N nor fig_N, or is one of our own", item.text);
            return Err(rows.fault(item, what));
        }
        let plants = plant.text.split(';').map(str::trim).filter(|plant| !["", "-"].contains(plant));
        let entry = Entry {
            name: format!("{}/{}", paper.text, item.text),
            title: title.text.clone(),
            status,
            plants: plants.map(str::to_owned).collect(),
            why: why.text.clone(),
        };
        if entries.iter().any(|known| known.name == entry.name) {
            return Err(rows.fault(item, format!("'{}' stands twice", entry.name)));
        }
        if entry.has_data() && entry.plants.is_empty() && status != Status::NotApplicable {
            return Err(rows.fault(plant, "the plant is missing"));
        }
        if !entry.has_data() | (status == Status::NotApplicable) && entry.why.is_empty() {
            return Err(rows.fault(why, "the reason is missing"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_holds_61_tables_and_figures_with_data() {
        let entries = index().unwrap();
        let counts =
            PAPERS.map(|paper| entries.iter().filter(|e| e.paper() == paper && e.has_data()).count());
        assert_eq!(counts, [13, 14, 16, 7, 11]);
        assert_eq!(counts.iter().sum::<usize>(), 61);
    }

    #[test]
    fn the_index_holds_every_table_and_figure() {
        let entries = index().unwrap();
        let printed = [(10, 5), (3, 14), (9, 10), (1, 9), (3, 13)];
        for (paper, (tables, figures)) in PAPERS.iter().zip(printed) {
            let numbers =
                |kind: &str, last: u8| (1..=last).map(|n| format!("{paper}/{kind}_{n}")).collect::<Vec<_>>();
            let wanted = [numbers("table", tables), numbers("fig", figures)].concat();
            let missing: Vec<_> =
                wanted.iter().filter(|name| !entries.iter().any(|e| e.name == **name)).collect();
            assert!(missing.is_empty(), "{missing:?}");
            let printed = entries.iter().filter(|e| e.paper() == *paper && e.status != Status::Own);
            assert_eq!(printed.count(), wanted.len(), "{paper}");
        }
    }

    #[test]
    fn malformed_rows_say_where() {
        for (row, fault) in [
            (
                "moon,fig_1,t,model,model,",
                "1: the paper 'moon' is none of memshare, nyx, mt2, spirit, polyemt",
            ),
            (
                "nyx,figure_1,t,model,model,",
                "5: 'figure_1' is neither table_N nor fig_N, or is one of our own",
            ),
            ("nyx,fig_1,t,own,store,", "5: 'fig_1' is neither table_N nor fig_N, or is one of our own"),
            (
                "nyx,fig_1,t,done,model,",
                "13: the status 'done' is none of model, store, live, own, waits, not-applicable, inputs, no-data",
            ),
            ("nyx,fig_9,t,model,model,", "5: 'nyx/fig_9' stands twice"),
            ("nyx,fig_1,t,waits,-,", "19: the plant is missing"),
            ("nyx,fig_1,t,not-applicable,-,", "30: the reason is missing"),
            ("nyx,fig_1,t,no-data,-,", "23: the reason is missing"),
        ] {
            let text = format!("{HEADER}\nnyx,fig_9,t,waits,model,\n{row}\n");
            let found = parse(&text).map(|entries| entries.len()).map_err(|e| e.to_string());
            assert_eq!(found, Err(format!("experiments/index.csv:3:{fault}")), "{row}");
        }
    }
}
