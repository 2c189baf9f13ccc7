//! The segment table: what is known of each segment without reading it.
//!
//! Invariants: a segment is written by the one thread that owns its head; counters of a sealed segment only fall;
//!             what was appended but for what is gone is the bytes of items that the index points at (items dead by flush or
//!             expiry may still count)
//! Units:      bytes; seconds of the store's clock

use crate::geometry::SEGMENT_ROW;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use units::TenantId;

/// What a segment is at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum State {
    /// Holds nothing.
    Free = 0,
    /// Is being filled by its owner.
    Head = 1,
    /// Full; the cleaner may take it.
    Sealed = 2,
    /// Taken by a cleaning pass.
    Cleaning = 3,
    /// Emptied; readers may still look at it.
    Retired = 4,
}

/// Tenants remembered per segment.
const TENANTS: usize = 8;
/// Expiry bins per segment: bytes that expire within 4, 16, 64, … seconds of the segment's creation, the last but one within
/// three days.
const EXPIRY_BINS: usize = 10;

/// One row of the table: three cache lines. What every look at an item needs is in the first, what whoever writes over an item of a
/// sealed segment changes in the last.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Segment {
    /// CAS values of its items are this base and the item's stamp.
    base: AtomicU64,
    /// The newest stamp in it: a tenant flushed later has nothing alive here.
    last_stamp: AtomicU64,
    state: AtomicU32,
    /// Bytes written. Release by the owner behind each item, for who walks what another thread writes.
    used: AtomicU32,
    created_secs: AtomicU32,
    /// Bytes of items that the index has pointed at. The owner's: no other thread writes it.
    appended: AtomicU32,
    /// Tenant in the upper half, bytes ever written for it in the lower; the largest, by space saving.
    tenants: [AtomicU64; TENANTS],
    /// When the last of each bin expires. The owner's, as `appended`.
    expire_by: [AtomicU32; EXPIRY_BINS],
    /// Bytes of items that the index points at, by when they expire.
    expiry: [AtomicU32; EXPIRY_BINS],
    /// Bytes of what was appended that it points at no more.
    gone: AtomicU32,
}

const _: () = assert!(cfg!(shuttle) || size_of::<Segment>() as u64 == SEGMENT_ROW);
const _: () = assert!(cfg!(shuttle) || 128 <= std::mem::offset_of!(Segment, expiry));

impl Segment {
    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            1 => State::Head,
            2 => State::Sealed,
            3 => State::Cleaning,
            4 => State::Retired,
            _ => State::Free,
        }
    }

    /// Changes the state if it is `from`: how a pass claims its sources.
    pub(crate) fn change(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Makes a free segment a head.
    pub(crate) fn open(&self, base: u64, now_secs: u32) {
        self.used.store(0, Ordering::Relaxed);
        self.appended.store(0, Ordering::Relaxed);
        self.gone.store(0, Ordering::Relaxed);
        self.created_secs.store(now_secs, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
        self.last_stamp.store(0, Ordering::Relaxed);
        for tenant in &self.tenants {
            tenant.store(0, Ordering::Relaxed);
        }
        for bin in self.expiry.iter().chain(&self.expire_by) {
            bin.store(0, Ordering::Relaxed);
        }
        self.state.store(State::Head as u32, Ordering::Release);
    }

    /// Ends a head that holds `used` bytes.
    pub(crate) fn seal(&self, used: u32) {
        self.note_written(used);
        self.state.store(State::Sealed as u32, Ordering::Release);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Says that so many bytes are written. Only the owner of the head calls this.
    pub(crate) fn note_written(&self, used: u32) {
        self.used.store(used, Ordering::Release);
    }

    /// Bytes written so far: these change no more.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Acquire)
    }

    pub(crate) fn live(&self) -> u32 {
        // In this order: what is gone was appended before, which whoever removed it has seen.
        let gone = self.gone.load(Ordering::Acquire);
        self.appended.load(Ordering::Relaxed).saturating_sub(gone)
    }

    pub(crate) fn base(&self) -> u64 {
        self.base.load(Ordering::Relaxed)
    }

    pub(crate) fn last_stamp(&self) -> u64 {
        self.last_stamp.load(Ordering::Relaxed)
    }

    /// Counts an appended item. Only the owner of the head calls this.
    pub(crate) fn note_append(&self, tenant: TenantId, len: u32, stamp: u64, expiry_at: Option<u32>) {
        add_alone(&self.appended, len);
        if self.last_stamp() < stamp {
            self.last_stamp.store(stamp, Ordering::Relaxed);
        }
        self.note_tenant(tenant, len);
        if let Some(at) = expiry_at {
            let bin = self.bin_at(at);
            let last = &self.expire_by[bin];
            last.store(last.load(Ordering::Relaxed).max(at), Ordering::Relaxed);
            // Whoever removes one writes here, too. Release: who counts it knows when the last expires.
            self.expiry[bin].fetch_add(len, Ordering::Release);
        }
    }

    /// The bin of what expires at a second.
    fn bin_at(&self, at: u32) -> usize {
        bin_of(at.saturating_sub(self.created_secs.load(Ordering::Relaxed)))
    }

    /// Space saving: a tenant that is not among the largest takes the place, and the count, of the smallest.
    fn note_tenant(&self, tenant: TenantId, len: u32) {
        let key = u64::from(tenant.0) + 1;
        let mut smallest = 0;
        let mut least = u64::MAX;
        for (i, entry) in self.tenants.iter().enumerate() {
            let value = entry.load(Ordering::Relaxed);
            if value >> 32 == key || value == 0 {
                entry.store(key << 32 | ((value & 0xFFFF_FFFF) + u64::from(len)), Ordering::Relaxed);
                return;
            }
            if (value & 0xFFFF_FFFF) < least {
                least = value & 0xFFFF_FFFF;
                smallest = i;
            }
        }
        self.tenants[smallest].store(key << 32 | (least + u64::from(len)), Ordering::Relaxed);
    }

    /// Counts an item that the index no longer points at.
    pub(crate) fn note_dead(&self, len: u32, expiry_at: Option<u32>) {
        if let Some(at) = expiry_at {
            self.expiry[self.bin_at(at)].fetch_sub(len, Ordering::Relaxed);
        }
        self.gone.fetch_add(len, Ordering::Release);
    }

    /// The largest tenants and the bytes ever written for them.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (TenantId, u32)> + '_ {
        self.tenants.iter().filter_map(|entry| {
            let value = entry.load(Ordering::Relaxed);
            #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
            let parts = (TenantId(((value >> 32) as u32).wrapping_sub(1)), value as u32);
            (value != 0).then_some(parts)
        })
    }

    /// Bytes of items that the index points at, or has pointed at.
    pub(crate) fn appended(&self) -> u32 {
        self.appended.load(Ordering::Relaxed)
    }

    /// Bytes of items that the index points at and that expire.
    pub(crate) fn expiring(&self) -> u32 {
        self.expiry.iter().map(|bytes| bytes.load(Ordering::Relaxed)).fold(0, u32::saturating_add)
    }

    /// Bytes of items that the index points at and that have certainly expired by `now_secs`.
    pub(crate) fn expired(&self, now_secs: u32) -> u32 {
        let bins = self.expiry.iter().zip(&self.expire_by);
        bins.map(|(bytes, last)| (bytes.load(Ordering::Acquire), last.load(Ordering::Relaxed)))
            .filter(|(_, last)| *last <= now_secs)
            .fold(0, |expired: u32, (bytes, _)| expired.saturating_add(bytes))
    }
}

/// The bin of an item that expires so many seconds after its segment's creation: powers of four.
fn bin_of(after_secs: u32) -> usize {
    let digits = (after_secs.max(1).ilog2() / 2) as usize;
    digits.min(EXPIRY_BINS - 1)
}

/// Adds to a counter that no other thread writes.
fn add_alone(counter: &AtomicU32, by: u32) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn the_largest_tenants_are_remembered() {
        let segment = Segment::default();
        segment.open(5, 0);
        for round in 0..100 {
            segment.note_append(TenantId(1), 100, round, None);
            segment.note_append(TenantId(2), 50, round, None);
            segment.note_append(TenantId(100 + u32::try_from(round).unwrap()), 1, round, None);
        }
        let tenants: Vec<_> = segment.tenants().collect();
        assert!(tenants.contains(&(TenantId(1), 10_000)) && tenants.contains(&(TenantId(2), 5_000)));
        assert_eq!((segment.live(), segment.last_stamp()), (15_100, 99));
    }

    #[test]
    fn expired_bytes_are_never_overstated_and_are_exact_where_all_of_a_bin_go_at_once() {
        let segment = Segment::default();
        segment.open(0, 1_000);
        segment.note_append(TenantId(0), 10, 1, Some(1_005));
        segment.note_append(TenantId(0), 15, 1, Some(1_003));
        segment.note_append(TenantId(0), 20, 1, Some(1_060));
        segment.note_append(TenantId(0), 25, 1, Some(1_017));
        segment.note_append(TenantId(0), 40, 1, Some(u32::MAX));
        for (now, expired) in [
            (1_000, 0),
            (1_002, 0),
            (1_003, 15),
            (1_004, 15),
            (1_005, 25),
            (1_059, 25),
            (1_060, 70),
            (u32::MAX - 1, 70),
        ] {
            assert_eq!(segment.expired(now), expired, "at {now}");
        }
    }

    #[test]
    fn what_is_gone_does_not_expire() {
        let segment = Segment::default();
        segment.open(0, 1_000);
        for (len, at) in [(10, Some(1_005)), (20, Some(1_007)), (40, Some(1_060)), (80, None)] {
            segment.note_append(TenantId(0), len, 1, at);
        }
        segment.note_dead(20, Some(1_007));
        segment.note_dead(80, None);
        assert_eq!([1_007, 1_060].map(|now| segment.expired(now)), [10, 50]);
        segment.note_dead(40, Some(1_060));
        assert_eq!((segment.expired(1_060), segment.expiring(), segment.live()), (10, 10, 10));
    }
}
