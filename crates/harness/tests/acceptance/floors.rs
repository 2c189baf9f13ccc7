//! Floors: whoever has one never misses more than with a partition of its own of that size.

use crate::exact::Partition;
use crate::load::{Minute, replay, row};
use crate::rig::{ITEM_MAX, divisible};
use harness::replay::ReplayOptions;
use store::RankKind;
use units::{Bytes, Rng};

/// What the store's sampled rank may cost against an exact one.
const MARGIN: f64 = 0.005;

/// Floors of random sizes that sum to three quarters of what is divided.
fn floors(minute: Minute) -> Vec<(String, Bytes)> {
    let mut rng = Rng::new(minute.seed);
    let weights: Vec<u64> = minute.tenants().iter().map(|_| 100 + rng.below(400)).collect();
    let total = weights.iter().sum();
    let reserved = divisible(minute.memory).scale(3, 4);
    minute
        .tenants()
        .into_iter()
        .zip(weights)
        .map(|(name, weight)| (name, reserved.scale(weight, total)))
        .collect()
}

fn check(seed: u64) {
    let minute = Minute::small(seed);
    let floors = floors(minute);
    let alone =
        Partition::new(RankKind::Gdsf, floors.clone(), ITEM_MAX).replay(&mut minute.mix(), minute.requests());
    let reserved = floors.iter().map(|(name, floor)| (Some(name.clone()), *floor)).collect();
    let options = ReplayOptions { reserved, ..minute.options("shared") };
    let shared = replay(options, &mut minute.mix());
    println!("seed {seed}: shared {:.4}, floors alone {:.4}", shared.hit_ratio(), alone.hit_ratio());
    let mut broken = Vec::new();
    for (name, floor) in &floors {
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
    check(1);
}

#[test]
fn no_tenant_misses_more_than_with_its_floor_alone_seed_2() {
    check(2);
}

#[test]
fn no_tenant_misses_more_than_with_its_floor_alone_seed_3() {
    check(3);
}
