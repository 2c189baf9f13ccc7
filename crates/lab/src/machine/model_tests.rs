//! Properties of the memory system beyond its calibration: P8 by kind, levers, rounds, the utilisation model.

use super::calibration_tests::{closed, solve};
use super::class::Class;
use super::{Device, Faults, Machine, Stream, Tenant};
use control::Claim;
use control::bandwidth::{Kind, Kinds, Throttle};
use units::{BytesPerSec, Rng};

use Kind::{DramRead as DR, DramWrite as DW, SlowRead as NR, SlowWrite as NW};

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

/// How much a victim of kind `victim` gains at most, over random machines and neighbours, when threads of kind `added`
/// come; and in how many of the cases it gains.
fn most_gained(added: Kind, victim: Kind) -> (f64, u32) {
    let (mut most, mut gained) = (1.0_f64, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let device = [Device::mt2(), Device::nyx()][rng.index(2)].clone();
        let mut loads = vec![(victim, 1 + u16::try_from(rng.below(14)).unwrap())];
        loads.extend(neighbours(&mut rng));
        let few = u16::try_from(rng.below(14)).unwrap();
        let more = few + 1 + u16::try_from(rng.below(6)).unwrap();
        let kept = |threads: u16| {
            let others = loads.iter().copied().chain((0 < threads).then_some((added, threads)));
            let classes: Vec<Class> = others.map(|(kind, threads)| closed(&device, kind, threads)).collect();
            solve(&device, &classes).0[0]
        };
        let gain = kept(more) / kept(few);
        most = most.max(gain);
        gained += u32::from(1.000_01 < gain);
    }
    (most, gained)
}

#[test]
fn p8_more_load_never_helps_a_victim_but_for_the_named_exceptions() {
    // More writers contend at the medium's buffer and get through less, also of the controller: DRAM traffic gains. DRAM
    // traffic and slow reads hold each other back: writers of the slow tier gain from the one, DRAM traffic from the other.
    let exceptions =
        [(NW, DR, 1.16), (NW, DW, 1.16), (DR, NW, 1.05), (DW, NW, 1.05), (NR, DR, 1.01), (NR, DW, 1.01)];
    let mut ever = 0;
    for added in Kind::ALL {
        for victim in Kind::ALL {
            let (most, gained) = most_gained(added, victim);
            let known = exceptions.iter().find(|(by, of, _)| (*by, *of) == (added, victim));
            let bound = known.map_or(1.000_01, |(.., bound)| *bound);
            assert!(most <= bound, "more {added:?} gives {victim:?} {most} ({gained} of 200 seeds)");
            ever += if added == NW && !victim.is_slow() { gained } else { 0 };
        }
    }
    assert!(0 < ever, "the exception of writers is real on this model");
}

#[test]
fn mba_acts_as_figure_4_of_mt2_says() {
    let device = Device::mt2();
    let rate = |kind, threads, mba| {
        let throttle = Throttle { mba, ..Throttle::FREE };
        let class = Class::new(&device, (0, 0), &Stream::closed(kind, 256, threads), &throttle, 1.0);
        solve(&device, &[class]).0[0]
    };
    let reads = [100, 90, 80, 70, 60, 30, 10].map(|mba| rate(DR, 14, mba));
    assert!(0.93 * reads[0] <= reads[4], "flat down to 60: {reads:?}");
    assert!((reads[1] - reads[3]).abs() < 1e-6, "90, 80 and 70 are alike");
    assert!(reads[5] < 0.6 * reads[0], "a drop at 30");
    assert!((reads[6] / 28.0 - 1.0).abs() < 0.02, "28 GB/s at 10: {}", reads[6]);
    let writes = [100, 10].map(|mba| rate(NW, 6, mba));
    assert!(0.95 * writes[0] <= writes[1], "hardly any effect on slow writes: {writes:?}");
    let slow_reads = [100, 10].map(|mba| rate(NR, 14, mba));
    assert!(reads[6] / reads[0] < slow_reads[1] / slow_reads[0], "DRAM feels it more");
}

#[test]
fn a_solution_near_by_is_the_solution_from_nothing() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let device = Device::mt2();
        let loads = neighbours(&mut rng);
        let held = |delay| -> Vec<Class> {
            let throttle = Throttle { delay, ..Throttle::FREE };
            let class = |(at, &(kind, threads)): (usize, &(Kind, u16))| {
                Class::new(&device, (at, 0), &Stream::closed(kind, 256, threads), &throttle, 1.0)
            };
            loads.iter().enumerate().map(class).collect()
        };
        let (_, mut solution) = solve(&device, &held(50));
        solution.solve(&device, &held(0));
        for (near, far) in solution.flows.iter().zip(solve(&device, &held(0)).1.flows) {
            assert!((near.rate / far.rate - 1.0).abs() < 1e-5, "seed={seed} {loads:?}");
        }
    }
}

#[test]
fn the_utilisation_model_gives_the_frontier_and_nothing_between_dram_and_the_slow_tier() {
    let mut machine = Machine::new(Device::level0(), 1);
    let reader = machine.add(Tenant::new("reader", Claim::default(), vec![Stream::closed(NR, 256, 14)]));
    let alone = machine.steady(reader).bytes_total() / 1e9;
    assert!(alone <= 37.0 && 15.0 < alone, "{alone}");
    machine.add(Tenant::new("dram", Claim::default(), vec![Stream::closed(DR, 64, 14)]));
    assert!((machine.steady(reader).bytes_total() / 1e9 / alone - 1.0).abs() < 1e-9);
    let writer = machine.add(Tenant::new("writer", Claim::default(), vec![Stream::closed(NW, 256, 14)]));
    let (read, written) = (machine.steady(reader).bytes_total(), machine.steady(writer).bytes_total());
    let used = read / 37e9 + written / 10.9e9;
    assert!(used <= 0.981 && 0.8 < used, "{used}");
}

#[test]
fn a_cap_holds_all_streams_of_a_tenant_and_kind_together_in_either_model() {
    for device in [Device::mt2(), Device::level0()] {
        let mut machine = Machine::new(device, 1).with_faults(Faults::exact());
        let streams =
            vec![Stream::closed(NR, 256, 4), Stream::closed(NW, 256, 2), Stream::closed(NR, 256, 2)];
        let capped = machine.add(Tenant::new("capped", Claim::default(), streams));
        let other = machine.add(Tenant::new("other", Claim::default(), vec![Stream::closed(NR, 256, 1)]));
        let free = machine.steady(capped).bytes_per_sec.slow_write;
        let cap = Kinds { slow_read: Some(BytesPerSec(3_000_000_000)), ..Kinds::default() };
        machine.set_throttle(capped, Throttle { cap, ..Throttle::FREE });
        let [held, others] = [capped, other].map(|id| machine.steady(id).bytes_per_sec);
        assert!((held.slow_read / 3e9 - 1.0).abs() < 1e-6, "both readers together: {}", held.slow_read);
        assert!(free <= held.slow_write && 0.0 < others.slow_read, "nobody else is capped");
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
    assert!(worst < 1_000, "{worst}, {} on average", total / 200);
}
