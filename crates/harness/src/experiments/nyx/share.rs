//! Figures 10 and 11 live: the tier's time by weight, and what becomes of what is left idle.

use super::{failed, gets, rates, sets};
use crate::live::{Here, Tenant, Work};
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
    let part = sweep.number("part")?;
    let here =
        Here::start_with(sweep.text("tier")?, "none", &tenants, 2, |config| config.bandwidth_part = part);
    let here = here.map_err(failed)?;
    let (seconds, keys) = (sweep.number("seconds")?, sweep.count("keys")?);
    let size = 32 << 10;
    let mut measure = || -> io::Result<()> {
        // Either alone uses the tier up: both workers serve both.
        let works = ["h", "l"].map(|tenant| Work { clients: 2, ..sets(tenant, size, keys, 4) });
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
        // Reads of small values: most of its part is idle.
        let reads = gets("h", 1024, keys, 1);
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
    here.end();
    let why = "not run live (bandwidth_donation sets them); the model's answer is nyx/fig_14";
    results.not_applicable("fig_14_steps", why);
    Ok(())
}
