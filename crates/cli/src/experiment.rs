//! `experiment`: tables and figures of the papers, theirs against ours.
//!
//! Shape: names -> runs on all cores -> tables or JSON lines; with a folder also results.jsonl and index.html

use crate::clock::SystemClock;
use crate::failure::{Code, Failure, say};
use crate::suggest;
use harness::experiments;
use indicatif::{ProgressBar, ProgressStyle};
use lab::experiment::{self as lab_experiment, Entry, Experiment, Options, Outcome, Size};
use server::Clock as _;
use std::path::{Path, PathBuf};
use units::Instant;

/// What `experiment run` is told.
#[derive(Debug)]
pub(crate) struct ExperimentOptions {
    /// Experiments, papers or `all`; at least one.
    pub(crate) names: Vec<String>,
    /// Seconds for each.
    pub(crate) quick: bool,
    /// Where the files go; none are written without.
    pub(crate) out: Option<PathBuf>,
    /// The first seed.
    pub(crate) seed: u64,
    /// Print one JSON object per number instead of tables.
    pub(crate) json: bool,
}

/// Lists every table and figure of the papers.
pub(crate) fn list() -> Result<Code, Failure> {
    say(experiments::index_table(&index()?));
    Ok(Code::Done)
}

/// Runs what is named and prints what came of it.
pub(crate) fn run(options: &ExperimentOptions) -> Result<Code, Failure> {
    let clock = SystemClock::new();
    let index = index()?;
    let chosen = chosen(&options.names, &index)?;
    let size = if options.quick { Size::Quick } else { Size::Full };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let how = Options { size, seed: options.seed, threads };
    if let Some(folder) = &options.out {
        // Said now, not after minutes of runs.
        std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, &e))?;
    }
    let bar = progress_bar(&chosen, &how, options.json);
    let outcomes = lab_experiment::run(&chosen, &how, &|name| {
        bar.set_message(name.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    if options.json {
        say(experiments::json_lines(&outcomes).trim_end());
    } else {
        for outcome in &outcomes {
            say(format!("{}\n", experiments::outcome_table(outcome)));
        }
        say(experiments::summary(&outcomes));
        say(format!("took {:.1} s on {threads} threads", clock.now().since(Instant::ZERO).as_secs_f64()));
    }
    if let Some(folder) = &options.out {
        write(folder, &outcomes, &index, &how, options.json)?;
    }
    failed(&outcomes)
}

fn index() -> Result<Vec<Entry>, Failure> {
    lab_experiment::index().map_err(|e| Failure::failed(e.to_string(), "mend the file and build again"))
}

/// The experiments that `names` mean, each once, in the index's order.
fn chosen(names: &[String], index: &[Entry]) -> Result<Vec<&'static Experiment>, Failure> {
    let all = experiments::all(index);
    let mut wanted: Vec<&str> = Vec::new();
    for name in names {
        let meant = experiments::meant(&all, name);
        if meant.is_empty() {
            return Err(unknown(name, &all, index));
        }
        wanted.extend(meant.iter().map(|experiment| experiment.name));
    }
    Ok(all.into_iter().filter(|experiment| wanted.contains(&experiment.name)).collect())
}

fn unknown(name: &str, all: &[&Experiment], index: &[Entry]) -> Failure {
    if let Some(entry) = index.iter().find(|entry| entry.name == name) {
        let what = format!("'{name}' cannot be run ({}): {}", entry.status, entry.why);
        return Failure::wrong_use(what, "cotenant experiment list");
    }
    let known = all.iter().map(|experiment| experiment.name).chain(lab_experiment::PAPERS);
    let cure = suggest::cure(name, known, "cotenant experiment list");
    Failure::wrong_use(format!("no experiment is called '{name}'"), cure)
}

fn progress_bar(chosen: &[&Experiment], how: &Options, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(lab_experiment::runs(chosen, how) as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, last {msg}");
    // The template is a constant; were it wrong, the default bar would do.
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn write(
    folder: &Path,
    outcomes: &[Outcome],
    index: &[Entry],
    how: &Options,
    silent: bool,
) -> Result<(), Failure> {
    let size = if how.size == Size::Quick { "quick" } else { "full" };
    let words = format!("Experiments run: {}. Size: {size}. First seed: {}.", outcomes.len(), how.seed);
    let files = [
        ("results.jsonl", experiments::json_lines(outcomes)),
        ("index.html", experiments::page(outcomes, index, &words)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| unwritable(&path, &e))?;
        if !silent {
            say(format!("wrote {}", path.display()));
        }
    }
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: cannot be written: {error}", path.display()), "name a folder: --out DIR")
}

/// A miss is an answer; a run that broke off is none.
fn failed(outcomes: &[Outcome]) -> Result<Code, Failure> {
    let errors = outcomes.iter().filter_map(|outcome| Some((&outcome.name, outcome.error.as_ref()?)));
    let errors: Vec<_> = errors.collect();
    match errors.first() {
        None => Ok(Code::Done),
        Some((name, error)) => {
            let what = format!("{} of {} experiments failed; {name}: {error}", errors.len(), outcomes.len());
            Err(Failure::failed(what, format!("cotenant experiment run {name}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: Result<usize, (&str, &str)>) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        match (chosen(&names, &index().unwrap()), expected) {
            (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{names:?}"),
            (Err(failure), Err((what, cure))) => {
                assert!(failure.what.contains(what) && failure.cure.contains(cure), "{failure}");
                assert_eq!(failure.code, Code::WrongUse);
            }
            (found, _) => panic!("{names:?}: {found:?}"),
        }
    }

    #[test]
    fn names_mean_one_a_paper_or_all() {
        let all = experiments::all(&index().unwrap());
        check(&["all"], Ok(all.len()));
        check(&["nyx/table_3", "nyx/table_3"], Ok(1));
        check(&["nyx"], Ok(all.iter().filter(|e| e.name.starts_with("nyx/")).count()));
        check(&["nyx/table_3", "all"], Ok(all.len()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        check(
            &["nyx/tabel_3"],
            Err(("no experiment is called 'nyx/tabel_3'", "did you mean 'nyx/table_3'?")),
        );
        check(&["moon"], Err(("no experiment is called 'moon'", "cotenant experiment list")));
        check(
            &["nyx/fig_2"],
            Err(("'nyx/fig_2' cannot be run (no-data): diagram", "cotenant experiment list")),
        );
    }
}
