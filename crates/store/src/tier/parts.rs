//! What each tenant keeps in a pass over a tier.
//!
//! Shape:      live records, ranked as in DRAM but by what they take here -> bytes by rank of each tenant -> what it keeps of
//!             them (`survivors`) -> a rank below which its records go
//! Cost:       2 KiB per tenant that is met

use crate::census::{BytesByBin, Cut, HitsByBin, by_worth, floor_of};
use crate::rank::{Clock, Densities, Usage, density};
use crate::sources::Sums;
use crate::store::Store;
use crate::survivors::{Candidate, Contender, compete, keep};
use crate::tenant::{Tenant, TenantSpec};
use control::memory::Worth;
use std::collections::HashMap;
use std::sync::Arc;
use units::TenantId;

/// The tenants of a pass.
#[derive(Default)]
pub(super) struct Parts(HashMap<TenantId, Part>);

/// A tenant's part of a pass.
pub(super) struct Part {
    tenant: TenantId,
    spec: Arc<TenantSpec>,
    densities: Option<Arc<Densities>>,
    level: f32,
    bytes_by_rank: Box<BytesByBin>,
    hits_by_rank: Box<HitsByBin>,
    inside: u64,
    cut: Cut,
    is_over: bool,
}

impl Parts {
    /// A tenant's, empty at first.
    pub(super) fn of(&mut self, store: &Store, tenant: TenantId) -> &mut Part {
        self.0.entry(tenant).or_insert_with(|| Part::new(store, tenant))
    }

    /// Bytes of records that belong to floors.
    pub(super) fn floors(&self, store: &Store) -> u64 {
        self.0.iter().map(|(id, part)| candidate(store.tenant(*id), part.inside).below_floor()).sum()
    }

    /// Divides so many bytes among the tenants; all stays where that suffices.
    pub(super) fn divide(&mut self, store: &Store, budget: u64) {
        let inside: u64 = self.0.values().map(|part| part.inside).sum();
        if inside <= budget {
            return;
        }
        let sums = Sums::of(store);
        let mut ids: Vec<TenantId> = self.0.keys().copied().collect();
        ids.sort_unstable();
        let candidates: Vec<Candidate> =
            ids.iter().map(|id| candidate(store.tenant(*id), self.0[id].inside)).collect();
        let mut kept = Vec::new();
        keep(budget, &candidates, &mut kept);
        // Who competes by worth does so here, too.
        let worth_of = |id: &TenantId| store.tenant(*id).worth();
        let competing = |id: &TenantId| worth_of(id).map(|worth| (worth, self.0[id].by_worth()));
        let competing: Vec<Option<(Worth, BytesByBin)>> = ids.iter().map(competing).collect();
        let pooled = ids.iter().zip(&competing).zip(&candidates).map(|((id, competing), candidate)| {
            let (part, (worth, by_worth)) = (&self.0[id], competing.as_ref()?);
            let (inside, below_floor) = (candidate.inside, candidate.below_floor());
            let group = part.spec.claim.group.filter(|_| worth.within_group);
            Some((group, Contender { by_worth, sampled: inside, inside, below_floor, more: worth.more }))
        });
        compete(&pooled.collect::<Vec<_>>(), &mut kept);
        for ((id, candidate), kept) in ids.iter().zip(&candidates).zip(kept) {
            if let Some(part) = self.0.get_mut(id) {
                let tenant = store.tenant(*id);
                // Who competes has no part but its floor.
                part.is_over = match tenant.worth() {
                    Some(_) => candidate.floor < tenant.held().0,
                    None => sums.is_over(tenant),
                };
                part.cut = Cut::keeping(kept, &part.bytes_by_rank);
            }
        }
    }

    /// Whether a record stays; uses what the tenant keeps up. Who was not met keeps all.
    pub(super) fn keeps(&mut self, tenant: TenantId, rank: u8, footprint: u64) -> bool {
        self.0.get_mut(&tenant).is_none_or(|part| part.cut.keeps(rank, footprint))
    }

    /// Where a tenant's ranks are cut, and what was used up of that.
    pub(super) fn cut(&self, tenant: TenantId) -> Cut {
        self.0.get(&tenant).map_or(Cut::NOTHING, |part| part.cut)
    }

    /// Whether what goes of a tenant is beyond its share.
    pub(super) fn is_over(&self, tenant: TenantId) -> bool {
        self.0.get(&tenant).is_none_or(|part| part.is_over)
    }
}

/// What a tenant has in the sources and elsewhere, and should have.
fn candidate(tenant: &Tenant, inside: u64) -> Candidate {
    let target = tenant.share().target.0;
    let elsewhere = tenant.held().0.saturating_sub(inside);
    Candidate { inside, elsewhere, target, floor: floor_of(tenant) }
}

impl Part {
    fn new(store: &Store, id: TenantId) -> Self {
        let tenant = store.tenant(id);
        let spec = tenant.spec();
        Self {
            tenant: id,
            densities: tenant.densities(&spec.rank),
            spec,
            level: f32::NAN,
            bytes_by_rank: Box::new([0; 256]),
            hits_by_rank: Box::new([0.0; 256]),
            inside: 0,
            cut: Cut::NOTHING,
            is_over: false,
        }
    }

    /// What its items' ages let expect, if its rank asks for it.
    pub(super) fn densities(&self) -> Option<&Densities> {
        self.densities.as_deref()
    }

    /// Ranks a record, and counts it as one that may stay.
    pub(super) fn rank(&mut self, store: &Store, usage: &Usage, clock: &Clock) -> u8 {
        let kind = &self.spec.rank;
        if self.level.is_nan() {
            self.level = store.tenant(self.tenant).level_of(kind, || kind.level_by(usage, clock));
        }
        let rank = kind.bin(usage, self.level, clock);
        let sum = &mut self.bytes_by_rank[usize::from(rank)];
        *sum = sum.saturating_add(usage.size);
        self.hits_by_rank[usize::from(rank)] += density(usage) * usage.size as f32;
        self.inside += u64::from(usage.size);
        rank
    }

    /// Its bytes by what they are worth, the scale on which tenants compete.
    fn by_worth(&self) -> BytesByBin {
        if self.spec.rank.is_absolute() {
            *self.bytes_by_rank
        } else {
            by_worth(&self.bytes_by_rank, &self.hits_by_rank, 0)
        }
    }
}
