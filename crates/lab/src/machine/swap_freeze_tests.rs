//! The swap host and its programs stay what they are: every constant, and how fast each program runs with what share.
//!
//! The listing is later than the first runs of policies. It cannot say that constants were chosen without looking, only that
//! none changes unseen: a change is a new calibration, and every verdict on this host starts anew.

use super::swap::{self, Noise, PAGE, SwapHost, Told};
use super::swap_programs::{FLOOR_PART, POOL, STREAM_ALL_HITS, dlrm, memcached, social, stream, tenant};
use control::joint::Joint;
use units::{Bytes, BytesPerSec, TenantId};

#[test]
fn the_swap_host_and_its_programs_are_frozen() {
    let mut listing = format!(
        "page={} step={} points={} groups={}\n",
        PAGE.0,
        swap::STEP.0,
        swap::CURVE_POINTS,
        swap::GROUPS
    );
    for (name, value) in [
        ("fault", swap::FAULT),
        ("link_faster", swap::LINK_FASTER),
        ("fluctuation", swap::FLUCTUATION),
        ("dirty", swap::DIRTY),
        ("eviction_part", swap::EVICTION_PART),
        ("noise_seconds", swap::NOISE_SECONDS),
        ("p99", swap::P99),
        ("samples", swap::SAMPLES),
        ("floor.memory", FLOOR_PART.0),
        ("floor.bandwidth", FLOOR_PART.1),
    ] {
        listing.push_str(&format!("{name}={value}\n"));
    }
    listing.push_str(&format!("pool={} {} stream={}\n", POOL.bytes.0, POOL.bandwidth.0, STREAM_ALL_HITS.0));
    for (name, program) in
        [("stream", stream()), ("memcached", memcached()), ("social", social()), ("dlrm", dlrm())]
    {
        let misses = [1, 2, 4, 8].map(|gib| program.curve.miss_ratio(Bytes(gib << 30)));
        let (threads, think, accesses) = (program.threads, program.think.0, program.accesses);
        listing.push_str(&format!("{name} {threads} {think} {accesses} misses {misses:.4?}\n"));
        let noise = Noise { counts: 0.0, curve: 0.0 };
        let host = SwapHost::new(POOL, vec![tenant(program)], noise, Told::Nothing, 1);
        // Memory and bandwidth in percent of the pool.
        for (memory, bandwidth) in [(10, 10), (20, 10), (10, 20), (100, 100)] {
            let share = Joint {
                bytes: Bytes(POOL.bytes.0 * memory / 100),
                bandwidth: BytesPerSec(POOL.bandwidth.0 * bandwidth / 100),
            };
            let pace = host.truth(TenantId(1), share).expect("the tenant is there");
            let p99_us = pace.p99.as_secs_f64() * 1e6;
            listing.push_str(&format!("  {memory} {bandwidth}: {:.1} p99 {p99_us:.0} us\n", pace.operations));
        }
    }
    assert_eq!(listing, FROZEN, "constants changed:\n{listing}");
}

/// What the listing is.
const FROZEN: &str = "page=4096 step=1000000000 points=64 groups=2000
fault=0.000025
link_faster=1.25
fluctuation=0.15
dirty=0.5
eviction_part=0.5
noise_seconds=30
p99=2.326
samples=40000
floor.memory=0.45
floor.bandwidth=0.75
pool=10737418240 937500000 stream=30064771072
stream 24 20000 1 misses [0.9643, 0.9286, 0.8571, 0.7143]
  10 10: 23735.9 p99 3400 us
  20 10: 24648.8 p99 3356 us
  10 20: 47471.8 p99 1676 us
  100 100: 355925.6 p99 228 us
memcached 3 20000 8 misses [0.2680, 0.1877, 0.0987, 0.0000]
  10 10: 10592.4 p99 541 us
  20 10: 14010.9 p99 352 us
  10 20: 13343.3 p99 360 us
  100 100: 18750.0 p99 160 us
social 3 40000 30 misses [0.4920, 0.3957, 0.2814, 0.1454]
  10 10: 1527.5 p99 2532 us
  20 10: 1810.9 p99 2047 us
  10 20: 1822.1 p99 1978 us
  100 100: 2330.2 p99 1453 us
dlrm 4 400000 50 misses [0.6464, 0.5647, 0.4641, 0.3402]
  10 10: 190.7 p99 21443 us
  20 10: 191.8 p99 21302 us
  10 20: 190.7 p99 21443 us
  100 100: 195.6 p99 20798 us
";
