//! Reading with side effects: touch, creation on a miss, and who is told to store an item again.
//!
//! Invariants: of all readers of a stale or expiring item, one wins; an item that is created or marked is written anew,
//!             since published bytes never change
//! Source:     memcached 1.6.45's `mg` with `T`, `N` and `R`

use super::away::Content;
use super::place::{Draft, Identity, Kept};
use super::{Fields, Key, Old, Refused, Worker};
use crate::curves::SampledKind;
use crate::index::{Found, Locked};
use crate::item::{View, state};
use crate::metrics::count;
use crate::worker::Description;
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
    /// The value is not read: one that is away may stay there.
    pub no_value: bool,
    /// No reader wins: the item is not marked.
    pub no_win: bool,
    /// Nobody is told of what is found or made: it is no hit, and no reader wins.
    pub unanswered: bool,
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
        if let Some((_, was)) = seen.as_ref().filter(|(_, was)| was.item.value.is_none() && !how.no_value) {
            return Err(self.refuse(&was.item.view));
        }
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
        let may_win = !how.no_win && !how.unanswered;
        may_win && state & state::TOKEN_SENT == 0 && (due || state & state::STALE != 0)
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
                self.note_fetch_miss(tenant, key, old.found(), how);
                return Ok(None);
            };
            self.ask_shadow(tenant, key);
            let created = self.create(&locked, tenant, key, &old, expires_at, how)?;
            drop(locked);
            self.after_write();
            self.count_fetch_miss(tenant, old.found(), how);
            return Ok(created.map(|was| Fetched { was, created: true, won: true }));
        };
        let Some(was) = self.description(found) else { return Ok(None) };
        if was.item.value.is_none() && !how.no_value {
            return Err(self.refuse(&was.item.view));
        }
        let won = self.wins(&view, how);
        let expired_at = view.expiry().map_or(0, |e| e.at);
        let expires_at = how.touch.unwrap_or(expired_at);
        if won || expires_at != expired_at {
            let draft = Draft {
                fields: Fields { client_flags: view.client_flags(), expires_at },
                content: self.kept_content(tenant, &view, expires_at, false)?,
                identity: Identity::Kept(Kept::of(self, found, &view)),
                state: view.state() | if won { state::TOKEN_SENT } else { 0 },
                is_use: !how.no_use,
                look_up: Some(SampledKind::LookUp),
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
            content: Content::Value([&[], &[]]),
            identity: how.cas.map_or(Identity::New, Identity::Told),
            state: binary_key | if how.unanswered { 0 } else { state::TOKEN_SENT },
            is_use: false,
            look_up: Some(Self::kind_of(old.found())),
        };
        self.write(locked, tenant, key, old, &draft)?;
        count(&self.counters(tenant).total_items);
        let found = locked.find(key.hash, |slot| self.is_key(slot, key));
        Ok(found.map(|found| self.describe_any(found)))
    }

    fn note_fetch(&self, tenant: TenantId, key: &Key<'_>, found: Found, was: &Description<'_>, how: &Fetch) {
        if !how.no_use {
            self.note_use(self.store.tenant(tenant), found);
        }
        self.note_hit(self.store.tenant(tenant), key, was.item.view.sizes().charge());
        self.count_fetch(tenant, key, was, how);
    }

    fn count_fetch(&self, tenant: TenantId, key: &Key<'_>, was: &Description<'_>, how: &Fetch) {
        if how.unanswered {
            return;
        }
        let counters = self.counters(tenant);
        let view = &was.item.view;
        let sizes = view.sizes();
        let len = sizes.whole;
        if how.touch.is_some() {
            count(&counters.cmd_touch);
            count(&counters.touch_hits);
            count(&self.counters.class(len, view.own_space()).touch_hits);
        } else {
            count(&counters.get_hits);
            count(&self.counters.class(len, view.own_space()).get_hits);
        }
        if !view.is_away() {
            counters.dram.count_read(Bytes(len as u64));
        } else if !how.no_value {
            self.note_tier_hit((self.store.tenant(tenant), counters), key, view, was.uses());
        }
    }

    fn note_fetch_miss(&self, tenant: TenantId, key: &Key<'_>, dead: Option<Found>, how: &Fetch) {
        self.note_miss(tenant, key, Self::kind_of(dead));
        self.count_fetch_miss(tenant, dead, how);
    }

    fn count_fetch_miss(&self, tenant: TenantId, dead: Option<Found>, how: &Fetch) {
        let counters = self.counters(tenant);
        if how.touch.is_some() {
            count(&counters.cmd_touch);
            count(&counters.touch_misses);
            return;
        }
        count(&counters.get_misses);
        self.count_dead(counters, dead);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{
        Count, CountedIf, Cursor, Mode, Options, RankKind, Removal, Remove, Removed, Space, Store, Stored,
        TenantSpec, Write,
    };
    use control::Claim;
    use std::sync::Arc;

    fn store() -> (Arc<Store>, TenantId) {
        let options = Options {
            memory: Bytes::mib(8),
            item_max: Bytes::kib(64),
            threads: 4,
            tenants_max: 4,
            no_evict: false,
            seed: 1,
        };
        let store = Store::new(options).unwrap();
        let (name, claim) = ("t".to_owned(), Claim::default());
        let tenant = store.add_tenant(TenantSpec { name, own_space: false, claim, rank: RankKind::Lru });
        (store, tenant.unwrap())
    }

    fn key(worker: &Worker) -> Key<'static> {
        worker.key(Space::Shared, b"key").unwrap()
    }

    const STALE: Remove =
        Remove { compare: None, what: Removal::Item, stale: true, expires_at: None, cas: None };

    #[test]
    fn of_many_readers_of_a_stale_item_one_wins() {
        let (store, tenant) = store();
        let worker = store.worker().unwrap();
        // Each winner opens a segment.
        let rounds = if cfg!(miri) { 3 } else { 20 };
        for _ in 0..rounds {
            worker.set(tenant, &key(&worker), Mode::Set, Fields::default(), b"value").unwrap();
            assert_eq!(worker.remove(tenant, &key(&worker), &STALE), Ok(Removed::Done));
            let wins: usize = std::thread::scope(|scope| {
                let readers: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            let worker = store.worker().unwrap();
                            let read = |_| {
                                let fetched = worker.fetch(tenant, &key(&worker), &Fetch::default());
                                let fetched = fetched.unwrap().unwrap();
                                assert!(fetched.is_stale() && fetched.was.item.value() == b"value");
                                assert!(!(fetched.won && fetched.token_was_sent()));
                                usize::from(fetched.won)
                            };
                            (0..5).map(read).sum::<usize>()
                        })
                    })
                    .collect();
                readers.into_iter().map(|reader| reader.join().unwrap()).sum()
            });
            assert_eq!(wins, 1);
        }
    }

    #[test]
    fn a_mark_leaves_value_cas_and_expiry_alone() {
        let (store, tenant) = store();
        let worker = store.worker().unwrap();
        let fields = Fields { client_flags: 7, expires_at: store.now_secs() + 100 };
        let write = Write { cas: Some(3), ..Write::plain(Mode::Set, fields, b"v") };
        assert_eq!(worker.store_if(tenant, &key(&worker), &write).unwrap().cas, 3);
        let recache = Fetch { recache_before: Some(store.now_secs() + 200), ..Fetch::default() };
        let won: Vec<_> =
            (0..3).map(|_| worker.fetch(tenant, &key(&worker), &recache).unwrap().unwrap().won).collect();
        assert_eq!(won, [true, false, false]);
        let item = worker.peek(&key(&worker)).unwrap();
        assert_eq!((item.cas(), item.client_flags(), item.expires_at()), (3, 7, fields.expires_at));
        assert_eq!(worker.store().totals(tenant).total_items, 1);
    }

    #[test]
    fn who_is_not_answered_wins_nothing_and_hits_nothing() {
        let (store, tenant) = store();
        let worker = store.worker().unwrap();
        let until = store.now_secs() + 100;
        let read = |how: &Fetch| worker.fetch(tenant, &key(&worker), how).unwrap().unwrap();
        let unanswered = Fetch { unanswered: true, ..Fetch::default() };
        assert!(read(&Fetch { vivify: Some(until), ..unanswered }).created);
        let fetched =
            read(&Fetch { touch: Some(until + 50), recache_before: Some(until + 200), ..unanswered });
        assert!(!fetched.won && !fetched.token_was_sent());
        let totals = worker.store().totals(tenant);
        assert_eq!((totals.get_hits, totals.touch_hits, totals.total_items), (0, 0, 1));
        let fetched = read(&Fetch { recache_before: Some(until + 200), ..Fetch::default() });
        assert!(fetched.won && fetched.was.item.expires_at() == until + 50);
    }

    #[test]
    fn told_versions_are_compared() {
        let (store, tenant) = store();
        let worker = store.worker().unwrap();
        let put = |mode, cas, or_stale| {
            let write = Write { cas, or_stale, ..Write::plain(mode, Fields::default(), b"1") };
            worker.store_if(tenant, &key(&worker), &write).unwrap().outcome
        };
        assert_eq!(put(Mode::Cas(5), None, false), Stored::NotFound);
        assert_eq!(put(Mode::Set, Some(50), false), Stored::Stored);
        assert_eq!(put(Mode::Cas(49), None, false), Stored::Exists);
        assert_eq!(put(Mode::Cas(51), None, true), Stored::Exists);
        assert_eq!(put(Mode::Cas(49), Some(60), true), Stored::Stored);
        assert!(worker.fetch(tenant, &key(&worker), &Fetch::default()).unwrap().unwrap().is_stale());
        assert_eq!(put(Mode::Cas(60), Some(9), true), Stored::Stored);
        assert!(!worker.fetch(tenant, &key(&worker), &Fetch::default()).unwrap().unwrap().is_stale());
        let by = Count { delta: 1, up: true, compare: 8, ..Count::default() };
        assert_eq!(worker.count_if(tenant, &key(&worker), &by), Ok(CountedIf::Exists));
        let by = Count { compare: 9, cas: Some(1), ..by };
        let done = CountedIf::Done { value: 2, cas: 1, expired_at: 0, created: false };
        assert_eq!(worker.count_if(tenant, &key(&worker), &by), Ok(done));
        let emptied =
            Remove { what: Removal::Value(Fields::default()), stale: false, compare: Some(1), ..STALE };
        assert_eq!(worker.remove(tenant, &key(&worker), &emptied), Ok(Removed::Done));
        let item = worker.peek(&key(&worker)).unwrap();
        assert_eq!((item.value(), item.cas()), (&b""[..], 1));
    }

    #[test]
    fn a_walk_shows_every_live_item_once() {
        let (store, tenant) = store();
        let mut worker = store.worker().unwrap();
        let names: Vec<_> = (0..500).map(|i| format!("key{i}")).collect();
        for name in &names {
            let key = worker.key(Space::Shared, name.as_bytes()).unwrap();
            worker.set(tenant, &key, Mode::Set, Fields::default(), b"x").unwrap();
        }
        let gone = worker.key(Space::Shared, b"key7").unwrap();
        assert!(worker.delete(tenant, &gone));
        let mut cursor = Cursor::default();
        let mut shown = Vec::new();
        while worker.walk(&mut cursor, 3, |known| {
            shown.push(String::from_utf8(known.item.key().to_vec()).unwrap());
        }) {}
        shown.sort();
        let mut wanted: Vec<_> = names.into_iter().filter(|name| name != "key7").collect();
        wanted.sort();
        assert_eq!(shown, wanted);
        worker.check();
    }

    #[test]
    fn last_use_is_told_to_the_second_of_storing() {
        let (store, tenant) = store();
        let worker = store.worker().unwrap();
        for secs in [10, 11, 500] {
            store.set_now(secs);
            worker.set(tenant, &key(&worker), Mode::Set, Fields::default(), b"x").unwrap();
            worker.delete(tenant, &key(&worker));
            worker.set(tenant, &key(&worker), Mode::Set, Fields::default(), b"x").unwrap();
            store.set_now(secs + 1);
            let known = worker.describe(&key(&worker)).unwrap();
            assert_eq!((worker.used_secs(&known), known.fetched), (secs, false));
            worker.delete(tenant, &key(&worker));
        }
    }

    #[test]
    fn the_longest_idle_of_each_class_is_told() {
        let (store, tenant) = store();
        let worker = store.worker().unwrap();
        let put = |secs, name: &'static [u8], len: usize| {
            store.set_now(secs);
            let key = worker.key(Space::Shared, name).unwrap();
            worker.set(tenant, &key, Mode::Set, Fields::default(), &vec![b'x'; len]).unwrap();
        };
        put(100, b"a", 10);
        put(130, b"b", 10);
        put(150, b"c", 500);
        store.set_now(160);
        let class =
            |name: &'static [u8]| worker.peek(&worker.key(Space::Shared, name).unwrap()).unwrap().class();
        let longest = worker.longest_idle(u32::MAX, |_| true);
        assert_eq!((longest[class(b"a")], longest[class(b"c")]), (60, 10));
        assert_eq!(longest.iter().sum::<u32>(), 70, "no other class has items");
        assert_eq!(worker.longest_idle(u32::MAX, |item| item.key() == b"b")[class(b"b")], 30);
        assert_eq!(worker.longest_idle(0, |_| true).iter().sum::<u32>(), 0);
    }
}
