//! The long-running process: serves memcached's protocol, runs the control loop, is administered.
//!
//! Shape:     listener -> acceptor -> worker (transport -> connection -> turn -> store) ; control loop, cleaner, admin beside them
//! Non-goals: being used by the laboratory

mod config;
pub mod fuzzing;
pub mod limits;
mod server;

mod auth;
pub mod memcache;
mod tenants;

mod acceptor;
mod connection;
mod cuts;
mod listener;
mod outgoing;
mod proxy_protocol;
mod reactor;
mod tls;
mod transport;
mod worker;

mod adjustable;
mod admission;
mod cleaning;
mod curves;
mod groups;
mod in_charge;
mod loops;
pub(crate) mod observe;
mod operator;
mod saved;
mod shared;
mod sharing;
mod terms;
mod tiers;
mod tokens;

pub mod admin;
mod dump;
mod stats;
mod view;
mod vigil;
mod watch;

#[cfg(test)]
mod damaged;
#[cfg(test)]
mod testing;

pub use admission::{Allowance, AllowanceChange, GateCounts, OverRate};
pub use auth::AuthError;
pub use cleaning::CleaningView;
pub use config::{Admin, AuthConfig, Config, ConfigError, MemoryPolicy, Protocol, TenantConfig, check_notes};
pub use curves::{CurveView, LOOK_UPS_MIN, NoCurve};
pub use groups::{Division, GroupConfig, Member, check_groups};
pub use listener::{Address, Defaults, Listener, ListenerError, TlsMode, UNIX_MODE};
pub use observe::{CommandClass, HotKey, HotKeysView, Latency, Operation, Slow, TenantLatency};
pub use operator::{
    Adopted, GroupReport, GroupSettings, MemorySettings, Operator, Refusal, RefusalKind, Settings,
    TenantReport,
};
pub use reactor::{IoEngine, probe_io_uring};
pub use saved::{NotSaved, SavedError};
pub use server::{Running, Sockets, StartError, start, start_on, start_with};
pub use shared::Clock;
pub use sharing::{
    BandwidthKind, BandwidthKindError, SharingView, SpeedsError, TierClaim, TierClaimError, Unmeasured,
};
pub use store::Headway;
pub use terms::Terms;
pub use tiers::{PlaceIn, TierConfig, TierUnavailable};
pub use tls::{OldestTls, TlsConfig, TlsError, Verify};
pub use view::{GroupView, Snapshot, TenantView, TierView, View};
