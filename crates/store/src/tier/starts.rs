//! Which of the tiers that a start finds, and whether what was saved, are of the run before it.
//!
//! Shape:      each run has a number, which its tiers' notes and the file that it saves carry -> the greatest that is found -> what has
//!             another is older than something that was overwritten or deleted since, and begins anew
//! Invariants: a number is greater than all that the start has found, and no less than the time; two that begin in the same second and
//!             know nothing of each other differ, and neither is taken for the later
//! Units:      a number is a second since 1970 and `DRAWN_BITS` that are drawn
//! Failure:    a run without a tier and without a file that it saved leaves no trace; where the clock was set back, tiers of runs that
//!             knew nothing of each other may be taken in the wrong order

use super::{Tier, saved};
use crate::store::Store;
use crate::sync::Ordering;
use std::path::Path;

/// Bits that tell runs of one second apart.
const DRAWN_BITS: u32 = 20;

/// What a saved file says of its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    pub(super) mark: u64,
    pub(super) run: u64,
}

/// How a start finds the tiers.
pub(super) struct Start {
    /// Tiers whose notes survived.
    pub(super) known: Vec<usize>,
    /// Places of these, and what their clean ends belong to; 0 for one that had none.
    ends: Vec<(usize, u64)>,
    /// What is left of a tier is older than its last end, and may be so of anything.
    is_stale: bool,
    /// The run before, unless there are several that may be it.
    last: Option<u64>,
    /// The greatest number of starts.
    pub(super) boot: u64,
    /// Records of tiers that were left out of the run before.
    pub(super) left_out: u64,
}

impl Start {
    /// Whether what was saved is of the last end of every tier that survived, and no run came after it.
    pub(super) fn is_of(&self, told: Told) -> bool {
        let is_last = !self.is_stale && self.last == Some(told.run);
        is_last && self.ends.iter().all(|(at, end)| saved::end_of(told.mark, *at) == *end)
    }
}

/// The number of a run that follows `last`, and begins at a second since 1970.
pub(crate) fn run_after(last: u64, wall: u64, drawn: u64) -> u64 {
    let second = wall.max((last >> DRAWN_BITS) + 1);
    second << DRAWN_BITS | drawn & ((1 << DRAWN_BITS) - 1)
}

/// The last of these runs; none if several may be.
fn last_of(runs: &[u64]) -> Option<u64> {
    let last = runs.iter().copied().max()?;
    let is_other = |run: &u64| *run != last && run >> DRAWN_BITS == last >> DRAWN_BITS;
    (!runs.iter().any(is_other)).then_some(last)
}

/// Begins the notes: what is of another kind, or was left out of the run before, is begun anew.
pub(super) fn begin(store: &Store, saved: Option<&Path>) -> Start {
    let told = saved.and_then(saved::told);
    let tiers = || store.tiers.iter().enumerate().filter(|(_, tier)| !tier.is_begun());
    let runs: Vec<u64> =
        tiers().filter_map(|(_, tier)| run_of(tier)).chain(told.map(|told| told.run)).collect();
    let last = last_of(&runs);
    // What has begun from other ends is another run.
    let ends = tiers().map(|(_, tier)| tier.notes.ended()).chain(told.map(|told| told.mark));
    let drawn = ends.chain(runs.iter().copied()).fold(store.wall(), |all, one| units::mix64(all ^ one));
    let begun = tiers().filter(|(_, tier)| tier.notes.are_ours()).map(|(_, tier)| tier.notes.begun());
    let run = run_after(begun.chain(runs.iter().copied()).max().unwrap_or(0), store.wall(), drawn);
    store.run.store(run, Ordering::Relaxed);
    let mut start =
        Start { known: Vec::new(), ends: Vec::new(), is_stale: false, last, boot: 0, left_out: 0 };
    for (at, tier) in tiers() {
        let (of, end) = (run_of(tier), tier.notes.ended());
        let is_last = of.is_some() && of == last;
        let has_outlived = is_last && tier.notes.is_known() && tier.notes.has_outlived();
        let boot = if has_outlived { tier.notes.begin(store.wall(), run) } else { 0 };
        // Whoever cannot take that would not take either that it serves.
        if !has_outlived || !store.settle_notes(tier) {
            if of.is_some() && !is_last {
                let dropped = tier.notes.count_live();
                tier.counters.dropped.store(dropped, Ordering::Relaxed);
                start.left_out += dropped;
            }
            store.begin_tier(tier);
            start.is_stale |= is_last;
            continue;
        }
        start.ends.push((at, end));
        start.boot = start.boot.max(boot);
        start.known.push(at);
    }
    start
}

/// Says in all notes that from now on what tiers hold changes; a start that ends before this has changed nothing, and all its tiers
/// are of the run before it. Else a crash of the machine could leave the notes of the last end as they were, and nothing of what
/// comes.
pub(super) fn serve(store: &Store) {
    let tiers = || store.tiers.iter().filter(|tier| tier.notes.survives());
    tiers().for_each(|tier| tier.notes.serve());
    for tier in tiers() {
        // One that does not take it is told so of its notes as it is when it serves.
        let _settled = store.settle_notes(tier);
    }
}

/// The last run that had a tier; none if nothing says so.
fn run_of(tier: &Tier) -> Option<u64> {
    (tier.notes.are_ours() || tier.notes.are_void()).then(|| tier.notes.run())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_later_than_all_that_it_knows_of_and_than_runs_of_earlier_seconds() {
        let first = run_after(0, 1_000, 7);
        assert!(first < run_after(0, 1_001, 0));
        assert!(first < run_after(first, 1_000, 0) && first < run_after(first, 5, 0));
        assert_eq!(last_of(&[first, run_after(first, 1_000, 1), first]), Some(run_after(first, 1_000, 1)));
        assert_eq!((last_of(&[]), last_of(&[0, 0])), (None, Some(0)));
    }

    #[test]
    fn runs_of_one_second_that_differ_are_none_the_later() {
        let first = run_after(0, 1_000, 7);
        let apart = [8, 9].map(|drawn| run_after(first, 1_000, drawn));
        assert_eq!(last_of(&[apart[0], apart[1], first]), None);
    }
}
