//! Making an item: its bytes into the log, the index pointing at it, everybody's accounts.
//!
//! Invariants: a write that finds no room has had no effect
//! Failure:    no segment, or no place in the index: `Refused::NoRoom`

use super::away::Content;
use super::{Fields, Key, Old, Refused, Worker};
use crate::account::{bytes_needed, charge_of, link, replace, restamp, unlink};
use crate::curves::SampledKind;
use crate::expiry::expiry_at;
use crate::hash::{KeyHash, Space};
use crate::index::{Found, Locked};
use crate::item::{Meta, View};
use crate::limits;
use crate::log::Head;
use crate::metrics::count;
use crate::rank::RAISE;
use crate::shadow::Shadow;
use crate::slot::{Place, Slot, USES_MAX};
use crate::store::STAMP_BLOCK;
use crate::sync::Ordering;
use crate::tenant::Tenant;
use crate::tier::{Made, Reference};
use media::Access;
use units::{Bytes, TenantId};

/// An item to be made.
pub(super) struct Draft<'v> {
    pub(super) fields: Fields,
    pub(super) content: Content<'v>,
    pub(super) identity: Identity,
    /// Bits of `item::state`.
    pub(super) state: u8,
}

/// What an item's CAS value is.
#[derive(Clone, Copy)]
pub(super) enum Identity {
    /// A new one.
    New,
    /// What the client says.
    Told(u64),
    /// As it was: nothing new is stored.
    Kept(Kept),
}

/// Identity that an item keeps when it is written again.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) stamp: u64,
    pub(super) cas: Option<u64>,
}

impl Old<'_> {
    /// The state that outlives a change of the value.
    pub(super) fn lasting_state(&self) -> u8 {
        self.live.map_or(0, |(_, view)| view.state() & crate::item::state::BINARY_KEY)
    }
}

impl Kept {
    /// Identity of an item that is there.
    pub(super) fn of(worker: &Worker, found: Found, view: &View<'_>) -> Self {
        Self { stamp: worker.store.stamp_of(found.slot.place(), view), cas: view.cas() }
    }
}

impl Worker {
    /// Writes an item and makes the index point at it; returns its CAS value.
    pub(super) fn write(
        &self,
        locked: &Locked<'_>,
        tenant: TenantId,
        key: &Key<'_>,
        old: &Old<'_>,
        draft: &Draft<'_>,
    ) -> Result<u64, Refused> {
        let Draft { fields, content, identity, state } = *draft;
        let owner = self.store.tenant(tenant);
        let value_len = content.len();
        let expiry = (fields.expires_at != 0).then(|| expiry_at(fields.expires_at, self.store.now_secs()));
        let mut meta = Meta {
            tenant,
            own_space: key.space != Space::Shared,
            client_flags: fields.client_flags,
            expiry,
            cas: match identity {
                Identity::New => None,
                Identity::Told(cas) => Some(cas),
                Identity::Kept(kept) => kept.cas,
            },
            state,
            away: content.away(),
            stamp: 0,
        };
        let counters = self.counters(tenant);
        let needed = bytes_needed(meta.item_len(key.bytes.len(), value_len), meta.cas.is_some());
        if self.store.geometry.item_max.as_usize() < needed {
            count(&counters.store_too_large);
            return Err(Refused::TooLarge);
        }
        // A touch stores nothing new.
        if owner.may_refuse()
            && !matches!(identity, Identity::Kept(_))
            && owner.refuses(change_of(old, tenant, meta.item_len(key.bytes.len(), value_len)))
        {
            count(&counters.writes_refused);
            count(&counters.store_no_memory);
            return Err(Refused::OverShare);
        }
        let stamp = match identity {
            Identity::Kept(kept) => kept.stamp,
            _ => self.stamp_after(old, owner),
        };
        let mut head = self.head.borrow_mut();
        let made = self.put_away(&mut meta, key, stamp, content, &mut head)?;
        let needed = bytes_needed(meta.item_len(key.bytes.len(), value_len), meta.cas.is_some());
        let head = self.head_for(&mut head, needed, stamp)?;
        restamp(&mut meta, stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(key.bytes.len(), value_len, &mut header);
        let value = if meta.away.is_some() { [&[][..], &[]] } else { content.value() };
        let parts = [&header[..header_len], key.bytes, value[0], value[1]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = self.store.log.append(head, parts).expect("the head was made for this item");
        self.lead_to(locked, key, old, (place, &meta), (len, stamp), made)?;
        counters.meter.count(Access::DramWrite, Bytes(len as u64));
        if owner.samples(key.hash) {
            let charge =
                charge_of(len) + meta.away.map_or(0, |away| away.footprint(key.bytes.len()).cast_signed());
            self.sample_sized(owner, key.hash, SampledKind::Write, charge);
        }
        if owner.is_over_ceiling() {
            self.store.ceiling_hint.store(1, Ordering::Relaxed);
        }
        Ok(meta.cas.unwrap_or(stamp))
    }

    /// Makes the index lead to an item of `len` bytes that was written, and to the record that was made for it.
    fn lead_to(
        &self,
        locked: &Locked<'_>,
        key: &Key<'_>,
        old: &Old<'_>,
        (place, meta): (Place, &Meta),
        (len, stamp): (usize, u64),
        made: Option<Reference>,
    ) -> Result<(), Refused> {
        let tick = self.store.tick();
        if let Some(found) = old.found {
            let uses = found.slot.uses();
            let raised =
                u8::from(old.live.is_some() && uses < USES_MAX && self.draw() <= RAISE[usize::from(uses)]);
            let uses = if old.live.is_some() { uses + raised } else { 0 };
            locked.replace(found, Slot::new(key.hash, place, tick, uses));
            let from = found.slot.place();
            let view = self.store.log.view(&self.reader, from);
            replace(&self.store, &self.counters, (from, &view), (place, meta), len, stamp);
        } else if !locked.insert(Slot::new(key.hash, place, tick, 0), |s| self.store.hash_at(&self.reader, s))
        {
            // The bytes written are dead; the retry, for which `make_room` grows the index, writes them again.
            self.crowded.set(true);
            if let Some(made) = made {
                self.store.tier(made).abandon(made, key.bytes.len());
            }
            return Err(Refused::NoRoom);
        } else {
            forget_shadow(self.store.tenant(meta.tenant), key.hash);
            link(&self.store, &self.counters, place, (meta, key.bytes.len()), len, stamp);
        }
        if let Some(made) = made {
            self.store.tier(made).hold(made);
        }
        Ok(())
    }

    /// Writes an item as it was, that the index does not know.
    pub(crate) fn put_as_it_was(
        &self,
        locked: &Locked<'_>,
        key: &Key<'_>,
        made: &Made<'_>,
    ) -> Result<(), Refused> {
        let mut meta = made.meta;
        let needed = bytes_needed(meta.item_len(made.key.len(), made.value.len()), meta.cas.is_some());
        if self.store.geometry.item_max.as_usize() < needed {
            return Err(Refused::TooLarge);
        }
        let mut head = self.head.borrow_mut();
        let head = self.head_for(&mut head, needed, made.stamp)?;
        restamp(&mut meta, made.stamp, head.base());
        let mut header = [0; 48];
        let header_len = meta.encode(made.key.len(), made.value.len(), &mut header);
        let parts = [&header[..header_len], made.key, made.value, &[]];
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let place = self.store.log.append(head, parts).expect("the head was made for this item");
        let slot = Slot::new(key.hash, place, made.tick, made.uses);
        if !locked.insert(slot, |s| self.store.hash_at(&self.reader, s)) {
            self.crowded.set(true);
            return Err(Refused::NoRoom);
        }
        link(&self.store, &self.counters, place, (&meta, made.key.len()), len, made.stamp);
        if let Some(away) = meta.away {
            self.store.tier(away).adopt(away, made.key.len());
        }
        Ok(())
    }

    /// Grows the index if it is crowded, as after every write.
    pub(crate) fn after_make(&self) {
        self.after_write();
    }

    /// The head, with room for `len` bytes and a base near the stamp.
    pub(super) fn head_for<'h>(
        &self,
        head: &'h mut Option<Head>,
        len: usize,
        stamp: u64,
    ) -> Result<&'h mut Head, Refused> {
        let fits = head.as_ref().is_some_and(|h| self.store.log.fits(h, len, stamp));
        if !fits {
            let store = &self.store;
            let base = store.stamp_base();
            let next = store.log.take(&store.epochs, limits::RESERVE_SEGMENTS, base, store.now_secs());
            let next = next.ok_or(Refused::NoRoom)?;
            store.note_written();
            if let Some(full) = head.replace(next) {
                store.log.seal(full);
            }
        }
        Ok(head.as_mut().expect("made above if there was none"))
    }

    /// A stamp greater than the old item's, which survives the flushes so far.
    fn stamp_after(&self, old: &Old<'_>, owner: &Tenant) -> u64 {
        let old_stamp = old.found.map_or(0, |found| {
            let place = found.slot.place();
            self.store.stamp_of(place, &self.store.log.view(&self.reader, place))
        });
        self.new_stamp(old_stamp.max(owner.survivors_from()))
    }

    /// A stamp greater than `after`.
    fn new_stamp(&self, after: u64) -> u64 {
        let (mut next, mut end) = self.stamps.get();
        while next == end || next <= after || next < self.store.stamps_of_second() {
            next = self.store.stamp_block();
            end = next + STAMP_BLOCK;
        }
        self.stamps.set((next + 1, end));
        next
    }

    /// Counts accesses to tiers, and grows the index if it is crowded. Called without locks.
    pub(super) fn after_write(&self) {
        self.pay();
        let index = &self.store.index;
        if index.is_crowded() {
            index.grow(false, |slot| self.store.hash_at(&self.reader, slot));
            self.store.adjust_allowed();
        }
    }

    pub(super) fn unlink_found(&self, locked: &Locked<'_>, old: &Old<'_>) {
        if let Some(found) = old.found {
            locked.remove(found);
            self.account_gone(found);
        }
    }

    fn account_gone(&self, found: Found) {
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        unlink(&self.store, &self.counters, place, &view);
    }
}

/// By how much a tenant holds more once an item of `len` log bytes takes the place of an old one.
fn change_of(old: &Old<'_>, tenant: TenantId, len: usize) -> i64 {
    let own = old.live.as_ref().map(|(_, view)| view).filter(|view| view.tenant() == tenant);
    charge_of(len) - own.map_or(0, |view| charge_of(view.bytes().len()))
}

/// A key that is stored again is no eviction any more.
fn forget_shadow(owner: &Tenant, hash: KeyHash) {
    if Shadow::may_know(hash, owner.sampling())
        && let Ok(mut shadow) = owner.shadow.try_lock()
    {
        shadow.hit(hash);
    }
}
