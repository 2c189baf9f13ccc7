//! A server in this process, on loopback, with a real clock.

use harness::live::Real;
use server::{Admin, Clock, Config, MemoryPolicy, Running, TenantConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use units::Bytes;

/// A server with one worker that makes a tenant of every new prefix (`-t 1 -D :`), and its address.
pub(crate) fn serve(config: Config) -> (Running, String) {
    start(config, server::start)
}

/// The same, with a policy that may have decided elsewhere before.
pub(crate) fn serve_with(config: Config, policy: policy::memory::MemoryPolicy) -> (Running, String) {
    start(config, |config, clock| server::start_with(config, policy, clock))
}

fn start(
    config: Config,
    start: impl FnOnce(Config, Arc<dyn Clock>) -> Result<Running, server::StartError>,
) -> (Running, String) {
    let config = Config {
        threads: 1,
        listen: vec![server::Listener::plain(SocketAddr::from(([127, 0, 0, 1], 0)))],
        admin: Admin::Off,
        prefix_delimiter: Some(b':'),
        ..config
    };
    let server = start(config.checked().unwrap(), Arc::new(Real::start())).unwrap();
    let address = server.address().unwrap().to_string();
    (server, address)
}

/// A configuration with a memory and a policy.
/// The client is in the same process here, and its CPU time is no load of the server's: cleaning never gives way.
pub(crate) fn config(memory: Bytes, policy: MemoryPolicy) -> Config {
    Config { memory, policy, cleaner_cpu: 1.0, ..Config::default() }
}

/// A tenant that is known by the prefix `NAME:`.
pub(crate) fn tenant(name: &str) -> TenantConfig {
    TenantConfig {
        name: name.to_owned(),
        prefix: Some(format!("{name}:").into_bytes()),
        ..TenantConfig::default()
    }
}
