//! Figure 9 live: a foreground that comes to need more of the tier, and a background that gives way and has
//! it back.
//!
//! Shape:   stages, under no policy and under two -> MB/s of everybody in each
//! Failure: a policy that the server refuses is not applicable, with its reason

use super::{FIRST, end, load, megabytes};
use crate::experiments::nyx::failed;
use crate::live::{Awake, Here, Tenant, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Background jobs: reads and writes of the tier.
const BACKGROUND: [&str; 2] = ["nr", "nw"];
/// What the foreground does, by the sweep's tables: two tenants that come one after the other.
const FOREGROUND: [&str; 2] = ["f1", "f2"];

/// How the tier is divided, by the word of each in the items: `slo` is what the figure shows, remedy what a server may run without a model.
const POLICIES: [(&str, &str); 3] = [("none", "free"), ("prevention+remedy", "remedy"), ("slo", "slo")];
/// Tenants of the foreground awake in each stage.
const STAGES: [usize; 4] = [0, 1, 2, 0];

/// What of the figure cannot be shown, and why.
const NOT_HERE: [(&str, &str); 3] = [
    ("reservation", "a reservation stays inside the policy: the journal has the caps that follow from it"),
    (
        "dram_foreground",
        "traffic of DRAM has no brake in a server: memory bandwidth allocation acts on processes, not on tenants",
    ),
    (
        "dram_background",
        "traffic of DRAM has no brake in a server: memory bandwidth allocation acts on processes, not on tenants",
    ),
];

/// A server and the loads of both sides.
struct Sides<'a> {
    here: &'a Here,
    background: [Work; 2],
    foreground: [Work; 2],
    settle_s: f64,
    measure_s: f64,
}

impl Sides<'_> {
    /// All stages under the policy in charge: MB/s of the background, then of who is awake.
    fn stages(&self) -> io::Result<Vec<Vec<f64>>> {
        let clients = self.background.map(|work| self.here.work(work));
        let mut ahead: Vec<(Working, Work)> = Vec::new();
        let mut seen = Vec::new();
        for awake in STAGES {
            while awake < ahead.len() {
                ahead.pop().map_or(Ok(0), |(client, _)| client.end())?;
            }
            for work in &self.foreground[ahead.len()..awake] {
                ahead.push((self.here.work(*work), *work));
            }
            self.here.pass(self.settle_s);
            let ahead = ahead.iter().map(|(client, work)| (client, *work));
            let all: Vec<(&Working, Work)> = clients.iter().zip(self.background).chain(ahead).collect();
            seen.push(megabytes(self.here, &all, self.measure_s));
        }
        self.here.switch("none")?;
        end(clients)?;
        Ok(seen)
    }
}

/// MT², Figure 9, live.
pub(super) fn foreground(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let claims = BACKGROUND.map(|name| (name, "")).into_iter().chain(FOREGROUND.map(|name| (name, FIRST)));
    let tenants: Vec<Tenant> = claims.map(|(name, claim)| Tenant::new(name, claim)).collect();
    let _awake = Awake::start();
    let workers = usize::try_from(sweep.count("workers")?).map_err(ExperimentError::failed)?;
    let here = Here::start(sweep.text("tier")?, "none", &tenants, workers).map_err(failed)?;
    let late = Work { clients: sweep.count("f2.clients")?, ..load(sweep, FOREGROUND[1])? };
    let sides = Sides {
        here: &here,
        background: [load(sweep, BACKGROUND[0])?, load(sweep, BACKGROUND[1])?],
        foreground: [load(sweep, FOREGROUND[0])?, late],
        settle_s: sweep.number("settle_s")?,
        measure_s: sweep.number("measure_s")?,
    };
    let mut run = || -> io::Result<()> {
        for work in sides.background.iter().chain(&sides.foreground) {
            here.fill(work)?;
        }
        for (policy, how) in POLICIES {
            if let Err(refused) = here.switch(policy) {
                for (stage, awake) in STAGES.into_iter().enumerate() {
                    for name in BACKGROUND.iter().chain(&FOREGROUND[..awake]) {
                        results.not_applicable(format!("{how}_{name}_{stage}"), refused.to_string());
                    }
                }
                continue;
            }
            let stages = sides.stages()?;
            for (stage, seen) in stages.iter().enumerate() {
                for (name, rate) in BACKGROUND.iter().chain(&FOREGROUND).zip(seen) {
                    results.number(format!("{how}_{name}_{stage}"), *rate);
                }
            }
            let writes: Vec<(f64, f64)> =
                (0_u8..).map(f64::from).zip(stages.iter().map(|seen| seen[1])).collect();
            results.series("Background writes by stage", how, &writes);
            if policy == "prevention+remedy" {
                results.number("remedy_relaxed", here.noted("relaxed") as f64);
            }
        }
        Ok(())
    };
    run().map_err(failed)?;
    here.end();
    results.axes("Background writes by stage", "foreground awake: none, one, both, none", "MB/s");
    for (item, why) in NOT_HERE {
        results.not_applicable(item, why);
    }
    Ok(())
}
