//! The store against a map, under generated operations of several tenants in a tiny memory.
//!
//! Invariants checked: what is found is what was stored last; what was deleted, expired or flushed is never found
//! again; a miss without an expiry, flush or delete is an eviction that was counted; CAS values rise per key; and after
//! every run, every structure's own `check`
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

mod pair;
mod threads;

use pair::{Below, KEYS, Op, Pair, new_store};
use proptest::prelude::*;
use units::Bytes;

fn op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![8 => 0_u32..300, 3 => 300_u32..5_000, 1 => 5_000_u32..70_000];
    let key = 0_u16..KEYS;
    prop_oneof![
        300 => key.clone().prop_map(Op::Get),
        300 => (key.clone(), 0_u8..1, size.clone(), 0_u8..1, 0_u8..3)
            .prop_map(|(key, mode, size, ttl, flags)| Op::Set { key, mode, size, ttl, flags }),
        300 => (key.clone(), 0_u8..5, size.clone(), 0_u8..20, 0_u8..3)
            .prop_map(|(key, mode, size, ttl, flags)| Op::Set { key, mode, size, ttl, flags }),
        60 => (key.clone(), any::<bool>(), size).prop_map(|(key, right, size)| Op::Cas { key, right, size }),
        60 => key.clone().prop_map(Op::Delete),
        60 => (key.clone(), any::<u32>(), any::<bool>()).prop_map(|(key, delta, up)| Op::Count { key, delta, up }),
        50 => (key, 0_u8..20).prop_map(|(key, ttl)| Op::Touch { key, ttl }),
        1 => (0_u8..3, 0_u8..4).prop_map(|(tenant, delay)| Op::Flush { tenant, delay }),
        30 => (0_u8..5).prop_map(Op::Tick),
        20 => Just(Op::Maintain),
    ]
}

fn any_below() -> impl Strategy<Value = Below> {
    prop_oneof![Just(Below::Nothing), Just(Below::All), Just(Below::Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map_that_forgets(
        seed: u64,
        below in any_below(),
        ops in prop::collection::vec(op(), 1..1_500),
    ) {
        let mut pair = Pair::new(Bytes::mib(1), Bytes::kib(64), seed, below);
        for op in &ops {
            pair.run(op);
        }
        pair.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The same where one value in twelve fits no segment, and most of the memory is theirs.
    #[test]
    fn the_store_is_a_map_that_forgets_large_values_too(
        seed: u64,
        below in any_below(),
        ops in prop::collection::vec(op(), 1..1_500),
    ) {
        let mut pair = Pair::new(Bytes::mib(4), Bytes::kib(512), seed, below);
        for op in &ops {
            pair.run(op);
        }
        pair.finish();
    }
}

/// One long run, in which every tenant is evicted from and every structure turns over many times.
fn run_long(below: Below) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut pair = Pair::new(Bytes::mib(1), Bytes::kib(64), 7, below);
    let strategy = op();
    for turn in 0..40_000 {
        let tree = proptest::strategy::Strategy::new_tree(&strategy, &mut runner).unwrap();
        pair.run(&proptest::strategy::ValueTree::current(&tree));
        if turn % 5_000 == 0 {
            pair.worker.check();
        }
    }
    for (i, (tenant, _)) in pair.tenants.clone().into_iter().enumerate() {
        let totals = pair.store.totals(tenant);
        assert!(0 < totals.evictions && 0 < totals.moved_bytes, "{totals:?}");
        let is_below = below != Below::Nothing && i < 2;
        assert_eq!(0 < totals.tier_hits, is_below, "{totals:?}");
        assert!((0 < totals.tier_evictions) == is_below || below == Below::Some, "{totals:?}");
        assert_eq!(
            0 < totals.demotions && 0 < totals.promotions,
            is_below && below == Below::Some,
            "{totals:?}"
        );
        assert_eq!(
            (totals.tier_lost, pair.store.tier_totals().iter().map(|t| t.broken + t.errors).sum()),
            (0, 0_u64)
        );
    }
    assert!(if below == Below::Nothing { 1_000 } else { 300 } < pair.finish());
}

#[test]
fn a_long_run_evicts_and_stays_consistent() {
    run_long(Below::Nothing);
}

#[test]
fn a_long_run_with_all_values_below_dram_stays_consistent() {
    run_long(Below::All);
}

#[test]
fn a_long_run_with_demotion_and_promotion_stays_consistent() {
    run_long(Below::Some);
}
