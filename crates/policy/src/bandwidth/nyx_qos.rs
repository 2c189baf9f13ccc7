//! Keeps the goals of critical tenants by holding back whoever harms them most, found by experiment.
//!
//! Shape:      slack of each critical tenant -> the worst off -> an experiment among the heaviest -> one step for the culprit
//! Invariants: experiments are short decisions on top of the steady throttles and leave nothing behind; an exempt tenant is
//!             never held back; what an action costs another critical tenant its goal is undone
//! Units:      slack as a part of the goal, steps in bytes per second
//! Cost:       O(tenants log tenants) per decision, no allocation once the tenants are steady
//! Failure:    a goal that is predicted not to be kept is an incident and its tenant best-effort; a missing signal or a mixed window decides nothing: an experiment looks again, a few times
//! Source:     NyxCache §3.4, Algorithm 2, §3.6, §4.3. We add what the paper omits or leaves open: rollback (its omitted
//!             code), how an experiment ends (crate::estimate::interference), the tenant with most traffic as a candidate
//!             beside the three with most cost, because cost knows nothing of DRAM; goals of bandwidth, which give once they
//!             are kept for a while, and are given up where steps gain nothing.
//!
//! | Paper | here |
//! |---|---|
//! | slack | `slack` |
//! | S | `victim` |
//! | I | the culprit of a finding |
//! | `ExperimentStep` | `step` |
//! | BE, LC | [`Class::BestEffort`], [`Class::Critical`] |

mod member;

use super::mt2_model::EmpiricalModel;
use super::nyx_admission::Admission;
use super::nyx_lever::{in_reach, looser, tighter};
use super::nyx_slack::{asks_for_bandwidth, asks_for_latency, grain, is_idle, mean_slack, measurable, slack};
use super::regulator::Step;
use super::roster::{Roster, note};
use crate::estimate::interference::{Candidate, Finding, Interference, Turn};
use control::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use control::{Class, Decision, Law, Note, Policy, Reason, Row, Seen, Shares};
use member::{Member, SLACK};
use std::borrow::Cow;
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

/// The throughput that an experiment costs its candidate, and that a step takes or gives (NyxCache §3.6, §4.7).
pub const EXPERIMENT_STEP: BytesPerSec = BytesPerSec(500_000_000);
/// A tail needs so long to be seen (NyxCache §4.3).
const TAIL_WINDOW: Duration = Duration::from_millis(500);
/// How many of the heaviest are examined (NyxCache Algorithm 2).
const CANDIDATES: usize = 3;
/// A tenant for which so many steps in a row gained nothing asks for no more (guess), as long as it transfers about what it did.
const FUTILE_MOST: u32 = 3;
/// Operations that a tail should rest on; a window with fewer is followed by a longer one (guess).
const OPERATIONS_LEAST: u64 = 500;
/// The longest window, in tail windows (guess).
const STRETCH_MAX: u32 = 8;
/// Looks without a result after which an experiment is given up (guess).
const REPEATS_MAX: u32 = 8;
/// Windows without an operation after which a tenant has gone quiet: one may as well be stalled (guess, two seconds).
const IDLE_WINDOWS: u32 = 4;
/// Somebody whose throttle was rolled back is no candidate for so long (guess; shorter repeats the mistake too often).
const BARRED: Duration = Duration::from_secs(10);
/// The part of what it was meant to take that a trial must take (guess).
const ENOUGH: f64 = 0.8;
/// Most times that a trial is tightened: the steps of memory bandwidth allocation (MT² §4).
const ESCALATIONS_MAX: u32 = 8;
/// Steady throttles may stay without a loop: they protect somebody.
const LEASE: Duration = Duration::from_secs(3_600);
/// An experiment may outlive its window by this factor.
const TRIAL_LEASE: u64 = 4;

/// The policy `qos`.
#[derive(Debug)]
pub struct Qos {
    step: BytesPerSec,
    search: Search,
    admission: Admission,
    members: Roster<Member>,
    interference: Interference,
    repeats: u32,
    stretch: u32,
    action: Option<Action>,
    lease: Duration,
    candidates: Vec<Heavy>,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

/// How the culprit is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Search {
    Experiment,
    Biggest,
}

/// The newest throttle, until the next window shows what it did to others.
#[derive(Clone, Copy, Debug)]
struct Action {
    culprit: TenantId,
    victim: TenantId,
    before: Throttle,
    /// The victim's slack before.
    slack: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Heavy {
    at: usize,
    cost: Cost,
    bytes: Bytes,
}

type Input<'a> = Seen<'a, BandwidthSignal, Throttle>;

impl Qos {
    /// The policy with experiments of `step`; orders of experiments are drawn from `seed`.
    #[must_use]
    pub fn new(step: BytesPerSec, seed: u64) -> Self {
        Self {
            step: step.max(BytesPerSec(1)),
            search: Search::Experiment,
            admission: Admission::default(),
            members: Roster::default(),
            interference: Interference::new(seed),
            repeats: 0,
            stretch: 1,
            action: None,
            lease: LEASE,
            candidates: Vec::new(),
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// The same, which takes on only goals that can be kept: by what `model` says of traffic together, and by what a read of the tier takes
    /// when it is `quiet`.
    #[must_use]
    pub fn admitting(mut self, model: Option<EmpiricalModel>, quiet: Option<Duration>) -> Self {
        self.admission = Admission { model, quiet };
        self
    }

    /// The paper's comparison (§4.3, Nyx-Caladan): the same, but the culprit is whoever transfers most.
    #[must_use]
    pub fn holding_back_the_biggest(step: BytesPerSec) -> Self {
        Self { search: Search::Biggest, ..Self::new(step, 0) }
    }

    /// Takes goals on that can be kept, those that were before first, and reports the others. Returns whether any is new or gone that the
    /// experiment or the newest action is about.
    fn admit(&mut self, seen: &Input<'_>) -> bool {
        let (mut promised, mut concerned) = (Kinds::splat(0.0), false);
        let Self { members, admission, interference, candidates, action, .. } = self;
        let victim = interference.victim();
        let is_concerned = |at: usize, id: TenantId| {
            let is_candidate = victim.is_some() && candidates.iter().any(|heavy| heavy.at == at);
            let acts = action.is_some_and(|action| action.victim == id || action.culprit == id);
            victim == Some(id) || is_candidate || acts
        };
        for before in [true, false] {
            for (at, (row, (id, member))) in seen.tenants.iter().zip(members.iter_mut()).enumerate() {
                if member.taken != before {
                    continue;
                }
                let place = (seen.pool.model, OPERATIONS_LEAST);
                let (class, signal) = (&row.claim.class, row.signal.as_ref());
                // In the second round those that the first has dropped are asked again, in vain.
                admission.judge(class, signal, &mut promised, place, &mut member.standing);
                member.taken = member.standing.refused.is_none();
                concerned |= member.taken != before && is_concerned(at, id);
            }
        }
        for (row, (id, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            member.class = if member.taken { row.claim.class } else { Class::BestEffort };
            if let Some(refused) = member.standing.refused {
                self.notes.push(note(Some(id), Reason::Incident(Cow::Borrowed(refused.why())), 0));
            }
        }
        concerned
    }

    /// One steady window: slacks, what the newest action did, the next action.
    fn watch(&mut self, now: Instant, seen: &Input<'_>) {
        let spoiled = self.measure(seen);
        if let Some(action) = self.action.take()
            && (spoiled || self.is_futile(&action))
        {
            return self.roll_back(now, action);
        }
        let goals =
            || seen.tenants.iter().zip(self.members.iter()).filter(|(_, (_, m))| measurable(&m.class));
        let worst = goals().filter_map(|(row, (_, m))| m.slack.map(|slack| (row.id, slack)));
        match worst.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((victim, slack)) if slack < 0.0 => self.protect(now, seen, victim),
            _ if goals().all(|(_, (_, m))| m.can_give()) => self.relax_all(seen),
            _ => {}
        }
    }

    /// Takes every slack from the window and says whether the newest action broke the goal of a bystander.
    fn measure(&mut self, seen: &Input<'_>) -> bool {
        let victim = self.action.map(|action| action.victim);
        let mut spoiled = false;
        for (row, (id, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            let slack = slack(&member.class, row, seen.window).map(|slack| member.as_content(slack));
            member.idle = if is_idle(&member.class, row) { member.idle.saturating_add(1) } else { 0 };
            let broke = member.slack.is_some_and(|was| 0.0 <= was) && slack.is_some_and(|now| now < 0.0);
            spoiled |= broke && victim.is_some_and(|victim| victim != id);
            member.slack = slack.or((IDLE_WINDOWS <= member.idle).then_some(member.idle_slack()));
            member.note_kept();
        }
        spoiled
    }

    /// Whether the newest action, as some before it, gained nothing for one that is below its bandwidth: it asks for no more then.
    fn is_futile(&mut self, action: &Action) -> bool {
        let Some(at) = self.members.at(action.victim) else { return false };
        let member = &mut self.members[at];
        let (Some(before), Some(now)) = (action.slack, member.slack) else { return false };
        if !asks_for_bandwidth(&member.class) || member.held != Throttle::FREE {
            return false;
        }
        if member.note_step(before, now) < FUTILE_MOST {
            return false;
        }
        member.content = Some(now);
        member.slack = Some(1.0);
        let why = Cow::Borrowed("steps for it gain nothing: it is taken to ask for no more");
        self.notes.push(note(Some(action.victim), Reason::Fallback(why), 0));
        true
    }

    fn roll_back(&mut self, now: Instant, action: Action) {
        if let Some(at) = self.members.at(action.culprit) {
            self.members[at].held = action.before;
            self.members[at].barred_until = now + BARRED;
            self.notes.push(note(Some(action.culprit), Reason::Revoked, signed(self.step)));
        }
    }

    fn relax_all(&mut self, seen: &Input<'_>) {
        let mut anybody = false;
        for (row, (id, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            let traffic = row.signal.as_ref().map(|signal| (signal, seen.window));
            if let Some(next) = looser(&row.claim.levers, member.held, Step::By(self.step), traffic) {
                member.held = next;
                anybody = true;
                self.notes.push(note(Some(id), Reason::Relaxed, signed(self.step)));
            }
        }
        if anybody {
            self.members.iter_mut().for_each(|(_, member)| member.note_relaxed());
        }
    }

    /// The worst off is let go if it is held back itself; else the search for the culprit begins.
    fn protect(&mut self, now: Instant, seen: &Input<'_>, victim: TenantId) {
        let Some(at) = self.members.at(victim) else { return };
        let row = &seen.tenants[at];
        let traffic = row.signal.as_ref().map(|signal| (signal, seen.window));
        if let Some(next) = looser(&row.claim.levers, self.members[at].held, Step::By(self.step), traffic) {
            self.members[at].held = next;
            self.notes.push(note(Some(victim), Reason::Relaxed, signed(self.step)));
            return;
        }
        self.choose_candidates(now, seen, victim);
        match self.candidates.as_slice() {
            [] => {
                let why = Cow::Borrowed("a goal is missed and nobody is left to hold back");
                self.notes.push(note(Some(victim), Reason::Incident(why), 0));
            }
            [only] => {
                let culprit = seen.tenants[only.at].id;
                self.hold_back(victim, culprit);
            }
            several if self.search == Search::Biggest => {
                let biggest = several.iter().max_by_key(|heavy| (heavy.bytes, usize::MAX - heavy.at));
                if let Some(culprit) = biggest.map(|heavy| seen.tenants[heavy.at].id) {
                    self.hold_back(victim, culprit);
                }
            }
            several => {
                let usage = |heavy: &Heavy| heavy.cost.0 as f64;
                let candidates =
                    several.iter().map(|h| Candidate { id: seen.tenants[h.at].id, usage: usage(h) });
                self.interference.start(victim, self.step.0 as f64, candidates);
                self.repeats = 0;
            }
        }
    }

    /// The heaviest best-effort tenants that can be held back; without any, critical tenants with slack; if all have
    /// little, the one with most.
    fn choose_candidates(&mut self, now: Instant, seen: &Input<'_>, victim: TenantId) {
        self.collect(now, seen, |_, m| m.class == Class::BestEffort);
        if self.candidates.is_empty() {
            let ample = |m: &Member| m.content.is_none() && m.slack.is_some_and(|slack| SLACK < slack);
            self.collect(now, seen, |row, m| row.id != victim && critical(m) && ample(m));
        }
        if self.candidates.is_empty() {
            let some = |m: &Member| m.content.is_none() && m.slack.is_some_and(|slack| 0.0 < slack);
            self.collect(now, seen, |row, m| row.id != victim && critical(m) && some(m));
            let slack = |heavy: &Heavy| self.members[heavy.at].slack.unwrap_or(0.0);
            let most = self.candidates.iter().copied().max_by(|a, b| slack(a).total_cmp(&slack(b)));
            self.candidates.clear();
            self.candidates.extend(most);
        }
    }

    /// Who of `among` does something that a step can take, the heaviest by cost and the heaviest by bytes.
    fn collect(&mut self, now: Instant, seen: &Input<'_>, among: impl Fn(&Case, &Member) -> bool) {
        self.candidates.clear();
        for (at, (row, (_, member))) in seen.tenants.iter().zip(self.members.iter_mut()).enumerate() {
            let Some(signal) = row.signal.as_ref() else { continue };
            if now < member.barred_until || !among(row, member) {
                continue;
            }
            let held = tighter(&row.claim.levers, member.held, Step::By(self.step), (signal, seen.window));
            if let Some(trial) = held {
                member.trial = trial;
                member.rate = seen.window.per_sec(in_reach(&row.claim.levers, signal).0).unwrap_or(0.0);
                member.escalations = 0;
                self.candidates.push(Heavy { at, cost: signal.cost, bytes: signal.bytes_total() });
            }
        }
        // Equals in the order of tenants, so that replays agree.
        self.candidates
            .sort_unstable_by(|a, b| (b.cost, b.bytes).cmp(&(a.cost, a.bytes)).then(a.at.cmp(&b.at)));
        let biggest = (0..self.candidates.len()).max_by_key(|&i| (self.candidates[i].bytes, usize::MAX - i));
        if let Some(biggest) = biggest.filter(|&i| CANDIDATES < i + 1) {
            self.candidates.swap(CANDIDATES, biggest);
            self.candidates.truncate(CANDIDATES + 1);
        } else {
            self.candidates.truncate(CANDIDATES);
        }
    }

    fn hold_back(&mut self, victim: TenantId, culprit: TenantId) {
        let Some(at) = self.members.at(culprit) else { return };
        let slack = self.members.at(victim).and_then(|victim| self.members[victim].slack);
        let member = &mut self.members[at];
        self.action = Some(Action { culprit, victim, before: member.held, slack });
        member.held = member.trial;
        self.notes.push(note(Some(culprit), Reason::Tightened, -signed(self.step)));
    }

    /// One window of the experiment: what the victim felt.
    fn learn(&mut self, seen: &Input<'_>, victim: TenantId, usable: bool) {
        let at = self.members.at(victim);
        let class = at.map_or(Class::BestEffort, |at| self.members[at].class);
        let row = at.map(|at| &seen.tenants[at]);
        let felt = row.filter(|_| usable).and_then(|row| slack(&class, row, seen.window));
        let Some(felt) = felt else {
            self.repeats += 1;
            if REPEATS_MAX < self.repeats {
                self.interference.abandon();
                let why = Cow::Borrowed("the experiment could not be seen");
                self.notes.push(note(Some(victim), Reason::Fallback(why), 0));
            }
            return;
        };
        if self.escalate(seen) {
            return;
        }
        let traffic = |id| {
            let at = seen.tenants.binary_search_by_key(&id, |row| row.id).ok()?;
            let row = &seen.tenants[at];
            seen.window.per_sec(in_reach(&row.claim.levers, row.signal.as_ref()?).0)
        };
        let companion = row.and_then(mean_slack);
        if let Some(Finding { culprit, clear }) =
            self.interference.record((felt, grain(&class, felt)), companion, traffic)
        {
            if !clear {
                let why = Cow::Borrowed("no candidate stands out: the heaviest is held back");
                self.notes.push(note(Some(culprit), Reason::Fallback(why), 0));
            }
            self.hold_back(victim, culprit);
        }
    }

    /// A coarse lever may take next to nothing at its first step: then the candidate's trial is tightened and looked at
    /// again. Says whether it was.
    fn escalate(&mut self, seen: &Input<'_>) -> bool {
        let Some(Turn::Hold(id)) = self.interference.turn().filter(|_| self.interference.first_round())
        else {
            return false;
        };
        let Some(at) = self.members.at(id) else { return false };
        let (row, member) = (&seen.tenants[at], &mut self.members[at]);
        let Some(signal) = row.signal.as_ref() else { return false };
        let Some(rate) = seen.window.per_sec(in_reach(&row.claim.levers, signal).0) else { return false };
        let meant = (self.step.0 as f64).min(member.rate);
        if ENOUGH * meant <= member.rate - rate || ESCALATIONS_MAX <= member.escalations {
            return false;
        }
        let next = tighter(&row.claim.levers, member.trial, Step::By(self.step), (signal, seen.window));
        if let Some(next) = next {
            member.trial = next;
            member.escalations += 1;
        }
        next.is_some()
    }

    /// Longer windows while a tail that somebody is promised rests on too few operations.
    fn stretch(&mut self, seen: &Input<'_>) {
        let few = |(row, (_, member)): (&Case, (TenantId, &Member))| {
            asks_for_latency(&member.class)
                && row.signal.is_some_and(|s| 0 < s.operations && s.operations < OPERATIONS_LEAST)
        };
        self.stretch = if seen.tenants.iter().zip(self.members.iter()).any(few) {
            (self.stretch * 2).min(STRETCH_MAX)
        } else {
            1
        };
    }

    fn publish(&mut self, seen: &Input<'_>) -> Decision<'_, Throttle> {
        let turn = self.interference.turn();
        if let Some(turn) = turn {
            let tenant = match turn {
                Turn::Base => self.interference.victim(),
                Turn::Hold(id) => Some(id),
            };
            self.notes.push(note(tenant, Reason::Experiment, 0));
        }
        let rows = self.members.iter().map(|(id, member)| {
            let throttle = match member.class {
                Class::Exempt => Throttle::FREE,
                _ if turn == Some(Turn::Hold(id)) => member.trial,
                _ => member.held,
            };
            (id, throttle)
        });
        self.shares.rebuild(Law::Free, seen, rows);
        let wake = Duration(TAIL_WINDOW.0 * u64::from(self.stretch));
        self.lease = if turn.is_some() { Duration(wake.0 * TRIAL_LEASE) } else { LEASE };
        Decision { shares: &self.shares, wake, lease: self.lease, steady: turn.is_none(), notes: &self.notes }
    }
}

type Case = Row<BandwidthSignal, Throttle>;

fn critical(member: &Member) -> bool {
    matches!(member.class, Class::Critical { .. })
}

fn signed(step: BytesPerSec) -> i64 {
    i64::try_from(step.0).unwrap_or(i64::MAX)
}

impl Policy for Qos {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        if self.search == Search::Biggest { "qos-biggest" } else { "qos" }
    }

    fn decide(&mut self, now: Instant, seen: &Input<'_>) -> Decision<'_, Throttle> {
        self.notes.clear();
        let came_or_went = self.members.settle(seen.tenants, &mut self.notes, Member::of);
        if came_or_went {
            // Of each what became of its goal and of its throttle; anybody may become a candidate.
            self.notes.reserve(2 * seen.tenants.len());
            self.candidates.reserve(seen.tenants.len());
        }
        let changed = self.admit(seen) || came_or_went;
        if changed {
            self.interference.abandon();
            self.action = None;
        }
        let length = seen.window.length();
        let usable = !changed && !seen.window.mixed && Duration::ZERO < length && length <= self.lease;
        if usable {
            self.stretch(seen);
        }
        match self.interference.victim() {
            Some(victim) => self.learn(seen, victim, usable),
            None if usable => self.watch(now, seen),
            None => {}
        }
        self.publish(seen)
    }
}

#[cfg(test)]
mod tests;
