//! How a tenant would perform alone: everybody else pauses for a moment while it is watched.
//!
//! Shape:      time, tenants -> whose turn it is, if anybody's -> its performance in that moment -> its slowdown later
//! Invariants: at most `most` probes per period; with fewer than two tenants nobody is probed; the moments are drawn, so a
//!             load with a period of its own is not always met at the same phase
//! Units:      performance per second, slowdown as time shared ÷ time alone (performance alone ÷ performance shared)
//! Cost:       O(tenants) where a probe is due, O(1) else; no allocation
//! Source:     NyxCache §3.3 (slowdown = T_alone / T_shared of a performance), §4.1 (pauses of 1 ms, 12 tenants, each second).
//!             We differ: probes are spread over the period at drawn moments instead of one after the other, their number
//!             per period is bounded, and results are averaged, until four in a row say that
//!             the workload has changed; one that is far too low is looked at again at once, and counts only if the second is, too;
//!             what is seen of an idle tenant counts for nothing. Algorithm 3's comment prints the reciprocal; §3.3 holds.
//! Non-goals:  pausing anybody: the policy does that by a short decision
//!
//! | Paper | here |
//! |---|---|
//! | T_alone | [`Alone`] |
//! | T_shared | the performance of a [`Tally`] |
//! | P | `period` |

use control::Window;
use control::bandwidth::{BandwidthSignal, Cost, Kind};
use units::{Duration, Instant, Rng, TenantId};

/// A pause long enough to see how a tenant performs alone (NyxCache §4.1).
pub const PAUSE: Duration = Duration::from_millis(1);
/// A probe may outlive its pause by so long.
pub const PROBE_LEASE: Duration = Duration::from_millis(20);
/// Every tenant is probed about once in so long (NyxCache §3.6).
pub const REFRESH: Duration = Duration::from_secs(1);
/// Most probes in a period: the largest number of tenants that the paper measured (NyxCache §4.1, Fig. 5b).
pub const PROBES_MOST: u32 = 12;
/// Probes that an estimate is the mean of, the older with less weight (guess, 3 to 20 were considered): 1 ms is noisy.
const PROBES_REMEMBERED: f64 = 10.0;
/// Relative noise of a probe before it is known (guess: 1,000 accesses that come in batches).
const NOISE: f64 = 0.1;
/// A probe that is off by more than this part of the mean is odd (guess: five times the noise of 1 ms).
const ODD: f64 = 0.3;
/// A probe below this part of the mean is looked at again at once (guess: a core that slept, or a client that did, is far below).
const DOUBTFUL: f64 = 0.5;
/// So many odd probes in a row to one side are a changed workload, and the estimate starts over (guess).
const ODD_IN_A_ROW: i32 = 4;

/// Decides whose turn it is to be alone.
#[derive(Clone, Debug)]
pub struct StandAlone {
    rng: Rng,
    period: Duration,
    most: u32,
    last: Option<TenantId>,
    due_at: Instant,
    period_ends: Instant,
    left: u32,
    /// Who is to be looked at again.
    again: Option<TenantId>,
}

/// A pause of all but one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Who is not paused.
    pub alone: TenantId,
    /// What the others had under way is still being done.
    settles: bool,
}

/// What a tenant does in a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Performance {
    /// Operations.
    pub operations: f64,
    /// Bytes, for tenants whose operations nobody counts.
    pub bytes: f64,
}

/// What is known of a tenant's performance alone.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Alone {
    tried: bool,
    mean: Option<Performance>,
    probes: f64,
    /// Of single probes, relative to their mean.
    variance: f64,
    /// A probe far below the mean, until another says whether that is so.
    doubted: Option<Performance>,
    /// Odd probes in a row: above zero to the upper side, below to the lower.
    odd: i32,
}

/// Signals of one tenant, added up over windows with one setting.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tally {
    signal: BandwidthSignal,
    length: Duration,
}

impl StandAlone {
    /// Probes each tenant about once per `period`, at most `most` of them; moments are drawn from `seed`.
    #[must_use]
    pub const fn new(period: Duration, most: u32, seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            period,
            most,
            last: None,
            due_at: Instant::ZERO,
            period_ends: Instant::ZERO,
            left: 0,
            again: None,
        }
    }

    /// Who is to be alone now, if it is time. `tenants` are those who can be paused, sorted, with whether they were ever
    /// probed: who was not comes first.
    pub fn next(
        &mut self,
        now: Instant,
        tenants: impl Iterator<Item = (TenantId, bool)> + Clone,
    ) -> Option<TenantId> {
        if self.period_ends <= now {
            self.period_ends = now + self.period;
            self.left = self.most;
        }
        let count = tenants.clone().take(self.most.max(2) as usize).count();
        let again = self.again.take().filter(|again| tenants.clone().any(|(id, _)| id == *again));
        if let Some(again) = again.filter(|_| 1 < count && 0 < self.left) {
            self.left -= 1;
            return Some(again);
        }
        let untried = tenants.clone().find(|(_, tried)| !tried).map(|(id, _)| id);
        if count < 2 || self.left == 0 || (now < self.due_at && untried.is_none()) {
            return None;
        }
        let after = |(id, _): &(TenantId, bool)| self.last.is_none_or(|last| last < *id);
        let in_turn = || tenants.clone().find(after).or_else(|| tenants.clone().next()).map(|(id, _)| id);
        let id = untried.or_else(in_turn)?;
        if untried.is_none() {
            self.last = Some(id);
        }
        self.left -= 1;
        self.due_at = now + self.gap(count);
        Some(id)
    }

    /// When the next probe is due.
    #[must_use]
    pub const fn due_at(&self) -> Instant {
        self.due_at
    }

    /// Asks for the next probe at once: a workload has changed.
    pub const fn hurry(&mut self) {
        self.due_at = Instant::ZERO;
    }

    /// Asks for one tenant's next probe at once.
    pub const fn look_again(&mut self, id: TenantId) {
        self.again = Some(id);
    }

    /// Between half and one and a half of an even spacing.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1.5 periods")]
    fn gap(&mut self, count: usize) -> Duration {
        Duration((self.period.0 as f64 / count as f64 * (0.5 + self.rng.unit())) as u64)
    }
}

impl Probe {
    /// The probe of `alone`, whose first `settle` does not count.
    #[must_use]
    pub fn new(alone: TenantId, settle: Duration) -> Self {
        Self { alone, settles: Duration::ZERO < settle }
    }

    /// What follows a window of this probe: its part that counts, or nothing.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.settles.then_some(Self { settles: false, ..self })
    }

    /// How long the window of this probe lasts, of one that settles for `settle`.
    #[must_use]
    pub const fn lasts(self, settle: Duration) -> Duration {
        if self.settles { settle } else { PAUSE }
    }

    /// Whether a window is about a pause: no decision came early, and none late.
    #[must_use]
    pub fn is_seen_in(length: Duration) -> bool {
        (Duration(PAUSE.0 / 2)..=PROBE_LEASE).contains(&length)
    }
}

impl Alone {
    /// Takes the performance seen in a probe; none if nothing was seen. Returns whether to look again at once: it was far below
    /// what was seen before, and counts only if that is, too.
    pub fn learn(&mut self, seen: Option<Performance>) -> bool {
        self.tried = true;
        let Some(seen) = seen.filter(|seen| 0.0 < seen.operations.max(seen.bytes)) else { return false };
        let is_low = self.mean.is_some_and(|mean| seen.bytes < DOUBTFUL * mean.bytes);
        match self.doubted.take() {
            None if is_low => {
                self.doubted = Some(seen);
                return true;
            }
            Some(before) if is_low => self.take(before),
            _ => {}
        }
        self.take(seen);
        false
    }

    fn take(&mut self, seen: Performance) {
        self.count_odd(seen);
        if ODD_IN_A_ROW <= self.odd.abs() {
            (self.mean, self.probes, self.odd) = (None, 0.0, 0);
        }
        self.probes = (self.probes + 1.0).min(PROBES_REMEMBERED);
        let off = self.mean.map_or(NOISE, |mean| seen.bytes / mean.bytes.max(1.0) - 1.0);
        self.variance += (off * off - self.variance) / self.probes;
        let smooth = |old: f64, new: f64| old + (new - old) / self.probes;
        self.mean = Some(self.mean.map_or(seen, |mean| Performance {
            operations: smooth(mean.operations, seen.operations),
            bytes: smooth(mean.bytes, seen.bytes),
        }));
    }

    /// Relative standard error of the estimate; a tenant with one probe is as noisy as any.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        // The mean that forgets rests on as many probes as a plain one of nearly twice its memory.
        let full = PROBES_REMEMBERED <= self.probes;
        let rests_on = if full { 2.0 * self.probes - 1.0 } else { self.probes.max(1.0) };
        (self.variance / rests_on).sqrt()
    }

    fn count_odd(&mut self, seen: Performance) {
        let side = self.mean.map_or(0, |mean| match seen.bytes / mean.bytes {
            ratio if ratio < 1.0 - ODD => -1,
            ratio if 1.0 + ODD < ratio => 1,
            _ => 0,
        });
        self.odd = if side == 0 || self.odd * side < 0 { side } else { self.odd + side };
    }

    /// Whether a probe was made.
    #[must_use]
    pub const fn tried(&self) -> bool {
        self.tried
    }

    /// Performance alone ÷ performance shared; none while either is unknown or nothing is done. By operations where
    /// both are counted, else by bytes.
    #[must_use]
    pub fn slowdown(&self, shared: Performance) -> Option<f64> {
        let alone = self.mean?;
        let ratio = |alone: f64, shared: f64| (0.0 < alone && 0.0 < shared).then(|| alone / shared);
        ratio(alone.operations, shared.operations).or_else(|| ratio(alone.bytes, shared.bytes))
    }
}

impl Tally {
    /// Adds what was seen in a window.
    pub fn add(&mut self, signal: &BandwidthSignal, window: Window) {
        for kind in Kind::ALL {
            self.signal.bytes.get_mut(kind).0 += signal.bytes.get(kind).0;
            *self.signal.accesses.get_mut(kind) += signal.accesses.get(kind);
        }
        self.signal.cost = self.signal.cost + signal.cost;
        self.signal.operations += signal.operations;
        self.signal.threads = signal.threads;
        self.length = Duration(self.length.0.saturating_add(window.length().0));
    }

    /// The sum of all signals, and a window as long as theirs together.
    #[must_use]
    pub const fn sum(&self) -> (&BandwidthSignal, Window) {
        (&self.signal, Window { start: Instant::ZERO, end: Instant(self.length.0), mixed: false })
    }

    /// Performance over all windows; none if no time has passed.
    #[must_use]
    pub fn performance(&self) -> Option<Performance> {
        let (signal, window) = self.sum();
        Performance::of(signal, window)
    }

    /// Time of the tier used, in tiers.
    #[must_use]
    pub fn usage(&self) -> f64 {
        Cost(self.signal.cost.0).part_of(self.length)
    }
}

impl Performance {
    /// Of one window; none if no time has passed.
    #[must_use]
    pub fn of(signal: &BandwidthSignal, window: Window) -> Option<Self> {
        let operations = window.per_sec(signal.operations)?;
        Some(Self { operations, bytes: window.per_sec(signal.bytes_total().0)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn ids(n: u32, tried: bool) -> impl Iterator<Item = (TenantId, bool)> + Clone {
        (0..n).map(move |id| (TenantId(id), tried))
    }

    #[test]
    fn nobody_is_probed_among_fewer_than_two() {
        let mut probes = StandAlone::new(REFRESH, PROBES_MOST, 1);
        assert_eq!(probes.next(Instant(5), ids(0, false)), None);
        assert_eq!(probes.next(Instant(5), ids(1, false)), None);
        assert_eq!(probes.next(Instant(5), ids(2, false)), Some(TenantId(0)));
    }

    #[test]
    fn who_was_never_probed_comes_first_and_the_number_is_bounded() {
        let mut probes = StandAlone::new(REFRESH, 3, 1);
        let mut tried = [false; 5];
        let mut order = Vec::new();
        for step in 0..20 {
            let tenants = (0..5).map(|id: u32| (TenantId(id), tried[id as usize]));
            if let Some(id) = probes.next(Instant(step * 100_000_000), tenants) {
                tried[id.index()] = true;
                order.push((step, id.0));
            }
        }
        assert_eq!(order[..4], [(0, 0), (1, 1), (2, 2), (10, 3)], "three in a period of ten steps");
        assert_eq!(order[4], (11, 4));
    }

    #[test]
    fn all_take_turns_at_moments_that_are_drawn() {
        for seed in 1..=3 {
            let mut probes = StandAlone::new(REFRESH, PROBES_MOST, seed);
            let (mut turns, mut phases) = ([0_u32; 4], std::collections::BTreeSet::new());
            for ms in 0..100_000_u64 {
                if let Some(id) = probes.next(Instant(ms * 1_000_000), ids(4, true)) {
                    turns[id.index()] += 1;
                    phases.insert(ms % 1000 / 100);
                }
            }
            assert!(turns.iter().all(|&n| (85..=115).contains(&n)), "seed {seed}: {turns:?} in 100 s");
            assert_eq!(phases.len(), 10, "seed {seed}: every tenth of a second is met");
        }
    }

    #[test]
    fn a_tenant_with_a_period_of_its_own_is_measured_at_all_phases() {
        // Busy in the first half of every second: half of the probes meet it busy.
        let mut probes = StandAlone::new(REFRESH, PROBES_MOST, 5);
        let (mut busy, mut all) = (0.0, 0.0);
        for ms in 0..200_000_u64 {
            if probes.next(Instant(ms * 1_000_000), ids(2, true)) == Some(TenantId(0)) {
                all += 1.0;
                busy += f64::from(u8::from(ms % 1000 < 500));
            }
        }
        assert!((busy / all - 0.5_f64).abs() < 0.1, "{busy} of {all}");
    }

    #[test]
    fn slowdown_is_alone_by_shared() {
        let performance = |operations: f64, bytes: f64| Performance { operations, bytes };
        let mut alone = Alone::default();
        assert_eq!((alone.tried(), alone.slowdown(performance(1.0, 1.0))), (false, None));
        alone.learn(None);
        assert_eq!((alone.tried(), alone.slowdown(performance(1.0, 1.0))), (true, None));
        alone.learn(Some(performance(300.0, 9000.0)));
        for (shared, slowdown) in [
            (performance(200.0, 9000.0), Some(1.5)),
            (performance(0.0, 4500.0), Some(2.0)),
            (performance(0.0, 0.0), None),
        ] {
            assert_eq!(alone.slowdown(shared), slowdown);
        }
        alone.learn(Some(performance(400.0, 9000.0)));
        let slowdown = alone.slowdown(performance(350.0, 1.0)).unwrap();
        assert!((slowdown - 1.0).abs() < 1e-9, "the mean of two, here {slowdown}");
    }

    #[test]
    fn a_changed_workload_is_followed_and_an_odd_probe_is_not() {
        let performance = |rate: f64| Performance { operations: rate, bytes: rate };
        let mut alone = Alone::default();
        let alone_is = |alone: &Alone| alone.slowdown(performance(1.0)).unwrap();
        for rate in [100.0, 110.0, 90.0, 250.0, 0.0, 100.0, 20.0, 100.0, 250.0] {
            assert_eq!(alone.learn(Some(performance(rate))), (1.0..50.0).contains(&rate), "{rate}");
        }
        assert!(
            (alone_is(&alone) - 1000.0 / 7.0).abs() < 1e-9,
            "the mean of all but nothing and the low one"
        );
        let mut lower = alone;
        assert!(lower.learn(Some(performance(20.0))), "first it is doubted");
        assert!(!lower.learn(Some(performance(30.0))), "then both count");
        assert!((alone_is(&lower) - 1050.0 / 9.0).abs() < 1e-9, "{lower:?}");
        for _ in 0..3 {
            alone.learn(Some(performance(1000.0)));
        }
        assert!((alone_is(&alone) - 1000.0).abs() < 1e-9, "four in a row with the last");
    }

    #[test]
    fn a_tally_adds_windows() {
        let signal = BandwidthSignal {
            bytes: control::bandwidth::Kinds { slow_read: Bytes(1000), ..Default::default() },
            operations: 10,
            cost: Cost(250_000_000),
            threads: 3,
            ..BandwidthSignal::default()
        };
        let window = Window { start: Instant(0), end: Instant(1_000_000), mixed: false };
        let mut tally = Tally::default();
        assert_eq!(tally.performance(), None, "no time has passed");
        tally.add(&signal, window);
        tally.add(&signal, window);
        let performance = tally.performance().unwrap();
        assert!((performance.operations - 10_000.0).abs() < 1e-6);
        assert!((tally.usage() - 0.25).abs() < 1e-12);
        assert_eq!(tally.sum().0.bytes.slow_read, Bytes(2000));
    }
}
