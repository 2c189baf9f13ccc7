//! What tenants do at tiers is counted to the byte and the picosecond, by tenant and by tier.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

use control::Claim;
use media::model::MemorySystem;
use media::{Device, Plain, Profile, SlowAccess};
use std::sync::Arc;
use store::{
    BelowTotals, Counted, Fields, Key, Mode, Options, Placement, RankKind, Refused, Space, Store, StoreError,
    TenantSpec, Worker,
};
use units::{Bytes, TenantId};

/// Lengths of values: in one line and a few, at the end of the profile and beyond it.
const LENGTHS: [usize; 7] = [128, 200, 1_000, 4_000, 4_096, 5_000, 50_000];
/// Bytes of a record beside key and value.
const HEADER: usize = 40;

const OPTIONS: Options = Options {
    memory: Bytes::mib(8),
    item_max: Bytes::kib(256),
    threads: 3,
    tenants_max: 4,
    no_evict: false,
    seed: 1,
};

fn store() -> (Arc<Store>, [TenantId; 2]) {
    let plain = || -> Arc<dyn Device> { Arc::new(Plain::new(Bytes::mib(64)).unwrap()) };
    let store = Store::with_tiers(OPTIONS, &[plain(), plain()], 0).unwrap();
    let tenants = ["a", "b"].map(|name| {
        let (claim, rank) = (Claim::default(), RankKind::default());
        store.add_tenant(TenantSpec { name: name.to_owned(), own_space: false, claim, rank }).unwrap()
    });
    (store, tenants)
}

#[test]
fn a_tier_beyond_what_references_tell_is_refused() {
    let largest = 1 << 46;
    let Ok(tier) = Plain::new(Bytes(largest + 4096)) else {
        println!("skipped: the system maps no 64 TiB");
        return;
    };
    let refused = Store::with_tiers(OPTIONS, &[Arc::new(tier)], 0).map(|_| ());
    assert!(
        matches!(refused, Err(StoreError::TierSize(Bytes(size))) if size == largest + 4096),
        "{refused:?}"
    );
}

fn key(worker: &Worker, tenant: TenantId, n: usize) -> Key<'static> {
    let text = format!("{}:{n:04}", tenant.0);
    worker.key(Space::Shared, text.leak().as_bytes()).unwrap()
}

fn set(worker: &mut Worker, tenant: TenantId, n: usize, len: usize) {
    let key = key(worker, tenant, n);
    loop {
        match worker.set(tenant, &key, Mode::Set, Fields::default(), &vec![b'v'; len]) {
            Ok(_) => return worker.quiesce(),
            Err(Refused::NoRoom) => worker.make_room().unwrap(),
            Err(why) => panic!("{why:?}"),
        }
    }
}

/// What a value's record takes, and one access to it costs of a tier's time.
fn footprint(len: usize) -> Bytes {
    Bytes((HEADER + "0:0000".len() + len).next_multiple_of(64) as u64)
}

/// What `times` accesses to records of each length are: accesses, bytes, cost by `store`'s tier.
fn expected(store: &Store, tier: u8, kind: SlowAccess, times: u64) -> (u64, u64, u64) {
    let bytes = LENGTHS.map(|len| footprint(len).0).iter().sum::<u64>();
    let cost = |len| store.access_cost_ps(tier, kind, footprint(len)).unwrap();
    (times * LENGTHS.len() as u64, times * bytes, times * LENGTHS.map(cost).iter().sum::<u64>())
}

#[test]
fn every_access_is_counted_with_its_bytes_and_its_cost() {
    let (store, [a, b]) = store();
    let profile = Profile::new(&Profile::modelled(&MemorySystem::nyx())).unwrap();
    assert!(store.set_profile(0, profile));
    assert!(store.set_placement(a, Placement::Tier(0)) && store.set_placement(b, Placement::Tier(1)));
    let mut worker = store.worker().unwrap();
    for tenant in [a, b] {
        for (n, len) in LENGTHS.into_iter().enumerate() {
            set(&mut worker, tenant, n, len);
        }
    }
    // Another thread's reads count as the first one's do.
    let reads = |worker: &mut Worker, tenant, times| {
        for n in (0..times).flat_map(|_| 0..LENGTHS.len()) {
            assert_eq!(worker.get(tenant, &key(worker, tenant, n)).unwrap().value().len(), LENGTHS[n]);
            worker.quiesce();
        }
    };
    reads(&mut worker, a, 3);
    let mut other = store.worker().unwrap();
    reads(&mut other, a, 2);
    reads(&mut other, b, 4);
    let written = expected(&store, 0, SlowAccess::Write, 1);
    let read = expected(&store, 0, SlowAccess::Read, 5);
    let seen = store.totals(a);
    let first = seen.tiers[0];
    assert_eq!((first.written.accesses, first.written.bytes), (written.0, written.1));
    assert_eq!((first.read.accesses, first.read.bytes, first.hits), (read.0, read.1, read.0));
    assert_eq!((first.cost_ps, seen.tier_cost_ps), (written.2 + read.2, written.2 + read.2));
    assert_eq!(seen.tiers[1], BelowTotals::default(), "it has nothing there");
    let seen = store.totals(b);
    let read = expected(&store, 1, SlowAccess::Read, 4);
    assert_eq!((seen.tiers[1].read.accesses, seen.tiers[1].read.bytes), (read.0, read.1));
    assert_eq!((seen.slow_read.bytes, seen.tier_hits, seen.tier_cost_ps), (read.1, read.0, 0));
    assert_eq!(seen.tiers[0], BelowTotals::default());
}

/// A value that is lengthened is read where it was, for whose it was, and written where its new owner's values go.
#[test]
fn what_is_read_and_written_at_once_is_counted_where_it_was() {
    let (store, [a, b]) = store();
    assert!(store.set_placement(a, Placement::Tier(0)) && store.set_placement(b, Placement::Tier(1)));
    let mut worker = store.worker().unwrap();
    set(&mut worker, a, 0, 1_000);
    let key = key(&worker, a, 0);
    worker.set(b, &key, Mode::Append, Fields::default(), &[b'v'; 1_000]).unwrap();
    // The same value as a number: it is read, and refused.
    assert_eq!(worker.count_by(a, &key, 1, true), Ok(Counted::NotNumber));
    worker.quiesce();
    let seen =
        |tenant| store.totals(tenant).tiers.map(|tier: BelowTotals| (tier.read.bytes, tier.written.bytes));
    let (short, long) = (footprint(1_000).0, footprint(2_000).0);
    assert_eq!((seen(a)[0], seen(a)[1]), ((short, short), (0, 0)));
    assert_eq!((seen(b)[0], seen(b)[1]), ((0, 0), (long, long)));
}

#[test]
fn what_an_access_costs_changes_with_the_tier_whose_time_is_divided_and_with_its_profile() {
    let (store, [a, b]) = store();
    assert!(store.set_placement(a, Placement::Tier(0)) && store.set_placement(b, Placement::Tier(1)));
    let mut worker = store.worker().unwrap();
    let mut cost_of_one = |tenant, n| {
        let before = store.totals(tenant).tier_cost_ps;
        set(&mut worker, tenant, n, 1_000);
        store.totals(tenant).tier_cost_ps - before
    };
    let size = footprint(1_000);
    assert_eq!((cost_of_one(a, 0), cost_of_one(b, 0)), (size.0 * 1_000, 0), "a nanosecond per byte");
    assert!(store.divide_tier(1));
    assert_eq!((cost_of_one(a, 1), cost_of_one(b, 1)), (0, size.0 * 1_000));
    let profile = Profile::new(&Profile::modelled(&MemorySystem::nyx())).unwrap();
    let probed = profile.cost_ps(SlowAccess::Write, size);
    assert!(store.set_profile(1, profile) && probed != size.0 * 1_000);
    assert_eq!((cost_of_one(a, 2), cost_of_one(b, 2)), (0, probed));
    assert!(store.divide_tier(0));
    assert_eq!((cost_of_one(a, 3), cost_of_one(b, 3)), (size.0 * 1_000, 0));
}

#[test]
fn values_in_a_tier_are_counted_as_long_as_they_are_there() {
    let (store, [a, b]) = store();
    assert!(store.set_placement(a, Placement::Tier(0)) && store.set_placement(b, Placement::Tier(1)));
    let mut worker = store.worker().unwrap();
    let mut counted = Vec::new();
    let mut note = || counted.push([a, b].map(|tenant| store.tenant_state(tenant).unwrap().away_items));
    for n in 0..10 {
        set(&mut worker, a, n, 1_000);
        set(&mut worker, b, n, 1_000);
    }
    note();
    (0..5).for_each(|n| set(&mut worker, a, n, 2_000));
    note();
    for n in 0..10 {
        let key = key(&worker, a, n);
        assert!(worker.delete(a, &key));
        worker.quiesce();
    }
    note();
    assert!(store.set_placement(b, Placement::Dram));
    (0..10).for_each(|n| set(&mut worker, b, n, 1_000));
    note();
    assert_eq!(counted, [[10, 10], [10, 10], [0, 10], [0, 0]]);
    assert_eq!([a, b].map(|tenant| store.tenant_state(tenant).unwrap().away), [Bytes::ZERO; 2]);
}
