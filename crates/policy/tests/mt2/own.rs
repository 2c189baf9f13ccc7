//! Remedy beside somebody who comes first and loads the medium itself: what that makes an access take is no interference.

use crate::stage::{PERIOD, Stage, braked, critical, host, reads, thresholds};
use control::bandwidth::{BandwidthSignal, Kind, Throttle};
use control::{Class, GroupId, Policy};
use policy::bandwidth::{Options, Prevention, Remedy};
use policy::compose::Tighter;
use policy::estimate::pause::Pause;
use units::Duration;

const MS: u64 = 1_000_000;

/// A store that comes first and a reader, both with a brake, on a medium whose threshold is 1,000 ns.
struct Two {
    stage: Stage,
    window: Duration,
    steady: bool,
    /// Time in which the reader stood still, in pauses.
    paused: Duration,
    pauses: u32,
    decisions: u32,
    /// Thousands of bytes per second of the store, and of the reader while it is paused.
    store: u64,
    beside: u64,
}

/// With pauses as on a medium where a read takes so long.
fn remedy(quiet: Option<Duration>) -> Remedy {
    Remedy::new(thresholds()).pausing(Pause::new(Duration(MS / 2), quiet))
}

impl Two {
    fn new() -> Self {
        Self::under(remedy(None))
    }

    fn under(policy: impl Policy<Signal = BandwidthSignal, Share = Throttle> + 'static) -> Self {
        let rows = [(1, critical()), (2, Class::BestEffort)].map(|(id, class)| braked(id, class));
        Self {
            stage: Stage::new(policy, rows.to_vec()),
            window: PERIOD,
            steady: true,
            paused: Duration::ZERO,
            pauses: 0,
            decisions: 0,
            store: 40_000,
            beside: 0,
        }
    }

    /// One window in which an access takes `latency` of whether the reader stands still.
    fn step(&mut self, latency: impl Fn(bool) -> u64) {
        let is_paused = !self.steady;
        let reader = if is_paused { self.beside } else { 200_000 };
        for (at, kilobytes) in [(0, self.store), (1, reader)] {
            self.stage.rows[at].signal = Some(reads(kilobytes * self.window.0 / MS));
        }
        self.stage.latency(Some(latency(is_paused)));
        if is_paused {
            self.paused = self.paused + self.window;
        }
        let (window, steady) = self.stage.ask(self.window);
        self.decisions += 1;
        self.pauses += u32::from(self.steady && !steady);
        (self.window, self.steady) = (window, steady);
        assert_eq!(self.stage.share(0), Throttle::FREE, "who comes first is never held back");
        assert_eq!(self.stage.share(1).paused, !steady, "a pause is one of the reader");
    }

    /// So many windows of the policy's period, and those of its pauses.
    fn run(&mut self, periods: u32, latency: impl Fn(bool) -> u64) {
        for _ in 0..periods {
            self.step(&latency);
            while !self.steady {
                self.step(&latency);
            }
        }
    }

    fn delay(&self) -> u32 {
        self.stage.share(1).delay
    }

    fn stood_still(&self) -> f64 {
        self.paused.0 as f64 / self.stage.now.0 as f64
    }
}

#[test]
fn what_those_who_come_first_do_themselves_is_no_interference() {
    let mut two = Two::new();
    // Twice the threshold, whether the reader is there or not.
    two.run(100, |_| 2_000);
    assert_eq!(two.stage.share(1), Throttle::FREE);
    assert!((9..=10).contains(&two.pauses), "one a second: {}", two.pauses);
    assert!((0.002..0.005).contains(&two.stood_still()), "{}", two.stood_still());
}

#[test]
fn on_a_slow_medium_it_is_known_after_one_pause_too() {
    for quiet_us in [5, 80] {
        let mut two = Two::under(remedy(Some(Duration::from_micros(quiet_us))));
        two.run(100, |_| 2_000);
        assert_eq!(two.stage.share(1), Throttle::FREE, "{quiet_us} us");
        // What settles and two windows of 5 ms, or one of 10: 14 and 18 ms of a second.
        assert!((0.01..0.0185).contains(&two.stood_still()), "{quiet_us} us: {}", two.stood_still());
    }
}

/// Somebody asks for a decision before a pause has settled.
#[test]
fn a_pause_that_is_cut_short_says_nothing() {
    for is_cut in [false, true] {
        let mut two = Two::new();
        while two.steady {
            two.step(|_| 2_000);
        }
        assert_eq!(two.window, Duration(MS / 2), "it settles");
        two.window = Duration(two.window.0 / if is_cut { 2 } else { 1 });
        two.step(|_| 2_000);
        assert_eq!(two.steady, is_cut, "what follows counts, or is no pause");
    }
}

#[test]
fn nobody_pauses_on_a_medium_on_which_that_takes_too_long() {
    for (quiet_us, pauses) in [(200, true), (201, false)] {
        let (thresholds, quiet) = (thresholds(), Some(Duration::from_micros(quiet_us)));
        let mut two = Two::under(Options { thresholds, quiet, ..Options::default() }.remedy());
        two.run(30, |_| 2_000);
        assert_eq!((0 < two.pauses, two.delay() == 0), (pauses, pauses), "{quiet_us} us");
    }
}

#[test]
fn beside_prevention_the_two_decide_together() {
    let both = Tighter::new(Prevention::default(), remedy(None));
    let mut two = Two::under(both);
    let mut periods = 0;
    while two.stage.now.0 < 5_000 * MS {
        two.run(1, |_| 2_000);
        periods += 1;
    }
    assert_eq!(two.stage.share(1), Throttle::FREE);
    assert!((50..=51).contains(&periods), "one window per period but for pauses: {periods}");
    assert_eq!(two.decisions, periods + 5 * two.pauses, "five of each pause");
}

#[test]
fn who_makes_an_access_take_longer_than_they_do_themselves_is_held_back() {
    let mut two = Two::new();
    // A ninth longer is interference, a little less is not.
    two.run(30, |is_paused| if is_paused { 1_800 } else { 1_990 });
    assert_eq!(two.delay(), 0);
    two.run(30, |is_paused| if is_paused { 1_800 } else { 2_010 });
    let held = two.delay();
    assert!(0 < held, "it is tightened");
    // Quiet is measured beside what they do as well: above the threshold of an idle medium all the time.
    two.run(60, |_| 1_800);
    assert_eq!(two.stage.share(1), Throttle::FREE, "held by {held} before");
}

#[test]
fn what_others_still_do_in_a_pause_is_not_taken_for_theirs() {
    let mut two = Two::new();
    // The store does 40 MB/s.
    for (beside, is_counted) in [(1_900, true), (2_100, false)] {
        two.beside = beside;
        two.run(45, |_| 2_000);
        assert_eq!(two.delay() == 0, is_counted, "{beside} kB/s in a pause");
    }
}

#[test]
fn those_who_come_first_are_looked_at_again_once_they_do_more() {
    let mut two = Two::new();
    two.run(15, |_| 1_200);
    let before = two.pauses;
    assert_eq!((before, two.delay()), (2, 0), "the first two seconds");
    two.store *= 2;
    // Their own load takes more now: .4 s after the last pause is soon enough to see it, before anybody pays for it.
    two.run(4, |_| 1_700);
    assert_eq!((two.pauses, two.delay()), (before + 1, 0));
    two.run(3, |_| 1_700);
    assert_eq!((two.pauses, two.delay()), (before + 1, 0), "no sooner than it has to");
    // What they did is no more than chance where it is little.
    let mut two = Two::new();
    for round in 0..50_u64 {
        two.store = 50 + 100 * (round % 2);
        two.run(1, |_| 2_000);
    }
    assert!((5..=6).contains(&two.pauses), "one a second: {}", two.pauses);
}

#[test]
fn what_was_seen_long_ago_or_of_others_says_nothing() {
    let mut two = Two::new();
    two.run(20, |_| 2_000);
    // For four seconds there is nothing to compare; then what was seen before says nothing, and a pause comes first again.
    two.run(40, |_| 500);
    let before = two.pauses;
    two.run(2, |_| 4_000);
    assert_eq!((two.pauses, two.delay()), (before + 1, 0));
    // Somebody who does not come first changes nothing.
    two.stage.rows.push(braked(3, Class::BestEffort));
    two.stage.rows[2].signal = Some(reads(0));
    two.run(1, |_| 4_000);
    assert_eq!((two.pauses, two.delay()), (before + 1, 0));
    // Somebody else comes first: the next pause comes as soon as it may.
    (two.stage.rows[0].claim.class, two.stage.rows[2].claim.class) = (Class::Exempt, critical());
    two.run(4, |_| 4_000);
    assert_eq!(two.pauses, before + 2);
}

#[test]
fn a_pause_in_which_who_comes_first_now_stood_still_says_nothing() {
    let mut two = Two::new();
    two.stage.rows.push(braked(3, Class::BestEffort));
    two.stage.rows[2].signal = Some(reads(0));
    while two.steady {
        two.step(|_| 2_000);
    }
    two.stage.rows[2].claim.class = critical();
    while !two.steady {
        two.step(|_| 2_000);
    }
    two.run(1, |_| 2_000);
    assert!(0 < two.delay(), "not known before the next pause");
}

#[test]
fn windows_that_end_late_and_who_is_not_measured_say_nothing() {
    let mut late = Two::new();
    for _ in 0..60 {
        late.step(|_| 2_000);
        if !late.steady {
            late.window = PERIOD;
        }
    }
    assert!(0 < late.delay());
    let mut unmeasured = Two::new();
    for _ in 0..60 {
        // Whoever has just come may have done anything.
        let is_paused = !unmeasured.steady;
        unmeasured.step(|_| 2_000);
        if is_paused && unmeasured.stage.rows.len() == 2 {
            unmeasured.stage.rows.push(braked(3, Class::BestEffort));
        }
    }
    assert!(0 < unmeasured.delay());
}

#[test]
fn an_incident_goes_on_through_a_pause() {
    // What is seen in a pause counts, or does not.
    for beside in [0, 40_000] {
        let mut two = Two::new();
        let mut ended = 0;
        for step in 0..100 {
            let was_steady = two.steady;
            // The medium is worse than by the store alone, and the reader does nothing that could be held back.
            let reader = if was_steady { 0 } else { beside };
            for (at, kilobytes) in [(0, two.store), (1, reader)] {
                two.stage.rows[at].signal = Some(reads(kilobytes * two.window.0 / MS));
            }
            two.stage.latency(Some(if was_steady { 2_000 } else { 1_500 }));
            (two.window, two.steady) = two.stage.ask(two.window);
            ended += u32::from(!was_steady && two.steady);
            // The first decisions see nothing yet, or pause before it is known for what.
            let is_said = two.stage.noted("incident") == 1;
            assert!(is_said || !two.steady || ended < 2, "not over in step {step}, {beside}");
        }
        assert!(5 < ended, "pauses that ended: {ended}");
    }
}

#[test]
fn nobody_pauses_where_a_brake_is_missing_or_nobody_comes_first_or_a_group_would() {
    let mut without_brake = Two::new();
    without_brake.stage.rows[1].claim.levers = host();
    let mut none_first = Two::new();
    none_first.stage.rows[0].claim.class = Class::BestEffort;
    let mut group = Two::new();
    group.stage.rows[1].id = GroupId(0).row();
    let mut asleep = Two::new();
    asleep.store = 0;
    for two in [&mut without_brake, &mut none_first, &mut group, &mut asleep] {
        for _ in 0..30 {
            two.stage.rows[0].signal = Some(reads(two.store * 100));
            two.stage.rows[1].signal = Some(reads(20_000_000));
            two.stage.latency(Some(2_000));
            two.stage.step();
        }
    }
    assert!(without_brake.stage.share(1).cpu.is_some(), "held back as the thresholds say");
    assert!(0 < none_first.delay() && 0 < group.delay());
    assert_eq!(asleep.stage.share(1), Throttle::FREE);
}

/// Of two that were held back the one that disturbed nobody when let go does not wait for what the other did, whichever was first.
#[test]
fn who_brought_interference_back_waits_alone() {
    for writer_last in [false, true] {
        let rows = [1, 2].map(|id| braked(id, Class::BestEffort));
        let mut stage = Stage::new(Remedy::new(thresholds()), rows.to_vec());
        let run = |stage: &mut Stage, latency: u64, rates: [f64; 2]| {
            stage.latency(Some(latency));
            stage.runs(0, Kind::SlowWrite, rates[0]);
            stage.runs(1, Kind::SlowRead, rates[1]);
            stage.step();
        };
        let hold_the_reader = |stage: &mut Stage| {
            for _ in 0..10 {
                if stage.share(1).delay == 0 {
                    run(stage, 2_000, [0.0, 1.0]);
                }
            }
            assert!(0 < stage.share(1).delay, "{writer_last}");
        };
        run(&mut stage, 500, [1.0, 1.0]);
        if writer_last {
            hold_the_reader(&mut stage);
        }
        // The writer interferes whenever it has no delay.
        for _ in 0..200 {
            let latency = if stage.share(0).delay == 0 { 2_000 } else { 500 };
            run(&mut stage, latency, [1.0, 0.0]);
        }
        if !writer_last {
            hold_the_reader(&mut stage);
        }
        for _ in 0..10 {
            run(&mut stage, 500, [1.0, 1.0]);
        }
        assert_eq!(stage.share(1), Throttle::FREE, "{writer_last}: the reader waits for the writer's doing");
    }
}
