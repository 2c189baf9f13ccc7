//! A slow tier as the store sees it: bytes by offset, below DRAM.
//!
//! Shape:      `write` puts whole access units; `mapped` bytes are read in place, others by `read` or a queue of reads;
//!             `notes` are a few words beside the bytes that survive as they do
//! Invariants: what was written before `settle` survives whatever [`Survival`] names if anything written after it does
//! Failure:    an error of the system is an answer; nothing is known of the bytes that were to be written then
//! Source:     DESIGN part 3: a medium is a kind of memory, a tier is a configured piece of one

#![allow(unsafe_code, reason = "bytes of a mapped device: the contract of `Device::write` keeps others away")]

use crate::{ReadQueue, Region, WordRegion};
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Instant};

/// What a device's content outlives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Survival {
    /// Nothing: it ends with the process.
    Nothing,
    /// The end of the process, however it ends; not that of the machine.
    Process,
    /// A crash of the machine too.
    Machine,
}

/// A kind of access to a slow tier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlowAccess {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// A piece of a medium that is slower than DRAM.
pub trait Device: Debug + Send + Sync {
    /// How much it holds, in whole access units.
    fn size(&self) -> Bytes;
    /// Smallest piece that it reads or writes at once, a power of two: offsets and lengths of writes are multiples of it.
    fn access_unit(&self) -> Bytes;
    /// What its content outlives.
    fn survival(&self) -> Survival;
    /// Its bytes, where the processor can load them.
    fn mapped(&self) -> Option<&Region>;
    /// Words beside the bytes that survive as they do, zero when the device is new; none where nothing survives. At least
    /// [`notes_words`] of them. Where the first is zero none is to be believed: a device that could not keep them makes it so.
    fn notes(&self) -> Option<&WordRegion>;
    /// Makes `words` of the notes survive, in their order of calls.
    fn settle_notes(&self, words: std::ops::Range<usize>);
    /// Puts bytes, in whole access units, past the caches where that is faster.
    ///
    /// # Safety
    /// Where the device is mapped nobody reads or writes these bytes meanwhile.
    ///
    /// # Errors
    /// If the system says so; the bytes there are unknown then.
    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// The same by who has the device to itself.
    ///
    /// # Errors
    /// As of `write`.
    fn write_owned(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: `&mut self` keeps everybody else away, and every borrow of the mapped bytes is one of `self`.
        unsafe { self.write(at, bytes) }
    }
    /// Gets bytes, in whole access units; `into` is aligned to the access unit, or the read is slower. Blocks.
    ///
    /// # Errors
    /// If the system says so, or the bytes are not there.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// A queue of `depth` reads, where many under way at once are quicker than one after the other; none where bytes are
    /// mapped. When one is done it writes to `bell`, an eventfd that somebody watches, or to one of its own.
    ///
    /// # Errors
    /// If the system refuses it.
    fn read_queue(&self, _depth: u32, _bell: Option<Arc<OwnedFd>>) -> io::Result<Option<ReadQueue>> {
        Ok(None)
    }
    /// Which start of the machine what is written belongs to, where it does not outlive that; 0 where it does.
    fn boot(&self) -> u64 {
        0
    }
    /// Lets everything so far, the notes too, outlive the machine, where the device can do that at all.
    ///
    /// # Errors
    /// If the system says so.
    fn settle_all(&self) -> io::Result<()> {
        self.settle()
    }
    /// Lets what was written so far survive before anything that is written after.
    ///
    /// # Errors
    /// If the system says so: then nothing is known of what was written since the last time.
    fn settle(&self) -> io::Result<()>;
    /// Whether time is modelled: then every access has to `take_time`.
    fn is_timed(&self) -> bool {
        false
    }
    /// Takes the time that an access of `size` takes, where that is modelled; nothing elsewhere.
    fn take_time(&self, _access: SlowAccess, _size: Bytes) {}
    /// The moment before an access, to be handed to [`Device::take_time_since`]; any moment where no time is modelled.
    fn begin(&self) -> Instant {
        Instant::ZERO
    }
    /// The same for an access that began then: copying the bytes counts as part of it.
    fn take_time_since(&self, _began: Instant, access: SlowAccess, size: Bytes) {
        self.take_time(access, size);
    }
}

/// Copies bytes into a mapped device.
///
/// # Safety
/// Nobody reads or writes these bytes meanwhile.
pub(crate) unsafe fn copy_in(region: &Region, at: u64, bytes: &[u8]) -> io::Result<()> {
    check_range(region.len() as u64, at, bytes.len())?;
    // SAFETY: the caller keeps others away.
    unsafe { region.write(Bytes(at).as_usize(), bytes) };
    Ok(())
}

/// Copies bytes out of a mapped device.
pub(crate) fn copy_out(region: &Region, at: u64, into: &mut [u8]) -> io::Result<()> {
    check_range(region.len() as u64, at, into.len())?;
    // SAFETY: who reads what somebody may be writing breaks the contract of `Device::write`.
    into.copy_from_slice(unsafe { region.bytes(Bytes(at).as_usize(), into.len()) });
    Ok(())
}

/// Refuses what is not inside a device of `size`.
pub(crate) fn check_range(size: u64, at: u64, len: usize) -> io::Result<()> {
    if at <= size && len as u64 <= size - at {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{len} bytes at {at} of a tier of {size}")))
}

/// Refuses what is not inside a device of `size`, or not in whole access units.
pub(crate) fn check_units(size: u64, unit: u64, at: u64, len: usize) -> io::Result<()> {
    check_range(size, at, len)?;
    if at.is_multiple_of(unit) && (len as u64).is_multiple_of(unit) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{len} bytes at {at}: not in units of {unit}")))
}

/// Settles unless that failed once: what the system could not write then may be gone, whatever it says later.
pub(crate) fn refuse_once_failed(
    has_failed: &AtomicBool,
    settle: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if has_failed.load(Ordering::Acquire) {
        return Err(io::Error::other("the tier failed to keep what was written earlier"));
    }
    settle().inspect_err(|_| has_failed.store(true, Ordering::Release))
}

/// Writes to a device that the test alone uses.
#[cfg(test)]
pub(crate) fn write_alone(device: &dyn Device, at: u64, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: tests read and write their devices one after the other.
    unsafe { device.write(at, bytes) }
}

/// Words of notes that a device of a size needs at least: one for each 4 KiB (a bit for each 64 B), one for each 64 KiB (the
/// smallest piece that is used anew as a whole), and some for what is known of the whole.
#[must_use]
pub fn notes_words(size: Bytes) -> usize {
    Bytes(NOTES_WORDS_FIXED + size.0.div_ceil(4096) + size.0.div_ceil(64 * 1024)).as_usize()
}

/// Words of notes that do not depend on the size: some 5,000 tenants at 12 words.
const NOTES_WORDS_FIXED: u64 = 1 << 16;

/// DRAM behind the contract of a device: nothing survives, nothing is slow.
///
/// Assumptions: 1. pages that were asked for are had when they are touched, or the system ends the process; 2. loads and stores are
/// those of the machine's DRAM.
#[derive(Debug)]
pub struct Plain {
    region: Region,
}

/// The processor's cache line.
const LINE: Bytes = Bytes(64);

impl Plain {
    /// Zeroed memory of `size`.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub fn new(size: Bytes) -> Result<Self, crate::MapError> {
        Ok(Self { region: Region::anonymous(size)? })
    }
}

impl Device for Plain {
    fn size(&self) -> Bytes {
        Bytes(self.region.len() as u64)
    }

    fn access_unit(&self) -> Bytes {
        LINE
    }

    fn survival(&self) -> Survival {
        Survival::Nothing
    }

    fn mapped(&self) -> Option<&Region> {
        Some(&self.region)
    }

    fn notes(&self) -> Option<&WordRegion> {
        None
    }

    fn settle_notes(&self, _words: std::ops::Range<usize>) {}

    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the caller keeps others away.
        unsafe { copy_in(&self.region, at, bytes) }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        copy_out(&self.region, at, into)
    }

    fn settle(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let device = Plain::new(Bytes::kib(64)).unwrap();
        write_alone(&device, 128, &[7; 64]).unwrap();
        let mut bytes = [0; 128];
        device.read(64, &mut bytes).unwrap();
        assert_eq!((&bytes[..64], &bytes[64..]), (&[0; 64][..], &[7; 64][..]));
    }

    #[test]
    fn what_is_beyond_the_end_is_refused() {
        let device = Plain::new(Bytes::kib(64)).unwrap();
        let refused = |result: io::Result<()>| result.is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput);
        assert!(refused(device.read(64 << 10, &mut [0; 64])));
        assert!(refused(device.read(u64::MAX, &mut [0; 64])));
        assert!(refused(write_alone(&device, (64 << 10) - 64, &[0; 128])));
    }
}
