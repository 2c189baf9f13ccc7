//! Floors: whoever has one never misses more than with a partition of its own of that size.

use crate::exact::Partition;
use crate::load::{MIX_DEV_REQUESTS, MIX_DEV_TENANTS, Minute, mix_dev, replay, row};
use crate::rig::{ITEM_MAX, divisible};
use harness::replay::ReplayOptions;
use lab::TraceReader;
use store::RankKind;
use units::{Bytes, Rng};

/// What the store's sampled rank may cost against an exact one.
const MARGIN: f64 = 0.005;

/// The mixed trace goes so far here: every tenant that is there from the start evicts by then.
const PREFIX: u64 = 1_500_000;
/// The memory that it has.
const MIXED_MEMORY: Bytes = Bytes::mib(64);
/// Names a memory in MiB that has the whole trace instead, which takes minutes.
const WHOLE_MIB: &str = "COTENANT_WHOLE_MIB";

/// Floors of random sizes that sum to three quarters of what is divided.
fn floors(names: Vec<String>, memory: Bytes, seed: u64) -> Vec<(String, Bytes)> {
    let mut rng = Rng::new(seed);
    let weights: Vec<u64> = names.iter().map(|_| 100 + rng.below(400)).collect();
    let total = weights.iter().sum();
    let reserved = divisible(memory).scale(3, 4);
    names.into_iter().zip(weights).map(|(name, weight)| (name, reserved.scale(weight, total))).collect()
}

fn check(policy: &str, seed: u64) {
    let minute = Minute::small(seed);
    let floors = floors(minute.tenants(), minute.memory, seed);
    check_kept(&floors, minute.options(policy), &mut || Box::new(minute.mix()));
}

fn check_mixed(policy: &str, seed: u64) {
    if mix_dev().is_none() {
        return;
    }
    let tenants = MIX_DEV_TENANTS.map(str::to_owned).to_vec();
    let whole = std::env::var(WHOLE_MIB).ok().map(|mib| Bytes::mib(mib.parse().unwrap()));
    let (memory, requests) = whole.map_or((MIXED_MEMORY, PREFIX), |memory| (memory, MIX_DEV_REQUESTS));
    let floors = floors(tenants.clone(), memory, seed);
    let policy = policy.to_owned();
    let options =
        ReplayOptions { memory, policy, tenants, limit: Some(requests), seed, ..ReplayOptions::default() };
    check_kept(&floors, options, &mut || mix_dev().unwrap());
}

/// With these floors and the options' policy nobody who asks misses more than in an exact cache of its floor.
fn check_kept(
    floors: &[(String, Bytes)],
    options: ReplayOptions,
    trace: &mut dyn FnMut() -> Box<dyn TraceReader + Send>,
) {
    let (seed, requests) = (options.seed, options.limit.unwrap());
    let alone =
        Partition::new(RankKind::Gdsf, floors.iter().cloned(), ITEM_MAX).replay(&mut *trace(), requests);
    let reserved = floors.iter().map(|(name, floor)| (Some(name.clone()), *floor)).collect();
    let shared = replay(ReplayOptions { reserved, ..options.clone() }, &mut *trace());
    println!(
        "seed {seed}: {} {:.4}, floors alone {:.4}",
        options.policy,
        shared.hit_ratio(),
        alone.hit_ratio()
    );
    let mut broken = Vec::new();
    for (name, floor) in floors {
        let t = row(&shared, name);
        let gain = t.hit_ratio() - alone.hit_ratio_of(name);
        println!(
            "  {name:14} {gain:+.4} ({:.4}), floor {floor}, target {}, held {}",
            t.hit_ratio(),
            t.target.unwrap(),
            t.held.unwrap()
        );
        assert!(*floor <= t.target.unwrap(), "seed={seed} {name} has a target below its floor");
        if gain < -MARGIN {
            broken.push((name, gain));
        }
    }
    assert!(broken.is_empty(), "seed={seed}: {broken:?}");
}

#[test]
fn no_tenant_misses_more_than_with_its_floor_alone_seed_1() {
    check("shared", 1);
}

#[test]
fn pooled_no_tenant_misses_more_than_with_its_floor_alone_seed_1() {
    check("pooled", 1);
}

#[test]
fn no_tenant_misses_more_than_with_its_floor_alone_seed_2() {
    check("shared", 2);
}

#[test]
fn pooled_no_tenant_misses_more_than_with_its_floor_alone_seed_2() {
    check("pooled", 2);
}

#[test]
fn no_tenant_misses_more_than_with_its_floor_alone_seed_3() {
    check("shared", 3);
}

#[test]
fn pooled_no_tenant_misses_more_than_with_its_floor_alone_seed_3() {
    check("pooled", 3);
}

#[test]
fn no_tenant_of_the_mixed_trace_misses_more_than_with_its_floor_alone_seed_1() {
    check_mixed("shared", 1);
}

#[test]
fn pooled_no_tenant_of_the_mixed_trace_misses_more_than_with_its_floor_alone_seed_1() {
    check_mixed("pooled", 1);
}

#[test]
fn no_tenant_of_the_mixed_trace_misses_more_than_with_its_floor_alone_seed_2() {
    check_mixed("shared", 2);
}

#[test]
fn pooled_no_tenant_of_the_mixed_trace_misses_more_than_with_its_floor_alone_seed_2() {
    check_mixed("pooled", 2);
}

#[test]
fn no_tenant_of_the_mixed_trace_misses_more_than_with_its_floor_alone_seed_3() {
    check_mixed("shared", 3);
}

#[test]
fn pooled_no_tenant_of_the_mixed_trace_misses_more_than_with_its_floor_alone_seed_3() {
    check_mixed("pooled", 3);
}
