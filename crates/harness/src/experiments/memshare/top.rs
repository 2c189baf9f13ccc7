//! Tables 6 to 8 and Figure 5: many tenants against other caches, the width of a pass, tenants alone.
//!
//! Shape: the shared trace and generated applications through the store, and exact simulators of the peers
//! Units: hit ratios in percent, copied bytes in MB per second of the trace

use super::plant::{Plant, percent, sum, whole};
use super::rivals;
use crate::replay::ReplayOptions;
use lab::Tally;
use lab::experiment::{ExperimentError, Results, Sweep};
use store::{FixedPass, Geometry, PassKind};
use units::Bytes;

/// The rows of Table 6 that have a hit ratio.
const TABLE_6: [&str; 6] =
    ["memcached", "cliffhanger", "partitioned", "memshare_tax", "memshare_shared", "cliffhanger_hill"];
/// Those of its second column: the misses that are gone, relative to memcached.
const REDUCTIONS: [&str; 3] = ["cliffhanger", "memshare_tax", "memshare_shared"];

/// Memshare, Table 6: all tenants under both policies, against slab caches in the same parts.
pub(super) fn table_6(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let reductions = REDUCTIONS.map(|name| format!("{name}_miss_reduction"));
    let items: Vec<&str> = TABLE_6.into_iter().chain(reductions.iter().map(String::as_str)).collect();
    for plant in Plant::both(sweep, results, &items)? {
        let ratios = columns(sweep, &plant)?.map(|tallies| percent(&sum(&tallies)));
        for (name, ratio) in TABLE_6.iter().zip(ratios) {
            results.number(plant.item(name), ratio);
        }
        let misses = |name: &str| {
            TABLE_6.iter().zip(ratios).find(|(n, _)| **n == name).map_or(f64::NAN, |(_, ratio)| 100.0 - ratio)
        };
        for (name, item) in REDUCTIONS.iter().zip(&reductions) {
            results.number(plant.item(item), 100.0 * (1.0 - misses(name) / misses("memcached")));
        }
    }
    Ok(())
}

/// The tenants' tallies in each of the rows of Table 6.
fn columns(sweep: &Sweep, plant: &Plant) -> Result<[Vec<Tally>; 6], ExperimentError> {
    let shared = plant.shared(sweep, sweep.count("private_percent")?)?;
    let taxed = plant.taxed(sweep)?;
    let [memcached, cliffhanger] = slabs(plant)?;
    Ok([
        memcached,
        cliffhanger,
        plant.partitioned()?,
        plant.tallies(&plant.replay(taxed)?),
        plant.tallies(&plant.replay(shared)?),
        plant.exact(&|part| rivals::cliffhanger_hill(part, plant.seed))?,
    ])
}

/// memcached and Cliffhanger, each tenant in its part.
fn slabs(plant: &Plant) -> Result<[Vec<Tally>; 2], ExperimentError> {
    Ok([plant.exact(&rivals::memcached)?, plant.exact(&|part| rivals::cliffhanger(part, plant.seed))?])
}

/// Memshare, Figure 5: each of the top applications under both policies and in memcached.
pub(super) fn fig_5(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    const TITLE: &str = "hit ratio by application";
    let plant = Plant::generated(sweep)?;
    let [memcached, _, _, tax, shared, _] = columns(sweep, &plant)?;
    let slack = sweep.number("slack_points")?;
    for (name, ours) in [("tax", &tax), ("shared", &shared)] {
        let pairs = || ours.iter().zip(&memcached);
        let kept = pairs().filter(|(o, m)| percent(m) - slack <= percent(o)).count();
        let gained = pairs().filter(|(o, m)| percent(m) + slack < percent(o)).count();
        results.number(format!("{name}_kept"), kept as f64);
        results.number(format!("{name}_gained"), gained as f64);
    }
    for (name, tallies) in [("memcached", &memcached), ("tax", &tax), ("shared", &shared)] {
        results.number(format!("{name}_combined"), percent(&sum(tallies)));
        let places = (1..=tallies.len()).map(|place| place as f64);
        let points: Vec<(f64, f64)> = places.zip(tallies.iter().map(percent)).collect();
        results.series(TITLE, name, &points);
    }
    results.axes(TITLE, "application, in the table's order", "hit ratio, %");
    Ok(())
}

/// Memshare, Table 7: how many segments a pass takes.
pub(super) fn table_7(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (widths, cut): (Vec<f64>, Vec<f64>) = {
        let geometry = Geometry::new(Bytes::mib(sweep.count("memory_mib")?), super::plant::ITEM_MAX, 1);
        let most = geometry.divisible.count_of(geometry.segment) / 2;
        sweep.list("segments")?.into_iter().partition(|n| whole(*n) <= most)
    };
    for n in cut {
        for name in ["hit", "moved"] {
            results
                .not_applicable(format!("{name}_{n}"), "so small a memory has no passes of so many segments");
        }
    }
    let names: Vec<String> = widths.iter().flat_map(|n| [format!("hit_{n}"), format!("moved_{n}")]).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(plant) = Plant::shared_trace(sweep, results, &all)? else { return Ok(()) };
    let (mut hit, mut moved) = (Vec::new(), Vec::new());
    for n in widths {
        let options = ReplayOptions {
            pass_kind: Some(PassKind::Fixed(FixedPass {
                takes: usize::try_from(whole(n)).unwrap_or(usize::MAX),
                frees: usize::try_from(sweep.count("frees")?).unwrap_or(usize::MAX),
            })),
            ..plant.shared(sweep, sweep.count("private_percent")?)?
        };
        let report = plant.replay(options)?;
        let seconds = plant.source.seconds().max(1.0);
        hit.push((n, report.hit_ratio() * 100.0));
        moved.push((n, report.cleaner_moved_bytes.unwrap_or(0) as f64 / 1e6 / seconds));
    }
    for (name, unit, points) in [("hit", "hit ratio, %", hit), ("moved", "copied, MB/s", moved)] {
        points.iter().for_each(|(n, value)| results.number(format!("{name}_{n}"), *value));
        results.series(unit, "shared", &points);
        results.axes(unit, "segments per pass", unit);
    }
    Ok(())
}

/// Memshare, Table 8: applications alone, each in as much memory as it bought.
pub(super) fn table_8(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (mut means, mut apps) = ([0.0; 3], 0.0);
    for plant in Plant::each_alone(sweep)? {
        let [memcached, cliffhanger] = slabs(&plant)?;
        let log = plant.tallies(&plant.replay(plant.options("shared", 100))?);
        for (mean, tallies) in means.iter_mut().zip([memcached, cliffhanger, log]) {
            *mean += percent(&sum(&tallies));
        }
        apps += 1.0;
    }
    for (name, total) in ["memcached", "cliffhanger", "log"].into_iter().zip(means) {
        results.number(name, total / apps);
    }
    Ok(())
}
