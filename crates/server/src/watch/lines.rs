//! What is told of an event, in memcached's format.
//!
//! Shape:      an event of a connection, or an eviction -> `type=… key=… …`, which `Watch` puts its time and number before
//! Invariants: what is told is written down whether somebody sees it or not: who tells has asked
//! Source:     memcached 1.6.45's log lines

use super::{Watch, interest};
use crate::connection::Parting;
use crate::shared::Clock;
use crate::tenants::Binding;
use std::fmt::Write as _;
use std::net::SocketAddr;
use store::{Death, Store};
use units::TenantId;

/// What is told of an item that was looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked<'k> {
    pub(crate) key: &'k [u8],
    /// Size class and value's length; none for a miss.
    pub(crate) found: Option<(usize, usize)>,
    /// How its item has died, if it was still there.
    pub(crate) death: Option<Death>,
}

impl Looked<'_> {
    fn status(&self) -> &'static str {
        match (self.found, self.death) {
            (Some(_), _) => "found",
            (None, None) => "not_found",
            (None, Some(Death::Expired)) => "expired",
            (None, Some(Death::Flushed)) => "flushed",
        }
    }
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

/// Where events come from: a connection of a server. What it is told of is written down whether somebody sees it or not: who
/// has one has asked.
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
        let (status, (class, len)) = (looked.status(), looked.found.unwrap_or_default());
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
    pub(crate) fn connection(&self, binding: Binding, peer: Option<SocketAddr>, closed: Option<Parting>) {
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
            let _ = write!(what, " reason={}", reason.name());
        }
        let _ = write!(what, " cfd={}", self.connection);
        self.watch.tell(self.store, self.clock, interest::CONNECTIONS, tenant, &what);
    }
}

/// Tells of an eviction. `store` is the one that evicts; nothing but its tenants' key spaces is asked of it.
pub(crate) fn evicted(watch: &Watch, store: &Store, clock: &dyn Clock, item: &store::Evicted<'_>) {
    if !watch.is_seen(store, interest::EVICTIONS, Some(item.tenant)) {
        return;
    }
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
    fn keys_are_encoded() {
        assert_eq!(encoded(b"a:b \r\xff~"), "a%3Ab%20%0D%FF~");
    }
}
