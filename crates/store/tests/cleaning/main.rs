//! What cleaning promises: shares are reached, dead space comes back by itself, small items cost what the sum says, and
//! a store that may not evict loses nothing.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not happen")]

mod ceilings;
mod ends;
mod expired;
mod full;
mod told;
mod waiting;

use control::memory::MemoryShare;
use control::{Actuator, Amount, Claim, Decision, Law, Pool, Row, Seen, Shares, Window};
use std::sync::Arc;
use store::{
    Fields, FixedPass, MemoryControl, Mode, Options, PassKind, RankKind, Refused, Space, Store, TenantSpec,
    Worker,
};
use units::{Bytes, Duration, Instant, Rng, TenantId};

fn new_store(memory: Bytes, no_evict: bool, tenants: usize) -> (Arc<Store>, Worker) {
    let options = Options { memory, item_max: Bytes::kib(64), threads: 1, tenants_max: 8, no_evict, seed: 1 };
    let store = Store::new(options).unwrap();
    for i in 0..tenants {
        let claim = Claim { floor: Amount::memory(Bytes::ZERO), ..Claim::default() };
        let spec = TenantSpec { name: format!("t{i}"), own_space: true, claim, rank: RankKind::Lru };
        store.add_tenant(spec).unwrap();
    }
    let worker = store.worker().unwrap();
    (store, worker)
}

/// Stores a value; false if there is no memory.
fn set(worker: &mut Worker, tenant: u32, n: u64, value: &[u8], expires_at: u32) -> bool {
    let tenant = TenantId(tenant);
    let text = format!("{n:023}");
    loop {
        let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
        match worker.set(tenant, &key, Mode::Set, Fields { expires_at, ..Fields::default() }, value) {
            Ok(_) => return true,
            Err(Refused::NoRoom) if worker.make_room().is_err() => return false,
            Err(Refused::NoRoom) => {}
            Err(refused) => panic!("{refused:?}"),
        }
    }
}

fn has(worker: &Worker, tenant: u32, n: u64) -> bool {
    let text = format!("{n:023}");
    worker
        .get(TenantId(tenant), &worker.key(Space::Own(TenantId(tenant)), text.as_bytes()).unwrap())
        .is_some()
}

fn held(store: &Store, tenant: u32) -> u64 {
    store.tenant_state(TenantId(tenant)).unwrap().held.0
}

/// Puts shares in force, in bytes.
fn share_out(store: &Arc<Store>, targets: &[u64]) {
    let shares: Vec<_> = targets.iter().map(|target| MemoryShare::of(Bytes(*target))).collect();
    put_in_force(store, &shares);
}

fn put_in_force(store: &Arc<Store>, all: &[MemoryShare]) {
    let rows: Vec<Row<(), MemoryShare>> = (0..all.len())
        .map(|i| Row {
            id: TenantId(u32::try_from(i).unwrap()),
            claim: Claim::default(),
            signal: None,
            in_force: None,
        })
        .collect();
    let mut shares = Shares::default();
    let pool = Pool::default();
    let seen = Seen::new(Window::default(), &pool, &rows).unwrap();
    shares.rebuild(Law::Free, &seen, rows.iter().map(|row| row.id).zip(all.iter().copied()));
    let decision = Decision {
        shares: &shares,
        wake: Duration::from_secs(1),
        lease: Duration::from_secs(1),
        steady: true,
        notes: &[],
    };
    MemoryControl::new(Arc::clone(store)).apply(Instant::default(), &decision, &mut Vec::new());
}

/// M3: under fixed shares, each tenant that keeps writing comes to hold its part, within two segments: what is written
/// between two passes (five segments here) is not the cleaner's yet, and most of it is one tenant's.
#[test]
fn m3_holdings_converge_to_the_shares() {
    let (store, mut worker) = new_store(Bytes::mib(16), false, 3);
    let divisible = store.geometry().divisible.0;
    let targets = [divisible / 2, divisible / 3, divisible / 6];
    share_out(&store, &targets);
    let mut rng = Rng::new(2);
    for turn in 0..400_000_u64 {
        // The smallest share writes the most: it must not get more for it.
        let tenant = [0, 1, 2, 2, 2, 2][rng.index(6)];
        assert!(set(&mut worker, tenant, turn, &[1; 200], 0));
    }
    let sum: u64 = (0..3).map(|t| held(&store, t)).sum();
    for (t, target) in (0_u32..).zip(targets) {
        let fair = u128::from(target) * u128::from(sum) / u128::from(divisible);
        let off = held(&store, t).abs_diff(u64::try_from(fair).unwrap());
        assert!(off <= 2 * store.geometry().segment.0, "tenant {t} holds {} of {fair}", held(&store, t));
    }
    let free = divisible.saturating_sub(sum);
    assert!(free <= 5 * store.geometry().segment.0, "{sum} of {divisible} are used");
    worker.quiesce();
    worker.check();
}

/// Items that fill so many hundredths of the memory are written again and again, in random order: how many went.
fn evicted_of_what_fits(percent: u64, marks: usize) -> u64 {
    let (store, mut worker) = new_store(Bytes::mib(32), false, 1);
    store.set_pass_kind(PassKind::Surveyed { marks });
    let items = store.geometry().divisible.0 * percent / 100 / 260;
    let mut rng = Rng::new(3);
    for n in 0..items {
        assert!(set(&mut worker, 0, n, &[1; 200], 0));
    }
    for _ in 0..10 * items {
        assert!(set(&mut worker, 0, rng.below(items), &[2; 200], 0));
    }
    let totals = store.totals(TenantId(0));
    let held = held(&store, 0) * 100 / store.geometry().divisible.0;
    assert!(percent - 10 < held && 0 < totals.moved_bytes, "{held} % held; cleaning had to copy");
    totals.evictions
}

/// What fits stays while little is marked, however much of the memory it fills; where time is short and much is, what fills a
/// quarter.
#[test]
fn a_working_set_that_fits_is_not_evicted() {
    for (percent, marks) in [(70, store::MARKS_MIN), (70, 240), (25, store::MARKS_MAX)] {
        assert_eq!(evicted_of_what_fits(percent, marks), 0, "{percent} % alive, {marks} marked");
    }
}

/// What was written over is passed by: where everything alive stays, a pass looks at what it copies and at nothing else.
#[test]
fn what_was_written_over_is_not_looked_at() {
    let (store, mut worker) = new_store(Bytes::mib(16), false, 1);
    let items = store.geometry().divisible.0 / 4 / 260;
    let mut rng = Rng::new(7);
    let writes = 20 * items;
    for n in 0..items {
        assert!(set(&mut worker, 0, n, &[1; 200], 0));
    }
    for _ in 0..writes {
        assert!(set(&mut worker, 0, rng.below(items), &[2; 200], 0));
    }
    let (totals, cleaner) = (store.totals(TenantId(0)), store.cleaner_totals());
    let copied = totals.moved_bytes / (10 + 23 + 200);
    println!("{writes} written, {} looked at, {copied} copied", cleaner.scanned_items);
    assert!(0 < copied && totals.evictions == 0);
    assert!(cleaner.scanned_items <= copied + copied / 10, "{cleaner:?}, {copied} copied");
    assert!((0..items).all(|n| has(&worker, 0, n)));
    worker.check();
}

/// Items of 23 + 25 bytes cost at most 70 bytes of log and index in 64 MiB, while the log is full.
#[test]
fn small_items_cost_seventy_bytes() {
    let (store, mut worker) = new_store(Bytes::mib(64), false, 1);
    let mut items = 0;
    for n in 0..1_500_000 {
        assert!(set(&mut worker, 0, n, &[7; 25], 0));
        items = items.max(store.tenant_state(TenantId(0)).unwrap().items);
    }
    let state = store.tenant_state(TenantId(0)).unwrap();
    let charged = (state.held.0 + store.memory_use().index.0 - state.items * 9) as f64 / state.items as f64;
    assert!(charged <= 70.0, "{charged} bytes per item");
    let of_memory = store.geometry().memory.0 as f64 / items as f64;
    assert!(of_memory <= 80.0, "{of_memory} bytes of the whole memory per item, {items} items");
}

/// A store that may not evict refuses when it is full, has everything that it took, and takes more once something is
/// deleted.
#[test]
fn without_eviction_nothing_is_lost() {
    let (store, mut worker) = new_store(Bytes::mib(4), true, 1);
    let mut stored = 0;
    while set(&mut worker, 0, stored, &[3; 300], 0) {
        stored += 1;
    }
    assert!(store.geometry().divisible.0 / 400 < stored, "{stored}");
    assert!((0..stored).all(|n| has(&worker, 0, n)), "something was lost");
    assert!(!set(&mut worker, 0, stored, &[3; 300], 0), "still full");
    for n in (0..stored).step_by(2) {
        let text = format!("{n:023}");
        assert!(worker.delete(TenantId(0), &worker.key(Space::Own(TenantId(0)), text.as_bytes()).unwrap()));
    }
    for n in 0..stored / 4 {
        assert!(set(&mut worker, 0, stored + n, &[3; 300], 0), "dead space comes back");
    }
    assert!((1..stored).step_by(2).chain(stored..stored + stored / 4).all(|n| has(&worker, 0, n)));
    assert_eq!(store.totals(TenantId(0)).evictions, 0);
    worker.quiesce();
    worker.check();
}

fn maintain(worker: &mut Worker) {
    for _ in 0..1_000 {
        if !worker.maintain() {
            break;
        }
    }
    worker.quiesce();
    worker.maintain();
}

/// A flushed tenant's segments come back without anybody needing them, and its neighbour keeps everything.
#[test]
fn flushed_items_are_reclaimed_without_need() {
    let (store, mut worker) = new_store(Bytes::mib(16), false, 2);
    for n in 0..10_000 {
        assert!(set(&mut worker, 0, n, &[1; 400], 0));
        if n % 10 == 0 {
            assert!(set(&mut worker, 1, n, &[1; 400], 0));
        }
    }
    let before = store.memory_use().available_segments;
    store.flush(TenantId(0), 0);
    assert_eq!(held(&store, 0), 0);
    maintain(&mut worker);
    let after = store.memory_use().available_segments;
    assert!(10_000 * 400 / 2 < u64::from(after - before) * store.geometry().segment.0, "{before} {after}");
    assert!((0..10_000).step_by(10).all(|n| has(&worker, 1, n)), "the neighbour lost something");
    assert!(!has(&worker, 0, 1) && store.totals(TenantId(1)).evictions == 0);
    worker.check();
}

/// Without time to spare nothing is copied that nobody needs room for: only what is dead altogether comes back. With it what is mostly
/// dead does, too; under `-M` always.
#[test]
fn without_time_to_spare_only_what_is_dead_altogether_is_reclaimed_without_need() {
    // A tenth of the first half stays, nothing of the second.
    let after = [(true, false), (false, false), (false, true)].map(|(early, no_evict)| {
        let (store, mut worker) = new_store(Bytes::mib(16), no_evict, 1);
        store.set_reclaims_early(early);
        let expires_at = store.now_secs() + 30;
        for n in 0..20_000 {
            let stays = n < 10_000 && n % 10 == 0;
            assert!(set(&mut worker, 0, n, &[1; 200], if stays { 0 } else { expires_at }));
        }
        let before = store.memory_use().available_segments;
        store.set_now(expires_at + 40);
        maintain(&mut worker);
        assert!((0..10_000).step_by(10).all(|n| has(&worker, 0, n)), "something alive went");
        worker.check();
        let freed = store.memory_use().available_segments - before;
        (u64::from(freed) * store.geometry().segment.0, store.totals(TenantId(0)).moved_bytes)
    });
    let [(all, copied), (dead, none), no_evict] = after;
    assert!(20_000 * 230 * 4 / 5 < all && 0 < copied, "{all} bytes came back, {copied} were copied");
    assert!(10_000 * 230 * 3 / 4 < dead && dead < all * 2 / 3, "{dead} bytes came back of {all}");
    assert_eq!((none, no_evict), (0, (all, copied)), "copied");
}

/// Values as large as the limit allows are stored, moved and read back; one byte more is refused.
#[test]
fn the_largest_item_survives_cleaning() {
    let (store, mut worker) = new_store(Bytes::mib(4), true, 1);
    let largest = store.geometry().item_max.as_usize() - 10 - 8 - 23;
    for n in 0..20 {
        assert!(set(&mut worker, 0, n, &vec![5; largest], 0));
    }
    maintain(&mut worker);
    let text = format!("{:023}", 0);
    let key = worker.key(Space::Own(TenantId(0)), text.as_bytes()).unwrap();
    let refused = worker.set(TenantId(0), &key, Mode::Set, Fields::default(), &vec![5; largest + 1]);
    assert_eq!(refused, Err(Refused::TooLarge));
    assert!((1..20).all(|n| has(&worker, 0, n)) && !has(&worker, 0, 0));
    worker.quiesce();
    worker.check();
}

/// Memory that is taken from the log at once (connection buffers) is given back by cleaning that still keeps the items
/// used last, not by emptying whatever segment comes first.
#[test]
fn a_sudden_loss_of_memory_keeps_what_is_used() {
    let (store, mut worker) = new_store(Bytes::mib(16), false, 1);
    for n in 0..150_000 {
        assert!(set(&mut worker, 0, n, &[1; 200], 0));
        if n % 64 == 0 {
            // These are read again and again.
            for hot in 0..200 {
                has(&worker, 0, hot);
            }
        }
        worker.quiesce();
    }
    assert!((0..200).all(|n| has(&worker, 0, n)), "used items stay while memory turns over");
    store.set_external(Bytes::mib(6));
    while worker.maintain() {}
    for n in 150_000..150_500 {
        assert!(set(&mut worker, 0, n, &[1; 200], 0));
    }
    assert!(store.memory_use().segments.0 <= (16 - 6) << 20, "{:?}", store.memory_use());
    let kept = (0..200).filter(|&n| has(&worker, 0, n)).count();
    assert!(190 <= kept, "{kept} of 200 used items survived");
}

/// An item stored with an expiry that has passed is dead and charged to nobody.
#[test]
fn what_is_stored_expired_is_not_held() {
    let (store, mut worker) = new_store(Bytes::mib(4), false, 1);
    store.set_now(100);
    assert!(set(&mut worker, 0, 1, &[1; 100], 1));
    assert!(!has(&worker, 0, 1));
    assert_eq!(held(&store, 0), 0);
    worker.quiesce();
    worker.check();
}

/// Writers at full speed, each with keys of its own, and nobody who cleans for them: they run passes themselves, side by side.
/// Nobody is told that there is no memory while something can be evicted, and everybody gets on.
#[test]
fn writers_that_outrun_the_cleaner_clean_side_by_side() {
    const WRITERS: u64 = 3;
    const WRITES: u64 = 400_000;
    for seed in 1..=3 {
        let options = Options {
            memory: Bytes::mib(16),
            item_max: Bytes::kib(64),
            threads: 3,
            tenants_max: 8,
            no_evict: false,
            seed,
        };
        let store = Store::new(options).unwrap();
        for i in 0..WRITERS {
            let spec = TenantSpec {
                name: format!("t{i}"),
                own_space: true,
                claim: Claim::default(),
                rank: RankKind::Gdsf,
            };
            store.add_tenant(spec).unwrap();
        }
        let written: u64 = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let mut worker = store.worker().unwrap();
                    scope.spawn(move || {
                        let tenant = u32::try_from(writer).unwrap();
                        let done = (0..WRITES).take_while(|n| {
                            let stored = set(&mut worker, tenant, *n, &[7; 25], 0);
                            worker.quiesce();
                            stored
                        });
                        done.count() as u64
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(written, WRITERS * WRITES, "seed {seed}: a write was refused");
        let cleaning = store.cleaner_totals();
        assert!(0 < cleaning.writer_waits && 0 < cleaning.passes, "seed {seed}: {cleaning:?}");
        let bytes = WRITERS * WRITES * 58 / store.geometry().segment.0;
        let freed = cleaning.freed_segments + u64::from(store.geometry().segment_count);
        assert!(bytes <= freed, "seed {seed}: {bytes} segments were written, {cleaning:?}");
        let mut worker = store.worker().unwrap();
        worker.quiesce();
        worker.check();
    }
}

/// A writer that leaves the cleaner time to do its work never finds the memory full: what it waits for is the cleaner's being
/// done, after each half of a segment, not a time.
#[test]
fn a_writer_that_the_cleaner_keeps_up_with_never_waits() {
    use std::sync::atomic::{AtomicBool, Ordering};
    for seed in 1..=3 {
        let (store, mut writer) = new_store(Bytes::mib(16 + seed), false, 1);
        let mut cleaner = store.worker().unwrap();
        cleaner.go_offline();
        let stop = AtomicBool::new(false);
        let half = store.geometry().segment.0 / 2 / 235;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    cleaner.go_online();
                    while cleaner.maintain() {}
                    cleaner.go_offline();
                    std::thread::yield_now();
                }
            });
            for n in 0..half * 600 {
                assert!(set(&mut writer, 0, n, &[7; 200], 0));
                writer.quiesce();
                if n % half == 0 {
                    writer.go_offline();
                    while store.wants_cleaning() {
                        std::thread::yield_now();
                    }
                    writer.go_online();
                }
            }
            stop.store(true, Ordering::Release);
        });
        let cleaning = store.cleaner_totals();
        assert!(0 < cleaning.passes, "seed {seed}: the memory was never full");
        assert_eq!(cleaning.writer_waits, 0, "seed {seed}: {cleaning:?}");
        writer.quiesce();
        writer.check();
    }
}

/// A background pass that does not come to its end, since somebody holds on to what it emptied: a second runs beside it, and no
/// writer does their work.
#[test]
fn a_second_background_pass_runs_beside_one_that_cannot_keep_up() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (store, mut writer) = new_store(Bytes::mib(16), false, 1);
    store.set_cleaners(2);
    // As thorough as can be: such a pass needs more destinations than there are before anything that it emptied comes back.
    store.set_pass_kind(PassKind::Fixed(FixedPass { takes: 20, frees: 1 }));
    let mut number = 0;
    while store.passes_wanted() == 0 {
        assert!(set(&mut writer, 0, number, &[7; 1_000], 0));
        writer.quiesce();
        number += 1;
    }
    assert_eq!(store.passes_wanted(), 1, "at the low water mark one is wanted");
    writer.go_offline();
    // Online and without a quiescent point: nothing that is emptied comes back.
    let mut holder = store.worker().unwrap();
    let [mut first, mut second] = [store.worker().unwrap(), store.worker().unwrap()];
    first.go_offline();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                first.go_online();
                first.help();
                first.go_offline();
                std::thread::yield_now();
            }
        });
        // On a busy machine it is time that ends a pass's patience.
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(std::time::Duration::from_millis(20));
                store.set_now(store.now_secs() + 1);
            }
        });
        // The first gives up after a while and begins anew, so that both are seen at once sooner or later.
        while store.pass_totals().at_once_max < 2 {
            second.help();
            std::thread::yield_now();
        }
        second.go_offline();
        holder.quiesce();
        holder.go_offline();
        done.store(true, Ordering::Release);
    });
    let passes = store.pass_totals();
    assert_eq!((passes.at_once_max, passes.running, passes.writers), (2, 0, 0));
    assert!(2 <= passes.background);
    writer.go_online();
    writer.check();
}
