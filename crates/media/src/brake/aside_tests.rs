//! What is kept of a budget for cleaners, driven in virtual time.

use super::tests::drive;
use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// A thousandth of the budget; as fast as it may a thread spends that in a tenth of the period.
const STORE: (Access, Bytes, u64) = (Access::SlowWrite, Bytes(256), 1_000);
const TAKES: u64 = 100_000;
const BUDGET: u64 = 1_000 * STORE.2;

/// A tenant whose periods follow each other.
struct Course {
    brake: Brake,
    pads: Vec<Pad>,
    /// When the period began that runs.
    start: u64,
    per: u64,
}

impl Course {
    fn of(threads: usize, per: u64) -> Self {
        let mut pads = Vec::new();
        pads.resize_with(threads, Pad::default);
        let course = Self { brake: Brake::default(), pads, start: 0, per };
        course.begin();
        course
    }

    fn begin(&self) {
        let budget = Some(Budget { cost_ps: BUDGET, per: Duration(self.per) });
        self.brake.begin(Setting { budget, ..Setting::FREE }, Instant(self.start));
    }

    /// Accesses from `from` to `to` ms of the period, as fast as its threads may.
    fn accesses(&mut self, from: u64, to: u64) -> u64 {
        let span = (self.start + from * MS, self.start + to * MS);
        drive(&self.brake, &mut self.pads, STORE, TAKES, span).iter().sum()
    }

    fn clean(&self, cost_ps: u64, at: u64) {
        self.brake.owe((Access::SlowRead, Bytes(256), cost_ps), || Instant(self.start + at * MS));
    }

    /// A whole period in which a cleaner spends so much at so many ms; says how many accesses passed.
    fn period(&mut self, cost_ps: u64, at: u64) -> u64 {
        let before = self.accesses(0, at);
        if 0 < cost_ps {
            self.clean(cost_ps, at);
        }
        let after = self.accesses(at, self.per / MS);
        self.start += self.per;
        self.begin();
        before + after
    }

    /// How much of the period had passed, in ms, when the budget ran out.
    fn ran_out(&self) -> Option<u64> {
        self.brake.take_depleted_at().map(|at| at.since(Instant(self.start - self.per)).0 / MS)
    }
}

/// Whenever a cleaner spends what it spent before or up to twice as much, the period's budget is what was spent.
#[test]
fn what_a_cleaner_spends_late_is_within_the_budget() {
    for threads in [1, 2] {
        for (before, at) in [(50, 0), (50, 60), (100, 97), (100, 300), (200, 400), (80, 900), (60, 960)] {
            for now in [before, 2 * before, before / 3] {
                let mut course = Course::of(threads, SECOND);
                let beyond = course.period(before * STORE.2, 500);
                assert!((1_000..=1_001).contains(&beyond), "nothing was known of it: {beyond}");
                let own = course.period(now * STORE.2, at);
                let all = own + now;
                // An access is charged in full, and each thread holds a piece of about one.
                let most = 1_000 + 2 * threads as u64;
                assert!((998..=most).contains(&all), "{own} of a thousand, and {now} at {at} ms");
            }
        }
    }
}

#[test]
fn what_no_cleaner_spends_is_the_tenant_s_before_the_period_ends() {
    let mut course = Course::of(1, SECOND);
    assert_eq!((course.period(0, 0), course.ran_out()), (1_000, Some(100)), "nothing is kept for nobody");
    course.period(100 * STORE.2, 500);
    assert_eq!(course.ran_out(), Some(100));
    let own = course.accesses(0, 500);
    assert!((799..=802).contains(&own), "{own} while two hundred are kept");
    assert_eq!(course.brake.take_depleted_at(), None, "it has not run out");
    let rest = course.accesses(500, 1_000);
    assert!((999..=1_001).contains(&(own + rest)), "{own} and {rest}");
    course.start += SECOND;
    assert!((960..1_000).contains(&course.ran_out().unwrap()), "let go as slowly as it may");
    // What has not been seen for long is not kept.
    course.begin();
    let (mut periods, mut own) = (0, 0);
    while own < 999 {
        own = course.accesses(0, 500);
        course.start += SECOND;
        course.begin();
        periods += 1;
        assert!(periods < 500, "{own} are left of a thousand");
    }
    assert!(64 < periods, "{periods} periods");
}

/// Who comes to its limit when the period ends does not wait before.
#[test]
fn who_spends_evenly_is_not_held_for_what_is_kept() {
    let mut course = Course::of(1, SECOND);
    course.period(100 * STORE.2, 500);
    let takes = SECOND / 1_010;
    let own = drive(&course.brake, &mut course.pads, STORE, takes, (course.start, course.start + 970 * MS));
    assert!(own[0].abs_diff(970 * MS / takes) <= 1, "{own:?}");
}

/// Its pace is that of its own accesses, from the first on.
#[test]
fn who_begins_late_has_it_as_late() {
    let mut course = Course::of(1, SECOND);
    course.period(150 * STORE.2, 500);
    course.clean(50 * STORE.2, 100);
    let own = course.accesses(500, 900);
    assert!((699..=702).contains(&own), "{own} while two hundred and fifty are kept");
    let rest = course.accesses(900, 1_000);
    assert!((949..=951).contains(&(own + rest)), "{own} and {rest}");
}

#[test]
fn at_most_half_of_a_budget_is_kept() {
    for spent in [2 * BUDGET, 1_000 * BUDGET, u64::MAX] {
        let mut course = Course::of(1, SECOND);
        course.period(spent, 500);
        let own = course.accesses(0, 500);
        assert!((499..=502).contains(&own), "{own} while half is kept");
        let rest = course.accesses(500, 1_000);
        assert!((999..=1_001).contains(&(own + rest)), "{own} and {rest}");
    }
}

/// Accesses are large, and many threads wait for what is kept of them.
#[test]
fn what_waits_asks_before_it_goes_on() {
    let large = (STORE.0, STORE.1, BUDGET / 50);
    for threads in [1, 8] {
        let mut course = Course::of(threads, SECOND);
        course.period(100 * STORE.2, 500);
        let at = |course: &Course, ms| course.start + ms * MS;
        let part = |course: &mut Course, from, to| -> u64 {
            let span = (at(course, from), at(course, to));
            drive(&course.brake, &mut course.pads, large, MS, span).iter().sum()
        };
        let own = part(&mut course, 0, 500);
        assert!((40..=40 + threads as u64).contains(&own), "{own} of forty, {threads} threads");
        assert!(course.ran_out().is_some(), "in the period before");
        course.clean(BUDGET - own * large.2, 500);
        assert_eq!(part(&mut course, 500, 1_000), 0, "nothing is left");
        assert!(course.brake.take_depleted_at().is_some(), "who waits for what others spent has run out");
    }
}

/// Whoever begins the next is about to, whatever was spent too much.
#[test]
fn who_has_waited_for_a_period_to_end_goes_on() {
    let mut course = Course::of(1, SECOND);
    let (brake, pad) = (&course.brake, &mut course.pads[0]);
    let much = (STORE.0, STORE.1, BUDGET / 2 * 3);
    let mut at = 0;
    for _ in 0..3 {
        assert_eq!(brake.before(pad, (STORE.0, Instant::ZERO), || Instant(at)), Hold::None, "{at}");
        let hold = brake.after(pad, much, || Instant(at));
        let Hold::Until(then) = hold else { panic!("{hold:?}") };
        brake.owe((Access::SlowRead, Bytes(256), BUDGET / 2), || then);
        at = then.0;
    }
}

/// Others have come since it came to what is kept: at first a part is lost, and then it is let go earlier.
#[test]
fn who_is_slower_at_the_end_has_it_earlier_next_time() {
    let mut course = Course::of(1, SECOND);
    course.period(300 * STORE.2, 500);
    let mut lost = Vec::new();
    for _ in 0..8 {
        let early = course.accesses(0, 500);
        let span = (course.start + 500 * MS, course.start + SECOND);
        let late = drive(&course.brake, &mut course.pads, STORE, 10 * TAKES, span)[0];
        lost.push(1_000 - (early + late).min(1_000));
        course.start += SECOND;
        course.begin();
    }
    assert!(100 < lost[0], "{lost:?}");
    assert!(lost[5..].iter().any(|lost| *lost <= 20) && lost[5..].iter().all(|lost| *lost < 150), "{lost:?}");
    (0..8).for_each(|_| _ = course.period(300 * STORE.2, 990));
    let own = course.accesses(0, 900);
    assert!(own < 700, "{own}: who is as fast as before has it late again");
}

/// Who asks for less than its limit is to have it when it asks.
#[test]
fn who_stays_below_its_limit_is_not_held() {
    let mut course = Course::of(1, SECOND);
    for wanted_more in [false, true] {
        if wanted_more {
            course.period(250 * STORE.2, 500);
        }
        // The period behind one that was spent is the first that says so.
        for period in 0..5 {
            let own = course.accesses(0, 60);
            assert!(own == 600 || wanted_more && period == 0 && 500 <= own, "{own} in period {period}");
            course.clean(250 * STORE.2, 500);
            course.start += SECOND;
            course.begin();
        }
    }
    // Who comes to what is kept, and then has enough, was not too slow for it.
    for period in 0..8 {
        let own = course.accesses(0, 80);
        assert!((749..=800).contains(&own), "{own} in period {period}");
        course.start += SECOND;
        course.begin();
    }
    let own = course.accesses(0, 800);
    assert!(own <= 820, "{own} of a thousand while two hundred or so are kept");
}

/// Decisions that come early: each takes what was kept, so that nothing is kept where they go on to.
#[test]
fn behind_a_period_that_was_cut_short_nothing_is_kept() {
    let mut course = Course::of(1, SECOND);
    course.period(300 * STORE.2, 500);
    assert!(course.accesses(0, 900) < 600, "much is kept, and lost now");
    for _ in 0..40 {
        course.start += 900 * MS;
        course.begin();
        assert_eq!(course.accesses(0, 900), 1_000);
    }
    course.start += 900 * MS;
    course.begin();
    course.accesses(0, 1_000);
    course.start += SECOND;
    course.begin();
    assert!(course.accesses(0, 500) < 600, "what was seen before is still known");
}

/// One pass without measure is not remembered for ever, and of a budget that pays a debt half is kept at most.
#[test]
fn what_is_expected_is_no_more_than_a_budget() {
    let mut course = Course::of(1, SECOND);
    course.period(u64::MAX, 500);
    let held = (0..100).find(|_| {
        let own = course.accesses(0, 500);
        course.accesses(500, 1_000);
        course.start += SECOND;
        course.begin();
        510 < own
    });
    assert!(held.is_some_and(|held| (30..60).contains(&held)), "{held:?} periods");

    let budget =
        |cost_ps| Setting { budget: Some(Budget { cost_ps, per: Duration(SECOND) }), ..Setting::FREE };
    let mut debt = Course::of(1, SECOND);
    debt.period(300 * STORE.2, 500);
    debt.brake.begin(budget(0), Instant(debt.start));
    debt.brake.begin(budget(BUDGET / 10), Instant(debt.start + SECOND));
    debt.start += SECOND;
    let own = debt.accesses(0, 500);
    assert!((49..=52).contains(&own), "{own} of a hundred, of which half is kept");
}

/// Nothing is kept in short periods, in those that nobody begins, and of a period of another length.
#[test]
fn nothing_is_kept_where_it_cannot_be_known() {
    let mut short = Course::of(2, 99 * MS);
    short.period(100 * STORE.2, 60);
    assert!(999 <= short.accesses(0, 60));

    let mut other = Course::of(1, SECOND);
    other.period(100 * STORE.2, 500);
    other.per = 2 * SECOND;
    other.begin();
    assert_eq!(other.accesses(0, 200), 1_000);

    // What comes after a period that nobody followed is granted as time passes, and says nothing of the next.
    let mut late = Course::of(1, SECOND);
    late.period(100 * STORE.2, 500);
    late.accesses(0, 1_000);
    let all = late.accesses(1_000, 1_500);
    late.clean(100 * STORE.2, 1_500);
    assert!((480..=520).contains(&all), "{all}");
    late.start += 2 * SECOND;
    late.begin();
    let own = late.accesses(0, 500);
    assert!((799..=810).contains(&own), "{own} while two hundred are kept");

    let mut set = Course::of(1, SECOND);
    set.period(100 * STORE.2, 500);
    let budget = Some(Budget { cost_ps: BUDGET - 1, per: Duration(SECOND) });
    set.brake.set(Setting { budget, ..Setting::FREE }, Instant(set.start));
    assert!(999 <= set.accesses(0, 200), "nobody begins periods");
    set.start += SECOND;
    set.begin();
    assert_eq!(set.accesses(0, 200), 1_000, "nobody has begun the one before");
}

#[test]
fn no_number_is_too_large_for_what_is_kept() {
    for (cost_ps, per) in
        [(3, SECOND), (BUDGET, SECOND), (u64::MAX, SECOND), (u64::MAX, u64::MAX / 8), (1, u64::MAX)]
    {
        let brake = Brake::default();
        let budget = Some(Budget { cost_ps, per: Duration(per) });
        let mut pad = Pad::default();
        for period in 0..4 {
            let start = per.saturating_mul(period);
            brake.begin(Setting { budget, ..Setting::FREE }, Instant(start));
            for part in 0..64 {
                let now = Instant(start.saturating_add(per / 64 * part));
                brake.owe((Access::SlowRead, Bytes(1), cost_ps / 200), || now);
                let until = brake.postpones(cost_ps, || now);
                assert!(until.is_none_or(|until| now <= until), "{until:?} at {now:?}");
                brake.announce(cost_ps / 100);
                if brake.before(&mut pad, (STORE.0, Instant::ZERO), || now) == Hold::None {
                    brake.after(&mut pad, (STORE.0, STORE.1, (cost_ps / 50).max(1)), || now);
                }
                let hold = brake.before(&mut pad, (STORE.0, Instant::ZERO), || now);
                let (Hold::Spin(then) | Hold::Until(then)) = hold else { continue };
                assert!(
                    now < then && then.0 <= start.saturating_add(per.saturating_mul(2)),
                    "{hold:?} at {now:?}"
                );
            }
        }
    }
}

/// A pass that says what it will spend has it, whatever was spent before and however fast the tenant is.
#[test]
fn what_is_announced_is_kept() {
    for (threads, was_cut) in [(1, false), (2, false), (1, true)] {
        for (cost, at) in [(1, 0), (200, 60), (700, 20), (700, 60), (5_000, 90)] {
            let mut course = Course::of(threads, SECOND);
            if was_cut {
                course.start += 900 * MS;
                course.begin();
            }
            let before = course.accesses(0, at);
            course.brake.announce(cost * STORE.2);
            let meanwhile = course.accesses(at, 500);
            let kept = cost.min(1_000_u64.saturating_sub(before));
            let own = before + meanwhile;
            assert!(
                own.abs_diff(1_000 - kept) <= 2 * threads as u64,
                "{own} while {cost} are announced at {at} ms"
            );
            course.clean(kept * STORE.2, 500);
            let all = own + kept + course.accesses(500, 1_000);
            assert!((998..=1_000 + 2 * threads as u64).contains(&all), "{all} of a thousand");
        }
    }
    let mut course = Course::of(1, SECOND);
    course.brake.announce(300 * STORE.2);
    course.accesses(0, 500);
    let all = 700 + course.accesses(500, 1_000);
    assert!(
        (998..=1_001).contains(&all),
        "{all}: what was announced and not spent is the tenant's before the period ends"
    );
    course.start += SECOND;
    course.begin();
    assert!(999 <= course.accesses(0, 200), "and of that period alone");
}

#[test]
fn who_can_wait_does_for_what_is_not_left() {
    let mut course = Course::of(1, SECOND);
    let postpones = |course: &Course, cost: u64, ms: u64| {
        let until = course.brake.postpones(cost * STORE.2, || Instant(course.start + ms * MS));
        until.map(|until| until.since(Instant(course.start)).0 / MS)
    };
    for cost in [0, 1, 1_000, 1_001, u64::MAX / STORE.2] {
        assert_eq!(postpones(&course, cost, 0), None, "{cost} of a thousand are there, or never");
    }
    let own = course.accesses(0, 60);
    assert!((599..=601).contains(&own), "{own}");
    assert_eq!(postpones(&course, 390, 60), None);
    assert_eq!(postpones(&course, 410, 60), None, "a little beyond it");
    assert_eq!(postpones(&course, 430, 60), Some(1_002), "the next period begins then");
    assert_eq!(postpones(&course, 1_000, 60), Some(1_002));
    assert_eq!(postpones(&course, 1_001, 60), None, "it would wait for ever");
    course.accesses(60, 999);
    assert_eq!((postpones(&course, 10, 999), postpones(&course, 20, 999)), (None, Some(1_002)));
    assert_eq!(postpones(&course, 20, 1_003), Some(1_018), "whoever begins the next is late");
    assert_eq!(postpones(&course, 10, 1_003), None);
    course.start += SECOND;
    course.begin();
    assert_eq!(postpones(&course, 1_000, 0), None);

    let short = Course::of(1, 99 * MS);
    short.clean(BUDGET, 0);
    assert_eq!(postpones(&short, 500, 0), None, "periods are shorter than a pass");
    let set = Course::of(1, SECOND);
    let budget = Some(Budget { cost_ps: BUDGET - 1, per: Duration(SECOND) });
    set.brake.set(Setting { budget, ..Setting::FREE }, Instant(set.start));
    set.clean(BUDGET, 0);
    assert_eq!(postpones(&set, 500, 0), None, "nobody begins periods");
    assert_eq!(Brake::default().postpones(u64::MAX, || Instant::ZERO), None, "nobody is held back");
}
