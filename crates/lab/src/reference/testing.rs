//! Loads that several simulators are tested with.

use super::{Access, Recording, Reference};
use crate::trace::Op;
use units::{Bytes, Rng};

/// Hit ratio of 500 items that are used four times each before a scan of 2,000 items that never come again, in a cache
/// of 1,000 items of one byte. The first turns are not counted.
pub(super) fn hit_ratio_of_a_set_under_scans(mut cache: impl Reference) -> f64 {
    let (mut gets, mut hits) = (0_u32, 0_u32);
    let mut fresh = 1 << 32;
    for turn in 0..12 {
        for again in 0..4 {
            for key in 0..500 {
                let hit = cache.access(key, 1);
                // Only the first look after a scan tells whether the scan washed it out.
                if 3 < turn && again == 0 {
                    gets += 1;
                    hits += u32::from(hit);
                }
            }
        }
        for _ in 0..2_000 {
            cache.access(fresh, 1);
            fresh += 1;
        }
    }
    f64::from(hits) / f64::from(gets)
}

/// Hit ratio of a loop over `items` items of one byte, the first ten rounds not counted.
pub(super) fn hit_ratio_of_a_loop(cache: &mut impl Reference, items: u64) -> f64 {
    let mut hits = 0_u64;
    for round in 0..60 {
        for key in 0..items {
            let hit = cache.access(key, 1);
            hits += u64::from(10 <= round && hit);
        }
    }
    hits as f64 / (50 * items) as f64
}

/// Random accesses of changing sizes, some too large, and removals, under three seeds: a key is a hit if and only if it
/// was held, and what the simulator says of itself holds throughout.
pub(super) fn random_steps<R: Reference>(new: impl Fn(Bytes, Bytes) -> R, check: impl Fn(&R)) {
    for seed in 1..=3 {
        let mut rng = Rng::new(seed);
        let mut cache = new(Bytes(1_000), Bytes(10));
        for step in 0..20_000 {
            let key = rng.below(rng.clone().below(200) + 1);
            let held = cache.contains(key);
            if rng.chance(0.05) {
                assert_eq!(cache.remove(key), held, "seed {seed}, step {step}");
                assert!(!cache.contains(key));
            } else {
                let bytes = if rng.chance(0.01) { 2_000 } else { u32::try_from(rng.below(60)).unwrap() };
                assert_eq!(cache.access(key, bytes), held, "seed {seed}, step {step}");
                assert!(bytes < 2_000 || !cache.contains(key), "more than the capacity is held");
            }
            if step % 100 == 0 {
                check(&cache);
            }
        }
        assert!(0 < cache.items() && cache.held() <= Bytes(1_000));
    }
}

/// Three tenants of a hundred to two thousand items, the first popular, the second in loops, the third at random; sizes
/// follow from keys.
pub(super) fn mixed(seed: u64, requests: usize) -> Recording {
    let mut rng = Rng::new(seed);
    let mut accesses = Vec::new();
    for turn in 0..requests {
        let tenant = u16::try_from(rng.below(3)).unwrap();
        let key = match tenant {
            0 => rng.below(rng.clone().below(500) + 1),
            1 => turn as u64 % 300,
            _ => rng.below(2_000),
        };
        let bytes = u32::try_from(10 + key % 17 * 8).unwrap();
        let key_hash = (u64::from(tenant) << 32) + key;
        accesses.push(Access { key_hash, bytes, tenant, op: Op::Get });
    }
    Recording { accesses, tenants: ["popular", "loops", "random"].map(str::to_owned).to_vec() }
}
