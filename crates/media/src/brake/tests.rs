//! What a brake promises, driven in virtual time by threads that access as fast as they may.

use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const READ: (Access, Bytes, u64) = (Access::SlowRead, Bytes(256), 100);

/// Threads of one tenant that access as fast as they may, each access taking `takes` ns; says how many accesses each did
/// from `from` to `to`.
pub(super) fn drive(
    brake: &Brake,
    pads: &mut [Pad],
    access: (Access, Bytes, u64),
    takes: u64,
    (from, to): (u64, u64),
) -> Vec<u64> {
    let mut next = vec![from; pads.len()];
    let mut done = vec![0; pads.len()];
    loop {
        let (thread, &at) = next.iter().enumerate().min_by_key(|(_, at)| **at).unwrap();
        if to <= at {
            return done;
        }
        next[thread] = match brake.before(&mut pads[thread], (access.0, Instant::ZERO), || Instant(at)) {
            Hold::Spin(then) | Hold::Until(then) => then.0,
            Hold::Paused => to,
            Hold::None => {
                done[thread] += 1;
                match brake.after(&mut pads[thread], access, || Instant(at + takes)) {
                    Hold::None => at + takes,
                    Hold::Spin(then) | Hold::Until(then) => then.0,
                    Hold::Paused => to,
                }
            }
        };
    }
}

fn set(brake: &Brake, setting: Setting, at: u64) -> bool {
    brake.set(setting, Instant(at))
}

#[test]
fn who_waits_for_less_or_for_no_pause_any_more_is_let_go() {
    let brake = Brake::default();
    let delay = |delay| Setting { delay, ..Setting::FREE };
    let paused = Setting { paused: true, ..delay(5) };
    let budget = |cost_ps| Setting { budget: Some(Budget { cost_ps, per: PERIOD_MIN }), ..Setting::FREE };
    let course = [
        (delay(7), false),
        (delay(7), false),
        (delay(6), true),
        (paused, true),
        (paused, false),
        (delay(5), true),
        (Setting::FREE, true),
        (budget(10), false),
        (budget(20), false),
        (Setting::FREE, false),
    ];
    for (at, (setting, lets_go)) in course.into_iter().enumerate() {
        assert_eq!(set(&brake, setting, 0), lets_go, "{at}");
    }
    set(&brake, delay(9), 0);
    assert!(brake.begin(budget(10), Instant(1)), "a budget for a delay");
    assert!(!brake.begin(budget(10), Instant(2)));
}

#[test]
fn a_free_tenant_is_not_held_and_no_time_is_read() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    let no_clock = || -> Instant { panic!("a free tenant asks for no time") };
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), no_clock), Hold::None);
    assert_eq!(brake.after(&mut pad, READ, no_clock), Hold::None);
    set(&brake, Setting { delay: 10_000, ..Setting::FREE }, 0);
    assert_eq!(brake.after(&mut pad, READ, || Instant(500)), Hold::None);
    let asked = || Instant(1_000);
    assert_eq!(
        brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), asked),
        Hold::Until(Instant(101_000))
    );
    set(&brake, Setting::FREE, 0);
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), no_clock), Hold::None, "free again");
    assert_eq!(brake.after(&mut pad, READ, no_clock), Hold::None);
}

#[test]
fn a_delay_lengthens_every_slow_access_of_every_thread_by_itself() {
    for (delay, takes) in [(1_u32, 90_u64), (10, 300), (100, 300), (2_000, 500)] {
        let brake = Brake::default();
        set(&brake, Setting { delay, ..Setting::FREE }, 0);
        let mut pads = [Pad::default(), Pad::default()];
        let done = drive(&brake, &mut pads, READ, takes, (0, 10 * MS));
        let each = takes + u64::from(delay) * 10;
        // What is owed at the end was not waited for.
        let all_wait = |done: &u64| (done * each).abs_diff(10 * MS) <= OWED_MAX.0 + each;
        assert!(done.iter().all(all_wait), "{done:?} accesses of {each} ns");
    }
    let brake = Brake::default();
    set(&brake, Setting { delay: 100, ..Setting::FREE }, 0);
    let mut pad = Pad::default();
    let no_clock = || -> Instant { panic!("DRAM is not delayed") };
    for _ in 0..1_000 {
        assert_eq!(brake.after(&mut pad, READ, || Instant(5)), Hold::None);
        assert_eq!(brake.after(&mut pad, (Access::DramRead, Bytes(256), 0), no_clock), Hold::None);
        assert_eq!(brake.before(&mut pad, (Access::DramRead, Instant::ZERO), no_clock), Hold::None);
    }
}

#[test]
fn delays_are_owed_until_they_are_worth_waiting_for() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    set(&brake, Setting { delay: 250, ..Setting::FREE }, 0);
    let no_clock = || -> Instant { panic!("who only owes asks for no time") };
    let ask = |pad: &mut Pad, at: u64| brake.before(pad, (Access::SlowRead, Instant::ZERO), || Instant(at));
    for _ in 0..39 {
        assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), no_clock), Hold::None);
        assert_eq!(brake.after(&mut pad, READ, no_clock), Hold::None);
    }
    assert_eq!(brake.after(&mut pad, READ, || Instant(4_000)), Hold::None);
    // Whenever it asks, it waits from then on.
    let hold = ask(&mut pad, 5_000);
    assert_eq!(hold, Hold::Until(Instant(105_000)), "forty of 2.5 µs");
    // It comes back 30 µs late: twelve delays more are paid for.
    assert_eq!(ask(&mut pad, 6_000), hold);
    assert_eq!(ask(&mut pad, 135_000), Hold::None);
    for _ in 0..51 {
        assert_eq!(brake.after(&mut pad, READ, no_clock), Hold::None);
    }
    assert_eq!(brake.after(&mut pad, READ, || Instant(140_000)), Hold::None);
    assert_eq!(ask(&mut pad, MS), Hold::Until(Instant(MS + 100_000)));
    // Who waits very long is owed no more than what may come off.
    assert_eq!(ask(&mut pad, 9 * MS), Hold::None);
    assert_eq!(pad.owed_ns, -i64::try_from(LATE_MAX.0).unwrap());
}

/// Who has nothing to ask for waits meanwhile, and who asks only then waits for what is left of it.
#[test]
fn who_had_nothing_to_ask_for_has_waited_meanwhile() {
    for (arrived_us, asks_us, waits_us) in
        [(0, 10, 200), (50, 60, 150), (150, 500, 50), (199, 199, 1), (200, 200, 0), (900, 950, 0)]
    {
        let (brake, mut pad) = (Brake::default(), Pad::default());
        set(&brake, Setting { delay: 20_000, ..Setting::FREE }, 0);
        assert_eq!(brake.after(&mut pad, READ, || Instant(MS)), Hold::None);
        let (arrived, asks) = (Instant(MS + arrived_us * US), Instant(MS + asks_us * US));
        let then = Instant(asks.0 + waits_us * US);
        let hold = brake.before(&mut pad, (READ.0, arrived), || asks);
        assert_eq!(hold, super::hold(then, asks), "{arrived_us} {asks_us}");
        assert_eq!(brake.before(&mut pad, (READ.0, arrived), || then), Hold::None);
    }
}

/// Somebody who asks again long after its last access, because others are served first, waits as long as somebody who asks at once.
#[test]
fn a_delay_adds_to_what_a_request_waits_for_otherwise() {
    for (delay_us, others_us) in [(20_u32, 150_u64), (60, 150), (75, 150), (80, 150), (200, 150), (75, 400)] {
        let (brake, mut pad) = (Brake::default(), Pad::default());
        set(&brake, Setting { delay: delay_us * 100, ..Setting::FREE }, 0);
        let (takes, end) = (40_000, 400 * MS);
        let (mut now, mut done) = (0, 0_u64);
        while now < end {
            // Two requests; those that follow wait for the others, and then for what is owed.
            for _ in 0..2 {
                now += takes;
                done += 1;
                brake.after(&mut pad, READ, || Instant(now));
            }
            now += others_us * 1_000;
            if let Hold::Until(then) =
                brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(now))
            {
                now = then.0;
                assert_eq!(
                    brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(now)),
                    Hold::None
                );
            }
        }
        let each = takes + others_us * 500 + u64::from(delay_us) * 1_000;
        let wanted = end as f64 / each as f64;
        assert!((done as f64 / wanted - 1.0).abs() < 0.01, "{delay_us} {others_us}: {done} for {wanted:.0}");
    }
}

/// A worker that comes to somebody whenever it has served another, each time for longer than the delay that is left: the delay says how much is done
/// all the same.
#[test]
fn who_is_served_late_in_every_round_does_what_its_delay_says() {
    for (delay_us, round_us) in [(150_u32, 340_u64), (250, 340), (250, 620), (400, 340), (550, 620)] {
        let (brake, mut pad) = (Brake::default(), Pad::default());
        set(&brake, Setting { delay: delay_us * 100, ..Setting::FREE }, 0);
        let (takes, round, end) = (130_000, round_us * 1_000, 200 * MS);
        let (mut now, mut done) = (0, 0_u64);
        while now < end {
            // Served until it has to wait, then the other one's round.
            while brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(now)) == Hold::None {
                now += takes;
                done += 1;
                brake.after(&mut pad, READ, || Instant(now));
            }
            now += round;
        }
        let each = takes + u64::from(delay_us) * 1_000;
        let wanted = end as f64 / each as f64;
        assert!((done as f64 / wanted - 1.0).abs() < 0.05, "{delay_us} {round_us}: {done} for {wanted:.0}");
    }
}

#[test]
fn up_to_a_microsecond_of_a_budget_is_spun_and_more_is_waited_for() {
    let budget = Some(Budget { cost_ps: 150, per: PERIOD_MIN });
    for (at, hold) in [
        (PERIOD_MIN.0 - 1_000, Hold::Spin(Instant(PERIOD_MIN.0))),
        (PERIOD_MIN.0 - 1_001, Hold::Until(Instant(PERIOD_MIN.0))),
    ] {
        let (brake, mut pad) = (Brake::default(), Pad::default());
        set(&brake, Setting { budget, ..Setting::FREE }, 0);
        assert_eq!(brake.after(&mut pad, READ, || Instant(at)), Hold::None);
        assert_eq!(brake.after(&mut pad, READ, || Instant(at)), hold);
    }
}

#[test]
fn a_pause_lasts_until_the_brake_changes() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    set(&brake, Setting { paused: true, ..Setting::FREE }, 0);
    let version = brake.version();
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(1)), Hold::Paused);
    assert_eq!(brake.before(&mut pad, (Access::DramRead, Instant::ZERO), || Instant(1)), Hold::None);
    assert_eq!(brake.after(&mut pad, READ, || Instant(1)), Hold::Paused);
    set(&brake, Setting::FREE, 2);
    assert_ne!(brake.version(), version);
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(3)), Hold::None);
}

#[test]
fn a_budget_is_kept_within_a_thousandth_per_thread_in_every_period() {
    // 2000 accesses per millisecond; four threads could make 40,000.
    let budget = Budget { cost_ps: 200_000, per: Duration(MS) };
    let brake = Brake::default();
    set(&brake, Setting { budget: Some(budget), ..Setting::FREE }, 0);
    let mut pads: Vec<Pad> = (0..4).map(|_| Pad::default()).collect();
    for period in 0..20 {
        let done: u64 = drive(&brake, &mut pads, READ, 100, (period * MS, (period + 1) * MS)).iter().sum();
        assert!((1984..=2008).contains(&done), "{done} accesses in period {period}");
        let depleted = brake.take_depleted_at().expect("it ran out");
        // 50 µs of work for four threads.
        assert!((49 * US..=52 * US).contains(&(depleted.0 - period * MS)), "ran out at {depleted:?}");
    }
    assert_eq!(brake.take_depleted_at(), None);
}

#[test]
fn a_budget_that_is_not_used_up_does_not_hold_and_is_not_saved() {
    let budget = Budget { cost_ps: 200_000, per: Duration(MS) };
    let brake = Brake::default();
    set(&brake, Setting { budget: Some(budget), ..Setting::FREE }, 0);
    let mut pads = [Pad::default()];
    // One access per µs is half of it.
    let done = drive(&brake, &mut pads, READ, US, (0, 10 * MS));
    assert_eq!((done[0], brake.take_depleted_at()), (10_000, None));
    let burst = drive(&brake, &mut pads, READ, 100, (10 * MS, 11 * MS));
    assert!(burst[0] <= 2004, "what was left of earlier periods is gone: {burst:?}");
}

#[test]
fn what_is_spent_beyond_a_budget_takes_periods_more() {
    let budget = Budget { cost_ps: 1000, per: Duration(MS) };
    let brake = Brake::default();
    set(&brake, Setting { budget: Some(budget), ..Setting::FREE }, 0);
    let huge = (Access::SlowWrite, Bytes(1 << 20), 3500);
    let mut pads = [Pad::default()];
    assert_eq!(brake.after(&mut pads[0], huge, || Instant(10)), Hold::Until(Instant(3 * MS)));
    // 500 are left of the fourth period.
    let done = drive(&brake, &mut pads, READ, 100, (10, 4 * MS));
    assert_eq!(done, [5]);
}

#[test]
fn a_budget_that_is_set_again_runs_on_and_more_of_it_frees() {
    let budget = |cost_ps| Setting { budget: Some(Budget { cost_ps, per: Duration(MS) }), ..Setting::FREE };
    let (brake, mut pad) = (Brake::default(), Pad::default());
    set(&brake, budget(1000), 0);
    let all = (Access::SlowRead, Bytes(256), 1000);
    assert_eq!(brake.after(&mut pad, all, || Instant(10)), Hold::Until(Instant(MS)));
    let version = brake.version();
    set(&brake, budget(1000), 20);
    assert_eq!(brake.version(), version, "nothing changed");
    assert_eq!(
        brake.after(&mut Pad::default(), READ, || Instant(30)),
        Hold::Until(Instant(MS)),
        "nor is it full again"
    );
    set(&brake, budget(5000), 40);
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(50)), Hold::None);
    assert_eq!(brake.take_depleted_at(), Some(Instant(10)));
}

#[test]
fn a_budget_that_begins_is_whole_and_what_was_used_before_is_the_caller_s_to_charge() {
    let budget = Setting { budget: Some(Budget { cost_ps: 1000, per: Duration(MS) }), ..Setting::FREE };
    let (brake, mut pad) = (Brake::default(), Pad::default());
    brake.begin(budget, Instant(0));
    let all = (Access::SlowRead, Bytes(256), 2500);
    assert_eq!(brake.after(&mut pad, all, || Instant(10)), Hold::Until(Instant(2 * MS)));
    brake.begin(budget, Instant(MS / 2));
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(MS / 2)), Hold::None);
    let done = drive(&brake, std::slice::from_mut(&mut pad), READ, 100, (MS / 2, 3 * MS / 2));
    assert_eq!(done, [10], "one budget until the period ends a whole period after it began");
    brake.begin(Setting::FREE, Instant(2 * MS));
    assert!(brake.is_free());
}

#[test]
fn who_begins_periods_late_grants_no_more_than_the_time_that_passed() {
    let budget =
        Setting { budget: Some(Budget { cost_ps: 200_000, per: Duration(10 * MS) }), ..Setting::FREE };
    let brake = Brake::default();
    let mut pads = [Pad::default(), Pad::default()];
    brake.begin(budget, Instant(0));
    // 2000 accesses in a period, all at once; a fifth of the next before it is begun, a fifth of that more until then.
    let done: u64 = drive(&brake, &mut pads, READ, 100, (0, 12 * MS)).iter().sum();
    assert!((2_380..=2_460).contains(&done), "{done} accesses in a period and a fifth");
    let rest: u64 = drive(&brake, &mut pads, READ, 100, (12 * MS, 30 * MS)).iter().sum();
    assert!((3_500..=3_640).contains(&rest), "{rest} accesses in what is left of three periods");
    brake.begin(budget, Instant(30 * MS));
    let done: u64 = drive(&brake, &mut pads, READ, 100, (30 * MS, 40 * MS)).iter().sum();
    assert!((1_990..=2_010).contains(&done), "{done} accesses in a period that was begun");
}

#[test]
fn a_budget_of_nothing_lets_nothing_pass() {
    let budget = Setting { budget: Some(Budget { cost_ps: 0, per: Duration(MS) }), ..Setting::FREE };
    let (brake, mut pads) = (Brake::default(), [Pad::default(), Pad::default()]);
    brake.begin(budget, Instant(5));
    assert_eq!(
        brake.before(&mut pads[0], (Access::SlowRead, Instant::ZERO), || Instant(7)),
        Hold::Until(Instant(MS + 5))
    );
    assert_eq!(drive(&brake, &mut pads, READ, 100, (10, MS)), [0, 0]);
}

#[test]
fn a_cap_is_kept_within_a_hundredth_by_any_number_of_threads() {
    for (threads, rate, size) in [(1, 100_000_000, 256), (4, 1_000_000_000, 4096), (3, 1_000_000, 100_000)] {
        let brake = Brake::default();
        let mut setting = Setting::FREE;
        setting.cap[Access::SlowWrite as usize] = Some(BytesPerSec(rate));
        set(&brake, setting, 0);
        let mut pads: Vec<Pad> = (0..threads).map(|_| Pad::default()).collect();
        let write = (Access::SlowWrite, Bytes(size), 0);
        let done: u64 = drive(&brake, &mut pads, write, 200, (0, 1000 * MS)).iter().sum();
        let slack = (rate / 100).max((threads + 1) * size);
        assert!((done * size).abs_diff(rate) <= slack, "{} bytes of {rate}", done * size);
        let read = (Access::SlowRead, Bytes(size), 0);
        assert_eq!(
            brake.after(&mut Pad::default(), read, || Instant(1000 * MS)),
            Hold::None,
            "reads have no cap"
        );
    }
}

#[test]
fn a_cap_on_writes_holds_no_reads_and_counts_what_others_write_for_the_tenant() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    let mut setting = Setting::FREE;
    setting.cap[Access::SlowWrite as usize] = Some(BytesPerSec(1_000_000));
    set(&brake, setting, 0);
    let write = |bytes| (Access::SlowWrite, Bytes(bytes), 0);
    let until = |ms: u64| Hold::Until(Instant(ms * MS));
    assert_eq!(brake.after(&mut pad, write(10_000), || Instant(0)), until(9), "of 10 ms 1 may be ahead");
    assert_eq!(brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(10)), Hold::None);
    assert_eq!(brake.after(&mut pad, READ, || Instant(20)), Hold::None);
    assert_eq!(brake.before(&mut pad, (Access::SlowWrite, Instant::ZERO), || Instant(30)), until(9));
    // What a cleaner writes is paid beside what the tenant does, byte by byte.
    brake.owe(write(5_000), || Instant(40));
    assert_eq!(brake.before(&mut pad, (Access::SlowWrite, Instant::ZERO), || Instant(9 * MS)), Hold::None);
    assert_eq!(brake.after(&mut pad, write(3_000), || Instant(9 * MS)), until(15), "3,000 and 3,000 owed");
    assert_eq!(brake.after(&mut pad, write(3_000), || Instant(15 * MS)), until(20), "3,000 and 2,000 owed");
    assert_eq!(brake.after(&mut pad, write(3_000), || Instant(20 * MS)), until(23), "nothing is owed");
    brake.owe((Access::SlowRead, Bytes(1 << 40), 0), || Instant(60));
    assert_eq!(
        brake.before(&mut pad, (Access::SlowRead, Instant::ZERO), || Instant(70)),
        Hold::None,
        "reads have no cap"
    );
}

#[test]
fn whatever_cleaners_write_a_tenant_has_half_of_its_cap() {
    let brake = Brake::default();
    let mut setting = Setting::FREE;
    setting.cap[Access::SlowWrite as usize] = Some(BytesPerSec(10_000_000));
    set(&brake, setting, 0);
    let mut pads = [Pad::default()];
    let mut done = 0;
    for ms in 0..1_000 {
        brake.owe((Access::SlowWrite, Bytes(1 << 20), 0), || Instant(ms * MS));
        let write = (Access::SlowWrite, Bytes(1_000), 0);
        done += drive(&brake, &mut pads, write, 200, (ms * MS, (ms + 1) * MS))[0];
    }
    assert!((4_900..=5_200).contains(&done), "{done} writes of 1,000 bytes under a cap of ten megabytes");
}

#[test]
fn what_has_passed_is_due_at_the_cap_that_holds_now() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    let capped = |bytes| {
        let mut setting = Setting::FREE;
        setting.cap[Access::SlowWrite as usize] = bytes;
        setting
    };
    let (write, slow, fast) =
        ((Access::SlowWrite, Bytes(1_000_000), 0), Some(BytesPerSec(100_000)), Some(BytesPerSec(10_000_000)));
    set(&brake, capped(slow), 0);
    assert_eq!(brake.after(&mut pad, write, || Instant(0)), Hold::Until(Instant(9_999 * MS)));
    // Nine tenths of a megabyte are left after a second: 90 ms at the new rate.
    set(&brake, capped(fast), 1_000 * MS);
    let until = Hold::Until(Instant(1_089 * MS));
    assert_eq!(brake.before(&mut pad, (Access::SlowWrite, Instant::ZERO), || Instant(1_000 * MS)), until);
    assert_eq!(
        brake.before(&mut Pad::default(), (Access::SlowWrite, Instant::ZERO), || Instant(1_000 * MS)),
        until
    );
    assert_eq!(
        brake.before(&mut pad, (Access::SlowWrite, Instant::ZERO), || Instant(1_089 * MS)),
        Hold::None
    );
    set(&brake, capped(None), 1_001 * MS);
    set(&brake, capped(slow), 1_002 * MS);
    let none = (Access::SlowWrite, Bytes(10), 0);
    assert_eq!(
        brake.after(&mut pad, none, || Instant(1_002 * MS)),
        Hold::None,
        "under no cap nothing is due"
    );
}

#[test]
fn extreme_settings_do_not_overflow() {
    let most = Setting {
        delay: u32::MAX,
        paused: false,
        budget: Some(Budget { cost_ps: 0, per: Duration(u64::MAX) }),
        cap: [Some(BytesPerSec(0)); 4],
    };
    let (brake, mut pad) = (Brake::default(), Pad::default());
    set(&brake, most, u64::MAX);
    for access in Access::ALL {
        let all = (access, Bytes(u64::MAX), u64::MAX);
        let hold = brake.after(&mut pad, all, || Instant(5));
        assert!(matches!(hold, Hold::Until(_)), "{hold:?}");
        let asked = brake.before(&mut pad, (access, Instant::ZERO), || Instant(5));
        assert!(matches!(asked, Hold::Until(_)), "{asked:?}");
    }
    set(&brake, Setting { budget: Some(Budget { cost_ps: 1, per: Duration(0) }), ..Setting::FREE }, 0);
    let hold = brake.after(&mut pad, (Access::SlowRead, Bytes(1), u64::MAX), || Instant(5));
    assert!(matches!(hold, Hold::Until(_)), "{hold:?}");
}

#[test]
fn what_is_spent_for_a_tenant_comes_off_its_budget_and_never_more_than_half_of_it() {
    let per = Duration(10 * MS);
    let budget = Some(Budget { cost_ps: 100 * 1_000, per });
    let (brake, mut pads) = (Brake::default(), [Pad::default()]);
    let no_clock = || -> Instant { panic!("what a free tenant owes is nobody's account") };
    let owe = |cost_ps, at| brake.owe((Access::SlowWrite, Bytes(256), cost_ps), || Instant(at));
    brake.owe((Access::SlowWrite, Bytes(256), 1_000_000), no_clock);
    set(&brake, Setting { budget, ..Setting::FREE }, 0);
    let done = |pads: &mut [Pad], from, to| drive(&brake, pads, READ, US, (from, to))[0];
    assert_eq!(done(&mut pads, 0, 10 * MS), 1_000);
    owe(40_000, 10 * MS);
    let left = done(&mut pads, 10 * MS, 20 * MS);
    assert!((599..=602).contains(&left), "{left} of a budget of which two fifths were spent");
    owe(120_000, 20 * MS);
    for (period, left) in [(2, 500), (3, 500), (4, 800), (5, 1_000)] {
        let done = done(&mut pads, period * 10 * MS, (period + 1) * 10 * MS);
        assert!(done.abs_diff(left) <= 3, "{done} accesses in period {period}, not {left}");
    }
    owe(u64::MAX, 60 * MS);
    let half = done(&mut pads, 60 * MS, 1_060 * MS);
    assert!((49_900..=50_100).contains(&half), "{half} accesses in a hundred periods, half of each paid");
    let left = done(&mut pads, 1_120 * MS, 1_130 * MS);
    assert!(
        left <= 502,
        "six periods in which nobody came have paid six of the fifty that were left: {left}"
    );
    let left = done(&mut pads, 1_700 * MS, 1_710 * MS);
    assert!(998 <= left, "a hundred periods were owed, and are paid: {left}");
}
