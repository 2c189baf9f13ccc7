//! A device whose writes fail, tear or are forgotten, whose reads fail, and which hangs.
//!
//! Shape:      a device inside; a fault for the n-th write from now; bytes that cannot be read; `crash` undoes some of what was not
//!             settled, `lose_notes` all that was noted since everything was settled
//! Invariants: a settled write is never undone; a torn write keeps whole access units, as media do
//! Failure:    a write that fails answers with its error and leaves the bytes as the fault says

#![allow(unsafe_code, reason = "hands `Device::write` on; see the SAFETY comments")]

use crate::{Device, ReadQueue, Region, SlowAccess, Survival, WordRegion};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Bytes, Rng};

/// What goes wrong with one write or settling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No room: nothing is written.
    Full,
    /// An error of the medium: the first half of the access units is written.
    Torn,
    /// An error of the medium, this time and every time from then on; nothing is written.
    ForGood,
    /// An error of the medium when what was written should survive; all of it may be lost.
    Settle,
}

/// A device that fails on purpose.
#[derive(Debug)]
pub struct Faulty<D> {
    inner: D,
    boot: AtomicU64,
    state: Mutex<State>,
}

/// As long as it lives, writes and reads wait.
#[derive(Debug)]
pub struct Hung<'a> {
    _state: MutexGuard<'a, State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many more writes go well, and what happens then.
    armed: Option<(u64, Fault)>,
    /// What was there before each write that is not settled, in their order.
    undo: Vec<(u64, Vec<u8>)>,
    written: u64,
    /// Bytes that `read` cannot read.
    unreadable: Range<u64>,
    /// The notes when all was settled last, where anybody has asked for that.
    notes: Vec<u64>,
}

impl<D: Device> Faulty<D> {
    /// The device, without faults yet.
    pub fn new(inner: D) -> Self {
        Self { inner, boot: AtomicU64::new(0), state: Mutex::default() }
    }

    /// Says that the machine has started again, for the time that this is another number.
    pub fn set_boot(&self, boot: u64) {
        self.boot.store(boot, Ordering::Relaxed);
    }

    /// Lets the write after `good` more ones fail, or the settling after it.
    pub fn arm(&self, good: u64, fault: Fault) {
        self.state().armed = Some((good, fault));
    }

    /// Lets every `read` fail that meets these bytes of the device, and no other; queues read them all the same.
    pub fn fail_reads(&self, bytes: Range<u64>) {
        self.state().unreadable = bytes;
    }

    /// Lets whoever writes or reads wait until the answer is dropped; queues of reads go on.
    pub fn hang(&self) -> Hung<'_> {
        Hung { _state: self.state() }
    }

    /// Writes that went well so far.
    pub fn written(&self) -> u64 {
        self.state().written
    }

    /// What a crash leaves: of each write that was not settled nothing, a part, or everything, as `rng` draws.
    ///
    /// # Errors
    /// If the device itself fails.
    pub fn crash(&self, rng: &mut Rng) -> io::Result<()> {
        let undo = std::mem::take(&mut self.state().undo);
        let unit = self.inner.access_unit().as_usize();
        for (at, before) in undo.iter().rev() {
            let mut now = vec![0; before.len()];
            self.inner.read(*at, &mut now)?;
            for (kept, old) in now.chunks_mut(unit).zip(before.chunks(unit)) {
                if rng.chance(0.5) {
                    kept.copy_from_slice(old);
                }
            }
            // SAFETY: a crash has no readers.
            unsafe { self.inner.write(*at, &now) }?;
        }
        self.inner.settle()
    }

    /// What a crash of the machine may leave of notes that reach the medium some time, as those of a file do: those of the last
    /// time that everything was settled; nothing if that was never.
    pub fn lose_notes(&self) {
        let kept = self.state().notes.clone();
        let words = self.notes().map_or(&[][..], WordRegion::words);
        for (at, word) in words.iter().enumerate() {
            word.store(kept.get(at).copied().unwrap_or(0), Ordering::Release);
        }
    }

    /// The device inside.
    pub fn into_inner(self) -> D {
        self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What happens to a write now.
    fn fate(&mut self) -> Option<Fault> {
        let (good, fault) = self.armed.as_mut().filter(|(_, fault)| *fault != Fault::Settle)?;
        match good.checked_sub(1) {
            Some(left) => {
                *good = left;
                None
            }
            None => {
                let fault = *fault;
                self.armed = self.armed.filter(|_| fault == Fault::ForGood);
                Some(fault)
            }
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn size(&self) -> Bytes {
        self.inner.size()
    }

    fn access_unit(&self) -> Bytes {
        self.inner.access_unit()
    }

    fn survival(&self) -> Survival {
        self.inner.survival()
    }

    fn mapped(&self) -> Option<&Region> {
        self.inner.mapped()
    }

    fn notes(&self) -> Option<&WordRegion> {
        self.inner.notes()
    }

    fn settle_notes(&self, words: Range<usize>) {
        self.inner.settle_notes(words);
    }

    unsafe fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let unit = self.access_unit().as_usize();
        let half = bytes.len() / unit / 2 * unit;
        let (kept, answer) = match state.fate() {
            Some(Fault::Full) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Some(Fault::ForGood) => return Err(io::Error::from_raw_os_error(libc::EIO)),
            Some(_) => (&bytes[..half], Err(io::Error::from_raw_os_error(libc::EIO))),
            None => (bytes, Ok(())),
        };
        let mut before = vec![0; kept.len()];
        self.inner.read(at, &mut before)?;
        // SAFETY: the caller keeps others away from all of `bytes`.
        unsafe { self.inner.write(at, kept) }?;
        state.undo.push((at, before));
        state.written += u64::from(answer.is_ok());
        answer
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let unreadable = self.state().unreadable.clone();
        if at < unreadable.end && unreadable.start < at + into.len() as u64 {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inner.read(at, into)
    }

    fn read_queue(&self, depth: u32, bell: Option<Arc<OwnedFd>>) -> io::Result<Option<ReadQueue>> {
        self.inner.read_queue(depth, bell)
    }

    fn boot(&self) -> u64 {
        match self.boot.load(Ordering::Relaxed) {
            0 => self.inner.boot(),
            boot => boot,
        }
    }

    fn settle_all(&self) -> io::Result<()> {
        self.settle()?;
        self.inner.settle_all()?;
        let words = self.notes().map_or(&[][..], WordRegion::words);
        self.state().notes = words.iter().map(|word| word.load(Ordering::Acquire)).collect();
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.armed.take_if(|(_, fault)| *fault == Fault::Settle).is_some() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inner.settle()?;
        state.undo.clear();
        Ok(())
    }

    fn is_timed(&self) -> bool {
        self.inner.is_timed()
    }

    fn take_time(&self, access: SlowAccess, size: Bytes) {
        self.inner.take_time(access, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plain;
    use crate::device::write_alone;

    fn bytes(device: &dyn Device) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        device.read(0, &mut bytes).unwrap();
        bytes
    }

    fn device() -> Faulty<Plain> {
        Faulty::new(Plain::new(Bytes::kib(4)).unwrap())
    }

    #[test]
    fn a_write_fails_when_it_is_told_to_and_once() {
        let device = device();
        device.arm(1, Fault::Full);
        let code = |result: io::Result<()>| result.map_err(|e| e.raw_os_error().unwrap());
        assert_eq!(code(write_alone(&device, 0, &[1; 128])), Ok(()));
        assert_eq!(code(write_alone(&device, 128, &[2; 128])), Err(libc::ENOSPC));
        assert_eq!(bytes(&device)[128..], [0; 128], "nothing is written");
        device.arm(0, Fault::Torn);
        assert_eq!(code(write_alone(&device, 128, &[3; 128])), Err(libc::EIO));
        assert_eq!((bytes(&device)[128], bytes(&device)[192]), (3, 0), "half is");
        assert_eq!(code(write_alone(&device, 128, &[4; 128])), Ok(()));
        device.arm(0, Fault::Settle);
        assert_eq!(code(device.settle()), Err(libc::EIO));
        assert_eq!(code(device.settle()), Ok(()));
        assert_eq!(device.written(), 2);
        device.fail_reads(64..128);
        let read = |at, len| code(device.read(at, &mut vec![0; len]));
        let answers = [read(0, 64), read(0, 65), read(127, 1), read(128, 64)];
        assert_eq!(answers, [Ok(()), Err(libc::EIO), Err(libc::EIO), Ok(())]);
        device.fail_reads(0..0);
        assert_eq!(read(0, 256), Ok(()));
    }

    #[test]
    fn a_crash_forgets_what_was_not_settled_and_nothing_else() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let device = device();
            write_alone(&device, 0, &[1; 256]).unwrap();
            device.settle().unwrap();
            write_alone(&device, 64, &[2; 128]).unwrap();
            write_alone(&device, 128, &[3; 64]).unwrap();
            device.crash(&mut Rng::new(seed)).unwrap();
            let after = bytes(&device);
            assert!(after[..64] == [1; 64] && after[192..] == [1; 64], "what was settled stays");
            assert!(after.chunks(64).all(|unit| unit.iter().all(|byte| *byte == unit[0])), "units are whole");
            seen.insert((after[64], after[128]));
        }
        // Each of two units: old or new; the second unit also what was between.
        let expected = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    }
}
