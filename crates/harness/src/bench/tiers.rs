//! More values than DRAM holds, on an SSD: ours with a file tier beside memcached with extstore.
//!
//! Shape:      both servers get the same memory and the same room on the same disk -> every item is stored once -> popular ones are
//!             looked up, what is missed is stored, some are stored anyway
//! Invariants: every value is verified; servers alternate, and who is first turns
//! Units:      as of `speed`

use crate::equal::failed;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use harness::live::{Heard, Items, Kind, Pace, Peer, Plan, Popularity, Setup, Sizes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Bytes;

/// Room on the disk for each MiB of memory.
const ROOM: u64 = 8;
/// Items for each MiB of memory: six times what fits.
const ITEMS: u32 = 6_000;
/// Values: the lengths of extstore's use, well above its least of 512 B.
const SIZES: Sizes = Sizes::Between(600, 1_400);
/// Requests of a load.
const REQUESTS: u64 = 400_000;
/// Connections, and requests sent together.
const LOADS: [(u32, u32); 2] = [(32, 1), (8, 16)];
/// What memcached needs to keep room in memory while it writes: pages of 8 MiB, everything old enough at once.
const EXTSTORE: &str = "ext_page_size=8,ext_wbuf_size=4,ext_item_age=0";

/// What one server did in one round, by load.
struct Round {
    loads: Vec<(Heard, f64)>,
    resident: Bytes,
    fill_secs: f64,
}

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    let peers: Vec<_> = bench.peers().into_iter().filter(|(kind, _)| *kind != Kind::Redis).collect();
    let folder = folder()?;
    let mut found: Vec<Vec<Round>> = peers.iter().map(|_| Vec::new()).collect();
    for round in 0..bench.rounds {
        for turn in 0..peers.len() {
            let i = if round % 2 == 0 { turn } else { peers.len() - 1 - turn };
            let (kind, program) = &peers[i];
            bench.say(&format!("tiers: round {} of {}: {}", round + 1, bench.rounds, kind.name()));
            let measured = measure(bench, *kind, program, &folder.0, round);
            found[i].push(measured.map_err(|e| failed(*kind, e))?);
        }
    }
    let [ours, theirs] = &found[..] else { return Ok(()) };
    add_rows(bench, ours, theirs);
    Ok(())
}

/// A folder that goes with what is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// A folder for tiers that everybody can reach; on a disk, or our server says so.
fn folder() -> Result<Folder, BenchError> {
    let write = |source| BenchError::Write { file: "a tier".to_owned(), source };
    let folder = std::env::temp_dir().join(format!("cotenant-bench-{}", std::process::id()));
    let _old = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(write)?;
    let folder = Folder(folder);
    // memcached runs as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder.0, open).map_err(write)?;
    Ok(folder)
}

fn measure(bench: &Bench, kind: Kind, program: &Path, folder: &Path, round: u64) -> io::Result<Round> {
    let place = folder.join(format!("{}-{round}", kind.name()));
    let room = bench.memory.count_of(Bytes::mib(1)) * ROOM;
    let more = match kind {
        Kind::Cotenant => format!("--tier file:{}:{room}MiB", place.display()),
        _ => format!("-o {EXTSTORE},ext_path={}:{room}m", place.display()),
    };
    let peer = Peer::start_as(kind, program, &Setup { more, ..Setup::new(kind, bench.memory) })?;
    let mebibytes = u32::try_from(bench.memory.count_of(Bytes::mib(1))).unwrap_or(u32::MAX);
    let items = Arc::new(Items::new(mebibytes.saturating_mul(ITEMS), SIZES));
    let filled = bench.load(&peer, &Plan { depth: 16, ..Plan::fill(items.count()) }, &items)?;
    let mut loads = Vec::new();
    for (connections, depth) in LOADS {
        let plan = Plan {
            connections,
            threads: 1,
            depth,
            pace: Pace::Closed,
            gets_percent: 98,
            look_aside: true,
            popularity: Popularity::Zipf(bench.zipf(items.count() / connections)),
            requests: REQUESTS / bench.less,
            seed: bench.seed ^ round,
        };
        let started = peer.cpu_secs()?;
        let heard = bench.load(&peer, &plan, &items)?;
        let micros = (peer.cpu_secs()? - started) * 1e6 / heard.requests.max(1) as f64;
        bench.say(&format!(
            "  {connections} connections, depth {depth}: {:.0} per second, hit ratio {:.4}, p99 {:.0} us, CPU {micros:.1} us",
            heard.throughput(),
            heard.hit_ratio(),
            heard.latency.quantile_us(0.99)
        ));
        loads.push((heard, micros));
    }
    let resident = peer.resident()?;
    drop(peer);
    let _removed = std::fs::remove_file(&place);
    Ok(Round { loads, resident, fill_secs: filled.secs })
}

fn add_rows(bench: &mut Bench, ours: &[Round], theirs: &[Round]) {
    type Pick = Box<dyn Fn(&Round) -> f64>;
    let mut measures: Vec<(String, &'static str, Goal, Pick)> = vec![
        ("tier on SSD: storing every item once".to_owned(), "s", Goal::None("-"), Box::new(|r| r.fill_secs)),
        (
            "tier on SSD: resident memory".to_owned(),
            "MiB",
            Goal::None("-"),
            Box::new(|r| r.resident.0 as f64 / (1 << 20) as f64),
        ),
    ];
    for (i, (connections, depth)) in LOADS.into_iter().enumerate() {
        let name = format!("tier on SSD, {connections} connections, depth {depth}");
        let of = |what: &str| format!("{name}: {what}");
        measures.extend([
            (
                of("misses"),
                "of gets",
                Goal::RatioAtMost(1.0),
                Box::new(move |r: &Round| 1.0 - r.loads[i].0.hit_ratio()) as Pick,
            ),
            (
                of("throughput"),
                "1000/s",
                Goal::RatioAtLeast(1.0),
                Box::new(move |r: &Round| r.loads[i].0.throughput() / 1e3),
            ),
            (
                of("p50"),
                "us",
                Goal::None("-"),
                Box::new(move |r: &Round| r.loads[i].0.latency.quantile_us(0.5)),
            ),
            (
                of("p99"),
                "us",
                Goal::None("-"),
                Box::new(move |r: &Round| r.loads[i].0.latency.quantile_us(0.99)),
            ),
            (of("server CPU per request"), "us", Goal::None("-"), Box::new(move |r: &Round| r.loads[i].1)),
        ]);
    }
    for (measure, unit, goal, pick) in measures {
        let all = |rounds: &[Round]| rounds.iter().map(&pick).collect::<Vec<f64>>();
        let peer = Some(("memcached with extstore", all(theirs)));
        bench.add(Row { measure, unit, ours: all(ours), peer, goal });
    }
}
