//! How thoroughly cleaning passes choose, under a limit on the CPU time that they take.
//!
//! Shape:      CPU time of cleaning and of everything, requests and writes of an interval -> thousandths of what a pass
//!             surveys that it marks to go; and whether what is half dead is cleaned before room is needed (`spare`)
//! Invariants: between `MARKS_MIN` and `MARKS_MAX`; while half of the CPU time that there is is left over it does not
//!             give way, and from there to where a quarter is the limit falls to what was set, by the load of some seconds:
//!             what is chosen badly in a moment is gone for good; above the limit it gives way at once, below it takes
//!             back half of what it could at a time, and waits longer each time that this proves too much; while passes
//!             put much of what is stored into a tier there is no limit
//! Units:      any time, the same for all; an interval counts as long as it was, and no more than `INTERVAL_MAX`, so that a rest
//!             is soon forgotten
//! Source:     Memshare §3.2 and §5.3: n, the segments cleaned per segment freed, follows the write rate. We differ: a pass
//!             marks more of what it surveys, so that segments are found that hold less of what stays. Replay of mix-dev in
//!             128 MiB: look-ups and copies per freed segment fall about as marks rise (`docs/decisions`)

mod spare;

use crate::limits::{MARKS_MAX, MARKS_MIN};
use spare::Spare;
use units::Duration;

/// Write share up to which the limit is the one that was set (Memshare §6.2.2 has 5 % and 100 % writes).
const FEW_WRITES: f64 = 0.05;
/// At writes only the limit is larger by this part of it: 12 % instead of 5 %.
const ALL_WRITES_MORE: f64 = 1.4;
/// Up to where the CPU time that there is is used without a limit, and from where the limit is the one that was set; falling
/// evenly between, for a load that wavers about one such point would give way again and again (guess, .5 to .9).
const LOADED: (f64, f64) = (0.5, 0.75);
/// Values that passes put into tiers, per command that stores, from where there is no limit (guess; on mix-dev it is about one).
const BELOW: f64 = 0.1;
/// Nanoseconds of an interval that count at most.
const INTERVAL_MAX: f64 = 9e8;
/// What stays after so long of what was before: passes differ, and a burst of writes is over soon (guess; half of it counts
/// for 1.2 s).
const KEPT: f64 = 0.6;
/// It gives way to this part of the limit, and takes back only what leaves it below the other.
const AIM: f64 = 0.95;
const SLACK: f64 = 0.85;
/// Calm times of `INTERVAL_MAX` before it takes a step back, at first and at most.
const PATIENCE: (f64, f64) = (2.0, 64.0);
/// Where less than this of the time was used nothing is said.
const TOTAL_MIN: f64 = 1e-3;
/// What a pass marks at each level, the most thorough first, each about an eighth more than the one before (guess).
const MARKS: [usize; 22] = [
    75, 85, 97, 110, 123, 137, 154, 172, 192, 215, 240, 268, 300, 335, 375, 420, 470, 525, 590, 665, 750, 840,
];
const LEVEL_MAX: usize = MARKS.len() - 1;
const _: () = assert!(MARKS[0] == MARKS_MIN && MARKS[LEVEL_MAX] == MARKS_MAX);

/// What an interval cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
    /// How long it was.
    pub passed: Duration,
    /// CPU time of cleaning, on whatever thread.
    pub cleaning: Duration,
    /// CPU time of everything, cleaning included.
    pub total: Duration,
    /// CPU time that there was for everything: what is left over costs nobody anything.
    pub available: Duration,
    /// Look-ups and commands that store.
    pub requests: u64,
    /// Commands that store.
    pub writes: u64,
    /// Values that passes put into tiers. What goes from DRAM too early then is what leads to a value below, and that is lost with
    /// it: more is copied between DRAM and the tier than thorough choosing costs.
    pub put_below: u64,
}

/// The controller.
#[derive(Clone, PartialEq, Debug)]
pub struct Effort {
    limit: f64,
    /// 0 is the most thorough.
    level: usize,
    cleaning: f64,
    total: f64,
    available: f64,
    requests: f64,
    writes: f64,
    put_below: f64,
    calm: f64,
    patience: f64,
    took_back: bool,
    spare: Spare,
}

impl Effort {
    /// Keeps cleaning to `limit` of all CPU time, 0 to 1, where at most a twentieth of the requests writes, and to 2.4 times
    /// as much where all do.
    #[must_use]
    pub fn new(limit: f64) -> Self {
        Self {
            limit,
            level: 0,
            cleaning: 0.0,
            total: 0.0,
            available: 0.0,
            requests: 0.0,
            writes: 0.0,
            put_below: 0.0,
            calm: 0.0,
            patience: PATIENCE.0,
            took_back: false,
            spare: Spare::new(),
        }
    }

    /// Whether segments that are mostly dead are reclaimed before anybody needs room.
    #[must_use]
    pub fn reclaims_early(&self) -> bool {
        self.spare.is_done()
    }

    /// Thousandths of what a pass surveys that it marks to go.
    #[must_use]
    pub fn marks(&self) -> usize {
        MARKS[self.level]
    }

    /// Part of the CPU time that cleaning took of late.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.total < TOTAL_MIN { 0.0 } else { self.cleaning / self.total }
    }

    /// The limit at the writes of late; all of it while there is CPU time to spare.
    #[must_use]
    pub fn limit(&self) -> f64 {
        self.limit_with(self.total)
    }

    /// The same if so much CPU time were used.
    fn limit_with(&self, total: f64) -> f64 {
        if self.puts_below() {
            return 1.0;
        }
        let writes = if 0.0 < self.requests { self.writes / self.requests } else { 0.0 };
        let beyond = ((writes - FEW_WRITES) / (1.0 - FEW_WRITES)).clamp(0.0, 1.0);
        let loaded = (self.limit * (1.0 + ALL_WRITES_MORE * beyond)).min(1.0);
        let (from, to) = LOADED;
        let load = if 0.0 < self.available { total / self.available } else { 1.0 };
        1.0 - (1.0 - loaded) * ((load - from) / (to - from)).clamp(0.0, 1.0)
    }

    /// Takes an interval in; returns what a pass marks from now on.
    pub fn step(&mut self, interval: &Interval) -> usize {
        let passed = interval.passed.0.max(1) as f64;
        let weight = (passed / INTERVAL_MAX).min(1.0);
        let kept = KEPT.powf(weight);
        let add = |sum: &mut f64, value: u64| *sum = *sum * kept + value as f64 / passed * weight;
        add(&mut self.cleaning, interval.cleaning.0.min(interval.total.0));
        add(&mut self.total, interval.total.0);
        add(&mut self.available, interval.available.0);
        add(&mut self.requests, interval.requests);
        add(&mut self.writes, interval.writes.min(interval.requests));
        add(&mut self.put_below, interval.put_below);
        if self.puts_below() {
            self.spare.kept(weight, true);
            self.change(0);
            return self.marks();
        }
        if self.total < TOTAL_MIN {
            self.spare.kept(weight, true);
            return self.marks();
        }
        if self.limit() < self.share() {
            self.spare.exceeded();
            self.give_way();
            return self.marks();
        }
        self.spare.kept(weight, self.level == 0 || 1.0 <= self.limit());
        if 0 < self.level && self.fits(self.level - 1, SLACK) {
            self.calm += weight;
            if self.patience <= self.calm {
                self.take_back();
            }
        } else {
            self.calm = 0.0;
        }
        self.marks()
    }

    /// Whether tiers take a good part of what is stored.
    fn puts_below(&self) -> bool {
        0.0 < self.put_below && self.writes * BELOW <= self.put_below
    }

    /// Whether at another level cleaning would have stayed below this part of the limit that would have been there.
    fn fits(&self, level: usize, part: f64) -> bool {
        let cleaning = self.cleaning * cost(level) / cost(self.level);
        let total = self.total - self.cleaning + cleaning;
        cleaning <= self.limit_with(total) * part * total
    }

    fn give_way(&mut self) {
        let level = (self.level + 1..=LEVEL_MAX).find(|level| self.fits(*level, AIM)).unwrap_or(LEVEL_MAX);
        if self.took_back {
            self.patience = (self.patience * 2.0).min(PATIENCE.1);
        }
        self.took_back = false;
        self.change(level);
    }

    fn take_back(&mut self) {
        if self.took_back {
            self.patience = (self.patience / 2.0).max(PATIENCE.0);
        }
        self.took_back = true;
        self.change(step_back(self.level, self.fitting()));
    }

    /// The most thorough level that stays below the slack, by the model of the cost.
    fn fitting(&self) -> usize {
        (0..self.level).find(|level| self.fits(*level, SLACK)).unwrap_or(self.level)
    }

    /// What lies behind counts as if it had been so already.
    fn change(&mut self, level: usize) {
        let cleaning = self.cleaning * cost(level) / cost(self.level);
        self.total += cleaning - self.cleaning;
        self.cleaning = cleaning;
        self.level = level;
        self.calm = 0.0;
    }
}

/// Where a step back from `level` leads if that one would fit: half of the way, rounded up. The model of the cost may be wrong,
/// and most of what it is wrong by shows after the first half.
fn step_back(level: usize, fitting: usize) -> usize {
    level - level.saturating_sub(fitting).div_ceil(2)
}

/// Cost of a freed segment, in any unit.
fn cost(level: usize) -> f64 {
    1.0 / MARKS[level] as f64
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
