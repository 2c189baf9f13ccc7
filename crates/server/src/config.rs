//! What a server is told at its start: values, no text.
//!
//! Invariants: a `Config` that a server starts with has been through `Config::checked`

mod checks;
mod notes;

pub use checks::ConfigError;
pub(crate) use checks::{KnownBy, check_tenant, check_weight, refuse, refuse_place};
pub use notes::check_notes;

use crate::admission::Allowance;
use crate::groups::GroupConfig;
use crate::listener::Listener;
use crate::reactor::IoEngine;
use crate::sharing::{BandwidthKind, JointSettings, Steps, TierClaim};
use crate::terms::Terms;
use crate::tiers::{PlaceIn, TierConfig};
use crate::tls::TlsConfig;
use std::net::SocketAddr;
use std::path::PathBuf;
use store::{OverShare, Promotion, RankKind};
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
    /// One pool beyond the reservations: what is worth least goes, whosever it is.
    Pooled,
}

impl MemoryPolicy {
    /// Every policy.
    pub const ALL: [Self; 5] = [Self::Partitioned, Self::Shared, Self::IdleTax, Self::Auto, Self::Pooled];

    /// The name under which operators choose it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Partitioned => "partitioned",
            Self::Shared => "shared",
            Self::IdleTax => "idle-tax",
            Self::Auto => "auto",
            Self::Pooled => "pooled",
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
    /// Where its values go; none means where the server says.
    pub placement: Option<PlaceIn>,
    /// What it claims of a tier's bandwidth.
    pub bandwidth: TierClaim,
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
            placement: None,
            bandwidth: TierClaim::default(),
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
    /// How far that bound can be raised while the server runs; none for no further. What is made once is made for this.
    pub memory_max: Option<Bytes>,
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
    /// Tiers below DRAM, the fastest first.
    pub tiers: Vec<TierConfig>,
    /// Where values go of tenants that do not say.
    pub placement: PlaceIn,
    /// The policy that divides a tier's bandwidth.
    pub bandwidth_policy: BandwidthKind,
    /// The tier whose bandwidth is divided, by its name; none for the first.
    pub bandwidth_tier: Option<String>,
    /// The file with every tenant's speed at every share, for `ideal`.
    pub bandwidth_speeds: Option<PathBuf>,
    /// Time between two decisions of a policy over DRAM and a tier's bandwidth together (Spirit §6.2: 30 s).
    pub bandwidth_epoch: Duration,
    /// Part of the tier's time that such a policy divides, above 0 to 1.
    pub bandwidth_part: f64,
    /// Bytes per second that an experiment of `qos` takes; none for as many as suit the tier.
    pub bandwidth_step: Option<Bytes>,
    /// The step in which `proportional` lends, as a part of what the donor has: 0 lends nothing, 1 all at once.
    pub bandwidth_donation: f64,
    /// Which hits bring values back from a tier to DRAM.
    pub promotion: Promotion,
    /// The file that a clean end saves the items in (`-e`).
    pub memory_file: Option<PathBuf>,
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
    /// `lru_crawler` begins disabled (`-o no_lru_crawler`): nothing is listed until somebody enables it.
    pub crawler_disabled: bool,
    /// Refuses `watch` (`-W`).
    pub watch_disabled: bool,
    /// The version that clients are told; at most 23 characters (libmemcached's buffer).
    pub version: String,
    /// Seed of everything random in the policies and the cleaner.
    pub seed: u64,
    /// Settings under memcached's names with the given values, for `stats settings`.
    pub echoed: Vec<(String, String)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: Bytes::mib(64),
            memory_max: None,
            item_max: Bytes::mib(1),
            no_evict: false,
            threads: 4,
            listen: vec![Listener::plain(SocketAddr::from(([127, 0, 0, 1], 11211)))],
            io_engine: IoEngine::Auto,
            tls: None,
            max_connections: 1024,
            backlog: 1024,
            requests_per_turn: 64,
            idle_timeout: Duration::ZERO,
            send_timeout: Duration::from_secs(300),
            slow_request: Duration::from_millis(10),
            admin: Admin::Default(SocketAddr::from(([127, 0, 0, 1], 11280))),
            prefix_delimiter: None,
            max_tenants: 1024,
            policy: MemoryPolicy::Pooled,
            private: 0.0,
            credit: Terms::default().credit,
            tax: Terms::default().tax,
            idle_time: Terms::default().idle_time,
            learning: Terms::default().learning,
            cleaner_cpu: 0.05,
            cleaners: 1,
            rank: RankKind::default(),
            tiers: Vec::new(),
            placement: PlaceIn::default(),
            bandwidth_policy: BandwidthKind::NONE,
            bandwidth_tier: None,
            bandwidth_speeds: None,
            bandwidth_epoch: Duration::from_secs(30),
            bandwidth_part: 1.0,
            bandwidth_step: None,
            bandwidth_donation: 0.1,
            promotion: Promotion::default(),
            memory_file: None,
            tenants: Vec::new(),
            groups: Vec::new(),
            protocol: Protocol::Auto,
            auth: None,
            flush_disabled: false,
            shutdown_enabled: false,
            dump_disabled: false,
            crawler_disabled: false,
            watch_disabled: false,
            version: "1.6.45".to_owned(),
            seed: 0,
            echoed: Vec::new(),
        }
    }
}

impl Config {
    /// The most that the bound on memory can become.
    #[must_use]
    pub fn most_memory(&self) -> Bytes {
        self.memory_max.map_or(self.memory, |max| max.max(self.memory))
    }

    /// What of that is not in force with this bound.
    pub(crate) fn withheld(&self, limit: Bytes) -> Bytes {
        self.most_memory().saturating_sub(limit)
    }

    /// Every listener and the tenant that its connections belong to, if one.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = (&Listener, Option<&str>)> {
        let servers = self.listen.iter().map(|l| (l, l.tenant.as_deref()));
        servers.chain(self.tenants.iter().filter_map(|t| Some((t.listen.as_ref()?, Some(t.name.as_str())))))
    }

    /// How policies over DRAM and a tier's bandwidth together are set up.
    pub(crate) fn joint_settings(&self) -> JointSettings {
        JointSettings { epoch: self.bandwidth_epoch, part: self.bandwidth_part }
    }

    /// How far policies about a tier's bandwidth go at once.
    pub(crate) fn steps(&self) -> Steps {
        Steps { experiment: self.bandwidth_step, donation: self.bandwidth_donation }
    }

    /// The listener that leads to the tenant `name` only, if there is one.
    pub(crate) fn listener_of(&self, name: &str) -> Option<&Listener> {
        self.listeners().find(|(_, tenant)| *tenant == Some(name)).map(|(listener, _)| listener)
    }
}
