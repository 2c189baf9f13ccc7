//! What comes back after a restart: most of it after a clean end, nothing stale or wrong after any end.
//!
//! Invariants checked: a key has the value that was last acknowledged, or that of the operation under way, or none; what was
//! deleted, flushed or has expired stays away
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::Claim;
use media::faults::{Fault, Faulty};
use media::{Device, FileTier};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use store::{
    Fields, Mode, Options, Placement, RankKind, Refused, Restored, Space, Store, TenantSpec, Worker,
};
use units::{Bytes, Rng, TenantId};

const KEYS: u64 = 1_500;
const TIER: Bytes = Bytes::mib(16);
/// Second since 1970 at which the first store starts.
const WALL: u64 = 1_800_000_000;

/// A folder of one test on a real file system, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn tier(&self) -> PathBuf {
        self.0.join("tier")
    }

    fn saved(&self) -> PathBuf {
        self.0.join("saved")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A store with all values in a tier, and what it must answer.
struct Server {
    store: Arc<Store>,
    worker: Worker,
    tenant: TenantId,
    restored: Restored,
}

fn start(device: Arc<dyn Device>, saved: Option<&Path>, wall: u64, placement: Placement) -> Server {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 16,
        no_evict: false,
        seed: wall,
    };
    let store = Store::with_tiers(options, &[device], wall).unwrap();
    // Another tenant comes first at every other start: ids are not what tenants are known by.
    if wall.is_multiple_of(2) {
        store.add_tenant(spec("other", true)).unwrap();
    }
    let tenant = store.add_tenant(spec("t", true)).unwrap();
    assert!(store.set_placement(tenant, placement));
    let mut worker = store.worker().unwrap();
    let restored = worker.restore(saved, &mut |_, _| None);
    worker.check();
    Server { store, worker, tenant, restored }
}

fn spec(name: &str, own_space: bool) -> TenantSpec {
    TenantSpec { name: name.to_owned(), own_space, claim: Claim::default(), rank: RankKind::default() }
}

fn text(key: u64) -> String {
    format!("key-{key:0width$}", width = 1 + usize::try_from(key % 40).unwrap())
}

/// A value that says which it is.
fn value(key: u64, version: u64) -> Vec<u8> {
    let len = 24 + usize::try_from(units::mix64(key * 31 + version) % 3_000).unwrap();
    let mut bytes = [key.to_le_bytes(), version.to_le_bytes()].concat();
    bytes.resize(len, (key ^ version).to_le_bytes()[0]);
    bytes
}

impl Server {
    fn set(&mut self, key: u64, version: u64, fields: Fields) {
        let (text, value) = (text(key), value(key, version));
        loop {
            let hashed = self.worker.key(Space::Own(self.tenant), text.as_bytes()).unwrap();
            match self.worker.set(self.tenant, &hashed, Mode::Set, fields, &value) {
                Ok(_) => break,
                Err(Refused::NoRoom | Refused::Away) => self.worker.make_room().unwrap(),
                Err(why) => panic!("{why:?}"),
            }
        }
        if self.store.wants_cleaning() {
            self.worker.maintain();
        }
        self.worker.quiesce();
    }

    fn delete(&mut self, key: u64) {
        let text = text(key);
        let hashed = self.worker.key(Space::Own(self.tenant), text.as_bytes()).unwrap();
        self.worker.delete(self.tenant, &hashed);
        self.worker.quiesce();
    }

    /// The version of a key that is there. What is there at all is whole.
    fn get(&mut self, key: u64) -> Option<u64> {
        let text = text(key);
        let hashed = self.worker.key(Space::Own(self.tenant), text.as_bytes()).unwrap();
        if let Some(plan) = self.worker.fetch_plan(&hashed) {
            self.worker.fetch_now(&plan);
        }
        let found = self.worker.get(self.tenant, &hashed).map(|item| {
            let version = u64::from_le_bytes(item.value()[8..16].try_into().unwrap());
            assert_eq!(item.value(), value(key, version), "key {key}");
            version
        });
        self.worker.quiesce();
        found
    }
}

/// A load of sets and deletes, and what is known of it.
#[derive(Default)]
struct Known(HashMap<u64, u64>);

impl Known {
    fn run(&mut self, server: &mut Server, rng: &mut Rng, turns: u64, version: &mut u64) {
        for _ in 0..turns {
            let key = rng.below(KEYS);
            *version += 1;
            if rng.below(5) == 0 {
                server.delete(key);
                self.0.remove(&key);
            } else {
                server.set(key, *version, Fields::default());
                self.0.insert(key, *version);
            }
        }
    }

    /// Compares every key; returns how many of those that are known are there.
    fn compare(&mut self, server: &mut Server) -> usize {
        let mut there = 0;
        for key in 0..KEYS {
            let found = server.get(key);
            match (found, self.0.get(&key)) {
                (Some(version), Some(known)) => assert_eq!(version, *known, "key {key} is stale"),
                (Some(version), None) => panic!("key {key} is back, version {version}"),
                (None, Some(_)) => {
                    self.0.remove(&key);
                    continue;
                }
                (None, None) => continue,
            }
            there += 1;
        }
        server.worker.check();
        there
    }
}

#[test]
fn a_clean_end_keeps_nearly_everything() {
    for placement in [Placement::Tier(0), Placement::Auto] {
        let folder = Folder::new(&format!("clean-{placement:?}"));
        let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(3));
        for round in 0..4 {
            let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
            let mut server = start(device, Some(&folder.saved()), WALL + round, placement);
            let before = known.0.len();
            let there = known.compare(&mut server);
            assert!(before * 95 <= there * 100, "{there} of {before}");
            assert_eq!(server.restored.from_saved, 0 < round, "{:?}", server.restored);
            assert!(!folder.saved().exists(), "nothing that was saved is taken twice");
            known.run(&mut server, &mut rng, 3_000, &mut version);
            assert_eq!(server.worker.save(&folder.saved()).unwrap(), known.0.len() as u64);
        }
    }
}

#[test]
fn a_crash_leaves_nothing_stale_or_wrong() {
    let folder = Folder::new("crash");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(5));
    let mut back = 0;
    for round in 0..30 {
        let placement = if round % 3 == 2 { Placement::Auto } else { Placement::Tier(0) };
        let mut server = start(Arc::clone(&device) as _, None, WALL + round, placement);
        back += known.compare(&mut server);
        assert!(!server.restored.from_saved);
        let turns = rng.below(4_000);
        known.run(&mut server, &mut rng, turns, &mut version);
        if round % 4 == 1 {
            server.store.flush(server.tenant, 0);
            known.0.clear();
            let turns = rng.below(1_000);
            known.run(&mut server, &mut rng, turns, &mut version);
        }
        drop(server);
        device.crash(&mut rng).unwrap();
    }
    assert!(3_000 < back, "{back} keys were there after crashes");
}

#[test]
fn what_expires_or_is_to_be_flushed_does_so_across_starts() {
    let folder = Folder::new("expiry");
    let open = || Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
    let mut first = start(open(), None, WALL, Placement::Tier(0));
    let now = first.store.now_secs();
    for key in 0..600 {
        let expires_at = if key % 2 == 0 { now + 100 } else { 0 };
        first.set(key, 1, Fields { client_flags: 0, expires_at });
    }
    first.store.flush(first.tenant, now + 500);
    // What is gathered and not full goes with a crash.
    drop(first);
    let there = |wall: u64| {
        let mut server = start(open(), None, wall, Placement::Tier(0));
        let mut there = [0, 0];
        for key in 0..600 {
            there[usize::try_from(key % 2).unwrap()] += usize::from(server.get(key).is_some());
        }
        (there, server)
    };
    let ([expiring, lasting], server) = there(WALL + 50);
    assert!(100 < expiring && 100 < lasting, "{expiring} {lasting}");
    drop(server);
    let ([expired, still], mut server) = there(WALL + 200);
    assert_eq!((expired, still), (0, lasting));
    server.store.set_now(server.store.now_secs() + 400);
    assert!((0..600).all(|key| server.get(key).is_none()), "the flush that waited is due");
    drop(server);
    assert_eq!(there(WALL + 700).0, [0, 0]);
}

#[test]
fn damage_is_a_miss() {
    let folder = Folder::new("damage");
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(9));
    for round in 0..6_u64 {
        let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
        let mut server = start(device, Some(&folder.saved()), WALL + round, Placement::Tier(0));
        let before = known.0.len();
        let there = known.compare(&mut server);
        assert!(round == 0 || 0 < there && there < before, "{there} of {before}");
        known.run(&mut server, &mut rng, 2_000, &mut version);
        server.worker.save(&folder.saved()).unwrap();
        drop(server);
        // Bits flip in what was saved, or in the tier itself, or the end of what was saved is missing.
        let path = if round % 3 == 0 { folder.saved() } else { folder.tier() };
        let mut bytes = std::fs::read(&path).unwrap();
        if round % 3 == 2 {
            let saved = std::fs::read(folder.saved()).unwrap();
            std::fs::write(folder.saved(), &saved[..saved.len() / 2]).unwrap();
        }
        // The superblock and the journal are in front.
        let from = if round % 3 == 0 { 24 } else { bytes.len() - TIER.as_usize() };
        for _ in 0..2_000 {
            let at = from + rng.index(bytes.len() - from);
            bytes[at] ^= 1 << rng.below(8);
        }
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn a_device_that_fails_loses_values_and_nothing_else() {
    let folder = Folder::new("faults");
    let device = Arc::new(Faulty::new(FileTier::open(&folder.tier(), TIER).unwrap()));
    let (mut known, mut version, mut rng) = (Known::default(), 0, Rng::new(11));
    for round in 0..12 {
        let mut server = start(Arc::clone(&device) as _, None, WALL + round, Placement::Tier(0));
        known.compare(&mut server);
        device.arm(rng.below(6), [Fault::Full, Fault::Torn][usize::try_from(round % 2).unwrap()]);
        known.run(&mut server, &mut rng, 3_000, &mut version);
        let errors: u64 = server.store.tier_totals().iter().map(|tier| tier.errors).sum();
        assert!(0 < errors, "{:?}", server.store.tier_totals());
        assert!(0 < known.compare(&mut server));
        drop(server);
        device.crash(&mut rng).unwrap();
    }
}

/// Names the file of the tier to a process that is to be killed.
const CHILD: &str = "COTENANT_TEST_TIER";
/// How often it is killed; more by this variable.
const ROUNDS: &str = "COTENANT_TEST_KILLS";

/// What the process that is to be killed does: says what it is going to do, does it, says that it did.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let seed: u64 = std::env::var(ROUNDS).unwrap().parse().unwrap();
    let device = Arc::new(FileTier::open(Path::new(&path), TIER).unwrap());
    let mut server = start(device, None, WALL + seed, Placement::Tier(0));
    let mut out = std::io::stdout().lock();
    let mut rng = Rng::new(seed);
    for turn in 1.. {
        let (key, version) = (rng.below(KEYS), (seed << 32) + turn);
        let version = if rng.below(5) == 0 { 0 } else { version };
        writeln!(out, "\n> {key} {version}").unwrap();
        if version == 0 {
            server.delete(key)
        } else {
            server.set(key, version, Fields::default())
        }
        writeln!(out, "\n< {key} {version}").unwrap();
    }
}

#[test]
fn killed_at_any_moment_nothing_stale_or_wrong_is_served() {
    if std::env::var(CHILD).is_ok() {
        return;
    }
    let folder = Folder::new("killed");
    let rounds: u64 = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    let (mut known, mut rng, mut back) = (Known::default(), Rng::new(13), 0);
    for round in 1..=rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, folder.tier())
            .env(ROUNDS, round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut left, mut begun) = (2 + rng.below(4_000), None);
        for line in lines.map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            let &[sign @ (">" | "<"), key, version] = &words[..] else { continue };
            let step = (key.parse::<u64>().unwrap(), version.parse::<u64>().unwrap());
            begun = if sign == ">" { Some(step) } else { None };
            if sign == "<" {
                if step.1 == 0 {
                    known.0.remove(&step.0)
                } else {
                    known.0.insert(step.0, step.1)
                };
            }
            left -= 1;
            if left == 0 {
                child.kill().unwrap();
            }
            left = left.max(1);
        }
        child.wait().unwrap();
        let device = Arc::new(FileTier::open(&folder.tier(), TIER).unwrap());
        let mut server = start(device, None, WALL + rounds + round, Placement::Tier(0));
        // The operation under way was done, or was not.
        if let Some((key, version)) = begun {
            match server.get(key) {
                Some(found) if found == version => drop(known.0.insert(key, found)),
                None => drop(known.0.remove(&key)),
                Some(_) => {}
            }
        }
        back += known.compare(&mut server);
    }
    assert!(rounds * 100 < back as u64, "{back} keys were there after {rounds} kills");
}
