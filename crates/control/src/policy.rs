//! A policy: a pure state machine from what was seen to what shall be.
//!
//! Invariants: `decide` cannot fail, reads no clock and draws only from a generator that the policy owns

use crate::claim::{Amount, Claim};
use crate::shares::Shares;
use std::borrow::Cow;
use units::{Duration, Instant, TenantId};

/// Divides one thing among tenants. One pair of types per family: memory, bandwidth, joint, form.
pub trait Policy {
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

/// The whole input of a decision: a journal of these replays the policy.
#[derive(Clone, Copy, Debug)]
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
    /// If the loop falls silent for so long, actuators return to the last steady shares.
    pub lease: Duration,
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
    /// The amount in question, in the family's unit (bytes for memory); negative means taken away.
    pub amount: i64,
}

/// Kinds of reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A first share, for a tenant that has just come.
    Joined,
    /// Given back by a tenant that has gone.
    Left,
    /// The pool or the claims changed.
    Resized,
    /// Shadow hits earned credits (Memshare Algorithm 2).
    Credit,
    /// Chosen as donor of credits.
    Donor,
    /// Shadow hits found no donor above its floor.
    NoDonor,
    /// A short decision made to learn something.
    Experiment,
    /// A signal was missing or a rule did not close: the stated fallback was taken.
    Fallback(Cow<'static, str>),
    /// What was promised cannot be kept.
    Incident(Cow<'static, str>),
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
            Self::Fallback(_) => "fallback",
            Self::Incident(_) => "incident",
        }
    }
}

impl<S, A> Seen<'_, S, A> {
    /// The floor of a tenant that the pool can keep: as claimed, or scaled down in proportion where the floors
    /// together exceed the pool.
    #[must_use]
    pub fn kept_floor(&self, row: &Row<S, A>) -> Amount {
        let all: Amount = self.tenants.iter().map(|t| t.claim.floor).sum();
        let capacity = self.pool.capacity;
        let mut floor = row.claim.floor;
        if capacity.bytes < all.bytes {
            floor.bytes = floor.bytes.scale(capacity.bytes.0, all.bytes.0);
        }
        if capacity.bandwidth < all.bandwidth {
            floor.bandwidth.0 =
                units::Bytes(floor.bandwidth.0).scale(capacity.bandwidth.0, all.bandwidth.0).0;
        }
        floor
    }
}
