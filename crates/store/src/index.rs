//! The index: from a key's hash to the places where an item with that hash may be.
//!
//! Shape:      buckets of one cache line (8 slots), two choices per key; the number of buckets grows and shrinks by
//!             one at a time (linear hashing), so that the load stays near 0.9 at every size
//! Invariants: an item is in exactly one of its two buckets, except between the two steps of a move, when it is in
//!             both places; only the holder of the locks of both buckets changes what a slot points at; readers take no
//!             lock and change only tick and uses
//! Cost:       8.9 bytes per item at load 0.9; a look-up reads two lines at most, or again on a miss that raced a move
//!
//! Why a miss is a miss: a move writes the new place, raises `moves` of the old bucket's stripe, then clears the old
//! place (all Release). A reader that missed the item in the new place looked there before it was written, and in the
//! old place after it was cleared; so it sees `moves` raised after its scan, but did not before it, and looks again.

mod address;
mod ahead;
mod check;
mod displace;
mod huge_pages;
mod resize;

use crate::hash::KeyHash;
use crate::slot::{Slot, has_tag, tag_of};
use crate::sync::{AtomicI64, AtomicU32, Mutex, Ordering, lock, pause};
use crate::words::Words;
use address::pair;
use crossbeam_utils::CachePadded;
use huge_pages::HugePages;
use media::MapError;
#[cfg(all(test, not(shuttle), not(miri)))]
pub(crate) use resize::MERGE_STEP;

/// Slots of a bucket: one cache line.
pub(crate) const BUCKET_SLOTS: usize = 8;
/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: u64 = 64;
/// Buckets of the smallest index.
const BUCKETS_MIN: u32 = if cfg!(shuttle) { 2 } else { 64 };
/// Buckets that no index exceeds.
const BUCKETS_LIMIT: u32 = if cfg!(shuttle) { 16 } else { 1 << 31 };
const STRIPES: usize = if cfg!(shuttle) { 4 } else { 4096 };

#[derive(Debug, Default)]
struct Stripe {
    /// 1 while locked. Acquire by who takes it, Release by who leaves.
    held: AtomicU32,
    /// Raised between the two steps of a move out of one of its buckets.
    moves: AtomicU32,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    words: Words,
    /// Number of buckets. Published (Release) after items were copied to a new bucket, before the old places go.
    buckets: AtomicU32,
    /// On a line of its own: every thread writes it, and every look-up reads what is beside it.
    used: CachePadded<AtomicI64>,
    stripes: Box<[Stripe]>,
    resize: Mutex<()>,
    buckets_max: u32,
    huge_pages: HugePages,
}

/// Both buckets of a key, locked.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    index: &'a Index,
    pair: (u32, u32),
    stripes: (usize, usize),
}

/// A found slot and where it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) slot: Slot,
    at: usize,
}

#[inline]
fn stripe_of(bucket: u32) -> usize {
    bucket as usize & (STRIPES - 1)
}

fn slots_of(bucket: u32) -> std::ops::Range<usize> {
    let first = bucket as usize * BUCKET_SLOTS;
    first..first + BUCKET_SLOTS
}

impl Index {
    /// An empty index that may grow to `buckets_max` buckets.
    pub(crate) fn new(buckets_max: u32) -> Result<Self, MapError> {
        let buckets_max = buckets_max.clamp(BUCKETS_MIN, BUCKETS_LIMIT);
        Ok(Self {
            words: Words::new(buckets_max as usize * BUCKET_SLOTS)?,
            buckets: AtomicU32::new(BUCKETS_MIN),
            used: CachePadded::new(AtomicI64::new(0)),
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            resize: Mutex::new(()),
            buckets_max,
            huge_pages: HugePages::default(),
        })
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.buckets.load(Ordering::Relaxed)) * BUCKET_BYTES
    }

    /// Items in it.
    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Buckets in use.
    pub(crate) fn buckets(&self) -> u32 {
        self.buckets.load(Ordering::Relaxed)
    }

    /// Calls `each` with every slot of one bucket (none beyond the last). Who samples may see a moving item twice or not
    /// at all.
    pub(crate) fn each_in(&self, bucket: u32, mut each: impl FnMut(Slot)) {
        if bucket < self.buckets.load(Ordering::Acquire) {
            for word in &self.words.all()[slots_of(bucket)] {
                // Acquire: pairs with the Release that published the item's bytes.
                let word = word.load(Ordering::Acquire);
                if word != 0 {
                    each(Slot(word));
                }
            }
        }
    }

    /// Sets slots of these buckets whose age is above `most` back to it, with one step less of their use counter, down to one.
    /// `tick` is the rank clock.
    pub(crate) fn hold_ages(&self, buckets: std::ops::Range<u32>, most: u8, tick: impl Fn() -> u8) {
        for bucket in buckets {
            let words = &self.words.all()[slots_of(bucket)];
            let slots: [Slot; BUCKET_SLOTS] = std::array::from_fn(|i| Slot(words[i].load(Ordering::Relaxed)));
            // Read behind them, so that hardly anything is ahead of the clock (`Slot::is_older` bears two ticks).
            let now = tick();
            // Few are old: the whole bucket is asked without a branch.
            if !slots.iter().fold(false, |any, slot| any | slot.is_older(most, now)) {
                continue;
            }
            for (word, slot) in words.iter().zip(slots).filter(|(_, slot)| slot.is_older(most, now)) {
                let uses = slot.uses() - u8::from(1 < slot.uses());
                let held = slot.used(now.wrapping_sub(most), uses);
                // Relaxed: the place is unchanged and was published before; who used the slot meanwhile wins.
                let _lost = word.compare_exchange(slot.0, held.0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// The slot for which `same` holds, among those with the hash's tag. Takes no lock.
    #[inline]
    pub(crate) fn find(&self, hash: KeyHash, mut same: impl FnMut(Slot) -> bool) -> Option<Found> {
        let both = pair(hash, self.buckets.load(Ordering::Acquire));
        self.scan_pair(both, hash, &mut same).or_else(|| self.find_surely(hash, &mut same))
    }

    /// The same, for slots that are often not there: looks once, and again only if a move can have hidden the item.
    pub(crate) fn find_surely(&self, hash: KeyHash, same: &mut impl FnMut(Slot) -> bool) -> Option<Found> {
        loop {
            let both = pair(hash, self.buckets.load(Ordering::Acquire));
            let before = self.moves(both);
            if let Some(found) = self.scan_pair(both, hash, same) {
                return Some(found);
            }
            if self.moves(both) == before && pair(hash, self.buckets.load(Ordering::Acquire)) == both {
                return None;
            }
        }
    }

    fn moves(&self, (a, b): (u32, u32)) -> (u32, u32) {
        let of = |bucket| self.stripes[stripe_of(bucket)].moves.load(Ordering::Acquire);
        (of(a), of(b))
    }

    #[inline]
    fn scan_pair(
        &self,
        (a, b): (u32, u32),
        hash: KeyHash,
        same: &mut impl FnMut(Slot) -> bool,
    ) -> Option<Found> {
        let tag = tag_of(hash);
        self.scan(a, tag, same).or_else(|| if a == b { None } else { self.scan(b, tag, same) })
    }

    #[inline]
    fn scan(&self, bucket: u32, tag: u64, same: &mut impl FnMut(Slot) -> bool) -> Option<Found> {
        for at in slots_of(bucket) {
            // Acquire: pairs with the Release that published the item's bytes.
            let word = self.words.all()[at].load(Ordering::Acquire);
            if has_tag(word, tag) && same(Slot(word)) {
                return Some(Found { slot: Slot(word), at });
            }
        }
        None
    }

    /// Notes a use; whoever loses the race drops it.
    #[inline]
    pub(crate) fn note_use(&self, found: Found, tick: u8, uses: u8) {
        let new = found.slot.used(tick, uses);
        // Relaxed: the place is unchanged and was published before.
        let word = &self.words.all()[found.at];
        let _lost = word.compare_exchange(found.slot.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Moves a slot, which is `new` from then on, from a place in `bucket`. Both buckets are locked.
    fn shift(&self, from: usize, to: usize, (bucket, new): (u32, Slot)) {
        let words = self.words.all();
        words[to].store(new.0, Ordering::Release);
        self.stripes[stripe_of(bucket)].moves.fetch_add(1, Ordering::Release);
        words[from].store(0, Ordering::Release);
    }

    /// Locks both buckets of a key.
    pub(crate) fn lock(&self, hash: KeyHash) -> Locked<'_> {
        loop {
            let both = pair(hash, self.buckets.load(Ordering::Acquire));
            let stripes = self.hold_pair(both);
            let locked = Locked { index: self, pair: both, stripes };
            if pair(hash, self.buckets.load(Ordering::Acquire)) == both {
                return locked;
            }
        }
    }

    /// Holds the stripes of two buckets, the lower first.
    fn hold_pair(&self, (a, b): (u32, u32)) -> (usize, usize) {
        let (x, y) = (stripe_of(a), stripe_of(b));
        let (first, second) = (x.min(y), x.max(y));
        self.hold(first);
        if first != second {
            self.hold(second);
        }
        (first, second)
    }

    fn leave_pair(&self, (first, second): (usize, usize)) {
        self.leave(first);
        if first != second {
            self.leave(second);
        }
    }

    fn hold(&self, stripe: usize) {
        let mut turn = 0;
        while !self.try_hold(stripe) {
            pause(&mut turn);
        }
    }

    fn try_hold(&self, stripe: usize) -> bool {
        let held = &self.stripes[stripe].held;
        held.load(Ordering::Relaxed) == 0
            && held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn leave(&self, stripe: usize) {
        self.stripes[stripe].held.store(0, Ordering::Release);
    }

    /// Runs `act` while no writer holds a lock: for what must not fall between two steps of a writer.
    pub(crate) fn with_writers_held<T>(&self, act: impl FnOnce() -> T) -> T {
        let _resize = lock(&self.resize);
        for stripe in 0..STRIPES {
            self.hold(stripe);
        }
        let result = act();
        for stripe in 0..STRIPES {
            self.leave(stripe);
        }
        result
    }
}

impl Locked<'_> {
    /// The slot for which `same` holds.
    pub(crate) fn find(&self, hash: KeyHash, mut same: impl FnMut(Slot) -> bool) -> Option<Found> {
        self.index.scan_pair(self.pair, hash, &mut same)
    }

    /// A slot found before the locks were taken, if it still points at the same place.
    pub(crate) fn find_again(&self, found: Found, hash: KeyHash) -> Option<Found> {
        let place = found.slot.place();
        let slot = Slot(self.index.words.all()[found.at].load(Ordering::Relaxed));
        let bucket = u32::try_from(found.at / BUCKET_SLOTS).unwrap_or(u32::MAX);
        if slot.place() == place && (bucket == self.pair.0 || bucket == self.pair.1) {
            return Some(Found { slot, at: found.at });
        }
        self.find(hash, |slot| slot.place() == place)
    }

    /// Makes a found slot point elsewhere. It stays where it is: who walks over all buckets meets it once.
    pub(crate) fn replace(&self, found: Found, new: Slot) {
        // Release: publishes the bytes of the new item. A reader's note of use that comes between is lost, no more.
        self.index.words.all()[found.at].store(new.0, Ordering::Release);
    }

    /// Makes a found slot point at what was stored anew, in the first bucket of its key if that has room now: there it is found without
    /// the second one.
    pub(crate) fn renew(&self, found: Found, new: Slot) {
        let (first, second) = self.pair;
        let is_home = slots_of(first).contains(&found.at);
        match if is_home { None } else { self.room(first).next() } {
            Some(home) => self.index.shift(found.at, home, (second, new)),
            None => self.replace(found, new),
        }
    }

    /// Empties a found slot.
    pub(crate) fn remove(&self, found: Found) {
        self.index.words.all()[found.at].store(0, Ordering::Release);
        self.index.used.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.index.leave_pair(self.stripes);
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::slot::Place;
    use units::SegmentId;

    /// Places stand for keys: place n belongs to the key whose hash is mix64(n).
    fn hash_of(n: u32) -> KeyHash {
        KeyHash(units::mix64(u64::from(n)))
    }

    fn slot_of(n: u32) -> Slot {
        let place = Place { segment: SegmentId(n >> 18), offset: n & ((1 << 18) - 1) };
        Slot::new(hash_of(n), place, 0, 0)
    }

    fn number_of(slot: Slot) -> u32 {
        slot.place().segment.0 << 18 | slot.place().offset
    }

    fn rehash(slot: Slot) -> KeyHash {
        hash_of(number_of(slot))
    }

    fn insert(index: &Index, n: u32) {
        while index.is_crowded() {
            assert!(index.grow(false, rehash));
        }
        while !index.lock(hash_of(n)).insert(slot_of(n), rehash) {
            assert!(index.grow(true, rehash), "full");
        }
    }

    fn contains(index: &Index, n: u32) -> bool {
        index.find(hash_of(n), |slot| number_of(slot) == n).is_some()
    }

    fn remove(index: &Index, n: u32) {
        let locked = index.lock(hash_of(n));
        let found = locked.find(hash_of(n), |slot| number_of(slot) == n).unwrap();
        locked.remove(found);
    }

    #[test]
    fn grows_and_shrinks_without_losing_an_item() {
        let items = if cfg!(miri) { 600 } else { 200_000 };
        let index = Index::new(if cfg!(miri) { 1 << 7 } else { 1 << 16 }).unwrap();
        for n in 0..items {
            insert(&index, n);
        }
        index.check(rehash);
        assert!((0..items).all(|n| contains(&index, n)) && !contains(&index, items));
        let per_item = index.bytes() as f64 / f64::from(items);
        assert!(per_item < 9.4 || cfg!(miri), "{per_item} bytes per item");
        let mut removed = 0;
        for left in [items / 2, items / 10] {
            (removed..items - left).for_each(|n| remove(&index, n));
            removed = items - left;
            while index.shrink(rehash) {}
            index.check(rehash);
            assert!((removed..items).all(|n| contains(&index, n)));
            let load = index.len() as f64 / (f64::from(index.buckets()) * BUCKET_SLOTS as f64);
            assert!(0.68 < load || cfg!(miri), "{load} with {left} items");
        }
        for n in 0..items / 2 {
            insert(&index, n);
        }
        index.check(rehash);
    }

    #[test]
    fn the_bytes_per_item_hold_at_every_size() {
        let index = Index::new(if cfg!(miri) { 1 << 7 } else { 1 << 16 }).unwrap();
        let mut worst: f64 = 0.0;
        for n in 0..if cfg!(miri) { 300 } else { 300_000 } {
            insert(&index, n);
            if 10_000 < n {
                worst = worst.max(index.bytes() as f64 / f64::from(n));
            }
        }
        assert!(worst < 9.5, "{worst}");
    }

    #[test]
    fn nothing_is_refused_while_it_grows_with_its_load() {
        let items = if cfg!(miri) { 300 } else { 2_000_000 };
        let index = Index::new(if cfg!(miri) { 1 << 7 } else { 1 << 19 }).unwrap();
        for n in 0..items {
            while index.is_crowded() {
                assert!(index.grow(false, rehash));
            }
            assert!(index.lock(hash_of(n)).insert(slot_of(n), rehash), "item {n}");
        }
        index.check(rehash);
    }

    #[test]
    fn what_is_stored_anew_goes_to_its_first_bucket_if_that_has_room() {
        let items = if cfg!(miri) { 300 } else { 100_000 };
        let index = Index::new(if cfg!(miri) { 1 << 7 } else { 1 << 14 }).unwrap();
        (0..items).for_each(|n| insert(&index, n));
        let at_first = || (0..items).filter(|&n| index.peek_first(hash_of(n), |_| ())).count();
        let stored = at_first();
        for n in 0..items {
            let locked = index.lock(hash_of(n));
            let found = locked.find(hash_of(n), |slot| number_of(slot) == n).unwrap();
            locked.renew(found, found.slot.used(7, 3));
            let found = locked.find(hash_of(n), |slot| number_of(slot) == n).unwrap();
            let is_first = slots_of(locked.pair.0).contains(&found.at);
            assert!(is_first || locked.room(locked.pair.0).next().is_none(), "there was room for item {n}");
        }
        assert!(stored + stored / 20 < at_first() || cfg!(miri), "{} after {stored}", at_first());
    }

    #[test]
    fn what_is_reserved_is_not_grown_for_and_has_its_end() {
        let items = if cfg!(miri) { 300 } else { 20_000 };
        let index = Index::new(if cfg!(miri) { 1 << 7 } else { 1 << 16 }).unwrap();
        insert(&index, 0);
        index.reserve(u64::from(items) - 1, rehash);
        let buckets = index.buckets();
        for n in 1..items {
            assert!(!index.is_crowded() && index.lock(hash_of(n)).insert(slot_of(n), rehash), "item {n}");
        }
        assert_eq!(index.buckets(), buckets);
        index.check(rehash);
        assert!(index.bytes() as f64 / f64::from(items) < 9.5);
        index.reserve(u64::MAX, rehash);
        assert!(!index.grow(true, rehash), "it is as large as it may be");
        index.check(rehash);
    }

    #[test]
    fn a_full_index_refuses() {
        let index = Index::new(BUCKETS_MIN).unwrap();
        let mut n = 0;
        while index.lock(hash_of(n)).insert(slot_of(n), rehash) {
            n += 1;
        }
        assert!(!index.grow(true, rehash));
        let slots = u64::from(BUCKETS_MIN) * BUCKET_SLOTS as u64;
        assert!(slots * 9 / 10 < u64::from(n), "{n} of {slots} slots filled before it refused");
        index.check(rehash);
    }
}
