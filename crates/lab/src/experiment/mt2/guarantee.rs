//! Bandwidth guaranteed and bandwidth reserved.
//!
//! Source: MT² Table 4, Fig. 9

use super::plant::{critical, empirical_model, gb, name_of, paced_threads, tenant, whole};
use super::{JOURNAL, at, run, thresholds};
use crate::experiment::{ExperimentError, Results, Sweep};
use crate::machine::{Device, Machine, Stream, Tenant};
use control::bandwidth::{Kind, Kinds};
use control::{Class, Goal, Loop};
use policy::bandwidth::{EmpiricalModel, Guarantee, Slo};
use units::{BytesPerSec, Duration, TenantId};

fn model(sweep: &Sweep) -> Result<EmpiricalModel, ExperimentError> {
    let steps = u32::try_from(sweep.count("model_steps")?).map_err(ExperimentError::failed)?;
    empirical_model(steps).map_err(ExperimentError::failed)
}

/// The stream of the task of `kind` in the sweep's table `of`: so many threads, so many GB/s alone.
fn task(sweep: &Sweep, of: &str, kind: Kind) -> Result<(u16, Stream), ExperimentError> {
    let name = name_of(kind);
    let threads =
        u16::try_from(sweep.count(&format!("{of}.{name}_threads"))?).map_err(ExperimentError::failed)?;
    Ok((threads, paced_threads(kind, threads, sweep.number(&format!("{of}.{name}_gb"))? * 1e9)))
}

/// Table 4: four tasks, each with a demand of its own kind.
pub(super) fn table_4(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let model = model(sweep)?;
    let seconds = sweep.number("seconds")?;
    let free = Kinds::splat(BytesPerSec(0));
    for config in ["without", "config_1", "config_2"] {
        let mut machine = Machine::new(Device::mt2(), sweep.seed);
        let mut ids = Kinds::splat(TenantId(0));
        for kind in Kind::ALL {
            let (threads, stream) = task(sweep, "tasks", kind)?;
            let mut demand = free;
            if config != "without" {
                let name = name_of(kind);
                *demand.get_mut(kind) = whole(sweep.number(&format!("{config}.{name}_gb"))? * 1e9);
            }
            let class = Class::Critical { goal: Goal::Bandwidth(demand) };
            *ids.get_mut(kind) = machine.add(tenant(name_of(kind), class, threads, vec![stream]));
        }
        if config == "without" {
            machine.advance(at(seconds));
        } else {
            run(&mut machine, &mut Loop::new(Guarantee::new(model.clone()), JOURNAL), seconds);
        }
        for (kind, &id) in ids.iter() {
            let name = name_of(kind);
            if config == "without" {
                results.number(format!("{name}_alone"), machine.alone(id).bytes_total() / 1e9);
            }
            let rate = machine.mean_rate(id, kind, at(seconds / 2.0), at(seconds));
            results.number(format!("{name}_{config}"), gb(rate));
        }
    }
    Ok(())
}

/// Fig. 9: a foreground that comes to need more, and a background that gives way.
pub(super) fn fig_9(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let mut machine = Machine::new(Device::mt2(), sweep.seed);
    let mut background = Kinds::splat(TenantId(0));
    for kind in Kind::ALL {
        let (threads, stream) = task(sweep, "background", kind)?;
        *background.get_mut(kind) =
            machine.add(tenant(name_of(kind), Class::BestEffort, threads, vec![stream]));
    }
    let reader = foreground(sweep, "dram", Kind::DramRead)?;
    let dram = machine.add(reader);
    let slow = machine.add(foreground(sweep, "slow", Kind::SlowRead)?);
    let mut pacer = Loop::new(Slo::new(model(sweep)?, thresholds()?), JOURNAL);
    let ends = sweep.list("look_at_s")?;
    for (stage, &end) in ends.iter().enumerate() {
        run(&mut machine, &mut pacer, end);
        let reserved = pacer.policy().reservation();
        results.number(format!("reservation_dr_{stage}"), reserved.dram_read / 1e9);
        results.number(format!("reservation_nr_{stage}"), reserved.slow_read / 1e9);
        let rate = |id, kind| gb(machine.mean_rate(id, kind, at(end - 1.0), at(end)));
        results.number(format!("foreground_dr_{stage}"), rate(dram, Kind::DramRead));
        results.number(format!("foreground_nr_{stage}"), rate(slow, Kind::SlowRead));
        for (kind, &id) in background.iter() {
            results.number(format!("background_{}_{stage}", name_of(kind)), rate(id, kind));
        }
    }
    let title = "Foreground and background";
    results.axes(title, "seconds", "GB/s");
    let end = ends.last().copied().unwrap_or_default();
    let mut curves = vec![("foreground dr", dram, Kind::DramRead), ("foreground nr", slow, Kind::SlowRead)];
    curves.extend(background.iter().map(|(kind, &id)| (name_of(kind), id, kind)));
    for (name, id, kind) in curves {
        let series = machine.series(id, kind, (at(0.0), at(end)), Duration::from_millis(200));
        let series: Vec<_> = series.into_iter().map(|(x, y)| (x, y / 1e9)).collect();
        results.series(title, name, &series);
    }
    Ok(())
}

/// A foreground tenant that reads so much from each time on, by the sweep's table `of`.
fn foreground(sweep: &Sweep, of: &str, kind: Kind) -> Result<Tenant, ExperimentError> {
    let (times, rates) = (sweep.list(&format!("{of}.from_s"))?, sweep.list(&format!("{of}.gb"))?);
    let threads = u16::try_from(sweep.count(&format!("{of}.threads"))?).map_err(ExperimentError::failed)?;
    let mut reader = tenant(of, critical(), threads, Vec::new());
    for (from, rate) in times.into_iter().zip(rates) {
        let streams = if 0.0 < rate { vec![paced_threads(kind, threads, rate * 1e9)] } else { Vec::new() };
        reader = reader.then(at(from), streams);
    }
    Ok(reader)
}
