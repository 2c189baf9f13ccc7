//! Figure 9 live, as far as it can be: a foreground that comes to need more of the tier, and a background that gives way and has
//! it back.
//!
//! Non-goals: reservations, which are the policy `slo`'s: its steps of 1 GB/s are beyond what clients on loopback need

use super::{BEGINS_S, FIRST, end, load, megabytes};
use crate::experiments::nyx::failed;
use crate::live::{Here, Tenant, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Background jobs: reads and writes of the tier.
const BACKGROUND: [&str; 2] = ["nr", "nw"];
/// What the foreground does, by the sweep's tables: two tenants that come one after the other.
const FOREGROUND: [&str; 2] = ["f1", "f2"];

/// What of the figure is another's to show, and why.
const NOT_HERE: [(&str, &str); 3] = [
    (
        "reservation",
        "reservations grow in steps of 1 GB/s of a kind (policy slo), more than clients on loopback read here",
    ),
    (
        "dram_foreground",
        "traffic of DRAM has no brake in a server: memory bandwidth allocation acts on processes, not on tenants",
    ),
    (
        "dram_background",
        "traffic of DRAM has no brake in a server: memory bandwidth allocation acts on processes, not on tenants",
    ),
];

/// MT², Figure 9, live.
pub(super) fn foreground(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let claims = BACKGROUND.map(|name| (name, "")).into_iter().chain(FOREGROUND.map(|name| (name, FIRST)));
    let tenants: Vec<Tenant> = claims.map(|(name, claim)| Tenant::new(name, claim)).collect();
    let here = Here::start(sweep.text("tier")?, "none", &tenants, 2).map_err(failed)?;
    let background = [load(sweep, BACKGROUND[0])?, load(sweep, BACKGROUND[1])?];
    let foreground = [load(sweep, FOREGROUND[0])?, load(sweep, FOREGROUND[1])?];
    let (settle_s, measure_s) = (sweep.number("settle_s")?, sweep.number("measure_s")?);
    let mut run = || -> io::Result<()> {
        for work in background.iter().chain(&foreground) {
            here.fill(work)?;
        }
        for (policy, how, settle_s) in [("none", "free", BEGINS_S), ("prevention+remedy", "held", settle_s)] {
            here.switch(policy)?;
            let clients = background.map(|work| here.work(work));
            let mut ahead: Vec<(Working, Work)> = Vec::new();
            // The foreground wakes, comes to need more, and sleeps again one by one.
            for (stage, awake) in [0, 1, 2, 0].into_iter().enumerate() {
                while awake < ahead.len() {
                    ahead.pop().map_or(Ok(0), |(client, _)| client.end())?;
                }
                for work in &foreground[ahead.len()..awake] {
                    ahead.push((here.work(*work), *work));
                }
                here.pass(settle_s);
                let all =
                    clients.iter().zip(background).chain(ahead.iter().map(|(client, work)| (client, *work)));
                let seen = megabytes(&here, &all.collect::<Vec<_>>(), measure_s);
                for (name, rate) in BACKGROUND.iter().chain(&FOREGROUND).zip(&seen) {
                    results.number(format!("{how}_{name}_{stage}"), *rate);
                }
                let points = [(stage as f64, seen[1])];
                results.series("Background writes by stage", &format!("{how}, stage {stage}"), &points);
            }
            here.switch("none")?;
            end(clients)?;
        }
        Ok(())
    };
    run().map_err(failed)?;
    here.end();
    results.axes("Background writes by stage", "tenants of the foreground awake: 0, 1, 2, 0", "MB/s");
    for (item, why) in NOT_HERE {
        results.not_applicable(item, why);
    }
    Ok(())
}
