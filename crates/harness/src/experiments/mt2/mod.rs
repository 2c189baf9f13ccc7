//! MT²'s policies live: a server of this process on an emulated tier, jobs and a store as tenants, clients over loopback.
//!
//! Shape:     loads of one kind of traffic each -> what the server metered and timed, what clients were answered and when
//! Units:     megabytes per second; latencies relative to alone
//! Non-goals: memory bandwidth allocation and CPU quotas, which act on processes and not on tenants: the levers are brakes on
//!            accesses to the tier, and traffic of DRAM has none

mod foreground;
mod limit;
mod remedy;
mod tails;

use super::nyx::{gets, median_rates};
use crate::live::{Here, Times, Work, Working};
use lab::experiment;
use lab::experiment::{Experiment, ExperimentError, Sweep};
use std::io;

/// What is shown of MT² live.
pub(super) const MT2: &[Experiment] = &[
    experiment!("mt2/live_remedy", remedy::remedy),
    experiment!("mt2/live_limit", limit::limit),
    experiment!("mt2/live_foreground", foreground::foreground),
    experiment!("mt2/table_5", tails::tails_of_first),
];

/// A claim of who comes first: its promise is kept by anything, its class is what counts.
const FIRST: &str = "keep reads 1000B/s";
/// What a client needs to be under way.
const BEGINS_S: f64 = 0.3;

/// The load of a tenant by the sweep's table of its name: part of look-ups, bytes, requests on their way, pause.
fn load(sweep: &Sweep, name: &'static str) -> Result<Work, ExperimentError> {
    let number = |key: &str| sweep.count(&format!("{name}.{key}"));
    let size = usize::try_from(number("value_bytes")?).map_err(ExperimentError::failed)?;
    let work = gets(name, size, sweep.count("keys")?, number("depth")?);
    Ok(Work { gets_percent: number("get_percent")?, pause_us: number("pause_us")?, ..work })
}

fn end(clients: impl IntoIterator<Item = Working>) -> io::Result<()> {
    clients.into_iter().try_for_each(|client| client.end().map(drop))
}

/// MB/s of each load, in the middle of some slices.
fn megabytes(here: &Here, clients: &[(&Working, Work)], seconds: f64) -> Vec<f64> {
    let all: Vec<&Working> = clients.iter().map(|(client, _)| *client).collect();
    let rates = median_rates(here, &all, seconds);
    rates.iter().zip(clients).map(|(rate, (_, work))| rate * work.size as f64 / 1e6).collect()
}

/// Forgets how long a client's requests have taken so far.
fn forget(client: &Working) {
    let _: Times = client.take_times();
}
