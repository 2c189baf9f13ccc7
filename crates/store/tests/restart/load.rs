//! A load of overwrites and deletes on a store with all values in a tier, and what is known of it.

use control::Claim;
use media::Device;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{
    Fields, Mode, Options, Placement, RankKind, Refused, Restored, Space, Store, TenantSpec, Worker,
};
use units::{Bytes, Rng, TenantId};

pub(crate) const KEYS: u64 = 1_500;
pub(crate) const TIER: Bytes = Bytes::mib(16);
/// Operations in a second, in the mean.
const SECONDS_APART: u64 = 50;
/// Second since 1970 at which the first store starts.
pub(crate) const WALL: u64 = 1_800_000_000;

/// A folder of one test on a real file system, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn tier(&self) -> PathBuf {
        self.0.join("tier")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn saved(&self) -> PathBuf {
        self.0.join("saved")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A store with all values in a tier, and what it must answer.
pub(crate) struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) worker: Worker,
    pub(crate) tenant: TenantId,
    pub(crate) restored: Restored,
}

pub(crate) fn start(
    device: Arc<dyn Device>,
    saved: Option<&Path>,
    wall: u64,
    placement: Placement,
) -> Server {
    start_on(&[device], saved, wall, placement)
}

pub(crate) fn start_on(
    devices: &[Arc<dyn Device>],
    saved: Option<&Path>,
    wall: u64,
    placement: Placement,
) -> Server {
    let (mut worker, tenant) = prepare(devices, wall, placement);
    let restored = worker.restore(saved, &mut |_, _| None);
    worker.check();
    Server { store: Arc::clone(worker.store()), worker, tenant, restored }
}

/// A store to which nothing has come back yet.
pub(crate) fn prepare(devices: &[Arc<dyn Device>], wall: u64, placement: Placement) -> (Worker, TenantId) {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 2,
        tenants_max: 16,
        no_evict: false,
        seed: wall,
    };
    let store = Store::with_tiers(options, devices, wall).unwrap();
    // Another tenant comes first at every other start: ids are not what tenants are known by.
    if wall.is_multiple_of(2) {
        store.add_tenant(spec("other", true)).unwrap();
    }
    let tenant = store.add_tenant(spec("t", true)).unwrap();
    assert!(store.set_placement(tenant, placement));
    (store.worker().unwrap(), tenant)
}

fn spec(name: &str, own_space: bool) -> TenantSpec {
    TenantSpec { name: name.to_owned(), own_space, claim: Claim::default(), rank: RankKind::default() }
}

fn text(key: u64) -> String {
    format!("key-{key:0width$}", width = 1 + usize::try_from(key % 40).unwrap())
}

/// The bit of a version whose values are so large that DRAM does not hold all of them.
pub(crate) const LARGE: u64 = 1 << 62;

/// A value that says which it is.
pub(crate) fn value(key: u64, version: u64) -> Vec<u8> {
    let most = if version & LARGE == 0 { 3_000 } else { 24_000 };
    let len = 24 + usize::try_from(units::mix64(key.wrapping_mul(31).wrapping_add(version)) % most).unwrap();
    let mut bytes = [key.to_le_bytes(), version.to_le_bytes()].concat();
    bytes.resize(len, (key ^ version).to_le_bytes()[0]);
    bytes
}

impl Server {
    pub(crate) fn set(&mut self, key: u64, version: u64, fields: Fields) {
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

    /// Lets a second pass, in which a cleaner looks.
    pub(crate) fn pass_a_second(&mut self) {
        self.store.set_now(self.store.now_secs() + 1);
        self.worker.maintain();
        self.worker.quiesce();
    }

    pub(crate) fn delete(&mut self, key: u64) {
        let text = text(key);
        let hashed = self.worker.key(Space::Own(self.tenant), text.as_bytes()).unwrap();
        self.worker.delete(self.tenant, &hashed);
        self.worker.quiesce();
    }

    /// The version of a key that is there. What is there at all is whole.
    pub(crate) fn get(&mut self, key: u64) -> Option<u64> {
        self.look(key).map(|found| found.unwrap_or_else(|bytes| panic!("key {key} has {bytes:?}")))
    }

    /// The same; what is not whole is an error.
    pub(crate) fn look(&mut self, key: u64) -> Option<Result<u64, Vec<u8>>> {
        let text = text(key);
        let hashed = self.worker.key(Space::Own(self.tenant), text.as_bytes()).unwrap();
        if let Some(plan) = self.worker.fetch_plan(&hashed) {
            self.worker.fetch_now(&plan).unwrap();
        }
        let found = self.worker.get(self.tenant, &hashed).map(|item| {
            let found = item.value();
            let version = found.get(8..16).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            if found == value(key, version) { Ok(version) } else { Err(found.to_vec()) }
        });
        self.worker.quiesce();
        found
    }
}

/// A load of sets and deletes, and what is known of it.
#[derive(Default)]
pub(crate) struct Known(pub(crate) HashMap<u64, u64>);

impl Known {
    pub(crate) fn run(&mut self, server: &mut Server, rng: &mut Rng, turns: u64, version: &mut u64) {
        for _ in 0..turns {
            let key = rng.below(KEYS);
            *version += 1;
            if rng.below(SECONDS_APART) == 0 {
                server.pass_a_second();
            }
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
    pub(crate) fn compare(&mut self, server: &mut Server) -> usize {
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

    /// What was under way when everything ended was done, or was not.
    pub(crate) fn learn(&mut self, server: &mut Server, (key, version): (u64, u64)) {
        match server.get(key) {
            Some(found) if found == version => drop(self.0.insert(key, found)),
            None => drop(self.0.remove(&key)),
            Some(_) => {}
        }
    }

    /// What was acknowledged; version 0 is a delete.
    pub(crate) fn note(&mut self, (key, version): (u64, u64)) {
        match version {
            0 => drop(self.0.remove(&key)),
            _ => drop(self.0.insert(key, version)),
        }
    }
}

/// Stores every key in a version.
pub(crate) fn fill(server: &mut Server, version: u64) -> Known {
    let mut known = Known::default();
    for key in 0..KEYS {
        server.set(key, version, Fields::default());
        known.0.insert(key, version);
    }
    known
}
