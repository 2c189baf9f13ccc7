//! The running model against the published points that its constants were calibrated on, in virtual time: threads are events
//! in a queue, so that these checks hold to the digit whatever else the machine does.
//!
//! Known misses are those of the laboratory's solution: writes by four threads (−23 %), writes beside reads of DRAM, and a
//! lone thread's stores on two modules (−30 %).

use super::stations::Stations;
use crate::Access::{self, DramRead as DR, DramWrite as DW, SlowRead as NR, SlowWrite as NW};
use crate::model::{MemorySystem, Modules};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Duration, Instant};

/// Who accesses.
#[derive(Clone, Copy)]
enum Load {
    /// So many threads, one access after the other.
    Closed(u32),
    /// GB/s by a client that waits for nothing.
    Paced(f64),
}

/// Time to become steady, and that is measured, in ns.
const WARM: u64 = 6_000_000;
const MEASURED: u64 = 2_000_000;

/// GB/s of each client, and the mean latency of each in ns.
fn run(system: MemorySystem, clients: &[(Access, u64, Load)]) -> Vec<(f64, f64)> {
    let stations = Stations::new(system);
    let mut events = BinaryHeap::new();
    for (client, (_, _, load)) in clients.iter().enumerate() {
        let threads = if let Load::Closed(threads) = load { *threads } else { 1 };
        // Threads start at different times; picoseconds keep short accesses apart.
        events.extend((0..threads).map(|thread| Reverse((u64::from(thread) * 7_001, thread, client))));
    }
    let mut done = vec![(0_u64, 0.0, 0_u64); clients.len()];
    while let Some(Reverse((ps, thread, client))) = events.pop() {
        let now = Instant(ps / 1000);
        if WARM + MEASURED <= now.0 {
            break;
        }
        let (access, size, load) = clients[client];
        let timing = stations.access(now, access, Bytes(size));
        if WARM <= now.0 {
            let (bytes, latency, accesses) = &mut done[client];
            *bytes += size;
            *latency += timing.latency_ns;
            *accesses += 1;
        }
        let ns = match load {
            Load::Closed(_) => timing.held_ns,
            Load::Paced(gbps) => size as f64 / gbps,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
        let next = ps + (ns * 1e3) as u64;
        events.push(Reverse((next, thread, client)));
    }
    done.into_iter()
        .map(|(bytes, latency, accesses)| (bytes as f64 / MEASURED as f64, latency / accesses.max(1) as f64))
        .collect()
}

fn gbps(system: MemorySystem, clients: &[(Access, u64, Load)]) -> Vec<f64> {
    run(system, clients).into_iter().map(|(gbps, _)| gbps).collect()
}

fn one(system: MemorySystem, access: Access, threads: u32) -> f64 {
    gbps(system, &[(access, 256, Load::Closed(threads))])[0]
}

fn near(name: &str, ours: f64, published: f64, tolerance: f64) {
    println!("{name}: published {published}, ours {ours:.3}, {:+.1} %", 100.0 * (ours / published - 1.0));
    assert!((ours / published - 1.0).abs() <= tolerance, "{name}: published {published}, ours {ours}");
}

const SIX: MemorySystem = MemorySystem::optane_study(Modules::Six);
const ONE: MemorySystem = MemorySystem::optane_study(Modules::One);
const MT2: MemorySystem = MemorySystem::mt2();
const NYX: MemorySystem = MemorySystem::nyx();

#[test]
fn p1_alone() {
    near("NR alone", one(MT2, NR, 14), 35.5, 0.10);
    near("NW alone", one(MT2, NW, 6), 10.3, 0.10);
    near("DR alone", one(MT2, DR, 14), 102.0, 0.10);
    let (gbps, latency) = run(NYX, &[(NR, 256, Load::Closed(1))])[0];
    near("load of 256 B alone, GB/s", gbps, 1.59, 0.05);
    near("load of 256 B alone, ns", latency, 490.0, 0.05);
}

#[test]
fn p2_scaling_by_threads_with_the_miss_at_four_writers() {
    let reads = [(1, 2.88), (2, 5.75), (4, 11.63), (8, 21.13), (14, 32.13), (24, 37.56)];
    let writes = [(1, 4.13), (2, 8.19), (8, 12.0), (16, 10.0), (24, 7.5)];
    let single = [(2, 2.21), (4, 2.20), (8, 1.53), (12, 1.12), (24, 0.80)];
    let dram = [(1, 7.38), (4, 29.31), (8, 65.38), (14, 99.88), (24, 104.6)];
    let all = [(SIX, NR, &reads[..]), (SIX, NW, &writes), (ONE, NW, &single), (SIX, DR, &dram)];
    for (system, access, points) in all {
        for (threads, published) in points {
            near(&format!("{access:?} by {threads}"), one(system, access, *threads), *published, 0.20);
        }
    }
    near("NW by 4, against the solution", one(SIX, NW, 4), 9.667, 0.03);
}

#[test]
fn p3_and_p4_pairs_of_kinds() {
    let both = |a, b| gbps(MT2, &[a, b]);
    let (read, write, dram) = (one(MT2, NR, 14), one(MT2, NW, 6), one(MT2, DR, 14));
    let readers = (NR, 256, Load::Closed(14));
    let frontier = both(readers, (NW, 256, Load::Closed(6)));
    near("NR beside NW", frontier[0], 12.5, 0.10);
    near("NW beside NR", frontier[1], 7.2, 0.10);
    near("NR beside NW at 5", both(readers, (NW, 256, Load::Paced(5.0)))[0], 20.0, 0.15);
    near("NR kept beside NW", frontier[0] / read, 0.36, 0.10);
    for (name, other, published, tolerance) in
        [("DR", DR, 0.70, 0.10), ("DW", DW, 0.44, 0.15), ("NR", NR, 0.50, 0.10)]
    {
        let kept = both(readers, (other, 256, Load::Closed(14)))[0] / read;
        near(&format!("NR kept beside {name}"), kept, published, tolerance);
    }
    let mixed = both((DR, 64, Load::Closed(14)), (NW, 256, Load::Closed(6)));
    near("DR kept beside NW", mixed[0] / dram, 0.60, 0.33);
    near("NW kept beside DR, against the solution", mixed[1] / write, 0.974, 0.03);
}

#[test]
fn p5_loads_and_stores_of_table_2() {
    for (size, published) in [(256, 1.59), (4096, 4.08)] {
        let ours = gbps(NYX, &[(NR, size, Load::Closed(1))])[0];
        near(&format!("loads of {size} B"), ours, published, 0.06);
    }
    // A known miss of the model: one thread's stores wait for batches of their own (published 3.73 and 3.44 GB/s).
    for size in [256, 4096] {
        let ours = gbps(NYX, &[(NW, size, Load::Closed(1))])[0];
        near(&format!("stores of {size} B, against the solution"), ours, 2.62, 0.01);
    }
    let most = gbps(NYX, &[(NR, 4096, Load::Closed(16))])[0];
    near("loads of 4 KB per second", most * 1e9 / 4096.0, 3.0e6, 0.10);
}

fn kept_beside(other: Access, size: u64, rate: f64) -> f64 {
    let victim = (NR, 256, Load::Closed(1));
    gbps(NYX, &[victim, (other, size, Load::Paced(rate))])[0] / gbps(NYX, &[victim])[0]
}

#[test]
fn p6_1_gb_of_writes_hurts_like_8_gb_of_reads() {
    let (reads, writes) = (kept_beside(NR, 256, 8.0), kept_beside(NW, 256, 1.0));
    near("beside 8 GB/s of reads, against 1 GB/s of writes", reads, writes, 0.03);
    assert!(reads < 0.95, "both hurt: {reads}");
}

#[test]
fn p7_writes_of_64_bytes_are_worst_and_sizes_have_a_sawtooth() {
    let kept = [64, 128, 192, 256, 320, 512].map(|size| kept_beside(NW, size, 1.0));
    println!("kept beside 1 GB/s of writes: {kept:.3?}");
    assert!(kept.iter().all(|other| kept[0] <= *other), "64 B is the worst neighbour: {kept:?}");
    assert!(kept[4] < kept[3] && kept[4] < kept[5], "320 B is a local minimum: {kept:?}");
}

#[test]
fn an_idle_while_forgets_the_past() {
    let stations = Stations::new(MT2);
    let alone = stations.access(Instant::ZERO, NR, Bytes(256)).held_ns;
    let mut now = Instant::ZERO;
    for _ in 0..100_000 {
        now += Duration(10);
        for _ in 0..4 {
            stations.access(now, NW, Bytes(256));
        }
    }
    let beside = stations.access(now, NR, Bytes(256)).held_ns;
    assert!(alone * 1.5 < beside, "{beside} beside 100 GB/s of writes, {alone} alone");
    now += Duration::from_secs(1);
    stations.access(now, NR, Bytes(256));
    let again = stations.access(now, NR, Bytes(256)).held_ns;
    assert!((again / alone - 1.0).abs() < 0.01, "{again} after a second, {alone} alone");
}
