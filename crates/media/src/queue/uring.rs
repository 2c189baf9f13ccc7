//! Reads on one `io_uring`.
//!
//! Shape:       a slot per read that is under way holds its buffer; entry of the queue -> slot -> completion; entries are handed
//!              over while others are still written down, in pieces as large as what is under way already
//! Invariants:  the system writes into a buffer only while its slot holds it; the ring is dropped after everything under way
//!              has come
//! Assumptions: 1. a read without an error brings a number of bytes, fewer than asked at a file's end or where a signal came;
//!              the rest is read then with one ordinary call
//! Failure:     a system that forbids `io_uring` is an error of `new`

#![allow(
    unsafe_code,
    reason = "entries that point into buffers which the slots own; see the SAFETY comments"
)]

use super::{Completed, Ticket};
use crate::Buffer;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Reads that are handed over at once although few are under way. A disk that has nothing to do begins with the first piece
/// while the next is written down; pieces that double after it cost few system calls more than one for all. Measured (32 under
/// way, a virtual disk that brings all at once what it was given): pieces from 1 or 4 on .95 of fio's rate, all at once .79.
const PIECE_MIN: usize = 4;

pub(super) struct Uring {
    io: IoUring,
    file: Arc<File>,
    slots: Vec<Option<Read>>,
    free: Vec<u32>,
    /// Handed over or written down, and not come yet.
    under_way: u32,
}

struct Read {
    at: u64,
    ticket: Ticket,
    buffer: Buffer,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl Uring {
    pub(super) fn new(file: Arc<File>, depth: u32, bell: &OwnedFd) -> io::Result<Self> {
        // Without interrupts between processors for each completion, where the system can (Linux 5.19): in a virtual machine
        // they cost more than the read.
        let quiet = IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(depth);
        let io = quiet.or_else(|_older| IoUring::new(depth))?;
        if !io.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the system's io_uring is too old"));
        }
        io.submitter().register_eventfd(bell.as_raw_fd())?;
        let slots = (0..depth).map(|_| None).collect();
        Ok(Self { io, file, slots, free: (0..depth).collect(), under_way: 0 })
    }

    /// Writes a read down. There is a free slot, as the queue is no deeper.
    pub(super) fn fetch(&mut self, at: u64, ticket: Ticket, mut buffer: Buffer) {
        let slot = self.free.pop().expect("the queue counts what is under way");
        let len = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(Fd(self.file.as_raw_fd()), buffer.start(), len)
            .offset(at)
            .build()
            .user_data(u64::from(slot));
        self.slots[slot as usize] = Some(Read { at, ticket, buffer });
        self.under_way += 1;
        // SAFETY: the buffer is `len` bytes of a mapping that does not move and that its slot keeps until the read has come,
        // as `drop` does; the file is open as long as the ring. The queue has an entry for every slot.
        let pushed = unsafe { self.io.submission().push(&entry) };
        pushed.expect("as many entries as slots");
        let written_down = self.io.submission().len();
        // What has come and was not taken yet keeps the disk no longer.
        let come = self.io.completion().len();
        let handed_over = (self.under_way as usize).saturating_sub(written_down + come);
        if handed_over.max(PIECE_MIN) <= written_down {
            // A failure leaves it to `submit`.
            let _later = self.submit();
        }
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.io.submit() {
                Ok(_) if self.io.submission().is_empty() => return Ok(()),
                // It may take a part.
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Hands over and waits until something has come.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        match self.io.submit_and_wait(1) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }

    pub(super) fn completed(&mut self) -> Option<Completed> {
        let come = self.io.completion().next();
        let entry = match come {
            Some(entry) => entry,
            None if self.io.submission().taskrun() => {
                // What has come is brought by the next entry into the system; a failure leaves it for later.
                let _later = self.io.submit();
                self.io.completion().next()?
            }
            None => return None,
        };
        let slot = u32::try_from(entry.user_data()).expect("a slot's number");
        let Read { at, ticket, mut buffer } =
            self.slots[slot as usize].take().expect("a slot that was under way");
        self.free.push(slot);
        self.under_way -= 1;
        let result = match usize::try_from(entry.result()) {
            Ok(got) if got == buffer.len() => Ok(()),
            Ok(got) => self.file.read_exact_at(&mut buffer.bytes_mut()[got..], at + got as u64),
            Err(_) => Err(io::Error::from_raw_os_error(entry.result().wrapping_neg())),
        };
        Some(Completed { ticket, buffer, result })
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        while 0 < self.under_way {
            if self.completed().is_some() {
                continue;
            }
            if let Err(e) = self.io.submit_and_wait(1)
                && e.kind() != io::ErrorKind::Interrupted
            {
                // What the system may still write into must not be freed.
                for read in self.slots.iter_mut().filter_map(Option::take) {
                    #[expect(clippy::mem_forget, reason = "the system may write into it")]
                    std::mem::forget(read.buffer);
                }
                return;
            }
        }
    }
}
