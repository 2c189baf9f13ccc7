//! What a request costs and how long it takes, ours beside the peers', at equal memory, with full caches.
//!
//! Shape:      every server gets its settings (`equal`); per round and server: start -> fill with more keys than fit -> each
//!             workload in a closed loop (CPU time, throughput), then at a given rate in an open one (latency); servers
//!             alternate, and their order turns with the round
//! Invariants: every value is verified; a round in which a server evicted nothing, or ours moved nothing or spared a
//!             tenant from the fill on, fails the benchmark
//! Units:      microseconds: of user and system time of the whole process, and of the clock from the moment a request was
//!             due

use crate::equal::{Contestant, contestants, failed};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::keys::TENANTS;
use harness::live::{Figures, Heard, Items, Kind, Pace, Peer, Plan, Popularity, Sizes};
use lab::workload::Zipf;
use std::io;
use std::sync::Arc;
use units::Bytes;

/// One kind of load.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) gets_percent: u64,
    pub(crate) depth: u32,
    pub(crate) connections: u32,
    pub(crate) requests: u64,
    /// Most that ours may take of memcached's CPU time.
    cpu_goal: f64,
    /// Least that ours must do of memcached's throughput.
    throughput_goal: Option<f64>,
}

/// Requests: about two seconds of memcached's CPU time pipelined, one otherwise, against ticks of 10 ms.
pub(crate) const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "95% gets, 32 pipelined",
        gets_percent: 95,
        depth: 32,
        connections: 4,
        requests: 1_600_000,
        cpu_goal: 0.55,
        throughput_goal: Some(1.5),
    },
    Workload {
        name: "100% sets, 32 pipelined",
        gets_percent: 0,
        depth: 32,
        connections: 4,
        requests: 1_200_000,
        cpu_goal: 0.55,
        throughput_goal: Some(1.5),
    },
    Workload {
        name: "95% gets, one by one",
        gets_percent: 95,
        depth: 1,
        connections: 16,
        requests: 120_000,
        cpu_goal: 0.95,
        throughput_goal: None,
    },
    Workload {
        name: "100% sets, one by one",
        gets_percent: 0,
        depth: 1,
        connections: 16,
        requests: 120_000,
        cpu_goal: 0.95,
        throughput_goal: None,
    },
];
/// Keys per MiB of memory: ours holds about 14,500 items of this size per MiB, the others fewer.
pub(crate) const KEYS_PER_MIB: u32 = 20_000;
/// Requests between the fill and the first reading, so that popular keys are in.
const WARM_UP: u64 = 500_000;
/// The number of the round whose keys the warm-up draws: none that is measured.
const WARM_UP_ROUND: u64 = 10_000;
/// Part of memcached's throughput in a closed loop at which latencies are measured. High enough that requests meet,
/// low enough that the client, the server and what else runs here have time.
const LOAD: f64 = 0.4;
/// Seconds of an open loop.
const OPEN_SECS: f64 = 2.0;
/// Length of a value.
pub(crate) const VALUE: u32 = 25;

impl Workload {
    fn plan(&self, bench: &Bench, items: &Items, round: u64) -> Plan {
        Plan {
            connections: self.connections,
            threads: 1,
            depth: self.depth,
            pace: Pace::Closed,
            gets_percent: self.gets_percent,
            look_aside: false,
            popularity: Popularity::Zipf(bench.zipf(items.count() / self.connections)),
            requests: self.requests / bench.less,
            seed: bench.seed
                ^ units::mix64(round << 8 | u64::from(self.depth) << 1 | u64::from(self.gets_percent == 0)),
        }
    }

    /// As fast as answers come.
    pub(crate) fn closed(&self, bench: &Bench, items: &Items, round: u64) -> Plan {
        self.plan(bench, items, round)
    }

    /// So many requests per second.
    fn open(&self, bench: &Bench, items: &Items, round: u64, per_sec: f64) -> Plan {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive")]
        let requests = (per_sec * OPEN_SECS) as u64 / bench.less;
        let pace = Pace::Open(per_sec / f64::from(self.depth));
        Plan { pace, requests, ..self.plan(bench, items, round + 1_000) }
    }
}

impl Bench {
    /// Popularity of so many keys. Made once for each number.
    pub(crate) fn zipf(&self, keys: u32) -> Arc<Zipf> {
        let mut made = self.zipfs.borrow_mut();
        Arc::clone(made.entry(keys).or_insert_with(|| Arc::new(Zipf::new(keys, self.skew))))
    }
}

/// What one workload did to one server in one round.
struct Measured {
    micros: f64,
    closed: Heard,
    open: Heard,
    evictions: u64,
}

/// What one server did in one round.
struct Round {
    workloads: Vec<Measured>,
    resident: Bytes,
    before: Figures,
    after: Figures,
}

/// Measures all rounds; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let keys = mebibytes.saturating_mul(KEYS_PER_MIB);
    let all = contestants(bench, keys, &WORKLOADS[0])?;
    let rates = rates(bench, &all, keys)?;
    let mut found: Vec<Vec<Round>> = all.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.rounds {
        let order: Vec<usize> =
            if round % 2 == 0 { (0..all.len()).collect() } else { (0..all.len()).rev().collect() };
        for i in order {
            let kind = all[i].kind;
            bench.say(&format!("round {} of {}: {}", round + 1, bench.rounds, kind.name()));
            let peer = all[i].start()?;
            let measured = measure(bench, &peer, keys, &rates, round).map_err(|e| failed(kind, e))?;
            prove(bench, kind, round, &measured);
            found[i].push(measured);
        }
    }
    let kinds: Vec<Kind> = all.iter().map(|one| one.kind).collect();
    add_rows(bench, &kinds, &found, &rates);
    Ok(())
}

/// Every key once, then popular ones.
pub(crate) fn fill(bench: &Bench, peer: &Peer, items: &Arc<Items>) -> io::Result<u64> {
    let filled = bench.load(peer, &Plan::fill(items.count()), items)?;
    let sets = &WORKLOADS[1];
    let warm = Plan { requests: WARM_UP / bench.less, ..sets.plan(bench, items, WARM_UP_ROUND) };
    Ok(filled.refused + bench.load(peer, &warm, items)?.refused)
}

/// The rate of each workload: a part of what memcached does.
fn rates(bench: &Bench, all: &[Contestant], keys: u32) -> Result<Vec<f64>, BenchError> {
    let Some(memcached) = all.iter().find(|one| one.kind == Kind::Memcached) else { return Ok(Vec::new()) };
    let peer = memcached.start()?;
    let items = Arc::new(Items::new(keys, Sizes::Fixed(VALUE)));
    let rates = || -> io::Result<Vec<f64>> {
        fill(bench, &peer, &items)?;
        let each = WORKLOADS.iter().map(|workload| {
            let plan = Plan { requests: workload.requests / 2, ..workload.plan(bench, &items, 99) };
            Ok(bench.load(&peer, &plan, &items)?.throughput() * LOAD)
        });
        each.collect()
    };
    rates().map_err(|e| failed(Kind::Memcached, e))
}

fn measure(bench: &Bench, peer: &Peer, keys: u32, rates: &[f64], round: u64) -> io::Result<Round> {
    let items = Arc::new(Items::new(keys, Sizes::Fixed(VALUE)));
    let mut refused = fill(bench, peer, &items)?;
    let before = peer.figures()?;
    let mut after = before.clone();
    let mut workloads = Vec::new();
    for (workload, rate) in WORKLOADS.iter().zip(rates) {
        let started = peer.cpu_secs()?;
        let closed = bench.load(peer, &workload.closed(bench, &items, round), &items)?;
        let micros = (peer.cpu_secs()? - started) * 1e6 / closed.requests.max(1) as f64;
        let open = bench.load(peer, &workload.open(bench, &items, round, *rate), &items)?;
        let now = peer.figures()?;
        refused += closed.refused + open.refused;
        bench.say(&format!(
            "  {}: {micros:.2} us of CPU, {:.0} per second, hit ratio {:.4}; at {rate:.0} per second p50 {:.0}, p99 {:.0}, \
             p99.9 {:.0} us; the client was late by {:.0} us (p99)",
            workload.name,
            closed.throughput(),
            closed.hit_ratio(),
            open.latency.quantile_us(0.5),
            open.latency.quantile_us(0.99),
            open.latency.quantile_us(0.999),
            open.lag.quantile_us(0.99),
        ));
        workloads.push(Measured { micros, closed, open, evictions: now.evictions - after.evictions });
        after = now;
    }
    if 0 < refused {
        bench.say(&format!("  {refused} sets were refused, out of memory"));
    }
    Ok(Round { workloads, resident: peer.resident()?, before, after })
}

/// The premises: full caches that evict, a cleaner that moves, no tenant spared.
fn prove(bench: &mut Bench, kind: Kind, round: u64, m: &Round) {
    let of = format!("{}, round {}", kind.name(), round + 1);
    let by_workload = m.workloads.iter().map(|w| w.evictions.to_string()).collect::<Vec<_>>().join(", ");
    let evicted = m.after.evictions - m.before.evictions;
    bench.premise(0 < evicted, &format!("{of}: {evicted} evictions while measured ({by_workload})"));
    let verified: u64 = m.workloads.iter().map(|w| w.closed.hits + w.open.hits).sum();
    bench.premise(0 < verified, &format!("{of}: {verified} values verified while measured"));
    if kind == Kind::Cotenant {
        let moved = m.after.moved_bytes - m.before.moved_bytes;
        bench.premise(0 < moved, &format!("{of}: the cleaner moved {} while measured", Bytes(moved)));
        // A tenant that the policy lets grow evicts nothing while it does, so the fill counts here.
        let each = &m.after.tenant_evictions;
        let every = each.len() == TENANTS as usize && each.iter().all(|n| 0 < *n);
        bench.premise(every, &format!("{of}: evictions of each tenant since the start {each:?}"));
    }
}

/// A number of a workload, and what it is compared by.
type Measure<'a> = (String, &'static str, Goal, Box<dyn Fn(&Round) -> f64 + 'a>);

/// The measures of one workload against one peer.
fn measures(w: usize, workload: &Workload, kind: Kind, rate: f64) -> Vec<Measure<'static>> {
    let is_reference = kind == Kind::Memcached;
    let judged = |goal: Option<Goal>| goal.filter(|_| is_reference).unwrap_or(Goal::None("-"));
    let cpu = match kind {
        Kind::Redis if 1 < workload.depth => Goal::RatioAtMost(1.0),
        _ => judged(Some(Goal::RatioAtMost(workload.cpu_goal))),
    };
    let name = workload.name;
    let late = move |part: f64| move |round: &Round| round.workloads[w].open.latency.quantile_us(part);
    let at = format!("{name}, {:.0} thousand per second", rate / 1e3);
    let client = move |round: &Round| of_client(&round.workloads[w].closed);
    let mut all: Vec<Measure<'static>> = vec![
        (
            format!("server CPU per request, {name}"),
            "us",
            cpu,
            Box::new(move |round| round.workloads[w].micros),
        ),
        (
            format!("throughput, {name}"),
            "1000/s",
            judged(workload.throughput_goal.map(Goal::RatioAtLeast)),
            Box::new(move |round| round.workloads[w].closed.throughput() / 1e3),
        ),
        (format!("p50, {at}"), "us", Goal::None("-"), Box::new(late(0.5))),
        (format!("p99, {at}"), "us", judged(Some(Goal::RatioAtMost(1.0))), Box::new(late(0.99))),
        (format!("p99.9, {at}"), "us", Goal::None("-"), Box::new(late(0.999))),
        (format!("client CPU per request, {name}"), "us", Goal::None("-"), Box::new(client)),
    ];
    if 0 < workload.gets_percent && 1 < workload.depth {
        let hits = move |round: &Round| round.workloads[w].closed.hit_ratio();
        all.push((format!("hit ratio, {name}"), "of gets", Goal::None("-"), Box::new(hits)));
    }
    all
}

fn of_client(heard: &Heard) -> f64 {
    heard.client_cpu_secs * 1e6 / heard.requests.max(1) as f64
}

fn add_rows(bench: &mut Bench, kinds: &[Kind], found: &[Vec<Round>], rates: &[f64]) {
    let Some(ours) = kinds.iter().position(|kind| *kind == Kind::Cotenant) else { return };
    let peers: Vec<(usize, Kind)> = kinds.iter().copied().enumerate().filter(|(i, _)| *i != ours).collect();
    let per_item: Measure<'static> = (
        "resident memory per item, cache full".to_owned(),
        "B",
        Goal::None("-"),
        Box::new(|round| round.resident.0 as f64 / round.after.items.max(1) as f64),
    );
    let mut rows = Vec::new();
    for (i, kind) in &peers {
        let of_workloads = WORKLOADS
            .iter()
            .zip(rates)
            .enumerate()
            .flat_map(|(w, (workload, rate))| measures(w, workload, *kind, *rate));
        for (measure, unit, goal, pick) in of_workloads {
            let all = |i: usize| found[i].iter().map(&pick).collect::<Vec<f64>>();
            rows.push(Row { measure, unit, ours: all(ours), peer: Some((kind.name(), all(*i))), goal });
        }
        let all = |i: usize| found[i].iter().map(&per_item.3).collect::<Vec<f64>>();
        let peer = Some((kind.name(), all(*i)));
        rows.push(Row {
            measure: per_item.0.clone(),
            unit: per_item.1,
            ours: all(ours),
            peer,
            goal: per_item.2,
        });
    }
    rows.into_iter().for_each(|row| bench.add(row));
}
