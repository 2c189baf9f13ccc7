//! Who is served now: what a tenant is allowed beside memory, and how much of that it has used.
//!
//! Shape:      a connection enters its tenant's gate, or is refused; each key of a request takes a token, or its connection
//!             waits for one
//! Invariants: tokens that a request takes beyond those there are become debt: over time no more keys are served than allowed
//! Units:      nanoseconds of the server's clock; keys (a request without a key takes nothing)
//! Cost:       without any allowance one relaxed load per turn, and one count per connection
//! Source:     `tokens`: one word says when the bucket is full again

use crate::limits::BURST_SECS;
use crate::tokens::Bucket;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use units::{Bytes, Duration, Instant, TenantId};

/// What becomes of requests beyond a tenant's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OverRate {
    /// Their connection is not served until there are tokens.
    #[default]
    Wait,
    /// They are answered with an error.
    Refuse,
}

/// What a tenant is allowed beside memory; what is absent is without a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowance {
    /// Connections at once.
    pub max_connections: Option<u32>,
    /// Keys per second on average.
    pub requests_per_second: Option<u32>,
    /// Keys at once after a pause; none means those of `BURST_SECS`.
    pub burst: Option<u32>,
    /// What becomes of requests beyond that.
    pub over_rate: OverRate,
    /// Largest item, header and key included.
    pub max_item: Option<Bytes>,
    /// Seconds after which an item expires that was given no time.
    pub default_ttl_secs: Option<u32>,
    /// Seconds after which every item expires.
    pub max_ttl_secs: Option<u32>,
}

/// What is to change of an allowance; none inside for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllowanceChange {
    /// Connections at once.
    pub max_connections: Option<Option<u32>>,
    /// Keys per second on average.
    pub requests_per_second: Option<Option<u32>>,
    /// Keys at once after a pause.
    pub burst: Option<Option<u32>>,
    /// What becomes of requests beyond that.
    pub over_rate: Option<OverRate>,
    /// Largest item.
    pub max_item: Option<Option<Bytes>>,
    /// Seconds after which an item expires that was given no time.
    pub default_ttl_secs: Option<Option<u32>>,
    /// Seconds after which every item expires.
    pub max_ttl_secs: Option<Option<u32>>,
}

impl OverRate {
    /// One word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Refuse => "refuse",
        }
    }
}

impl Allowance {
    /// This, changed.
    #[must_use]
    pub fn changed(self, change: &AllowanceChange) -> Self {
        Self {
            max_connections: change.max_connections.unwrap_or(self.max_connections),
            requests_per_second: change.requests_per_second.unwrap_or(self.requests_per_second),
            burst: change.burst.unwrap_or(self.burst),
            over_rate: change.over_rate.unwrap_or(self.over_rate),
            max_item: change.max_item.unwrap_or(self.max_item),
            default_ttl_secs: change.default_ttl_secs.unwrap_or(self.default_ttl_secs),
            max_ttl_secs: change.max_ttl_secs.unwrap_or(self.max_ttl_secs),
        }
    }

    /// When an item expires that would expire `at`, both as seconds of the store's clock, 0 for never.
    pub(crate) fn expires_at(&self, at: u32, now_secs: u32) -> u32 {
        let at = match (at, self.default_ttl_secs) {
            (0, Some(default)) => now_secs.saturating_add(default),
            (at, _) => at,
        };
        let latest = self.max_ttl_secs.map(|max| now_secs.saturating_add(max));
        match (at, latest) {
            (0, Some(latest)) => latest,
            (at, Some(latest)) => at.min(latest),
            (at, None) => at,
        }
    }

    /// Whether requests have to ask the gate.
    fn concerns_requests(&self) -> bool {
        self.requests_per_second.is_some()
            || self.max_item.is_some()
            || self.default_ttl_secs.is_some()
            || self.max_ttl_secs.is_some()
    }
}

/// What a tenant's gate has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateCounts {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were refused.
    pub connections_refused: u64,
    /// Times that a connection had to wait for tokens.
    pub rate_waits: u64,
    /// How long they waited, all together.
    pub rate_waited: Duration,
    /// Requests that were refused for lack of tokens.
    pub rate_refusals: u64,
}

/// One tenant's gate.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    allowance: Mutex<Allowance>,
    connections: AtomicI64,
    connections_refused: AtomicU64,
    rate_waits: AtomicU64,
    rate_waited_ns: AtomicU64,
    rate_refusals: AtomicU64,
    /// Nanoseconds for one key; 0 without a rate.
    spacing_ns: AtomicU64,
    /// Nanoseconds of a full bucket.
    depth_ns: AtomicU64,
    /// When the bucket will be full again.
    full_at_ns: AtomicU64,
}

/// There is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoToken {
    /// There is one at that time.
    Wait(Instant),
    /// The request is to be refused.
    Refuse,
}

const NANOS: u64 = 1_000_000_000;

impl Gate {
    fn set(&self, allowance: Allowance) {
        let rate = allowance.requests_per_second.map(u64::from);
        // Rounded up: over time no more keys are served than allowed.
        let spacing = rate.map_or(0, |rate| NANOS.div_ceil(rate.max(1)));
        let burst = allowance.burst.map(u64::from).or(rate.map(|rate| rate * BURST_SECS)).unwrap_or(0);
        let bucket = Bucket { spacing_ns: spacing, depth_ns: spacing.saturating_mul(burst.max(1)) };
        // Whoever is told anew what holds already has not got its tokens back by that.
        if bucket != self.bucket() {
            self.spacing_ns.store(bucket.spacing_ns, Ordering::Relaxed);
            self.depth_ns.store(bucket.depth_ns, Ordering::Relaxed);
            self.full_at_ns.store(0, Ordering::Relaxed);
        }
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner) = allowance;
    }

    pub(crate) fn allowance(&self) -> Allowance {
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes tokens for so many keys.
    pub(crate) fn take(&self, keys: usize, now: Instant) -> Result<(), NoToken> {
        let bucket = self.bucket();
        if bucket.spacing_ns == 0 || keys == 0 {
            return Ok(());
        }
        let taken = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            bucket.taken(full_at, keys as u64, now)
        });
        taken.map(|_| ()).map_err(|full_at| match self.allowance().over_rate {
            OverRate::Wait => {
                let at = bucket.token_at(full_at);
                self.rate_waits.fetch_add(1, Ordering::Relaxed);
                self.rate_waited_ns.fetch_add(until(at, now).0, Ordering::Relaxed);
                NoToken::Wait(at)
            }
            OverRate::Refuse => {
                self.rate_refusals.fetch_add(1, Ordering::Relaxed);
                NoToken::Refuse
            }
        })
    }

    fn bucket(&self) -> Bucket {
        Bucket {
            spacing_ns: self.spacing_ns.load(Ordering::Relaxed),
            depth_ns: self.depth_ns.load(Ordering::Relaxed),
        }
    }

    /// Counts a request that is refused for it has waited long enough.
    pub(crate) fn count_refusal(&self) {
        self.rate_refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back what a request took that comes again.
    pub(crate) fn give_back(&self, keys: usize) {
        let bucket = self.bucket();
        let less = |full_at: u64| Some(bucket.given_back(full_at, keys as u64));
        // The closure always has an answer.
        let _before = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Counts a connection; false if there are as many as can be.
    fn enter(&self) -> bool {
        let most = self.allowance().max_connections.map_or(i64::MAX, i64::from);
        if self.connections.fetch_add(1, Ordering::Relaxed) < most {
            return true;
        }
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn counts(&self) -> GateCounts {
        GateCounts {
            connections: u64::try_from(self.connections.load(Ordering::Relaxed)).unwrap_or(0),
            connections_refused: self.connections_refused.load(Ordering::Relaxed),
            rate_waits: self.rate_waits.load(Ordering::Relaxed),
            rate_waited: Duration(self.rate_waited_ns.load(Ordering::Relaxed)),
            rate_refusals: self.rate_refusals.load(Ordering::Relaxed),
        }
    }
}

/// Every tenant's gate, by id; those without an allowance and without connections may have none.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Replaced as a whole where gates come: who holds some waits for nobody, and nobody for it.
    gates: RwLock<Gates>,
    /// Tenants whose requests have to ask.
    asking: AtomicUsize,
}

/// The gates as they are for one turn.
pub(crate) type Gates = Arc<Vec<Arc<Gate>>>;

impl Admission {
    fn read(&self) -> Gates {
        Arc::clone(&self.gates.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn gate(&self, id: TenantId) -> Arc<Gate> {
        let at = id.0 as usize;
        if let Some(gate) = self.read().get(at) {
            return Arc::clone(gate);
        }
        let mut gates = self.gates.write().unwrap_or_else(PoisonError::into_inner);
        if gates.len() <= at {
            Arc::make_mut(&mut gates).resize_with(at + 1, Arc::default);
        }
        Arc::clone(&gates[at])
    }

    /// The gates, if a request may have to ask one.
    #[inline]
    pub(crate) fn asked(&self) -> Option<Gates> {
        (0 < self.asking.load(Ordering::Relaxed)).then(|| self.read())
    }

    /// Allows a tenant something from now on.
    pub(crate) fn allow(&self, id: TenantId, allowance: Allowance) {
        let gate = self.gate(id);
        let before = gate.allowance();
        gate.set(allowance);
        match (before.concerns_requests(), allowance.concerns_requests()) {
            (false, true) => self.asking.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.asking.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// What a tenant is allowed, and what its gate has counted.
    pub(crate) fn of(&self, id: TenantId) -> (Allowance, GateCounts) {
        self.read().get(id.0 as usize).map(|gate| (gate.allowance(), gate.counts())).unwrap_or_default()
    }

    /// Counts a tenant's connection; false if there are as many as can be.
    pub(crate) fn enter(&self, id: TenantId) -> bool {
        self.gate(id).enter()
    }

    /// A tenant's connection that was counted has gone.
    pub(crate) fn leave(&self, id: TenantId) {
        self.gate(id).connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A tenant has gone; who has its id next begins anew.
    pub(crate) fn forget(&self, id: TenantId) {
        self.allow(id, Allowance::default());
        let gate = self.gate(id);
        let counters =
            [&gate.connections_refused, &gate.rate_waits, &gate.rate_waited_ns, &gate.rate_refusals];
        for counter in counters {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Memory.
    pub(crate) fn bytes(&self) -> Bytes {
        let each = size_of::<Gate>() + size_of::<Arc<Gate>>() + 2 * size_of::<usize>();
        Bytes((self.read().len() * each) as u64)
    }
}

/// Time from one moment until another, nothing if that is past.
pub(crate) fn until(at: Instant, now: Instant) -> Duration {
    Duration(at.0.saturating_sub(now.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(rate: u32, burst: Option<u32>, over_rate: OverRate) -> Gate {
        let gate = Gate::default();
        gate.set(Allowance { requests_per_second: Some(rate), burst, over_rate, ..Allowance::default() });
        gate
    }

    #[test]
    fn over_time_no_more_is_served_than_allowed() {
        let gate = gate(1000, Some(10), OverRate::Wait);
        let (mut now, mut served) = (Instant(NANOS), 0_u64);
        while now.0 < 11 * NANOS {
            match gate.take(3, now) {
                Ok(()) => served += 3,
                Err(NoToken::Wait(at)) => {
                    assert!(now < at, "a wait ends later");
                    now = at;
                }
                Err(NoToken::Refuse) => panic!("it waits"),
            }
        }
        assert!((10_000..=10_013).contains(&served), "{served}");
    }

    /// Rates that a second is no multiple of, too.
    #[test]
    fn a_rate_is_never_rounded_up() {
        for rate in [3, 600_000, 999_999_999, 3_000_000_000] {
            let bucket = gate(rate, None, OverRate::Wait).bucket();
            assert!(NANOS <= bucket.spacing_ns * u64::from(rate), "{rate}: {} ns", bucket.spacing_ns);
        }
    }

    #[test]
    fn a_burst_is_served_at_once_and_a_large_request_becomes_debt() {
        let one = gate(100, Some(5), OverRate::Refuse);
        let now = Instant(NANOS);
        assert_eq!((0..9).filter(|_| one.take(1, now).is_ok()).count(), 5);
        assert_eq!(one.counts().rate_refusals, 4);
        one.give_back(2);
        assert_eq!((0..9).filter(|_| one.take(1, now).is_ok()).count(), 2);
        let large = gate(100, Some(5), OverRate::Wait);
        assert_eq!(large.take(100, now), Ok(()));
        assert_eq!(large.take(1, now), Err(NoToken::Wait(Instant(now.0 + 950_000_001))));
        assert_eq!(large.take(1, Instant(now.0 + 950_000_001)), Ok(()));
        let counts = large.counts();
        assert_eq!((counts.rate_waits, counts.rate_waited), (1, Duration(950_000_001)));
    }

    #[test]
    fn what_is_allowed_as_before_brings_no_tokens_back() {
        let gate = gate(100, Some(5), OverRate::Refuse);
        let now = Instant(NANOS);
        assert_eq!(gate.take(5, now), Ok(()));
        gate.set(Allowance { max_item: Some(Bytes::kib(1)), ..gate.allowance() });
        assert_eq!(gate.take(1, now), Err(NoToken::Refuse));
        gate.set(Allowance { requests_per_second: Some(200), ..gate.allowance() });
        assert_eq!(gate.take(1, now), Ok(()), "another rate is another bucket");
    }

    #[test]
    fn requests_ask_where_any_limit_concerns_them() {
        let none = Allowance::default();
        let admission = Admission::default();
        for allowance in [
            Allowance { requests_per_second: Some(1), ..none },
            Allowance { max_item: Some(Bytes::kib(1)), ..none },
            Allowance { default_ttl_secs: Some(1), ..none },
            Allowance { max_ttl_secs: Some(1), ..none },
        ] {
            admission.allow(TenantId(1), allowance);
            assert!(admission.asked().is_some(), "{allowance:?}");
            admission.allow(TenantId(1), none);
            assert!(admission.asked().is_none(), "{allowance:?}");
        }
    }

    #[test]
    fn times_to_live_have_a_default_and_an_end() {
        let all = Allowance { default_ttl_secs: Some(10), max_ttl_secs: Some(60), ..Allowance::default() };
        for (given, wanted) in [(0, 110), (1, 1), (105, 105), (160, 160), (161, 160)] {
            assert_eq!(all.expires_at(given, 100), wanted, "{given}");
        }
        let max = Allowance { default_ttl_secs: None, ..all };
        assert_eq!(max.expires_at(0, 100), 160);
        let default = Allowance { max_ttl_secs: None, ..all };
        assert_eq!((default.expires_at(0, 100), default.expires_at(999, 100)), (110, 999));
        assert_eq!(Allowance::default().expires_at(0, 100), 0);
    }

    #[test]
    fn connections_are_counted_and_those_beyond_refused() {
        let admission = Admission::default();
        let id = TenantId(3);
        assert!(admission.enter(id) && admission.enter(id));
        admission.allow(id, Allowance { max_connections: Some(2), ..Allowance::default() });
        assert!(admission.asked().is_none(), "requests need not ask");
        assert!(!admission.enter(id));
        admission.leave(id);
        assert!(admission.enter(id));
        let counts = admission.of(id).1;
        assert_eq!((counts.connections, counts.connections_refused), (2, 1));
        admission.allow(id, Allowance { requests_per_second: Some(1), ..Allowance::default() });
        let asked = admission.asked();
        assert!(asked.is_some());
        // Somebody comes while a turn has gates: it waits for nobody, and neither does who asks beside.
        assert!(admission.enter(TenantId(9)) && admission.of(TenantId(9)).1.connections == 1);
        assert!(asked.is_some_and(|gates| gates.len() == 4));
        let gate = admission.gate(id);
        assert!(gate.take(1, Instant(NANOS)).is_ok() && gate.take(1, Instant(NANOS)).is_err());
        gate.count_refusal();
        admission.forget(id);
        assert!(admission.asked().is_none());
        // Who has its id next begins anew; those connections are still there.
        assert_eq!(
            admission.of(id),
            (Allowance::default(), GateCounts { connections: 2, ..GateCounts::default() })
        );
    }
}
