//! A pass over a tier that was begun: deals with its sources one after the other, and keeps what it has where it is to wait.
//!
//! Shape:      claimed sources and what is known of their records -> each emptied, or left as it is -> the rest given back, or kept for whoever
//!             cleans next
//! Invariants: a tier has one such pass; what it keeps nobody else takes; who cleans ten seconds later at the latest gives it back
//! Units:      time of the brakes
//! Source:     ours

use super::sources::Source;
use super::{Pass, Tier};
use crate::destinations::Destinations;
use crate::epoch::Participant;
use crate::limits;
use crate::metrics::ThreadCounters;
use crate::segment::State;
use crate::store::Store;
use crate::sync::Ordering;
use crate::tier::parts::Parts;
use media::Buffer;
use std::collections::VecDeque;
use std::fmt;
use units::Instant;

/// What a pass has beside the tier.
#[derive(Debug)]
pub(in crate::tier) struct Desk {
    /// What sources are read into, where they cannot be read in place. Its memory is taken by the first pass.
    pub(super) room: Option<Buffer>,
    /// The pass that waits.
    pub(super) begun: Option<Begun>,
}

/// A pass that was begun: sources that it has claimed, and what it knows of them.
pub(super) struct Begun {
    /// Those that are not dealt with, the next first.
    pub(super) sources: VecDeque<Source>,
    pub(super) work: Work,
}

impl Desk {
    pub(in crate::tier) const fn new(room: Option<Buffer>) -> Self {
        Self { room, begun: None }
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

/// What became of a source.
pub(super) enum Emptied {
    /// Nothing leads to it any more.
    Whole,
    /// Something does.
    Not,
    /// The pass is to wait until then.
    Later(Instant),
}

/// What a pass knows and has done once its sources are claimed.
#[derive(Default)]
pub(super) struct Work {
    /// By the time of the brakes.
    pub(super) began: Instant,
    pub(super) parts: Parts,
    /// There is something to gain.
    pub(super) gains: bool,
    /// What it spends is kept for it.
    pub(super) is_announced: bool,
    /// Room was short: it waits for no caps any more.
    pub(super) is_forced: bool,
    /// Segments of DRAM that it may open still.
    pub(super) may_open: usize,
    /// Bytes of records that it copied.
    pub(super) moved: u64,
    /// Sources that nothing leads to any more.
    pub(super) emptied: u64,
}

impl Work {
    /// From then on the pass waits for nothing: it gives back what it would have to wait for.
    pub(super) fn ends(&self) -> Instant {
        self.began + limits::TIER_PASS_WAITS_MAX
    }
}

/// Deals with the sources of a pass that are left, as long as it need not wait. Returns as a try does; a pass that waits has gained nothing yet.
pub(super) fn go_on(
    (store, tier, counters): (&Store, &Tier, &ThreadCounters),
    reader: &mut Participant,
    (desk, mut to): (&mut Desk, Destinations),
    Begun { mut sources, mut work }: Begun,
) -> Option<u64> {
    let room = desk.room.as_ref().map_or(&[][..], Buffer::bytes);
    to.allow(work.may_open);
    // What holds nothing, by now, waits for nobody.
    sources.make_contiguous().sort_by_key(|source| source.left(tier).next().is_some());
    let mut until = None;
    while let Some(mut source) = sources.pop_front() {
        let mut pass = Pass { store, tier, counters, reader, room, to: &mut to, work: &mut work };
        let waits = pass.waits_or_announces(&source, &sources);
        let became = match waits {
            Some(until) => Emptied::Later(until),
            // Where nothing is gained nothing is moved either.
            None if !pass.work.gains && source.left(tier).next().is_some() => Emptied::Not,
            None => pass.empty(&mut source),
        };
        match became {
            Emptied::Later(then) => {
                until = Some(then);
                sources.push_front(source);
                break;
            }
            Emptied::Whole => {
                tier.unread.forget(source.segment);
                tier.segments.retire(&store.epochs, source.segment);
                work.emptied += 1;
            }
            Emptied::Not => tier.leave(&source),
        }
        // What was emptied may be where the next goes.
        reader.quiesce();
        tier.segments.reclaim_now(&store.epochs);
    }
    work.may_open = work.may_open.saturating_sub(to.opened());
    to.park(store);
    until = until.filter(|_| store.brakes.now() < work.ends());
    tier.set_postponed(until);
    if until.is_some() {
        desk.begun = Some(Begun { sources, work });
        return Some(0);
    }
    // Of one that would wait for too long; else there are none.
    sources.iter().for_each(|source| tier.leave(source));
    let freed = work.emptied.saturating_sub(work.moved.div_ceil(tier.segments.bytes()));
    if !work.gains && work.emptied == 0 {
        return None;
    }
    if !sources.is_empty() && work.moved + work.emptied == 0 {
        return Some(0);
    }
    tier.counters.passes.fetch_add(1, Ordering::Relaxed);
    tier.counters.freed_segments.fetch_add(freed, Ordering::Relaxed);
    Some(freed)
}

impl Tier {
    /// Leaves a source as it is.
    fn leave(&self, source: &Source) {
        self.segments.change(source.segment, State::Cleaning, State::Sealed);
    }
}
