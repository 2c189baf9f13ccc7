//! What unit tests of a server's parts share: a clock that is set, and what workers share, without a worker.

use crate::Config;
use crate::auth::Auth;
use crate::reactor::{Engine, IoEngine};
use crate::shared::{Clock, Shared};
use crate::sharing::{GroupClaims, Known, Speeds, TierModel};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Options, RankKind, Store, TenantSpec, Worker};
use units::{Bytes, Duration, Instant, TenantId};

/// A clock that is set, and stands still till then.
#[derive(Debug, Default)]
pub(crate) struct Set(AtomicU64);

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

/// Lets time pass.
pub(crate) fn pass(clock: &Set, time: Duration) -> Instant {
    clock.0.fetch_add(time.0, Ordering::Relaxed);
    clock.now()
}

/// What is shared by the workers of a server whose tiers nobody has measured.
pub(crate) fn shared(config: Config, auth: Option<Auth>, store: Arc<Store>, clock: Arc<Set>) -> Shared {
    let engine = Engine { kind: IoEngine::Epoll, reason: String::new() };
    let model = TierModel::nothing("none", String::new());
    let known = Known { model, speeds: Speeds::default(), speeds_file: None, groups: GroupClaims::default() };
    Shared::new(config, auth, store, clock, None, engine, known).expect("it needs no table")
}

/// The same over an empty store of 16 MiB with one thread, without a tenant.
pub(crate) fn small(tenants_max: usize) -> Shared {
    let config = Config { memory: Bytes::mib(16), threads: 1, ..Config::default() };
    let options = Options {
        memory: config.most_memory(),
        item_max: config.item_max,
        threads: 1,
        tenants_max,
        no_evict: false,
        seed: 0,
    };
    let store = Store::new(options).expect("16 MiB are enough");
    shared(config, None, store, Arc::default())
}

/// A tenant of the shared key space.
pub(crate) fn tenant(name: &str) -> TenantSpec {
    let claim = control::Claim::default();
    TenantSpec { name: name.to_owned(), own_space: false, claim, rank: RankKind::Lru }
}

/// Removes the last tenant that there is room for, and gives its id to another.
pub(crate) fn replace(worker: &mut Worker, id: TenantId, name: &str) {
    let store = Arc::clone(worker.store());
    assert!(store.remove_tenant(id), "it is there");
    while !store.has_free_tenant() {
        worker.quiesce();
        worker.maintain();
    }
    assert_eq!(store.add_tenant(tenant(name)), Some(id), "there is no other id");
}
