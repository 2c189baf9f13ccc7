//! Remedy beside somebody who comes first and loads the medium itself: what that makes an access take is no interference.

use crate::stage::{PERIOD, Stage, critical, tenant, thresholds};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Levers};
use policy::bandwidth::Remedy;
use policy::estimate::pause::Pause;
use units::{Bytes, Duration};

const MS: u64 = 1_000_000;

/// A store that comes first and a reader, both with a brake, on a medium whose threshold is 1,000 ns.
struct Two {
    stage: Stage,
    window: Duration,
    steady: bool,
    /// Time in which the reader stood still, in pauses.
    paused: Duration,
    pauses: u32,
    /// Thousands of bytes per second of the store, and of the reader while it is paused.
    store: u64,
    beside: u64,
}

impl Two {
    fn new() -> Self {
        let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::splat(false) };
        let rows = [(1, critical()), (2, Class::BestEffort)].map(|(id, class)| {
            let mut row = tenant(id, class);
            row.claim.levers = Levers { brake, ..Levers::default() };
            row
        });
        let remedy = Remedy::new(thresholds()).pausing(Pause::new(Duration(MS / 2), None));
        let stage = Stage::new(remedy, rows.to_vec());
        let (window, paused) = (PERIOD, Duration::ZERO);
        Self { stage, window, steady: true, paused, pauses: 0, store: 40_000, beside: 0 }
    }

    /// One window in which an access takes `latency` of whether the reader stands still.
    fn step(&mut self, latency: impl Fn(bool) -> u64) {
        let is_paused = !self.steady;
        let reader = if is_paused { self.beside } else { 200_000 };
        for (at, kilobytes) in [(0, self.store), (1, reader)] {
            let bytes = kilobytes * self.window.0 / MS;
            let only = |value: u64| Kinds { slow_read: value, ..Kinds::default() };
            self.stage.rows[at].signal = Some(BandwidthSignal {
                bytes: Kinds { slow_read: Bytes(bytes), ..Kinds::default() },
                accesses: only(bytes / 256),
                threads: 1,
                ..BandwidthSignal::default()
            });
        }
        self.stage.latency(Some(latency(is_paused)));
        if is_paused {
            self.paused = self.paused + self.window;
        }
        let (window, steady) = self.stage.ask(self.window);
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
}

#[test]
fn what_those_who_come_first_do_themselves_is_no_interference() {
    let mut two = Two::new();
    // Twice the threshold, whether the reader is there or not.
    two.run(100, |_| 2_000);
    assert_eq!(two.stage.share(1), Throttle::FREE);
    assert!((9..=10).contains(&two.pauses), "one a second: {}", two.pauses);
    let stood_still = two.paused.0 as f64 / two.stage.now.0 as f64;
    assert!((0.002..0.005).contains(&stood_still), "{stood_still}");
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
}

#[test]
fn what_was_seen_long_ago_says_nothing_and_late_windows_neither() {
    let mut two = Two::new();
    two.run(20, |_| 2_000);
    // For four seconds there is nothing to compare; then a pause comes first again.
    two.run(40, |_| 500);
    let before = two.pauses;
    two.run(2, |_| 2_000);
    assert_eq!((two.pauses, two.delay()), (before + 1, 0));
    // A pause whose windows end late: of those nothing counts, and the reader is held back as without them.
    let mut two = Two::new();
    for _ in 0..60 {
        two.step(|_| 2_000);
        if !two.steady {
            two.window = PERIOD;
        }
    }
    assert!(0 < two.delay());
}

#[test]
fn nobody_pauses_where_a_brake_is_missing_or_nobody_comes_first() {
    let mut without_brake = Two::new();
    without_brake.stage.rows[1].claim.levers = crate::stage::host();
    let mut none_first = Two::new();
    none_first.stage.rows[0].claim.class = Class::BestEffort;
    let mut asleep = Two::new();
    asleep.store = 0;
    for two in [&mut without_brake, &mut none_first, &mut asleep] {
        for _ in 0..30 {
            let signal = |bytes: u64| BandwidthSignal {
                bytes: Kinds { slow_read: Bytes(bytes), ..Kinds::default() },
                accesses: Kinds { slow_read: bytes / 256, ..Kinds::default() },
                threads: 1,
                ..BandwidthSignal::default()
            };
            two.stage.rows[0].signal = Some(signal(two.store * 100));
            two.stage.rows[1].signal = Some(signal(20_000_000));
            two.stage.latency(Some(2_000));
            two.stage.step();
        }
    }
    assert!(without_brake.stage.share(1).cpu.is_some(), "held back as the thresholds say");
    assert!(0 < none_first.delay());
    assert_eq!(asleep.stage.share(1), Throttle::FREE);
}

/// Of two that were held back the one that disturbed nobody when let go does not wait for what the other did.
#[test]
fn who_brought_interference_back_waits_alone() {
    let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::splat(false) };
    let rows = [1, 2].map(|id| {
        let mut row = tenant(id, Class::BestEffort);
        row.claim.levers = Levers { brake, ..Levers::default() };
        row
    });
    let mut stage = Stage::new(Remedy::new(thresholds()), rows.to_vec());
    let run = |stage: &mut Stage, latency: u64, rates: [f64; 2]| {
        stage.latency(Some(latency));
        stage.runs(0, Kind::SlowWrite, rates[0]);
        stage.runs(1, Kind::SlowRead, rates[1]);
        stage.step();
    };
    // The writer alone is there and interferes whenever it has no delay.
    for _ in 0..200 {
        let latency = if stage.rows[0].in_force.is_none_or(|now| now.delay == 0) { 2_000 } else { 500 };
        run(&mut stage, latency, [1.0, 0.0]);
    }
    // Then the reader disturbs, is held back, and is let go as soon as it is quiet.
    while stage.share(1).delay == 0 {
        run(&mut stage, 2_000, [0.0, 1.0]);
    }
    let mut waited = 0;
    while 0 < stage.share(1).delay {
        run(&mut stage, 500, [1.0, 1.0]);
        waited += 1;
        assert!(waited < 10, "the reader waits for the writer's doing");
    }
}
