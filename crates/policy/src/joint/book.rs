//! From claims to terms, and from parts of the pool to shares in bytes.
//!
//! Shape:      `Seen` -> static share, floor and ceiling of everybody; bundles -> `Shares`
//! Invariants: static shares lie between floor and ceiling and sum to at most the pool; shares in bytes sum to at most the
//!             pool, to all of it while no ceiling binds, and none is below its kept floor
//! Units:      parts of the pool inside, bytes and bytes per second outside
//! Cost:       O(tenants); no allocation once the tenants are steady
//! Source:     Spirit §3.1 (static fair share), §7 (weights)

use super::auction::{Bundle, SAME, Terms};
use control::joint::{Joint, JointSignal};
use control::{Law, Seen, Shares};
use units::{Bytes, BytesPerSec, TenantId};

/// Halvings when the level of the static shares is searched, of its logarithm: as many as a float has digits.
const HALVINGS: u32 = 53;
/// Of an even level so much is nothing to anybody: at most so many bytes of as many as there can be.
const NO_LEVEL: f64 = 1e-26;

/// What a joint division is made of: everybody's terms, and the shares.
#[derive(Debug, Default)]
pub(super) struct Book {
    terms: Vec<Terms>,
    rows: Vec<(TenantId, Joint)>,
    limits: Vec<(u64, u64)>,
    parts: Vec<f64>,
    whole: Vec<u64>,
    shares: Shares<Joint>,
}

fn part(amount: u64, capacity: u64) -> f64 {
    if capacity == 0 { 0.0 } else { amount as f64 / capacity as f64 }
}

impl Book {
    /// Everybody's terms, in the order of the tenants; `kept` says below what nobody is to be taken, by place and static share.
    pub(super) fn settle(
        &mut self,
        seen: &Seen<'_, JointSignal, Joint>,
        kept: impl Fn(usize, Bundle) -> Bundle,
    ) -> &[Terms] {
        let capacity = seen.pool.capacity;
        let floors = seen.floors();
        self.terms.clear();
        self.terms.extend(seen.tenants.iter().map(|row| {
            let floor = floors.kept(row.claim.floor);
            let ceiling = row.claim.ceiling_of(capacity);
            let memory = ceiling.bytes.0.max(floor.bytes.0);
            let bandwidth = ceiling.bandwidth.0.max(floor.bandwidth.0);
            let weight = row.claim.weight.get();
            Terms {
                endowment: Bundle::default(),
                floor: Bundle {
                    memory: part(floor.bytes.0, capacity.bytes.0),
                    bandwidth: part(floor.bandwidth.0, capacity.bandwidth.0),
                },
                ceiling: Bundle {
                    memory: part(memory, capacity.bytes.0),
                    bandwidth: part(bandwidth, capacity.bandwidth.0),
                },
                step: 0.0,
                weight,
                unspent_weight: weight,
            }
        }));
        self.endow();
        for (place, terms) in self.terms.iter_mut().enumerate() {
            terms.floor = terms.floor.most(kept(place, terms.endowment));
        }
        &self.terms
    }

    /// Static shares: by weight, but between floor and ceiling.
    fn endow(&mut self) {
        let memory = level(&self.terms, |terms| (terms.floor.memory, terms.ceiling.memory));
        let bandwidth = level(&self.terms, |terms| (terms.floor.bandwidth, terms.ceiling.bandwidth));
        for terms in &mut self.terms {
            let between =
                |level: f64, floor: f64, ceiling: f64| (level * terms.weight).max(floor).min(ceiling);
            terms.endowment = Bundle {
                memory: between(memory, terms.floor.memory, terms.ceiling.memory),
                bandwidth: between(bandwidth, terms.floor.bandwidth, terms.ceiling.bandwidth),
            };
        }
    }

    /// Moves what everybody holds beside its static share with that, from `homes` to where the terms have it: as much more or less
    /// as before. Says whether that is within everybody's limits.
    pub(super) fn follow<'a>(&self, homes_and_held: impl Iterator<Item = (Bundle, &'a mut Bundle)>) -> bool {
        let mut fits = true;
        for ((home, held), terms) in homes_and_held.zip(&self.terms) {
            let (new, before) = (terms.endowment, *held);
            // Where nothing has moved nothing is rounded.
            if home != new {
                held.memory = new.memory + (before.memory - home.memory);
                held.bandwidth = new.bandwidth + (before.bandwidth - home.bandwidth);
            }
            fits &= terms.floor.memory <= held.memory + SAME && held.memory <= terms.ceiling.memory + SAME;
            fits &= terms.floor.bandwidth <= held.bandwidth + SAME
                && held.bandwidth <= terms.ceiling.bandwidth + SAME;
        }
        fits
    }

    pub(super) fn terms(&self) -> &[Terms] {
        &self.terms
    }

    pub(super) fn shares(&self) -> &Shares<Joint> {
        &self.shares
    }

    /// Everybody's static share becomes its share.
    pub(super) fn grant_static(&mut self, seen: &Seen<'_, JointSignal, Joint>) {
        let terms = std::mem::take(&mut self.terms);
        self.grant(seen, terms.iter().map(|terms| terms.endowment));
        self.terms = terms;
    }

    /// Turns `bundles`, in the order of the tenants, into shares.
    pub(super) fn grant(
        &mut self,
        seen: &Seen<'_, JointSignal, Joint>,
        bundles: impl Iterator<Item = Bundle> + Clone,
    ) {
        let capacity = seen.pool.capacity;
        let floors = seen.floors();
        self.rows.clear();
        self.rows.extend(seen.tenants.iter().map(|row| (row.id, Joint::default())));
        self.limits.clear();
        self.limits.extend(seen.tenants.iter().map(|row| {
            let floor = floors.kept(row.claim.floor).bytes.0;
            (floor, row.claim.ceiling_of(capacity).bytes.0.max(floor))
        }));
        self.parts.clear();
        self.parts.extend(bundles.clone().map(|bundle| bundle.memory));
        round(capacity.bytes.0, &self.parts, &self.limits, &mut self.whole);
        for ((_, share), bytes) in self.rows.iter_mut().zip(&self.whole) {
            share.bytes = Bytes(*bytes);
        }
        self.limits.clear();
        self.limits.extend(seen.tenants.iter().map(|row| {
            let floor = floors.kept(row.claim.floor).bandwidth.0;
            (floor, row.claim.ceiling_of(capacity).bandwidth.0.max(floor))
        }));
        self.parts.clear();
        self.parts.extend(bundles.map(|bundle| bundle.bandwidth));
        round(capacity.bandwidth.0, &self.parts, &self.limits, &mut self.whole);
        for ((_, share), bytes_per_sec) in self.rows.iter_mut().zip(&self.whole) {
            share.bandwidth = BytesPerSec(*bytes_per_sec);
        }
        let rows = self.rows.iter().copied();
        self.shares.rebuild(Law::AtMost { floor_part: 1.0 }, seen, rows);
    }
}

/// The level at which weight × level, kept between floor and ceiling, sums to the pool, or to as much as ceilings allow.
fn level(terms: &[Terms], limits: impl Fn(&Terms) -> (f64, f64)) -> f64 {
    let weights: f64 = terms.iter().map(|terms| terms.weight).sum();
    if weights <= 0.0 {
        return 0.0;
    }
    let even = 1.0 / weights;
    let is_free = |terms: &Terms| {
        let (floor, ceiling) = limits(terms);
        floor <= even * terms.weight && even * terms.weight <= ceiling
    };
    if terms.iter().all(is_free) {
        return even;
    }
    let given = |level: f64| -> f64 {
        terms
            .iter()
            .map(&limits)
            .zip(terms)
            .map(|((floor, ceiling), terms)| (level * terms.weight).max(floor).min(ceiling))
            .sum()
    };
    // Weights are up to 10^24 apart.
    let least = terms.iter().map(|terms| terms.weight).fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (even * NO_LEVEL, 1.0 / least);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if given(middle) <= 1.0 { low = middle } else { high = middle }
    }
    low
}

/// Whole numbers for `parts` of `capacity`, within `limits`, whose sum is at most `capacity` and as near to it as ceilings
/// allow where the parts sum to one. Rounding goes to or from the first tenants.
fn round(capacity: u64, parts: &[f64], limits: &[(u64, u64)], whole: &mut Vec<u64>) {
    whole.clear();
    whole.extend(parts.iter().zip(limits).map(|(part, (floor, ceiling))| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a size, rounded down"
        )]
        let amount = (part.clamp(0.0, 1.0) * capacity as f64) as u64;
        amount.max(*floor).min(*ceiling)
    }));
    let given: u128 = whole.iter().map(|&amount| u128::from(amount)).sum();
    let mut over = u64::try_from(given.saturating_sub(u128::from(capacity))).unwrap_or(u64::MAX);
    for (amount, (floor, _)) in whole.iter_mut().zip(limits) {
        let less = over.min(*amount - floor);
        *amount -= less;
        over -= less;
    }
    // What rounding down has left is less than one per tenant; more is left only where ceilings bind.
    let mut left =
        u64::try_from(u128::from(capacity).saturating_sub(given)).unwrap_or(0).min(parts.len() as u64);
    for (amount, (_, ceiling)) in whole.iter_mut().zip(limits) {
        let more = left.min(1).min(*ceiling - *amount);
        *amount += more;
        left -= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of a floor, two that divide the rest whatever their weights are beside its.
    #[test]
    fn who_weighs_next_to_nothing_does_not_blur_the_others() {
        for (small, large, wanted) in [
            (1e-12, 1e12, [0.25, 0.375, 0.375]),
            (1e-12, 1e3, [0.25, 0.375, 0.375]),
            (1.0, 1.0, [1.0 / 3.0; 3]),
            (1e12, 1e-12, [0.6, 0.2, 0.2]),
        ] {
            let of = |weight, floor| Terms {
                endowment: Bundle::default(),
                floor: Bundle { memory: floor, bandwidth: 0.0 },
                ceiling: Bundle { memory: 0.6, bandwidth: 1.0 },
                step: 0.0,
                weight,
                unspent_weight: weight,
            };
            let terms = [of(small, 0.25), of(large, 0.0), of(large, 0.0)];
            let limits = |terms: &Terms| (terms.floor.memory, terms.ceiling.memory);
            let level = level(&terms, limits);
            let parts = terms.map(|t| (t.weight * level).clamp(t.floor.memory, t.ceiling.memory));
            let is_near = |(part, wanted): (&f64, f64)| (part - wanted).abs() < 1e-9;
            assert!(parts.iter().zip(wanted).all(is_near), "{small} {large}: {parts:?}");
        }
    }

    #[test]
    fn rounding_keeps_the_sum_and_the_limits() {
        let free = (0, 1_000);
        for (capacity, parts, limits, expected) in [
            (100, vec![0.5, 0.5], vec![free; 2], vec![50, 50]),
            (10, vec![1.0 / 3.0; 3], vec![free; 3], vec![4, 3, 3]),
            (10, vec![0.9, 0.1], vec![free, (3, 9)], vec![7, 3]),
            (10, vec![0.9, 0.1], vec![(0, 5), (0, 4)], vec![5, 2]),
            (0, vec![0.5, 0.5], vec![(0, 0); 2], vec![0, 0]),
            (7, vec![], vec![], vec![]),
        ] {
            let mut whole = Vec::new();
            round(capacity, &parts, &limits, &mut whole);
            assert_eq!(whole, expected, "{capacity} {parts:?}");
        }
    }
}
