//! Time in a store: its seconds, the stamps of items, the rank clock's ticks, and flushes that wait for a second.

use super::CLOCK_START;
use super::STAMP_BLOCK;
use super::Store;
use crate::rank::Clock;
use crate::slot::Slot;
use crate::sync::Ordering;
use crate::sync::lock;
use crate::tenant::Tenant;
use units::Bytes;
use units::TenantId;

/// Tenants that are flushed while writers are held (guess: about as long as holding them takes, twice).
const FLUSHED_TOGETHER: usize = 64;

impl Store {
    /// The clock, in whole seconds.
    #[inline]
    #[must_use]
    pub fn now_secs(&self) -> u32 {
        self.now_secs.load(Ordering::Relaxed)
    }

    /// Second since 1970 at which the clock was 0.
    pub(crate) fn wall(&self) -> u64 {
        self.wall.load(Ordering::Relaxed)
    }

    /// Says which second since 1970 the clock's current one is: the system's clock may have been set. Expiries that are written
    /// down from then on, in tiers and at the end, go by it.
    pub fn set_wall(&self, wall_secs: u64) {
        let wall = wall_secs.saturating_sub(u64::from(self.now_secs()));
        // Both are rounded down.
        if 1 < wall.abs_diff(self.wall()) {
            self.wall.store(wall, Ordering::Relaxed);
        }
    }

    /// Sets the clock; it never goes back. Due flushes happen, due expiries are accounted.
    pub fn set_now(&self, secs: u32) {
        // First: whoever writes by the new second finds the wheels there, however far it is from the one before.
        self.account_expiries(secs);
        let before = self.now_secs.fetch_max(secs, Ordering::Relaxed);
        if before < secs {
            let stamp = self.stamps.load(Ordering::Relaxed);
            lock(&self.moments).begin(stamp, secs);
            self.stamps_of_second.store(stamp, Ordering::Relaxed);
            if self.flush_next.load(Ordering::Relaxed) <= secs {
                self.run_due_flushes(secs);
            }
        }
    }

    fn account_expiries(&self, secs: u32) {
        if self.turned_secs.fetch_max(secs, Ordering::Relaxed) < secs {
            for tenant in self.tenants() {
                tenant.expiries.turn(secs, &tenant.live, &tenant.expired);
            }
            self.count_tables();
        }
    }

    /// Kills every item of a tenant that was stored before now, at `at_secs` if that is later: O(1) in the items.
    pub fn flush(&self, tenant: TenantId, at_secs: u32) {
        self.flush_all(&[tenant], at_secs);
    }

    /// The same of several tenants, in rising order: all at once.
    pub fn flush_all(&self, tenants: &[TenantId], at_secs: u32) {
        // A new flush takes the place of one that waits, as in memcached.
        let mut flushes = lock(&self.flushes);
        flushes.retain(|(_, waiting)| tenants.binary_search(waiting).is_err());
        let later = self.now_secs() < at_secs;
        if later {
            flushes.extend(tenants.iter().map(|tenant| (at_secs, *tenant)));
            tenants.iter().for_each(|tenant| self.note_flush(*tenant, at_secs));
        }
        let next = flushes.iter().map(|(at, _)| *at).min();
        self.flush_next.store(next.unwrap_or(u32::MAX), Ordering::Relaxed);
        drop(flushes);
        if !later {
            self.flush_at_once(tenants);
        }
    }

    /// Kills what tenants have, and notes then that no flush of them waits, unless another does by now.
    fn flush_at_once(&self, tenants: &[TenantId]) {
        let there: Vec<_> = tenants.iter().copied().filter(|tenant| self.is_present(*tenant)).collect();
        // Who is removed meanwhile stays flushed for ever.
        self.kill(&there, |tenant| (!tenant.is_gone()).then(|| self.stamps.load(Ordering::Relaxed)));
        let flushes = lock(&self.flushes);
        let waiting: std::collections::HashSet<_> = flushes.iter().map(|(_, tenant)| *tenant).collect();
        there
            .iter()
            .filter(|tenant| !waiting.contains(tenant))
            .for_each(|tenant| self.note_flush(*tenant, 0));
    }

    /// Second of the clock at which a flush of a tenant waits to happen.
    pub(crate) fn flush_of(&self, tenant: TenantId) -> Option<u32> {
        lock(&self.flushes).iter().find(|(_, waiting)| *waiting == tenant).map(|(at, _)| *at)
    }

    /// Forgets a flush that waits.
    pub(crate) fn cancel_flush(&self, tenant: TenantId) {
        lock(&self.flushes).retain(|(_, waiting)| *waiting != tenant);
    }

    /// Kills the items of a tenant with stamps below what `bound` says while no thread writes.
    pub(crate) fn flush_below(&self, id: TenantId, bound: impl Fn() -> u64) {
        self.kill(&[id], |_| Some(bound()));
    }

    /// The same of several, but for those of whom it says nothing.
    fn kill(&self, ids: &[TenantId], bound: impl Fn(&Tenant) -> Option<u64>) {
        for some in ids.chunks(FLUSHED_TOGETHER) {
            self.index.with_writers_held(|| {
                for tenant in some.iter().map(|id| self.tenant(*id)) {
                    let Some(bound) = bound(tenant) else { continue };
                    tenant.flushed_below.store(bound, Ordering::Release);
                    tenant.expiries.clear(&tenant.live, &tenant.expired);
                    let items = tenant.items.swap(0, Ordering::Relaxed);
                    tenant.stale.fetch_add(items, Ordering::Relaxed);
                }
            });
        }
        // However much it was.
        self.passes.full.note_freed(self.geometry.segment.0);
        for tenant in ids.iter().map(|id| self.tenant(*id)) {
            lock(&tenant.shadow).clear();
            // A disk may have to be waited for: not while nobody can write.
            self.flush_tiers(tenant);
        }
    }

    fn run_due_flushes(&self, secs: u32) {
        let mut flushes = lock(&self.flushes);
        let due: Vec<_> = flushes.extract_if(.., |(at, _)| *at <= secs).collect();
        let next = flushes.iter().map(|(at, _)| *at).min();
        self.flush_next.store(next.unwrap_or(u32::MAX), Ordering::Relaxed);
        drop(flushes);
        let due: Vec<_> = due.into_iter().map(|(_, tenant)| tenant).collect();
        self.flush_at_once(&due);
    }

    /// Stamps below this were drawn before the second began.
    #[inline]
    pub(crate) fn stamps_of_second(&self) -> u64 {
        self.stamps_of_second.load(Ordering::Relaxed)
    }

    /// Second at which the item of a slot was last used, or stored: not later, and earlier by a tick at most.
    pub(crate) fn used_secs(&self, slot: Slot, stamp: u64) -> u32 {
        let stored = lock(&self.moments).secs_of(stamp, CLOCK_START);
        if slot.uses() == 0 { stored } else { stored.max(self.tick_secs(slot.tick())) }
    }

    /// A block of stamps that nobody else gets.
    pub(crate) fn stamp_block(&self) -> u64 {
        self.stamps.fetch_add(STAMP_BLOCK, Ordering::Relaxed)
    }

    /// Base of a segment that is opened now: items up to 2^31 stamps older can be told by 32 bits.
    pub(crate) fn stamp_base(&self) -> u64 {
        self.stamps.load(Ordering::Relaxed).saturating_sub(1 << 31)
    }

    /// The rank clock, modulo 256.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the clock is used modulo 256")]
    pub(crate) fn tick(&self) -> u8 {
        self.tick.load(Ordering::Relaxed) as u8
    }

    /// Ticks of the rank clock so far, modulo 2^32.
    pub(crate) fn tick_count(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Seconds of the store's clock at which a tick (not longer than 255 ticks ago) began.
    #[must_use]
    pub fn tick_secs(&self, tick: u8) -> u32 {
        self.tick_secs[usize::from(tick)].load(Ordering::Relaxed)
    }

    /// Counts memory handed to a writer, a segment or pages of a value: the rank clock runs on what is written, and so do
    /// counts of tables, which writes let grow.
    pub(crate) fn note_written(&self, bytes: Bytes) {
        let counted = self.turned(bytes);
        let written = self.written.fetch_add(counted, Ordering::Relaxed) + counted;
        let wanted = u32::try_from((written / self.tick_bytes) & u64::from(u32::MAX)).unwrap_or(0);
        if wanted == self.tick.load(Ordering::Relaxed) {
            return;
        }
        let mut ticking = lock(&self.ticking);
        let mut tick = self.tick.load(Ordering::Relaxed);
        while tick != wanted && wanted.wrapping_sub(tick) < 1 << 31 {
            tick = tick.wrapping_add(1);
            let short = (tick & 0xFF) as u8;
            self.tick_secs[usize::from(short)].store(self.now_secs(), Ordering::Relaxed);
            for tenant in self.tenants() {
                tenant.begin_tick(short);
            }
            ticking.begin_tick(tick, self.stamps.load(Ordering::Relaxed));
            self.tick.store(tick, Ordering::Relaxed);
        }
        drop(ticking);
        self.count_tables();
    }

    /// Bytes of the whole memory that take as long to write over as so many of what is not withheld, of which as much is left as a store
    /// needs: a pass then frees no more than the sweep over the index bears (`sweep`).
    pub(crate) fn turned(&self, bytes: Bytes) -> u64 {
        let whole = self.geometry.divisible + self.below;
        let least = Bytes(self.geometry.segment.0 * 2 * u64::from(self.geometry.segments_least));
        let left = whole.saturating_sub(self.withheld()).max(least).min(whole);
        u64::try_from(u128::from(bytes.0) * u128::from(whole.0) / u128::from(left.0)).unwrap_or(u64::MAX)
    }

    /// Takes the time for a pass that ranks.
    pub(crate) fn take_time(&self, clock: &mut Clock) {
        let ticking = lock(&self.ticking);
        let tick = self.tick.load(Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        let passed = (written % self.tick_bytes) as f64 / self.tick_bytes as f64;
        let stamp = self.stamps.load(Ordering::Relaxed);
        let known = tick.min(u32::from(u8::MAX));
        let oldest = self.tick_secs((tick.wrapping_sub(known) & 0xFF) as u8);
        clock.take(&ticking, f64::from(tick) + passed, stamp, (self.now_secs(), oldest), known);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn the_clock_turns_with_the_memory_in_force() {
        let (memory, item_max) = (Bytes::mib(64), Bytes::mib(1));
        let options = Options { memory, item_max, threads: 1, tenants_max: 1, no_evict: false, seed: 1 };
        let store = Store::new(options).unwrap();
        let ticks = |bytes: Bytes| {
            let before = store.tick_count();
            store.note_written(bytes);
            store.tick_count() - before
        };
        let whole = store.geometry().divisible;
        assert_eq!(ticks(whole), 64);
        store.withhold(whole.scale(3, 4));
        assert!((63..=65).contains(&ticks(whole.scale(1, 4))));
        // As much is left as a store needs, however much is withheld.
        store.withhold(memory);
        assert!(ticks(store.geometry().segment) <= 4);
        store.withhold(Bytes::ZERO);
        assert!((63..=65).contains(&ticks(whole)), "and again, without a jump");
    }

    /// A writer that turns the clock holds its key's stripes.
    #[test]
    fn the_clock_turns_while_somebody_reads_what_threads_count() {
        let (memory, item_max) = (Bytes::mib(64), Bytes::mib(1));
        let store =
            Store::new(Options { memory, item_max, threads: 1, tenants_max: 1, no_evict: false, seed: 1 });
        let store = store.unwrap();
        let _worker = store.worker().unwrap();
        let before = store.tick_count();
        store.each_thread(|_| {
            store.note_written(store.geometry().divisible);
            0
        });
        assert_eq!(store.tick_count().wrapping_sub(before), 64);
    }
}
