//! What cleaning costs our server, with a full cache: its part of the CPU time, with its limit and without one.
//!
//! Shape:      per round, with and without the limit: start -> fill with more keys than fit -> per load, requests until
//!             the passes have settled, then between two readings of the server's own figures
//! Invariants: a round in which nothing was cleaned while measured, or a tenant was spared, fails the benchmark
//! Units:      parts of the CPU time of the whole server process

use crate::speed::KEYS_PER_MIB;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::keys::{self, TENANTS};
use harness::live::{Asked, Cleaning, Kind, Load, Peer};
use lab::workload::Zipf;
use std::io;
use units::{Bytes, Rng};

/// Which keys a load asks for or stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    /// Those of the fill by popularity: what is written over is dead where it lies.
    Popular,
    /// Those of the fill, each as often as any other.
    Uniform,
    /// Such as were never stored: each has to push another out.
    New,
}

/// One kind of load, and what cleaning may take of it.
struct Workload {
    name: &'static str,
    keys: Keys,
    gets_percent: u64,
    depth: usize,
    connections: usize,
    requests: u64,
    goal: f64,
}

const WRITES: Workload = Workload {
    name: "100% writes, 32 pipelined",
    keys: Keys::Popular,
    gets_percent: 0,
    depth: 32,
    connections: 4,
    requests: 4_000_000,
    goal: 0.12,
};
/// Pipelined, the server's own work is all there is; one by one, most of the time is the kernel's.
const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "5% writes, 32 pipelined",
        keys: Keys::Popular,
        gets_percent: 95,
        depth: 32,
        connections: 4,
        requests: 10_000_000,
        goal: 0.05,
    },
    Workload {
        name: "20% writes, 32 pipelined",
        keys: Keys::Popular,
        gets_percent: 80,
        depth: 32,
        connections: 4,
        requests: 8_000_000,
        goal: 0.05 + (0.12 - 0.05) * 0.15 / 0.95,
    },
    WRITES,
    Workload {
        name: "100% writes, one by one",
        keys: Keys::Popular,
        gets_percent: 0,
        depth: 1,
        connections: 16,
        requests: 400_000,
        goal: 0.12,
    },
    Workload { name: "100% writes of uniform keys, 32 pipelined", keys: Keys::Uniform, ..WRITES },
    Workload { name: "100% writes of new keys, 32 pipelined", keys: Keys::New, ..WRITES },
];
/// Look-ups after a load that only writes, one in so many of its requests.
const READ_BACK_PART: u64 = 10;
/// The limit of the server, and one that is never reached: passes are as thorough as they can be then.
const LIMITS: [(&str, &str); 2] = [("limit", "--cleaner-cpu 0.05"), ("no limit", "--cleaner-cpu 1")];
/// Connections and depth of the fill.
const FILL: (usize, usize) = (4, 64);
/// Parts of a load's requests that it is given at most to settle, and those after which nothing may have changed.
const SETTLE_MAX: u32 = 12;
const SETTLED: u32 = 3;

/// What one load did.
struct Measured {
    share: f64,
    marks: f64,
    moved_per_write: f64,
    waits: f64,
    hit_ratio: f64,
}

/// Measures all rounds; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let Some(program) = Kind::Cotenant.program(bench.server()) else { return Ok(()) };
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let zipf = Zipf::new(mebibytes.saturating_mul(KEYS_PER_MIB), bench.skew);
    let mut found: [Vec<Vec<Measured>>; 2] = Default::default();
    for round in 0..bench.rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for i in order {
            let (name, option) = LIMITS[i];
            bench.say(&format!("round {} of {}: cleaning, {name}", round + 1, bench.rounds));
            let failed = |source| BenchError::Peer { peer: name, source };
            let peer = Peer::start_with(Kind::Cotenant, &program, bench.memory, option).map_err(failed)?;
            let measured = measure(bench, &peer, &zipf, round).map_err(failed)?;
            prove(bench, name, round, &measured, &peer.figures().map_err(failed)?.tenant_evictions);
            found[i].push(measured);
        }
    }
    add_rows(bench, &found);
    Ok(())
}

/// Numbers of keys.
struct Numbers<'a> {
    zipf: &'a Zipf,
    rng: Rng,
    /// None above it was ever stored.
    next: u32,
}

impl Numbers<'_> {
    fn draw(&mut self, keys: Keys) -> u32 {
        match keys {
            Keys::Popular => keys::spread(self.zipf.draw(&mut self.rng), self.zipf.keys()),
            Keys::Uniform => u32::try_from(self.rng.below(self.zipf.keys().into())).unwrap_or(0),
            Keys::New => {
                self.next += 1;
                self.next
            }
        }
    }
}

/// Requests of a load, some of them look-ups; the hit ratio of those.
fn drive(
    load: &mut Load,
    numbers: &mut Numbers<'_>,
    w: &Workload,
    (gets_percent, requests): (u64, u64),
) -> io::Result<f64> {
    let mut left = requests;
    let outcome = load.run(w.depth, || {
        left = left.checked_sub(1)?;
        let number = numbers.draw(w.keys);
        Some(if numbers.rng.below(100) < gets_percent { Asked::Get(number) } else { Asked::Set(number) })
    })?;
    Ok(outcome.hits as f64 / outcome.gets.max(1) as f64)
}

fn measure(bench: &Bench, peer: &Peer, zipf: &Zipf, round: u64) -> io::Result<Vec<Measured>> {
    let mut numbers = Numbers { zipf, rng: Rng::new(bench.seed ^ round), next: zipf.keys() };
    let mut fill = 0..zipf.keys();
    peer.load(FILL.0)?.run(FILL.1, || fill.next().map(Asked::Set))?;
    let mut all = Vec::new();
    for workload in &WORKLOADS {
        bench.say(&format!("  {}", workload.name));
        let mut load = peer.load(workload.connections)?;
        let requests = workload.requests / bench.less;
        let percent = workload.gets_percent;
        settle(peer, || drive(&mut load, &mut numbers, workload, (percent, requests / 4)).map(drop))?;
        let (before, cpu) = (peer.cleaning()?, peer.cpu_secs()?);
        let mut hit_ratio = drive(&mut load, &mut numbers, workload, (percent, requests))?;
        let (after, cpu) = (peer.cleaning()?, peer.cpu_secs()? - cpu);
        if percent == 0 && workload.keys != Keys::New {
            hit_ratio = drive(&mut load, &mut numbers, workload, (100, requests / READ_BACK_PART))?;
        }
        let writes = requests as f64 * (100 - workload.gets_percent) as f64 / 100.0;
        let measured = Measured {
            share: (after.cpu_secs - before.cpu_secs) / cpu.max(f64::MIN_POSITIVE),
            marks: after.marks,
            moved_per_write: (after.moved_bytes - before.moved_bytes) / writes,
            waits: (after.writer_waits - before.writer_waits) / writes * 1e6,
            hit_ratio,
        };
        let Measured { share, marks, moved_per_write, .. } = measured;
        bench.say(&format!(
            "    {share:.3} of the CPU time, {marks} thousandths marked, {moved_per_write:.0} B moved per write"
        ));
        all.push(measured);
    }
    Ok(all)
}

/// Sends requests until passes have marked the same for some time.
fn settle(peer: &Peer, mut drive: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let marks = |c: &Cleaning| c.marks;
    let (mut last, mut same) = (0.0, 0);
    for _ in 0..SETTLE_MAX {
        drive()?;
        let now = marks(&peer.cleaning()?);
        same = if (now - last).abs() < 0.5 { same + 1 } else { 0 };
        last = now;
        if SETTLED <= same {
            break;
        }
    }
    Ok(())
}

fn prove(bench: &mut Bench, name: &str, round: u64, all: &[Measured], evictions: &[u64]) {
    for (measured, workload) in all.iter().zip(&WORKLOADS) {
        let what = format!(
            "{name}, round {}, {}: the cleaner moved {:.1} B per write",
            round + 1,
            workload.name,
            measured.moved_per_write
        );
        bench.premise(0.0 < measured.moved_per_write, &what);
    }
    let every = evictions.len() == TENANTS as usize && evictions.iter().all(|n| 0 < *n);
    bench.premise(every, &format!("{name}, round {}: evictions of each tenant {evictions:?}", round + 1));
}

fn add_rows(bench: &mut Bench, found: &[Vec<Vec<Measured>>; 2]) {
    for (w, workload) in WORKLOADS.iter().enumerate() {
        type Pick = fn(&Measured) -> f64;
        let measures: [(&str, &'static str, Pick, Goal); 5] = [
            ("CPU time of cleaning", "of all", |m| m.share, Goal::AtMost(workload.goal)),
            ("marked to go", "thousandths", |m| m.marks, Goal::None("-")),
            ("bytes moved per write", "B", |m| m.moved_per_write, Goal::None("-")),
            ("writers that had to clean or wait, per million writes", "", |m| m.waits, Goal::None("-")),
            ("hit ratio", "of gets", |m| m.hit_ratio, Goal::None("-")),
        ];
        for (measure, unit, pick, goal) in measures {
            // A number that is drawn anew was never stored.
            if measure == "hit ratio" && workload.keys == Keys::New {
                continue;
            }
            let all = |i: usize| found[i].iter().map(|round| pick(&round[w])).collect::<Vec<f64>>();
            bench.add(Row {
                measure: format!("{measure}, {}", workload.name),
                unit,
                ours: all(0),
                peer: Some((LIMITS[1].0, all(1))),
                goal,
            });
        }
    }
}
