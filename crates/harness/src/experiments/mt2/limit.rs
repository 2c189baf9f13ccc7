//! Figure 8 live: the limit of a writer beside a reader is changed while both run.

use super::{BEGINS_S, end, load};
use crate::experiments::nyx::failed;
use crate::live::{Here, Tenant, Used};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Windows of the journal are joined to steps of so many seconds: as long as the paper's curve is fine.
const STEP_S: f64 = 0.3;
/// What is seen of a change counts after so long.
const SETTLES_S: f64 = 1.0;
/// A limit holds within so much.
const BAND: f64 = 0.05;

/// MB/s over time, in steps, by the server's meter.
fn course(windows: &[Used], bytes: fn(&Used) -> f64) -> Vec<(f64, f64)> {
    let (mut points, mut sum, mut secs) = (Vec::new(), 0.0, 0.0);
    for window in windows {
        (sum, secs) = (sum + bytes(window), secs + window.secs);
        if STEP_S <= secs {
            points.push((window.end_s, sum / secs / 1e6));
            (sum, secs) = (0.0, 0.0);
        }
    }
    points
}

fn mean(points: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let inside: Vec<f64> = points.iter().filter(|(at, _)| from < *at && *at <= to).map(|(_, y)| *y).collect();
    inside.iter().sum::<f64>() / inside.len() as f64
}

/// MT², Figure 8, live.
pub(super) fn limit(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let tenants = [Tenant::new("reader", "exempt"), Tenant::new("writer", "")];
    let here = Here::start(sweep.text("tier")?, "prevention", &tenants, 2).map_err(failed)?;
    let works = [load(sweep, "reader")?, load(sweep, "writer")?];
    let (free_s, phase_s) = (sweep.number("free_s")?, sweep.number("phase_s")?);
    let (limits, scale) = (sweep.list("limit_gb")?, sweep.number("megabytes_for_gb")?);
    let mut changes = Vec::new();
    let mut run = || -> io::Result<[Vec<Used>; 2]> {
        for work in &works {
            here.fill(work)?;
        }
        let clients = works.map(|work| here.work(work));
        here.pass(BEGINS_S);
        let now = || here.used("writer", 1).last().map_or(0.0, |window| window.end_s);
        changes.push((now(), None));
        here.pass(free_s);
        for limit in limits.iter().copied().map(Some).chain([None]) {
            let claim = limit.map_or_else(String::new, |gb| format!("cap writes {:.0}B/s", gb * scale * 1e6));
            changes.push((now(), limit));
            here.claim("writer", &claim)?;
            here.pass(phase_s);
        }
        let seen = ["reader", "writer"].map(|name| here.used(name, usize::MAX));
        here.switch("none")?;
        end(clients)?;
        Ok(seen)
    };
    let [reader, writer] = run().map_err(failed)?;
    here.end();
    let (reader, writer) =
        (course(&reader, |w| w.bytes.slow_read), course(&writer, |window| window.bytes.slow_write));
    let last = writer.last().map_or(0.0, |(at, _)| *at);
    let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([last]);
    for (phase, ((from, limit), to)) in changes.iter().zip(ends).enumerate() {
        let name =
            limit.map_or_else(|| if phase == 0 { "free" } else { "none" }.to_owned(), |gb| format!("{gb}"));
        // Of a phase that is shorter than twice that, its second half.
        let settled = if phase == 0 { *from } else { from + SETTLES_S.min((to - from) / 2.0) };
        results.number(format!("writer_at_{name}"), mean(&writer, settled, to));
        results.number(format!("victim_at_{name}"), mean(&reader, settled, to));
        let Some(limit) = limit.map(|gb| gb * scale) else { continue };
        let before = mean(&writer, from - 1.0, *from);
        let mut after = writer.iter().filter(|(at, _)| from < at && *at <= to);
        let there = |rate: f64| {
            if before < limit { (1.0 - BAND) * limit <= rate } else { rate <= (1.0 + BAND) * limit }
        };
        let first = after.find(|(_, rate)| there(*rate)).map_or(to, |(at, _)| *at);
        results.number(format!("settles_after_{name}"), first - from);
        let inside = writer.iter().filter(|(at, _)| from + SETTLES_S < *at && *at <= to);
        let worst = inside.map(|(_, rate)| rate / limit).fold(0.0, f64::max);
        results.number(format!("worst_step_at_{name}"), worst);
    }
    let title = "Bandwidth while the limit changes";
    let began = changes.first().map_or(0.0, |(at, _)| *at);
    let shifted = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|(at, rate)| (at - began, *rate)).collect()
    };
    results.series(title, "victim, reads", &shifted(&reader));
    results.series(title, "neighbour, writes", &shifted(&writer));
    results.axes(title, "s", "MB/s");
    Ok(())
}
