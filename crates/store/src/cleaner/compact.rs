//! Passes where nothing may go: what is dead gives its space back, what is alive moves closer together.
//!
//! Shape:      rows of the table -> the segments of which most is dead, as few as free one more than they need -> a walk adds up what is
//!             alive in them, by lengths alone -> it moves. Where there is too little, all know how much more has to die
//! Invariants: nothing alive goes; until so much has died, or was flushed, or the second is over, nobody looks again
//! Units:      bytes of log
//! Cost:       a look is a row per segment; where the rows say enough, a walk without look-ups. In between a refusal is a few loads
//! Failure:    what has expired, but is not known by segment, is found by chance, in up to `LOOKS_MAX` looks a second

use super::{Cleaner, Lack, Outcome, Pass};
use crate::destinations::Destinations;
use crate::epoch::Participant;
use crate::limits::PASS_WIDTH;
use crate::metrics::ThreadCounters;
use crate::passes::PassKind;
use crate::segment::State;
use crate::store::Store;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::tier::Waits;
use units::SegmentId;

/// Looks in a second that may have missed what is dead (guess: each costs about as much as hundreds of writes).
const LOOKS_MAX: u32 = 8;
/// A look is worth the while once so many bytes have died for each row of the table (guess: it takes a nanosecond for one of them).
const DIED_PER_ROW: u64 = 16;
/// Threads tell of what has died in such portions: they write to one place.
const TOLD_BYTES: u64 = 1024;

/// What all know of how little is dead.
#[derive(Debug, Default)]
pub(crate) struct Full {
    /// Bytes that have died, or can be taken back if they have.
    died: AtomicU64,
    last: Mutex<Look>,
}

/// The last look that found too little.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    secs: u32,
    /// Bytes that will have died when another may find enough.
    until: u64,
    /// Such looks in this second that may have missed something.
    looks: u32,
}

impl Full {
    /// Counts bytes that have died, which a thread adds up in `own`.
    #[inline]
    pub(crate) fn note_died(&self, own: &AtomicU64, bytes: u64) {
        let before = own.load(Ordering::Relaxed);
        own.store(before.wrapping_add(bytes), Ordering::Relaxed);
        let portions = before.wrapping_add(bytes) / TOLD_BYTES - before / TOLD_BYTES;
        if portions != 0 {
            self.note_freed(portions * TOLD_BYTES);
        }
    }

    /// Counts bytes of which a look that has begun knows nothing.
    pub(crate) fn note_freed(&self, bytes: u64) {
        // Release: who sees the count sees what has died.
        self.died.fetch_add(bytes, Ordering::Release);
    }

    fn died(&self) -> u64 {
        self.died.load(Ordering::Acquire)
    }

    /// Notes that a look, which was sure or not, found too little.
    fn note(&self, secs: u32, until: u64, is_sure: bool) {
        let mut last = lock(&self.last);
        let before = if last.secs == secs { last.looks } else { 0 };
        let looks = if is_sure { LOOKS_MAX } else { before.saturating_add(1) };
        *last = Look { secs, until, looks };
    }

    /// A pass has freed something.
    fn forget(&self) {
        *lock(&self.last) = Look::default();
    }

    fn is_known(&self, secs: u32) -> bool {
        let last = *lock(&self.last);
        last.secs == secs && LOOKS_MAX <= last.looks && self.died() < last.until
    }
}

impl Store {
    /// Whether it is known that nothing may go and that a pass would free nothing.
    pub(crate) fn has_little_dead(&self) -> bool {
        self.no_evict && self.passes.full.is_known(self.now_secs())
    }

    /// Whether something has expired, or was flushed, that the index points at still.
    fn has_dead_linked(&self) -> [bool; 2] {
        let sums = self.tenants().fold((0, 0), |(expired, stale), tenant| {
            let load = |count: &crate::sync::AtomicI64| count.load(Ordering::Relaxed);
            (expired + load(&tenant.expired), stale + load(&tenant.stale))
        });
        [0 < sums.0, 0 < sums.1]
    }
}

/// What is alive in some segments.
#[derive(Clone, Copy, Debug, Default)]
struct Alive {
    bytes: u64,
    /// Of what was walked over: bytes, and the same times the length of the item that each belongs to.
    walked: f64,
    by_len: f64,
}

impl Alive {
    fn add(&mut self, store: &Store, reader: &Participant, id: SegmentId) {
        let (mut dead, mut handled) = (0, 0);
        // Asked first: what the index ceases to point at meanwhile is walked over, or not.
        let linked = u64::from(store.log.segment(id).live());
        store.log.walk(reader, id, |place, view| {
            handled += 1;
            store.let_others_run(handled);
            let len = view.len();
            if store.is_expired(&view) || store.is_flushed(place, &view) {
                dead += len as u64;
            } else {
                self.walked += len as f64;
                self.by_len += (len * len) as f64;
            }
        });
        // Not what was walked over: nothing may lead there.
        self.bytes += linked.saturating_sub(dead);
    }

    /// Room that it needs in so many segments: at the end of each about half of the item is lost that does not fit, which is a long
    /// one more often than there are long ones.
    fn needs(&self, segments: usize) -> u64 {
        let ends = segments as f64 * (self.by_len / self.walked.max(1.0)) / 2.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; saturates"
        )]
        let ends = ends as u64;
        self.bytes + if self.bytes == 0 { 0 } else { ends }
    }
}

impl Cleaner {
    /// Takes as few segments as free one more than what is alive in them needs. If there are none, notes that.
    pub(super) fn compact(
        &mut self,
        store: &Store,
        reader: &mut Participant,
        (counters, waits): (&ThreadCounters, Waits),
        to: &mut Destinations,
        kind: PassKind,
    ) -> Outcome {
        if store.has_little_dead() {
            return Outcome::Nothing;
        }
        let most = match kind {
            PassKind::Surveyed { .. } => PASS_WIDTH,
            PassKind::Fixed(fixed) => fixed.takes,
        };
        let (died, secs) = (store.passes.full.died(), store.now_secs());
        let (mut lack, mut others_clean) = self.claim_enough(store, reader, to, most, [false; 2]);
        let missed = if lack == 0 { [false; 2] } else { store.has_dead_linked() };
        if missed != [false; 2] {
            self.give_up(store);
            (lack, others_clean) = self.claim_enough(store, reader, to, most, missed);
        }
        let least = (store.log.ids().count() as u64 * DIED_PER_ROW).max(TOLD_BYTES);
        let until = |lack: u64| died + lack.max(least).min(store.log.segment_bytes() as u64);
        if lack != 0 {
            self.give_up(store);
            if others_clean {
                return Outcome::Taken;
            }
            store.passes.full.note(secs, until(lack), missed == [false; 2]);
            return Outcome::Nothing;
        }
        // All of it stays, and all is alike.
        self.census.begin(store);
        let census = &mut self.census;
        let pass = Pass { store, counters, census, to, lack: Lack::Waits, waits, seen: 0 };
        let outcome = pass.run(reader, &mut self.sources);
        match outcome {
            // More was lost at ends than was foreseen. What is dead is in fewer segments than before: another frees one.
            Outcome::Nothing => store.passes.full.note(secs, until(0), false),
            _ => store.passes.full.forget(),
        }
        outcome
    }

    /// Claims the segments of which most is dead, as few as free one more than what is alive in them needs. Returns how many bytes
    /// more would have to be dead if there are no such, and whether others empty some. What has expired, or was flushed, may be
    /// anywhere if `missed` says so.
    fn claim_enough(
        &mut self,
        store: &Store,
        reader: &Participant,
        to: &mut Destinations,
        most: usize,
        missed: [bool; 2],
    ) -> (u64, bool) {
        let [expired, flushed] = missed;
        let segment_bytes = store.log.segment_bytes() as u64;
        let (best, mut others_clean) = self.chooser.most_dead(store, most, |rng, id| {
            let segment = store.log.segment(id);
            let linked = if flushed { segment.live() } else { segment.expiring().min(segment.live()) };
            if expired || flushed { rng.below(u64::from(linked) + 1) } else { 0 }
        });
        to.allow(0);
        let dead = best.iter().map(|(dead, _)| dead).sum::<u64>() + to.room(store);
        let mut lack = segment_bytes.saturating_sub(dead);
        if lack != 0 {
            return (lack, others_clean);
        }
        let mut alive = Alive::default();
        lack = segment_bytes;
        for (_, id) in best {
            if !store.log.segment(*id).change(State::Sealed, State::Cleaning) {
                others_clean = true;
                continue;
            }
            alive.add(store, reader, *id);
            self.sources.push(*id);
            to.allow(self.sources.len() - 1);
            lack = alive.needs(self.sources.len()).saturating_sub(to.room(store));
            if lack == 0 {
                break;
            }
        }
        (lack, others_clean)
    }
}
