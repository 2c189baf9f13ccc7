//! What is known of a tier beside its bytes: which records are live, who they belong to, since when a tenant was flushed.
//!
//! ```text
//! words:  +------------+-----------------+-----------------+---------------------+
//!         | header, 16 | tenants, 12 each | lives, 1 each  | live bits, 1 a grain |
//!         +------------+-----------------+-----------------+---------------------+
//! ```
//! The words are the notes of the device where it has such, else memory of this process.
//!
//! Invariants: the bit of a record is set after the record survives, and is clear, and has survived so, before a write that
//!             takes its place is acknowledged; so are flushes. A record whose bit is set is the newest of its key, but for
//!             a crash between two steps of one write, where either is right
//! Units:      bytes of the tier; stamps; seconds since 1970
//! Cost:       a word for each 4 KiB of the tier
//! Failure:    notes of another version, size or kind are begun anew, and those of an end that was not clean whose machine
//!             has started again, where the device does not outlive that: everything in the tier is dropped

use super::record::GRAIN;
use media::{Device, MapError, Survival, WordRegion, notes_words};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Bytes;

/// A tenant's row in the notes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Owner(pub(crate) u32);

/// Nobody's row.
pub(crate) const NOBODY: Owner = Owner(u32::MAX);
/// `flushed_below` of a row whose tenant was removed.
pub(crate) const GONE: u64 = u64::MAX;

/// The format, with its version.
const MAGIC: u64 = u64::from_le_bytes(*b"COTTIER3");
const HEADER_WORDS: usize = 16;
const ROW_WORDS: usize = 12;
/// Bytes of a name that a row holds.
const NAME_MAX: usize = 64;
const _: () = assert!(NAME_MAX == (ROW_WORDS - 4) * 8);

/// Words of the header.
mod head {
    pub(super) const MAGIC: usize = 0;
    pub(super) const SIZE: usize = 1;
    pub(super) const SEGMENT: usize = 2;
    pub(super) const ROWS: usize = 3;
    pub(super) const BOOT: usize = 4;
    pub(super) const CLEAN: usize = 5;
    pub(super) const WALL: usize = 6;
    pub(super) const MACHINE: usize = 7;
    pub(super) const RUN: usize = 8;
    pub(super) const BEFORE: usize = 9;
    pub(super) const SERVED: usize = 10;
}

/// Words of a row.
mod row {
    pub(super) const NAME_LEN: usize = 0;
    pub(super) const FLUSHED_BELOW: usize = 1;
    pub(super) const FLUSH_AT: usize = 2;
    pub(super) const NAME: usize = 4;
}

/// What a row says of a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) name: Vec<u8>,
    pub(crate) own_space: bool,
    /// Records with a smaller stamp are dead.
    pub(crate) flushed_below: u64,
    /// Second of the wall clock at which everything is to be flushed; 0 for none.
    pub(crate) flush_at: u64,
}

/// The notes of one tier.
#[derive(Debug)]
pub(crate) struct Notes {
    device: Arc<dyn Device>,
    /// Words of this process, where the device has none.
    own: Option<WordRegion>,
    size: Bytes,
    segment: Bytes,
    rows: usize,
}

impl Notes {
    /// The notes of a device in segments of a size. Nothing of it is changed.
    pub(crate) fn new(device: Arc<dyn Device>, segment: Bytes, tenants_max: usize) -> Result<Self, MapError> {
        let size = device.size();
        let wanted = notes_words(size);
        let enough = device.survival() != Survival::Nothing
            && device.notes().is_some_and(|notes| wanted <= notes.words().len());
        let fixed = HEADER_WORDS + Bytes(size.count_of(segment) + (size.0 / GRAIN).div_ceil(64)).as_usize();
        let rows = ((wanted - fixed) / ROW_WORDS).min(tenants_max);
        let own = if enough { None } else { Some(WordRegion::anonymous(fixed + rows * ROW_WORDS)?) };
        Ok(Self { device, own, size, segment, rows })
    }

    /// Whether it outlives this process.
    pub(crate) fn survives(&self) -> bool {
        self.own.is_none()
    }

    /// Memory of this process that it takes.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.own.as_ref().map_or(0, |own| own.words().len() as u64 * 8))
    }

    /// Tenants that it has rows for.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.own {
            Some(own) => own.words(),
            None => self.device.notes().map_or(&[], |notes| notes.words()),
        }
    }

    fn word(&self, at: usize) -> u64 {
        self.words()[at].load(Ordering::Acquire)
    }

    fn put(&self, at: usize, value: u64) {
        self.words()[at].store(value, Ordering::Release);
    }

    fn settle(&self, words: Range<usize>) {
        if self.survives() {
            self.device.settle_notes(words);
        }
    }

    fn put_settled(&self, at: usize, value: u64) {
        self.put(at, value);
        self.settle(at..at + 1);
    }

    /// Whether the words are the notes of this device, of this version.
    pub(crate) fn is_known(&self) -> bool {
        self.word(head::MAGIC) == MAGIC
            && self.word(head::SIZE) == self.size.0
            && self.word(head::SEGMENT) == self.segment.0
            && self.word(head::ROWS) == self.rows as u64
    }

    /// Whether they are of this version, whatever the device was then: where runs are noted is the same for all.
    pub(crate) fn are_ours(&self) -> bool {
        self.word(head::MAGIC) == MAGIC
    }

    /// Whether they were of this device, and were made worthless since.
    pub(crate) fn are_void(&self) -> bool {
        self.word(head::MAGIC) == 0 && self.word(head::SIZE) == self.size.0
    }

    /// Whether what it says can be trusted: the machine has not started again since, or it does not depend on that, or the last
    /// end was clean.
    pub(crate) fn has_outlived(&self) -> bool {
        self.ended() != 0 || self.word(head::MACHINE) == self.device.boot()
    }

    /// Begins anew: nothing is live, nobody is known; of which run they were is kept, so that nothing older is taken for newer. No segment begins with the life of one of before, of which `wall` makes
    /// sure: what lies there is no record of it.
    pub(crate) fn format(&self, wall: u64) {
        let words = self.words();
        let run = if self.are_ours() { self.run() } else { 0 };
        if words[head::MAGIC].swap(0, Ordering::AcqRel) != 0 {
            self.settle(0..1);
        }
        let before = (0..self.segments()).map(|segment| self.life(segment)).max().unwrap_or(0);
        let first = units::mix64(before ^ units::mix64(wall)) >> 1;
        for word in words.iter().skip(1).filter(|word| word.load(Ordering::Relaxed) != 0) {
            word.store(0, Ordering::Release);
        }
        (0..self.segments()).for_each(|segment| self.put(self.lives_at() + segment as usize, first));
        self.put(head::SIZE, self.size.0);
        self.put(head::SEGMENT, self.segment.0);
        self.put(head::ROWS, self.rows as u64);
        self.put(head::RUN, run);
        self.put(head::SERVED, run);
        self.settle(1..words.len());
        self.put_settled(head::MAGIC, MAGIC);
    }

    /// Counts this start, which has changed nothing until `serve` says so. Returns the number of the start. `wall` is the second
    /// since 1970 at which the store's clock was 0, `run` the store's number of the start.
    pub(crate) fn begin(&self, wall: u64, run: u64) -> u64 {
        let boot = self.word(head::BOOT) + 1;
        self.put(head::BOOT, boot);
        self.put(head::WALL, wall);
        self.put(head::MACHINE, self.device.boot());
        self.put(head::BEFORE, self.run());
        self.put(head::RUN, run);
        self.settle(head::BOOT..head::SERVED + 1);
        boot
    }

    /// All that the last end left is back: from now on what they hold changes, and no end is clean until `end` says so.
    pub(crate) fn serve(&self) {
        self.put_settled(head::CLEAN, 0);
        self.put_settled(head::SERVED, self.begun());
    }

    /// The store's number of the last start.
    pub(crate) fn begun(&self) -> u64 {
        self.word(head::RUN)
    }

    /// The same of the last that changed anything: one that ended before it served has not.
    pub(crate) fn run(&self) -> u64 {
        let has_served = self.word(head::SERVED) == self.begun();
        self.word(if has_served { head::RUN } else { head::BEFORE })
    }

    /// Says that everything is written down that this start knew; `mark` tells which save it belongs to.
    pub(crate) fn end(&self, mark: u64) {
        self.put_settled(head::CLEAN, mark.max(1));
    }

    /// The save that the last clean end belongs to; 0 for none.
    pub(crate) fn ended(&self) -> u64 {
        self.word(head::CLEAN)
    }

    fn row_at(&self, owner: Owner) -> usize {
        HEADER_WORDS + owner.0 as usize * ROW_WORDS
    }

    /// What a row says; none if it is nobody's.
    pub(crate) fn known(&self, owner: Owner) -> Option<Known> {
        if self.rows <= owner.0 as usize {
            return None;
        }
        let at = self.row_at(owner);
        let len = self.word(at + row::NAME_LEN);
        if len == 0 {
            return None;
        }
        let bytes = (0..ROW_WORDS - row::NAME).flat_map(|i| self.word(at + row::NAME + i).to_le_bytes());
        let name_len = usize::try_from((len >> 1).saturating_sub(1)).unwrap_or(0).min(NAME_MAX);
        Some(Known {
            name: bytes.take(name_len).collect(),
            own_space: len & 1 != 0,
            flushed_below: self.word(at + row::FLUSHED_BELOW),
            flush_at: self.word(at + row::FLUSH_AT),
        })
    }

    /// The rows that say something.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (Owner, Known)> + '_ {
        let ids = 0..u32::try_from(self.rows).unwrap_or(u32::MAX);
        ids.map(Owner).filter_map(|owner| self.known(owner).map(|known| (owner, known)))
    }

    /// Gives a tenant a row of its own; none if all are taken or its name is too long. One adds at a time.
    pub(crate) fn enter(&self, name: &str, own_space: bool, flushed_below: u64) -> Option<Owner> {
        let ids = 0..u32::try_from(self.rows).unwrap_or(u32::MAX);
        let is_free = |owner: &Owner| self.word(self.row_at(*owner) + row::NAME_LEN) == 0;
        let owner = ids.map(Owner).find(is_free).filter(|_| name.len() <= NAME_MAX)?;
        let at = self.row_at(owner);
        let mut bytes = [0; NAME_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            self.put(at + row::NAME + i, word);
        }
        self.put(at + row::FLUSHED_BELOW, flushed_below);
        self.put(at + row::FLUSH_AT, 0);
        self.settle(at..at + ROW_WORDS);
        self.put_settled(at + row::NAME_LEN, (name.len() as u64 + 1) << 1 | u64::from(own_space));
        Some(owner)
    }

    /// Frees a row to which no live record belongs.
    pub(crate) fn leave(&self, owner: Owner) {
        self.put_settled(self.row_at(owner) + row::NAME_LEN, 0);
    }

    /// Kills the records of a tenant with smaller stamps. Of two at once the later holds, whichever is noted first.
    pub(crate) fn flush(&self, owner: Owner, below: u64) {
        let at = self.row_at(owner) + row::FLUSHED_BELOW;
        self.words()[at].fetch_max(below, Ordering::AcqRel);
        self.settle(at..at + 1);
    }

    /// Notes a flush that waits; 0 for none.
    pub(crate) fn flush_later(&self, owner: Owner, wall: u64) {
        self.put_settled(self.row_at(owner) + row::FLUSH_AT, wall);
    }

    fn lives_at(&self) -> usize {
        HEADER_WORDS + self.rows * ROW_WORDS
    }

    fn segments(&self) -> u32 {
        u32::try_from(self.size.count_of(self.segment)).unwrap_or(u32::MAX)
    }

    /// Which use of a segment it is: each has another number.
    pub(crate) fn life(&self, segment: u32) -> u64 {
        self.word(self.lives_at() + segment as usize)
    }

    /// Counts another use of a segment, before anything is written to it.
    pub(crate) fn begin_life(&self, segment: u32) -> u64 {
        let at = self.lives_at() + segment as usize;
        let life = self.word(at) + 1;
        self.put_settled(at, life);
        life
    }

    fn bits_at(&self) -> usize {
        self.lives_at() + Bytes(self.size.count_of(self.segment)).as_usize()
    }

    fn bit(&self, at: u64) -> (usize, u64) {
        let grain = at / GRAIN;
        (self.bits_at() + usize::try_from(grain / 64).unwrap_or(usize::MAX), 1 << (grain % 64))
    }

    /// Whether the record at a byte is live.
    pub(crate) fn is_live(&self, at: u64) -> bool {
        let (word, bit) = self.bit(at);
        self.word(word) & bit != 0
    }

    /// Sets the bit of a record that survives. It survives itself at the latest once the segment is sealed or written; where that was
    /// before, the caller sees to it.
    pub(crate) fn set_live(&self, at: u64) {
        let (word, bit) = self.bit(at);
        // SeqCst with `Segments::change`.
        self.words()[word].fetch_or(bit, Ordering::SeqCst);
    }

    /// Clears the bit of a record, so that it survives.
    pub(crate) fn clear_live(&self, at: u64) {
        let (word, bit) = self.bit(at);
        self.words()[word].fetch_and(!bit, Ordering::Release);
        // Also where the bit is clear: it may be because its page is lost, which settling finds.
        self.settle(word..word + 1);
    }

    /// Lets the bits of these bytes of the tier survive as they are.
    pub(crate) fn settle_live(&self, bytes: Range<u64>) {
        self.settle(self.bit(bytes.start).0..self.bit(bytes.end.max(1) - 1).0 + 1);
    }

    /// Live records.
    pub(crate) fn count_live(&self) -> u64 {
        let bits = self.bits_at()..self.bits_at() + Bytes(self.size.0.div_ceil(GRAIN * 64)).as_usize();
        self.words()[bits].iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum()
    }

    /// Calls `each` with the bytes in a range at which live records begin, rising.
    pub(crate) fn each_live(&self, bytes: Range<u64>, mut each: impl FnMut(u64)) {
        debug_assert!(bytes.start.is_multiple_of(GRAIN * 64), "a range of whole words");
        let first = bytes.start / GRAIN / 64;
        for i in first..bytes.end.div_ceil(GRAIN * 64) {
            let mut word = self.word(self.bits_at() + usize::try_from(i).unwrap_or(usize::MAX));
            while word != 0 {
                each((i * 64 + u64::from(word.trailing_zeros())) * GRAIN);
                word &= word - 1;
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use media::Plain;

    fn made() -> Notes {
        let device = Arc::new(Plain::new(Bytes::mib(4)).unwrap());
        let notes = Notes::new(device, Bytes::kib(256), 10).unwrap();
        notes.format(1);
        notes
    }

    #[test]
    fn rows_come_back_and_are_given_again() {
        let notes = made();
        let long = "n".repeat(NAME_MAX);
        let a = notes.enter("a", false, 0).unwrap();
        let b = notes.enter(&long, true, 7).unwrap();
        assert_eq!(notes.enter(&"n".repeat(NAME_MAX + 1), true, 7), None);
        notes.flush(a, 55);
        notes.flush_later(b, 1_000);
        let known = |name: &str, own_space, flushed_below, flush_at| Known {
            name: name.as_bytes().to_vec(),
            own_space,
            flushed_below,
            flush_at,
        };
        let all: Vec<_> = notes.owners().collect();
        assert_eq!(all, [(a, known("a", false, 55, 0)), (b, known(&long, true, 7, 1_000))]);
        notes.flush_later(a, 2_000);
        notes.leave(a);
        assert_eq!(notes.known(a), None);
        assert_eq!(notes.enter("", false, 0), Some(a));
        assert_eq!(notes.known(a), Some(known("", false, 0, 0)), "no flush of the one before waits");
        assert_eq!(notes.known(NOBODY), None);
    }

    #[test]
    fn bits_and_lives_are_each_their_own() {
        let notes = made();
        let all = [0, 64, 4_096, 8_128, 262_144, (4 << 20) - 64];
        for at in all {
            notes.set_live(at);
        }
        let first = notes.life(0) + 1;
        let lives = (notes.begin_life(0), notes.begin_life(15), notes.begin_life(15));
        assert_eq!(lives, (first, first, first + 1));
        let live = |range: Range<u64>| {
            let mut live = Vec::new();
            notes.each_live(range, |at| live.push(at));
            live
        };
        assert_eq!(live(0..4 << 20), all);
        assert_eq!(live(0..262_144), &all[..4]);
        notes.clear_live(64);
        assert!(!notes.is_live(64) && notes.is_live(0));
        assert_eq!((notes.begin(5, 70), notes.begun(), notes.run()), (1, 70, 0), "it has served nothing");
        notes.serve();
        notes.end(9);
        assert_eq!((notes.run(), notes.begin(6, 71), notes.ended()), (70, 2, 9));
        assert_eq!((notes.run(), notes.begin(6, 72), notes.run(), notes.begun()), (70, 3, 70, 72));
        notes.serve();
        assert_eq!((notes.run(), notes.ended()), (72, 0), "what it changes no clean end has left");
        assert!(notes.is_known());
        notes.format(2);
        assert_eq!((live(0..4 << 20).len(), notes.ended()), (0, 0));
        assert!((0..16).all(|segment| notes.life(segment).abs_diff(first) > 1_000), "{first}");
    }
}
