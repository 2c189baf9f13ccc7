//! The loads of `speed` by memtier_benchmark, a client that is not ours, where that is installed.
//!
//! Shape:   per round and server: start -> every key once -> each load; its JSON report has rates and latencies
//! Units:   microseconds: of user and system time of the server, and of the clock from sending to the answer
//! Failure: without the program the section is skipped and says so; a report that cannot be read is an error
//! Source:  the report's form is that of memtier_benchmark 1.4 and later (`--json-out-file`)

use crate::equal::{Contestant, contestants, failed};
use crate::speed::{KEYS_PER_MIB, VALUE, WORKLOADS, Workload};
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::{Kind, Peer};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use units::Bytes;

/// The program.
const PROGRAM: &str = "memtier_benchmark";
/// What keys begin with: with their number they have about the length that those of `speed` have.
const PREFIX: &str = "memtier-item-key-";
/// Requests together while filling.
const FILL_DEPTH: u32 = 64;

/// What one load did to one server in one round.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    micros: f64,
    report: Report,
}

/// What a report says.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Report {
    per_sec: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Measures all rounds; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let Some(program) = installed() else {
        println!("skipped: memtier: {PROGRAM} is not installed");
        return Ok(());
    };
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let keys = mebibytes.saturating_mul(KEYS_PER_MIB);
    let all = contestants(bench, keys, &WORKLOADS[0])?;
    let mut found: Vec<Vec<Vec<Measured>>> = vec![Vec::new(); all.len()];
    for round in 0..bench.rounds {
        let order: Vec<usize> =
            if round % 2 == 0 { (0..all.len()).collect() } else { (0..all.len()).rev().collect() };
        for i in order {
            bench.say(&format!("memtier, round {} of {}: {}", round + 1, bench.rounds, all[i].kind.name()));
            found[i].push(measure(bench, &all[i], &program, keys)?);
        }
    }
    add_rows(bench, &all, &found);
    Ok(())
}

/// The program, from the path.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file())
}

fn measure(
    bench: &Bench,
    contestant: &Contestant,
    program: &Path,
    keys: u32,
) -> Result<Vec<Measured>, BenchError> {
    let kind = contestant.kind;
    let peer = contestant.start()?;
    let measured = || -> io::Result<Vec<Measured>> {
        let fill = format!("-c 1 --pipeline={FILL_DEPTH} --ratio=1:0 --key-pattern=P:P -n allkeys");
        load(program, &peer, keys, &fill)?;
        let each = WORKLOADS.iter().map(|workload| {
            let requests = workload.requests / bench.less;
            let started = peer.cpu_secs()?;
            let report = load(program, &peer, keys, &arguments(workload, requests))?;
            let micros = (peer.cpu_secs()? - started) * 1e6 / requests.max(1) as f64;
            Ok(Measured { micros, report })
        });
        each.collect()
    };
    measured().map_err(|e| failed(kind, e))
}

/// What a load is for the program.
fn arguments(workload: &Workload, requests: u64) -> String {
    let ratio = match workload.gets_percent {
        0 => "1:0".to_owned(),
        gets => format!("{}:{gets}", 100 - gets),
    };
    let each = (requests / u64::from(workload.connections)).max(1);
    let (connections, depth) = (workload.connections, workload.depth);
    format!("-c {connections} --pipeline={depth} --ratio={ratio} --key-pattern=G:G -n {each}")
}

/// Runs one load against a server.
fn load(program: &Path, peer: &Peer, keys: u32, arguments: &str) -> io::Result<Report> {
    let address = peer.address();
    let file = std::env::temp_dir().join(format!("cotenant-memtier-{}.json", address.port()));
    let protocol = if peer.kind == Kind::Redis { "redis" } else { "memcache_text" };
    let fixed = format!(
        "-s {} -p {} -P {protocol} -t 1 --hide-histogram --data-size={VALUE} --key-prefix={PREFIX} \
         --key-minimum=1 --key-maximum={keys}",
        address.ip(),
        address.port()
    );
    let mut command = Command::new(program);
    command.args(fixed.split_whitespace()).args(arguments.split_whitespace());
    command.arg(format!("--json-out-file={}", file.display()));
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    let text = std::fs::read_to_string(&file);
    // Where there is none, reading has failed.
    let _removed = std::fs::remove_file(&file);
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        let last = said.lines().last().unwrap_or_default().to_owned();
        return Err(io::Error::other(format!("{PROGRAM} ended with {}: {last}", ended.status)));
    }
    report(&text?).map_err(|what| io::Error::other(format!("the report of {PROGRAM} has no {what}")))
}

/// What a report says, or what is missing of it.
fn report(text: &str) -> Result<Report, &'static str> {
    let all: Value = serde_json::from_str(text).map_err(|_| "JSON")?;
    let totals = &all["ALL STATS"]["Totals"];
    let number = |value: &Value, what| value.as_f64().filter(|n| n.is_finite()).ok_or(what);
    let late = &totals["Percentile Latencies"];
    Ok(Report {
        per_sec: number(&totals["Ops/sec"], "Ops/sec")?,
        // Milliseconds there.
        p50_us: 1e3 * number(&late["p50.00"], "p50.00")?,
        p99_us: 1e3 * number(&late["p99.00"], "p99.00")?,
    })
}

/// A number of a load, and its name.
type Measure = (&'static str, &'static str, fn(&Measured) -> f64);

const MEASURES: [Measure; 4] = [
    ("server CPU per request", "us", |m| m.micros),
    ("throughput", "1000/s", |m| m.report.per_sec / 1e3),
    ("p50", "us", |m| m.report.p50_us),
    ("p99", "us", |m| m.report.p99_us),
];

fn add_rows(bench: &mut Bench, all: &[Contestant], found: &[Vec<Vec<Measured>>]) {
    let Some(ours) = all.iter().position(|one| one.kind == Kind::Cotenant) else { return };
    for (i, peer) in all.iter().enumerate().filter(|(i, _)| *i != ours) {
        for (w, workload) in WORKLOADS.iter().enumerate() {
            for (measure, unit, pick) in MEASURES {
                let of = |i: usize| found[i].iter().map(|round| pick(&round[w])).collect::<Vec<f64>>();
                bench.add(Row {
                    measure: format!("memtier: {measure}, {}", workload.name),
                    unit,
                    ours: of(ours),
                    peer: Some((peer.kind.name(), of(i))),
                    goal: Goal::None("-"),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_or_says_what_it_lacks() {
        let whole = r#"{"ALL STATS": {"Totals": {"Ops/sec": 1000.5, "Hits/sec": 3.0, "Percentile Latencies":
            {"p50.00": 0.25, "p99.00": 1.5, "p99.90": 2.0}}}}"#;
        assert_eq!(report(whole), Ok(Report { per_sec: 1000.5, p50_us: 250.0, p99_us: 1500.0 }));
        for (text, missing) in [
            ("", "JSON"),
            ("{}", "Ops/sec"),
            (r#"{"ALL STATS": {"Totals": {"Ops/sec": 1}}}"#, "p50.00"),
            (r#"{"ALL STATS": {"Totals": {"Ops/sec": "many"}}}"#, "Ops/sec"),
        ] {
            assert_eq!(report(text), Err(missing), "{text}");
        }
    }

    #[test]
    fn loads_are_those_of_speed() {
        assert_eq!(arguments(&WORKLOADS[0], 400), "-c 4 --pipeline=32 --ratio=5:95 --key-pattern=G:G -n 100");
        assert_eq!(arguments(&WORKLOADS[3], 16), "-c 16 --pipeline=1 --ratio=1:0 --key-pattern=G:G -n 1");
    }
}
