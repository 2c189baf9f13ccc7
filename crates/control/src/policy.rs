//! A policy: a pure state machine from what was seen to what shall be.
//!
//! Invariants: `decide` cannot fail, reads no clock and draws only from a generator that the policy owns

use crate::bandwidth::Kinds;
use crate::claim::{Amount, Claim};
use crate::shares::Shares;
use std::borrow::Cow;
use std::fmt;
use units::{Duration, Instant, TenantId};

/// Divides one thing among tenants. One pair of types per family: memory, bandwidth, joint, form.
pub trait Policy: fmt::Debug + Send {
    /// What is measured of a tenant.
    type Signal;
    /// What a tenant gets.
    type Share;

    /// The name under which operators choose it.
    fn name(&self) -> &'static str;

    /// Decides from what was seen since the last decision came into force. Returns borrows of the policy's own
    /// buffers: nothing allocates once the set of tenants is steady.
    fn decide(
        &mut self,
        now: Instant,
        seen: &Seen<'_, Self::Signal, Self::Share>,
    ) -> Decision<'_, Self::Share>;
}

/// The whole input of a decision: a journal of these replays the policy. Made by [`Seen::new`], which checks it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Seen<'a, S, A> {
    /// The time that the signals cover.
    pub window: Window,
    /// What is divided now.
    pub pool: &'a Pool,
    /// One row per tenant, sorted by id; who comes or goes is a row that comes or goes.
    pub tenants: &'a [Row<S, A>],
}

/// The time that signals cover: since the last decision came into force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Its begin.
    pub start: Instant,
    /// Its end.
    pub end: Instant,
    /// True if the last decision never fully came into force, so that signals mix two settings.
    pub mixed: bool,
}

/// What is divided (a group's share when policies nest) and what is known of the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pool {
    /// How much there is.
    pub capacity: Amount,
    /// Which measured profile of the tier holds, 0 for none.
    pub profile: u32,
    /// Which fitted model holds, 0 for none.
    pub model: u32,
    /// Mean latency of the medium itself over the window, by kind, where it is measured (queue occupancy, timed probes).
    pub latency: Kinds<Option<Duration>>,
}

/// One tenant as a policy sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Row<S, A> {
    /// Who.
    pub id: TenantId,
    /// What it was promised.
    pub claim: Claim,
    /// What was measured; none if the sensor failed.
    pub signal: Option<S>,
    /// What is true now, which may be weaker than what was asked; none before the first decision.
    pub in_force: Option<A>,
}

/// What shall be, from when to when, and why.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a, A> {
    /// The shares, checked against the policy's law.
    pub shares: &'a Shares<A>,
    /// When to decide again, counted from the moment the shares are in force.
    pub wake: Duration,
    /// If the loop falls silent for so long, actuators return to the last steady shares ([`crate::Lease`]).
    pub lease: Duration,
    /// False for an experiment: shares that nobody should be left with.
    pub steady: bool,
    /// Why.
    pub notes: &'a [Note],
}

/// One reason of a decision.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The tenant it speaks of; none for all.
    pub tenant: Option<TenantId>,
    /// What kind of reason.
    pub reason: Reason,
    /// The amount in question, in the family's unit (bytes for memory) unless the reason has one of its own; negative means taken
    /// away.
    pub amount: i64,
}

/// Kinds of reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A first share, for a tenant that has just come.
    Joined,
    /// Given back by a tenant that has gone.
    Left,
    /// The pool or the claims changed, or what it earned.
    Resized,
    /// Shadow hits earned credits (Memshare Algorithm 2).
    Credit,
    /// Chosen as donor of credits.
    Donor,
    /// Shadow hits found no donor above its floor.
    NoDonor,
    /// A short decision made to learn something.
    Experiment,
    /// What was learnt no longer holds, so that the search begins again.
    Restarted,
    /// A search has ended: the best that it found is kept.
    Settled,
    /// Held back further.
    Tightened,
    /// Held back less.
    Relaxed,
    /// What its items are worth beside others changed, by so many eighths of an octave.
    Revalued,
    /// How its time compares with its time alone, in thousandths (NyxCache §3.3).
    Slowed,
    /// Gave what it left idle.
    Donated,
    /// Took back what it had given.
    Revoked,
    /// Two tenants exchanged one resource for the other.
    Traded,
    /// A signal was missing or a rule did not close: the stated fallback was taken.
    Fallback(Cow<'static, str>),
    /// What was promised cannot be kept.
    Incident(Cow<'static, str>),
    /// The policy of this name decides from here on. The loop's own note, not a policy's.
    Switched(&'static str),
}

impl Reason {
    /// The reason as one word for journals and dashboards.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Left => "left",
            Self::Resized => "resized",
            Self::Credit => "credit",
            Self::Donor => "donor",
            Self::NoDonor => "no-donor",
            Self::Experiment => "experiment",
            Self::Restarted => "restarted",
            Self::Settled => "settled",
            Self::Tightened => "tightened",
            Self::Relaxed => "relaxed",
            Self::Revalued => "revalued",
            Self::Slowed => "slowed",
            Self::Donated => "donated",
            Self::Revoked => "revoked",
            Self::Traded => "traded",
            Self::Fallback(_) => "fallback",
            Self::Incident(_) => "incident",
            Self::Switched(_) => "switched",
        }
    }
}

impl Reason {
    /// What it says beside its word.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Fallback(text) | Self::Incident(text) => Some(text),
            Self::Switched(name) => Some(name),
            _ => None,
        }
    }
}

impl Window {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }

    /// `count` per second of the window; none if no time has passed.
    #[must_use]
    pub fn per_sec(&self, count: u64) -> Option<f64> {
        let length = self.length();
        (Duration::ZERO < length).then(|| count as f64 / length.as_secs_f64())
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    type Signal = P::Signal;
    type Share = P::Share;

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn decide(
        &mut self,
        now: Instant,
        seen: &Seen<'_, Self::Signal, Self::Share>,
    ) -> Decision<'_, Self::Share> {
        (**self).decide(now, seen)
    }
}

/// Why an input of a decision is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SeenError {
    /// Rows must rise by tenant.
    #[error("tenant {0} is out of order or twice there")]
    Order(TenantId),
    /// A floor that its own ceiling forbids.
    #[error("the floor of tenant {0} is above its ceiling")]
    FloorAboveCeiling(TenantId),
    /// Time must not run backwards.
    #[error("the window ends before it starts")]
    WindowReversed,
}

impl<'a, S, A> Seen<'a, S, A> {
    /// The input of a decision.
    ///
    /// # Errors
    /// What no policy should have to look for: rows out of order, a floor above its ceiling, a window that runs backwards.
    pub fn new(window: Window, pool: &'a Pool, tenants: &'a [Row<S, A>]) -> Result<Self, SeenError> {
        if window.end < window.start {
            return Err(SeenError::WindowReversed);
        }
        if let Some(pair) = tenants.windows(2).find(|pair| pair[1].id <= pair[0].id) {
            return Err(SeenError::Order(pair[1].id));
        }
        let above = |row: &&Row<S, A>| !row.claim.floor.fits(row.claim.ceiling_of(Amount::MOST));
        if let Some(row) = tenants.iter().find(above) {
            return Err(SeenError::FloorAboveCeiling(row.id));
        }
        Ok(Self { window, pool, tenants })
    }

    /// All floors against the pool, to ask for many tenants.
    #[must_use]
    pub fn floors(&self) -> Floors {
        let parts = |floor: Amount| [floor.bytes.0, floor.bandwidth.0, floor.cost.0].map(u128::from);
        let mut all = [0; 3];
        for row in self.tenants {
            all.iter_mut().zip(parts(row.claim.floor)).for_each(|(sum, part)| *sum += part);
        }
        Floors { all, capacity: self.pool.capacity }
    }
}

/// The floors of all tenants against what there is.
#[derive(Clone, Copy, Debug)]
pub struct Floors {
    /// Sums of bytes, bandwidth and cost; floors together may be more than a floor can say.
    all: [u128; 3],
    capacity: Amount,
}

impl Floors {
    /// What can be kept of `floor`: all of it, or its proportion where the floors together exceed the pool.
    #[must_use]
    pub fn kept(&self, mut floor: Amount) -> Amount {
        let [bytes, bandwidth, cost] = self.all;
        floor.bytes.0 = kept(floor.bytes.0, self.capacity.bytes.0, bytes);
        floor.bandwidth.0 = kept(floor.bandwidth.0, self.capacity.bandwidth.0, bandwidth);
        floor.cost.0 = kept(floor.cost.0, self.capacity.cost.0, cost);
        floor
    }
}

/// `floor`, or its part of `capacity` if `all` floors are more than that; rounded down.
fn kept(floor: u64, capacity: u64, all: u128) -> u64 {
    if all <= u128::from(capacity) {
        return floor;
    }
    // Below 2¹²⁸: both factors are below 2⁶⁴. At most `floor`, since `capacity` is less than `all`.
    u64::try_from(u128::from(floor) * u128::from(capacity) / all).unwrap_or(floor)
}
