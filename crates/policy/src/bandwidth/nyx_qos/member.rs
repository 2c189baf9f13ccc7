//! What `qos` knows of a tenant, when a slack below its goal is no reason to hold others back, and when it lets them go.

use super::Case;
use crate::bandwidth::nyx_admission::Standing;
use crate::bandwidth::nyx_lever::taken_over;
use crate::bandwidth::nyx_slack::asks_for_bandwidth;
use control::Class;
use control::bandwidth::Throttle;
use units::Instant;

/// Slack from which a tenant can give (NyxCache Algorithm 2).
pub(super) const SLACK: f64 = 0.2;
/// A step for a tenant that is about its bandwidth gains nothing if it brings less than this part of it (guess).
const GAIN_LEAST: f64 = 0.02;
/// Windows in a row in which a bandwidth is kept before others are let go a step (guess, two seconds): who has what it was promised and wants
/// no more shows no ample slack ...
const WAIT_LEAST: u32 = 4;
/// ... and at most, for that doubles whenever the step breaks the promise (guess, half a minute), and halves where it does not.
const WAIT_MOST: u32 = 64;
/// A tenant that asks for no more transfers about what it did (guess: twice the noise of half a second).
const CONTENT_BAND: f64 = 0.1;

/// What is known of a tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Member {
    /// Its class, as far as its goal was taken on.
    pub(super) class: Class,
    /// Its goal was taken on; why not, if it was not.
    pub(super) taken: bool,
    pub(super) standing: Standing,
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
    /// Steps in a row that gained nothing for it ...
    futile: u32,
    /// ... beyond this slack, which those before have reached.
    reached: Option<f64>,
    /// The slack at which it asks for no more.
    pub(super) content: Option<f64>,
    /// Windows in a row in which its bandwidth was kept, since the others were let go last.
    kept: u32,
    /// So many are enough to let them go.
    wait: u32,
    /// They were, and it is not known yet whether that breaks the promise.
    gave: bool,
    pub(super) barred_until: Instant,
}

impl Member {
    pub(super) fn of(row: &Case) -> Self {
        Self { class: row.claim.class, held: taken_over(row), ..Self::default() }
    }

    /// The slack of who asks for no more than it has: ample, until it transfers more or less than that.
    pub(super) fn as_content(&mut self, slack: f64) -> f64 {
        match self.content {
            Some(content) if (slack - content).abs() <= CONTENT_BAND => 1.0,
            Some(_) => {
                (self.content, self.futile, self.reached) = (None, 0, None);
                slack
            }
            None => slack,
        }
    }

    /// A step for it has brought it from one slack to another. Returns how many in a row gained nothing. A gain counts from the best that was
    /// reached: steps are made in windows that happen to be bad, and the next is better whatever they did.
    pub(super) fn note_step(&mut self, before: f64, now: f64) -> u32 {
        if now < self.reached.unwrap_or(before) + GAIN_LEAST {
            self.reached = self.reached.or(Some(before));
            self.futile += 1;
        } else {
            (self.futile, self.reached) = (0, Some(now));
        }
        self.futile
    }

    /// Takes a window's slack into what is known of its bandwidth.
    pub(super) fn note_kept(&mut self) {
        match self.slack {
            Some(slack) if 0.0 <= slack => self.kept = self.kept.saturating_add(1),
            Some(_) => {
                if std::mem::take(&mut self.gave) {
                    self.wait = (self.wait() * 2).min(WAIT_MOST);
                }
                self.kept = 0;
            }
            None => {}
        }
    }

    fn wait(&self) -> u32 {
        self.wait.max(WAIT_LEAST)
    }

    /// Whether others may be let go a step for all that it needs.
    pub(super) fn can_give(&self) -> bool {
        let waited = asks_for_bandwidth(&self.class) && self.wait() <= self.kept;
        self.slack.is_some_and(|slack| SLACK < slack || (waited && 0.0 <= slack))
    }

    /// Others were let go a step: what the steps before have gained is no measure any more.
    pub(super) fn note_relaxed(&mut self) {
        if std::mem::replace(&mut self.gave, true) {
            self.wait /= 2;
        }
        (self.kept, self.futile, self.reached) = (0, 0, None);
    }

    /// The slack of who has gone quiet: ample, so that it keeps nobody held back; none where it is held back itself, for that may be why.
    pub(super) fn idle_slack(&self) -> f64 {
        if self.held == Throttle::FREE { 1.0 } else { -f64::EPSILON }
    }
}
