//! What of a period's budget is kept for who spends for the tenant, a cleaner, until the period is nearly over.
//!
//! Shape:      what was spent for the tenant in the periods before -> what of its budget its own accesses leave alone now, and when to look again
//! Invariants: at most half of a budget is kept, and nothing when a period ends, where nothing was spent for the tenant before, and behind a
//!             period that was cut short; beside that what somebody has announced
//! Units:      picoseconds of cost; nanoseconds since the period began
//! Source:     ours; NyxCache (§3.4) has nobody else who spends of a tenant's account. A cleaner spends when it is called, most of
//!             all behind who stores, and what it spends of a budget that has run out is beyond the limit in that epoch

use super::Budget;
use units::Duration;

/// Of a budget at most one part in so many is kept: nobody is to stand still for what a cleaner may do.
const ONE_IN: u64 = 2;
/// What was spent in a period may be spent so many times by whose budget runs out (guess: a pass moves now three values of a segment,
/// now fifteen). Others are to have what they ask for where that and what was spent are within the budget.
const TIMES_AS_MUCH: u64 = 2;
/// What is expected falls by one part in so many per period (guess: large passes come once in many periods).
const FADES_ONE_IN: u64 = 32;
/// Nothing is kept any more when one part in so many of the period is left. With a sixteenth, cleaners called by
/// what the tenant did last were beyond the limit one time in eight; they come some 20 ms after it (`docs/decisions`).
const REST_ONE_IN: u64 = 128;
/// What is kept is let go as slowly as lets the tenant spend it with so much less than the pace at which it came to it (guess: others have
/// come meanwhile), at first and at most: doubled behind each period that ended before it was spent, though the tenant went on.
const TIMES_AS_SLOW: (u64, u64) = (2, 64);
/// One part in so many of a budget that was not spent is no loss (guess: several threads' pieces).
const UNSPENT_ONE_IN: u64 = 64;
/// Who asks when one part in so many of the period is left goes on (guess: what is let go at the slowest takes longer).
const GOES_ON_ONE_IN: u64 = 16;
/// Who waits for it looks again after one part in so many of a period, or later.
const LOOKS: u64 = 512;

/// A tenant's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Aside {
    /// So much may be spent for it in a period, by those before.
    expected_ps: u64,
    /// So much was in this one.
    spent_ps: u64,
    /// So much will have been once who is about to spend has.
    announced_ps: u64,
    /// When the tenant asked for the first and for the last time.
    asked: Option<(Duration, Duration)>,
    /// What it had spent itself when it came to what is kept, and how long that took.
    came: Option<(u64, Duration)>,
    /// How many times slower than that it is let go.
    times_as_slow: u64,
    /// Its last budget was spent.
    wants_more: bool,
    /// The last period was not whole: what was kept of it was lost.
    was_cut: bool,
}

impl Aside {
    /// A period is over: of its budget `spent_ps` were spent, by whomever, when so much of it had passed.
    pub(super) fn period_ends(&mut self, last: Budget, spent_ps: u64, passed: Duration) {
        let was_cut = passed < end(last);
        let fades = if was_cut { 0 } else { self.expected_ps.div_ceil(FADES_ONE_IN) };
        let (least, most) = TIMES_AS_SLOW;
        let is_spent = 0 < last.cost_ps && last.cost_ps - last.cost_ps / UNSPENT_ONE_IN <= spent_ps;
        let goes_on = self.asked.is_some_and(|(_, at)| last.per.0 - last.per.0 / GOES_ON_ONE_IN <= at.0);
        let times_as_slow = match self.came {
            Some(_) if !was_cut && is_spent => self.times_as_slow / 2,
            Some(_) if !was_cut && goes_on => self.times_as_slow * 2,
            _ => self.times_as_slow,
        };
        *self = Self {
            expected_ps: self.spent_ps.min(last.cost_ps).max(self.expected_ps - fades),
            times_as_slow: times_as_slow.clamp(least, most),
            wants_more: is_spent,
            was_cut,
            ..Self::default()
        };
    }

    /// Somebody has spent for the tenant.
    pub(super) fn note(&mut self, cost_ps: u64) {
        self.spent_ps = self.spent_ps.saturating_add(cost_ps);
    }

    /// Somebody is about to spend so much for the tenant.
    pub(super) fn announce(&mut self, cost_ps: u64) {
        self.announced_ps = self.announced_ps.max(self.spent_ps.saturating_add(cost_ps));
    }

    /// What is kept of a budget of which `left_ps` are left, when so much of its period has passed.
    pub(super) fn keeps(&mut self, budget: Budget, left_ps: u64, passed: Duration) -> u64 {
        let began = self.asked.map_or(passed, |(began, _)| began);
        self.asked = Some((began, passed));
        let times = if self.wants_more { TIMES_AS_MUCH } else { 1 };
        let expected = self.expected_ps.saturating_mul(times).min(budget.cost_ps / ONE_IN);
        let expected = if self.was_cut { 0 } else { expected }.max(self.announced_ps);
        let (kept, end) = (expected.saturating_sub(self.spent_ps), end(budget));
        if !budget.is_long() || end <= passed {
            return 0;
        }
        if kept < left_ps {
            return kept;
        }
        let own_ps = budget.cost_ps.saturating_sub(left_ps).saturating_sub(self.spent_ps);
        let took = Duration(passed.0.saturating_sub(began.0));
        let (came_ps, took) = *self.came.get_or_insert((own_ps, took));
        let rest = u128::from(end.0 - passed.0) * u128::from(came_ps);
        let spends = rest / u128::from(took.0.saturating_mul(self.times_as_slow).max(1));
        u64::try_from(spends).unwrap_or(u64::MAX).min(kept)
    }

    /// When who has `left_ps`, and these are kept, is to look again, since the period began: when less is.
    pub(super) fn look_again(&self, budget: Budget, left_ps: u64, passed: Duration) -> Duration {
        let (came_ps, took) = self.came.unwrap_or_default();
        let takes = u128::from(left_ps) * u128::from(took.0.saturating_mul(self.times_as_slow));
        let takes = u64::try_from(takes / u128::from(came_ps.max(1))).unwrap_or(u64::MAX);
        let falls = end(budget).0.saturating_sub(takes);
        Duration(falls.max(passed.0.saturating_add(budget.per.0 / LOOKS)).min(end(budget).0))
    }
}

impl Default for Aside {
    fn default() -> Self {
        Self {
            expected_ps: 0,
            spent_ps: 0,
            announced_ps: 0,
            asked: None,
            came: None,
            times_as_slow: TIMES_AS_SLOW.0,
            wants_more: false,
            was_cut: false,
        }
    }
}

/// From when on nothing is kept.
const fn end(budget: Budget) -> Duration {
    Duration(budget.per.0 - budget.per.0 / REST_ONE_IN)
}
