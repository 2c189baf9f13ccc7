//! The same requests over TCP against a server reach what they reach in process.

use crate::live::{config, serve};
use crate::load::{Minute, mix_dev, replay};
use harness::Report;
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use lab::TraceReader;
use server::MemoryPolicy;
use units::Bytes;

/// Other pipelining, other decision times, another tenant (the default one): how much these may change. Which donors are
/// drawn moves a hit ratio too: for 16 MiB of the generated minute over TCP by .003 (one standard deviation of runs), for
/// 64 MiB by .0012. One small run against another would be a lottery.
const TOLERANCE: f64 = 0.005;

fn over(options: &ReplayOptions, trace: &mut dyn TraceReader) -> Report {
    let (server, address) = serve(config(options.memory, MemoryPolicy::Shared));
    let report = over_tcp(options, &address, &mut [trace], &mut |_| {}, None).unwrap();
    server.shut_down();
    report
}

/// `there` is as good as the mean of `here`, which differ in their seeds.
#[track_caller]
fn check_same(here: &[Report], there: &Report) {
    for here in here {
        println!("in process {:.4}, over TCP {:.4}", here.hit_ratio(), there.hit_ratio());
        assert_eq!((here.requests, here.gets), (there.requests, there.gets));
        assert_eq!(here.tenants.len(), there.tenants.len());
        assert!(0 < here.evictions.unwrap() && 0 < there.evictions.unwrap());
    }
    let mean = here.iter().map(Report::hit_ratio).sum::<f64>() / here.len() as f64;
    let distance = there.hit_ratio() - mean;
    assert!(distance.abs() <= TOLERANCE, "{distance:+.4}");
}

#[test]
fn a_generated_minute_over_tcp_equals_in_process() {
    let minute = Minute { memory: Bytes::mib(64), seed: 42 };
    // Tenants come with their first store, here as there.
    let options = ReplayOptions { tenants: Vec::new(), ..minute.options("shared") };
    let there = over(&options, &mut minute.mix());
    let here = [1, 2, 3].map(|seed| replay(ReplayOptions { seed, ..options.clone() }, &mut minute.mix()));
    check_same(&here, &there);
}

#[test]
fn the_mixed_trace_over_tcp_equals_in_process() {
    let Some(mut trace) = mix_dev() else { return };
    let options =
        ReplayOptions { memory: Bytes::mib(64), limit: Some(1_500_000), ..ReplayOptions::default() };
    let there = over(&options, &mut *trace);
    let here = replay(options, &mut *mix_dev().unwrap());
    check_same(&[here], &there);
}
