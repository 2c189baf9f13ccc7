//! Who may use a tier how fast: the loop of a policy about bandwidth, and what tenants claim of it.
//!
//! Shape:      claims, counters, times of requests -> policy -> brakes; one thread steps it when the policy wants
//! Invariants: a server without tiers holds nobody back; another policy begins with nobody held back by the one before but as it
//!             sees fit, and loses nothing that was counted; a claim that changes is seen within a step that begins at once
//! Failure:    a thread that steps no more leaves the last steady throttles behind when its lease ends
//! Non-goals:  how long an access is held: brakes in the store

mod claim;
mod policies;
mod thing;

pub use claim::{TierClaim, TierClaimError};
pub use policies::{BandwidthKind, BandwidthKindError};

use crate::limits::{JOURNAL_RECORDS, JOURNAL_ROWS};
use crate::shared::Shared;
use control::bandwidth::{BandwidthSignal, Kinds, Throttle};
use control::journal::Journal;
use control::{Loop, Reason};
use policy::bandwidth::{BandwidthPolicy, Options, Thresholds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use store::{BandwidthControl, Store};
use thing::Thing;
use units::{Duration, Instant, TenantId};

/// Pause before a policy that asks for no pause is asked again (guess: a tenth of the shortest experiment, 1 ms).
const PAUSE_MIN: Duration = Duration::from_micros(100);

/// The loop takes one part in so many of a core: half a per cent.
const LOOP_ONE_IN: u64 = 200;

/// What tenants claim, by id; those that claim nothing may have no place.
#[derive(Debug, Default)]
pub(crate) struct Claims(Vec<Option<Box<TierClaim>>>);

impl Claims {
    fn get(&self, id: TenantId) -> Option<&TierClaim> {
        self.0.get(id.index())?.as_deref()
    }

    fn set(&mut self, id: TenantId, claim: &TierClaim) {
        let at = id.index();
        if self.0.len() <= at && !claim.is_empty() {
            self.0.resize_with(at + 1, || None);
        }
        if let Some(place) = self.0.get_mut(at) {
            *place = (!claim.is_empty()).then(|| Box::new(claim.clone()));
        }
    }
}

/// The loop and what it drives.
#[derive(Debug)]
struct Running {
    kind: BandwidthKind,
    pacer: Loop<Box<BandwidthPolicy>>,
    thing: Thing,
    /// Incidents so far, and the newest.
    incidents: u64,
    incident: Option<String>,
}

/// Who may use a tier how fast. One per server.
#[derive(Debug)]
pub(crate) struct Sharing {
    claims: Mutex<Claims>,
    running: Mutex<Running>,
    /// When somebody may take over from a thread that steps no more.
    lease_ends_ns: AtomicU64,
    options: Options,
}

/// How the loop about bandwidth stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharingView {
    /// The policy in charge.
    pub policy: &'static str,
    /// Decisions so far.
    pub decisions_total: u64,
    /// Promises that could not be kept, so far.
    pub incidents_total: u64,
    /// The newest of them.
    pub incident: Option<String>,
}

impl Sharing {
    pub(crate) fn new(store: &Arc<Store>, kind: BandwidthKind, seed: u64) -> Self {
        let options = Options { seed, thresholds: thresholds(store), ..Options::default() };
        let mut pacer = Loop::new(kind.policy(&options), JOURNAL_RECORDS);
        pacer.limit_journal_rows(JOURNAL_ROWS);
        let thing = Thing::new(BandwidthControl::new(Arc::clone(store)));
        let mut running = Running { kind, pacer, thing, incidents: 0, incident: None };
        running.look(kind);
        Self {
            claims: Mutex::default(),
            running: Mutex::new(running),
            lease_ends_ns: AtomicU64::new(u64::MAX),
            options,
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // What a step that panicked leaves is a loop that can step again.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a tenant claims.
    pub(crate) fn claim(&self, id: TenantId) -> TierClaim {
        self.claims().get(id).cloned().unwrap_or_default()
    }

    /// Says what a tenant claims from now on: nothing, for one that has gone.
    pub(crate) fn set_claim(&self, id: TenantId, claim: &TierClaim) {
        self.claims().set(id, claim);
    }

    /// Another policy decides from the next step on. Returns whether that is a change.
    pub(crate) fn switch(&self, kind: BandwidthKind) -> bool {
        let mut running = self.running();
        if running.kind == kind {
            return false;
        }
        running.kind = kind;
        running.pacer.switch(kind.policy(&self.options));
        running.look(kind);
        true
    }

    /// One turn of the loop. Returns how long to wait for the next: as its policy wants, and so long that steps take no more of a
    /// core than they may, but for experiments, which end when they should.
    pub(crate) fn step(&self, shared: &Shared) -> Duration {
        let mut running = self.running();
        let claims = self.claims();
        let Running { pacer, thing, incidents, incident, .. } = &mut *running;
        let (now, cpu) = (shared.clock.now(), shared.clock.thread_cpu());
        let mut least = PAUSE_MIN;
        let wake = pacer.step(now, &mut thing.around(shared, &claims));
        if let Some(record) = pacer.journal().records().last().filter(|record| record.at == now) {
            self.lease_ends_ns.store((now + record.lease).0, Ordering::Relaxed);
            if record.steady {
                let spent = shared.clock.thread_cpu().0.saturating_sub(cpu.0);
                least = least.max(Duration(spent.saturating_mul(LOOP_ONE_IN)));
            }
            for note in &record.notes {
                if let Reason::Incident(what) = &note.reason {
                    *incidents += 1;
                    *incident = Some(what.to_string());
                }
            }
        }
        wake.max(least)
    }

    /// Gives the last steady throttles back if the loop has fallen silent. Returns when to look again.
    pub(crate) fn watch(&self, now: Instant) -> Option<Instant> {
        let ends = Instant(self.lease_ends_ns.load(Ordering::Relaxed));
        if ends == Instant(u64::MAX) || now < ends {
            return Some(ends);
        }
        let mut running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // It steps at this moment.
            Err(TryLockError::WouldBlock) => return None,
        };
        if running.thing.control.lapse(now) {
            tracing::error!("nobody decides about the bandwidth of tiers: the last steady throttles hold");
            self.lease_ends_ns.store(u64::MAX, Ordering::Relaxed);
        }
        None
    }

    /// Does something with the journal.
    pub(crate) fn journal<T>(&self, look: impl FnOnce(&Journal<BandwidthSignal, Throttle>) -> T) -> T {
        look(self.running().pacer.journal())
    }

    /// How the loop stands.
    pub(crate) fn view(&self) -> SharingView {
        let running = self.running();
        SharingView {
            policy: running.kind.name(),
            decisions_total: running.pacer.journal().recorded_total(),
            incidents_total: running.incidents,
            incident: running.incident.clone(),
        }
    }
}

impl Running {
    /// Measures what a policy looks at, and no more.
    fn look(&mut self, kind: BandwidthKind) {
        self.thing.wants_latencies = kind.name() == "qos";
        self.thing.control.watch_latency(kind.name() == "prevention+remedy");
    }
}

/// The latencies that a tier without traffic shows, and what is above them by so much that a tenth of the throughput is lost.
fn thresholds(store: &Store) -> Thresholds {
    let by_kind = store.tier_latency();
    let above = |quiet: Duration| Duration::from_nanos(quiet.0 + quiet.0 / LOST_ONE_IN);
    let by_kind = Kinds::from_fn(|kind| by_kind.get(kind).map(above));
    Thresholds::new(by_kind).unwrap_or_default()
}

/// Throughput falls by a tenth where an access takes one ninth longer (MT² §3.2.2, `policy::bandwidth::LOST_PART`).
const LOST_ONE_IN: u64 = 9;
