//! The segments of a tier: what each is at the moment, and which are free.
//!
//! Invariants: a segment is used again only when no thread online can have seen what it held
//! Units:      bytes of the tier

use crate::epoch::Epochs;
use crate::segment::State;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use std::collections::VecDeque;
use units::Bytes;

/// All segments of a tier.
#[derive(Debug)]
pub(crate) struct Segments {
    rows: Box<[Row]>,
    pool: Mutex<Pool>,
    /// Free ones, as of the last change of the pool.
    available: AtomicU32,
    bytes: u64,
    /// Bytes of records that the index led to once, of all segments together.
    died: AtomicU64,
}

#[derive(Debug, Default)]
struct Row {
    state: AtomicU32,
    /// Bytes of records that the index leads to.
    live: AtomicU32,
    /// The buffer that it is gathered in, see `Area::buffer_mark`. Release by who is done with it.
    buffer: AtomicU32,
    /// Bytes from its start on of records that are on the device, and of which it was noted whether items lead there. Release by who
    /// is about to look for the items.
    settled: AtomicU32,
}

#[derive(Debug, Default)]
struct Pool {
    free: VecDeque<u32>,
    retired: VecDeque<(u64, u32)>,
}

impl Segments {
    /// Free segments of a size.
    pub(crate) fn new(count: u32, bytes: Bytes) -> Self {
        Self {
            rows: (0..count).map(|_| Row::default()).collect(),
            pool: Mutex::new(Pool { free: (0..count).collect(), ..Pool::default() }),
            available: AtomicU32::new(count),
            bytes: bytes.0,
            died: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    /// Bytes of one.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The segment of a byte.
    #[inline]
    pub(crate) fn of(&self, at: u64) -> u32 {
        u32::try_from(at / self.bytes).unwrap_or(u32::MAX)
    }

    /// The bytes of a segment.
    pub(crate) fn range(&self, segment: u32) -> std::ops::Range<u64> {
        let start = u64::from(segment) * self.bytes;
        start..start + self.bytes
    }

    /// Segments that can be taken.
    pub(crate) fn available(&self) -> u32 {
        self.available.load(Ordering::Relaxed)
    }

    /// Segments that are full, and can be cleaned.
    pub(crate) fn sealed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count())
            .filter(|segment| self.row(*segment).state.load(Ordering::Acquire) == State::Sealed as u32)
    }

    fn row(&self, segment: u32) -> &Row {
        &self.rows[segment as usize]
    }

    /// Changes the state if it is `from`.
    pub(crate) fn change(&self, segment: u32, from: State, to: State) -> bool {
        let state = &self.row(segment).state;
        // SeqCst with `is_head` and `Notes::set_live`: of who seals and who notes a record one sees what the other has done.
        state.compare_exchange(from as u32, to as u32, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Whether it is still being filled.
    pub(crate) fn is_head(&self, segment: u32) -> bool {
        self.row(segment).state.load(Ordering::SeqCst) == State::Head as u32
    }

    /// Takes a free segment as a head, leaving `reserve`.
    pub(crate) fn take(&self, epochs: &Epochs, reserve: u32) -> Option<u32> {
        let mut pool = lock(&self.pool);
        self.reclaim(&mut pool, epochs);
        let left = u32::try_from(pool.free.len()).unwrap_or(u32::MAX);
        let segment = if reserve < left { pool.free.pop_front() } else { None };
        self.publish(&pool);
        drop(pool);
        let segment = segment?;
        self.row(segment).live.store(0, Ordering::Relaxed);
        self.row(segment).settled.store(0, Ordering::Relaxed);
        self.row(segment).state.store(State::Head as u32, Ordering::Release);
        Some(segment)
    }

    /// Says that so much of a segment is on the device: who makes an item lead to a record of that notes it.
    pub(crate) fn settle(&self, segment: u32, used: u64) {
        self.row(segment).settled.store(u32::try_from(used).unwrap_or(u32::MAX), Ordering::Release);
    }

    /// Whether that was said of a record that begins there.
    pub(crate) fn is_settled(&self, at: u64) -> bool {
        let settled = self.row(self.of(at)).settled.load(Ordering::Acquire);
        at % self.bytes < u64::from(settled)
    }

    /// Takes the segments that hold live records out of the free ones: they were filled before this start.
    pub(crate) fn adopt_filled(&self) {
        let mut pool = lock(&self.pool);
        pool.free.retain(|free| self.live(*free) == 0);
        self.publish(&pool);
        drop(pool);
        for segment in (0..self.count()).filter(|segment| self.live(*segment) != 0) {
            self.change(segment, State::Free, State::Sealed);
        }
    }

    fn publish(&self, pool: &Pool) {
        self.available.store(u32::try_from(pool.free.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn reclaim(&self, pool: &mut Pool, epochs: &Epochs) {
        while let Some(&(epoch, segment)) = pool.retired.front() {
            if !epochs.is_past(epoch) {
                break;
            }
            pool.retired.pop_front();
            self.row(segment).state.store(State::Free as u32, Ordering::Release);
            pool.free.push_back(segment);
        }
    }

    /// Returns emptied segments whose epoch has passed; says how many are free.
    pub(crate) fn reclaim_now(&self, epochs: &Epochs) -> u32 {
        let mut pool = lock(&self.pool);
        self.reclaim(&mut pool, epochs);
        self.publish(&pool);
        self.available()
    }

    /// How many are free, and how many were emptied and wait for their epoch.
    pub(crate) fn free_and_retired(&self) -> (u32, u32) {
        let pool = lock(&self.pool);
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        (count(pool.free.len()), count(pool.retired.len()))
    }

    /// How many emptied segments wait for their epoch.
    pub(crate) fn retired(&self) -> u32 {
        self.free_and_retired().1
    }

    /// Hands over a segment that the index no longer leads to.
    pub(crate) fn retire(&self, epochs: &Epochs, segment: u32) {
        self.row(segment).state.store(State::Retired as u32, Ordering::Release);
        let epoch = epochs.retire();
        lock(&self.pool).retired.push_back((epoch, segment));
    }

    pub(crate) fn set_buffer(&self, segment: u32, mark: u32) {
        self.row(segment).buffer.store(mark, Ordering::Release);
    }

    #[inline]
    pub(crate) fn buffer(&self, segment: u32) -> u32 {
        self.row(segment).buffer.load(Ordering::Acquire)
    }

    /// Bytes of a segment that the index leads to.
    pub(crate) fn live(&self, segment: u32) -> u32 {
        self.row(segment).live.load(Ordering::Relaxed)
    }

    /// Bytes that have died so far.
    pub(crate) fn died(&self) -> u64 {
        self.died.load(Ordering::Relaxed)
    }

    pub(crate) fn add_live(&self, segment: u32, bytes: u64) {
        self.row(segment).live.fetch_add(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn take_live(&self, segment: u32, bytes: u64) {
        self.row(segment).live.fetch_sub(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.died.fetch_add(bytes, Ordering::Relaxed);
    }
}
