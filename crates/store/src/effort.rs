//! How thoroughly cleaning passes choose, under a limit on the CPU time that they take.
//!
//! Shape:      CPU time of cleaning and of everything, requests and writes of an interval -> thousandths of what a pass
//!             surveys that it marks to go
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

use crate::limits::{MARKS_MAX, MARKS_MIN};
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
const MARKS: [usize; 19] =
    [75, 85, 97, 110, 123, 137, 154, 172, 192, 215, 240, 268, 300, 335, 375, 420, 470, 525, 590];
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
        }
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
            self.change(0);
            return self.marks();
        }
        if self.total < TOTAL_MIN {
            return self.marks();
        }
        if self.limit() < self.share() {
            self.give_way();
        } else if 0 < self.level && self.fits(self.level - 1, SLACK) {
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
mod tests {
    use super::*;
    use units::Rng;

    /// A server with so many requests a second that take so long, some of which write items that fill memory.
    struct Plant {
        requests: u64,
        request_ns: f64,
        writes: f64,
        /// Cleaning per write at the most thorough, and how that falls with the marks: as their power.
        clean_ns: f64,
        power: f64,
        /// What varies from interval to interval, as a part.
        noise: f64,
        /// CPU time that there is, in that of the requests.
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
                clean_ns: 172.0,
                power: 1.0,
                noise: 0.0,
                spare: 1.0,
                rng,
            }
        }

        fn interval(&mut self, marks: usize) -> Interval {
            let per_write = self.clean_ns * (MARKS_MIN as f64 / marks as f64).powf(self.power);
            let writes = self.requests as f64 * self.writes;
            let odd = 1.0 + self.noise * (2.0 * self.rng.index(1_001) as f64 / 1_000.0 - 1.0);
            let cleaning = writes * per_write * odd;
            let requests = self.requests as f64 * self.request_ns;
            let total = cleaning + requests;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, small")]
            let whole = |x: f64| x as u64;
            Interval {
                passed: Duration::from_secs(1),
                cleaning: Duration(whole(cleaning)),
                total: Duration(whole(total)),
                available: Duration(whole(requests * self.spare)),
                requests: self.requests,
                writes: whole(writes),
                put_below: 0,
            }
        }

        fn share(&mut self, marks: usize) -> f64 {
            let interval = self.interval(marks);
            interval.cleaning.0 as f64 / interval.total.0 as f64
        }
    }

    /// A quarter of it.
    fn quarter(whole: Interval) -> Interval {
        let of = |time: Duration| Duration(time.0 / 4);
        Interval {
            passed: of(whole.passed),
            cleaning: of(whole.cleaning),
            total: of(whole.total),
            available: of(whole.available),
            requests: whole.requests / 4,
            writes: whole.writes / 4,
            put_below: whole.put_below / 4,
        }
    }

    /// Runs so many intervals; returns how often the answer changed.
    fn run(effort: &mut Effort, plant: &mut Plant, intervals: u32) -> u32 {
        (0..intervals)
            .map(|_| {
                let before = effort.marks();
                let interval = plant.interval(before);
                u32::from(effort.step(&interval) != before)
            })
            .sum()
    }

    #[test]
    fn it_settles_where_the_limit_holds_and_no_further() {
        // Nanoseconds per request, write share, nanoseconds of cleaning and their power.
        for (request_ns, writes, clean_ns, power) in [
            (700.0, 1.0, 172.0, 1.0),
            (700.0, 0.5, 172.0, 1.0),
            (450.0, 0.05, 172.0, 1.0),
            (450.0, 0.2, 340.0, 1.3),
            (10_000.0, 1.0, 172.0, 1.0),
            (300.0, 1.0, 172.0, 1.0),
            (1_000.0, 1.0, 255.0, 0.8),
        ] {
            let mut plant = Plant { clean_ns, power, ..Plant::new(request_ns, writes) };
            let mut effort = Effort::new(0.05);
            let name = format!("{request_ns} ns, {writes} writes, {clean_ns} ns to the {power}");
            let changes = run(&mut effort, &mut plant, 12);
            assert!(changes <= 4, "{name}: {changes} changes until it was there");
            let limit = effort.limit();
            let share = plant.share(effort.marks());
            assert!(share <= limit || effort.marks() == MARKS_MAX, "{name}: {share} above {limit}");
            run(&mut effort, &mut plant, 100);
            assert_eq!(run(&mut effort, &mut plant, 100), 0, "{name}: it goes to and fro");
            let (share, marks) = (plant.share(effort.marks()), effort.marks());
            assert!(share <= limit || marks == MARKS_MAX, "{name}: {share} above {limit} at {marks}");
            let before = MARKS[effort.level.saturating_sub(1)];
            let thorough = if effort.level == 0 { 1.0 } else { plant.share(before) };
            assert!(limit * SLACK * 0.95 <= thorough, "{name}: {marks} marked, though {thorough} of {limit}");
        }
    }

    #[test]
    fn the_limit_follows_the_write_share() {
        for (writes, limit) in [(0.0, 0.05), (0.05, 0.05), (0.525, 0.085), (1.0, 0.12)] {
            let mut effort = Effort::new(0.05);
            run(&mut effort, &mut Plant::new(500.0, writes), 20);
            assert!((effort.limit() - limit).abs() < 1e-3, "{writes}: {}", effort.limit());
        }
    }

    #[test]
    fn it_comes_back_when_the_writes_are_over() {
        let mut effort = Effort::new(0.05);
        run(&mut effort, &mut Plant::new(400.0, 1.0), 20);
        assert!(3 < effort.level, "{}", effort.marks());
        run(&mut effort, &mut Plant::new(400.0, 0.02), 80);
        assert_eq!(effort.marks(), MARKS_MIN);
    }

    #[test]
    fn passes_are_thorough_while_they_put_values_below() {
        let mut effort = Effort::new(0.05);
        let mut plant = Plant::new(400.0, 1.0);
        run(&mut effort, &mut plant, 20);
        let given_way = effort.marks();
        assert!(MARKS_MIN < given_way);
        let few = plant.interval(given_way);
        let few = Interval { put_below: few.writes / 20, ..few };
        (0..20).for_each(|_| _ = effort.step(&few));
        assert!(MARKS_MIN < effort.marks(), "a few of what is stored change nothing");
        let most = Interval { put_below: few.writes, ..few };
        (0..2).for_each(|_| _ = effort.step(&most));
        assert_eq!(effort.marks(), MARKS_MIN);
        assert!((effort.limit() - 1.0).abs() < 1e-9, "{}", effort.limit());
        assert_eq!(
            effort.step(&Interval { put_below: 0, ..most }),
            MARKS_MIN,
            "a moment without changes nothing"
        );
        run(&mut effort, &mut plant, 20);
        assert!(plant.share(effort.marks()) <= 0.12, "and they give way again when that is over");
    }

    #[test]
    fn a_rest_is_forgotten_within_three_seconds_however_long_it_was() {
        for rest_secs in [1, 60] {
            let mut effort = Effort::new(0.05);
            let passed = Duration::from_secs(rest_secs);
            let rest = Interval {
                passed,
                total: Duration(passed.0 / 100),
                available: passed,
                ..Interval::default()
            };
            (0..50).for_each(|_| _ = effort.step(&rest));
            let mut plant = Plant::new(700.0, 1.0);
            let mut in_quarters = effort.clone();
            run(&mut effort, &mut plant, 3);
            for _ in 0..12 {
                let second = plant.interval(in_quarters.marks());
                in_quarters.step(&quarter(second));
            }
            let shares = [plant.share(effort.marks()), plant.share(in_quarters.marks())];
            assert!(shares.iter().all(|share| *share <= 0.12), "{shares:?} after a rest of {rest_secs} s");
        }
    }

    /// What is chosen badly in a moment is gone for good, and the CPU time of that moment is little.
    #[test]
    fn a_moment_without_cpu_time_to_spare_does_not_make_it_give_way() {
        let mut effort = Effort::new(0.05);
        let of = |ms: u64, used_percent: u64| {
            let passed = Duration::from_millis(ms);
            let total = Duration(passed.0 / 100 * used_percent);
            Interval {
                passed,
                cleaning: Duration(total.0 / 5 * 2),
                total,
                available: passed,
                requests: 1_000,
                writes: 250,
                put_below: 0,
            }
        };
        for round in 0..50 {
            (0..2).for_each(|_| _ = effort.step(&of(900, 40)));
            effort.step(&of(250, 95));
            assert_eq!(effort.marks(), MARKS_MIN, "round {round}");
        }
        (0..4).for_each(|_| _ = effort.step(&of(900, 95)));
        assert!(240 < effort.marks(), "where it lasts it does: {}", effort.marks());
    }

    /// A short burst of cleaning among seconds of little is judged by what both took together.
    #[test]
    fn an_interval_counts_as_long_as_it_was() {
        let mut effort = Effort::new(0.05);
        let of = |ms: u64, cleaning_percent: u64| {
            let total = Duration::from_millis(ms);
            let cleaning = Duration(total.0 / 100 * cleaning_percent);
            Interval {
                passed: total,
                cleaning,
                total,
                available: total,
                requests: 1_000,
                writes: 20,
                put_below: 0,
            }
        };
        (0..20).for_each(|_| _ = effort.step(&of(900, 0)));
        for round in 0..50 {
            effort.step(&of(250, 30));
            (0..3).for_each(|_| _ = effort.step(&of(900, 0)));
            assert_eq!(effort.marks(), MARKS_MIN, "round {round}: a fortieth of the time is cleaning");
        }
    }

    #[test]
    fn a_step_back_is_half_of_what_fits() {
        for (level, fitting, after) in
            [(14, 0, 7), (7, 0, 3), (3, 0, 1), (1, 0, 0), (14, 14, 14), (14, 13, 13), (0, 0, 0), (0, 4, 0)]
        {
            assert_eq!(step_back(level, fitting), after, "{level} {fitting}");
        }
    }

    #[test]
    fn the_way_back_takes_as_many_steps_as_halving_does() {
        for (request_ns, writes, steps) in [(400.0, 0.02, 5), (400.0, 0.1, 5), (700.0, 0.3, 5)] {
            let mut effort = Effort::new(0.05);
            run(&mut effort, &mut Plant::new(100.0, 1.0), 20);
            assert_eq!(effort.marks(), MARKS_MAX);
            let mut plant = Plant::new(request_ns, writes);
            // What lies behind is forgotten first; then each step waits for its calm intervals.
            run(&mut effort, &mut plant, 8 + steps * 2);
            let reached = effort.marks();
            run(&mut effort, &mut plant, 200);
            assert_eq!(reached, effort.marks(), "{writes} writes");
        }
    }

    #[test]
    fn it_gives_way_only_where_cpu_time_is_short() {
        let mut effort = Effort::new(0.05);
        let mut plant = Plant { spare: 3.0, ..Plant::new(400.0, 1.0) };
        run(&mut effort, &mut plant, 50);
        assert_eq!((effort.marks(), effort.limit()), (MARKS_MIN, 1.0));
        assert!(0.12 < plant.share(MARKS_MIN));
        plant.spare = 1.1;
        run(&mut effort, &mut plant, 50);
        assert!(3 < effort.level && (effort.limit() - 0.12).abs() < 1e-3, "{effort:?}");
        plant.spare = 3.0;
        run(&mut effort, &mut plant, 200);
        assert_eq!(effort.marks(), MARKS_MIN);
    }

    #[test]
    fn between_a_half_and_three_quarters_it_gives_way_by_degrees() {
        // Thirty per cent of the time is cleaning, if nothing is done about that; a third of it is left over at first, and none at last.
        let marks: Vec<usize> = (0..=12)
            .map(|step| {
                let spare = 2.2 - 0.1 * f64::from(step);
                let mut plant = Plant { spare, noise: 0.1, ..Plant::new(400.0, 1.0) };
                let mut effort = Effort::new(0.05);
                run(&mut effort, &mut plant, 200);
                let changes = run(&mut effort, &mut plant, 200);
                assert!(changes <= 10, "{spare}: {changes} changes in 200 intervals");
                effort.marks()
            })
            .collect();
        assert!(marks.is_sorted(), "{marks:?}");
        let (first, last) = (marks[0], marks[marks.len() - 1]);
        assert!(first == MARKS_MIN && 240 < last, "{marks:?}");
        let between = marks.iter().filter(|m| first < **m && **m < last).count();
        assert!(3 <= between, "{marks:?}");
    }

    #[test]
    fn noise_does_not_make_it_swing() {
        for seed in 1..=3 {
            let mut plant = Plant { noise: 0.5, rng: Rng::new(seed), ..Plant::new(700.0, 1.0) };
            let mut effort = Effort::new(0.05);
            run(&mut effort, &mut plant, 200);
            let changes = run(&mut effort, &mut plant, 400);
            assert!(changes <= 20, "seed {seed}: {changes} changes in 400 intervals");
        }
    }

    #[test]
    fn an_idle_server_changes_nothing() {
        let mut effort = Effort::new(0.05);
        let (cleaning, total) = (Duration(9), Duration(10));
        let passed = Duration::from_secs(1);
        let interval =
            Interval { passed, cleaning, total, available: total, requests: 1, writes: 1, put_below: 0 };
        assert_eq!((0..50).map(|_| effort.step(&interval)).max(), Some(MARKS_MIN));
        assert_eq!(Effort::new(1.0).step(&Interval { total: Duration(u64::MAX), ..interval }), MARKS_MIN);
    }
}
