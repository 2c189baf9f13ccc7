//! Miss ratio curves of the tenants that ask most, live: sampled accesses in, "what if it had more" out. Whoever comes is
//! watched at once as long as the memory suffices; now and then those who ask most are chosen.
//!
//! Shape:      the store's sampled accesses -> one estimator per watched tenant -> a curve through the present
//! Invariants: estimators, rings and books take at most the store's budget for curves; a tenant beyond what the memory
//!             suffices for has no curve; more than a quota of samples a second halves the rates of whoever sends most
//! Units:      bytes charged, as the store charges them
//! Cost:       a sample about half a microsecond of the control thread; a second's turn reads every tenant's counters
//! Non-goals:  deciding anything; of the policies only those over memory and bandwidth together read these curves

mod view;
mod watched;

pub use view::{CurveView, NoCurve};
pub use watched::LOOK_UPS_MIN;

use control::Curve;
use policy::estimate::{SAMPLES_MAX, Shards};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Placement, RING_BYTES, Store};
use units::{Bytes, Duration, Instant, TenantId};
use watched::Watched;

/// Samples of a curve at least: fewer err by more than .02 on most of the single streams (128: by .003 to .06).
const SAMPLES_MIN: usize = 256;
/// Samples a second that are taken for all tenants together: 1 % of a core at half a microsecond each.
const QUOTA_PER_SEC: u64 = 20_000;
/// Seconds between two looks at who is watched.
const REVIEW_SECS: u64 = 10;
/// Weight of the newest second in the mean of look-ups per second.
const NEWEST: f64 = 0.1;

/// The curves.
#[derive(Debug)]
pub(crate) struct Curves {
    store: Arc<Store>,
    /// Threads with a ring.
    threads: usize,
    books: Vec<Book>,
    watched: BTreeMap<TenantId, Box<Watched>>,
    /// Samples of each.
    samples_max: usize,
    half_life_secs: u64,
    second: u64,
    /// Samples in this second.
    taken: u64,
    lost: u64,
}

/// What every tenant had counted a second ago, and how much it asks.
#[derive(Clone, Copy, Debug, Default)]
struct Book {
    gets: u64,
    hits: u64,
    gets_per_sec: f64,
}

impl Curves {
    /// Curves of the tenants of a store on which so many threads work, read once in an epoch.
    pub(crate) fn new(store: Arc<Store>, threads: usize, epoch: Duration) -> Self {
        Self {
            store,
            threads,
            half_life_secs: half_life_secs(epoch),
            books: Vec::new(),
            watched: BTreeMap::new(),
            samples_max: SAMPLES_MAX,
            second: 0,
            taken: 0,
            lost: 0,
        }
    }

    /// Curves are read once in such an epoch from now on.
    pub(crate) fn set_epoch(&mut self, epoch: Duration) {
        self.half_life_secs = half_life_secs(epoch);
    }

    /// Takes what was sampled; once a second, counts; now and then, chooses whom to watch.
    pub(crate) fn run(&mut self, now: Instant) {
        self.drain();
        let second = now.whole_secs();
        if self.second < second || self.books.len() < self.store.tenant_count() {
            let seconds = second.saturating_sub(self.second);
            self.second = second;
            let come = self.count(seconds);
            if second.is_multiple_of(REVIEW_SECS) && 0 < seconds {
                self.review();
            }
            self.admit(come);
            self.taken = 0;
            self.watched.values_mut().for_each(|watched| watched.taken = 0);
        }
        self.tell_store();
    }

    /// Takes what was sampled, between two runs.
    pub(crate) fn take_samples(&mut self) {
        self.drain();
        self.tell_store();
    }

    /// Takes what was sampled. Where a thread had more than its ring holds it sampled fewer keys, or dropped some: from the
    /// first sample behind that on the estimator knows only what was sampled without a gap, at the rate which that has.
    fn drain(&mut self) {
        let Self { store, watched, taken, .. } = self;
        for (id, watched) in &mut *watched {
            watched.shards.set_present(store.held(*id));
        }
        self.lost += store.drain_samples(|access| {
            if let Some(watched) = watched.get_mut(&access.tenant) {
                watched.follow(store.sampled_below(access.tenant));
                watched.take(access);
                *taken += 1;
            }
        });
        for (id, watched) in &mut *watched {
            watched.follow(store.sampled_below(*id));
        }
        if QUOTA_PER_SEC < self.taken {
            self.halve_rates();
        }
    }

    /// Halves the rates of those who took more than their part of the quota.
    fn halve_rates(&mut self) {
        let part = self.taken / (2 * self.watched.len().max(1) as u64);
        for watched in self.watched.values_mut().filter(|watched| part <= watched.taken) {
            watched.shards.lower(watched.shards.limit() / 2);
            watched.taken = 0;
        }
        self.taken = 0;
    }

    /// Adds what the store counted since the last time. Returns who is not watched and has come, or has asked.
    fn count(&mut self, seconds: u64) -> Vec<TenantId> {
        let (known, mut come) = (self.books.len(), Vec::new());
        self.books.resize(self.store.tenant_count(), Book::default());
        for (index, book) in self.books.iter_mut().enumerate() {
            let id = TenantId(u32::try_from(index).unwrap_or(u32::MAX));
            let Some(now) = self.store.look_ups(id) else {
                *book = Book::default();
                if self.watched.remove(&id).is_some() {
                    self.store.sample_below(id, 0);
                }
                continue;
            };
            let new_gets = now.gets.saturating_sub(book.gets);
            (book.gets, book.hits) = (now.gets, now.hits);
            let newest = if book.gets_per_sec <= 0.0 { 1.0 } else { NEWEST };
            if 0 < seconds {
                book.gets_per_sec += (new_gets as f64 / seconds as f64 - book.gets_per_sec) * newest;
            }
            match self.watched.get_mut(&id) {
                Some(watched) if watched.generation == now.generation => {
                    watched.count(&now, self.second, self.half_life_secs)
                }
                Some(_) => {
                    self.store.sample_below(id, 0);
                    self.watched.remove(&id);
                }
                None if known <= index || 0 < new_gets => come.push(id),
                None => {}
            }
        }
        come
    }

    /// Watches those who have come, as long as the memory suffices: whoever was not asked for anything yet makes room.
    fn admit(&mut self, come: Vec<TenantId>) {
        let mut come: Vec<TenantId> = come.into_iter().filter(|id| !self.watched.contains_key(id)).collect();
        if come.is_empty() {
            return;
        }
        let most = self.most();
        while most < self.watched.len() + come.len()
            && let Some((id, _)) = self.watched.iter().find(|(_, watched)| watched.shards.taken() == 0)
        {
            self.forget(*id);
        }
        come.truncate(most.saturating_sub(self.watched.len()));
        self.share_samples(self.watched.len() + come.len());
        come.into_iter().for_each(|id| self.watch(id));
        self.shrink();
    }

    /// Divides the memory among so many.
    fn share_samples(&mut self, tenants: usize) {
        self.samples_max = samples_for(Bytes(self.budget().0 / steps_up(tenants.max(1)) as u64));
        let quota = QUOTA_PER_SEC / tenants.max(1) as u64;
        for watched in self.watched.values_mut() {
            watched.review(self.samples_max, quota);
        }
    }

    fn forget(&mut self, id: TenantId) {
        self.watched.remove(&id);
        self.store.sample_below(id, 0);
    }

    fn watch(&mut self, id: TenantId) {
        let Some(now) = self.store.look_ups(id) else { return };
        let watched = Watched::new(&now, self.samples_max, self.second);
        self.watched.extend(watched.map(|watched| (id, Box::new(watched))));
    }

    /// Chooses who is watched, with how many samples.
    fn review(&mut self) {
        let active = |index: &usize| 0.0 < self.books[*index].gets_per_sec;
        let mut order: Vec<usize> = (0..self.books.len()).filter(active).collect();
        let asks = |index: usize| {
            let id = TenantId(u32::try_from(index).unwrap_or(u32::MAX));
            // Who is watched stays unless another asks twice as much.
            self.books[index].gets_per_sec * if self.watched.contains_key(&id) { 2.0 } else { 1.0 }
        };
        order.sort_by(|a, b| asks(*b).total_cmp(&asks(*a)));
        order.truncate(self.most());
        let chosen: Vec<TenantId> =
            order.iter().filter_map(|index| u32::try_from(*index).ok()).map(TenantId).collect();
        let store = &self.store;
        self.watched.retain(|id, _| {
            let stays = chosen.contains(id);
            if !stays {
                store.sample_below(*id, 0);
            }
            stays
        });
        self.share_samples(chosen.len());
        for id in chosen {
            if !self.watched.contains_key(&id) {
                self.watch(id);
            }
        }
        self.shrink();
    }

    /// Distances over more octaves than usual take more memory: samples give way.
    fn shrink(&mut self) {
        while self.budget() < self.watched.values().map(|w| w.shards.memory() + BESIDE).sum::<Bytes>() {
            self.samples_max = (self.samples_max - self.samples_max / 8).max(2);
            for watched in self.watched.values_mut() {
                watched.shards.set_samples_max(self.samples_max);
            }
            if self.samples_max <= SAMPLES_MIN / 2 {
                let Some((id, _)) = self.watched.pop_last() else { return };
                self.store.sample_below(id, 0);
            }
        }
    }

    /// Memory for estimators.
    fn budget(&self) -> Bytes {
        let fixed = ROOT_BYTES + self.threads as u64 * RING_BYTES + self.books.len() as u64 * BOOK_BYTES;
        self.store.geometry().curves.saturating_sub(Bytes(fixed))
    }

    /// Tenants whose curves fit.
    fn most(&self) -> usize {
        let each = Shards::memory_for(SAMPLES_MIN).0 + BESIDE.0;
        let fit = usize::try_from(self.budget().0 / each).unwrap_or(usize::MAX);
        // A number that is its own step, so that no share falls below the least.
        (1..=fit.min(self.books.len().max(1))).rev().find(|n| steps_up(*n) <= fit).unwrap_or(0)
    }

    /// Memory in use: estimators, rings and books.
    pub(crate) fn memory(&self) -> Bytes {
        let estimators: Bytes = self.watched.values().map(|w| w.shards.memory() + BESIDE).sum();
        let rings = Bytes(self.threads as u64 * RING_BYTES);
        estimators + rings + Bytes(ROOT_BYTES + self.books.capacity() as u64 * BOOK_BYTES)
    }

    /// Tells the store which keys to sample, where that has changed; a thread may have lowered it further meanwhile.
    fn tell_store(&mut self) {
        for (id, watched) in &mut self.watched {
            let below = watched.shards.limit().saturating_add(1);
            if watched.told < below {
                self.store.sample_below(*id, below);
            } else if below < watched.told {
                self.store.sample_at_most(*id, below);
            }
            watched.told = below;
        }
    }

    /// Takes and counts what happened to a tenant up to now: between two seconds its samples are ahead of its look-ups.
    pub(crate) fn catch_up(&mut self, id: TenantId) {
        self.drain();
        self.count_now(id);
    }

    /// The same of everybody.
    pub(crate) fn catch_up_all(&mut self) {
        self.drain();
        let ids: Vec<TenantId> = self.watched.keys().copied().collect();
        ids.into_iter().for_each(|id| self.count_now(id));
    }

    /// Counts what the store counted of a watched tenant; one that is gone, or another by now, is watched no more.
    fn count_now(&mut self, id: TenantId) {
        if let (Some(watched), Some(now)) = (self.watched.get_mut(&id), self.store.look_ups(id))
            && watched.generation == now.generation
        {
            watched.count(&now, self.second, self.half_life_secs);
        } else {
            self.watched.remove(&id);
        }
    }

    /// What DRAM does not answer of a watched tenant's look-ups, as a function of what of DRAM it has; none while too little is
    /// known. Values that go straight into a tier are no better for more DRAM.
    pub(crate) fn near(&self, id: TenantId) -> Option<Curve> {
        let watched = self.watched.get(&id)?;
        let curve = watched.near().ok()?;
        if !matches!(self.store.tenant_state(id)?.placement, Placement::Tier(_)) {
            return Some(curve);
        }
        let ratio = watched.not_near()?;
        Curve::new(vec![(Bytes(0), ratio), (Bytes(1), ratio)]).ok()
    }

    /// What is known of a tenant; none if there is no such tenant.
    pub(crate) fn view(&self, id: TenantId) -> Option<CurveView> {
        let state = self.store.tenant_state(id)?;
        let watched = self.watched.get(&id).map(Box::as_ref);
        let book = self.books.get(id.index()).copied().unwrap_or_default();
        let totals_ratio = (0 < book.gets).then(|| 1.0 - book.hits as f64 / book.gets as f64);
        Some(CurveView {
            name: state.name,
            held: state.held,
            target: state.share.target,
            gets_per_sec: book.gets_per_sec,
            miss_ratio: watched.and_then(Watched::miss_ratio).or(totals_ratio),
            samples: watched.map_or(0, |w| w.shards.samples()),
            rate: watched.map_or(0.0, |w| w.shards.rate()),
            sampled_look_ups: watched.map_or(0, |w| w.shards.taken()),
            lost: self.lost,
            curve: watched.map_or(Err(NoCurve::NotWatched(self.watched.len())), Watched::curve),
            lru: watched.map_or(Err(NoCurve::NotWatched(self.watched.len())), Watched::lru),
        })
    }
}

/// Bytes of a row of the books.
const BOOK_BYTES: u64 = size_of::<Book>() as u64;
/// Bytes of a watched tenant's place in a tree whose nodes may be half full.
const PLACE_BYTES: usize = 2 * size_of::<(TenantId, Box<Watched>)>();
/// Bytes of a watched tenant beside its estimator: what is counted, its place, and what an allocation takes.
const BESIDE: Bytes = Bytes((size_of::<Watched>() - size_of::<Shards>() + PLACE_BYTES + 16) as u64);
/// Bytes of the tree's root, which may hold one tenant where eleven fit.
const ROOT_BYTES: u64 = 11 * PLACE_BYTES as u64 / 2;

/// The next of 1, 2, 3, 4, 6, 8, 12, 16, ...: shares change rarely when tenants come and go.
fn steps_up(n: usize) -> usize {
    let whole = n.next_power_of_two();
    let between = whole / 4 * 3;
    if n <= between { between } else { whole }
}

/// Old look-ups fade by half in the time between two decisions that read curves: of a tenant that asked three times as much before
/// a change as after it, the old weigh as much as the new two decisions later, and a tenth of them five decisions later.
fn half_life_secs(epoch: Duration) -> u64 {
    epoch.0.div_ceil(1_000_000_000).max(1)
}

/// Samples that so much memory suffices for.
fn samples_for(share: Bytes) -> usize {
    let mut samples = SAMPLES_MAX;
    while 2 < samples && share < Shards::memory_for(samples) + BESIDE {
        samples -= samples.div_ceil(64);
    }
    samples
}

#[cfg(test)]
mod tests;
