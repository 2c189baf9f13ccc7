//! The requests of the tests: the shared mixed trace, or a generated mix where a test must never be skipped.

use harness::replay::{ReplayOptions, in_process};
use harness::{Report, TenantReport};
use lab::{Mix, Pace, TraceReader};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use units::Bytes;

/// The tenants of `mix-dev`.
pub(crate) const MIX_DEV_TENANTS: [&str; 22] = [
    "arc-P3",
    "arc-P6",
    "block",
    "http",
    "llmkv",
    "memcachier1",
    "memcachier19",
    "memcachier227",
    "memcachier3",
    "meta-fbobj",
    "meta-kvcache",
    "orm-rest",
    "orm17",
    "orm18",
    "orm20",
    "orm21",
    "recs",
    "twitter14",
    "twitter18",
    "twitter37",
    "twitter52",
    "web",
];
/// The requests of `mix-dev`.
pub(crate) const MIX_DEV_REQUESTS: u64 = 6_820_061;

/// Opens `mix-dev`; says so where it is absent.
pub(crate) fn mix_dev() -> Option<Box<dyn TraceReader + Send>> {
    trace("mix-dev")
}

/// Opens a shared trace; says so where it is absent.
pub(crate) fn trace(name: &str) -> Option<Box<dyn TraceReader + Send>> {
    let folder = std::env::var_os("COTENANT_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    let path = folder.join(format!("{name}.csv.zst"));
    if !path.is_file() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    Some(lab::open(&path, None).unwrap())
}

/// A minute of the built-in tenants at a size that suits `memory` (three times as much is asked for).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Minute {
    pub(crate) memory: Bytes,
    pub(crate) seed: u64,
}

impl Minute {
    /// A small one: 16 MiB.
    pub(crate) fn small(seed: u64) -> Self {
        Self { memory: Bytes::mib(16), seed }
    }

    /// Requests of the minute: as many per byte as the demonstration has.
    pub(crate) fn requests(self) -> u64 {
        3_000_000 * self.memory.0 / Bytes::mib(64).0
    }

    pub(crate) fn mix(self) -> Mix {
        let requests_per_sec = u32::try_from(self.requests() / 60).unwrap();
        let scale = self.memory.0 as f64 / Bytes::mib(64).0 as f64;
        Mix::demo(Pace { seed: self.seed, scale, requests_per_sec })
    }

    pub(crate) fn tenants(self) -> Vec<String> {
        self.mix().tenants().iter().map(|t| t.name.clone()).collect()
    }

    /// The replay of this minute with every tenant there from the start.
    pub(crate) fn options(self, policy: &str) -> ReplayOptions {
        ReplayOptions {
            memory: self.memory,
            policy: policy.to_owned(),
            tenants: self.tenants(),
            limit: Some(self.requests()),
            seed: self.seed,
            ..ReplayOptions::default()
        }
    }
}

/// Replays in this process.
pub(crate) fn replay(options: ReplayOptions, trace: &mut dyn TraceReader) -> Report {
    let _busy = busy();
    in_process(options, &mut [trace], &mut |_| {}).unwrap()
}

/// Who keeps a core busy holds this shared, who measures threads beside each other holds it alone: a server's cleaner that
/// waits for a core behind other tests changes what its tenants keep.
static CORES: RwLock<()> = RwLock::new(());

pub(crate) fn busy() -> RwLockReadGuard<'static, ()> {
    CORES.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    CORES.write().unwrap_or_else(PoisonError::into_inner)
}

/// One tenant of a report.
#[track_caller]
pub(crate) fn row<'a>(report: &'a Report, tenant: &str) -> &'a TenantReport {
    report.tenants.iter().find(|t| t.name == tenant).unwrap_or_else(|| panic!("no tenant {tenant}"))
}
