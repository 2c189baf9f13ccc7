//! How a tenant would perform alone: everybody else pauses for a moment while it is watched.
//!
//! Shape:      time, tenants -> whose turn it is, if anybody's -> its performance in that moment -> its slowdown later
//! Invariants: at most `most` probes per period; with fewer than two tenants nobody is probed; the moments are drawn, so a
//!             load with a period of its own is not always met at the same phase
//! Units:      performance per second, slowdown as time shared ÷ time alone (performance alone ÷ performance shared)
//! Cost:       O(tenants) where a probe is due, O(1) else; no allocation
//! Source:     NyxCache §3.3 (slowdown = T_alone / T_shared of a performance), §4.1 (pauses of 1 ms, 12 tenants, each second).
//!             We differ: probes are spread over the period at drawn moments instead of one after the other, their number
//!             per period is bounded, and the mean of those of the last thirty that are near their median counts, until four
//!             in a row say that the workload has changed: of a client or a core that slept, as one in five is, a probe
//!             shows a fifth; what is seen of an idle tenant counts for nothing. Algorithm 3's comment prints the reciprocal; §3.3 holds.
//! Non-goals:  pausing anybody: the policy does that by a short decision
//!
//! | Paper | here |
//! |---|---|
//! | T_alone | [`Alone`] |
//! | T_shared | the performance of a [`Tally`] |
//! | P | `period` |

use super::pause::Pause;
use control::Window;
use control::bandwidth::{BandwidthSignal, Cost, Kind};
use units::{Duration, Instant, Rng, TenantId};

/// Every tenant is probed about once in so long (NyxCache §3.6).
pub const REFRESH: Duration = Duration::from_secs(1);
/// Probes that an estimate is made of: 1 ms is noisy. Of the model's twelve pairs of Fig. 9 with twenty seeds each 29 end unfair or slower
/// than before by over 1 % with 15, 16 with 20, 9 with 25 and 7 with 30 (44 with the median of 15).
const PROBES_REMEMBERED: usize = 30;
/// Relative noise of a probe before it is known (guess: 1,000 accesses that come in batches).
const NOISE: f64 = 0.1;
/// A probe that is off by more than this part of the median is odd and counts for nothing (guess: five times the noise of 1 ms). What is less
/// counts by how often it is seen: the median itself shows nothing of what slows a tenant down in fewer than half of its probes, as a
/// cleaner's passes do a writer.
const ODD: f64 = 0.3;
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
    /// The newest probes: operations and bytes per second.
    probes: [[f32; 2]; PROBES_REMEMBERED],
    /// How many there are, and whose place the next one takes.
    count: usize,
    next: usize,
    estimate: Option<Performance>,
    standard_error: f64,
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

    /// Between half and one and a half of an even spacing.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1.5 periods")]
    fn gap(&mut self, count: usize) -> Duration {
        Duration((self.period.0 as f64 / count as f64 * (0.5 + self.rng.unit())) as u64)
    }
}

impl Probe {
    /// The probe of `alone`.
    #[must_use]
    pub fn new(alone: TenantId, pause: Pause) -> Self {
        Self { alone, settles: pause.settles() }
    }

    /// What follows a window of this probe: its part that counts, or nothing.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.settles.then_some(Self { settles: false, ..self })
    }

    /// How long the window of this probe lasts.
    #[must_use]
    pub const fn lasts(self, pause: Pause) -> Duration {
        if self.settles { pause.settle() } else { pause.counts() }
    }
}

impl Alone {
    /// Takes the performance seen in a probe; none if nothing was seen.
    pub fn learn(&mut self, seen: Option<Performance>) {
        self.tried = true;
        let Some(seen) = seen.filter(|seen| 0.0 < seen.operations.max(seen.bytes)) else { return };
        self.count_odd(seen);
        if ODD_IN_A_ROW <= self.odd.abs() {
            (self.count, self.next, self.odd) = (0, 0, 0);
        }
        #[expect(clippy::cast_possible_truncation, reason = "seven digits of what is noisy in the second")]
        let kept = [seen.operations as f32, seen.bytes as f32];
        self.probes[self.next] = kept;
        self.next = (self.next + 1) % PROBES_REMEMBERED;
        self.count = (self.count + 1).min(PROBES_REMEMBERED);
        let [operations, bytes] = [0, 1].map(|which| self.middle_of(which));
        self.estimate = Some(Performance { operations, bytes });
        self.standard_error = (self.variance(bytes) / self.count as f64).sqrt();
    }

    /// The mean of those near the median.
    fn middle_of(&self, which: usize) -> f64 {
        let mut sorted = self.probes.map(|probe| probe[which]);
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable_by(f32::total_cmp);
        let middle = sorted.len() / 2;
        let below = if sorted.len() % 2 == 0 { sorted[middle - 1] } else { sorted[middle] };
        let median = f64::midpoint(f64::from(below), f64::from(sorted[middle]));
        let near = sorted.iter().copied().map(f64::from);
        let near = near.filter(|probe| (probe - median).abs() <= ODD * median);
        let (sum, count) = near.fold((0.0, 0_u32), |(sum, count), probe| (sum + probe, count + 1));
        // Of two that are far apart neither is near.
        if count == 0 { median } else { sum / f64::from(count) }
    }

    /// Of single probes, relative to what is made of them: one that is odd counts as if it were just not.
    fn variance(&self, estimate: f64) -> f64 {
        let off = |probe: &[f32; 2]| (f64::from(probe[1]) / estimate.max(1.0) - 1.0).clamp(-ODD, ODD);
        let squares: f64 = self.probes[..self.count].iter().map(|probe| off(probe).powi(2)).sum();
        // Before much is known it is as noisy as any.
        (NOISE * NOISE + squares) / self.count as f64
    }

    /// Relative standard error of the estimate; a tenant with one probe is as noisy as any.
    #[must_use]
    pub const fn standard_error(&self) -> f64 {
        self.standard_error
    }

    fn count_odd(&mut self, seen: Performance) {
        let side = self.estimate.map_or(0, |estimate| match seen.bytes / estimate.bytes {
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
        let alone = self.estimate?;
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
    use super::super::pause::PROBES_MOST;
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
    fn a_changed_workload_is_followed_and_odd_probes_are_not() {
        let performance = |rate: f64| Performance { operations: rate, bytes: rate };
        let mut alone = Alone::default();
        let alone_is = |alone: &Alone| alone.slowdown(performance(1.0)).unwrap();
        // Two of nine show a client that slept, one shows what was queued before; nothing counts for nothing.
        for rate in [100.0, 110.0, 90.0, 250.0, 0.0, 100.0, 20.0, 100.0, 20.0, 105.0] {
            alone.learn(Some(performance(rate)));
        }
        assert!((alone_is(&alone) - 605.0 / 6.0).abs() < 1e-3, "the six of nine near 100: {alone:?}");
        for _ in 0..4 {
            alone.learn(Some(performance(1000.0)));
        }
        assert!((alone_is(&alone) - 1000.0).abs() < 1e-3, "four in a row with the last");
    }

    #[test]
    fn what_slows_down_some_probes_counts_by_how_many() {
        // So many of thirty probes meet a pass of the cleaner and show 90 for 100; eight others show a client that slept.
        for (passes, mean) in [(0, 100.0), (4, 98.181), (10, 95.454), (22, 90.0)] {
            let mut alone = Alone::default();
            for probe in 0..PROBES_REMEMBERED {
                let slept = probe % 4 == 3 || probe == PROBES_REMEMBERED - 1;
                let before = (0..probe).filter(|probe| probe % 4 != 3).count();
                let rate = if slept {
                    20.0
                } else if before < passes {
                    90.0
                } else {
                    100.0
                };
                alone.learn(Some(Performance { operations: rate, bytes: rate }));
            }
            let told = alone.slowdown(Performance { operations: 1.0, bytes: 1.0 }).unwrap();
            assert!((told - mean).abs() < 1e-2, "{passes} passes: {mean} on average, here {told}");
        }
    }

    #[test]
    fn an_estimate_grows_surer_and_forgets() {
        let performance = |rate: f64| Performance { operations: rate, bytes: rate };
        let (mut alone, mut rng) = (Alone::default(), Rng::new(3));
        alone.learn(Some(performance(1e6)));
        assert!((alone.standard_error() - NOISE).abs() < 1e-9, "one is as noisy as any");
        for _ in 0..200 {
            alone.learn(Some(performance(1e6 * (0.9 + 0.2 * rng.unit()))));
        }
        // That of a mean of so many that are even between 90 and 110 %.
        let expected = 0.2 / 12.0_f64.sqrt() / (PROBES_REMEMBERED as f64).sqrt();
        let part = alone.standard_error() / expected;
        assert!((0.7..1.4).contains(&part), "{part} of {expected}");
        for _ in 0..PROBES_REMEMBERED {
            alone.learn(Some(performance(1.2e6)));
        }
        let slowdown = alone.slowdown(performance(1e6)).unwrap();
        assert!(
            (slowdown - 1.2).abs() < 1e-6,
            "a change that is not odd is followed within thirty: {slowdown}"
        );
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
