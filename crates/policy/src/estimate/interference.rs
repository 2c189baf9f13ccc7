//! Which of several tenants disturbs a victim most: each is held back for a moment while the victim is watched.
//!
//! Shape:      victim, candidates -> a turn at a time (nobody, or one of them, is held back) -> what the victim felt ->
//!             a finding
//! Invariants: every round shows the victim with nobody held back and with each candidate held back once, in an order
//!             drawn anew; an abandoned experiment leaves nothing behind
//! Units:      what the victim feels is any number of which more is better; traffic in bytes per second
//! Cost:       O(candidates) per turn, no allocation after the first experiment
//! Source:     NyxCache §3.3 and Algorithm 2, `getLargestInterference`. The paper takes one look at each candidate; we
//!             take at least two, until the best is ahead by two standard errors or the patience ends, and then say so. A
//!             tail is noisy (§4.3, §4.7), so where it does not contradict, the mean of the same looks decides. The paper
//!             compares at equal expense; levers are coarse and a candidate may make less than the step, so each is
//!             compared by what it gave up.
//! Non-goals:  knowing how long a look must last or how a tenant is held back
//!
//! | Paper | here |
//! |---|---|
//! | S | `victim` |
//! | C in Candidates | a [`Candidate`] |
//! | `ExperimentStep` | `step` |
//! | latency change of S | what it felt with C held back less what it felt with nobody held back |

use units::{Rng, TenantId};

/// Looks at each candidate before a finding: with one there is no error to estimate.
pub const ROUNDS_LEAST: u32 = 2;
/// Looks after which the finding is taken as it stands (guess; 4 to 12 were considered).
pub const ROUNDS_MOST: u32 = 6;
/// The best must be ahead of the next by so many standard errors (guess, the usual bar of about 95 %).
pub const STANDARD_ERRORS: f64 = 2.0;
/// Whoever what counts puts so many standard errors behind is out, whatever the companion says (guess).
const CONTRADICTION: f64 = 3.0;
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
pub struct Finding {
    /// The culprit.
    pub culprit: TenantId,
    /// True if it was ahead of the next by [`STANDARD_ERRORS`]; else it is the heaviest of those level with the best.
    pub clear: bool,
}

/// One experiment at a time.
#[derive(Clone, Debug)]
pub struct Interference {
    rng: Rng,
    victim: Option<TenantId>,
    step: f64,
    trials: Vec<Trial>,
    base: Felt,
    order: Vec<Option<usize>>,
    taken: usize,
    rounds: u32,
}

/// Mean and squared deviations of what was felt (Welford), and the coarsest step, as a deviation, in which it was told.
#[derive(Clone, Copy, Debug, Default)]
struct Series {
    count: f64,
    mean: f64,
    squares: f64,
    grain: f64,
}

/// What the victim felt, by what counts and by a companion of it that is less noisy.
#[derive(Clone, Copy, Debug, Default)]
struct Felt {
    counts: Series,
    companion: Series,
}

/// Which of the two.
type By = fn(&Felt) -> &Series;

const COUNTS: By = |felt| &felt.counts;
const COMPANION: By = |felt| &felt.companion;

#[derive(Clone, Copy, Debug)]
struct Trial {
    candidate: Candidate,
    felt: Felt,
    free: Series,
    held: Series,
    /// Not clearly behind another.
    level: bool,
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
            base: Felt::default(),
            order: Vec::new(),
            taken: 0,
            rounds: 0,
        }
    }

    /// Begins: `step` is the traffic that holding a candidate back is meant to take. An experiment under way is
    /// abandoned.
    pub fn start(&mut self, victim: TenantId, step: f64, candidates: impl Iterator<Item = Candidate>) {
        self.victim = Some(victim);
        self.step = step.max(1.0);
        self.base = Felt::default();
        self.trials.clear();
        self.trials.extend(candidates.map(|candidate| Trial {
            candidate,
            felt: Felt::default(),
            free: Series::default(),
            held: Series::default(),
            level: true,
        }));
        self.rounds = 0;
        self.draw_order();
    }

    /// Ends without a finding.
    pub fn abandon(&mut self) {
        self.victim = None;
    }

    /// Whom the experiment is for, while it runs.
    #[must_use]
    pub const fn victim(&self) -> Option<TenantId> {
        self.victim
    }

    /// Whether every candidate is still at its first look: a lever may be set anew only then.
    #[must_use]
    pub const fn first_round(&self) -> bool {
        self.rounds == 0
    }

    /// What to do in the next window, while it runs.
    #[must_use]
    pub fn turn(&self) -> Option<Turn> {
        self.victim?;
        let at = self.order.get(self.taken)?;
        Some(at.map_or(Turn::Base, |at| Turn::Hold(self.trials[at].candidate.id)))
    }

    /// Takes what the victim felt in the window of [`Self::turn`] and the traffic of each candidate in it, and returns
    /// the finding once there is one; the experiment is over then. `felt` is what counts (a tail) and how far off the steps in which
    /// it is told let it be, as a deviation; `companion` is what goes with it and is less noisy (a mean), if it is known. A number that is none
    /// ends a look without a result.
    pub fn record(
        &mut self,
        (felt, grain): (f64, f64),
        companion: Option<f64>,
        traffic: impl Fn(TenantId) -> Option<f64>,
    ) -> Option<Finding> {
        let at = *self.order.get(self.taken)?;
        self.victim?;
        if !felt.is_finite() {
            return None;
        }
        match at {
            None => {
                self.base.add((felt, grain), companion);
                for trial in &mut self.trials {
                    trial.free.add_known(traffic(trial.candidate.id));
                }
            }
            Some(at) => {
                let trial = &mut self.trials[at];
                trial.felt.add((felt, grain), companion);
                trial.held.add_known(traffic(trial.candidate.id));
            }
        }
        self.taken += 1;
        if self.taken < self.order.len() {
            return None;
        }
        self.rounds += 1;
        let finding = self.judge();
        match finding {
            Some(_) => self.victim = None,
            None => self.draw_order(),
        }
        finding
    }

    /// One candidate left that is not clearly behind another, or the patience ends.
    fn judge(&mut self) -> Option<Finding> {
        if self.rounds < ROUNDS_LEAST {
            return None;
        }
        for at in 0..self.trials.len() {
            self.trials[at].level = !self.gave_up_nothing(&self.trials[at]);
        }
        if self.companion_known() {
            self.keep_level(COUNTS, CONTRADICTION, self.grain());
            self.keep_level(COMPANION, STANDARD_ERRORS, 0.0);
        } else {
            // However coarse: it is all that there is.
            self.keep_level(COUNTS, STANDARD_ERRORS, 0.0);
        }
        let level = || self.trials.iter().filter(|trial| trial.level).map(|trial| trial.candidate);
        if level().count() == 1 {
            return level().next().map(|best| Finding { culprit: best.id, clear: true });
        }
        if self.rounds < ROUNDS_MOST {
            return None;
        }
        let all = self.trials.iter().map(|trial| trial.candidate);
        heaviest(level()).or_else(|| heaviest(all)).map(|culprit| Finding { culprit, clear: false })
    }

    /// Of those still level, keeps those that the best is not ahead of by more than so many standard errors.
    fn keep_level(&mut self, by: By, errors: f64, grain: f64) {
        let level = self.trials.iter().filter(|trial| trial.level);
        let best = level.max_by(|a, b| {
            self.effect(by, a).total_cmp(&self.effect(by, b)).then(b.candidate.id.cmp(&a.candidate.id))
        });
        let Some(best) = best.copied() else { return };
        for at in 0..self.trials.len() {
            let trial = self.trials[at];
            let ahead = self.effect(by, &best) - self.effect(by, &trial);
            let behind = errors * self.standard_error(by, &best, &trial, grain) < ahead;
            self.trials[at].level &= trial.candidate.id == best.candidate.id || !behind;
        }
    }

    /// Whether every look of the experiment had its companion.
    fn companion_known(&self) -> bool {
        let whole = |felt: &Felt| felt.counts.count <= felt.companion.count;
        whole(&self.base) && self.trials.iter().all(|trial| whole(&trial.felt))
    }

    /// What the victim gains by one step taken from a candidate.
    fn effect(&self, by: By, trial: &Trial) -> f64 {
        (by(&trial.felt).mean - by(&self.base).mean) / self.expense(trial)
    }

    /// What a candidate gave up, in steps.
    fn expense(&self, trial: &Trial) -> f64 {
        if trial.free.count == 0.0 || trial.held.count == 0.0 {
            return 1.0;
        }
        ((trial.free.mean - trial.held.mean) / self.step).max(EXPENSE_LEAST)
    }

    /// Whether its lever took next to nothing of what it could have taken: then the look says nothing of it.
    fn gave_up_nothing(&self, trial: &Trial) -> bool {
        let least = EXPENSE_LEAST * self.step;
        let known = 0.0 < trial.free.count * trial.held.count;
        known && 2.0 * least < trial.free.mean && trial.free.mean - trial.held.mean < least
    }

    /// The coarsest step, as a deviation, in which what counts was told.
    fn grain(&self) -> f64 {
        let all = self.trials.iter().map(|trial| &trial.felt).chain([&self.base]);
        all.map(|felt| felt.counts.grain).fold(0.0, f64::max)
    }

    /// Of the difference between two effects: the noise of single looks is estimated from all of them together. What is told in steps of
    /// `grain` shows none where all fall on the same one, and no more looks make that better.
    fn standard_error(&self, by: By, a: &Trial, b: &Trial, grain: f64) -> f64 {
        let all = self.trials.iter().map(|trial| by(&trial.felt)).chain([by(&self.base)]);
        let (squares, freedom) =
            all.fold((0.0, 0.0), |(s, n), series| (s + series.squares, n + series.count - 1.0));
        let looks = f64::from(self.rounds);
        let (a, b) = (1.0 / self.expense(a), 1.0 / self.expense(b));
        ((squares / freedom / looks + grain * grain) * (a * a + b * b + (a - b) * (a - b))).sqrt()
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

/// Who uses most of the tier.
fn heaviest(candidates: impl Iterator<Item = Candidate>) -> Option<TenantId> {
    candidates.max_by(|a, b| a.usage.total_cmp(&b.usage).then(b.id.cmp(&a.id))).map(|c| c.id)
}

impl Felt {
    fn add(&mut self, (counts, grain): (f64, f64), companion: Option<f64>) {
        self.counts.add(counts);
        self.counts.grain = self.counts.grain.max(grain);
        self.companion.add_known(companion);
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
    fn run(seed: u64, helps: &[f64], usage: &[f64], noise: f64) -> (Finding, u32) {
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
            if let Some(finding) = experiment.record((felt, 0.0), None, traffic) {
                assert_eq!((experiment.turn(), experiment.victim()), (None, None), "it is over");
                return (finding, looks);
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn the_culprit_is_whoever_helps_most() {
        for seed in 1..=3 {
            let (finding, looks) = run(seed, &[0.1, 0.5, 0.2], &[3.0, 1.0, 2.0], 0.0);
            assert_eq!(finding, Finding { culprit: TenantId(1), clear: true }, "seed {seed}");
            assert_eq!(looks, 2 * 4, "two rounds of nobody and three candidates");
        }
    }

    #[test]
    fn without_a_difference_it_is_whoever_uses_most_and_it_says_so() {
        let (finding, looks) = run(1, &[0.2, 0.2, 0.2], &[1.0, 3.0, 2.0], 0.0);
        assert_eq!((finding.culprit, finding.clear, looks), (TenantId(1), false, ROUNDS_MOST * 4));
    }

    #[test]
    fn noise_is_told_from_effect() {
        let (mut right, mut clear_and_wrong) = (0, 0);
        for seed in 0..1000 {
            let (finding, _) = run(seed, &[0.10, 0.30, 0.05], &[3.0, 1.0, 2.0], 0.3);
            right += u32::from(finding.culprit == TenantId(1));
            clear_and_wrong += u32::from(finding.clear && finding.culprit != TenantId(1));
        }
        assert!(900 < right && clear_and_wrong < 60, "{right} right, {clear_and_wrong} sure and wrong");
    }

    #[test]
    fn who_makes_less_than_the_step_is_compared_by_what_it_gave_up() {
        let mut experiment = Interference::new(4);
        let candidates = [(0, 5.0), (1, 1.0)].map(|(id, usage)| Candidate { id: TenantId(id), usage });
        experiment.start(VICTIM, 100.0, candidates.into_iter());
        let finding = loop {
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
            if let Some(finding) = experiment.record((felt, 0.0), None, traffic) {
                break finding;
            }
        };
        assert_eq!(finding, Finding { culprit: TenantId(1), clear: true });
    }

    #[test]
    fn a_tail_told_in_steps_does_not_contradict_a_mean() {
        for (grain, culprit) in [(0.1, 1), (0.0, 0)] {
            let mut experiment = Interference::new(5);
            let candidates = [(0, 5.0), (1, 1.0)].map(|(id, usage)| Candidate { id: TenantId(id), usage });
            experiment.start(VICTIM, 100.0, candidates.into_iter());
            let finding = loop {
                // Both help by a step of the tail, the second by more than that in the mean; the first gives up a little less for it.
                let (felt, mean, held) = match experiment.turn().unwrap() {
                    Turn::Base => (-1.0, -0.50, None),
                    Turn::Hold(TenantId(0)) => (-0.5, -0.25, Some((TenantId(0), 401.0))),
                    Turn::Hold(id) => (-0.5, -0.15, Some((id, 400.0))),
                };
                let traffic = |id| Some(held.filter(|(held, _)| *held == id).map_or(500.0, |(_, rate)| rate));
                if let Some(finding) = experiment.record((felt, grain), Some(mean), traffic) {
                    break finding;
                }
            };
            assert_eq!(finding, Finding { culprit: TenantId(culprit), clear: true }, "steps of {grain}");
        }
    }

    #[test]
    fn what_is_no_number_is_looked_at_again() {
        let mut experiment = Interference::new(1);
        experiment.start(VICTIM, 1.0, [Candidate { id: TenantId(0), usage: 1.0 }].into_iter());
        let turn = experiment.turn();
        assert_eq!(experiment.record((f64::NAN, 0.0), None, |_| None), None);
        assert_eq!(experiment.turn(), turn);
        experiment.abandon();
        assert_eq!((experiment.turn(), experiment.record((1.0, 0.0), None, |_| None)), (None, None));
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
