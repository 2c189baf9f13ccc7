//! Memory and bandwidth together on the modelled swap host (S8 to S10).
//!
//! The programs are fitted to Spirit Fig 1 and their floors to the size of its gains, so that the sizes say little; that
//! nobody loses, the order of the policies, what doubling the memory does and how long adapting takes follow from the
//! policies.
//!
//! Known miss. S10: with seed 2 tenant 1 still holds 1.12 of its static memory seven to ten minutes after it turns back at
//! minute 37 (1.34 before), where less than 1.1 is asked for. Shares do not stay on their side either: see the README of
//! Figure 9.

use control::Loop;
use control::joint::Joint;
use lab::machine::swap::{Noise, SwapHost, SwapTenant, Told};
use lab::machine::swap_programs::{FLOOR_PART, POOL, memcached, server, stream, tenant};
use policy::joint::{Bundle, Options, by_name};
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

/// Spirit says no more than that counts fluctuate.
const NOISE: Noise = Noise { counts: 0.05, curve: 0.02 };
const SEEDS: [u64; 3] = [1, 2, 3];

fn minutes(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(60 * n)
}

fn options() -> Options {
    let (memory, bandwidth) = FLOOR_PART;
    Options { floor_part: Bundle { memory, bandwidth }, ..Options::default() }
}

/// Operations per second of each tenant over the second half of an hour.
fn rates(name: &str, pool: Joint, tenants: Vec<SwapTenant>, told: Told, seed: u64) -> Vec<f64> {
    let ids: Vec<TenantId> = (1..).take(tenants.len()).map(TenantId).collect();
    let mut host = SwapHost::new(pool, tenants, NOISE, told, seed);
    host.advance(Instant::ZERO + Duration::from_secs(30));
    let profiles = ids.iter().map(|id| (*id, host.profile(*id, 101).expect("the tenant is there")));
    let options =
        Options { profiles: if name == "ideal" { profiles.collect() } else { Vec::new() }, ..options() };
    let mut pacer = Loop::new(by_name(name, options).expect("a policy of this name"), 4);
    host.drive(&mut pacer, minutes(60));
    ids.iter().map(|id| host.mean_rate(*id, minutes(30), minutes(60)).expect("it ran")).collect()
}

/// Speeds relative to the static shares: three of STREAM, then Memcached, DLRM, SocialNetwork.
fn gains(name: &str, memory: u64, told: Told, seed: u64) -> Vec<f64> {
    let pool = Joint { bytes: Bytes(POOL.bytes.0 * memory), ..POOL };
    let base = rates("static", pool, server(), told, seed);
    rates(name, pool, server(), told, seed).iter().zip(base).map(|(rate, base)| rate / base).collect()
}

fn mean_of_three(gains: &[f64]) -> f64 {
    gains[..3].iter().sum::<f64>() / 3.0
}

/// One figure for all tenants: the mean of the logarithms.
fn overall(gains: &[f64]) -> f64 {
    gains.iter().map(|gain| gain.ln()).sum::<f64>() / gains.len() as f64
}

#[test]
fn s8_six_applications_gain_and_nobody_loses() {
    for seed in SEEDS {
        for told in [Told::Curve, Told::Accesses] {
            let found = gains("symbiosis", 1, told, seed);
            println!("seed={seed} {told:?} {found:.3?}");
            let stream = mean_of_three(&found);
            assert!((1.15..1.25).contains(&stream), "seed={seed} {told:?}: {found:?}");
            assert!((1.03..1.09).contains(&found[3]), "seed={seed} {told:?}: {found:?}");
            // Shares move with noise; a hundredth is less than what a step of them does.
            assert!(found.iter().all(|gain| 0.99 < *gain), "seed={seed} {told:?}: {found:?}");
        }
    }
}

#[test]
fn s8_harvest_below_trade_below_symbiosis_below_ideal() {
    let mean = |name: &str| {
        let of = |seed: &u64| overall(&gains(name, 1, Told::Curve, *seed));
        SEEDS.iter().map(of).sum::<f64>() / SEEDS.len() as f64
    };
    let [harvest, trade, symbiosis, ideal] = ["harvest", "trade", "symbiosis", "ideal"].map(mean);
    println!("harvest {harvest:.4} trade {trade:.4} symbiosis {symbiosis:.4} ideal {ideal:.4}");
    assert!(harvest < trade && trade < symbiosis && symbiosis <= ideal + 0.002);
}

#[test]
fn s9_twice_the_memory_shrinks_the_gain() {
    for seed in SEEDS {
        let [once, twice] =
            [1, 2].map(|memory| mean_of_three(&gains("symbiosis", memory, Told::Curve, seed)));
        println!("seed={seed} {once:.3} {twice:.3}");
        assert!(twice - 1.0 < 0.9 * (once - 1.0), "seed={seed}: {once} {twice}");
    }
}

/// Two of four tenants turn from bandwidth to memory and back (Fig 9). Shares go on swinging by a tenth of the pool while
/// prices are fought out among equals, so that the side on which they are counts, not where they settle: more than 1.15 of
/// the static share and more than before after a turn to memory; less than 1.1, and .85 of what it was, after a turn back.
#[test]
fn s10_a_change_is_followed_within_ten_minutes() {
    let pool = Joint { bytes: POOL.bytes, bandwidth: BytesPerSec(625_000_000) };
    for seed in SEEDS {
        let turning = |from: u64, to: u64| {
            let phases =
                vec![(Instant::ZERO, stream()), (minutes(from), memcached()), (minutes(to), stream())];
            SwapTenant { phases, ..tenant(stream()) }
        };
        let tenants = vec![turning(7, 37), turning(17, 47), tenant(stream()), tenant(stream())];
        let mut host = SwapHost::new(pool, tenants, NOISE, Told::Curve, seed);
        let policy = by_name("symbiosis", options()).expect("a policy of this name");
        host.drive(&mut Loop::new(policy, 4), minutes(60));
        let mean = |id: u32, from: u64, to: u64| {
            let shares =
                host.shares(TenantId(id)).filter(|(at, _)| minutes(from) <= *at && *at < minutes(to));
            let (n, sum) =
                shares.fold((0.0, 0.0), |(n, sum), (_, share)| (n + 1.0, sum + share.bytes.0 as f64));
            4.0 * sum / n / POOL.bytes.0 as f64
        };
        for (id, change, up) in [(1, 7, true), (2, 17, true), (1, 37, false), (2, 47, false)] {
            let after = mean(id, change + 7, change + 10);
            let before = mean(id, change - 5, change);
            println!(
                "seed={seed} tenant {id} at {change} min: {before:.2} to {after:.2} of its static memory"
            );
            let said = format!("seed={seed} tenant {id} at {change} min: {before} to {after}");
            if up {
                assert!(1.15 < after && before < after, "{said}");
            } else {
                assert!(after < 1.1 && after < 0.85 * before, "{said}");
            }
        }
        let both = (mean(1, 27, 37), mean(2, 27, 37), mean(3, 27, 37));
        assert!(1.2 < both.0 && 1.2 < both.1 && both.2 < 0.8, "seed={seed}: {both:?}");
    }
}
