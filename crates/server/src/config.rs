//! What a server is told at its start: checked values, no text.
//!
//! Invariants: a `Config` is made by `Config::checked`, which refuses floors above the memory and tenants that collide

use crate::admission::Allowance;
use crate::groups::{Division, GroupConfig, Member, check_groups};
use crate::limits;
use crate::listener::{Listener, TlsMode};
use crate::reactor::IoEngine;
use crate::tls::TlsConfig;
use policy::memory::Tax;
use std::net::SocketAddr;
use std::path::PathBuf;
use store::{OverShare, RankKind};
use units::{Bytes, Duration};

/// Which policy divides the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemoryPolicy {
    /// Fixed shares: the floor and a weighted part of the rest.
    Partitioned,
    /// Memshare's shared memory with credits for shadow hits (Memshare §4, Algorithm 2).
    #[default]
    Shared,
    /// All memory private, what is idle of it taxed (Memshare §4.2, Algorithm 3).
    IdleTax,
    /// Shared first, then the idle tax on what was learnt (Memshare §4.3).
    Auto,
}

impl MemoryPolicy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Partitioned, Self::Shared, Self::IdleTax, Self::Auto];

    /// The name under which operators choose it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Partitioned => "partitioned",
            Self::Shared => "shared",
            Self::IdleTax => "idle-tax",
            Self::Auto => "auto",
        }
    }
}

/// Where the admin listener goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admin {
    /// No admin listener.
    Off,
    /// The default address; taken by another process means a warning, not an error.
    Default(SocketAddr),
    /// The operator asked for this address; taken means an error.
    Explicit(SocketAddr),
}

/// Which protocol is spoken at a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// The first byte of a connection tells.
    #[default]
    Auto,
    /// The text protocol, meta commands included.
    Text,
    /// The binary protocol.
    Binary,
}

impl Protocol {
    /// The protocol of a connection whose first byte this is.
    pub(crate) fn of_first_byte(self, byte: u8) -> Self {
        match self {
            Self::Auto if byte == crate::memcache::BINARY_MAGIC => Self::Binary,
            Self::Auto => Self::Text,
            fixed => fixed,
        }
    }

    /// memcached's name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto-negotiate",
            Self::Text => "ascii",
            Self::Binary => "binary",
        }
    }
}

/// Who may come in. With it every listener asks for a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthConfig {
    /// The file of users: `user:password` in each line (`-Y`).
    pub file: PathBuf,
    /// Users of the default tenant; `*` is everybody who has no tenant of their own.
    pub shared_users: Vec<String>,
    /// Users who change nothing.
    pub read_only_users: Vec<String>,
    /// Users who flush nothing.
    pub no_flush_users: Vec<String>,
}

/// One configured tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantConfig {
    /// Its name: 1 to 64 of `a-z A-Z 0-9 . _ -`.
    pub name: String,
    /// Keys that begin with this belong to it; the key keeps its prefix.
    pub prefix: Option<Vec<u8>>,
    /// Connections to this address belong to it; it has a key space of its own.
    pub listen: Option<Listener>,
    /// Connections over TLS whose verified certificate has one of these names (common name, DNS name or URI) belong to
    /// it, wherever they come in.
    pub identities: Vec<String>,
    /// Private memory that nobody takes.
    pub reserved: Bytes,
    /// Its part of the unreserved memory, relative to the others'.
    pub weight: f64,
    /// Size of its credit per shadow hit; none means the policy's.
    pub credit: Option<Bytes>,
    /// Eviction order of its items; none means the server's.
    pub rank: Option<RankKind>,
    /// What becomes of writes beyond its share.
    pub over_share: OverShare,
    /// The group that it is in.
    pub group: Option<String>,
    /// Users whose connections belong to it, beside the user of its name.
    pub users: Vec<String>,
    /// What it is allowed beside memory.
    pub allowance: Allowance,
}

impl Default for TenantConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            prefix: None,
            listen: None,
            reserved: Bytes::ZERO,
            weight: 1.0,
            credit: None,
            rank: None,
            over_share: OverShare::default(),
            group: None,
            users: Vec::new(),
            allowance: Allowance::default(),
            identities: Vec::new(),
        }
    }
}

/// Everything a server needs to know to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bound on the resident memory of the process (`-m`), see `docs/decisions` on accounting.
    pub memory: Bytes,
    /// Largest item, header and key included (`-I`).
    pub item_max: Bytes,
    /// Answer out of memory instead of evicting (`-M`).
    pub no_evict: bool,
    /// Worker threads (`-t`).
    pub threads: usize,
    /// The listeners (`-l`, `-p`, `-s`), but for those that tenants have as their own.
    pub listen: Vec<Listener>,
    /// What waits for the sockets.
    pub io_engine: IoEngine,
    /// How TLS is spoken (`-Z`); none means that no listener speaks it.
    pub tls: Option<TlsConfig>,
    /// Connections accepted at once (`-c`).
    pub max_connections: usize,
    /// Listen backlog (`-b`).
    pub backlog: u32,
    /// Requests of one connection executed before another gets its turn (`-R`).
    pub requests_per_turn: usize,
    /// Close connections that are silent for so long; zero means never (`-o idle_timeout`).
    pub idle_timeout: Duration,
    /// Close connections that do not take a reply for so long; zero means never.
    pub send_timeout: Duration,
    /// Requests that take so long are in the list of slow ones; zero means all.
    pub slow_request: Duration,
    /// The admin listener.
    pub admin: Admin,
    /// Makes a tenant of every new key prefix that ends with this byte (`-D`).
    pub prefix_delimiter: Option<u8>,
    /// Tenants at most, configured ones and those made by `-D` together.
    pub max_tenants: usize,
    /// The policy that divides the memory.
    pub policy: MemoryPolicy,
    /// The part of its initial share, 0 to 1, that a tenant without a reservation has as private memory (Memshare §4.1).
    pub private: f64,
    /// Bytes that a shadow hit moves (Memshare §4.1: 64 KiB).
    pub credit: Bytes,
    /// The part of idle memory that the idle tax takes, 0 to 1 (Memshare §6.1: .5).
    pub tax: f64,
    /// Memory that was not touched for so long is idle (Memshare §4.2: 5 h).
    pub idle_time: Duration,
    /// How long `auto` learns (Memshare §4.3: several hours).
    pub learning: Duration,
    /// Part of the CPU time that cleaning may take where few requests write, above 0 to 1; at writes only 2.4 times as much.
    pub cleaner_cpu: f64,
    /// Background cleaners: the first cleans, the others help where writers outrun it.
    pub cleaners: usize,
    /// Eviction order of tenants that name none.
    pub rank: RankKind,
    /// Configured tenants.
    pub tenants: Vec<TenantConfig>,
    /// Configured groups of them.
    pub groups: Vec<GroupConfig>,
    /// Which protocol is spoken (`-B`).
    pub protocol: Protocol,
    /// Who may come in (`-S`, `-Y`); without it everybody.
    pub auth: Option<AuthConfig>,
    /// Answers nothing to `flush_all` but an error (`-F`).
    pub flush_disabled: bool,
    /// Whether the command `shutdown` works (`-A`).
    pub shutdown_enabled: bool,
    /// Refuses to list items (`-X`).
    pub dump_disabled: bool,
    /// Refuses `watch` (`-W`).
    pub watch_disabled: bool,
    /// The version that clients are told; at most 23 characters (libmemcached's buffer).
    pub version: String,
    /// Seed of everything random in the policies and the cleaner.
    pub seed: u64,
    /// Settings under memcached's names with the given values, for `stats settings`.
    pub echoed: Vec<(String, String)>,
}

/// Why a set of settings is no configuration: what is wrong, and the likely cure.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct ConfigError {
    /// What is wrong, one line.
    pub what: String,
    /// What would likely help, one line.
    pub cure: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: Bytes::mib(64),
            item_max: Bytes::mib(1),
            no_evict: false,
            threads: 4,
            listen: vec![Listener::plain(SocketAddr::from(([127, 0, 0, 1], 11211)))],
            io_engine: IoEngine::Auto,
            tls: None,
            max_connections: 1024,
            backlog: 1024,
            requests_per_turn: 20,
            idle_timeout: Duration::ZERO,
            send_timeout: Duration::from_secs(300),
            slow_request: Duration::from_millis(10),
            admin: Admin::Default(SocketAddr::from(([127, 0, 0, 1], 11280))),
            prefix_delimiter: None,
            max_tenants: 1024,
            policy: MemoryPolicy::Shared,
            private: 0.0,
            credit: Bytes::kib(64),
            tax: 0.5,
            idle_time: Duration::from_secs(5 * 3_600),
            learning: policy::memory::LEARNING,
            cleaner_cpu: 0.05,
            cleaners: 1,
            rank: RankKind::default(),
            tenants: Vec::new(),
            groups: Vec::new(),
            protocol: Protocol::Auto,
            auth: None,
            flush_disabled: false,
            shutdown_enabled: false,
            dump_disabled: false,
            watch_disabled: false,
            version: "1.6.45".to_owned(),
            seed: 0,
            echoed: Vec::new(),
        }
    }
}

pub(crate) fn refuse<T>(what: String, cure: &str) -> Result<T, ConfigError> {
    Err(ConfigError { what, cure: cure.to_owned() })
}

impl Config {
    /// The same settings, proved to fit together.
    ///
    /// # Errors
    /// The first thing that does not fit, and what would.
    pub fn checked(self) -> Result<Self, ConfigError> {
        self.check_sizes()?;
        self.check_tenants()?;
        self.check_listeners()?;
        Ok(self)
    }

    /// Every listener and the tenant that its connections belong to, if one.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&Listener, Option<&str>)> {
        let servers = self.listen.iter().map(|l| (l, l.tenant.as_deref()));
        servers.chain(self.tenants.iter().filter_map(|t| Some((t.listen.as_ref()?, Some(t.name.as_str())))))
    }

    /// The listener that leads to the tenant `name` only, if there is one.
    pub(crate) fn listener_of(&self, name: &str) -> Option<&Listener> {
        self.listeners().find(|(_, tenant)| *tenant == Some(name)).map(|(listener, _)| listener)
    }

    fn check_listeners(&self) -> Result<(), ConfigError> {
        let all: Vec<_> = self.listeners().collect();
        for (i, (listener, tenant)) in all.iter().enumerate() {
            if let Some(name) = tenant.filter(|name| self.tenants.iter().all(|t| t.name != *name)) {
                return refuse(
                    format!("{} is for tenant '{name}', which is not configured", listener.address),
                    "add [tenant.NAME], or --tenant name=NAME",
                );
            }
            if let Some((_, other)) = all[..i].iter().find(|(l, _)| l.address.collides(&listener.address)) {
                let whose = |tenant: &Option<&str>| {
                    tenant.map_or("the server".to_owned(), |t| format!("tenant '{t}'"))
                };
                return refuse(
                    format!("{} and {} both listen on {}", whose(other), whose(tenant), listener.address),
                    "name each address once, give each tenant a port of its own",
                );
            }
            if listener.auth == Some(true) && self.auth.is_none() {
                return refuse(
                    format!("{} is to ask for passwords, and there is no file of users", listener.address),
                    "name one: -Y FILE",
                );
            }
            match (&self.tls, listener.tls) {
                (_, TlsMode::Off) => {}
                (None, _) => {
                    return refuse(
                        format!("{} is to speak TLS, which is off", listener.address),
                        "add -Z -o ssl_chain_cert=FILE,ssl_key=FILE",
                    );
                }
                (Some(tls), TlsMode::Mutual) if tls.ca.is_none() => {
                    return refuse(
                        format!(
                            "{} asks clients for certificates, and nobody says which are good",
                            listener.address
                        ),
                        "add -o ssl_ca_cert=FILE",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), ConfigError> {
        if self.memory < limits::MEMORY_MIN || limits::MEMORY_MAX < self.memory {
            return refuse(
                format!("memory {} is outside {} to {}", self.memory, limits::MEMORY_MIN, limits::MEMORY_MAX),
                "choose a size in that range, -m counts MiB",
            );
        }
        if self.item_max < limits::ITEM_MAX_MIN || limits::ITEM_MAX_MAX < self.item_max {
            return refuse(
                format!(
                    "the item size limit {} is outside {} to {}",
                    self.item_max,
                    limits::ITEM_MAX_MIN,
                    limits::ITEM_MAX_MAX
                ),
                "choose -I in that range",
            );
        }
        if self.memory.0 / 2 < self.item_max.0 {
            return refuse(
                format!("the item size limit {} is above half of the memory {}", self.item_max, self.memory),
                "lower -I or raise -m",
            );
        }
        if self.threads < 1 || limits::THREADS_MAX < self.threads {
            return refuse(
                format!("{} threads is outside 1 to {}", self.threads, limits::THREADS_MAX),
                "set -t to the number of cores",
            );
        }
        if self.requests_per_turn < 1 || limits::REQUESTS_PER_TURN_MAX < self.requests_per_turn {
            return refuse(
                format!(
                    "{} requests per turn is outside 1 to {}",
                    self.requests_per_turn,
                    limits::REQUESTS_PER_TURN_MAX
                ),
                "leave -R at 20",
            );
        }
        if self.max_connections < 1 || limits::CONNECTIONS_MAX < self.max_connections {
            return refuse(
                format!("{} connections is outside 1 to {}", self.max_connections, limits::CONNECTIONS_MAX),
                "set -c in that range",
            );
        }
        if self.max_tenants < 1 || limits::TENANTS_MAX < self.max_tenants {
            return refuse(
                format!("{} tenants is outside 1 to {}", self.max_tenants, limits::TENANTS_MAX),
                "lower max_tenants",
            );
        }
        self.check_policies()
    }

    fn check_policies(&self) -> Result<(), ConfigError> {
        if self.credit == Bytes::ZERO {
            return refuse(
                "a credit of zero moves nothing".to_owned(),
                "use policy = \"partitioned\" for fixed shares",
            );
        }
        if !(0.0..=1.0).contains(&self.private) {
            return refuse(
                format!("a private part of {} is outside 0 to 1", self.private),
                "0 shares all memory, 1 none",
            );
        }
        if Tax::new(self.tax).is_none() {
            return refuse(format!("a tax of {} is outside 0 to 1", self.tax), "leave it at 0.5, a half");
        }
        if !(0.0 < self.cleaner_cpu && self.cleaner_cpu <= 1.0) {
            return refuse(
                format!("a cleaner_cpu of {} is not above 0 and at most 1", self.cleaner_cpu),
                "leave it at 0.05, a twentieth",
            );
        }
        if !(1..=store::CLEANERS_MAX).contains(&self.cleaners) {
            return refuse(
                format!("{} cleaners are not 1 to {}", self.cleaners, store::CLEANERS_MAX),
                "leave it at 2: writers that outrun both clean beside them",
            );
        }
        if self.idle_time == Duration::ZERO {
            return refuse(
                "with an idle time of zero everything is idle".to_owned(),
                "leave idle_time at 5h",
            );
        }
        Ok(())
    }

    fn check_tenants(&self) -> Result<(), ConfigError> {
        if self.max_tenants <= self.tenants.len() {
            return refuse(
                format!("{} tenants are configured, max_tenants is {}", self.tenants.len(), self.max_tenants),
                "raise max_tenants; the default tenant counts too",
            );
        }
        for (i, tenant) in self.tenants.iter().enumerate() {
            let known_by =
                KnownBy { users: self.auth.is_some(), listener: self.listener_of(&tenant.name).is_some() };
            check_tenant(tenant, known_by)?;
            for other in &self.tenants[..i] {
                if other.name == tenant.name {
                    return refuse(format!("two tenants are named '{}'", tenant.name), "rename one of them");
                }
                if tenant.prefix.is_some() && other.prefix == tenant.prefix {
                    let prefix =
                        String::from_utf8_lossy(tenant.prefix.as_deref().unwrap_or_default()).into_owned();
                    return refuse(
                        format!(
                            "tenants '{}' and '{}' have the same prefix '{prefix}'",
                            other.name, tenant.name
                        ),
                        "give each tenant a prefix of its own",
                    );
                }
                if let Some(user) = tenant.users.iter().find(|user| other.users.contains(user)) {
                    return refuse(
                        format!(
                            "user '{user}' belongs to the tenants '{}' and '{}'",
                            other.name, tenant.name
                        ),
                        "give each user one tenant",
                    );
                }
                if let Some(name) = tenant.identities.iter().find(|name| other.identities.contains(name)) {
                    return refuse(
                        format!(
                            "the identity '{name}' is that of tenants '{}' and '{}'",
                            other.name, tenant.name
                        ),
                        "give each tenant identities of its own",
                    );
                }
            }
        }
        let in_groups = self.tenants.iter().filter_map(|t| Some((t, t.group.as_deref()?)));
        let members = in_groups.map(|(t, group)| Member { tenant: &t.name, group, reserved: t.reserved });
        check_groups(&self.groups, &members.collect::<Vec<_>>())?;
        let division = Division::of(self);
        let group_of =
            |t: &TenantConfig| t.group.as_deref().and_then(|name| division.find(name)).map(|(id, _)| id);
        let reserved = division.reserved(self.tenants.iter().map(|t| (group_of(t), t.reserved)));
        let divisible = store::divisible_capacity(self.memory, self.item_max, self.threads);
        if divisible < reserved {
            return refuse(
                format!("the reservations are {reserved}, the divisible memory is {divisible}"),
                "lower the reservations or raise the memory",
            );
        }
        Ok(())
    }
}

/// By what a tenant may be known beside its prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownBy {
    /// Its users: passwords are asked for.
    pub(crate) users: bool,
    /// A listener that leads to it only.
    pub(crate) listener: bool,
}

/// Checks what one tenant's settings say by themselves.
pub(crate) fn check_tenant(tenant: &TenantConfig, known_by: KnownBy) -> Result<(), ConfigError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if tenant.name.is_empty()
        || limits::TENANT_NAME_MAX < tenant.name.len()
        || !tenant.name.bytes().all(allowed)
    {
        return refuse(
            format!("'{}' is no tenant name", tenant.name),
            "use 1 to 64 letters, digits, dots, dashes and underscores",
        );
    }
    match &tenant.prefix {
        Some(_) if !tenant.users.is_empty() => {
            return refuse(
                format!("tenant '{}' has a prefix and users, and prefixes do not isolate", tenant.name),
                "leave the prefix out: its users have a key space of their own",
            );
        }
        None if !known_by.users && !known_by.listener && tenant.identities.is_empty() => {
            return refuse(
                format!("tenant '{}' has neither a prefix nor a listen address", tenant.name),
                "add prefix = \"NAME:\", listen = \"ADDRESS:PORT\" or identity = [\"CERTIFICATE'S NAME\"]",
            );
        }
        Some(prefix) if prefix.is_empty() || limits::PREFIX_MAX < prefix.len() => {
            return refuse(
                format!(
                    "the prefix of tenant '{}' is empty or longer than {} bytes",
                    tenant.name,
                    limits::PREFIX_MAX
                ),
                "use a short prefix that ends with a delimiter",
            );
        }
        _ => {}
    }
    if !known_by.users && !tenant.users.is_empty() {
        return refuse(
            format!("tenant '{}' has users, and there is no file of users", tenant.name),
            "name one: -Y FILE",
        );
    }
    if tenant.credit == Some(Bytes::ZERO) {
        return refuse(
            format!("the credit of tenant '{}' is zero", tenant.name),
            "leave it out for the server's credit",
        );
    }
    if tenant.allowance.burst.is_some() && tenant.allowance.requests_per_second.is_none() {
        return refuse(
            format!("tenant '{}' has a burst, and no rate", tenant.name),
            "add requests_per_second, or leave the burst out",
        );
    }
    if !tenant.weight.is_finite() || tenant.weight <= 0.0 {
        return refuse(
            format!("the weight of tenant '{}' is {}", tenant.name, tenant.weight),
            "use a number above zero",
        );
    }
    Ok(())
}
