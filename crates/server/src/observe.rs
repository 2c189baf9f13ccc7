//! What requests cost and ask for, seen from outside: times per tenant and operation, hot keys, slow requests.
//!
//! Shape:      a worker tallies each turn -> its own pending runs -> tables of tenants, when those are many or somebody asks
//! Invariants: the tables' memory is bounded and counted in `-m`; tenants beyond that are counted together
//! Units:      a request's time is from when it had arrived until its reply was given to the socket, and so includes its wait
//!             for others; requests of one turn are answered together and have the same time
//! Cost:       one reading of the clock and one uncontended lock per turn

pub(crate) mod hot_keys;
pub(crate) mod latency;
pub(crate) mod operation;
pub(crate) mod slow;
pub(crate) mod tally;

pub use hot_keys::HotKey;
pub use latency::Latency;
pub use operation::{CommandClass, Operation};
pub use slow::Slow;
pub(crate) use tally::Tally;

use crate::limits::{HOT_HALVING_SECS, OBSERVED_PART, PENDING_KEYS, PENDING_RUNS};
use hot_keys::HotKeys;
use latency::bucket_of;
use slow::SlowLog;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tally::Run;
use units::{Bytes, Duration, Instant, TenantId};

/// What was seen of one tenant's requests.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantLatency {
    operations: [Option<Box<Latency>>; Operation::ALL.len()],
}

impl TenantLatency {
    /// The operations of which there were requests.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, &Latency)> {
        Operation::ALL
            .into_iter()
            .zip(&self.operations)
            .filter_map(|(operation, seen)| Some((operation, seen.as_deref()?)))
    }

    /// The classes of which there were requests.
    pub fn classes(&self) -> impl Iterator<Item = (CommandClass, Latency)> {
        CommandClass::ALL.into_iter().filter_map(|class| {
            let mut of_class = self.operations().filter(|(operation, _)| operation.class() == class);
            let mut joined = of_class.next()?.1.clone();
            of_class.for_each(|(_, latency)| joined.join(latency));
            Some((class, joined))
        })
    }
}

/// Keys that a tenant is asked for most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HotKeysView {
    /// Samples of all its keys, of late.
    pub samples: u64,
    /// The hottest first.
    pub keys: Vec<HotKey>,
}

#[derive(Debug, Default)]
struct Table {
    latency: TenantLatency,
    hot: HotKeys,
}

/// Everybody who is observed, by id.
#[derive(Debug, Default)]
struct Tables {
    tenants: Vec<Option<Box<Table>>>,
    bytes: usize,
    halved: Instant,
}

/// Runs with the same time.
#[derive(Clone, Copy, Debug)]
struct Timed {
    run: Run,
    bucket: u8,
    sum_ns: u64,
}

/// What a worker has not yet added to the tables.
#[derive(Debug, Default)]
struct Pending {
    runs: Vec<Timed>,
    keys: Vec<(TenantId, Box<[u8]>)>,
}

/// What is observed. One per server.
#[derive(Debug)]
pub(crate) struct Observed {
    desks: Vec<Mutex<Pending>>,
    tables: Mutex<Tables>,
    /// Memory that the tables may take.
    budget: usize,
    /// What they take.
    bytes: AtomicU64,
    /// Requests of tenants that there was no table for.
    unobserved: AtomicU64,
    pub(crate) slow: SlowLog,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observed {
    pub(crate) fn new(workers: usize, memory: Bytes) -> Self {
        Self {
            desks: (0..workers).map(|_| Mutex::default()).collect(),
            tables: Mutex::default(),
            budget: usize::try_from(memory.0 / OBSERVED_PART).unwrap_or(usize::MAX),
            bytes: AtomicU64::new(0),
            unobserved: AtomicU64::new(0),
            slow: SlowLog::default(),
        }
    }

    /// Notes what a worker's turn executed in so much time.
    pub(crate) fn note(
        &self,
        worker: usize,
        tally: &mut Tally,
        (first, first_took, others_took): (TenantId, Duration, Duration),
        now: Instant,
    ) {
        let Some(desk) = self.desks.get(worker) else { return };
        let mut pending = lock(desk);
        for &run in &tally.runs {
            let took = if run.tenant == first { first_took } else { others_took };
            let bucket = bucket_of(took.0);
            let sum_ns = took.0.saturating_mul(u64::from(run.requests));
            match pending.runs.last_mut() {
                Some(last)
                    if last.bucket == bucket
                        && last.run.tenant == run.tenant
                        && last.run.operation == run.operation =>
                {
                    last.run.requests = last.run.requests.saturating_add(run.requests);
                    last.sum_ns = last.sum_ns.saturating_add(sum_ns);
                }
                _ => pending.runs.push(Timed { run, bucket, sum_ns }),
            }
        }
        pending.keys.append(&mut tally.sampled);
        tally.clear();
        if PENDING_RUNS <= pending.runs.len() || PENDING_KEYS <= pending.keys.len() {
            let full = std::mem::take(&mut *pending);
            drop(pending);
            self.add(full, &mut lock(&self.tables), now);
        }
    }

    fn add(&self, pending: Pending, tables: &mut Tables, now: Instant) {
        if Duration::from_secs(HOT_HALVING_SECS) <= now.since(tables.halved) {
            tables.halved = now;
            tables.halve();
        }
        for Timed { run, bucket, sum_ns } in pending.runs {
            match tables.latency(run.tenant, run.operation, self.budget) {
                Some(latency) => latency.add(bucket, run.requests, sum_ns),
                None => {
                    self.unobserved.fetch_add(run.requests.into(), Ordering::Relaxed);
                }
            }
        }
        for (tenant, key) in pending.keys {
            tables.hot_key(tenant, key, self.budget);
        }
        self.bytes.store(tables.bytes as u64, Ordering::Relaxed);
    }

    /// The tables, with everything that workers have noted.
    fn settled(&self, now: Instant) -> MutexGuard<'_, Tables> {
        let mut tables = lock(&self.tables);
        for desk in &self.desks {
            let pending = std::mem::take(&mut *lock(desk));
            self.add(pending, &mut tables, now);
        }
        tables
    }

    /// What was seen of tenants' requests.
    pub(crate) fn latencies(&self, ids: &[TenantId], now: Instant) -> Vec<TenantLatency> {
        let tables = self.settled(now);
        ids.iter().map(|id| tables.find(*id).map(|t| t.latency.clone()).unwrap_or_default()).collect()
    }

    /// What was seen of all tenants' requests together.
    pub(crate) fn latency_of_all(&self, now: Instant) -> TenantLatency {
        let tables = self.settled(now);
        let mut all = TenantLatency::default();
        for table in tables.tenants.iter().flatten() {
            for (operation, latency) in table.latency.operations() {
                all.operations[operation as usize].get_or_insert_default().join(latency);
            }
        }
        all
    }

    /// A tenant's hot keys.
    pub(crate) fn hot_keys(&self, id: TenantId, now: Instant) -> HotKeysView {
        let tables = self.settled(now);
        let Some(table) = tables.find(id) else { return HotKeysView::default() };
        HotKeysView { samples: table.hot.total(), keys: table.hot.ranked() }
    }

    /// A tenant has gone: what was seen of it is forgotten.
    pub(crate) fn forget(&self, id: TenantId, now: Instant) {
        let mut tables = self.settled(now);
        if let Some(table) = tables.tenants.get_mut(id.0 as usize).and_then(Option::take) {
            tables.bytes -= table.bytes();
            self.bytes.store(tables.bytes as u64, Ordering::Relaxed);
        }
        drop(tables);
        self.slow.forget(id);
    }

    /// Memory, counted in `-m`.
    pub(crate) fn bytes(&self) -> Bytes {
        let desks = self.desks.len() * (PENDING_RUNS * size_of::<Timed>());
        Bytes(self.bytes.load(Ordering::Relaxed) + (desks + SlowLog::BYTES_MAX) as u64)
    }

    /// Requests of tenants that there was no table for.
    pub(crate) fn unobserved(&self) -> u64 {
        self.unobserved.load(Ordering::Relaxed)
    }
}

impl Table {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.latency.operations.iter().flatten().count() * size_of::<Latency>()
            + self.hot.bytes()
    }
}

impl Tables {
    fn find(&self, id: TenantId) -> Option<&Table> {
        self.tenants.get(id.0 as usize)?.as_deref()
    }

    /// A tenant's table, made if there is memory for it.
    fn table(&mut self, id: TenantId, budget: usize) -> Option<&mut Table> {
        let at = id.0 as usize;
        let is_new = self.find(id).is_none();
        if is_new {
            if budget < self.bytes + size_of::<Table>() {
                return None;
            }
            if self.tenants.len() <= at {
                self.tenants.resize_with(at + 1, || None);
            }
            self.bytes += size_of::<Table>();
            self.tenants[at] = Some(Box::default());
        }
        self.tenants[at].as_deref_mut()
    }

    fn latency(&mut self, id: TenantId, operation: Operation, budget: usize) -> Option<&mut Latency> {
        // What the table itself takes is taken first.
        self.table(id, budget)?;
        let fits = self.bytes + size_of::<Latency>() <= budget;
        let place = &mut self.table(id, budget)?.latency.operations[operation as usize];
        let is_new = place.is_none();
        if is_new && fits {
            *place = Some(Box::default());
        }
        if is_new && fits {
            self.bytes += size_of::<Latency>();
        }
        self.tenants[id.0 as usize].as_deref_mut()?.latency.operations[operation as usize].as_deref_mut()
    }

    fn hot_key(&mut self, id: TenantId, key: Box<[u8]>, budget: usize) {
        // What the table itself takes is taken first.
        let Some(before) = self.table(id, budget).map(|table| table.hot.bytes()) else { return };
        let room = budget.saturating_sub(self.bytes);
        let Some(table) = self.table(id, budget) else { return };
        table.hot.add(key, room);
        let after = table.hot.bytes();
        self.bytes = self.bytes - before + after;
    }

    fn halve(&mut self) {
        for table in self.tenants.iter_mut().flatten() {
            let before = table.hot.bytes();
            table.hot.halve();
            self.bytes = self.bytes - before + table.hot.bytes();
        }
    }
}

/// A key as text: what is no visible ASCII character, and `%`, as `%` and two hexadecimal digits.
pub(crate) fn printable(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests took so long.
    fn took(ns: u64) -> (TenantId, Duration, Duration) {
        (TenantId(0), Duration(ns), Duration(ns))
    }

    fn tally(tenant: u32, requests: u32) -> Tally {
        let mut tally = Tally::new(1);
        (0..requests).for_each(|_| tally.count(TenantId(tenant), Operation::Get, &[]));
        tally
    }

    #[test]
    fn what_workers_note_is_summed_when_somebody_asks() {
        let observed = Observed::new(2, Bytes::mib(64));
        let now = Instant::ZERO;
        observed.note(0, &mut tally(3, 5), took(7_000), now);
        observed.note(1, &mut tally(3, 2), took(7_000), now);
        let seen = observed.latencies(&[TenantId(3), TenantId(4)], now);
        let (operation, latency) = seen[0].operations().next().unwrap();
        assert_eq!((operation, latency.requests()), (Operation::Get, 7));
        assert!((latency.sum_secs() - 49e-6).abs() < 1e-12);
        assert_eq!(seen[1].operations().count(), 0);
        observed.forget(TenantId(3), now);
        assert_eq!(observed.latencies(&[TenantId(3)], now)[0], TenantLatency::default());
    }

    #[test]
    fn memory_is_bounded_however_many_tenants_there_are() {
        let observed = Observed::new(1, Bytes::mib(8));
        let budget = (8 << 20) / OBSERVED_PART;
        for tenant in 0..5000 {
            observed.note(0, &mut tally(tenant, 1), took(1), Instant::ZERO);
        }
        let ids: Vec<_> = (0..5000).map(TenantId).collect();
        let seen = observed.latencies(&ids, Instant::ZERO);
        let observed_requests: u64 =
            seen.iter().flat_map(TenantLatency::operations).map(|(_, latency)| latency.requests()).sum();
        assert_eq!(observed_requests + observed.unobserved(), 5000);
        assert!(0 < observed.unobserved());
        let bytes = lock(&observed.tables).bytes;
        assert!(bytes as u64 <= budget, "{bytes}");
        let recounted: usize = lock(&observed.tables).tenants.iter().flatten().map(|t| t.bytes()).sum();
        assert_eq!(bytes, recounted);
    }

    #[test]
    fn memory_is_bounded_however_long_and_many_hot_keys_are() {
        let observed = Observed::new(1, Bytes::mib(8));
        let budget = (8 << 20) / OBSERVED_PART;
        // A short key of each tenant first, so that all have their tables, then long ones, which replace them.
        for round in 0..64_u32 {
            for tenant in 0..500 {
                let mut tally = Tally::new(1);
                let len = if round == 0 { 4 } else { crate::limits::KEY_MAX };
                let mut key = vec![b'k'; len];
                key[..4].copy_from_slice(&round.to_be_bytes());
                tally.sampled.push((TenantId(tenant), key.into()));
                observed.note(0, &mut tally, took(1), Instant::ZERO);
            }
        }
        observed.latencies(&[], Instant::ZERO);
        let tables = lock(&observed.tables);
        assert!(tables.bytes as u64 <= budget, "{} of {budget}", tables.bytes);
        assert!(budget / 2 < tables.bytes as u64, "{} of {budget}", tables.bytes);
        let recounted: usize = tables.tenants.iter().flatten().map(|t| t.bytes()).sum();
        assert_eq!(tables.bytes, recounted);
    }

    #[test]
    fn sampled_keys_become_hot_keys() {
        let store = store::Store::new(store::Options {
            memory: Bytes::mib(16),
            item_max: Bytes::mib(1),
            threads: 1,
            tenants_max: 4,
            no_evict: false,
            seed: 0,
        })
        .unwrap();
        let worker = store.worker().unwrap();
        let hot = worker.key(store::Space::Shared, b"hot").unwrap();
        let observed = Observed::new(1, Bytes::mib(64));
        let mut tally = Tally::new(5);
        for _ in 0..64_000 {
            tally.count(TenantId(1), Operation::Get, &[(hot, TenantId(1))]);
        }
        // A multiget longer than any distance between samples.
        let many = vec![(hot, TenantId(2)); 1000];
        tally.count(TenantId(2), Operation::Get, &many);
        observed.note(0, &mut tally, took(1), Instant::ZERO);
        let view = observed.hot_keys(TenantId(1), Instant::ZERO);
        assert_eq!(&*view.keys[0].key, b"hot");
        assert!((900..=1100).contains(&view.samples), "{}", view.samples);
        assert!((8..=30).contains(&observed.hot_keys(TenantId(2), Instant::ZERO).samples));
    }

    #[test]
    fn keys_are_shown_as_text() {
        assert_eq!(printable(b"a:1"), "a:1");
        assert_eq!(printable(b"a b%\xff"), "a%20b%25%FF");
    }
}
