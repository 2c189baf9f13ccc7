//! Figures 11 and 14 live: what becomes of the time that a reader leaves idle, beside one that reads and one that stores, and what the
//! step of a donation changes of that.

use super::{failed, gets, median, median_rates, rates, sets, warm, workers};
use crate::live::{Awake, Cores, Here, Tenant, Work};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Seconds of a reading of the donor's throughput, as in the model (`nyx/fig_14`).
const READING_SECS: f64 = 0.02;
/// Parts of the readings whose middle one counts: what else the machine does comes in bursts.
const SLICES: usize = 8;

/// What the donor has of what it does alone, reading by reading and in the middle, and requests per second of who is lent.
struct Lent {
    donor: f64,
    course: Vec<f64>,
    other: f64,
}

impl Lent {
    /// Standard deviation of the donor's readings, of their mean.
    fn fluctuation(&self) -> f64 {
        let count = self.course.len() as f64;
        let mean = self.course.iter().sum::<f64>() / count;
        let variance = self.course.iter().map(|reading| (reading - mean).powi(2)).sum::<f64>() / count;
        variance.sqrt() / mean
    }
}

/// The middle one of the means of so many parts of readings.
fn middle(readings: &[f64]) -> f64 {
    let slices = readings.chunks(readings.len().div_ceil(SLICES).max(1));
    median(&mut slices.map(|slice| slice.iter().sum::<f64>() / slice.len() as f64).collect::<Vec<f64>>())
}

/// A light reader of some weight beside one of weight 1, under `proportional` with a step of donation: 0 keeps, 1 lends all.
fn lent(sweep: &Sweep, other: Work, donation: f64) -> Result<Lent, ExperimentError> {
    let donor = Work { pause_us: sweep.count("pause_us")?, ..gets("a", 1024, sweep.count("keys")?, 1) };
    let heavy = Tenant { weight: sweep.number("weight")?, ..Tenant::new("a", "") };
    let (tier, part) = (sweep.text("tier")?, sweep.number("part")?);
    let workers = workers(sweep)?;
    let here = Here::start_with(tier, "none", &[heavy, Tenant::new("b", "")], workers, |config| {
        (config.bandwidth_part, config.bandwidth_donation) = (part, donation);
    });
    let here = here.map_err(failed)?;
    let cores = Cores::divide(workers);
    let (warm_s, short, settle) =
        (sweep.number("warm_s")?, sweep.number("alone_s")?, sweep.number("settle_s")?);
    let measure = || -> io::Result<Lent> {
        for work in [donor, other] {
            warm(&here, &work, warm_s)?;
        }
        let first = here.work(donor);
        here.pass(0.2);
        let before = median_rates(&here, &[&first], short)[0];
        let second = here.work(other);
        here.switch("proportional")?;
        here.pass(settle);
        let readings = std::iter::successors(Some(0.0), |passed| Some(passed + READING_SECS));
        let (donor, other): (Vec<f64>, Vec<f64>) = readings
            .take_while(|passed| *passed < settle / 2.0)
            .map(|_| rates(&here, &[&first, &second], READING_SECS))
            .map(|rates| (rates[0], rates[1]))
            .unzip();
        // Who is held back is answered before it can end.
        here.switch("none")?;
        second.end()?;
        let after = median_rates(&here, &[&first], short)[0];
        first.end()?;
        let alone = f64::midpoint(before, after);
        let course: Vec<f64> = donor.iter().map(|rate| rate / alone).collect();
        Ok(Lent { donor: middle(&course), course, other: middle(&other) })
    };
    let seen = measure().map_err(failed)?;
    drop(cores);
    here.end();
    Ok(seen)
}

/// What is lent of what is idle: nothing, by a step, all.
fn donations(sweep: &Sweep, label: &str) -> Result<Vec<(String, f64)>, ExperimentError> {
    let mut donations = vec![("kept".to_owned(), 0.0), ("nyx".to_owned(), sweep.number("step")?)];
    if label == "write" {
        donations.extend(sweep.list("steps_percent")?.iter().map(|step| (step.to_string(), step / 100.0)));
    }
    donations.push(("naive".to_owned(), 1.0));
    Ok(donations)
}

/// NyxCache, Figures 11 and 14, live.
pub(super) fn lend(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let _awake = Awake::start();
    let keys = sweep.count("keys")?;
    let reader = gets("b", 4096, keys, sweep.count("get_depth")?);
    let writer = sets("b", 4096, keys, sweep.count("write_depth")?);
    let (donor_title, other_title) =
        ("The donor, of what it does alone", "Who is lent, of what it has without");
    for (label, other) in [("get", reader), ("write", writer)] {
        let (mut donor, mut gain, mut kept) = (Vec::new(), Vec::new(), f64::NAN);
        for (name, donation) in donations(sweep, label)? {
            let seen = lent(sweep, other, donation)?;
            if name == "kept" {
                kept = seen.other;
            }
            results.number(format!("{label}_{name}_a"), seen.donor);
            results.number(format!("{label}_{name}_b"), seen.other / kept);
            donor.push((donation * 100.0, seen.donor));
            gain.push((donation * 100.0, seen.other / kept));
            if label == "write" {
                results.number(format!("fluctuation_{name}"), seen.fluctuation());
                let course = seen.course.iter().enumerate();
                let course: Vec<_> = course.map(|(at, part)| (at as f64 * READING_SECS, *part)).collect();
                results.series("The donor beside a writer, over time", &name, &course);
            }
        }
        donor.sort_by(|a, b| a.0.total_cmp(&b.0));
        gain.sort_by(|a, b| a.0.total_cmp(&b.0));
        results.series(donor_title, &format!("beside a {label}-heavy one"), &donor);
        results.series(other_title, &format!("{label}-heavy"), &gain);
    }
    results.axes(donor_title, "lent at a time, %", "part");
    results.axes(other_title, "lent at a time, %", "times");
    results.axes("The donor beside a writer, over time", "s", "of what it does alone");
    Ok(())
}
