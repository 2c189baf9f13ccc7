//! A server under measurement: a child process that ends with its handle, and what it says of itself.
//!
//! Units:   CPU time in seconds, user and system of the whole process; resident memory in bytes
//! Failure: a server that does not start within `START_SECS`, or leaves, is an error

use super::dialect::Dialect;
use super::items::Items;
use super::keys::{self, TENANTS};
use super::load::Load;
use super::plan::{Address, Heard, Plan};
use server::memcache::client::Client;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use units::Bytes;

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ours.
    Cotenant,
    /// memcached.
    Memcached,
    /// Redis.
    Redis,
}

/// How long a server may take to listen.
const START_SECS: u64 = 10;
/// Pause between looks whether it listens.
const START_LOOK: Duration = Duration::from_millis(20);

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cotenant => "cotenant",
            Self::Memcached => "memcached",
            Self::Redis => "redis",
        }
    }

    /// Its program: ours from beside this one or as told, the others from the path; none if it is not there.
    #[must_use]
    pub fn program(self, ours: Option<&Path>) -> Option<PathBuf> {
        let name = match self {
            Self::Cotenant => {
                let beside = || Some(std::env::current_exe().ok()?.with_file_name("cotenant"));
                return ours.map(Path::to_owned).or_else(beside).filter(|file| file.is_file());
            }
            Self::Memcached => "memcached",
            Self::Redis => "redis-server",
        };
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    }

    fn dialect(self) -> Dialect {
        if self == Self::Redis { Dialect::Redis } else { Dialect::Memcached }
    }

    fn arguments(self, port: u16, setup: &Setup) -> Vec<String> {
        let (mebibytes, threads) = (setup.memory.count_of(Bytes::mib(1)), setup.threads);
        let line = match self {
            Self::Cotenant => {
                // What benchmarks compare is measured with `shared` unless they say otherwise.
                let policy = if setup.more.contains("--policy") { "" } else { "--policy shared" };
                format!("serve -l 127.0.0.1 -p {port} -m {mebibytes} -t {threads} -D : --admin off {policy}")
            }
            Self::Memcached => {
                // A worker of ours serves 64 requests of a connection in a row; memcached's 20 would cut a batch of 32.
                let is_told = setup.more.split_whitespace().any(|word| word.starts_with("-R"));
                let in_a_row = if is_told { "" } else { "-R 64" };
                format!("-l 127.0.0.1 -p {port} -U 0 -m {mebibytes} -t {threads} -u nobody {in_a_row}")
            }
            // Without what it does beside requests that the others do not.
            Self::Redis => format!(
                "--bind 127.0.0.1 --port {port} --maxmemory {mebibytes}mb --io-threads {threads} --appendonly no \
                 --latency-tracking no --save"
            ),
        };
        let mut arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if self == Self::Redis {
            arguments.push(String::new());
        }
        arguments.extend(setup.more.split_whitespace().map(str::to_owned));
        arguments
    }
}

/// How a server is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Its memory in its own accounting: `-m`, or `maxmemory`.
    pub memory: Bytes,
    /// Threads that serve requests.
    pub threads: u32,
    /// More arguments, separated by spaces.
    pub more: String,
}

impl Setup {
    /// One thread, and what else is needed for a cache: Redis evicts nothing by default.
    #[must_use]
    pub fn new(kind: Kind, memory: Bytes) -> Self {
        let more = if kind == Kind::Redis { "--maxmemory-policy allkeys-lru" } else { "" };
        Self { memory, threads: 1, more: more.to_owned() }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Peer {
    /// Which it is.
    pub kind: Kind,
    child: Child,
    address: SocketAddr,
}

/// What our server says of its cleaning, since its start.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cleaning {
    /// CPU time that it took, in seconds.
    pub cpu_secs: f64,
    /// Bytes that it copied.
    pub moved_bytes: f64,
    /// How often a writer waited for it.
    pub writer_waits: f64,
    /// Thousandths that a pass marks now.
    pub marks: f64,
}

/// What a server says of itself.
#[derive(Clone, Default, Debug)]
pub struct Figures {
    /// Items evicted since it started.
    pub evictions: u64,
    /// Items held.
    pub items: u64,
    /// Of ours: bytes that the cleaner copied.
    pub moved_bytes: u64,
    /// Of ours: evictions of each tenant.
    pub tenant_evictions: Vec<u64>,
}

impl Peer {
    /// Starts a server with one worker thread and waits until it listens.
    ///
    /// # Errors
    /// If it cannot be started, leaves, or does not listen in time.
    pub fn start(kind: Kind, program: &Path, memory: Bytes) -> io::Result<Self> {
        Self::start_as(kind, program, &Setup::new(kind, memory))
    }

    /// The same with more arguments.
    ///
    /// # Errors
    /// As of `start`.
    pub fn start_with(kind: Kind, program: &Path, memory: Bytes, more: &str) -> io::Result<Self> {
        Self::start_as(kind, program, &Setup { more: more.to_owned(), ..Setup::new(kind, memory) })
    }

    /// The same, with everything as told.
    ///
    /// # Errors
    /// As of `start`.
    pub fn start_as(kind: Kind, program: &Path, setup: &Setup) -> io::Result<Self> {
        // The port is free again when the listener is gone; nobody else takes it in that moment.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(kind.arguments(port, setup));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let mut peer = Self { kind, child, address: (Ipv4Addr::LOCALHOST, port).into() };
        for _ in 0..START_SECS * 1000 / u64::try_from(START_LOOK.as_millis()).unwrap_or(1) {
            if TcpStream::connect(peer.address).is_ok() {
                return Ok(peer);
            }
            if let Some(status) = peer.child.try_wait()? {
                return Err(io::Error::other(format!("it left at once, {status}")));
            }
            std::thread::sleep(START_LOOK);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections to it.
    ///
    /// # Errors
    /// If it does not take them.
    pub fn load(&self, connections: usize) -> io::Result<Load> {
        Load::connect(self.address, self.kind.dialect(), connections)
    }

    /// Runs a load against it.
    ///
    /// # Errors
    /// If it is lost or silent, or an answer is not what it should be.
    pub fn run(&self, plan: &Plan, items: &Arc<Items>) -> io::Result<Heard> {
        let address = Address { socket: self.address, dialect: self.kind.dialect() };
        super::generator::run(plan, address, items)
    }

    /// CPU time that it has used, in seconds.
    ///
    /// # Errors
    /// If it is gone or does not answer as it should.
    pub fn cpu_secs(&self) -> io::Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let ticks = cpu_ticks(&text).ok_or(io::ErrorKind::InvalidData)?;
        Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Its resident memory.
    ///
    /// # Errors
    /// If it is gone or does not answer as it should.
    pub fn resident(&self) -> io::Result<Bytes> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        resident(&text, "VmRSS:").ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The most that was ever resident of it.
    ///
    /// # Errors
    /// If it is gone or does not answer as it should.
    pub fn peak_resident(&self) -> io::Result<Bytes> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        resident(&text, "VmHWM:").ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// What it says of itself now.
    ///
    /// # Errors
    /// If it is gone or does not answer as it should.
    pub fn figures(&self) -> io::Result<Figures> {
        if self.kind == Kind::Redis {
            return self.redis_figures();
        }
        let mut client = Client::connect(self.address)?;
        let general = stats(&mut client, "stats")?;
        let of = |all: &HashMap<String, u64>, name: &str| all.get(name).copied().unwrap_or(0);
        let mut figures = Figures {
            evictions: of(&general, "evictions"),
            items: of(&general, "curr_items"),
            ..Figures::default()
        };
        if self.kind == Kind::Cotenant {
            let tenants = stats(&mut client, "stats tenants")?;
            let each = |what: &str| -> Vec<u64> {
                (0..TENANTS).map(|t| of(&tenants, &format!("{}:{what}", keys::tenant(t)))).collect()
            };
            figures.moved_bytes = each("moved_bytes").iter().sum();
            figures.tenant_evictions = each("evictions");
        }
        Ok(figures)
    }

    /// What ours says of its cleaning.
    ///
    /// # Errors
    /// If it is gone or does not answer as it should.
    pub fn cleaning(&self) -> io::Result<Cleaning> {
        let all = stats(&mut Client::connect(self.address)?, "stats cleaner")?;
        let of = |name: &str| all.get(name).copied().unwrap_or(0) as f64;
        Ok(Cleaning {
            cpu_secs: of("cpu_microseconds") / 1e6,
            moved_bytes: of("moved_bytes"),
            writer_waits: of("writer_waits"),
            marks: of("pass_marks"),
        })
    }

    fn redis_figures(&self) -> io::Result<Figures> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"INFO\r\nQUIT\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let number = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            value.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        Ok(Figures {
            evictions: number("evicted_keys:").unwrap_or(0),
            items: number("db0:keys=").unwrap_or(0),
            ..Figures::default()
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have left already; there is nothing else to be done.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All figures of a `stats` command that are whole numbers.
fn stats(client: &mut Client, what: &str) -> io::Result<HashMap<String, u64>> {
    client.queue_line(what);
    client.send()?;
    let mut figures = HashMap::new();
    loop {
        let line = String::from_utf8_lossy(client.read_line()?).into_owned();
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("STAT"), Some(name), Some(value)) => {
                if let Ok(value) = value.parse() {
                    figures.insert(name.to_owned(), value);
                }
            }
            _ => return Ok(figures),
        }
    }
}

/// User and system time in a line of `/proc/PID/stat` (proc(5): fields 14 and 15; the name before may hold anything).
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The memory that `/proc/PID/status` has under `name`.
fn resident(status: &str, name: &str) -> Option<Bytes> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(Bytes::kib(line.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memcached_serves_as_many_requests_in_a_row_as_ours_unless_told() {
        let in_a_row = |more: &str| {
            let setup = Setup { more: more.to_owned(), ..Setup::new(Kind::Memcached, Bytes::mib(64)) };
            let arguments = Kind::Memcached.arguments(11211, &setup);
            let places = (0..arguments.len()).filter(|at| arguments[*at].starts_with("-R"));
            places.map(|at| arguments[at..].iter().take(2).cloned().collect()).collect::<Vec<String>>()
        };
        assert_eq!(in_a_row("-c 6000"), ["-R64"]);
        assert_eq!(in_a_row("-c 6000 -R 20"), ["-R20"]);
        let ours = Kind::Cotenant.arguments(11211, &Setup::new(Kind::Cotenant, Bytes::mib(64)));
        assert!(!ours.iter().any(|argument| argument.starts_with("-R")), "its default is 64");
    }

    #[test]
    fn proc_files_are_read() {
        let stat = "42 (a (b) 9) S 1 42 42 0 -1 4194560 100 0 0 0 7 35 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("42 (a"), None);
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(Bytes::mib(2)));
    }
}
