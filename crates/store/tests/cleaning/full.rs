//! What a store promises that may not evict and is full: refusals cost nothing, and what is dead is found wherever it lies.

use super::{has, new_store, set};
use std::collections::HashSet;
use std::sync::Arc;
use store::{Fields, Mode, Options, RankKind, Refused, Space, Store, TenantSpec, Worker};
use units::{Bytes, Rng, TenantId};

const TENANT: TenantId = TenantId(0);
const VALUE: [u8; 300] = [3; 300];
/// Bytes of log that such an item takes, about.
const ITEM: u64 = 300 + 23 + 10;

/// A store that holds items 0 to the answer and refuses more; all of them expire so long after it began.
fn filled(expires_at: u32) -> (Arc<Store>, Worker, u64) {
    let (store, mut worker) = new_store(Bytes::mib(8), true, 1);
    let mut stored = 0;
    while set(&mut worker, 0, stored, &VALUE, expires_at) {
        stored += 1;
    }
    (store, worker, stored)
}

fn delete(worker: &Worker, n: u64) {
    let text = format!("{n:023}");
    assert!(worker.delete(TENANT, &worker.key(Space::Own(TENANT), text.as_bytes()).unwrap()));
}

/// Passes, and items that they looked at.
fn effort(store: &Store) -> (u64, u64) {
    let passes = store.pass_totals();
    (passes.writers + passes.background, store.cleaner_totals().scanned_items)
}

#[test]
fn a_refusal_where_nothing_is_dead_begins_no_pass() {
    let (store, mut worker, stored) = filled(0);
    let before = effort(&store);
    for n in 0..1_000 {
        assert!(!set(&mut worker, 0, stored + n, &VALUE, 0));
        worker.help();
    }
    assert_eq!(effort(&store), before);
    // Once a second somebody looks anew, at the table.
    store.set_now(store.now_secs() + 1);
    for n in 0..1_000 {
        assert!(!set(&mut worker, 0, stored + n, &VALUE, 0));
    }
    assert_eq!(effort(&store), (before.0 + 1, before.1));
    assert!((0..stored).all(|n| has(&worker, 0, n)));
    worker.quiesce();
    worker.check();
}

#[test]
fn what_was_deleted_is_found_in_the_same_second() {
    let segment = Bytes::mib(8).0 / 128;
    // In a row, and scattered over a twelfth of the segments.
    for step in [1, 7] {
        let (store, mut worker, stored) = filled(0);
        let deleted: HashSet<u64> = (0..).step_by(step).take(to_usize(3 * segment / ITEM)).collect();
        deleted.iter().for_each(|n| delete(&worker, *n));
        let again = (0..stored).take_while(|n| set(&mut worker, 0, stored + n, &VALUE, 0)).count();
        assert!(to_usize(segment / ITEM) <= again, "{again} after {} by {step}", deleted.len());
        assert!((0..stored).filter(|n| !deleted.contains(n)).all(|n| has(&worker, 0, n)));
        assert_eq!(store.totals(TENANT).evictions, 0);
        worker.quiesce();
        worker.check();
    }
}

#[test]
fn what_has_expired_or_was_flushed_is_found_when_it_is_needed() {
    // One in four expires, long before its segments are so old that their rows tell.
    let (store, mut worker) = new_store(Bytes::mib(8), true, 1);
    let expires_at = |n: u64| if n.is_multiple_of(4) { store.now_secs() + 100 } else { 0 };
    let stored = (0..).take_while(|n| set(&mut worker, 0, *n, &VALUE, expires_at(*n))).count() as u64;
    store.set_now(store.now_secs() + 101);
    let again = (0..stored).take_while(|n| set(&mut worker, 0, stored + n, &VALUE, 0)).count() as u64;
    assert!(stored / 5 < again, "{again} of {}", stored / 4);
    assert!((0..stored).filter(|n| !n.is_multiple_of(4)).all(|n| has(&worker, 0, n)));
    assert!(!set(&mut worker, 0, stored + again, &VALUE, 0));
    store.flush(TENANT, 0);
    let flushed = (0..stored).take_while(|n| set(&mut worker, 0, *n, &VALUE, 0)).count() as u64;
    assert!(stored * 9 / 10 < flushed, "{flushed} of {stored}");
    worker.quiesce();
    worker.check();
}

/// Whatever is written over, deleted and stored: a write is refused only where nearly all is alive, and nothing is lost.
#[test]
fn nothing_is_refused_while_a_tenth_is_dead() {
    for seed in 1..=4 {
        let (store, mut worker) = new_store(Bytes::mib(8), true, 1);
        let mut rng = Rng::new(seed);
        let mut alive = std::collections::HashMap::new();
        let (mut bytes, mut refused, mut wanted) = (0, 0, 30_000);
        for step in 0..200_000_u64 {
            // Phases in which there is more, and less.
            if step.is_multiple_of(20_000) {
                wanted = 10_000 + rng.below(40_000);
            }
            let n = rng.below(60_000);
            let len = 50 + rng.index(400);
            if wanted < alive.len() as u64 {
                if let Some(len) = alive.remove(&n) {
                    delete(&worker, n);
                    bytes -= len;
                }
                continue;
            }
            if set(&mut worker, 0, n, &VALUE.repeat(2)[..len], 0) {
                let len = len as u64 + ITEM - 300;
                bytes += len;
                bytes -= alive.insert(n, len).unwrap_or(0);
            } else {
                refused += 1;
                let least = store.geometry().divisible.0 * 9 / 10;
                assert!(least < bytes + 9 * alive.len() as u64, "{bytes} in {} are alive", alive.len());
            }
        }
        assert!(0 < refused, "it was never full");
        assert!(alive.keys().all(|n| has(&worker, 0, *n)), "something was lost");
        assert_eq!(store.totals(TENANT).evictions, 0);
        worker.quiesce();
        worker.check();
    }
}

/// Writers who write over what is theirs, side by side, in a store that is nine tenths full: nobody is refused because another has at
/// the moment what is dead.
#[test]
fn writers_side_by_side_are_not_refused_while_a_tenth_is_dead() {
    const WRITERS: u64 = 3;
    let (memory, item_max) = (Bytes::mib(16), Bytes::kib(64));
    let store = Store::new(Options { memory, item_max, threads: 3, tenants_max: 1, no_evict: true, seed: 1 })
        .unwrap();
    let (name, claim) = ("t".to_owned(), control::Claim::default());
    store.add_tenant(TenantSpec { name, own_space: true, claim, rank: RankKind::Lru }).unwrap();
    let each = store.geometry().divisible.0 * 9 / 10 / WRITERS / (ITEM + 9);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let mut worker = store.worker().unwrap();
                let mut rng = Rng::new(writer + 1);
                for step in 0..8 * each {
                    let n = writer * each + if step < each { step } else { rng.below(each) };
                    write(&mut worker, n);
                    worker.quiesce();
                }
                assert!((writer * each..(writer + 1) * each).all(|n| has(&worker, 0, n)));
            });
        }
    });
    let mut worker = store.worker().unwrap();
    worker.quiesce();
    worker.check();
}

fn write(worker: &mut Worker, n: u64) {
    let text = format!("{n:023}");
    loop {
        let key = worker.key(Space::Own(TENANT), text.as_bytes()).unwrap();
        match worker.set(TENANT, &key, Mode::Set, Fields::default(), &VALUE) {
            Ok(_) => return,
            Err(Refused::NoRoom) => worker.make_room().expect("a tenth is dead"),
            Err(refused) => panic!("{refused:?}"),
        }
    }
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap()
}
