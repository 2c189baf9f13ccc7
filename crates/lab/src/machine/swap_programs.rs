//! The applications of Spirit as programs for the modelled swap host.
//!
//! Source:     Spirit Table 1 (footprints), Fig 1 (how much each depends on memory and bandwidth), §6 (pool). Think times,
//!             threads and exponents are ours: STREAM keeps its bandwidth saturated, DLRM computes (less than 3 % from
//!             everything, Fig 1d), Memcached and SocialNetwork depend on memory. Threads and think times of these two, and
//!             the floor of bandwidth, were set with results of policies in sight, so that agreement here is weak evidence.
//! Invariants: constants and programs are frozen by a test, written after policies had run: it shows a change from now on
//! Non-goals:  predicting what the applications do elsewhere

use super::swap::{Program, SwapTenant};
use control::joint::Joint;
use control::{Claim, Curve};
use units::{Bytes, BytesPerSec, Duration, Instant};

/// Points of a program's curve.
const POINTS: u64 = 128;
/// Fig 1a: STREAM runs as fast with all memory and three quarters of the bandwidth as with two fifths and all. Of 10 GiB
/// that makes its misses fall by a 28th per GiB.
pub(super) const STREAM_ALL_HITS: Bytes = Bytes(28 << 30);

/// The pool of §6: 10 GiB of memory, 7.5 Gbps.
pub const POOL: Joint = Joint { bytes: Bytes(10 << 30), bandwidth: BytesPerSec(937_500_000) };

/// Part of its static share that nobody is taken below. Memory: released configuration (768 of 1,706 MB). Bandwidth: fitted,
/// so that the best division on this host speeds STREAM up by a fifth as in Fig 6; the released configuration has .825.
pub const FLOOR_PART: (f64, f64) = (0.45, 0.75);

/// STREAM: goes through its arrays again and again, with so much in flight (four processors, each fetching ahead) that it
/// uses all of the bandwidth that Fig 1a sweeps.
#[must_use]
pub fn stream() -> Program {
    program(24, 20, 1.0, power_curve(STREAM_ALL_HITS, 1.0))
}

/// Memcached with Meta's key-value trace, 8 GiB.
#[must_use]
pub fn memcached() -> Program {
    program(3, 20, 8.0, power_curve(Bytes(8 << 30), 0.15))
}

/// SocialNetwork, 15 GiB.
#[must_use]
pub fn social() -> Program {
    program(3, 40, 30.0, power_curve(Bytes(15 << 30), 0.25))
}

/// DLRM, 32 GiB: computes.
#[must_use]
pub fn dlrm() -> Program {
    program(4, 400, 50.0, power_curve(Bytes(32 << 30), 0.3))
}

/// Three times STREAM and one of each other: what one server of Fig 6 hosts.
#[must_use]
pub fn server() -> Vec<SwapTenant> {
    [stream(), stream(), stream(), memcached(), dlrm(), social()].into_iter().map(tenant).collect()
}

/// A tenant that runs `program` from the beginning.
#[must_use]
pub fn tenant(program: Program) -> SwapTenant {
    SwapTenant { claim: Claim::default(), phases: vec![(Instant::ZERO, program)] }
}

fn program(threads: u32, think_us: u64, accesses: f64, curve: Curve) -> Program {
    Program { threads, think: Duration::from_micros(think_us), curve, accesses }
}

/// Hits rise as a power of memory up to `all`, where everything hits.
fn power_curve(all: Bytes, exponent: f64) -> Curve {
    let point = |i: u64| (all.scale(i, POINTS), 1.0 - (i as f64 / POINTS as f64).powf(exponent));
    let points: Vec<(Bytes, f64)> = (0..=POINTS).map(point).collect();
    Curve::new(points).expect("powers rise")
}
