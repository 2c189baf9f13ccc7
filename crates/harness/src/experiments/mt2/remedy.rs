//! Table 6 live: a store that comes first beside a job of each kind of traffic, of which the noisiest alone is to pay.

use super::{BEGINS_S, FIRST, end, forget, load, megabytes};
use crate::experiments::nyx::failed;
use crate::live::{Awake, Here, Tenant, Times, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use server::PlaceIn;
use std::io;

/// The store, and jobs by what they do: reads and writes of DRAM, reads and writes of the tier.
const NAMES: [&str; 5] = ["store", "dr", "dw", "nr", "nw"];

/// What was seen of everybody at one time.
struct Seen {
    megabytes: Vec<f64>,
    store: Times,
}

fn seen(here: &Here, clients: &[(&Working, Work)], seconds: f64) -> Seen {
    forget(clients[0].0);
    let megabytes = megabytes(here, clients, seconds);
    Seen { megabytes, store: clients[0].0.take_times() }
}

/// MT², Table 6, live.
pub(super) fn remedy(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let tenants = NAMES.map(|name| Tenant::new(name, if name == "store" { FIRST } else { "" }));
    let in_dram = |config: &mut server::Config| {
        for tenant in &mut config.tenants[1..3] {
            tenant.placement = Some(PlaceIn::Dram);
        }
    };
    let _awake = Awake::start();
    let here = Here::start_with(sweep.text("tier")?, "none", &tenants, 2, in_dram).map_err(failed)?;
    let works = NAMES.map(|name| load(sweep, name));
    let works: Vec<Work> = works.into_iter().collect::<Result<_, _>>()?;
    let (alone_s, settle_s, measure_s) =
        (sweep.number("alone_s")?, sweep.number("settle_s")?, sweep.number("measure_s")?);
    let mut run = || -> io::Result<()> {
        let mut tails_alone = Times::default();
        for (work, name) in works.iter().zip(NAMES) {
            here.fill(work)?;
            let client = here.work(*work);
            here.pass(BEGINS_S);
            let alone = seen(&here, &[(&client, *work)], alone_s);
            results.number(format!("{name}_alone"), alone.megabytes[0]);
            if name == NAMES[0] {
                tails_alone = alone.store;
            }
            client.end()?;
        }
        let clients: Vec<Working> = works.iter().map(|work| here.work(*work)).collect();
        let all: Vec<(&Working, Work)> = clients.iter().zip(works.iter().copied()).collect();
        here.pass(BEGINS_S);
        for (when, policy, settle_s) in
            [("without", "none", BEGINS_S), ("with", "prevention+remedy", settle_s)]
        {
            here.switch(policy)?;
            here.pass(settle_s);
            let decided = here.decisions_total();
            let seen = seen(&here, &all, measure_s);
            for (name, megabytes) in NAMES.iter().zip(&seen.megabytes) {
                results.number(format!("{name}_{when}"), *megabytes);
            }
            for (name, part) in [("p95", 0.95), ("p99.9", 0.999)] {
                let ratio = seen.store.gets.quantile_us(part) / tails_alone.gets.quantile_us(part);
                results.number(format!("{name}_{when}"), ratio);
            }
            if when == "with" {
                held(&here, here.decided_since(decided)?, results);
            }
        }
        here.switch("none")?;
        end(clients)
    };
    run().map_err(failed)?;
    here.end();
    Ok(())
}

/// For which part of the last windows' time each tenant that comes to the tier was held back, and how long an access took over time.
fn held(here: &Here, windows: usize, results: &mut Results) {
    for name in ["store", "nr", "nw"] {
        let windows = here.used(name, windows);
        let secs: f64 = windows.iter().map(|window| window.secs).sum();
        let held: f64 = windows.iter().filter(|window| window.is_held_back).map(|window| window.secs).sum();
        results.number(format!("{name}_held"), held / secs);
    }
    let title = "An access to the tier under the policy";
    let medium = here.medium();
    let began = medium.first().map_or(0.0, |first| first.end_s);
    let of = |ns: fn(&crate::live::Medium) -> f64| -> Vec<(f64, f64)> {
        medium.iter().map(|one| (one.end_s - began, ns(one))).collect()
    };
    results.series(title, "read", &of(|one| one.read_ns));
    results.series(title, "write", &of(|one| one.write_ns));
    results.axes(title, "s", "ns");
}
