//! The index under generated schedules.

use super::*;
use crate::slot::Place;
use crate::sync::explore;
use shuttle::thread;
use std::sync::Arc;
use units::SegmentId;

/// Places stand for keys: place n belongs to the key whose hash is mix64(n).
fn hash_of(n: u32) -> KeyHash {
    KeyHash(units::mix64(u64::from(n)))
}

fn slot_of(n: u32) -> Slot {
    Slot::new(hash_of(n), Place { segment: SegmentId(0), offset: n }, 0, 0)
}

fn rehash(slot: Slot) -> KeyHash {
    hash_of(slot.place().offset)
}

fn find(index: &Index, n: u32) -> Option<Found> {
    index.find(hash_of(n), |slot| slot.place().offset == n)
}

/// The first `count` keys from `from` on whose buckets, among `buckets`, are `wanted`, the first choice first.
fn keys(from: u32, buckets: u32, wanted: (u32, u32), count: usize) -> Vec<u32> {
    (from..).filter(|&n| pair(hash_of(n), buckets) == wanted).take(count).collect()
}

fn new_index(buckets: u32, items: &[u32]) -> Arc<Index> {
    let index = Arc::new(Index::new(16).unwrap());
    while index.buckets() < buckets {
        assert!(index.grow(true, rehash));
    }
    for &n in items {
        assert!(index.lock(hash_of(n)).insert(slot_of(n), rehash));
    }
    index
}

fn place_of(index: &Index, n: u32) -> usize {
    find(index, n).unwrap().at
}

/// A reader never misses an item that is in the index throughout, while it is moved between its buckets again and
/// again.
#[test]
fn a_moving_item_is_always_found() {
    explore(20_000, || {
        let n = keys(0, 4, (0, 2), 1)[0];
        let index = new_index(4, &[n]);
        let mover = Arc::clone(&index);
        let writer = thread::spawn(move || {
            // Under one lock, so that the moves are as close as can be: two must hide the item from two scans.
            let locked = mover.lock(hash_of(n));
            let mut bucket = 0;
            for _ in 0..10 {
                let at = slots_of(bucket).start;
                assert!(locked.move_once(at, (bucket, 2 - bucket), &rehash));
                bucket = 2 - bucket;
            }
        });
        assert!(find(&index, n).is_some(), "an item that is there was missed");
        writer.join().unwrap();
        index.check(rehash);
    });
}

/// A reader never misses an item that is stored anew, and goes to its first bucket by that.
#[test]
fn an_item_that_is_stored_anew_is_always_found() {
    explore(20_000, || {
        let n = keys(0, 4, (2, 0), 1)[0];
        let index = new_index(4, &[n]);
        let writing = Arc::clone(&index);
        let writer = thread::spawn(move || {
            // Under one lock, as close as can be: two moves must hide the item from two scans.
            let locked = writing.lock(hash_of(n));
            for turn in 0..6 {
                let found = locked.find(hash_of(n), |_| true).unwrap();
                assert!(locked.move_once(found.at, (2, 0), &rehash));
                let found = locked.find(hash_of(n), |_| true).unwrap();
                locked.renew(found, found.slot.used(turn, 1));
            }
        });
        assert!(find(&index, n).is_some(), "an item that is there was missed");
        writer.join().unwrap();
        let found = index.find(hash_of(n), |_| true).unwrap();
        assert_eq!((found.slot.tick(), found.at / BUCKET_SLOTS), (5, 2));
        assert_eq!(index.check(rehash).len(), 1);
    });
}

/// A reader never misses an item while another key's insertion into two full buckets displaces it.
#[test]
fn a_displaced_item_is_always_found() {
    explore(2_000, || {
        let first = keys(0, 4, (2, 0), 8);
        let second = keys(0, 4, (1, 1), 8);
        let new = keys(0, 4, (0, 1), 2);
        let index = new_index(4, &second);
        for (i, &n) in first.iter().enumerate() {
            // Insertion would spread them over both buckets.
            index.words.all()[i].store(slot_of(n).0, Ordering::Release);
            index.used.fetch_add(1, Ordering::Relaxed);
        }
        let writer_index = Arc::clone(&index);
        let inserted = new.clone();
        let writer = thread::spawn(move || {
            for &n in &inserted {
                assert!(writer_index.lock(hash_of(n)).insert(slot_of(n), rehash));
            }
        });
        for &n in &first[..2] {
            assert!(find(&index, n).is_some(), "an item that is there was missed");
        }
        writer.join().unwrap();
        assert!(new.iter().all(|&n| find(&index, n).is_some()));
        index.check(rehash);
    });
}

/// A reader never misses an item while buckets are split and merged under it.
#[test]
fn an_item_is_found_while_the_index_grows_and_shrinks() {
    explore(5_000, || {
        // Belongs to bucket 0 of two and to bucket 2 of three, by one choice or both.
        let moving: Vec<_> = (0..)
            .filter(|&n| pair(hash_of(n), 2) == (0, 0) && pair(hash_of(n), 3) == (2, 2))
            .take(2)
            .collect();
        let index = new_index(2, &moving);
        let resized = Arc::clone(&index);
        let resizer = thread::spawn(move || {
            for _ in 0..2 {
                assert!(resized.grow(true, rehash));
                assert!(resized.shrink(rehash));
            }
        });
        for &n in &moving {
            assert!(find(&index, n).is_some(), "an item that is there was missed");
        }
        resizer.join().unwrap();
        index.check(rehash);
    });
}

/// A reader never misses an item that a merge moves to its other bucket, nor does a writer there lose its own.
#[test]
fn an_item_is_found_while_a_merge_moves_it() {
    explore(2_000, || {
        // Of three buckets, the first and the last become one, which has no room for all; the second has.
        let fixed = keys(0, 3, (0, 0), 5);
        let movable = keys(0, 3, (2, 1), 5);
        let new = keys(0, 3, (1, 1), 1)[0];
        let index = new_index(3, &fixed);
        for (at, &n) in slots_of(2).zip(&movable) {
            index.words.all()[at].store(slot_of(n).0, Ordering::Release);
            index.used.fetch_add(1, Ordering::Relaxed);
        }
        let resized = Arc::clone(&index);
        let resizer = thread::spawn(move || resized.shrink(rehash));
        let written = Arc::clone(&index);
        let writer = thread::spawn(move || assert!(written.lock(hash_of(new)).insert(slot_of(new), rehash)));
        for &n in &movable {
            assert!(find(&index, n).is_some(), "an item that is there was missed");
        }
        resizer.join().unwrap();
        writer.join().unwrap();
        while index.shrink(rehash) {}
        assert_eq!((index.buckets(), index.check(rehash).len()), (2, 11));
    });
}

/// An item that makes place for another goes to a bucket that is still its own when it gets there, whatever splits or
/// merges meanwhile.
#[test]
fn displacement_and_resizing_agree_where_items_belong() {
    explore(5_000, || {
        // Of three buckets, 0 and 2 are full; what makes place belongs to 0 and 1, and 1 is split into 1 and 3.
        let movable: Vec<_> = (0..)
            .filter(|&n| pair(hash_of(n), 3) == (0, 1) && pair(hash_of(n), 4) == (0, 3))
            .take(8)
            .collect();
        let fixed = keys(0, 4, (2, 2), 8);
        let new = keys(0, 4, (0, 2), 1)[0];
        let index = new_index(3, &fixed);
        for (i, &n) in movable.iter().enumerate() {
            index.words.all()[i].store(slot_of(n).0, Ordering::Release);
            index.used.fetch_add(1, Ordering::Relaxed);
        }
        let resized = Arc::clone(&index);
        let resizer = thread::spawn(move || {
            resized.grow(true, rehash);
            resized.shrink(rehash);
        });
        while !index.lock(hash_of(new)).insert(slot_of(new), rehash) {
            shuttle::thread::yield_now();
        }
        resizer.join().unwrap();
        index.check(rehash);
        assert!(movable.iter().chain(&fixed).chain([&new]).all(|&n| find(&index, n).is_some()));
    });
}

/// Two writers of one key leave exactly one slot, or none if one of them removed it last.
#[test]
fn writers_of_one_key_leave_one_slot() {
    explore(3_000, || {
        let n = keys(0, 2, (0, 1), 1)[0];
        let index = new_index(2, &[]);
        let write = move |index: &Index, tick| {
            let locked = index.lock(hash_of(n));
            let slot = Slot::new(hash_of(n), Place { segment: SegmentId(0), offset: n }, tick, 0);
            match locked.find(hash_of(n), |slot| slot.place().offset == n) {
                Some(found) => locked.replace(found, slot),
                None => assert!(locked.insert(slot, rehash)),
            }
        };
        let other = Arc::clone(&index);
        let writer = thread::spawn(move || {
            write(&other, 1);
            let locked = other.lock(hash_of(n));
            if let Some(found) = locked.find(hash_of(n), |slot| slot.place().offset == n) {
                locked.remove(found);
            }
            drop(locked);
            write(&other, 2);
        });
        write(&index, 3);
        write(&index, 4);
        writer.join().unwrap();
        assert_eq!(index.check(rehash).len(), 1);
    });
}

/// Two writers of different keys that share a bucket do not take the same slot.
#[test]
fn writers_of_a_shared_bucket_do_not_overwrite_each_other() {
    explore(3_000, || {
        let (a, b) = (keys(0, 4, (1, 0), 1)[0], keys(0, 4, (1, 2), 1)[0]);
        let index = new_index(4, &[]);
        let other = Arc::clone(&index);
        let writer = thread::spawn(move || assert!(other.lock(hash_of(a)).insert(slot_of(a), rehash)));
        assert!(index.lock(hash_of(b)).insert(slot_of(b), rehash));
        writer.join().unwrap();
        assert_eq!(index.check(rehash).len(), 2);
        assert_eq!(
            place_of(&index, a) / BUCKET_SLOTS,
            place_of(&index, b) / BUCKET_SLOTS,
            "they do share it"
        );
    });
}

/// A note of use that loses against a writer never brings an old place back.
#[test]
fn a_note_of_use_never_resurrects_a_place() {
    explore(5_000, || {
        let n = keys(0, 4, (0, 2), 1)[0];
        let index = new_index(4, &[n]);
        let reading = Arc::clone(&index);
        let reader = thread::spawn(move || {
            for turn in 1..3 {
                if let Some(found) = reading.find(hash_of(n), |_| true) {
                    reading.note_use(found, turn, 1);
                }
            }
        });
        let locked = index.lock(hash_of(n));
        let found = locked.find(hash_of(n), |_| true).unwrap();
        // To the second bucket, and back to the first by what is stored anew.
        assert!(locked.move_once(found.at, (0, 2), &rehash));
        let found = locked.find(hash_of(n), |_| true).unwrap();
        locked.renew(found, found.slot.moved(Place { segment: SegmentId(1), offset: n }));
        let found = locked.find(hash_of(n), |_| true).unwrap();
        assert_eq!(found.slot.place().segment, SegmentId(1), "a note of use brought the old place back");
        assert!(locked.move_once(found.at, (0, 2), &rehash));
        let found = locked.find(hash_of(n), |_| true).unwrap();
        assert_eq!(found.slot.place().segment, SegmentId(1), "a note of use brought the old place back");
        locked.remove(found);
        drop(locked);
        reader.join().unwrap();
        assert_eq!(index.check(rehash), []);
    });
}

/// Displacements that cross, growth, and who holds all writers up: nobody waits for ever (a schedule that does not end
/// is a failure).
#[test]
fn crossing_displacements_and_resizing_do_not_lock_up() {
    explore(500, || {
        let (a, b) = (keys(0, 4, (0, 1), 10), keys(0, 4, (2, 3), 10));
        let crossing = [keys(0, 4, (0, 3), 4), keys(0, 4, (2, 1), 4)].concat();
        let index = new_index(4, &[&a[..], &b[..], &crossing[..]].concat());
        let insert = |index: &Index, n: u32| {
            while !index.lock(hash_of(n)).insert(slot_of(n), rehash) {
                index.grow(true, rehash);
            }
        };
        let threads: Vec<_> = [(0, 1), (2, 3), (3, 0)]
            .into_iter()
            .map(|wanted| {
                let index = Arc::clone(&index);
                thread::spawn(move || keys(1_000, 4, wanted, 2).into_iter().for_each(|n| insert(&index, n)))
            })
            .collect();
        index.with_writers_held(|| ());
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(index.check(rehash).len(), 34);
    });
}

/// The walk that holds ages back changes an age and the uses and nothing else: what a writer moved, replaced or removed meanwhile stays so,
/// and what is old ends no older than the walk lets it.
#[test]
fn holding_ages_back_never_resurrects_a_place() {
    const MOST: u8 = 100;
    const NOW: u8 = 150;
    explore(5_000, || {
        let all = keys(0, 4, (0, 2), 4);
        let [moved, replaced, removed, used] = all[..] else { panic!("four keys were asked for") };
        let index = new_index(4, &all);
        let sweeping = Arc::clone(&index);
        let sweeper = thread::spawn(move || {
            for _ in 0..2 {
                sweeping.hold_ages(0..4, MOST, || NOW);
            }
        });
        let reading = Arc::clone(&index);
        let reader = thread::spawn(move || {
            if let Some(found) = reading.find(hash_of(used), |slot| slot.place().offset == used) {
                reading.note_use(found, NOW, 3);
            }
        });
        let at = |n| move |slot: Slot| slot.place().offset == n;
        {
            let locked = index.lock(hash_of(moved));
            let found = locked.find(hash_of(moved), at(moved)).unwrap();
            let bucket = u32::try_from(found.at / BUCKET_SLOTS).unwrap();
            assert!(locked.move_once(found.at, (bucket, 2 - bucket), &rehash));
        }
        {
            let locked = index.lock(hash_of(replaced));
            let found = locked.find(hash_of(replaced), at(replaced)).unwrap();
            assert!(locked.move_once(found.at, (0, 2), &rehash));
            let found = locked.find(hash_of(replaced), at(replaced)).unwrap();
            locked.renew(found, found.slot.moved(Place { segment: SegmentId(1), offset: replaced }));
        }
        {
            let locked = index.lock(hash_of(removed));
            locked.remove(locked.find(hash_of(removed), at(removed)).unwrap());
        }
        sweeper.join().unwrap();
        reader.join().unwrap();
        let slot = |n| index.find(hash_of(n), at(n)).map(|found| found.slot);
        assert_eq!(slot(removed), None, "it was removed");
        assert_eq!(slot(replaced).unwrap().place().segment, SegmentId(1), "the old place came back");
        assert_eq!(slot(moved).unwrap().place().segment, SegmentId(0));
        // Two notes of one slot race, and one of them is dropped.
        let age = |n| NOW.wrapping_sub(slot(n).unwrap().tick());
        assert!(age(used) == 0 || age(used) == MOST, "{}", age(used));
        assert_eq!(index.check(rehash).len(), 3);
        index.hold_ages(0..4, MOST, || NOW);
        assert!([moved, replaced, used].into_iter().all(|n| age(n) <= MOST));
    });
}
