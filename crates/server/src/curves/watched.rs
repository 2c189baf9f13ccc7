//! One tenant whose curve is kept: its estimator, and what it really missed meanwhile.
//!
//! Shape:      samples and counts -> LRU's curve -> the same through the present
//! Invariants: look-ups, misses and samples cover the same time
//! Units:      bytes charged; seconds of the server's clock

use super::NoCurve;
use policy::estimate::{Newest, Shards, through};
use store::{LookUps, SampledAccess, SampledKind};
use units::Bytes;

/// Sampled look-ups that a curve is made of at least: a ratio of a half then has a standard error of .03.
pub const LOOK_UPS_MIN: u64 = 256;
/// A curve is kept up to so many times what its tenant holds or should hold.
const DEPTH: u64 = 4;
/// What every tenant's curve is kept up to at least.
const DEPTH_MIN: Bytes = Bytes::mib(1);
/// An estimator starts over at the first rate when it has less than one in so many of its samples, and the quota allows.
const RESTART_PART: usize = 8;
/// Seconds for which the present is counted before a curve goes through it (guess: counts come once a second, and what was
/// missed while a tenant's share changed is not what it misses now). After a turn what was measured with the newest look-ups is enough: what
/// was before says less.
const PRESENT_SECS: u64 = 10;

/// A tenant that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    /// Ids are given again.
    pub(super) generation: u32,
    pub(super) shards: Shards,
    /// Look-ups of the store that are counted, hits among them, and hits below DRAM among those.
    pub(super) seen: (u64, u64, u64),
    /// What was measured in the estimator's window, and of that, with its newest look-ups.
    all: Measured,
    newest: Measured,
    /// Since when they are counted, and when they were last.
    since_secs: u64,
    counted_secs: u64,
    /// When old look-ups faded last, and when the newest were compared with them.
    faded_secs: u64,
    compared_secs: u64,
    /// Samples in this second.
    pub(super) taken: u64,
    /// The threshold that the store has.
    pub(super) told: u64,
}

/// Look-ups and what came of them.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    gets: f64,
    misses: f64,
    /// Held bytes times look-ups.
    held: f64,
    /// Look-ups that DRAM did not answer.
    not_near: f64,
    /// What of DRAM was held, times look-ups.
    held_here: f64,
}

impl Measured {
    fn add(&mut self, other: &Self) {
        self.gets += other.gets;
        self.misses += other.misses;
        self.held += other.held;
        self.not_near += other.not_near;
        self.held_here += other.held_here;
    }

    fn fade(&mut self) {
        let halves =
            [&mut self.gets, &mut self.misses, &mut self.held, &mut self.not_near, &mut self.held_here];
        halves.into_iter().for_each(|count| *count /= 2.0);
    }
}

impl Watched {
    /// Begins with what a tenant has counted by now.
    pub(super) fn new(now: &LookUps, samples_max: usize, now_secs: u64) -> Option<Self> {
        Some(Self {
            generation: now.generation,
            shards: Shards::new(1.0, samples_max)?,
            seen: (now.gets, now.hits, now.tier_hits),
            all: Measured::default(),
            newest: Measured::default(),
            since_secs: now_secs,
            counted_secs: now_secs,
            faded_secs: now_secs,
            compared_secs: now_secs,
            taken: 0,
            told: 0,
        })
    }

    /// Takes an access to a sampled key.
    pub(super) fn take(&mut self, access: SampledAccess) {
        self.taken += 1;
        let SampledAccess { hash, bytes, kind, .. } = access;
        match kind {
            SampledKind::LookUp => self.shards.look_up(hash, (bytes != 0).then_some(bytes)),
            SampledKind::DeadLookUp => self.shards.look_up_dead(hash),
            SampledKind::Write => self.shards.write(hash, bytes),
            SampledKind::Delete => self.shards.remove(hash),
        }
    }

    /// Counts the look-ups and hits that the tenant has had by now. After `half_life_secs` at the earliest, and when enough new ones
    /// came, old ones fade by half; all go if the new ones are of another kind.
    pub(super) fn count(&mut self, now: &LookUps, now_secs: u64, half_life_secs: u64) {
        let LookUps { held, target, .. } = *now;
        let (gets, hits) = (now.gets.saturating_sub(self.seen.0), now.hits.saturating_sub(self.seen.1));
        let below = now.tier_hits.saturating_sub(self.seen.2);
        let misses = gets.saturating_sub(hits);
        self.seen = (now.gets, now.hits, now.tier_hits);
        self.counted_secs = now_secs;
        self.shards.count(gets);
        let measured = Measured {
            gets: gets as f64,
            misses: misses as f64,
            held: held.0 as f64 * gets as f64,
            not_near: (misses + below.min(hits)) as f64,
            held_here: now.held_here.0 as f64 * gets as f64,
        };
        self.all.add(&measured);
        self.newest.add(&measured);
        self.shards.set_depth_max(Bytes(held.max(target).max(DEPTH_MIN).0.saturating_mul(DEPTH)));
        self.compare(now_secs, half_life_secs);
        if self.faded_secs + half_life_secs <= now_secs && self.shards.is_due() {
            self.faded_secs = now_secs;
            self.shards.fade();
            self.all.fade();
            self.newest.fade();
        }
    }

    /// Compares the newest look-ups with those before.
    fn compare(&mut self, now_secs: u64, half_life_secs: u64) {
        if now_secs < self.compared_secs + half_life_secs {
            return;
        }
        match self.shards.compare() {
            Newest::Few => return,
            Newest::Alike => {}
            Newest::Turned => {
                self.all = self.newest;
                self.faded_secs = now_secs;
            }
        }
        self.newest = Measured::default();
        self.compared_secs = now_secs;
    }

    /// Samples only keys below `below` from now on, if the store has fewer sampled than it was told.
    pub(super) fn follow(&mut self, below: u64) {
        if below < self.told {
            self.told = below;
            self.shards.lower(below.saturating_sub(1));
        }
    }

    /// Gives it so many samples; starts over where it has few of them and the quota allows a higher rate.
    pub(super) fn review(&mut self, samples_max: usize, quota: u64) {
        self.shards.set_samples_max(samples_max);
        let few = self.shards.samples() * RESTART_PART < samples_max;
        let allowed = self.taken * RESTART_PART as u64 * 2 < quota;
        if few && allowed && self.shards.rate() < 1.0 / RESTART_PART as f64 {
            self.shards.clear();
            (self.all, self.newest) = (Measured::default(), Measured::default());
            self.since_secs = self.counted_secs;
        }
    }

    pub(super) fn miss_ratio(&self) -> Option<f64> {
        (0.5 < self.all.gets).then(|| (self.all.misses / self.all.gets).clamp(0.0, 1.0))
    }

    /// What LRU would miss.
    pub(super) fn lru(&self) -> Result<control::Curve, NoCurve> {
        let taken = self.shards.taken();
        if taken < LOOK_UPS_MIN {
            return Err(NoCurve::TooFew(taken));
        }
        self.shards.curve().map_err(|_| NoCurve::NoReuse(taken))
    }

    /// The curve through the present: what was missed more or less than LRU would have, having been as large at every
    /// moment, is so at what the tenant held on average. What was counted for a short time only says nothing of that.
    pub(super) fn curve(&self) -> Result<control::Curve, NoCurve> {
        let curve = self.lru()?;
        let is_known = self.since_secs + PRESENT_SECS <= self.counted_secs;
        let Some(measured) = self.miss_ratio().filter(|_| is_known) else { return Ok(curve) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of sizes")]
        let held = Bytes((self.all.held / self.all.gets) as u64);
        let there = (curve.miss_ratio(held) + measured - self.shards.missed()).clamp(0.0, 1.0);
        Ok(through(&curve, held, there, self.shards.slack()))
    }

    /// What DRAM does not answer as a function of what of it the tenant has: LRU's curve through the present.
    pub(super) fn near(&self) -> Result<control::Curve, NoCurve> {
        let curve = self.lru()?;
        let is_known = self.since_secs + PRESENT_SECS <= self.counted_secs && 0.5 < self.all.gets;
        let Some(measured) = self.not_near().filter(|_| is_known) else { return Ok(curve) };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of sizes")]
        let here = Bytes((self.all.held_here / self.all.gets) as u64);
        Ok(through(&curve, here, measured, self.shards.slack()))
    }

    /// The part of the look-ups that DRAM did not answer.
    pub(super) fn not_near(&self) -> Option<f64> {
        (0.5 < self.all.gets).then(|| (self.all.not_near / self.all.gets).clamp(0.0, 1.0))
    }
}
