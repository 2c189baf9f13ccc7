//! Figures 10 and 11 live: the tier's time by weight, and what becomes of what is left idle.

use super::{failed, gets, rates, sets};
use crate::live::{Here, Tenant};
use lab::experiment::{ExperimentError, Results, Sweep};
use std::io;

/// Parts of the tier's time that tenants used over some seconds.
fn parts(here: &Here, names: &[&str], seconds: f64) -> Vec<f64> {
    let before: Vec<u64> = names.iter().map(|name| here.cost_ps(name)).collect();
    let started = crate::live::nanos();
    here.pass(seconds);
    let passed = (crate::live::nanos() - started) as f64 / 1e9;
    let used = names.iter().map(|name| here.cost_ps(name));
    used.zip(before).map(|(now, before)| (now - before) as f64 / 1e12 / passed).collect()
}

/// NyxCache, Figures 10 and 11, live.
pub(super) fn share(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let heavy = Tenant { weight: sweep.number("weight")?, ..Tenant::new("h", "") };
    let tenants = [heavy, Tenant::new("l", "")];
    let here = Here::start(sweep.text("tier")?, "none", &tenants, 2).map_err(failed)?;
    let (seconds, keys) = (sweep.number("seconds")?, sweep.count("keys")?);
    let size = 32 << 10;
    let mut measure = || -> io::Result<()> {
        let works = [sets("h", size, keys, 4), sets("l", size, keys, 4)];
        for work in &works {
            here.fill(work)?;
        }
        here.switch("proportional")?;
        let clients = works.map(|work| here.work(work));
        here.pass(1.0);
        let both = parts(&here, &["h", "l"], seconds);
        results.number("heavy_part", both[0]);
        results.number("light_part", both[1]);
        results.number("heavy_to_light", both[0] / both[1]);
        let [heavy, light] = clients;
        heavy.end()?;
        // Reads of small values: most of its part is idle.
        let reads = gets("h", 1024, keys, 1);
        here.fill(&reads)?;
        let calm = here.work(reads);
        here.pass(1.0);
        let calm_rate = rates(&here, &[&calm], 0.5)[0];
        let lent = parts(&here, &["h", "l"], seconds);
        results.number("light_when_idle", lent[1]);
        results.number("light_gain", lent[1] / both[1]);
        results.number("calm_rate", calm_rate);
        here.switch("none")?;
        calm.end()?;
        light.end()?;
        Ok(())
    };
    measure().map_err(failed)?;
    here.end();
    Ok(())
}
