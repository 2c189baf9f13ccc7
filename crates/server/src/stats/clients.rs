//! `stats conns`: who is connected.

use super::{Row, put_word};
use crate::listener::Address;
use crate::tenants::Binding;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{Instant, TenantId};

/// One who is connected.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: usize,
    /// Whose connection it is; changes with a password that is shown.
    binding: Mutex<Binding>,
    peer: Option<SocketAddr>,
    /// Whom it stands for, as its PROXY header says.
    behind: OnceLock<SocketAddr>,
    /// Where it came in.
    local: Address,
    heard_secs: AtomicU64,
    /// Bytes of its requests and of its replies, both written by its worker alone.
    read: AtomicU64,
    written: AtomicU64,
    watches: AtomicBool,
}

/// What was counted of a tenant's own connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Those that came.
    pub(crate) connections: u64,
    /// Bytes of their requests.
    pub(crate) read_bytes: u64,
    /// Bytes of their replies.
    pub(crate) written_bytes: u64,
    /// Their `flush_all`.
    pub(crate) flushes: u64,
}

impl Traffic {
    fn add(&mut self, client: &Client) {
        self.connections += 1;
        self.read_bytes += client.read.load(Ordering::Relaxed);
        self.written_bytes += client.written.load(Ordering::Relaxed);
    }
}

/// Adds to a counter that nobody else writes.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Client {
    /// Whose connection it is.
    pub(crate) fn binding(&self) -> Binding {
        *self.binding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is somebody's from now on.
    pub(crate) fn belongs_to(&self, binding: Binding) {
        *self.binding.lock().unwrap_or_else(PoisonError::into_inner) = binding;
    }

    /// Its address, or that of whom it stands for; none behind a UNIX socket.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.behind.get().copied().or(self.peer)
    }

    /// It speaks for somebody at this address.
    pub(crate) fn stands_for(&self, address: SocketAddr) {
        // A stream says so once.
        let _first = self.behind.set(address);
    }

    /// So many bytes were heard of it.
    pub(crate) fn heard(&self, bytes: usize, now: Instant) {
        add(&self.read, bytes as u64);
        self.heard_secs.store(now.whole_secs(), Ordering::Relaxed);
    }

    /// It was sent so many bytes.
    pub(crate) fn told(&self, bytes: usize) {
        add(&self.written, bytes as u64);
    }

    /// It watches from now on.
    pub(crate) fn watches(&self) {
        self.watches.store(true, Ordering::Relaxed);
    }
}

/// A text as one word.
fn word(text: &str) -> String {
    let mut out = Vec::new();
    put_word(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// Everybody who is connected, by number.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    next: AtomicUsize,
    /// Where the server listens for everybody, and since when.
    listeners: OnceLock<(Instant, Vec<(usize, Address)>)>,
    all: Mutex<BTreeMap<usize, Arc<Client>>>,
    /// What tenants' own connections counted that have gone, with all their `flush_all`.
    gone: Mutex<HashMap<TenantId, Traffic>>,
}

impl Clients {
    fn gone(&self) -> MutexGuard<'_, HashMap<TenantId, Traffic>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server listens there for everybody from now on.
    pub(crate) fn listen(&self, addresses: impl Iterator<Item = Address>, now: Instant) {
        let numbered = addresses.map(|address| (self.next.fetch_add(1, Ordering::Relaxed) + 1, address));
        // A server opens its listeners once.
        let _first = self.listeners.set((now, numbered.collect()));
    }

    /// Somebody comes.
    pub(crate) fn come(
        &self,
        binding: Binding,
        peer: Option<SocketAddr>,
        local: Address,
        now: Instant,
    ) -> Arc<Client> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let heard_secs = AtomicU64::new(now.whole_secs());
        let client = Arc::new(Client {
            number,
            binding: Mutex::new(binding),
            peer,
            behind: OnceLock::new(),
            local,
            heard_secs,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            watches: AtomicBool::new(false),
        });
        self.all().insert(number, Arc::clone(&client));
        client
    }

    /// Somebody goes.
    pub(crate) fn go(&self, client: &Client) {
        let mut all = self.all();
        if all.remove(&client.number).is_some()
            && let Binding::To(tenant) = client.binding()
        {
            self.gone().entry(tenant).or_default().add(client);
        }
    }

    /// Somebody asked for a flush.
    pub(crate) fn flushed(&self, binding: Binding) {
        if let Binding::To(tenant) = binding {
            self.gone().entry(tenant).or_default().flushes += 1;
        }
    }

    /// What was counted of a tenant's own connections; each counts with whom it is now.
    pub(super) fn of(&self, tenant: TenantId) -> Traffic {
        let all = self.all();
        let mut traffic = self.gone().get(&tenant).copied().unwrap_or_default();
        let own = all.values().filter(|client| client.binding() == Binding::To(tenant));
        own.for_each(|client| traffic.add(client));
        traffic
    }

    /// A tenant has gone; who has its id next begins anew.
    pub(crate) fn forget(&self, tenant: TenantId) {
        self.gone().remove(&tenant);
    }

    /// Those whose connection a connection may know of: its own tenant's, or all on the default listeners, and there where the server
    /// listens.
    pub(super) fn rows(&self, binding: &Binding, now: Instant) -> Vec<Row> {
        let place = |address: &Address| match address {
            Address::Ip(address) => format!("tcp:{address}"),
            address => word(&address.to_string()),
        };
        let mut rows = Vec::new();
        let listeners = self.listeners.get().filter(|_| *binding == Binding::Unbound);
        for (since, (number, address)) in
            listeners.iter().flat_map(|(since, all)| all.iter().map(move |l| (since, l)))
        {
            let secs = now.whole_secs().saturating_sub(since.whole_secs()).to_string();
            for (name, value) in [
                ("addr", place(address)),
                ("state", "conn_listening".to_owned()),
                ("secs_since_last_cmd", secs),
            ] {
                rows.push((format!("{number}:{name}"), value));
            }
        }
        for client in self.all().values().filter(|client| client.binding() == *binding) {
            let silent = now.whole_secs().saturating_sub(client.heard_secs.load(Ordering::Relaxed));
            let state = if client.watches.load(Ordering::Relaxed) { "conn_watch" } else { "conn_read" };
            for (name, value) in [
                ("addr", client.peer().map_or_else(|| "unix".to_owned(), |peer| format!("tcp:{peer}"))),
                ("listen_addr", place(&client.local)),
                ("state", state.to_owned()),
                ("secs_since_last_cmd", silent.to_string()),
            ] {
                rows.push((format!("{}:{name}", client.number), value));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_word() {
        assert_eq!(word("unix:/a b\n"), "unix:/a%20b%0A");
    }

    #[test]
    fn a_tenant_has_what_its_own_connections_counted_gone_or_not() {
        let (clients, own) = (Clients::default(), Binding::To(TenantId(3)));
        let come = |binding| clients.come(binding, None, Address::Unix("s".into(), 0), Instant::ZERO);
        let others = [come(Binding::Unbound), come(Binding::To(TenantId(4)))];
        let [stays, goes, changes] = [come(own), come(own), come(Binding::Unbound)];
        for client in others.iter().chain([&stays, &goes, &changes]) {
            client.heard(10, Instant::ZERO);
            client.told(100);
        }
        changes.belongs_to(own);
        clients.flushed(own);
        clients.flushed(Binding::Unbound);
        let wanted = Traffic { connections: 3, read_bytes: 30, written_bytes: 300, flushes: 1 };
        assert_eq!(clients.of(TenantId(3)), wanted);
        clients.go(&goes);
        clients.go(&others[1]);
        assert_eq!(clients.of(TenantId(3)), wanted, "what has gone is counted");
        clients.forget(TenantId(4));
        assert_eq!(clients.of(TenantId(4)), Traffic::default());
    }
}
