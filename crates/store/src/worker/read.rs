//! Reading items: look-ups that count as uses, and looks that do not.
//!
//! Invariants: no look-up takes a lock

use super::{Item, Key, Refused, Worker};
use crate::classes::CLASSES;
use crate::curves::SampledKind;
use crate::index::Found;
use crate::metrics::{Counters, count};
use crate::shadow::Shadow;
use crate::slot::Slot;
use crate::sync::{Ordering, bump, try_lock};
use crate::tenant::Tenant;
use units::{Bytes, TenantId};

/// Buckets ahead of a walk over the index whose lines are loaded, and whose items are: each item waits for the memory, its bucket has come before.
const BUCKETS_AHEAD: u32 = 6;
const ITEMS_AHEAD: u32 = 2;

/// What an item is beside its value.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// The item.
    pub item: Item<'a>,
    /// Some look-up found it since its key is stored.
    pub fetched: bool,
    slot: Slot,
    /// Bytes that it is charged.
    pub size: Bytes,
}

impl Description<'_> {
    pub(super) fn uses(&self) -> u8 {
        self.slot.uses()
    }
}

/// How an item that is still there has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// It has expired.
    Expired,
    /// It was flushed.
    Flushed,
}

/// How far a walk over all items has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    bucket: u32,
}

impl Worker {
    /// Looks a key up for a tenant. An item whose value would have to be fetched is a miss, see [`Worker::look_up`].
    #[inline]
    pub fn get(&self, tenant: TenantId, key: &Key<'_>) -> Option<Item<'_>> {
        self.look_up(tenant, key).unwrap_or_else(|_| {
            self.note_lost(tenant);
            None
        })
    }

    /// Looks a key up for a tenant.
    ///
    /// # Errors
    /// If the value has to be fetched first: see [`Worker::fetch_plan`].
    #[inline]
    pub fn look_up(&self, tenant: TenantId, key: &Key<'_>) -> Result<Option<Item<'_>>, Refused> {
        let counters = self.counters(tenant);
        let Some(found) = self.store.index.find(key.hash, |slot| self.is_key(slot, key)) else {
            count(&counters.get_misses);
            self.note_miss(tenant, key, SampledKind::LookUp);
            return Ok(None);
        };
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        if self.store.is_expired(&view) || self.store.is_flushed(place, &view) {
            self.count_dead(counters, Some(found));
            count(&counters.get_misses);
            self.note_miss(tenant, key, SampledKind::DeadLookUp);
            return Ok(None);
        }
        let item = self.item(&view, self.store.stamp_of(place, &view));
        if item.value.is_none() {
            return Err(self.refuse(&view));
        }
        count(&counters.get_hits);
        let sizes = view.sizes();
        count(&self.counters.class(sizes.whole, view.own_space()).get_hits);
        let owner = self.store.tenant(tenant);
        self.note_use(owner, found);
        self.note_hit(owner, key, sizes.charge());
        // What is read of DRAM to find a value below it is not counted, as index lines are not.
        if view.is_away() {
            self.note_tier_hit((owner, counters), key, &view, found.slot.uses());
        } else {
            counters.dram.count_read(Bytes(sizes.whole as u64));
        }
        Ok(Some(item))
    }

    /// Looks a key up without counting or noting a use.
    pub fn peek(&self, key: &Key<'_>) -> Option<Item<'_>> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        let dead = self.store.is_expired(&view) || self.store.is_flushed(place, &view);
        (!dead).then(|| self.item(&view, self.store.stamp_of(place, &view)))
    }

    /// Looks a key up, whether its item has expired or not, without counting: the answer to a touch that ends it.
    pub fn peek_dead(&self, key: &Key<'_>) -> Option<Item<'_>> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        Some(self.item(&view, self.store.stamp_of(place, &view)))
    }

    /// How the item of a key has died; none if it lives, or is not there.
    pub fn death_of(&self, key: &Key<'_>) -> Option<Death> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        if self.store.is_expired(&view) {
            return Some(Death::Expired);
        }
        self.store.is_flushed(place, &view).then_some(Death::Flushed)
    }

    /// Tells the estimator of the tenant's curve of a look-up that found its item, and does not end with a write.
    #[inline]
    pub(super) fn note_hit(&self, owner: &Tenant, key: &Key<'_>, charge: i64) {
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, SampledKind::LookUp, charge);
        }
    }

    /// Tells the estimator of the tenant's curve of a look-up that found nothing, and does not end with a write, and asks the shadow
    /// queue.
    pub(super) fn note_miss(&self, tenant: TenantId, key: &Key<'_>, kind: SampledKind) {
        let owner = self.store.tenant(tenant);
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, kind, 0);
        }
        self.ask_shadow(tenant, key);
    }

    /// Asks the shadow queue whether a look-up that found nothing would have with more memory: before the key is stored, which makes
    /// the queue forget it. It forgets it with the answer, so that who comes again asks in vain.
    pub(super) fn ask_shadow(&self, tenant: TenantId, key: &Key<'_>) {
        let owner = self.store.tenant(tenant);
        // A miss that does not get the lock at once is not counted: it would wait in the request (Memshare §5.2).
        if Shadow::may_know(key.hash, owner.sampling())
            && let Some(mut shadow) = try_lock(&owner.shadow)
        {
            let hits = shadow.hit(key.hash, self.store.now_secs());
            if 0 < hits {
                bump(&self.counters(tenant).shadow_hits, hits);
                self.store.pending_shadow_hits.fetch_add(hits, Ordering::Relaxed);
            }
        }
    }

    /// What kind of look-up found nothing, or an item that has died.
    pub(super) fn kind_of(dead: Option<Found>) -> SampledKind {
        if dead.is_some() { SampledKind::DeadLookUp } else { SampledKind::LookUp }
    }

    /// Counts a miss whose item has died, if it has one.
    pub(super) fn count_dead(&self, counters: &Counters, dead: Option<Found>) {
        let Some(found) = dead else { return };
        let expired = self.store.is_expired(&self.store.log.view(&self.reader, found.slot.place()));
        count(if expired { &counters.get_expired } else { &counters.get_flushed });
    }

    /// Calls `each` with the live items of some buckets of the index, about eight in each, and moves the cursor on. Returns
    /// false behind the last. Takes no lock; an item that moves within the index meanwhile may be shown twice or not at
    /// all.
    pub fn walk<'a>(
        &'a self,
        cursor: &mut Cursor,
        buckets: u32,
        mut each: impl FnMut(&Description<'a>),
    ) -> bool {
        let end = cursor.bucket.saturating_add(buckets).min(self.store.index.buckets());
        for bucket in cursor.bucket..end {
            self.store.index.prefetch_bucket(bucket.saturating_add(BUCKETS_AHEAD));
            let ahead = bucket.saturating_add(ITEMS_AHEAD);
            self.store.index.each_in(ahead, |slot| self.store.log.prefetch(slot.place()));
            self.store.index.each_in(bucket, |slot| {
                let known = self.describe_slot(slot);
                let dead = self.store.is_expired(&known.item.view)
                    || self.store.is_flushed(slot.place(), &known.item.view);
                if !dead {
                    each(&known);
                }
            });
        }
        cursor.bucket = end;
        end < self.store.index.buckets()
    }

    /// Seconds for which nobody asked for or stored the item of each size class that this is longest of, among those `wanted`
    /// in so many buckets of the index: in a random part of all items. Zero for a class of which there is none.
    pub fn longest_idle(&self, buckets: u32, wanted: impl Fn(&Item<'_>) -> bool) -> [u32; CLASSES] {
        let mut longest = [0; CLASSES];
        self.walk(&mut Cursor::default(), buckets, |known| {
            if wanted(&known.item) {
                let idle = self.store.now_secs().saturating_sub(self.used_secs(known));
                let of_class = &mut longest[known.item.class()];
                *of_class = idle.max(*of_class);
            }
        });
        longest
    }

    /// Describes an item, without counting or noting a use.
    pub fn describe(&self, key: &Key<'_>) -> Option<Description<'_>> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        self.description(found)
    }

    /// Second of the store's clock at which an item was last used or stored: not later than it was, and earlier by a tick
    /// of the rank clock at most if it was used since it was stored.
    #[must_use]
    pub fn used_secs(&self, description: &Description<'_>) -> u32 {
        self.store.used_secs(description.slot, description.item.stamp)
    }

    /// What is known of a live item.
    pub(crate) fn description(&self, found: Found) -> Option<Description<'_>> {
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        let dead = self.store.is_expired(&view) || self.store.is_flushed(place, &view);
        (!dead).then(|| self.describe_any(found))
    }

    /// The same, dead or alive: an item may be created to be dead.
    pub(super) fn describe_any(&self, found: Found) -> Description<'_> {
        self.describe_slot(found.slot)
    }

    fn describe_slot(&self, slot: Slot) -> Description<'_> {
        let place = slot.place();
        let view = self.store.log.view(&self.reader, place);
        let stamp = self.store.stamp_of(place, &view);
        Description {
            item: self.item(&view, stamp),
            fetched: slot.uses() != 0,
            slot,
            size: Bytes(view.sizes().charge().cast_unsigned()),
        }
    }
}
