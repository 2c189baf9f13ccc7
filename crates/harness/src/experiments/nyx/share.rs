//! Figures 10 and 11 live: the tier's time by weight, and what becomes of what is left idle.

use super::{failed, gets, rates, sets, workers};
use crate::live::{Awake, Cores, Here, Tenant, Work};
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

/// Stores as fast as they may.
fn stores(sweep: &Sweep, tenant: &'static str) -> Result<Work, ExperimentError> {
    let size = usize::try_from(sweep.count("store_bytes")?).map_err(ExperimentError::failed)?;
    Ok(Work { clients: 2, ..sets(tenant, size, sweep.count("keys")?, 4) })
}

/// Reads of small values, now and then: most of its part is idle.
fn calm(sweep: &Sweep) -> Result<Work, ExperimentError> {
    Ok(Work { pause_us: sweep.count("calm_pause_us")?, ..gets("h", 1024, sweep.count("keys")?, 1) })
}

/// NyxCache, Figures 10 and 11, live.
pub(super) fn share(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let _awake = Awake::start();
    let heavy = Tenant { weight: sweep.number("weight")?, ..Tenant::new("h", "") };
    let tenants = [heavy, Tenant::new("l", "")];
    let (part, workers) = (sweep.number("part")?, workers(sweep)?);
    let here = Here::start_with(sweep.text("tier")?, "none", &tenants, workers, |config| {
        config.bandwidth_part = part;
    });
    let here = here.map_err(failed)?;
    let cores = Cores::divide(workers);
    let seconds = sweep.number("seconds")?;
    let (works, reads) = ([stores(sweep, "h")?, stores(sweep, "l")?], calm(sweep)?);
    let mut measure = || -> io::Result<()> {
        for work in &works {
            here.fill(work)?;
        }
        let clients = works.map(|work| here.work(work));
        here.pass(0.5);
        // What the machine makes of the tier where nobody is held back: with less than what is divided nobody is held back.
        results.number("free_parts", parts(&here, &["h", "l"], seconds / 2.0).iter().sum::<f64>());
        here.switch("proportional")?;
        here.pass(1.0);
        let both = parts(&here, &["h", "l"], seconds);
        results.number("heavy_part", both[0] / part);
        results.number("light_part", both[1] / part);
        results.number("heavy_to_light", both[0] / both[1]);
        let [heavy, light] = clients;
        heavy.end()?;
        here.fill(&reads)?;
        let calm = here.work(reads);
        here.pass(1.0);
        let calm_rate = rates(&here, &[&calm], 0.5)[0];
        let lent = parts(&here, &["h", "l"], seconds);
        results.number("light_when_idle", lent[1] / part);
        results.number("light_gain", lent[1] / both[1]);
        results.number("calm_rate", calm_rate);
        here.switch("none")?;
        calm.end()?;
        light.end()?;
        Ok(())
    };
    measure().map_err(failed)?;
    drop(cores);
    here.end();
    Ok(())
}
