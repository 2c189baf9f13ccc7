//! Values below DRAM: a log of records per tier, which items in DRAM lead to.
//!
//! Shape:      key and metadata of an item stay in the log in DRAM, with a `Reference` instead of the value; the record that
//!             it names holds all of the item, so that a restart can make it again
//! Invariants: a record that an item leads to is counted live in its segment, and never changes; a segment is written by one
//!             head; what is gathered or written is never more than the device holds
//! Units:      bytes of the tier
//! Failure:    no segment, no buffer or an error of the device: the value stays in DRAM, or is missed; never another value
//! Source:     DESIGN part 4; keys and metadata in DRAM as NyxCache §5 has them

mod access;
mod ailing;
mod area;
mod clean;
mod demote;
mod doors;
pub(crate) mod fuzzed;
mod given_up;
mod heads;
mod notes;
mod parts;
mod placement;
pub(crate) mod record;
mod recover;
mod reference;
mod room;
mod saved;
mod segments;
mod standing;
mod starts;
mod tariff;
mod traffic;

pub(crate) use access::{TierCounters, access_behind};
pub use access::{TierTotals, TierUse};
pub(crate) use clean::TierCleaner;
pub(crate) use demote::{charge_below, put_below};
pub(crate) use notes::{GONE, NOBODY, Notes, Owner};
pub use placement::{Placement, Promotion};
pub(crate) use recover::Made;
pub use recover::{Found, Restored};
pub(crate) use reference::{REFERENCE, Reference};
pub(crate) use room::{Waits, relieve, write_out};
pub use saved::{NotTaken, may_replace};
pub(crate) use standing::{Reasons, Standing};
pub(crate) use starts::run_after;
pub(crate) use tariff::Tariff;
pub(crate) use traffic::BelowCounters;
pub use traffic::{BelowTotals, TrafficTotal};

use crate::epoch::{Epochs, Participant};
use crate::geometry::Geometry;
use crate::limits;
use crate::segment::State;
use crate::store::Options;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock};
use ailing::Unread;
use area::{Area, Head};
use clean::{Desk, Postponed, Prospects};
use given_up::GivenUp;
use media::{Buffer, Device, MapError, Profile};
use record::{Fields, HEADER, Record, Spot, footprint};
use segments::Segments;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use units::{Bytes, TenantId};

/// One tier.
#[derive(Debug)]
pub(crate) struct Tier {
    /// Its place among the tiers.
    pub(crate) id: u8,
    pub(crate) device: Arc<dyn Device>,
    area: Area,
    pub(crate) notes: Notes,
    pub(crate) segments: Segments,
    /// Heads that nobody writes to at the moment.
    parked: Mutex<Vec<Head>>,
    /// Heads that are full and not written yet.
    full: Mutex<VecDeque<Head>>,
    /// What a pass has beside the tier; who cleans it holds that.
    desk: Mutex<Desk>,
    /// Rows of the notes by tenants' ids.
    owners: Box<[AtomicU32]>,
    /// Nothing is written before this second of the store's clock: the device failed a moment ago.
    ailing_until: AtomicU32,
    /// Nothing alive is evicted from it.
    keeps_all: bool,
    /// Whether passes may gain something.
    prospects: Prospects,
    /// Whether one waits for budgets and caps.
    postponed: Postponed,
    /// Segments that passes could not read.
    unread: Unread,
    /// A thread is at a pass over it.
    cleaned: AtomicBool,
    /// Times in a row that what was gathered could not be written.
    unwritten: AtomicU32,
    /// The notes belong to this start.
    begun: AtomicBool,
    /// What it has let go of before.
    given_up: GivenUp,
    /// What accesses cost, once it is known.
    profile: OnceLock<Profile>,
    pub(crate) tariff: Arc<Tariff>,
    /// Accesses take modelled time.
    is_timed: bool,
    pub(crate) counters: TierCounters,
}

/// There is no room in the tier, or it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Tier {
    pub(crate) fn new(id: u8, device: Arc<dyn Device>, options: &Options) -> Result<Self, MapError> {
        let Options { memory, item_max, tenants_max, .. } = *options;
        // As for one thread: how many there are is no part of the layout.
        let in_dram = Geometry::above(1, memory, item_max, 1).segment;
        let (is_mapped, is_timed) = (device.mapped().is_some(), device.is_timed());
        let gathers = Bytes(memory.0 / limits::TIER_GATHERS_PART);
        let segment = segment_of(&*device, in_dram, (!is_mapped).then_some(gathers));
        let buffers = gathers.0 / segment.0.max(1);
        let buffers = buffers.clamp(limits::TIER_BUFFERS_MIN, limits::TIER_BUFFERS);
        let buffers = u32::try_from(buffers).unwrap_or(u32::MAX);
        let count = u32::try_from(device.size().count_of(segment)).unwrap_or(u32::MAX);
        let room = if is_mapped { None } else { Some(Buffer::new(Bytes(sources_bytes(segment.0)))?) };
        Ok(Self {
            id,
            area: Area::new(Arc::clone(&device), segment, buffers)?,
            notes: Notes::new(Arc::clone(&device), segment, tenants_max)?,
            segments: Segments::new(count, segment),
            device,
            parked: Mutex::default(),
            full: Mutex::default(),
            desk: Mutex::new(Desk::new(room)),
            owners: (0..tenants_max).map(|_| AtomicU32::new(NOBODY.0)).collect(),
            ailing_until: AtomicU32::new(0),
            unread: Unread::default(),
            keeps_all: options.no_evict,
            prospects: Prospects::default(),
            postponed: Postponed::default(),
            cleaned: AtomicBool::new(false),
            unwritten: AtomicU32::new(0),
            begun: AtomicBool::new(false),
            given_up: GivenUp::default(),
            profile: OnceLock::new(),
            tariff: Arc::new(Tariff::free()),
            is_timed,
            counters: TierCounters::default(),
        })
    }

    /// Whether something can be put here: the notes belong to this start.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) fn set_begun(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Bytes that records can take while some segments are free; less where passes begin earlier, for limits are in force.
    pub(crate) fn capacity(&self) -> Bytes {
        let held_back = limits::TIER_RESERVE + limits::TIER_LOW_WATER;
        Bytes(u64::from(self.segments.count().saturating_sub(held_back)) * self.segments.bytes())
    }

    /// Memory of this process that it takes, what its cleaning takes included.
    pub(crate) fn memory(&self) -> Bytes {
        let sources = if self.is_mapped() { 0 } else { sources_bytes(self.segments.bytes()) };
        self.area.memory() + self.notes.bytes() + Bytes(sources)
    }

    /// Whether values can be read in place.
    pub(crate) fn is_mapped(&self) -> bool {
        self.area.is_mapped()
    }

    /// Whether a tenant's item of these lengths is worth a place here, and fits: who has no row in the notes has nothing here.
    pub(crate) fn takes(&self, tenant: TenantId, key_len: usize, value_len: usize) -> bool {
        limits::TIER_VALUE_MIN <= value_len
            && self.owner(tenant) != NOBODY
            && self.area.stride(footprint(key_len, value_len)) <= self.segments.bytes()
    }

    /// A tenant's row in the notes.
    pub(crate) fn owner(&self, tenant: TenantId) -> Owner {
        self.owners.get(tenant.index()).map_or(NOBODY, |owner| Owner(owner.load(Ordering::Relaxed)))
    }

    pub(crate) fn set_owner(&self, tenant: TenantId, owner: Owner) {
        if let Some(of) = self.owners.get(tenant.index()) {
            of.store(owner.0, Ordering::Relaxed);
        }
    }

    /// Where a record at a byte lies now.
    pub(crate) fn spot(&self, at: u64) -> Spot {
        Spot { at, life: self.notes.life(self.segments.of(at)) }
    }

    /// Appends a record, which survives then if the device is mapped. It is counted live; nothing leads there yet. Leaves
    /// `reserve` segments.
    pub(crate) fn append(
        &self,
        epochs: &Epochs,
        (reserve, now_secs): (u32, u32),
        fields: &Fields,
        key: &[u8],
        value: [&[u8]; 2],
    ) -> Result<Reference, Full> {
        if fields.owner == NOBODY || self.rests(now_secs) || self.owes() {
            return Err(Full);
        }
        let value_len = value[0].len() + value[1].len();
        let mut head = self.head_for(epochs, reserve, footprint(key.len(), value_len)).ok_or(Full)?;
        let at = u64::from(head.segment) * self.segments.bytes() + head.used;
        let mut scratch = std::mem::take(&mut head.scratch);
        scratch.clear();
        record::encode(Spot { at, life: head.life }, fields, key, value, &mut scratch);
        head.scratch = scratch;
        let written = self.area.append(&mut head).and_then(|at| {
            if self.is_mapped() && self.notes.survives() {
                self.device.settle()?;
            }
            Ok(at)
        });
        let Ok(at) = written else {
            self.note_unwritten(now_secs);
            self.seal(head);
            return Err(Full);
        };
        if head.written == at - u64::from(head.segment) * self.segments.bytes() {
            head.since_secs = now_secs;
        }
        // Counted before another can seal the segment: it is not given back while something may come to lead there.
        self.segments.add_live(head.segment, footprint(key.len(), value_len));
        lock(&self.parked).push(head);
        Ok(Reference { tier: self.id, at, value_len: u32::try_from(value_len).unwrap_or(u32::MAX) })
    }

    /// Whether more values could be gathered if readers let go of what is written.
    pub(crate) fn waits_for_buffer(&self, epochs: &Epochs) -> bool {
        self.area.waits_for_buffer(epochs)
    }

    /// Whether another segment can be gathered now; takes back what readers have let go of.
    pub(crate) fn can_gather(&self, epochs: &Epochs) -> bool {
        self.segments.reclaim_now(epochs);
        0 < self.left() && self.area.has_buffer(epochs)
    }

    /// Whether a thread is at a pass over it.
    pub(crate) fn is_being_cleaned(&self) -> bool {
        self.cleaned.load(Ordering::Relaxed)
    }

    /// Says whether one is.
    pub(crate) fn set_being_cleaned(&self, is_at_it: bool) {
        self.cleaned.store(is_at_it, Ordering::Relaxed);
    }

    /// How many segments wait to be written.
    pub(crate) fn full_count(&self) -> usize {
        lock(&self.full).len()
    }

    /// Whether segments wait to be written.
    pub(crate) fn has_full(&self) -> bool {
        !lock(&self.full).is_empty()
    }

    /// A full segment that waits to be written; none while the tier rests.
    pub(crate) fn take_full(&self, now_secs: u32) -> Option<Head> {
        if self.rests(now_secs) { None } else { lock(&self.full).pop_front() }
    }

    /// Gives a full segment back that could not be written: the others have their turn first.
    pub(crate) fn put_back(&self, head: Head) {
        lock(&self.full).push_back(head);
    }

    /// A head that nobody writes to and that has gathered for a while what the device has not.
    pub(crate) fn take_late(&self, now_secs: u32) -> Option<Head> {
        if self.is_mapped() || self.rests(now_secs) {
            return None;
        }
        let mut parked = lock(&self.parked);
        let is_late = |head: &Head| {
            head.written < head.used && head.since_secs.saturating_add(limits::TIER_GATHER_SECS) <= now_secs
        };
        parked.iter().position(is_late).map(|at| parked.swap_remove(at))
    }

    /// Writes what a head has gathered and the device has not. Returns whether it could: else the tier rests, longer each time.
    pub(crate) fn write_out(&self, head: &Head, now_secs: u32) -> bool {
        if self.area.write_out(head).and_then(|()| self.device.settle()).is_err() {
            self.note_unwritten(now_secs);
            let times = self.unwritten.fetch_add(1, Ordering::Relaxed);
            let rest = limits::TIER_REST_SECS << times.min(limits::TIER_REST_DOUBLINGS);
            self.ailing_until.fetch_max(now_secs.saturating_add(rest), Ordering::Relaxed);
            return false;
        }
        self.unwritten.store(0, Ordering::Relaxed);
        true
    }

    /// Notes that what a head has gathered was written. `settled` is called with every record of that, which survives now.
    pub(crate) fn note_written(&self, head: &mut Head, settled: impl FnMut(Reference, &Record<'_>)) {
        // Before items are looked for: who makes one lead to a record later sees this under the lock of its key.
        self.segments.settle(head.segment, head.used);
        self.each_unwritten(head, settled);
        head.written = head.used;
        self.notes.settle_live(self.segments.range(head.segment));
    }

    /// Gives a head that was late back to writers.
    pub(crate) fn park(&self, head: Head) {
        lock(&self.parked).push(head);
    }

    /// Ends the gathering of a segment that was written: it is read from the device from now on, and can be cleaned.
    pub(crate) fn close(&self, epochs: &Epochs, head: Head) {
        self.segments.set_buffer(head.segment, 0);
        self.segments.change(head.segment, State::Head, State::Sealed);
        self.area.close(epochs, head);
    }

    fn each_unwritten(&self, head: &Head, mut each: impl FnMut(Reference, &Record<'_>)) {
        let bytes = self.area.gathered(head, head.used);
        let start = self.segments.range(head.segment).start;
        let mut at = Bytes(head.written).as_usize();
        while let Some(record) = bytes.get(at..).and_then(record::parse) {
            let value_len = u32::try_from(record.value.len()).unwrap_or(u32::MAX);
            each(Reference { tier: self.id, at: start + at as u64, value_len }, &record);
            let len = footprint(record.key.len(), record.value.len());
            at += usize::try_from(self.area.stride(len)).unwrap_or(usize::MAX);
        }
    }

    /// Whether a live record can lie where a reference from outside says.
    pub(crate) fn holds(&self, reference: Reference, key_len: usize) -> bool {
        let end = reference.at.saturating_add(reference.footprint(key_len));
        let all = u64::from(self.segments.count()) * self.segments.bytes();
        let is_inside = end <= all && self.segments.of(reference.at) == self.segments.of(end - 1);
        self.notes.survives() && is_inside && self.has_kept(reference.at)
    }

    /// Counts a record that an item leads to again.
    pub(crate) fn adopt(&self, reference: Reference, key_len: usize) {
        self.segments.add_live(self.segments.of(reference.at), reference.footprint(key_len));
    }

    /// Notes a record that an item leads to from now on. Under the lock of its key.
    pub(crate) fn hold(&self, reference: Reference) {
        // Else whoever writes it out notes it, unless that was between the record and this.
        if !self.is_mapped() && !self.segments.is_settled(reference.at) {
            return;
        }
        self.notes.set_live(reference.at);
        // Else whoever seals the segment lets it survive.
        if !self.is_mapped() || !self.segments.is_head(self.segments.of(reference.at)) {
            self.notes.settle_live(reference.at..reference.at + 1);
        }
    }

    /// The same, so that it has survived where the record has.
    pub(crate) fn hold_settled(&self, reference: Reference) {
        if !self.is_mapped() {
            return self.hold(reference);
        }
        self.notes.set_live(reference.at);
        self.notes.settle_live(reference.at..reference.at + 1);
    }

    /// Counts a record that no item leads to any more. Under the lock of its key; it has survived when this returns.
    pub(crate) fn release(&self, reference: Reference, key_len: usize) {
        self.segments.take_live(self.segments.of(reference.at), reference.footprint(key_len));
        self.give_up(reference.at);
    }

    /// Gives a record up to which nothing has come to lead.
    pub(crate) fn abandon(&self, reference: Reference, key_len: usize) {
        self.segments.take_live(self.segments.of(reference.at), reference.footprint(key_len));
    }

    /// The value of an item, if it can be read in place.
    #[inline]
    pub(crate) fn value<'a>(
        &'a self,
        reader: &'a Participant,
        reference: Reference,
        key_len: usize,
    ) -> Option<&'a [u8]> {
        if self.notes.survives() && self.is_mapped() {
            // It may be older than this process: nothing of it is taken unseen. The bytes are loaded once, here.
            return self.record(reader, reference, key_len).map(|record| record.value);
        }
        let mark = self.segments.buffer(self.segments.of(reference.at));
        self.area.bytes(reader, mark, reference.value_at(key_len), reference.value_len as usize)
    }

    /// The whole record of an item, if it can be read in place and is whole.
    pub(crate) fn record<'a>(
        &'a self,
        reader: &'a Participant,
        reference: Reference,
        key_len: usize,
    ) -> Option<Record<'a>> {
        let mark = self.segments.buffer(self.segments.of(reference.at));
        let len = HEADER + key_len + reference.value_len as usize;
        let record =
            record::decode(self.spot(reference.at), self.area.bytes(reader, mark, reference.at, len)?);
        record.filter(|r| (r.key.len(), r.value.len()) == (key_len, reference.value_len as usize))
    }

    /// Bytes of the tier, if they can be read in place.
    pub(crate) fn bytes<'a>(&'a self, reader: &'a Participant, at: u64, len: usize) -> Option<&'a [u8]> {
        self.area.bytes(reader, 0, at, len)
    }

    /// Asserts that what is counted live is what items lead to. No thread may work.
    pub(crate) fn check(&self, leads: Vec<(Reference, usize)>) {
        let mut live = vec![0; self.segments.count() as usize];
        let records: std::collections::HashSet<u64> = leads.iter().map(|(away, _)| away.at).collect();
        assert_eq!(records.len(), leads.len(), "one item leads to a record");
        for (away, key_len) in leads {
            let segment = self.segments.of(away.at);
            live[segment as usize] += away.footprint(key_len);
            let gathers = self.segments.buffer(segment) != 0;
            assert!(gathers || self.notes.is_live(away.at), "a record that an item leads to is live");
        }
        for (segment, bytes) in (0..).zip(live) {
            assert_eq!(u64::from(self.segments.live(segment)), bytes, "live bytes of segment {segment}");
        }
        let all = 0..u64::from(self.segments.count()) * self.segments.bytes();
        self.notes.each_live(all, |at| assert!(records.contains(&at), "an item leads to every live record"));
    }
}

/// Bytes of the sources of a pass, in segments of a size.
fn sources_bytes(segment: u64) -> u64 {
    limits::TIER_PASS_WIDTH_UNMAPPED as u64 * segment
}

/// Segments of a tier have a MiB, less where it is small or those that are gathered would take more than `gathers`; in a
/// small tier as much as a segment in DRAM, no item being larger, if that leaves some number of them.
fn segment_of(device: &dyn Device, in_dram: Bytes, gathers: Option<Bytes>) -> Bytes {
    let power = |bytes: u64| 1 << bytes.max(limits::SEGMENT_MIN.0).ilog2();
    let fitting = power((device.size().0 / limits::TIER_SEGMENTS_MIN).min(limits::SEGMENT_DEFAULT.0));
    let most = power(device.size().0 / limits::TIER_SEGMENTS_LEAST);
    let gathered = gathers.map_or(u64::MAX, |bytes| 1 << (bytes.0 / limits::TIER_BUFFERS_MIN).max(1).ilog2());
    let segment = in_dram.0.min(most).max(fitting).min(gathered);
    Bytes(segment.max(device.access_unit().0))
}

#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;
