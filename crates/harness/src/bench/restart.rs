//! How long a start takes that brings a file tier's content back: from what a clean end saved, and from the records alone.
//!
//! Shape:      a store with all values in a file -> saved -> dropped -> started again by the saved index -> dropped without a
//!             word -> started again by the records
//! Invariants: all items are there after the first start, all but what the process alone held after the second; values that
//!             are drawn are what was stored
//! Units:      seconds by the clock, and of processor time where it says so. The saved index is read from the disk, not from the system's memory

use crate::in_process::thread_cpu_nanos;
use crate::media::failed;
use crate::table::{Goal, Row};
use crate::{Bench, BenchError};
use control::Claim;
use harness::live::keys;
use media::{FileTier, Stopwatch};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{
    Fields, Mode, Options, Placement, RankKind, Refused, Restored, Space, Store, TenantSpec, Worker,
};
use units::{Bytes, Rng, TenantId};

/// What records hold, and the tier, which has some room beside; a quarter of both in a quick run.
const HELD: Bytes = Bytes::mib(10 * 1024);
const TIER: Bytes = Bytes::mib(11 * 1024);
/// Keys, what leads to values, and the index.
const MEMORY: Bytes = Bytes::mib(2048);
/// A value, and what its record takes with its key and head (a multiple of 64 B).
pub(crate) const VALUE: usize = 960;
const RECORD: u64 = 1024;
/// Values that are looked at after a start.
const DRAWN: u32 = 1_000;
/// Second since 1970 of the first start.
const WALL: u64 = 1_800_000_000;

/// Measures; adds rows.
pub(crate) fn run(bench: &mut Bench) -> Result<(), BenchError> {
    bench.say("restart of a file tier");
    let beside = std::env::current_exe().map_err(failed)?;
    let places =
        Places { tier: beside.with_file_name("restart-tier"), saved: beside.with_file_name("restart-saved") };
    let done = at(bench, &places);
    // What was not made is not left.
    let _removed = (std::fs::remove_file(&places.tier), std::fs::remove_file(&places.saved));
    done
}

struct Places {
    tier: PathBuf,
    saved: PathBuf,
}

/// A store that is up, and what its start was like.
pub(crate) struct Started {
    pub(crate) worker: Worker,
    pub(crate) tenant: TenantId,
    restored: Restored,
    secs: f64,
    /// Seconds of processor time of the thread.
    cpu_secs: f64,
}

fn at(bench: &mut Bench, places: &Places) -> Result<(), BenchError> {
    let (held, tier) = (Bytes(HELD.0 / bench.less), Bytes(TIER.0 / bench.less));
    let items = u32::try_from(held.0 / RECORD).unwrap_or(u32::MAX);
    let (mut saves, mut by_saved, mut by_records) = (Vec::new(), Vec::new(), Vec::new());
    let mut cpu = Vec::new();
    let mut up = started(places, tier, WALL)?;
    let watch = Stopwatch::new();
    let began = watch.now();
    for number in 0..items {
        set(&mut up, number)?;
    }
    let took = watch.now().since(began).as_secs_f64();
    bench.say(&format!("  {items} values of {VALUE} B written in {took:.0} s"));
    for round in 1..=bench.rounds {
        let began = watch.now();
        let count = up.worker.save(&places.saved).map_err(failed)?;
        saves.push(watch.now().since(began).as_secs_f64());
        bench.premise(count == u64::from(items), &format!("restart: {count} of {items} items were saved"));
        drop(up);
        forget(&places.saved)?;
        up = started(places, tier, WALL + 2 * round)?;
        by_saved.push(up.secs);
        cpu.push(up.cpu_secs);
        judge(bench, &mut up, (items, true))?;
        // Ended without a word: what the next start knows is in the tier.
        drop(up);
        up = started(places, tier, WALL + 2 * round + 1)?;
        by_records.push(up.secs);
        judge(bench, &mut up, (items, false))?;
    }
    let row = |what: &str, ours, goal| Row {
        measure: format!("restart, {items} items of 1 KiB in a file tier, {what}"),
        unit: "s",
        ours,
        peer: None,
        goal,
    };
    bench.add(row("saving", saves, Goal::None("-")));
    bench.add(row("from what was saved", by_saved, Goal::AtMost(10.0)));
    bench.add(row("the same, time of the processor", cpu, Goal::None("-")));
    bench.add(row("from the records", by_records, Goal::None("every record is read")));
    Ok(())
}

fn started(places: &Places, size: Bytes, wall: u64) -> Result<Started, BenchError> {
    started_on(
        || FileTier::open(&places.tier, size).map(Arc::new).map_err(|e| failed(std::io::Error::other(e))),
        Some(&places.saved),
        wall,
    )
}

/// A store that is started on a tier, with all values there.
pub(crate) fn started_on(
    open: impl FnOnce() -> Result<Arc<FileTier>, BenchError>,
    saved: Option<&Path>,
    wall: u64,
) -> Result<Started, BenchError> {
    let watch = Stopwatch::new();
    let (began, cpu) = (watch.now(), thread_cpu_nanos());
    let device = open()?;
    let options = Options {
        memory: MEMORY,
        item_max: Bytes::mib(1),
        threads: 1,
        tenants_max: 16,
        no_evict: false,
        seed: wall,
    };
    let store = Store::with_tiers(options, &[device as _], wall)?;
    let spec = TenantSpec {
        name: "t".to_owned(),
        own_space: false,
        claim: Claim::default(),
        rank: RankKind::default(),
    };
    let tenant = store.add_tenant(spec).ok_or_else(|| BenchError::Usage("too many tenants".to_owned()))?;
    store.set_placement(tenant, Placement::Tier(0));
    let mut worker = store.worker()?;
    let restored = worker.restore(saved, &mut |_, _| None);
    let (secs, cpu_secs) = (watch.now().since(began).as_secs_f64(), (thread_cpu_nanos() - cpu) / 1e9);
    Ok(Started { worker, tenant, restored, secs, cpu_secs })
}

/// The value of a number.
pub(crate) fn value(number: u32) -> [u8; VALUE] {
    let mut value = [b'v'; VALUE];
    value[..keys::VALUE].copy_from_slice(&keys::value(number));
    value
}

/// Stores the item of a number.
pub(crate) fn set(up: &mut Started, number: u32) -> Result<(), BenchError> {
    let (key, value) = (keys::key(number), value(number));
    loop {
        let hashed = up.worker.key(Space::Shared, &key);
        let hashed =
            hashed.ok_or_else(|| BenchError::Usage("a key of the benchmark is no key".to_owned()))?;
        match up.worker.set(up.tenant, &hashed, Mode::Set, Fields::default(), &value) {
            Ok(_) => break,
            Err(Refused::NoRoom | Refused::Away) => up
                .worker
                .make_room()
                .map_err(|_| BenchError::Premise("the store found no room".to_owned()))?,
            Err(why) => return Err(BenchError::Premise(format!("a value is refused: {why:?}"))),
        }
    }
    up.worker.quiesce();
    Ok(())
}

/// The system forgets what it has of a file in memory.
fn forget(path: &Path) -> Result<(), BenchError> {
    let file = File::open(path).map_err(failed)?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| failed(e.into()))
}

fn judge(bench: &mut Bench, up: &mut Started, (items, from_saved): (u32, bool)) -> Result<(), BenchError> {
    let is_as_meant = up.restored.items == u64::from(items) && up.restored.from_saved == from_saved;
    bench.premise(is_as_meant, &format!("restart: {:?} of {items}", up.restored));
    let mut rng = Rng::new(bench.seed);
    for _ in 0..DRAWN {
        let number = u32::try_from(rng.below(u64::from(items))).unwrap_or(0);
        let key = keys::key(number);
        let hashed = up.worker.key(Space::Shared, &key);
        let hashed =
            hashed.ok_or_else(|| BenchError::Usage("a key of the benchmark is no key".to_owned()))?;
        if let Some(plan) = up.worker.fetch_plan(&hashed) {
            up.worker.fetch_now(&plan).map_err(|store::OutOfMemory| {
                BenchError::Premise("there is memory to read a value into".to_owned())
            })?;
        }
        let is_it = up.worker.get(up.tenant, &hashed).is_some_and(|item| item.value() == value(number));
        if !is_it {
            return Err(BenchError::Premise(format!("item {number} is not what was stored")));
        }
        up.worker.quiesce();
    }
    Ok(())
}
