//! How a tenant would perform alone: everybody else pauses for a moment while it is watched.
//!
//! Shape:      time, tenants -> whose turn it is, if anybody's -> its performance in that moment -> its slowdown later
//! Invariants: at most `most` probes per period; with fewer than two tenants nobody is probed; the moments are drawn, so a
//!             load with a period of its own is not always met at the same phase
//! Units:      performance per second, slowdown as time shared ÷ time alone (performance alone ÷ performance shared)
//! Cost:       O(tenants) where a probe is due, O(1) else; no allocation
//! Source:     NyxCache §3.3 (slowdown = T_alone / T_shared of a performance), §4.1 (pauses of 1 ms, 12 tenants, each second).
//!             We differ: probes are spread over the period at drawn moments instead of one after the other, and their number
//!             per period is bounded. Algorithm 3's comment prints the reciprocal; §3.3 holds.
//! Non-goals:  pausing anybody: the policy does that by a short decision
//!
//! | Paper | here |
//! |---|---|
//! | T_alone | [`Alone`] |
//! | T_shared | the performance of a [`Tally`] |
//! | P | `period` |

mod alone;

pub use alone::Alone;

use super::pause::Pause;
use control::Window;
use control::bandwidth::{BandwidthSignal, Cost, Kind};
use units::{Duration, Instant, Rng, TenantId};

/// Every tenant is probed about once in so long (NyxCache §3.6).
pub const REFRESH: Duration = Duration::from_secs(1);

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

/// How soon a tenant is to be alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It never was.
    AtOnce,
    /// First in a period: something else was seen than before.
    Next,
    /// When the others have been.
    InTurn,
}

/// A pause of all but one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Who is not paused.
    pub alone: TenantId,
    /// What the others had under way is still being done, and caches hold what they moved.
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

    /// Who is to be alone now, if it is time. `tenants` are those who can be paused, sorted.
    pub fn next(
        &mut self,
        now: Instant,
        tenants: impl Iterator<Item = (TenantId, Turn)> + Clone,
    ) -> Option<TenantId> {
        if self.period_ends <= now {
            // Periods follow one another, so that moments drawn within them are so often at each phase.
            let next = self.period_ends + self.period;
            self.period_ends = if now < next { next } else { now + self.period };
            self.left = self.most;
        }
        let several = tenants.clone().nth(1).is_some();
        let of = |wanted: Turn| tenants.clone().find(|(_, turn)| *turn == wanted).map(|(id, _)| id);
        let untried = of(Turn::AtOnce);
        if !several || self.left == 0 || (now < self.due_at && untried.is_none()) {
            return None;
        }
        let after = |(id, _): &(TenantId, Turn)| self.last.is_none_or(|last| last < *id);
        let in_turn = || tenants.clone().find(after).or_else(|| tenants.clone().next()).map(|(id, _)| id);
        // Looks that follow one another at once would be one look.
        let is_first = self.left == self.most;
        let early = untried.or_else(|| if is_first { of(Turn::Next) } else { None });
        let id = early.or_else(in_turn)?;
        if early.is_none() {
            self.last = Some(id);
        }
        self.left -= 1;
        let count = tenants.take(self.most as usize).count();
        self.due_at = if count < 2 { self.period_ends + self.moment() } else { now + self.gap(count) };
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

    /// Any moment of a period.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a period")]
    fn moment(&mut self) -> Duration {
        Duration((self.period.0 as f64 * self.rng.unit()) as u64)
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

    /// Whether what is done in the window of this probe counts.
    #[must_use]
    pub const fn counts(self) -> bool {
        !self.settles
    }

    /// What follows a window of this probe that was so long: its part that counts, or nothing, where that was it or it has not settled.
    #[must_use]
    pub fn next(self, pause: Pause, length: Duration) -> Option<Self> {
        let goes_on = self.settles && pause.has_settled(length);
        goes_on.then_some(Self { settles: false, ..self })
    }

    /// How long the window of this probe lasts.
    #[must_use]
    pub const fn lasts(self, pause: Pause) -> Duration {
        if self.settles { pause.settle() } else { pause.counts() }
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

    fn ids(n: u32, turn: Turn) -> impl Iterator<Item = (TenantId, Turn)> + Clone {
        (0..n).map(move |id| (TenantId(id), turn))
    }

    #[test]
    fn nobody_is_probed_among_fewer_than_two() {
        let mut probes = StandAlone::new(REFRESH, PROBES_MOST, 1);
        assert_eq!(probes.next(Instant(5), ids(0, Turn::AtOnce)), None);
        assert_eq!(probes.next(Instant(5), ids(1, Turn::AtOnce)), None);
        assert_eq!(probes.next(Instant(5), ids(2, Turn::AtOnce)), Some(TenantId(0)));
    }

    #[test]
    fn who_was_never_probed_comes_first_and_the_number_is_bounded() {
        let mut probes = StandAlone::new(REFRESH, 3, 1);
        let mut tried = [false; 5];
        let mut order = Vec::new();
        for step in 0..20 {
            let tenants = (0..5)
                .map(|id: u32| (TenantId(id), if tried[id as usize] { Turn::InTurn } else { Turn::AtOnce }));
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
                if let Some(id) = probes.next(Instant(ms * 1_000_000), ids(4, Turn::InTurn)) {
                    turns[id.index()] += 1;
                    phases.insert(ms % 1000 / 100);
                }
            }
            assert!(turns.iter().all(|&n| (85..=115).contains(&n)), "seed {seed}: {turns:?} in 100 s");
            assert_eq!(phases.len(), 10, "seed {seed}: every tenth of a second is met");
        }
    }

    #[test]
    fn who_did_something_else_is_the_first_in_a_period_at_the_moment_that_was_drawn() {
        let mut probes = StandAlone::new(REFRESH, PROBES_MOST, 5);
        let mut seen = Vec::new();
        for ms in 0..6_000_u64 {
            let doubtful = (2_000..5_000).contains(&ms);
            let turn = |id: u32| if doubtful && id == 1 { Turn::Next } else { Turn::InTurn };
            let tenants = (0..3).map(|id| (TenantId(id), turn(id)));
            if let Some(id) = probes.next(Instant(ms * 1_000_000), tenants) {
                seen.push((ms, id.0));
            }
        }
        let ids: Vec<u32> = seen.iter().map(|(_, id)| *id).collect();
        let firsts: Vec<usize> =
            (2..5).map(|second| seen.iter().position(|(at, _)| second * 1_000 <= *at).unwrap()).collect();
        for (at, id) in ids.iter().enumerate() {
            assert!(!firsts.contains(&at) || *id == 1, "the first one of its period: {seen:?}");
        }
        let others: Vec<u32> =
            ids.iter().enumerate().filter(|(at, _)| !firsts.contains(at)).map(|(_, id)| *id).collect();
        assert!(others.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 3), "the others go on: {others:?}");
        let gaps: Vec<u64> = seen.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(gaps.iter().all(|gap| (150..=520).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn one_probe_in_a_period_is_at_a_moment_that_is_drawn() {
        for seed in 1..=3 {
            let mut probes = StandAlone::new(REFRESH, 1, seed);
            let (mut turns, mut phases) = ([0_u32; 2], [0_u32; 10]);
            for ms in 0..200_000_u64 {
                if let Some(id) = probes.next(Instant(ms * 1_000_000), ids(2, Turn::InTurn)) {
                    turns[id.index()] += 1;
                    phases[usize::try_from(ms % 1000 / 100).unwrap()] += 1;
                }
            }
            let all: u32 = turns.iter().sum();
            assert!((195..=200).contains(&all) && turns[0].abs_diff(turns[1]) <= 1, "seed {seed}: {turns:?}");
            assert!(phases.iter().all(|&met| 5 <= met), "seed {seed}: {phases:?}");
        }
    }

    #[test]
    fn a_tenant_with_a_period_of_its_own_is_measured_at_all_phases() {
        // Busy in the first half of every second: half of the probes meet it busy.
        let mut probes = StandAlone::new(REFRESH, PROBES_MOST, 5);
        let (mut busy, mut all) = (0.0, 0.0);
        for ms in 0..200_000_u64 {
            if probes.next(Instant(ms * 1_000_000), ids(2, Turn::InTurn)) == Some(TenantId(0)) {
                all += 1.0;
                busy += f64::from(u8::from(ms % 1000 < 500));
            }
        }
        assert!((busy / all - 0.5_f64).abs() < 0.1, "{busy} of {all}");
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
