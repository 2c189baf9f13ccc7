//! Figure 11 live: what becomes of the time that a reader leaves idle, beside one that reads and one that stores.

use super::{failed, gets, median_rates, sets, warm, workers};
use crate::live::{Awake, Cores, Here, Tenant, Work};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// What the donor has of what it does alone, and requests per second of who is lent.
#[derive(Clone, Copy)]
struct Lent {
    donor: f64,
    other: f64,
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
        let together = median_rates(&here, &[&first, &second], settle / 2.0);
        // Who is held back is answered before it can end.
        here.switch("none")?;
        second.end()?;
        let after = median_rates(&here, &[&first], short)[0];
        first.end()?;
        Ok(Lent { donor: together[0] / f64::midpoint(before, after), other: together[1] })
    };
    let seen = measure().map_err(failed)?;
    drop(cores);
    here.end();
    Ok(seen)
}

/// NyxCache, Figure 11, live.
pub(super) fn lend(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let _awake = Awake::start();
    let (keys, step) = (sweep.count("keys")?, sweep.number("step")?);
    let reader = gets("b", 4096, keys, sweep.count("get_depth")?);
    let writer = sets("b", 4096, keys, sweep.count("write_depth")?);
    for (label, other) in [("get", reader), ("write", writer)] {
        let (mut donor, mut gain, mut kept) = (Vec::new(), Vec::new(), f64::NAN);
        for (at, (name, donation)) in [("kept", 0.0), ("nyx", step), ("naive", 1.0)].into_iter().enumerate() {
            let seen = lent(sweep, other, donation)?;
            if name == "kept" {
                kept = seen.other;
            }
            results.number(format!("{label}_{name}_a"), seen.donor);
            results.number(format!("{label}_{name}_b"), seen.other / kept);
            donor.push((at as f64, seen.donor));
            gain.push((at as f64, seen.other / kept));
        }
        results.series("The donor, of what it does alone", &format!("beside a {label}-heavy one"), &donor);
        results.series("Who is lent, of what it has without", &format!("{label}-heavy"), &gain);
    }
    for (title, unit) in
        [("The donor, of what it does alone", "part"), ("Who is lent, of what it has without", "times")]
    {
        results.axes(title, "kept, step by step, all", unit);
    }
    Ok(())
}
