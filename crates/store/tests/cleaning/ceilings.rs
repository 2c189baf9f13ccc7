//! Ceilings: no tenant stays above its own, wherever what it holds lies.

use super::{has, held, new_store, put_in_force, set};
use control::Claim;
use control::memory::MemoryShare;
use std::sync::Arc;
use store::{Options, RankKind, Store, TenantSpec, Worker};
use units::{Bytes, TenantId};

/// Threads that write, each into a segment of its own.
const WRITERS: usize = 4;

/// A store of tenants with a ceiling of one segment each, and its threads.
fn start(tenants: u32) -> (Arc<Store>, Vec<Worker>, u64) {
    let options = Options {
        memory: Bytes::mib(64),
        item_max: Bytes::kib(64),
        threads: WRITERS + 1,
        tenants_max: 8,
        no_evict: false,
        seed: 1,
    };
    let store = Store::new(options).unwrap();
    for i in 0..tenants {
        let (name, claim, rank) = (format!("t{i}"), Claim::default(), RankKind::Lru);
        store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
    }
    let segment = store.geometry().segment;
    let share = MemoryShare { ceiling: Some(segment), ..MemoryShare::of(segment) };
    put_in_force(&store, &vec![share; tenants as usize]);
    let workers = (0..WRITERS).map(|_| store.worker().unwrap()).collect();
    (store, workers, segment.0)
}

fn maintain(cleaner: &mut Worker) {
    while cleaner.maintain() {}
}

/// What a tenant has written stays above its ceiling nowhere, though no segment that it wrote into is full.
#[test]
fn a_ceiling_holds_for_what_lies_in_segments_that_are_being_filled() {
    let (store, mut workers, segment) = start(2);
    let mut cleaner = store.worker().unwrap();
    maintain(&mut cleaner);
    for (at, worker) in (0_u64..).zip(&mut workers) {
        for n in 0..segment * 8 / 10 / 1_000 {
            assert!(set(worker, 0, at << 32 | n, &[1; 950], 0));
        }
        for n in 0..segment / 10 / 1_000 {
            assert!(set(worker, 1, at << 32 | n, &[1; 950], 0));
        }
        worker.go_offline();
    }
    assert!(3 * segment < held(&store, 0), "{} are held", held(&store, 0));
    let other = held(&store, 1);
    maintain(&mut cleaner);
    let kept = held(&store, 0);
    assert!(kept <= segment / 64 * 65 && segment / 10 * 9 < kept, "{kept} are held of {segment}");
    assert_eq!(held(&store, 1), other, "who is below its ceiling loses nothing");
    workers.iter_mut().for_each(Worker::go_online);
    cleaner.check();
}

/// Nor while its owner goes on to fill it.
#[test]
fn a_ceiling_holds_while_others_write() {
    let (store, workers, segment) = start(1);
    let mut cleaner = store.worker().unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0_u64..)
            .zip(workers)
            .map(|(at, mut worker)| {
                scope.spawn(move || {
                    for n in 0..segment * 5 / 1_000 {
                        assert!(set(&mut worker, 0, (at << 32) | (n % 700), &[1; 950], 0));
                        worker.quiesce();
                    }
                })
            })
            .collect();
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            cleaner.maintain();
        }
    });
    maintain(&mut cleaner);
    assert!(held(&store, 0) <= segment / 64 * 65, "{} are held of {segment}", held(&store, 0));
    assert!(0 < store.totals(TenantId(0)).evictions);
    cleaner.check();
}

#[test]
fn without_eviction_a_ceiling_takes_nothing() {
    let (store, mut worker) = new_store(Bytes::mib(16), true, 2);
    let share = MemoryShare { ceiling: Some(Bytes::mib(1)), ..MemoryShare::of(Bytes::mib(1)) };
    put_in_force(&store, &[share; 2]);
    assert!((0..3_000).all(|n| set(&mut worker, 0, n, &[1; 1_000], 0)));
    maintain(&mut worker);
    assert!((0..3_000).all(|n| has(&worker, 0, n)));
}
