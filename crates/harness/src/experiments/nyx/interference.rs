//! Figure 1 live: what reads and writes of others cost a reader of small values, by bytes and by sizes.
//!
//! Shape:      (a), (b) a thread's look-ups in a store, alone and beside a neighbour that the tier is told of, in turns -> part kept;
//!             (c) clients over loopback beside a reader and beside a writer -> how long an access took, per GB/s of theirs
//! Invariants: a neighbour that is told of needs no processor: two cores cannot hold the threads that it stands for
//! Units:      parts of look-ups per second alone; nanoseconds of one access per GB/s
//! Source:     NyxCache §2.2.4 (Fig. 1)

use super::rig::{Rig, whole};
use super::{failed, gets, median, rates, sets};
use crate::live::{Here, Tenant, Work};
use lab::experiment::{ExperimentError, Results, Sweep};
use media::emulated::Emulated;
use media::{Access, Device};
use std::io;
use units::{Bytes, Duration, Instant, Rng};

/// Longest time whose accesses are told of at once: what is due after a preemption is not made up for.
const TOLD_MAX: Duration = Duration::from_micros(20);
/// Bytes of a value that the victim looks up.
const VICTIM: f64 = 256.0;

/// A neighbour of so many GB/s, in accesses of one kind and size.
struct Neighbour {
    access: Access,
    size: Bytes,
    gbps: f64,
    told: Option<Instant>,
    due: f64,
}

impl Neighbour {
    fn new(access: Access, size: f64, gbps: f64) -> Self {
        Self { access, size: whole(size), gbps, told: None, due: 0.0 }
    }

    /// Tells the tier of what has come due.
    fn tell(&mut self, tier: &Emulated) {
        let now = tier.begin();
        let passed = now.since(self.told.replace(now).unwrap_or(now)).min(TOLD_MAX);
        self.due += passed.0 as f64 * self.gbps / self.size.0 as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some accesses per microsecond"
        )]
        let count = self.due as u32;
        tier.tell(self.access, self.size, count);
        self.due -= f64::from(count);
    }
}

/// The part of its look-ups that the victim keeps.
fn kept(
    sweep: &Sweep,
    rig: &mut Rig,
    rng: &mut Rng,
    (access, size, gbps): (Access, f64, f64),
) -> Result<f64, ExperimentError> {
    let gets = sweep.count("gets")?;
    let mut parts = Vec::new();
    for _ in 0..sweep.count("pieces")? {
        // Nobody told of is a neighbour of nothing, so that both pieces ask the clock as often.
        let mut nobody = Neighbour::new(access, size, 0.0);
        let alone = rig.piece(rng, gets, |tier| nobody.tell(tier))?;
        let mut neighbour = Neighbour::new(access, size, gbps);
        parts.push(alone / rig.piece(rng, gets, |tier| neighbour.tell(tier))?);
    }
    Ok(median(&mut parts))
}

/// NyxCache, Figure 1, live.
pub(super) fn interference(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut rng = Rng::new(sweep.seed);
    let mut rig = Rig::filled(VICTIM, sweep.count("items")?, sweep.seed).map_err(failed)?;
    let title = "(a) Victim beside reads and writes of 256 B";
    for (access, name, rates) in
        [(Access::SlowRead, "reads", "read_gbps"), (Access::SlowWrite, "writes", "write_gbps")]
    {
        let mut points = Vec::new();
        for gbps in sweep.list(rates)? {
            points.push((gbps, kept(sweep, &mut rig, &mut rng, (access, 256.0, gbps))?));
        }
        let (most, left) = points.last().copied().unwrap_or_default();
        results.number(format!("kept_beside_{most}_gbps_{name}"), left);
        results.series(title, name, &points);
    }
    results.axes(title, "interference, GB/s", "part kept");
    let mut points = Vec::new();
    for size in sweep.list("write_sizes")? {
        let left = kept(sweep, &mut rig, &mut rng, (Access::SlowWrite, size, 1.0))?;
        results.number(format!("kept_size_{size}"), left);
        points.push((size, left));
    }
    let title = "(b) Victim beside 1 GB/s of stores";
    results.series(title, "victim", &points);
    results.axes(title, "size of a store, B", "part kept");
    clients(sweep, results)
}

/// What was seen beside one neighbour: how long accesses took, its GB/s, and the victim's look-ups per second.
struct Beside {
    read_ns: f64,
    gbps: f64,
    victim: f64,
}

/// Part (c): nobody is held back, for all are exempt; the policy is there for what it measures.
fn clients(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let names = ["victim", "reader", "writer"];
    let tenants = names.map(|name| Tenant::new(name, "exempt"));
    let here = Here::start(sweep.text("tier")?, "prevention+remedy", &tenants, 2).map_err(failed)?;
    let (keys, seconds, size) = (sweep.count("keys")?, sweep.number("measure_s")?, 32 << 10);
    let works = [gets(names[0], 256, keys, 10), gets(names[1], size, keys, 4), sets(names[2], size, keys, 4)];
    let run = || -> io::Result<[Beside; 3]> {
        for work in &works {
            here.fill(work)?;
        }
        let victim = here.work(works[0]);
        let beside = |other: Option<Work>| -> io::Result<Beside> {
            let client = other.map(|work| here.work(work));
            here.pass(0.3);
            let windows = here.decisions_total();
            let look_ups = rates(&here, &[&victim], seconds)[0];
            let windows = here.decided_since(windows)?;
            let medium = here.medium();
            let mut reads: Vec<f64> = medium.iter().rev().take(windows).map(|one| one.read_ns).collect();
            let used = other.map_or_else(Vec::new, |work| here.used(work.tenant, windows));
            let secs: f64 = used.iter().map(|window| window.secs).sum();
            let bytes: f64 = used.iter().map(|window| window.bytes.slow_read + window.bytes.slow_write).sum();
            client.map_or(Ok(0), crate::live::Working::end)?;
            Ok(Beside { read_ns: middle_half(&mut reads), gbps: bytes / secs / 1e9, victim: look_ups })
        };
        let seen = [beside(None)?, beside(Some(works[1]))?, beside(Some(works[2]))?];
        victim.end()?;
        Ok(seen)
    };
    let [alone, reads, writes] = run().map_err(failed)?;
    here.end();
    results.number("access_alone_ns", alone.read_ns);
    for (name, seen) in [("reads", &reads), ("writes", &writes)] {
        results.number(format!("client_{name}_gbps"), seen.gbps);
        results.number(format!("client_{name}_ns_per_gbps"), (seen.read_ns - alone.read_ns) / seen.gbps);
        results.number(format!("client_kept_beside_{name}"), seen.victim / alone.victim);
    }
    Ok(())
}

/// The mean of the middle half: times come in steps of the time stamp counter, and some are of a thread that did not run.
fn middle_half(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let middle = &values[quarter..values.len() - quarter];
    middle.iter().sum::<f64>() / middle.len() as f64
}
