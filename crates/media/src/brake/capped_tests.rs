//! What cleaners let pass of a cap, driven in virtual time.

use super::tests::drive;
use super::*;

const MS: u64 = 1_000_000;
const RATE: u64 = 4_000_000;
const STORE: (Access, Bytes, u64) = (Access::SlowWrite, Bytes(4_096), 0);
/// What a pass moves: an eighth of a second's worth.
const MOVES: u64 = 500_000;

/// A tenant with a cap on what it writes, that stores as fast as it may.
struct Course {
    brake: Brake,
    pads: Vec<Pad>,
    at: u64,
    /// Bytes that passed, and when.
    passed: Vec<(u64, u64)>,
}

impl Course {
    fn of(threads: usize) -> Self {
        let mut pads = Vec::new();
        pads.resize_with(threads, Pad::default);
        let course = Self { brake: Brake::default(), pads, at: 0, passed: Vec::new() };
        course.set(Access::SlowWrite, Some(RATE));
        course
    }

    fn set(&self, kind: Access, rate: Option<u64>) {
        let mut setting = Setting::FREE;
        setting.cap[kind as usize] = rate.map(BytesPerSec);
        self.brake.set(setting, Instant(self.at * MS));
    }

    /// Stores until then; returns how many bytes.
    fn stores(&mut self, until: u64) -> u64 {
        let before: u64 = self.all();
        for ms in self.at..until {
            let span = (ms * MS, (ms + 1) * MS);
            let done: u64 = drive(&self.brake, &mut self.pads, STORE, 20_000, span).iter().sum();
            self.passed.push((ms, done * STORE.1.0));
        }
        self.at = until;
        self.all() - before
    }

    /// Until when who moves a record now is to wait.
    fn waits(&self) -> Option<u64> {
        let until = self.brake.owes_until(|| Instant(self.at * MS));
        until.map(|until| until.0.div_ceil(MS))
    }

    fn moves(&mut self, bytes: u64) {
        self.brake.owe((STORE.0, Bytes(bytes), 0), || Instant(self.at * MS));
        self.passed.push((self.at, bytes));
    }

    fn all(&self) -> u64 {
        self.passed.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The most that passed within so many ms.
    fn most_within(&self, ms: u64) -> u64 {
        let within = |end: u64| self.passed.iter().filter(move |(at, _)| end < at + ms && *at <= end);
        let sum = |end: u64| within(end).map(|(_, bytes)| bytes).sum();
        (0..=self.at).map(sum).max().unwrap()
    }
}

/// Whatever is moved for a tenant, both together are at the cap in any .3 s, and it has half of it meanwhile.
#[test]
fn who_waits_with_what_it_moves_is_at_a_cap_and_who_does_not_is_beyond_it() {
    for (threads, waits) in [(1, true), (4, true), (1, false)] {
        let mut course = Course::of(threads);
        for _ in 0..8 {
            course.stores(course.at + 700);
            let (from, before) = (course.at, course.all());
            let mut left = MOVES;
            while left != 0 {
                match course.waits().filter(|_| waits) {
                    None => {
                        course.moves(STORE.1.0.min(left));
                        left -= STORE.1.0.min(left);
                    }
                    Some(until) => _ = course.stores(until),
                }
            }
            let (took, both) = (course.at - from, course.all() - before);
            assert!(!waits || (240..280).contains(&took), "{took} ms at half of the cap, and a little");
            let cap = RATE * took / 1_000;
            assert!(!waits || both.abs_diff(cap) <= cap / 20, "{both} of {cap}: both are at the cap");
        }
        course.stores(course.at + 300);
        let (most, cap) = (course.most_within(300), RATE * 300 / 1_000);
        assert_eq!(most <= cap + cap / 20, waits, "{most} of {cap} with {threads} threads");
        let cap = RATE * course.at / 1_000;
        assert!(course.all().abs_diff(cap) <= cap / 100, "{} of {cap}: nothing is lost", course.all());
    }
}

#[test]
fn who_does_nothing_pays_with_all_of_its_cap() {
    let mut course = Course::of(1);
    // What it did not use before is lost.
    course.at = 10_000;
    course.moves(MOVES);
    assert_eq!(course.waits(), Some(10_000 + 125), "as long as that takes");
    course.at += 119;
    assert_eq!(course.waits(), Some(10_119 + 6), "six ms' worth");
    course.at += 2;
    assert_eq!(course.waits(), None);
    // Also where its cap changes again and again.
    course.moves(MOVES);
    for change in 0..100 {
        course.at += 1;
        course.set(Access::SlowWrite, Some(RATE + change % 2));
    }
    assert_eq!(course.waits(), Some(course.at + 29));
    course.set(Access::SlowWrite, Some(RATE));
    // Nothing more is paid than was owed.
    course.at = 20_000;
    let own = course.stores(21_000);
    assert!(own <= RATE + RATE / 100, "{own}");
}

#[test]
fn a_second_is_waited_for_at_the_most_and_nothing_where_there_is_no_cap() {
    let mut course = Course::of(1);
    course.moves(u64::MAX);
    course.passed.clear();
    assert_eq!(course.waits(), None, "a second's worth or more: others let too much pass");
    course.at += 1;
    assert_eq!(course.waits(), Some(1_000));
    course.set(Access::SlowWrite, Some(RATE / 2));
    assert_eq!(course.waits(), None, "a second's worth of another cap");
    course.at += 1;
    assert_eq!(course.waits(), Some(1_001));
    course.set(Access::SlowWrite, Some(u64::MAX));
    assert_eq!(course.waits(), None);
    course.set(Access::SlowRead, Some(RATE));
    course.moves(MOVES);
    assert_eq!(course.waits(), None, "another kind's");
    course.set(Access::DramWrite, Some(RATE));
    course.brake.owe((Access::DramWrite, Bytes(MOVES), 0), || Instant(course.at * MS));
    assert_eq!(course.waits(), None, "not of the tier");
    course.set(Access::SlowWrite, None);
    course.moves(MOVES);
    course.set(Access::SlowWrite, Some(0));
    assert_eq!(course.waits(), None, "what passed before is nothing that a cap says");
    course.moves(MOVES);
    assert_eq!(course.waits(), None, "nobody waits where nothing may pass at all");
}

/// Looks that follow one another quickly lose nothing of what a tenant does not use.
#[test]
fn however_often_one_looks_all_of_a_cap_pays() {
    let mut course = Course::of(1);
    course.moves(RATE / 100);
    // A byte and a half each time.
    for look in 0..12_500 {
        course.brake.owes_until(|| Instant(look * 400));
    }
    course.at = 6;
    assert_eq!(course.waits(), None, "less than 5 ms' worth is left");
}

/// Who has stored a large value is at its cap for long, and nothing of what is owed is paid before.
#[test]
fn nobody_looks_before_a_tenant_may_go_on() {
    let course = Course::of(1);
    let large = (Access::SlowWrite, Bytes(RATE / 2), 0);
    course.brake.after(&mut Pad::default(), large, || Instant(0));
    course.brake.owe((Access::SlowWrite, Bytes(RATE / 100), 0), || Instant(0));
    assert_eq!(course.waits(), Some(499));
}

#[test]
fn budgets_of_long_periods_and_caps_of_the_tier_are_waited_for() {
    let budget =
        |ms| Setting { budget: Some(Budget { cost_ps: 1, per: Duration::from_millis(ms) }), ..Setting::FREE };
    let capped = |kind: Access| {
        let mut setting = Setting { delay: 1, ..Setting::FREE };
        setting.cap[kind as usize] = Some(BytesPerSec(1));
        setting
    };
    for setting in [budget(100), capped(Access::SlowRead), capped(Access::SlowWrite)] {
        assert!(setting.is_waited_for(), "{setting:?}");
    }
    let paused = Setting { paused: true, ..Setting::FREE };
    for setting in [Setting::FREE, paused, budget(99), capped(Access::DramRead), capped(Access::DramWrite)] {
        assert!(!setting.is_waited_for(), "{setting:?}");
    }
}
