//! The mixed trace at 256 MiB: 22 tenants share one memory better than they divide it, and the division is exact.

use crate::exact::Partition;
use crate::load::{MIX_DEV_REQUESTS, MIX_DEV_TENANTS, mix_dev, replay};
use crate::rig::{ITEM_MAX, divisible};
use harness::Report;
use harness::replay::ReplayOptions;
use std::sync::OnceLock;
use store::RankKind;
use units::Bytes;

const MEMORY: Bytes = Bytes::mib(256);
/// By how much the store's sampled rank in a log may differ from an exact cache.
const TOLERANCE: f64 = 0.005;

/// The replay under one policy and rank, run once for every test that asks.
fn report(policy: &'static str, rank: RankKind) -> Option<&'static Report> {
    static SHARED: OnceLock<Option<Report>> = OnceLock::new();
    static PARTITIONED: OnceLock<Option<Report>> = OnceLock::new();
    static PARTITIONED_LRU: OnceLock<Option<Report>> = OnceLock::new();
    let run = || {
        let tenants = MIX_DEV_TENANTS.map(str::to_owned).to_vec();
        let options = ReplayOptions {
            memory: MEMORY,
            policy: policy.to_owned(),
            rank,
            tenants,
            ..ReplayOptions::default()
        };
        Some(replay(options, &mut *mix_dev()?))
    };
    let slot = match (policy, rank) {
        ("shared", _) => &SHARED,
        (_, RankKind::Gdsf) => &PARTITIONED,
        _ => &PARTITIONED_LRU,
    };
    slot.get_or_init(run).as_ref()
}

#[test]
fn shared_reaches_its_goal() {
    let Some(shared) = report("shared", RankKind::Gdsf) else { return };
    println!(
        "shared {:.4}, {:?} evicted, {:?} moved",
        shared.hit_ratio(),
        shared.evictions,
        shared.cleaner_moved_bytes
    );
    assert_eq!(shared.requests, MIX_DEV_REQUESTS);
    assert_eq!(shared.tenants.len(), MIX_DEV_TENANTS.len());
    assert!(0 < shared.evictions.unwrap() && 0 < shared.cleaner_moved_bytes.unwrap());
    let targets: Bytes = shared.tenants.iter().filter_map(|t| t.target).sum();
    assert_eq!(targets, divisible(MEMORY), "targets divide the memory exactly");
    assert!(0.78 < shared.hit_ratio(), "{:.4}", shared.hit_ratio());
}

#[test]
fn partitioned_is_below_shared() {
    let Some(partitioned) = report("partitioned", RankKind::Gdsf) else { return };
    let Some(shared) = report("shared", RankKind::Gdsf) else { return };
    assert_eq!(partitioned.requests, MIX_DEV_REQUESTS);
    let (p, s) = (partitioned.hit_ratio(), shared.hit_ratio());
    println!("partitioned {p:.4}, shared {s:.4}");
    assert!(p < s, "partitioned {p:.4}, shared {s:.4}");
}

/// The difference to an exact cache per tenant, each with an equal part of what the store divides.
fn distance(rank: RankKind) -> Option<f64> {
    let part = divisible(MEMORY).scale(1, MIX_DEV_TENANTS.len() as u64);
    let parts = MIX_DEV_TENANTS.map(|name| (name.to_owned(), part));
    let exact = Partition::new(rank, parts, ITEM_MAX).replay(&mut *mix_dev()?, u64::MAX);
    let live = report("partitioned", rank)?;
    for t in &live.tenants {
        println!(
            "{rank} {:14} gets {:6} store {:.4} exact {:.4} {:+.4}, held {} of {}, exactly {}",
            t.name,
            t.gets,
            t.hit_ratio(),
            exact.hit_ratio_of(&t.name),
            t.hit_ratio() - exact.hit_ratio_of(&t.name),
            t.held.unwrap(),
            t.target.unwrap(),
            exact.held_by(&t.name),
        );
    }
    let distance = live.hit_ratio() - exact.hit_ratio();
    println!(
        "{rank} partitioned: store {:.4}, exact {:.4}, {distance:+.4}",
        live.hit_ratio(),
        exact.hit_ratio()
    );
    Some(distance)
}

#[test]
fn partitioned_equals_an_exact_lru_per_tenant() {
    let Some(distance) = distance(RankKind::Lru) else { return };
    assert!(distance.abs() <= TOLERANCE, "{distance:+.4}");
}

#[test]
fn partitioned_equals_an_exact_gdsf_per_tenant() {
    let Some(distance) = distance(RankKind::Gdsf) else { return };
    assert!(distance.abs() <= TOLERANCE, "{distance:+.4}");
}
