//! The same requests over TCP against a server reach what they reach in process.

use crate::live::{config, serve};
use crate::load::{Minute, alone, mix_dev, replay};
use harness::Report;
use harness::replay::ReplayOptions;
use harness::wire::over_tcp;
use lab::TraceReader;
use server::MemoryPolicy;
use units::Bytes;

/// Other pipelining, other decision times, another tenant (the default one), a cleaner on a thread of its own: how much these
/// may change the mean of a few runs.
const TOLERANCE: f64 = 0.005;

fn over(options: &ReplayOptions, trace: &mut dyn TraceReader) -> Report {
    let _alone = alone();
    let policy = MemoryPolicy::ALL.into_iter().find(|policy| policy.name() == options.policy).unwrap();
    let (server, address) = serve(config(options.memory, policy));
    let report = over_tcp(options, &address, &mut [trace], &mut |_| {}, None).unwrap();
    server.shut_down().unwrap();
    report
}

/// The means of both are as good; reports differ in seeds and in the turns that threads get.
#[track_caller]
fn check_same(here: &[Report], there: &[Report]) {
    for (here, there) in here.iter().cycle().zip(there) {
        println!("in process {:.4}, over TCP {:.4}", here.hit_ratio(), there.hit_ratio());
        assert_eq!((here.requests, here.gets), (there.requests, there.gets));
        assert_eq!(here.tenants.len(), there.tenants.len());
        assert!(0 < here.evictions.unwrap() && 0 < there.evictions.unwrap());
    }
    let mean = |reports: &[Report]| reports.iter().map(Report::hit_ratio).sum::<f64>() / reports.len() as f64;
    let distance = mean(there) - mean(here);
    assert!(distance.abs() <= TOLERANCE, "{distance:+.4}");
}

#[test]
fn a_generated_minute_over_tcp_equals_in_process() {
    let minute = Minute::small(42);
    // Tenants come with their first store, here as there.
    let options = ReplayOptions { tenants: Vec::new(), ..minute.options("shared") };
    let there = [(); 3].map(|()| over(&options, &mut minute.mix()));
    let here = [1, 2, 3].map(|seed| replay(ReplayOptions { seed, ..options.clone() }, &mut minute.mix()));
    check_same(&here, &there);
}

#[test]
fn the_mixed_trace_over_tcp_equals_in_process() {
    let Some(mut trace) = mix_dev() else { return };
    let options = ReplayOptions { memory: Bytes::mib(256), ..ReplayOptions::default() };
    let there = [over(&options, &mut *trace), over(&options, &mut *mix_dev().unwrap())];
    let here = replay(options, &mut *mix_dev().unwrap());
    check_same(&[here], &there);
}
