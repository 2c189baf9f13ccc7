//! One trade per epoch, one step for one step: between the tenant that gains most from memory and the one that gains most
//! from bandwidth.
//!
//! Shape:   the estimates of `symbiosis` -> a step of memory against a step of bandwidth, at no price
//! Source:  Spirit §6 (Trade). The released one rescales everybody when sums exceed the pool; here a trade that does not
//!          fit is not made. As there, nobody is kept at its static utility: a rate of one to one is not fair to all.

use super::auction::Bundle;
use super::desk::{Desk, note};
use super::options::Options;
use control::joint::{Joint, JointSignal};
use control::{Decision, Policy, Reason, Seen};
use units::Instant;

/// What a trade moves: a step of the pool (Spirit §4.1).
const STEP: f64 = 1.0 / 200.0;

/// The policy `trade`.
#[derive(Debug)]
pub struct Trade {
    desk: Desk,
    held: Vec<Bundle>,
    /// Everybody's static share.
    homes: Vec<Bundle>,
    /// Who traded in the last epoch.
    traded: Option<(usize, usize)>,
    epochs: u32,
}

impl Trade {
    /// The policy with its options; floors are those of `floor_part`, used or not: trades of a step each would not bring back what was sold.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let options = Options { idle_floor_part: None, ..options };
        Self { desk: Desk::new(options), held: Vec::new(), homes: Vec::new(), traded: None, epochs: 0 }
    }

    /// The tenant that gains most from `gain`, and the step it makes; none if nobody gains.
    fn best(&self, step: Bundle, but: Option<usize>) -> Option<usize> {
        let mut best = (1.0, None);
        for (place, (bid, held)) in self.desk.bids.iter().zip(&self.held).enumerate() {
            let rested = self.traded.is_none_or(|(a, b)| a != place && b != place);
            let then = held.plus(step);
            let (floor, ceiling) = (bid.terms.floor, bid.terms.ceiling);
            let fits = floor.memory <= then.memory
                && floor.bandwidth <= then.bandwidth
                && then.memory <= ceiling.memory
                && then.bandwidth <= ceiling.bandwidth;
            let gain = bid.speed(then) / bid.speed(*held).max(f64::MIN_POSITIVE);
            if rested && fits && but != Some(place) && best.0 < gain {
                best = (gain, Some(place));
            }
        }
        best.1
    }

    fn trade(&mut self) {
        let to_memory = Bundle { memory: STEP, bandwidth: -STEP };
        let to_bandwidth = Bundle { memory: -STEP, bandwidth: STEP };
        let pair = self.best(to_memory, None).and_then(|a| Some((a, self.best(to_bandwidth, Some(a))?)));
        if let Some((a, b)) = pair {
            self.held[a] = self.held[a].plus(to_memory);
            self.held[b] = self.held[b].plus(to_bandwidth);
            #[expect(clippy::cast_possible_truncation, reason = "a part of the pool, for people")]
            let moved = (STEP * self.desk.capacity.bytes.0 as f64) as i64;
            self.desk.notes.push(note(None, Reason::Traded, moved));
        }
        self.traded = pair;
    }
}

impl Policy for Trade {
    type Signal = JointSignal;
    type Share = Joint;

    fn name(&self) -> &'static str {
        "trade"
    }

    fn decide(&mut self, _now: Instant, seen: &Seen<'_, JointSignal, Joint>) -> Decision<'_, Joint> {
        let capacity = self.desk.capacity;
        let came_or_went = self.desk.open(seen);
        let homes = self.desk.bids.iter().map(|bid| bid.terms.endowment);
        // Other weights are other static shares. In a pool of another size, as a group's is ever again, everybody has its part of that.
        let goes_on = !came_or_went
            && if capacity == self.desk.capacity {
                homes.clone().eq(self.homes.iter().copied())
            } else {
                self.desk.book.follow(self.homes.iter().copied().zip(&mut self.held))
            };
        let changed = !goes_on;
        self.homes.clear();
        self.homes.extend(homes);
        self.epochs = if changed { 0 } else { self.epochs.saturating_add(1) };
        if changed || self.epochs < self.desk.options.static_epochs {
            self.held.clear();
            self.held.extend(self.desk.bids.iter().map(|bid| bid.terms.endowment));
            self.traded = None;
        } else {
            self.trade();
        }
        self.desk.book.grant(seen, self.held.iter().copied());
        let (wake, lease) = (self.desk.options.epoch, self.desk.options.lease());
        Decision { shares: self.desk.book.shares(), wake, lease, steady: true, notes: &self.desk.notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::joint::Utility;
    use control::{Amount, Claim, Curve, Pool, Row, Window};
    use units::{Bytes, BytesPerSec, Duration, TenantId};

    const ALL: Amount = Amount {
        bytes: Bytes(1_000_000),
        bandwidth: BytesPerSec(1_000_000),
        cost: control::bandwidth::Cost(0),
    };

    /// A tenant whose misses fall steeply, with bandwidth to spare, or one whose misses hardly fall and that uses all of
    /// its bandwidth.
    fn tenant(id: u32, in_force: Option<Joint>) -> Row<JointSignal, Joint> {
        let (least, bandwidth) = if id.is_multiple_of(2) { (0.01, 100_000) } else { (0.9, 1_000_000) };
        let curve = Curve::new(vec![(Bytes(1), 1.0), (Bytes(1_000_000), least)]).unwrap();
        let utility = Some(Utility::Curve(curve));
        let signal = JointSignal {
            bandwidth: BytesPerSec(bandwidth),
            operations: 1_000,
            utility,
            ..JointSignal::default()
        };
        Row { id: TenantId(id), claim: Claim::default(), signal: Some(signal), in_force }
    }

    /// Of a pool that is another at every epoch, as that of a group, each has its part as it would of one that stays.
    #[test]
    fn trades_outlast_a_change_of_the_pool() {
        let mut parts = Vec::new();
        for grows in [0, 1_000] {
            let mut policy = Trade::new(Options::default());
            let mut held: [Option<Joint>; 2] = [None; 2];
            let mut capacity = ALL;
            for _ in 0..8 {
                let pool = Pool { capacity, ..Pool::default() };
                let rows = [2, 3].map(|id| tenant(id, held[id as usize - 2]));
                let end = Instant::ZERO + Duration::from_secs(30);
                let seen = Seen::new(Window { end, ..Window::default() }, &pool, &rows).unwrap();
                let shares = policy.decide(end, &seen).shares;
                held = [2, 3].map(|id| shares.get(TenantId(id)).copied());
                parts = [&parts[..], &[held[0].unwrap().bytes.0 as f64 / capacity.bytes.0 as f64]].concat();
                capacity.bytes.0 += grows;
            }
        }
        let (steady, growing) = parts.split_at(8);
        assert!(0.51 < steady[7], "it trades: {parts:?}");
        assert!(steady.iter().zip(growing).all(|(a, b)| (a - b).abs() < 1e-5), "{parts:?}");
    }

    #[test]
    fn trades_begin_at_the_static_shares_of_who_is_there() {
        for static_epochs in [0, 1, 3] {
            let mut policy = Trade::new(Options { static_epochs, ..Options::default() });
            let pool = Pool { capacity: ALL, ..Pool::default() };
            let mut held: Vec<(TenantId, Joint)> = Vec::new();
            let mut now = Instant::ZERO;
            for ids in [&[2, 3][..], &[1, 2, 3], &[], &[3], &[3, 4], &[4, 5]] {
                for epoch in 0..8_u32 {
                    let of = |id: u32| held.iter().find(|(held, _)| held.0 == id).map(|(_, share)| *share);
                    let rows: Vec<_> = ids.iter().map(|&id| tenant(id, of(id))).collect();
                    let window = Window { start: now, end: now + Duration::from_secs(30), mixed: false };
                    now = window.end;
                    let decision = policy.decide(now, &Seen::new(window, &pool, &rows).unwrap());
                    held = decision.shares.rows().to_vec();
                    let total: Amount = held.iter().map(|(_, share)| control::Measured::amount(share)).sum();
                    assert!(ids.is_empty() || total == ALL, "{static_epochs} {ids:?} {epoch}: {total:?}");
                    let even = ALL.bytes.0 / ids.len().max(1) as u64;
                    let is_even = held.iter().all(|(_, share)| share.bytes.0.abs_diff(even) <= 1);
                    let is_static = epoch < static_epochs.max(1);
                    assert!(is_even || !is_static, "{static_epochs} {ids:?} {epoch}: {held:?}");
                    let trades = ids.len() == 2 && epoch == 7;
                    assert!(!is_even || !trades, "{static_epochs} {ids:?}: nobody trades");
                }
            }
        }
    }
}
