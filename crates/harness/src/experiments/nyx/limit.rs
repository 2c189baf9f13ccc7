//! Figures 6 and 7 live: a limit in cost holds for every pattern and however many look-ups miss; one in bytes does not.

use super::{decisions, failed, gets};
use crate::live::{Here, Tenant, Used, Work};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// What was seen of a limited tenant over some epochs: its part of the limit in all of them, in those in which its budget ran out,
/// and the worst of single ones.
#[derive(Clone, Copy)]
struct Kept {
    all: f64,
    ran_out: Option<f64>,
    worst: f64,
    /// Requests per second.
    rate: f64,
}

/// One load under one policy, with an unlimited one beside it.
fn case(sweep: &Sweep, policy: &str, claim: &str, work: Work) -> Result<Kept, ExperimentError> {
    let tenants = [Tenant::new("l", claim), Tenant::new("u", "")];
    let here = Here::start(sweep.text("tier")?, "none", &tenants, 1).map_err(failed)?;
    let epochs = sweep.count("epochs")?;
    let kept = seen(&here, policy, epochs, work).map_err(failed)?;
    here.end();
    let part = sweep.number("limit_part")?;
    let ran_out = kept.ran_out.map(|used| used / part);
    Ok(Kept { all: kept.all / part, ran_out, worst: kept.worst / part, rate: kept.rate })
}

fn seen(here: &Here, policy: &str, epochs: u64, work: Work) -> io::Result<Kept> {
    here.fill(&work)?;
    let beside = gets("u", 1024, 1_000, 1);
    here.fill(&beside)?;
    here.switch(policy)?;
    let by_epoch = policy == "limit";
    let (limited, unlimited) = (here.work(work), here.work(beside));
    // A policy without epochs is given the same time.
    let pass = |epochs: u64| {
        if by_epoch {
            return decisions(here, epochs);
        }
        here.pass(epochs as f64);
        Ok(())
    };
    // What was used before the load began is charged by then.
    pass(3)?;
    let (before, answered, started) = (here.cost_ps("l"), limited.answered(), crate::live::nanos());
    pass(epochs)?;
    let secs = (crate::live::nanos() - started) as f64 / 1e9;
    let rate = (limited.answered() - answered) as f64 / secs;
    let used = (here.cost_ps("l") - before) as f64 / 1e12 / secs;
    let windows = here.used("l", usize::try_from(epochs).unwrap_or(1));
    limited.end()?;
    unlimited.end()?;
    if !by_epoch {
        return Ok(Kept { all: used, ran_out: None, worst: used, rate });
    }
    let worst = windows.iter().map(|used| used.part).fold(0.0, f64::max);
    let all = mean(&windows, |_| true).unwrap_or(0.0);
    Ok(Kept { all, ran_out: mean(&windows, |used| used.ran_out), worst, rate })
}

/// The part of the tier's time that was used in some of the windows; none if there are none.
fn mean(windows: &[Used], counts: impl Fn(&Used) -> bool) -> Option<f64> {
    let (mut used, mut secs) = (0.0, 0.0);
    for window in windows.iter().filter(|window| counts(window)) {
        used += window.part * window.secs;
        secs += window.secs;
    }
    (0.0 < secs).then_some(used / secs)
}

/// NyxCache, Figures 6 and 7, live.
pub(super) fn limit(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let keys = sweep.count("keys")?;
    let mut patterns = Vec::new();
    for size in sweep.list("sizes")? {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size of the sweep")]
        let size = size as usize;
        for gets_percent in [100, 50, 0] {
            patterns.push(Work { gets_percent, ..gets("l", size, keys, 16) });
        }
    }
    let claim = format!("limit {}%", sweep.number("limit_part")? * 100.0);
    let (mut most, mut least, mut worst, mut wanted) = (0.0_f64, f64::INFINITY, 0.0_f64, 0.0);
    let mut points = Vec::new();
    for work in &patterns {
        let kept = case(sweep, "limit", &claim, *work)?;
        (most, worst) = (most.max(kept.all), worst.max(kept.worst));
        if let Some(ran_out) = kept.ran_out {
            least = least.min(ran_out);
            wanted += 1.0 / patterns.len() as f64;
        }
        points.push((work.size as f64, kept.all));
    }
    results.number("limit_most", most);
    results.number("limit_least", least);
    results.number("patterns_at_limit", wanted);
    results.number("limit_worst_epoch", worst);
    results.series("Part of the limit used", "limit", &points);
    in_bytes(sweep, results, &patterns)?;
    misses(sweep, results, &claim, keys)
}

/// The same patterns under a limit in bytes, which is the other's worth of the largest values.
fn in_bytes(sweep: &Sweep, results: &mut Results, patterns: &[Work]) -> Result<(), ExperimentError> {
    let claim = format!("limit {}", sweep.text("limit_bytes")?);
    let (mut most, mut least) = (0.0_f64, f64::INFINITY);
    let mut points = Vec::new();
    for work in patterns {
        let kept = case(sweep, "bandwidth-limit", &claim, *work)?;
        (most, least) = (most.max(kept.all), least.min(kept.all));
        points.push((work.size as f64, kept.all));
    }
    results.number("bytes_spread", most / least);
    results.series("Part of the limit used", "bandwidth-limit", &points);
    results.axes("Part of the limit used", "value size, B", "of the limit in cost");
    Ok(())
}

/// Figure 7: look-ups that miss do not come to the tier, and so are not limited.
fn misses(sweep: &Sweep, results: &mut Results, claim: &str, keys: u64) -> Result<(), ExperimentError> {
    let (mut worst, mut points) = (0.0_f64, Vec::new());
    for hits_percent in [100, 50, 10] {
        let work = Work { hits_percent, ..gets("l", 1024, keys, 16) };
        let kept = case(sweep, "limit", claim, work)?;
        worst = worst.max(kept.all);
        points.push((hits_percent as f64, kept.rate));
    }
    results.number("misses_most", worst);
    results.number("misses_rate_gain", points[2].1 / points[0].1);
    results.series("Look-ups per second over their hits", "limit", &points);
    results.axes("Look-ups per second over their hits", "hits, %", "1/s");
    Ok(())
}
