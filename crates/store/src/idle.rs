//! How much of what each tenant holds was not touched for some time, estimated from a sample of the index.
//!
//! Shape:      random buckets -> tick of the last access and size of each item -> idle part of each tenant -> times what it
//!             holds
//! Invariants: idle time is never overstated, but for items that outlived several turnovers of the whole memory: they count
//!             as idle however long those took; `sweep` keeps them from wrapping the clock
//! Units:      the rank clock ticks per bytes written; when each tick began is noted here, in the loop's own time, so that a
//!             replay and real time see alike. An item counts from the end of the tick of its last access
//! Cost:       nothing on the data path; about 0.1 µs per item sampled, some thousand items per sample, sixteen samples per
//!             idle time, at most one per look
//! Source:     Memshare §4.2 walks every item; its idle bytes include dead copies, ours do not
//! Failure:    while little is written the clock stands, and nothing becomes idle: nobody needs the memory then either

use crate::epoch::Participant;
use crate::limits::AGE_MAX;
use crate::store::Store;
use crate::tenant::{TICKS, Tenant};
use units::{Bytes, Duration, Instant, Rng, TenantId};

/// Buckets of the index per sample, eight slots each: a tenant of one item in a hundred has some seventy in it, so that its
/// idle part has a standard deviation of .06, and of .04 over samples.
const BUCKETS_PER_SAMPLE: u32 = 1024;
/// What stays of earlier samples at each new one (guess; with a half, two samples count as much as all others).
const KEPT: f64 = 0.5;
/// Samples in one idle time.
const SAMPLES_PER_IDLE_TIME: u64 = 16;
/// Longest pause between samples: the idle tax decides once a minute.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The estimator.
#[derive(Debug)]
pub(crate) struct IdleSensor {
    reader: Participant,
    rng: Rng,
    idle_time: Duration,
    /// When each tick (modulo their number) was first seen.
    begun: [Instant; TICKS],
    /// The newest tick seen.
    tick: Option<u32>,
    sampled: Option<Instant>,
    /// Sampled bytes of each tenant: idle ones, and all.
    sums: Vec<(f64, f64)>,
}

impl IdleSensor {
    /// Looks for what was not touched for another time from now on; what was seen of the other one is forgotten.
    pub(crate) fn watch_for(&mut self, idle_time: Duration) {
        if self.idle_time != idle_time {
            self.idle_time = idle_time;
            self.sums.clear();
            self.sampled = None;
        }
    }

    /// A sensor of bytes that were not touched for `idle_time`; none if too many threads work with the store.
    pub(crate) fn new(store: &Store, idle_time: Duration) -> Option<Self> {
        let mut reader = store.epochs.join()?;
        reader.go_offline();
        Some(Self {
            reader,
            rng: store.thread_rng(),
            idle_time,
            begun: [Instant::ZERO; TICKS],
            tick: None,
            sampled: None,
            sums: Vec::new(),
        })
    }

    /// Notes the rank clock and samples if it is time to. Ticks count from the look that finds them begun, so that whoever
    /// looks once a second is wrong by a second.
    pub(crate) fn look(&mut self, store: &Store, now: Instant) {
        self.note_tick(store.tick_count(), now);
        let pause = Duration(self.idle_time.0 / SAMPLES_PER_IDLE_TIME).min(PAUSE_MAX);
        if self.sampled.is_none_or(|at| pause <= now.since(at)) {
            self.sampled = Some(now);
            self.sample(store, now);
        }
    }

    /// The part of what a tenant holds that is idle, in bytes.
    pub(crate) fn idle(&self, tenant: &Tenant) -> Bytes {
        let (idle, all) = self.sums.get(tenant.id.index()).copied().unwrap_or_default();
        let part = if 0.0 < all { (idle / all).min(1.0) } else { 0.0 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part in 0..=1 of a size"
        )]
        let bytes = (tenant.held().0 as f64 * part) as u64;
        Bytes(bytes)
    }

    /// Forgets what was sampled of an id: another tenant has it now.
    pub(crate) fn forget(&mut self, id: TenantId) {
        if let Some(sums) = self.sums.get_mut(id.index()) {
            *sums = (0.0, 0.0);
        }
    }

    fn note_tick(&mut self, tick: u32, now: Instant) {
        match self.tick {
            // What happened before this sensor counts from now on.
            None => self.begun = [now; TICKS],
            Some(last) => {
                for passed in 1..=tick.wrapping_sub(last).min(u32::from(u8::MAX)) {
                    self.begun[tick_at(tick.wrapping_sub(passed - 1))] = now;
                }
            }
        }
        self.tick = Some(tick);
    }

    fn sample(&mut self, store: &Store, now: Instant) {
        for (idle, all) in &mut self.sums {
            *idle *= KEPT;
            *all *= KEPT;
        }
        self.sums.resize(store.tenant_count(), (0.0, 0.0));
        self.reader.go_online();
        let buckets = store.index.buckets();
        let whole = buckets <= BUCKETS_PER_SAMPLE;
        let noted = self.tick.unwrap_or(0);
        for i in 0..buckets.min(BUCKETS_PER_SAMPLE) {
            let drawn = if whole { u64::from(i) } else { self.rng.below(u64::from(buckets)) };
            let bucket = u32::try_from(drawn).unwrap_or(0);
            let (reader, sums, begun) = (&self.reader, &mut self.sums, &self.begun);
            store.index.each_in(bucket, |slot| {
                let view = store.log.view(reader, slot.place());
                if store.is_expired(&view) || store.is_flushed(slot.place(), &view) {
                    return;
                }
                let Some((idle, all)) = sums.get_mut(view.tenant().index()) else { return };
                let bytes = view.sizes().charge() as f64;
                // Read after the slot: what was used since the note is not ahead of the clock.
                let tick = store.tick_count();
                let last = usize::from(slot.tick());
                let age = (tick_at(tick) + TICKS - last) % TICKS;
                let ended = begun[(last + 1) % TICKS];
                let since_note = tick.wrapping_sub(noted) as usize;
                let is_idle =
                    usize::from(AGE_MAX) <= age || (since_note < age && self.idle_time <= now.since(ended));
                *all += bytes;
                *idle += if is_idle { bytes } else { 0.0 };
            });
        }
        self.reader.go_offline();
    }
}

fn tick_at(tick: u32) -> usize {
    tick as usize % TICKS
}
