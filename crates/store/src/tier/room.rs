//! Room in tiers: what gathers is written, what was emptied comes back, what is short is cleaned.

use super::area::Head;
use super::record::Record;
use super::{Tier, TierCleaner};
use crate::epoch::Participant;
use crate::hash::{KeyHash, Space};
use crate::limits;
use crate::passes::{By, Running};
use crate::patience::Patience;
use crate::store::Store;
use crate::sync::nap;
use crate::worker::Worker;
use std::sync::Arc;
use units::Duration;

/// Passes over one tier in a turn at most.
const PASSES_MAX: u32 = 4;

/// Naps that a value whose place is a tier waits for a device that others write to: some 30 ms (a guess: as long as a slow disk
/// takes for a segment).
const NAPS_MAX: u32 = 200;

impl Tier {
    /// Segments that writers can take.
    pub(super) fn left(&self) -> u32 {
        self.segments.available().saturating_sub(limits::TIER_RESERVE)
    }

    /// The same with what was emptied and waits for readers, which is room already: another pass would evict for nothing.
    pub(super) fn left_or_coming(&self) -> u32 {
        let (free, retired) = self.segments.free_and_retired();
        (free + retired).saturating_sub(limits::TIER_RESERVE)
    }

    /// Whether there is too little room.
    pub(super) fn wants_cleaning(&self, store: &Store) -> bool {
        self.left_or_coming() < self.low_water(store).min(self.segments.count() / 4)
    }

    /// What stays has to be written anew, which nothing can be while all that was emptied waits.
    fn has_place(&self) -> bool {
        let (free, retired) = self.segments.free_and_retired();
        free != 0 || retired == 0
    }

    /// Whether a pass is wanted and gains something: a tier that fails takes nothing.
    pub(super) fn can_clean(&self, store: &Store) -> bool {
        let now = store.now_secs();
        (self.has_begun() || self.wants_cleaning(store) && self.may_gain(now))
            && self.has_place()
            && !self.rests(now)
            && !self.owes()
            && !self.is_postponed(store)
    }
}

impl Store {
    /// Whether a tier has work for a cleaner.
    pub(crate) fn tiers_want_cleaning(&self) -> bool {
        let now = self.now_secs();
        let has_work = |tier: &Tier| tier.has_full() && !tier.rests(now) || tier.can_clean(self);
        self.tiers.iter().any(has_work)
    }

    /// How long a pass over a tier waits still, the first of those that do.
    #[must_use]
    pub fn pass_waits(&self) -> Option<Duration> {
        self.tiers.iter().filter_map(|tier| tier.postponed_for(self)).min()
    }
}

impl Worker {
    /// Writes what waits to be written, and cleans tiers of which little is free. Returns whether there may be more to do. The
    /// worker is online and holds no item.
    pub(crate) fn clean_tiers(&mut self, by: By) -> bool {
        let store = Arc::clone(&self.store);
        let waits = Waits::of(by);
        let mut more = false;
        let is_mine = |tier: &&Tier| tier.is_begun() && !waits.leaves_device(&store, tier);
        'tiers: for tier in store.tiers.iter().filter(is_mine) {
            write_all_out(&store, &mut self.reader, tier);
            write_late(&store, &mut self.reader, tier);
            tier.segments.reclaim_now(&store.epochs);
            for _ in 0..PASSES_MAX {
                if !tier.can_clean(&store) {
                    break;
                }
                self.reader.quiesce();
                let cleaner =
                    self.tier_cleaner.get_or_insert_with(|| Box::new(TierCleaner::new(store.thread_rng())));
                // Another thread is at it.
                let Some(freed) = cleaner.pass(&store, &mut self.reader, &self.counters, tier) else {
                    continue 'tiers;
                };
                write_all_out(&store, &mut self.reader, tier);
                if freed == 0 {
                    break;
                }
            }
            let now = store.now_secs();
            more |=
                tier.can_clean(&store) && tier.segments.retired() != 0 || tier.has_full() && !tier.rests(now);
        }
        more
    }

    /// Makes room in a tier for a value whose place it is. Whatever comes of it, the writer comes again and puts its value somewhere.
    pub(crate) fn make_room_below(&mut self, tier: u8) {
        let store = Arc::clone(&self.store);
        self.clean_tiers(By::Writer);
        self.tier_stays_full.set(true);
        let Some(tier) = store.tiers.get(usize::from(tier)) else { return };
        let mut waits = Waits::of(By::Writer);
        if !waits.leaves_device(&store, tier) {
            waits.for_room(&store, &mut self.reader, tier);
        } else if self.tier_slow_at.get() != Some(store.now_secs()) {
            let is_well = || !tier.rests(store.now_secs()) && !tier.owes();
            let mut naps = 0;
            while !tier.can_gather(&store.epochs) && is_well() && naps < NAPS_MAX {
                self.reader.apart(nap);
                naps += 1;
            }
            self.tier_slow_at.set((naps == NAPS_MAX).then(|| store.now_secs()));
        }
    }
}

/// Writes what waits to be written by now; what others fill meanwhile has to wait for what else there is to do.
fn write_all_out(store: &Store, reader: &mut Participant, tier: &Tier) {
    for _ in 0..tier.full_count() {
        if !write_out(store, reader, tier) {
            break;
        }
    }
}

/// Writes one gathered segment of a tier; returns whether it did. What cannot be written stays gathered, and is read there.
pub(crate) fn write_out(store: &Store, reader: &mut Participant, tier: &Tier) -> bool {
    let Some(mut head) = tier.take_full(store.now_secs()) else { return false };
    let is_written = write_head(store, reader, tier, &mut head);
    if is_written {
        tier.close(&store.epochs, head);
    } else {
        tier.put_back(head);
    }
    is_written
}

/// Writes what was gathered a while ago and fills no segment: a burst that has ended leaves nothing that a crash forgets.
fn write_late(store: &Store, reader: &mut Participant, tier: &Tier) {
    while let Some(mut head) = tier.take_late(store.now_secs()) {
        write_head(store, reader, tier, &mut head);
        tier.park(head);
    }
}

/// Writes what a head has gathered and the device has not, and notes which records of that items lead to. Returns whether it
/// could. Nobody waits for this thread meanwhile, as the device may be slow.
fn write_head(store: &Store, reader: &mut Participant, tier: &Tier, head: &mut Head) -> bool {
    let tenants = tier.tenants_by_owner();
    let hash = |record: &Record<'_>| -> Option<KeyHash> {
        let tenant = tenants.get(record.fields.owner.0 as usize).copied().flatten()?;
        let space = if record.fields.own_space { Space::Own(tenant) } else { Space::Shared };
        Some(store.hasher.hash(space, record.key))
    };
    if !reader.apart(|| tier.write_out(head, store.now_secs())) {
        return false;
    }
    tier.note_written(head, |reference, record| {
        let Some(hash) = hash(record) else { return };
        let locked = store.index.lock(hash);
        let leads = |slot: crate::slot::Slot| store.log.view(reader, slot.place()).away() == Some(reference);
        if locked.find(hash, leads).is_some() {
            tier.notes.set_live(reference.at);
        }
    });
    true
}

/// Writes what waits to be written, and waits a while for room that others are making: what a pass over one more segment of
/// DRAM puts below has room then. No item is held.
pub(crate) fn relieve(store: &Store, reader: &mut Participant, waits: &mut Waits) {
    for tier in store.tiers.iter().filter(|tier| tier.is_begun()) {
        if tier.has_full() && !waits.leaves_device(store, tier) {
            let _aside = waits.is_counted.then(|| store.passes.aside(waits.by));
            write_all_out(store, reader, tier);
        }
        if !tier.rests(store.now_secs()) && !tier.owes() {
            waits.for_room(store, reader, tier);
        }
    }
}

/// Who makes room, and how patient it still is with tiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    by: By,
    /// It is counted among the passes that run.
    is_counted: bool,
    patience: Patience,
}

impl Waits {
    pub(crate) fn of(by: By) -> Self {
        Self { by, is_counted: false, patience: Patience::new() }
    }

    pub(crate) fn of_pass(running: &Running<'_>) -> Self {
        Self { is_counted: true, ..Self::of(running.by()) }
    }

    /// Whether it is counted among the passes that run.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether all that may wait for the tier's device is left to background cleaners. A writer has somebody who waits for it: what
    /// its pass finds no buffer for is evicted; where nothing may be it writes itself.
    pub(super) fn leaves_device(&self, store: &Store, tier: &Tier) -> bool {
        self.by == By::Writer && store.has_cleaners() && !tier.is_mapped() && !store.no_evict
    }

    /// Waits a while for room that others are making, unless they may wait for a device themselves.
    pub(crate) fn for_room(&mut self, store: &Store, reader: &mut Participant, tier: &Tier) {
        if !self.leaves_device(store, tier) {
            self.for_segment(store, reader, tier);
            for_buffer(store, reader, tier);
        }
    }

    /// For a segment that another thread's pass is emptying, or that was emptied and that others may see.
    fn for_segment(&mut self, store: &Store, reader: &mut Participant, tier: &Tier) {
        self.patience.begin();
        while tier.left() == 0 && !self.patience.is_over(store) {
            // Asked in this order: what a pass empties is noted before it ends.
            let comes = tier.is_being_cleaned() || tier.segments.retired() != 0;
            reader.quiesce();
            tier.segments.reclaim_now(&store.epochs);
            if !comes {
                break;
            }
            self.patience.wait(store);
        }
    }
}

/// Waits for other threads to let go of what a tier has written.
fn for_buffer(store: &Store, reader: &mut Participant, tier: &Tier) {
    let mut patience = Patience::new();
    while tier.waits_for_buffer(&store.epochs) && !patience.is_over(store) {
        reader.quiesce();
        patience.wait(store);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::hash::Space;
    use crate::{Fields, Mode, Options, Placement, RankKind, TenantSpec};
    use control::Claim;
    use media::faults::Faulty;
    use media::{Device, FileTier};
    use units::Bytes;

    /// Who needs room does not count on a pass that waits for a device; what is no pass is not counted as one less.
    #[test]
    fn a_pass_at_a_device_does_not_count_as_running() {
        let folder = std::env::temp_dir().join(format!("cotenant-aside-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let device = Arc::new(Faulty::new(FileTier::open(&folder.join("tier"), Bytes::mib(16)).unwrap()));
        let options = Options {
            memory: Bytes::mib(16),
            item_max: Bytes::kib(64),
            threads: 1,
            tenants_max: 2,
            no_evict: false,
            seed: 1,
        };
        let store = Store::with_tiers(options, &[Arc::clone(&device) as Arc<dyn Device>], 0).unwrap();
        store.set_cleaners(1);
        let (name, claim, rank) = ("t".to_owned(), Claim::default(), RankKind::default());
        let tenant = store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
        assert!(store.set_placement(tenant, Placement::Tier(0)));
        let mut worker = store.worker().unwrap();
        worker.restore(None, &mut |_, _| None);
        let (mut number, tier) = (0, &store.tiers[0]);
        for counted in [false, true] {
            while !tier.has_full() {
                let text = format!("key {number}");
                let key = worker.key(Space::Own(tenant), text.as_bytes()).unwrap();
                worker.set(tenant, &key, Mode::Set, Fields::default(), &[7; 2_000]).unwrap();
                worker.quiesce();
                number += 1;
            }
            let running = counted.then(|| store.passes.begin(By::Background));
            let mut waits = running.as_ref().map_or(Waits::of(By::Background), Waits::of_pass);
            let before = store.passes.running();
            assert_eq!(before, u32::from(counted));
            let hung = device.hang();
            std::thread::scope(|scope| {
                let reader = &mut worker.reader;
                let cleaner = scope.spawn(|| relieve(&store, reader, &mut waits));
                while tier.has_full() {
                    std::thread::yield_now();
                }
                let meanwhile = store.passes.running();
                drop(hung);
                cleaner.join().unwrap();
                assert_eq!(meanwhile, 0, "counted: {counted}");
            });
            assert_eq!(store.passes.running(), before);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
