//! What has expired is room, whenever that was.

use crate::{has, held, maintain, new_store, set};
use units::{Bytes, TenantId};

/// Expired items give their space back without anybody needing it, soon after the last of those stored together, and nothing alive goes for
/// that.
#[test]
fn expired_items_are_reclaimed_without_need() {
    for ttl in [1, 9, 30, 65, 600, 86_400] {
        let (store, mut worker) = new_store(Bytes::mib(16), false, 1);
        for n in 0..20_000 {
            assert!(set(&mut worker, 0, n, &[1; 200], if n % 10 == 0 { 0 } else { store.now_secs() + ttl }));
        }
        let before = store.memory_use().available_segments;
        // An expiry is kept to a second or 3 %.
        store.set_now(store.now_secs() + ttl + ttl / 16 + 2);
        assert!(held(&store, 0) < 2_000 * 250, "expired bytes are not held: {}", held(&store, 0));
        maintain(&mut worker);
        let after = store.memory_use().available_segments;
        let freed = u64::from(after - before) * store.geometry().segment.0;
        assert!(20_000 * 230 / 4 < freed, "{freed} bytes came back of what lived for {ttl} s");
        assert!((0..20_000).step_by(10).all(|n| has(&worker, 0, n)), "something alive went");
        assert_eq!(store.totals(TenantId(0)).evictions, 0);
        worker.check();
    }
}

/// Where most of every segment has expired and the rest expires only somewhat later, so that the table says of nothing that it is dead, room
/// is made of what is, and nothing alive goes.
#[test]
fn what_is_alive_stays_where_the_table_knows_nothing_of_what_has_expired() {
    const FILL: u64 = 50_000;
    const NEW: u64 = 40_000;
    let (store, mut worker) = new_store(Bytes::mib(16), false, 1);
    let (soon, late) = (store.now_secs() + 9, store.now_secs() + 15);
    for n in 0..FILL {
        assert!(set(&mut worker, 0, n, &[1; 200], if n % 10 == 0 { late } else { soon }));
    }
    let evicted = || store.totals(TenantId(0)).evictions;
    let before = evicted();
    store.set_now(soon + 1);
    for n in FILL..FILL + NEW {
        assert!(set(&mut worker, 0, n, &[2; 200], 0));
        if n % 64 == 0 {
            worker.quiesce();
            while store.wants_cleaning() && worker.maintain() {}
        }
    }
    assert_eq!(evicted(), before);
    assert!((FILL..FILL + NEW).all(|n| has(&worker, 0, n)));
    worker.check();
}
