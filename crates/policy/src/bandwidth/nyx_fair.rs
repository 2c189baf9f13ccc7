//! Makes all tenants suffer alike: who is slowed down least is held back until those slowed down most catch up.
//!
//! Shape:      performance alone (by pauses) and shared -> slowdowns -> one step back for the most, or one for the least
//! Invariants: at most one tenant is held back further per period, except for a hard limit; an exempt tenant never is, and nobody is
//!             paused but for an experiment; who is hardly slowed down is never the reason to hold another back
//! Units:      slowdown as time shared ÷ time alone
//! Cost:       O(tenants) per decision, no allocation once the tenants are steady
//! Failure:    a tenant without a slowdown is left as it is, as one is that makes too few requests for it; a mixed window counts for
//!             nothing
//! Source:     NyxCache §3.4, Algorithm 3, with the slowdown of §3.3 (the algorithm's comment prints its reciprocal).
//!             Another is held back only once the worst off is free: doing both at once, as printed, two that are held
//!             can seesaw for ever. We choose what it leaves open: steps shrink with the unfairness, the threshold and
//!             FairIntervals; all are let go only while that keeps them fair, else only the worst off. Weighted form:
//!             slowdown × weight is made equal. Hard limit: [`Goal::Slowdown`]; while it is passed, everybody without
//!             such a goal is held back.
//!
//! | Paper | here |
//! |---|---|
//! | Talone | [`Alone`] |
//! | SlowDown | `slowdown` |
//! | L, S | the tenants with the largest and smallest slowdown × weight |
//! | unfairness | their ratio |
//! | P | [`REFRESH`] |
//! | FairIntervals | `fair_intervals` |

use super::nyx_lever::{in_reach, looser, taken_over, tighter};
use super::nyx_slowed::Told;
use super::regulator::Step;
use super::roster::{Roster, note};
use crate::estimate::pause::{PAUSE, Pause};
use crate::estimate::stand_alone::{Alone, Performance, Probe, REFRESH, StandAlone, Tally};
use control::bandwidth::{BandwidthSignal, Throttle};
use control::{Class, Decision, Goal, Law, Levers, Note, Policy, Reason, Row, Seen, Shares};
use std::borrow::Cow;
use units::{BytesPerSec, Duration, Instant, TenantId};

/// Slowdowns are compared and throttles adjusted once in so long (guess, 50 ms to 500 ms were considered).
const PERIOD: Duration = Duration::from_millis(100);
/// Unfairness that is fair enough (NyxCache Fig. 9 ends near 1.05; less here, for what tenants do alone is off by 2 to 3 %).
const UNFAIRNESS_THRESHOLD: f64 = 1.03;
/// Unfairness under which all are let go a step: that step must not pass the threshold (guess: half of the way to it).
const UNFAIRNESS_RELAX: f64 = 1.015;
/// So many fair periods before throttles are relaxed for utilisation (guess; the paper gives no number).
const FAIR_INTERVALS: u32 = 5;
/// The largest step, as a part of a tenant's traffic (guess: the regulator's own step).
const STEP_MOST: f64 = 0.1;
/// The step as a part of what would equalise the two: half of it, as both move (guess).
const STEP_GAIN: f64 = 0.5;
/// The step by which everybody is let go once all is fair: small enough to stay fair (guess).
const RELAX_STEP: f64 = 0.02;
/// Who is slowed down by less has nothing to gain from another's restraint (guess, the noise of a probe).
const SLOWED_LEAST: f64 = 1.02;
/// What is aimed at of a hard limit, of what it is beyond 1 (guess: what a tenant does alone drifts by more within a minute than its last
/// probes tell, and in two of nine runs of a day a limit of 1.5 was passed by 1 and 5 %).
const LIMIT_AIM: f64 = 0.91;
/// Under this part of the same the others are let go again (guess).
const LIMIT_BAND: f64 = 0.8;
/// A slowdown under this says that the performance alone may be out of date (guess). It counts: who writes with many threads is faster held
/// back than alone.
const STALE: f64 = 0.8;
/// Steady throttles may stay without a loop.
const LEASE: Duration = Duration::from_secs(3_600);

/// The policy `fair-slowdown`.
#[derive(Debug)]
pub struct FairSlowdown {
    members: Roster<Member>,
    probes: StandAlone,
    probing: Option<Probe>,
    pause: Pause,
    seen_for: Duration,
    fair_intervals: u32,
    /// Who is past its hard limit while nobody is left to hold back, as of the last adjustment.
    unkept: Option<TenantId>,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    held: Throttle,
    alone: Alone,
    tally: Tally,
    slowdown: Option<f64>,
    told: Told,
    exempt: bool,
    /// It did nothing for a whole period: there is nothing to see in a probe.
    idle: bool,
}

type Input<'a> = Seen<'a, BandwidthSignal, Throttle>;
type Case = Row<BandwidthSignal, Throttle>;

impl Member {
    fn of(row: &Case) -> Self {
        Self { held: taken_over(row), ..Self::default() }
    }

    /// Its slowdown, and what that may be off by.
    fn surely(&self) -> Option<f64> {
        Some(self.slowdown? * (1.0 + self.alone.standard_error()))
    }
}

impl FairSlowdown {
    /// The policy with such pauses; their moments are drawn from `seed`.
    #[must_use]
    pub fn new(pause: Pause, seed: u64) -> Self {
        Self {
            members: Roster::default(),
            probes: StandAlone::new(REFRESH, pause.most(), seed),
            probing: None,
            pause,
            seen_for: Duration::ZERO,
            fair_intervals: 0,
            unkept: None,
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// Takes what a probe showed of the one who was alone.
    fn learn(&mut self, seen: &Input<'_>, id: TenantId, usable: bool) {
        let is_seen = usable && self.pause.is_seen_in(seen.window.length());
        let Some(at) = self.members.at(id).filter(|_| is_seen) else { return };
        let signal = seen.tenants[at].signal.as_ref();
        let performance = signal.and_then(|signal| Performance::of(signal, seen.window));
        self.members[at].alone.learn(performance, seen.window.length());
    }

    /// Adds a steady window to everybody's tally.
    fn add(&mut self, seen: &Input<'_>) {
        self.seen_for = Duration(self.seen_for.0.saturating_add(seen.window.length().0));
        for (row, (_, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            if let Some(signal) = &row.signal {
                member.tally.add(signal, seen.window);
            }
        }
    }

    fn start_over(&mut self) {
        self.seen_for = Duration::ZERO;
        for (_, member) in self.members.iter_mut() {
            member.tally = Tally::default();
        }
    }

    /// Once per period: slowdowns, then either the hard limits, or one step towards fairness.
    fn adjust(&mut self, seen: &Input<'_>) {
        let mut stale = false;
        for (row, (_, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            let performance = member.tally.performance();
            member.idle = performance.is_some_and(|did| member.alone.is_idle(did));
            let shared = performance.filter(|_| row.claim.class != Class::Exempt && member.alone.is_sure());
            member.slowdown = shared.and_then(|shared| member.alone.slowdown(shared));
            if let Some(slowdown) = member.slowdown {
                stale |= slowdown < STALE;
                member.told.say(row.id, slowdown, &mut self.notes);
            }
        }
        if stale {
            self.probes.hurry();
        }
        self.unkept = None;
        match (self.past(seen, LIMIT_AIM), self.past(seen, LIMIT_BAND)) {
            (Some((_, over)), _) => self.hold_back_all(seen, 1.0 - 1.0 / over),
            (None, Some(_)) => {}
            (None, None) => self.equalise(seen),
        }
        self.start_over();
    }

    /// Who is past a part of what its hard limit allows beyond 1, and how many times: the worst. What is promised counts as kept where it is so by
    /// as much as the estimate may be off.
    fn past(&self, seen: &Input<'_>, part: f64) -> Option<(TenantId, f64)> {
        let members = seen.tenants.iter().zip(self.members.iter());
        let most = |row| Some(1.0 + (hard_limit(row)? - 1.0) * part);
        let over = members.filter_map(|(row, (id, m))| Some((id, m.surely()? / most(row)?)));
        over.filter(|(_, over)| 1.0 < *over).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Holds everybody back who may be, because somebody is past what is aimed at by `gap`.
    fn hold_back_all(&mut self, seen: &Input<'_>, gap: f64) {
        self.fair_intervals = 0;
        let mut nobody = true;
        for (at, row) in seen.tenants.iter().enumerate().filter(|(_, row)| adjustable(row)) {
            nobody &= !self.tighten(at, row, gap);
        }
        self.unkept = self.past(seen, 1.0).filter(|_| nobody).map(|(id, _)| id);
    }

    /// Says of a limit that cannot be kept that it cannot, in every decision until an adjustment finds otherwise.
    fn report_unkept(&mut self, seen: &Input<'_>) {
        let has_limit =
            |id: &TenantId| self.members.at(*id).is_some_and(|at| hard_limit(&seen.tenants[at]).is_some());
        self.unkept = self.unkept.filter(has_limit);
        if let Some(id) = self.unkept {
            let why = Cow::Borrowed("a slowdown is past its limit and nobody is left to hold back");
            self.notes.push(note(Some(id), Reason::Incident(why), 0));
        }
    }

    /// One step towards equal slowdown × weight, or towards utilisation once all is fair.
    fn equalise(&mut self, seen: &Input<'_>) {
        let members = || seen.tenants.iter().zip(self.members.iter()).enumerate();
        let known = || {
            members().filter(|(_, (row, _))| adjustable(row)).filter_map(|(at, (row, (_, m)))| {
                let slowdown = m.slowdown?;
                Some((at, slowdown, slowdown * row.claim.weight.get()))
            })
        };
        let slowed = known()
            .filter(|&(at, slowdown, _)| SLOWED_LEAST <= slowdown || self.members[at].held != Throttle::FREE);
        let most = slowed.max_by(|a, b| a.2.total_cmp(&b.2));
        let least = known().min_by(|a, b| a.2.total_cmp(&b.2));
        let mut unfairness = 1.0;
        if let (Some((most, _, high)), Some((least, _, low))) = (most, least) {
            unfairness = high / low;
            if UNFAIRNESS_THRESHOLD < unfairness {
                self.fair_intervals = 0;
                let gap = 1.0 - low / high;
                if !self.relax(most, &seen.tenants[most], gap * STEP_GAIN) {
                    self.tighten(least, &seen.tenants[least], gap);
                }
                return;
            }
        }
        self.fair_intervals += 1;
        if self.fair_intervals <= FAIR_INTERVALS {
            return;
        }
        if let Some((most, ..)) = most.filter(|_| UNFAIRNESS_RELAX <= unfairness) {
            // Nearly unfair: letting all go could pass the threshold, letting the worst off go cannot.
            self.relax(most, &seen.tenants[most], RELAX_STEP);
        } else {
            for (at, row) in seen.tenants.iter().enumerate() {
                self.relax(at, row, RELAX_STEP);
            }
        }
    }

    /// Holds a member back by a part of `gap`; false if no lever can.
    fn tighten(&mut self, at: usize, row: &Case, gap: f64) -> bool {
        let member = &mut self.members[at];
        let (signal, window) = member.tally.sum();
        let Some(step) = step_of(&row.claim.levers, &member.tally, (gap * STEP_GAIN).min(STEP_MOST)) else {
            return false;
        };
        // Nobody is paused for good: no slowdown is larger.
        let next = tighter(&row.claim.levers, member.held, Step::By(step), (signal, window));
        let Some(next) = next.filter(|next| !next.paused) else { return false };
        member.held = next;
        self.notes.push(note(Some(row.id), Reason::Tightened, -signed(step)));
        true
    }

    /// Lets a member go by a part of its traffic; false if nothing holds it.
    fn relax(&mut self, at: usize, row: &Case, part: f64) -> bool {
        let member = &mut self.members[at];
        let traffic = member.tally.sum();
        let step = step_of(&row.claim.levers, &member.tally, part.min(STEP_MOST));
        let by = step.map_or(Step::One, Step::By);
        let Some(next) = looser(&row.claim.levers, member.held, by, step.map(|_| traffic)) else {
            return false;
        };
        member.held = next;
        self.notes.push(note(Some(row.id), Reason::Relaxed, step.map_or(0, signed)));
        true
    }

    fn publish(&mut self, now: Instant, seen: &Input<'_>) -> Decision<'_, Throttle> {
        let able = self.members.iter().filter(|(_, member)| !member.exempt && !member.idle);
        if self.probing.is_none()
            && let Some(alone) = self.probes.next(now, able.map(|(id, member)| (id, member.alone.turn())))
        {
            self.probing = Some(Probe::new(alone, self.pause));
            self.notes.push(note(Some(alone), Reason::Experiment, 0));
        }
        let probing = self.probing.map(|probe| probe.alone);
        let rows = seen.tenants.iter().zip(self.members.iter()).map(|(row, (id, member))| {
            let throttle = match (row.claim.class, probing) {
                (Class::Exempt, _) => Throttle::FREE,
                (_, Some(alone)) if alone == id => Throttle::FREE,
                (_, Some(_)) => Throttle::PAUSED,
                (_, None) => member.held,
            };
            (id, throttle)
        });
        self.shares.rebuild(Law::Free, seen, rows);
        let wake = self.probing.map_or_else(|| self.until_next(now), |probe| probe.lasts(self.pause));
        Decision {
            shares: &self.shares,
            wake,
            lease: if probing.is_some() { self.pause.lease() } else { LEASE },
            steady: probing.is_none(),
            notes: &self.notes,
        }
    }

    /// To the end of the period or to the next probe, whichever is sooner.
    fn until_next(&self, now: Instant) -> Duration {
        let period = Duration(PERIOD.0.saturating_sub(self.seen_for.0));
        let probe = self.probes.due_at().since(now);
        let next = if probe == Duration::ZERO { period } else { period.min(probe) };
        next.max(PAUSE)
    }
}

/// Whether equal slowdown is sought for it: not for the exempt, and not for those with a limit of their own.
fn adjustable(row: &Case) -> bool {
    row.claim.class != Class::Exempt && hard_limit(row).is_none()
}

fn hard_limit(row: &Case) -> Option<f64> {
    match row.claim.class {
        Class::Critical { goal: Goal::Slowdown(limit) } => Some(limit.get()),
        _ => None,
    }
}

/// A part of what a tenant transfers where it can be held back; none if that is nothing.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a bandwidth")]
fn step_of(levers: &Levers, tally: &Tally, part: f64) -> Option<BytesPerSec> {
    let (signal, window) = tally.sum();
    let bytes = window.per_sec(in_reach(levers, signal).0)?;
    (0.0 < bytes).then(|| BytesPerSec((bytes * part).max(1.0) as u64))
}

fn signed(step: BytesPerSec) -> i64 {
    i64::try_from(step.0).unwrap_or(i64::MAX)
}

impl Policy for FairSlowdown {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "fair-slowdown"
    }

    fn decide(&mut self, now: Instant, seen: &Input<'_>) -> Decision<'_, Throttle> {
        self.notes.clear();
        let changed = self.members.settle(seen.tenants, &mut self.notes, Member::of);
        let usable = !changed && !seen.window.mixed && Duration::ZERO < seen.window.length();
        if changed {
            self.start_over();
        }
        for (row, (_, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            member.exempt = row.claim.class == Class::Exempt;
            if !adjustable(row) {
                // Nobody would let it go again.
                member.held = Throttle::FREE;
            }
        }
        match self.probing.take() {
            Some(probe) if probe.counts() => self.learn(seen, probe.alone, usable),
            Some(probe) => self.probing = probe.next(self.pause, seen.window.length()).filter(|_| usable),
            None if usable => self.add(seen),
            None => {}
        }
        if PERIOD <= self.seen_for {
            self.adjust(seen);
        }
        self.report_unkept(seen);
        self.publish(now, seen)
    }
}

#[cfg(test)]
mod tests;
