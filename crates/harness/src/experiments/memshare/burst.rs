//! A burst: one tenant's working set triples for a minute, beside tenants with reservations and tenants without.
//!
//! Shape:   built-in tenants, all steady -> half of the others reserve what they hold, and once more; the same again with the
//!          burst -> what the bursting tenant holds, and what the others hit against what they hit without it
//! Units:   hit ratios of 0 to 1, held memory as a multiple of that before the burst; seconds of the mix's time
//! Non-goals: a paper's figure; this is a promise of ours

use super::plant::{ITEM_MAX, sum};
use crate::replay::{ReplayOptions, in_process_watched};
use crate::report::Report;
use lab::experiment::{ExperimentError, Results, Sweep};
use lab::workload::{Phase, Tenant, demo_tenants};
use lab::{Mix, Pace, Tally};
use units::{Bytes, Duration, Instant};

/// What the sweep says of time: the burst ends when its period does, and the run goes on after it.
struct Times {
    /// From when on the store is full and what is measured counts.
    warm: f64,
    burst: (f64, f64),
    /// From when on the tenant should hold what it held.
    settled: f64,
    end: f64,
}

impl Times {
    fn read(sweep: &Sweep) -> Result<Self, ExperimentError> {
        let (start, length) = (sweep.number("burst_start_s")?, sweep.number("burst_s")?);
        let settled = start + length + sweep.number("settle_s")?;
        let end = settled + sweep.number("after_s")?;
        Ok(Self { warm: sweep.number("warm_s")?, burst: (start, start + length), settled, end })
    }

    /// Whether `at` is a moment before the burst, in it, or after it; none while nothing counts.
    fn part(&self, at: f64) -> Option<usize> {
        let (start, end) = self.burst;
        match at {
            _ if self.warm < at && at <= start => Some(0),
            _ if start < at && at <= end => Some(1),
            _ if self.settled < at => Some(2),
            _ => None,
        }
    }
}

/// The mix and the store that both runs share.
struct Scene<'a> {
    sweep: &'a Sweep,
    times: Times,
    bursting: String,
}

/// Bytes held at some looks.
#[derive(Clone, Copy)]
struct Held {
    sum: f64,
    looks: f64,
    least: f64,
    most: f64,
}

impl Default for Held {
    fn default() -> Self {
        Self { sum: 0.0, looks: 0.0, least: f64::INFINITY, most: 0.0 }
    }
}

impl Held {
    fn see(&mut self, bytes: f64) {
        (self.sum, self.looks) = (self.sum + bytes, self.looks + 1.0);
        (self.least, self.most) = (self.least.min(bytes), self.most.max(bytes));
    }
}

/// What one tenant did before, during and after the burst.
#[derive(Clone, Copy, Default)]
struct Parts {
    tally: [Tally; 3],
    held: [Held; 3],
}

impl Parts {
    /// What was held on average.
    fn held(&self, part: usize) -> Bytes {
        let held = self.held[part];
        Bytes(super::plant::whole(held.sum / held.looks.max(1.0)))
    }
}

/// One tenant's working set triples for a minute.
pub(super) fn burst(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let scene = Scene { sweep, times: Times::read(sweep)?, bursting: sweep.text("tenant")?.to_owned() };
    let names: Vec<String> = demo_tenants().into_iter().map(|t| t.name).collect();
    // Reservations change who holds what, so they are set a second time.
    let first = scene.reserve(&names, &scene.run(&names, &[], false)?);
    let quiet = scene.run(&names, &first, false)?;
    let reserved = scene.reserve(&names, &quiet);
    let loud = scene.run(&names, &reserved, true)?;
    loud.draw(&names, results);
    let of = |names: &[usize], parts: &[Parts], part: usize| {
        sum(&names.iter().map(|i| parts[*i].tally[part]).collect::<Vec<_>>()).hit_ratio()
    };
    let with: Vec<usize> = scene.reserving(&names).collect();
    let without: Vec<usize> =
        (0..names.len()).filter(|i| !with.contains(i) && names[*i] != scene.bursting).collect();
    let change = |names: &[usize]| of(names, &loud.parts, 1) - of(names, &quiet.parts, 1);
    let worst = with
        .iter()
        .map(|i| (change(&[*i]), *i))
        .fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a });
    results.number("reserved_change", change(&with));
    results.number("worst_reserved_change", worst.0);
    results.note("worst_reserved_change", names[worst.1].clone());
    results.number("unreserved_change", change(&without));
    results.number("reserved_against_before", of(&with, &loud.parts, 1) - of(&with, &loud.parts, 0));
    let kept = with
        .iter()
        .zip(&reserved)
        .map(|(i, (_, floor))| loud.parts[*i].held[1].least / floor.0.max(1) as f64);
    results.number("least_reserved_held", kept.fold(f64::INFINITY, f64::min));
    let one = names.iter().position(|name| *name == scene.bursting);
    let one = one.map(|i| loud.parts[i]).ok_or_else(|| ExperimentError::failed("no tenant bursts"))?;
    let before = one.held(0).0.max(1) as f64;
    results.number("held_in_burst", one.held[1].most / before);
    results.number("held_after", one.held(2).0 as f64 / before);
    results.number("bursting_change", one.tally[1].hit_ratio() - one.tally[0].hit_ratio());
    Ok(())
}

impl Scene<'_> {
    fn mix(&self, bursts: bool) -> Result<Mix, ExperimentError> {
        let nanos = |secs: f64| Duration::from_millis(super::plant::whole(secs * 1e3));
        let (start, end) = self.times.burst;
        let phase = Phase::Burst { period: nanos(end), length: nanos(end - start) };
        let course = |tenant: Tenant| {
            let phase = if bursts && tenant.name == self.bursting { phase } else { Phase::Steady };
            Tenant { phase, ..tenant }
        };
        let rate = u32::try_from(self.sweep.count("requests_per_sec")?).map_err(ExperimentError::failed)?;
        let pace = Pace { seed: self.sweep.seed, scale: self.sweep.number("scale")?, requests_per_sec: rate };
        Ok(Mix::new(demo_tenants().into_iter().map(course).collect(), pace))
    }

    fn options(&self, names: &[String], seconds: f64) -> Result<ReplayOptions, ExperimentError> {
        let requests = seconds * self.sweep.number("requests_per_sec")?;
        Ok(ReplayOptions {
            memory: Bytes::mib(self.sweep.count("memory_mib")?),
            item_max: ITEM_MAX,
            tenants: names.to_vec(),
            limit: Some(super::plant::whole(requests)),
            seed: self.sweep.seed,
            ..ReplayOptions::default()
        })
    }

    /// Reservations of what `course` has them hold in the minute in which the burst would be.
    fn reserve(&self, names: &[String], course: &Course) -> Vec<(Option<String>, Bytes)> {
        let held = |i: usize| (Some(names[i].clone()), course.parts[i].held(1));
        self.reserving(names).map(held).collect()
    }

    /// Every second one of the others.
    fn reserving(&self, names: &[String]) -> impl Iterator<Item = usize> {
        let others = (0..names.len()).filter(|i| names[*i] != self.bursting);
        others.step_by(2)
    }

    /// The whole run with the burst, or as far as it would last without it.
    fn run(
        &self,
        names: &[String],
        reserved: &[(Option<String>, Bytes)],
        bursts: bool,
    ) -> Result<Course, ExperimentError> {
        let end = if bursts { self.times.end } else { self.times.burst.1 };
        let options = ReplayOptions { reserved: reserved.to_vec(), ..self.options(names, end)? };
        let every = Duration::from_millis(super::plant::whole(self.sweep.number("look_s")? * 1e3));
        let mut course = Course::new(names.len());
        let mut before = Report::default();
        in_process_watched(options, &mut [&mut self.mix(bursts)?], every, &mut |at, report| {
            let at = at.since(Instant::ZERO).as_secs_f64();
            for (i, name) in names.iter().enumerate() {
                let Some(now) = report.tenants.iter().find(|t| t.name == *name) else { continue };
                let was = before.tenants.iter().find(|t| t.name == *name);
                let (gets, hits) = was.map_or((0, 0), |was| (was.gets, was.hits));
                let new = Tally { requests: 0, gets: now.gets - gets, hits: now.hits - hits };
                course.see(i, at, self.times.part(at), new, now.held.unwrap_or_default());
            }
            before = report.clone();
        })
        .map_err(ExperimentError::failed)?;
        Ok(course)
    }
}

/// What all tenants did over time.
struct Course {
    parts: Vec<Parts>,
    held: Vec<Vec<(f64, f64)>>,
    ratios: Vec<Vec<(f64, f64)>>,
}

impl Course {
    fn new(tenants: usize) -> Self {
        let curves = vec![Vec::new(); tenants];
        Self { parts: vec![Parts::default(); tenants], held: curves.clone(), ratios: curves }
    }

    fn see(&mut self, tenant: usize, at: f64, part: Option<usize>, new: Tally, held: Bytes) {
        let bytes = held.0 as f64;
        self.held[tenant].push((at, bytes / 1e6));
        self.ratios[tenant].push((at, new.hit_ratio()));
        if let Some(part) = part {
            let of = &mut self.parts[tenant];
            of.tally[part] = sum(&[of.tally[part], new]);
            of.held[part].see(bytes);
        }
    }

    fn draw(&self, names: &[String], results: &mut Results) {
        for ((name, held), ratios) in names.iter().zip(&self.held).zip(&self.ratios) {
            results.series("held", name, held);
            results.series("hit ratio", name, ratios);
        }
        results.axes("held", "seconds", "MB");
        results.axes("hit ratio", "seconds", "hit ratio");
    }
}
