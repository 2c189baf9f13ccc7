//! What a budget of nothing holds, and for how long.

use super::*;

const MS: u64 = 1_000_000;
const READ: (Access, Bytes, u64) = (Access::SlowRead, Bytes(256), 100);

fn budget(cost_ps: u64) -> Setting {
    Setting { budget: Some(Budget { cost_ps, per: Duration(2 * MS) }), ..Setting::FREE }
}

/// When a thread that asks from `from` on may access, if that is before `to`.
fn let_in(brake: &Brake, pad: &mut Pad, (from, to): (u64, u64)) -> Option<u64> {
    let mut now = from;
    while now < to {
        match brake.before(pad, (READ.0, Instant::ZERO), || Instant(now)) {
            Hold::None => return Some(now),
            Hold::Spin(then) | Hold::Until(then) => now = then.0,
            Hold::Paused => return None,
        }
    }
    None
}

/// The next decision comes as late as it comes: until then nothing passes, and who waits for it loses no more than as much again.
#[test]
fn a_budget_of_nothing_holds_until_the_next_is_begun() {
    for late in [0, MS / 10, MS, 7 * MS, 900 * MS] {
        let (brake, mut pads) = (Brake::default(), [Pad::default(), Pad::default()]);
        brake.begin(budget(0), Instant(0));
        let begins = 2 * MS + late;
        for pad in &mut pads {
            assert_eq!(let_in(&brake, pad, (5, begins)), None, "late by {late} ns");
            // When it is begun they still wait.
            let hold = brake.before(pad, (READ.0, Instant::ZERO), || Instant(begins));
            let Hold::Until(then) = hold else { panic!("late by {late} ns: {hold:?}") };
            let waits = then.0 - begins;
            assert!(waits <= late.clamp(PERIOD_MIN.0, 2 * MS), "late by {late} ns, and {waits} more");
        }
        brake.begin(budget(1_000_000), Instant(begins));
        assert_eq!(let_in(&brake, &mut pads[0], (begins, begins + 1)), Some(begins));
    }
}

/// Where nobody begins periods any more a thread is held for some seconds and not for ever, and what passes is little.
#[test]
fn nobody_is_held_for_ever_by_a_budget_of_nothing_of_who_has_died() {
    let (brake, mut pad) = (Brake::default(), Pad::default());
    brake.begin(budget(0), Instant(0));
    let (mut now, mut passed) = (0, 0);
    while let Some(at) = let_in(&brake, &mut pad, (now, 60_000 * MS)) {
        assert!(9_000 * MS < at - now, "after {} ns", at - now);
        passed += 1;
        now = at + 1_000;
        brake.after(&mut pad, READ, || Instant(now));
    }
    assert!((4..=6).contains(&passed), "{passed} accesses in a minute");
}
