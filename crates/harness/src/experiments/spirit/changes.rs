//! Figure 9 live: two of four tenants turn from loads that gain less from DRAM to ones that gain more, and back.
//!
//! Shape:  loads in turns of the paper's minutes, shortened -> shares under `symbiosis` over time -> epochs until a share has followed
//! Units:  minutes of the paper, epochs; a share as a multiple of the static one
//! Source: Spirit §6.2 (Fig. 9)

use crate::experiments::nyx::{failed, gets, median};
use crate::live::{Here, Order, Tenant, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep, stays_after};
use server::PlaceIn;
use std::io;
use store::RankKind;
use units::Duration;

/// The tenants; those that turn come first.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Looks at shares in an epoch.
const LOOKS: f64 = 3.0;

/// What was seen at a moment: minutes, and each tenant's DRAM and bandwidth as multiples of its static share.
type Seen = (f64, [(f64, f64); 4]);

/// A server with a client of each tenant.
struct Host<'a> {
    here: &'a Here,
    load: Work,
    clients: Vec<Working>,
    minute_s: f64,
    epoch_minutes: f64,
    began_ns: u64,
    seen: Vec<Seen>,
    /// Minutes, and each tenant's requests per second since the look before.
    rates: Vec<(f64, [f64; 4])>,
}

impl Host<'_> {
    fn minutes(&self) -> f64 {
        (crate::live::nanos() - self.began_ns) as f64 / 1e9 / self.minute_s
    }

    /// A tenant asks for its keys in another order from now on.
    fn turn(&mut self, tenant: usize, order: Order) -> io::Result<()> {
        let next = self.here.work(Work { tenant: NAMES[tenant], order, ..self.load });
        std::mem::replace(&mut self.clients[tenant], next).end().map(drop)
    }

    /// Looks at shares until a minute.
    fn watch(&mut self, until: f64) {
        while self.minutes() < until {
            let pause = (self.epoch_minutes / LOOKS).min(until - self.minutes()).max(0.0);
            let (answered, began) = (self.answered(), self.minutes());
            self.here.pass(pause * self.minute_s);
            let (now, minutes) = (self.answered(), self.minutes());
            let per_sec = |at: usize| (now[at] - answered[at]) as f64 / ((minutes - began) * self.minute_s);
            self.rates.push((minutes, std::array::from_fn(per_sec)));
            let given = NAMES.map(|name| self.here.given(name).unwrap_or_default());
            let (dram, time) = given.iter().fold((0, 0.0), |(dram, time), one| (dram + one.0, time + one.1));
            let of_static = |(bytes, part): (u64, f64)| {
                (4.0 * bytes as f64 / (dram as f64).max(1.0), 4.0 * part / time.max(1e-12))
            };
            if 0 < dram {
                self.seen.push((self.minutes(), given.map(of_static)));
            }
        }
    }

    fn answered(&self) -> [u64; 4] {
        std::array::from_fn(|at| self.clients[at].answered())
    }

    /// The middle of a tenant's requests per second from one moment to another.
    fn rate(&self, tenant: usize, from: f64, to: f64) -> f64 {
        let inside = self.rates.iter().filter(|(at, _)| from < *at && *at <= to);
        median(&mut inside.map(|(_, all)| all[tenant]).collect::<Vec<f64>>())
    }

    /// One tenant's DRAM, or what else `of` takes of what was seen.
    fn course(&self, tenant: usize, of: impl Fn((f64, f64)) -> f64) -> Vec<(f64, f64)> {
        self.seen.iter().map(|(at, all)| (*at, of(all[tenant]))).collect()
    }
}

/// The mean of a course from one moment to another.
fn mean(points: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let inside: Vec<f64> =
        points.iter().filter(|(at, _)| from <= *at && *at < to).map(|(_, value)| *value).collect();
    inside.iter().sum::<f64>() / inside.len() as f64
}

/// How long after `change` a share `is_there` and stays so until `next`: 0 if it was there before, as one that follows nothing; none if it
/// never does.
fn follows(points: &[(f64, f64)], change: f64, next: f64, is_there: impl Fn(f64) -> bool) -> Option<f64> {
    let before = points.iter().rfind(|(at, _)| *at < change);
    if before.is_some_and(|(_, share)| is_there(*share)) {
        return Some(0.0);
    }
    stays_after(points, change, next, is_there)
}

/// Spirit, Figure 9, live.
pub(super) fn changes(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let tenants = NAMES.map(|name| Tenant::new(name, ""));
    let (minute_s, epoch_minutes) = (sweep.number("minute_s")?, sweep.number("epoch_minutes")?);
    let part = sweep.number("part")?;
    let rank: RankKind = sweep.text("rank")?.parse().map_err(ExperimentError::failed)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an epoch in ns")]
    let epoch = Duration((minute_s * epoch_minutes * 1e9) as u64);
    let setting = |config: &mut server::Config| {
        config.placement = PlaceIn::Auto;
        (config.bandwidth_part, config.bandwidth_epoch) = (part, epoch);
        config.rank = rank.clone();
    };
    let here = Here::start_with(sweep.text("tier")?, "static", &tenants, 2, setting).map_err(failed)?;
    let size = usize::try_from(sweep.count("value_bytes")?).map_err(ExperimentError::failed)?;
    let load = gets(NAMES[0], size, sweep.count("keys")?, 10);
    let load = Work { order: Order::InTurn, stores_again: true, ..load };
    for tenant in NAMES {
        here.fill(&Work { tenant, ..load }).map_err(failed)?;
    }
    let clients = NAMES.map(|tenant| here.work(Work { tenant, ..load }));
    let mut host = Host {
        here: &here,
        load,
        clients: clients.into(),
        minute_s,
        epoch_minutes,
        began_ns: crate::live::nanos(),
        seen: Vec::new(),
        rates: Vec::new(),
    };
    let seen = turns(sweep, &mut host, results);
    // Who waits for a budget is answered before it can end.
    here.switch("none").map_err(failed)?;
    host.clients.into_iter().try_for_each(|client| client.end().map(drop)).map_err(failed)?;
    here.end();
    seen
}

fn turns(sweep: &Sweep, host: &mut Host<'_>, results: &mut Results) -> Result<(), ExperimentError> {
    let [first, second, third, fourth] = sweep.list("changes_minutes")?[..] else {
        return Err(ExperimentError::failed("four changes are needed"));
    };
    let all = sweep.number("minutes")?;
    host.here.switch("symbiosis").map_err(failed)?;
    host.watch(first);
    host.turn(0, Order::Skewed).map_err(failed)?;
    host.watch(second);
    host.turn(1, Order::Skewed).map_err(failed)?;
    host.watch(third);
    host.turn(0, Order::InTurn).map_err(failed)?;
    host.watch(fourth);
    host.turn(1, Order::InTurn).map_err(failed)?;
    host.watch(all);
    let so_long = (second - first) / 4.0;
    let rates = (host.rate(0, first, first + so_long), host.rate(0, third - so_long, third));
    results.number("rate_gain", rates.1 / rates.0);
    let (up, down) = (sweep.number("up")?, sweep.number("down")?);
    for (item, tenant, change, next, is_up) in [
        ("epochs_up_1", 0, first, second, true),
        ("epochs_up_2", 1, second, third, true),
        ("epochs_down_1", 0, third, fourth, false),
        ("epochs_down_2", 1, fourth, all, false),
    ] {
        let dram = host.course(tenant, |(dram, _)| dram);
        let last = dram.iter().rfind(|(at, _)| change <= *at && *at < next).map_or(0.0, |(_, share)| *share);
        results.note(item, format!("{last:.2} of its static share at the end"));
        let there = |share: f64| if is_up { up <= share } else { share <= down };
        let found = follows(&dram, change, next, there);
        if found.is_none() {
            results.note(item, "never for good: what is left of the run");
        }
        results.number(item, found.unwrap_or(all - change) / host.epoch_minutes);
    }
    results.number("gains_memory", mean(&host.course(0, |(dram, _)| dram), second, third));
    results.number("gives_bandwidth", mean(&host.course(0, |(_, time)| time), second, third));
    for (tenant, name) in NAMES.iter().enumerate() {
        results.series("DRAM over time", name, &host.course(tenant, |(dram, _)| dram));
        results.series("Bandwidth over time", name, &host.course(tenant, |(_, time)| time));
        let rates: Vec<(f64, f64)> = host.rates.iter().map(|(at, all)| (*at, all[tenant])).collect();
        results.series("Requests over time", name, &rates);
    }
    results.axes("DRAM over time", "minutes of the paper", "of the static share");
    results.axes("Bandwidth over time", "minutes of the paper", "of the static share");
    results.axes("Requests over time", "minutes of the paper", "1/s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::Predicate;

    /// Whether a course agrees with `epochs_up_1`, with a change at 2.1 and the next at 5.
    fn agrees(course: [f64; 6]) -> bool {
        let course: Vec<(f64, f64)> = (0_u8..).map(f64::from).zip(course).collect();
        let epochs = follows(&course, 2.1, 5.0, |share| 1.2 <= share);
        let expected = Predicate::parse("0 < ours <= 10").expect("it is that of paper.csv");
        expected.holds(&|_| epochs) == Ok(true)
    }

    #[test]
    fn a_share_that_was_there_before_the_change_follows_nothing() {
        assert!(agrees([1.0, 1.0, 1.0, 1.3, 1.3, 1.0]));
        assert!(!agrees([1.3; 6]));
        assert!(!agrees([1.0, 1.0, 1.3, 1.3, 1.3, 1.3]));
        assert!(!agrees([1.0, 1.0, 1.0, 1.3, 1.0, 1.3]), "it does not stay");
    }
}
