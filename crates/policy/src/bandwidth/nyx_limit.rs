//! Nobody uses more of a tier's time than its limit, epoch by epoch.
//!
//! Shape:      limits (cost per second), cost used in the last epoch -> a budget per tenant for the next
//! Invariants: over any number of epochs a tenant gets its limit and at most the overshoot of the last one
//! Units:      cost in picoseconds of the tier
//! Cost:       O(tenants), no allocation once the tenants are steady
//! Failure:    a missing signal, or a window whose budget was not in force, charges nobody
//! Source:     NyxCache §3.4, Algorithm 1. We differ: the brake stops a tenant inside the epoch (its tick is its own, the
//!             paper's is 10 ms), and what it lets through beyond the budget is charged to the next epoch, so that bursts
//!             at the end of an epoch gain nothing.
//!
//! | Paper | here |
//! |---|---|
//! | ResAssigned | the claim's `ceiling.cost` × [`EPOCH`] |
//! | ResUsed | `cost` of the signal |
//! | EpochLen | [`EPOCH`] |

use super::roster::Roster;
use control::bandwidth::{BandwidthSignal, Budget, Cost, Throttle};
use control::{Claim, Class, Decision, Law, Note, Policy, Seen, Shares};
use units::{Duration, Instant};

/// Length of an epoch: 100 ticks of 10 ms, which keeps the overshoot of a tick at 1 % (NyxCache §3.6).
pub const EPOCH: Duration = Duration::from_secs(1);
/// Without a loop a budget goes on as it is: it is safe.
const LEASE: Duration = Duration::from_secs(3_600);
/// Most epochs that overshoots can take from a tenant together (guess): a brake that failed for long is not its fault. What it used
/// in a single epoch is.
const OWED_EPOCHS_MAX: u64 = 10;

/// The policy `limit`.
#[derive(Debug, Default)]
pub struct Limit {
    members: Roster<Member>,
    shares: Shares<Throttle>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// What it used beyond its limits.
    owed: Cost,
    /// The limit that was decided last, per second.
    limit: Cost,
}

impl Limit {
    /// Charges what a tenant used in the window beyond the limit that held in it; what it left unused is not saved for it.
    fn charge(&mut self, seen: &Seen<'_, BandwidthSignal, Throttle>) {
        for (row, (_, member)) in seen.tenants.iter().zip(self.members.iter_mut()) {
            let Some(limit) = limit(&row.claim) else {
                *member = Member::default();
                continue;
            };
            let braked = row.in_force.is_some_and(|throttle| throttle.budget.is_some());
            if let (Some(signal), true, false) = (&row.signal, braked, seen.window.mixed) {
                let held = if member.limit == Cost(0) { limit } else { member.limit };
                let granted = over(held, seen.window.length());
                let most = over(limit, EPOCH).0.saturating_mul(OWED_EPOCHS_MAX);
                let most = most.max(signal.cost.0).max(member.owed.0);
                member.owed = Cost((member.owed + signal.cost).0.saturating_sub(granted.0).min(most));
            }
            member.limit = limit;
        }
    }
}

/// The cost per second that a tenant may use, if its claim says one. A ceiling of no cost is one of something else.
pub(super) fn limit(claim: &Claim) -> Option<Cost> {
    let cost = claim.ceiling.map(|ceiling| ceiling.cost).filter(|cost| Cost(0) < *cost);
    cost.filter(|_| claim.class != Class::Exempt)
}

/// A cost per second over a span.
pub(super) fn over(per_sec: Cost, span: Duration) -> Cost {
    let cost = u128::from(per_sec.0) * u128::from(span.0) / 1_000_000_000;
    Cost(u64::try_from(cost).unwrap_or(u64::MAX))
}

impl Policy for Limit {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "limit"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, BandwidthSignal, Throttle>,
    ) -> Decision<'_, Throttle> {
        self.notes.clear();
        self.members.settle(seen.tenants, &mut self.notes, |_| Member::default());
        self.charge(seen);
        let rows = seen.tenants.iter().zip(self.members.iter()).map(|(row, (id, Member { owed, .. }))| {
            let budget = limit(&row.claim)
                .map(|limit| Budget { cost: Cost(over(limit, EPOCH).0.saturating_sub(owed.0)), per: EPOCH });
            (id, Throttle { budget, ..Throttle::FREE })
        });
        self.shares.rebuild(Law::Free, seen, rows);
        Decision { shares: &self.shares, wake: EPOCH, lease: LEASE, steady: true, notes: &self.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bandwidth::testing::{Case, Did as _, decide, step, tenant, window};
    use control::{Amount, Window};

    fn limited(id: u32, part: u64) -> Case {
        let ceiling = Some(Amount::tier_time(Cost(Cost::SECOND.0 * part / 100)));
        tenant(id, Claim { ceiling, ..Claim::default() })
    }

    fn granted(used: &[Option<u64>]) -> Vec<u64> {
        granted_under(40, used)
    }

    /// What a tenant with a limit of so many per cent is granted, in per cent of the tier, after epochs in which it used so much.
    fn granted_under(limit: u64, used: &[Option<u64>]) -> Vec<u64> {
        let mut policy = Limit::default();
        let mut rows = vec![limited(1, limit)];
        let mut at = 0;
        let mut grants = Vec::new();
        for percent in std::iter::once(&Some(0)).chain(used) {
            rows[0].used_percent(*percent, EPOCH);
            let shares = step(&mut policy, &mut rows, at, at + 1_000);
            at += 1_000;
            let budget = shares[0].1.budget.unwrap();
            assert_eq!(budget.per, EPOCH);
            grants.push(budget.cost.0 / (Cost::SECOND.0 / 100));
        }
        grants
    }

    #[test]
    fn overshoot_is_charged_to_the_next_epoch() {
        assert_eq!(granted(&[Some(40), Some(40)]), [40, 40, 40]);
        assert_eq!(granted(&[Some(45), Some(35), Some(40)]), [40, 35, 40, 40], "5 beyond, 5 less, even");
        assert_eq!(granted(&[Some(100), Some(0), Some(20)]), [40, 0, 20, 40], "60 beyond take two epochs");
        assert_eq!(granted(&[Some(10), Some(45)]), [40, 40, 35], "what is left unused is not saved");
        assert_eq!(granted(&[Some(45), None, Some(35)]), [40, 35, 35, 40], "a missing signal charges nobody");
    }

    /// A small limit and large values: what one epoch's accesses cost may be many times the budget, and none of that is forgiven; what a
    /// brake lets through epoch after epoch is, beyond the largest of them.
    #[test]
    fn what_a_single_epoch_used_is_owed_whole() {
        let without = |epochs: usize| {
            let used: Vec<_> = [Some(30)].repeat(epochs).into_iter().chain([Some(0)].repeat(60)).collect();
            granted_under(1, &used).into_iter().filter(|granted| *granted == 0).count()
        };
        assert_eq!(without(1), 29, "thirty used, of which one was granted");
        assert_eq!(without(5), 4 + 30, "not 145");
    }

    /// A change counts at once, and what was used before it by the limit that held then.
    #[test]
    fn a_limit_that_changes_within_an_epoch_is_not_charged_to_what_was_before() {
        let mut policy = Limit::default();
        let mut rows = [limited(1, 40)];
        let mut granted = |rows: &mut [Case], percent, (from, to)| {
            rows[0].used_percent(percent, Duration::from_millis(to - from));
            let shares = step(&mut policy, rows, from, to);
            shares[0].1.budget.unwrap().cost.0 / (Cost::SECOND.0 / 100)
        };
        assert_eq!(granted(&mut rows, Some(0), (0, 1_000)), 40);
        rows[0].claim = limited(1, 20).claim;
        assert_eq!(granted(&mut rows, Some(40), (1_000, 1_500)), 20, "40 % of the time, as it might");
        rows[0].claim = limited(1, 40).claim;
        assert_eq!(
            granted(&mut rows, Some(60), (1_500, 2_000)),
            20,
            "a fifth of a second beyond a limit of 20 %"
        );
    }

    #[test]
    fn who_has_no_limit_or_is_exempt_is_free() {
        let mut policy = Limit::default();
        let mut exempt = limited(2, 10);
        exempt.claim.class = Class::Exempt;
        let memory = Some(Amount::memory(units::Bytes(1)));
        let only_memory = tenant(3, Claim { ceiling: memory, ..Claim::default() });
        let mut rows = [tenant(1, Claim::default()), exempt, only_memory, limited(4, 10)];
        let shares = step(&mut policy, &mut rows, 0, 1_000);
        assert!(shares[..3].iter().all(|(_, throttle)| *throttle == Throttle::FREE));
        assert!(shares[3].1.budget.is_some());
    }

    #[test]
    fn tenants_come_and_go_and_time_may_stand_still() {
        let mut policy = Limit::default();
        for ids in [&[][..], &[1], &[1, 2, 7], &[2], &[], &[7, 9]] {
            let mut rows: Vec<_> = ids.iter().map(|&id| limited(id, 40)).collect();
            let shares = step(&mut policy, &mut rows, 5, 5);
            assert_eq!(shares.len(), ids.len());
        }
    }

    /// What was used in it was used under another budget in part.
    #[test]
    fn a_window_of_more_than_one_setting_charges_nobody() {
        let mut policy = Limit::default();
        let mut rows = [limited(1, 40)];
        let mut granted = |from: u64, mixed| {
            rows[0].used_percent(Some(60), EPOCH);
            let window = Window { mixed, ..window(from, from + 1_000) };
            decide(&mut policy, &mut rows, window).shares[0].1.budget.unwrap().cost.0 / (Cost::SECOND.0 / 100)
        };
        let wanted = [(true, 40), (true, 40), (false, 20), (true, 20), (false, 0)];
        for (from, (mixed, percent)) in (0..).step_by(1_000).zip(wanted) {
            assert_eq!(granted(from, mixed), percent, "{from}");
        }
    }
}
