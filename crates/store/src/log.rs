//! The log: segments of one region, the pool of free ones, and views of items.
//!
//! Shape:      a head takes items until one does not fit; sealed segments wait for the cleaner; emptied ones return to
//!             the pool when their epoch has passed
//! Invariants: a `Head` is the only writer of its segment; a view borrows the participant whose epoch protects it;
//!             backed segments and the pages of values that lie apart (`values`) never exceed what is allowed by more than
//!             what the cleaner still has to give back
//! Failure:    no segment left for a writer is an answer, not an error: the caller cleans and comes again

#![allow(unsafe_code, reason = "item bytes in segments: written by one head, read under an epoch")]

mod ahead;
mod surplus;
mod value;
mod values;
mod warm;

pub(crate) use values::{Coming, Lent};

use crate::epoch::{Epochs, Participant};
use crate::geometry::Geometry;
use crate::item::{Apart, FLAGS_AT, GONE, HEADER, Header, View, flag, is_gone, len_behind};
use crate::limits::{self, GAP, GAP_FROM};
use crate::segment::{Segment, State};
use crate::slot::Place;
use crate::stamps::Needed;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock};
use media::{Dram, MapError, Medium, Region};
use std::collections::VecDeque;
use units::{Bytes, SegmentId};

/// Bytes ahead of a walk whose loading is started, so that small items come in time: some 70 of 58 B, most of which a walk may pass by
/// (1 KiB was tried too; the difference is within the noise).
const WALK_AHEAD: usize = 4096;
/// Bytes ahead of an append whose lines are loaded: the next locked instruction, on the segment of the item that is written
/// over, would wait for them (128, 512 and 1,024 are as good).
const APPEND_AHEAD: usize = 256;

/// All segments.
#[derive(Debug)]
pub(crate) struct Log {
    region: Region,
    /// Values in pages of their own; none where no item is so large.
    values: Option<Region>,
    table: Box<[Segment]>,
    pool: Mutex<Pool>,
    /// Segments that writers could still take, reserve included; as of the last change of the pool.
    available: AtomicU32,
    /// Whether segments should be touched, and how many are to be given back; as of the last change of the pool.
    untouched: AtomicBool,
    surplus: AtomicU32,
    /// A background cleaner starts when no more segments than this are left, the reserve included.
    low_water: u32,
    segment_bytes: usize,
    /// Free segments whose memory is touched before a writer takes them, at least and at most.
    touched_ahead: (u32, u32),
}

#[derive(Debug, Default)]
struct Pool {
    free: Vec<SegmentId>,
    /// Ids whose memory was given back.
    cold: Vec<SegmentId>,
    retired: VecDeque<(u64, SegmentId)>,
    /// Ids whose memory is still to be given back, and how many it is being given back of: off the accounts.
    surplus: Vec<SegmentId>,
    cooling: u32,
    /// Segments that were lent to values when that was last divided.
    lent_before: u32,
    /// The first id that was never used.
    fresh: u32,
    /// Segments that cost memory now.
    backed: u32,
    /// Segments that may: what was granted less what is lent to values.
    allowed: u32,
    /// Segments that may cost memory together with the values.
    granted: u32,
    values: values::Book,
}

/// The right to append to one segment.
#[derive(Debug)]
pub(crate) struct Head {
    segment: SegmentId,
    used: usize,
    base: u64,
}

impl Pool {
    /// An id that costs memory from now on. Called only if `unbacked` is not zero.
    fn back_one(&mut self) -> SegmentId {
        self.backed += 1;
        self.surplus.pop().or_else(|| self.cold.pop()).unwrap_or_else(|| {
            self.fresh += 1;
            SegmentId(self.fresh - 1)
        })
    }

    /// Segments that may come to cost memory: nobody can have those of which it is being given back.
    fn unbacked(&self) -> u32 {
        self.allowed.saturating_sub(self.backed + self.cooling)
    }

    fn free_count(&self) -> u32 {
        u32::try_from(self.free.len()).unwrap_or(u32::MAX)
    }
}

impl Log {
    pub(crate) fn new(geometry: &Geometry) -> Result<Self, MapError> {
        let size = u64::from(geometry.segment_count) * geometry.segment.0;
        let region = Dram.map(Bytes(size))?;
        region.prefer_huge_pages();
        region.leave_out_of_dumps();
        let values = values::map(geometry.value_addresses)?;
        let log = Self {
            region,
            table: (0..geometry.segment_count).map(|_| Segment::default()).collect(),
            pool: Mutex::new(Pool {
                allowed: geometry.segment_count,
                granted: geometry.segment_count,
                values: values::Book::new(values.as_ref(), geometry.memory),
                ..Pool::default()
            }),
            available: AtomicU32::new(geometry.segment_count),
            untouched: AtomicBool::new(true),
            surplus: AtomicU32::new(0),
            low_water: limits::RESERVE_SEGMENTS + geometry.low_water,
            segment_bytes: geometry.segment.as_usize(),
            touched_ahead: ahead::bounds(geometry),
            values,
        };
        Ok(log)
    }

    /// The row of a segment.
    #[inline]
    pub(crate) fn segment(&self, id: SegmentId) -> &Segment {
        &self.table[id.index()]
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    /// Ids of segments that were ever used.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SegmentId> {
        (0..lock(&self.pool).fresh).map(SegmentId)
    }

    /// A background cleaner starts when no more segments than this are left, the reserve included.
    #[inline]
    pub(crate) fn low_water(&self) -> u32 {
        self.low_water
    }

    /// Segments that can still be taken, the reserve included.
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.available.load(Ordering::Relaxed)
    }

    /// Segments that become available without anything going, as they wait for their epoch, and how many the pages of values are worth that
    /// do.
    pub(crate) fn coming(&self) -> (u32, u32) {
        let pool = lock(&self.pool);
        let retired = u32::try_from(pool.retired.len()).unwrap_or(u32::MAX);
        // Those beyond what is allowed are given back.
        let retired = retired.saturating_sub(pool.backed.saturating_sub(pool.allowed));
        (retired, pool.values.coming_segments(self.segment_bytes))
    }

    /// Whether writers find a segment.
    pub(crate) fn has_room(&self) -> bool {
        limits::RESERVE_SEGMENTS < self.available()
    }

    /// Memory of segments in use.
    pub(crate) fn backed(&self) -> Bytes {
        Bytes(u64::from(lock(&self.pool).backed) * self.segment_bytes as u64)
    }

    /// Segments that may cost memory beside the values.
    pub(crate) fn allowed(&self) -> u32 {
        lock(&self.pool).allowed
    }

    /// Segments over what is allowed, which the cleaner should give back.
    pub(crate) fn excess(&self) -> u32 {
        let pool = lock(&self.pool);
        pool.backed.saturating_sub(pool.allowed)
    }

    /// Changes how many segments may cost memory. What the cleaner copies into stays: without it, it could only evict.
    pub(crate) fn allow(&self, segments: u32) {
        let mut pool = lock(&self.pool);
        pool.granted = segments.min(u32::try_from(self.table.len()).unwrap_or(u32::MAX));
        self.divide(&mut pool);
    }

    /// Leaves segments what values do not take, and takes from them what they have too much.
    fn divide(&self, pool: &mut Pool) {
        let lent = pool.values.lent_segments(self.segment_bytes);
        pool.allowed = pool.granted.saturating_sub(lent);
        while pool.allowed < pool.backed && limits::RESERVE_SEGMENTS < pool.free_count() {
            let Some(id) = pool.free.pop() else { break };
            pool.discard(id);
        }
        self.cool(pool, lent.saturating_sub(pool.lent_before));
        pool.lent_before = lent;
        self.publish_available(pool);
    }

    /// Takes a segment as a head, leaving `reserve` for others. Reclaims emptied segments first.
    pub(crate) fn take(&self, epochs: &Epochs, reserve: u32, base: u64, now_secs: u32) -> Option<Head> {
        let mut pool = lock(&self.pool);
        self.reclaim(&mut pool, epochs);
        let left = pool.free_count().saturating_add(pool.unbacked());
        if left <= reserve {
            self.publish_available(&pool);
            drop(pool);
            let short = u64::from(reserve + 1 - left) * self.segment_bytes as u64;
            return if self.give_warm_back(short) {
                self.take(epochs, reserve, base, now_secs)
            } else {
                None
            };
        }
        let touched = pool.free.pop();
        let id = touched.unwrap_or_else(|| pool.back_one());
        self.publish_available(&pool);
        drop(pool);
        if touched.is_none() {
            self.populate(id);
        }
        self.segment(id).open(base, now_secs);
        Some(Head { segment: id, used: 0, base })
    }

    /// Whether the system is to make huge pages of the segments that are in use. Not while some of them go: what was given back of a huge
    /// page would come back with the next that the system makes around the rest of it.
    pub(crate) fn prefer_huge_pages(&self, does: bool) {
        if does {
            self.region.prefer_huge_pages();
        } else if 0 < lock(&self.pool).backed {
            self.region.refuse_huge_pages();
        }
    }

    fn publish_available(&self, pool: &Pool) {
        let left = pool.free_count().saturating_add(pool.unbacked());
        self.available.store(left, Ordering::Relaxed);
        self.untouched.store(self.has_untouched(pool), Ordering::Relaxed);
        self.surplus.store(pool.surplus_count(), Ordering::Relaxed);
    }

    /// Returns emptied segments whose epoch has passed to the pool.
    fn reclaim(&self, pool: &mut Pool, epochs: &Epochs) {
        while let Some(&(epoch, id)) = pool.retired.front() {
            if !epochs.is_past(epoch) {
                break;
            }
            pool.retired.pop_front();
            self.segment(id).set_state(State::Free);
            if pool.allowed < pool.backed && limits::RESERVE_SEGMENTS <= pool.free_count() {
                pool.discard(id);
            } else {
                pool.free.push(id);
            }
        }
        self.cool(pool, 0);
    }

    /// The same, from outside, and of values. Returns what is available then.
    pub(crate) fn reclaim_now(&self, epochs: &Epochs) -> u32 {
        let mut pool = lock(&self.pool);
        self.reclaim(&mut pool, epochs);
        let emptied = pool.values.take_emptied(|epoch| epochs.is_past(epoch));
        self.publish_available(&pool);
        drop(pool);
        if !emptied.is_empty() {
            self.release_values(&emptied);
        }
        self.available()
    }

    /// Whether emptied segments or values wait for their epoch, or pages are being given back.
    pub(crate) fn has_retired(&self) -> bool {
        let pool = lock(&self.pool);
        !pool.retired.is_empty() || pool.values.has_retired()
    }

    /// Asserts that the book of values adds up; returns those that items should lead to.
    pub(crate) fn check_values(&self) -> Vec<Apart> {
        lock(&self.pool).values.check()
    }

    /// Hands over a segment that the index no longer points into.
    pub(crate) fn retire(&self, epochs: &Epochs, id: SegmentId) {
        self.segment(id).set_state(State::Retired);
        let epoch = epochs.retire();
        lock(&self.pool).retired.push_back((epoch, id));
    }

    /// Appends an item made of four parts, if it fits, and returns its place. The item is not visible before the
    /// index points at it.
    pub(crate) fn append(&self, head: &mut Head, parts: [&[u8]; 4]) -> Option<Place> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let has_gap = head.used == 0 && GAP_FROM <= len && GAP + len <= self.segment_bytes;
        let gap = if has_gap { &GONE[..] } else { &[] };
        let at = head.used + gap.len();
        if self.segment_bytes < at + len {
            return None;
        }
        let mut to = head.segment.index() * self.segment_bytes + head.used;
        for part in std::iter::once(gap).chain(parts) {
            // SAFETY: `head` is the only writer of this segment (it is not `Clone`, and its segment left the pool when
            // it was made); no view covers bytes from `head.used` on, since nothing points at them yet.
            unsafe { self.region.write(to, part) };
            to += part.len();
        }
        // What the next items will cover, if they are as long; what is longer is fetched by the hardware.
        self.region.prefetch(to + APPEND_AHEAD);
        self.region.prefetch(to + APPEND_AHEAD + len.min(64));
        head.used = at + len;
        self.segment(head.segment).note_written(u32::try_from(head.used).unwrap_or(u32::MAX));
        Some(Place { segment: head.segment, offset: u32::try_from(at).unwrap_or(u32::MAX) })
    }

    /// Whether an item fits that needs so much, and its stamp can be told from the segment's base.
    pub(crate) fn fits(&self, head: &Head, needed: Needed, stamp: u64) -> bool {
        head.used + needed.at(head.base, stamp) <= self.segment_bytes
            && stamp.saturating_sub(head.base) <= u64::from(u32::MAX)
    }

    /// Bytes left in a head.
    pub(crate) fn room(&self, head: &Head) -> usize {
        self.segment_bytes.saturating_sub(head.used)
    }

    /// Ends a head.
    pub(crate) fn seal(&self, head: Head) {
        let used = u32::try_from(head.used.min(self.segment_bytes)).unwrap_or(u32::MAX);
        self.segment(head.segment).seal(used);
    }

    /// The item at a place that a slot pointed at after `reader` came online or announced.
    #[inline]
    pub(crate) fn view<'a>(&'a self, reader: &'a Participant, place: Place) -> View<'a> {
        assert!(reader.is_online(), "a view needs an epoch");
        self.whole(self.item(place.segment, place.offset as usize))
    }

    /// The item at an offset of a segment.
    #[inline]
    fn item(&self, segment: SegmentId, at: usize) -> View<'_> {
        let (header, len) = self.header(segment, at);
        // SAFETY: both were read there.
        unsafe { self.behind(segment, at, (header, len)) }
    }

    /// The header of the item at an offset of a segment, and how many bytes are behind it. Asked of places only that a slot or a walk
    /// led to.
    #[inline]
    fn header(&self, segment: SegmentId, at: usize) -> (Header, usize) {
        let start = segment.index() * self.segment_bytes + at;
        // SAFETY: a slot (or the walk of a claimed segment) led here, so an item was written here before the slot was
        // published with Release, which the reader's Acquire load saw; an item is at least `HEADER` long, and published
        // items never change but for their flags, which no slice covers. The segment is not reused while the reader's epoch holds.
        // What the walk of a head meets may not be published yet: it was written before `note_written` said so with Release.
        let header = unsafe { self.region.copy::<HEADER>(start, FLAGS_AT) };
        let len = len_behind(&header, || {
            // SAFETY: as above; an item whose length is there has at least four more bytes.
            let next = unsafe { self.region.bytes(start + HEADER, 4) };
            [next[0], next[1], next[2], next[3]]
        });
        (header, len)
    }

    /// The item with a header and what is behind that.
    ///
    /// # Safety
    /// Its header, and how many bytes are behind that, were read there.
    #[inline]
    unsafe fn behind(&self, segment: SegmentId, at: usize, (header, len): (Header, usize)) -> View<'_> {
        assert!(at + HEADER + len <= self.segment_bytes, "an item lies inside its segment");
        let start = segment.index() * self.segment_bytes + at;
        // SAFETY: as in `header`; the caller says that these bytes are the item's.
        View::new(header, unsafe { self.region.bytes(start + HEADER, len) })
    }

    /// Notes that the index has ceased to point at the item at a place, of so many bytes, that expires at a second.
    #[inline]
    pub(crate) fn bury(&self, place: Place, len: u32, expiry_at: Option<u32>) {
        self.segment(place.segment).note_dead(len, expiry_at);
        let start = place.segment.index() * self.segment_bytes + place.offset as usize;
        // SAFETY: the flags of a published item, which no slice covers and which only the holder of the locks of its key writes. Its
        // segment is not used again meanwhile: the epoch in which the caller found the item is not past before it is through.
        // Release: who sees the flag sees that no slot leads here, so that a segment of such items can be retired.
        unsafe { self.region.set_bits(start + FLAGS_AT, flag::GONE) };
    }

    /// Starts loading an item.
    #[inline]
    pub(crate) fn prefetch(&self, place: Place) {
        let start = place.segment.index() * self.segment_bytes + place.offset as usize;
        self.region.prefetch(start);
        self.region.prefetch(start + 63);
    }

    /// Calls `each` with every item that may not be gone of a segment that is being cleaned, in order of writing, with its place; of
    /// a head with those that are written, though nothing may lead to the last of them yet.
    pub(crate) fn walk<'a>(
        &'a self,
        reader: &'a Participant,
        id: SegmentId,
        each: impl FnMut(Place, View<'a>),
    ) {
        // A head may be sealed meanwhile, cleaned and retired: it is not used again before this thread's epoch has passed.
        assert!(
            self.segment(id).state() != State::Free,
            "what is walked to its end is claimed, or was a head"
        );
        self.walk_items(reader, id, usize::MAX, each);
    }

    /// Calls `each` with the first items of a sealed segment that may not be gone, at most so many. With none if it is not sealed
    /// any more. Returns how many bytes it walked.
    pub(crate) fn walk_first<'a>(
        &'a self,
        reader: &'a Participant,
        id: SegmentId,
        most: usize,
        each: impl FnMut(Place, View<'a>),
    ) -> usize {
        // Whoever takes it now does not overwrite it before this thread's epoch has passed.
        if self.segment(id).state() == State::Sealed { self.walk_items(reader, id, most, each) } else { 0 }
    }

    fn walk_items<'a>(
        &'a self,
        reader: &'a Participant,
        id: SegmentId,
        most: usize,
        mut each: impl FnMut(Place, View<'a>),
    ) -> usize {
        assert!(reader.is_online(), "a walk needs an epoch");
        let used = self.segment(id).used() as usize;
        let start = id.index() * self.segment_bytes;
        let (mut at, mut walked) = (0, 0);
        while walked < most && at + HEADER <= used {
            self.region.prefetch(start + (at + WALK_AHEAD).min(used));
            let (header, len) = self.header(id, at);
            if !is_gone(&header) {
                let place = Place { segment: id, offset: u32::try_from(at).unwrap_or(u32::MAX) };
                // SAFETY: both were read there.
                each(place, self.whole(unsafe { self.behind(id, at, (header, len)) }));
                walked += 1;
            }
            at += HEADER + len;
        }
        assert!(at <= used, "items lie inside their segment");
        at
    }
}

impl Head {
    /// CAS values of its items are this and their stamps.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }
}
