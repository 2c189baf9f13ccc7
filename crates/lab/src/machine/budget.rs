//! A budget of cost as the brake enforces it: inside its period, to the access at which it runs out.
//!
//! Shape:      budget in force, cost per ns -> when it runs out, when it starts again
//! Invariants: a period starts when its budget comes into force and ends after exactly its length; a budget that is put in
//!             force again with the same period runs on, with what was used of it
//! Units:      picoseconds of the tier, virtual time
//! Source:     NyxCache Algorithm 1 (paused once its counter passes what was assigned, looked at every tick)

use control::bandwidth::Budget;
use units::{Duration, Instant};

/// Shortest period; shorter ones count as this, so that time goes on.
const PERIOD_MIN: Duration = Duration::from_micros(1);
/// What may be missing from a budget when it counts as used up, in ps: rounding of sums.
const ROUNDING_PS: f64 = 1.0;

/// A tenant's budget and how much of it is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spending {
    budget: Budget,
    start: Instant,
    used_ps: f64,
    /// Whether it ran out in this period.
    pub(super) depleted: bool,
}

impl Spending {
    /// `budget` comes into force at `now` after `before`.
    pub(super) fn enforce(before: Option<Self>, budget: Budget, now: Instant) -> Self {
        let budget = Budget { per: budget.per.max(PERIOD_MIN), ..budget };
        match before {
            Some(old) if old.budget.per == budget.per => {
                let more_left = old.used_ps + ROUNDING_PS < budget.cost.0 as f64;
                Self { budget, depleted: old.depleted && !more_left, ..old }
            }
            _ => Self { budget, start: now, used_ps: 0.0, depleted: false },
        }
    }

    /// Uses `ps`.
    pub(super) fn spend(&mut self, ps: f64) {
        self.used_ps += ps;
    }

    fn end(&self) -> Instant {
        self.start + self.budget.per
    }

    fn left_ps(&self) -> f64 {
        self.budget.cost.0 as f64 - self.used_ps
    }

    /// When something happens next if `ps_per_ns` is used: it runs out, or its period ends.
    pub(super) fn next(&self, now: Instant, ps_per_ns: f64, tick: Duration) -> Instant {
        if self.depleted {
            return self.end();
        }
        let left = self.left_ps();
        let out = if left <= ROUNDING_PS {
            now
        } else if 0.0 < ps_per_ns {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates; above zero"
            )]
            let ns = (left / ps_per_ns).ceil() as u64;
            now + Duration(ns)
        } else {
            return self.end();
        };
        self.noticed(out, tick).min(self.end())
    }

    /// When the brake looks after `at`.
    fn noticed(&self, at: Instant, tick: Duration) -> Instant {
        if tick == Duration::ZERO {
            return at;
        }
        self.start + Duration(at.since(self.start).0.div_ceil(tick.0).max(1) * tick.0)
    }

    /// What happens at `now`: says true if the budget has just run out or has just started again.
    pub(super) fn happen(&mut self, now: Instant, tick: Duration) -> bool {
        let mut restarted = false;
        while self.end() <= now {
            self.start = self.end();
            self.used_ps = 0.0;
            restarted |= self.depleted;
            self.depleted = false;
        }
        if !self.depleted && self.left_ps() <= ROUNDING_PS && self.noticed(now, tick) == now {
            self.depleted = true;
            return true;
        }
        restarted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::bandwidth::Cost;

    fn spending(cost: u64, per_ms: u64) -> Spending {
        let budget = Budget { cost: Cost(cost), per: Duration::from_millis(per_ms) };
        Spending::enforce(None, budget, Instant(500))
    }

    #[test]
    fn a_budget_runs_out_at_the_very_access_or_at_the_next_tick() {
        let mut exact = spending(1000, 1);
        assert_eq!(exact.next(Instant(500), 3.0, Duration::ZERO), Instant(500 + 334));
        exact.spend(1002.0);
        assert!(exact.happen(Instant(834), Duration::ZERO) && exact.depleted);
        assert_eq!(exact.next(Instant(834), 0.0, Duration::ZERO), Instant(1_000_500));
        let mut coarse = spending(1000, 1);
        let tick = Duration(10_000);
        assert_eq!(coarse.next(Instant(500), 3.0, tick), Instant(10_500));
        coarse.spend(30_000.0);
        assert!(coarse.happen(Instant(10_500), tick) && coarse.depleted);
    }

    #[test]
    fn a_period_ends_and_the_same_budget_again_runs_on() {
        let mut running = spending(1000, 1);
        running.spend(1000.0);
        assert!(running.happen(Instant(600), Duration::ZERO));
        let again = Spending::enforce(Some(running), running.budget, Instant(700));
        assert!(again.depleted, "asking again grants nothing");
        let more = Budget { cost: Cost(2000), ..running.budget };
        assert!(!Spending::enforce(Some(running), more, Instant(700)).depleted);
        assert!(running.happen(Instant(1_000_500), Duration::ZERO) && !running.depleted);
    }

    #[test]
    fn no_budget_at_all_and_no_period_end() {
        let mut nothing = spending(0, 0);
        assert!(nothing.happen(Instant(500), Duration::ZERO) && nothing.depleted);
        assert_eq!(nothing.next(Instant(500), 0.0, Duration::ZERO), Instant(1_500));
    }
}
