//! `stats conns`: who is connected.

use super::Row;
use crate::tenants::Binding;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::Instant;

/// One who is connected.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: usize,
    /// Whose connection it is; changes with a password that is shown.
    binding: Mutex<Binding>,
    peer: Option<SocketAddr>,
    /// Whom it stands for, as its PROXY header says.
    behind: OnceLock<SocketAddr>,
    local: Option<SocketAddr>,
    heard_secs: AtomicU64,
    watches: AtomicBool,
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

    /// It was heard of.
    pub(crate) fn heard(&self, now: Instant) {
        self.heard_secs.store(now.whole_secs(), Ordering::Relaxed);
    }

    /// It watches from now on.
    pub(crate) fn watches(&self) {
        self.watches.store(true, Ordering::Relaxed);
    }
}

/// Everybody who is connected, by number.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    next: AtomicUsize,
    all: Mutex<BTreeMap<usize, Arc<Client>>>,
}

impl Clients {
    fn all(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody comes.
    pub(crate) fn come(
        &self,
        binding: Binding,
        peer: Option<SocketAddr>,
        local: Option<SocketAddr>,
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
            watches: AtomicBool::new(false),
        });
        self.all().insert(number, Arc::clone(&client));
        client
    }

    /// Somebody goes.
    pub(crate) fn go(&self, client: &Client) {
        self.all().remove(&client.number);
    }

    /// Those whose connection a connection may know of: its own tenant's, or all on the default listeners.
    pub(super) fn rows(&self, binding: &Binding, now: Instant) -> Vec<Row> {
        let address = |address: Option<SocketAddr>| {
            address.map_or_else(|| "unix".to_owned(), |address| format!("tcp:{address}"))
        };
        let mut rows = Vec::new();
        for client in self.all().values().filter(|client| client.binding() == *binding) {
            let silent = now.whole_secs().saturating_sub(client.heard_secs.load(Ordering::Relaxed));
            let state = if client.watches.load(Ordering::Relaxed) { "conn_watch" } else { "conn_read" };
            for (name, value) in [
                ("addr", address(client.peer())),
                ("listen_addr", address(client.local)),
                ("state", state.to_owned()),
                ("secs_since_last_cmd", silent.to_string()),
            ] {
                rows.push((format!("{}:{name}", client.number), value));
            }
        }
        rows
    }
}
