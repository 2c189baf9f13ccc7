//! Values that are not in DRAM: how writes put them into a tier, and how requests get at them.
//!
//! Shape:      a value that the processor can load is read in place; another one is planned (`fetch_plan`), fetched by whoever
//!             runs the worker, brought, and read until the worker's second quiescent point from then
//! Invariants: a brought value is used only for the item whose record it came from; a value that cannot be had is missed
//! Failure:    a tier without room, or that fails: the value stays in DRAM

use super::place::{Draft, Identity, Kept};
use super::{Fields, Item, Key, OutOfMemory, Refused, Worker};
use crate::account::unlink;
use crate::hash::KeyHash;
use crate::item::{Meta, View};
use crate::limits::TIER_RESERVE;
use crate::log::Head;
use crate::metrics::{Counters, count};
use crate::slot::Slot;
use crate::stamps::Needed;
use crate::tenant::Tenant;
use crate::tier::record::{self, GRAIN, HEADER, Spot, footprint};
use crate::tier::{Placement, Reference, Tier};
use media::{Buffer, SlowAccess};
use units::{Bytes, TenantId};

/// The value of an item that is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'v> {
    /// These bytes, in two parts.
    Value([&'v [u8]; 2]),
    /// What the old item leads to.
    Away(Reference),
}

/// What has to be fetched for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchPlan {
    /// Place of the tier among the tiers.
    pub tier: u8,
    /// First byte of the device, a multiple of its access unit.
    pub at: u64,
    /// Bytes, a multiple of its access unit.
    pub len: usize,
    record_at: u64,
    /// Which use of its segment the record is of.
    life: u64,
    hash: KeyHash,
}

/// A record that was fetched.
#[derive(Debug)]
pub(super) struct Brought {
    tier: u8,
    at: u64,
    life: u64,
    key_len: usize,
    value_len: usize,
    /// Quiescent points since it came.
    turns: u8,
    /// Bytes before the record.
    skipped: usize,
    buffer: Buffer,
}

/// Accesses to a tier that are counted once no lock is held.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Owed {
    tier: u8,
    tenant: TenantId,
    read: u64,
    written: u64,
}

/// Buffers kept for the next fetches.
const SPENT_MAX: usize = 64;
/// Larger ones are not kept.
const SPENT_BYTES_MAX: usize = 64 << 10;

impl<'v> Content<'v> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Value(parts) => parts[0].len() + parts[1].len(),
            Self::Away(away) => away.value_len as usize,
        }
    }

    pub(super) fn away(&self) -> Option<Reference> {
        match self {
            Self::Value(_) => None,
            Self::Away(away) => Some(*away),
        }
    }

    pub(super) fn value(&self) -> [&'v [u8]; 2] {
        match self {
            Self::Value(parts) => *parts,
            Self::Away(_) => [&[], &[]],
        }
    }
}

impl Worker {
    /// An item with its value, if that can be read.
    #[inline]
    pub(super) fn item<'a>(&'a self, view: &View<'a>, stamp: u64) -> Item<'a> {
        let value = if view.is_away() { self.value_away(view) } else { Some(view.value()) };
        Item { view: *view, stamp, value }
    }

    #[inline(never)]
    fn value_away<'a>(&'a self, view: &View<'a>) -> Option<&'a [u8]> {
        let away = view.away()?;
        let key = view.key();
        let in_place = self.store.tier(away).value(&self.reader, away, key.len());
        in_place.or_else(|| {
            // As long as the segment is in the same use, the record that an item leads to is the one that was brought.
            let life = self.store.tier(away).spot(away.at).life;
            let is_it = |b: &&Brought| (b.tier, b.at, b.life) == (away.tier, away.at, life) && b.key() == key;
            self.brought.iter().find(is_it).map(Brought::value)
        })
    }

    /// The value of an item.
    pub(super) fn value_of<'a>(&'a self, view: &View<'a>) -> Result<&'a [u8], Refused> {
        if !view.is_away() {
            return Ok(view.value());
        }
        let Some(value) = self.value_away(view) else { return Err(self.refuse(view)) };
        self.owe(view.tenant(), view.away(), view.footprint(), 0);
        Ok(value)
    }

    /// Refuses an operation for a value that has to be fetched.
    #[cold]
    pub(super) fn refuse(&self, view: &View<'_>) -> Refused {
        self.wanted_value.set(view.away().map(|away| self.plan_of(view, away)));
        Refused::Away
    }

    fn plan_of(&self, view: &View<'_>, away: Reference) -> FetchPlan {
        let unit = self.store.tier(away).device.access_unit().0;
        let at = away.at / unit * unit;
        let end = (away.at + view.footprint()).next_multiple_of(unit);
        let len = usize::try_from(end - at).unwrap_or(usize::MAX);
        let life = self.store.tier(away).spot(away.at).life;
        FetchPlan { tier: away.tier, at, len, record_at: away.at, life, hash: self.store.hash_of(view) }
    }

    /// What the last operation that was refused wants fetched, if it was refused for that; says so once.
    pub fn take_wanted(&self) -> Option<FetchPlan> {
        self.wanted_value.take()
    }

    /// Fetches what the last operation was refused for; none if it was not. An item whose value cannot be had goes.
    pub(crate) fn fetch_wanted(&mut self) -> Option<Result<(), OutOfMemory>> {
        let plan = self.wanted_value.take()?;
        Some(self.fetch_now(&plan))
    }

    /// Lets go of what was brought before the last quiescent point.
    pub(super) fn age_brought(&mut self) {
        for mut brought in std::mem::take(&mut self.brought) {
            brought.turns += 1;
            if brought.turns <= 1 {
                self.brought.push(brought);
            } else {
                self.keep_spent(brought.buffer);
            }
        }
    }

    fn keep_spent(&mut self, buffer: Buffer) {
        if self.spent.len() < SPENT_MAX && buffer.len() <= SPENT_BYTES_MAX {
            self.spent.push(buffer);
        }
    }

    /// A buffer for what a plan names; none if there is no memory.
    #[must_use]
    pub fn buffer_for(&mut self, plan: &FetchPlan) -> Option<Buffer> {
        let wanted = Bytes(plan.len as u64);
        match self.spent.pop() {
            Some(buffer) => buffer.fitted(wanted).ok(),
            None => {
                Buffer::new(wanted.max(Bytes(SPENT_BYTES_MAX as u64))).and_then(|b| b.fitted(wanted)).ok()
            }
        }
    }

    /// The content of an item that `writer` writes again with another expiry or state. A record says what it said: where a restart
    /// would serve it for longer than it should, or as fresh, or as another tenant's, it is written again.
    pub(super) fn kept_content<'a>(
        &'a self,
        writer: TenantId,
        view: &View<'a>,
        expires_at: u32,
        stale: bool,
    ) -> Result<Content<'a>, Refused> {
        let Some(away) = view.away() else { return Ok(Content::Value([view.value(), &[]])) };
        let before = view.expiry().map_or(0, |e| e.at);
        let earlier = expires_at != 0 && (before == 0 || expires_at < before);
        if earlier || stale || writer != view.tenant() {
            return Ok(Content::Value([self.value_of(view)?, &[]]));
        }
        Ok(Content::Away(away))
    }

    /// Puts a value into the tier where its tenant's values go, if it is to go there. Returns the record, to which nothing
    /// leads yet.
    pub(super) fn put_away(
        &self,
        meta: &mut Meta,
        key: &Key<'_>,
        stamp: u64,
        content: Content<'_>,
        head: &mut Option<Head>,
    ) -> Result<Option<Reference>, Refused> {
        // A large value has pages of its own in DRAM.
        let Content::Value(value) = content else { return Ok(None) };
        if meta.is_apart {
            return Ok(None);
        }
        let Placement::Tier(tier) = self.store.tenant(meta.tenant).below.placement() else { return Ok(None) };
        let value_len = content.len();
        let tier = self
            .store
            .tiers
            .get(usize::from(tier))
            .filter(|t| t.takes(meta.tenant, key.bytes.len(), value_len));
        let Some(tier) = tier else { return Ok(None) };
        // First there is room for the item that leads there.
        let made = Meta { away: Some(Reference { tier: tier.id, at: 0, value_len: 0 }), ..*meta };
        let needed = Needed::new(made.item_len(key.bytes.len(), 0), meta.cas.is_some());
        self.head_for(head, needed, stamp)?;
        let fields = self.store.record_fields(tier, meta, stamp);
        let room = (TIER_RESERVE, self.store.now_secs());
        let Ok(made) = tier.append(&self.store.epochs, room, &fields, key.bytes, value) else {
            if self.tier_stays_full.take() {
                return Ok(None);
            }
            self.tier_full.set(Some(tier.id));
            return Err(Refused::NoRoom);
        };
        self.tier_stays_full.set(false);
        self.owe(meta.tenant, Some(made), 0, footprint(key.bytes.len(), value_len));
        meta.away = Some(made);
        Ok(Some(made))
    }

    fn owe(&self, tenant: TenantId, away: Option<Reference>, read: u64, written: u64) {
        let Some(away) = away else { return };
        self.owed.borrow_mut().push(Owed { tier: away.tier, tenant, read, written });
    }

    /// Counts what is owed. Called without locks.
    #[inline]
    pub(super) fn pay(&self) {
        if !self.owed.borrow().is_empty() {
            self.owed.borrow_mut().drain(..).for_each(|owed| self.pay_one(owed));
        }
    }

    fn pay_one(&self, owed: Owed) {
        let tier = &self.store.tiers[usize::from(owed.tier)];
        let (owner, below) = (self.store.tenant(owed.tenant), self.counters(owed.tenant).at(tier.id));
        let lines = [(SlowAccess::Read, owed.read / GRAIN), (SlowAccess::Write, owed.written / GRAIN)];
        for (kind, lines) in lines.into_iter().filter(|(_, lines)| 0 < *lines) {
            below.count(kind, lines);
            self.take_time(tier, owner, kind, lines);
        }
    }

    /// Counts a tenant's hit whose value is in a tier, takes its time, and brings it back to DRAM if it is to. `uses` is what the slot
    /// said. What is rare stands apart and comes last, so that counting saves no registers.
    #[inline(never)]
    pub(super) fn note_tier_hit(
        &self,
        (owner, counters): (&Tenant, &Counters),
        key: &Key<'_>,
        view: &View<'_>,
        uses: u8,
    ) {
        let Some(away) = view.away() else { return };
        if !counters.at(away.tier).count_small_hit(away.value_len as usize + key.bytes.len()) {
            self.note_large_tier_hit(owner, key, view, uses);
        } else if owner.below.heeds(uses) {
            self.follow_tier_hit(owner, key, view, uses);
        }
    }

    #[inline(never)]
    fn note_large_tier_hit(&self, owner: &Tenant, key: &Key<'_>, view: &View<'_>, uses: u8) {
        let Some(away) = view.away() else { return };
        self.counters(owner.id).at(away.tier).count_hit(away.lines(key.bytes.len()));
        if owner.below.heeds(uses) {
            self.follow_tier_hit(owner, key, view, uses);
        }
    }

    #[inline(never)]
    fn follow_tier_hit(&self, owner: &Tenant, key: &Key<'_>, view: &View<'_>, uses: u8) {
        let Some(away) = view.away() else { return };
        let lines = away.lines(key.bytes.len());
        let wanted = self.store.promotion().uses().is_some_and(|from| from <= uses);
        if wanted && self.store.tenant(view.tenant()).below.placement() == Placement::Auto {
            self.promote(key, away);
        }
        self.take_time(self.store.tier(away), owner, SlowAccess::Read, lines);
    }

    /// Brings a value back to DRAM, if there is room at once.
    #[inline(never)]
    fn promote(&self, key: &Key<'_>, away: Reference) {
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((found, view)) = old.live.filter(|(_, view)| view.away() == Some(away)) else { return };
        let tier = self.store.tier(away);
        let in_place = tier.record(&self.reader, away, key.bytes.len()).map(|record| record.value);
        let value = if tier.is_mapped() { in_place } else { self.value_away(&view) };
        let Some(value) = value else { return };
        let draft = Draft {
            fields: Fields {
                client_flags: view.client_flags(),
                expires_at: view.expiry().map_or(0, |e| e.at),
            },
            content: Content::Value([value, &[]]),
            identity: Identity::Kept(Kept::of(self, found, &view)),
            state: view.state(),
            // The look-up that brings it back has counted already.
            is_use: false,
            look_up: None,
        };
        let tenant = view.tenant();
        if self.write(&locked, tenant, key, &old, &draft).is_ok() {
            count(&self.counters(tenant).at(away.tier).promotions);
        }
    }

    /// Counts a look-up whose value could not be had.
    pub fn note_lost(&self, tenant: TenantId) {
        self.wanted_value.set(None);
        let counters = self.counters(tenant);
        count(&counters.get_misses);
        count(&counters.tier_lost);
    }

    /// What has to be fetched before an operation on this key can read its value; none if nothing.
    #[must_use]
    pub fn fetch_plan(&self, key: &Key<'_>) -> Option<FetchPlan> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        let away = view.away()?;
        if self.store.is_expired(&view)
            || self.store.is_flushed(place, &view)
            || self.value_away(&view).is_some()
        {
            return None;
        }
        Some(self.plan_of(&view, away))
    }

    /// Place among these keys of the first whose value has to be fetched before it can be read. If that is the very first, it is as if
    /// that had been refused: `take_wanted` says what to fetch.
    #[inline]
    pub fn first_away<'k>(&self, mut keys: impl Iterator<Item = &'k Key<'k>>) -> Option<usize> {
        if self.store.tiers.is_empty() {
            return None;
        }
        let mut plan = None;
        let at = keys.position(|key| {
            plan = self.fetch_plan(key);
            plan.is_some()
        });
        // Whoever serves those before it comes again for it, and may not: nobody else is to take the wish for its own.
        if at == Some(0) {
            self.wanted_value.set(plan);
        }
        at
    }

    /// Hands over what a plan named, for operations until the second quiescent point from now. An item that still leads there
    /// goes if these bytes are not its record: they are damaged. Returns whether they are the record.
    pub fn bring(&mut self, plan: &FetchPlan, buffer: Buffer) -> bool {
        let skipped = usize::try_from(plan.record_at - plan.at).unwrap_or(usize::MAX);
        let spot = Spot { at: plan.record_at, life: plan.life };
        let record = buffer.bytes().get(skipped..).and_then(|bytes| record::decode(spot, bytes));
        let Some((key_len, value_len)) = record.map(|record| (record.key.len(), record.value.len())) else {
            self.forget(plan);
            return false;
        };
        let (tier, at, life) = (plan.tier, spot.at, spot.life);
        self.brought.push(Brought { tier, at, life, key_len, value_len, turns: 0, skipped, buffer });
        true
    }

    /// Fetches what a plan names and brings it; an item whose value cannot be had goes. Blocks.
    ///
    /// # Errors
    /// If there is no memory to read it into; the item stays.
    pub fn fetch_now(&mut self, plan: &FetchPlan) -> Result<(), OutOfMemory> {
        let mut buffer = self.buffer_for(plan).ok_or(OutOfMemory)?;
        if let Some(tier) = self.store.tiers.get(usize::from(plan.tier)) {
            if tier.device.read(plan.at, buffer.bytes_mut()).is_ok() {
                self.bring(plan, buffer);
            } else {
                self.cannot_fetch(plan);
            }
        }
        Ok(())
    }

    /// Says that the device could not be read where a plan says: the item goes.
    pub fn cannot_fetch(&self, plan: &FetchPlan) {
        if let Some(tier) = self.store.tiers.get(usize::from(plan.tier)) {
            tier.note_unread();
        }
        self.forget(plan);
    }

    /// Removes an item whose value cannot be had, if it still leads where the plan says, and to what was there then.
    fn forget(&self, plan: &FetchPlan) {
        let locked = self.store.index.lock(plan.hash);
        let tier = &self.store.tiers[usize::from(plan.tier)];
        if tier.spot(plan.record_at).life != plan.life {
            return;
        }
        let is_it = |slot: Slot| {
            let away = self.store.log.view(&self.reader, slot.place()).away();
            away.is_some_and(|away| (away.tier, away.at) == (plan.tier, plan.record_at))
        };
        if let Some(found) = locked.find(plan.hash, is_it) {
            let view = self.store.log.view(&self.reader, found.slot.place());
            locked.remove(found);
            unlink(&self.store, &self.counters, found.slot.place(), &view);
            tier.note_broken();
        }
    }
}

impl Brought {
    fn key(&self) -> &[u8] {
        let at = self.skipped + HEADER;
        &self.buffer.bytes()[at..at + self.key_len]
    }

    fn value(&self) -> &[u8] {
        let at = self.skipped + HEADER + self.key_len;
        &self.buffer.bytes()[at..at + self.value_len]
    }
}

impl Tier {
    pub(crate) fn note_broken(&self) {
        self.counters.broken.fetch_add(1, crate::sync::Ordering::Relaxed);
    }
}
