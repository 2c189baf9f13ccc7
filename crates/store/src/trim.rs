//! Bringing tenants below their ceilings: evicts in place, copies nothing.
//!
//! Shape:      the segments that hold the most of a tenant, and as many random ones -> its lowest ranks in them go; where there
//!             are none, the same with what is written of heads
//! Cost:       two walks over the sources, and two look-ups per item of the tenant

use crate::account::unlink;
use crate::census::{Fate, Pending, Step};
use crate::cleaner::{Cleaner, Removal, note_removal};
use crate::epoch::Participant;
use crate::large::evict_drawn;
use crate::metrics::ThreadCounters;
use crate::segment::State;
use crate::store::Store;
use units::{SegmentId, TenantId};

/// Segments that are looked at to bring a tenant below its ceiling: fewer see too little of it to tell its worst items
/// (10 instead of 20 gave .7809 of hits on the mixed trace, 20 give .7888).
const TRIM_WIDTH: usize = 20;
/// Looks at most until a tenant is below its ceiling.
const TRIM_ROUNDS_MAX: u32 = 8;

/// Which segments are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Among {
    /// Those that are full.
    Sealed,
    /// Those that are being filled, by whomever: of a tenant with a small ceiling they can hold all.
    Heads,
}

/// Where to look, in turn, while nothing is found: among full ones once more, for a head may have been sealed between the two.
const LOOKS: [Among; 3] = [Among::Sealed, Among::Heads, Among::Sealed];

impl Cleaner {
    /// Brings every tenant that is over its ceiling below it.
    pub(crate) fn enforce_ceilings(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
    ) {
        for tenant in store.tenants().filter(|t| t.is_over_ceiling()) {
            if store.no_evict {
                return;
            }
            // Several rounds if the sources of one do not hold enough of the tenant.
            let mut rounds = 0..TRIM_ROUNDS_MAX;
            for among in LOOKS {
                while tenant.is_over_ceiling()
                    && rounds.next().is_some()
                    && self.trim(store, reader, counters, (tenant.id, tenant.excess()), among)
                {
                }
            }
        }
    }

    /// Evicts about `excess` bytes of one tenant, the lowest ranks among the segments that hold the most of it and as
    /// many random ones. Returns whether any went.
    fn trim(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        counters: &ThreadCounters,
        (tenant, excess): (TenantId, u64),
        among: Among,
    ) -> bool {
        match among {
            Among::Sealed => self.choose_sources_of(store, tenant),
            Among::Heads => {
                self.sources.clear();
                let is_head = |id: &SegmentId| store.log.segment(*id).state() == State::Head;
                self.sources.extend(store.log.ids().filter(is_head));
            }
        }
        self.census.take(store, reader, &self.sources, Step::ALL, Some(tenant));
        let drawn = self.draw_of(store, reader, tenant);
        self.census.add(store, &drawn);
        self.census.take_from(store, tenant, excess);
        let mut evicted = 0 < evict_drawn(&mut self.census, store, counters, &drawn);
        for id in self.sources.drain(..) {
            store.log.walk(reader, id, |place, view| {
                // An item may take more in a tier than was counted here.
                if view.tenant() != tenant || store.tenant(tenant).excess() == 0 {
                    return;
                }
                let item = Pending::new(store, place, view);
                let Some(found) = item.find(store).filter(|_| !item.is_dead(store)) else { return };
                if self.census.fate(store, &item, found) != Fate::Goes {
                    return;
                }
                let locked = store.index.lock(item.hash);
                // It may have expired, or been flushed, meanwhile.
                if let Some(found) = locked.find_again(found, item.hash).filter(|_| !item.is_dead(store)) {
                    locked.remove(found);
                    unlink(store, counters, place, &item.view);
                    drop(locked);
                    note_removal(store, counters, found, &item, Removal::Live { is_over: true });
                    evicted = true;
                }
            });
            // A head is its owner's, who may have sealed it meanwhile.
            if among == Among::Sealed {
                store.log.segment(id).set_state(State::Sealed);
            }
        }
        reader.quiesce();
        self.census.give_back();
        evicted
    }

    /// Claims the segments that hold the most of a tenant, and as many random ones.
    fn choose_sources_of(&mut self, store: &Store, tenant: TenantId) {
        let held = |id: SegmentId| {
            let segment = store.log.segment(id);
            let written =
                segment.tenants().find(|(t, _)| *t == tenant).map_or(0, |(_, bytes)| u64::from(bytes));
            // What was evicted here before is still counted as written.
            written * u64::from(segment.live()) / u64::from(segment.used().max(1))
        };
        self.chooser.choose(store, TRIM_WIDTH, |_, id| held(id), &mut self.sources);
    }
}
