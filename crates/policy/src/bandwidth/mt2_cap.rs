//! Holds tenants under a cap per kind of traffic, with whatever levers they have.
//!
//! Shape:      caps, rates of the last window, throttles in force -> the next throttles
//! Invariants: what went over a cap is paid back; a cap never grows from being left unused; while an actuator is late, no
//!             more is asked of it
//! Units:      bytes per second; a debt is in bytes
//! Cost:       O(tenants) per decision, no allocation once the tenants are steady
//! Failure:    a missing signal leaves the throttle; a cap on sampled bytes is not held and noted; a lever that refuses for
//!             a second is left out and noted
//! Source:     MT² §3.3.2 (prevention), §4 (caps). A brake holds a cap inside its period by itself; MBA and CPU time are fed
//!             back. We choose: band ±3 % (left open by the paper), steps sized by the excess instead of fixed ones (a
//!             fixed factor of .9 needs two seconds from 10 to 1 GB/s, the paper's Fig. 8 shows less than one), and the
//!             paying back, without which a rate inside the band may lie above its cap for ever.

use super::mt2_held::{Heed, Held, holds_more};
use super::regulator::{self, Step};
use super::roster::{Roster, note};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Levers, Note, Reason, Row, Seen, Window};
use units::{BytesPerSec, TenantId};

/// A cap of every kind, where there is one.
pub(super) type Caps = Kinds<Option<BytesPerSec>>;

/// Rates inside cap ± 3 % change nothing (guess; 2 to 5 % behave alike).
const BAND: f64 = 0.03;
/// A debt is paid back over so many seconds: within the epoch of one second in which a limit has to hold.
const PAY_BACK_SECS: f64 = 1.0;
/// The debt that is kept at most, in seconds of the cap: whoever bursts pays half an epoch, not for ever.
const DEBT_SECS_MAX: f64 = 0.5;
/// A debt above so many seconds of the cap keeps a throttle from being relaxed: a tenth of the tolerance over ten epochs.
const DEBT_SECS_SMALL: f64 = 0.01;
/// A rate grows by at most this factor per period when a throttle is relaxed: from 1 to 3 GB/s in three periods.
const GROWTH_MAX: f64 = 1.5;
/// MBA is relaxed again after so many periods below the cap, twice as many after each time that it broke the cap.
const MBA_WAIT: u32 = 3;
/// Doublings of that wait at most: 19 s at 100 ms.
const STRIKES_MAX: u32 = 6;

/// Who is held under caps, and how.
#[derive(Debug, Default)]
pub(super) struct CapKeeper {
    roster: Roster<Kept>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    held: Held,
    caps: Caps,
    debt: Kinds<f64>,
    /// The cap is new or clearly lower: what the window holds was no excess over it.
    fresh: Kinds<bool>,
    /// Periods below every cap since the last step, and how often relaxing MBA broke a cap.
    below: u32,
    strikes: u32,
    /// MBA was relaxed in the last step.
    mba_up: bool,
}

/// How a kind of traffic stands to its cap.
#[derive(Clone, Copy, Debug)]
struct Standing {
    kind: Kind,
    rate: f64,
    aim: f64,
}

impl CapKeeper {
    /// Brings every tenant's throttle one step nearer to the `caps` of its row.
    pub(super) fn hold(
        &mut self,
        seen: &Seen<'_, BandwidthSignal, Throttle>,
        caps: impl Fn(usize, &Row<BandwidthSignal, Throttle>) -> Caps,
        notes: &mut Vec<Note>,
    ) {
        self.roster.settle(seen.tenants, notes, |_| Kept::default());
        for (at, row) in seen.tenants.iter().enumerate() {
            let exempt = matches!(row.claim.class, Class::Exempt);
            let caps = if exempt { Caps::default() } else { exact(row, caps(at, row), notes) };
            self.roster[at].hold(row, seen.window, caps, notes);
        }
    }

    /// The throttles that are asked, in the order of the rows.
    pub(super) fn asked(&self) -> impl Iterator<Item = (TenantId, Throttle)> {
        self.roster.iter().map(|(id, kept)| (id, kept.held.asked))
    }
}

/// The caps without those on kinds whose bytes are only sampled: they are too coarse to hold a cap against.
fn exact(row: &Row<BandwidthSignal, Throttle>, mut caps: Caps, notes: &mut Vec<Note>) -> Caps {
    let Some(signal) = &row.signal else { return caps };
    for kind in Kind::ALL {
        if *signal.sampled.get(kind) && caps.get_mut(kind).take().is_some() {
            let why = "bytes are only sampled: a cap cannot hold, only the class counts";
            notes.push(note(Some(row.id), Reason::Fallback(why.into()), 0));
        }
    }
    caps
}

impl Kept {
    fn hold(
        &mut self,
        row: &Row<BandwidthSignal, Throttle>,
        window: Window,
        caps: Caps,
        notes: &mut Vec<Note>,
    ) {
        self.take_over(caps);
        if caps == Caps::default() {
            if self.held.asked != Throttle::FREE {
                notes.push(note(Some(row.id), Reason::Relaxed, 0));
            }
            self.held = Held::default();
            return;
        }
        let heed = self.held.heed(row.in_force);
        let brake = row.claim.levers.brake;
        self.held.asked.cap = Kinds::from_fn(|kind| caps.get(kind).filter(|_| *brake.get(kind)));
        let Some(signal) = &row.signal else {
            notes.push(note(Some(row.id), Reason::Fallback("not measured: the throttle stays".into()), 0));
            return;
        };
        if self.held.gave_up_now() {
            notes.push(note(Some(row.id), Reason::Incident("an actuator refuses".into()), 0));
        }
        // A brake that takes caps needs no feedback.
        let fed = |kind: Kind| !*brake.get(kind) || heed == Heed::Refused;
        let worst = self.account(signal, window, fed);
        if heed != Heed::NotYet
            && let Some(worst) = worst
        {
            self.step(row, signal, window, heed, worst, notes);
        }
    }

    /// Takes over the caps. One that moves inside the band is the same cap.
    fn take_over(&mut self, caps: Caps) {
        for kind in Kind::ALL {
            let (old, new) = (*self.caps.get(kind), *caps.get(kind));
            let rate = |cap: Option<BytesPerSec>| cap.map_or(f64::INFINITY, |cap| cap.0 as f64);
            let (old, new) = (rate(old), rate(new));
            if new < old * (1.0 - BAND) {
                *self.fresh.get_mut(kind) = true;
            }
            if new < old * (1.0 - BAND) || old * (1.0 + BAND) < new {
                *self.debt.get_mut(kind) = 0.0;
                (self.strikes, self.mba_up) = (0, false);
            }
        }
        self.caps = caps;
    }

    /// Takes note of what each fed-back kind did over or under its cap and returns the kind that stands worst; none if
    /// nothing is fed back or no time has passed.
    fn account(
        &mut self,
        signal: &BandwidthSignal,
        window: Window,
        fed: impl Fn(Kind) -> bool,
    ) -> Option<Standing> {
        let secs = window.length().as_secs_f64();
        let mut worst: Option<Standing> = None;
        for kind in Kind::ALL.into_iter().filter(|&kind| fed(kind)) {
            let Some(cap) = self.caps.get(kind).map(|cap| cap.0 as f64) else { continue };
            let rate = window.per_sec(signal.bytes.get(kind).0)?;
            let debt = self.debt.get_mut(kind);
            if !std::mem::take(self.fresh.get_mut(kind)) {
                *debt = (*debt + (rate - cap) * secs).clamp(0.0, cap * DEBT_SECS_MAX);
            }
            let standing = Standing { kind, rate, aim: cap - *debt / PAY_BACK_SECS };
            if worst.is_none_or(|worst| worst.ratio() < standing.ratio()) {
                worst = Some(standing);
            }
        }
        worst
    }

    fn step(
        &mut self,
        row: &Row<BandwidthSignal, Throttle>,
        signal: &BandwidthSignal,
        window: Window,
        heed: Heed,
        worst: Standing,
        notes: &mut Vec<Note>,
    ) {
        let levers = self.held.levers(&row.claim.levers, row.in_force, heed);
        let traffic = Some((signal, window));
        if 1.0 + BAND < worst.ratio() {
            self.tighten(row, &levers, worst, traffic, notes);
        } else if worst.ratio() < 1.0 - BAND && self.owes_little() && self.held.is_stepped() {
            self.below = self.below.saturating_add(1);
            let others = row.in_force.is_some_and(|now| holds_more(now, self.held.asked));
            if !others {
                self.relax(row.id, &levers, worst, traffic, notes);
            }
        } else {
            self.below = 0;
        }
    }

    fn tighten(
        &mut self,
        row: &Row<BandwidthSignal, Throttle>,
        levers: &Levers,
        worst: Standing,
        traffic: Option<(&BandwidthSignal, Window)>,
        notes: &mut Vec<Note>,
    ) {
        let excess = bytes_per_sec(worst.rate - worst.aim);
        let base = self.held.base(row.in_force);
        let by = |levers: &Levers| regulator::tighten(levers, base, worst.kind, Step::By(excess), traffic);
        // A level of MBA that is too loose while the next one is too tight is trimmed with CPU time.
        let trimmed = if self.mba_up { by(&Levers { mba: None, ..*levers }) } else { None };
        if self.mba_up {
            self.strikes = (self.strikes + 1).min(STRIKES_MAX);
        }
        (self.below, self.mba_up) = (0, false);
        match trimmed.or_else(|| by(levers)) {
            Some(next) => {
                self.held.asked = next.tighter(Throttle { cap: self.held.asked.cap, ..Throttle::FREE });
                notes.push(note(Some(row.id), Reason::Tightened, -signed(excess)));
            }
            None => {
                let why = "no lever left that holds the cap";
                notes.push(note(Some(row.id), Reason::Incident(why.into()), signed(excess)));
            }
        }
    }

    /// Lets the tenant go one step towards its caps. CPU time follows at once; MBA, whose steps are coarse, waits.
    fn relax(
        &mut self,
        id: TenantId,
        levers: &Levers,
        worst: Standing,
        traffic: Option<(&BandwidthSignal, Window)>,
        notes: &mut Vec<Note>,
    ) {
        let asked = self.held.asked;
        let waits = asked.cpu.is_none() && asked.mba < 100 && self.below < MBA_WAIT << self.strikes;
        if waits {
            return;
        }
        // A third of the band below the aim: the next rate is off by what contention changes.
        let to = (worst.aim * (1.0 - BAND / 3.0)).min(worst.rate * GROWTH_MAX);
        let step = Step::By(bytes_per_sec(to - worst.rate));
        let kinds = std::iter::once(worst.kind).chain(Kind::ALL);
        let next = kinds.into_iter().find_map(|kind| regulator::relax(levers, asked, kind, step, traffic));
        // Nothing to relax although something is asked: the lever is gone.
        let next = next.unwrap_or(Throttle { cap: asked.cap, ..Throttle::FREE });
        self.mba_up = asked.mba < next.mba;
        self.below = 0;
        self.held.asked = next;
        notes.push(note(Some(id), Reason::Relaxed, signed(bytes_per_sec(to - worst.rate))));
    }

    fn owes_little(&self) -> bool {
        Kind::ALL.into_iter().all(|kind| {
            let cap = self.caps.get(kind).map_or(0.0, |cap| cap.0 as f64);
            *self.debt.get(kind) <= cap * DEBT_SECS_SMALL
        })
    }
}

impl Standing {
    /// The rate relative to what it shall be; above everything where nothing shall be.
    fn ratio(&self) -> f64 {
        match (0.0 < self.aim, 0.0 < self.rate) {
            (true, _) => self.rate / self.aim,
            (false, true) => f64::INFINITY,
            (false, false) => 1.0,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion to an integer saturates; below zero it is zero"
)]
pub(super) fn bytes_per_sec(rate: f64) -> BytesPerSec {
    BytesPerSec(rate as u64)
}

pub(super) fn signed(rate: BytesPerSec) -> i64 {
    i64::try_from(rate.0).unwrap_or(i64::MAX)
}
