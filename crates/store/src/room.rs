//! Room for writers: how a worker takes space back when it needs it, and how a background cleaner does before.
//!
//! Invariants: nobody waits for ever: passes that find nothing, waiting for threads that hold on, and segments that others took are counted
//! Failure:    nothing may be evicted, or a thread holds on to emptied segments: out of memory, as memcached says

use crate::cleaner::{Cleaner, Outcome};
use crate::limits;
use crate::passes::{By, Running};
use crate::patience::Patience;
use crate::store::Store;
use crate::sync::{Ordering, give_way};
use crate::tier::{Waits, relieve};
use crate::worker::{OutOfMemory, Worker};
use std::sync::Arc;

/// `make_room` gives up when futile turns weigh so much.
const FUTILE_MAX: u32 = 64;
/// A pass that finds nothing, or a thread that does not let go, weighs this; a pass that finds nothing while others
/// clean weighs one, since they may free what it needs.
const FUTILE_ALONE: u32 = 8;

/// It gives up, too, when its own passes have freed twice what it wants and so many segments more: others take them as fast.
const FREED_MAX: u32 = 256;

/// Steps by which the index shrinks in a turn of the cleaner at most: some thousand buckets, about a millisecond.
const SHRINKS_MAX: usize = 64;

/// What waiting for emptied segments brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waited {
    /// A writer can take a segment.
    Room,
    /// Nothing waits any more, and there is no room.
    Nothing,
    /// A thread does not let go.
    HeldOn,
}

impl Worker {
    /// Takes space back until a writer can go on, or fetches the value that the refused operation wants. The worker is online.
    ///
    /// # Errors
    /// If nothing may be evicted and nothing is dead, if another thread holds on to what was emptied, or if there is no memory
    /// to read the value into.
    pub fn make_room(&mut self) -> Result<(), OutOfMemory> {
        let store = Arc::clone(&self.store);
        self.reader.quiesce();
        if let Some(fetched) = self.fetch_wanted() {
            return fetched;
        }
        store.sweep.advance(&store);
        if !store.has_cleaners() {
            store.index.make_huge_page();
            store.log.give_surplus_back();
        }
        if store.no_evict {
            // No pass draws large values, dead or alive.
            self.sweep_values(&store);
        }
        let crowded = self.crowded.take();
        if !crowded {
            store.cleaning.writer_waits.fetch_add(1, Ordering::Relaxed);
        }
        let grew = store.index.grow(crowded, |slot| store.hash_at(&self.reader, slot));
        store.adjust_allowed();
        // Where most places are free keys share theirs on purpose: no number of places helps.
        if crowded && (!grew || store.index.is_sparse()) {
            return Err(OutOfMemory);
        }
        if let Some(tier) = self.tier_full.take() {
            self.make_room_below(tier);
        }
        let wanted = self.wanted.take().max(1);
        let (mut futile, mut freed) = (0, 0);
        let mut patience = Patience::new();
        let mut begun = store.passes.begun();
        while futile < FUTILE_MAX && freed < FREED_MAX.saturating_add(wanted.saturating_mul(2)) {
            match self.wait_for_retired(wanted) {
                Waited::Room => return Ok(()),
                // What is emptied now would wait for the same thread.
                Waited::HeldOn => {
                    futile += FUTILE_ALONE;
                    continue;
                }
                Waited::Nothing => {}
            }
            let others = store.passes.running();
            if limits::RESERVE_SEGMENTS <= others {
                // One more would find no segment to copy into. What the others free is free for us too; what they have freed others took.
                let before = std::mem::replace(&mut begun, store.passes.begun());
                futile += u32::from(before != begun);
                give_way();
                continue;
            }
            let is_known = store.has_little_dead();
            if is_known && others == 0 {
                self.clean_tiers(By::Writer);
                break;
            }
            // What is missing others may have, or be about to free.
            let outcome = if is_known { Outcome::Taken } else { self.clean() };
            match outcome {
                Outcome::Taken if patience.is_over(&store) => break,
                Outcome::Taken => patience.wait(&store),
                Outcome::Freed(segments) => freed += u32::try_from(segments).unwrap_or(u32::MAX),
                Outcome::Nothing => {
                    futile += if others == 0 { FUTILE_ALONE } else { 1 };
                    give_way();
                }
            }
        }
        if self.wait_for_retired(wanted) == Waited::Room { Ok(()) } else { Err(OutOfMemory) }
    }

    /// Waits for other threads to let go of emptied segments, until there are as many as wanted.
    fn wait_for_retired(&mut self, wanted: u32) -> Waited {
        let mut patience = Patience::new();
        loop {
            self.reader.quiesce();
            if limits::RESERVE_SEGMENTS + wanted <= self.store.log.reclaim_now(&self.store.epochs) {
                return Waited::Room;
            }
            if !self.store.log.has_retired() {
                if self.store.log.give_warm_back(self.store.log.segment_bytes() as u64 * u64::from(wanted)) {
                    continue;
                }
                return Waited::Nothing;
            }
            if patience.is_over(&self.store) {
                return Waited::HeldOn;
            }
            patience.wait(&self.store);
        }
    }

    /// A cleaning pass of a writer.
    pub(crate) fn clean(&mut self) -> Outcome {
        let store = Arc::clone(&self.store);
        self.clean_tiers(By::Writer);
        self.run(&store, &store.passes.begin(By::Writer))
    }

    fn run(&mut self, store: &Store, running: &Running<'_>) -> Outcome {
        let cleaner = self.cleaner.get_or_insert_with(|| Box::new(Cleaner::new(store.thread_rng())));
        // What goes is chosen by what fits below.
        let mut waits = Waits::of_pass(running);
        relieve(store, &mut self.reader, &mut waits);
        cleaner.pass(store, &mut self.reader, &self.counters, waits)
    }

    /// What a background cleaner does when it is woken: ceilings, then room, then what is dead. Returns whether
    /// there may be more to do. The worker is online.
    pub fn maintain(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        self.reader.quiesce();
        let cleaner = self.cleaner.get_or_insert_with(|| Box::new(Cleaner::new(store.thread_rng())));
        if store.ceiling_hint.swap(0, Ordering::Relaxed) != 0 {
            cleaner.enforce_ceilings(&store, &mut self.reader, &self.counters);
        }
        let sweeps = self.sweep_departed() | self.sweep_values(&store);
        store.sweep.advance(&store);
        let shrinks = self.shrink_index(&store);
        store.adjust_allowed();
        store.log.reclaim_now(&store.epochs);
        store.log.touch_ahead();
        let sweeps = sweeps | store.log.give_surplus_back();
        let sweeps = sweeps | self.clean_tiers(By::Background) | shrinks | store.index.make_huge_page();
        if 0 < store.passes_wanted() {
            return self.help() || sweeps;
        }
        let cleaner = self.cleaner.get_or_insert_with(|| Box::new(Cleaner::new(store.thread_rng())));
        cleaner.reclaim_dead(&store, &mut self.reader, &self.counters) || sweeps
    }

    /// Takes buckets from an index that became too large, and lets others run between steps: nobody waits for a lock whose holder the system
    /// has sent away. Returns whether there may be more to do.
    fn shrink_index(&self, store: &Store) -> bool {
        for _ in 0..SHRINKS_MAX {
            if !store.index.shrink(|slot| store.hash_at(&self.reader, slot)) {
                return false;
            }
            give_way();
        }
        true
    }

    /// What another background cleaner does when it is woken: a pass, if fewer run than are wanted. Returns whether there may
    /// be more to do. The worker is online.
    pub fn help(&mut self) -> bool {
        let store = Arc::clone(&self.store);
        self.reader.quiesce();
        store.log.reclaim_now(&store.epochs);
        if store.has_little_dead() {
            return false;
        }
        let wanted = u32::try_from(store.passes_wanted()).unwrap_or(u32::MAX);
        let Some(running) = store.passes.begin_wanted(wanted) else { return false };
        let freed = self.run(&store, &running);
        matches!(freed, Outcome::Freed(_)) && 0 < store.passes_wanted()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::hash::Space;
    use crate::index::MERGE_STEP;
    use crate::sync::GAVE_WAY;
    use crate::{Fields, Mode, Options, RankKind, TenantSpec};
    use control::Claim;
    use units::Bytes;

    #[test]
    fn others_run_between_steps_of_an_index_that_shrinks() {
        let options = Options {
            memory: Bytes::mib(64),
            item_max: Bytes::kib(64),
            threads: 1,
            tenants_max: 1,
            no_evict: false,
            seed: 1,
        };
        let store = Store::new(options).unwrap();
        let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
        let tenant = store.add_tenant(TenantSpec { name, own_space: false, claim, rank }).unwrap();
        let mut worker = store.worker().unwrap();
        let each = |of: &dyn Fn(&[u8])| (0..60_000).for_each(|n| of(format!("key {n}").as_bytes()));
        each(&|name| {
            let key = worker.key(Space::Shared, name).unwrap();
            worker.set(tenant, &key, Mode::Set, Fields::default(), b"1").unwrap();
        });
        let before = store.index.buckets();
        each(&|name| {
            assert!(worker.delete(tenant, &worker.key(Space::Shared, name).unwrap()));
        });
        let (mut turns, gave_way) = (1, GAVE_WAY.get());
        while worker.maintain() {
            turns += 1;
        }
        let gone = before - store.index.buckets();
        assert!(5_000 < gone, "{before} buckets, {gone} of them gone");
        let steps = u64::from(gone / MERGE_STEP);
        let gave_way = GAVE_WAY.get() - gave_way;
        assert!(
            steps <= gave_way && steps <= turns * SHRINKS_MAX as u64 + 1,
            "{steps}, {gave_way}, {turns} turns"
        );
    }
}
