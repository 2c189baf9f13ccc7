//! The static partition with the best split: the bound for every split among LRUs that stays as it is. A policy that moves
//! memory as tenants change may miss less.
//!
//! Shape:      hit curves on one grid, and steps to divide -> steps per tenant
//! Invariants: no other split on the grid has more hits (`best`); the steps of the concave hulls are an upper bound
//!             for it, met where curves have no cliffs (`on_hulls`)
//! Cost:       O(tenants × steps²) for `best`, O(tenants × steps) for `on_hulls`
//! Source:     dynamic programming over the grid; the greedy one on hulls is that of Fox, Discrete optimization via
//!             marginal analysis, 1966

use super::reuse::HitCurve;

/// How memory is divided, and what comes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// Steps of each tenant, in the order of the curves.
    pub steps: Vec<usize>,
    /// Hits of all together.
    pub hits: u64,
}

/// The best split of `steps` steps.
///
/// # Panics
/// If a curve is shorter.
#[must_use]
pub fn best(curves: &[HitCurve], steps: usize) -> Split {
    let mut hits = vec![0_u64; steps + 1];
    let mut choices: Vec<Vec<usize>> = Vec::with_capacity(curves.len());
    for curve in curves {
        let (others, own_hits) = (&hits, &curve.hits);
        let choose = |total: usize| (0..=total).map(move |own| (others[total - own] + own_hits[own], own));
        // Of equals the smallest: what is left may serve others.
        let better = |a: (u64, usize), b: (u64, usize)| if a.0 < b.0 { b } else { a };
        let chosen: Vec<(u64, usize)> =
            (0..=steps).map(|total| choose(total).reduce(better).unwrap_or_default()).collect();
        choices.push(chosen.iter().map(|&(_, own)| own).collect());
        hits = chosen.into_iter().map(|(hits, _)| hits).collect();
    }
    let mut left = steps;
    let mut own: Vec<usize> = Vec::with_capacity(curves.len());
    for choice in choices.iter().rev() {
        own.push(choice[left]);
        left -= choice[left];
    }
    own.reverse();
    Split { steps: own, hits: hits[steps] }
}

/// Steps given one after another to whoever gains most per step on its concave hull, and the real hits of that split.
///
/// # Panics
/// If a curve is shorter.
#[must_use]
pub fn on_hulls(curves: &[HitCurve], steps: usize) -> Split {
    let mut pieces: Vec<(f64, usize, usize)> = Vec::new();
    for (tenant, curve) in curves.iter().enumerate() {
        let hull = hull(&curve.hits);
        pieces.extend(hull.windows(2).map(|ends| {
            let gain = (curve.hits[ends[1]] - curve.hits[ends[0]]) as f64;
            (gain / (ends[1] - ends[0]) as f64, tenant, ends[1] - ends[0])
        }));
    }
    // Stable: a tenant's pieces stay in order.
    pieces.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut own = vec![0; curves.len()];
    let mut left = steps;
    for (_, tenant, length) in pieces {
        own[tenant] += length.min(left);
        left -= length.min(left);
    }
    let hits = curves.iter().zip(&own).map(|(curve, &own)| curve.hits[own]).sum();
    Split { steps: own, hits }
}

/// The corners of the least concave function that is nowhere below `hits`.
fn hull(hits: &[u64]) -> Vec<usize> {
    let slope = |a: usize, b: usize| (hits[b] - hits[a]) as f64 / (b - a) as f64;
    let mut corners: Vec<usize> = Vec::new();
    for at in 0..hits.len() {
        while let [.., before, last] = corners[..]
            && slope(before, last) <= slope(last, at)
        {
            corners.pop();
        }
        corners.push(at);
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::testing::mixed;
    use crate::reference::{Access, Lru, Recording, hit_curves};
    use units::{Bytes, Rng};

    fn curve(gains: &[u64]) -> HitCurve {
        let mut hits = vec![0];
        gains.iter().for_each(|gain| hits.push(hits[hits.len() - 1] + gain));
        HitCurve { gets: 100, hits }
    }

    #[test]
    fn a_cliff_worked_by_hand() {
        // The first gains 3 per step; the second nothing until its third step, then 10.
        let curves = [curve(&[3, 3, 3, 3]), curve(&[0, 0, 10, 0])];
        assert_eq!(best(&curves, 4), Split { steps: vec![1, 3], hits: 13 });
        assert_eq!(best(&curves, 2), Split { steps: vec![2, 0], hits: 6 });
        assert_eq!(on_hulls(&curves, 4), Split { steps: vec![1, 3], hits: 13 });
        assert_eq!(
            on_hulls(&curves, 2),
            Split { steps: vec![0, 2], hits: 0 },
            "the hull promises what is not there"
        );
    }

    /// The most hits of any split, by trying all.
    fn brute_force(curves: &[HitCurve], steps: usize) -> u64 {
        let Some((curve, others)) = curves.split_first() else { return 0 };
        (0..=steps).map(|own| curve.hits[own] + brute_force(others, steps - own)).max().unwrap_or(0)
    }

    #[test]
    fn the_best_split_equals_brute_force() {
        for seed in 1..=3 {
            let mut rng = Rng::new(seed);
            for _ in 0..100 {
                let gains = |rng: &mut Rng| (0..8).map(|_| rng.below(4) * rng.below(5)).collect::<Vec<_>>();
                let curves: Vec<HitCurve> = (0..4).map(|_| curve(&gains(&mut rng))).collect();
                let split = best(&curves, 8);
                assert_eq!(split.hits, brute_force(&curves, 8));
                assert_eq!(split.hits, curves.iter().zip(&split.steps).map(|(c, &s)| c.hits[s]).sum::<u64>());
                assert!(split.steps.iter().sum::<usize>() <= 8 && on_hulls(&curves, 8).hits <= split.hits);
                let mut concave = curves.clone();
                for curve in &mut concave {
                    let mut gains: Vec<u64> = curve.hits.windows(2).map(|w| w[1] - w[0]).collect();
                    gains.sort_by(|a, b| b.cmp(a));
                    *curve = super::tests::curve(&gains);
                }
                assert_eq!(on_hulls(&concave, 8).hits, best(&concave, 8).hits, "no cliffs");
            }
        }
    }

    #[test]
    fn partitioned_lrus_hit_what_the_split_says_and_more_than_equal_parts() {
        for seed in 1..=3 {
            let recording = mixed(seed, 20_000);
            let (step, steps, per_item) = (Bytes(500), 120, Bytes(48));
            let curves = hit_curves(&recording, step, steps, per_item);
            let split = best(&curves, steps);
            let mut hits = 0;
            for (tenant, own) in split.steps.iter().enumerate().filter(|(_, own)| 0 < **own) {
                let of = |access: &&Access| usize::from(access.tenant) == tenant;
                let accesses = recording.accesses.iter().filter(of).copied().collect();
                let alone = Recording { accesses, tenants: Vec::new() };
                hits += alone.replay(&mut Lru::new(Bytes(step.0 * *own as u64), per_item)).hits;
            }
            assert_eq!(hits, split.hits);
            let equal: u64 = curves.iter().map(|curve| curve.hits[steps / 3]).sum();
            assert!(equal * 11 / 10 < split.hits, "equal parts {equal}, best {}", split.hits);
        }
    }
}
