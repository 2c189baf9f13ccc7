//! Which of several tenants disturbs a victim most: each is held back for a moment while the victim is watched.
//!
//! Shape:      victim, candidates -> a turn at a time (nobody, or one of them, is held back) -> what the victim felt ->
//!             a verdict
//! Invariants: every round shows the victim with nobody held back and with each candidate held back once, in an order
//!             drawn anew; an abandoned experiment leaves nothing behind
//! Units:      what the victim feels is any number of which more is better; traffic in bytes per second
//! Cost:       O(candidates) per turn, no allocation after the first experiment
//! Source:     NyxCache §3.3 and Algorithm 2, `getLargestInterference`. The paper takes one look at each candidate; we take
//!             at least two, until the best is ahead by two standard errors or the patience ends, and then say so. The
//!             paper compares at equal expense; a candidate that makes less than the step is compared by what it gave up.
//! Non-goals:  knowing how long a look must last or how a tenant is held back
//!
//! | Paper | here |
//! |---|---|
//! | S | `victim` |
//! | C in Candidates | a [`Candidate`] |
//! | `ExperimentStep` | `step` |
//! | latency change of S | what it felt with C held back less what it felt with nobody held back |

use units::{Rng, TenantId};

/// Looks at each candidate before a verdict: with one there is no error to estimate.
pub const ROUNDS_LEAST: u32 = 2;
/// Looks after which the verdict is taken as it stands (guess; 4 to 12 were considered).
pub const ROUNDS_MOST: u32 = 6;
/// The best must be ahead of the next by so many standard errors (guess, the usual bar of about 95 %).
pub const STANDARD_ERRORS: f64 = 2.0;
/// Who gives up less than this part of the step is counted as giving up so much (guess): noise over nothing is no effect.
const EXPENSE_LEAST: f64 = 0.1;

/// Somebody who may be the culprit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// Who.
    pub id: TenantId,
    /// What it uses of the tier: decides where the experiment does not.
    pub usage: f64,
}

/// Who is held back in the next window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Nobody.
    Base,
    /// This candidate.
    Hold(TenantId),
}

/// Who disturbs most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Verdict {
    /// The culprit.
    pub culprit: TenantId,
    /// True if it was ahead of the next by [`STANDARD_ERRORS`]; else it is the one that uses most.
    pub clear: bool,
}

/// One experiment at a time.
#[derive(Clone, Debug)]
pub struct Interference {
    rng: Rng,
    victim: Option<TenantId>,
    step: f64,
    trials: Vec<Trial>,
    base: Series,
    order: Vec<Option<usize>>,
    taken: usize,
    rounds: u32,
}

/// Mean and squared deviations of what was felt (Welford).
#[derive(Clone, Copy, Debug, Default)]
struct Series {
    count: f64,
    mean: f64,
    squares: f64,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    candidate: Candidate,
    felt: Series,
    free: Series,
    held: Series,
}

impl Interference {
    /// No experiment yet; orders are drawn from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            victim: None,
            step: 0.0,
            trials: Vec::new(),
            base: Series::default(),
            order: Vec::new(),
            taken: 0,
            rounds: 0,
        }
    }

    /// Begins: `step` is the traffic that holding a candidate back is meant to take. An experiment under way is abandoned.
    pub fn start(&mut self, victim: TenantId, step: f64, candidates: impl Iterator<Item = Candidate>) {
        self.victim = Some(victim);
        self.step = step.max(1.0);
        self.base = Series::default();
        self.trials.clear();
        self.trials.extend(candidates.map(|candidate| Trial {
            candidate,
            felt: Series::default(),
            free: Series::default(),
            held: Series::default(),
        }));
        self.rounds = 0;
        self.draw_order();
    }

    /// Ends without a verdict.
    pub fn abandon(&mut self) {
        self.victim = None;
    }

    /// Whom the experiment is for, while it runs.
    #[must_use]
    pub const fn victim(&self) -> Option<TenantId> {
        self.victim
    }

    /// What to do in the next window, while it runs.
    #[must_use]
    pub fn turn(&self) -> Option<Turn> {
        self.victim?;
        let at = self.order.get(self.taken)?;
        Some(at.map_or(Turn::Base, |at| Turn::Hold(self.trials[at].candidate.id)))
    }

    /// Takes what the victim felt in the window of [`Self::turn`] and the traffic of each candidate in it, and returns
    /// the verdict once there is one; the experiment is over then. A number that is none ends a look without a result.
    pub fn record(&mut self, felt: f64, traffic: impl Fn(TenantId) -> Option<f64>) -> Option<Verdict> {
        let at = *self.order.get(self.taken)?;
        self.victim?;
        if !felt.is_finite() {
            return None;
        }
        match at {
            None => {
                self.base.add(felt);
                for trial in &mut self.trials {
                    trial.free.add_known(traffic(trial.candidate.id));
                }
            }
            Some(at) => {
                let trial = &mut self.trials[at];
                trial.felt.add(felt);
                trial.held.add_known(traffic(trial.candidate.id));
            }
        }
        self.taken += 1;
        if self.taken < self.order.len() {
            return None;
        }
        self.rounds += 1;
        let verdict = self.judge();
        match verdict {
            Some(_) => self.victim = None,
            None => self.draw_order(),
        }
        verdict
    }

    fn judge(&self) -> Option<Verdict> {
        if self.rounds < ROUNDS_LEAST {
            return None;
        }
        let best = self.leader(|_| true)?;
        let next = self.leader(|trial| trial.candidate.id != best.candidate.id);
        let clear = next.is_none_or(|next| {
            let ahead = self.effect(best) - self.effect(next);
            STANDARD_ERRORS * self.standard_error(best, next) < ahead
        });
        if clear {
            return Some(Verdict { culprit: best.candidate.id, clear });
        }
        (ROUNDS_MOST <= self.rounds)
            .then(|| self.heaviest())
            .flatten()
            .map(|culprit| Verdict { culprit, clear: false })
    }

    fn leader(&self, among: impl Fn(&Trial) -> bool) -> Option<&Trial> {
        let trials = self.trials.iter().filter(|trial| among(trial));
        trials.max_by(|a, b| {
            self.effect(a).total_cmp(&self.effect(b)).then(b.candidate.id.cmp(&a.candidate.id))
        })
    }

    /// Who uses most of the tier.
    fn heaviest(&self) -> Option<TenantId> {
        let most = self.trials.iter().map(|trial| trial.candidate);
        most.max_by(|a, b| a.usage.total_cmp(&b.usage).then(b.id.cmp(&a.id))).map(|c| c.id)
    }

    /// What the victim gains by one step taken from a candidate.
    fn effect(&self, trial: &Trial) -> f64 {
        (trial.felt.mean - self.base.mean) / self.expense(trial)
    }

    /// What a candidate gave up, in steps.
    fn expense(&self, trial: &Trial) -> f64 {
        if trial.free.count == 0.0 || trial.held.count == 0.0 {
            return 1.0;
        }
        ((trial.free.mean - trial.held.mean) / self.step).clamp(EXPENSE_LEAST, 1.0)
    }

    /// Of the difference between two effects: the noise of single looks is estimated from all of them together.
    fn standard_error(&self, a: &Trial, b: &Trial) -> f64 {
        let all = self.trials.iter().map(|trial| trial.felt).chain([self.base]);
        let (squares, freedom) =
            all.fold((0.0, 0.0), |(s, n), series| (s + series.squares, n + series.count - 1.0));
        let looks = f64::from(self.rounds);
        let (a, b) = (1.0 / self.expense(a), 1.0 / self.expense(b));
        (squares / freedom / looks * (a * a + b * b + (a - b) * (a - b))).sqrt()
    }

    /// A new round: nobody and every candidate, in an order drawn anew, so that a load with a period of its own does not
    /// meet the same candidate every time.
    fn draw_order(&mut self) {
        self.taken = 0;
        self.order.clear();
        self.order.push(None);
        self.order.extend((0..self.trials.len()).map(Some));
        for last in (1..self.order.len()).rev() {
            self.order.swap(last, self.rng.index(last + 1));
        }
    }
}

impl Series {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    fn add_known(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.add(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VICTIM: TenantId = TenantId(9);

    /// Runs an experiment on a plant where taking a step from candidate `i` helps by `helps[i]`, with noise of a look.
    fn run(seed: u64, helps: &[f64], usage: &[f64], noise: f64) -> (Verdict, u32) {
        let mut plant = Rng::new(seed ^ 0xABCD);
        let mut experiment = Interference::new(seed);
        let ids = || (0_u32..).map(TenantId);
        let candidates = ids().zip(usage).map(|(id, &usage)| Candidate { id, usage });
        experiment.start(VICTIM, 100.0, candidates);
        for looks in 1.. {
            let turn = experiment.turn().unwrap();
            let gain = match turn {
                Turn::Base => 0.0,
                Turn::Hold(id) => helps[id.index()],
            };
            let felt = -1.0 + gain + noise * (plant.unit() - 0.5);
            let traffic = |id| Some(if turn == Turn::Hold(id) { 400.0 } else { 500.0 });
            if let Some(verdict) = experiment.record(felt, traffic) {
                assert_eq!((experiment.turn(), experiment.victim()), (None, None), "it is over");
                return (verdict, looks);
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn the_culprit_is_whoever_helps_most() {
        for seed in 1..=3 {
            let (verdict, looks) = run(seed, &[0.1, 0.5, 0.2], &[3.0, 1.0, 2.0], 0.0);
            assert_eq!(verdict, Verdict { culprit: TenantId(1), clear: true }, "seed {seed}");
            assert_eq!(looks, 2 * 4, "two rounds of nobody and three candidates");
        }
    }

    #[test]
    fn without_a_difference_it_is_whoever_uses_most_and_it_says_so() {
        let (verdict, looks) = run(1, &[0.2, 0.2, 0.2], &[1.0, 3.0, 2.0], 0.0);
        assert_eq!((verdict.culprit, verdict.clear, looks), (TenantId(1), false, ROUNDS_MOST * 4));
    }

    #[test]
    fn noise_is_told_from_effect() {
        let (mut right, mut clear_and_wrong) = (0, 0);
        for seed in 0..1000 {
            let (verdict, _) = run(seed, &[0.10, 0.30, 0.05], &[3.0, 1.0, 2.0], 0.3);
            right += u32::from(verdict.culprit == TenantId(1));
            clear_and_wrong += u32::from(verdict.clear && verdict.culprit != TenantId(1));
        }
        assert!(900 < right && clear_and_wrong < 60, "{right} right, {clear_and_wrong} sure and wrong");
    }

    #[test]
    fn who_makes_less_than_the_step_is_compared_by_what_it_gave_up() {
        let mut experiment = Interference::new(4);
        let candidates = [(0, 5.0), (1, 1.0)].map(|(id, usage)| Candidate { id: TenantId(id), usage });
        experiment.start(VICTIM, 100.0, candidates.into_iter());
        let verdict = loop {
            let turn = experiment.turn().unwrap();
            // 100 of the first help by .10; 20, all that the second has to give, help by .08.
            let felt = match turn {
                Turn::Base => 0.0,
                Turn::Hold(TenantId(0)) => 0.10,
                Turn::Hold(_) => 0.08,
            };
            let traffic = |id: TenantId| {
                let free = if id == TenantId(0) { 1000.0 } else { 22.0 };
                let held = if id == TenantId(0) { 900.0 } else { 2.0 };
                Some(if turn == Turn::Hold(id) { held } else { free })
            };
            if let Some(verdict) = experiment.record(felt, traffic) {
                break verdict;
            }
        };
        assert_eq!(verdict, Verdict { culprit: TenantId(1), clear: true });
    }

    #[test]
    fn what_is_no_number_is_looked_at_again() {
        let mut experiment = Interference::new(1);
        experiment.start(VICTIM, 1.0, [Candidate { id: TenantId(0), usage: 1.0 }].into_iter());
        let turn = experiment.turn();
        assert_eq!(experiment.record(f64::NAN, |_| None), None);
        assert_eq!(experiment.turn(), turn);
        experiment.abandon();
        assert_eq!((experiment.turn(), experiment.record(1.0, |_| None)), (None, None));
    }

    #[test]
    fn the_order_is_drawn_anew() {
        let mut experiment = Interference::new(7);
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let candidates = (0..3).map(|id| Candidate { id: TenantId(id), usage: 1.0 });
            experiment.start(VICTIM, 1.0, candidates);
            orders.insert(experiment.order.clone());
        }
        assert!(10 < orders.len(), "{} of 24 orders", orders.len());
    }
}
