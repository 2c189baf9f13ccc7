//! Signals that can be joined: one tenant's over adjacent windows, several tenants' over one window.
//!
//! Shape:      signal then signal -> the signal of both windows; signal beside signal -> the signal of a group
//! Invariants: counts add up; what is a state (bytes held) is the later one's in time and the sum in a group
//! Source:     policies nest (NyxCache §5, Spirit §7) and several hold at once (MT² §3.1), each at its own pace

use crate::bandwidth::{BandwidthSignal, Cost, Kinds, Throttle};
use crate::claim::Amount;
use crate::curve::Curve;
use crate::form::{FormSignal, Forms};
use crate::joint::{Joint, JointSignal, Utility};
use crate::memory::{MemoryShare, MemorySignal, Worth};
use crate::policy::Pool;
use units::{Bytes, Duration};

/// A signal that can be joined with another.
pub trait Join: Clone {
    /// Adds what `later` saw of the same tenant, in the window after this one.
    fn then(&mut self, later: &Self);

    /// Adds what `other` saw of another tenant of the group, in the same window.
    fn beside(&mut self, other: &Self);

    /// Adds what all of these saw.
    fn beside_all<'s>(&mut self, others: impl Iterator<Item = &'s Self> + Clone)
    where
        Self: 's,
    {
        others.for_each(|other| self.beside(other));
    }
}

/// A share that can be divided again among the members of a group.
pub trait Nest: Sized {
    /// The pool that a group with this share divides.
    fn pool(&self, parent: &Pool) -> Pool;

    /// A member's share, held to what holds for the whole group.
    #[must_use]
    fn under(self, _group: &Self) -> Self {
        self
    }

    /// What a group has whose members have these; none where shares of this family do not add up to one.
    #[must_use]
    fn together(&self, _other: &Self) -> Option<Self> {
        None
    }
}

impl Join for MemorySignal {
    fn then(&mut self, later: &Self) {
        let before = *self;
        *self = *later;
        self.count(&before);
    }

    fn beside(&mut self, other: &Self) {
        self.held += other.held;
        self.idle += other.idle;
        self.below.held += other.below.held;
        self.count(other);
    }
}

impl MemorySignal {
    fn count(&mut self, other: &Self) {
        self.shadow_hits += other.shadow_hits;
        self.gets += other.gets;
        self.hits += other.hits;
        self.expected_hits += other.expected_hits;
        self.below.hits += other.below.hits;
        self.below.promotions += other.below.promotions;
        self.below.demotions += other.below.demotions;
    }
}

impl Nest for MemoryShare {
    fn pool(&self, parent: &Pool) -> Pool {
        Pool { capacity: Amount::memory(self.target), ..*parent }
    }

    /// A group's ceiling holds for each member, too; members compete by worth beyond their group where it does so itself.
    fn under(self, group: &Self) -> Self {
        let worth = self.worth.map(|own| match group.worth {
            Some(all) => Worth { more: own.more.saturating_add(all.more), ..own },
            None => Worth { within_group: true, ..own },
        });
        Self { ceiling: self.ceiling.into_iter().chain(group.ceiling).min(), worth, ..self }
    }

    fn together(&self, other: &Self) -> Option<Self> {
        let ceiling = self.ceiling.zip(other.ceiling).map(|(a, b)| a + b);
        Some(Self { target: self.target + other.target, ceiling, worth: None })
    }
}

impl Join for BandwidthSignal {
    fn then(&mut self, later: &Self) {
        self.count(later);
        self.threads = self.threads.max(later.threads);
        self.depleted_at = self.depleted_at.or(later.depleted_at);
    }

    fn beside(&mut self, other: &Self) {
        self.count(other);
        self.threads = self.threads.saturating_add(other.threads);
        self.depleted_at = match (self.depleted_at, other.depleted_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl BandwidthSignal {
    /// Adds counts. The mean latency is that of all operations; of two tails the longer is kept, which no joined tail
    /// exceeds by more than chance.
    fn count(&mut self, other: &Self) {
        self.mean_latency = mean(self.mean_latency, self.operations, other.mean_latency, other.operations);
        self.tail_latency = self.tail_latency.max(other.tail_latency);
        self.bytes = Kinds::from_fn(|kind| Bytes(self.bytes.get(kind).0 + other.bytes.get(kind).0));
        self.accesses = Kinds::from_fn(|kind| self.accesses.get(kind) + other.accesses.get(kind));
        self.sampled = Kinds::from_fn(|kind| *self.sampled.get(kind) || *other.sampled.get(kind));
        self.cost = self.cost + other.cost;
        self.operations += other.operations;
    }
}

/// The mean of `a_count` operations of `a` and `b_count` of `b`; whichever is known where only one is.
fn mean(a: Option<Duration>, a_count: u64, b: Option<Duration>, b_count: u64) -> Option<Duration> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    let count = u128::from(a_count) + u128::from(b_count);
    if count == 0 {
        return Some(first.max(second));
    }
    let sum = u128::from(first.0) * u128::from(a_count) + u128::from(second.0) * u128::from(b_count);
    Some(Duration(u64::try_from(sum / count).unwrap_or(u64::MAX)))
}

impl Nest for Throttle {
    /// A budget is divided as time of the tier, caps as bandwidth; a group without either divides its parent's pool. One whose
    /// budget is used up has next to nothing to divide, for nothing stands for a tier of unknown speed.
    fn pool(&self, parent: &Pool) -> Pool {
        use crate::shares::Measured;
        let mut pool = *parent;
        if self.budget.is_some() {
            pool.capacity.cost = self.amount().cost.max(Cost(1));
        }
        let caps = self.cap.iter().filter_map(|(_, cap)| *cap);
        if let Some(all) = caps.map(|cap| cap.0).reduce(|a, b| a.saturating_add(b)) {
            pool.capacity.bandwidth.0 = all;
        }
        pool
    }

    /// A group's levers hold for each member; its budget and its caps are what the members divide.
    fn under(self, group: &Self) -> Self {
        self.tighter(Self { budget: None, cap: Kinds::default(), ..*group })
    }
}

impl Join for JointSignal {
    fn then(&mut self, later: &Self) {
        let operations = self.operations + later.operations;
        let utility = later.utility.clone().or_else(|| self.utility.take());
        *self = Self { operations, utility, ..later.clone() };
    }

    fn beside(&mut self, other: &Self) {
        self.beside_all(std::iter::once(other));
    }

    /// A group's curve is that of its members when each holds its present part of the group's memory; tables and samples of
    /// several tenants have no common form, and a group of them none.
    fn beside_all<'s>(&mut self, others: impl Iterator<Item = &'s Self> + Clone) {
        let mut members = vec![Part::of(self)];
        for other in others {
            members.push(Part::of(other));
            self.held += other.held;
            self.bandwidth += other.bandwidth;
            self.operations += other.operations;
        }
        let members: Option<Vec<Part>> = members.into_iter().collect();
        self.utility = members.and_then(|members| group_curve(&members)).map(Utility::Curve);
    }
}

/// What a member brings to its group's curve.
struct Part {
    held: Bytes,
    operations: f64,
    curve: Curve,
}

impl Part {
    fn of(member: &JointSignal) -> Option<Self> {
        let Some(Utility::Curve(curve)) = &member.utility else { return None };
        Some(Self { held: member.held, operations: member.operations as f64, curve: curve.clone() })
    }
}

/// Points of a group's curve, about: as many as suffice where members' have a few hundred each.
const GROUP_POINTS: usize = 1_024;

/// The curve of tenants together: at a size of which each holds its part by `held`, misses by `operations`.
fn group_curve(members: &[Part]) -> Option<Curve> {
    let held: Bytes = members.iter().map(|member| member.held).sum();
    let operations: f64 = members.iter().map(|member| member.operations).sum();
    if held == Bytes::ZERO || operations <= 0.0 {
        return None;
    }
    // Points of the members, at the sizes of the group at which each has that size; of many every so manieth, and the ends.
    let in_group = |(part, size): (Bytes, Bytes)| size.scale(held.0, part.0.max(1));
    let points: usize = members.iter().map(|member| member.curve.points().len()).sum();
    let all =
        members.iter().flat_map(|member| member.curve.points().iter().map(|(size, _)| (member.held, *size)));
    let mut sizes: Vec<Bytes> = all.step_by(points.div_ceil(GROUP_POINTS).max(1)).map(in_group).collect();
    let ends = |member: &Part| {
        let points = member.curve.points();
        [points.first(), points.last()].map(|end| end.map(|(size, _)| in_group((member.held, *size))))
    };
    let ends: Vec<Bytes> = members.iter().flat_map(ends).flatten().collect();
    sizes.extend(ends.iter().min());
    sizes.extend(ends.iter().max());
    sizes.sort_unstable();
    sizes.dedup();
    let mut misses = vec![0.0; sizes.len()];
    for member in members {
        let part = member.held.0 as f64 / held.0 as f64;
        let ratios = member.curve.miss_ratios(sizes.iter().map(|size| size.0 as f64 * part));
        misses.iter_mut().zip(ratios).for_each(|(sum, ratio)| *sum += ratio * member.operations);
    }
    let ratio = |misses: f64| (misses / operations).clamp(0.0, 1.0);
    Curve::smoothed(sizes.into_iter().zip(misses.into_iter().map(ratio)).collect()).ok()
}

impl Nest for Joint {
    fn pool(&self, parent: &Pool) -> Pool {
        let capacity = Amount { bytes: self.bytes, bandwidth: self.bandwidth, ..Amount::default() };
        Pool { capacity, ..*parent }
    }
}

impl Join for FormSignal {
    fn then(&mut self, later: &Self) {
        self.count(later);
        self.compression = later.compression.or(self.compression);
        self.held = later.held;
    }

    fn beside(&mut self, other: &Self) {
        // Compression ratios weigh by what each does, as its pages come in.
        let parts = [(self.compression, self.operations), (other.compression, other.operations)];
        self.compression = weighted(parts).or(self.compression).or(other.compression);
        self.held = self.held.zip(other.held).map(|(a, b)| Forms {
            write_cache: a.write_cache + b.write_cache,
            memory: a.memory + b.memory,
            compressed: a.compressed + b.compressed,
        });
        self.count(other);
    }
}

impl FormSignal {
    /// Adds operations: latency is the mean of all, the longer tail is kept, errors join as those of independent means.
    fn count(&mut self, other: &Self) {
        let counts = [self.operations, other.operations];
        let latency = mean(Some(self.latency), counts[0], Some(other.latency), counts[1]);
        let error = |a: Option<f64>, b: Option<f64>| {
            let all = (counts[0] + counts[1]).max(1) as f64;
            let part = |error: f64, count: u64| error * count as f64 / all;
            Some(part(a?, counts[0]).hypot(part(b?, counts[1])))
        };
        self.latency_error = error(self.latency_error, other.latency_error);
        self.tail_error = error(self.tail_error, other.tail_error);
        self.latency = latency.unwrap_or_default();
        self.tail = self.tail.max(other.tail);
        self.operations += other.operations;
    }
}

/// The mean of values that are known, by their counts; none if nothing counts.
fn weighted(parts: [(Option<f64>, u64); 2]) -> Option<f64> {
    let known = parts.into_iter().filter_map(|(value, count)| Some((value?, count as f64)));
    let (sum, count) =
        known.fold((0.0, 0.0), |(sum, all), (value, count)| (sum + value * count, all + count));
    (0.0 < count).then(|| sum / count)
}

impl Nest for Forms {
    fn pool(&self, parent: &Pool) -> Pool {
        Pool { capacity: Amount::memory(self.write_cache + self.memory + self.compressed), ..*parent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    fn signal(operations: u64, mean_us: u64, held_at: Option<u64>) -> BandwidthSignal {
        BandwidthSignal {
            operations,
            mean_latency: Some(Duration::from_micros(mean_us)),
            threads: 2,
            depleted_at: held_at.map(Instant),
            cost: Cost(5),
            ..BandwidthSignal::default()
        }
    }

    #[test]
    fn windows_follow_and_tenants_stand_side_by_side() {
        let mut both = signal(1, 10, None);
        both.then(&signal(3, 30, Some(7)));
        assert_eq!(
            (both.operations, both.mean_latency, both.threads),
            (4, Some(Duration::from_micros(25)), 2)
        );
        assert_eq!((both.depleted_at, both.cost), (Some(Instant(7)), Cost(10)));
        let mut group = signal(1, 10, Some(9));
        group.beside(&signal(3, 30, Some(7)));
        assert_eq!((group.threads, group.depleted_at), (4, Some(Instant(7))));

        let now = MemorySignal { held: Bytes(70), gets: 5, ..MemorySignal::default() };
        let mut memory = MemorySignal { held: Bytes(50), gets: 3, ..MemorySignal::default() };
        memory.then(&now);
        assert_eq!((memory.held, memory.gets), (Bytes(70), 8));
        memory.beside(&now);
        assert_eq!((memory.held, memory.gets), (Bytes(140), 13));
    }

    #[test]
    fn a_group_misses_what_its_members_miss() {
        let signal = |points: &[(u64, f64)], held, operations| {
            let points: Vec<_> = points.iter().map(|&(size, ratio)| (Bytes::mib(size), ratio)).collect();
            let utility = Some(Utility::Curve(Curve::new(points).unwrap()));
            JointSignal { held: Bytes::mib(held), operations, utility, ..JointSignal::default() }
        };
        let mut group = signal(&[(0, 1.0), (100, 0.0)], 50, 30);
        group.beside(&signal(&[(0, 0.8), (100, 0.8)], 150, 10));
        assert_eq!((group.held, group.operations), (Bytes::mib(200), 40));
        let Some(Utility::Curve(curve)) = &group.utility else { panic!("{group:?}") };
        // A quarter of 200 MiB is 50 (whole bytes, so to a millionth): half of the first one's accesses miss, and .8 of the second's.
        for (size, ratio) in [(0, 0.95), (200, 0.575), (400, 0.2)] {
            assert!((curve.miss_ratio(Bytes::mib(size)) - ratio).abs() < 1e-6, "{size}: {curve:?}");
        }
        group.beside(&JointSignal::default());
        assert_eq!(group.utility, None, "one of the members is not known");
        let mut window = signal(&[(0, 1.0), (100, 0.0)], 50, 30);
        window.then(&JointSignal { held: Bytes(7), operations: 1, ..JointSignal::default() });
        assert!(window.utility.is_some() && window.held == Bytes(7) && window.operations == 31);
    }

    /// Of a thousand members' points a few are taken, and the curve is as near to the mean of theirs as they are to one another.
    #[test]
    fn a_group_of_many_has_a_curve_of_no_more_points() {
        let mut rng = units::Rng::new(5);
        let members: Vec<JointSignal> = (0..1_000)
            .map(|_| {
                let (reach, held) = (1_000 + rng.below(9_000), 1 + rng.below(5_000));
                let points = (0..300_u64)
                    .map(|i| (Bytes(i * reach), 1.0 / (1.0 + i as f64 / 50.0)))
                    .collect::<Vec<_>>();
                let utility = Some(Utility::Curve(Curve::new(points).unwrap()));
                JointSignal {
                    held: Bytes(held * 100),
                    operations: rng.below(100),
                    utility,
                    ..JointSignal::default()
                }
            })
            .collect();
        let (first, others) = members.split_first().unwrap();
        let mut group = first.clone();
        group.beside_all(others.iter());
        let Some(Utility::Curve(curve)) = &group.utility else { panic!("{group:?}") };
        assert!(curve.points().len() <= GROUP_POINTS + 2, "{}", curve.points().len());
        for part in [0, 1, 5, 20, 50, 100, 200, 1_000] {
            let size = Bytes(group.held.0 * part / 100);
            let misses: f64 = members
                .iter()
                .map(|member| {
                    let Some(Utility::Curve(curve)) = &member.utility else { panic!("it has one") };
                    curve.miss_ratio(size.scale(member.held.0, group.held.0)) * member.operations as f64
                })
                .sum();
            let exact = misses / group.operations as f64;
            assert!((curve.miss_ratio(size) - exact).abs() < 0.002, "{part} %: {exact}");
        }
    }

    #[test]
    fn forms_join_by_their_operations() {
        let signal = |operations, us, compression| FormSignal {
            operations,
            latency: Duration::from_micros(us),
            tail: Duration::from_micros(us * 10),
            latency_error: Some(0.2),
            compression,
            ..FormSignal::default()
        };
        let mut both = signal(1, 10, Some(2.0));
        both.beside(&signal(3, 30, Some(4.0)));
        assert_eq!((both.latency, both.tail), (Duration::from_micros(25), Duration::from_micros(300)));
        assert_eq!((both.compression, both.tail_error), (Some(3.5), None));
        let error = both.latency_error.unwrap();
        assert!((error - 0.05_f64.hypot(0.15)).abs() < 1e-12, "{error}");
        both.then(&signal(0, 0, None));
        assert_eq!((both.latency, both.compression), (Duration::from_micros(25), Some(3.5)));
    }

    #[test]
    fn a_group_divides_its_budget_and_shares_its_levers() {
        use crate::bandwidth::Budget;
        let budget = Budget { cost: Cost::SECOND, per: Duration::from_secs(2) };
        let group = Throttle { budget: Some(budget), delay: 4, ..Throttle::FREE };
        assert_eq!(group.pool(&Pool::default()).capacity.cost, Cost(Cost::SECOND.0 / 2));
        let member = Throttle { delay: 2, mba: 50, ..Throttle::FREE }.under(&group);
        assert_eq!(member, Throttle { delay: 4, mba: 50, ..Throttle::FREE });
    }
}
