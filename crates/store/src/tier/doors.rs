//! The store's side of its tiers: who has which place there, what is known of tenants in their notes.

use super::record::Fields;
use super::{GONE, NOBODY, Placement, Promotion, Reasons, Reference, Tier, TierTotals, TierUse};
use crate::item::Meta;
use crate::store::Store;
use crate::sync::{Ordering, lock};
use crate::tenant::{FLUSHED_FOR_EVER, Tenant};
use media::Device;
use units::TenantId;

impl Store {
    /// Says where a tenant's values go from now on; false for an unknown id or tier.
    pub fn set_placement(&self, id: TenantId, placement: Placement) -> bool {
        let exists = match placement {
            Placement::Dram => true,
            Placement::Auto => !self.tiers.is_empty(),
            Placement::Tier(tier) => usize::from(tier) < self.tiers.len(),
        };
        exists && self.change(id, |tenant| tenant.below.set_placement(placement))
    }

    /// Where a tenant's values go.
    #[must_use]
    pub fn placement(&self, id: TenantId) -> Placement {
        self.known(id).map_or(Placement::Dram, |tenant| tenant.below.placement())
    }

    /// Says when hits bring values back to DRAM.
    pub fn set_promotion(&self, promotion: Promotion) {
        let _adding = lock(&self.adding);
        self.promotion.store(promotion.code(), Ordering::Relaxed);
        self.tenants().for_each(|tenant| tenant.below.set_promotion(promotion));
    }

    /// What there is to say of how any tenant stands to tiers.
    pub(crate) fn reasons(&self) -> Reasons {
        Reasons { promotion: self.promotion(), timed: self.tiers.iter().any(Tier::is_timed) }
    }

    pub(crate) fn promotion(&self) -> Promotion {
        Promotion::of_code(self.promotion.load(Ordering::Relaxed))
    }

    /// The device of each tier, the fastest first.
    pub fn devices(&self) -> impl Iterator<Item = &dyn Device> {
        self.tiers.iter().map(|tier| &*tier.device)
    }

    /// What is in each tier, the fastest first.
    #[must_use]
    pub fn tier_use(&self) -> Vec<TierUse> {
        self.tiers.iter().map(Tier::in_use).collect()
    }

    /// What was counted of each tier, the fastest first.
    #[must_use]
    pub fn tier_totals(&self) -> Vec<TierTotals> {
        self.tiers.iter().map(|tier| tier.counters.totals()).collect()
    }

    /// The tier that a reference leads to.
    #[inline]
    pub(crate) fn tier(&self, away: Reference) -> &Tier {
        &self.tiers[usize::from(away.tier)]
    }

    /// The tier into which the cleaner may put a tenant's values.
    pub(crate) fn tier_below(&self, tenant: &Tenant) -> Option<&Tier> {
        match tenant.below.placement() {
            Placement::Auto => self.tiers.first(),
            // What found no room there is in DRAM for a while.
            Placement::Tier(tier) => self.tiers.get(usize::from(tier)),
            Placement::Dram => None,
        }
    }

    /// What a record says beside key and value.
    pub(crate) fn record_fields(&self, tier: &Tier, meta: &Meta, stamp: u64) -> Fields {
        Fields {
            owner: tier.owner(meta.tenant),
            own_space: meta.own_space,
            stamp,
            cas: meta.cas,
            client_flags: meta.client_flags,
            expires_wall: meta.expiry.map_or(0, |expiry| self.wall_of(expiry.at)),
            state: meta.state,
        }
    }

    /// The tenant of a name and kind of key space.
    pub(crate) fn tenant_named(&self, name: &str, own_space: bool) -> Option<TenantId> {
        let is_it = |tenant: &&Tenant| {
            let spec = tenant.spec();
            !tenant.is_gone() && spec.own_space == own_space && spec.name == name
        };
        self.tenants().find(is_it).map(|tenant| tenant.id)
    }

    /// Second of the wall clock of a second of the store's clock; never 0.
    pub(crate) fn wall_of(&self, secs: u32) -> u32 {
        u32::try_from(self.wall().saturating_add(u64::from(secs))).unwrap_or(u32::MAX).max(1)
    }

    /// Second of the store's clock of a second of the wall clock; 1, which is past, at the earliest.
    pub(crate) fn secs_of_wall(&self, wall: u32) -> u32 {
        u32::try_from(u64::from(wall).saturating_sub(self.wall())).unwrap_or(u32::MAX).max(1)
    }

    /// Begins a tier with nothing in it.
    pub(crate) fn begin_tier(&self, tier: &Tier) {
        tier.notes.format(self.wall());
        tier.notes.begin(self.wall(), self.run.load(Ordering::Relaxed));
        self.settle_notes(tier);
        tier.set_begun();
        self.tenants().filter(|tenant| !tenant.is_gone()).for_each(|tenant| self.enter_tier(tier, tenant));
    }

    /// Lets what the notes say of this start survive whatever the tier does, so that nobody takes those of the last end for it.
    /// Returns whether it does.
    pub(crate) fn settle_notes(&self, tier: &Tier) -> bool {
        let is_settled = !tier.notes.survives() || tier.device.settle_all().is_ok();
        if !is_settled {
            tier.note_unwritten(self.now_secs());
        }
        is_settled
    }

    /// Gives a tenant its rows in the notes. One adds at a time.
    pub(crate) fn enter_tiers(&self, tenant: &Tenant) {
        for tier in self.tiers.iter().filter(|tier| tier.is_begun()) {
            self.enter_tier(tier, tenant);
        }
    }

    pub(crate) fn enter_tier(&self, tier: &Tier, tenant: &Tenant) {
        let spec = tenant.spec();
        let owner = tier.notes.enter(&spec.name, spec.own_space, tenant.survivors_from());
        tier.set_owner(tenant.id, owner.unwrap_or(NOBODY));
    }

    /// Frees the rows of a tenant of which nothing is left.
    pub(crate) fn leave_tiers(&self, id: TenantId) {
        for tier in &self.tiers {
            let owner = tier.owner(id);
            tier.set_owner(id, NOBODY);
            if owner != NOBODY {
                tier.notes.leave(owner);
            }
        }
    }

    /// Notes that what a tenant had is dead, before that is acknowledged.
    pub(crate) fn flush_tiers(&self, tenant: &Tenant) {
        let below = match tenant.flushed_below.load(Ordering::Acquire) {
            FLUSHED_FOR_EVER => GONE,
            // Flushed once more, when nobody can have written for it since.
            _ if tenant.is_gone() => GONE,
            below => below,
        };
        self.each_row(tenant.id, |tier, owner| tier.notes.flush(owner, below));
    }

    /// Notes a flush that waits for a second of the store's clock; 0 for none.
    pub(crate) fn note_flush(&self, id: TenantId, at_secs: u32) {
        let wall = if at_secs == 0 { 0 } else { u64::from(self.wall_of(at_secs)) };
        self.each_row(id, |tier, owner| tier.notes.flush_later(owner, wall));
    }

    fn each_row(&self, id: TenantId, act: impl Fn(&Tier, super::Owner)) {
        for tier in &self.tiers {
            let owner = tier.owner(id);
            if owner != NOBODY {
                act(tier, owner);
            }
        }
    }
}

/// When an item expires by the store's clock, 0 for never.
pub(crate) fn expiry_of_wall(store: &Store, wall: u32) -> u32 {
    if wall == 0 { 0 } else { store.secs_of_wall(wall) }
}
