//! What `qos` knows of a tenant, and when a slack below its goal is no reason to hold others back.

use super::Case;
use crate::bandwidth::nyx_admission::Refused;
use crate::bandwidth::nyx_lever::taken_over;
use control::Class;
use control::bandwidth::Throttle;
use units::Instant;

/// A tenant that asks for no more transfers about what it did (guess: twice the noise of half a second).
const CONTENT_BAND: f64 = 0.1;

/// What is known of a tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    /// Its class, as far as its goal was taken on.
    pub(super) class: Class,
    /// Its goal was taken on; why not, if it was not.
    pub(super) taken: bool,
    pub(super) refused: Option<Refused>,
    /// What it is held back by outside experiments.
    pub(super) held: Throttle,
    /// What it is held back by while it is the candidate.
    pub(super) trial: Throttle,
    /// What it transferred per second when it became a candidate.
    pub(super) rate: f64,
    /// How often its trial was found too weak and tightened.
    pub(super) escalations: u32,
    pub(super) slack: Option<f64>,
    /// Windows in a row in which it did nothing that its goal is about.
    pub(super) idle: u32,
    /// Steps in a row that gained nothing for it.
    pub(super) futile: u32,
    /// The slack below zero at which it asks for no more.
    pub(super) content: Option<f64>,
    pub(super) barred_until: Instant,
}

impl Member {
    pub(super) fn of(row: &Case) -> Self {
        Self { class: row.claim.class, held: taken_over(row), ..Self::default() }
    }

    /// The slack of who asks for no more than it has: ample, until it transfers more or less than that.
    pub(super) fn as_content(&mut self, slack: f64) -> f64 {
        match self.content {
            Some(content) if slack < 0.0 && (slack - content).abs() <= CONTENT_BAND => 1.0,
            Some(_) => {
                (self.content, self.futile) = (None, 0);
                slack
            }
            None => slack,
        }
    }

    /// The slack of who has gone quiet: ample, so that it keeps nobody held back; none where it is held back itself, for that may be why.
    pub(super) fn idle_slack(&self) -> f64 {
        if self.held == Throttle::FREE { 1.0 } else { -f64::EPSILON }
    }
}
