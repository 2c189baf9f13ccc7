//! Figure 5: what being regulated costs who is never held back, and what finding out how fast everybody would be alone does.
//!
//! Shape: (a) look-ups of clients with no policy and under a limit that nobody comes to, in turns -> part lost;
//!        (b) tenants under `fair-slowdown` -> part of the time in which all but one pause
//! Units: parts
//! Source: NyxCache §4.1 (Fig. 5)

use super::{failed, gets, median, rates};
use crate::live::{Here, Tenant, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Tenants of part (b) at most, as in the figure.
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn end(clients: impl IntoIterator<Item = Working>) -> io::Result<()> {
    clients.into_iter().try_for_each(|client| client.end().map(drop))
}

/// The part of its look-ups that a tenant loses by being regulated.
fn lost(sweep: &Sweep, size: usize) -> Result<f64, ExperimentError> {
    let tenants = [Tenant::new("a", "limit 100%"), Tenant::new("b", "limit 100%")];
    let here = Here::start(sweep.text("tier")?, "none", &tenants, 2).map_err(failed)?;
    let (keys, piece, pieces) = (sweep.count("keys")?, sweep.number("piece_s")?, sweep.count("pieces")?);
    let run = || -> io::Result<f64> {
        let works = ["a", "b"].map(|name| gets(name, size, keys, 16));
        for work in &works {
            here.fill(work)?;
        }
        let clients = works.map(|work| here.work(work));
        let under = |policy: &str| -> io::Result<f64> {
            here.switch(policy)?;
            here.pass(piece / 8.0);
            Ok(rates(&here, &[&clients[0], &clients[1]], piece).iter().sum())
        };
        let mut parts = Vec::new();
        let mut before = under("none")?;
        for _ in 0..pieces {
            let regulated = under("limit")?;
            let after = under("none")?;
            parts.push(1.0 - 2.0 * regulated / (before + after));
            before = after;
        }
        end(clients)?;
        Ok(median(&mut parts))
    };
    let lost = run().map_err(failed)?;
    here.end();
    Ok(lost)
}

/// The part of the time in which so many tenants are paused but for one.
fn probed(sweep: &Sweep, count: usize) -> Result<f64, ExperimentError> {
    let tenants: Vec<Tenant> = NAMES[..count].iter().map(|name| Tenant::new(name, "")).collect();
    let here = Here::start(sweep.text("tier")?, "none", &tenants, 2).map_err(failed)?;
    let keys = sweep.count("keys")?;
    let run = || -> io::Result<f64> {
        let works: Vec<_> = NAMES[..count].iter().map(|name| gets(name, 1024, keys, 4)).collect();
        for work in &works {
            here.fill(work)?;
        }
        let clients: Vec<Working> = works.iter().map(|work| here.work(*work)).collect();
        here.switch("fair-slowdown")?;
        let before = here.decisions_total();
        here.pass(sweep.number("probed_s").map_err(io::Error::other)?);
        let windows = here.decided_since(before)?;
        let seen = here.used(NAMES[0], windows);
        let secs = |which: &dyn Fn(&crate::live::Used) -> bool| -> f64 {
            seen.iter().filter(|window| which(window)).map(|window| window.secs).sum()
        };
        here.switch("none")?;
        end(clients)?;
        Ok(secs(&|window| !window.is_steady) / secs(&|_| true))
    };
    let part = run().map_err(failed)?;
    here.end();
    Ok(part)
}

/// NyxCache, Figure 5.
pub(super) fn overhead(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut points = Vec::new();
    for size in sweep.list("value_bytes")? {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size of the sweep")]
        let lost = lost(sweep, size as usize)?;
        results.number(format!("regulated_{size}"), lost);
        points.push((size, lost));
    }
    results.series("(a) Regulation and accounting", "clients", &points);
    results.axes("(a) Regulation and accounting", "value, B", "part of look-ups lost");
    let mut points = Vec::new();
    for count in sweep.list("tenants")? {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of tenants")]
        let part = probed(sweep, (count as usize).clamp(1, NAMES.len()))?;
        results.number(format!("probed_{count}"), part);
        points.push((count, part));
    }
    results.series("(b) Speeds alone found out", "once a second", &points);
    results.axes("(b) Speeds alone found out", "tenants", "part of the time");
    Ok(())
}
