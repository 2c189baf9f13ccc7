//! What the controller does with loads that are modelled.

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

/// An interval in which so much of the CPU time that there was is used, of that so much by cleaning, and so many of a thousand requests write.
fn busy(ms: u64, used_percent: u64, cleaning_percent: u64, writes: u64) -> Interval {
    let passed = Duration::from_millis(ms);
    let total = Duration(passed.0 / 100 * used_percent);
    Interval {
        passed,
        cleaning: Duration(total.0 / 100 * cleaning_percent),
        total,
        available: passed,
        requests: 1_000,
        writes,
        put_below: 0,
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
        let rest =
            Interval { passed, total: Duration(passed.0 / 100), available: passed, ..Interval::default() };
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
    let of = |ms, used_percent| busy(ms, used_percent, 40, 250);
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
    let of = |ms, cleaning_percent| busy(ms, 100, cleaning_percent, 20);
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

/// What is reclaimed without need is in no level's cost: it ends where the limit is not kept, and begins again ever more seldom while
/// that is too much; where there is time to spare, or nothing to do, it comes back.
#[test]
fn what_nobody_needs_ends_at_the_limit_and_begins_again_ever_later() {
    let mut effort = Effort::new(0.05);
    assert!(effort.reclaims_early());
    // A twentieth of the requests writes; cleaning takes 8 % with what nobody needs, 3 % without.
    let step = |effort: &mut Effort| {
        let before = effort.reclaims_early();
        effort.step(&busy(900, 100, if before { 8 } else { 3 }, 50));
        (before, before != effort.reclaims_early())
    };
    let (done, changes) = (0..1_000).fold((0, 0), |(done, changes), _| {
        let (does, changed) = step(&mut effort);
        (done + u32::from(does), changes + u32::from(changed))
    });
    assert!(
        (3..=20).contains(&changes) && done <= 40,
        "{changes} changes, {done} of 1,000 intervals with it"
    );
    let later = (0..2_000).filter(|_| step(&mut effort).1).count();
    assert!((2..=8).contains(&later), "{later} changes in another 2,000");
    while step(&mut effort).0 {}
    for idle in [busy(900, 30, 8, 50), busy(900, 0, 0, 0)] {
        let mut effort = effort.clone();
        effort.step(&idle);
        assert!(!effort.reclaims_early());
        let does = |effort: &mut Effort| {
            effort.step(&idle);
            effort.reclaims_early()
        };
        let back = (0..1_000).position(|_| does(&mut effort));
        assert!(back.is_some() && (0..1_000).all(|_| does(&mut effort)), "it comes back and stays: {back:?}");
    }
}

/// As long as a level keeps cleaning to its limit there is no time to spare; when it went well for long the next try comes sooner.
#[test]
fn what_nobody_needs_waits_for_levels() {
    let mut effort = Effort::new(0.05);
    run(&mut effort, &mut Plant::new(700.0, 1.0), 500);
    assert!(0 < effort.level && !effort.reclaims_early());
    let (light, heavy) = (busy(900, 100, 1, 50), busy(900, 100, 50, 50));
    let until = |effort: &mut Effort, does: bool, interval: &Interval| {
        (0..2_000).find(|_| {
            effort.step(interval);
            effort.reclaims_early() == does
        })
    };
    let mut patience = Vec::new();
    for calm in [0, 0, 0, 200, 200, 200] {
        assert!(until(&mut effort, true, &light).is_some());
        (0..calm).for_each(|_| {
            effort.step(&light);
        });
        assert!(until(&mut effort, false, &heavy).is_some());
        patience.push(effort.spare.patience());
    }
    assert_eq!(patience, [16.0, 32.0, 64.0, 32.0, 16.0, 8.0]);
}
