//! Properties of the memory system beyond its calibration: P8 by kind, levers, speed in rounds, levels.

use super::calibration_tests::{closed, solve};
use super::class::Class;
use super::device::Device;
use super::tenant::Stream;
use control::bandwidth::{Kind, Kinds, Throttle};
use units::{BytesPerSec, Rng};

use Kind::{SlowRead as NR, SlowWrite as NW};

/// A random set of closed loops.
fn neighbours(rng: &mut Rng) -> Vec<(Kind, u16)> {
    (0..1 + rng.index(4))
        .map(|_| (Kind::ALL[rng.index(4)], 1 + u16::try_from(rng.below(14)).unwrap()))
        .collect()
}

#[test]
fn rates_with_throttles_are_continuous_and_no_tighter_throttle_gives_more() {
    let device = Device::mt2();
    let rate = |throttle: Throttle, quota: f64| {
        let class = Class::new(&device, (0, 0), &Stream::closed(NW, 256, 6), &throttle, quota);
        solve(&device, &[class]).0[0]
    };
    let free = rate(Throttle::FREE, 1.0);
    let mut last = free;
    for delay in (1..2000).step_by(37) {
        let now = rate(Throttle { delay, ..Throttle::FREE }, 1.0);
        assert!(now < last, "delay {delay}: {now} {last}");
        last = now;
    }
    let half = rate(Throttle::FREE, 0.5);
    assert!((half / free - 0.4777).abs() < 1e-3, "CPU time alone is proportional: {half} of {free}");
    let cap = Kinds { slow_write: Some(BytesPerSec(5_000_000_000)), ..Kinds::default() };
    let capped = rate(Throttle { cap, ..Throttle::FREE }, 1.0);
    assert!((capped / 5.0 - 1.0).abs() < 1e-6, "{capped}");
    let loose = Kinds { slow_write: Some(BytesPerSec(50_000_000_000)), ..Kinds::default() };
    assert!((rate(Throttle { cap: loose, ..Throttle::FREE }, 1.0) / free - 1.0).abs() < 1e-6);
}

#[test]
fn a_delay_lengthens_an_access_by_itself() {
    // One thread, 256 B each 161 ns alone; 200 ns more.
    let device = Device::nyx();
    let rate = |delay| {
        let throttle = Throttle { delay, ..Throttle::FREE };
        let class = Class::new(&device, (0, 0), &Stream::closed(NR, 256, 1), &throttle, 1.0);
        solve(&device, &[class]).0[0]
    };
    let (free, held) = (256.0 / rate(0), 256.0 / rate(20));
    assert!((held - free - 200.0).abs() < 2.0, "{free} ns, then {held} ns");
}

#[test]
fn loads_by_size_on_nyx_are_those_of_table_2() {
    let device = Device::nyx();
    for (size, gbps, us) in [(256, 1.59, 0.49), (4096, 4.08, 1.22)] {
        let class = Class::new(&device, (0, 0), &Stream::closed(NR, size, 1), &Throttle::FREE, 1.0);
        let (rates, solution) = solve(&device, &[class]);
        assert!((rates[0] / gbps - 1.0).abs() < 0.05, "{size} B: {} GB/s", rates[0]);
        let latency = class.latency(solution.flows[0].rate, solution.flows[0].residence) / 1e3;
        assert!((latency / us - 1.0).abs() < 0.05, "{size} B: {latency} us");
    }
}

#[test]
fn a_solution_takes_few_rounds() {
    let (mut worst, mut total) = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let device = Device::mt2();
        let classes: Vec<Class> =
            neighbours(&mut rng).into_iter().map(|(kind, threads)| closed(&device, kind, threads)).collect();
        let rounds = solve(&device, &classes).1.rounds;
        worst = worst.max(rounds);
        total += rounds;
    }
    println!("worst {worst}, mean {}", total / 200);
    assert!(worst < 1_000, "{worst}");
}
