//! Figures 10, 11 and 14: proportional sharing, donations, their step.

use super::super::{ExperimentError, Results, Sweep};
use super::{at, kept, policy, run, small, spread, thinking, weighing};
use crate::machine::{Device, Machine, Stream, Tenant};
use control::bandwidth::Kind;
use control::{Amount, Claim};
use policy::bandwidth::{DonateStep, Donation, Options};
use units::{BytesPerSec, TenantId};

/// NyxCache, Figure 10: two caches that use all they are given, by weight.
pub(super) fn fig_10(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let threads = small(sweep, "threads")?;
    let read = |size| Stream::closed(Kind::SlowRead, size, threads);
    let pairs = [
        ("writer", read(4096), Stream::closed(Kind::SlowWrite, 4096, threads)),
        ("inefficient", read(4096), read(1024)),
    ];
    for (label, a, b) in pairs {
        for (name, short) in [("proportional", "nyx"), ("bandwidth-limit", "bandwidth")] {
            let (mut over, mut loss, mut worst) = (0.0_f64, 0.0_f64, f64::INFINITY);
            let mut points = Vec::new();
            for part in sweep.list("parts")? {
                let [a, b] = shared_by_weight(sweep, name, (a, part), (b, 1.0 - part))?;
                over = over.max(b / (1.0 - part));
                loss = loss.max(1.0 - a / part);
                worst = worst.min((a / part).min(b / (1.0 - part)));
                points.push((part, a));
            }
            results.number(format!("{short}_{label}_over"), over);
            results.number(format!("{short}_{label}_a_loss"), loss);
            results.number(format!("{short}_{label}_worst"), worst);
            results.series(&format!("A beside B ({label})"), short, &points);
        }
    }
    Ok(())
}

/// Performance of both relative to alone, with shares of the tier's time or caps of its bandwidth.
fn shared_by_weight(
    sweep: &Sweep,
    name: &str,
    a: (Stream, f64),
    b: (Stream, f64),
) -> Result<[f64; 2], ExperimentError> {
    let mut machine = Machine::new(Device::nyx(), sweep.seed);
    let all = machine.device().read_limit() * 1e9;
    let mut ids = Vec::new();
    for (tenant, (stream, part)) in [("A", a), ("B", b)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of some GB/s")]
        let bandwidth = BytesPerSec((all * part) as u64);
        let ceiling = (name == "bandwidth-limit").then(|| Amount { bandwidth, ..Amount::default() });
        let claim = Claim { ceiling, ..weighing(part)? };
        ids.push(machine.add(Tenant::new(tenant, claim, vec![stream])));
    }
    run(&mut machine, policy(name, &Options { seed: sweep.seed, ..Options::default() })?, 10.0);
    Ok([ids[0], ids[1]].map(|id| kept(&machine, id, 5.0, 10.0)))
}

/// A light reader of weight 2 and a cache of weight 1.
struct Lending {
    machine: Machine,
    a: TenantId,
    b: TenantId,
}

impl Lending {
    fn run(sweep: &Sweep, b: Stream, donation: Donation) -> Result<Self, ExperimentError> {
        let mut machine = Machine::new(Device::nyx(), sweep.seed);
        let light = thinking(Kind::SlowRead, 1024, 1, sweep.count("think_ns")?);
        let a = machine.add(Tenant::new("A", weighing(2.0)?, vec![light]));
        let b = machine.add(Tenant::new("B", weighing(1.0)?, vec![b]));
        let options = Options { seed: sweep.seed, donation, ..Options::default() };
        run(&mut machine, policy("proportional", &options)?, sweep.number("seconds")?);
        Ok(Self { machine, a, b })
    }

    fn kept(&self, id: TenantId, from: f64, to: f64) -> f64 {
        kept(&self.machine, id, from, to)
    }
}

/// NyxCache, Figure 11: donations of what is idle beside a reader and beside a writer.
pub(super) fn fig_11(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let end = sweep.number("seconds")?;
    let readers = Stream::closed(Kind::SlowRead, 4096, small(sweep, "readers")?);
    let writers = Stream::closed(Kind::SlowWrite, 4096, small(sweep, "writers")?);
    for (label, stream) in [("get", readers), ("write", writers)] {
        let donations =
            [("kept", Donation::Kept), ("naive", Donation::All), ("nyx", Donation::Aware(DonateStep::PAPER))];
        for (name, donation) in donations {
            let lending = Lending::run(sweep, stream, donation)?;
            results.number(format!("{label}_{name}_a"), lending.kept(lending.a, end / 2.0, end));
            results.number(format!("{label}_{name}_b"), lending.kept(lending.b, end / 2.0, end));
            let tenths = 0..(small(sweep, "seconds")? * 10);
            let points: Vec<_> = tenths
                .map(|n| f64::from(n) / 10.0)
                .map(|s| (s, lending.kept(lending.a, s, s + 0.1)))
                .collect();
            results.series(&format!("A beside a {label}-heavy B"), name, &points);
            if label == "get" && name == "kept" {
                let used = lending.machine.alone(lending.a).cost_total() / (2.0 / 3.0);
                results.number("a_idle_part", 1.0 - used);
            }
        }
    }
    Ok(())
}

/// NyxCache, Figure 14: the donor over time for several steps.
pub(super) fn fig_14(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let end = sweep.number("seconds")?;
    let writers = Stream::closed(Kind::SlowWrite, 4096, small(sweep, "writers")?);
    for step in sweep.list("steps")? {
        let part = DonateStep::new(step / 100.0);
        let part = part.ok_or_else(|| ExperimentError::failed("a step is between 0 and 100 %"))?;
        let lending = Lending::run(sweep, writers, Donation::Aware(part))?;
        let windows = 0..(small(sweep, "seconds")? * 50);
        let course: Vec<_> = windows
            .map(|n| f64::from(n) / 50.0)
            .map(|s| (s, lending.machine.operations_per_sec(lending.a, at(s), at(s + 0.02)) / 1e6))
            .collect();
        let late: Vec<f64> = course.iter().filter(|(s, _)| end / 2.0 <= *s).map(|(_, rate)| *rate).collect();
        let (mean, deviation) = spread(&late);
        results.number(format!("fluctuation_{step}"), deviation / mean);
        results.number(format!("a_kept_{step}"), lending.kept(lending.a, end / 2.0, end));
        results.number(format!("b_kept_{step}"), lending.kept(lending.b, end / 2.0, end));
        results.series("The donor's throughput", &format!("{step} %"), &course);
    }
    results.axes("The donor's throughput", "s", "M operations per s");
    Ok(())
}
