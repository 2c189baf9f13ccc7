//! Cliffhanger: LRU queues per tenant and size class, sized by hill climbing, split over cliffs.
//!
//! | paper | here |
//! |---|---|
//! | eviction queue | `Queue`, one per tenant and power of two of the item's bytes |
//! | hill climbing shadow queue | `FAR` of both halves, or of the one that a queue without cliff scaling is |
//! | cliff scaling shadow queues | `NEAR` behind, and `TAIL`, the end of, each half's physical queue |
//! | left and right pointer | `pointers`: the sizes that the two halves simulate |
//! | request ratio | `left_part`: of the keys, those of the left half |
//!
//! Shape:      a hit in a shadow queue moves a credit of memory from a random queue to this one; hits at the ends of the
//!             halves move the pointers apart where the hit curve is convex, so that the halves sit on the concave hull
//! Invariants: sizes of all queues sum to at most the capacity; what is held of a queue is at most its size
//! Cost:       O(1) per access
//! Source:     Cidon et al., Cliffhanger: scaling performance cliffs in web memory caches, NSDI 2016, §4, algorithms 1 to
//!             3. Classes do not round sizes here: no chunk is wasted. Memory that nobody has yet goes to whoever asks.
//!             A pointer's step evicts nothing: what an insertion takes beyond the queue's size leaves the half that is
//!             further above its part, so that the halves come to their parts as items come. (As in algorithm 3, a
//!             pointer at the queue's size makes the halves equal; with the other one far away its step would empty
//!             most of a half at once.) A queue that gives a credit evicts that much, so that the memory is kept

use super::Reference;
use super::lists::Lists;
use std::collections::HashMap;
use units::{Bytes, Rng, mix64};

/// Lists of a half: what is held, its last items, and the keys of what was evicted, lately and before.
const MAIN: u32 = 0;
const TAIL: u32 = 1;
const NEAR: u32 = 2;
const FAR: u32 = 3;
const LISTS_PER_HALF: u32 = 4;
const LEFT: usize = 0;
const RIGHT: usize = 1;
/// Memory that a shadow hit moves (§5.2: 1 to 4 KB are best).
const CREDIT: u64 = 4 << 10;
/// Items at either side of a pointer (§5.1: 128).
const END_ITEMS: usize = 128;
/// Items that a hill climbing shadow queue stands for, in bytes, of both halves together (§5.1: 1 MB).
const SHADOW: u64 = 1 << 20;
/// Queues with fewer items are not split over cliffs (§5.1: 1,000).
const CLIFF_ITEMS_MIN: usize = 1_000;
/// Draws of a donor until one has a credit to give (guess).
const DONOR_DRAWS: usize = 8;

/// The simulator.
#[derive(Debug)]
pub struct Cliffhanger {
    per_item: u64,
    scales_cliffs: bool,
    unassigned: u64,
    capacity: u64,
    tenant: u16,
    numbers: HashMap<(u16, u32), usize>,
    queues: Vec<Queue>,
    lists: Lists,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    size: u64,
    /// Sizes that the left and the right half simulate.
    pointers: [u64; 2],
}

impl Queue {
    /// The part of all keys that is the left half's.
    fn left_part(&self) -> f64 {
        let (below, above) = (self.size - self.pointers[LEFT], self.pointers[RIGHT] - self.size);
        if below == 0 || above == 0 { 0.5 } else { above as f64 / (above + below) as f64 }
    }

    /// Bytes of the two halves; they sum to the size.
    fn parts(&self) -> [u64; 2] {
        let (below, above) = (self.size - self.pointers[LEFT], self.pointers[RIGHT] - self.size);
        if below == 0 || above == 0 {
            return [self.size / 2, self.size - self.size / 2];
        }
        let left = u128::from(self.pointers[LEFT]) * u128::from(above) / u128::from(above + below);
        let left = u64::try_from(left).unwrap_or(self.size).min(self.size);
        [left, self.size - left]
    }

    fn set_size(&mut self, size: u64) {
        for (half, pointer) in self.pointers.iter_mut().enumerate() {
            let follows = *pointer == self.size;
            *pointer = match half {
                _ if follows => size,
                LEFT => size.min(*pointer),
                _ => size.max(*pointer),
            };
        }
        self.size = size;
    }
}

impl Cliffhanger {
    /// An empty cache of `capacity` that charges every item `per_item` on top of its bytes and draws by `seed`.
    #[must_use]
    pub fn new(capacity: Bytes, per_item: Bytes, seed: u64) -> Self {
        Self {
            per_item: per_item.0,
            scales_cliffs: true,
            unassigned: capacity.0,
            capacity: capacity.0,
            tenant: 0,
            numbers: HashMap::new(),
            queues: Vec::new(),
            lists: Lists::new(0),
            rng: Rng::new(seed),
        }
    }

    /// As `new`, with hill climbing alone: a queue is one LRU.
    #[must_use]
    pub fn hill(capacity: Bytes, per_item: Bytes, seed: u64) -> Self {
        Self { scales_cliffs: false, ..Self::new(capacity, per_item, seed) }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let sizes: u64 = self.queues.iter().map(|queue| queue.size).sum();
        assert_eq!(sizes + self.unassigned, self.capacity, "memory is lost");
        for (number, queue) in self.queues.iter().enumerate() {
            assert!(queue.pointers[LEFT] <= queue.size && queue.size <= queue.pointers[RIGHT], "{queue:?}");
            assert!(self.both(number) <= queue.size, "a queue holds more than its size");
            for half in [LEFT, RIGHT] {
                assert!(
                    self.lists.items(Self::list(number, half, NEAR)) <= END_ITEMS,
                    "a shadow is too long"
                );
            }
        }
        self.lists.check();
    }

    /// What a tenant's queues may hold together.
    #[must_use]
    pub fn size_of(&self, tenant: u16) -> Bytes {
        let of = self.numbers.iter().filter(|((owner, _), _)| *owner == tenant);
        Bytes(of.map(|(_, &number)| self.queues[number].size).sum())
    }

    fn list(number: usize, half: usize, which: u32) -> u32 {
        u32::try_from(number * 2 + half).expect("queues are few") * LISTS_PER_HALF + which
    }

    fn physical(&self, number: usize, half: usize) -> u64 {
        self.lists.held(Self::list(number, half, MAIN)) + self.lists.held(Self::list(number, half, TAIL))
    }

    fn both(&self, number: usize) -> u64 {
        self.physical(number, LEFT) + self.physical(number, RIGHT)
    }

    fn items_of(&self, number: usize) -> usize {
        let lists = [LEFT, RIGHT].map(|half| {
            self.lists.items(Self::list(number, half, MAIN))
                + self.lists.items(Self::list(number, half, TAIL))
        });
        lists[LEFT] + lists[RIGHT]
    }

    /// The queue of an item; it is made when first asked for.
    fn queue(&mut self, charge: u64) -> usize {
        let class = charge.max(1).ilog2();
        let next = self.queues.len();
        let number = *self.numbers.entry((self.tenant, class)).or_insert(next);
        if number == next {
            self.queues.push(Queue { size: 0, pointers: [0; 2] });
            self.lists.extend_to((next + 1) * 2 * LISTS_PER_HALF as usize);
        }
        number
    }

    /// The half that a key belongs to now.
    fn half(&self, number: usize, key_hash: u64) -> usize {
        if !self.scales_cliffs {
            return LEFT;
        }
        let draw = (mix64(!key_hash) >> 11) as f64 / (1_u64 << 53) as f64;
        usize::from(self.queues[number].left_part() <= draw)
    }

    /// Puts an item first in its half; it stays a key if the queue cannot hold it.
    fn place(&mut self, number: usize, key_hash: u64, charge: u64) {
        let half = self.half(number, key_hash);
        let needed = (self.both(number) + charge).saturating_sub(self.queues[number].size);
        let more = needed.min(self.unassigned);
        self.unassigned -= more;
        let size = self.queues[number].size + more;
        self.queues[number].set_size(size);
        let list = if charge <= size { MAIN } else { NEAR };
        self.lists.add(Self::list(number, half, list), key_hash, charge);
        self.settle(number);
    }

    /// Lets what is too much flow on: from main to the tail, out into the shadow queues, and away.
    fn settle(&mut self, number: usize) {
        while self.queues[number].size < self.both(number) {
            let [main, tail, near] =
                [MAIN, TAIL, NEAR].map(|which| Self::list(number, self.fuller(number), which));
            self.fill_tail(main, tail, 1);
            self.pass_on(tail, near);
        }
        let shadow = if self.scales_cliffs { SHADOW / 2 } else { SHADOW };
        for half in [LEFT, RIGHT] {
            let [main, tail, near, far] =
                [MAIN, TAIL, NEAR, FAR].map(|which| Self::list(number, half, which));
            self.fill_tail(main, tail, END_ITEMS);
            while END_ITEMS < self.lists.items(near) {
                self.pass_on(near, far);
            }
            while shadow < self.lists.held(far)
                && let Some(last) = self.lists.last(far)
            {
                self.lists.take_out(last);
            }
        }
    }

    /// The half with items that is further above its part.
    fn fuller(&self, number: usize) -> usize {
        let parts = self.queues[number].parts();
        let [left, right] = [LEFT, RIGHT].map(|half| self.physical(number, half));
        let is_left = left != 0 && right + parts[LEFT] < left + parts[RIGHT];
        if is_left || right == 0 { LEFT } else { RIGHT }
    }

    fn fill_tail(&mut self, main: u32, tail: u32, items: usize) {
        while self.lists.items(tail) < items && 0 < self.lists.items(main) {
            self.pass_on(main, tail);
        }
    }

    fn pass_on(&mut self, from: u32, to: u32) {
        if let Some(last) = self.lists.last(from) {
            self.lists.put_first(to, last);
        }
    }

    /// Algorithm 1: a credit from a random queue.
    fn climb(&mut self, number: usize) {
        for _ in 0..DONOR_DRAWS {
            let donor = self.rng.index(self.queues.len());
            if donor != number && CREDIT <= self.queues[donor].size {
                let (less, more) = (self.queues[donor].size - CREDIT, self.queues[number].size + CREDIT);
                self.queues[donor].set_size(less);
                self.queues[number].set_size(more);
                self.settle(donor);
                self.settle(number);
                return;
            }
        }
    }

    /// Whether the end of a half is one: the queue is full, and as much is known before its end as behind it. (A half of
    /// fewer items would have no hits before its end and could never grow again.)
    fn can_compare(&self, number: usize, half: usize, charge: u64) -> bool {
        let is_full = self.queues[number].size < self.both(number) + charge * 2;
        // The item that was hit is out of its list.
        let known = |which| END_ITEMS <= self.lists.items(Self::list(number, half, which)) + 1;
        is_full && known(TAIL) && known(NEAR)
    }

    /// Algorithm 2: a hit right before or behind the end of a half moves its pointer.
    fn scale(&mut self, number: usize, half: usize, is_behind: bool) {
        if self.items_of(number) < CLIFF_ITEMS_MIN {
            let size = self.queues[number].size;
            self.queues[number].pointers = [size; 2];
            return;
        }
        let queue = &mut self.queues[number];
        let pointer = &mut queue.pointers[half];
        // Apart when the curve rises faster behind the end than before it, that is, where it is convex.
        *pointer = match (half, is_behind) {
            (LEFT, true) => pointer.saturating_sub(CREDIT),
            (LEFT, false) => (*pointer + CREDIT).min(queue.size),
            (_, true) => *pointer + CREDIT,
            (_, false) => pointer.saturating_sub(CREDIT).max(queue.size),
        };
    }

    fn found(&self, key_hash: u64) -> Option<u32> {
        self.lists.find(key_hash).filter(|&slot| self.lists.item(slot).list % LISTS_PER_HALF <= TAIL)
    }
}

impl Reference for Cliffhanger {
    fn tenant(&mut self, tenant: u16) {
        self.tenant = tenant;
    }

    fn access(&mut self, key_hash: u64, bytes: u32) -> bool {
        let charge = u64::from(bytes) + self.per_item;
        let number = self.queue(charge);
        let slot = self.lists.find(key_hash);
        let list = slot.map(|slot| self.lists.item(slot).list);
        if let Some(slot) = slot {
            self.lists.take_out(slot);
        }
        let which = list.map(|list| list % LISTS_PER_HALF);
        if let (Some(list), Some(which @ (TAIL | NEAR | FAR))) = (list, which)
            && list / LISTS_PER_HALF / 2 == Self::list(number, LEFT, MAIN) / LISTS_PER_HALF / 2
        {
            if TAIL < which {
                self.climb(number);
            }
            let half = (list / LISTS_PER_HALF % 2) as usize;
            if self.scales_cliffs && which < FAR && self.can_compare(number, half, charge) {
                self.scale(number, half, which == NEAR);
            }
        }
        if charge <= self.capacity {
            self.place(number, key_hash, charge);
        }
        which.is_some_and(|which| which <= TAIL)
    }

    fn contains(&self, key_hash: u64) -> bool {
        self.found(key_hash).is_some()
    }

    fn remove(&mut self, key_hash: u64) -> bool {
        self.found(key_hash).inspect(|&slot| self.lists.take_out(slot)).is_some()
    }

    fn held(&self) -> Bytes {
        let all = (0..self.queues.len()).flat_map(|number| [(number, LEFT), (number, RIGHT)]);
        Bytes(all.map(|(number, half)| self.physical(number, half)).sum())
    }

    fn items(&self) -> usize {
        (0..self.queues.len()).map(|number| self.items_of(number)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Lru;
    use crate::reference::testing::random_steps;

    #[test]
    fn the_halves_of_a_cliff_worked_by_hand() {
        // The cliff is from 2,000 to 6,000; at 3,000 a quarter of it is climbed: three keys in four go to a half that
        // is as if it had 2,000, one in four to one that is as if it had 6,000 (§4.2, Talus).
        let queue = Queue { size: 3_000, pointers: [2_000, 6_000] };
        assert!((queue.left_part() - 0.75).abs() < 1e-9);
        assert_eq!(queue.parts(), [1_500, 1_500]);
        let queue = Queue { size: 3_000, pointers: [3_000, 6_000] };
        assert_eq!((queue.parts(), queue.left_part() <= 0.5), ([1_500, 1_500], true));
    }

    #[test]
    fn memory_goes_to_the_tenant_with_the_steeper_gradient() {
        for seed in 1..=3 {
            let mut cache = Cliffhanger::new(Bytes::mib(4), Bytes(0), seed);
            let mut rng = Rng::new(seed);
            for (step, fresh) in (1_u64 << 40..).take(400_000).enumerate() {
                // One never asks for anything twice, the other for 3,000 items at random.
                let scans = step.is_multiple_of(2);
                cache.tenant(u16::from(scans));
                cache.access(if scans { fresh } else { rng.below(3_000) }, 1_000);
                if step == 4_300 {
                    assert!(
                        cache.size_of(0) < Bytes(2_000_000),
                        "who asks first has it: {}",
                        cache.size_of(0)
                    );
                }
            }
            assert!(Bytes(2_900_000) < cache.size_of(0), "{}", cache.size_of(0));
            cache.check();
        }
    }

    /// Hit ratio of rounds over 4,000 items in random order, where 2,000 fit; the first half is not counted. A share x of
    /// the items hits 1 − z + z ln z with z = 1 − x under LRU, .153 at a half, convex up to all of them.
    fn hit_ratio_of_shuffled_rounds(cache: &mut impl Reference, seed: u64) -> f64 {
        let mut rng = Rng::new(seed);
        let mut keys: Vec<u64> = (0..4_000).collect();
        let mut hits = 0_u32;
        for round in 0..200 {
            (1..keys.len()).for_each(|i| keys.swap(i, rng.index(i + 1)));
            hits +=
                u32::try_from(keys.iter().filter(|&&key| cache.access(key, 1_000) && 100 <= round).count())
                    .unwrap();
        }
        f64::from(hits) / 400_000.0
    }

    #[test]
    fn a_cliff_is_scaled() {
        for seed in 1..=3 {
            let capacity = Bytes(2_000 * 1_000);
            let lru = hit_ratio_of_shuffled_rounds(&mut Lru::new(capacity, Bytes(0)), seed);
            let scaled = hit_ratio_of_shuffled_rounds(&mut Cliffhanger::new(capacity, Bytes(0), seed), seed);
            assert!((lru - 0.153).abs() < 0.01 && 0.25 < scaled, "Cliffhanger {scaled}, LRU {lru}");
        }
    }

    #[test]
    fn a_pointers_step_evicts_nothing_by_itself() {
        let mut cache = Cliffhanger::new(Bytes(4_000 * 1_000), Bytes(0), 1);
        (0..4_000).for_each(|key| assert!(!cache.access(key, 1_000)));
        assert_eq!(cache.held(), Bytes(4_000 * 1_000));
        // The right one far away; then the first step of the left one makes its half's part nearly all.
        for (half, steps) in [(RIGHT, 500), (LEFT, 1)] {
            (0..steps).for_each(|_| cache.scale(0, half, true));
            assert_eq!((cache.held(), cache.items()), (Bytes(4_000 * 1_000), 4_000), "half {half}");
            cache.check();
        }
        let part = cache.queues[0].parts()[RIGHT];
        assert!(part < 100_000 && 1_900_000 < cache.physical(0, RIGHT), "{part}");
        assert!(!cache.access(5_000, 1_000));
        assert_eq!(cache.items(), 4_000, "one came, one went");
        cache.check();
    }

    #[test]
    fn hill_climbing_alone_is_an_lru_where_there_is_one_queue() {
        let (mut hill, mut lru) =
            (Cliffhanger::hill(Bytes(1_000_000), Bytes(0), 1), Lru::new(Bytes(1_000_000), Bytes(0)));
        let mut rng = Rng::new(1);
        for _ in 0..100_000 {
            let key = rng.below(rng.clone().below(4_000) + 1);
            assert_eq!(hill.access(key, 1_000), lru.access(key, 1_000));
        }
        assert_eq!(hill.held(), lru.held());
        hill.check();
    }

    #[test]
    fn any_sizes_and_removals_keep_the_invariants() {
        random_steps(|capacity, per_item| Cliffhanger::new(capacity, per_item, 1), Cliffhanger::check);
        random_steps(|capacity, per_item| Cliffhanger::hill(capacity, per_item, 1), Cliffhanger::check);
    }
}
