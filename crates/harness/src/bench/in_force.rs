//! Bandwidth live: how soon a limit is in force, what estimating slowdown costs, and what the loop takes of a core in a server.
//!
//! Shape:      a server in this process on an emulated tier, clients on loopback; its own meter, brakes and threads are what is read
//! Invariants: what is in force is asked of the brake, not of the decision
//! Units:      seconds; parts of a limit; CPU time of the loop's thread ÷ time passed, in per cent of a core
//! Source:     NyxCache §3.4 (slowdown by pauses of 1 ms); MT² §6 takes a second to act

use crate::table::{Goal, Row, median};
use crate::{Bench, BenchError};
use harness::live::{Here, Tenant, Work, nanos};
use server::memcache::client::Client;
use server::{BandwidthKind, Config, TenantConfig};
use std::io;
use units::Rng;

/// The tier of all that is measured here.
const TIER: &str = "emulated:2dimm:256MiB";
/// A limit and the tighter one that takes its place, in per cent of the tier's time, so low that one client on a busy core passes both.
const LIMITS: [f64; 2] = [0.02, 0.01];
/// How often one is tightened in a round, and how long the first one holds: into the middle of an epoch.
const CHANGES: usize = 5;
const BEFORE_S: f64 = 2.3;
/// The goals: seconds until it is in force, and what may be used of it.
const IN_FORCE_S: f64 = 0.2;
const USED_MOST: f64 = 1.05;
/// A limit that is not in force after so long will not be.
const WAIT_S: f64 = 5.0;
/// Time with and without estimation, and how much of the throughput must be left.
const ESTIMATED_S: f64 = 5.0;
const LEFT: f64 = 0.98;
/// Tenants, and the goal in per cent of a core.
const SIZES: [(u32, f64); 2] = [(100, 0.5), (1_000, 3.0)];
/// Policies that decide nothing by what they see, or are only compared with: their loops are not measured.
const LEFT_OUT: [&str; 6] = ["none", "bandwidth-limit", "throttle-biggest", "qos-biggest", "static", "ideal"];
/// Time that the loop is watched, and look-ups of one of many tenants between two pauses of 10 ms.
const WATCHED_S: f64 = 5.0;
const AT_ONCE: u32 = 25;

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let failed = |source| BenchError::Peer { peer: "cotenant", source };
    bench.say("sharing: a limit in force");
    let (mut soon, mut used) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let (one_soon, one_used) = limits().map_err(failed)?;
        soon.push(one_soon);
        used.push(one_used);
    }
    let row =
        |measure: &str, unit, ours, goal| Row { measure: measure.to_owned(), unit, ours, peer: None, goal };
    bench.add(row("a tighter limit is in force, the latest of five", "s", soon, Goal::AtMost(IN_FORCE_S)));
    bench.add(row(
        "used in the second after that, the most of five",
        "of the limit",
        used,
        Goal::AtMost(USED_MOST),
    ));
    bench.say("sharing: estimating slowdown");
    let mut rates = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let (with, without) = estimation().map_err(failed)?;
        rates.0.push(with);
        rates.1.push(without);
    }
    bench.add(Row {
        measure: "throughput while slowdown is estimated".to_owned(),
        unit: "requests/s",
        ours: rates.0,
        peer: Some(("none", rates.1)),
        goal: Goal::RatioAtLeast(LEFT),
    });
    for (tenants, goal) in SIZES {
        for policy in BandwidthKind::names().into_iter().filter(|name| !LEFT_OUT.contains(name)) {
            let mut ours = Vec::new();
            for _ in 0..bench.rounds {
                ours.push(looped(policy, tenants, bench.seed).map_err(failed)?);
            }
            let measure = format!("the loop in a server, {policy}, {tenants} tenants");
            bench.add(Row { measure, unit: "% of a core", ours, peer: None, goal: Goal::AtMost(goal) });
        }
    }
    Ok(())
}

/// A tenant that asks as fast as it is answered.
fn gets(tenant: &'static str) -> Work {
    Work::gets(tenant, 1_024, 300, 16)
}

/// The longest time until a limit is in force, and the most that was used of one in the second after.
fn limits() -> io::Result<(f64, f64)> {
    let claim = |limit: f64| format!("limit {limit}%");
    let [first, tighter] = LIMITS;
    let here = Here::start(TIER, "limit", &[Tenant::new("l", &claim(first))], 1)?;
    let work = gets("l");
    here.fill(&work)?;
    let client = here.work(work);
    let (mut latest, mut most) = (0.0_f64, 0.0_f64);
    for _ in 0..CHANGES {
        here.claim("l", &claim(first))?;
        here.pass(BEFORE_S);
        let began = nanos();
        here.claim("l", &claim(tighter))?;
        latest = latest.max(wait_for(&here, tighter / 100.0, began)?);
        let before = here.cost_ps("l");
        let began = nanos();
        here.pass(1.0);
        let passed = (nanos() - began) as f64 / 1e9;
        let used = (here.cost_ps("l") - before) as f64 / 1e12 / passed;
        most = most.max(used * 100.0 / tighter);
    }
    client.end()?;
    here.end();
    Ok((latest, most))
}

/// Seconds since `began` when the tenant's brake grants no more than this part of the tier's time.
fn wait_for(here: &Here, part: f64, began: u64) -> io::Result<f64> {
    let passed = || (nanos() - began) as f64 / 1e9;
    while passed() < WAIT_S {
        if here.budget("l").is_some_and(|granted| granted <= part * 1.001) {
            return Ok(passed());
        }
        here.pass(0.001);
    }
    Err(io::Error::other("a limit did not come into force"))
}

/// Requests per second of two tenants alike whose slowdown is estimated, and of the same without. They may be slowed down so much that
/// nobody is ever held back for it.
fn estimation() -> io::Result<(f64, f64)> {
    let tenants = ["a", "b"].map(|name| Tenant::new(name, "slowdown 100"));
    let here = Here::start(TIER, "none", &tenants, 1)?;
    let clients = ["a", "b"].map(gets);
    clients.iter().try_for_each(|work| here.fill(work))?;
    let clients = clients.map(|work| here.work(work));
    let rate = |policy| -> io::Result<f64> {
        here.switch(policy)?;
        here.pass(1.0);
        let answered = || clients.iter().map(harness::live::Working::answered).sum::<u64>();
        let (before, began) = (answered(), nanos());
        here.pass(ESTIMATED_S);
        Ok((answered() - before) as f64 * 1e9 / (nanos() - began) as f64)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        without.push(rate("none")?);
        with.push(rate("fair-slowdown")?);
    }
    for client in clients {
        client.end()?;
    }
    here.end();
    Ok((median(&with), median(&without)))
}

/// What the loop's thread takes of a core in a server with so many tenants, of which some come to the tier all the time.
fn looped(policy: &str, tenants: u32, seed: u64) -> io::Result<f64> {
    let name = |number: u32| format!("t{number}");
    let many = |config: &mut Config| {
        config.max_tenants = tenants as usize + 1;
        config.tenants = (0..tenants)
            .map(|number| TenantConfig {
                name: name(number),
                prefix: Some(format!("{}:", name(number)).into_bytes()),
                bandwidth: "limit 50%".parse().unwrap_or_default(),
                ..TenantConfig::default()
            })
            .collect();
    };
    let here = Here::start_with(TIER, policy, &[], 1, many)?;
    let mut client = here.client()?;
    let mut rng = Rng::new(seed);
    for number in 0..tenants {
        client.queue_store("set", format!("{}:k", name(number)).as_bytes(), 0, &[b'v'; 1_000]);
        client.send()?;
        client.read_line()?;
    }
    let mut ask = |client: &mut Client, seconds: f64| -> io::Result<()> {
        let began = nanos();
        while ((nanos() - began) as f64) < seconds * 1e9 {
            for _ in 0..AT_ONCE {
                let number = u32::try_from(rng.below(u64::from(tenants))).unwrap_or(0);
                client.queue_get(format!("{}:k", name(number)).as_bytes());
                client.send()?;
                client.read_get(|_| ())?;
            }
            here.pass(0.01);
        }
        Ok(())
    };
    ask(&mut client, 1.0)?;
    let (spent, began) = (loop_nanos()?, nanos());
    ask(&mut client, WATCHED_S)?;
    let (spent, passed) = (loop_nanos()? - spent, nanos() - began);
    drop(client);
    here.end();
    Ok(spent as f64 * 100.0 / passed as f64)
}

/// CPU time of the thread about bandwidth, as the scheduler counts it.
fn loop_nanos() -> io::Result<u64> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == "bandwidth" {
            let counted = std::fs::read_to_string(task.join("schedstat"))?;
            let nanos = counted.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
            return nanos.ok_or_else(|| io::Error::other("the scheduler counts no time"));
        }
    }
    Err(io::Error::other("the server has no thread about bandwidth"))
}
