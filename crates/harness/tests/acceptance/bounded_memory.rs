//! The memory is bounded at every moment, whatever the sizes of items.

use crate::rig::Rig;
use lab::{Op, Request};
use units::{Bytes, Instant, Rng, TenantId};

/// A stretch of requests of one kind.
struct Stretch {
    requests: u64,
    keys: u64,
    /// Values have less than two to the power of this many bytes, every power alike.
    log2_max: u64,
}

/// Tiny items fill the index, large ones the log, then both again, with a set for every fifth request.
const STRETCHES: [Stretch; 5] = [
    Stretch { requests: 600_000, keys: 1 << 40, log2_max: 0 },
    Stretch { requests: 2_000, keys: 1 << 40, log2_max: 20 },
    Stretch { requests: 300_000, keys: 1 << 40, log2_max: 4 },
    Stretch { requests: 30_000, keys: 4_000, log2_max: 14 },
    Stretch { requests: 5_000, keys: 300, log2_max: 20 },
];

fn check(memory: Bytes, policy: &str) {
    let tenants: Vec<_> = (0..4_u64).map(|i| (format!("t{i}"), Bytes(memory.0 / 32 * i))).collect();
    let mut rig = Rig::new(memory, policy, &tenants);
    let mut rng = Rng::new(memory.0);
    let (mut peak, mut index_peak, mut looks) = (Bytes::ZERO, Bytes::ZERO, 0);
    for stretch in STRETCHES {
        for i in 0..stretch.requests {
            let tenant = TenantId(u32::try_from(rng.below(4)).unwrap());
            let key = format!("{}{:x}", tenant.0, rng.below(stretch.keys));
            let log2 = if stretch.log2_max == 0 { 0 } else { 1 + rng.below(stretch.log2_max) };
            let value = rng.below(1 << log2);
            let op = if i % 5 == 0 { Op::Set } else { Op::Get };
            let value_bytes = u32::try_from(value).unwrap().min(1_000_000);
            let at = Instant(i * 20_000);
            let request = Request { at, tenant: b"", key: key.as_bytes(), value_bytes, op, ttl_secs: 0 };
            rig.run(tenant, &request);
            let used = rig.store.memory_use();
            let all = used.segments + used.values + used.index + used.shadow + used.ghosts;
            assert!(all <= memory, "{all} of {memory}: {used:?}, request {i} of {value} bytes");
            (peak, index_peak, looks) = (peak.max(all), index_peak.max(used.index), looks + 1);
        }
    }
    let evicted: u64 = (0..4).map(|i| rig.store.totals(TenantId(i)).evictions).sum();
    println!("{memory} {policy}: peak {peak}, index up to {index_peak}, {evicted} evicted, {looks} looks");
    assert!(0 < evicted && memory.scale(9, 10) < peak, "the memory was never full");
    assert!(memory.scale(1, 10) < index_peak, "tiny items make a large index");
}

#[test]
fn a_memory_of_8_mib_is_bounded() {
    check(Bytes::mib(8), "shared");
    check(Bytes::mib(8), "partitioned");
}

#[test]
fn a_memory_of_32_mib_is_bounded() {
    check(Bytes::mib(32), "shared");
}
