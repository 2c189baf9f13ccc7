//! A store and the map that it is compared with, run side by side.

use control::{Amount, Claim};
use media::{Device, Plain};
use std::collections::HashMap;
use std::sync::Arc;
use store::{
    Counted, Fields, Mode, Options, Placement, Promotion, RankKind, Refused, Space, Store, Stored,
    TenantSpec, Worker,
};
use units::{Bytes, TenantId};

/// Keys that operations are about.
pub(crate) const KEYS: u16 = 800;

/// One operation, drawn with bounded arguments.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Get(u16),
    Set { key: u16, mode: u8, size: u32, ttl: u8, flags: u8 },
    Cas { key: u16, right: bool, size: u32 },
    Delete(u16),
    Count { key: u16, delta: u32, up: bool },
    Touch { key: u16, ttl: u8 },
    Flush { tenant: u8, delay: u8 },
    Tick(u8),
    Maintain,
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    value: Vec<u8>,
    flags: u32,
    expires_at: u32,
    cas: Option<u64>,
}

/// The store, the map that it is compared with, and what has to be remembered between operations.
pub(crate) struct Pair {
    pub(crate) store: Arc<Store>,
    pub(crate) worker: Worker,
    pub(crate) tenants: Vec<(TenantId, Space)>,
    known: HashMap<(usize, u16), Known>,
    highest_cas: HashMap<(usize, u16), u64>,
    flushes: Vec<(usize, u32)>,
    now: u32,
    fill: u8,
    missing: u64,
    /// Values above 5,000 bytes are so many times as large.
    stretch: u32,
}

/// What is below DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Below {
    Nothing,
    /// All values that are not too small are there.
    All,
    /// What the cleaner puts there.
    Some,
}

pub(crate) fn new_store(
    memory: Bytes,
    item_max: Bytes,
    seed: u64,
    below: Below,
) -> (Arc<Store>, Vec<(TenantId, Space)>) {
    let options = Options { memory, item_max, threads: 1, tenants_max: 8, no_evict: false, seed };
    let device: Arc<dyn Device> = Arc::new(Plain::new(memory).unwrap());
    let devices = if below == Below::Nothing { &[][..] } else { &[device][..] };
    let store = Store::with_tiers(options, devices, 1_000_000).unwrap();
    store.set_promotion(if seed.is_multiple_of(2) { Promotion::Repeated } else { Promotion::Always });
    let add = |name: &str, own_space, rank, floor| {
        let claim = Claim { floor: Amount::memory(floor), ..Claim::default() };
        let id = store.add_tenant(TenantSpec { name: name.to_owned(), own_space, claim, rank }).unwrap();
        (id, if own_space { Space::Own(id) } else { Space::Shared })
    };
    let tenants = vec![
        add("default", false, RankKind::Lru, Bytes::ZERO),
        add("port", true, RankKind::Gdsf, Bytes::kib(100)),
        add("other", true, RankKind::Lfu, Bytes::ZERO),
    ];
    let placement = [Placement::Dram, Placement::Tier(0), Placement::Auto][below as usize];
    // One tenant stays in DRAM throughout.
    for (tenant, _) in &tenants[..2] {
        assert!(store.set_placement(*tenant, placement));
    }
    (store, tenants)
}

impl Pair {
    pub(crate) fn new(memory: Bytes, item_max: Bytes, seed: u64, below: Below) -> Self {
        let (store, tenants) = new_store(memory, item_max, seed, below);
        let worker = store.worker().unwrap();
        let now = store.now_secs();
        let segment = store.geometry().segment;
        Self {
            store,
            worker,
            tenants,
            known: HashMap::new(),
            highest_cas: HashMap::new(),
            flushes: Vec::new(),
            now,
            fill: 0,
            missing: 0,
            stretch: if item_max <= segment { 1 } else { 6 },
        }
    }

    /// Keys are spread over tenants; the same key text is used in every space.
    fn place(&self, key: u16) -> (usize, Vec<u8>) {
        (
            usize::from(key) % self.tenants.len(),
            format!("key-{:0width$}", key / 7, width = 1 + usize::from(key % 60)).into_bytes(),
        )
    }

    /// Runs a write until it is not refused for lack of room.
    fn write<T>(
        &mut self,
        key: u16,
        act: impl Fn(&Worker, TenantId, &store::Key<'_>) -> Result<T, Refused>,
    ) -> Option<T> {
        let (t, text) = self.place(key);
        let (tenant, space) = self.tenants[t];
        for _ in 0..4 {
            let result = act(&self.worker, tenant, &self.worker.key(space, &text).unwrap());
            match result {
                Ok(done) => return Some(done),
                Err(Refused::TooLarge | Refused::OverShare) => return None,
                Err(Refused::NoRoom) => self.worker.make_room().unwrap(),
                Err(Refused::Away) => self.fetch(key),
            }
        }
        panic!("no room after making room");
    }

    /// Fetches the value of a key.
    fn fetch(&mut self, key: u16) {
        let (t, text) = self.place(key);
        let plan = self.worker.fetch_plan(&self.worker.key(self.tenants[t].1, &text).unwrap()).unwrap();
        self.worker.fetch_now(&plan).unwrap();
        assert!(self.worker.fetch_plan(&self.worker.key(self.tenants[t].1, &text).unwrap()).is_none());
    }

    /// Compares a key with the map; a miss that the map cannot explain must be an eviction.
    fn compare(&mut self, key: u16) {
        let (t, text) = self.place(key);
        let (tenant, space) = self.tenants[t];
        let hashed = self.worker.key(space, &text).unwrap();
        if self.worker.fetch_plan(&hashed).is_some() {
            self.fetch(key);
        }
        let found = self.worker.get(tenant, &hashed);
        let known = self.known.get_mut(&(t, key));
        match (found, known) {
            (Some(item), Some(known)) => {
                assert_eq!(item.value(), known.value, "key {key}");
                assert_eq!(item.client_flags(), known.flags);
                assert_eq!(item.expires_at(), known.expires_at);
                assert_eq!(item.tenant(), tenant);
                let cas = item.cas();
                if let Some(before) = known.cas {
                    assert_eq!(cas, before, "the CAS value changes only when the item does");
                } else {
                    let highest = self.highest_cas.entry((t, key)).or_default();
                    assert!(*highest < cas, "CAS values rise");
                    *highest = cas;
                    known.cas = Some(cas);
                }
            }
            (None, Some(_)) => {
                self.missing += 1;
                self.known.remove(&(t, key));
            }
            (Some(item), None) => panic!("key {key} should not exist, has {} bytes", item.value().len()),
            (None, None) => {}
        }
    }

    fn tick(&mut self, secs: u32) {
        self.now += secs;
        self.store.set_now(self.now);
        let now = self.now;
        for &(tenant, _) in self.flushes.iter().filter(|(_, at)| *at <= now) {
            self.known.retain(|(t, _), _| *t != tenant);
        }
        self.flushes.retain(|(_, at)| now < *at);
        self.known.retain(|_, k| k.expires_at == 0 || now < k.expires_at);
    }

    fn value(&mut self, size: u32) -> Vec<u8> {
        self.fill = self.fill.wrapping_add(1);
        let size = if 5_000 < size { size * self.stretch } else { size };
        let digits = self.fill.is_multiple_of(4) && size < 18;
        vec![if digits { b'7' } else { self.fill }; size as usize]
    }

    pub(crate) fn run(&mut self, op: &Op) {
        match *op {
            Op::Get(key) => self.compare(key),
            Op::Set { key, mode, size, ttl, flags } => {
                self.set(key, mode, size, ttl, u32::from(flags) * 1_000)
            }
            Op::Cas { key, right, size } => self.cas(key, right, size),
            Op::Delete(key) => {
                self.compare(key);
                let t = self.place(key).0;
                let deleted = self.write(key, |w, tenant, k| Ok(w.delete(tenant, k))).unwrap();
                assert_eq!(deleted, self.known.remove(&(t, key)).is_some());
            }
            Op::Count { key, delta, up } => self.count(key, u64::from(delta), up),
            Op::Touch { key, ttl } => {
                self.compare(key);
                let t = self.place(key).0;
                let at = if ttl == 0 { 0 } else { self.now + u32::from(ttl) };
                let touched = self.write(key, |w, tenant, k| w.touch(tenant, k, at));
                // Making room may have evicted the item between the comparison and the touch.
                match touched {
                    Some(true) => self.known.get_mut(&(t, key)).unwrap().expires_at = at,
                    Some(false) => drop(self.known.remove(&(t, key))),
                    None => {}
                }
            }
            Op::Flush { tenant, delay } => {
                let t = usize::from(tenant);
                let at = self.now + u32::from(delay);
                self.store.flush(self.tenants[t].0, at);
                self.flushes.retain(|(waiting, _)| *waiting != t);
                if delay == 0 {
                    self.known.retain(|(owner, _), _| *owner != t);
                } else {
                    self.flushes.push((t, at));
                }
            }
            Op::Tick(secs) => self.tick(u32::from(secs)),
            Op::Maintain => {
                self.worker.maintain();
            }
        }
        self.worker.quiesce();
    }

    fn set(&mut self, key: u16, mode: u8, size: u32, ttl: u8, flags: u32) {
        self.compare(key);
        let t = self.place(key).0;
        let mode = [Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend][usize::from(mode)];
        let value = self.value(size);
        let fields =
            Fields { client_flags: flags, expires_at: if ttl == 0 { 0 } else { self.now + u32::from(ttl) } };
        let stored = self.write(key, |w, tenant, k| w.set(tenant, k, mode, fields, &value));
        let new = Known { value, flags, expires_at: fields.expires_at, cas: None };
        match stored {
            None if mode == Mode::Set => drop(self.known.remove(&(t, key))),
            Some(Stored::Stored) => {
                let old = self.known.remove(&(t, key));
                let new = match (mode, old) {
                    (Mode::Append, Some(old)) => {
                        Known { value: [old.value, new.value].concat(), cas: None, ..old }
                    }
                    (Mode::Prepend, Some(old)) => {
                        Known { value: [new.value, old.value].concat(), cas: None, ..old }
                    }
                    (Mode::Replace, None) => panic!("replaced nothing"),
                    _ => new,
                };
                self.known.insert((t, key), new);
            }
            Some(Stored::NotStored) => match mode {
                Mode::Add => assert!(self.known.contains_key(&(t, key))),
                // Evicted while room was made.
                _ => drop(self.known.remove(&(t, key))),
            },
            other => assert!(other.is_none(), "{other:?}"),
        }
    }

    fn cas(&mut self, key: u16, right: bool, size: u32) {
        self.compare(key);
        let t = self.place(key).0;
        let cas = self.known.get(&(t, key)).and_then(|k| k.cas).unwrap_or(1) + u64::from(!right) * 1_000_000;
        let value = self.value(size);
        let stored =
            self.write(key, |w, tenant, k| w.set(tenant, k, Mode::Cas(cas), Fields::default(), &value));
        match stored {
            Some(Stored::Stored) => {
                assert!(right);
                self.known.insert((t, key), Known { value, flags: 0, expires_at: 0, cas: None });
            }
            Some(Stored::Exists) => assert!(!right && self.known.contains_key(&(t, key))),
            Some(Stored::NotFound) => drop(self.known.remove(&(t, key))),
            Some(Stored::NotStored) => panic!("a CAS is never merely not stored"),
            None => {}
        }
    }

    fn count(&mut self, key: u16, delta: u64, up: bool) {
        self.compare(key);
        let t = self.place(key).0;
        // A value with pages of its own is no number, as one in several chunks is none of memcached's.
        let is_large = |w: &Worker, k: &store::Key<'_>| w.peek(k).is_some_and(|item| item.is_large());
        let is_large = self.write(key, |w, _, k| Ok(is_large(w, k))) == Some(true);
        let counted = self.write(key, |w, tenant, k| w.count_by(tenant, k, delta, up));
        let Some(counted) = counted else { return };
        let known = self.known.get_mut(&(t, key));
        let old = known.as_ref().filter(|_| !is_large).and_then(|k| number(&k.value));
        match (counted, known) {
            (Counted::Value(new), Some(known)) => {
                let old = old.unwrap();
                assert_eq!(new, if up { old.wrapping_add(delta) } else { old.saturating_sub(delta) });
                let mut value = new.to_string().into_bytes();
                // It keeps its length; a width of the formatter ends at 65,535.
                value.resize(value.len().max(known.value.len()), b' ');
                known.value = value;
                known.cas = None;
            }
            (Counted::NotNumber, Some(_)) => assert_eq!(old, None),
            (Counted::NotFound, _) => drop(self.known.remove(&(t, key))),
            (other, None) => panic!("{other:?} of nothing"),
        }
    }

    pub(crate) fn finish(mut self) -> u64 {
        for key in 0..KEYS {
            self.compare(key);
        }
        self.worker.quiesce();
        self.worker.check();
        let evictions: u64 = self.tenants.iter().map(|(t, _)| self.store.totals(*t).evictions).sum();
        assert!(self.missing <= evictions, "{} misses nobody explains, {evictions} evictions", self.missing);
        evictions
    }
}

/// A value as memcached reads a number: the first word, up to white space or a zero byte.
fn number(value: &[u8]) -> Option<u64> {
    let is_space = |b: &u8| b" \t\n\x0b\x0c\r".contains(b);
    let start = value.iter().position(|b| !is_space(b))?;
    let word = value[start..].split(|b| is_space(b) || *b == 0).next()?;
    std::str::from_utf8(word).ok()?.parse().ok()
}
