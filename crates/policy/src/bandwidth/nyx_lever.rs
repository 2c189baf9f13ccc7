//! Holds a tenant back as a whole, by whichever lever it has: what NyxCache's policies do where MT²'s choose a kind.
//!
//! Shape:      levers, the throttle asked for, what the tenant did -> the next throttle
//! Invariants: those of the regulator, which does it
//! Source:     NyxCache §3.3: one delay before each access of a tenant to the tier, reads and writes alike

use super::regulator::{self, Step};
use control::bandwidth::{BandwidthSignal, Kind, Kinds, Throttle};
use control::{Class, Levers, Row, Window};
use units::Bytes;

/// `held`, tighter by one step; none if nothing that the tenant does can be held back further.
pub(super) fn tighter(
    levers: &Levers,
    held: Throttle,
    step: Step,
    seen: (&BandwidthSignal, Window),
) -> Option<Throttle> {
    let merged = regulator::merged(levers, Kind::SlowRead, seen.0);
    let most = most_in_reach(levers, &merged)?;
    regulator::tighten(levers, held, most, step, Some((&merged, seen.1)))
}

/// The kind that a tenant does most of, of those that its levers act on.
fn most_in_reach(levers: &Levers, signal: &BandwidthSignal) -> Option<Kind> {
    let does = |&kind: &Kind| acts(levers, kind) && Bytes::ZERO < *signal.bytes.get(kind);
    Kind::ALL.into_iter().filter(does).max_by_key(|&kind| *signal.bytes.get(kind))
}

/// What a policy that begins takes over of what is in force: what moves in steps, so that it goes on from there and lets nobody
/// go at once, but whom an experiment has free or paused at that moment; not budgets, caps and pauses, which are another
/// policy's or an experiment's.
pub(super) fn taken_over(row: &Row<BandwidthSignal, Throttle>) -> Throttle {
    let held = row.in_force.filter(|_| row.claim.class != Class::Exempt).unwrap_or_default();
    Throttle { paused: false, budget: None, cap: Kinds::default(), ..held }
}

/// Whether any of a tenant's levers acts on a kind.
pub(super) fn acts(levers: &Levers, kind: Kind) -> bool {
    *levers.brake.get(kind) || levers.mba.is_some_and(|mba| *mba.acts_on.get(kind)) || levers.cpu.is_some()
}

/// What of a tenant's traffic its levers act on: a step of anything else would take all of that.
pub(super) fn in_reach(levers: &Levers, signal: &BandwidthSignal) -> Bytes {
    Kind::ALL.into_iter().filter(|&kind| acts(levers, kind)).map(|kind| *signal.bytes.get(kind)).sum()
}

/// `held`, looser by one step; none if it is free. A lever that the tenant no longer has is let go at once: no step of it
/// is known.
pub(super) fn looser(
    levers: &Levers,
    held: Throttle,
    step: Step,
    seen: Option<(&BandwidthSignal, Window)>,
) -> Option<Throttle> {
    let own = without_lost(levers, held);
    if own != held {
        return Some(own);
    }
    let of = |acts: &dyn Fn(Kind) -> bool| Kind::ALL.into_iter().find(|&kind| acts(kind));
    let kind = if held.cpu.is_some() {
        // What a step of CPU time gives is known of what most of it is used for.
        seen.and_then(|(signal, _)| most_in_reach(levers, signal))
    } else if held.mba < 100 {
        of(&|kind| levers.mba.is_some_and(|mba| *mba.acts_on.get(kind)))
    } else {
        of(&|kind| *levers.brake.get(kind))
    };
    regulator::relax(levers, held, kind.unwrap_or(Kind::SlowRead), step, seen)
}

/// `held` without the levers that the tenant does not have, or cannot loosen.
fn without_lost(levers: &Levers, held: Throttle) -> Throttle {
    let any = |kinds: &Kinds<bool>| kinds.iter().any(|(_, acts)| *acts);
    let has_mba = levers.mba.is_some_and(|mba| any(&mba.acts_on) && mba.above(held.mba).is_some());
    let has_brake = any(&levers.brake);
    Throttle {
        delay: if has_brake { held.delay } else { Throttle::FREE.delay },
        paused: held.paused && has_brake,
        mba: if has_mba { held.mba } else { Throttle::FREE.mba },
        cpu: held.cpu.filter(|_| levers.cpu.is_some()),
        ..held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{CpuQuota, Mba};
    use units::{BytesPerSec, Duration, Instant};

    const SECOND: Window =
        Window { start: Instant::ZERO, end: Instant(Duration::from_secs(1).0), mixed: false };

    fn mixed(read: u64, write: u64) -> BandwidthSignal {
        let by = |read, write| Kinds { slow_read: read, slow_write: write, ..Kinds::default() };
        BandwidthSignal {
            bytes: Kinds { slow_read: Bytes(read), slow_write: Bytes(write), ..Kinds::default() },
            accesses: by(read / 256, write / 256),
            threads: 1,
            ..BandwidthSignal::default()
        }
    }

    #[test]
    fn reads_and_writes_behind_one_brake_are_held_back_together() {
        let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::default() };
        let levers = Levers { brake, ..Levers::default() };
        // From 1.28 to 0.64 GB/s of both: an access of 256 B takes 400 ns instead of 200.
        let step = Step::By(BytesPerSec(640_000_000));
        for (read, write) in [(1_280_000_000, 0), (640_000_000, 640_000_000), (0, 1_280_000_000)] {
            let held = tighter(&levers, Throttle::FREE, step, (&mixed(read, write), SECOND)).unwrap();
            assert_eq!(held.delay, 20, "{read} {write}");
        }
        let idle = BandwidthSignal::default();
        assert_eq!(tighter(&levers, Throttle::FREE, step, (&idle, SECOND)), None, "nothing to hold back");
    }

    #[test]
    fn cpu_time_is_given_back_by_what_most_of_it_is_used_for() {
        let levers = Levers { cpu: Some(CpuQuota { most: 4_000, least: 500 }), ..Levers::default() };
        let held = Throttle { cpu: Some(1_000), ..Throttle::FREE };
        let step = Step::By(BytesPerSec(500_000_000));
        let signal = mixed(1_000_000, 2_000_000_000);
        let looser = looser(&levers, held, step, Some((&signal, SECOND)));
        assert_eq!(looser.and_then(|looser| looser.cpu), Some(1_250), "a quarter more");
    }

    #[test]
    fn what_no_lever_acts_on_is_out_of_reach() {
        let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::default() };
        let mut signal = mixed(300, 50);
        signal.bytes.dram_read = Bytes(9_000);
        for (levers, bytes) in [
            (Levers { brake, ..Levers::default() }, 350),
            (Levers { cpu: Some(CpuQuota { most: 1000, least: 500 }), ..Levers::default() }, 9_350),
            (Levers::default(), 0),
        ] {
            assert_eq!(in_reach(&levers, &signal), Bytes(bytes), "{levers:?}");
        }
    }

    #[test]
    fn a_lever_that_was_taken_away_lets_go() {
        let all = Levers {
            brake: Kinds { slow_read: true, ..Kinds::default() },
            mba: Some(Mba::MT2),
            cpu: Some(CpuQuota { most: 1000, least: 500 }),
        };
        let held = Throttle { delay: 20, mba: 50, cpu: Some(600), ..Throttle::FREE };
        let deaf = Mba { acts_on: Kinds::default(), ..Mba::MT2 };
        let no_way_up = Mba { levels: 0b1_1111, ..Mba::MT2 };
        for (levers, kept) in [
            (all, None),
            (Levers { brake: Kinds::default(), ..all }, Some(Throttle { delay: 0, ..held })),
            (Levers { mba: None, ..all }, Some(Throttle { mba: 100, ..held })),
            (Levers { mba: Some(deaf), ..all }, Some(Throttle { mba: 100, ..held })),
            (Levers { mba: Some(no_way_up), ..all }, Some(Throttle { mba: 100, ..held })),
            (Levers { cpu: None, ..all }, Some(Throttle { cpu: None, ..held })),
            (Levers::default(), Some(Throttle::FREE)),
        ] {
            let mut next = looser(&levers, held, Step::One, None).unwrap();
            assert!(kept.is_none_or(|kept| kept == next), "{levers:?}: {next:?}");
            let mut steps = 1;
            while let Some(looser) = looser(&levers, next, Step::One, None) {
                next = looser;
                steps += 1;
                assert!(steps < 100, "it ends");
            }
            assert_eq!(next, Throttle::FREE, "{levers:?}");
        }
        let paused = Throttle { paused: true, delay: 20, ..Throttle::FREE };
        assert_eq!(looser(&Levers::default(), paused, Step::One, None), Some(Throttle::FREE));
    }

    #[test]
    fn the_host_levers_are_undone_in_turn() {
        let levers = Levers {
            mba: Some(Mba::MT2),
            cpu: Some(CpuQuota { most: 1000, least: 500 }),
            ..Levers::default()
        };
        let mut signal = BandwidthSignal::default();
        signal.bytes.dram_write = Bytes(5_000_000_000);
        let mut held = Throttle::FREE;
        let mut steps = 0;
        while let Some(next) = tighter(&levers, held, Step::One, (&signal, SECOND)) {
            held = next;
            steps += 1;
        }
        assert_eq!((held.mba, held.cpu), (10, Some(500)));
        while let Some(next) = looser(&levers, held, Step::One, Some((&signal, SECOND))) {
            held = next;
            steps += 1;
            assert!(steps < 100, "it ends");
        }
        assert_eq!(held, Throttle::FREE);
    }
}
