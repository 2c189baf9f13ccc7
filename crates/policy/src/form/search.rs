//! One tenant's search: how much memory, then how much compressed, then how the rest is shared again.
//!
//! Shape:      windows -> trials of splits, one after another -> the best split
//! Invariants: a split's steps never exceed all steps; a search ends after at most one trial per position of its knobs
//! Source:     PolyEMT §3.1 (function), §3.2 (representation: one compressed share for both functions), §5.3 (then
//!             re-apportion what is left)
//!
//! | Paper | here |
//! |---|---|
//! | knob 1: volatile against non-volatile | `Split::memory` of the steps that are not compressed |
//! | knob 2: compressed, "combined" over both functions | `Split::compressed`, taken from both in proportion |
//! | throughput | [`Objective::Mean`] |
//! | tail "without impacting the average" | [`Objective::Tail`] |

use super::estimate::{Estimate, Objective, Progress, Trial};
use super::sweep::Sweep;
use control::form::{FormSignal, Forms};
use control::{Row, Window};
use units::{Bytes, Duration};

/// A split in steps; what is neither memory nor compressed is write cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Split {
    pub memory: u8,
    pub compressed: u8,
}

/// What a search looks through.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stage {
    /// The split that the search begins with is measured.
    Base,
    /// Knob 1 upwards (§3.1).
    Function(Sweep),
    /// Knob 2 upwards; the memory that the functional step found, in steps.
    Representation(Sweep, u8),
    /// Knob 1 downwards, then upwards, with the compressed steps that were found.
    Apportion(Sweep, u8),
}

/// A search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Search {
    steps: u8,
    stride: u8,
    representation: bool,
    stage: Stage,
    split: Split,
    best: Split,
    trial: Trial,
}

/// What a window changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The same split needs another window.
    Wait,
    /// Another split is tried.
    Try,
    /// The search has ended; the best is asked for.
    End,
    /// Signals are missing: given up, the best known is asked for.
    Lost,
}

impl Split {
    /// `amount` in this split, exactly.
    pub(super) fn of(self, amount: Bytes, steps: u8) -> Forms {
        let part = |count: u8| amount.scale(u64::from(count), u64::from(steps));
        let (memory, compressed) = (part(self.memory), part(self.compressed));
        if self.memory + self.compressed == steps {
            // No write cache: what rounding leaves is no byte of it.
            let memory = if self.memory == 0 { Bytes::ZERO } else { amount.saturating_sub(compressed) };
            return Forms { write_cache: Bytes::ZERO, memory, compressed: amount.saturating_sub(memory) };
        }
        Forms { write_cache: amount.saturating_sub(memory + compressed), memory, compressed }
    }
}

impl Search {
    /// A search that begins with everything as write cache.
    pub(super) fn new(steps: u8, stride: u8, representation: bool, signal: Option<&FormSignal>) -> Self {
        Self {
            steps,
            stride,
            representation,
            stage: Stage::Base,
            split: Split::default(),
            best: Split::default(),
            trial: Trial::beginning(signal),
        }
    }

    /// The split that is asked for now.
    pub(super) fn split(&self) -> Split {
        self.split
    }

    /// How long the split needs before it can be judged, if that is longer than a window.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.trial.wait()
    }

    /// Takes a window of the split that was asked for.
    pub(super) fn observe(&mut self, window: Window, row: &Row<FormSignal, Forms>, asked: Forms) -> Step {
        match self.trial.observe(window, row, asked) {
            Progress::Open => Step::Wait,
            Progress::Lost => {
                self.split = self.best;
                Step::Lost
            }
            Progress::Done(worth) => {
                self.trial = Trial::beginning(row.signal.as_ref());
                if self.advance(worth) { Step::Try } else { Step::End }
            }
        }
    }

    /// Takes what the split is worth and chooses the next; false at the end.
    fn advance(&mut self, worth: Estimate) -> bool {
        match &mut self.stage {
            Stage::Base => {
                let from = (0, worth);
                self.stage =
                    Stage::Function(Sweep::new(Objective::Mean, (0, self.steps), from, true, self.stride));
            }
            Stage::Function(sweep) | Stage::Representation(sweep, _) | Stage::Apportion(sweep, _) => {
                sweep.learn(worth);
            }
        }
        self.follow()
    }

    /// Goes on to the next position, of this stage or of the next one.
    fn follow(&mut self) -> bool {
        loop {
            let steps = self.steps;
            let (sweep, split): (&mut Sweep, &dyn Fn(u8) -> Split) = match &mut self.stage {
                Stage::Base => return false,
                Stage::Function(sweep) => (sweep, &|memory| Split { memory, compressed: 0 }),
                Stage::Representation(sweep, memory) => {
                    let memory = *memory;
                    (sweep, &move |compressed| proportional(memory, compressed, steps))
                }
                Stage::Apportion(sweep, compressed) => {
                    let compressed = *compressed;
                    (sweep, &move |memory| Split { memory, compressed })
                }
            };
            let next = sweep.next();
            let (best, worth) = sweep.best();
            self.best = split(best);
            if let Some(next) = next {
                self.split = split(next);
                return true;
            }
            if !self.turn(worth) {
                self.split = self.best;
                return false;
            }
        }
    }

    /// Turns to the next stage from the best split, worth `worth`; false if there is none.
    fn turn(&mut self, worth: Estimate) -> bool {
        let (best, steps) = (self.best, self.steps);
        let sweep = |range, from, up| Sweep::new(Objective::Tail, range, (from, worth), up, self.stride);
        self.stage = match &self.stage {
            Stage::Function(_) if self.representation => {
                Stage::Representation(sweep((0, steps), 0, true), best.memory)
            }
            // Towards the write cache first: that is where §5.3 ends.
            Stage::Representation(..) if 0 < best.compressed => {
                Stage::Apportion(sweep((0, steps - best.compressed), best.memory, false), best.compressed)
            }
            _ => return false,
        };
        true
    }
}

/// `compressed` steps taken from memory and write cache in proportion to what they were.
fn proportional(memory: u8, compressed: u8, steps: u8) -> Split {
    let left = u16::from(steps - compressed.min(steps));
    let scaled = (u16::from(memory) * left + u16::from(steps) / 2) / u16::from(steps.max(1));
    Split { memory: u8::try_from(scaled.min(left)).unwrap_or(0), compressed: compressed.min(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_sums_to_its_amount() {
        for amount in [0, 1, 9, 10, (6 << 30) + 3] {
            for steps in [2, 5, 10, 20] {
                for compressed in 0..=steps {
                    for memory in 0..=steps - compressed {
                        let forms = Split { memory, compressed }.of(Bytes(amount), steps);
                        assert_eq!(forms.write_cache + forms.memory + forms.compressed, Bytes(amount));
                        assert!(memory + compressed < steps || forms.write_cache == Bytes::ZERO);
                        assert!(0 < compressed || forms.compressed == Bytes::ZERO, "{amount} {steps}");
                    }
                }
            }
        }
    }

    #[test]
    fn compressed_steps_come_from_both_functions() {
        for (memory, compressed, expected) in
            [(6, 0, 6), (6, 2, 5), (6, 5, 3), (6, 10, 0), (10, 2, 8), (0, 4, 0)]
        {
            let split = proportional(memory, compressed, 10);
            assert_eq!((split.memory, split.compressed), (expected, compressed));
        }
    }
}
