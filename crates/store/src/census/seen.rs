//! One tenant in a pass: what is known of what it has there, and where its ranks are cut.
//!
//! Shape:      a tenant -> its rows among the pass's, of bytes and, where it has to be compared by worth, of hits
//! Invariants: claim, rank and densities are those of the moment when the pass first met the tenant
//! Units:      bytes charged
//! Cost:       1 KiB per row: one, two with hits; twice that where values can go to a tier

use super::cut::Cut;
use super::division::Pooled;
use super::{BytesByBin, HitsByBin};
use crate::rank::{BIN_MIN, Densities};
use crate::store::Store;
use crate::tenant::TenantSpec;
use std::sync::Arc;
use units::TenantId;

/// One tenant in a pass.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its claim and its rank, as they are when the pass begins.
    pub(super) spec: Arc<TenantSpec>,
    /// What its rank has learnt, if it learns.
    pub(super) densities: Option<Arc<Densities>>,
    /// It holds more than its part: its share of all that is held.
    pub(super) is_over: bool,
    /// What no pass takes from it.
    pub(super) floor: u64,
    /// What this pass leaves it: its floor, or what it has when all are level.
    pub(super) least: u64,
    /// It competes by worth.
    pub(super) pool: Option<Pooled>,
    /// Which of the pass's rows has its bytes by bin.
    pub(super) row: usize,
    /// Which row has the hits that its bytes let expect by bin, if it competes and its rank says something else than that.
    pub(super) hits: Option<usize>,
    /// Bytes in the last bin of what leads to a tier and stays, whatever it is worth.
    pub(super) pinned: u32,
    /// Bytes in the sources.
    pub(super) inside: u64,
    /// Bytes that it will have written when what is decided has been done.
    pub(super) coming: u64,
    /// What the samples in its row stand for: as many, or about as many.
    pub(super) sampled: u64,
    /// Hits per tick that the ranks of all samples let expect.
    pub(super) expected: f64,
    /// The rank's level in this pass; not a number before its first item.
    pub(super) level: f32,
    pub(super) cut: Cut,
    /// The rank that halves what stays.
    pub(super) median: u8,
    /// What of its items can go to a tier, if something can.
    pub(super) below: Option<Below>,
}

/// What of a tenant's items in a pass can go to a tier: values, but not what leads there.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) row: usize,
    /// Which row has the hits that these let expect, as that of all that stays.
    pub(super) hits: Option<usize>,
    /// Which row has them by what they are worth, if the tenant competes.
    pub(super) by_worth: Option<usize>,
    pub(super) inside: u64,
    pub(super) sampled: u64,
    pub(super) cut: Cut,
}

/// A tenant in this pass.
pub(super) fn seen_in<'a>(
    all: &'a mut Vec<Option<Seen>>,
    (rows, hits): (&mut Vec<BytesByBin>, &mut Vec<HitsByBin>),
    store: &Store,
    tenant: TenantId,
) -> &'a mut Seen {
    if all.len() <= tenant.index() {
        all.resize_with(store.tenant_count().max(tenant.index() + 1), || None);
    }
    all[tenant.index()].get_or_insert_with(|| {
        let mut new_row = || {
            rows.push([0; 256]);
            rows.len() - 1
        };
        let tenant = store.tenant(tenant);
        let spec = tenant.spec();
        let row = new_row();
        let is_incomparable = tenant.worth().is_some() && !spec.rank.is_absolute();
        let mut new_hits = || {
            is_incomparable.then(|| {
                hits.push([0.0; 256]);
                hits.len() - 1
            })
        };
        let hits = new_hits();
        let below = store.tier_below(tenant).map(|_| Below {
            row: new_row(),
            hits: new_hits(),
            by_worth: None,
            inside: 0,
            sampled: 0,
            cut: Cut::NOTHING,
        });
        Seen {
            densities: tenant.densities(&spec.rank),
            spec,
            is_over: true,
            floor: 0,
            least: 0,
            pool: None,
            row,
            hits,
            pinned: 0,
            below,
            inside: 0,
            coming: 0,
            sampled: 0,
            expected: 0.0,
            level: f32::NAN,
            cut: Cut::NOTHING,
            median: BIN_MIN,
        }
    })
}
