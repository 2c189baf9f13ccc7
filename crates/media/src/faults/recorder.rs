//! Records what a DAX tier does to make bytes durable, and draws what memory may hold after a crash at any moment.
//!
//! Shape:       stores past the caches, write-backs and fences in their order -> for a moment and a seed, one possible image
//! Invariants:  an image holds each line as it was at some moment between its latest durable content and the crash: whatever a
//!              real processor may leave is drawn with a chance above zero, and nothing else
//! Assumptions: those of `dax/persistence.rs`. Stores that are not told of (words of the notes) are found by comparing the mapping
//!              at each act; several to one line between two acts count as one
//! Non-goals:   threads; the recorder is for one that does the work and then asks

#![allow(unsafe_code, reason = "copies lines of the mapping; see the SAFETY comments")]

use crate::Region;
use crate::dax::persistence::{LINE, Persistence, lines};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Rng;

/// Which act is left out: what a forgotten instruction would leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Omitted {
    /// Lines are not written back.
    pub write_backs: bool,
    /// Nothing is waited for.
    pub fences: bool,
}

type Line = [u8; LINE];
/// A mapping's address and a line's offset in it.
type Place = (usize, usize);

/// Takes the processor's place.
#[derive(Debug, Default)]
pub struct Recorder {
    omitted: Omitted,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    acts: Vec<Act>,
    /// Each line as it was when an act last looked.
    seen: BTreeMap<Place, Line>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// A line has new content in the caches.
    Store(Place, Line),
    /// A line has new content on its way past them.
    Stream(Place, Line),
    WriteBack(Place),
    Fence,
}

/// What memory may hold after a crash.
#[derive(Debug)]
pub struct Crash {
    lines: BTreeMap<Place, Line>,
}

/// How a line stands while acts are replayed.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// What it may hold: first what is durable, then what was stored since, in order.
    versions: Vec<Line>,
    /// Up to which version the next fence makes it durable.
    leaving: usize,
}

impl Recorder {
    /// One that leaves acts out, to see a test fail.
    #[must_use]
    pub fn omitting(omitted: Omitted) -> Self {
        Self { omitted, log: Mutex::default() }
    }

    /// Acts so far: moments at which a crash can be.
    pub fn moments(&self) -> usize {
        self.log().acts.len() + 1
    }

    /// A possible image of memory after a crash before the act `moment`.
    pub fn crash(&self, moment: usize, rng: &mut Rng) -> Crash {
        let mut all: BTreeMap<Place, Pending> = BTreeMap::new();
        for act in self.log().acts.iter().take(moment) {
            match *act {
                Act::Store(place, line) => all.entry(place).or_default().store(line),
                Act::Stream(place, line) => {
                    let pending = all.entry(place).or_default();
                    pending.store(line);
                    pending.leaving = pending.versions.len() - 1;
                }
                Act::WriteBack(place) => {
                    let pending = all.entry(place).or_default();
                    pending.leaving = pending.versions.len().saturating_sub(1);
                }
                Act::Fence => all.values_mut().for_each(Pending::settle),
            }
        }
        let draw = |(place, pending): (Place, Pending)| {
            Some((place, *pending.versions.get(rng.index(pending.versions.len()))?))
        };
        Crash { lines: all.into_iter().filter_map(draw).collect() }
    }

    /// Looks for stores that nobody told of in the lines of a range.
    fn look(&self, region: &Region, at: usize, len: usize) {
        let mut log = self.log();
        for offset in lines(at, len) {
            let place = (region.start().as_ptr().addr(), offset);
            let now = line_of(region, offset);
            if log.seen.get(&place).unwrap_or(&[0; LINE]) != &now {
                log.seen.insert(place, now);
                log.acts.push(Act::Store(place, now));
            }
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn store(&mut self, line: Line) {
        if self.versions.is_empty() {
            // Memory is zero at first.
            self.versions.push([0; LINE]);
        }
        self.versions.push(line);
    }

    fn settle(&mut self) {
        self.versions.drain(..self.leaving);
        self.leaving = 0;
    }
}

impl Crash {
    /// Bytes of a mapping as they are after the crash.
    #[must_use]
    pub fn bytes(&self, region: &Region, at: usize, len: usize) -> Vec<u8> {
        let base = region.start().as_ptr().addr();
        let mut bytes = vec![0; len];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let offset = at + i;
            if let Some(line) = self.lines.get(&(base, offset / LINE * LINE)) {
                *byte = line[offset % LINE];
            }
        }
        bytes
    }
}

fn line_of(region: &Region, offset: usize) -> Line {
    let mut line = [0; LINE];
    // SAFETY: the recorder is for one thread, which is here.
    line.copy_from_slice(unsafe { region.bytes(offset, LINE) });
    line
}

impl Persistence for Recorder {
    unsafe fn stream(&self, region: &Region, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE), "whole lines");
        // SAFETY: the caller keeps others away.
        unsafe { region.write(at, bytes) };
        let mut log = self.log();
        for offset in lines(at, bytes.len()) {
            let place = (region.start().as_ptr().addr(), offset);
            let now = line_of(region, offset);
            log.seen.insert(place, now);
            log.acts.push(Act::Stream(place, now));
        }
    }

    fn write_back(&self, region: &Region, at: usize, len: usize) {
        // What was stored is found where it is, not only where it is written back.
        self.look(region, 0, region.len());
        if self.omitted.write_backs {
            return;
        }
        let mut log = self.log();
        log.acts
            .extend(lines(at, len).map(|offset| Act::WriteBack((region.start().as_ptr().addr(), offset))));
    }

    fn fence(&self) {
        if !self.omitted.fences {
            self.log().acts.push(Act::Fence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::dax::DaxTier;
    use crate::device::write_alone;
    use std::sync::atomic::Ordering;
    use units::Bytes;

    /// Records of a log: bytes that say which record it is, then a note with the number of records.
    const RECORDS: u64 = 6;
    const RECORD: usize = 192;

    /// A writer as a store's log is: bytes first, then the note that they are there.
    fn write_records(tier: &DaxTier<Recorder>) {
        for i in 0..RECORDS {
            let bytes = [u8::try_from(i + 1).unwrap(); RECORD];
            write_alone(tier, i * RECORD as u64, &bytes).unwrap();
            tier.settle().unwrap();
            tier.notes().unwrap().words()[0].store(i + 1, Ordering::Release);
            tier.settle_notes(0..1);
        }
    }

    /// Whether every record that the notes tell of is there, and how many acknowledged ones the notes have forgotten, over all
    /// moments and some draws of each.
    fn crashes(omitted: Omitted) -> (bool, bool) {
        let tier = DaxTier::recorded(Bytes::kib(64), Recorder::omitting(omitted)).unwrap();
        write_records(&tier);
        let (recorder, bytes) = (tier.acts(), tier.mapped().unwrap());
        let notes = tier.notes().unwrap().region();
        let (mut whole, mut kept) = (true, true);
        for moment in 0..=recorder.moments() {
            for seed in 0..40 {
                let crash = recorder.crash(moment, &mut Rng::new(seed));
                let told = u64::from_le_bytes(crash.bytes(notes, 0, 8).try_into().unwrap());
                for i in 0..told {
                    let at = Bytes(i).as_usize() * RECORD;
                    whole &= crash.bytes(bytes, at, RECORD).iter().all(|byte| u64::from(*byte) == i + 1);
                }
                // After the last act everything was acknowledged.
                kept &= moment < recorder.moments() || told == RECORDS;
            }
        }
        (whole, kept)
    }

    #[test]
    #[cfg_attr(miri, ignore = "a thousand crashes")]
    fn a_tier_that_waits_for_its_fences_loses_nothing_in_any_crash() {
        assert_eq!(crashes(Omitted::default()), (true, true));
    }

    #[test]
    #[cfg_attr(miri, ignore = "a thousand crashes")]
    fn a_forgotten_fence_is_seen() {
        let (whole, kept) = crashes(Omitted { fences: true, ..Omitted::default() });
        assert!(!whole, "notes tell of records that are not there");
        assert!(!kept, "and acknowledged ones are lost");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a thousand crashes")]
    fn a_forgotten_write_back_is_seen() {
        let (whole, kept) = crashes(Omitted { write_backs: true, ..Omitted::default() });
        assert!(whole, "bytes go past the caches");
        assert!(!kept, "notes stay in them");
    }

    #[test]
    fn an_image_is_between_what_is_durable_and_what_was_stored_last() {
        let tier = DaxTier::recorded(Bytes::kib(64), Recorder::default()).unwrap();
        for value in 1..=3_u8 {
            write_alone(&tier, 0, &[value; 64]).unwrap();
            if value == 1 {
                tier.settle().unwrap();
            }
        }
        let region = tier.mapped().unwrap();
        let draws = (0..100).map(|seed| {
            let crash = tier.acts().crash(tier.acts().moments(), &mut Rng::new(seed));
            crash.bytes(region, 0, 1)[0]
        });
        assert_eq!(
            draws.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
            [1, 2, 3]
        );
    }
}
