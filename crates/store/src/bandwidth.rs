//! Sensor and actuator of the tier whose time is divided: what tenants move and what it costs, and the brakes on them.
//!
//! Shape:      counters of all threads since the last reading -> one row per tenant; throttles -> tenants' brakes
//! Invariants: rows are in the order of tenants; what is said to be in force is what the brake has; a lease that nobody renews
//!             gives the last steady throttles back; `release` lets everybody go
//! Units:      bytes, accesses, picoseconds of the tier
//! Cost:       O(tenants × threads) per reading, a dozen loads each, nothing allocated once tenants and threads are steady
//! Failure:    levers that this store does not have (memory bandwidth allocation, CPU quotas) are never in force
//! Non-goals:  latencies of requests: whoever serves them measures those

use crate::latency::Looks;
use crate::metrics::{Counters, ThreadCounters};
use crate::store::Store;
use crate::sync::Ordering;
use control::bandwidth::{BandwidthSignal, Budget, Cost, Kind, Kinds, Throttle};
use control::{Actuator, Amount, Decision, Lease, Levers, Pool, Row, Sensor};
use media::brake::{self, Setting};
use media::{Access, SlowAccess};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, TenantId};

/// What a brake of this store acts on.
const BRAKE: Kinds<bool> = Kinds { dram_read: false, dram_write: false, slow_read: true, slow_write: true };

/// The tier whose time is divided, as a thing that a policy about bandwidth controls.
#[derive(Debug)]
pub struct BandwidthControl {
    store: Arc<Store>,
    /// By id: which of its tenants was counted, and what it had counted.
    before: Vec<(u32, Counted)>,
    now: Vec<Counted>,
    /// Who was there at the last reading, and how many had had its id before.
    present: Vec<(TenantId, u32)>,
    /// Accesses to tiers by thread and tenant.
    by_thread: Vec<Vec<u64>>,
    lease: Lease<Throttle>,
    /// What looks since the last reading saw of the tier's latency, if the policy wants to know it.
    looks: Option<Looks>,
    /// Part of the tier's time that is divided.
    part: f64,
}

/// What all threads counted for a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes: Kinds<u64>,
    accesses: Kinds<u64>,
    cost_ps: u64,
    operations: u64,
    /// Threads with requests that came to a tier since the last reading.
    threads: u16,
}

impl BandwidthControl {
    /// Controls `store`'s divided tier.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            before: Vec::new(),
            now: Vec::new(),
            present: Vec::new(),
            by_thread: Vec::new(),
            lease: Lease::default(),
            looks: None,
            part: 1.0,
        }
    }

    /// Tells at readings what looks at the tier saw from now on, or no more.
    pub fn watch_latency(&mut self, watches: bool) {
        self.looks = watches.then(Looks::default);
    }

    /// Whether what looks at the tier see is wanted.
    #[must_use]
    pub const fn watches_latency(&self) -> bool {
        self.looks.is_some()
    }

    /// Takes note of what a look at the tier saw ([`Store::tier_latency`], which whoever waits for this need not wait for): the next reading tells
    /// the mean of all since the one before, for one is of its moment.
    pub fn note_latency(&mut self, seen: Kinds<Option<Duration>>) {
        if let Some(looks) = &mut self.looks {
            looks.add(seen);
        }
    }

    /// Divides so much of the tier's time from the next reading on: a part above 0 and at most 1.
    pub fn set_part(&mut self, part: f64) {
        self.part = part;
    }

    /// Whether tenants have come or gone since the last reading.
    #[must_use]
    pub fn has_other_tenants(&self) -> bool {
        let present = self.store.tenants().filter(|tenant| !tenant.is_gone());
        !present.map(|tenant| (tenant.id, tenant.generation())).eq(self.present.iter().copied())
    }

    /// Gives the last steady throttles back if nobody has decided for as long as the last decision holds. Returns whether it
    /// did: for whoever watches over the loop.
    pub fn lapse(&mut self, now: Instant) -> bool {
        let Some(steady) = self.lease.lapsed(now) else { return false };
        self.store.brakes.set_pauses_end(None);
        // Nobody begins periods of budgets any more; caps need nobody.
        self.store.brakes.set_waited_for(steady.iter().any(|(_, throttle)| setting(throttle).is_capped()));
        for tenant in self.store.tenants().filter(|tenant| !tenant.is_gone()) {
            let at = steady.binary_search_by_key(&tenant.id, |(id, _)| *id);
            let throttle = at.map_or(Throttle::FREE, |at| steady[at].1);
            self.store.brakes.note(tenant.below.set_brake(setting(&throttle), now));
        }
        true
    }

    /// Holds nobody back any more, whatever becomes of the loop.
    pub fn release(&mut self, now: Instant) {
        self.lease = Lease::default();
        self.store.brakes.set_pauses_end(None);
        self.store.brakes.set_waited_for(false);
        for tenant in self.store.tenants().filter(|tenant| !tenant.is_gone()) {
            tenant.below.set_brake(Setting::FREE, now);
        }
        // Who waits for what a budget or a cap grants later need not.
        self.store.brakes.note(true);
    }

    /// Adds up what threads have counted since the store began.
    fn count(&mut self) {
        let (store, now, by_thread) = (&self.store, &mut self.now, &mut self.by_thread);
        // Brakes act on one tier: what goes to others is none of the policy's.
        let divided = store.divided_tier().unwrap_or(u8::MAX);
        now.clear();
        now.resize(store.tenant_count(), Counted::default());
        let mut thread = 0;
        store.each_thread(|counters| {
            if by_thread.len() <= thread {
                by_thread.push(Vec::new());
            }
            add_thread((counters, divided), now, &mut by_thread[thread]);
            thread += 1;
            0
        });
    }
}

/// Adds one thread's counters to those of all tenants.
fn add_thread((counters, divided): (&ThreadCounters, u8), now: &mut [Counted], slow_before: &mut Vec<u64>) {
    slow_before.resize(now.len(), 0);
    for ((of_thread, counted), before) in counters.tenants.iter().zip(now).zip(slow_before) {
        let Some(of_thread) = of_thread.get() else { continue };
        let (slow, operations) = counted.add(of_thread, divided);
        if slow != *before {
            // A thread that only cleans is held back by no delay between requests.
            counted.threads = counted.threads.saturating_add(u16::from(operations != 0));
            *before = slow;
        }
    }
}

impl Counted {
    /// Adds a thread's counters; returns its accesses to the divided tier, and its operations.
    fn add(&mut self, counters: &Counters, divided: u8) -> (u64, u64) {
        for kind in Kind::ALL {
            let traffic = counters.traffic_at(access_of(kind), divided);
            *self.bytes.get_mut(kind) += traffic.bytes;
            *self.accesses.get_mut(kind) += traffic.accesses;
        }
        self.cost_ps += counters.cost_ps();
        let requests = [
            &counters.get_hits,
            &counters.get_misses,
            &counters.cmd_set,
            &counters.cmd_touch,
            &counters.delete_hits,
            &counters.delete_misses,
            &counters.incr_hits,
            &counters.incr_misses,
            &counters.decr_hits,
            &counters.decr_misses,
            &counters.count_creations,
        ];
        let operations = requests.map(|counter| counter.load(Ordering::Relaxed)).iter().sum::<u64>();
        self.operations += operations;
        let slow = |access| counters.traffic_at(access, divided).accesses;
        (slow(Access::SlowRead) + slow(Access::SlowWrite), operations)
    }

    /// What was counted since `before`.
    fn since(&self, before: &Self) -> BandwidthSignal {
        let less = |now: &Kinds<u64>, before: &Kinds<u64>, kind: Kind| {
            now.get(kind).saturating_sub(*before.get(kind))
        };
        BandwidthSignal {
            bytes: Kinds::from_fn(|kind| Bytes(less(&self.bytes, &before.bytes, kind))),
            accesses: Kinds::from_fn(|kind| less(&self.accesses, &before.accesses, kind)),
            cost: Cost(self.cost_ps.saturating_sub(before.cost_ps)),
            operations: self.operations.saturating_sub(before.operations),
            threads: self.threads,
            ..BandwidthSignal::default()
        }
    }
}

impl Sensor for BandwidthControl {
    type Signal = BandwidthSignal;
    type Share = Throttle;

    fn read(&mut self, _now: Instant, rows: &mut Vec<Row<BandwidthSignal, Throttle>>) -> Pool {
        self.count();
        self.before.resize(self.now.len(), (0, Counted::default()));
        self.present.clear();
        for ((tenant, (generation, before)), now) in self.store.tenants().zip(&mut self.before).zip(&self.now)
        {
            let is_new = std::mem::replace(generation, tenant.generation()) != tenant.generation();
            let before = std::mem::replace(before, *now);
            if tenant.is_gone() {
                continue;
            }
            self.present.push((tenant.id, tenant.generation()));
            let depleted_at = tenant.below.brake().take_depleted_at();
            // Of one that has just come it is not known since when it was counted.
            let signal = (!is_new).then(|| BandwidthSignal { depleted_at, ..now.since(&before) });
            let mut claim = tenant.spec().claim.clone();
            claim.levers = Levers { brake: BRAKE, ..Levers::default() };
            let in_force = Some(throttle(&tenant.below.brake().setting()));
            rows.push(Row { id: tenant.id, claim, signal, in_force });
        }
        let profile = self.store.divided_tier().filter(|tier| self.store.has_profile(*tier));
        let latency = self.looks.as_mut().map(std::mem::take).unwrap_or_default().mean();
        Pool {
            capacity: Amount::tier_time(Cost::SECOND).part(self.part),
            profile: profile.map_or(0, |tier| u32::from(tier) + 1),
            latency,
            ..Pool::default()
        }
    }
}

impl Actuator for BandwidthControl {
    type Share = Throttle;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Throttle>,
        in_force: &mut Vec<(TenantId, Throttle)>,
    ) -> bool {
        self.lease.renew(now, decision);
        self.store.brakes.set_pauses_end((!decision.steady).then(|| now + decision.wake));
        let is_waited_for = decision.shares.rows().iter().any(|(_, asked)| setting(asked).is_waited_for());
        self.store.brakes.set_waited_for(is_waited_for);
        in_force.clear();
        let mut whole = true;
        for (id, asked) in decision.shares.rows() {
            let tenant = self.store.tenant(*id);
            if tenant.is_gone() {
                whole = false;
                continue;
            }
            // Policies charge what was used beyond a budget themselves.
            self.store.brakes.note(tenant.below.begin_brake(setting(asked), now));
            let held = throttle(&tenant.below.brake().setting());
            whole &= held == *asked;
            in_force.push((*id, held));
        }
        whole
    }
}

impl Store {
    /// What an access to a tier costs of its time, in ps; none for an unknown tier.
    #[must_use]
    pub fn access_cost_ps(&self, tier: u8, kind: SlowAccess, size: Bytes) -> Option<u64> {
        self.tiers.get(usize::from(tier)).map(|tier| tier.cost_ps(kind, size))
    }

    /// How a tenant is held back now; free for an id that nobody has.
    #[must_use]
    pub fn throttle(&self, id: TenantId) -> Throttle {
        let tenant = self.known(id).filter(|tenant| !tenant.is_gone());
        tenant.map_or(Throttle::FREE, |tenant| throttle(&tenant.below.brake().setting()))
    }
}

fn access_of(kind: Kind) -> Access {
    match kind {
        Kind::DramRead => Access::DramRead,
        Kind::DramWrite => Access::DramWrite,
        Kind::SlowRead => Access::SlowRead,
        Kind::SlowWrite => Access::SlowWrite,
    }
}

/// What a brake can do of a throttle. Its caps on DRAM are none of a store whose brake acts on tiers.
pub(crate) fn setting(throttle: &Throttle) -> Setting {
    let cap = |kind: Kind| throttle.cap.get(kind).filter(|_| *BRAKE.get(kind));
    Setting {
        delay: throttle.delay,
        paused: throttle.paused,
        budget: throttle.budget.map(|Budget { cost, per }| brake::Budget { cost_ps: cost.0, per }),
        cap: Access::ALL.map(|access| cap(kind_of(access))),
    }
}

/// The throttle that a brake's setting is.
pub(crate) fn throttle(setting: &Setting) -> Throttle {
    let cap = |kind: Kind| setting.cap[access_of(kind) as usize];
    Throttle {
        delay: setting.delay,
        paused: setting.paused,
        budget: setting.budget.map(|budget| Budget { cost: Cost(budget.cost_ps), per: budget.per }),
        cap: Kinds::from_fn(cap),
        ..Throttle::FREE
    }
}

fn kind_of(access: Access) -> Kind {
    match access {
        Access::DramRead => Kind::DramRead,
        Access::DramWrite => Kind::DramWrite,
        Access::SlowRead => Kind::SlowRead,
        Access::SlowWrite => Kind::SlowWrite,
    }
}
