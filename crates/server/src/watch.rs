//! `watch`: what happens, as log lines to those who look.
//!
//! Shape:      an event, told by `lines` -> one line -> a bounded buffer per watcher, which its worker sends
//! Invariants: nobody waits for a watcher: what does not fit its buffer is dropped and counted, and the watcher is told
//!             `skipped=N`; a watcher sees what its connection may see; an event is written down, and its lock taken, only if
//!             somebody sees it
//! Units:      seconds since 1970 with microseconds
//! Cost:       one relaxed load per turn while nobody looks, and one per place while somebody does
//! Source:     memcached 1.6.45's `watch`

mod lines;

use crate::limits::{TENANT_WATCHERS_MAX, TENANTS_WATCHERS_MAX, WATCH_BUFFER, WATCHERS_MAX};
use crate::shared::Clock;
use crate::tenants::Binding;
pub(crate) use lines::{Looked, Reporter, StoredItem, encoded, evicted};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;
use units::{Instant, TenantId};

/// What can be watched: a bit each.
pub(crate) mod interest {
    pub(crate) const FETCHERS: u32 = 1;
    pub(crate) const MUTATIONS: u32 = 1 << 1;
    pub(crate) const EVICTIONS: u32 = 1 << 2;
    pub(crate) const CONNECTIONS: u32 = 1 << 3;
    pub(crate) const DELETIONS: u32 = 1 << 4;
}

/// memcached's words. Those of its proxy and of its background threads are known, and nothing happens there.
const WORDS: &[(&[u8], u32)] = &[
    (b"fetchers", interest::FETCHERS),
    (b"mutations", interest::MUTATIONS),
    (b"evictions", interest::EVICTIONS),
    (b"connevents", interest::CONNECTIONS),
    (b"deletions", interest::DELETIONS),
    (b"sysevents", 0),
    (b"rawcmds", 0),
    (b"proxyreqs", 0),
    (b"proxyevents", 0),
    (b"proxyuser", 0),
];

/// What the words of a `watch` ask for; fetchers without any. None for a word that is not known.
pub(crate) fn interests<'w>(words: impl Iterator<Item = &'w [u8]>) -> Option<u32> {
    let mut wanted = 0;
    let mut any = false;
    for word in words {
        wanted |= WORDS.iter().find(|(known, _)| *known == word)?.1;
        any = true;
    }
    Some(if any { wanted } else { interest::FETCHERS })
}

/// Wakes the thread that serves a watcher.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// One who looks.
pub(crate) struct Watcher {
    wanted: u32,
    binding: Binding,
    wake: Wake,
    /// Its worker was woken and has not come yet.
    called: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    skipped: u64,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Watcher {
    /// Takes what has been written.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.called.store(false, Ordering::Relaxed);
        std::mem::take(&mut locked(&self.queue).lines)
    }

    /// Queues a line; false if it is dropped.
    fn put(&self, line: &str) -> bool {
        let mut queue = locked(&self.queue);
        if WATCH_BUFFER < queue.lines.len() + line.len() {
            queue.skipped += 1;
            return false;
        }
        if 0 < queue.skipped {
            let skipped = std::mem::take(&mut queue.skipped);
            queue.lines.extend_from_slice(format!("skipped={skipped}\n").as_bytes());
        }
        queue.lines.extend_from_slice(line.as_bytes());
        drop(queue);
        if !self.called.swap(true, Ordering::Relaxed) {
            (self.wake)();
        }
        true
    }
}

/// Whether who watches on such a connection sees what happens to a tenant, or at the server itself.
fn sees(binding: Binding, store: &Store, tenant: Option<TenantId>) -> bool {
    match (binding, tenant) {
        (Binding::To(own), Some(tenant)) => own == tenant,
        (Binding::To(_), None) => false,
        (Binding::Unbound, tenant) => tenant.is_none_or(|tenant| !store.has_own_space(tenant)),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was written for those who watch on one kind of connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WatchCounts {
    /// Lines that any of them saw.
    pub(crate) lines: u64,
    /// Lines sent, to each.
    pub(crate) sent: u64,
    /// Lines that there was no room for, of each.
    pub(crate) skipped: u64,
    /// Those who watch.
    pub(crate) watchers: u64,
}

/// Those who look, and what was written for them.
#[derive(Debug, Default)]
struct Everybody {
    watchers: Vec<Arc<Watcher>>,
    counts: Vec<(Binding, WatchCounts)>,
    /// The number of the last line.
    gid: u64,
}

/// What one watcher of a tenant's own wants.
#[derive(Debug, Default)]
struct Place {
    /// Whose it is: 0 for nobody's, else the tenant's id and 1.
    tenant: AtomicU32,
    wanted: AtomicU32,
}

/// Everybody who looks.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What anybody wants. Relaxed, as the others of its kind: an event more or less is seen.
    wanted: AtomicU32,
    /// What those want who see every tenant without a key space of its own.
    open: AtomicU32,
    /// What tenants' own watchers want, the places in use before those that are free.
    bound: [Place; TENANTS_WATCHERS_MAX],
    everybody: Mutex<Everybody>,
    /// Microseconds since 1970 when the monotonic clock began.
    epoch_micros: i64,
}

impl Everybody {
    /// What is counted for the watchers of a binding.
    fn counts(&mut self, binding: Binding) -> &mut WatchCounts {
        let at = self.counts.iter().position(|(of, _)| *of == binding).unwrap_or_else(|| {
            self.counts.push((binding, WatchCounts::default()));
            self.counts.len() - 1
        });
        &mut self.counts[at].1
    }

    /// Whether nobody more of a binding can look.
    fn is_full(&self, binding: Binding) -> bool {
        let of = |is_of: &dyn Fn(Binding) -> bool| self.watchers.iter().filter(|w| is_of(w.binding)).count();
        match binding {
            Binding::Unbound => WATCHERS_MAX <= of(&|b| b == Binding::Unbound),
            Binding::To(_) => {
                TENANT_WATCHERS_MAX <= of(&|b| b == binding)
                    || TENANTS_WATCHERS_MAX <= of(&|b| b != Binding::Unbound)
            }
        }
    }
}

fn whole_micros(at: Instant) -> i64 {
    i64::try_from(at.0 / 1_000).unwrap_or(0)
}

/// How a place says whose it is.
fn code(tenant: TenantId) -> u32 {
    tenant.0 + 1
}

impl Watch {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        Self {
            wanted: AtomicU32::new(0),
            open: AtomicU32::new(0),
            bound: std::array::from_fn(|_| Place::default()),
            everybody: Mutex::default(),
            epoch_micros: clock.unix_micros() - whole_micros(clock.now()),
        }
    }

    /// What anybody wants of the events that a connection can cause: one of a tenant those of its tenant, another those of
    /// any tenant.
    #[inline]
    pub(crate) fn wanted(&self, store: &Store, binding: Binding) -> u32 {
        let anybody = self.wanted.load(Ordering::Relaxed);
        match binding {
            _ if anybody == 0 => 0,
            Binding::Unbound => anybody,
            Binding::To(tenant) => self.wanted_of(store, tenant),
        }
    }

    /// What those want who see what happens to a tenant.
    fn wanted_of(&self, store: &Store, tenant: TenantId) -> u32 {
        let open = if store.has_own_space(tenant) { 0 } else { self.open.load(Ordering::Relaxed) };
        let places = self.bound.iter().map(|place| (place.tenant.load(Ordering::Relaxed), place));
        let in_use = places.take_while(|(of, _)| *of != 0);
        let own = in_use.filter(|(of, _)| *of == code(tenant));
        own.fold(open, |all, (_, place)| all | place.wanted.load(Ordering::Relaxed))
    }

    /// Whether anybody sees such an event of a tenant, or of the server itself.
    pub(crate) fn is_seen(&self, store: &Store, wanted: u32, tenant: Option<TenantId>) -> bool {
        let anybody = self.wanted.load(Ordering::Relaxed);
        let seen = match tenant {
            _ if anybody & wanted == 0 => 0,
            None => self.open.load(Ordering::Relaxed),
            Some(tenant) => self.wanted_of(store, tenant),
        };
        seen & wanted != 0
    }

    /// Lets somebody look; none if too many do.
    pub(crate) fn begin(
        &self,
        store: &Store,
        wanted: u32,
        binding: Binding,
        wake: Wake,
    ) -> Option<Arc<Watcher>> {
        let mut everybody = locked(&self.everybody);
        if everybody.is_full(binding) {
            return None;
        }
        let (called, queue) = (AtomicBool::new(false), Mutex::new(Queue::default()));
        let watcher = Arc::new(Watcher { wanted, binding, wake, called, queue });
        watcher.put("OK\r\n");
        everybody.watchers.push(Arc::clone(&watcher));
        self.publish(store, &everybody.watchers);
        Some(watcher)
    }

    /// Whether nobody more can look on such a connection.
    pub(crate) fn is_full(&self, binding: Binding) -> bool {
        locked(&self.everybody).is_full(binding)
    }

    /// Somebody has gone.
    pub(crate) fn end(&self, store: &Store, watcher: &Arc<Watcher>) {
        let mut everybody = locked(&self.everybody);
        everybody.watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        self.publish(store, &everybody.watchers);
    }

    fn publish(&self, store: &Store, watchers: &[Arc<Watcher>]) {
        let (mut all, mut open) = (0, 0);
        let mut places = self.bound.iter();
        for watcher in watchers {
            all |= watcher.wanted;
            match watcher.binding {
                Binding::Unbound => open |= watcher.wanted,
                Binding::To(tenant) => {
                    // There are as many places as tenants' watchers.
                    let Some(place) = places.next() else { continue };
                    place.wanted.store(watcher.wanted, Ordering::Relaxed);
                    place.tenant.store(code(tenant), Ordering::Relaxed);
                }
            }
        }
        places.for_each(|place| place.tenant.store(0, Ordering::Relaxed));
        self.open.store(open, Ordering::Relaxed);
        self.wanted.store(all, Ordering::Relaxed);
        store.look_at_evictions(all & interest::EVICTIONS != 0);
    }

    /// What was written for those who watch on such connections.
    pub(crate) fn counts(&self, binding: Binding) -> WatchCounts {
        let everybody = locked(&self.everybody);
        let watchers = everybody.watchers.iter().filter(|watcher| watcher.binding == binding).count();
        let counted = everybody.counts.iter().find(|(of, _)| *of == binding).map(|(_, counts)| *counts);
        WatchCounts { watchers: watchers as u64, ..counted.unwrap_or_default() }
    }

    /// A tenant has gone; who has its id next begins anew.
    pub(crate) fn forget(&self, id: TenantId) {
        locked(&self.everybody).counts.retain(|(of, _)| *of != Binding::To(id));
    }

    /// Writes a line for those who want to know and may.
    fn tell(&self, store: &Store, clock: &dyn Clock, wanted: u32, tenant: Option<TenantId>, what: &str) {
        let mut everybody = locked(&self.everybody);
        let is_told = |w: &&Arc<Watcher>| w.wanted & wanted != 0 && sees(w.binding, store, tenant);
        let watchers: Vec<_> = everybody.watchers.iter().filter(is_told).map(Arc::clone).collect();
        if watchers.is_empty() {
            return;
        }
        everybody.gid += 1;
        let at = self.epoch_micros + whole_micros(clock.now());
        let (secs, micros, gid) = (at.div_euclid(1_000_000), at.rem_euclid(1_000_000), everybody.gid);
        let line = format!("ts={secs}.{micros} gid={gid} {what}\n");
        for (at, watcher) in watchers.iter().enumerate() {
            let is_sent = watcher.put(&line);
            let is_first = watchers[..at].iter().all(|earlier| earlier.binding != watcher.binding);
            let counts = everybody.counts(watcher.binding);
            counts.lines += u64::from(is_first);
            *(if is_sent { &mut counts.sent } else { &mut counts.skipped }) += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    #[test]
    fn words_are_known_and_none_means_fetchers() {
        let of = |line: &'static str| interests(line.split_ascii_whitespace().map(str::as_bytes));
        assert_eq!(of(""), Some(interest::FETCHERS));
        assert_eq!(of("mutations deletions"), Some(interest::MUTATIONS | interest::DELETIONS));
        assert_eq!(of("fetchers x"), None);
    }

    /// A store with a tenant that shares the key space of all, and two with key spaces of their own.
    fn store() -> (Arc<Store>, [TenantId; 3]) {
        let store = Store::new(store::Options {
            memory: units::Bytes::mib(16),
            item_max: units::Bytes::mib(1),
            threads: 1,
            tenants_max: 16,
            no_evict: false,
            seed: 0,
        })
        .unwrap();
        let of = |(name, own_space): (&str, bool)| {
            let (name, claim, rank) =
                (name.to_owned(), control::Claim::default(), store::RankKind::default());
            store.add_tenant(store::TenantSpec { name, own_space, claim, rank }).unwrap()
        };
        let ids = [("default", false), ("alpha", true), ("beta", true)].map(of);
        (store, ids)
    }

    fn begin(watch: &Watch, store: &Store, wanted: u32, binding: Binding) -> Option<Arc<Watcher>> {
        watch.begin(store, wanted, binding, Box::new(|| {}))
    }

    #[test]
    fn what_a_tenants_watcher_wants_is_asked_of_that_tenant_only() {
        let ((store, [default, alpha, beta]), watch) = (store(), Watch::new(&Set::default()));
        let watcher = begin(&watch, &store, interest::FETCHERS, Binding::To(alpha)).unwrap();
        assert_eq!(watch.wanted(&store, Binding::To(beta)), 0);
        assert_eq!(watch.wanted(&store, Binding::To(alpha)), interest::FETCHERS);
        assert!(watch.is_seen(&store, interest::FETCHERS, Some(alpha)));
        for other in [Some(default), Some(beta), None] {
            assert!(!watch.is_seen(&store, interest::FETCHERS, other), "{other:?}");
        }
        assert!(!watch.is_seen(&store, interest::MUTATIONS, Some(alpha)));
        let operator = begin(&watch, &store, interest::MUTATIONS, Binding::Unbound).unwrap();
        assert_eq!(watch.wanted(&store, Binding::To(beta)), 0, "a key space of its own");
        assert!(watch.is_seen(&store, interest::MUTATIONS, Some(default)));
        watch.end(&store, &watcher);
        watch.end(&store, &operator);
        assert_eq!(watch.wanted(&store, Binding::Unbound), 0);
    }

    #[test]
    fn lines_are_counted_for_those_who_see_them() {
        let ((store, [default, alpha, _]), watch) = (store(), Watch::new(&Set::default()));
        let watchers = [Binding::To(alpha), Binding::To(alpha), Binding::Unbound]
            .map(|binding| begin(&watch, &store, interest::DELETIONS, binding).unwrap());
        for tenant in [alpha, alpha, default] {
            watch.tell(&store, &Set::default(), interest::DELETIONS, Some(tenant), "x");
        }
        let counts = |lines, sent, watchers| WatchCounts { lines, sent, skipped: 0, watchers };
        assert_eq!(watch.counts(Binding::To(alpha)), counts(2, 4, 2));
        assert_eq!(watch.counts(Binding::Unbound), counts(1, 1, 1));
        assert_eq!(watchers[2].take(), b"OK\r\nts=0.0 gid=3 x\n");
        watch.forget(alpha);
        assert_eq!(watch.counts(Binding::To(alpha)), counts(0, 0, 2));
    }

    /// The server has run for so long; its wall clock says so much.
    #[derive(Debug)]
    struct Moment(u64, i64);

    impl Clock for Moment {
        fn now(&self) -> Instant {
            Instant(self.0)
        }
        fn unix_secs(&self) -> i64 {
            self.1 / 1_000_000
        }
        fn unix_micros(&self) -> i64 {
            self.1
        }
        fn thread_cpu(&self) -> units::Duration {
            units::Duration(0)
        }
        fn process_cpu(&self) -> units::Duration {
            units::Duration(0)
        }
    }

    #[test]
    fn lines_have_the_time_of_the_wall_clock() {
        let ((store, _), watch) = (store(), Watch::new(&Moment(300_000_000, 7_100_400_000)));
        let watcher = begin(&watch, &store, interest::CONNECTIONS, Binding::Unbound).unwrap();
        let _ok = watcher.take();
        watch.tell(&store, &Moment(1_550_000_000, 0), interest::CONNECTIONS, None, "x");
        assert_eq!(watcher.take(), b"ts=7101.650000 gid=1 x\n");
    }

    #[test]
    fn a_tenant_takes_no_more_than_its_places_and_none_of_the_others() {
        let ((store, [_, alpha, beta]), watch) = (store(), Watch::new(&Set::default()));
        let mut watchers = Vec::new();
        while let Some(watcher) = begin(&watch, &store, interest::FETCHERS, Binding::To(alpha)) {
            watchers.push(watcher);
        }
        assert_eq!(watchers.len(), TENANT_WATCHERS_MAX);
        assert!(watch.is_full(Binding::To(alpha)) && !watch.is_full(Binding::To(beta)));
        for _ in 0..WATCHERS_MAX {
            watchers.push(begin(&watch, &store, interest::FETCHERS, Binding::Unbound).unwrap());
        }
        assert!(watch.is_full(Binding::Unbound) && !watch.is_full(Binding::To(beta)));
        watch.end(&store, &watchers[0]);
        assert!(!watch.is_full(Binding::To(alpha)));
        assert!(watch.is_seen(&store, interest::FETCHERS, Some(alpha)), "others of its look on");
    }

    #[test]
    fn a_full_buffer_drops_and_says_so() {
        let wake: Wake = Box::new(|| {});
        let watcher = Watcher {
            wanted: interest::FETCHERS,
            binding: Binding::Unbound,
            wake,
            called: AtomicBool::new(false),
            queue: Mutex::new(Queue::default()),
        };
        let line = "x".repeat(1024);
        let mut kept = 0;
        while watcher.put(&line) {
            kept += 1;
        }
        assert!(!watcher.put(&line));
        assert_eq!(watcher.take().len(), kept * line.len());
        assert!(watcher.put("y\n"));
        assert_eq!(watcher.take(), b"skipped=2\ny\n");
    }
}
