//! Tables 1 to 5: three applications under a static partition, greed, and Memshare's policies.
//!
//! Shape: stand-ins from a shared trace and generated applications, each through exact caches and the store
//! Units: hit ratios in percent

use super::plant::{Plant, percent, sum, whole};
use crate::replay::ReplayOptions;
use lab::Tally;
use lab::experiment::{ExperimentError, Results, Sweep};
use units::Bytes;

/// Numbers of single tenants and of all, as `app_3_NAME` and `combined_NAME`.
fn tell(
    sweep: &Sweep,
    results: &mut Results,
    plant: &Plant,
    name: &str,
    tallies: &[Tally],
) -> Result<(), ExperimentError> {
    let stand_ins = plant.source.tenants();
    for ((app, tally), stand_in) in sweep.texts("names")?.iter().zip(tallies).zip(stand_ins) {
        let item = plant.item(&format!("{app}_{name}"));
        results.number(item.as_str(), percent(tally));
        results.note(item, format!("stand-in {stand_in}, {} look-ups", tally.gets));
    }
    results.number(plant.item(&format!("combined_{name}")), percent(&sum(tallies)));
    Ok(())
}

/// The items `app_3_NAME` to `combined_NAME` of each name.
fn items(names: &[&str]) -> Vec<String> {
    let apps = ["app_3", "app_5", "app_7", "combined"];
    names.iter().flat_map(|name| apps.map(|app| format!("{app}_{name}"))).collect()
}

fn plants(sweep: &Sweep, results: &mut Results, items: &[String]) -> Result<Vec<Plant>, ExperimentError> {
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    Plant::both(sweep, results, &items)
}

/// Memshare, Table 1: a static partition against greedy sharing.
pub(super) fn table_1(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for plant in plants(sweep, results, &items(&["partitioned", "shared"]))? {
        tell(sweep, results, &plant, "partitioned", &plant.partitioned()?)?;
        tell(sweep, results, &plant, "shared", &plant.pooled()?)?;
    }
    Ok(())
}

/// Memshare, Table 2: half of the memory private.
pub(super) fn table_2(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let items = [items(&["partitioned", "memshare"]), vec!["combined_shared".to_owned()]].concat();
    for plant in plants(sweep, results, &items)? {
        tell(sweep, results, &plant, "partitioned", &plant.partitioned()?)?;
        results.number(plant.item("combined_shared"), percent(&sum(&plant.pooled()?)));
        let report = plant.replay(plant.shared(sweep, sweep.count("private_percent")?)?)?;
        tell(sweep, results, &plant, "memshare", &plant.tallies(&report))?;
    }
    Ok(())
}

/// Memshare, Table 3: the private part from nothing to all.
pub(super) fn table_3(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    const TITLE: &str = "hit ratio over private memory";
    let parts = sweep.list("private_percent")?;
    let names: Vec<String> = parts.iter().map(|part| format!("private_{part}")).collect();
    for plant in plants(sweep, results, &names)? {
        let mut points = Vec::new();
        for (part, name) in parts.iter().zip(&names) {
            let ratio = plant.replay(plant.shared(sweep, whole(*part))?)?.hit_ratio() * 100.0;
            results.number(plant.item(name), ratio);
            points.push((*part, ratio));
        }
        results.series(TITLE, &plant.item("shared"), &points);
    }
    results.axes(TITLE, "private memory, %", "hit ratio, %");
    Ok(())
}

/// Memshare, Table 4: credits of one, two and three sizes against one for all.
pub(super) fn table_4(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let apps = sweep.texts("names")?;
    let names = ["equal", "weighted"];
    let items: Vec<String> =
        names.iter().flat_map(|name| apps.iter().map(move |app| format!("{app}_{name}"))).collect();
    let private = sweep.count("private_percent")?;
    let sizes = sweep.list("credits_kib")?;
    for plant in plants(sweep, results, &items)? {
        let tenants = plant.source.tenants().iter().cloned();
        let weighted: Vec<(String, Bytes)> =
            tenants.zip(sizes.iter().map(|kib| plant.credit(*kib))).collect();
        for (name, credits) in [("equal", Vec::new()), ("weighted", weighted)] {
            let options = ReplayOptions { credits, ..plant.shared(sweep, private)? };
            let report = plant.replay(options)?;
            for (app, tally) in apps.iter().zip(&plant.tallies(&report)) {
                results.number(plant.item(&format!("{app}_{name}")), percent(tally));
            }
        }
    }
    Ok(())
}

/// Memshare, Table 5: the idle tax.
pub(super) fn table_5(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for plant in plants(sweep, results, &items(&["partitioned", "idle_tax"]))? {
        tell(sweep, results, &plant, "partitioned", &plant.partitioned()?)?;
        let report = plant.replay(plant.taxed(sweep)?)?;
        tell(sweep, results, &plant, "idle_tax", &plant.tallies(&report))?;
    }
    Ok(())
}
