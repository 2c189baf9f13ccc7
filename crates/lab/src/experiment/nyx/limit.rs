//! Figures 6 and 12: a limit in cost against one in bytes, and a hard limit of slowdown.

use super::super::{ExperimentError, Results, Sweep};
use super::{at, cache, gb, kept, policy, run, small, spread};
use crate::machine::{Device, Faults, Machine, Stream, Tenant};
use control::bandwidth::Kind;
use control::{Amount, Claim, Class, Goal, Slowdown};
use policy::bandwidth::Options;
use policy::estimate::access_cost::{AccessCost, SIZE_STEP, StandardOps};
use units::{Bytes, BytesPerSec, Duration};

/// A tick of the paper's brake.
const TICK: Duration = Duration::from_millis(10);

/// The cost of accesses by the device's own profile.
fn profile(device: &Device) -> Result<AccessCost, ExperimentError> {
    let iops = |kind| {
        std::array::from_fn(|at| {
            device.max_iops(kind, Bytes(SIZE_STEP.0 * (at as u64 + 1))).unwrap_or(f64::NAN)
        })
    };
    let profile = AccessCost::new(&iops(Kind::SlowRead), &iops(Kind::SlowWrite));
    profile.map_err(|error| ExperimentError::failed(error.to_string()))
}

/// The sweep's limit in time of the tier and in bytes per second.
fn ceiling(sweep: &Sweep) -> Result<Amount, ExperimentError> {
    let limit: Result<StandardOps, _> = sweep.text("limit")?.parse();
    let limit = limit.map_err(|error| ExperimentError::failed(error.to_string()))?;
    let cost = profile(&Device::nyx())?.per_sec(limit);
    let bytes = BytesPerSec(sweep.count("limit_mb")? * 1_000_000);
    Ok(Amount { cost, bandwidth: bytes, ..Amount::default() })
}

/// NyxCache, Figure 6: an unlimited reader beside a limited cache of many patterns.
pub(super) fn fig_6(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let ceiling = ceiling(sweep)?;
    let part = ceiling.cost.part_of(Duration::from_secs(1));
    results.number("limit_part", part);
    for name in ["limit", "bandwidth-limit"] {
        let (mut over, mut unlimited) = (0.0_f64, Vec::new());
        for (kind, label) in [(Kind::SlowRead, "get"), (Kind::SlowWrite, "write")] {
            let mut points = Vec::new();
            for size in sweep.list("sizes")? {
                let mut machine = machine(sweep);
                let threads = small(sweep, "unlimited_threads")?;
                let u = machine.add(Tenant::new(
                    "U",
                    cache(),
                    vec![Stream::closed(Kind::SlowRead, 4096, threads)],
                ));
                let claim = Claim { ceiling: Some(ceiling), ..cache() };
                let stream =
                    Stream { size: bytes(size), ..Stream::closed(kind, 1, small(sweep, "limited_threads")?) };
                let l = machine.add(Tenant::new("L", claim, vec![stream]));
                let seconds = sweep.number("seconds")?;
                run(&mut machine, policy(name, &options(sweep))?, seconds);
                over = over.max(machine.cost_part(l, at(seconds / 2.0), at(seconds)) / part);
                unlimited.push(gb(&machine, u, seconds / 2.0, seconds));
                points.push((size, gb(&machine, l, seconds / 2.0, seconds)));
            }
            results.series("Limited cache", &format!("{name}, {label}"), &points);
        }
        let (_, sigma) = spread(&unlimited);
        let most = unlimited.iter().copied().fold(0.0, f64::max);
        let least = unlimited.iter().copied().fold(f64::INFINITY, f64::min);
        let short = if name == "limit" { "nyx" } else { "bandwidth" };
        results.number(format!("{short}_worst_over"), over);
        results.number(format!("{short}_u_sigma"), sigma * 1e3);
        results.number(format!("{short}_u_impact"), 1.0 - least / most);
    }
    results.axes("Limited cache", "value size, B", "GB/s");
    Ok(())
}

fn machine(sweep: &Sweep) -> Machine {
    Machine::new(Device::nyx(), sweep.seed).with_faults(Faults { budget_tick: TICK, ..Faults::NONE })
}

fn options(sweep: &Sweep) -> Options {
    Options { seed: sweep.seed, ..Options::default() }
}

fn bytes(size: f64) -> Bytes {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size of the sweep")]
    let size = size as u64;
    Bytes(size)
}

/// The three caches of Table 3 by day or night: values of S1, C1 and C2, gets and writes in closed loops.
fn trace_tenants(sweep: &Sweep, when: &str) -> Result<[Vec<Stream>; 3], ExperimentError> {
    let mut tenants = [const { Vec::new() }; 3];
    for (tenant, (name, size)) in tenants.iter_mut().zip([("s1", 799), ("c1", 2439), ("c2", 67_485)]) {
        tenant.push(Stream::closed(Kind::SlowRead, size, small(sweep, &format!("{name}.{when}_readers"))?));
        let writers = small(sweep, &format!("{name}.{when}_writers"))?;
        if 0 < writers {
            tenant.push(Stream::closed(Kind::SlowWrite, size, writers));
        }
    }
    Ok(tenants)
}

/// NyxCache, Figure 12: write spikes of one cache under both limits, and a guaranteed slowdown through a day.
pub(super) fn fig_12(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    for (name, short) in [("limit", "nyx"), ("bandwidth-limit", "bandwidth")] {
        let [before, during] = spikes(sweep, results, name, short)?;
        results.number(format!("{short}_s1_in_spike"), during[0]);
        results.number(format!("{short}_s1_spike_loss"), 1.0 - during[0] / before[0]);
        results.number(format!("{short}_c1_spike_loss"), 1.0 - during[1] / before[1]);
    }
    for (name, short) in [("none", "free"), ("fair-slowdown", "nyx")] {
        day_and_night(sweep, results, name, short)?;
    }
    Ok(())
}

/// GB/s of S1 and C1 before and during a spike of C2's writes.
fn spikes(
    sweep: &Sweep,
    results: &mut Results,
    name: &str,
    short: &str,
) -> Result<[[f64; 2]; 2], ExperimentError> {
    let mut machine = machine(sweep);
    let [s1, c1, c2] = trace_tenants(sweep, "day")?;
    let spike =
        [c2.clone(), vec![Stream::closed(Kind::SlowWrite, 67_485, small(sweep, "spike_writers")?)]].concat();
    let claim = Claim { ceiling: Some(ceiling(sweep)?), ..cache() };
    let ids = [machine.add(Tenant::new("S1", cache(), s1)), machine.add(Tenant::new("C1", cache(), c1))];
    machine.add(Tenant::new("C2", claim, c2).then(at(20.0), spike));
    run(&mut machine, policy(name, &options(sweep))?, 40.0);
    let points: Vec<_> = (0..40).map(f64::from).map(|s| (s, gb(&machine, ids[0], s, s + 1.0))).collect();
    results.series("S1 beside a write spike", short, &points);
    Ok([(10.0, 20.0), (22.0, 40.0)].map(|(from, to)| ids.map(|id| gb(&machine, id, from, to))))
}

/// Slowdown of S1 by night and by day.
fn day_and_night(
    sweep: &Sweep,
    results: &mut Results,
    name: &str,
    short: &str,
) -> Result<(), ExperimentError> {
    let limit = Slowdown::new(sweep.number("slowdown")?);
    let goal = Goal::Slowdown(limit.ok_or_else(|| ExperimentError::failed("a slowdown is at least 1"))?);
    let mut machine = Machine::new(Device::nyx(), sweep.seed);
    let night = trace_tenants(sweep, "night")?;
    let day = trace_tenants(sweep, "day")?;
    let claims = [Claim { class: Class::Critical { goal }, ..cache() }, cache(), cache()];
    let mut ids = Vec::new();
    for ((claim, night), (index, day)) in claims.into_iter().zip(night).zip(day.into_iter().enumerate()) {
        let tenant = Tenant::new(["S1", "C1", "C2"][index], claim, night.clone());
        let tenant = if index == 0 { tenant } else { tenant.then(at(40.0), day).then(at(100.0), night) };
        ids.push(machine.add(tenant));
    }
    run(&mut machine, policy(name, &options(sweep))?, 140.0);
    results.number(format!("{short}_night_slowdown"), 1.0 / kept(&machine, ids[0], 10.0, 40.0));
    results.number(format!("{short}_day_slowdown"), 1.0 / kept(&machine, ids[0], 60.0, 100.0));
    let others = gb(&machine, ids[1], 120.0, 140.0) / gb(&machine, ids[1], 20.0, 40.0);
    results.number(format!("{short}_c1_after_the_day"), others);
    let points: Vec<_> =
        (0..140).map(f64::from).map(|s| (s, 1.0 / kept(&machine, ids[0], s, s + 1.0))).collect();
    results.series("Slowdown of S1", short, &points);
    Ok(())
}
