//! Runs experiments: every seed of every experiment is one job, on as many threads as asked for; what is measured in real
//! time comes last and has the machine to itself.
//!
//! Shape:      experiments, options -> `Outcome` per experiment, in the order given
//! Invariants: the outcome depends on the experiments, the size and the seed; never on the threads or their order; a plant
//!             that is live depends on the machine, too
//! Failure:    a run that fails or panics makes its own items misses and is said in the outcome; the others go on

use super::Experiment;
use super::error::ExperimentError;
use super::outcome::{Outcome, joined, unreadable};
use super::paper::{self, Item};
use super::results::Results;
use super::sweep::{Plant, Size, Sweep};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How experiments are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How much of each.
    pub size: Size,
    /// The first seed; an experiment with several takes the numbers that follow.
    pub seed: u64,
    /// Threads; one at least is used.
    pub threads: usize,
}

/// An experiment whose data could be read.
struct Ready<'a> {
    experiment: &'a Experiment,
    sweep: Sweep,
    items: Vec<Item>,
}

/// One run with one seed.
struct Job<'a> {
    ready: &'a Ready<'a>,
    seed: u64,
    ran: Mutex<Option<Result<Results, ExperimentError>>>,
}

/// Runs `experiments`. `done` is told a name whenever one of its runs ends.
pub fn run(experiments: &[&Experiment], options: &Options, done: &(dyn Fn(&str) + Sync)) -> Vec<Outcome> {
    let prepared: Vec<_> = experiments.iter().map(|experiment| prepare(experiment, options)).collect();
    let jobs: Vec<Job<'_>> = prepared.iter().flatten().flat_map(jobs_of).collect();
    let (timed, modelled): (Vec<_>, Vec<_>) =
        jobs.iter().partition(|job| job.ready.sweep.plant() == Plant::Live);
    work(&modelled, options.threads, done);
    work(&timed, 1, done);
    let mut ran = jobs.into_iter().map(|job| job.ran.into_inner().unwrap_or_else(PoisonError::into_inner));
    let missing = || Err(ExperimentError::failed("the run did not end"));
    let outcomes = experiments.iter().zip(&prepared).map(|(experiment, prepared)| match prepared {
        Ok(ready) => {
            let seeds = ready.sweep.seeds() as usize;
            let runs: Vec<_> = ran.by_ref().take(seeds).map(|run| run.unwrap_or_else(missing)).collect();
            joined(experiment, &ready.sweep, &ready.items, runs.into_iter().collect())
        }
        Err(error) => unreadable(experiment, error),
    });
    outcomes.collect()
}

/// Runs `jobs` on `threads`.
fn work(jobs: &[&Job<'_>], threads: usize, done: &(dyn Fn(&str) + Sync)) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = run_once(job);
            *job.ran.lock().unwrap_or_else(PoisonError::into_inner) = Some(ran);
            done(job.ready.experiment.name);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

/// How many runs `experiments` are: how often `done` is told a name.
#[must_use]
pub fn runs(experiments: &[&Experiment], options: &Options) -> usize {
    let seeds = |experiment: &&Experiment| {
        prepare(experiment, options).map_or(0, |ready| ready.sweep.seeds() as usize)
    };
    experiments.iter().map(seeds).sum()
}

fn prepare<'a>(experiment: &'a Experiment, options: &Options) -> Result<Ready<'a>, ExperimentError> {
    let sweep = Sweep::parse(experiment.name, experiment.sweep, options.size, options.seed)?;
    let items = paper::parse(&format!("{}/paper.csv", experiment.name), experiment.paper)?;
    Ok(Ready { experiment, sweep, items })
}

fn jobs_of<'a>(ready: &'a Ready<'a>) -> impl Iterator<Item = Job<'a>> {
    let first = ready.sweep.seed;
    let seeds = (0..ready.sweep.seeds()).map(move |n| first.wrapping_add(u64::from(n)));
    seeds.map(|seed| Job { ready, seed, ran: Mutex::new(None) })
}

fn run_once(job: &Job<'_>) -> Result<Results, ExperimentError> {
    let sweep = job.ready.sweep.with_seed(job.seed);
    let mut results = Results::default();
    let run = AssertUnwindSafe(|| (job.ready.experiment.run)(&sweep, &mut results));
    match catch_unwind(run) {
        Ok(Ok(())) => Ok(results),
        Ok(Err(error)) => Err(error),
        Err(panic) => Err(ExperimentError::failed(format!("the run panicked: {}", said(&*panic)))),
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::verdict::Verdict;

    const SWEEP: &str = "title = \"Three seeds\"\nseeds = 3\nfactor = 2\n[tiny]\nseeds = 1\n";
    const PAPER: &str = "item,paper,unit,tolerance,basis,expect,reason\ntwice,4,GB/s,0.01,held-out,,the seed doubled\n\
        more,,,,predicted,ours > twice,by one\nlost,1,,0.1,fitted,,never given\nless,,,,predicted,ours < lost,x\n";

    fn twice(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
        let twice = sweep.number("factor")? * sweep.seed as f64;
        results.number("twice", twice);
        results.number("more", twice + 1.0);
        results.number("unknown", 1.0);
        results.number("less", 0.0);
        results.series("curve", "ours", &[(0.0, twice)]);
        Ok(())
    }

    fn fails(_: &Sweep, _: &mut Results) -> Result<(), ExperimentError> {
        Err(ExperimentError::failed("no plant"))
    }

    fn panics(_: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
        results.number("twice", 4.0);
        let none: [f64; 0] = [];
        results.number("more", none[results.numbers.len()]);
        Ok(())
    }

    fn experiment(name: &'static str, run: crate::experiment::Run) -> Experiment {
        Experiment { name, run, sweep: SWEEP, paper: PAPER, readme: "" }
    }

    fn options(threads: usize) -> Options {
        Options { size: Size::Full, seed: 1, threads }
    }

    fn verdicts(outcome: &Outcome) -> Vec<String> {
        outcome.rows.iter().map(|row| format!("{} {}", row.line.item, row.line.verdict)).collect()
    }

    #[test]
    fn the_median_of_the_seeds_is_judged() {
        let outcomes = run(&[&experiment("p/t", twice)], &options(1), &|_| ());
        let [outcome] = &outcomes[..] else { panic!("one experiment has one outcome") };
        let expected = ["twice ok", "more shape", "lost miss", "less miss", "unknown miss"];
        assert_eq!(verdicts(outcome), expected);
        let first = &outcome.rows[0].line;
        assert_eq!((first.ours, first.paper, first.tolerance), (Some(4.0), Some(4.0), Some(0.01)));
        assert_eq!(first.note, "basis held-out; (median of 3 seeds, 2 to 6)");
        assert_eq!(outcome.rows[2].line.note, "basis fitted; error: the run gave no number");
        let note = "error: the predicate needs 'lost', which has no number";
        assert!(outcome.rows[3].line.note.ends_with(note), "{}", outcome.rows[3].line.note);
        assert_eq!(outcome.rows[4].line.note, "error: paper.csv has no such item");
        assert_eq!((outcome.seeds, &*outcome.title), (3, "Three seeds"));
        assert_eq!(outcome.plots[0].series[0].points, [(0.0, 2.0)]);
    }

    #[test]
    fn threads_change_nothing_and_failures_stay_apart() {
        let set = [
            experiment("p/a", twice),
            experiment("p/b", fails),
            experiment("p/c", panics),
            experiment("p/d", twice),
        ];
        let set: Vec<&Experiment> = set.iter().collect();
        let one = run(&set, &options(1), &|_| ());
        let told = AtomicUsize::new(0);
        let many = run(&set, &options(4), &|_| {
            told.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(one, many);
        assert_eq!(told.into_inner(), runs(&set, &options(4)));
        let errors: Vec<Option<&str>> = one.iter().map(|outcome| outcome.error.as_deref()).collect();
        let [None, Some("no plant"), Some(panicked), None] = errors[..] else { panic!("{errors:?}") };
        assert!(panicked.starts_with("the run panicked: index out of bounds"), "{panicked}");
        for outcome in &one[1..3] {
            assert!(outcome.rows.iter().all(|row| row.line.verdict == Verdict::Miss), "{outcome:?}");
            assert_eq!(outcome.rows.len(), 4);
        }
    }

    #[test]
    fn unreadable_data_is_an_outcome() {
        let broken = Experiment { paper: "item\n", ..experiment("p/t", twice) };
        let [outcome] = &run(&[&broken], &options(1), &|_| ())[..] else { panic!("one outcome") };
        assert!(outcome.error.as_deref().is_some_and(|e| e.starts_with("experiments/p/t/paper.csv:1:5: ")));
        assert_eq!(verdicts(outcome), ["data miss"]);
    }
}
