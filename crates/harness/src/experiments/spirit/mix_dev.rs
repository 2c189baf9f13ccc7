//! The mixed trace live: DRAM above an emulated tier, a client per tenant that repeats its part of the trace.
//!
//! Shape:   requests of the trace by tenant -> a server per policy that begins under static shares -> seconds for the same requests
//!          once shares have settled -> slowdowns
//! Units:   slowdown: time that a tenant's first requests of the trace take under the policy ÷ under static shares
//! Failure: without the trace no item is applicable; figures rest on times, and what a second server under `static` says is how
//!          much noise there is
//! Source:  Spirit §6.1 (Fig. 6), with a multi-tenant cache's tenants

use crate::experiments::nyx::failed;
use crate::experiments::trace_file;
use crate::live::{Here, Stream, Tenant, Working};
use lab::experiment::{ExperimentError, Results, Sweep};
use server::PlaceIn;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
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

/// How often it is looked who is done, in seconds.
const LOOK_SECS: f64 = 0.005;
/// Who has not done its requests after so many times what they took under static shares is taken to go on as it did.
const WAITS: f64 = 3.0;

/// What is waited for: so many seconds, or so many requests of each tenant.
enum Until<'a> {
    Passed(f64),
    Answered(&'a [u64], f64),
}

/// What every tenant was answered from the begin of its requests on, and how long that took, in seconds.
struct Made {
    answered: Vec<u64>,
    seconds: Vec<f64>,
}

fn done(here: &Here, clients: &[Working], until: &Until<'_>) -> Made {
    let started = crate::live::nanos();
    let passed = || (crate::live::nanos() - started) as f64 / 1e9;
    let answered = || clients.iter().map(Working::answered).collect::<Vec<u64>>();
    let (counts, seconds) = match *until {
        Until::Passed(seconds) => {
            here.pass(seconds);
            let seconds = passed();
            return Made { answered: answered(), seconds: vec![seconds; clients.len()] };
        }
        Until::Answered(counts, seconds) => (counts, seconds),
    };
    let mut took = vec![None; clients.len()];
    while took.iter().any(Option::is_none) && passed() < seconds * WAITS {
        here.pass(LOOK_SECS);
        let now = passed();
        for ((took, answered), count) in took.iter_mut().zip(answered()).zip(counts) {
            if *count <= answered {
                took.get_or_insert(now);
            }
        }
    }
    let (now, answered) = (passed(), answered());
    let at_its_pace = |(answered, count): (&u64, &u64)| now * *count as f64 / (*answered).max(1) as f64;
    let paces = answered.iter().zip(counts).map(at_its_pace);
    let seconds = took.into_iter().zip(paces).map(|(took, pace)| took.unwrap_or(pace)).collect();
    Made { answered, seconds }
}

/// Ends all at once: who still asks has nobody's time while it waits for its turn to be ended.
fn end(clients: Vec<Working>) -> io::Result<()> {
    thread::scope(|scope| {
        let ending: Vec<_> = clients.into_iter().map(|client| scope.spawn(|| client.end())).collect();
        let ended = ending.into_iter().map(|ending| {
            ending.join().unwrap_or_else(|_| Err(io::Error::other("ending a client has panicked"))).map(drop)
        });
        ended.fold(Ok(()), io::Result::and)
    })
}

/// Every tenant's requests from the first on, once shares have settled, on a server of its own; and how many of their stores were refused.
fn made(
    sweep: &Sweep,
    streams: &Streams,
    policy: &str,
    until: &Until<'_>,
) -> Result<(Made, u64), ExperimentError> {
    let tenants: Vec<Tenant> = streams.keys().map(|name| Tenant::new(name, "")).collect();
    let (part, epoch) = (sweep.number("part")?, Duration::from_millis(sweep.count("epoch_ms")?));
    let setting = |config: &mut server::Config| {
        config.placement = PlaceIn::Auto;
        (config.bandwidth_part, config.bandwidth_epoch) = (part, epoch);
    };
    let here = Here::start_with(sweep.text("tier")?, "static", &tenants, 2, setting).map_err(failed)?;
    let depth = usize::try_from(sweep.count("depth")?).unwrap_or(1);
    let pause = std::time::Duration::from_micros(sweep.count("pause_us")?);
    let begin = || streams.values().map(|stream| here.repeat(stream, depth, pause)).collect::<Vec<Working>>();
    let clients = begin();
    here.pass(sweep.number("begin_s")?);
    here.switch(policy).map_err(failed)?;
    here.pass(sweep.number("settle_s")?);
    // All begin anew: tenants are faster under one policy than under another, and a trace is not the same everywhere.
    end(clients).map_err(failed)?;
    let clients = begin();
    let made = done(&here, &clients, until);
    let refused: u64 = clients.iter().map(Working::refused).sum();
    // Who waits for a budget is answered before it can end.
    here.switch("none").map_err(failed)?;
    end(clients).map_err(failed)?;
    here.end();
    Ok((made, refused))
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
    let seconds = sweep.number("measure_s")?;
    let (fixed, _) = made(sweep, &streams, "static", &Until::Passed(seconds))?;
    if let Some((name, _)) = streams.keys().zip(&fixed.answered).find(|(_, answered)| **answered == 0) {
        return Err(ExperimentError::failed(format!("{name} was answered nothing in {seconds} s")));
    }
    for policy in POLICIES {
        let (under, refused) = made(sweep, &streams, policy, &Until::Answered(&fixed.answered, seconds))?;
        let slowdowns: Vec<f64> =
            under.seconds.iter().zip(&fixed.seconds).map(|(under, fixed)| under / fixed).collect();
        let logs: f64 = slowdowns.iter().map(|slowdown| slowdown.ln()).sum();
        let slower = slowdowns.iter().filter(|slowdown| SLOWER < **slowdown).count();
        results.number(format!("{policy}_total"), (logs / slowdowns.len() as f64).exp());
        results.number(format!("{policy}_worst"), slowdowns.iter().copied().fold(0.0, f64::max));
        results.number(format!("{policy}_slower"), slower as f64);
        let by_tenant: Vec<String> =
            streams.keys().zip(&slowdowns).map(|(name, slowdown)| format!("{name} {slowdown:.2}")).collect();
        results.note(format!("{policy}_total"), by_tenant.join(", "));
        results.note(format!("{policy}_total"), format!("{refused} stores refused"));
    }
    Ok(())
}
