//! Which segments a cleaning pass takes.
//!
//! Shape:      sealed segments: random ones for a survey; or scored by their rows in the table, half of a pass the best, half
//!             random; the best of all where nothing may go
//! Invariants: a chosen segment is `Cleaning`, and so this thread's
//! Cost:       one look at the table row of at most `PASS_CANDIDATES_MAX` segments, of every one where nothing may go
//! Source:     the halves are Memshare §5.3. We differ: a segment is scored by dead bytes and by what its tenants hold beyond
//!             their shares, instead of by one tenant's need

use crate::limits;
use crate::segment::State;
use crate::store::Store;
use crate::sync::Ordering;
use crate::tenant::Tenant;
use units::{Rng, SegmentId};

/// Chooses sources; keeps its buffers from pass to pass.
#[derive(Debug)]
pub(crate) struct Chooser {
    rng: Rng,
    scored: Vec<(u64, SegmentId)>,
}

impl Chooser {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, scored: Vec::new() }
    }

    /// Claims up to `width` segments: half by what cleaning them frees, as `weigh` sees it, half at random.
    pub(crate) fn choose(
        &mut self,
        store: &Store,
        width: usize,
        weigh: impl Fn(u64, SegmentId) -> u64,
        sources: &mut Vec<SegmentId>,
    ) {
        let over = overshare(store);
        self.scored.clear();
        self.scored.extend(sealed(store).map(|id| (0, id)));
        let candidates = self.scored.len().min(limits::PASS_CANDIDATES_MAX);
        // All are shuffled, so that of many equal ones not always the same are taken.
        self.shuffle(0..candidates);
        self.scored.truncate(candidates);
        for (score, id) in &mut self.scored {
            *score = weigh(expected_gain(store, *id, &over), *id);
        }
        self.scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        // A pass leaves segments for others that run at the same time.
        let width = width.min(candidates.div_ceil(2)).max(2).min(candidates);
        self.shuffle(width.div_ceil(2)..width);
        self.scored.truncate(width);
        claim(store, self.scored.iter().map(|(_, id)| *id), sources);
    }

    /// The sealed segments of which most is dead, at most so many, the most dead first, with how much that is; `guess` says how much more
    /// may be dead in one than its row tells. Returns, too, whether others empty some.
    pub(crate) fn most_dead(
        &mut self,
        store: &Store,
        most: usize,
        guess: impl Fn(&mut Rng, SegmentId) -> u64,
    ) -> (&[(u64, SegmentId)], bool) {
        self.scored.clear();
        let mut others_clean = false;
        for id in store.log.ids() {
            match store.log.segment(id).state() {
                State::Sealed => {
                    let dead = expected_gain(store, id, &[]) + guess(&mut self.rng, id);
                    self.scored.push((dead, id));
                }
                State::Cleaning => others_clean = true,
                State::Free | State::Head | State::Retired => {}
            }
        }
        let best_first = |(dead, _): &(u64, SegmentId)| std::cmp::Reverse(*dead);
        if most < self.scored.len() {
            self.scored.select_nth_unstable_by_key(most, best_first);
            self.scored.truncate(most);
        }
        self.scored.sort_unstable_by_key(best_first);
        (&self.scored, others_clean)
    }

    /// Random sealed segments, as many as a survey looks at.
    pub(crate) fn candidates(&mut self, store: &Store) -> Vec<SegmentId> {
        self.scored.clear();
        self.scored.extend(sealed(store).map(|id| (0, id)));
        let candidates = self.scored.len().min(limits::SURVEY_SEGMENTS);
        self.shuffle(0..candidates);
        self.scored[..candidates].iter().map(|(_, id)| *id).collect()
    }

    /// The generator of a pass.
    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Puts random ones of what follows at these places.
    fn shuffle(&mut self, places: std::ops::Range<usize>) {
        for i in places {
            let j = i + self.rng.index(self.scored.len() - i);
            self.scored.swap(i, j);
        }
    }
}

/// Claims segments of which so many of a hundred bytes are dead.
pub(crate) fn claim_dead(store: &Store, percent: u64, sources: &mut Vec<SegmentId>) {
    let enough = store.log.segment_bytes() as u64 * percent / 100;
    let dead = sealed(store).filter(|id| enough <= expected_gain(store, *id, &[]));
    claim(store, dead.take(limits::PASS_WIDTH), sources);
}

fn sealed(store: &Store) -> impl Iterator<Item = SegmentId> {
    store.log.ids().filter(|id| store.log.segment(*id).state() == State::Sealed)
}

fn claim(store: &Store, ids: impl Iterator<Item = SegmentId>, sources: &mut Vec<SegmentId>) {
    sources.clear();
    sources.extend(ids.filter(|id| store.log.segment(*id).change(State::Sealed, State::Cleaning)));
}

/// What all tenants hold, and all targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    held: u128,
    target: u128,
}

impl Sums {
    /// Of a store now.
    pub(crate) fn of(store: &Store) -> Self {
        store.tenants().fold(Self { held: 1, target: 1 }, |sums, t| Self {
            held: sums.held + u128::from(t.held().0),
            target: sums.target + u128::from(t.share().target.0),
        })
    }

    /// A tenant's part of all that is held, by its target.
    fn part(self, tenant: &Tenant) -> u128 {
        u128::from(tenant.share().target.0) * self.held / self.target
    }

    /// Whether a tenant holds more than its part.
    pub(crate) fn is_over(self, tenant: &Tenant) -> bool {
        self.part(tenant) < u128::from(tenant.held().0)
    }
}

/// Part of each tenant's bytes, in 1/256, that it holds beyond its share, all needs normalised.
fn overshare(store: &Store) -> Vec<u64> {
    let sums = Sums::of(store);
    store
        .tenants()
        .map(|t| {
            let held = u128::from(t.held().0).max(1);
            u64::try_from(held.saturating_sub(sums.part(t)) * 256 / held).unwrap_or(0)
        })
        .collect()
}

/// Bytes that cleaning a segment is expected to free: what is dead, and of what the index still points at, what has
/// expired, was flushed, or its tenants hold beyond their shares. The latter two are known as written: of that as large a part counts
/// as is still there of all.
pub(crate) fn expected_gain(store: &Store, id: SegmentId, over: &[u64]) -> u64 {
    let segment = store.log.segment(id);
    let live = u64::from(segment.live());
    let goes = |(tenant, bytes): (units::TenantId, u32)| {
        let flushed_below = store.tenant(tenant).flushed_below.load(Ordering::Relaxed);
        let flushed = segment.last_stamp() < flushed_below;
        let part = if flushed { 256 } else { over.get(tenant.index()).copied().unwrap_or(0) };
        u64::from(bytes) * part / 256
    };
    let written = segment.tenants().map(goes).sum::<u64>();
    let of_tenants = written * live / u64::from(segment.appended().max(1));
    let going = u64::from(segment.expired(store.now_secs())) + of_tenants;
    (store.log.segment_bytes() as u64).saturating_sub(live) + going.min(live)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::{Fields, Mode, Options, RankKind, Space, TenantSpec, Worker};
    use control::Claim;
    use std::sync::Arc;
    use units::{Bytes, TenantId};

    const ITEMS: u32 = 2_000;

    /// A store of two tenants, who have written in turn: the first what expires after a minute, the second what does not.
    fn store_of_two() -> (Arc<Store>, Worker) {
        let (memory, item_max) = (Bytes::mib(16), Bytes::kib(8));
        let options = Options { memory, item_max, threads: 1, tenants_max: 2, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        for name in ["sessions", "pages"] {
            let (name, claim, rank) = (name.to_owned(), Claim::default(), RankKind::default());
            store.add_tenant(TenantSpec { name, own_space: true, claim, rank }).unwrap();
        }
        let worker = store.worker().unwrap();
        for n in 0..ITEMS {
            set(&worker, 0, n, store.now_secs() + 60);
            set(&worker, 1, n, 0);
        }
        (store, worker)
    }

    fn set(worker: &Worker, tenant: u32, n: u32, expires_at: u32) {
        let text = format!("{n:08}");
        let key = worker.key(Space::Own(TenantId(tenant)), text.as_bytes()).unwrap();
        let fields = Fields { expires_at, ..Fields::default() };
        worker.set(TenantId(tenant), &key, Mode::Set, fields, &[1; 1_000]).unwrap();
    }

    /// Sums over some segments: what cleaning them is expected to free, and what the index points at.
    fn sums(store: &Store, segments: &[SegmentId]) -> (u64, u64) {
        let gains = segments.iter().map(|id| expected_gain(store, *id, &[]));
        (gains.sum(), segments.iter().map(|id| u64::from(store.log.segment(*id).live())).sum())
    }

    #[test]
    fn what_was_written_over_has_not_expired_as_well() {
        let (store, worker) = store_of_two();
        let before: Vec<SegmentId> = sealed(&store).collect();
        let all = before.len() as u64 * store.log.segment_bytes() as u64;
        let (_, written) = sums(&store, &before);
        assert!(2 < before.len());
        // Every second one is written over; the others have expired when their segments are old enough to tell.
        (0..ITEMS).step_by(2).for_each(|n| set(&worker, 0, n, store.now_secs() + 60));
        store.set_now(store.now_secs() + 64);
        let (gain, live) = sums(&store, &before);
        assert!(gain.abs_diff(all - written / 2) < written / 100, "{gain} of {all}, {live} are linked");
        (1..ITEMS).step_by(2).for_each(|n| set(&worker, 0, n, store.now_secs() + 60));
        let (gain, live) = sums(&store, &before);
        assert_eq!(gain, all - live, "nothing is left that could expire");
        assert!(live.abs_diff(written / 2) < written / 100);
    }

    #[test]
    fn what_was_written_over_is_not_flushed_as_well() {
        let (store, worker) = store_of_two();
        let before: Vec<SegmentId> = sealed(&store).collect();
        let all = before.len() as u64 * store.log.segment_bytes() as u64;
        store.flush(TenantId(1), 0);
        assert!(sums(&store, &before).0.abs_diff(all / 2) < all / 20, "half is flushed, nothing is gone");
        (0..ITEMS).for_each(|n| set(&worker, 1, n, 0));
        let (gain, live) = sums(&store, &before);
        assert!(gain <= all - live / 3, "{gain} of {all}, and {live} are there: that is not all dead");
    }
}
