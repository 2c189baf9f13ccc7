//! What every thread of a server shares: configuration, store, clock, counters of connections.

use crate::adjustable::Adjustable;
use crate::admission::Admission;
use crate::auth::Auth;
use crate::cleaning::Cleaning;
use crate::config::Config;
use crate::curves::Curves;
use crate::groups::Division;
use crate::in_charge::InCharge;
use crate::limits::{BUFFER_PART, GRANT_KEPT, GRANT_STEP, MEMORY_MIN, SMALL_BUFFER, TENANT_BYTES};
use crate::memcache::{expires_at, is_date};
use crate::observe::Observed;
use crate::reactor::Engine;
use crate::sharing::{Known, Sharing, Unmeasured};
use crate::stats::{Baseline, Clients, Controller, Detail};
use crate::tls::{Keys, TlsError};
use crate::watch::Watch;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use store::{CLOCK_START, Store};
use units::{Bytes, Duration, Instant, TenantId};

/// Real time, built by the binary and handed down.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Monotonic time since the process started.
    fn now(&self) -> Instant;
    /// Seconds since 1970.
    fn unix_secs(&self) -> i64;
    /// Microseconds since 1970, as finely as the clock tells them.
    fn unix_micros(&self) -> i64 {
        self.unix_secs().saturating_mul(1_000_000)
    }
    /// CPU time of the calling thread.
    fn thread_cpu(&self) -> Duration;
    /// CPU time of the process.
    fn process_cpu(&self) -> Duration;
    /// Time that the machine's cores had nothing to do, all together; none where the system does not say.
    fn idle_cpu(&self) -> Option<Duration> {
        None
    }
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
    pub(crate) idle_kicks: AtomicU64,
    pub(crate) auth_cmds: AtomicU64,
    pub(crate) auth_errors: AtomicU64,
    pub(crate) read_buf_oom: AtomicU64,
    /// Connections closed because they did not take their replies.
    pub(crate) slow_reader_kicks: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) ssl_handshake_errors: AtomicU64,
    pub(crate) ssl_new_sessions: AtomicU64,
    /// Memory of connections' buffers.
    pub(crate) buffered: AtomicI64,
    /// Second of the store's clock at which a large value found no memory last; 0 for never.
    pub(crate) upload_short_secs: AtomicU32,
    /// Connections that wait for memory.
    pub(crate) starved: AtomicI64,
    /// Memory of buffers and replies of connections that do not wait for any: they will give it back.
    returning: AtomicI64,
    /// The most of it since the last look.
    buffered_peak: AtomicI64,
}

impl Counters {
    /// What a connection that does not wait for memory holds has changed, or one waits from now on, or no longer.
    pub(crate) fn change_returning(&self, before: usize, after: usize) {
        self.returning.fetch_add(signed(after) - signed(before), Ordering::Relaxed);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What the server was started with.
    pub(crate) config: Config,
    /// What of it may have changed.
    pub(crate) adjustable: Adjustable,
    /// Tenants and groups change places, and count twice for a moment: nobody decides by that. Read under the locks of those who would.
    pub(crate) is_regrouping: AtomicBool,
    /// Who may come in; without it everybody.
    pub(crate) auth: Option<Auth>,
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The keys of listeners that speak TLS.
    pub(crate) keys: Option<Arc<Keys>>,
    /// Seconds since 1970 when the keys were read.
    pub(crate) keys_read_secs: AtomicI64,
    /// What waits for the sockets.
    pub(crate) engine: Engine,
    pub(crate) counters: Counters,
    /// Seconds since 1970, once a second.
    unix_secs: AtomicI64,
    /// The port of the first listener, once it is bound.
    port: AtomicU64,
    /// The bound on memory that is in force (`cache_memlimit`).
    memory_limit: AtomicU64,
    /// Held while that changes, and with it what the store withholds.
    limiting: Mutex<()>,
    /// Who divides the memory.
    pub(crate) in_charge: InCharge,
    /// Memory that connections' buffers are granted, and the second at which it last gave way.
    granted: Mutex<(Bytes, u32)>,
    /// The same as of the last account.
    granted_bytes: AtomicU64,
    pub(crate) baseline: Baseline,
    pub(crate) cleaning: Cleaning,
    pub(crate) watch: Watch,
    /// What the loop that divides memory did last, for `stats controller`.
    pub(crate) controller: Controller,
    /// Who is connected, for `stats conns`.
    pub(crate) clients: Clients,
    /// `stats detail`: what `stats settings` says of it.
    pub(crate) detail: Detail,
    /// `lru_crawler`: whether items can be listed.
    pub(crate) crawler_enabled: AtomicBool,
    /// What tenants are allowed beside memory.
    pub(crate) admission: Admission,
    /// Who may use a tier how fast.
    pub(crate) sharing: Sharing,
    /// Times, hot keys, slow requests.
    pub(crate) observed: Observed,
    /// The control thread and the administration wait for it, workers try it; the list of threads is taken under it.
    pub(crate) curves: Mutex<Curves>,
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        auth: Option<Auth>,
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        keys: Option<Arc<Keys>>,
        engine: Engine,
        known: Known,
    ) -> Result<Self, Unmeasured> {
        let unix_secs = AtomicI64::new(clock.unix_secs());
        let memory_limit = AtomicU64::new(config.memory.0);
        // Cleaners have a ring, too.
        let joint = config.joint_settings();
        let curves = Curves::new(Arc::clone(&store), config.threads + config.cleaners, joint.epoch);
        let curves = Mutex::new(curves);
        let observed = Observed::new(config.threads, config.memory);
        let kind = config.bandwidth_policy;
        let sharing = Sharing::new(&store, known, kind, (joint, config.steps()), (config.seed, clock.now()))?;
        Ok(Self {
            curves,
            observed,
            adjustable: Adjustable::of(&config),
            is_regrouping: AtomicBool::new(false),
            admission: Admission::default(),
            memory_limit,
            limiting: Mutex::default(),
            in_charge: InCharge::new(Division::of(&config)),
            watch: Watch::new(&*clock),
            clients: Clients::default(),
            controller: Controller::default(),
            detail: Detail::default(),
            crawler_enabled: AtomicBool::new(!config.crawler_disabled),
            cleaning: Cleaning::new(config.cleaner_cpu),
            config,
            auth,
            store,
            keys_read_secs: AtomicI64::new(clock.unix_secs()),
            clock,
            keys,
            engine,
            counters: Counters::default(),
            unix_secs,
            port: AtomicU64::new(0),
            granted: Mutex::default(),
            granted_bytes: AtomicU64::new(0),
            baseline: Baseline::default(),
            sharing,
        })
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
        let unix_secs = self.clock.unix_secs();
        self.store.set_now(secs + CLOCK_START);
        self.store.set_wall(u64::try_from(unix_secs).unwrap_or(0));
        self.unix_secs.store(unix_secs, Ordering::Relaxed);
    }

    /// memcached's exptime as a second of the store's clock.
    pub(crate) fn expires_at(&self, exptime: i64) -> u32 {
        expires_at(exptime, self.store.now_secs(), self.unix_secs.load(Ordering::Relaxed))
    }

    /// The same of a flush, which happens a second before something stored with this exptime would expire, as in memcached; none if it is
    /// a date before this server began, when there was nothing to flush.
    pub(crate) fn flushes_at(&self, exptime: i64) -> Option<u32> {
        let is_before = is_date(exptime) && exptime <= self.unix_of(0);
        (!is_before).then(|| self.expires_at(exptime).saturating_sub(1))
    }

    /// Seconds since 1970 of a second of the store's clock.
    pub(crate) fn unix_of(&self, secs: u32) -> i64 {
        self.unix_secs() + i64::from(secs) - i64::from(self.store.now_secs())
    }

    /// The memory in force.
    pub(crate) fn memory_limit(&self) -> Bytes {
        Bytes(self.memory_limit.load(Ordering::Relaxed))
    }

    /// What tenants divide in the memory in force.
    pub(crate) fn divisible(&self) -> Bytes {
        let withheld = self.config.withheld(self.memory_limit());
        self.store.geometry().divisible.saturating_sub(withheld)
    }

    /// Lowers the memory, as far as threads can share it in segments of the size that the store has, or raises it, as far as was configured.
    /// Returns false outside of that.
    pub(crate) fn set_memory_limit(&self, limit: Bytes) -> bool {
        let is_within = MEMORY_MIN <= limit && limit <= self.config.most_memory();
        let fits = is_within && self.store.geometry().has_room_without(self.config.withheld(limit));
        if fits {
            {
                let _one_at_a_time = self.limiting.lock().unwrap_or_else(PoisonError::into_inner);
                self.memory_limit.store(limit.0, Ordering::Relaxed);
                self.store.withhold(self.config.withheld(limit));
            }
            let ids = (0..u32::try_from(self.store.tenant_count()).unwrap_or(u32::MAX)).map(TenantId);
            let states = ids.filter_map(|id| self.store.tenant_state(id));
            let floors = states.map(|state| (state.claim.group, state.claim.floor.bytes));
            let (reserved, divisible) = (self.in_charge.now().reserved(floors), self.divisible());
            if divisible < reserved {
                tracing::warn!(
                    "{reserved} are reserved, {divisible} can be divided: reservations are kept in part"
                );
            }
        }
        fits
    }

    /// Tells the store about memory that others use: buffers, and what is known of tenants.
    pub(crate) fn account_external(&self) {
        // Gates are read with no lock held; they grow with an operator's words, and the next second has them right.
        let gates = self.admission.bytes();
        // One after the other: who is slower is not to undo what was counted since.
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Bytes(TENANT_BYTES.0 * self.store.tenant_count() as u64);
        let buffers = self.grant(&mut granted);
        self.store.set_external(buffers + known + self.observed.bytes() + gates);
    }

    /// Memory that connections' buffers are granted: what they took lately at most. Segments come back slowly, so buffers
    /// that come and go must not have to wait for them each time.
    fn grant(&self, (bytes, gave_way_secs): &mut (Bytes, u32)) -> Bytes {
        let now = self.store.now_secs();
        let peak = self
            .counters
            .buffered_peak
            .swap(self.counters.buffered.load(Ordering::Relaxed), Ordering::Relaxed);
        if *gave_way_secs != now {
            *gave_way_secs = now;
            *bytes = bytes.scale(GRANT_KEPT.0, GRANT_KEPT.1);
        }
        *bytes = (*bytes).max(Bytes(u64::try_from(peak).unwrap_or(0)));
        self.granted_bytes.store(bytes.0, Ordering::Relaxed);
        *bytes
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

    /// Accounts a connection's buffer that is to change, if it is small or buffers stay within their part of the memory.
    pub(crate) fn reserve_buffer(&self, before: usize, after: usize) -> bool {
        let most = if after <= SMALL_BUFFER { u64::MAX } else { self.buffers_part() };
        if self.change_buffered(before, after) <= most || after <= before {
            return true;
        }
        self.change_buffered(after, before);
        false
    }

    /// Accounts a connection's buffer that has changed. Returns false if it grew and buffers are beyond all bounds.
    pub(crate) fn count_buffer(&self, before: usize, after: usize) -> bool {
        self.change_buffered(before, after) <= 2 * self.buffers_part() || after <= before
    }

    /// Whether the buffer of a connection that waits for memory could grow to `after` within so many times the part of all buffers once
    /// everybody who does not wait has given theirs back.
    pub(crate) fn others_suffice(&self, before: usize, after: usize, parts: u64) -> bool {
        let counters = &self.counters;
        let stays = counters.buffered.load(Ordering::Relaxed) - counters.returning.load(Ordering::Relaxed);
        u64::try_from(stays + signed(after) - signed(before)).unwrap_or(0) <= parts * self.buffers_part()
    }

    /// Whether buffers take more than their part of the memory, or somebody waits for theirs.
    pub(crate) fn buffers_are_short(&self) -> bool {
        self.buffers_part() < self.buffered().0 || 0 < self.counters.starved.load(Ordering::Relaxed)
    }

    /// What buffers may take together before their connections have to wait.
    fn buffers_part(&self) -> u64 {
        let geometry = self.store.geometry();
        // A large value is in no buffer.
        (self.memory_limit().0 / BUFFER_PART).max(2 * geometry.item_max.min(geometry.segment).0)
    }

    fn change_buffered(&self, before: usize, after: usize) -> u64 {
        let delta = signed(after) - signed(before);
        let total = self.counters.buffered.fetch_add(delta, Ordering::Relaxed) + delta;
        self.counters.buffered_peak.fetch_max(total, Ordering::Relaxed);
        let total = u64::try_from(total).unwrap_or(0);
        if self.granted_bytes.load(Ordering::Relaxed) + GRANT_STEP < total {
            // Items take no more memory in which buffers are already.
            self.account_external();
        }
        total
    }

    /// Memory of connections' buffers.
    pub(crate) fn buffered(&self) -> Bytes {
        Bytes(u64::try_from(self.counters.buffered.load(Ordering::Relaxed)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use control::Sensor as _;
    use store::MemoryControl;

    #[test]
    fn limits_that_are_set_at_once_leave_the_memory_of_the_one_in_force() {
        let shared = testing::small(1);
        let mut sensor = MemoryControl::new(Arc::clone(&shared.store));
        let mut divided = || sensor.read(Instant::ZERO, &mut Vec::new());
        let limits = [Bytes::mib(12), Bytes::mib(16)];
        let before = limits.map(|limit| {
            assert!(shared.set_memory_limit(limit));
            divided()
        });
        assert_ne!(before[0], before[1]);
        for _ in 0..300 {
            std::thread::scope(|scope| {
                for limit in limits {
                    let shared = &shared;
                    scope.spawn(move || assert!(shared.set_memory_limit(limit)));
                }
            });
            let in_force = limits.iter().position(|limit| *limit == shared.memory_limit()).unwrap();
            assert_eq!(divided(), before[in_force]);
        }
    }
}
