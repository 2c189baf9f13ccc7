//! What a group is given and its own policy leaves undivided, shared out among its members.
//!
//! Shape:      a group's share, its members' rows, their shares by the policy inside -> shares that together are no more
//! Invariants: parts of a budget sum to it at most, and so do caps of a kind; nobody is given more than its own policy said; who
//!             is exempt is never held back
//! Units:      cost or bytes per second
//! Cost:       O(members), no allocation
//! Source:     NyxCache §5 (groups of caches). We choose max-min filling by weight: who used less than it had wants that and some
//!             more, who used all of it wants all there is; what is spare goes by weight
//! Failure:    who was not measured wants what it has

use control::bandwidth::{BandwidthSignal, Budget, Cost, Kind, Throttle};
use control::form::{FormSignal, Forms};
use control::joint::{Joint, JointSignal};
use control::{Class, Law, Row, Window};
use units::{BytesPerSec, TenantId};

/// What a member wants that used less than it had, relative to that (as `slo` has it).
const GROWTH: f64 = 1.25;
/// Part of what it had from which a member counts as having used all of it (guess: brakes hold to a hundredth, a window may begin late).
const ALL_PART: f64 = 0.9;
/// Part of its part by weight that a member has however little it used (guess): it must be able to use all of it.
const BEGIN_PART: f64 = 0.05;
/// Rounds of the filling at most: each settles a member or ends it, and what is left open is a little.
const ROUNDS: u32 = 32;

/// A share of which members of a group have parts.
pub trait ShareOut<S>: Sized {
    /// The law that shares of members of all groups keep.
    const LAW: Law = Law::AtMost { floor_part: 0.0 };

    /// Holds the shares of a group's members, whose rows these are, to this one of their group.
    fn share_out(&self, _window: Window, _rows: &[Row<S, Self>], _shares: &mut [(TenantId, Self)]) {}
}

/// The pool of a group says it all; of memory see `ceilings`.
impl ShareOut<JointSignal> for Joint {}
impl ShareOut<FormSignal> for Forms {}

type Member = Row<BandwidthSignal, Throttle>;

impl ShareOut<BandwidthSignal> for Throttle {
    /// Limits and caps have no law about their sum.
    const LAW: Law = Law::Free;

    fn share_out(&self, window: Window, rows: &[Member], shares: &mut [(TenantId, Self)]) {
        if let Some(budget) = self.budget {
            share_budget(budget, window, rows, shares);
        }
        for kind in Kind::ALL {
            let Some(all) = *self.cap.get(kind) else { continue };
            let rate = |throttle: &Self| throttle.cap.get(kind).map(|cap| cap.0 as f64);
            let used = |signal: &BandwidthSignal| window.per_sec(signal.bytes.get(kind).0);
            divide(all.0 as f64, rows, shares, (used, rate), |share, part| {
                *share.cap.get_mut(kind) = Some(BytesPerSec(whole(part).max(1)));
            });
        }
        let exempt = rows.iter().zip(shares).filter(|(row, _)| is_exempt(row));
        exempt.for_each(|(_, (_, share))| *share = Self::FREE);
    }
}

fn is_exempt(row: &Member) -> bool {
    matches!(row.claim.class, Class::Exempt)
}

/// Shares a budget out unless the policy inside has divided it.
fn share_budget(budget: Budget, window: Window, rows: &[Member], shares: &mut [(TenantId, Throttle)]) {
    let rate = |throttle: &Throttle| throttle.budget.map(|budget| budget.cost.part_of(budget.per));
    let all = budget.cost.part_of(budget.per);
    let bound = rows.iter().zip(shares.iter()).filter(|(row, _)| !is_exempt(row));
    let divided: Option<f64> = bound.map(|(_, (_, share))| rate(share)).sum();
    if divided.is_some_and(|sum| sum <= all * (1.0 + 1e-9)) {
        return;
    }
    let used = |signal: &BandwidthSignal| Some(window.per_sec(signal.cost.0)? / Cost::SECOND.0 as f64);
    divide(all, rows, shares, (used, rate), |share, part| {
        let cost = Cost(whole(Cost::SECOND.0 as f64 * part * budget.per.as_secs_f64()));
        share.budget = Some(Budget { cost, per: budget.per });
    });
}

/// Gives every member that may be held back its part of `all`: by what it used in the window, which is not known where no time has
/// passed, by what its throttle lets it have, and by its weight.
fn divide(
    all: f64,
    rows: &[Member],
    shares: &mut [(TenantId, Throttle)],
    (used, rate): (impl Fn(&BandwidthSignal) -> Option<f64>, impl Fn(&Throttle) -> Option<f64>),
    give: impl Fn(&mut Throttle, f64),
) {
    let weights: f64 = rows.iter().filter(|row| !is_exempt(row)).map(|row| row.claim.weight.get()).sum();
    // What a member wants, its own limit if that is less, and whether it is.
    let want = |row: &Member, share: &Throttle| {
        let had = row.in_force.as_ref().and_then(&rate);
        let wanted = match (row.signal.as_ref().and_then(&used), had) {
            (Some(used), Some(had)) if ALL_PART * had <= used => all,
            (Some(used), _) => used * GROWTH,
            (None, had) => had.unwrap_or(all),
        };
        let least = BEGIN_PART * all * row.claim.weight.get() / weights;
        let (wanted, own) = (wanted.max(least).min(all), rate(share).unwrap_or(f64::INFINITY));
        (wanted.min(own), own <= wanted)
    };
    // What a weight of one has where not all want less, and of what is spare where they do.
    let (mut level, mut spare) = (all / weights, 0.0);
    for _ in 0..ROUNDS {
        let (mut content, mut hungry, mut open) = (0.0, 0.0, 0.0);
        for (row, (_, share)) in rows.iter().zip(shares.iter()).filter(|(row, _)| !is_exempt(row)) {
            let ((want, is_limited), weight) = (want(row, share), row.claim.weight.get());
            if level * weight < want {
                hungry += weight;
                continue;
            }
            content += want;
            if !is_limited {
                open += weight;
            }
        }
        if hungry <= 0.0 {
            spare = if 0.0 < open { (all - content).max(0.0) / open } else { 0.0 };
            break;
        }
        let next = (all - content) / hungry;
        if next <= level {
            break;
        }
        level = next;
    }
    for (row, (_, share)) in rows.iter().zip(shares).filter(|(row, _)| !is_exempt(row)) {
        let ((want, is_limited), weight) = (want(row, share), row.claim.weight.get());
        let own = rate(share).unwrap_or(f64::INFINITY);
        let more = if is_limited { 0.0 } else { spare * weight };
        give(share, (want.min(level * weight) + more).min(own));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; not below zero")]
fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::bandwidth::Kinds;
    use control::{Claim, Weight};
    use units::{Bytes, Duration, Instant};

    const SECOND: Duration = Duration::from_secs(1);

    fn window() -> Window {
        Window { start: Instant::ZERO, end: Instant::ZERO + SECOND, mixed: false }
    }

    /// A member of a weight that used so many hundredths of the tier's time, and bytes.
    fn member(id: u32, weight: f64, used: u64, class: Class) -> Member {
        let bytes = Kinds { slow_read: Bytes(used * 100), ..Kinds::splat(Bytes(0)) };
        let cost = Cost(Cost::SECOND.0 / 100 * used);
        Row {
            id: TenantId(id),
            claim: Claim { weight: Weight::new(weight).unwrap(), class, ..Claim::default() },
            signal: Some(BandwidthSignal { cost, bytes, ..BandwidthSignal::default() }),
            in_force: None,
        }
    }

    /// A budget in hundredths of a hundredth of the tier.
    fn points(share: &Throttle) -> u64 {
        share.budget.map_or(u64::MAX, |budget| (budget.cost.0 + 1_000) / (Cost::SECOND.0 / 10_000))
    }

    fn shared(group: Throttle, rows: &[Member], own: &[Throttle]) -> Vec<Throttle> {
        let mut shares: Vec<_> = rows.iter().zip(own).map(|(row, own)| (row.id, *own)).collect();
        group.share_out(window(), rows, &mut shares);
        shares.into_iter().map(|(_, share)| share).collect()
    }

    fn budget(hundredths: u64) -> Throttle {
        let cost = Cost(Cost::SECOND.0 / 100 * hundredths);
        Throttle { budget: Some(Budget { cost, per: SECOND }), ..Throttle::FREE }
    }

    #[test]
    fn what_one_leaves_another_has_and_the_sum_is_the_group_s() {
        let be = Class::BestEffort;
        for (used, parts) in [
            // Enough for both: what is spare goes by weight, 1 to 3.
            ([0, 0], [1_000, 3_000]),
            ([8, 0], [1_712, 2_287]),
            ([20, 10], [2_562, 1_437]),
            // Too little: one keeps enough to begin with.
            ([39, 0], [3_850, 150]),
            // Both want more than their parts.
            ([35, 35], [1_000, 3_000]),
        ] {
            let rows = [member(1, 1.0, used[0], be), member(2, 3.0, used[1], be)];
            let found = shared(budget(40), &rows, &[Throttle::FREE; 2]);
            let found = [0, 1].map(|at| points(&found[at]));
            assert!(
                found.iter().zip(parts).all(|(found, part)| found.abs_diff(part) <= 1),
                "{used:?}: {found:?}"
            );
            assert!(found[0] + found[1] <= 4_000, "{used:?}: {found:?}");
        }
    }

    #[test]
    fn who_wants_all_comes_to_its_weight_at_once() {
        let mut rows = [member(1, 1.0, 38, Class::BestEffort), member(2, 3.0, 0, Class::BestEffort)];
        let mut found = Vec::new();
        for _ in 0..3 {
            found = shared(budget(40), &rows, &[Throttle::FREE; 2]);
            for (row, share) in rows.iter_mut().zip(&found) {
                row.signal.as_mut().unwrap().cost = share.budget.unwrap().cost;
                row.in_force = Some(*share);
            }
        }
        assert_eq!([0, 1].map(|at| points(&found[at])), [1_000, 3_000]);
    }

    #[test]
    fn nobody_has_more_than_its_own_and_what_is_divided_inside_stays() {
        let rows = [member(1, 1.0, 30, Class::BestEffort), member(2, 1.0, 0, Class::BestEffort)];
        let found = shared(budget(40), &rows, &[budget(5), Throttle::FREE]);
        assert_eq!([0, 1].map(|at| points(&found[at])), [500, 3_500], "its own limit, and the rest");
        let own = [budget(30), budget(10)];
        assert_eq!(shared(budget(40), &rows, &own), own, "they sum to the group's");
        let found = shared(budget(30), &rows, &own);
        assert!(points(&found[0]) + points(&found[1]) <= 3_000, "{found:?}");
    }

    #[test]
    fn caps_are_shared_by_kind_and_who_is_exempt_is_free() {
        let cap = |rate: u64| Kinds { slow_read: Some(BytesPerSec(rate)), ..Kinds::default() };
        let group = Throttle { cap: cap(1_000), budget: budget(40).budget, ..Throttle::FREE };
        let rows = [
            member(1, 1.0, 4, Class::BestEffort),
            member(2, 1.0, 4, Class::BestEffort),
            member(3, 1.0, 90, Class::Exempt),
        ];
        let own = Throttle { cap: cap(300), ..Throttle::FREE };
        let found = shared(group, &rows, &[own, Throttle::FREE, Throttle { delay: 7, ..Throttle::FREE }]);
        let caps: Vec<_> = found.iter().map(|share| share.cap).collect();
        assert_eq!(caps, [cap(300), cap(700), Kinds::default()]);
        assert_eq!(found[2], Throttle::FREE);
        assert_eq!(found[0].cap.slow_write, None, "a kind without a cap has none");
    }

    #[test]
    fn who_was_not_measured_counts_with_what_it_has() {
        let mut rows = [member(1, 1.0, 40, Class::BestEffort), member(2, 1.0, 0, Class::BestEffort)];
        rows[1].signal = None;
        rows[1].in_force = Some(budget(20));
        let found = shared(budget(40), &rows, &[Throttle::FREE; 2]);
        assert_eq!([0, 1].map(|at| points(&found[at])), [2_000, 2_000]);
    }

    #[test]
    fn a_cap_however_small_locks_nobody_out() {
        let cap = Kinds { slow_read: Some(BytesPerSec(1)), ..Kinds::default() };
        let rows = [1, 2, 3].map(|id| member(id, 1.0, 50, Class::BestEffort));
        let found = shared(Throttle { cap, ..Throttle::FREE }, &rows, &[Throttle::FREE; 3]);
        assert!(found.iter().all(|share| share.cap == cap), "{found:?}");
    }
}
