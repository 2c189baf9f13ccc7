//! Who takes turns under `proportional`: who does nothing is out, and who pays for what it used is not.

use super::*;
use crate::estimate::pause::PAUSE;
use crate::estimate::stand_alone::Turn;

/// Epochs after which who does nothing is out, and some more.
const OUT: usize = (IDLE.0 / EPOCH.0) as usize + 40;

/// Time would be shared by two, however many others there are who do nothing: two thirds of it are the first one's.
#[test]
fn who_does_nothing_takes_no_turn() {
    let plant = |donor: f64| {
        let mut plant = Plant::new(&[(2.0, donor), (1.0, 100.0), (1.0, 100.0)]);
        plant.asleep = 1;
        plant
    };
    let mut policy = Proportional::new(aware(0.1), Pause::default(), 1);
    let mut slowed = plant(16.0);
    // Past W / w = 1.5, though not past two.
    slowed.kept[0] = 1.0 / 1.6;
    let budgets = slowed.run(&mut policy, OUT);
    assert!((655..=666).contains(&budgets[0]) && budgets[2] < 5, "{budgets:?}");
    let mut policy = Proportional::new(Donation::Kept, Pause::default(), 1);
    let budgets = plant(100.0).run(&mut policy, OUT);
    assert_eq!(budgets, [500, 250, 250], "what is idle is kept");
    // It comes back.
    for donation in [Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut back = plant(100.0);
        let budgets = back.run(&mut policy, OUT);
        assert!((655..=666).contains(&budgets[0]) && budgets[2] < 5, "{budgets:?}");
        back.asleep = 0;
        // After the first decision, over no time.
        assert_eq!(back.run(&mut policy, 2), [500, 250, 250]);
    }
}

/// Tenants come and go while others have done nothing for long: what is divided is one tier at any time, as `Plant::step` and the shares assert.
#[test]
fn tenants_come_and_go_while_others_do_nothing() {
    for donation in [Donation::All, aware(0.1), Donation::Kept] {
        for wants in [0.0, 100.0] {
            let mut policy = Proportional::new(donation, Pause::default(), 1);
            let mut plant = Plant::new(&[(1.0, wants), (1.0, wants), (1.0, 0.0)]);
            plant.asleep = if wants == 0.0 { 3 } else { 1 };
            plant.run(&mut policy, OUT);
            let gone = plant.rows.remove(0);
            plant.asleep = plant.asleep.min(2);
            (plant.wants, plant.kept) = (vec![wants, 0.0], vec![1.0; 2]);
            let budgets = plant.run(&mut policy, 5);
            assert_eq!(budgets.len(), 2);
            plant.rows.insert(0, Case { in_force: None, ..gone });
            (plant.wants, plant.kept) = (vec![wants, wants, 0.0], vec![1.0; 3]);
            let budgets = plant.run(&mut policy, 40);
            assert!(wants == 0.0 || 326 < budgets[0].min(budgets[1]), "{donation:?}: {budgets:?}");
        }
    }
}

/// However many there are, all of them together keep a hundredth.
#[test]
fn many_who_do_nothing_keep_little() {
    for donation in [Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut tenants = vec![(1.0, 0.0); 101];
        tenants[0].1 = 100.0;
        let mut plant = Plant::new(&tenants);
        plant.asleep = 100;
        let budgets = plant.run(&mut policy, OUT + 40);
        assert!(985 <= budgets[0], "{donation:?}: {budgets:?}");
    }
}

/// Whatever is known of what it does alone: nobody is slowed down who does nothing.
#[test]
fn who_is_out_keeps_little_however_heavy_it_is() {
    let mut policy = Proportional::new(aware(0.1), Pause::default(), 1);
    let mut plant = Plant::new(&[(1.0, 100.0), (9.0, 100.0)]);
    plant.run(&mut policy, 3);
    assert!(1.0 / 0.9 < policy.members[1].doubt(), "seen once or twice");
    plant.asleep = 1;
    let budgets = plant.run(&mut policy, OUT + 60);
    assert!(985 <= budgets[0], "{budgets:?}");
}

/// One access takes sixteen epochs of the tier: it is paid for out of the tenant's part, and while it waits, of which the brake says nothing, it
/// neither lends that nor counts as idle.
#[test]
fn who_pays_for_what_it_used_lends_nothing_meanwhile() {
    for donation in [Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut rows = [weighing(1, 1.0), weighing(2, 1.0)];
        let (mut now, mut paid, mut done) = (0, 0, false);
        while paid == 0 || policy.members[0].owed > 0.0 {
            let held = rows.each_ref().map(|row| row.in_force.unwrap_or_default());
            let steady = held.iter().all(|throttle| throttle.budget.is_some());
            let begins = steady && !done && 2_000 < now;
            let signal = rows[0].reads(u64::from(begins), EPOCH);
            signal.operations = u64::from(begins);
            signal.cost = Cost(if begins { EPOCH.0 * 1_000 * 16 } else { 0 });
            done |= begins;
            paid += u64::from(done);
            let used = held[1].budget.map_or(0, |budget| budget.cost.0);
            let signal = rows[1].reads(1_000, EPOCH);
            (signal.cost, signal.depleted_at) = (Cost(used), Some(Instant((now + 1) * 1_000_000)));
            decide(&mut policy, &mut rows, window(now, now + 2));
            now += 2;
            assert!(paid < 100, "{donation:?}: it owes {} still", policy.members[0].owed);
        }
        assert!((16..=80).contains(&paid), "{donation:?}: {paid} epochs");
    }
}

/// Weights count where nobody does anything, too: who comes back finds its part.
#[test]
fn where_nobody_does_anything_parts_are_by_weight() {
    for donation in [Donation::All, aware(0.1)] {
        let mut policy = Proportional::new(donation, Pause::default(), 1);
        let mut plant = Plant::new(&[(3.0, 100.0), (1.0, 100.0)]);
        plant.asleep = 2;
        plant.run(&mut policy, OUT);
        plant.asleep = 0;
        assert_eq!(plant.run(&mut policy, 2), [750, 250], "{donation:?}");
    }
}

/// Who has stopped is not watched alone any more, and is again when it goes on.
#[test]
fn who_does_nothing_is_not_watched_alone() {
    let mut policy = Proportional::new(aware(0.1), Pause::default(), 1);
    let mut plant = Plant::new(&[(1.0, 30.0), (1.0, 30.0), (1.0, 30.0)]);
    let mut wake = Duration::ZERO;
    let mut probes = |plant: &mut Plant, epochs: usize| {
        let mut seen = [0_u32; 3];
        for _ in 0..epochs {
            wake = plant.step(&mut policy, wake).wake;
            if let Some(probe) = &policy.probing {
                seen[probe.alone.index() - 1] += 1;
            }
        }
        seen
    };
    let awake = probes(&mut plant, 5_000);
    assert!(awake.iter().all(|probes| 5 <= *probes), "{awake:?}");
    plant.asleep = 1;
    // Until it has done nothing for long.
    probes(&mut plant, OUT);
    let asleep = probes(&mut plant, 5_000);
    assert!(asleep[2] == 0 && 5 <= asleep[0], "{asleep:?}");
    plant.asleep = 0;
    let again = probes(&mut plant, 5_000);
    assert!(5 <= again[2], "{again:?}");
}

/// Somebody asks for a decision before a pause has settled: nothing that follows is part of it.
#[test]
fn a_pause_that_is_cut_short_says_nothing() {
    let mut policy = Proportional::new(aware(0.1), Pause::new(Duration::from_micros(500), None), 1);
    let mut plant = Plant::new(&[(2.0, 16.0), (1.0, 100.0)]);
    let mut looked = |last: Duration, policy: &mut Proportional| {
        let wake = plant.step(policy, last).wake;
        (wake, policy.members[0].alone.turn())
    };
    assert_eq!(looked(Duration::ZERO, &mut policy), (EPOCH, Turn::AtOnce), "it settles");
    assert_eq!(looked(Duration(EPOCH.0 / 2), &mut policy), (EPOCH, Turn::AtOnce), "anew");
    assert_eq!(looked(EPOCH, &mut policy), (PAUSE, Turn::AtOnce), "now it counts");
    assert_eq!(looked(PAUSE, &mut policy).1, Turn::InTurn);
}
