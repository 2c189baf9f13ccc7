//! What probes have shown of a tenant's performance alone.
//!
//! Shape:      what a tenant did in a probe, and how long that lasted -> its performance per second -> its slowdown later
//! Invariants: a probe in which a tenant did nothing counts as any other, for who makes few requests is rarely met at one: those
//!             met alone would be a load that there is not. Not before anything was seen
//! Units:      performance per second, standard errors as parts of it
//! Cost:       O(probes remembered) per probe; no allocation
//! Source:     NyxCache §3.3, §4.1. We add: where probes show many operations, the mean of those of the last thirty that are near
//!             their median counts, without a tenth at each end, until four in a row say that the workload has changed, and are
//!             all that is known of it then: of a client or a core that slept, as one in five is, a probe shows a fifth; where they
//!             show few, all of them together count, and as many as it takes

use super::{Performance, Turn};
use units::Duration;

/// Probes that an estimate is made of: 1 ms is noisy. Of the model's twelve pairs of Fig. 9 with twenty seeds each 29 end unfair or slower
/// than before by over 1 % with 15, 16 with 20, 9 with 25 and 7 with 30 (44 with the median of 15), by the mean of all that are not odd.
const PROBES_REMEMBERED: usize = 30;
/// Relative noise of a probe before it is known (guess: 1,000 accesses that come in batches).
const NOISE: f64 = 0.1;
/// A probe that is off by more than this part of the median is odd and counts for nothing (guess: five times the noise of 1 ms). What is less
/// counts by how often it is seen, but for the ends: the median itself shows nothing of what slows a tenant down in fewer than half of its probes, as a
/// cleaner's passes do a writer.
const ODD: f64 = 0.3;
/// Of those that are not odd one in so many counts for nothing at each end: one in fifteen loses a sixth to what else the machine does, which by
/// chance is one of fourteen or three.
const ENDS_PART: usize = 10;
/// So many odd probes in a row to one side are a changed workload, and the estimate starts over (guess).
const ODD_IN_A_ROW: i32 = 4;
/// Operations in a probe from which it says something by itself (guess: as many come as are expected to a third) ...
const MANY: f64 = 8.0;
/// ... and from which being odd is more than chance (guess: one in ten is by chance).
const ODD_LEAST: f64 = 20.0;
/// All that few operations a probe are made of: beyond so many operations, or so many probes, what is older counts half (guess: a tenth of what
/// they say is chance then; a quarter of an hour).
const OPERATIONS_REMEMBERED: f64 = 200.0;
const SPARSE_REMEMBERED: f64 = 1_000.0;
/// What rests on few operations is not worth a step while its standard error is above this (guess: some 70 operations).
const UNSURE: f64 = 0.12;

/// What is known of a tenant's performance alone.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Alone {
    tried: bool,
    /// The newest probes: operations and bytes per second.
    probes: [[f32; 2]; PROBES_REMEMBERED],
    /// How many there are, and whose place the next one takes.
    count: usize,
    next: usize,
    /// The same and older ones, added up.
    sums: Sums,
    /// Probes show few operations each.
    is_sparse: bool,
    estimate: Option<Performance>,
    standard_error: f64,
    /// Odd probes in a row: above zero to the upper side, below to the lower.
    odd: i32,
    /// The same to whichever side.
    odd_lately: u8,
}

/// Probes added up.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sums {
    probes: f64,
    operations: f64,
    /// Of each probe's operations.
    squares: f64,
    bytes: f64,
    secs: f64,
}

impl Alone {
    /// Takes the performance seen in a probe of such a length; none if nothing was seen.
    pub fn learn(&mut self, seen: Option<Performance>, lasted: Duration) {
        self.tried = true;
        let secs = lasted.as_secs_f64();
        let seen = seen.filter(|_| 0.0 < secs);
        let Some(seen) = seen.filter(|seen| self.counts_operations() || !self.is_idle(*seen)) else {
            // Nothing was seen that could be odd.
            self.odd_lately = 0;
            return;
        };
        let nothing = self.is_idle(seen);
        self.count_odd(seen, secs);
        if ODD_IN_A_ROW <= self.odd.abs() {
            let odd = self.odd_before();
            *self = Self { tried: true, ..Self::default() };
            if nothing {
                return;
            }
            // Of silence nothing of a new load is known.
            for [operations, bytes] in odd.into_iter().filter(|odd| 0.0 < odd[0].max(odd[1])) {
                self.remember(Performance { operations: operations.into(), bytes: bytes.into() }, secs);
            }
        }
        self.remember(seen, secs);
        let [operations, bytes] = [0, 1].map(|which| self.middle_of(which));
        // Where more than half of the probes show nothing so does their median.
        self.is_sparse = self.sums.are_sparse() || (operations <= 0.0 && 0.0 < self.sums.operations);
        if self.is_sparse {
            self.estimate = Some(self.sums.performance());
            self.standard_error = self.sums.standard_error();
        } else {
            self.estimate = Some(Performance { operations, bytes });
            let variance =
                if 0.0 < operations { self.variance(0, operations) } else { self.variance(1, bytes) };
            let differ = (variance / self.count as f64).sqrt();
            self.standard_error = differ.max(self.sums.chance());
        }
    }

    /// The odd ones before the one that makes a change of them.
    fn odd_before(&self) -> [[f32; 2]; ODD_IN_A_ROW as usize - 1] {
        std::array::from_fn(|ago| self.probes[(self.next + PROBES_REMEMBERED - 1 - ago) % PROBES_REMEMBERED])
    }

    fn remember(&mut self, seen: Performance, secs: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "seven digits of what is noisy in the second")]
        let kept = [seen.operations as f32, seen.bytes as f32];
        self.probes[self.next] = kept;
        self.next = (self.next + 1) % PROBES_REMEMBERED;
        self.count = (self.count + 1).min(PROBES_REMEMBERED);
        self.sums.add(seen, secs);
    }

    /// Whether somebody counts the tenant's operations: it was seen to do any.
    fn counts_operations(&self) -> bool {
        self.estimate.is_some_and(|estimate| 0.0 < estimate.operations)
    }

    /// Whether a tenant that did so much did nothing. Where its operations are counted those say so: bytes alone are a cleaner's.
    #[must_use]
    pub fn is_idle(&self, did: Performance) -> bool {
        let bytes = if self.counts_operations() { 0.0 } else { did.bytes };
        did.operations.max(bytes) <= 0.0
    }

    /// The mean of those near the median, but for the lowest and the highest.
    fn middle_of(&self, which: usize) -> f64 {
        let mut sorted = self.probes.map(|probe| probe[which]);
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable_by(f32::total_cmp);
        let middle = sorted.len() / 2;
        let below = if sorted.len() % 2 == 0 { sorted[middle - 1] } else { sorted[middle] };
        let median = f64::midpoint(f64::from(below), f64::from(sorted[middle]));
        let is_near = |probe: &&f32| (f64::from(**probe) - median).abs() <= ODD * median;
        let near = sorted.iter().filter(is_near).count();
        let below = sorted.iter().take_while(|probe| !is_near(probe)).count();
        let cut = near / ENDS_PART;
        let kept = sorted.get(below + cut..below + near - cut).unwrap_or_default();
        let sum: f64 = kept.iter().copied().map(f64::from).sum();
        // Of two that are far apart neither is near.
        if kept.is_empty() { median } else { sum / kept.len() as f64 }
    }

    /// Of single probes, relative to what is made of them: one that is odd counts as if it were just not.
    fn variance(&self, which: usize, estimate: f64) -> f64 {
        let off = |probe: &[f32; 2]| (f64::from(probe[which]) / estimate.max(1.0) - 1.0).clamp(-ODD, ODD);
        let squares: f64 = self.probes[..self.count].iter().map(|probe| off(probe).powi(2)).sum();
        // Before much is known it is as noisy as any.
        (NOISE * NOISE + squares) / self.count as f64
    }

    /// Relative standard error of the estimate; a tenant with one probe is as noisy as any.
    #[must_use]
    pub const fn standard_error(&self) -> f64 {
        self.standard_error
    }

    /// Whether steps towards equal slowdowns may rest on it.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        let error = if self.is_sparse { self.standard_error } else { self.sums.chance() };
        error <= UNSURE
    }

    /// By what slowdowns go by, too.
    fn count_odd(&mut self, seen: Performance, secs: f64) {
        let side = self.estimate.map_or(0, |estimate| {
            let is_counted = self.counts_operations();
            let operations = seen.operations.max(estimate.operations);
            let ratio =
                if is_counted { seen.operations / estimate.operations } else { seen.bytes / estimate.bytes };
            match ratio {
                // Of few operations it is chance.
                _ if is_counted && operations * secs < ODD_LEAST => 0,
                ratio if ratio < 1.0 - ODD => -1,
                ratio if 1.0 + ODD < ratio => 1,
                _ => 0,
            }
        });
        self.odd = if side == 0 || self.odd * side < 0 { side } else { self.odd + side };
        self.odd_lately = if side == 0 { 0 } else { self.odd_lately.saturating_add(1) };
    }

    /// How soon a probe is wanted: where the last was odd the next says whether the workload has changed, three times at most, for a tenant's
    /// probes may be odd to this side and that.
    #[must_use]
    pub fn turn(&self) -> Turn {
        match self.odd_lately {
            _ if !self.tried => Turn::AtOnce,
            odd if 0 < odd && i32::from(odd) < ODD_IN_A_ROW => Turn::Next,
            _ => Turn::InTurn,
        }
    }

    /// Performance alone ÷ performance shared; none while either is unknown or nothing is done. By operations where
    /// they are counted, else by bytes: of who does nothing a cleaner may still move some.
    #[must_use]
    pub fn slowdown(&self, shared: Performance) -> Option<f64> {
        let alone = self.estimate.filter(|_| !self.is_sparse || MANY <= self.sums.operations)?;
        let ratio = |alone: f64, shared: f64| (0.0 < alone && 0.0 < shared).then(|| alone / shared);
        if self.counts_operations() {
            ratio(alone.operations, shared.operations)
        } else {
            ratio(alone.bytes, shared.bytes)
        }
    }
}

impl Sums {
    fn add(&mut self, seen: Performance, secs: f64) {
        let operations = seen.operations * secs;
        self.probes += 1.0;
        self.operations += operations;
        self.squares += operations * operations;
        self.bytes += seen.bytes * secs;
        self.secs += secs;
        let is_full = SPARSE_REMEMBERED < self.probes || OPERATIONS_REMEMBERED < self.operations;
        if is_full && PROBES_REMEMBERED as f64 <= self.probes {
            let all =
                [&mut self.probes, &mut self.operations, &mut self.squares, &mut self.bytes, &mut self.secs];
            all.into_iter().for_each(|sum| *sum /= 2.0);
        }
    }

    /// Whether probes show operations, and few.
    fn are_sparse(&self) -> bool {
        0.0 < self.operations && self.operations < MANY * self.probes
    }

    fn performance(&self) -> Performance {
        Performance { operations: self.operations / self.secs, bytes: self.bytes / self.secs }
    }

    /// Relative standard error of the sum by what probes differ by: by as much as chance lets them at least.
    fn standard_error(&self) -> f64 {
        let mean = self.operations / self.probes;
        let differ = (self.squares / self.probes / (mean * mean) - 1.0 + NOISE * NOISE) / self.probes;
        differ.max(0.0).sqrt().max(self.chance())
    }

    /// The same of so many operations that come by chance; none where nobody counts them.
    fn chance(&self) -> f64 {
        if 0.0 < self.operations { self.operations.sqrt().recip() } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    /// Long enough for many operations.
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn slowdown_is_alone_by_shared() {
        let performance = |operations: f64, bytes: f64| Performance { operations, bytes };
        let mut alone = Alone::default();
        assert_eq!((alone.turn(), alone.slowdown(performance(1.0, 1.0))), (Turn::AtOnce, None));
        alone.learn(None, SECOND);
        assert_eq!((alone.turn(), alone.slowdown(performance(1.0, 1.0))), (Turn::InTurn, None));
        alone.learn(Some(performance(300.0, 9000.0)), SECOND);
        for (shared, slowdown) in [
            (performance(200.0, 9000.0), Some(1.5)),
            (performance(0.0, 4500.0), None),
            (performance(0.0, 0.0), None),
        ] {
            assert_eq!(alone.slowdown(shared), slowdown);
        }
        let mut uncounted = Alone::default();
        uncounted.learn(Some(performance(0.0, 9000.0)), SECOND);
        assert_eq!(uncounted.slowdown(performance(0.0, 4500.0)), Some(2.0));
        let idle = [&alone, &uncounted].map(|alone| alone.is_idle(performance(0.0, 4500.0)));
        assert_eq!(idle, [true, false]);
        alone.learn(Some(performance(400.0, 9000.0)), SECOND);
        let slowdown = alone.slowdown(performance(350.0, 1.0)).unwrap();
        assert!((slowdown - 1.0).abs() < 1e-9, "the mean of two, here {slowdown}");
    }

    #[test]
    fn a_changed_workload_is_followed_and_odd_probes_are_not() {
        let performance = |rate: f64| Performance { operations: rate, bytes: rate };
        let mut alone = Alone::default();
        let alone_is = |alone: &Alone| alone.slowdown(performance(1.0)).unwrap();
        // Two of ten show a client that slept and one nothing at all, one shows what was queued before.
        for rate in [100.0, 110.0, 90.0, 250.0, 0.0, 100.0, 20.0, 100.0, 20.0, 105.0] {
            alone.learn(Some(performance(rate)), SECOND);
        }
        assert!((alone_is(&alone) - 605.0 / 6.0).abs() < 1e-3, "the six of nine near 100: {alone:?}");
        for rate in [1100.0, 900.0, 1050.0, 1000.0] {
            alone.learn(Some(performance(rate)), SECOND);
        }
        assert!((alone_is(&alone) - 1012.5).abs() < 1e-3, "four in a row");
        assert!(alone.standard_error() < 0.06, "as sure as of four: {}", alone.standard_error());
        for rate in [0.0, 0.0, 0.0, 300.0] {
            alone.learn(Some(performance(rate)), SECOND);
        }
        assert!((alone_is(&alone) - 300.0).abs() < 1e-3, "silence before it is none of it");
    }

    /// Whether a workload has changed is asked out of turn, three times at most.
    #[test]
    fn who_was_seen_to_do_something_else_is_looked_at_next() {
        let mut alone = Alone::default();
        let mut turns = |rates: &[f64]| -> Vec<Turn> {
            let each = |rate: &f64| {
                alone.learn(Some(Performance { operations: *rate, bytes: *rate }), SECOND);
                alone.turn()
            };
            rates.iter().map(each).collect()
        };
        let (next, turn) = (Turn::Next, Turn::InTurn);
        assert_eq!(turns(&[100.0, 110.0, 20.0, 100.0]), [turn, turn, next, turn], "a client that slept");
        assert_eq!(turns(&[20.0, 20.0, 20.0, 20.0, 20.0]), [next, next, next, turn, turn], "it has changed");
        assert_eq!(turns(&[80.0, 2.0, 80.0, 2.0, 80.0]), [next, next, next, turn, turn], "to both sides");
        assert_eq!(turns(&[20.0, 80.0]), [turn, next]);
    }

    /// How many arrive where so many do on average and none knows of another.
    fn arrivals(rng: &mut Rng, mean: f64) -> f64 {
        let (least, mut product, mut count) = ((-mean).exp(), rng.unit(), 0.0);
        while least < product {
            product *= rng.unit();
            count += 1.0;
        }
        count
    }

    #[test]
    fn who_makes_few_requests_is_seen_as_it_is() {
        let probe = Duration::from_millis(1);
        for (mean, probes) in [(0.05, 4_000), (0.5, 1_000), (2.0, 300), (7.0, 300), (20.0, 300)] {
            for seed in 1..=5 {
                let (mut alone, mut rng) = (Alone::default(), Rng::new(seed));
                let shared = Performance { operations: mean * 1e3, bytes: mean * 1e6 };
                for _ in 0..probes {
                    let operations = arrivals(&mut rng, mean) * 1e3;
                    alone.learn(Some(Performance { operations, bytes: operations * 1e3 }), probe);
                    let Some(told) = alone.slowdown(shared) else { continue };
                    let (off, error) = (f64::ln(told).abs(), alone.standard_error());
                    assert!(off < 4.0 * error, "seed {seed}: {told} where {mean} come, off by {error}");
                    assert!(!alone.is_sure() || off < 0.4, "seed {seed}: sure of {told} where {mean} come");
                }
                assert!(alone.slowdown(shared).is_some(), "in the end it is told");
            }
        }
    }

    #[test]
    fn who_makes_few_requests_from_now_on_is_followed_both_ways() {
        let probe = Duration::from_millis(1);
        let mut alone = Alone::default();
        let rate_of = |alone: &mut Alone, mean: f64, probes: u32| {
            let mut rng = Rng::new(5);
            for _ in 0..probes {
                let operations = arrivals(&mut rng, mean) * 1e3;
                alone.learn(Some(Performance { operations, bytes: operations }), probe);
            }
            alone.slowdown(Performance { operations: 1e3, bytes: 1e3 })
        };
        for (mean, probes) in [(50.0, 40), (1.0, 300), (50.0, 40), (0.5, 600), (30.0, 40)] {
            let told = rate_of(&mut alone, mean, probes).unwrap();
            assert!((told / mean - 1.0).abs() < 0.25, "{told} where {mean} come");
        }
    }

    /// Smaller values and more of them: the bytes are the same.
    #[test]
    fn a_workload_has_changed_where_its_operations_have() {
        let mut alone = Alone::default();
        for (rate, probes) in [(1e5, PROBES_REMEMBERED), (16e5, 4)] {
            for _ in 0..probes {
                alone.learn(Some(Performance { operations: rate, bytes: 4e8 }), SECOND);
            }
        }
        let told = alone.slowdown(Performance { operations: 16e5, bytes: 4e8 }).unwrap();
        assert!((told - 1.0).abs() < 1e-6, "four in a row with the last: {told}");
    }

    #[test]
    fn what_slows_down_some_probes_counts_by_how_many() {
        // So many of thirty probes meet a pass of the cleaner and show 90 for 100; eight others show a client that slept.
        // Two of those at each end count for nothing.
        for (passes, mean) in [(0, 100.0), (2, 100.0), (4, 98.888), (10, 95.555), (22, 90.0)] {
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
                alone.learn(Some(Performance { operations: rate, bytes: rate }), SECOND);
            }
            let told = alone.slowdown(Performance { operations: 1.0, bytes: 1.0 }).unwrap();
            assert!((told - mean).abs() < 1e-2, "{passes} passes: {mean} on average, here {told}");
        }
    }

    #[test]
    fn an_estimate_grows_surer_and_forgets() {
        let performance = |rate: f64| Performance { operations: rate, bytes: rate };
        let (mut alone, mut rng) = (Alone::default(), Rng::new(3));
        alone.learn(Some(performance(1e6)), SECOND);
        assert!((alone.standard_error() - NOISE).abs() < 1e-9, "one is as noisy as any");
        for _ in 0..200 {
            alone.learn(Some(performance(1e6 * (0.9 + 0.2 * rng.unit()))), SECOND);
        }
        // That of a mean of so many that are even between 90 and 110 %.
        let expected = 0.2 / 12.0_f64.sqrt() / (PROBES_REMEMBERED as f64).sqrt();
        let part = alone.standard_error() / expected;
        assert!((0.7..1.4).contains(&part), "{part} of {expected}");
        for _ in 0..PROBES_REMEMBERED {
            alone.learn(Some(performance(1.2e6)), SECOND);
        }
        let slowdown = alone.slowdown(performance(1e6)).unwrap();
        assert!(
            (slowdown - 1.2).abs() < 1e-6,
            "a change that is not odd is followed within thirty: {slowdown}"
        );
    }
}
