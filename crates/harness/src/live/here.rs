//! A server in this process, with the real clock and clients on loopback, for what has to be seen from inside and outside.
//!
//! Shape:      a configuration -> `Here`; `Work` -> a thread that asks until it is stopped and counts what was answered
//! Invariants: every answer is checked for its length; a client that fails is told of when it is stopped
//! Units:      requests; parts of the tier's time

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use server::memcache::client::Client;
use server::{Admin, Clock, Config, Listener, Running, TenantConfig, TierClaim, TierConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use units::{Duration, Instant};

/// The system's clocks, from a moment on.
#[derive(Debug)]
struct Real {
    started_ns: u64,
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // No clock is before its zero.
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
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

/// A tenant of such a server: its name, which is its prefix too, and what it claims of the tier.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The name.
    pub name: &'static str,
    /// The claim, as an operator writes it.
    pub claim: String,
    /// Its weight.
    pub weight: f64,
}

impl Tenant {
    /// A tenant with a weight of one.
    #[must_use]
    pub fn new(name: &'static str, claim: &str) -> Self {
        Self { name, claim: claim.to_owned(), weight: 1.0 }
    }
}

/// A server in this process whose values are in one tier.
#[derive(Debug)]
pub struct Here {
    server: Running,
    address: SocketAddr,
    threads: usize,
}

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    /// Whose.
    pub tenant: &'static str,
    /// Of 100 requests, how many look up; the others store.
    pub gets_percent: u64,
    /// Of 100 look-ups, how many are for a key that is there.
    pub hits_percent: u64,
    /// Bytes of a value.
    pub size: usize,
    /// Keys that are there.
    pub keys: u64,
    /// Connections, each with a thread of its own.
    pub clients: u64,
    /// Requests that are on their way together on each.
    pub depth: u64,
    /// Which keys it asks for.
    pub order: Order,
    /// Pause before the next requests, in µs.
    pub pause_us: u64,
    /// What was evicted is stored again; else that is a failure.
    pub stores_again: bool,
}

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// All alike, by chance.
    #[default]
    Random,
    /// One after the other, again and again.
    InTurn,
    /// By chance, the first most: key k as often as k to the power of minus two thirds.
    Skewed,
}

impl Order {
    /// The key of the request of this number, of so many.
    fn key(self, number: u64, keys: u64, rng: &mut units::Rng) -> u64 {
        match self {
            Self::Random => rng.below(keys),
            Self::InTurn => number % keys,
            Self::Skewed => {
                let whole = 1_u64 << 20;
                let part = rng.below(whole) as f64 / whole as f64;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below keys")]
                let key = (part.powi(3) * keys as f64) as u64;
                key
            }
        }
    }
}

/// What a tenant used of the tier's time in a window.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// A part of it.
    pub part: f64,
    /// The window's length.
    pub secs: f64,
    /// Its budget ran out: it wanted more.
    pub ran_out: bool,
}

/// A client at work.
#[derive(Debug)]
pub struct Working {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl Here {
    /// Starts a server of so many threads under a policy about the tier's bandwidth.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn start(tier: &str, policy: &str, tenants: &[Tenant], threads: usize) -> io::Result<Self> {
        Self::start_with(tier, policy, tenants, threads, |_| {})
    }

    /// The same with something changed of its configuration.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn start_with(
        tier: &str,
        policy: &str,
        tenants: &[Tenant],
        threads: usize,
        change: impl FnOnce(&mut Config),
    ) -> io::Result<Self> {
        let tenant = |tenant: &Tenant| -> io::Result<TenantConfig> {
            Ok(TenantConfig {
                name: tenant.name.to_owned(),
                prefix: Some(format!("{}:", tenant.name).into_bytes()),
                bandwidth: tenant.claim.parse::<TierClaim>().map_err(other)?,
                weight: tenant.weight,
                ..TenantConfig::default()
            })
        };
        let mut config = Config {
            memory: units::Bytes::mib(64),
            threads,
            listen: vec![Listener::plain(SocketAddr::from(([127, 0, 0, 1], 0)))],
            admin: Admin::Off,
            tiers: vec![TierConfig::parse(&format!("tier={tier}")).map_err(other)?],
            placement: server::PlaceIn::Tier("tier".to_owned()),
            bandwidth_policy: server::BandwidthKind::of_word(policy).map_err(other)?,
            tenants: tenants.iter().map(tenant).collect::<io::Result<_>>()?,
            ..Config::default()
        };
        change(&mut config);
        let clock = Arc::new(Real { started_ns: nanos(ClockId::Monotonic) });
        let server = server::start(config.checked().map_err(other)?, clock).map_err(other)?;
        let address = server.address().ok_or_else(|| io::Error::other("it listens nowhere"))?;
        Ok(Self { server, address, threads })
    }

    /// Stores the keys of a load.
    ///
    /// # Errors
    /// If the server is lost.
    pub fn fill(&self, work: &Work) -> io::Result<()> {
        let mut client = Client::connect(self.address)?;
        let value = vec![b'v'; work.size];
        for number in 0..work.keys {
            client.queue_store("set", &key(work.tenant, number), 0, &value);
            client.send()?;
            client.read_line()?;
        }
        Ok(())
    }

    /// Sets a client to work.
    #[must_use]
    pub fn work(&self, work: Work) -> Working {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let address = self.address;
        let one = |seed| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            thread::spawn(move || ask(address, &work, seed, &stop, &answered))
        };
        let threads = (0..work.clients).map(one).collect();
        Working { stop, answered, threads }
    }

    /// Lets so much time pass.
    pub fn pass(&self, seconds: f64) {
        thread::sleep(std::time::Duration::from_secs_f64(seconds));
    }

    /// Another policy divides the tier's bandwidth from now on.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn switch(&self, policy: &str) -> io::Result<()> {
        let kind = server::BandwidthKind::of_word(policy).map_err(other)?;
        self.server.operator().set_bandwidth_policy(kind).map(drop).map_err(other)
    }

    /// What a tenant has been given of DRAM, in bytes, and of the tier's time, as a part; none while nobody divides them.
    #[must_use]
    pub fn given(&self, tenant: &str) -> Option<(u64, f64)> {
        let seen = self.server.view().snapshot();
        let state = &seen.tenants.iter().find(|t| t.state.name == tenant)?.state;
        let budget = state.throttle.budget?;
        Some((state.dram_target?.0, budget.cost.part_of(budget.per)))
    }

    /// Time of the tier that a tenant has used so far, in ps.
    #[must_use]
    pub fn cost_ps(&self, tenant: &str) -> u64 {
        let seen = self.server.view().snapshot();
        seen.tenants.iter().find(|t| t.state.name == tenant).map_or(0, |t| t.totals.tier_cost_ps)
    }

    /// The decisions kept, as lines of the journal.
    #[must_use]
    pub fn decisions(&self) -> Vec<Value> {
        let view = self.server.view();
        let (mut lines, mut next) = (Vec::new(), 0);
        while let Some((number, line)) = view.bandwidth_journal_line(next) {
            lines.extend(serde_json::from_str(&line));
            next = number + 1;
        }
        lines
    }

    /// Decisions so far.
    #[must_use]
    pub fn decisions_total(&self) -> u64 {
        self.server.view().sharing().decisions_total
    }

    /// What a tenant used of the tier's time in each of the last windows.
    #[must_use]
    pub fn used(&self, tenant: &str, windows: usize) -> Vec<Used> {
        let seen = self.server.view().snapshot();
        let id = seen.tenants.iter().find(|t| t.state.name == tenant).map_or(0, |t| t.state.id.0);
        let decisions = self.decisions();
        let last = &decisions[decisions.len().saturating_sub(windows)..];
        let used = |decision: &Value| {
            let ns = |name: &str| decision["window"][name].as_f64().unwrap_or(0.0);
            let secs = (ns("end_ns") - ns("start_ns")) / 1e9;
            let rows = decision["tenants"].as_array()?;
            let row = rows.iter().find(|row| row["tenant"].as_u64() == Some(u64::from(id)))?;
            let signal = &row["signal"];
            let ran_out = !signal["depleted_at_ns"].is_null();
            Some(Used { part: signal["cost_ps"].as_f64()? / 1e12 / secs, secs, ran_out })
        };
        last.iter().filter_map(used).collect()
    }

    /// Threads that serve requests.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Ends the server.
    pub fn end(self) {
        self.server.shut_down();
    }
}

impl Working {
    /// Requests answered so far.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends the client.
    ///
    /// # Errors
    /// If an answer was not what it should be, or the server was lost.
    pub fn end(self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a client has panicked"))??;
        }
        Ok(self.answered.load(Ordering::Relaxed))
    }
}

fn key(tenant: &str, number: u64) -> Vec<u8> {
    format!("{tenant}:{number}").into_bytes()
}

fn ask(
    address: SocketAddr,
    work: &Work,
    seed: u64,
    stop: &AtomicBool,
    answered: &AtomicU64,
) -> io::Result<()> {
    let mut client = Client::connect(address)?;
    let value = vec![b'v'; work.size];
    let mut rng = units::Rng::new(work.size as u64 ^ work.gets_percent ^ seed << 32);
    let (mut gets, mut again, mut asked) = (Vec::new(), Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        gets.clear();
        for _ in 0..work.depth {
            let is_get = rng.below(100) < work.gets_percent;
            let is_there = !is_get || rng.below(100) < work.hits_percent;
            let number = work.order.key(asked, work.keys, &mut rng) + if is_there { 0 } else { work.keys };
            if is_get {
                client.queue_get(&key(work.tenant, number));
            } else {
                client.queue_store("set", &key(work.tenant, number), 0, &value);
            }
            gets.push((is_get, is_there, number));
            asked += 1;
        }
        client.send()?;
        for &(is_get, is_there, number) in &gets {
            if is_get {
                let mut len = 0;
                let found = client.read_get(|bytes| len = bytes.len())?.is_some();
                if work.stores_again && is_there && !found {
                    again.push(number);
                } else if found != is_there || (found && len != work.size) {
                    let seen = if found { format!("has {len} bytes") } else { "is not there".to_owned() };
                    return Err(io::Error::other(format!("key {number} of '{}' {seen}", work.tenant)));
                }
            } else {
                client.read_line()?;
            }
        }
        for number in again.drain(..) {
            client.queue_store("set", &key(work.tenant, number), 0, &value);
            client.send()?;
            client.read_line()?;
        }
        answered.fetch_add(work.depth, Ordering::Relaxed);
        if 0 < work.pause_us {
            thread::sleep(std::time::Duration::from_micros(work.pause_us));
        }
    }
    Ok(())
}
