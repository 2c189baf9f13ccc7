//! Sensor and actuator of DRAM and the divided tier's time, both together: what of each tenants hold and use, and the two levers.
//!
//! Shape:      counters since the last reading -> one row per tenant; joint shares -> targets in DRAM and budgets of brakes
//! Invariants: rows are those of tenants that hold something or have asked, in their order; a tenant has a target in DRAM only while a joint policy decides; `release` takes
//!             every target and every budget back, and no item goes for that
//! Units:      bytes charged in DRAM. Bandwidth is the tier's time, written as bytes of a tier that moves a gigabyte per second:
//!             a byte is a nanosecond, as for a tier that nobody has probed
//! Cost:       that of a reading of the tier's time
//! Failure:    a lease that nobody renews puts the last steady shares in force
//! Source:     Spirit §5 (monitor and enforcer). We differ: there DRAM is taken by reclaim, here the cleaner puts below what is
//!             beyond a target when it needs room; there the limit is one per second, here one per [`PERIOD`]
//! Non-goals:  how a tenant's misses depend on DRAM: whoever makes curves adds them to the rows

use crate::bandwidth::{BandwidthControl, setting, throttle};
use crate::store::Store;
use crate::tenant::Tenant;
use control::bandwidth::{BandwidthSignal, Budget, Cost, Throttle};
use control::joint::{Joint, JointSignal};
use control::{Actuator, Amount, Decision, Lease, Pool, Row, Sensor};
use media::brake::Setting;
use std::sync::Arc;
use units::{Bytes, BytesPerSec, Duration, Instant, TenantId};

/// The whole of a tier's time as bandwidth: a byte is a nanosecond.
const WHOLE: BytesPerSec = BytesPerSec(1_000_000_000);
/// Period of a tenant's budget: a tick of NyxCache (§3.6), so that nobody waits longer for what it is granted.
const PERIOD: Duration = Duration::from_millis(10);
/// Cost of a period per byte per second granted, in ps.
const COST_PS: u64 = 1_000 * PERIOD.0 / 1_000_000_000;
const _: () = assert!(COST_PS == 10);
/// What was used in a shorter time says nothing (guess: ten periods).
const WINDOW_MIN: Duration = Duration::from_millis(100);

/// DRAM is told anew when it has changed by more than one part in so many (guess): buffers of connections come and go all the time, and
/// a policy takes another pool for another game.
const POOL_ONE_IN: u64 = 64;

/// DRAM and the divided tier's time as a thing that a joint policy controls.
#[derive(Debug)]
pub struct JointControl {
    store: Arc<Store>,
    meter: BandwidthControl,
    metered: Vec<Row<BandwidthSignal, Throttle>>,
    read_at: Instant,
    /// DRAM as it was told last.
    memory: Bytes,
    /// Part of the tier's time that is divided, above 0 and at most 1.
    part: f64,
    /// Who is never held back, by id.
    exempt: Vec<TenantId>,
    /// Who was given shares last: id and generation.
    members: Vec<(TenantId, u32)>,
    lease: Lease<Joint>,
}

impl JointControl {
    /// Controls `store`, of which nothing was measured before `now`.
    #[must_use]
    pub fn new(store: Arc<Store>, now: Instant) -> Self {
        let mut new = Self {
            meter: BandwidthControl::new(Arc::clone(&store)),
            store,
            metered: Vec::new(),
            read_at: now,
            memory: Bytes::ZERO,
            part: 1.0,
            exempt: Vec::new(),
            members: Vec::new(),
            lease: Lease::default(),
        };
        new.begin(now);
        new
    }

    /// Measures from `now` on.
    pub fn begin(&mut self, now: Instant) {
        self.metered.clear();
        self.meter.read(now, &mut self.metered);
        self.read_at = now;
        self.lease = Lease::default();
    }

    /// Divides so much of the tier's time from the next reading on: a part above 0 and at most 1.
    pub fn set_part(&mut self, part: f64) {
        self.part = part.clamp(0.0, 1.0);
    }

    /// Says who is never held back, whatever its share; ids rise.
    pub fn set_exempt(&mut self, exempt: impl Iterator<Item = TenantId>) {
        self.exempt.clear();
        self.exempt.extend(exempt);
    }

    /// Whether tenants that have come or gone since shares were put in force would be given others.
    #[must_use]
    pub fn has_other_tenants(&self) -> bool {
        let present = self.store.tenants().filter(|tenant| self.takes_part(tenant));
        !present.map(|tenant| (tenant.id, tenant.generation())).eq(self.members.iter().copied())
    }

    /// Whether a tenant is given a share: from the first thing that it holds or asks for on, until it goes. Who is only there, as
    /// the default tenant always is, needs none.
    fn takes_part(&self, tenant: &Tenant) -> bool {
        let asks = || self.store.look_ups(tenant.id).is_some_and(|seen| 0 < seen.gets);
        let is_member = || self.members.binary_search(&(tenant.id, tenant.generation())).is_ok();
        !tenant.is_gone() && (Bytes::ZERO < tenant.held() || is_member() || asks())
    }

    /// Takes targets in DRAM and budgets back from everybody: memory is divided with what is below again, and nobody is held back.
    pub fn release(&mut self, now: Instant) {
        for tenant in self.store.tenants().filter(|tenant| !tenant.is_gone()) {
            tenant.set_dram_target(None);
            tenant.below.set_brake(Setting::FREE, now);
        }
        // Who waits for what a budget grants later need not.
        self.store.brakes.note(true);
        self.store.brakes.set_pauses_end(None);
        self.store.brakes.set_waited_for(false);
        self.lease = Lease::default();
        self.members.clear();
    }

    /// Puts the last steady shares in force if nobody has decided for as long as the last decision holds. Returns whether it did:
    /// for whoever watches over the loop.
    pub fn lapse(&mut self, now: Instant) -> bool {
        let Self { store, lease, exempt, .. } = self;
        let Some(steady) = lease.lapsed(now) else { return false };
        for (id, share) in steady {
            put(store, exempt, *id, *share, now);
        }
        true
    }

    /// DRAM that tenants' items may take, as of the last time that it changed by much.
    fn memory(&mut self) -> Bytes {
        let beside = self.store.external() + self.store.tables();
        let now = self.store.geometry().divisible.saturating_sub(beside);
        if self.memory.0 / POOL_ONE_IN < now.0.abs_diff(self.memory.0) {
            self.memory = now;
        }
        self.memory
    }

    /// What of a reservation of DRAM and tiers together is of DRAM.
    fn floor(&self, reserved: Bytes, memory: Bytes) -> Bytes {
        let all = memory + self.store.below;
        if all == Bytes::ZERO { Bytes::ZERO } else { reserved.scale(memory.0, all.0) }
    }
}

/// Puts a share in force; returns what is true then, none of a tenant that is gone.
fn put(store: &Store, exempt: &[TenantId], id: TenantId, share: Joint, now: Instant) -> Option<Joint> {
    let tenant = store.tenant(id);
    if tenant.is_gone() {
        return None;
    }
    tenant.set_dram_target(Some(share.bytes));
    if exempt.binary_search(&id).is_ok() {
        store.brakes.note(tenant.below.set_brake(Setting::FREE, now));
        return Some(share);
    }
    let budget = Budget { cost: Cost(share.bandwidth.0.saturating_mul(COST_PS)), per: PERIOD };
    let free_but_for_it = Throttle { budget: Some(budget), ..Throttle::FREE };
    store.brakes.note(tenant.below.set_brake(setting(&free_but_for_it), now));
    let held = throttle(&tenant.below.brake().setting()).budget;
    let bandwidth = held.map_or(WHOLE, |budget| BytesPerSec(budget.cost.0 / COST_PS));
    Some(Joint { bytes: share.bytes, bandwidth })
}

/// A tier's time used over a span, as bandwidth.
fn bandwidth(cost: Cost, span: Duration) -> BytesPerSec {
    let part = Amount { bandwidth: WHOLE, ..Amount::default() };
    part.part(cost.part_of(span)).bandwidth
}

impl Sensor for JointControl {
    type Signal = JointSignal;
    type Share = Joint;

    fn read(&mut self, now: Instant, rows: &mut Vec<Row<JointSignal, Joint>>) -> Pool {
        self.metered.clear();
        let pool = self.meter.read(now, &mut self.metered);
        let passed = now.since(self.read_at);
        self.read_at = now;
        let memory = self.memory();
        let mut metered = std::mem::take(&mut self.metered);
        for Row { id, mut claim, signal, .. } in metered.drain(..) {
            if !self.takes_part(self.store.tenant(id)) {
                continue;
            }
            claim.floor = Amount::memory(self.floor(claim.floor.bytes, memory));
            claim.ceiling = None;
            let signal = signal.filter(|_| WINDOW_MIN <= passed).map(|signal| JointSignal {
                held: self.store.tenant(id).held_here(),
                bandwidth: bandwidth(signal.cost, passed),
                operations: signal.operations,
                utility: None,
            });
            rows.push(Row { id, claim, signal, in_force: None });
        }
        self.metered = metered;
        let whole = Amount { bytes: Bytes(0), bandwidth: WHOLE, ..Amount::default() };
        Pool { capacity: Amount { bytes: memory, ..whole.part(self.part) }, ..pool }
    }
}

impl Actuator for JointControl {
    type Share = Joint;

    fn apply(
        &mut self,
        now: Instant,
        decision: &Decision<'_, Joint>,
        in_force: &mut Vec<(TenantId, Joint)>,
    ) -> bool {
        self.lease.renew(now, decision);
        in_force.clear();
        self.members.clear();
        let mut whole = true;
        for (id, asked) in decision.shares.rows() {
            let Some(held) = put(&self.store, &self.exempt, *id, *asked, now) else {
                whole = false;
                continue;
            };
            whole &= held == *asked;
            in_force.push((*id, held));
            self.members.push((*id, self.store.tenant(*id).generation()));
        }
        whole
    }
}
