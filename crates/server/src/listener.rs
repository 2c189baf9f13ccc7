//! A listener: an address with what holds for the connections that come in there.
//!
//! Shape: text of `-l` -> `Listener` -> `sockets` that listen -> `Entrance`, with the door that connections come in by

mod sockets;

pub(crate) use sockets::{Opened, SocketFile, is_without_ipv6, open, open_rest};

use crate::config::Protocol;
use crate::tenants::Binding;
use crate::tls::Keys;
use socket2::Socket;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a listener listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// An address and a port; port 0 takes any free one.
    Ip(SocketAddr),
    /// A host's name and a port, all of whose addresses are listened on; or `*`, for all of the machine.
    Name(String, u16),
    /// The path of a UNIX socket and its mode.
    Unix(PathBuf, u32),
}

/// Whether a listener speaks TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsMode {
    /// It does not.
    #[default]
    Off,
    /// It does, and asks for clients' certificates as `ssl_verify_mode` says.
    On,
    /// It does, and asks no client for a certificate.
    Basic,
    /// It does, and every client has to have a certificate.
    Mutual,
}

/// One listener as configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Where.
    pub address: Address,
    /// What is spoken; none means what the server's setting says.
    pub protocol: Option<Protocol>,
    /// Whether a password is asked for; none means where there is a file of users.
    pub auth: Option<bool>,
    /// Whether it speaks TLS.
    pub tls: TlsMode,
    /// Whether connections begin with a PROXY header (version 2).
    pub proxy: bool,
    /// The tenant that its connections belong to; none means that keys decide.
    pub tenant: Option<String>,
}

/// Why a text is no listener: what is wrong, and the likely cure.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct ListenerError {
    /// What is wrong, one line.
    pub what: String,
    /// What would likely help, one line.
    pub cure: String,
}

/// What a text of a listener may leave open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// The port of an address that names none.
    pub port: Option<u16>,
    /// TLS unless the text says otherwise.
    pub tls: TlsMode,
    /// The mode of a UNIX socket.
    pub unix_mode: u32,
}

/// Mode of a UNIX socket that names none, memcached's.
pub const UNIX_MODE: u32 = 0o700;

impl Listener {
    /// A plain listener on an address.
    #[must_use]
    pub fn plain(address: SocketAddr) -> Self {
        Self::at(Address::Ip(address), TlsMode::Off)
    }

    /// A listener for the server's protocols, users and tenants.
    #[must_use]
    pub fn at(address: Address, tls: TlsMode) -> Self {
        Self { address, protocol: None, auth: None, tls, proxy: false, tenant: None }
    }

    /// The listener that `text` describes: `notls:`, `btls:`, `mtls:`, `proxy:`, `auth:`, `noauth:`, `proto[NAME]:`,
    /// `tag[NAME]:` and `tenant[NAME]:` in any order, then `ADDRESS`, `ADDRESS:PORT`, `unix:PATH` or `unix:PATH:MODE`.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn parse(text: &str, defaults: &Defaults) -> Result<Self, ListenerError> {
        let (mut tls, mut proxy, mut tenant) = (defaults.tls, false, None);
        let (mut protocol, mut auth) = (None, None);
        let mut rest = text;
        loop {
            rest = if let Some(after) = rest.strip_prefix("notls:") {
                tls = TlsMode::Off;
                after
            } else if let Some(after) = rest.strip_prefix("btls:") {
                tls = TlsMode::Basic;
                after
            } else if let Some(after) = rest.strip_prefix("mtls:") {
                tls = TlsMode::Mutual;
                after
            } else if let Some(after) = rest.strip_prefix("proxy:") {
                proxy = true;
                after
            } else if let Some(after) = rest.strip_prefix("auth:") {
                auth = Some(true);
                after
            } else if let Some(after) = rest.strip_prefix("noauth:") {
                auth = Some(false);
                after
            } else if let Some((name, after)) = bracketed(rest, "tenant")? {
                tenant = Some(name.to_owned());
                after
            } else if let Some((name, after)) = bracketed(rest, "proto")? {
                protocol = Some(protocol_of(name)?);
                after
            } else if let Some((_, after)) = bracketed(rest, "tag")? {
                // A tag tells a proxy's listeners apart; nothing here routes by it.
                after
            } else {
                break;
            };
        }
        let address = Address::parse(rest, defaults)?;
        Ok(Self { address, protocol, auth, tls, proxy, tenant })
    }
}

/// Words that stand before an address, with a colon behind them; no host is known by them.
const BEFORE_ADDRESSES: [&str; 7] = ["notls", "btls", "mtls", "proxy", "auth", "noauth", "unix"];

/// What stands in brackets behind `word` at the start of `text`, and what follows the colon behind them.
fn bracketed<'t>(text: &'t str, word: &str) -> Result<Option<(&'t str, &'t str)>, ListenerError> {
    let Some(inner) = text.strip_prefix(word).and_then(|t| t.strip_prefix('[')) else { return Ok(None) };
    match inner.split_once("]:") {
        Some((name, after)) if !name.is_empty() => Ok(Some((name, after))),
        _ => Err(ListenerError {
            what: format!("'{text}': '{word}[' is not followed by a name and ']:'"),
            cure: format!("write {word}[NAME]:ADDRESS:PORT"),
        }),
    }
}

fn protocol_of(name: &str) -> Result<Protocol, ListenerError> {
    match name {
        "ascii" => Ok(Protocol::Text),
        "binary" => Ok(Protocol::Binary),
        "auto" | "negotiating" => Ok(Protocol::Auto),
        _ => Err(ListenerError {
            what: format!("there is no protocol '{name}'"),
            cure: "write proto[ascii]:, proto[binary]: or proto[auto]:, or leave it out".to_owned(),
        }),
    }
}

impl Address {
    fn parse(text: &str, defaults: &Defaults) -> Result<Self, ListenerError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path, defaults.unix_mode);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let bare = |host: &str| {
            defaults.port.ok_or_else(|| ListenerError {
                what: format!("'{text}' names no port"),
                cure: format!(
                    "write {}:11311",
                    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
                ),
            })
        };
        let unbracketed = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Some(ip) = literal(unbracketed) {
            return Ok(Self::Ip(SocketAddr::new(ip, bare(unbracketed)?)));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| no_address(text))?),
            None => (text, bare(text)?),
        };
        let host = host.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(host);
        if let Some(ip) = literal(host) {
            return Ok(Self::Ip(SocketAddr::new(ip, port)));
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        let is_name = host.len() <= 253
            && host.trim_end_matches('.').split('.').all(is_label)
            // What has digits and dots only was meant as an address, and these say something of one.
            && host.bytes().any(|b| b.is_ascii_alphabetic())
            && !BEFORE_ADDRESSES.contains(&host);
        if is_name || host == EVERY { Ok(Self::Name(host.to_owned(), port)) } else { Err(no_address(text)) }
    }

    /// Whether both mean the same place, as far as one can tell without asking for names.
    #[must_use]
    pub fn collides(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(path, _), Self::Unix(other, _)) => path == other,
            (Self::Ip(address), _) if address.port() == 0 => false,
            (Self::Name(_, 0), _) => false,
            _ => self == other,
        }
    }
}

/// Instead of a host's name: every address of the machine.
pub(crate) const EVERY: &str = "*";

/// The addresses that are no names: literals and `localhost`.
fn literal(host: &str) -> Option<IpAddr> {
    match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        _ => host.parse().ok(),
    }
}

fn no_address(text: &str) -> ListenerError {
    ListenerError {
        what: format!("'{text}' is not an address"),
        cure: "write an IP address, localhost or a host's name, and a port after a colon: 127.0.0.1:11211, [::1]:11211"
            .to_owned(),
    }
}

fn unix(text: &str, mode: u32) -> Result<Address, ListenerError> {
    let with_mode = text.rsplit_once(':').and_then(|(path, octal)| {
        let mode = u32::from_str_radix(octal, 8).ok().filter(|mode| *mode <= 0o777)?;
        Some((path, mode))
    });
    let (path, mode) = with_mode.unwrap_or((text, mode));
    if path.is_empty() {
        return Err(ListenerError {
            what: "a UNIX socket without a path".to_owned(),
            cure: "write unix:/run/cotenant.sock, or -s /run/cotenant.sock".to_owned(),
        });
    }
    Ok(Address::Unix(PathBuf::from(path), mode))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path, _) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.tls {
            TlsMode::Off => "",
            TlsMode::On | TlsMode::Basic => "btls:",
            TlsMode::Mutual => "mtls:",
        })?;
        if self.proxy {
            f.write_str("proxy:")?;
        }
        write!(f, "{}", self.address)
    }
}

/// What holds for every connection that comes in somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What is spoken.
    pub(crate) protocol: Protocol,
    /// Whether a password is asked for.
    pub(crate) auth: bool,
    /// Whose connections they are until a password or a certificate says otherwise.
    pub(crate) tenant: Binding,
}

/// What holds for the connections of one listener.
#[derive(Debug)]
pub(crate) struct Door {
    /// What holds for each.
    pub(crate) terms: Terms,
    /// The keys and the mode, if it speaks TLS.
    pub(crate) tls: Option<(Arc<Keys>, TlsMode)>,
    /// Whether they begin with a PROXY header.
    pub(crate) proxy: bool,
    /// Where it listens.
    pub(crate) address: Address,
}

impl Door {
    /// Whether requests begin with a connection's first byte.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none() && !self.proxy
    }
}

/// A socket that listens, and its door.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) socket: Socket,
    pub(crate) door: Arc<Door>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults = Defaults { port: Some(1), tls: TlsMode::Off, unix_mode: UNIX_MODE };

    fn check(text: &str, wanted: Result<&str, &str>) {
        let got = Listener::parse(text, &DEFAULTS).map(|l| match l.tenant {
            Some(tenant) => format!("{tenant}@{:?} {}", l.tls, l.address),
            None => l.to_string(),
        });
        match wanted {
            Ok(listener) => assert_eq!(got.as_deref(), Ok(listener), "{text}"),
            Err(part) => assert!(got.as_ref().is_err_and(|e| e.what.contains(part)), "{text}: {got:?}"),
        }
    }

    #[test]
    fn a_listener_is_prefixes_and_an_address() {
        check("127.0.0.1", Ok("127.0.0.1:1"));
        check("127.0.0.1:2", Ok("127.0.0.1:2"));
        check("localhost:3", Ok("127.0.0.1:3"));
        check("*", Ok("*:1"));
        check("*:8", Ok("*:8"));
        check("*.example", Err("is not an address"));
        check("::1", Ok("[::1]:1"));
        check("[::1]", Ok("[::1]:1"));
        check("[::]:7", Ok("[::]:7"));
        check("cache.example:9", Ok("cache.example:9"));
        check("cache-1", Ok("cache-1:1"));
        check("notls:10.0.0.1:8", Ok("10.0.0.1:8"));
        check("btls:10.0.0.1:8", Ok("btls:10.0.0.1:8"));
        check("proxy:mtls:10.0.0.1:8", Ok("mtls:proxy:10.0.0.1:8"));
        check("proto[ascii]:10.0.0.1:8", Ok("10.0.0.1:8"));
        check("tag[a]:proto[auto]:[::1]:8", Ok("[::1]:8"));
        check("tenant[feeds]:mtls:localhost:8", Ok("feeds@Mutual 127.0.0.1:8"));
        check("unix:/run/x.sock", Ok("unix:/run/x.sock"));
        check("unix:/run/a:b", Ok("unix:/run/a:b"));
        check("", Err("is not an address"));
        check("10.0.0.1.2", Err("is not an address"));
        check("127.0.0.1:70000", Err("is not an address"));
        check("a b:1", Err("is not an address"));
        for word in BEFORE_ADDRESSES {
            for text in
                [word.to_owned(), format!("[{word}]"), format!("[{word}]:42"), format!("proxy:[{word}]:8")]
            {
                check(&text, Err("is not an address"));
            }
        }
        check("unix.example:42", Ok("unix.example:42"));
        check("auth:proto[binary]:10.0.0.1:8", Ok("10.0.0.1:8"));
        check("proto[rot13]:10.0.0.1:8", Err("protocol 'rot13'"));
        check("tenant[]:10.0.0.1:8", Err("tenant["));
        check("tenant[a:10.0.0.1:8", Err("tenant["));
        check("unix:", Err("without a path"));
    }

    #[test]
    fn modes_and_ports_have_defaults() {
        let at = |text: &str| Listener::parse(text, &DEFAULTS).map(|l| l.address);
        assert_eq!(at("unix:/s"), Ok(Address::Unix("/s".into(), 0o700)));
        assert_eq!(at("unix:/s:666"), Ok(Address::Unix("/s".into(), 0o666)));
        let none = Defaults { port: None, ..DEFAULTS };
        for text in ["10.0.0.1", "::1", "localhost", "cache.example"] {
            let got = Listener::parse(text, &none);
            assert!(got.as_ref().is_err_and(|e| e.what.contains("names no port")), "{text}: {got:?}");
        }
    }
}
