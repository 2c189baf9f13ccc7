//! What a server listens on, from its opening to the doors that the acceptor is given.
//!
//! Invariants: what needs privileges is done when the sockets are open

use super::StartError;
use crate::config::{Admin, Config, Protocol};
use crate::listener::{self, Address, Door, Entrance, Opened, Terms, TlsMode};
use crate::shared::Shared;
use crate::tenants::{Binding, Router};
use crate::tls::Keys;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Sockets that listen, for a server that is about to start. What they need of privileges they have had.
#[derive(Debug)]
pub struct Sockets {
    pub(super) main: Vec<Prepared>,
    pub(super) admin: Option<std::net::TcpListener>,
    pub(super) keys: Option<Arc<Keys>>,
}

/// A socket that listens, and what its listener says.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) opened: Opened,
    protocol: Option<Protocol>,
    auth: Option<bool>,
    tls: TlsMode,
    proxy: bool,
    pub(super) tenant: Option<String>,
}

impl Sockets {
    /// Opens what `config` listens on; inherited sockets that listen on one of its addresses are taken instead, others
    /// are the server's too.
    ///
    /// # Errors
    /// If an address cannot be listened on, or the keys of TLS cannot be used.
    pub fn open(config: &Config, mut inherited: Vec<OwnedFd>) -> Result<Self, StartError> {
        let keys = config.tls.clone().map(Keys::load).transpose()?.map(Arc::new);
        let mut main = Vec::new();
        for (listener, tenant) in config.listeners() {
            let opened = listener::open(&listener.address, config.backlog, &mut inherited);
            let address = listener.address.to_string();
            for opened in opened.map_err(|cause| StartError::Listen { address, cause })? {
                let tenant = tenant.map(str::to_owned);
                main.push(Prepared {
                    opened,
                    protocol: listener.protocol,
                    auth: listener.auth,
                    tls: listener.tls,
                    proxy: listener.proxy,
                    tenant,
                });
            }
        }
        let rest = listener::open_rest(&mut inherited);
        let address = "inherited sockets".to_owned();
        for opened in rest.map_err(|cause| StartError::Listen { address, cause })? {
            let tls = if keys.is_some() { TlsMode::On } else { TlsMode::Off };
            main.push(Prepared { opened, protocol: None, auth: None, tls, proxy: false, tenant: None });
        }
        Ok(Self { main, admin: open_admin(config.admin)?, keys })
    }

    /// The addresses, with the ports that were taken.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.main.iter().map(|prepared| &prepared.opened.address)
    }

    /// Gives the files of UNIX sockets that were made to a user; those that cannot be given, with why.
    pub fn give(&self, uid: u32, gid: u32) -> impl Iterator<Item = (&Path, io::Error)> {
        let made = self.main.iter().filter_map(|prepared| prepared.opened.made.as_ref());
        made.filter_map(move |file| Some((file.path(), file.give(uid, gid).err()?)))
    }
}

/// The doors of sockets that listen.
pub(super) fn entrances(
    main: Vec<Prepared>,
    shared: &Shared,
    router: &Router,
) -> Result<Vec<Entrance>, StartError> {
    let entrance = |prepared: Prepared| {
        let binding = match &prepared.tenant {
            None => Binding::Unbound,
            Some(name) => Binding::To(router.find(name).ok_or(StartError::Tenants)?),
        };
        let keys = shared.keys.as_ref().filter(|_| prepared.tls != TlsMode::Off);
        let tls = keys.map(|keys| (Arc::clone(keys), prepared.tls));
        let Opened { socket, address, .. } = prepared.opened;
        let config = &shared.config;
        let terms = Terms {
            protocol: prepared.protocol.unwrap_or(config.protocol),
            auth: prepared.auth.unwrap_or(config.auth.is_some()),
            tenant: binding,
        };
        Ok(Entrance { socket, door: Arc::new(Door { terms, tls, proxy: prepared.proxy, address }) })
    };
    main.into_iter().map(entrance).collect()
}

/// A default address that is taken is a warning: two servers per host work.
fn open_admin(admin: Admin) -> Result<Option<std::net::TcpListener>, StartError> {
    let open = |address: SocketAddr| {
        let listener = std::net::TcpListener::bind(address).or_else(|e| {
            // Every address, of a machine that has no IPv6.
            let is_every = address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
            let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            if is_every && listener::is_without_ipv6(&e) { std::net::TcpListener::bind(four) } else { Err(e) }
        })?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    match admin {
        Admin::Off => Ok(None),
        Admin::Explicit(address) => {
            let address_text = address.to_string();
            open(address).map(Some).map_err(|cause| StartError::Listen { address: address_text, cause })
        }
        Admin::Default(address) => Ok(open(address)
            .inspect_err(|e| {
                tracing::warn!(
                    "no administration: {address} cannot be listened on: {e}; commands without --admin reach whoever listens \
                     there: give this server --admin ADDRESS:PORT of its own"
                );
            })
            .ok()),
    }
}

/// One line that names every address in use.
pub(super) fn ready_line(config: &Config, main: &[Prepared], admin: Option<SocketAddr>) -> String {
    use std::fmt::Write as _;
    let mut line = "cotenant ready: ".to_owned();
    for (i, prepared) in main.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = match &prepared.tenant {
            None => write!(line, "{comma}memcached {}", prepared.opened.address),
            Some(name) => write!(line, "{comma}tenant {name} {}", prepared.opened.address),
        };
        line.push_str(match prepared.tls {
            TlsMode::Off => "",
            TlsMode::On | TlsMode::Basic => " (TLS)",
            TlsMode::Mutual => " (mutual TLS)",
        });
    }
    match admin {
        Some(address) => drop(write!(line, ", admin http://{address}")),
        None => line.push_str(", admin off"),
    }
    let policy = config.policy.name();
    let _ = write!(line, ", memory {}", config.memory);
    if config.memory < config.most_memory() {
        let _ = write!(line, " of at most {}", config.most_memory());
    }
    let _ = write!(line, ", policy {policy}, {} threads", config.threads);
    line
}
