//! The same requests over TCP against a server reach what they reach in process.

use crate::live::{config, serve};
use crate::load::{Minute, mix_dev, replay};
use harness::Report;
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use lab::TraceReader;
use server::MemoryPolicy;
use units::Bytes;

/// Other pipelining, other decision times, another tenant (the default one): how much these may change.
const TOLERANCE: f64 = 0.005;

fn over(options: &ReplayOptions, trace: &mut dyn TraceReader) -> Report {
    let (server, address) = serve(config(options.memory, MemoryPolicy::Shared));
    let report = over_tcp(options, &address, &mut [trace], &mut |_| {}, None).unwrap();
    server.shut_down();
    report
}

#[track_caller]
fn check_same(here: &Report, there: &Report) {
    println!("in process {:.4}, over TCP {:.4}", here.hit_ratio(), there.hit_ratio());
    assert_eq!((here.requests, here.gets), (there.requests, there.gets));
    assert_eq!(here.tenants.len(), there.tenants.len());
    assert!(0 < here.evictions.unwrap() && 0 < there.evictions.unwrap());
    let distance = there.hit_ratio() - here.hit_ratio();
    assert!(distance.abs() <= TOLERANCE, "{distance:+.4}");
}

#[test]
fn a_generated_minute_over_tcp_equals_in_process() {
    let minute = Minute::small(42);
    // Tenants come with their first store, here as there.
    let options = ReplayOptions { tenants: Vec::new(), ..minute.options("shared") };
    let there = over(&options, &mut minute.mix());
    let here = replay(options, &mut minute.mix());
    check_same(&here, &there);
}

#[test]
fn the_mixed_trace_over_tcp_equals_in_process() {
    let Some(mut trace) = mix_dev() else { return };
    let options =
        ReplayOptions { memory: Bytes::mib(64), limit: Some(1_500_000), ..ReplayOptions::default() };
    let there = over(&options, &mut *trace);
    let here = replay(options, &mut *mix_dev().unwrap());
    check_same(&here, &there);
}
