//! The bytes of a tier: records are appended to heads, and read in place where the processor can load them.
//!
//! Shape:      a mapped device takes each record as it comes; another one takes whole segments, which are gathered in
//!             buffers of this process and read there until they are written
//! Invariants: a `Head` is the only writer of its segment and of its buffer; a view borrows the participant whose epoch
//!             protects it

#![allow(unsafe_code, reason = "record bytes in segments: written by one head, read under an epoch")]

use super::record::GRAIN;
use crate::epoch::{Epochs, Participant};
use crate::sync::{Mutex, lock};
use media::{Device, MapError, Region};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use units::Bytes;

/// The right to append to one segment of a tier.
#[derive(Debug)]
pub(crate) struct Head {
    pub(super) segment: u32,
    /// Which use of the segment it is.
    pub(super) life: u64,
    /// Only passes over the tier fill it.
    pub(super) for_survivors: bool,
    /// Bytes that it has.
    pub(super) used: u64,
    /// Bytes of these that the device has, if they are gathered.
    pub(super) written: u64,
    /// Second of the store's clock since when it has more than the device.
    pub(super) since_secs: u32,
    /// Where they are gathered, if the device is not mapped.
    buffer: Option<u32>,
    /// A record that is being made.
    pub(super) scratch: Vec<u8>,
}

/// The bytes of one tier.
#[derive(Debug)]
pub(crate) struct Area {
    device: Arc<dyn Device>,
    segment_bytes: u64,
    buffers: Option<Buffers>,
}

/// Segments that are gathered or being written.
#[derive(Debug)]
struct Buffers {
    region: Region,
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    free: Vec<u32>,
    retired: VecDeque<(u64, u32)>,
}

impl Area {
    /// The bytes of a device; one that is not mapped gets so many buffers.
    pub(crate) fn new(device: Arc<dyn Device>, segment: Bytes, buffers: u32) -> Result<Self, MapError> {
        let buffers = if device.mapped().is_some() {
            None
        } else {
            let region = Region::anonymous(Bytes(u64::from(buffers) * segment.0))?;
            region.leave_out_of_dumps();
            let pool = Pool { free: (0..buffers).rev().collect(), retired: VecDeque::new() };
            Some(Buffers { region, pool: Mutex::new(pool) })
        };
        Ok(Self { device, segment_bytes: segment.0, buffers })
    }

    /// Whether what is written can be read in place.
    pub(crate) fn is_mapped(&self) -> bool {
        self.buffers.is_none()
    }

    /// Memory of this process that it takes.
    pub(crate) fn memory(&self) -> Bytes {
        Bytes(self.buffers.as_ref().map_or(0, |buffers| buffers.region.len() as u64))
    }

    /// Bytes from where one record begins to where the next may, for a record of `len`.
    pub(crate) fn stride(&self, len: u64) -> u64 {
        let unit = if self.is_mapped() { self.device.access_unit().0.max(GRAIN) } else { GRAIN };
        len.next_multiple_of(unit)
    }

    /// A head of a segment that is free, in its `life`; none if there is no buffer for it.
    pub(crate) fn open(&self, epochs: &Epochs, segment: impl FnOnce() -> Option<(u32, u64)>) -> Option<Head> {
        let buffer = match &self.buffers {
            None => None,
            Some(buffers) => Some(buffers.take(epochs)?),
        };
        let Some((segment, life)) = segment() else {
            if let (Some(buffers), Some(buffer)) = (&self.buffers, buffer) {
                lock(&buffers.pool).free.push(buffer);
            }
            return None;
        };
        let scratch = Vec::new();
        Some(Head {
            segment,
            life,
            for_survivors: false,
            used: 0,
            written: 0,
            since_secs: 0,
            buffer,
            scratch,
        })
    }

    /// Puts the scratch of a head, a record, behind what the head has. Returns the byte of the tier at which it begins.
    pub(crate) fn append(&self, head: &mut Head) -> io::Result<u64> {
        let stride = self.stride(head.scratch.len() as u64);
        let at = u64::from(head.segment) * self.segment_bytes + head.used;
        assert!(head.used + stride <= self.segment_bytes, "a record lies inside its segment");
        head.scratch.resize(usize::try_from(stride).unwrap_or(usize::MAX), 0);
        if let (Some(buffers), Some(buffer)) = (&self.buffers, head.buffer) {
            let to = self.in_buffer(buffer, head.used);
            // SAFETY: `head` is the only writer of its buffer, which left the pool when the head was made and comes back
            // when no reader's epoch can see it; nothing points at bytes from `head.used` on yet.
            unsafe { buffers.region.write(to, &head.scratch) };
        } else {
            // SAFETY: `head` is the only writer of its segment, which left the pool when the head was made; nothing points
            // at bytes from `head.used` on yet, and no reader that saw an earlier life of the segment is left.
            unsafe { self.device.write(at, &head.scratch) }?;
        }
        head.used += stride;
        Ok(at)
    }

    fn in_buffer(&self, buffer: u32, offset: u64) -> usize {
        Bytes(u64::from(buffer) * self.segment_bytes + offset).as_usize()
    }

    /// Writes what a head has gathered and the device has not.
    pub(crate) fn write_out(&self, head: &Head) -> io::Result<()> {
        let unit = self.device.access_unit().0;
        let from = head.written / unit * unit;
        let whole = head.used.next_multiple_of(unit).min(self.segment_bytes);
        let bytes = &self.gathered(head, whole)[Bytes(from).as_usize()..];
        // SAFETY: the device is not mapped: nobody reads the segment there before its buffer is given up.
        unsafe { self.device.write(u64::from(head.segment) * self.segment_bytes + from, bytes) }
    }

    /// What a head has gathered.
    pub(crate) fn gathered<'h>(&'h self, head: &'h Head, len: u64) -> &'h [u8] {
        let (Some(buffers), Some(buffer)) = (&self.buffers, head.buffer) else { return &[] };
        // SAFETY: bytes of the buffer change through `append` alone, which takes the head mutably.
        unsafe { buffers.region.bytes(self.in_buffer(buffer, 0), Bytes(len).as_usize()) }
    }

    /// Number of a head's buffer as rows of the table know it: from 1 on, 0 for none.
    pub(crate) fn buffer_mark(head: &Head) -> u32 {
        head.buffer.map_or(0, |buffer| buffer + 1)
    }

    /// Gives the buffer of a head back that nothing leads to any more.
    pub(crate) fn close(&self, epochs: &Epochs, head: Head) {
        if let (Some(buffers), Some(buffer)) = (&self.buffers, head.buffer) {
            let epoch = epochs.retire();
            lock(&buffers.pool).retired.push_back((epoch, buffer));
        }
    }

    /// Whether there is a buffer for another head, or none is needed.
    pub(crate) fn has_buffer(&self, epochs: &Epochs) -> bool {
        self.buffers.as_ref().is_none_or(|buffers| {
            let mut pool = lock(&buffers.pool);
            pool.reclaim(epochs);
            !pool.free.is_empty()
        })
    }

    /// Whether there is no buffer because readers have not let go of one yet.
    pub(crate) fn waits_for_buffer(&self, epochs: &Epochs) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| {
            let mut pool = lock(&buffers.pool);
            pool.reclaim(epochs);
            pool.free.is_empty() && !pool.retired.is_empty()
        })
    }

    /// Bytes of a record that the index led to after `reader` came online or announced; `mark` tells the buffer that its
    /// segment is gathered in. None if they have to be fetched.
    #[inline]
    pub(crate) fn bytes<'a>(
        &'a self,
        reader: &'a Participant,
        mark: u32,
        at: u64,
        len: usize,
    ) -> Option<&'a [u8]> {
        assert!(reader.is_online(), "a view needs an epoch");
        if let Some(region) = self.device.mapped() {
            // SAFETY: the record was written before the slot that led here was published with Release; its segment is not
            // written again before every reader's epoch has passed.
            return Some(unsafe { region.bytes(Bytes(at).as_usize(), len) });
        }
        let (buffers, buffer) = (self.buffers.as_ref()?, mark.checked_sub(1)?);
        let from = self.in_buffer(buffer, at % self.segment_bytes);
        // SAFETY: as above; the buffer is not written again before every reader's epoch has passed, and its records never
        // change.
        Some(unsafe { buffers.region.bytes(from, len) })
    }
}

impl Buffers {
    fn take(&self, epochs: &Epochs) -> Option<u32> {
        let mut pool = lock(&self.pool);
        pool.reclaim(epochs);
        pool.free.pop()
    }
}

impl Pool {
    fn reclaim(&mut self, epochs: &Epochs) {
        while let Some(&(epoch, buffer)) = self.retired.front() {
            if !epochs.is_past(epoch) {
                break;
            }
            self.retired.pop_front();
            self.free.push(buffer);
        }
    }
}
