//! Passes over tiers: what they take, what they leave, what is lost.

use super::*;
use crate::passes::By;
use crate::sync::lock;
use crate::worker::Worker;
use crate::{Fields, Mode, Options, Placement, RankKind, TenantSpec};
use control::Claim;
use media::FileTier;
use std::sync::Arc;
use units::Bytes;

#[test]
fn a_tier_has_one_pass_at_a_time_in_memory_that_is_counted() {
    let folder = std::env::temp_dir().join(format!("cotenant-passes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let device = Arc::new(FileTier::open(&folder.join("tier"), Bytes::mib(16)).unwrap());
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 1,
        tenants_max: 2,
        no_evict: false,
        seed: 1,
    };
    let store = Store::with_tiers(options, &[device], 1_000_000_000).unwrap();
    let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
    let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
    assert!(store.set_placement(tenant, Placement::Tier(0)));
    let mut worker = store.worker().unwrap();
    worker.restore(None, &mut |_, _| None);
    for number in 0..2_000 {
        let text = format!("key {number}");
        let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        while worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 2_000]).is_err() {
            worker.make_room().unwrap();
        }
        worker.quiesce();
    }
    worker.clean_tiers(By::Background);
    let tier = &store.tiers[0];
    let sources = limits::TIER_PASS_WIDTH_UNMAPPED as u64 * tier.segments.bytes();
    assert_eq!(tier.memory(), tier.area.memory() + Bytes(sources), "notes are in the file");
    let mut cleaner = TierCleaner::new(Rng::new(1));
    let mut pass = |worker: &mut Worker| cleaner.pass(&store, &mut worker.reader, &worker.counters, tier);
    let another = lock(&tier.sources);
    assert_eq!(pass(&mut worker), None, "another is at it");
    assert_eq!(tier.counters.totals().passes, 0);
    drop(another);
    assert!(pass(&mut worker).is_some());
    assert_eq!(tier.counters.totals().passes, 1);
    worker.check();
    std::fs::remove_dir_all(folder).unwrap();
}

/// What a reader may still see is room as soon as it looks away: nothing more is evicted for it.
#[test]
fn what_was_emptied_and_waits_for_a_reader_is_room() {
    let options = Options {
        memory: Bytes::mib(8),
        item_max: Bytes::kib(64),
        threads: 2,
        tenants_max: 2,
        no_evict: false,
        seed: 1,
    };
    let device = Arc::new(media::Plain::new(Bytes::mib(16)).unwrap());
    let store = Store::with_tiers(options, &[device], 0).unwrap();
    let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
    let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
    assert!(store.set_placement(tenant, Placement::Tier(0)));
    let (mut worker, mut reader) = (store.worker().unwrap(), store.worker().unwrap());
    reader.go_offline();
    let tier = &store.tiers[0];
    let mut number = 0;
    while !tier.wants_cleaning() {
        let text = format!("key {number}");
        let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        while worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 2_000]).is_err() {
            worker.make_room().unwrap();
        }
        worker.quiesce();
        number += 1;
    }
    reader.go_online();
    worker.clean_tiers(By::Background);
    let passes = tier.counters.totals().passes;
    assert!(0 < passes && 0 < tier.segments.retired(), "the reader holds what {passes} passes emptied");
    let evicted = store.totals(tenant).evictions;
    (0..10).for_each(|_| _ = worker.clean_tiers(By::Background));
    assert_eq!((tier.counters.totals().passes, store.totals(tenant).evictions), (passes, evicted));
    reader.go_offline();
    worker.clean_tiers(By::Background);
    assert_eq!(tier.segments.retired(), 0);
    assert!(!tier.wants_cleaning(), "it goes on once the reader has looked away");
}
