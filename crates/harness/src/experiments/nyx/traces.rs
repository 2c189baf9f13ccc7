//! Figure 12 live: write spikes of one cache under a limit in cost and one in bytes, and a promised slowdown by night and by day.
//!
//! Shape: loads with the values and kinds of Table 3 -> calm and spike in turns -> medians of what others lose; a night, a day
//!        and a night -> slowdowns of the promised one

use super::{failed, gets, median, median_rates, rates, warm, workers};
use crate::live::{Awake, Cores, Here, Tenant, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// The caches of the figure, in their order here.
const NAMES: [&str; 3] = ["s1", "c1", "c2"];
/// The first moments of a spike, until whoever is held back waits.
const SPIKE_BEGINS_S: f64 = 0.5;
/// How much of its limit may be used in any epoch.
const EPOCH_MOST: f64 = 1.05;

/// The load of `of` by `when`, of the tenant `name`.
fn load(sweep: &Sweep, name: &'static str, of: &str, when: &str) -> Result<Work, ExperimentError> {
    let number = |key: &str| sweep.count(&format!("{of}.{key}"));
    let size = usize::try_from(number("value_bytes")?).map_err(ExperimentError::failed)?;
    let work = gets(name, size, sweep.count("keys")?, number(&format!("{when}_depth"))?);
    let pause_us = number(&format!("{when}_pause_us"))?;
    Ok(Work { clients: number("clients")?, gets_percent: number("get_percent")?, pause_us, ..work })
}

fn loads(sweep: &Sweep, when: [&str; 3]) -> Result<[Work; 3], ExperimentError> {
    let [s1, c1, c2] = NAMES;
    Ok([load(sweep, s1, s1, when[0])?, load(sweep, c1, c1, when[1])?, load(sweep, c2, c2, when[2])?])
}

fn end(clients: impl IntoIterator<Item = Working>) -> io::Result<()> {
    clients.into_iter().try_for_each(|client| client.end().map(drop))
}

/// What spikes took: of S1's and C1's requests, and C2's part of the tier's time in them.
struct Spiked {
    losses: [f64; 2],
    used: f64,
    /// Of the tier's time, in each epoch that lies within a spike.
    epochs: Vec<f64>,
}

/// Calm and spikes in turns under a policy.
fn spikes(sweep: &Sweep, policy: &str, claim: &str) -> Result<Spiked, ExperimentError> {
    let tenants = [Tenant::new("s1", ""), Tenant::new("c1", ""), Tenant::new("c2", claim)];
    let workers = workers(sweep)?;
    let here = Here::start(sweep.text("tier")?, "none", &tenants, workers).map_err(failed)?;
    let cores = Cores::divide(workers);
    let works = loads(sweep, ["day", "day", "night"])?;
    let spike = load(sweep, "c2", "spike", "day")?;
    let (slice, slices) = (sweep.number("slice_s")?, sweep.count("slices")?);
    let run = || -> io::Result<Spiked> {
        for work in &works {
            here.fill(work)?;
        }
        here.switch(policy)?;
        let clients = works.map(|work| here.work(work));
        here.pass(SPIKE_BEGINS_S);
        let (mut losses, mut used, mut epochs) = ([Vec::new(), Vec::new()], Vec::new(), Vec::new());
        let windows = || here.used("c2", usize::MAX);
        let others = [&clients[0], &clients[1]];
        let mut calm = rates(&here, &others, slice);
        for _ in 0..slices {
            let spiking = here.work(spike);
            here.pass(SPIKE_BEGINS_S);
            // The one that runs has begun before the spike.
            let begun = windows().len() + 1;
            let (before, started) = (here.cost_ps("c2"), crate::live::nanos());
            let during = rates(&here, &others, slice);
            let passed_ps = (crate::live::nanos() - started) as f64 * 1e3;
            used.push((here.cost_ps("c2") - before) as f64 / passed_ps);
            epochs.extend(windows().iter().skip(begun).map(|window| window.part));
            spiking.end()?;
            let after = rates(&here, &others, slice);
            for (at, losses) in losses.iter_mut().enumerate() {
                // What else the machine does drifts: calm is what was before and what came after.
                losses.push(1.0 - 2.0 * during[at] / (calm[at] + after[at]));
            }
            calm = after;
        }
        // A budget is of an epoch: a slice may have seen one more of them begin than it is long.
        let ran_out: Vec<_> = windows().into_iter().filter(|window| window.ran_out).collect();
        let secs: f64 = ran_out.iter().map(|window| window.secs).sum();
        let in_epochs = ran_out.iter().map(|window| window.part * window.secs).sum::<f64>() / secs;
        here.switch("none")?;
        end(clients)?;
        let used = if policy == "limit" && 0.0 < secs { in_epochs } else { median(&mut used) };
        Ok(Spiked { losses: losses.map(|mut losses| median(&mut losses)), used, epochs })
    };
    let spiked = run().map_err(failed)?;
    drop(cores);
    here.end();
    Ok(spiked)
}

/// A night, a day and a night, of which S1 is as it is all the time.
struct Course<'a> {
    here: &'a Here,
    settle_s: f64,
    measure_s: f64,
    /// Slices so far, of half a second.
    s1: Vec<f64>,
    /// By phase: the part of the last windows in which S1 was held back itself.
    held: Vec<f64>,
}

impl Course<'_> {
    /// What everybody is answered per second, once it has settled.
    fn phase(&mut self, s1: &Working, works: &[Work]) -> io::Result<Vec<f64>> {
        let clients: Vec<Working> = works.iter().map(|work| self.here.work(*work)).collect();
        let all: Vec<&Working> = std::iter::once(s1).chain(&clients).collect();
        for (seconds, counts) in [(self.settle_s, false), (self.measure_s, true)] {
            let mut slices = Vec::new();
            while slices.len() < 2 || (slices.len() as f64) < seconds * 2.0 {
                slices.push(rates(self.here, &all, seconds.min(0.5)));
            }
            self.s1.extend(slices.iter().map(|rates| rates[0]));
            if counts {
                let of = |at: usize| median(&mut slices.iter().map(|rates| rates[at]).collect::<Vec<f64>>());
                let medians = (0..all.len()).map(of).collect();
                // Windows of a second and more: steady ones are a tenth of one each.
                let windows = self.here.used("s1", 20);
                let steady = windows.iter().filter(|window| window.is_steady);
                let held = steady.clone().filter(|window| window.is_held_back).count();
                self.held.push(held as f64 / steady.count() as f64);
                end(clients)?;
                return Ok(medians);
            }
        }
        Err(io::Error::other("nothing was measured"))
    }
}

/// Part (b): S1's slowdown without and with the guarantee.
fn day_and_night(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let claim = format!("slowdown {}", sweep.number("slowdown")?);
    let tenants = [Tenant::new("s1", &claim), Tenant::new("c1", ""), Tenant::new("c2", "")];
    let workers = workers(sweep)?;
    let here = Here::start(sweep.text("tier")?, "none", &tenants, workers).map_err(failed)?;
    let cores = Cores::divide(workers);
    let [day, night] = [loads(sweep, ["day"; 3])?, loads(sweep, ["night"; 3])?];
    let (settle_s, measure_s) = (sweep.number("settle_s")?, sweep.number("measure_s")?);
    let warm_s = sweep.number("warm_s")?;
    let mut run = || -> io::Result<()> {
        for work in &day {
            warm(&here, work, warm_s)?;
        }
        let s1 = here.work(day[0]);
        // What else the machine does changes within a minute: before and behind each course.
        let alone = || {
            here.pass(SPIKE_BEGINS_S);
            median_rates(&here, &[&s1], measure_s)[0]
        };
        let (first, mut seen) = (alone(), Vec::new());
        let mut before_it = first;
        for (policy, name, settle_s) in [("none", "free", SPIKE_BEGINS_S), ("fair-slowdown", "nyx", settle_s)]
        {
            here.switch(policy)?;
            let mut course = Course { here: &here, settle_s, measure_s, s1: Vec::new(), held: Vec::new() };
            let [before, by_day, after] = [&night, &day, &night].map(|works| course.phase(&s1, &works[1..]));
            let (before, by_day, after) = (before?, by_day?, after?);
            here.switch("none")?;
            let behind_it = alone();
            let alone = f64::midpoint(before_it, behind_it);
            before_it = behind_it;
            results.number(format!("{name}_night_slowdown"), alone / before[0]);
            results.number(format!("{name}_day_slowdown"), alone / by_day[0]);
            if name == "nyx" {
                results.number("nyx_night_s1_held", course.held[0]);
            }
            let points: Vec<(f64, f64)> =
                course.s1.iter().enumerate().map(|(at, rate)| (at as f64 / 2.0, alone / rate)).collect();
            results.series("Slowdown of S1: a night, a day, a night", name, &points);
            seen.push((before, by_day, after));
        }
        s1.end()?;
        let [(free_night, free_day, _), (_, nyx_day, after)] = &seen[..] else { return Ok(()) };
        results.number("nyx_day_kept", (nyx_day[1] / free_day[1] + nyx_day[2] / free_day[2]) / 2.0);
        results.number("nyx_c1_after_the_day", after[1] / free_night[1]);
        results.number("alone_again", before_it / first);
        results.axes("Slowdown of S1: a night, a day, a night", "s", "time ÷ alone");
        Ok(())
    };
    run().map_err(failed)?;
    drop(cores);
    here.end();
    Ok(())
}

/// NyxCache, Figure 12, live.
pub(super) fn traces(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let _awake = Awake::start();
    let part = sweep.number("limit_part")?;
    let in_cost = format!("limit {}%", part * 100.0);
    let in_bytes = format!("limit {}", sweep.text("limit_bytes")?);
    let policies =
        [("none", "free", ""), ("limit", "nyx", &*in_cost), ("bandwidth-limit", "bandwidth", &*in_bytes)];
    for (at, (policy, name, claim)) in policies.into_iter().enumerate() {
        let spiked = spikes(sweep, policy, claim)?;
        results.number(format!("{name}_c2_in_spike"), spiked.used / part);
        if policy == "limit" {
            let (epochs, all) = (spiked.epochs.iter().map(|used| used / part), spiked.epochs.len() as f64);
            let within = epochs.clone().filter(|used| *used <= EPOCH_MOST).count();
            let (least, most) = (epochs.clone().fold(f64::INFINITY, f64::min), epochs.fold(0.0, f64::max));
            for (item, ours) in
                [("epochs_within", within as f64 / all), ("most_in_epoch", most), ("least_in_epoch", least)]
            {
                let item = format!("{name}_c2_{item}");
                if spiked.epochs.is_empty() {
                    results.not_applicable(item, "no epoch lies within a spike so short");
                } else {
                    results.number(item, ours);
                }
            }
        }
        results.number(format!("{name}_s1_spike_loss"), spiked.losses[0]);
        results.number(format!("{name}_c1_spike_loss"), spiked.losses[1]);
        let points = [(at as f64, spiked.losses[0])];
        results.series("What a spike of C2's stores takes from S1", name, &points);
    }
    results.axes("What a spike of C2's stores takes from S1", "policy", "part of its requests");
    day_and_night(sweep, results)
}
