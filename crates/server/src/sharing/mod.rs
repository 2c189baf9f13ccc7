//! Who may use a tier how fast: the loop of a policy about bandwidth, or about DRAM and bandwidth together, and what tenants claim.
//!
//! Shape:      claims, counters, times of requests -> policy -> brakes; claims, counters, curves -> policy over both -> targets in
//!             DRAM and brakes. One thread steps the loop in charge when its policy wants
//! Invariants: a server without tiers holds nobody back; another policy begins with nobody held back by the one before but as it
//!             sees fit, and loses nothing that was counted; a claim that changes is seen within a step that begins at once; targets
//!             in DRAM are there only while a policy over both is in charge
//! Failure:    a policy that needs a table of the tier which nobody has measured is refused; of a loop that fails or falls silent see `silence`
//! Non-goals:  how long an access is held: brakes in the store

mod claim;
mod groups;
mod history;
mod incidents;
mod joint;
mod model;
mod pace;
mod policies;
mod rests;
mod silence;
mod slowdowns;
mod speeds;
mod steps;
#[cfg(test)]
mod testing;
mod thing;

pub use claim::{TierClaim, TierClaimError};
pub(crate) use groups::GroupClaims;
pub(crate) use joint::JointSettings;
pub(crate) use model::TierModel;
pub use model::Unmeasured;
pub use policies::{BandwidthKind, BandwidthKindError};
pub(crate) use speeds::Speeds;
pub use speeds::SpeedsError;
pub(crate) use steps::Steps;

use crate::limits::{JOURNAL_CURVES, JOURNAL_RECORDS, JOURNAL_ROWS};
use crate::shared::Shared;
use crate::view::line_of;
use control::bandwidth::Kinds;
use control::joint::JointSignal;
use control::journal::Journal;
use control::{Loop, Reason};
use history::{Family, History};
use incidents::{Incident, Incidents};
use media::probe::{machine_id, machine_name};
use pace::Pace;
pub(crate) use pace::REST_MAX;
use policy::bandwidth::{BandwidthPolicy, Options, Thresholds};
use policy::joint::JointPolicy;
use slowdowns::Slowdowns;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{BandwidthControl, JointControl, Store};
use thing::Thing;
use units::{Duration, Instant, TenantId};

/// Pauses of experiments last so much longer than what counts of them, on a tier as fast as memory: requests of others that were on their way
/// are served meanwhile, and who is alone fills its own pipeline (guess: a batch or two of clients that pipeline). Without it a pause of a millisecond shows two
/// thirds of what a tenant does alone.
const SETTLE: Duration = Duration::from_micros(500);
/// A step of a policy about bandwidth that comes so much before its time is left out: a window of that policy is longer than the loop rests.
const EARLY_LEAST: Duration = Duration::from_millis(100);
/// Pause before a policy that asks for no pause is asked again (guess: a tenth of the shortest experiment, 1 ms).
const PAUSE_MIN: Duration = Duration::from_micros(100);

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

/// The two loops, of which one is in charge, and what they drive.
#[derive(Debug)]
struct Running {
    kind: BandwidthKind,
    pacer: Loop<Box<BandwidthPolicy>>,
    thing: Thing,
    joint_pacer: Loop<JointPolicy>,
    both: JointControl,
    settings: JointSettings,
    /// What the policy in charge looks at of tenants' measured speeds.
    speeds: Speeds,
    groups: GroupClaims,
    history: History,
    /// Promises that could not be kept, and those that cannot now.
    incidents: Incidents,
    pace: Pace,
}

/// What is known beforehand.
#[derive(Debug)]
pub(crate) struct Known {
    /// How reads and writes of the divided tier slow each other.
    pub(crate) model: TierModel,
    /// Tenants' speeds, for a policy that looks at them.
    pub(crate) speeds: Speeds,
    /// The file that they are in.
    pub(crate) speeds_file: Option<PathBuf>,
    /// What groups of tenants claim.
    pub(crate) groups: GroupClaims,
}

/// Who may use a tier how fast. One per server.
#[derive(Debug)]
pub(crate) struct Sharing {
    claims: Mutex<Claims>,
    running: Mutex<Running>,
    /// What the policy in charge said: apart, for no request is to wait for a step.
    slowdowns: Mutex<Slowdowns>,
    /// When somebody may take over from a thread that steps no more.
    lease_ends_ns: AtomicU64,
    /// Something has changed that a policy over both is to see at once.
    asked: AtomicBool,
    /// When the tier may be looked at again between two turns.
    looks_at_ns: AtomicU64,
    options: Mutex<Options>,
    model: TierModel,
    /// Where tenants' speeds are read from.
    speeds_file: Mutex<Option<PathBuf>>,
}

/// How the loop about bandwidth stands.
#[derive(Clone, PartialEq, Debug)]
pub struct SharingView {
    /// The policy in charge.
    pub policy: &'static str,
    /// Decisions so far.
    pub decisions_total: u64,
    /// Promises that could not be kept, so far.
    pub incidents_total: u64,
    /// The newest of those that cannot be kept now.
    pub incident: Option<String>,
    /// Time between two decisions over DRAM and bandwidth.
    pub epoch: Duration,
    /// Part of the tier's time that they divide.
    pub part: f64,
}

impl Sharing {
    /// Over `store`, of whose divided tier and tenants `known` is known.
    ///
    /// # Errors
    /// If the policy `kind` needs to know more.
    pub(crate) fn new(
        store: &Arc<Store>,
        known: Known,
        kind: BandwidthKind,
        (settings, steps): (JointSettings, Steps),
        (seed, now): (u64, Instant),
    ) -> Result<Self, Unmeasured> {
        let Known { model, speeds, speeds_file, groups } = known;
        let quiet = store.tier_latency();
        let (thresholds, quiet) = (thresholds(&quiet), quiet.slow_read);
        let mut options = Options { seed, thresholds, quiet, settle: SETTLE, ..Options::default() };
        steps.put_into(store, &mut options);
        let policy = kind.policy(&with_model(&options, &model, kind)?, &groups);
        let mut pacer = Loop::new(policy, JOURNAL_RECORDS);
        pacer.limit_journal_rows(JOURNAL_ROWS);
        let mut joint_pacer = Loop::new(kind.joint_policy(&settings.options(), &groups), JOURNAL_RECORDS);
        joint_pacer.limit_journal_rows(JOURNAL_ROWS);
        joint_pacer.limit_journal_apart(JOURNAL_CURVES, JointSignal::bytes_apart);
        let mut running = Running {
            kind,
            pacer,
            thing: Thing::new(BandwidthControl::new(Arc::clone(store)), machine_id(&machine_name())),
            joint_pacer,
            both: JointControl::new(Arc::clone(store), now),
            settings,
            speeds,
            groups,
            history: History::new(kind.family()),
            incidents: Incidents::default(),
            pace: Pace::default(),
        };
        running.divide(settings.part);
        running.look(kind);
        Ok(Self {
            claims: Mutex::default(),
            running: Mutex::new(running),
            slowdowns: Mutex::default(),
            lease_ends_ns: AtomicU64::new(u64::MAX),
            asked: AtomicBool::new(false),
            looks_at_ns: AtomicU64::new(0),
            options: Mutex::new(options),
            model,
            speeds_file: Mutex::new(speeds_file),
        })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // What a step that panicked leaves is a loop that can step again.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> Options {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn slowdowns(&self) -> MutexGuard<'_, Slowdowns> {
        self.slowdowns.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.ask();
    }

    /// Where tenants' speeds are read from.
    pub(crate) fn speeds_file(&self) -> Option<PathBuf> {
        self.speeds_file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says where tenants' speeds are read from the next time.
    pub(crate) fn set_speeds_file(&self, file: Option<PathBuf>) {
        *self.speeds_file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    /// What tenants claim, or how much there is, has changed: a policy over both decides at its loop's next turn.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Another policy decides from the next step on, by these `speeds` if it looks at any. Returns whether that is a change.
    ///
    /// # Errors
    /// If the policy needs to know more of the tier.
    pub(crate) fn switch(
        &self,
        kind: BandwidthKind,
        speeds: Speeds,
        now: Instant,
    ) -> Result<bool, Unmeasured> {
        let options = with_model(&self.options(), &self.model, kind)?;
        let mut running = self.running();
        if running.kind == kind && running.speeds == speeds {
            return Ok(false);
        }
        running.speeds = speeds;
        if running.kind.family() != kind.family() {
            running.change_family(kind.family(), now);
            self.lease_ends_ns.store(u64::MAX, Ordering::Relaxed);
        }
        running.kind = kind;
        running.incidents.now.clear();
        running.begin(&options);
        *self.slowdowns() = Slowdowns::default();
        running.look(kind);
        Ok(true)
    }

    /// Sets policies over both up otherwise from the next step on. One in charge begins again at its first epochs if its epoch
    /// is another.
    pub(crate) fn set_up(&self, settings: JointSettings) {
        let mut running = self.running();
        let before = std::mem::replace(&mut running.settings, settings);
        running.divide(settings.part);
        if before.epoch != settings.epoch && running.kind.family() == Family::Joint {
            running.begin(&self.options());
        }
        self.ask();
    }

    /// Policies go so far at once from the next step on; the one in charge, if that is one of them, begins again: whom it held back it
    /// lets go, and finds again.
    pub(crate) fn set_steps(&self, store: &Store, steps: Steps) {
        let mut running = self.running();
        steps.put_into(store, &mut self.options.lock().unwrap_or_else(PoisonError::into_inner));
        if !Steps::are_of(running.kind.name()) {
            return;
        }
        if let Ok(options) = with_model(&self.options(), &self.model, running.kind) {
            running.begin(&options);
            *self.slowdowns() = Slowdowns::default();
        }
    }

    /// Groups claim otherwise from the next step on, or are others: the policy in charge begins again, as after a switch.
    pub(crate) fn set_groups(&self, groups: GroupClaims) {
        let mut running = self.running();
        if running.groups == groups {
            return;
        }
        running.groups = groups;
        // Whoever is in charge had its model then.
        if let Ok(options) = with_model(&self.options(), &self.model, running.kind) {
            running.begin(&options);
            *self.slowdowns() = Slowdowns::default();
        }
    }

    /// Waits for the end of a step that is under way.
    pub(crate) fn let_step_end(&self) {
        drop(self.running());
    }

    /// One turn of the loop. Returns how long to wait for the next: as its policy wants, and so long that steps take no more of a
    /// core than they may, but for experiments, which end when they should.
    pub(crate) fn step(&self, shared: &Shared) -> Duration {
        self.look(shared);
        let mut running = self.running();
        // Under the lock, so that none begin to do so during a step.
        if shared.is_regrouping.load(Ordering::Acquire) {
            return PAUSE_MIN;
        }
        let now = shared.clock.now();
        let asked = self.asked.swap(false, Ordering::Relaxed);
        if let Some(early) = running.early(now).filter(|_| !asked) {
            return early;
        }
        let claims = self.claims();
        let Running { pacer, thing, joint_pacer, both, kind, speeds, .. } = &mut *running;
        let (wake, made) = match kind.family() {
            Family::Bandwidth => (
                pacer.step(now, &mut thing.around(shared, &claims)),
                Made::at(pacer.journal(), now, &mut self.slowdowns()),
            ),
            Family::Joint => {
                let mut around = joint::Around { control: both, shared, claims: &claims, speeds };
                (
                    joint_pacer.step(now, &mut around),
                    Made::at(joint_pacer.journal(), now, &mut self.slowdowns()),
                )
            }
        };
        let mut least = PAUSE_MIN;
        if let Some(made) = made {
            if made.steady {
                least = least.max(running.pace.rest(now, shared.clock.thread_cpu()));
            }
            running.incidents.take(made.incidents, made.steady);
            // A loop that rests is not one that has fallen silent.
            let lease = made.lease.max(Duration(2 * wake.max(least).0));
            self.lease_ends_ns.store((now + lease).0, Ordering::Relaxed);
        }
        wake.max(least)
    }

    /// The first decision kept whose number is at least `from`: its number, counted from the start, and its line of JSON.
    pub(crate) fn journal_line(&self, from: u64) -> Option<(u64, String)> {
        let running = self.running();
        let Running { pacer, joint_pacer, history, .. } = &*running;
        history.find(from, running.decisions_total(), |family, own| match family {
            Family::Bandwidth => line_of(pacer.journal(), own),
            Family::Joint => line_of(joint_pacer.journal(), own),
        })
    }

    /// How much slower a tenant is than alone, if the policy in charge knows.
    pub(crate) fn slowdown(&self, id: TenantId) -> Option<f64> {
        self.slowdowns().of(id)
    }

    /// How the loop stands.
    pub(crate) fn view(&self) -> SharingView {
        let running = self.running();
        SharingView {
            policy: running.kind.name(),
            decisions_total: running.decisions_total(),
            incidents_total: running.incidents.total,
            incident: running.incidents.now.last().map(|(_, what)| what.clone()),
            epoch: running.settings.epoch,
            part: running.settings.part,
        }
    }
}

/// What a step made of interest to whoever made it.
struct Made {
    lease: Duration,
    steady: bool,
    incidents: Vec<Incident>,
}

impl Made {
    /// The decision of `now`, if one was made; what it says of slowdowns goes there.
    fn at<S, A>(journal: &Journal<S, A>, now: Instant, slowdowns: &mut Slowdowns) -> Option<Self> {
        let record = journal.records().last().filter(|record| record.at == now)?;
        slowdowns.take(&record.notes);
        let incident = |note: &control::Note| match &note.reason {
            Reason::Incident(what) => Some((note.tenant, what.to_string())),
            _ => None,
        };
        let incidents = record.notes.iter().filter_map(incident).collect();
        Some(Self { lease: record.lease, steady: record.steady, incidents })
    }
}

impl Running {
    fn decisions_total(&self) -> u64 {
        self.pacer.journal().recorded_total() + self.joint_pacer.journal().recorded_total()
    }

    /// The policy in charge decides from the next step on in its first state.
    fn begin(&mut self, options: &Options) {
        // What the one before has used is not this one's to rest for.
        self.pace = Pace::default();
        let Self { kind, groups, settings, pacer, joint_pacer, .. } = self;
        match kind.family() {
            Family::Bandwidth => pacer.switch(kind.policy(options, groups)),
            Family::Joint => joint_pacer.switch(kind.joint_policy(&settings.options(), groups)),
        }
    }

    /// How long a policy is still to be left alone: its windows may be long, and it sees who came or went.
    fn early(&self, now: Instant) -> Option<Duration> {
        let (wake_at, others) = match self.kind.family() {
            Family::Joint => (self.joint_pacer.wake_at(), self.both.has_other_tenants()),
            Family::Bandwidth if self.pacer.wake_at().since(now) < EARLY_LEAST => return None,
            Family::Bandwidth => (self.pacer.wake_at(), self.thing.control.has_other_tenants()),
        };
        (now < wake_at && !others).then(|| wake_at.since(now))
    }

    /// The other loop is in charge from now on: what this one has put in force is given back, and nothing that was measured under it
    /// is the other's to see.
    fn change_family(&mut self, family: Family, now: Instant) {
        match family {
            Family::Bandwidth => {
                self.both.release(now);
                self.thing.begin(now);
                self.pacer.rest_until(now);
            }
            Family::Joint => {
                // Not everybody has a share of both.
                self.both.release(now);
                self.both.begin(now);
                self.joint_pacer.rest_until(now);
            }
        }
        let own = match family {
            Family::Bandwidth => self.pacer.journal().recorded_total(),
            Family::Joint => self.joint_pacer.journal().recorded_total(),
        };
        self.history.switch(family, self.decisions_total(), own);
    }

    /// Divides so much of the tier's time from the next step on.
    fn divide(&mut self, part: f64) {
        self.thing.control.set_part(part);
        self.both.set_part(part);
    }

    /// Measures what a policy looks at, and no more.
    fn look(&mut self, kind: BandwidthKind) {
        self.thing.watch_latencies(kind.needs_latencies());
        self.thing.control.watch_latency(kind.name() == "prevention+remedy");
    }
}

/// The options with the tier's table, if the policy `kind` needs that, or looks at it and there is one.
fn with_model(options: &Options, model: &TierModel, kind: BandwidthKind) -> Result<Options, Unmeasured> {
    let model = match kind.uses_model().then(|| model.for_policy(kind.name())).transpose() {
        Err(unmeasured) if kind.needs_model() => return Err(unmeasured),
        known => known.ok().flatten(),
    };
    Ok(Options { model, ..options.clone() })
}

/// The latencies that a tier without traffic shows, and what is above them by so much that a tenth of the throughput is lost.
fn thresholds(quiet: &Kinds<Option<Duration>>) -> Thresholds {
    let above = |quiet: Duration| Duration::from_nanos(quiet.0 + quiet.0 / LOST_ONE_IN);
    let by_kind = Kinds::from_fn(|kind| quiet.get(kind).map(above));
    Thresholds::new(by_kind).unwrap_or_default()
}

/// Throughput falls by a tenth where an access takes one ninth longer (MT² §3.2.2, `policy::bandwidth::LOST_PART`).
const LOST_ONE_IN: u64 = 9;
