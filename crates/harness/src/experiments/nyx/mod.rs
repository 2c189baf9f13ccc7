//! NyxCache's policies live: a server of this process on an emulated tier, clients over loopback.
//!
//! Shape:   tenants with claims -> loads -> what the server metered, what clients were answered
//! Units:   parts of the tier's time as the server's meters have it; requests per second by this machine's clock
//! Failure: figures that rest on times say so in their folder: tiers that are emulated need a core for every thread that waits

mod apart;
mod fair;
mod interference;
mod lend;
mod limit;
mod overhead;
mod qos;
mod rig;
mod share;
mod traces;

use crate::live::{Here, Work, Working};
use lab::experiment;
use lab::experiment::{Experiment, ExperimentError, Sweep};
use std::io;
use std::time::Duration;

/// What is shown of NyxCache live.
pub(super) const NYX: &[Experiment] = &[
    experiment!("nyx/fig_4", apart::apart),
    experiment!("nyx/fig_5", overhead::overhead),
    experiment!("nyx/live_interference", interference::interference),
    experiment!("nyx/live_limit", limit::limit),
    experiment!("nyx/live_qos", qos::qos),
    experiment!("nyx/live_fair", fair::fair),
    experiment!("nyx/live_share", share::share),
    experiment!("nyx/live_lend", lend::lend),
    experiment!("nyx/live_traces", traces::traces),
];

/// A load of gets that are all there.
pub(super) fn gets(tenant: &'static str, size: usize, keys: u64, depth: u64) -> Work {
    Work::gets(tenant, size, keys, depth)
}

/// A load of stores.
fn sets(tenant: &'static str, size: usize, keys: u64, depth: u64) -> Work {
    Work { gets_percent: 0, ..gets(tenant, size, keys, depth) }
}

/// Threads that serve requests.
fn workers(sweep: &Sweep) -> Result<usize, ExperimentError> {
    Ok(usize::try_from(sweep.count("workers")?).unwrap_or(1))
}

/// Stores the keys of a load, and lets it store for some seconds: the tier's memory is touched for the first time before anything is measured.
fn warm(here: &Here, work: &Work, seconds: f64) -> io::Result<()> {
    here.fill(work)?;
    let client = here.work(Work { gets_percent: 0, ..*work });
    here.pass(seconds);
    client.end().map(drop)
}

pub(super) fn failed(error: io::Error) -> ExperimentError {
    ExperimentError::failed(error)
}

/// Requests per second of each client over some seconds.
pub(super) fn rates(here: &Here, clients: &[&Working], seconds: f64) -> Vec<f64> {
    let before: Vec<u64> = clients.iter().map(|client| client.answered()).collect();
    let started = crate::live::nanos();
    here.pass(seconds);
    let passed = (crate::live::nanos() - started) as f64 / 1e9;
    clients.iter().zip(before).map(|(client, before)| (client.answered() - before) as f64 / passed).collect()
}

/// The middle of what each client is answered per second, over slices of some seconds: what else the machine does comes in bursts.
pub(super) fn median_rates(here: &Here, clients: &[&Working], seconds: f64) -> Vec<f64> {
    const SLICES: u32 = 8;
    let slices: Vec<Vec<f64>> =
        (0..SLICES).map(|_| rates(here, clients, seconds / f64::from(SLICES))).collect();
    let of = |at: usize| median(&mut slices.iter().map(|rates| rates[at]).collect::<Vec<f64>>());
    (0..clients.len()).map(of).collect()
}

/// The middle one; no number if there is none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Lets so many decisions be made, at most for twice as many seconds and ten more.
fn decisions(here: &Here, count: u64) -> io::Result<()> {
    here.decided_until(here.decisions_total() + count, Duration::from_secs(count * 2 + 10))
}
