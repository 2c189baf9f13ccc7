//! Whoever floods the store with keys pays for it alone.

use crate::rig::Rig;
use lab::{Op, Request};
use store::RankKind;
use units::{Bytes, Instant, Rng, TenantId};

const VICTIM: TenantId = TenantId(0);
const SPRAYER: TenantId = TenantId(1);
const MEMORY: Bytes = Bytes::mib(16);
/// Of the victim; the first half warms the store.
const REQUESTS: u64 = 400_000;
/// Requests of the sprayer for each of the victim's.
const SPRAYS: u64 = 5;

/// Requests between looks at what the victim holds; a pass frees five segments at once, so the mean counts.
const HELD_EVERY: u64 = 100;
/// What the victim may lose: of its hit ratio, and segments of what it holds in the mean.
const PROMISED: (f64, u64) = (0.005, 1);

/// Seeds whose means are compared.
const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// What the sprayer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flood {
    /// It fills its share once and is quiet.
    Quiet,
    /// It stores a key that it never uses again.
    Sets,
    /// It asks for a key that nobody stored.
    Misses,
}

/// What the victim had of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    hit_ratio: f64,
    /// The mean of the second half.
    held: Bytes,
    /// The sprayer's evictions, and the victim's.
    evictions: [u64; 2],
    segment: Bytes,
}

fn request(rig: &mut Rig, at: u64, tenant: TenantId, op: Op, key: &str, value_bytes: u32) {
    let at = Instant(at * 20_000);
    rig.run(tenant, &Request { at, tenant: b"", key: key.as_bytes(), value_bytes, op, ttl_secs: 0 });
}

fn run(policy: &str, rank: &RankKind, flood: Flood, seed: u64) -> Outcome {
    let tenants = ["victim", "sprayer"].map(|name| (name.to_owned(), Bytes::ZERO));
    let mut rig = Rig::ranked(MEMORY, policy, rank, &tenants);
    let mut rng = Rng::new(seed);
    for n in 0..60_000 {
        request(&mut rig, 0, SPRAYER, Op::Set, &format!("f{n}"), 200);
    }
    let mut half = rig.store.totals(VICTIM);
    let mut held = Vec::new();
    for i in 0..REQUESTS {
        if i == REQUESTS / 2 {
            half = rig.store.totals(VICTIM);
        }
        if REQUESTS / 2 <= i && i.is_multiple_of(HELD_EVERY) {
            held.push(rig.store.held(VICTIM).0);
        }
        // The smaller the more likely: a working set of some 15 MiB, of which the share holds the most used half.
        let bound = 1 + rng.below(60_000);
        let key = format!("v{}", rng.below(bound));
        request(&mut rig, i, VICTIM, Op::Get, &key, 200);
        for spray in 0..SPRAYS {
            let key = format!("s{:x}", i * SPRAYS + spray);
            match flood {
                Flood::Quiet => {}
                Flood::Sets => request(&mut rig, i, SPRAYER, Op::Set, &key, 1),
                Flood::Misses => assert!(!rig.ask(SPRAYER, key.as_bytes())),
            }
        }
    }
    let totals = rig.store.totals(VICTIM);
    let window = totals.since(&half);
    Outcome {
        hit_ratio: window.get_hits as f64 / (window.get_hits + window.get_misses) as f64,
        held: Bytes(held.iter().sum::<u64>() / held.len() as u64),
        evictions: [rig.store.totals(SPRAYER).evictions, totals.evictions],
        segment: rig.store.geometry().segment,
    }
}

fn check(policy: &str, flood: Flood, seeds: &[u64], promised: (f64, u64)) {
    check_ranked(policy, &RankKind::default(), flood, seeds, promised);
}

/// Means over the seeds are compared: what a fixed half hits without anybody beside it moves by .008 from seed to seed, and by as much
/// with a segment more or less.
fn check_ranked(
    policy: &str,
    rank: &RankKind,
    flood: Flood,
    seeds: &[u64],
    (loss_max, segments): (f64, u64),
) {
    let (mut lost, mut lost_bytes, mut segment) = (0.0, 0.0, Bytes::ZERO);
    for seed in seeds {
        // What the victim has of a fixed half of the memory, with nobody beside it who writes.
        let alone = run("partitioned", rank, Flood::Quiet, *seed);
        let flooded = run(policy, rank, flood, *seed);
        println!("{policy} {rank} {flood:?} seed {seed}:\n  alone {alone:?}\n  flooded {flooded:?}");
        assert!(alone.hit_ratio < 0.95 && 0 < alone.evictions[1], "its working set does not fit its share");
        if flood == Flood::Sets {
            assert!(500_000 < flooded.evictions[0], "the sprayer evicts");
        }
        lost += alone.hit_ratio - flooded.hit_ratio;
        lost_bytes += alone.held.0 as f64 - flooded.held.0 as f64;
        segment = flooded.segment;
    }
    let (lost, lost_segments) =
        (lost / seeds.len() as f64, lost_bytes / (seeds.len() as u64 * segment.0) as f64);
    println!(
        "{policy} {rank} {flood:?}: the victim loses {lost:.4} of its hits and {lost_segments:.2} segments"
    );
    assert!(lost <= loss_max, "the victim pays");
    assert!(lost_segments <= segments as f64, "the victim holds less than its share");
}

#[test]
fn spraying_keys_costs_only_the_sprayer() {
    for policy in ["shared", "pooled"] {
        check(policy, Flood::Sets, &SEEDS[..3], PROMISED);
    }
}

/// Tenants compete by what their items are worth, whatever order those go in: who is asked grows at the cost of who is not, and of
/// who sprays.
#[test]
fn one_pool_compares_tenants_of_any_rank() {
    for (rank, seed) in [("lru", 1), ("gdsf", 2), ("lhd", 3), ("f / (size * (t + 4))", 4)] {
        let rank = rank.parse().unwrap();
        check_ranked("pooled", &rank, Flood::Sets, &[seed], PROMISED);
        let quiet = run("pooled", &rank, Flood::Quiet, seed);
        println!("  quiet {quiet:?}");
        assert!(MEMORY.0 * 6 / 10 < quiet.held.0, "{rank}: it holds {}", quiet.held);
    }
}

#[test]
fn a_flood_of_misses_costs_nobody_a_hit() {
    for policy in ["shared", "partitioned", "idle-tax", "pooled"] {
        check(policy, Flood::Misses, &SEEDS, PROMISED);
    }
}

/// A known miss: where shares do not move, the victim's hit ratio falls by .012 (`partitioned`) and .020 (`idle-tax`; means of four
/// seeds) in 16 MiB, with a share that it holds but for 4.2 and 6.6 segments of the 256. It is the grain of the passes there: with half as
/// many segments, twice as large, it was .017 and .024, with a quarter .035 and .056 with one seed each; there freeing one segment at a time cost .028 and .036, with ten
/// looked at and two freed .030 and .039, and a rank clock four or sixteen times as slow changed .002. This only keeps it from growing.
#[test]
fn known_miss_spraying_costs_a_neighbour_of_fixed_shares_some_hits() {
    for policy in ["partitioned", "idle-tax"] {
        check(policy, Flood::Sets, &SEEDS, (0.025, 8));
    }
}
