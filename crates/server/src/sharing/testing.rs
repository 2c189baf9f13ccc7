//! Two tenants of a tier under a policy, for the tests of this folder.

use super::BandwidthKind;
use crate::Config;
use crate::shared::Shared;
use crate::testing::{Set, shared};
use media::Plain;
use std::sync::Arc;
use store::{Options, RankKind, Store, TenantSpec};
use units::{Bytes, TenantId};

/// Two tenants of a tier under `fair-slowdown`, which looks at each alone first.
pub(super) fn two() -> (Arc<Set>, Shared, [TenantId; 2]) {
    two_under("fair-slowdown")
}

pub(super) fn two_under(policy: &str) -> (Arc<Set>, Shared, [TenantId; 2]) {
    let policy = BandwidthKind::of_word(policy).expect("a policy");
    let config = Config { memory: Bytes::mib(16), threads: 1, bandwidth_policy: policy, ..Config::default() };
    let options = Options {
        memory: config.memory,
        item_max: config.item_max,
        threads: 2,
        tenants_max: 2,
        no_evict: false,
        seed: 0,
    };
    let tier = Arc::new(Plain::new(Bytes::mib(16)).expect("memory"));
    let store = Store::with_tiers(options, &[tier], 0).expect("a store");
    assert!(store.divide_tier(0));
    let tenants = ["a", "b"].map(|name| {
        let (name, claim) = (name.to_owned(), control::Claim::default());
        store
            .add_tenant(TenantSpec { name, own_space: true, claim, rank: RankKind::default() })
            .expect("room")
    });
    let clock = Arc::new(Set::default());
    let shared = shared(config, None, store, Arc::clone(&clock));
    (clock, shared, tenants)
}
