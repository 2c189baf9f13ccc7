//! What a tenant's threads have taken of its budget and its caps.
//!
//! Shape:      behind the brake's lock; threads take pieces and spend them alone
//! Invariants: a period starts when its budget comes into force and follows the one before; what was spent beyond a budget is
//!             spent of the next period's. Where somebody begins periods, a part of long ones is kept for who spends for the tenant, and
//!             where that one is late, what follows is granted as time passes and not at once. Caps: see `capped`

use super::aside::Aside;
use super::capped::Capped;
use super::{Budget, PERIOD_MIN, Setting};
use crate::Access;
use units::{Bytes, Duration, Instant};

/// Pieces that a budget is taken in: a thread holds at most so small a part without spending it.
const PIECES: u64 = 1024;
/// Parts of a period in which its budget is granted where the next should have been begun and was not.
const LATE_PARTS: u64 = 64;
/// A budget of nothing holds so long after its period (guess: many times what a loop rests): who begins periods may have died.
const LATE_MAX: Duration = Duration::from_secs(10);
/// Periods' budgets that may be owed of what is spent for a tenant, and not by it (guess: it is not its doing when, and of a
/// short period it may be many times the budget).
const OWED_PERIODS_MAX: u64 = 100;
/// Of each period's budget that takes one part in so many at most (guess: nobody is to stand still for what a cleaner does). Where somebody
/// begins periods, and keeps accounts of all that was used, it comes off at once.
const OWED_ONE_IN: u64 = 2;
/// Who can wait does not for what is beyond a budget by less than one part in so many of it (guess: a limit is to hold within 5 %).
const BEYOND_ONE_IN: u64 = 64;
/// Whoever begins a period is late by so much (guess: many times what a loop is).
const LATE: Duration = Duration::from_millis(2);

/// A tenant's account.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    setting: Setting,
    start: Instant,
    /// Budget and length of the period that runs, where that is not the setting's: the next is to be begun and is not yet.
    late: Option<Budget>,
    spent_ps: u64,
    /// What was spent for the tenant and has not been taken off its budget yet.
    owed_ps: u64,
    /// What of that has been taken off this period's.
    paid_ps: u64,
    /// Periods are begun by somebody.
    is_begun: bool,
    /// What is kept where they are.
    aside: Aside,
    depleted: bool,
    depleted_at: Option<Instant>,
    /// By kind.
    capped: [Capped; 4],
}

impl Ledger {
    pub(super) fn setting(&self) -> &Setting {
        &self.setting
    }

    pub(super) fn set(&mut self, mut setting: Setting, now: Instant) {
        if let Some(budget) = &mut setting.budget {
            budget.per = budget.per.max(PERIOD_MIN);
        }
        let period = |setting: &Setting| setting.budget.map(|budget| budget.per);
        if period(&setting) != period(&self.setting) {
            (self.start, self.spent_ps, self.owed_ps, self.paid_ps) = (now, 0, 0, 0);
            self.aside = Aside::default();
        }
        for (at, cap) in setting.cap.into_iter().enumerate().filter(|(at, cap)| self.setting.cap[*at] != *cap)
        {
            self.capped[at].change(self.setting.cap[at], cap, now);
        }
        (self.late, self.is_begun) = (None, false);
        self.depleted = setting.budget.is_some_and(|budget| budget.cost_ps <= self.spent_ps);
        self.setting = setting;
    }

    /// A period begins now under `setting`, with nothing used of its budget.
    pub(super) fn begin(&mut self, setting: Setting, now: Instant) {
        match self.setting.budget.filter(|_| self.is_begun) {
            // It has ended before.
            Some(_) if self.late.is_some() => (),
            Some(last) => self.aside.period_ends(last, self.spent_ps, now.since(self.start)),
            None => self.aside = Aside::default(),
        }
        self.set(setting, now);
        (self.start, self.spent_ps, self.depleted) = (now, 0, false);
        (self.owed_ps, self.paid_ps) = (0, 0);
        self.is_begun = true;
    }

    /// Until when there is nothing to spend, however little is asked for: a budget of nothing.
    pub(super) fn nothing_until(&self) -> Instant {
        let budget = self.setting.budget.filter(|budget| budget.cost_ps == 0);
        budget.map_or(Instant::ZERO, |budget| Instant(self.start.0.saturating_add(budget.per.0)))
    }

    /// The same for who asks again after that: whoever begins the next period is late, and who waits for it waits as long again. After very long
    /// nobody is taken to begin any, and one access passes.
    pub(super) fn late_until(&self, now: Instant) -> Instant {
        let (Some(budget), due) = (self.setting.budget, self.nothing_until()) else { return Instant::ZERO };
        let late = now.since(due);
        if due == Instant::ZERO || (self.is_begun && LATE_MAX <= late) {
            return Instant::ZERO;
        }
        now + late.max(PERIOD_MIN).min(budget.per)
    }

    /// Until when nothing of each kind may pass, by what has.
    pub(super) fn capped_until(&self) -> [Instant; 4] {
        self.capped.map(|capped| capped.until())
    }

    pub(super) fn take_depleted_at(&mut self) -> Option<Instant> {
        self.depleted_at.take()
    }

    /// What a thread may spend that has waited, and until when it waits on: others may have spent what was kept. Where a period has
    /// ended it goes on, for whoever begins the next is about to.
    pub(super) fn ask(&mut self, now: Instant) -> (u64, Instant) {
        match self.setting.budget {
            Some(Budget { cost_ps: 0, .. }) => (0, self.late_until(now)),
            Some(budget) if self.is_begun && self.late.is_none() && now.since(self.start) < budget.per => {
                self.spend(0, now)
            }
            _ => (0, Instant::ZERO),
        }
    }

    /// Spends `short` and takes a piece beside it; says how much that is, and until when the tenant has nothing left.
    pub(super) fn spend(&mut self, short: u64, now: Instant) -> (u64, Instant) {
        let Some(budget) = self.setting.budget else { return (0, Instant::ZERO) };
        let budget = self.running(budget, now);
        self.begin_period(budget, now);
        self.spent_ps = self.spent_ps.saturating_add(short);
        let left = budget.cost_ps.saturating_sub(self.spent_ps);
        if left == 0 {
            if !self.depleted {
                self.depleted = true;
                // What is granted piece by piece where the next period was not begun is not the budget.
                if self.late.is_none() {
                    self.depleted_at.get_or_insert(now);
                }
            }
            // What is spent beyond this period's takes whole periods more; of a budget of nothing see `late_until`.
            let periods = self.spent_ps.checked_div(budget.cost_ps).map_or(1, |periods| periods.max(1));
            return (0, self.start + Duration(budget.per.0.saturating_mul(periods)));
        }
        let passed = now.since(self.start);
        let keeps = self.is_begun && self.late.is_none();
        let kept = if keeps { self.aside.keeps(budget, left, passed) } else { 0 };
        if left <= kept {
            return (0, self.start + self.aside.look_again(budget, left, passed));
        }
        let piece = (budget.cost_ps / PIECES).min(left - kept);
        self.spent_ps += piece;
        (piece, Instant::ZERO)
    }

    /// Takes an access that somebody makes for the tenant off its budget and its cap, as far as that may go ahead.
    pub(super) fn owe(&mut self, (access, size, cost_ps): (Access, Bytes, u64), now: Instant) {
        if let Some(cap) = self.setting.cap[access as usize] {
            self.capped[access as usize].owe(size.0, cap, now);
        }
        let Some(budget) = self.setting.budget else { return };
        let budget = self.running(budget, now);
        self.begin_period(budget, now);
        let most = budget.cost_ps.saturating_mul(OWED_PERIODS_MAX);
        if self.is_begun {
            // Whoever begins periods charges it, too.
            self.spent_ps = self.spent_ps.saturating_add(cost_ps).min(most.max(self.spent_ps));
            if self.late.is_none() {
                self.aside.note(cost_ps);
            }
        } else {
            self.owed_ps = self.owed_ps.saturating_add(cost_ps).min(most);
            self.pay(budget);
        }
    }

    /// Until when who can wait with spending so much for the tenant is to: where it is more than what is left of the period's budget, and
    /// not more than a whole one.
    pub(super) fn postpones(&mut self, cost_ps: u64, now: Instant) -> Option<Instant> {
        let whole = self.setting.budget.filter(|budget| self.is_begun && budget.is_long())?;
        let running = self.running(whole, now);
        let (left, until) = match self.late {
            // Whoever begins the next is about to.
            Some(_) => (0, now + running.per),
            None => (whole.cost_ps.saturating_sub(self.spent_ps), self.start + whole.per + LATE),
        };
        let is_beyond = left.saturating_add(whole.cost_ps / BEYOND_ONE_IN) < cost_ps;
        (is_beyond && cost_ps <= whole.cost_ps).then_some(until)
    }

    /// So much is about to be spent for the tenant.
    pub(super) fn announce(&mut self, cost_ps: u64) {
        if self.is_begun && self.late.is_none() {
            self.aside.announce(cost_ps);
        }
    }

    /// Takes what is owed off the budget of the period that runs, as far as it may be.
    fn pay(&mut self, budget: Budget) {
        let pays = self.owed_ps.min((budget.cost_ps / OWED_ONE_IN).saturating_sub(self.paid_ps));
        self.owed_ps -= pays;
        self.paid_ps += pays;
        self.spent_ps = self.spent_ps.saturating_add(pays);
    }

    /// The budget and length of the period that runs now.
    fn running(&mut self, budget: Budget, now: Instant) -> Budget {
        if self.late.is_none() && self.is_begun && budget.per <= now.since(self.start) {
            let per = Duration((budget.per.0 / LATE_PARTS).max(PERIOD_MIN.0));
            let part = u128::from(budget.cost_ps) * u128::from(per.0) / u128::from(budget.per.0.max(1));
            self.late = Some(Budget { cost_ps: u64::try_from(part).unwrap_or(u64::MAX), per });
            self.aside.period_ends(budget, self.spent_ps, budget.per);
            self.start += budget.per;
            self.spent_ps = self.spent_ps.saturating_sub(budget.cost_ps);
            self.depleted = false;
        }
        self.late.unwrap_or(budget)
    }

    fn begin_period(&mut self, budget: Budget, now: Instant) {
        let periods = now.since(self.start).0 / budget.per.0.max(1);
        if 0 < periods {
            self.start += Duration(budget.per.0.saturating_mul(periods));
            self.spent_ps = self.spent_ps.saturating_sub(budget.cost_ps.saturating_mul(periods));
            // Unspent pieces of earlier periods are a thousandth each and are not asked back.
            self.depleted = false;
            // Periods in which nobody came pay in whole.
            self.owed_ps = self.owed_ps.saturating_sub(budget.cost_ps.saturating_mul(periods - 1));
            self.paid_ps = 0;
            self.pay(budget);
        }
    }

    /// Lets `short` bytes of a kind pass and takes a piece beside them; says how much that is, and until when the cap holds.
    pub(super) fn pass(&mut self, access: Access, short: u64, now: Instant) -> (u64, Instant) {
        let cap = self.setting.cap[access as usize];
        cap.map_or((0, Instant::ZERO), |cap| self.capped[access as usize].pass(short, cap, now))
    }

    /// Until when who can wait with letting more bytes pass for the tenant, to and from a slow tier, is to.
    pub(super) fn owes_until(&mut self, now: Instant) -> Option<Instant> {
        let caps = Access::ALL.into_iter().filter(|access| access.is_slow()).map(|access| access as usize);
        let capped = caps.filter_map(|at| Some((at, self.setting.cap[at]?)));
        capped.filter_map(|(at, cap)| self.capped[at].owes_until(cap, now)).max()
    }
}
