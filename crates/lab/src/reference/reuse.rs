//! Exact miss ratio curves of LRU: one pass gives the hits at every size.
//!
//! Shape:      accesses -> reuse distance -> histogram by steps of size -> hits at 0, 1, 2, ... steps
//! Invariants: LRU of a capacity hits if and only if the reuse distance is at most that; with sizes that change, items
//!             that are removed, or larger than the capacity, this is approximate
//! Units:      a reuse distance is the bytes, charges included, of the distinct items since the last access and of the
//!             item itself
//! Cost:       O(log items) per access
//! Source:     Mattson et al., Evaluation techniques for storage hierarchies, 1970; with a Fenwick tree

use super::recording::Recording;
use crate::trace::Op;
use std::collections::HashMap;
use units::Bytes;

/// Fewest places of a tree.
const PLACES_MIN: usize = 64;

/// Reuse distances of one stream of accesses.
#[derive(Debug, Default)]
struct Distances {
    /// Place and charge of every item's last access.
    last: HashMap<u64, (usize, u64)>,
    /// Fenwick tree of the charges by place; the first is unused.
    tree: Vec<u64>,
    next: usize,
    held: u64,
}

impl Distances {
    /// The reuse distance of an access, none at the first.
    fn access(&mut self, key_hash: u64, charge: u64) -> Option<u64> {
        if self.tree.len() <= self.next + 1 {
            self.compact();
        }
        let distance = self.last.get(&key_hash).map(|&(place, own)| self.held - self.sum_to(place) + own);
        self.remove(key_hash);
        self.next += 1;
        self.last.insert(key_hash, (self.next, charge));
        self.add(self.next, charge);
        distance
    }

    fn remove(&mut self, key_hash: u64) {
        if let Some((place, charge)) = self.last.remove(&key_hash) {
            self.add(place, charge.wrapping_neg());
        }
    }

    /// Adds to one place; a negative change is its two's complement.
    fn add(&mut self, mut place: usize, change: u64) {
        self.held = self.held.wrapping_add(change);
        while place < self.tree.len() {
            self.tree[place] = self.tree[place].wrapping_add(change);
            place += place & place.wrapping_neg();
        }
    }

    fn sum_to(&self, mut place: usize) -> u64 {
        let mut sum = 0_u64;
        while 0 < place {
            sum = sum.wrapping_add(self.tree[place]);
            place &= place - 1;
        }
        sum
    }

    /// Moves all items together, in order, and leaves as many places free.
    fn compact(&mut self) {
        let mut items: Vec<(usize, u64, u64)> =
            self.last.iter().map(|(&key, &(place, charge))| (place, key, charge)).collect();
        items.sort_unstable();
        self.tree = vec![0; (items.len() * 2).max(PLACES_MIN) + 1];
        (self.held, self.next) = (0, items.len());
        for (i, (_, key, charge)) in items.into_iter().enumerate() {
            self.last.insert(key, (i + 1, charge));
            self.add(i + 1, charge);
        }
    }
}

/// Hits of one tenant's LRU by its size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HitCurve {
    /// Look-ups.
    pub gets: u64,
    /// Hits with 0, 1, 2, ... steps of memory; it never falls.
    pub hits: Vec<u64>,
}

/// The curve of every tenant at sizes of 0 to `steps` times `step`, each item charged `per_item` on top of its bytes.
#[must_use]
pub fn hit_curves(recording: &Recording, step: Bytes, steps: usize, per_item: Bytes) -> Vec<HitCurve> {
    let mut all: Vec<(Distances, HitCurve)> = Vec::new();
    let empty = || (Distances::default(), HitCurve { gets: 0, hits: vec![0; steps + 1] });
    all.resize_with(recording.tenants.len(), empty);
    for access in &recording.accesses {
        let (distances, curve) = &mut all[usize::from(access.tenant)];
        let changes_only =
            matches!(access.op, Op::Replace | Op::Cas | Op::Append | Op::Prepend | Op::Incr | Op::Decr);
        if access.op == Op::Delete {
            distances.remove(access.key_hash);
            continue;
        }
        if changes_only && !distances.last.contains_key(&access.key_hash) {
            continue;
        }
        let distance = distances.access(access.key_hash, u64::from(access.bytes) + per_item.0);
        if access.op.is_look_up() {
            curve.gets += 1;
            let at = distance.and_then(|distance| usize::try_from(distance.div_ceil(step.0)).ok());
            if let Some(hits) = at.and_then(|at| curve.hits.get_mut(at)) {
                *hits += 1;
            }
        }
    }
    let cumulate = |mut curve: HitCurve| {
        (1..curve.hits.len()).for_each(|at| curve.hits[at] += curve.hits[at - 1]);
        curve
    };
    all.into_iter().map(|(_, curve)| cumulate(curve)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::testing::mixed;
    use crate::reference::{Access, Lru};

    #[test]
    fn distances_worked_by_hand() {
        let mut distances = Distances::default();
        for (key, charge, expected) in [
            (1, 10, None),
            (2, 5, None),
            (1, 10, Some(15)),
            (1, 10, Some(10)),
            (3, 1, None),
            (2, 5, Some(16)),
        ] {
            assert_eq!(distances.access(key, charge), expected, "{key}");
        }
        distances.remove(1);
        assert_eq!(distances.access(3, 1), Some(6), "1 is gone");
        assert_eq!(distances.access(1, 10), None);
    }

    #[test]
    fn lru_equals_the_curve_at_every_size() {
        for seed in 1..=3 {
            let recording = mixed(seed, 20_000);
            let (step, per_item) = (Bytes(500), Bytes(48));
            let curves = hit_curves(&recording, step, 64, per_item);
            // No item is larger than the least of these.
            for at in [2, 3, 7, 20, 41, 64] {
                let mut all = Vec::new();
                for tenant in 0..recording.tenants.len() {
                    let of = |access: &&Access| usize::from(access.tenant) == tenant;
                    let accesses = recording.accesses.iter().filter(of).copied().collect();
                    let alone = Recording { accesses, tenants: recording.tenants.clone() };
                    all.push(alone.replay(&mut Lru::new(Bytes(step.0 * at as u64), per_item)));
                }
                let hits: Vec<u64> = all.iter().map(|tally| tally.hits).collect();
                assert_eq!(hits, curves.iter().map(|curve| curve.hits[at]).collect::<Vec<_>>(), "{at}");
                assert!(all.iter().zip(&curves).all(|(tally, curve)| tally.gets == curve.gets));
            }
        }
    }
}
