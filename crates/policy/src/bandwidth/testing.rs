//! Rows by hand for the tests of this family: a tenant, what it did in the last window, one decision.

use super::BandwidthPolicy;
use control::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use control::{Claim, Levers, Note, Pool, Row, Seen, Window};
use units::{Bytes, Duration, Instant, TenantId};

/// A row of a hand-written case.
pub(super) type Case = Row<BandwidthSignal, Throttle>;

/// A tenant with a brake on the slow tier.
pub(super) fn tenant(id: u32, claim: Claim) -> Case {
    let brake = Kinds { slow_read: true, slow_write: true, ..Kinds::default() };
    let levers =
        if claim.levers == Levers::default() { Levers { brake, ..Levers::default() } } else { claim.levers };
    Row { id: TenantId(id), claim: Claim { levers, ..claim }, signal: None, in_force: None }
}

/// Ways to write down what a tenant did.
pub(super) trait Did {
    /// Used so many hundredths of the tier over `span`; none: the sensor failed.
    fn used_percent(&mut self, percent: Option<u64>, span: Duration);
    /// Read so many MB/s in accesses of 256 B by one thread over `span`.
    fn reads(&mut self, mb_per_sec: u64, span: Duration) -> &mut BandwidthSignal;
}

impl Did for Case {
    fn used_percent(&mut self, percent: Option<u64>, span: Duration) {
        self.signal = percent.map(|percent| BandwidthSignal {
            cost: Cost(percent * 10 * span.0),
            ..BandwidthSignal::default()
        });
    }

    fn reads(&mut self, mb_per_sec: u64, span: Duration) -> &mut BandwidthSignal {
        let bytes = mb_per_sec * span.0 / 1_000;
        self.signal.insert(BandwidthSignal {
            bytes: Kinds { slow_read: Bytes(bytes), ..Kinds::default() },
            accesses: Kinds { slow_read: bytes / 256, ..Kinds::default() },
            operations: bytes / 256,
            cost: Cost(bytes / 256 * 20_000),
            threads: 1,
            ..BandwidthSignal::default()
        })
    }
}

/// A decision's facts, without its borrows.
#[derive(Debug)]
pub(super) struct Decided {
    /// Who is held back how.
    pub(super) shares: Vec<(TenantId, Throttle)>,
    /// When to decide again.
    pub(super) wake: Duration,
    /// False for an experiment.
    pub(super) steady: bool,
    /// Why.
    pub(super) notes: Vec<Note>,
}

/// One decision over the window from `start_ms` to `end_ms`; its shares are in force afterwards.
pub(super) fn step(
    policy: &mut BandwidthPolicy,
    rows: &mut [Case],
    start_ms: u64,
    end_ms: u64,
) -> Vec<(TenantId, Throttle)> {
    decide(policy, rows, window(start_ms, end_ms)).shares
}

/// A window that shows one setting.
pub(super) fn window(start_ms: u64, end_ms: u64) -> Window {
    let at = |ms: u64| Instant(ms * 1_000_000);
    Window { start: at(start_ms), end: at(end_ms), mixed: false }
}

/// One decision over a window; its shares are in force afterwards.
pub(super) fn decide(policy: &mut BandwidthPolicy, rows: &mut [Case], window: Window) -> Decided {
    let pool = Pool::default();
    let seen = Seen::new(window, &pool, rows).unwrap();
    let decision = policy.decide(window.end, &seen);
    assert!(decision.wake <= decision.lease, "a lease ends after the next decision");
    assert!(Duration::ZERO < decision.wake);
    let decided = Decided {
        shares: decision.shares.rows().to_vec(),
        wake: decision.wake,
        steady: decision.steady,
        notes: decision.notes.to_vec(),
    };
    for (row, (_, throttle)) in rows.iter_mut().zip(&decided.shares) {
        row.in_force = Some(*throttle);
    }
    decided
}

/// A number of a test, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding down is meant")]
pub(super) fn whole(x: f64) -> u64 {
    x as u64
}
