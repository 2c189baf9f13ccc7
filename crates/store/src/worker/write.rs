//! Storing, removing and touching items.
//!
//! Invariants: conditions are looked at and the item is made under the locks of its key
//! Source:     memcached 1.6.45's rules for every mode, `C` and `I` of its meta commands included

use super::away::Content;
use super::place::{Draft, Identity, Kept, forget_shadow};
use super::{Fields, Item, Key, Old, Refused, Worker};
use crate::curves::SampledKind;
use crate::hash::Space;
use crate::index::Locked;
use crate::item::{HEADER, state};
use crate::metrics::count;
use crate::slot::Place;
use crate::upload::Upload;
use units::TenantId;

/// When to store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Always.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the value that is there; its flags and expiry stay.
    Append,
    /// Before the value that is there; its flags and expiry stay.
    Prepend,
    /// If it has this CAS value.
    Cas(u64),
}

/// What became of a conditional store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// Stored.
    Stored,
    /// The condition of add, replace, append or prepend did not hold.
    NotStored,
    /// The CAS value differs.
    Exists,
    /// There is nothing to compare the CAS value with.
    NotFound,
}

/// A value to be stored, and when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'v> {
    /// When to store.
    pub mode: Mode,
    /// What to store besides the value.
    pub fields: Fields,
    /// The value.
    pub value: &'v [u8],
    /// CAS value that the item must have for `Append` and `Prepend`; 0 for any.
    pub compare: u64,
    /// With `Cas`: store over an item of a greater CAS value too, as stale, with the expiry that it has.
    pub or_stale: bool,
    /// CAS value of the new item; none for the next one.
    pub cas: Option<u64>,
    /// With `Append` and `Prepend`: store even if there is none.
    pub vivify: bool,
    /// The key was given in base64.
    pub binary_key: bool,
}

/// What became of a `Write`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Whether it was stored.
    pub outcome: Stored,
    /// CAS value of the item if it was stored, else 0.
    pub cas: u64,
    /// Bytes of the value that is there now, or of that which was not stored.
    pub value_len: usize,
}

/// How an item is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// The item goes.
    Item,
    /// Its value and fields go; an empty item stays, with these fields.
    Value(Fields),
}

/// An item to be removed, or marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remove {
    /// CAS value that the item must have; none for any.
    pub compare: Option<u64>,
    /// What goes.
    pub what: Removal,
    /// Mark what stays as stale: readers are told, and the first of them to store it again. The item stays then.
    pub stale: bool,
    /// Expiry of the item that stays; none for what it has.
    pub expires_at: Option<u32>,
    /// CAS value of the item that stays; none for the next one, or for what it was if only the value goes.
    pub cas: Option<u64>,
}

/// What became of a `Remove`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removed {
    /// It was done.
    Done,
    /// The CAS value differs.
    Exists,
    /// There is none.
    NotFound,
}

impl<'v> Write<'v> {
    /// A write as the classic commands do it.
    #[must_use]
    pub fn plain(mode: Mode, fields: Fields, value: &'v [u8]) -> Self {
        Self { mode, fields, value, compare: 0, or_stale: false, cas: None, vivify: false, binary_key: false }
    }
}

/// What a write does with what it finds.
enum Verdict {
    /// Stores.
    Store,
    /// Stores over a newer item, as stale.
    StoreStale,
    /// Does not.
    Not(Stored),
}

impl Worker {
    /// Counts a storing command whose data could not be used.
    pub fn note_refused_set(&self, tenant: TenantId) {
        count(&self.counters(tenant).cmd_set);
    }

    /// Counts a value that was refused before it came here, because it is too large.
    pub fn note_too_large(&self, tenant: TenantId) {
        count(&self.counters(tenant).store_too_large);
    }

    /// Counts a delete whose CAS value differed as one that found nothing: not every protocol does.
    pub fn note_delete_miss(&self, tenant: TenantId) {
        count(&self.counters(tenant).delete_misses);
    }

    /// Counts a command of the meta protocol that is counted.
    pub fn note_meta(&self, tenant: TenantId) {
        count(&self.counters(tenant).cmd_meta);
    }

    /// Counts the last write, which found no memory, and takes the older item of its key along if it was to be replaced: nobody
    /// shall take it for the new one (as memcached does).
    pub fn note_no_memory(&self, tenant: TenantId, replaced: Option<&Key<'_>>) {
        // Nobody waits any more for what it wanted: who makes room next does so for somebody else.
        self.wanted.set(0);
        self.crowded.set(false);
        count(&self.counters(tenant).store_no_memory);
        let (len, own_space) = self.no_memory_for.get();
        count(&self.counters.class(len, own_space).out_of_memory);
        if let Some(key) = replaced {
            self.discard(key);
        }
    }

    /// Removes a key without counting: its new value was refused.
    pub fn discard(&self, key: &Key<'_>) {
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        self.unlink_found(&locked, &old);
    }

    /// Stores a value.
    ///
    /// # Errors
    /// If there is no room, or the item is too large or beyond the share of a tenant that refuses such (an older item of
    /// that key is gone then, as in memcached).
    pub fn set(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        mode: Mode,
        fields: Fields,
        value: &[u8],
    ) -> Result<Stored, Refused> {
        self.store_if(tenant, key, &Write::plain(mode, fields, value)).map(|written| written.outcome)
    }

    /// Stores a value if its conditions hold.
    ///
    /// # Errors
    /// As `set`.
    pub fn store_if(&self, tenant: TenantId, key: &Key<'_>, write: &Write<'_>) -> Result<Written, Refused> {
        let counters = self.counters(tenant);
        let joined = self.join_ahead(key, write);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let verdict = self.verdict(tenant, &old, write);
        let mut written = Written { outcome: Stored::Stored, cas: 0, value_len: write.value.len() };
        if let Verdict::Not(outcome) = verdict {
            written.outcome = outcome;
        } else {
            let mut draft = self.draft_of(&old, write, matches!(verdict, Verdict::StoreStale))?;
            let is_of = |place: &Place| old.live.is_some_and(|(found, _)| found.slot.place() == *place);
            if let Some((_, upload)) = joined.as_ref().filter(|(place, _)| is_of(place)) {
                draft.content = Content::Value([upload.value(), &[]]);
            }
            written.value_len = draft.content.len();
            let made = self.write(&locked, tenant, key, &old, &draft);
            if let (Err(Refused::NoRoom), Some((_, upload))) = (&made, &joined) {
                // What was joined is let go of until this comes again, and then there must be room for both.
                let segments = upload.filled().div_ceil(self.store.log.segment_bytes());
                let segments = u32::try_from(segments).unwrap_or(u32::MAX);
                self.wanted.set(self.wanted.get().max(1).saturating_add(segments));
            }
            let is_final = matches!(made, Err(Refused::TooLarge | Refused::OverShare));
            if is_final && write.mode == Mode::Set {
                self.unlink_found(&locked, &old);
            }
            drop(locked);
            self.after_write();
            written.cas = made?;
            count(&counters.total_items);
        }
        count(&counters.cmd_set);
        let class =
            self.counters.class(log_len(key, &write.fields, written.value_len), key.space != Space::Shared);
        count(&class.cmd_set);
        if let Mode::Cas(_) = write.mode {
            match written.outcome {
                Stored::NotFound => count(&counters.cas_misses),
                Stored::Stored => {
                    count(&counters.cas_hits);
                    count(&class.cas_hits);
                }
                _ => {
                    count(&counters.cas_badval);
                    count(&class.cas_badval);
                }
            }
        }
        Ok(written)
    }

    /// What `Append` and `Prepend` make of a large value, and the place of the item that it was made of: copying it takes
    /// long, and nobody is to wait for the locks of its key meanwhile. None where it is not needed, or there is no memory for it.
    fn join_ahead(&self, key: &Key<'_>, write: &Write<'_>) -> Option<(Place, Upload)> {
        if !matches!(write.mode, Mode::Append | Mode::Prepend) || write.value.is_empty() {
            return None;
        }
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key))?;
        let place = found.slot.place();
        let view = self.store.log.view(&self.reader, place);
        let len = view.value_len() + write.value.len();
        let is_large = self.store.geometry.in_segment_max.as_usize() < len
            && len <= self.store.geometry.item_max.as_usize();
        if !is_large || view.is_away() {
            return None;
        }
        let mut upload = self.begin_upload(len)?;
        let parts = [view.value(), write.value];
        let parts = if write.mode == Mode::Append { parts } else { [parts[1], parts[0]] };
        parts.into_iter().try_for_each(|mut part| upload.take(&mut part)).ok()?;
        Some((place, upload))
    }

    /// Whether the conditions of a write hold.
    fn verdict(&self, tenant: TenantId, old: &Old<'_>, write: &Write<'_>) -> Verdict {
        let cas = old.live.as_ref().map(|(found, view)| self.cas_of(*found, view));
        let is_joined = matches!(write.mode, Mode::Append | Mode::Prepend);
        match (write.mode, cas) {
            (Mode::Append | Mode::Prepend, Some(cas)) if write.compare != 0 && cas != write.compare => {
                Verdict::Not(Stored::Exists)
            }
            (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace | Mode::Append | Mode::Prepend, Some(_)) => {
                Verdict::Store
            }
            (Mode::Add, Some(_)) => {
                if let Some((found, _)) = old.live {
                    self.note_use(self.store.tenant(tenant), found);
                }
                Verdict::Not(Stored::NotStored)
            }
            (_, None) if is_joined && write.vivify => Verdict::Store,
            (Mode::Replace | Mode::Append | Mode::Prepend, None) => Verdict::Not(Stored::NotStored),
            (Mode::Cas(_), None) => Verdict::Not(Stored::NotFound),
            (Mode::Cas(wanted), Some(cas)) if cas == wanted => Verdict::Store,
            (Mode::Cas(wanted), Some(cas)) if write.or_stale && wanted != 0 && wanted < cas => {
                Verdict::StoreStale
            }
            (Mode::Cas(_), Some(_)) => Verdict::Not(Stored::Exists),
        }
    }

    /// Removes a key; returns whether it was there.
    pub fn delete(&self, tenant: TenantId, key: &Key<'_>) -> bool {
        let counters = self.counters(tenant);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        if let Some((_, view)) = old.live {
            count(&counters.delete_hits);
            count(&self.counters.class(view.sizes().whole, view.own_space()).delete_hits);
        } else {
            count(&counters.delete_misses);
        }
        self.delete_found(&locked, tenant, key, &old);
        old.live.is_some()
    }

    fn delete_found(&self, locked: &Locked<'_>, tenant: TenantId, key: &Key<'_>, old: &Old<'_>) {
        self.unlink_found(locked, old);
        let owner = self.store.tenant(tenant);
        forget_shadow(owner, key.hash);
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, SampledKind::Delete, 0);
        }
    }

    /// Removes an item or its value, or marks it, if its CAS value is the expected one.
    ///
    /// # Errors
    /// If an item that stays finds no room.
    pub fn remove(&self, tenant: TenantId, key: &Key<'_>, remove: &Remove) -> Result<Removed, Refused> {
        let counters = self.counters(tenant);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((found, view)) = old.live else {
            self.delete_found(&locked, tenant, key, &old);
            count(&counters.delete_misses);
            return Ok(Removed::NotFound);
        };
        if remove.compare.is_some_and(|cas| cas != self.cas_of(found, &view)) {
            return Ok(Removed::Exists);
        }
        if remove.what == Removal::Item && !remove.stale {
            self.delete_found(&locked, tenant, key, &old);
        } else {
            let kept =
                Fields { client_flags: view.client_flags(), expires_at: view.expiry().map_or(0, |e| e.at) };
            let fields = match remove.what {
                Removal::Item => kept,
                Removal::Value(fields) => fields,
            };
            let expires_at = remove.expires_at.unwrap_or(fields.expires_at);
            let content = match remove.what {
                Removal::Item => self.kept_content(tenant, &view, expires_at, remove.stale)?,
                Removal::Value(_) => Content::Value([&[], &[]]),
            };
            let identity = match remove.cas {
                Some(cas) => Identity::Told(cas),
                None if remove.stale => Identity::New,
                None => Identity::Kept(Kept::of(self, found, &view)),
            };
            let stale = if remove.stale { state::STALE } else { 0 };
            let draft = Draft {
                fields: Fields { expires_at, ..fields },
                content,
                identity,
                state: old.lasting_state() | stale,
                is_use: false,
                look_up: None,
            };
            self.write(&locked, tenant, key, &old, &draft)?;
        }
        drop(locked);
        self.after_write();
        if !remove.stale {
            count(&counters.delete_hits);
            count(&self.counters.class(view.sizes().whole, view.own_space()).delete_hits);
        }
        Ok(Removed::Done)
    }

    /// Gives an item a new expiry; its CAS value stays. Returns whether it was there.
    ///
    /// # Errors
    /// If there is no room.
    pub fn touch(&self, tenant: TenantId, key: &Key<'_>, expires_at: u32) -> Result<bool, Refused> {
        self.touch_and(tenant, key, expires_at, false).map(|found| found.is_some())
    }

    /// The same, and returns the item with its value, as it was before.
    ///
    /// # Errors
    /// If there is no room, or the value has to be fetched first; nothing has happened then.
    pub fn get_and_touch(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        expires_at: u32,
    ) -> Result<Option<Item<'_>>, Refused> {
        self.touch_and(tenant, key, expires_at, true)
    }

    fn touch_and(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        expires_at: u32,
        reads: bool,
    ) -> Result<Option<Item<'_>>, Refused> {
        let counters = self.counters(tenant);
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((found, view)) = old.live else {
            drop(locked);
            count(&counters.cmd_touch);
            count(&counters.touch_misses);
            self.note_miss(tenant, key, Self::kind_of(old.found()));
            return Ok(None);
        };
        let item = self.item(&view, self.store.stamp_of(found.slot.place(), &view));
        if reads && item.value.is_none() {
            return Err(self.refuse(&view));
        }
        if view.expiry().map_or(0, |e| e.at) == expires_at {
            self.note_hit(self.store.tenant(tenant), key, view.sizes().charge());
            self.note_use(self.store.tenant(tenant), found);
        } else {
            let draft = Draft {
                fields: Fields { client_flags: view.client_flags(), expires_at },
                content: self.kept_content(tenant, &view, expires_at, false)?,
                identity: Identity::Kept(Kept::of(self, found, &view)),
                state: view.state(),
                is_use: true,
                look_up: Some(SampledKind::LookUp),
            };
            self.write(&locked, tenant, key, &old, &draft)?;
        }
        drop(locked);
        self.after_write();
        count(&counters.cmd_touch);
        count(&counters.touch_hits);
        count(&self.counters.class(view.sizes().whole, view.own_space()).touch_hits);
        if reads && view.is_away() {
            self.note_tier_hit((self.store.tenant(tenant), counters), key, &view, found.slot.uses());
        }
        Ok(Some(item))
    }
}

/// Bytes of an item of these in the log: its size class counts the write.
fn log_len(key: &Key<'_>, fields: &Fields, value_len: usize) -> usize {
    let expiry = if fields.expires_at == 0 { 0 } else { 5 };
    let client_flags = if fields.client_flags == 0 { 0 } else { 4 };
    HEADER + expiry + client_flags + key.bytes.len() + value_len
}

impl Worker {
    /// The item that a write makes.
    fn draft_of<'v>(&'v self, old: &Old<'v>, write: &Write<'v>, stale: bool) -> Result<Draft<'v>, Refused> {
        let view = old.live.map(|(_, view)| view);
        let expires_at = view.map_or(0, |v| v.expiry().map_or(0, |e| e.at));
        let binary_key = if write.binary_key { state::BINARY_KEY } else { 0 };
        let identity = write.cas.map_or(Identity::New, Identity::Told);
        let content = Content::Value([write.value, &[]]);
        let mut draft = Draft {
            fields: write.fields,
            content,
            identity,
            state: binary_key,
            is_use: false,
            look_up: None,
        };
        match (write.mode, view) {
            (Mode::Append | Mode::Prepend, Some(view)) => {
                let parts = [self.value_of(&view)?, write.value];
                draft.content =
                    Content::Value(if write.mode == Mode::Append { parts } else { [parts[1], parts[0]] });
                draft.fields = Fields { client_flags: view.client_flags(), expires_at };
                draft.state |= old.lasting_state();
            }
            (_, Some(view)) if stale => {
                draft.fields.expires_at = expires_at;
                draft.state |= state::STALE | view.state() & state::TOKEN_SENT;
            }
            _ => {}
        }
        Ok(draft)
    }
}
