//! A linear search along one knob: coarse steps one way while it improves, then finer ones around the best.
//!
//! Shape:      a measured position -> positions to try, one at a time, each answered by an estimate -> the best
//! Invariants: no position is tried twice; the best is a measured one; at most one trial per position of the range
//! Source:     PolyEMT §3.1: "a linear (incremental) search" suffices, because hit ratios of stacks have one maximum. We
//!             differ: a difference within noise does not end the search at once, and the end is looked at more finely
//!
//! | Paper | here |
//! |---|---|
//! | step of re-purposing (a fifth in Fig. 12 and 13) | `stride` steps, then 1 |
//! | stop "when performance stops increasing" | `Worse` once, or `Same` beyond `PATIENCE` times in a row |

use super::estimate::{Estimate, Objective, Verdict};

/// Positions without significant change that are passed over. A guess (0 to 2): one, so that a plateau of noise is crossed.
const PATIENCE: u8 = 1;

/// The search along one knob.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sweep {
    objective: Objective,
    low: u8,
    high: u8,
    best: u8,
    worth: Estimate,
    /// What the last significant improvement is worth: small ones add up against it.
    anchor: Estimate,
    up: bool,
    stride: u8,
    tried: u32,
    /// Where the search stands: the position tried last, how many in a row changed nothing.
    cursor: u8,
    fruitless: u8,
    /// Width of the fine steps around `center`; zero while steps are coarse and at the end.
    fine: u8,
    center: u8,
    is_coarse: bool,
}

impl Sweep {
    /// A search inside `low..=high`, upwards or downwards from `from`, which is worth `worth`. Positions are below 32.
    pub(super) fn new(
        objective: Objective,
        (low, high): (u8, u8),
        (from, worth): (u8, Estimate),
        up: bool,
        stride: u8,
    ) -> Self {
        Self {
            objective,
            low,
            high,
            best: from,
            worth,
            anchor: worth,
            up,
            stride: stride.max(1),
            tried: bit(from),
            cursor: from,
            fruitless: 0,
            fine: 0,
            center: from,
            is_coarse: true,
        }
    }

    /// The best position known and what it is worth.
    pub(super) fn best(&self) -> (u8, Estimate) {
        (self.best, self.worth)
    }

    /// The next position to try; none at the end.
    pub(super) fn next(&mut self) -> Option<u8> {
        if self.is_coarse {
            let next = self.beside(self.cursor, self.up, self.stride);
            if self.tried & bit(next) == 0 {
                return Some(self.go(next));
            }
            self.refine();
        }
        while 0 < self.fine {
            let ways = [self.up, !self.up].map(|up| self.beside(self.center, up, self.fine));
            if let Some(next) = ways.into_iter().find(|next| self.tried & bit(*next) == 0) {
                return Some(self.go(next));
            }
            self.fine /= 2;
            self.center = self.best;
        }
        None
    }

    /// Takes what the position last returned by [`Self::next`] is worth.
    pub(super) fn learn(&mut self, worth: Estimate) {
        let gain = worth.against(&self.anchor, self.objective);
        let verdict = worth.against(&self.worth, self.objective);
        // Of two that do not differ significantly the better figure is kept.
        let leans = worth.leans_better(&self.worth, self.objective);
        if verdict == Verdict::Better || (verdict == Verdict::Same && leans) {
            (self.best, self.worth) = (self.cursor, worth);
        }
        if gain == Verdict::Better {
            (self.anchor, self.fruitless) = (worth, 0);
        } else {
            self.fruitless += 1;
        }
        if self.is_coarse && (verdict == Verdict::Worse || PATIENCE < self.fruitless) {
            self.refine();
        }
    }

    fn refine(&mut self) {
        self.is_coarse = false;
        self.fine = self.stride / 2;
        self.center = self.best;
    }

    fn go(&mut self, next: u8) -> u8 {
        self.tried |= bit(next);
        self.cursor = next;
        next
    }

    fn beside(&self, position: u8, up: bool, by: u8) -> u8 {
        let next = if up { position.saturating_add(by) } else { position.saturating_sub(by) };
        next.clamp(self.low, self.high)
    }
}

fn bit(position: u8) -> u32 {
    1 << position.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::form::FormSignal;
    use units::{Duration, Rng};

    fn worth(us: f64, error: f64) -> Estimate {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
        let latency = Duration::from_nanos((us * 1e3) as u64);
        let signal = FormSignal {
            operations: 1,
            latency,
            tail: latency,
            latency_error: Some(error),
            tail_error: Some(error),
            ..FormSignal::default()
        };
        Estimate::of(Some(&signal)).unwrap()
    }

    fn run(from: u8, up: bool, stride: u8, us: &mut dyn FnMut(u8) -> f64, error: f64) -> (u8, u32) {
        let start = worth(us(from), error);
        let mut sweep = Sweep::new(Objective::Mean, (0, 10), (from, start), up, stride);
        let mut trials = 0;
        while let Some(next) = sweep.next() {
            sweep.learn(worth(us(next), error));
            trials += 1;
            assert!(trials <= 10, "no position twice");
        }
        (sweep.best().0, trials)
    }

    #[test]
    fn the_one_maximum_is_found_wherever_it_is() {
        for at in 0..=10_u8 {
            for stride in [1, 2, 4] {
                let mut us = |x: u8| 100.0 + 10.0 * f64::from(x.abs_diff(at));
                let (best, _) = run(0, true, stride, &mut us, 0.0);
                assert_eq!(best, at, "stride {stride}");
                let (best, _) = run(10, false, stride, &mut us, 0.0);
                assert_eq!(best, at, "stride {stride}, downwards");
            }
        }
    }

    #[test]
    fn noise_does_not_end_the_search_far_from_the_maximum() {
        for seed in 1..=200 {
            let mut rng = Rng::new(seed);
            let at = u8::try_from(rng.below(11)).unwrap();
            let mut us = |x: u8| {
                let noise = 1.0 + 0.02 * ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0);
                (100.0 + 6.0 * f64::from(x.abs_diff(at))) * noise
            };
            let (best, trials) = run(0, true, 2, &mut us, 0.02);
            assert!(best.abs_diff(at) <= 1 && trials <= 10, "seed {seed}: {best} for {at}");
        }
    }

    #[test]
    fn a_flat_knob_is_left_early() {
        let (_, trials) = run(0, true, 2, &mut |_| 100.0, 0.01);
        assert!(trials <= 3, "{trials}");
    }
}
