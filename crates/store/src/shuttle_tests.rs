//! The whole store under generated schedules.

use crate::sync::explore;
use crate::{Fields, Key, Mode, Options, RankKind, Refused, Space, Store, TenantSpec, Worker};
use control::Claim;
use control::memory::MemoryShare;
use shuttle::thread;
use std::sync::Arc;
use units::{Bytes, TenantId};

/// Three items of this size fill a segment.
const LARGE: usize = 21_000;
const TENANT: TenantId = TenantId(0);

/// A store of seven segments of 64 KiB.
pub(crate) const OPTIONS: Options = Options {
    memory: Bytes::kib(512),
    item_max: Bytes::kib(64),
    threads: 2,
    tenants_max: 1,
    no_evict: false,
    seed: 1,
};

/// Such a store with one tenant.
fn new_store() -> Arc<Store> {
    let store = Store::new(OPTIONS).unwrap();
    let spec = TenantSpec {
        name: "default".to_owned(),
        own_space: false,
        claim: Claim::default(),
        rank: RankKind::Lru,
    };
    assert_eq!(store.add_tenant(spec), Some(TENANT));
    store
}

fn key<'k>(worker: &Worker, name: &'k str) -> Key<'k> {
    worker.key(Space::Shared, name.as_bytes()).unwrap()
}

/// Stores a value that is its key's first letter, `len` times. Returns false if there is no memory.
fn try_set(worker: &mut Worker, name: &str, len: usize, expires_at: u32) -> bool {
    let value = vec![name.as_bytes()[0]; len];
    let fields = Fields { expires_at, ..Fields::default() };
    while let Err(refused) = worker.set(TENANT, &key(worker, name), Mode::Set, fields, &value) {
        assert_eq!(refused, Refused::NoRoom);
        if worker.make_room().is_err() {
            return false;
        }
    }
    true
}

fn set(worker: &mut Worker, name: &str, len: usize, expires_at: u32) {
    assert!(try_set(worker, name, len, expires_at), "out of memory");
}

/// Whether a key is there; its value must be its own.
fn has(worker: &Worker, name: &str) -> bool {
    worker.get(TENANT, &key(worker, name)).is_some_and(|item| {
        assert!(item.value().iter().all(|b| *b == name.as_bytes()[0]), "bytes of another item");
        true
    })
}

/// What was stored before a flush is dead when it returns, what is stored after is alive, live bytes are exact.
#[test]
fn a_flush_divides_before_from_after() {
    explore(600, || {
        let store = new_store();
        let writing = Arc::clone(&store);
        let mut worker = store.worker().unwrap();
        set(&mut worker, "before", 10, 5);
        let clock = Arc::clone(&store);
        let clock = thread::spawn(move || clock.set_now(6));
        let writer = thread::spawn(move || {
            let mut worker = writing.worker().unwrap();
            set(&mut worker, "racing", 10, 0);
            set(&mut worker, "before", 20, 0);
            worker.delete(TENANT, &key(&worker, "racing"));
        });
        set(&mut worker, "mine", 10, 0);
        store.flush(TENANT, 0);
        assert!(!has(&worker, "mine"), "survived the flush");
        set(&mut worker, "mine", 10, 0);
        assert!(has(&worker, "mine"), "died of a flush before it");
        worker.go_offline();
        writer.join().unwrap();
        clock.join().unwrap();
        worker.go_online();
        worker.check();
    });
}

/// What the cleaner copies never takes the place of what a writer stores meanwhile.
#[test]
fn the_cleaner_never_brings_an_old_value_back() {
    explore(200, || {
        let store = new_store();
        let mut worker = store.worker().unwrap();
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            set(&mut worker, name, LARGE, 0);
        }
        let writing = Arc::clone(&store);
        let writer = thread::spawn(move || {
            let mut worker = writing.worker().unwrap();
            for name in ["a", "d"] {
                set(&mut worker, name, 1_000, 0);
            }
        });
        worker.clean();
        worker.go_offline();
        writer.join().unwrap();
        worker.go_online();
        for name in ["a", "d"] {
            assert!(worker.peek(&key(&worker, name)).is_none_or(|item| item.value().len() == 1_000));
        }
        worker.check();
    });
}

/// A value that a reader holds stays what it was while its key is overwritten and the log turns over.
#[test]
fn a_value_held_is_not_overwritten() {
    explore(200, || {
        let store = new_store();
        let mut worker = store.worker().unwrap();
        for name in ["a", "b", "c", "d"] {
            set(&mut worker, name, LARGE, 0);
        }
        worker.go_offline();
        let reading = Arc::clone(&store);
        let reader = thread::spawn(move || {
            let worker = reading.worker().unwrap();
            if let Some(item) = worker.get(TENANT, &key(&worker, "a")) {
                for _ in 0..100 {
                    thread::yield_now();
                }
                assert!(item.value().iter().all(|b| *b == b'a'), "bytes of another item");
            }
        });
        worker.go_online();
        for name in ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"] {
            if !try_set(&mut worker, name, LARGE, 0) {
                break;
            }
        }
        worker.go_offline();
        reader.join().unwrap();
        worker.go_online();
        worker.check();
    });
}

/// A flush and an expiry that race the cleaner, which copies what they kill, leave live bytes exact.
#[test]
fn live_bytes_are_exact_whatever_races_the_cleaner() {
    explore(300, || {
        let store = new_store();
        let mut worker = store.worker().unwrap();
        for name in ["a", "b", "c", "d", "e", "f", "g"] {
            let expires_at = if name < "d" { 10 } else { 0 };
            set(&mut worker, name, LARGE, expires_at);
        }
        for name in ["a", "d"] {
            worker.delete(TENANT, &key(&worker, name));
        }
        let killing = Arc::clone(&store);
        let killer = thread::spawn(move || {
            killing.set_now(10);
            killing.flush(TENANT, 0);
        });
        worker.clean();
        worker.go_offline();
        killer.join().unwrap();
        worker.go_online();
        worker.check();
        assert_eq!(store.tenant_state(TENANT).unwrap().held, Bytes::ZERO);
    });
}

/// A tenant above its ceiling loses what lies in a head while its owner writes there: the rest stays what it was, and what it
/// holds is exact.
#[test]
fn a_head_is_trimmed_while_it_is_written() {
    explore(300, || {
        let store = new_store();
        let ceiling = Bytes(1_000);
        let share = MemoryShare { ceiling: Some(ceiling), ..MemoryShare::of(ceiling) };
        store.tenant(TENANT).set_share(share, Bytes::kib(1));
        let writing = Arc::clone(&store);
        let writer = thread::spawn(move || {
            let mut worker = writing.worker().unwrap();
            for name in ["a", "b", "a", "c", "d"] {
                set(&mut worker, name, 600, 0);
                has(&worker, name);
            }
        });
        let mut worker = store.worker().unwrap();
        worker.maintain();
        worker.go_offline();
        writer.join().unwrap();
        worker.go_online();
        ["a", "b", "c", "d"].into_iter().for_each(|name| _ = has(&worker, name));
        worker.maintain();
        worker.check();
        assert!(store.held(TENANT) <= Bytes(1_000 + 1_000 / 64), "{}", store.held(TENANT));
    });
}

/// Two workers that write, read, delete, expire and make room at once see only their keys' bytes; every structure is
/// whole at the end.
#[test]
fn two_workers_and_their_cleaners() {
    explore(200, || {
        let store = new_store();
        let run = |names: [&'static str; 5]| {
            let store = Arc::clone(&store);
            move || {
                let mut worker = store.worker().unwrap();
                for (i, name) in names.into_iter().enumerate() {
                    set(&mut worker, name, LARGE, if i == 0 { 10 } else { 0 });
                    has(&worker, names[0]);
                    has(&worker, "a");
                    worker.quiesce();
                }
                worker.delete(TENANT, &key(&worker, names[3]));
            }
        };
        let threads =
            [thread::spawn(run(["a", "b", "c", "d", "e"])), thread::spawn(run(["f", "a", "g", "c", "b"]))];
        let mut worker = store.worker().unwrap();
        worker.go_offline();
        store.set_now(11);
        for thread in threads {
            thread.join().unwrap();
        }
        worker.go_online();
        worker.check();
    });
}
