//! How a tier's reads and writes slow each other: what each gets of a grid of rates that are wanted of both at once.
//!
//! Shape:      the most of each kind alone -> rates in equal steps up to it -> what both got, for every pair
//! Invariants: rates wanted are those that were reached alone; each list begins with nothing and rises
//! Units:      bytes per second
//! Cost:       [`RUNS`] runs
//! Source:     MT² §5.1 (empirical model: bandwidths without interference in, as they run together out). The grid of five by five
//!             is ours; the paper calls its own coarse (§7)
//! Non-goals:  DRAM's traffic: what a tier's accesses and DRAM's do to each other is not measured

use units::Bytes;

/// Steps of each rate above nothing (guess: the figures of MT² bend once between nothing and all).
const STEPS: usize = 4;
/// Runs that a measurement takes.
pub const RUNS: usize = (STEPS + 1) * (STEPS + 1) - 1;

/// What reads and writes of a tier got that were wanted together.
#[derive(Clone, PartialEq, Debug)]
pub struct Competition {
    /// Size of the accesses.
    pub size: Bytes,
    /// Reads that were wanted, as they were reached alone: the first is zero.
    pub reads: Vec<f64>,
    /// The same of writes.
    pub writes: Vec<f64>,
    /// What reads and writes got, for every rate of reads with every rate of writes, the latter varying fastest.
    pub got: Vec<[f64; 2]>,
}

impl Competition {
    /// Measures: `run` is told how much is wanted of reads and of writes (zero: none, infinite: as much as there is) and returns
    /// what each got.
    ///
    /// # Errors
    /// The first of `run`.
    pub fn measured<E>(size: Bytes, mut run: impl FnMut([f64; 2]) -> Result<[f64; 2], E>) -> Result<Self, E> {
        let most = [run([f64::INFINITY, 0.0])?[0], run([0.0, f64::INFINITY])?[1]];
        let wanted = |kind: usize, step: usize| match step {
            STEPS => f64::INFINITY,
            _ => most[kind] * step as f64 / STEPS as f64,
        };
        let mut got = [[[0.0; 2]; STEPS + 1]; STEPS + 1];
        for (i, row) in got.iter_mut().enumerate() {
            for (j, got) in row.iter_mut().enumerate() {
                *got = match (i, j) {
                    (0, 0) => [0.0, 0.0],
                    (STEPS, 0) => [most[0], 0.0],
                    (0, STEPS) => [0.0, most[1]],
                    _ => run([wanted(0, i), wanted(1, j)])?,
                };
            }
        }
        // Alone a busy machine may reach less with a step more: such a step says nothing.
        let (reads, writes) = (rising(|i| got[i][0][0]), rising(|j| got[0][j][1]));
        let pairs = reads.iter().flat_map(|&(i, _)| writes.iter().map(move |&(j, _)| (i, j)));
        let got = pairs.map(|(i, j)| got[i][j]).collect();
        let rates = |of: &[(usize, f64)]| of.iter().map(|(_, rate)| *rate).collect();
        Ok(Self { size, reads: rates(&reads), writes: rates(&writes), got })
    }

    /// The same of a tier whose rates are others in proportion.
    pub(super) fn at(mut self, rate: impl Fn(f64) -> f64) -> Self {
        let got = self.got.iter_mut().flatten();
        self.reads.iter_mut().chain(&mut self.writes).chain(got).for_each(|one| *one = rate(*one));
        self
    }

    /// Part of what was wanted that reads and writes got, for rates by their places.
    #[must_use]
    pub fn kept(&self, read: usize, write: usize) -> [Option<f64>; 2] {
        let got = self.got.get(read * self.writes.len() + write);
        let part = |kind: usize, wanted: Option<&f64>| {
            let wanted = wanted.copied().filter(|wanted| 0.0 < *wanted)?;
            Some((got?[kind] / wanted).min(1.0))
        };
        [part(0, self.reads.get(read)), part(1, self.writes.get(write))]
    }
}

/// The steps at which `alone` is above all before, the first among them, with what it is there.
fn rising(alone: impl Fn(usize) -> f64) -> Vec<(usize, f64)> {
    let mut kept: Vec<(usize, f64)> = Vec::with_capacity(STEPS + 1);
    for step in 0..=STEPS {
        let rate = alone(step);
        if kept.last().is_none_or(|(_, before)| *before < rate) {
            kept.push((step, rate));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// A medium of 100 that writes use up four times as fast.
    fn proportional([reads, writes]: [f64; 2]) -> [f64; 2] {
        let (reads, writes) = (reads.min(100.0), writes.min(25.0));
        let part = (100.0 / (reads + 4.0 * writes)).min(1.0);
        [reads * part, writes * part]
    }

    #[test]
    fn every_pair_is_run_once_and_what_is_reached_alone_is_what_is_wanted() {
        let mut runs = 0;
        let run = |wanted| {
            runs += 1;
            Ok::<_, Infallible>(proportional(wanted))
        };
        let found = Competition::measured(Bytes(256), run).unwrap();
        assert_eq!(runs, RUNS);
        assert_eq!(found.reads, [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(found.writes, [0.0, 6.25, 12.5, 18.75, 25.0]);
        assert_eq!(found.got.len(), 25);
        assert_eq!(found.kept(4, 4), [Some(0.5), Some(0.5)]);
        assert_eq!(found.kept(2, 2), [Some(1.0), Some(1.0)]);
        assert_eq!(found.kept(3, 0), [Some(1.0), None]);
        assert_eq!(found.kept(5, 0), [None, None]);
    }

    #[test]
    fn a_step_that_reaches_no_more_is_left_out() {
        let run = |wanted: [f64; 2]| {
            let mut got = proportional(wanted);
            // Three quarters, alone.
            if 70.0 < wanted[0] && wanted[0] < 80.0 && wanted[1] < 1.0 {
                got[0] = 49.0;
            }
            Ok::<_, Infallible>(got)
        };
        let found = Competition::measured(Bytes(256), run).unwrap();
        assert_eq!(found.reads, [0.0, 25.0, 50.0, 100.0]);
        assert_eq!(found.got.len(), 4 * 5);
        assert_eq!(found.kept(3, 4), [Some(0.5), Some(0.5)], "rows are those of the rates that are left");
    }

    #[test]
    fn a_run_that_fails_ends_it() {
        let mut left = 3;
        let run = |wanted| {
            left -= 1;
            if left == 0 { Err("broken") } else { Ok(proportional(wanted)) }
        };
        assert_eq!(Competition::measured(Bytes(256), run), Err("broken"));
    }
}
