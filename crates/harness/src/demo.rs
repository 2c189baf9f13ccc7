//! The demonstration: a server under a built-in load of production-like tenants, then what sharing gains.
//!
//! Shape:      the load is generated (see `lab::workload`), paced, sent over loopback; every second one line of hit
//!             ratios; at the end the same requests run through the store twice, shared and statically partitioned
//! Invariants: the load is a function of its seed; the comparison replays as many requests as were served

use crate::replay::{ReplayError, ReplayOptions, in_process};
use crate::report::{Report, TenantReport};
use crate::wire::over_tcp;
use lab::{Mix, Pace, Request, TraceError, TraceReader};
use units::{Bytes, Instant};

/// Requests per second of the demo's load: a comfortable part of what one core serves.
pub const REQUESTS_PER_SEC: u32 = 50_000;
/// Seed of the demo's load.
const SEED: u64 = 42;
/// The demo's memory for which the load is made three times too large.
const MEMORY_OF_SCALE_ONE: Bytes = Bytes::mib(64);

/// The load for a memory.
#[must_use]
pub fn load(memory: Bytes) -> Mix {
    let scale = memory.0 as f64 / MEMORY_OF_SCALE_ONE.0 as f64;
    Mix::demo(Pace { seed: SEED, scale, requests_per_sec: REQUESTS_PER_SEC })
}

/// Names of the load's tenants.
#[must_use]
pub fn tenant_names(memory: Bytes) -> Vec<String> {
    load(memory).tenants().iter().map(|t| t.name.clone()).collect()
}

/// A load that ends when it is told to.
struct Until<'a> {
    mix: Mix,
    is_over: &'a mut dyn FnMut(Instant) -> bool,
    served: u64,
}

impl TraceReader for Until<'_> {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        // The time of the request that comes, by the load's own pace.
        let at = Instant(self.served * 1_000_000_000 / u64::from(REQUESTS_PER_SEC));
        if self.served.is_multiple_of(256) && (self.is_over)(at) {
            return Ok(None);
        }
        self.served += 1;
        Ok(Some(self.mix.next_request()))
    }
}

/// Drives `server` with the load until `is_over` says so, which is called with the load's time and may wait for it.
///
/// # Errors
/// If the server is lost.
pub fn drive(
    memory: Bytes,
    server: &str,
    is_over: &mut dyn FnMut(Instant) -> bool,
) -> Result<Report, ReplayError> {
    let options = ReplayOptions { memory, ..ReplayOptions::default() };
    let mut load = Until { mix: load(memory), is_over, served: 0 };
    over_tcp(&options, server, &mut [&mut load], &mut |_| {}, None)
}

/// The same requests through the store in this process, under one policy.
///
/// # Errors
/// If the store cannot be made.
pub fn compare(memory: Bytes, policy: &str, requests: u64) -> Result<Report, ReplayError> {
    let options = ReplayOptions {
        memory,
        policy: policy.to_owned(),
        tenants: tenant_names(memory),
        limit: Some(requests),
        ..ReplayOptions::default()
    };
    in_process(options, &mut [&mut load(memory)], &mut |_| {})
}

/// Two reports side by side, per tenant: what sharing gained.
#[must_use]
pub fn comparison_table(shared: &Report, partitioned: &Report) -> String {
    use comfy_table::{CellAlignment, Table, presets};
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table.set_header(["tenant", "gets", "shared", "partitioned", "points", "held when shared"]);
    let mut row = |name: &str, gets: u64, (a, b): (f64, f64), held: Option<Bytes>| {
        let held = held.map_or_else(|| "-".to_owned(), |b| b.to_string());
        let points = format!("{:+.1}", (a - b) * 100.0);
        table.add_row([
            name.to_owned(),
            gets.to_string(),
            format!("{a:.4}"),
            format!("{b:.4}"),
            points,
            held,
        ]);
    };
    let ratio_of = |report: &Report, name: &str| {
        report.tenants.iter().find(|t| t.name == name).map_or(0.0, TenantReport::hit_ratio)
    };
    for t in &shared.tenants {
        row(&t.name, t.gets, (t.hit_ratio(), ratio_of(partitioned, &t.name)), t.held);
    }
    let held = shared.tenants.iter().map(|t| t.held).sum();
    row("all", shared.gets, (shared.hit_ratio(), partitioned.hit_ratio()), held);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
