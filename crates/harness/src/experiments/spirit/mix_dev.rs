//! The mixed trace live: DRAM above an emulated tier, a client per tenant that repeats its part of the trace.
//!
//! Shape:   requests of the trace by tenant -> a server per policy that begins under static shares -> requests per second at the
//!          end -> slowdowns
//! Units:   slowdown: rate under static shares ÷ rate under the policy, so long after the start
//! Failure: without the trace no item is applicable; figures rest on times, and what a second server under `static` says is how
//!          much noise there is
//! Source:  Spirit §6.1 (Fig. 6), with a multi-tenant cache's tenants

use crate::experiments::nyx::{failed, rates};
use crate::experiments::trace_file;
use crate::live::{Here, Stream, Tenant, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use server::PlaceIn;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Duration;

/// The policies that are compared with `static`, which comes before them and, as the control, behind.
const POLICIES: [&str; 4] = ["symbiosis", "harvest", "trade", "static"];
/// What is said of each.
const MEASURES: [&str; 3] = ["total", "worst", "slower"];
/// Slower than so much counts as slower.
const SLOWER: f64 = 1.05;

type Streams = BTreeMap<String, Arc<Stream>>;

/// The requests by tenant.
fn streams(sweep: &Sweep) -> Result<Result<Streams, String>, ExperimentError> {
    let path = match trace_file::find(sweep.text("trace")?) {
        Ok(path) => path,
        Err(why) => return Ok(Err(why)),
    };
    let mut reader = lab::open(&path, None).map_err(ExperimentError::failed)?;
    let mut streams: BTreeMap<String, Stream> = BTreeMap::new();
    for _ in 0..sweep.count("requests")? {
        let Some(request) = reader.next().map_err(ExperimentError::failed)? else { break };
        streams.entry(String::from_utf8_lossy(request.tenant).into_owned()).or_default().push(&request);
    }
    Ok(Ok(streams.into_iter().map(|(name, stream)| (name, Arc::new(stream))).collect()))
}

/// Requests per second by tenant, on a server of its own.
fn made(sweep: &Sweep, streams: &Streams, policy: &str) -> Result<Vec<f64>, ExperimentError> {
    let tenants: Vec<Tenant> = streams.keys().map(|name| Tenant::new(name, "")).collect();
    let (part, epoch) = (sweep.number("part")?, Duration::from_millis(sweep.count("epoch_ms")?));
    let setting = |config: &mut server::Config| {
        config.placement = PlaceIn::Auto;
        (config.bandwidth_part, config.bandwidth_epoch) = (part, epoch);
    };
    let here = Here::start_with(sweep.text("tier")?, "static", &tenants, 2, setting).map_err(failed)?;
    let depth = usize::try_from(sweep.count("depth")?).unwrap_or(1);
    let clients: Vec<Working> = streams.values().map(|stream| here.repeat(stream, depth)).collect();
    let all: Vec<&Working> = clients.iter().collect();
    here.pass(sweep.number("begin_s")?);
    here.switch(policy).map_err(failed)?;
    here.pass(sweep.number("settle_s")?);
    let rates = rates(&here, &all, sweep.number("measure_s")?);
    // Who waits for a budget is answered before it can end.
    here.switch("none").map_err(failed)?;
    clients.into_iter().try_for_each(|client| client.end().map(drop)).map_err(failed)?;
    here.end();
    Ok(rates)
}

/// The mixed trace under policies over both.
pub(super) fn mix_dev(sweep: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
    let streams = match streams(sweep)? {
        Ok(streams) => streams,
        Err(why) => {
            for (policy, measure) in
                POLICIES.iter().flat_map(|policy| MEASURES.map(|measure| (policy, measure)))
            {
                results.not_applicable(format!("{policy}_{measure}"), why.clone());
            }
            return Ok(());
        }
    };
    let fixed = made(sweep, &streams, "static")?;
    for policy in POLICIES {
        let rates = made(sweep, &streams, policy)?;
        let slowdowns: Vec<f64> = fixed.iter().zip(&rates).map(|(fixed, rate)| fixed / rate).collect();
        let logs: f64 = slowdowns.iter().map(|slowdown| slowdown.ln()).sum();
        let slower = slowdowns.iter().filter(|slowdown| SLOWER < **slowdown).count();
        results.number(format!("{policy}_total"), (logs / slowdowns.len() as f64).exp());
        results.number(format!("{policy}_worst"), slowdowns.iter().copied().fold(0.0, f64::max));
        results.number(format!("{policy}_slower"), slower as f64);
        let by_tenant: Vec<String> =
            streams.keys().zip(&slowdowns).map(|(name, slowdown)| format!("{name} {slowdown:.2}")).collect();
        results.note(format!("{policy}_total"), by_tenant.join(", "));
    }
    Ok(())
}
