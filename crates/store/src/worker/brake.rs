//! How a tenant's accesses to the tier whose time is divided are held back on this thread.
//!
//! Shape:      a request asks `held` before it is executed and waits where its connection can; each access is charged, and the
//!             brake says what comes before the next
//! Invariants: no lock is held while an access is charged; who is held back for more than a microsecond keeps no thread
//! Cost:       a free tenant pays a load and a comparison; one that is held back has a pad of some 200 B per thread
//! Source:     NyxCache §3.3 (delay and pause of accesses to the slow tier)

use super::{Key, Worker};
use crate::tenant::Tenant;
use crate::tier::record::GRAIN;
use crate::tier::{Placement, Tier};
use media::brake::{Hold, Pad};
use media::{Access, SlowAccess};
use std::cell::{Cell, RefCell};
use units::{Bytes, Instant, TenantId};

/// How long a tenant's next access to the tier has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Until then.
    Until(Instant),
    /// Until its brake changes: ask again now and then.
    Paused,
}

/// A thread's parts of brakes, by tenant; those that were never held back have none.
pub(super) type Pads = RefCell<Vec<Option<Box<Pad>>>>;

impl Worker {
    /// Takes the time of an access that a request makes; then the tenant's brake has its say. Called without locks.
    pub(super) fn take_time(&self, tier: &Tier, tenant: &Tenant, kind: SlowAccess, lines: u64) {
        tier.take_time(kind, lines);
        if !tenant.below.brake().is_free() && self.store.divides(tier) {
            let size = Bytes(lines * GRAIN);
            let access = (kind.into(), size, tier.cost_ps(kind, size));
            self.ask(tenant.id, |pad, now| tenant.below.brake().after(pad, access, now));
        }
    }

    /// How long what the tenant is about to do with a key has to wait; none if it need not, or does not come to the tier whose time is
    /// divided. What is owed for earlier accesses is waited for from now on, less the time until the request `arrived`.
    #[inline]
    #[must_use]
    pub fn held(
        &self,
        tenant: TenantId,
        key: &Key<'_>,
        kinds: &[SlowAccess],
        arrived: Instant,
    ) -> Option<Held> {
        let brake = &self.store.tenant(tenant).below.brake();
        if brake.is_free() || !kinds.iter().any(|kind| self.comes_there(tenant, key, *kind)) {
            return None;
        }
        let asked = |kind: &SlowAccess| (Access::from(*kind), arrived);
        kinds.iter().find_map(|kind| self.ask(tenant, |pad, now| brake.before(pad, asked(kind), now)))
    }

    fn comes_there(&self, tenant: TenantId, key: &Key<'_>, kind: SlowAccess) -> bool {
        match kind {
            SlowAccess::Read => self.reads_tier(key),
            SlowAccess::Write => self.writes_tier(tenant),
        }
    }

    /// Asks a brake, and spins for what is short.
    fn ask(
        &self,
        tenant: TenantId,
        ask: impl FnOnce(&mut Pad, &dyn Fn() -> Instant) -> Hold,
    ) -> Option<Held> {
        let mut pads = self.pads.borrow_mut();
        if pads.len() <= tenant.index() {
            pads.resize_with(tenant.index() + 1, || None);
        }
        let pad = pads[tenant.index()].get_or_insert_default();
        let asked_at = Cell::new(Instant::ZERO);
        let now = || {
            let now = self.store.brakes.now();
            asked_at.set(now);
            now
        };
        match ask(pad, &now) {
            Hold::None => None,
            Hold::Spin(until) => {
                self.store.brakes.spin(asked_at.get(), until);
                None
            }
            Hold::Until(until) => Some(Held::Until(until)),
            // A short pause is waited for as a delay is.
            Hold::Paused => Some(self.store.brakes.pause_ends().map_or(Held::Paused, Held::Until)),
        }
    }

    /// Whether reading a key's value comes to the tier whose time is divided.
    #[must_use]
    pub fn reads_tier(&self, key: &Key<'_>) -> bool {
        let found = self.store.index.find(key.hash, |slot| self.is_key(slot, key));
        let away = found.and_then(|found| self.store.log.view(&self.reader, found.slot.place()).away());
        away.is_some_and(|away| self.store.divides(self.store.tier(away)))
    }

    /// Whether values that are written for a tenant come to that tier.
    fn writes_tier(&self, tenant: TenantId) -> bool {
        match self.store.tenant(tenant).below.placement() {
            Placement::Tier(tier) => {
                self.store.tiers.get(usize::from(tier)).is_some_and(|tier| self.store.divides(tier))
            }
            Placement::Dram | Placement::Auto => false,
        }
    }
}
