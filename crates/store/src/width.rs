//! How thoroughly cleaning passes choose, under a limit on the CPU time that they take.
//!
//! Shape:      CPU time of cleaning and of everything, requests and writes of an interval -> segments that a pass frees of
//!             those that it takes
//! Invariants: between `FREES_MIN` and `FREES_MAX`; while a quarter of the CPU time that there is is left over it does not
//!             give way; else, above the limit, it gives way at once, below it takes back half of what it
//!             could at a time, and waits longer each time that this proves too much
//! Units:      any time, the same for both; one step per interval, of about a second
//! Source:     Memshare §3.2 and §5.3: n, the segments cleaned per segment freed, follows the write rate. We differ: a pass
//!             keeps its twenty candidates and frees more of them, the other way that §5.3 names. Replay of mix-dev in
//!             256 MiB, `shared`, `gdsf`: freeing 10 of 20 gives .8016 of hits and copies 6.4 GiB, 4 of 8 .7956 and 6.8,
//!             2 of 4 .7892 and 7.5, 1 of 2 .7843 and 7.8

use crate::limits::{PASS_FREES_PART, PASS_WIDTH};
use units::Duration;

/// Segments that a pass frees where there is time: the default of a store.
pub const FREES_MIN: usize = PASS_WIDTH / PASS_FREES_PART;
/// Segments that it frees at most: beyond it little is saved and much is lost (16 of 20 gives .7806 on mix-dev, 18 .7603).
pub const FREES_MAX: usize = 16;
const _: () = assert!(FREES_MIN < FREES_MAX && FREES_MAX < PASS_WIDTH);

/// Write share up to which the limit is the one that was set (Memshare §6.2.2 has 5 % and 100 % writes).
const FEW_WRITES: f64 = 0.05;
/// At writes only the limit is larger by this part of it: 12 % instead of 5 %.
const ALL_WRITES_MORE: f64 = 1.4;
/// Relative cost of looking at an item and of copying it: 28 ns and 20 ns where nothing else runs. Here, beside busy
/// neighbours, 84 ns and 92 ns; what frees 5 and 16 of 20 cost 4.1 to 1 there, and does 4.3 to 1 in this proportion.
const SCAN_COST: f64 = 28.0;
const COPY_COST: f64 = 20.0;
/// The limit counts from where so much of the CPU time that there is is used (guess, .5 to .9).
const LOADED: f64 = 0.75;
/// What stays of earlier intervals at each new one: passes come in bursts (guess; half of it counts for 2.4 intervals).
const KEPT: f64 = 0.75;
/// It gives way to this part of the limit, and takes back only what leaves it below the other.
const AIM: f64 = 0.95;
const SLACK: f64 = 0.85;
/// Calm intervals before it takes a step back, at first and at most.
const PATIENCE: (u32, u32) = (2, 64);
/// Intervals with less CPU time than this in sight say nothing.
const TOTAL_MIN: f64 = 1e6;

/// What an interval cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interval {
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
}

/// The controller.
#[derive(Clone, PartialEq, Debug)]
pub struct PassWidth {
    limit: f64,
    frees: usize,
    cleaning: f64,
    total: f64,
    available: f64,
    requests: f64,
    writes: f64,
    calm: u32,
    patience: u32,
    took_back: bool,
}

impl PassWidth {
    /// Keeps cleaning to `limit` of all CPU time, 0 to 1, where at most a twentieth of the requests writes, and to 2.4 times
    /// as much where all do.
    #[must_use]
    pub fn new(limit: f64) -> Self {
        Self {
            limit,
            frees: FREES_MIN,
            cleaning: 0.0,
            total: 0.0,
            available: 0.0,
            requests: 0.0,
            writes: 0.0,
            calm: 0,
            patience: PATIENCE.0,
            took_back: false,
        }
    }

    /// Segments that a pass frees of `PASS_WIDTH`.
    #[must_use]
    pub fn frees(&self) -> usize {
        self.frees
    }

    /// Part of the CPU time that cleaning took of late.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.total < TOTAL_MIN { 0.0 } else { self.cleaning / self.total }
    }

    /// The limit at the writes of late; all of it while there is CPU time to spare.
    #[must_use]
    pub fn limit(&self) -> f64 {
        if self.total < LOADED * self.available {
            return 1.0;
        }
        let writes = if 0.0 < self.requests { self.writes / self.requests } else { 0.0 };
        let beyond = ((writes - FEW_WRITES) / (1.0 - FEW_WRITES)).clamp(0.0, 1.0);
        self.limit * (1.0 + ALL_WRITES_MORE * beyond)
    }

    /// Takes an interval in; returns the segments that a pass frees from now on.
    pub fn step(&mut self, interval: &Interval) -> usize {
        let add = |sum: &mut f64, value: f64| *sum = *sum * KEPT + value;
        add(&mut self.cleaning, interval.cleaning.0.min(interval.total.0) as f64);
        add(&mut self.total, interval.total.0 as f64);
        add(&mut self.available, interval.available.0 as f64);
        add(&mut self.requests, interval.requests as f64);
        add(&mut self.writes, interval.writes.min(interval.requests) as f64);
        let limit = self.limit();
        if self.total < TOTAL_MIN {
            return self.frees;
        }
        if limit < self.share() {
            self.give_way(limit);
        } else if FREES_MIN < self.frees && self.share_at(self.frees - 1) <= limit * SLACK {
            self.calm += 1;
            if self.patience <= self.calm {
                self.take_back();
            }
        } else {
            self.calm = 0;
        }
        self.frees
    }

    /// The share that cleaning would have had if passes had freed so many.
    fn share_at(&self, frees: usize) -> f64 {
        let cleaning = self.cleaning * cost(frees) / cost(self.frees);
        cleaning / (self.total - self.cleaning + cleaning).max(1.0)
    }

    fn give_way(&mut self, limit: f64) {
        let fits = |frees: &usize| self.share_at(*frees) <= limit * AIM;
        let frees = (self.frees + 1..=FREES_MAX).find(fits).unwrap_or(FREES_MAX);
        if self.took_back {
            self.patience = (self.patience * 2).min(PATIENCE.1);
        }
        self.took_back = false;
        self.change(frees);
    }

    fn take_back(&mut self) {
        if self.took_back {
            self.patience = (self.patience / 2).max(PATIENCE.0);
        }
        self.took_back = true;
        self.change(step_back(self.frees, self.fitting()));
    }

    /// Segments that a pass may free and stay below the slack, by the model of the cost.
    fn fitting(&self) -> usize {
        let fits = |frees: &usize| self.share_at(*frees) <= self.limit() * SLACK;
        (FREES_MIN..self.frees).find(fits).unwrap_or(self.frees)
    }

    /// What lies behind counts as if it had been so already.
    fn change(&mut self, frees: usize) {
        let cleaning = self.cleaning * cost(frees) / cost(self.frees);
        self.total += cleaning - self.cleaning;
        self.cleaning = cleaning;
        self.frees = frees;
        self.calm = 0;
    }
}

/// Where a step back from `frees` leads if so few would fit: half of the way, rounded up. The model of the cost may be wrong,
/// and most of what it is wrong by shows after the first half.
fn step_back(frees: usize, fitting: usize) -> usize {
    frees - frees.saturating_sub(fitting).div_ceil(2)
}

/// Cost of a freed segment.
fn cost(frees: usize) -> f64 {
    let (takes, frees) = (PASS_WIDTH as f64, frees as f64);
    (SCAN_COST * takes + COPY_COST * (takes - frees)) / frees
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use units::Rng;

    /// A server with so many requests a second that take so long, some of which write items that fill memory.
    struct Plant {
        requests: u64,
        request_ns: f64,
        writes: f64,
        scan_ns: f64,
        copy_ns: f64,
        /// What varies from interval to interval, as a part.
        noise: f64,
        /// CPU time that there is, in that used.
        spare: f64,
        rng: Rng,
    }

    impl Plant {
        fn new(request_ns: f64, writes: f64) -> Self {
            let rng = Rng::new(1);
            Self {
                requests: 1_000_000,
                request_ns,
                writes,
                scan_ns: 28.0,
                copy_ns: 20.0,
                noise: 0.0,
                spare: 1.0,
                rng,
            }
        }

        fn interval(&mut self, frees: usize) -> Interval {
            let (takes, frees) = (PASS_WIDTH as f64, frees as f64);
            let per_write = (self.scan_ns * takes + self.copy_ns * (takes - frees)) / frees;
            let writes = self.requests as f64 * self.writes;
            let odd = 1.0 + self.noise * (2.0 * self.rng.index(1_001) as f64 / 1_000.0 - 1.0);
            let cleaning = writes * per_write * odd;
            let total = cleaning + self.requests as f64 * self.request_ns;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, small")]
            let whole = |x: f64| x as u64;
            Interval {
                cleaning: Duration(whole(cleaning)),
                total: Duration(whole(total)),
                available: Duration(whole(total * self.spare)),
                requests: self.requests,
                writes: whole(writes),
            }
        }

        fn share(&mut self, frees: usize) -> f64 {
            let interval = self.interval(frees);
            interval.cleaning.0 as f64 / interval.total.0 as f64
        }
    }

    /// Runs so many intervals; returns how often the answer changed.
    fn run(width: &mut PassWidth, plant: &mut Plant, intervals: u32) -> u32 {
        (0..intervals)
            .map(|_| {
                let before = width.frees();
                let interval = plant.interval(before);
                u32::from(width.step(&interval) != before)
            })
            .sum()
    }

    #[test]
    fn it_settles_where_the_limit_holds_and_no_further() {
        // Nanoseconds per request, write share, costs of scan and copy.
        for (request_ns, writes, scan_ns, copy_ns) in [
            (700.0, 1.0, 28.0, 20.0),
            (700.0, 0.5, 28.0, 20.0),
            (450.0, 0.05, 28.0, 20.0),
            (450.0, 0.2, 40.0, 60.0),
            (10_000.0, 1.0, 28.0, 20.0),
            (300.0, 1.0, 28.0, 20.0),
            (1_000.0, 1.0, 60.0, 5.0),
        ] {
            let mut plant = Plant { scan_ns, copy_ns, ..Plant::new(request_ns, writes) };
            let mut width = PassWidth::new(0.05);
            let name = format!("{request_ns} ns, {writes} writes, {scan_ns} and {copy_ns} ns");
            let changes = run(&mut width, &mut plant, 12);
            assert!(changes <= 4, "{name}: {changes} changes until it was there");
            let limit = width.limit();
            let share = plant.share(width.frees());
            assert!(share <= limit || width.frees() == FREES_MAX, "{name}: {share} above {limit}");
            run(&mut width, &mut plant, 100);
            assert_eq!(run(&mut width, &mut plant, 100), 0, "{name}: it goes to and fro");
            let (share, frees) = (plant.share(width.frees()), width.frees());
            assert!(share <= limit || frees == FREES_MAX, "{name}: {share} above {limit} at {frees}");
            let thorough = if frees == FREES_MIN { 1.0 } else { plant.share(frees - 1) };
            assert!(limit * SLACK * 0.95 <= thorough, "{name}: {frees} freed, though {thorough} of {limit}");
        }
    }

    #[test]
    fn the_limit_follows_the_write_share() {
        for (writes, limit) in [(0.0, 0.05), (0.05, 0.05), (0.525, 0.085), (1.0, 0.12)] {
            let mut width = PassWidth::new(0.05);
            run(&mut width, &mut Plant::new(500.0, writes), 20);
            assert!((width.limit() - limit).abs() < 1e-3, "{writes}: {}", width.limit());
        }
    }

    #[test]
    fn it_comes_back_when_the_writes_are_over() {
        let mut width = PassWidth::new(0.05);
        run(&mut width, &mut Plant::new(400.0, 1.0), 20);
        assert!(FREES_MIN + 3 < width.frees(), "{}", width.frees());
        run(&mut width, &mut Plant::new(400.0, 0.02), 80);
        assert_eq!(width.frees(), FREES_MIN);
    }

    #[test]
    fn a_step_back_is_half_of_what_fits() {
        for (frees, fitting, after) in
            [(16, 5, 10), (10, 5, 7), (7, 5, 6), (6, 5, 5), (16, 16, 16), (16, 15, 15), (5, 5, 5), (5, 9, 5)]
        {
            assert_eq!(step_back(frees, fitting), after, "{frees} {fitting}");
        }
    }

    #[test]
    fn the_way_back_takes_as_many_steps_as_halving_does() {
        for (request_ns, writes, steps) in [(400.0, 0.02, 4), (400.0, 0.1, 4), (700.0, 0.3, 5)] {
            let mut width = PassWidth::new(0.05);
            run(&mut width, &mut Plant::new(300.0, 1.0), 20);
            assert_eq!(width.frees(), FREES_MAX);
            let mut plant = Plant::new(request_ns, writes);
            // What lies behind is forgotten first; then each step waits for its calm intervals.
            run(&mut width, &mut plant, 8 + steps * PATIENCE.0);
            let reached = width.frees();
            run(&mut width, &mut plant, 200);
            assert_eq!(reached, width.frees(), "{writes} writes");
        }
    }

    #[test]
    fn it_gives_way_only_where_cpu_time_is_short() {
        let mut width = PassWidth::new(0.05);
        let mut plant = Plant { spare: 2.0, ..Plant::new(400.0, 1.0) };
        run(&mut width, &mut plant, 50);
        assert_eq!((width.frees(), width.limit()), (FREES_MIN, 1.0));
        assert!(0.12 < plant.share(FREES_MIN));
        plant.spare = 1.1;
        run(&mut width, &mut plant, 50);
        assert!(FREES_MIN + 3 < width.frees() && (width.limit() - 0.12).abs() < 1e-3, "{width:?}");
        plant.spare = 2.0;
        run(&mut width, &mut plant, 200);
        assert_eq!(width.frees(), FREES_MIN);
    }

    #[test]
    fn noise_does_not_make_it_swing() {
        for seed in 1..=3 {
            let mut plant = Plant { noise: 0.5, rng: Rng::new(seed), ..Plant::new(700.0, 1.0) };
            let mut width = PassWidth::new(0.05);
            run(&mut width, &mut plant, 200);
            let changes = run(&mut width, &mut plant, 400);
            assert!(changes <= 20, "seed {seed}: {changes} changes in 400 intervals");
        }
    }

    #[test]
    fn an_idle_server_changes_nothing() {
        let mut width = PassWidth::new(0.05);
        let (cleaning, total) = (Duration(9), Duration(10));
        let interval = Interval { cleaning, total, available: total, requests: 1, writes: 1 };
        assert_eq!((0..50).map(|_| width.step(&interval)).max(), Some(FREES_MIN));
        assert_eq!(PassWidth::new(1.0).step(&Interval { total: Duration(u64::MAX), ..interval }), FREES_MIN);
    }
}
