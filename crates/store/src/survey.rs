//! What is looked at before anything is taken: which segments hold the most of what should go.
//!
//! Shape:      random sealed segments -> the first items of each, ranked -> from which rank on each tenant's items stay if of
//!             all that was surveyed so much went -> bytes of each segment that are dead or rank below; passes take the
//!             best, a few at a time
//! Invariants: a segment is looked at while it is sealed and nobody's; it is claimed only when a pass takes it, and only if it
//!             is still what it was
//! Units:      bytes charged; marks in thousandths of what is alive
//! Cost:       where enough is dead, a row of the table per segment; else a look-up and a rank per sample, about as many as
//!             there are items in the sources. In return those are walked once, and little in them has to move
//! Source:     Memshare §3.2 takes segments by one tenant's need. We differ: a log whose segments differ in rank is cleaned
//!             where the worst is, as Rosenblum and Ousterhout (LFS, SOSP 1991) do with what is dead

use crate::census::{BATCH, Census, Pending};
use crate::epoch::Participant;
use crate::large::Drawn;
use crate::limits::{
    DEAD_BEYOND_MARKS, DEAD_ENOUGH_MAX, MARKS_MIN, PASS_GAINS, PASS_WIDTH_MAX, SURVEY_ITEMS, SURVEY_SEGMENTS,
    SURVEY_SERVES_PART, SURVEY_TAKES_PART, TENANTS_MAX,
};
use crate::segment::{Segment, State};
use crate::sources::expected_gain;
use crate::store::Store;
use std::num::NonZeroU32;
use units::{SegmentId, TenantId};

/// A survey is out of date when the rank clock has ticked so often since: a seventh of the memory has been written, more than
/// it serves for unless others clean too.
const FRESH_TICKS: u8 = 9;

/// One item looked at. A survey has tens of thousands.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bytes of the candidate that it stands for.
    stands_for: u32,
    /// Bytes that stay whatever becomes of its value, if that can go to a tier.
    least: Option<NonZeroU32>,
    /// Whose place among the candidates it is.
    candidate: u16,
    tenant: u16,
    rank: u8,
}
const _: () = assert!(SURVEY_SEGMENTS < 1 << 16 && TENANTS_MAX < 1 << 16 && size_of::<Sample>() == 16);

/// A segment that a pass may take.
#[derive(Clone, Copy, Debug)]
struct Prospect {
    id: SegmentId,
    /// Which use of it was looked at: its base, and the last stamp in it, which no other has.
    held: (u64, u64),
    /// Bytes that cleaning it would free.
    gain: u64,
    /// Of those, what leads to values that lie apart, by the samples.
    leads: u64,
}

/// What tells one use of a sealed segment from another.
fn held(segment: &Segment) -> (u64, u64) {
    (segment.base(), segment.last_stamp())
}

/// The last survey of a cleaning thread.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// From which rank on each tenant's items stay.
    pub(crate) census: Census,
    /// Empty but while one is taken: a thread that cleans seldom keeps no memory for it.
    samples: Vec<Sample>,
    /// What is left of it, the best last.
    ahead: Vec<Prospect>,
    tick: u8,
    /// Bytes until which it serves.
    serves: u64,
    /// Bytes that each tenant had written then.
    written: Vec<u64>,
}

impl Survey {
    /// Notes which candidates are worth taking. Where not enough is dead in them, ranks some items of each and the values drawn, and sets the
    /// thresholds at which `marks` thousandths of what is alive in all of them would go, of those tenants that would lose if `MARKS_MIN` went.
    pub(crate) fn take(
        &mut self,
        store: &Store,
        reader: &Participant,
        candidates: &[SegmentId],
        drawn: &[Drawn<'_>],
        marks: usize,
    ) {
        self.census.begin(store);
        self.tick = store.tick();
        self.serves = serves(store, candidates.len());
        self.ahead.clear();
        self.ahead.extend(candidates.iter().map(|id| Prospect {
            id: *id,
            held: held(store.log.segment(*id)),
            gain: expected_gain(store, *id, &[]),
            leads: 0,
        }));
        let dead = self.ahead.iter().map(|prospect| prospect.gain).collect();
        if !self.is_dead_enough(store, dead, marks) {
            self.rank(store, reader, candidates, drawn, marks);
        }
        self.keep_best(self.serves);
    }

    /// Ranks some items of each candidate and the values drawn, and sets the thresholds.
    fn rank(
        &mut self,
        store: &Store,
        reader: &Participant,
        candidates: &[SegmentId],
        drawn: &[Drawn<'_>],
        marks: usize,
    ) {
        // The more of them goes, the less each byte of room that this makes may cost.
        let most = (SURVEY_ITEMS * MARKS_MIN / marks.max(1)).max(1);
        self.samples.reserve_exact(candidates.len() * most);
        for (candidate, id) in (0..).zip(candidates) {
            self.look(store, reader, candidate, *id, most);
        }
        let dead = self.dead();
        if self.is_dead_enough(store, dead.clone(), marks) {
            // It was expired, which the table had not known: nothing is below a threshold.
            self.census.begin(store);
            self.census.give_back();
            self.samples = Vec::new();
            self.ahead.iter_mut().zip(dead).for_each(|(prospect, dead)| prospect.gain = dead);
            return;
        }
        self.census.add(store, drawn);
        let live = |id: SegmentId| u64::from(store.log.segment(id).live());
        let part =
            candidates.iter().copied().map(live).sum::<u64>() + drawn.iter().map(|d| d.bytes).sum::<u64>();
        let whole = store.log.ids().map(live).sum::<u64>() + store.log.values_bytes().0;
        self.census.expect(store, (part, whole), self.serves, &mut self.written);
        self.census.gather(store);
        self.mark(store, marks);
        self.samples = Vec::new();
        self.census.give_back();
    }

    /// Sets the thresholds, and what cleaning each candidate gains by them.
    fn mark(&mut self, store: &Store, marks: usize) {
        // Where more is marked to save time, those lose more in the sources who lose anyway; the others nothing.
        let least = self.census.inside() * MARKS_MIN as u64 / 1_000;
        self.census.divide_deeply(store, least, (marks as u64, MARKS_MIN as u64));
        for sample in &self.samples {
            let rank = (sample.rank, sample.least.map(|bytes| u64::from(bytes.get())));
            let tenant = TenantId(u32::from(sample.tenant));
            let stays = self.census.stays_of(tenant, rank, u64::from(sample.stands_for));
            let prospect = &mut self.ahead[usize::from(sample.candidate)];
            prospect.gain = prospect.gain.saturating_sub(stays);
        }
    }

    /// Ranks those of the first items of a candidate that are alive. What the index leads to of the first stands for all that it leads to
    /// there: the table knows late what has expired.
    fn look(&mut self, store: &Store, reader: &Participant, candidate: u16, id: SegmentId, most: usize) {
        let live = u64::from(store.log.segment(id).live());
        let mut batch = Vec::with_capacity(most.min(BATCH));
        store.log.walk_first(reader, id, most, |place, view| batch.push(Pending::new(store, place, view)));
        let found: Vec<_> =
            batch.iter().filter_map(|item| item.find(store).map(|found| (item, found))).collect();
        let sampled: u64 = found.iter().map(|(item, _)| item.view.len() as u64).sum();
        let prospect = &mut self.ahead[usize::from(candidate)];
        if 0 < sampled {
            prospect.gain = store.log.segment_bytes() as u64;
        }
        for (item, found) in found.into_iter().filter(|(item, _)| !item.is_dead(store)) {
            let stands_for = item.charge() * live / sampled.max(1);
            // What leads to a value that lies apart goes with that.
            if item.view.apart().is_some() {
                self.ahead[usize::from(candidate)].leads += stands_for;
                continue;
            }
            let (rank, least) = self.census.count(store, item, found, stands_for);
            let tenant = u16::try_from(item.view.tenant().0).unwrap_or(u16::MAX);
            // What leads to a tier is some bytes at least.
            let least = least.map(|bytes| NonZeroU32::new(in_segment(bytes)).unwrap_or(NonZeroU32::MIN));
            self.samples.push(Sample { stands_for: in_segment(stands_for), least, candidate, tenant, rank });
            store.let_others_run(self.samples.len());
        }
    }

    /// What is dead in each candidate, by the samples.
    fn dead(&self) -> Vec<u64> {
        let mut dead: Vec<u64> = self.ahead.iter().map(|p| p.gain.saturating_sub(p.leads)).collect();
        for sample in &self.samples {
            let dead = &mut dead[usize::from(sample.candidate)];
            *dead = dead.saturating_sub(u64::from(sample.stands_for));
        }
        dead
    }

    /// Whether so much is dead in the best candidates that nothing alive has to go.
    fn is_dead_enough(&self, store: &Store, mut dead: Vec<u64>, marks: usize) -> bool {
        let segment = store.log.segment_bytes() as u64;
        dead.sort_unstable_by_key(|dead| std::cmp::Reverse(*dead));
        let best = &dead[..enough_of(dead.iter().copied(), self.serves)];
        let (gained, taken) = (best.iter().sum::<u64>(), segment * best.len() as u64);
        let enough = (marks + DEAD_BEYOND_MARKS).min(DEAD_ENOUGH_MAX) as u64;
        self.serves <= gained && taken * enough <= gained * 1_000
    }

    /// Leaves the candidates that gain most, until they do as much as a survey serves for.
    fn keep_best(&mut self, enough: u64) {
        let candidates = self.ahead.len();
        self.ahead.sort_by_key(|prospect| std::cmp::Reverse(prospect.gain));
        let gains = self.ahead.iter().map(|prospect| prospect.gain);
        let takes = enough_of(gains, enough).min(candidates.div_ceil(SURVEY_TAKES_PART));
        self.ahead.truncate(takes.max(2));
        self.ahead.reverse();
    }

    /// Claims the best of what is left for one pass, if that gains `least` bytes. Returns whether there was enough for one.
    pub(crate) fn claim(&mut self, store: &Store, sources: &mut Vec<SegmentId>, least: u64) -> bool {
        self.census.level(store, self.serves + self.serves / 2);
        sources.clear();
        if FRESH_TICKS < store.tick().wrapping_sub(self.tick) {
            self.ahead.clear();
        }
        let enough = (store.log.segment_bytes() * PASS_GAINS) as u64;
        let mut gained = 0;
        while (gained < enough || sources.len() < 2) && sources.len() < PASS_WIDTH_MAX {
            let Some(prospect) = self.ahead.pop() else { break };
            let segment = store.log.segment(prospect.id);
            if held(segment) == prospect.held && segment.change(State::Sealed, State::Cleaning) {
                sources.push(prospect.id);
                gained += prospect.gain;
            }
        }
        if sources.len() < 2 || gained < least {
            sources.drain(..).for_each(|id| store.log.segment(id).set_state(State::Sealed));
        }
        !sources.is_empty()
    }
}

/// Bytes until which a survey of so many segments serves.
fn serves(store: &Store, candidates: usize) -> u64 {
    (store.log.segment_bytes() * (candidates / SURVEY_SERVES_PART).max(PASS_GAINS)) as u64
}

/// Bytes of a segment, or what they are charged.
fn in_segment(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// How many of these sum to `enough`, or all.
fn enough_of(gains: impl Iterator<Item = u64>, enough: u64) -> usize {
    let mut gained = 0;
    let is_short = |gain: &u64| {
        let short = gained < enough;
        gained += gain;
        short
    };
    gains.take_while(is_short).count()
}
