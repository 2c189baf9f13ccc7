//! What MT² and NyxCache are compared with: limits and controllers that know nothing of kinds or costs.
//!
//! Shape:      traffic in bytes of all kinds -> throttles
//! Cost:       O(tenants) per decision, no allocation once the tenants are steady
//! Source:     NyxCache §2 (a limit in bytes per second), Caladan's bandwidth controller as a state machine (relax,
//!             sample, punish), MT² §6.3 (one lever alone: [`Means`])
//! Non-goals:  Caladan's pace of 10 µs: a decision here sees one window

use super::mt2_cap::{CapKeeper, Caps, signed};
use super::mt2_held::{Heed, Held};
use super::mt2_interference::Thresholds;
use super::mt2_throttle::{LEASE, Means, PERIOD, Remedy};
use super::nyx_lever::{acts, in_reach};
use super::regulator::{self, Step};
use super::roster::{Roster, note};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Decision, Law, Note, Policy, Reason, Row, Seen, Shares, Window};
use units::{Bytes, BytesPerSec, Instant, TenantId};

/// A core in thousandths.
const CORE: u32 = 1_000;
/// Caladan's limit in bytes per second for one socket (25 GB/s, its default).
pub const CALADAN_LIMIT: BytesPerSec = BytesPerSec(25_000_000_000);

type Signals = BandwidthSignal;

/// `mba-only`: remedy with memory bandwidth allocation alone.
#[must_use]
pub fn mba_only(thresholds: Thresholds) -> Remedy {
    Remedy::with_means(thresholds, Means::MbaOnly)
}

/// `cpu-only`: remedy with CPU time alone.
#[must_use]
pub fn cpu_only(thresholds: Thresholds) -> Remedy {
    Remedy::with_means(thresholds, Means::CpuOnly)
}

/// The policy `bandwidth-limit`: a tenant's ceiling in bytes per second, whatever the kind. Where a tenant has a brake
/// only braked kinds count, else all do.
#[derive(Debug, Default)]
pub struct BandwidthLimit {
    keeper: CapKeeper,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

impl Policy for BandwidthLimit {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "bandwidth-limit"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, Signals, Throttle>) -> Decision<'_, Throttle> {
        self.notes.clear();
        self.keeper.hold(seen, |_, row| parts_of_ceiling(row), &mut self.notes);
        self.shares.rebuild(Law::Free, seen, self.keeper.asked());
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}

/// The ceiling, divided over the kinds as the last window used them; a kind that was not used is given a tenth, so that
/// it can begin.
fn parts_of_ceiling(row: &Row<Signals, Throttle>) -> Caps {
    let Some(ceiling) = row.claim.ceiling.map(|ceiling| ceiling.bandwidth) else { return Caps::default() };
    if ceiling == BytesPerSec(0) {
        return Caps::default();
    }
    let brake = row.claim.levers.brake;
    let braked = brake.iter().any(|(_, acts)| *acts);
    let counts = |kind: Kind| !braked || *brake.get(kind);
    let used = Kinds::from_fn(|kind| {
        let bytes = row.signal.map_or(Bytes::ZERO, |signal| *signal.bytes.get(kind));
        if counts(kind) { bytes } else { Bytes::ZERO }
    });
    let all: u64 = used.iter().map(|(_, bytes)| bytes.0).sum();
    let part = |kind: Kind| match all {
        0 => ceiling,
        all => BytesPerSec(Bytes(ceiling.0).scale(used.get(kind).0, all).0.max(ceiling.0 / 10)),
    };
    Kinds::from_fn(|kind| counts(kind).then(|| part(kind)))
}

/// The policy `throttle-biggest`: when all traffic together passes a limit, the best-effort tenant with the most bytes
/// loses a core; below it one core is given back.
#[derive(Debug)]
pub struct ThrottleBiggest {
    limit: BytesPerSec,
    state: State,
    roster: Roster<Punished>,
    steps: u64,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Below the limit: a core is given back per period.
    Relax,
    /// Above it: one window is watched to find the biggest.
    Sample,
}

#[derive(Clone, Copy, Debug, Default)]
struct Punished {
    held: Held,
    last_step: u64,
}

impl ThrottleBiggest {
    /// The policy that keeps all traffic below `limit`.
    #[must_use]
    pub fn new(limit: BytesPerSec) -> Self {
        Self {
            limit,
            state: State::Relax,
            roster: Roster::default(),
            steps: 0,
            shares: Shares::default(),
            notes: Vec::new(),
        }
    }

    /// Takes a core from the biggest best-effort tenant that has one left.
    fn punish(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        let mut biggest: Option<(usize, Bytes, Throttle)> = None;
        for (at, row) in seen.tenants.iter().enumerate() {
            let Some(signal) = row.signal.filter(|_| row.claim.class.is_best_effort()) else { continue };
            let bytes = in_reach(&row.claim.levers, &signal);
            if biggest.is_some_and(|(_, most, _)| bytes <= most) || bytes == Bytes::ZERO {
                continue;
            }
            if let Some(next) = self.core_less(at, row, seen.window) {
                biggest = Some((at, bytes, next));
            }
        }
        let Some((at, bytes, next)) = biggest else { return };
        self.steps += 1;
        let tenant = &mut self.roster[at];
        tenant.held.asked = next;
        tenant.last_step = self.steps;
        // A note counts in bytes per second, whatever the window; it only comes here where time has passed.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, rounded down")]
        let rate = BytesPerSec(seen.window.per_sec(bytes.0).unwrap_or(0.0) as u64);
        self.notes.push(note(Some(seen.tenants[at].id), Reason::Tightened, -signed(rate)));
    }

    fn core_less(&self, at: usize, row: &Row<Signals, Throttle>, window: Window) -> Option<Throttle> {
        let base = self.roster[at].held.base(row.in_force);
        let Some(quota) = row.claim.levers.cpu else {
            // Without CPU time as a lever: a step of whatever acts on its largest kind.
            let signal = row.signal.as_ref()?;
            let kinds = Kind::ALL.into_iter().filter(|kind| acts(&row.claim.levers, *kind));
            let largest = kinds.max_by_key(|kind| *signal.bytes.get(*kind))?;
            return regulator::tighten(&row.claim.levers, base, largest, Step::One, Some((signal, window)));
        };
        let from = base.cpu.unwrap_or(quota.most);
        let to = from.saturating_sub(CORE).max(quota.least);
        (to < from).then_some(Throttle { cpu: Some(to), ..base })
    }

    /// Gives a core back to whoever was punished last.
    fn relax(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        let held = self.roster.iter().enumerate().filter(|(_, (_, tenant))| tenant.held.is_stepped());
        let last: Option<(usize, (TenantId, &Punished))> =
            held.max_by_key(|(_, (_, tenant))| tenant.last_step);
        let Some((at, (id, tenant))) = last else { return };
        let levers = seen.tenants[at].claim.levers;
        let asked = tenant.held.asked;
        let next = match (levers.cpu, asked.cpu) {
            (Some(quota), Some(cpu)) => {
                let cpu = Some(cpu.saturating_add(CORE)).filter(|cpu| *cpu < quota.most);
                Throttle { cpu, ..asked }
            }
            _ => Kind::ALL
                .into_iter()
                .find_map(|kind| regulator::relax(&levers, asked, kind, Step::One, None))
                .unwrap_or(Throttle::FREE),
        };
        self.roster[at].held.asked = next;
        self.notes.push(note(Some(id), Reason::Relaxed, 0));
    }
}

impl Default for ThrottleBiggest {
    fn default() -> Self {
        Self::new(CALADAN_LIMIT)
    }
}

impl Policy for ThrottleBiggest {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "throttle-biggest"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, Signals, Throttle>) -> Decision<'_, Throttle> {
        self.notes.clear();
        self.roster.settle(seen.tenants, &mut self.notes, |_| Punished::default());
        let mut late = false;
        for (at, row) in seen.tenants.iter().enumerate() {
            late |= self.roster[at].held.heed(row.in_force) == Heed::NotYet;
            if !row.claim.class.is_best_effort() {
                self.roster[at] = Punished::default();
            }
        }
        let bytes = |row: &Row<Signals, Throttle>| Some(in_reach(&row.claim.levers, row.signal.as_ref()?));
        let bytes: Bytes = seen.tenants.iter().filter_map(bytes).sum();
        if let Some(rate) = seen.window.per_sec(bytes.0).filter(|_| !late) {
            let above = (self.limit.0 as f64) < rate;
            self.state = match (self.state, above) {
                (State::Relax, true) => State::Sample,
                (State::Sample, true) => {
                    self.punish(seen);
                    State::Sample
                }
                (_, false) => {
                    self.relax(seen);
                    State::Relax
                }
            };
        }
        self.shares.rebuild(Law::Free, seen, self.roster.iter().map(|(id, t)| (id, t.held.asked)));
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}
