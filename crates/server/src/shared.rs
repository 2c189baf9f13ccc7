//! What every thread of a server shares: configuration, store, clock, counters of connections.

use crate::auth::Auth;
use crate::cleaning::Cleaning;
use crate::config::Config;
use crate::curves::Curves;
use crate::limits::{BUFFER_PART, MEMORY_MIN};
use crate::memcache::expires_at;
use crate::stats::{Baseline, Clients, Controller};
use crate::tls::{Keys, TlsError};
use crate::watch::Watch;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use store::{CLOCK_START, Store};
use units::{Bytes, Duration, Instant};

/// Real time, built by the binary and handed down.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Monotonic time since the process started.
    fn now(&self) -> Instant;
    /// Seconds since 1970.
    fn unix_secs(&self) -> i64;
    /// CPU time of the calling thread.
    fn thread_cpu(&self) -> Duration;
    /// CPU time of the process.
    fn process_cpu(&self) -> Duration;
}

/// Counters of the server that no tenant owns.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) curr_connections: AtomicI64,
    pub(crate) total_connections: AtomicU64,
    pub(crate) rejected_connections: AtomicU64,
    pub(crate) listen_disabled: AtomicU64,
    pub(crate) conn_yields: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) cmd_flush: AtomicU64,
    pub(crate) store_too_large: AtomicU64,
    pub(crate) idle_kicks: AtomicU64,
    pub(crate) auth_cmds: AtomicU64,
    pub(crate) auth_errors: AtomicU64,
    pub(crate) read_buf_oom: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) ssl_handshake_errors: AtomicU64,
    pub(crate) ssl_new_sessions: AtomicU64,
    /// Memory of connections' buffers.
    pub(crate) buffered: AtomicI64,
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// Who may come in; without it everybody.
    pub(crate) auth: Option<Auth>,
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The keys of listeners that speak TLS.
    pub(crate) keys: Option<Arc<Keys>>,
    /// Seconds since 1970 when the keys were read.
    pub(crate) keys_read_secs: AtomicI64,
    pub(crate) counters: Counters,
    /// Seconds since 1970, once a second.
    unix_secs: AtomicI64,
    /// The port of the first listener, once it is bound.
    port: AtomicU64,
    /// `cache_memlimit`: at most the configured memory.
    memory_limit: AtomicU64,
    pub(crate) baseline: Baseline,
    pub(crate) cleaning: Cleaning,
    pub(crate) watch: Watch,
    /// What the loop that divides memory did last, for `stats controller`.
    pub(crate) controller: Controller,
    /// Who is connected, for `stats conns`.
    pub(crate) clients: Clients,
    /// `stats detail`: what `stats settings` says of it.
    pub(crate) detail_enabled: AtomicBool,
    /// `lru_crawler`: whether items can be listed.
    pub(crate) crawler_enabled: AtomicBool,
    /// Taken alone, by the control thread and the administration.
    pub(crate) curves: Mutex<Curves>,
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        auth: Option<Auth>,
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        keys: Option<Arc<Keys>>,
    ) -> Self {
        let unix_secs = AtomicI64::new(clock.unix_secs());
        let memory_limit = AtomicU64::new(config.memory.0);
        // The cleaner has a ring, too.
        let curves = Mutex::new(Curves::new(Arc::clone(&store), config.threads + 1));
        Self {
            curves,
            memory_limit,
            watch: Watch::new(&*clock),
            clients: Clients::default(),
            controller: Controller::default(),
            detail_enabled: AtomicBool::new(config.prefix_delimiter.is_some()),
            crawler_enabled: AtomicBool::new(true),
            config,
            auth,
            store,
            keys_read_secs: AtomicI64::new(clock.unix_secs()),
            clock,
            keys,
            counters: Counters::default(),
            unix_secs,
            port: AtomicU64::new(0),
            baseline: Baseline::default(),
            cleaning: Cleaning::default(),
        }
    }

    /// Reads the keys of TLS again. False if there are none.
    ///
    /// # Errors
    /// If they cannot be used; then the old ones stay in force.
    pub(crate) fn reload_keys(&self) -> Result<bool, TlsError> {
        let Some(keys) = &self.keys else { return Ok(false) };
        keys.reload()?;
        self.keys_read_secs.store(self.clock.unix_secs(), Ordering::Relaxed);
        tracing::info!("the TLS certificates were read again");
        Ok(true)
    }

    /// Brings the clocks that requests read up to date. A step of the wall clock moves dates given from then on, not
    /// expiries that are set.
    pub(crate) fn tick(&self) {
        let secs = u32::try_from(self.clock.now().whole_secs()).unwrap_or(u32::MAX - CLOCK_START);
        self.store.set_now(secs + CLOCK_START);
        self.unix_secs.store(self.clock.unix_secs(), Ordering::Relaxed);
    }

    /// memcached's exptime as a second of the store's clock.
    pub(crate) fn expires_at(&self, exptime: i64) -> u32 {
        expires_at(exptime, self.store.now_secs(), self.unix_secs.load(Ordering::Relaxed))
    }

    /// Seconds since 1970 of a second of the store's clock.
    pub(crate) fn unix_of(&self, secs: u32) -> i64 {
        self.unix_secs() + i64::from(secs) - i64::from(self.store.now_secs())
    }

    /// The memory in force.
    pub(crate) fn memory_limit(&self) -> Bytes {
        Bytes(self.memory_limit.load(Ordering::Relaxed))
    }

    /// Lowers the memory, or raises it again up to what was configured. Returns false outside of that.
    pub(crate) fn set_memory_limit(&self, limit: Bytes) -> bool {
        let fits = MEMORY_MIN <= limit && limit <= self.config.memory;
        if fits {
            self.memory_limit.store(limit.0, Ordering::Relaxed);
            self.account_external();
        }
        fits
    }

    /// Tells the store about memory that it may not use: buffers, and what `cache_memlimit` took away.
    pub(crate) fn account_external(&self) {
        let withheld = self.config.memory.saturating_sub(self.memory_limit());
        self.store.set_external(self.buffered() + withheld);
    }

    /// The port of the first listener.
    pub(crate) fn port(&self) -> u64 {
        self.port.load(Ordering::Relaxed)
    }

    pub(crate) fn set_port(&self, port: u16) {
        self.port.store(port.into(), Ordering::Relaxed);
    }

    /// Seconds since 1970, as of the last tick.
    pub(crate) fn unix_secs(&self) -> i64 {
        self.unix_secs.load(Ordering::Relaxed)
    }

    /// Accounts a connection's buffer that grew (or shrank). Returns false if there is no memory for it.
    pub(crate) fn change_buffered(&self, before: usize, after: usize) -> bool {
        let delta = i64::try_from(after).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(i64::MAX);
        if delta == 0 {
            return true;
        }
        let total = self.counters.buffered.fetch_add(delta, Ordering::Relaxed) + delta;
        let most = (self.config.memory.0 / BUFFER_PART).max(2 * self.config.item_max.0);
        delta < 0 || u64::try_from(total).unwrap_or(0) <= most
    }

    /// Memory of connections' buffers.
    pub(crate) fn buffered(&self) -> Bytes {
        Bytes(u64::try_from(self.counters.buffered.load(Ordering::Relaxed)).unwrap_or(0))
    }
}
