//! The long-running process: serves memcached's protocol, runs the control loop, is administered.
//!
//! Shape:     listener -> worker (connection -> turn -> store) ; control loop, cleaner, admin beside them
//! Non-goals: being used by the laboratory

mod config;
pub mod limits;
mod server;

mod auth;
pub mod memcache;
mod tenants;

mod connection;
mod listener;
mod reactor;
mod worker;

mod cleaning;
mod curves;
mod loops;
mod operator;
mod shared;

pub mod admin;
mod dump;
mod stats;
mod view;
mod watch;

pub use auth::AuthError;
pub use cleaning::CleaningView;
pub use config::{Admin, AuthConfig, Config, ConfigError, MemoryPolicy, Protocol, TenantConfig};
pub use curves::{CurveView, LOOK_UPS_MIN, NoCurve};
pub use operator::{Operator, Refusal, RefusalKind, Settings, TenantReport};
pub use server::{Running, StartError, start, start_with};
pub use shared::Clock;
pub use view::{Snapshot, TenantView, View};
