//! Memshare's tables through the real store in this process, in the time of a trace.
//!
//! Shape:    sweep -> trace -> replays under policies, and exact caches for what memcached would do -> hit ratios
//! Units:    hit ratios in percent, copied bytes in MB per second of the trace
//! Failure:  without the trace every item is not applicable, and says where it was looked for
//! Non-goals: memcached and Cliffhanger side by side

mod baseline;
mod source;

use crate::replay::{ReplayOptions, Tax, in_process};
use crate::report::Report;
use baseline::{partitioned, pooled};
use lab::experiment::{Experiment, ExperimentError, Results, Sweep};
use lab::{Tally, experiment};
use source::Source;
use store::{Geometry, RankKind};
use units::{Bytes, Duration};

/// Every table that the store can show.
pub(super) const MEMSHARE: &[Experiment] = &[
    experiment!("memshare/table_1", table_1),
    experiment!("memshare/table_2", table_2),
    experiment!("memshare/table_3", table_3),
    experiment!("memshare/table_4", table_4),
    experiment!("memshare/table_5", table_5),
    experiment!("memshare/table_6", table_6),
    experiment!("memshare/table_7", table_7),
];

/// Largest item.
const ITEM_MAX: Bytes = Bytes::mib(1);

/// The trace and the memory that one experiment is about.
struct Plant {
    source: Source,
    memory: Bytes,
    seed: u64,
}

/// The sweep's plant, or none with a remark at every one of `items`.
fn plant(sweep: &Sweep, results: &mut Results, items: &[&str]) -> Result<Option<Plant>, ExperimentError> {
    let memory = Bytes::mib(sweep.count("memory_mib")?);
    match Source::open(sweep)? {
        Ok(source) => Ok(Some(Plant { source, memory, seed: sweep.seed })),
        Err(why) => {
            items.iter().for_each(|item| results.not_applicable(*item, why.clone()));
            Ok(None)
        }
    }
}

impl Plant {
    /// What each of the tenants may hold, all alike.
    fn equal_part(&self) -> Bytes {
        self.divisible().scale(1, self.source.tenants().len().max(1) as u64)
    }

    fn divisible(&self) -> Bytes {
        store::divisible_capacity(self.memory, ITEM_MAX, 1)
    }

    /// The policy `policy` with `private_percent` of every equal part as a floor.
    fn options(&self, policy: &str, private_percent: u64) -> ReplayOptions {
        ReplayOptions {
            memory: self.memory,
            item_max: ITEM_MAX,
            policy: policy.to_owned(),
            reserved: vec![(None, self.equal_part().scale(private_percent.min(100), 100))],
            rank: RankKind::Lru,
            tenants: self.source.tenants().to_vec(),
            limit: Some(self.source.requests()),
            seed: self.seed,
            ..ReplayOptions::default()
        }
    }

    fn replay(&self, options: ReplayOptions) -> Result<Report, ExperimentError> {
        let mut reader = self.source.reader()?;
        in_process(options, &mut [&mut *reader], &mut |_| {}).map_err(ExperimentError::failed)
    }

    /// The exact caches that stand for memcached: a part for each tenant, in the order of the tenants.
    fn partitioned(&self) -> Result<Vec<Tally>, ExperimentError> {
        partitioned(&mut *self.source.reader()?, &self.source, self.equal_part())
    }
}

fn percent(hits: u64, gets: u64) -> f64 {
    if gets == 0 { 0.0 } else { hits as f64 * 100.0 / gets as f64 }
}

/// Numbers of single tenants and of all, as `app_3_NAME` and `combined_NAME`.
fn tell(
    sweep: &Sweep,
    results: &mut Results,
    plant: &Plant,
    name: &str,
    tallies: &[Tally],
) -> Result<(), ExperimentError> {
    for (app, tally) in sweep.texts("names")?.iter().zip(tallies) {
        results.number(format!("{app}_{name}"), percent(tally.hits, tally.gets));
        results.note(format!("{app}_{name}"), stand_in(plant, tallies, tally));
    }
    let all = sum(tallies);
    results.number(format!("combined_{name}"), percent(all.hits, all.gets));
    Ok(())
}

fn stand_in(plant: &Plant, tallies: &[Tally], tally: &Tally) -> String {
    let at = tallies.iter().position(|t| std::ptr::eq(t, tally));
    let name = at.and_then(|at| plant.source.tenants().get(at)).map_or("", String::as_str);
    format!("stand-in {name}, {} look-ups", tally.gets)
}

fn sum(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |all, t| Tally {
        requests: all.requests + t.requests,
        gets: all.gets + t.gets,
        hits: all.hits + t.hits,
    })
}

/// A report's tenants in the order of the plant's.
fn tallies(plant: &Plant, report: &Report) -> Vec<Tally> {
    let of = |name: &String| report.tenants.iter().find(|t| t.name == *name);
    let tally =
        |name| of(name).map_or(Tally::default(), |t| Tally { requests: 0, gets: t.gets, hits: t.hits });
    plant.source.tenants().iter().map(tally).collect()
}

/// Memshare, Table 1: a static partition against greedy sharing.
fn table_1(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let names = [
        "app_3_partitioned",
        "app_5_partitioned",
        "app_7_partitioned",
        "combined_partitioned",
        "app_3_shared",
        "app_5_shared",
        "app_7_shared",
        "combined_shared",
    ];
    let Some(plant) = plant(sweep, results, &names)? else { return Ok(()) };
    tell(sweep, results, &plant, "partitioned", &plant.partitioned()?)?;
    let shared = pooled(&mut *plant.source.reader()?, &plant.source, plant.divisible())?;
    tell(sweep, results, &plant, "shared", &shared)
}

/// Memshare, Table 2: half of the memory private.
fn table_2(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let names = [
        "app_3_partitioned",
        "app_5_partitioned",
        "app_7_partitioned",
        "combined_partitioned",
        "combined_shared",
        "app_3_memshare",
        "app_5_memshare",
        "app_7_memshare",
        "combined_memshare",
    ];
    let Some(plant) = plant(sweep, results, &names)? else { return Ok(()) };
    tell(sweep, results, &plant, "partitioned", &plant.partitioned()?)?;
    let greedy = sum(&pooled(&mut *plant.source.reader()?, &plant.source, plant.divisible())?);
    results.number("combined_shared", percent(greedy.hits, greedy.gets));
    let options = ReplayOptions {
        credit: Bytes::kib(sweep.count("credit_kib")?),
        ..plant.options("shared", sweep.count("private_percent")?)
    };
    let report = plant.replay(options)?;
    tell(sweep, results, &plant, "memshare", &tallies(&plant, &report))
}

/// Memshare, Table 3: the private part from nothing to all.
fn table_3(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let parts = sweep.list("private_percent")?;
    let names: Vec<String> = parts.iter().map(|part| format!("private_{part}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(plant) = plant(sweep, results, &all)? else { return Ok(()) };
    let credit = Bytes::kib(sweep.count("credit_kib")?);
    let mut points = Vec::new();
    for (part, name) in parts.iter().zip(&names) {
        let options = ReplayOptions { credit, ..plant.options("shared", whole(*part)) };
        let ratio = plant.replay(options)?.hit_ratio() * 100.0;
        results.number(name.as_str(), ratio);
        points.push((*part, ratio));
    }
    results.series("hit ratio over private memory", "shared", &points);
    results.axes("hit ratio over private memory", "private memory, %", "hit ratio, %");
    Ok(())
}

/// Memshare, Table 4: credits of one, two and three sizes against one for all.
fn table_4(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let names =
        ["app_3_equal", "app_5_equal", "app_7_equal", "app_3_weighted", "app_5_weighted", "app_7_weighted"];
    let Some(plant) = plant(sweep, results, &names)? else { return Ok(()) };
    let private = sweep.count("private_percent")?;
    let credit = Bytes::kib(sweep.count("credit_kib")?);
    let credits = sweep.list("credits_kib")?;
    let credits: Vec<(String, Bytes)> = plant
        .source
        .tenants()
        .iter()
        .cloned()
        .zip(credits.iter().map(|kib| Bytes::kib(whole(*kib))))
        .collect();
    for (name, credits) in [("equal", Vec::new()), ("weighted", credits)] {
        let options = ReplayOptions { credit, credits, ..plant.options("shared", private) };
        let report = plant.replay(options)?;
        for (app, tally) in sweep.texts("names")?.iter().zip(&tallies(&plant, &report)) {
            results.number(format!("{app}_{name}"), percent(tally.hits, tally.gets));
        }
    }
    Ok(())
}

/// Memshare, Table 5: the idle tax.
fn table_5(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let names = [
        "app_3_partitioned",
        "app_5_partitioned",
        "app_7_partitioned",
        "combined_partitioned",
        "app_3_idle_tax",
        "app_5_idle_tax",
        "app_7_idle_tax",
        "combined_idle_tax",
    ];
    let Some(plant) = plant(sweep, results, &names)? else { return Ok(()) };
    tell(sweep, results, &plant, "partitioned", &plant.partitioned()?)?;
    let report = plant.replay(taxed(sweep, &plant)?)?;
    tell(sweep, results, &plant, "idle_tax", &tallies(&plant, &report))
}

/// Memshare, Table 6: all tenants under both policies.
fn table_6(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for item in [
        "memcached",
        "cliffhanger",
        "cliffhanger_miss_reduction",
        "memshare_tax_miss_reduction",
        "memshare_shared_miss_reduction",
    ] {
        results.not_applicable(item, "memcached and Cliffhanger do not run on this plant");
    }
    let names = ["partitioned", "memshare_tax", "memshare_shared"];
    let Some(plant) = plant(sweep, results, &names)? else { return Ok(()) };
    let all = sum(&plant.partitioned()?);
    results.number("partitioned", percent(all.hits, all.gets));
    results.number("memshare_tax", plant.replay(taxed(sweep, &plant)?)?.hit_ratio() * 100.0);
    let shared = ReplayOptions {
        credit: Bytes::kib(sweep.count("credit_kib")?),
        ..plant.options("shared", sweep.count("private_percent")?)
    };
    results.number("memshare_shared", plant.replay(shared)?.hit_ratio() * 100.0);
    Ok(())
}

/// Memshare, Table 7: how many segments a pass takes.
fn table_7(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let (widths, cut): (Vec<f64>, Vec<f64>) = {
        let geometry = Geometry::new(Bytes::mib(sweep.count("memory_mib")?), ITEM_MAX, 1);
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
    let Some(plant) = plant(sweep, results, &all)? else { return Ok(()) };
    let (mut hit, mut moved) = (Vec::new(), Vec::new());
    for n in widths {
        let options = ReplayOptions {
            credit: Bytes::kib(sweep.count("credit_kib")?),
            pass_width: usize::try_from(whole(n)).ok(),
            pass_frees: usize::try_from(sweep.count("frees")?).ok(),
            ..plant.options("shared", sweep.count("private_percent")?)
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

/// The idle tax as the sweep has it.
fn taxed(sweep: &Sweep, plant: &Plant) -> Result<ReplayOptions, ExperimentError> {
    let tax = sweep.number("tax")?;
    let tax = Tax::new(tax).ok_or_else(|| ExperimentError::failed(format!("{tax} is no tax")))?;
    let idle_time = Duration::from_millis(whole(sweep.number("idle_time_s")? * 1e3));
    Ok(ReplayOptions { tax, idle_time, ..plant.options("idle-tax", 0) })
}

/// A number of a sweep that counts something.
fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of a sweep, below 2^53"
    )]
    let whole = number.max(0.0).round() as u64;
    whole
}
