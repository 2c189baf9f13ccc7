//! Adding a slot: where both its buckets are full, others make place by moving to their other buckets. So do those of two buckets
//! that become one.
//!
//! Shape:      a bucket's slots -> their other buckets (`address`) -> the first that has room, else that can make some
//! Invariants: a slot is in its new place before it leaves the old one; the lock of a bucket that is not held already is
//!             tried, never waited for
//! Cost:       eight index lines, or up to sixteen, loaded together, for a step; items are read only where the tag leaves two buckets, one
//!             of which has room; of others in the last search alone

use super::address::{other_bucket, other_buckets, other_of, pair};
use super::{BUCKET_SLOTS, Locked, slots_of, stripe_of};
use crate::hash::KeyHash;
use crate::slot::{Slot, tag_in};
use crate::sync::Ordering;

/// Slots moved at most to make place for one. Where items go to the emptier bucket two fill the index to 0.9 in every phase of its growth
/// but for one insertion in 200,000, one to 0.7; as items go here, three refuse none of two million (`index.rs`, its tests). Who finds no
/// place writes his item again after each bucket that is added, of which few help him.
const MOVES_DEEP: usize = 3;

/// The stripes that are locked on the way; `usize::MAX` for none.
pub(super) type Held = [usize; 2 + MOVES_DEEP];

/// Whose items are read to tell which of two buckets is the other one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Nobody's: such slots are passed over.
    None,
    /// Of slots that may move at once: one of the two has room.
    WhereRoom,
    /// Of all.
    All,
}

/// How far a search for place goes.
#[derive(Clone, Copy)]
struct Effort {
    /// Slots moved at most.
    deep: usize,
    reads: Reads,
}

const fn effort(deep: usize, reads: Reads) -> Effort {
    Effort { deep, reads }
}

/// From cheap to dear: room one step away is looked for before anything deeper, what needs no reading before what does. Where a bucket is
/// not split yet, room is most often in groups that are, and only an item tells which half: what is read is promising.
const EFFORTS: [Effort; 2 * MOVES_DEEP + 1] = [
    effort(1, Reads::None),
    effort(1, Reads::WhereRoom),
    effort(2, Reads::None),
    effort(2, Reads::WhereRoom),
    effort(3, Reads::None),
    effort(3, Reads::WhereRoom),
    effort(3, Reads::All),
];

impl Effort {
    /// Whether an item is read whose slot may or may not move at once.
    fn is_read(self, may_move: impl FnOnce() -> bool) -> bool {
        match self.reads {
            Reads::None => false,
            Reads::All if 1 < self.deep => true,
            Reads::WhereRoom | Reads::All => may_move(),
        }
    }
}

impl Locked<'_> {
    /// Adds a slot, to its first bucket if that has room, moving another to its other bucket if both are full. Returns false if that finds
    /// no room.
    pub(crate) fn insert(&self, new: Slot, rehash: impl Fn(Slot) -> KeyHash) -> bool {
        let (a, b) = self.pair;
        let at = self.room(a).next().or_else(|| self.room(b).next()).or_else(|| self.displace(&rehash));
        let Some(at) = at else { return false };
        self.index.words.all()[at].store(new.0, Ordering::Release);
        self.index.used.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(super) fn room(&self, bucket: u32) -> impl Iterator<Item = usize> {
        slots_of(bucket).filter(|&at| self.word(at) == 0)
    }

    fn word(&self, at: usize) -> u64 {
        self.index.words.all()[at].load(Ordering::Relaxed)
    }

    /// Frees a place in one of the two buckets.
    #[cold]
    fn displace(&self, rehash: &dyn Fn(Slot) -> KeyHash) -> Option<usize> {
        let (a, b) = self.pair;
        let mut held = [usize::MAX; 2 + MOVES_DEEP];
        (held[0], held[1]) = self.stripes;
        let both = [a, b];
        let buckets = if a == b { &both[..1] } else { &both[..] };
        EFFORTS
            .iter()
            .find_map(|effort| buckets.iter().find_map(|&b| self.make_place(b, *effort, held, rehash)))
    }

    /// Moves one slot of a full bucket to its other bucket, which may have to move one of its own first; returns the
    /// freed place.
    fn make_place(
        &self,
        bucket: u32,
        effort: Effort,
        held: Held,
        rehash: &dyn Fn(Slot) -> KeyHash,
    ) -> Option<usize> {
        let n = self.index.buckets.load(Ordering::Acquire);
        let ways: [_; BUCKET_SLOTS] = std::array::from_fn(|i| {
            let slot = Slot(self.word(bucket as usize * BUCKET_SLOTS + i));
            let (one, two) = other_buckets(bucket, tag_in(slot), n);
            for other in [Some(one), two]
                .into_iter()
                .flatten()
                .filter(|_| two.is_none() || effort.reads != Reads::None)
            {
                self.index.words.prefetch(other as usize * BUCKET_SLOTS);
            }
            (one, two)
        });
        slots_of(bucket).zip(ways).find_map(|(at, (one, two))| {
            let has_room = |other: u32| self.room(other).next().is_some();
            let (other, hash) = match two {
                None => (one, None),
                Some(two) if !effort.is_read(|| has_room(one) || has_room(two)) => return None,
                Some(_) => {
                    let hash = rehash(Slot(self.word(at)));
                    (other_of(pair(hash, n), bucket), Some(hash))
                }
            };
            let moves = other != bucket && self.move_slot(at, hash, (bucket, other), effort, held, rehash);
            moves.then_some(at)
        })
    }

    /// Moves the slot at `at` to its other bucket, whose lock must come at once (waiting could dead-lock). `hash` is that of
    /// its item where the tag alone does not tell the other bucket.
    fn move_slot(
        &self,
        at: usize,
        hash: Option<KeyHash>,
        (bucket, other): (u32, u32),
        effort: Effort,
        mut held: Held,
        rehash: &dyn Fn(Slot) -> KeyHash,
    ) -> bool {
        if effort.deep <= 1 && self.room(other).next().is_none() {
            return false;
        }
        let stripe = stripe_of(other);
        let taken = !held.contains(&stripe);
        if taken {
            if !self.index.try_hold(stripe) {
                return false;
            }
            if let Some(free) = held.iter_mut().find(|held| **held == usize::MAX) {
                *free = stripe;
            }
        }
        // Until its lock was here, the other bucket could be split or removed: then it is not the item's any more.
        let n = self.index.buckets.load(Ordering::Acquire);
        let now = match hash {
            Some(hash) => Some(other_of(pair(hash, n), bucket)),
            None => other_bucket(bucket, tag_in(Slot(self.word(at))), n),
        };
        let still = now == Some(other);
        let to = if still { self.room(other).next() } else { None };
        let to = if still && to.is_none() && 1 < effort.deep {
            let rest = Effort { deep: effort.deep - 1, ..effort };
            self.make_place(other, rest, held, rehash)
        } else {
            to
        };
        if let Some(to) = to {
            self.index.shift(at, to, (bucket, Slot(self.word(at))));
        }
        if taken {
            self.index.leave(stripe);
        }
        to.is_some()
    }

    /// Moves slots of both buckets, the one of which was split off the other, to their other buckets until one has room for all that are
    /// left. Returns false if too many find no room at once. Nobody else resizes meanwhile.
    pub(super) fn thin_out(&self, rehash: &dyn Fn(Slot) -> KeyHash) -> bool {
        let (a, b) = self.pair;
        let n = self.index.buckets.load(Ordering::Acquire);
        let mut held = [usize::MAX; 2 + MOVES_DEEP];
        (held[0], held[1]) = self.stripes;
        let taken = || [a, b].into_iter().flat_map(slots_of).filter(|&at| self.word(at) != 0);
        let fits = || taken().count() <= BUCKET_SLOTS;
        for effort in EFFORTS {
            for at in taken() {
                if fits() {
                    return true;
                }
                let bucket = if slots_of(a).contains(&at) { a } else { b };
                // In a group that is split the tag always tells.
                if let Some(other) = other_bucket(bucket, tag_in(Slot(self.word(at))), n)
                    && ![a, b].contains(&other)
                {
                    self.move_slot(at, None, (bucket, other), effort, held, rehash);
                }
            }
        }
        fits()
    }

    /// Moves a slot to its other bucket, which has room.
    #[cfg(test)]
    #[cfg(shuttle)]
    pub(super) fn move_once(&self, at: usize, ways: (u32, u32), rehash: &dyn Fn(Slot) -> KeyHash) -> bool {
        let mut held = [usize::MAX; 2 + MOVES_DEEP];
        (held[0], held[1]) = self.stripes;
        let hash = rehash(Slot(self.word(at)));
        self.move_slot(at, Some(hash), ways, EFFORTS[0], held, rehash)
    }
}
