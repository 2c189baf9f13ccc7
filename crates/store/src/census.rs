//! What a cleaning pass knows of the tenants in its sources: how many bytes of which rank, and from which rank on they stay.
//!
//! Shape:      sources -> a sample of their items, ranked -> bytes by rank and tenant; what each tenant keeps of them
//!             (`survivors`) -> a threshold per tenant -> whether an item stays
//! Invariants: bins of one pass are made with one level per tenant; a tenant that the sample does not know keeps everything;
//!             tenants compete by what their items are worth (`census/worth.rs`), whatever they rank by
//! Units:      bytes charged. An item is in the sample by its bytes, one for each `step` of them, so that large items are
//!             all there, however few, and small ones as often as they weigh
//! Cost:       one walk over the sources; a look-up and a rank for each sample
//! Source:     Memshare §3.2 ranks all of a pass; systematic sampling by size is Madow 1949

mod cut;
mod division;
mod seen;
mod worth;

use crate::epoch::Participant;
use crate::hash::KeyHash;
use crate::index::Found;
use crate::item::{INDEX_SHARE, View};
use crate::large::Drawn;
use crate::limits::{AGE_MAX, CENSUS_SLACK_PART};
use crate::rank::{Clock, Densities, Usage, all_uses, density};
use crate::slot::{Place, Slot};
use crate::store::Store;
use crate::survivors::Candidate;
use crate::tenant::Tenant;
use crate::tier::charge_below;
pub(crate) use cut::Cut;
use seen::{Seen, seen_in};
use units::{SegmentId, TenantId};
pub(crate) use worth::by_worth;

/// Items looked up together, so that their index lines load in parallel.
pub(crate) const BATCH: usize = 32;

/// Bytes charged by rank. Limits hold what a survey or a pass looks at below 4 GiB.
pub(crate) type BytesByBin = [u32; 256];

/// Hits per tick that bytes let expect, by rank.
pub(crate) type HitsByBin = [f32; 256];

/// Which half by rank of what its tenant keeps an item is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    /// What goes first.
    Lower = 0,
    /// What goes last.
    Upper = 1,
}

impl Half {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::Upper => Self::Lower,
        }
    }
}

/// What becomes of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is copied, beside what ranks about like it.
    Stays(Half),
    /// It is evicted.
    Goes,
}

/// An item of a source until its slot is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<'a> {
    pub(crate) place: Place,
    pub(crate) hash: KeyHash,
    pub(crate) view: View<'a>,
}

impl<'a> Pending<'a> {
    /// Hashes an item's key and starts loading its index lines.
    #[inline]
    pub(crate) fn new(store: &Store, place: Place, view: View<'a>) -> Self {
        let hash = store.hash_of(&view);
        store.index.prefetch(hash);
        store.index.prefetch_locks(hash);
        Self { place, hash, view }
    }

    /// The slot that points at it, if one does.
    #[inline]
    pub(crate) fn find(&self, store: &Store) -> Option<Found> {
        store.index.find(self.hash, |slot| slot.place() == self.place)
    }

    /// Whether it has expired or was flushed.
    #[inline]
    pub(crate) fn is_dead(&self, store: &Store) -> bool {
        store.is_expired(&self.view) || store.is_flushed(self.place, &self.view)
    }

    /// Bytes of DRAM that its tenant is charged for what moves with it.
    #[inline]
    pub(crate) fn charge(&self) -> u64 {
        self.view.len() as u64 + INDEX_SHARE
    }
}

/// Bytes of the log that one sample stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step(usize);

impl Step {
    /// Every item is a sample.
    pub(crate) const ALL: Self = Self(0);

    /// So many samples of so many bytes.
    pub(crate) fn of(bytes: usize, samples: usize) -> Self {
        Self(bytes / samples.max(1))
    }

    fn is_all(self) -> bool {
        self.0 == 0
    }
}

/// The census; keeps its buffers from pass to pass.
#[derive(Debug, Default)]
pub(crate) struct Census {
    clock: Clock,
    seen: Vec<Option<Seen>>,
    /// Bytes by bin of each tenant seen in this pass. Given back after it: a KiB for each of many tenants in each of many
    /// threads is more than their items take in small memories.
    rows: Vec<BytesByBin>,
    /// Hits per tick by bin, of those who need it.
    hits: Vec<HitsByBin>,
    order: Vec<usize>,
    candidates: Vec<Candidate>,
    kept: Vec<u64>,
    /// Items alive that the samples stand for.
    alive: f64,
    /// Their bytes of log, and the same times the length of the item that each belongs to.
    bytes: f64,
    bytes_by_len: f64,
    /// Bytes of the pages of values that were drawn: they need no room.
    apart: u64,
    step: usize,
    /// Values that go can go to a tier.
    demotes: bool,
    /// Bytes walked since the last sample, carried on so that no place in a segment is preferred.
    since_sample: usize,
}

impl Census {
    /// Forgets what earlier passes saw.
    pub(crate) fn begin(&mut self, store: &Store) {
        store.take_time(&mut self.clock);
        self.seen.fill_with(|| None);
        self.rows.clear();
        self.hits.clear();
        (self.alive, self.bytes, self.bytes_by_len) = (0.0, 0.0, 0.0);
        self.apart = 0;
        self.demotes = true;
    }

    /// Walks the sources and ranks a sample of what is alive, of one tenant if only that is asked.
    pub(crate) fn take(
        &mut self,
        store: &Store,
        reader: &Participant,
        sources: &[SegmentId],
        step: Step,
        only: Option<TenantId>,
    ) {
        self.begin(store);
        self.step = step.0;
        // Who looks at one tenant wants it to hold less.
        self.demotes = only.is_none();
        let mut batch = Vec::with_capacity(BATCH);
        let mut walked = 0;
        for id in sources {
            store.log.walk(reader, *id, |place, view| {
                walked += 1;
                store.let_others_run(walked);
                let len = view.len();
                if len < step.0 {
                    self.since_sample += len;
                    if self.since_sample < step.0 {
                        return;
                    }
                    self.since_sample -= step.0;
                }
                if only.is_none_or(|tenant| tenant == view.tenant()) {
                    batch.push(Pending::new(store, place, view));
                    if batch.len() == BATCH {
                        self.count_all(store, &mut batch);
                    }
                }
            });
        }
        self.count_all(store, &mut batch);
    }

    fn count_all(&mut self, store: &Store, batch: &mut Vec<Pending<'_>>) {
        for item in batch.drain(..) {
            let Some(found) = item.find(store).filter(|_| !item.is_dead(store)) else { continue };
            // The sample stands for a step of the log's bytes, and for the index's share of them.
            let (len, charge) = (item.view.len(), item.charge());
            let stands_for = if len < self.step { charge * self.step as u64 / len as u64 } else { charge };
            let bytes = len.max(self.step) as f64;
            self.alive += bytes / len as f64;
            self.bytes += bytes;
            self.bytes_by_len += bytes * len as f64;
            self.count(store, &item, found, stands_for);
        }
    }

    /// Counts values that were drawn, by their pages.
    pub(crate) fn add(&mut self, store: &Store, drawn: &[Drawn<'_>]) {
        for Drawn { found, item, bytes } in drawn.iter().filter(|drawn| !drawn.item.is_dead(store)) {
            self.count(store, item, *found, *bytes);
            self.apart += bytes;
        }
    }

    /// Counts so many bytes at the rank of an item. Returns that, and how many of the bytes stay whatever becomes of its value.
    pub(crate) fn count(
        &mut self,
        store: &Store,
        item: &Pending<'_>,
        found: Found,
        stands_for: u64,
    ) -> (u8, Option<u64>) {
        let tenant = item.view.tenant();
        let seen = seen_in(&mut self.seen, (&mut self.rows, &mut self.hits), store, tenant);
        let usage = usage_of(store, item, found, seen.densities.as_deref());
        if seen.level.is_nan() {
            let kind = &seen.spec.rank;
            seen.level = store.tenant(tenant).level_of(kind, || kind.level_by(&usage, &self.clock));
        }
        let rank = seen.spec.rank.bin(&usage, seen.level, &self.clock);
        seen.expected += f64::from(density(&usage)) * stands_for as f64;
        let below = if self.demotes { charge_below(store, item) } else { 0 };
        let mut stays = stands_for;
        if let Some(part) = seen.below.as_mut().filter(|_| below != 0) {
            // What leads to a tier stays, whatever its rank.
            stays = stands_for * below / item.charge().max(1);
            add(&mut self.rows[part.row], rank, stands_for - stays);
            if let Some(row) = part.hits {
                self.hits[row][usize::from(rank)] += density(&usage) * (stands_for - stays) as f32;
            }
            part.inside += stands_for - stays;
            part.sampled += stands_for - stays;
        }
        if below != 0 {
            add(&mut self.rows[seen.row], u8::MAX, stays);
            seen.pinned = seen.pinned.saturating_add(u32::try_from(stays).unwrap_or(u32::MAX));
        } else {
            add(&mut self.rows[seen.row], rank, stays);
            if let Some(row) = seen.hits {
                self.hits[row][usize::from(rank)] += density(&usage) * stays as f32;
            }
        }
        seen.inside += stays;
        seen.sampled += stays;
        (rank, (below != 0).then_some(stays))
    }

    /// Gives the memory of what was noted of tenants back.
    pub(crate) fn give_back(&mut self) {
        self.rows = Vec::new();
        self.hits = Vec::new();
    }

    /// Bytes charged of everything alive in the sources.
    pub(crate) fn inside(&self) -> u64 {
        self.seen.iter().flatten().map(|s| s.inside).sum::<u64>() + self.inside_below()
    }

    /// What of that can go to a tier.
    fn inside_below(&self) -> u64 {
        self.seen.iter().flatten().filter_map(|s| s.below.as_ref()).map(|below| below.inside).sum()
    }

    /// Bytes charged that fit into `room` bytes of so many segments: the index share is charged but not copied, and each
    /// segment loses about half of the item that does not fit at its end, which is a long one more often than there are long
    /// ones. A sample may be off by a little.
    pub(crate) fn budget(&self, room: u64, segments: usize) -> u64 {
        let inside = (self.inside() - self.apart).max(1);
        let shares = self.alive * INDEX_SHARE as f64;
        let copied = (inside as f64 - shares).max(1.0);
        let ends = segments as f64 * (self.bytes_by_len / self.bytes.max(1.0)) / 2.0;
        let fits = (room as f64 - ends).max(0.0) * inside as f64 / copied;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; saturates"
        )]
        let fits = fits as u64;
        let fits = if Step(self.step).is_all() { fits } else { fits - fits / CENSUS_SLACK_PART };
        fits + self.apart
    }

    /// What becomes of an item that is alive.
    pub(crate) fn fate(&mut self, store: &Store, item: &Pending<'_>, found: Found) -> Fate {
        // An item whose value lies apart goes when it is drawn, and moves when it is met.
        if item.view.apart().is_some() {
            Fate::Stays(Half::Upper)
        } else {
            self.fate_of(store, item, found, item.charge())
        }
    }

    /// The same of so many bytes.
    pub(crate) fn fate_of(&mut self, store: &Store, item: &Pending<'_>, found: Found, bytes: u64) -> Fate {
        let tenant = item.view.tenant();
        let Some(Some(seen)) = self.seen.get_mut(tenant.index()) else { return Fate::Stays(Half::Lower) };
        let usage = usage_of(store, item, found, seen.densities.as_deref());
        let rank = seen.spec.rank.bin(&usage, seen.level, &self.clock);
        let below = if self.demotes { charge_below(store, item) } else { 0 };
        if let Some(part) = seen.below.as_mut().filter(|_| below != 0) {
            let stays = part.cut.keeps(rank, bytes.saturating_sub(below));
            return if stays { Fate::Stays(Half::Lower) } else { Fate::Goes };
        }
        let stays = seen.cut.keeps(rank, bytes);
        let half = if rank < seen.median { Half::Lower } else { Half::Upper };
        // The sample says about how much there is; what a tenant holds is known.
        if stays || self.holds_least(store, tenant) { Fate::Stays(half) } else { Fate::Goes }
    }

    /// Of so many bytes of a tenant at a rank, those that stay; `least` of them do if the rest can go to a tier.
    pub(crate) fn stays_of(&self, tenant: TenantId, (rank, least): (u8, Option<u64>), bytes: u64) -> u64 {
        let Some(seen) = self.seen_of(tenant) else { return bytes };
        let cut = least.and(seen.below.as_ref()).map_or(seen.cut, |below| below.cut);
        let least = least.unwrap_or(0);
        least + cut.kept_of(rank, bytes.saturating_sub(least))
    }

    /// Whether a tenant holds no more than this pass leaves it.
    fn holds_least(&self, store: &Store, tenant: TenantId) -> bool {
        let least = self.seen_of(tenant).map_or(0, |seen| seen.least);
        0 < least && store.tenant(tenant).held().0 <= least
    }

    /// Whether all that a tenant of this pass holds is within its floor.
    pub(crate) fn is_within_floor(&self, store: &Store, tenant: TenantId) -> bool {
        let floor = self.seen_of(tenant).map_or_else(|| floor_of(store.tenant(tenant)), |seen| seen.floor);
        0 < floor && store.tenant(tenant).held().0 <= floor
    }

    /// Whether a tenant held more than its part when the pass began.
    pub(crate) fn is_over(&self, tenant: TenantId) -> bool {
        self.seen_of(tenant).is_none_or(|seen| seen.is_over)
    }

    fn seen_of(&self, tenant: TenantId) -> Option<&Seen> {
        self.seen.get(tenant.index()).and_then(Option::as_ref)
    }
}

/// Adds bytes of a rank.
fn add(row: &mut BytesByBin, rank: u8, bytes: u64) {
    let sum = &mut row[usize::from(rank)];
    *sum = sum.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
}

/// What no pass takes from a tenant. A policy may give less than the floor: the idle tax, or floors beyond the memory.
pub(crate) fn floor_of(tenant: &Tenant) -> u64 {
    tenant.floor().min(tenant.share().target).0
}

/// What is still remembered of an item's key (`Meta::remembered`). Where it has not been used for so long that its own uses fade
/// (`sweep`), no more than is left of those.
#[inline]
pub(crate) fn remembered_of(store: &Store, slot: Slot, view: &View<'_>) -> u8 {
    let has_faded = AGE_MAX <= store.tick().wrapping_sub(slot.tick());
    if has_faded { view.remembered().min(slot.uses()) } else { view.remembered() }
}

/// What is known of an item for its rank.
#[inline]
pub(crate) fn usage_of(
    store: &Store,
    item: &Pending<'_>,
    found: Found,
    densities: Option<&Densities>,
) -> Usage {
    let tenant = store.tenant(item.view.tenant());
    // The clock is read after the slot: an item used since it last moved must not seem to be ahead of it.
    let (age, uses) = (store.tick().wrapping_sub(found.slot.tick()), found.slot.uses());
    Usage {
        age,
        uses: all_uses(remembered_of(store, found.slot, &item.view), uses),
        size: u32::try_from(item.view.sizes().here()).unwrap_or(u32::MAX),
        level: tenant.level_at(found.slot.tick()),
        stamp: store.stamp_of(item.place, &item.view),
        expires_at: item.view.expires_at(),
        hits_per_tick: densities.map_or(0.0, |densities| densities.of_key(item.hash, uses, age)),
    }
}
