//! Bandwidth reserved for critical tenants in steps as they come to need it; the others have what is left.
//!
//! Shape:      traffic of the critical tenants -> a reservation per kind -> caps of the best-effort tenants -> levers
//! Invariants: the reservation of a kind is at least one step, never below what critical tenants use of it as far as there is so
//!             much, and not a step above that; critical tenants are never capped
//! Units:      bytes per second
//! Cost:       O(tenants) per decision, a few look-ups of the model
//! Failure:    a reservation that is not kept although nobody else has more than a trickle is an incident; where writes are only sampled caps cannot hold: then classes alone count and `remedy` takes over (§5.2,
//!             untrusted environment), which is noted
//! Source:     MT² §5.2, §6.1.3
//!
//! | Paper | here |
//! |---|---|
//! | foreground, latency-critical tasks | critical tenants, whatever their goal |
//! | background, best-effort tasks | best-effort tenants |
//! | reserved bandwidth, 1 GB/s at first and per step | `reservation`, `step` |
//! | exceeds 90 % of the reservation | `FULL_PART` |
//!
//! We differ: the reservation shrinks after three periods in which a smaller one would do (the paper shows that it
//! shrinks, not when). The caps are the model's room beside the first reservation, less what the reservation has grown, or
//! its room beside the reservation as it is if that is more; they are lowered together where the model says that the
//! reservation would not be kept, to a trickle at least, so that nobody is locked out. Best-effort tenants divide a cap by what
//! they use, so that it is not lost on those who do not. A step is a tenth of what a small medium bears, if that is less than
//! 1 GB/s; what the model does not know is neither reserved nor capped.

use super::mt2_cap::{CapKeeper, Caps, bytes_per_sec, signed};
use super::mt2_guarantee::{KEPT_PART, TRICKLE, is_of_this_machine};
use super::mt2_interference::Thresholds;
use super::mt2_model::EmpiricalModel;
use super::mt2_throttle::{LEASE, PERIOD, Remedy};
use super::roster::{Roster, note};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Decision, Law, Note, Policy, Reason, Row, Seen, Shares, Window};
use units::Instant;

/// First reservation of each kind and the step in which it grows, in bytes per second, at most (MT² §6.1.3).
const STEP: f64 = 1e9;
/// The same as a part of the most of a kind (our choice: MT²'s writes of the slow tier reach 10 GB/s).
const STEP_PART: f64 = 0.1;
/// A reservation is too small when more than this part of it is used (MT² §6.1.3).
const FULL_PART: f64 = 0.9;
/// Periods in which a smaller reservation would do before it shrinks (guess; as long as remedy waits).
const SHRINK_AFTER: u32 = 3;
/// What a best-effort tenant is thought to want, relative to what it has: it may grow by so much per period.
const GROWTH: f64 = 1.25;
/// Part of a cap that every best-effort tenant can count on by its weight, however little it uses (guess).
const EVEN_PART: f64 = 0.1;

type Signals = BandwidthSignal;

/// The policy `slo`.
#[derive(Debug)]
pub struct Slo {
    model: EmpiricalModel,
    reservations: Kinds<Reservation>,
    keeper: CapKeeper,
    roster: Roster<Background>,
    untrusted: Remedy,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
    unread: Vec<Note>,
}

/// What is reserved of one kind, in what steps, and for how long less would have done.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    step: f64,
    /// The first that is above all there is.
    most: f64,
    rate: f64,
    ample: u32,
}

/// What is remembered of a best-effort tenant: what it used when last measured, and its caps.
#[derive(Clone, Copy, Debug, Default)]
struct Background {
    used: Kinds<f64>,
    caps: Caps,
}

impl Slo {
    /// The policy that finds room by `model` and, where caps cannot hold, takes a latency above `thresholds` for
    /// interference.
    #[must_use]
    pub fn new(model: EmpiricalModel, thresholds: Thresholds) -> Self {
        let most = model.most();
        let first = |kind| {
            // Whole bytes, so that steps up and down meet.
            let step = STEP.min((STEP_PART * most.get(kind)).ceil());
            let above = if 0.0 < step { (most.get(kind) / step).floor() * step + step } else { 0.0 };
            Reservation { step, most: above, rate: step, ample: 0 }
        };
        Self {
            model,
            reservations: Kinds::from_fn(first),
            keeper: CapKeeper::default(),
            roster: Roster::default(),
            untrusted: Remedy::new(thresholds),
            shares: Shares::default(),
            notes: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// What is reserved of each kind, in bytes per second.
    #[must_use]
    pub fn reservation(&self) -> Kinds<f64> {
        Kinds::from_fn(|kind| self.reservations.get(kind).rate)
    }

    /// Lets each reservation follow what critical tenants use.
    fn follow(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        for kind in Kind::ALL.into_iter().filter(|&kind| self.model.knows(kind)) {
            let critical = seen.tenants.iter().filter(|row| is_critical(row));
            let Some(used) = critical.map(|row| rate(row, seen.window, kind)).sum::<Option<f64>>() else {
                continue;
            };
            let reservation = self.reservations.get_mut(kind);
            let before = reservation.rate;
            reservation.follow(used);
            let grown = bytes_per_sec((reservation.rate - before).abs());
            if before < reservation.rate {
                self.notes.push(note(None, Reason::Tightened, -signed(grown)));
            } else if reservation.rate < before {
                self.notes.push(note(None, Reason::Relaxed, signed(grown)));
            }
        }
    }

    /// The caps of all best-effort tenants together.
    fn left(&mut self, seen: &Seen<'_, Signals, Throttle>) -> Kinds<f64> {
        let most = self.model.most();
        let first = Kinds::from_fn(|kind| self.reservations.get(kind).step);
        let rest = Kinds::from_fn(|kind| (most.get(kind) - first.get(kind)).max(0.0));
        let part = self.model.room(first, rest, KEPT_PART).unwrap_or(0.0);
        let reservation = self.reservation();
        let now = Kinds::from_fn(|kind| (most.get(kind) - reservation.get(kind)).max(0.0));
        let part_now = self.model.room(reservation, now, KEPT_PART).unwrap_or(0.0);
        let left = Kinds::from_fn(|kind| {
            let less = part * rest.get(kind) + first.get(kind) - reservation.get(kind);
            less.max(part_now * now.get(kind))
        });
        let kept = self.model.room(reservation, left, KEPT_PART);
        if kept.is_none() && seen.tenants.iter().any(is_critical) {
            let used: f64 = reservation.iter().map(|(_, rate)| *rate).sum();
            let why = "critical tenants want more than is kept of it, even alone";
            self.notes.push(note(None, Reason::Incident(why.into()), signed(bytes_per_sec(used))));
        }
        Kinds::from_fn(|kind| (kept.unwrap_or(0.0) * left.get(kind)).max(TRICKLE * most.get(kind)))
    }

    /// Divides what is left among the best-effort tenants.
    fn divide(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        let left = self.left(seen);
        let background = |row: &&Row<_, _>| row.claim.class.is_best_effort();
        let weights: f64 = seen.tenants.iter().filter(background).map(|row| row.claim.weight.get()).sum();
        let mut wanted = Kinds::splat(0.0);
        for (_, tenant) in self.roster.iter() {
            wanted = Kinds::from_fn(|kind| wanted.get(kind) + tenant.used.get(kind) * GROWTH);
        }
        for (at, row) in seen.tenants.iter().enumerate() {
            let tenant = &mut self.roster[at];
            if !background(&row) {
                *tenant = Background::default();
                continue;
            }
            let even = row.claim.weight.get() / weights;
            let cap = |kind: Kind| {
                // Enough for all: what is spare goes by weight. Too little: by use, with a part by weight.
                let (all, want, wanted) =
                    (*left.get(kind), tenant.used.get(kind) * GROWTH, *wanted.get(kind));
                if wanted < all {
                    want + (all - wanted) * even
                } else {
                    all * (EVEN_PART * even + (1.0 - EVEN_PART) * want / wanted.max(1.0))
                }
            };
            tenant.caps = Kinds::from_fn(|kind| self.model.knows(kind).then(|| bytes_per_sec(cap(kind))));
        }
    }

    /// Takes note of what the best-effort tenants use, where it is measured.
    fn observe(&mut self, seen: &Seen<'_, Signals, Throttle>) {
        self.unread.clear();
        self.roster.settle(seen.tenants, &mut self.unread, |_| Background::default());
        for (at, row) in seen.tenants.iter().enumerate() {
            if row.claim.class.is_best_effort() {
                for kind in Kind::ALL {
                    if let Some(rate) = rate(row, seen.window, kind) {
                        *self.roster[at].used.get_mut(kind) = rate;
                    }
                }
            }
        }
    }
}

impl Reservation {
    /// Grows in steps until `used` is below 90 % of it; shrinks a step once a smaller one would do for long enough.
    fn follow(&mut self, used: f64) {
        let step = self.step;
        let needed = ((used / (FULL_PART * step)).floor() * step + step).min(self.most);
        if self.rate < needed {
            *self = Self { rate: needed, ample: 0, ..*self };
        } else if needed < self.rate {
            self.ample += 1;
            if SHRINK_AFTER <= self.ample {
                *self = Self { rate: self.rate - step, ample: 0, ..*self };
            }
        } else {
            self.ample = 0;
        }
    }
}

impl Policy for Slo {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "slo"
    }

    fn decide(&mut self, now: Instant, seen: &Seen<'_, Signals, Throttle>) -> Decision<'_, Throttle> {
        self.notes.clear();
        if seen.tenants.iter().any(is_sampled) {
            let why = "bytes are only sampled: only classes count";
            self.notes.push(note(None, Reason::Fallback(why.into()), 0));
            let decision = self.untrusted.decide(now, seen);
            self.notes.extend_from_slice(decision.notes);
            return Decision { notes: &self.notes, ..decision };
        }
        let usable = is_of_this_machine(&self.model, seen.pool.model, &mut self.notes);
        self.observe(seen);
        self.follow(seen);
        self.divide(seen);
        let roster = &self.roster;
        let caps = |at: usize, _: &Row<_, _>| if usable { roster[at].caps } else { Caps::default() };
        self.keeper.hold(seen, caps, &mut self.notes);
        self.shares.rebuild(Law::Free, seen, self.keeper.asked());
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &self.notes }
    }
}

fn is_critical(row: &Row<Signals, Throttle>) -> bool {
    matches!(row.claim.class, Class::Critical { .. })
}

/// Whether some kind of a best-effort tenant's traffic is too coarsely known to hold a cap.
fn is_sampled(row: &Row<Signals, Throttle>) -> bool {
    let sampled = |signal: &Signals| signal.sampled.iter().any(|(_, sampled)| *sampled);
    row.claim.class.is_best_effort() && row.signal.as_ref().is_some_and(sampled)
}

/// A tenant's rate of a kind; none if it was not measured or no time has passed.
fn rate(row: &Row<Signals, Throttle>, window: Window, kind: Kind) -> Option<f64> {
    window.per_sec(row.signal.as_ref()?.bytes.get(kind).0)
}
