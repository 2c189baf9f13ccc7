//! Figures 1 and 4: who holds how much, and misses how much, over time.
//!
//! Shape: generated applications -> exact caches (Figure 1) or the store under `shared` (Figure 4) -> curves, and numbers
//!        that say what is to be seen in them
//! Units: held memory in MB, ratios in percent, shadow hits per second of the trace

use super::baseline::{PER_ITEM, tally};
use super::plant::{Plant, sum, whole};
use crate::replay::ReplayOptions;
use crate::report::Report;
use lab::experiment::{ExperimentError, Results, Sweep};
use lab::reference::{Lru, Reference, apply};
use lab::{Request, Tally};
use std::collections::HashMap;
use units::{Bytes, Instant};

/// Megabytes, as the paper's axes have them.
const MB: f64 = 1e6;

/// What one application did between looks.
#[derive(Default)]
struct Course {
    /// Misses in a hundred look-ups since the look before.
    misses: Vec<(f64, f64)>,
    held: Vec<(f64, f64)>,
    shadow_hits: Vec<(f64, f64)>,
}

/// The mean of a curve from `from` on; 0 of nothing.
fn mean(points: &[(f64, f64)], from: f64) -> f64 {
    let late: Vec<f64> = points.iter().filter(|(x, _)| from <= *x).map(|(_, y)| *y).collect();
    if late.is_empty() { 0.0 } else { late.iter().sum::<f64>() / late.len() as f64 }
}

/// The smallest of a curve from `from` on.
fn least(points: &[(f64, f64)], from: f64) -> f64 {
    points.iter().filter(|(x, _)| from <= *x).map(|(_, y)| *y).fold(f64::INFINITY, f64::min)
}

/// Memshare, Figure 1: misses and occupancy over time, partitioned against greedily shared.
pub(super) fn fig_1(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let plant = Plant::generated(sweep)?;
    let parts = plant.parts();
    let looks = sweep.count("looks")?;
    let mut caches: Vec<Lru> = parts.iter().map(|part| Lru::new(*part, PER_ITEM)).collect();
    let partitioned =
        exact_course(&plant, looks, &mut |tenant, request, _| apply(request, &mut caches[tenant]))?;
    let mut census = Census::new(plant.divisible(), parts.len());
    let mut shared = exact_course(&plant, looks, &mut |tenant, request, look| {
        census.tenant = tenant;
        let hit = apply(request, &mut census);
        if let Some(at) = look {
            census.count(at);
        }
        hit
    })?;
    for (course, held) in shared.iter_mut().zip(census.held) {
        course.held = held;
    }
    let from = plant.source.seconds() * sweep.number("warm_part")?;
    for (i, app) in sweep.texts("names")?.iter().enumerate() {
        let (alone, pooled) = (&partitioned[i], &shared[i]);
        results.number(format!("{app}_misses_partitioned"), mean(&alone.misses, from));
        results.number(format!("{app}_misses_shared"), mean(&pooled.misses, from));
        results.number(format!("{app}_held_partitioned"), parts[i].0 as f64 / MB);
        results.number(format!("{app}_held_shared"), mean(&pooled.held, from));
        results.series("misses, partitioned", app, &alone.misses);
        results.series("misses, shared", app, &pooled.misses);
        results.series("occupancy, shared", app, &pooled.held);
    }
    for (title, unit) in [("misses, partitioned", "%"), ("misses, shared", "%"), ("occupancy, shared", "MB")]
    {
        results.axes(title, "seconds", unit);
    }
    Ok(())
}

/// A cache behind `access`, which is told the time when the request is the first of a new interval.
type Access<'a> = &'a mut dyn FnMut(usize, &Request<'_>, Option<f64>) -> bool;

/// The misses of each application over time.
fn exact_course(plant: &Plant, looks: u64, access: Access<'_>) -> Result<Vec<Course>, ExperimentError> {
    let tenants = plant.source.tenants().len();
    let every = plant.source.seconds() / looks.max(1) as f64;
    let mut courses: Vec<Course> = (0..tenants).map(|_| Course::default()).collect();
    let mut since: Vec<Tally> = vec![Tally::default(); tenants];
    let mut next = every;
    tally(&mut *plant.source.reader()?, &plant.source, &mut |tenant, request| {
        let at = request.at.since(Instant::ZERO).as_secs_f64();
        let look = (next <= at).then_some(at);
        if look.is_some() {
            next += every;
            for (course, tally) in courses.iter_mut().zip(&mut since) {
                course.misses.push((at, 100.0 - std::mem::take(tally).hit_ratio() * 100.0));
            }
        }
        let hit = access(tenant, request, look);
        since[tenant].count(request.op, hit);
        hit
    })?;
    Ok(courses)
}

/// An LRU for all that knows who holds how much: every key seen is looked for when that is asked.
struct Census {
    cache: Lru,
    /// Who asks now.
    tenant: usize,
    keys: HashMap<u64, (usize, u64)>,
    held: Vec<Vec<(f64, f64)>>,
}

impl Census {
    fn new(memory: Bytes, tenants: usize) -> Self {
        let held = vec![Vec::new(); tenants];
        Self { cache: Lru::new(memory, PER_ITEM), tenant: 0, keys: HashMap::new(), held }
    }

    fn count(&mut self, at: f64) {
        let mut held = vec![0_u64; self.held.len()];
        for (_, (tenant, bytes)) in self.keys.iter().filter(|(key, _)| self.cache.contains(**key)) {
            held[*tenant] += bytes;
        }
        for (course, bytes) in self.held.iter_mut().zip(held) {
            course.push((at, bytes as f64 / MB));
        }
    }
}

impl Reference for Census {
    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        self.keys.insert(key_hash, (self.tenant, u64::from(bytes) + PER_ITEM.0));
        self.cache.access(key_hash, bytes)
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.cache.contains(key_hash)
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        self.cache.remove(key_hash)
    }

    fn held(&self) -> Bytes {
        self.cache.held()
    }

    fn items(&self) -> usize {
        self.cache.items()
    }
}

/// Memshare, Figure 4: what is held and hit in the shadow with nothing, half and all of the memory private.
pub(super) fn fig_4(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let plant = Plant::generated(sweep)?;
    let from = plant.source.seconds() * sweep.number("warm_part")?;
    for part in sweep.list("private_percent")? {
        let options = plant.shared(sweep, whole(part))?;
        let floors: Vec<f64> = options.reserved.iter().map(|(_, floor)| floor.0 as f64 / MB).collect();
        let courses = store_course(&plant, options, sweep.count("looks")?)?;
        let (held, shadow) = (format!("held, {part} % private"), format!("shadow hits, {part} % private"));
        for ((app, course), floor) in sweep.texts("names")?.iter().zip(&courses).zip(&floors) {
            results.number(format!("{app}_held_{part}"), mean(&course.held, from));
            results.number(format!("{app}_shadow_hits_{part}"), mean(&course.shadow_hits, from));
            if 0.0 < *floor {
                results.number(format!("{app}_least_{part}"), least(&course.held, from) / floor);
            }
            results.series(&held, app, &course.held);
            results.series(&shadow, app, &course.shadow_hits);
        }
        results.axes(&held, "seconds", "MB");
        results.axes(&shadow, "seconds", "shadow hits per second");
    }
    Ok(())
}

/// What each application does over time in the store.
fn store_course(plant: &Plant, options: ReplayOptions, looks: u64) -> Result<Vec<Course>, ExperimentError> {
    let tenants = plant.source.tenants();
    let mut courses: Vec<Course> = tenants.iter().map(|_| Course::default()).collect();
    let (mut before, mut last) = (Report::default(), 0.0);
    plant.watch(options, looks, &mut |at, report| {
        let at = at.since(Instant::ZERO).as_secs_f64();
        let was = plant.tallies(&before);
        for (i, tally) in plant.tallies(report).iter().enumerate() {
            let Some(row) = report.tenants.iter().find(|t| t.name == tenants[i]) else { continue };
            let shadow = |of: &Report| of.tenants.iter().find(|t| t.name == tenants[i])?.shadow_hits;
            let new = row.shadow_hits.unwrap_or(0) - shadow(&before).unwrap_or(0);
            let gone = Tally { requests: 0, gets: tally.gets - was[i].gets, hits: tally.hits - was[i].hits };
            courses[i].misses.push((at, 100.0 - sum(&[gone]).hit_ratio() * 100.0));
            courses[i].held.push((at, row.held.unwrap_or_default().0 as f64 / MB));
            courses[i].shadow_hits.push((at, new as f64 / (at - last).max(1e-9)));
        }
        (before, last) = (report.clone(), at);
    })?;
    Ok(courses)
}
