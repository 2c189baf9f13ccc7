//! Records what a DAX tier does to make bytes durable, and draws what memory may hold after a crash at any moment.
//!
//! Shape:       stores past the caches, write-backs and fences in their order -> for a moment and a seed, one possible image
//! Invariants:  an image holds each line as it was at some moment between its latest durable content and the crash: whatever a
//!              real processor may leave is drawn with a chance above zero, and nothing else
//! Assumptions: those of `dax/persistence.rs`. Stores that are not told of (words of the notes) are found by comparing the mapping
//!              at each act, from when lines of it were written back first; several to one line between two acts count as one. Bytes
//!              that are never written back are streamed alone
//! Non-goals:   threads; the recorder is for one that does the work and then asks

#![allow(unsafe_code, reason = "copies lines of the mapping; see the SAFETY comments")]

use crate::dax::DaxTier;
use crate::dax::persistence::{Instructions, LINE, Persistence, lines};
use crate::{Device, MapError, Region};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Rng;

/// Which acts are left out: what a forgotten instruction would leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Omitted {
    /// Lines are not written back.
    pub write_backs: bool,
    /// What was stored past the caches is not waited for.
    pub fences_of_bytes: bool,
    /// What was written back is not waited for.
    pub fences_of_notes: bool,
}

impl Omitted {
    /// Nothing at all is waited for.
    pub const FENCES: Self = Self { write_backs: false, fences_of_bytes: true, fences_of_notes: true };
}

type Line = [u8; LINE];
/// A mapping's address and a line's offset in it.
type Place = (usize, usize);

/// Takes the processor's place.
#[derive(Debug, Default)]
pub struct Recorder {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    acts: Vec<Act>,
    /// Each mapping of which lines were written back, by its address.
    seen: BTreeMap<usize, Seen>,
    /// Whether the last act told of was a write-back.
    after_write_back: bool,
    omitted: Omitted,
}

/// A mapping as it was when an act last looked.
#[derive(Debug)]
struct Seen {
    region: Region,
    bytes: Vec<u8>,
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
    /// Leaves acts out from now on, to see a test fail.
    pub fn omit(&self, omitted: Omitted) {
        self.log().omitted = omitted;
    }

    /// Acts so far: moments at which a crash can be.
    pub fn moments(&self) -> usize {
        self.log().acts.len() + 1
    }

    /// A possible image of memory after a crash before the act `moment`.
    pub fn crash(&self, moment: usize, rng: &mut Rng) -> Crash {
        let mut all: BTreeMap<Place, Pending> = BTreeMap::new();
        let mut leaving: Vec<Place> = Vec::new();
        for act in self.log().acts.iter().take(moment) {
            match *act {
                Act::Store(place, line) => all.entry(place).or_default().store(line),
                Act::Stream(place, line) => {
                    let pending = all.entry(place).or_default();
                    pending.store(line);
                    pending.leave();
                    leaving.push(place);
                }
                Act::WriteBack(place) => {
                    all.entry(place).or_default().leave();
                    leaving.push(place);
                }
                Act::Fence => {
                    for place in leaving.drain(..) {
                        all.entry(place).or_default().settle();
                    }
                }
            }
        }
        let draw = |(place, pending): (Place, Pending)| {
            Some((place, *pending.versions.get(rng.index(pending.versions.len()))?))
        };
        Crash { lines: all.into_iter().filter_map(draw).collect() }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Looks for stores that nobody told of.
    fn look(&mut self) {
        let Self { acts, seen, .. } = self;
        for (base, Seen { region, bytes }) in seen {
            // SAFETY: the recorder is for one thread, which is here.
            let now = unsafe { region.bytes(0, region.len()) };
            let changed = |(seen, now): &(&mut [u8], &[u8])| seen != now;
            let blocks = bytes.chunks_mut(BLOCK).zip(now.chunks(BLOCK)).enumerate();
            for (block, (seen, now)) in blocks.filter(|(_, pair)| changed(pair)) {
                let lines = seen.chunks_mut(LINE).zip(now.chunks(LINE)).enumerate();
                for (line, (seen, now)) in lines.filter(|(_, pair)| changed(pair)) {
                    seen.copy_from_slice(now);
                    let offset = block * BLOCK + line * LINE;
                    acts.push(Act::Store((*base, offset), line_of(region, offset)));
                }
            }
        }
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

    fn leave(&mut self) {
        self.leaving = self.versions.len().saturating_sub(1);
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

    /// The tier as whoever starts after the crash finds it.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn tier(&self, before: &DaxTier<Recorder>) -> Result<DaxTier, MapError> {
        let mut tier = DaxTier::recorded(before.size(), Instructions::new())?;
        let address = |region: Option<&Region>| region.map(|region| region.start().as_ptr().addr());
        let bytes = address(before.mapped());
        for ((base, offset), line) in &self.lines {
            if Some(*base) == bytes {
                tier.write_owned(*offset as u64, line)
                    .map_err(|cause| MapError::Map { size: before.size(), cause })?;
            } else if let Some(notes) = tier.notes() {
                for (word, bytes) in notes.words()[offset / 8..].iter().zip(line.as_chunks().0) {
                    word.store(u64::from_le_bytes(*bytes), Ordering::Release);
                }
            }
        }
        Ok(tier)
    }
}

/// Bytes that are compared at once, where most are as they were.
const BLOCK: usize = 4096;

fn line_of(region: &Region, offset: usize) -> Line {
    let mut line = [0; LINE];
    // SAFETY: the recorder is for one thread, which is here.
    line.copy_from_slice(unsafe { region.bytes(offset, LINE) });
    line
}

impl Persistence for Recorder {
    unsafe fn stream(&self, region: &Region, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE), "whole lines");
        let mut log = self.log();
        log.look();
        // SAFETY: the caller keeps others away.
        unsafe { region.write(at, bytes) };
        let base = region.start().as_ptr().addr();
        if let Some(seen) = log.seen.get_mut(&base) {
            seen.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        }
        log.acts.extend(
            lines(at, bytes.len()).map(|offset| Act::Stream((base, offset), line_of(region, offset))),
        );
        log.after_write_back = false;
    }

    fn write_back(&self, region: &Region, at: usize, len: usize) {
        let mut log = self.log();
        let base = region.start().as_ptr().addr();
        log.seen
            .entry(base)
            .or_insert_with(|| Seen { region: region.part(0, region.len()), bytes: vec![0; region.len()] });
        // What was stored is found where it is, not only where it is written back.
        log.look();
        log.after_write_back = true;
        if !log.omitted.write_backs {
            log.acts.extend(lines(at, len).map(|offset| Act::WriteBack((base, offset))));
        }
    }

    fn fence(&self) {
        let mut log = self.log();
        log.look();
        let Omitted { fences_of_bytes, fences_of_notes, .. } = log.omitted;
        let is_omitted = if log.after_write_back { fences_of_notes } else { fences_of_bytes };
        if !is_omitted {
            log.acts.push(Act::Fence);
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
        let tier = DaxTier::recorded(Bytes::kib(64), Recorder::default()).unwrap();
        tier.acts().omit(omitted);
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
        let (whole, kept) = crashes(Omitted::FENCES);
        assert!(!whole, "notes tell of records that are not there");
        assert!(!kept, "and acknowledged ones are lost");
        let (whole, kept) = crashes(Omitted { fences_of_bytes: true, ..Omitted::default() });
        assert_eq!((whole, kept), (false, true), "the notes' fence waits for bytes too, but late");
        let (whole, kept) = crashes(Omitted { fences_of_notes: true, ..Omitted::default() });
        assert_eq!((whole, kept), (true, false), "the bytes' fence waits for earlier notes too");
    }

    #[test]
    #[cfg_attr(miri, ignore = "a thousand crashes")]
    fn a_forgotten_write_back_is_seen() {
        let (whole, kept) = crashes(Omitted { write_backs: true, ..Omitted::default() });
        assert!(whole, "bytes go past the caches");
        assert!(!kept, "notes stay in them");
    }

    /// A writer that notes a record before its bytes are there, and has noted others before.
    #[test]
    #[cfg_attr(miri, ignore = "a thousand crashes")]
    fn a_note_before_its_bytes_is_seen_at_the_act_that_comes_next() {
        for streams_first in [true, false] {
            let tier = DaxTier::recorded(Bytes::kib(64), Recorder::default()).unwrap();
            let (recorder, words) = (tier.acts(), tier.notes().unwrap().words());
            tier.settle_notes(0..1);
            let note = || words[0].store(1, Ordering::Release);
            if !streams_first {
                note();
            }
            write_alone(&tier, 0, &[1; RECORD]).unwrap();
            if streams_first {
                note();
            }
            tier.settle().unwrap();
            tier.settle_notes(0..1);
            let (bytes, notes) = (tier.mapped().unwrap(), tier.notes().unwrap().region());
            let is_torn = |moment: usize| {
                (0..100).any(|seed| {
                    let crash = recorder.crash(moment, &mut Rng::new(seed));
                    crash.bytes(notes, 0, 1) == [1] && crash.bytes(bytes, 0, RECORD) != [1; RECORD]
                })
            };
            assert!((0..recorder.moments()).any(is_torn), "streams first: {streams_first}");
            assert!(!is_torn(recorder.moments()), "once all is durable nothing is torn");
        }
    }

    #[test]
    fn a_tier_after_a_crash_has_what_the_image_has() {
        let tier = DaxTier::recorded(Bytes::kib(64), Recorder::default()).unwrap();
        write_records(&tier);
        let crash = tier.acts().crash(tier.acts().moments(), &mut Rng::new(1));
        let after = crash.tier(&tier).unwrap();
        assert_eq!(after.notes().unwrap().words()[0].load(Ordering::Acquire), RECORDS);
        let mut found = vec![0; RECORD];
        after.read((RECORDS - 1) * RECORD as u64, &mut found).unwrap();
        assert!(found.iter().all(|byte| u64::from(*byte) == RECORDS));
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
