//! Reading with side effects: touch, creation on a miss, and who is told to store an item again.
//!
//! Invariants: of all readers of a stale or expiring item, one wins; an item that is created or marked is written anew,
//!             since published bytes never change
//! Source:     memcached 1.6.45's `mg` with `T`, `N` and `R`

use super::place::{Draft, Identity, Kept};
use super::{Fields, Key, Old, Refused, Worker};
use crate::curves::SampledKind;
use crate::index::{Found, Locked};
use crate::item::{View, state};
use crate::metrics::count;
use crate::worker::Description;
use media::Access;
use units::{Bytes, TenantId};

/// How to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fetch {
    /// The item's new expiry, as a second of the store's clock (0 for never).
    pub touch: Option<u32>,
    /// Create an empty item on a miss, with this expiry.
    pub vivify: Option<u32>,
    /// CAS value of the item created; none for the next one.
    pub cas: Option<u64>,
    /// One reader wins if the item expires before this second.
    pub recache_before: Option<u32>,
    /// The touch counts before the recache is looked at.
    pub touch_first: bool,
    /// Leave the item as if nobody had read it.
    pub no_use: bool,
    /// The key was given in base64.
    pub binary_key: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
pub struct Fetched<'a> {
    /// The item, as it was before this read but for a value that was created.
    pub was: Description<'a>,
    /// There was none.
    pub created: bool,
    /// This reader is the one to store it again.
    pub won: bool,
}

impl Fetched<'_> {
    /// The item is out of date.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.was.item.view.state() & state::STALE != 0
    }

    /// Another reader is to store it again.
    #[must_use]
    pub fn token_was_sent(&self) -> bool {
        !self.created && self.was.item.view.state() & state::TOKEN_SENT != 0
    }
}

impl Worker {
    /// Looks a key up for a tenant, with the side effects asked for.
    ///
    /// # Errors
    /// If what must be written finds no room; nothing has happened then.
    pub fn fetch(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        how: &Fetch,
    ) -> Result<Option<Fetched<'_>>, Refused> {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key));
        let seen = found.and_then(|found| Some((found, self.description(found)?)));
        match seen {
            Some((found, was)) if how.touch.is_none() && !self.wins(&was.item.view, how) => {
                self.note_fetch(tenant, key, found, &was, how);
                Ok(Some(Fetched { was, created: false, won: false }))
            }
            None if how.vivify.is_none() => {
                self.note_fetch_miss(tenant, key, found, how);
                Ok(None)
            }
            _ => self.fetch_locked(tenant, key, how),
        }
    }

    /// Whether a reader of this item is to store it again.
    fn wins(&self, view: &View<'_>, how: &Fetch) -> bool {
        let state = view.state();
        let expires_at = match how.touch {
            Some(at) if how.touch_first => at,
            _ => view.expiry().map_or(0, |e| e.at),
        };
        let due = how.recache_before.is_some_and(|before| expires_at != 0 && expires_at < before);
        state & state::TOKEN_SENT == 0 && (due || state & state::STALE != 0)
    }

    fn fetch_locked(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        how: &Fetch,
    ) -> Result<Option<Fetched<'_>>, Refused> {
        let locked = self.store.index.lock(key.hash);
        let old = self.live(&locked, key);
        let Some((found, view)) = old.live else {
            let Some(expires_at) = how.vivify else {
                drop(locked);
                self.note_fetch_miss(tenant, key, old.found, how);
                return Ok(None);
            };
            let created = self.create(&locked, tenant, key, &old, expires_at, how)?;
            drop(locked);
            self.after_write();
            self.note_fetch_miss(tenant, key, old.found, how);
            return Ok(created.map(|was| Fetched { was, created: true, won: true }));
        };
        let Some(was) = self.description(found) else { return Ok(None) };
        let won = self.wins(&view, how);
        let expired_at = view.expiry().map_or(0, |e| e.at);
        let expires_at = how.touch.unwrap_or(expired_at);
        if won || expires_at != expired_at {
            let draft = Draft {
                fields: Fields { client_flags: view.client_flags(), expires_at },
                value: [view.value(), &[]],
                identity: Identity::Kept(Kept::of(self, found, &view)),
                state: view.state() | if won { state::TOKEN_SENT } else { 0 },
            };
            self.write(&locked, tenant, key, &old, &draft)?;
            drop(locked);
            self.after_write();
            self.count_fetch(tenant, key, &was, how);
        } else {
            drop(locked);
            self.note_fetch(tenant, key, found, &was, how);
        }
        Ok(Some(Fetched { was, created: false, won }))
    }

    fn create(
        &self,
        locked: &Locked<'_>,
        tenant: TenantId,
        key: &Key<'_>,
        old: &Old<'_>,
        expires_at: u32,
        how: &Fetch,
    ) -> Result<Option<Description<'_>>, Refused> {
        let binary_key = if how.binary_key { state::BINARY_KEY } else { 0 };
        let draft = Draft {
            fields: Fields { client_flags: 0, expires_at },
            value: [&[], &[]],
            identity: how.cas.map_or(Identity::New, Identity::Told),
            state: state::TOKEN_SENT | binary_key,
        };
        self.write(locked, tenant, key, old, &draft)?;
        count(&self.counters(tenant).total_items);
        let found = locked.find(key.hash, |slot| self.is_key(slot, key));
        Ok(found.map(|found| self.describe_any(found)))
    }

    fn note_fetch(&self, tenant: TenantId, key: &Key<'_>, found: Found, was: &Description<'_>, how: &Fetch) {
        if !how.no_use {
            self.note_use(found);
        }
        self.count_fetch(tenant, key, was, how);
    }

    fn count_fetch(&self, tenant: TenantId, key: &Key<'_>, was: &Description<'_>, how: &Fetch) {
        let counters = self.counters(tenant);
        let view = &was.item.view;
        let len = view.bytes().len();
        if how.touch.is_some() {
            count(&counters.cmd_touch);
            count(&counters.touch_hits);
        } else {
            count(&counters.get_hits);
            count(&self.counters.class(len, view.own_space()).get_hits);
        }
        counters.meter.count(Access::DramRead, Bytes(len as u64));
        let owner = self.store.tenant(tenant);
        if owner.samples(key.hash) {
            self.sample(owner, key.hash, SampledKind::LookUp, len);
        }
    }

    fn note_fetch_miss(&self, tenant: TenantId, key: &Key<'_>, dead: Option<Found>, how: &Fetch) {
        let counters = self.counters(tenant);
        if how.touch.is_some() {
            count(&counters.cmd_touch);
            count(&counters.touch_misses);
            return;
        }
        self.miss(tenant, key, counters, self.count_dead(counters, dead));
    }
}
