//! `watch`: what happens, as log lines to those who look.
//!
//! Shape:      an event -> one line in memcached's format -> a bounded buffer per watcher, which its worker sends
//! Invariants: nobody waits for a watcher: what does not fit its buffer is dropped and counted, and the watcher is told
//!             `skipped=N`; a watcher sees what its connection may see
//! Units:      seconds since 1970 with microseconds
//! Cost:       one relaxed load per turn while nobody looks
//! Source:     memcached 1.6.45's log lines

use crate::limits::{WATCH_BUFFER, WATCHERS_MAX};
use crate::shared::Clock;
use crate::tenants::Binding;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;
use units::TenantId;

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

    fn sees(&self, store: &Store, tenant: Option<TenantId>) -> bool {
        match (self.binding, tenant) {
            (Binding::To(own), Some(tenant)) => own == tenant,
            (Binding::To(_), None) => false,
            (Binding::Unbound, tenant) => tenant.is_none_or(|tenant| !store.has_own_space(tenant)),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everybody who looks.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What anybody wants. Relaxed: an event more or less is seen.
    wanted: AtomicU32,
    watchers: Mutex<Vec<Arc<Watcher>>>,
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
    /// Seconds since 1970 when the monotonic clock began.
    epoch_secs: i64,
}

/// What is told of an item that was looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked<'k> {
    pub(crate) key: &'k [u8],
    /// Size class and value's length; none for a miss.
    pub(crate) found: Option<(usize, usize)>,
}

/// What is told of an item that was stored, or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredItem<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) status: &'static str,
    pub(crate) command: &'static str,
    /// Seconds that it lives, 0 for ever.
    pub(crate) ttl_secs: u32,
    pub(crate) value_len: usize,
}

impl Watch {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        let uptime = i64::try_from(clock.now().whole_secs()).unwrap_or(0);
        Self {
            wanted: AtomicU32::new(0),
            watchers: Mutex::new(Vec::new()),
            lines: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            epoch_secs: clock.unix_secs() - uptime,
        }
    }

    /// What anybody wants.
    #[inline]
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Lets somebody look; none if too many do.
    pub(crate) fn begin(
        &self,
        store: &Store,
        wanted: u32,
        binding: Binding,
        wake: Wake,
    ) -> Option<Arc<Watcher>> {
        let mut watchers = locked(&self.watchers);
        if WATCHERS_MAX <= watchers.len() {
            return None;
        }
        let (called, queue) = (AtomicBool::new(false), Mutex::new(Queue::default()));
        let watcher = Arc::new(Watcher { wanted, binding, wake, called, queue });
        watcher.put("OK\r\n");
        watchers.push(Arc::clone(&watcher));
        self.publish(store, &watchers);
        Some(watcher)
    }

    /// Whether nobody more can look.
    pub(crate) fn is_full(&self) -> bool {
        WATCHERS_MAX <= locked(&self.watchers).len()
    }

    /// Somebody has gone.
    pub(crate) fn end(&self, store: &Store, watcher: &Arc<Watcher>) {
        let mut watchers = locked(&self.watchers);
        watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        self.publish(store, &watchers);
    }

    fn publish(&self, store: &Store, watchers: &[Arc<Watcher>]) {
        let wanted = watchers.iter().fold(0, |all, watcher| all | watcher.wanted);
        self.wanted.store(wanted, Ordering::Relaxed);
        store.look_at_evictions(wanted & interest::EVICTIONS != 0);
    }

    /// Lines written, lines sent to watchers, lines they had no room for, watchers.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [load(&self.lines), load(&self.sent), load(&self.skipped), locked(&self.watchers).len() as u64]
    }

    /// Writes a line for those who want to know and may.
    fn tell(&self, store: &Store, clock: &dyn Clock, wanted: u32, tenant: Option<TenantId>, what: &str) {
        let watchers = locked(&self.watchers);
        let gid = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
        let now = clock.now();
        let secs = self.epoch_secs + i64::try_from(now.whole_secs()).unwrap_or(0);
        let line = format!("ts={secs}.{} gid={gid} {what}\n", now.0 % 1_000_000_000 / 1_000);
        for watcher in watchers.iter().filter(|w| w.wanted & wanted != 0 && w.sees(store, tenant)) {
            let counter = if watcher.put(&line) { &self.sent } else { &self.skipped };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Where events come from: a connection of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reporter<'s> {
    pub(crate) watch: &'s Watch,
    pub(crate) store: &'s Store,
    pub(crate) clock: &'s dyn Clock,
    /// The connection's number.
    pub(crate) connection: usize,
}

impl Reporter<'_> {
    /// A look-up.
    pub(crate) fn looked(&self, tenant: TenantId, looked: &Looked<'_>) {
        let (status, (class, len)) =
            looked.found.map_or(("not_found", (0, 0)), |(class, len)| ("found", (class, len)));
        let (key, number) = (encoded(looked.key), self.connection);
        let what = format!("type=item_get key={key} status={status} clsid={class} cfd={number} size={len}");
        self.watch.tell(self.store, self.clock, interest::FETCHERS, Some(tenant), &what);
    }

    /// A store.
    pub(crate) fn stored(&self, tenant: TenantId, item: &StoredItem<'_>) {
        let StoredItem { status, command, ttl_secs, value_len, .. } = *item;
        let what = format!(
            "type=item_store key={} status={status} cmd={command} ttl={ttl_secs} clsid={} cfd={} size={value_len}",
            encoded(item.key),
            store::class_of(item.key.len() + value_len),
            self.connection
        );
        self.watch.tell(self.store, self.clock, interest::MUTATIONS, Some(tenant), &what);
    }

    /// A delete that found its item.
    pub(crate) fn deleted(&self, tenant: TenantId, key: &[u8], command: &str) {
        let what = format!("type=deleted key={} cmd={command} cfd={}", encoded(key), self.connection);
        self.watch.tell(self.store, self.clock, interest::DELETIONS, Some(tenant), &what);
    }

    /// A connection that came, or went for a reason.
    pub(crate) fn connection(&self, binding: Binding, peer: Option<SocketAddr>, closed: Option<&str>) {
        let tenant = match binding {
            Binding::To(tenant) => Some(tenant),
            Binding::Unbound => None,
        };
        let kind = if closed.is_some() { "conn_close" } else { "conn_new" };
        let (ip, transport) =
            peer.map_or_else(|| ("unix".to_owned(), "local"), |p| (p.ip().to_string(), "tcp"));
        let port = peer.map_or(0, |p| p.port());
        let mut what = format!("type={kind} rip={ip} rport={port} transport={transport}");
        if let Some(reason) = closed {
            let _ = write!(what, " reason={reason}");
        }
        let _ = write!(what, " cfd={}", self.connection);
        self.watch.tell(self.store, self.clock, interest::CONNECTIONS, tenant, &what);
    }
}

/// Tells of an eviction. `store` is the one that evicts; nothing but its tenants' key spaces is asked of it.
pub(crate) fn evicted(watch: &Watch, store: &Store, clock: &dyn Clock, item: &store::Evicted<'_>) {
    let now = store.now_secs();
    let ttl = if item.expires_at == 0 { -1 } else { i64::from(item.expires_at) - i64::from(now) };
    let what = format!(
        "type=eviction key={} fetch={} ttl={ttl} la={} clsid={} size={}",
        encoded(item.key),
        if item.fetched { "yes" } else { "no" },
        now.saturating_sub(item.used_secs),
        item.class,
        item.value_len
    );
    watch.tell(store, clock, interest::EVICTIONS, Some(item.tenant), &what);
}

/// A key with everything but letters, digits and `-._~` as %XX.
pub(crate) fn encoded(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_and_none_means_fetchers() {
        let of = |line: &'static str| interests(line.split_ascii_whitespace().map(str::as_bytes));
        assert_eq!(of(""), Some(interest::FETCHERS));
        assert_eq!(of("mutations deletions"), Some(interest::MUTATIONS | interest::DELETIONS));
        assert_eq!(of("fetchers x"), None);
    }

    #[test]
    fn keys_are_encoded() {
        assert_eq!(encoded(b"a:b \r\xff~"), "a%3Ab%20%0D%FF~");
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
