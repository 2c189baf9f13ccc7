//! What is told of cleaning: evictions, items that expired unasked, and writes that found no memory.

use super::{has, new_store, set};
use store::{Eviction, Store};
use units::{Bytes, TenantId};

/// What the classes and the tenant say of evictions and of items that expired is what became of the items.
#[test]
fn the_last_eviction_and_what_expired_unasked_are_told() {
    let (store, mut worker) = new_store(Bytes::mib(8), false, 1);
    let totals = |store: &Store| store.totals(TenantId(0));
    store.set_now(100);
    let mut n = 0;
    while totals(&store).evictions == 0 {
        assert!(set(&mut worker, 0, n, &[1; 1000], if n % 2 == 0 { 0 } else { 1_000_000 }));
        n += 1;
    }
    // Everything was stored in this second.
    assert_eq!(totals(&store).last_eviction, Eviction { at_secs: 100, idle_secs: 0 });
    store.set_now(700);
    for _ in 0..2_000 {
        assert!(set(&mut worker, 0, n, &[1; 1000], 0));
        n += 1;
    }
    let all = totals(&store);
    assert_eq!(all.last_eviction, Eviction { at_secs: 700, idle_secs: 600 });
    assert!(0 < all.evicted_nonzero && all.evicted_nonzero < all.evictions, "{all:?}");
    let classes = store.class_totals(true);
    let sum = |of: fn(&store::ClassTotals) -> u64| classes.iter().map(of).sum::<u64>();
    assert_eq!((sum(|c| c.evicted), sum(|c| c.evicted_nonzero)), (all.evictions, all.evicted_nonzero));
    assert_eq!(classes.iter().map(|c| c.last_eviction).max(), Some(all.last_eviction));
    assert_eq!(all.since(&all).last_eviction, Eviction::default(), "there was none since");
    // The rest expires; one of a hundred was asked for.
    let asked = (0..n).filter(|n| n % 100 == 1).filter(|n| has(&worker, 0, *n)).count() as u64;
    store.set_now(1_000_001);
    for more in 0..40_000 {
        assert!(set(&mut worker, 0, n + more, &[1; 1000], 0));
    }
    let all = totals(&store);
    assert!(0 < asked && 0 < all.expired_unfetched, "{asked} {all:?}");
    let fetched = (all.reclaimed - all.expired_unfetched) + (all.evictions - all.evicted_unfetched);
    // Some may stand in a destination that is still open.
    assert!(asked / 2 < fetched && fetched <= asked, "{fetched} of {asked}: {all:?}");
    let expired: u64 = store.class_totals(true).iter().map(|class| class.expired_unfetched).sum();
    assert_eq!(expired, all.expired_unfetched);
}

#[test]
fn a_class_counts_the_writes_that_found_no_memory() {
    let (store, mut worker) = new_store(Bytes::mib(8), true, 1);
    let mut n = 0;
    while set(&mut worker, 0, n, &[1; 1000], 0) {
        n += 1;
    }
    worker.note_no_memory(TenantId(0), None);
    let classes = store.class_totals(true);
    let counted: Vec<_> = (0..classes.len()).filter(|class| 0 < classes[*class].out_of_memory).collect();
    let full: Vec<_> = (0..classes.len()).filter(|class| 0 < classes[*class].items).collect();
    assert_eq!((counted, classes[full[0]].out_of_memory), (full.clone(), 1));
}
