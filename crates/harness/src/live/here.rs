//! A server in this process, with the real clock and clients on loopback, for what has to be seen from inside and outside.
//!
//! Shape: a configuration -> `Here`; `Work` -> a client; what the server knows of tenants and decided, at any time
//! Units: parts of the tier's time; picoseconds of it

use super::client::{Work, Working, expect_stored, key};
use super::clock::Real;
use super::seen::{Medium, Used, medium, used};
use super::stream::Stream;
use serde_json::Value;
use server::memcache::client::Client;
use server::{Admin, Config, Listener, Running, Settings, TenantConfig, TenantView, TierClaim, TierConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// For how long a decision may be owed.
const DECISION_OWED: Duration = Duration::from_secs(10);
/// How often is looked whether it is made.
const LOOK: Duration = Duration::from_millis(50);

/// A tenant of such a server: its name, which is its prefix too, and what it claims of the tier.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The name.
    pub name: String,
    /// The claim, as an operator writes it.
    pub claim: String,
    /// Its weight.
    pub weight: f64,
}

impl Tenant {
    /// A tenant with a weight of one.
    #[must_use]
    pub fn new(name: &str, claim: &str) -> Self {
        Self { name: name.to_owned(), claim: claim.to_owned(), weight: 1.0 }
    }
}

/// A server in this process whose values are in one tier.
#[derive(Debug)]
pub struct Here {
    /// None once it has ended.
    server: Option<Running>,
    address: SocketAddr,
    threads: usize,
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
                name: tenant.name.clone(),
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
        let server =
            server::start(config.checked().map_err(other)?, Arc::new(Real::start())).map_err(other)?;
        let address = server.address().ok_or_else(|| io::Error::other("it listens nowhere"))?;
        Ok(Self { server: Some(server), address, threads })
    }

    /// Stores the keys of a load.
    ///
    /// # Errors
    /// If the server is lost or has no room for one.
    pub fn fill(&self, work: &Work) -> io::Result<()> {
        let mut client = self.client()?;
        let value = vec![b'v'; work.size];
        for number in 0..work.keys {
            client.queue_store("set", &key(work.tenant, number), 0, &value);
            client.send()?;
            expect_stored(&mut client, work.tenant, number)?;
        }
        Ok(())
    }

    /// Sets a client to work.
    #[must_use]
    pub fn work(&self, work: Work) -> Working {
        Working::start(self.address, work)
    }

    /// Sets a client to work that repeats requests, so many on their way together.
    #[must_use]
    pub fn repeat(&self, stream: &Arc<Stream>, depth: usize, pause: std::time::Duration) -> Working {
        stream.repeat(self.address, depth, pause)
    }

    /// Lets so much time pass.
    pub fn pass(&self, seconds: f64) {
        thread::sleep(Duration::from_secs_f64(seconds));
    }

    /// Another policy divides the tier's bandwidth from now on.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn switch(&self, policy: &str) -> io::Result<()> {
        let kind = server::BandwidthKind::of_word(policy).map_err(other)?;
        self.server().operator().set_bandwidth_policy(kind).map(drop).map_err(other)
    }

    /// A tenant claims something else from now on.
    ///
    /// # Errors
    /// If that is no claim, or there is no such tenant.
    pub fn claim(&self, tenant: &str, claim: &str) -> io::Result<()> {
        let bandwidth = Some(claim.parse::<TierClaim>().map_err(other)?);
        let settings = Settings { bandwidth, ..Settings::default() };
        self.server().operator().put(tenant, &settings).map(drop).map_err(other)
    }

    fn tenant(&self, name: &str) -> Option<TenantView> {
        let seen = self.server().view().snapshot();
        seen.tenants.into_iter().find(|tenant| tenant.state.name == name)
    }

    /// What a tenant has been given of DRAM, in bytes, and of the tier's time, as a part; none while nobody divides them.
    #[must_use]
    pub fn given(&self, tenant: &str) -> Option<(u64, f64)> {
        let dram = self.tenant(tenant)?.state.dram_target?;
        Some((dram.0, self.budget(tenant)?))
    }

    /// What a tenant's brake grants it of the tier's time, as a part; none while nothing limits it.
    #[must_use]
    pub fn budget(&self, tenant: &str) -> Option<f64> {
        let budget = self.tenant(tenant)?.state.throttle.budget?;
        Some(budget.cost.part_of(budget.per))
    }

    /// How much slower than alone a tenant is, as the policy in charge sees it; none where it does not look at that.
    #[must_use]
    pub fn slowdown(&self, tenant: &str) -> Option<f64> {
        self.tenant(tenant)?.slowdown
    }

    /// A connection of one's own.
    ///
    /// # Errors
    /// If the server is lost.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(self.address)
    }

    /// Time of the tier that a tenant has used so far, in ps.
    #[must_use]
    pub fn cost_ps(&self, tenant: &str) -> u64 {
        self.tenant(tenant).map_or(0, |tenant| tenant.totals.tier_cost_ps)
    }

    /// The decisions kept, as lines of the journal.
    #[must_use]
    pub fn decisions(&self) -> Vec<Value> {
        let view = self.server().view();
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
        self.server().view().sharing().decisions_total
    }

    /// How many decisions were made since there were `before`, once there is one more: a busy machine may owe it.
    ///
    /// # Errors
    /// If none is made in `DECISION_OWED`.
    pub fn decided_since(&self, before: u64) -> io::Result<usize> {
        self.decided_until(before + 1, DECISION_OWED)?;
        Ok(usize::try_from(self.decisions_total() - before).unwrap_or(usize::MAX))
    }

    /// Lets decisions be made until there are so many in all.
    ///
    /// # Errors
    /// If they are not made in that time.
    pub fn decided_until(&self, total: u64, within: Duration) -> io::Result<()> {
        let mut left = within.as_millis() / LOOK.as_millis();
        while self.decisions_total() < total {
            left = left.checked_sub(1).ok_or_else(|| io::Error::other("no decision is made"))?;
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What a tenant did in each of the last windows of the journal.
    #[must_use]
    pub fn used(&self, tenant: &str, windows: usize) -> Vec<Used> {
        let id = self.tenant(tenant).map_or(0, |tenant| tenant.state.id.0);
        used(&self.decisions(), windows, id)
    }

    /// How often the decisions kept say this reason.
    #[must_use]
    pub fn noted(&self, reason: &str) -> usize {
        let decisions = self.decisions();
        let notes = decisions.iter().filter_map(|decision| decision["notes"].as_array()).flatten();
        notes.filter(|note| note["reason"] == reason).count()
    }

    /// How long an access to the tier took in each of the windows kept, where the policy looks at that.
    #[must_use]
    pub fn medium(&self) -> Vec<Medium> {
        medium(&self.decisions())
    }

    /// Threads that serve requests.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    fn server(&self) -> &Running {
        self.server.as_ref().expect("it runs until it is dropped")
    }

    /// Ends the server.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // Nobody starts it again.
            let _not_saved = server.shut_down();
        }
    }
}
