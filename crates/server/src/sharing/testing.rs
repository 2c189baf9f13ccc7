//! Two tenants of a tier under a policy, and a clock that is set, for the tests of this folder.

use super::{BandwidthKind, GroupClaims, Known, Speeds, TierModel};
use crate::Config;
use crate::reactor::{Engine, IoEngine};
use crate::shared::{Clock, Shared};
use media::Plain;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Options, RankKind, Store, TenantSpec};
use units::{Bytes, Duration, Instant, TenantId};

/// A clock that is set.
#[derive(Debug, Default)]
pub(super) struct Set(AtomicU64);

impl Clock for Set {
    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn unix_secs(&self) -> i64 {
        0
    }

    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }

    fn process_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

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
    let engine = Engine { kind: IoEngine::Epoll, reason: String::new() };
    let model = TierModel::nothing("none", String::new());
    let known = Known { model, speeds: Speeds::default(), speeds_file: None, groups: GroupClaims::default() };
    let shared = Shared::new(config, None, store, clock.clone(), None, engine, known);
    (clock, shared.expect("it needs no table"), tenants)
}

/// Lets time pass.
pub(super) fn pass(clock: &Set, time: Duration) -> Instant {
    clock.0.fetch_add(time.0, Ordering::Relaxed);
    clock.now()
}
