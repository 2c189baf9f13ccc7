//! A server in this process, on loopback, with a real clock.

use rustix::time::{ClockId, Timespec, clock_gettime};
use server::{Admin, Clock, Config, MemoryPolicy, Running, TenantConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Bytes, Duration, Instant};

/// The system's clocks.
#[derive(Debug)]
struct Real {
    started_ns: u64,
}

fn nanos(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    u64::try_from(tv_sec).unwrap() * 1_000_000_000 + u64::try_from(tv_nsec).unwrap()
}

impl Clock for Real {
    fn now(&self) -> Instant {
        Instant(nanos(ClockId::Monotonic) - self.started_ns)
    }

    fn thread_cpu(&self) -> Duration {
        Duration(nanos(ClockId::ThreadCPUTime))
    }

    fn process_cpu(&self) -> Duration {
        Duration(nanos(ClockId::ProcessCPUTime))
    }

    fn unix_secs(&self) -> i64 {
        clock_gettime(ClockId::Realtime).tv_sec
    }
}

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
    let clock = Arc::new(Real { started_ns: nanos(ClockId::Monotonic) });
    let server = start(config.checked().unwrap(), clock).unwrap();
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
