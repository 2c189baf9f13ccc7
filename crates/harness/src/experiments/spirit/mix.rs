//! Figure 6 live: a server of this process with DRAM above an emulated tier, a client per tenant over loopback.
//!
//! Shape:   tenants and their loads -> a server per policy that begins under static shares -> requests per second at the end ->
//!          slowdowns
//! Units:   slowdown: rate under static shares ÷ rate under the policy, so long after the start; parts of DRAM and of the time that
//!          is divided
//! Failure: figures rest on times: other load on the machine is in them, and what a second server under `static` says is how much
//! Source:  Spirit §6.1 (Fig. 6)

use crate::experiments::nyx::{failed, gets, rates};
use crate::live::{Here, Order, Tenant, Work, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use server::PlaceIn;
use units::Duration;

/// The policies that are compared with `static`, which comes before them and, as the control, behind.
const POLICIES: [&str; 4] = ["symbiosis", "harvest", "trade", "static"];

/// The tenants' names.
const NAMES: [&str; 4] = ["kvs", "stream", "scan", "calm"];

/// What the tenants ask for, with so much of their keys.
fn works(scale: f64) -> [Work; 4] {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of keys")]
    let keys = |keys: u32| ((f64::from(keys) * scale) as u64).max(10);
    let works = [
        Work { order: Order::Skewed, ..gets(NAMES[0], 2_000, keys(20_000), 10) },
        Work { order: Order::InTurn, ..gets(NAMES[1], 4_000, keys(10_000), 10) },
        Work { order: Order::InTurn, ..gets(NAMES[2], 4_000, keys(15_000), 10) },
        Work { pause_us: 1_000, ..gets(NAMES[3], 1_000, keys(1_000), 1) },
    ];
    works.map(|work| Work { stores_again: true, ..work })
}

/// What a policy made of the mix.
struct Made {
    /// Requests per second by tenant.
    rates: Vec<f64>,
    /// Parts of DRAM, and of the time that is divided, by tenant.
    given: Vec<(f64, f64)>,
}

fn measure(here: &Here, sweep: &Sweep, policy: &str) -> Result<Made, ExperimentError> {
    let works = works(sweep.number("scale")?);
    for work in &works {
        here.fill(work).map_err(failed)?;
    }
    let clients = works.map(|work| here.work(work));
    let all: Vec<&Working> = clients.iter().collect();
    here.pass(sweep.number("begin_s")?);
    here.switch(policy).map_err(failed)?;
    here.pass(sweep.number("settle_s")?);
    let rates = rates(here, &all, sweep.number("measure_s")?);
    let given: Vec<(u64, f64)> = NAMES.iter().map(|name| here.given(name).unwrap_or_default()).collect();
    // Who waits for a budget is answered before it can end.
    here.switch("none").map_err(failed)?;
    clients.into_iter().try_for_each(|client| client.end().map(drop)).map_err(failed)?;
    let (dram, time) = given.iter().fold((0, 0.0), |(dram, time), one| (dram + one.0, time + one.1));
    let part = |(bytes, cost): (u64, f64)| (bytes as f64 / (dram as f64).max(1.0), cost / time.max(1e-9));
    Ok(Made { rates, given: given.into_iter().map(part).collect() })
}

/// What a policy makes of the mix, on a server of its own.
fn made(sweep: &Sweep, policy: &str) -> Result<Made, ExperimentError> {
    let tenants = NAMES.map(|name| Tenant::new(name, ""));
    let (part, epoch) = (sweep.number("part")?, Duration::from_millis(sweep.count("epoch_ms")?));
    let setting = |config: &mut server::Config| {
        config.placement = PlaceIn::Auto;
        config.tenants[1].placement = Some(PlaceIn::Tier("tier".to_owned()));
        (config.bandwidth_part, config.bandwidth_epoch) = (part, epoch);
    };
    let here = Here::start_with(sweep.text("tier")?, "static", &tenants, 2, setting).map_err(failed)?;
    let made = measure(&here, sweep, policy)?;
    here.end();
    Ok(made)
}

/// Spirit, Figure 6, live.
pub(super) fn mix(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let fixed = made(sweep, "static")?;
    for policy in POLICIES {
        report(policy, &fixed, &made(sweep, policy)?, results);
    }
    Ok(())
}

fn report(policy: &str, fixed: &Made, made: &Made, results: &mut Results) {
    let slowdowns: Vec<f64> = fixed.rates.iter().zip(&made.rates).map(|(fixed, made)| fixed / made).collect();
    let logs: f64 = slowdowns.iter().map(|slowdown| slowdown.ln()).sum();
    results.number(format!("{policy}_total"), (logs / slowdowns.len() as f64).exp());
    results.number(format!("{policy}_worst"), slowdowns.iter().copied().fold(0.0, f64::max));
    if policy != "static" {
        for (name, slowdown) in NAMES.iter().zip(&slowdowns) {
            results.number(format!("{policy}_{name}"), *slowdown);
        }
    }
    if policy == "symbiosis" {
        results.number("symbiosis_kvs_dram", made.given[0].0);
        results.number("symbiosis_stream_bandwidth", made.given[1].1);
    }
}
