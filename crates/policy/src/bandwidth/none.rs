//! Nobody is held back: what every other policy about bandwidth is compared with.

use control::bandwidth::{BandwidthSignal, Throttle};
use control::{Decision, Law, Policy, Seen, Shares};
use units::{Duration, Instant};

/// Decide again after so long: only to let tenants that come or go be seen.
const PERIOD: Duration = Duration::from_secs(1);
/// Free shares do no harm without a loop.
const LEASE: Duration = Duration::from_secs(3_600);

/// The policy `none`.
#[derive(Debug, Default)]
pub struct Unregulated {
    shares: Shares<Throttle>,
}

impl Policy for Unregulated {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn name(&self) -> &'static str {
        "none"
    }

    fn decide(
        &mut self,
        _now: Instant,
        seen: &Seen<'_, BandwidthSignal, Throttle>,
    ) -> Decision<'_, Throttle> {
        let rows = seen.tenants.iter().map(|row| (row.id, Throttle::FREE));
        self.shares.rebuild(Law::Free, seen, rows);
        Decision { shares: &self.shares, wake: PERIOD, lease: LEASE, steady: true, notes: &[] }
    }
}
