//! What unit tests of a server's parts share: a clock that is set, and what workers share, without a worker.

use crate::Config;
use crate::auth::Auth;
use crate::reactor::{Engine, IoEngine};
use crate::shared::{Clock, Shared};
use crate::sharing::{GroupClaims, Known, Speeds, TierModel};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Store;
use units::{Duration, Instant};

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
